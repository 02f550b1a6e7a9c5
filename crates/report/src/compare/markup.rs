//! The table that people paste: Markdown and AsciiDoc.
//!
//! One row a workload (or whatever the rows are), one column a configuration; a candidate's cell says median,
//! ratio and verdict. What a name holds cannot break the table.

use iodyno_model::Comparison;

use super::claims::Claims;
use super::sheet::{Section, Sheet, SheetCell, sheet};

/// A table in GitHub's Markdown, with conditions above and footnotes below it. Ends with a newline.
pub fn markdown(comparison: &Comparison) -> String {
    draw(&sheet(comparison), &Markdown)
}

/// The same as an AsciiDoc table (`|===`). Ends with a newline.
pub fn asciidoc(comparison: &Comparison) -> String {
    draw(&sheet(comparison), &AsciiDoc)
}

/// What the two forms do differently.
trait Markup {
    /// A text whose characters mean nothing but themselves.
    fn escape(&self, text: &str) -> String;
    fn strong(&self, text: &str) -> String;
    fn paragraph(&self, lines: &[String]) -> String;
    fn list(&self, items: &[String]) -> String;
    /// `names` columns hold names, the others figures. The first row is the head.
    fn table(&self, names: usize, rows: &[Vec<String>]) -> String;
}

fn draw(sheet: &Sheet, markup: &dyn Markup) -> String {
    let mut head = vec![format!(
        "{}: {}",
        markup.strong(&markup.escape(&sheet.name)),
        markup.escape(&sheet.conditions.join(", "))
    )];
    let summaries = sheet.candidates.iter();
    head.extend(summaries.map(|it| markup.escape(&format!("{}: {}", it.name, it.counts))));
    let mut blocks = vec![markup.paragraph(&head)];
    for section in &sheet.sections {
        blocks.extend(
            section
                .title
                .map(|title| markup.paragraph(&[markup.escape(title)])),
        );
        blocks.push(pivot(sheet, section, markup));
    }
    let footnotes = sheet.footnotes.iter().enumerate();
    let footnotes = footnotes.map(|(index, text)| format!("({}) {text}", index + 1));
    let facts = [("same", &sheet.same), ("differs", &sheet.differs)];
    let facts = facts.iter().filter(|(_, facts)| !facts.is_empty());
    let facts = facts.map(|(word, facts)| format!("{word}: {}", facts.join(", ")));
    let remarks = footnotes.chain(facts).chain(sheet.notes.iter().cloned());
    let remarks: Vec<String> = remarks.map(|text| markup.escape(&text)).collect();
    if !remarks.is_empty() {
        blocks.push(markup.list(&remarks));
    }
    if let Some(it) = &sheet.claims {
        blocks.push(markup.paragraph(&[markup.escape(&it.title)]));
        blocks.push(claims(it, markup));
    }
    blocks.join("\n")
}

fn pivot(sheet: &Sheet, section: &Section, markup: &dyn Markup) -> String {
    let metric = section.rows.iter().any(|row| row.metric_matters);
    let names = sheet.dimensions.len() + usize::from(metric);
    let mut head: Vec<String> = sheet.dimensions.clone();
    head.extend(metric.then(|| "metric".to_owned()));
    head.push(sheet.baseline.clone());
    let candidates = sheet.candidates.iter();
    head.extend(candidates.map(|candidate| candidate.name.clone()));
    let rows = section.rows.iter().map(|row| {
        let mut texts: Vec<String> = row.name.clone();
        texts.extend(metric.then(|| row.metric.clone()));
        texts.push(row.baseline.clone());
        texts.extend(row.cells.iter().map(cell));
        texts
    });
    let rows = std::iter::once(head).chain(rows);
    let escaped = rows.map(|row| row.iter().map(|text| markup.escape(text)).collect());
    markup.table(names, &escaped.collect::<Vec<Vec<String>>>())
}

/// `1.12k/s ±4% · 1.66× [1.58, 1.75] · FASTER`
fn cell(cell: &Option<SheetCell>) -> String {
    let Some(cell) = cell else {
        return String::new();
    };
    let parts = [cell.median.clone(), cell.ratio.clone(), cell.verdict()];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" · ")
}

