//! A comparison for the terminal, in the first of these layouts that fits: one table, a table for each candidate, two
//! lines for each row, a block for each row. If all sides belong into one table, [`super::pivot`] draws it.

use std::collections::BTreeSet;

use iodyno_model::Comparison;

use super::ComparisonFormat;
use super::pivot::pivot;
use super::searches::searches;
use super::view::{ResultView, RowView, ViewModel, view};
use crate::style::{Paint, Style, left, shortened_apart, trimmed, width};
use crate::table::{Cell, Column, Table};

/// Width of a shortened name, columns.
const SHORT_NAME: usize = 14;

/// The names and conditions of the comparison; the number of verdicts of each kind; the rows with median, ratio and
/// verdict; footnotes; facts that are the same and facts that differ; claims of imported tables; notes.
///
/// No line is longer than the style's width, except for a single word of a note that is longer. Without `unicode`
/// everything but names is ASCII. Ends with a newline.
pub fn text(comparison: &Comparison, shown: &ComparisonFormat, style: Style) -> String {
    let view = view(comparison, shown);
    let mut text = header(&view, style);
    let all = || (1..=view.footnotes.len()).collect();
    let (table, named): (String, BTreeSet<usize>) = match view.sections.is_empty() {
        true => {
            let nothing = style.paint(Paint::Yellow, "nothing to compare") + "\n";
            (nothing, all())
        }
        false if view.pivots => pivot(&view, style),
        false => (tables(&view, style), all()),
    };
    text += &table;
    for number in named {
        let (mark, footnote) = (format!("({number}) "), &view.footnotes[number - 1]);
        text += &style.paragraph(&format!("{mark}{footnote}"), mark.len(), Paint::Dim);
    }
    if !view.flags.is_empty() {
        let line = format!("notes: {}", view.flags);
        text += &style.paragraph(&line, 2, Paint::Dim);
    }
    text += &facts(&view, style);
    if let Some(claims) = &view.claims {
        text += &claims.text(style);
    }
    text += &style.warnings(&view.notes);
    text += &searches(&comparison.searches, style);
    trimmed(&style.plain(&text))
}

fn header(view: &ViewModel, style: Style) -> String {
    let line = format!("{}   {}", view.name, view.conditions.join(", "));
    let mut text = style.paragraph(&line, 2, None);
    let name = style.plain(&view.name);
    if let Some(rest) = text.strip_prefix(name.as_str()) {
        text = style.paint(Paint::Strong, &name) + rest;
    }
    if let Some(question) = &view.question {
        text += &style.paragraph(question, 2, None);
    }
    for candidate in view.summaries() {
        text += &style.paragraph(&format!("{}.", candidate.answer), 2, None);
    }
    text
}

/// What a table omits to fit the width.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Squeeze {
    /// Nothing.
    None,
    /// The heading is `speed` instead of `zfs/ext4 speed`.
    ShortHeadings,
    /// In addition, p is omitted and long names in headings are cut.
    NoP,
    /// Only names are cut; the name and the verdict of each row are on separate lines.
    TwoLines,
}

fn tables(view: &ViewModel, style: Style) -> String {
    use Squeeze::{NoP, None, ShortHeadings, TwoLines};
    let columns = style.columns();
    let fitting = |shown: &[usize], squeezes: &[Squeeze]| {
        let tables = squeezes
            .iter()
            .map(|squeeze| table(view, shown, *squeeze, style));
        let mut fitting = tables.filter(|table| table.fits(columns, style));
        fitting.next()
    };
    let everyone: Vec<usize> = (0..view.candidates.len()).collect();
    // Several candidates are side by side only if nothing has to be omitted.
    if everyone.len() > 1
        && let Some(table) = fitting(&everyone, &[None, ShortHeadings])
    {
        return table.draw(columns, style);
    }
    let whole = |shown: &[usize]| {
        let table = fitting(shown, &[None, ShortHeadings, NoP, TwoLines]);
        let table = table.unwrap_or_else(|| self::table(view, shown, ShortHeadings, style));
        table.draw(columns, style)
    };
    if everyone.len() <= 1 {
        return whole(&everyone);
    }
    let stacked: Vec<String> = everyone.iter().map(|one| whole(&[*one])).collect();
    stacked.join("\n")
}

/// The baseline and some candidates.
fn table(view: &ViewModel, shown: &[usize], squeeze: Squeeze, style: Style) -> Table {
    let candidates = view.candidates.iter().map(|it| it.heading.as_str());
    let names: Vec<&str> = std::iter::once(view.baseline.as_str())
        .chain(candidates)
        .collect();
    let headings = match squeeze {
        Squeeze::NoP | Squeeze::TwoLines => shortened_apart(&names, SHORT_NAME, style),
        _ => names.into_iter().map(str::to_owned).collect(),
    };
    let mut columns = ["", &headings[0]].map(Column::left).to_vec();
    for (index, candidate) in shown.iter().map(|index| (*index, &view.candidates[*index])) {
        let speed = match squeeze {
            Squeeze::None => format!("{}/{} speed", candidate.heading, view.baseline),
            _ => "speed".to_owned(),
        };
        columns.push(Column::left(headings[index + 1].as_str()));
        columns.push(Column::left(format!("{speed} [{}]", candidate.level)));
        columns.extend((squeeze != Squeeze::NoP).then(|| Column::left("adj.p")));
        columns.extend((squeeze != Squeeze::TwoLines).then(|| Column::left("")));
    }
    let rows = view.sections.iter().flat_map(|section| &section.rows);
    let labels = rows.map(|row| width(&style.plain(&label(row))));
    let label_width = labels.max().unwrap_or(0);
    let mut table = Table::new(columns);
    for section in &view.sections {
        if let Some(title) = section.title {
            table.text(title, 2, Paint::Cyan);
        }
        for row in &section.rows {
            let label = style.plain(&label(row));
            let results = shown.iter().map(|index| row.results[*index].as_ref());
            // None of these candidates was compared here.
            if !shown.is_empty() && results.clone().all(|result| result.is_none()) {
                continue;
            }
            let mut cells: Vec<Cell> = match squeeze {
                Squeeze::TwoLines => {
                    let mut lead = vec![Cell::from(left(&label, label_width))];
                    lead.extend(results.clone().map(verdict));
                    table.pieces(lead);
                    vec!["".into()]
                }
                _ => vec![label.into()],
            };
            cells.push(row.baseline.clone().into());
            for result in results {
                let text = |of: fn(&ResultView) -> &str| Cell::from(result.map_or("", of));
                cells.push(text(|result| &result.median));
                cells.push(text(|result| &result.ratio));
                cells.extend((squeeze != Squeeze::NoP).then(|| text(|result| &result.p)));
                cells.extend((squeeze != Squeeze::TwoLines).then(|| verdict(result)));
            }
            table.row(cells);
        }
    }
    table
}

/// The row's name, with the metric if the name is ambiguous.
fn label(row: &RowView) -> String {
    let names = row.name.iter().filter(|name| !name.is_empty());
    let metric = Some(&row.metric).filter(|_| row.metric_matters);
    let parts: Vec<&str> = names.chain(metric).map(String::as_str).collect();
    parts.join(" ")
}

fn verdict(result: Option<&ResultView>) -> Cell {
    let Some(result) = result else {
        return Cell::default();
    };
    Cell::painted(result.verdict(), result.tone.paint())
}

/// `same: kernel, device.   differs: file system (the axis)`
fn facts(view: &ViewModel, style: Style) -> String {
    let parts = [
        ("same", &view.same),
        ("differs", &view.differs),
        ("unknown on one side", &view.unknown),
    ];
    let parts = parts.into_iter().filter(|(_, facts)| !facts.is_empty());
    let parts: Vec<String> = parts
        .map(|(word, facts)| format!("{word}: {}", facts.join(", ")))
        .collect();
    let line = parts.join(".   ");
    match width(&style.plain(&line)) <= style.columns() {
        true if parts.is_empty() => String::new(),
        true => style.paragraph(&line, 2, None),
        false => {
            let parts = parts.iter();
            parts.map(|part| style.paragraph(part, 2, None)).collect()
        }
    }
}