fn claims(claims: &Claims, markup: &dyn Markup) -> String {
    let head = ["row", "printed", "from the trials", "stands"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for row in &claims.rows {
        let recomputed = row.recomputed.as_ref();
        let standing = [row.standing().to_owned()].into_iter();
        let standing: Vec<String> = standing.chain(row.against.iter().cloned()).collect();
        rows.push(vec![
            row.name.clone(),
            row.printed.join(", "),
            recomputed.map_or("as printed".to_owned(), |texts| texts.join(", ")),
            standing.join(": "),
        ]);
    }
    for text in rows.iter_mut().flatten() {
        *text = markup.escape(text);
    }
    markup.table(1, &rows)
}

struct Markdown;

impl Markup for Markdown {
    fn escape(&self, text: &str) -> String {
        let mut escaped = String::new();
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let next = characters.peek();
            let special = match character {
                '\\' | '|' | '*' | '`' | '<' | '~' => true,
                // Only so do brackets make a link; those of intervals stay readable.
                ']' => matches!(next, Some('(' | '[')),
                // Within words, as in most names, they mean nothing.
                '_' => escaped.is_empty() || next.is_none(),
                _ => false,
            };
            if special {
                escaped.push('\\');
            }
            escaped.push(character);
        }
        escaped
    }

    fn strong(&self, text: &str) -> String {
        if text.is_empty() {
            String::new()
        } else {
            format!("**{text}**")
        }
    }

    fn paragraph(&self, lines: &[String]) -> String {
        // Two spaces at the end of a line break it.
        lines.join("  \n") + "\n"
    }

    fn list(&self, items: &[String]) -> String {
        items.iter().map(|item| format!("- {item}\n")).collect()
    }

    fn table(&self, names: usize, rows: &[Vec<String>]) -> String {
        let mut text = String::new();
        for (index, row) in rows.iter().enumerate() {
            text += &format!("| {} |\n", row.join(" | "));
            if index == 0 {
                let rule = (0..row.len()).map(|column| match column < names {
                    true => "---",
                    false => "--:",
                });
                text += &format!("| {} |\n", rule.collect::<Vec<&str>>().join(" | "));
            }
        }
        text
    }
}

struct AsciiDoc;

impl Markup for AsciiDoc {
    fn escape(&self, text: &str) -> String {
        let mut escaped = String::new();
        for character in text.chars() {
            match character {
                // A backslash before a pipe would do as well, but not after another backslash.
                '|' => escaped.push_str("{vbar}"),
                '*' => escaped.push_str("{asterisk}"),
                '`' => escaped.push_str("{backtick}"),
                '~' => escaped.push_str("{tilde}"),
                '^' => escaped.push_str("{caret}"),
                '+' => escaped.push_str("{plus}"),
                '{' => escaped.push_str("&#123;"),
                '#' => escaped.push_str("&#35;"),
                '<' => escaped.push_str("&#60;"),
                '&' => escaped.push_str("&#38;"),
                // After a word it begins a macro's text, after another one an anchor.
                '[' if !escaped.is_empty() && !escaped.ends_with(' ') => escaped.push_str("&#91;"),
                character => escaped.push(character),
            }
        }
        escaped
    }

    fn strong(&self, text: &str) -> String {
        if text.is_empty() {
            String::new()
        } else {
            format!("*{text}*")
        }
    }

    fn paragraph(&self, lines: &[String]) -> String {
        lines.join(" +\n") + "\n"
    }

    fn list(&self, items: &[String]) -> String {
        items.iter().map(|item| format!("* {item}\n")).collect()
    }

    fn table(&self, names: usize, rows: &[Vec<String>]) -> String {
        let columns = rows.first().map_or(0, Vec::len);
        let aligned = (0..columns).map(|column| if column < names { "<" } else { ">" });
        let aligned: Vec<&str> = aligned.collect();
        let mut text = format!(
            "[cols=\"{}\",options=\"header\"]\n|===\n",
            aligned.join(",")
        );
        for (index, row) in rows.iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            // Each cell on a line of its own: before a pipe within a line, letters and digits would be
            // read as the cell's form.
            text.extend(row.iter().map(|cell| format!("|{cell}\n")));
        }
        text + "|===\n"
    }
}
