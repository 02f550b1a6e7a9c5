//! A comparison for the terminal: one table where it fits, else a table a candidate, else two lines a row,
//! else a block a row.

use iodyno_model::Comparison;

use super::claims::Claims;
use super::sheet::{Section, Sheet, SheetCell, SheetRow, Tone, sheet};
use crate::style::{Paint, Style, cut, left, trimmed, width};

/// Between columns.
const GAP: usize = 2;
/// A column's name in a crowded table.
const SHORT_NAME: usize = 14;

/// What is compared under which conditions; how many verdicts of each kind; the rows with median, ratio
/// and verdict; footnotes; what is the same and what differs; claims of imported tables; remarks.
///
/// No line is longer than the style's width as long as no name is. Without `unicode` everything but
/// names is ASCII. Ends with a newline.
pub fn text(comparison: &Comparison, style: Style) -> String {
    let sheet = sheet(comparison);
    let mut text = header(&sheet, style);
    match sheet.sections.is_empty() {
        true => text += &(style.paint(Paint::Yellow, "nothing to compare") + "\n"),
        false => text += &tables(&sheet, style),
    }
    for (index, footnote) in sheet.footnotes.iter().enumerate() {
        let mark = format!("({}) ", index + 1);
        text += &remark(&format!("{mark}{footnote}"), mark.len(), Paint::Dim, style);
    }
    text += &facts(&sheet, style);
    if let Some(claims) = &sheet.claims {
        text += &claims_block(claims, style);
    }
    for note in &sheet.notes {
        text += &remark(&format!("! {note}"), 2, Paint::Yellow, style);
    }
    trimmed(&style.plain(&text))
}

/// Wraps what has no colour yet, then colours each line.
fn remark(text: &str, indent: usize, paint: Paint, style: Style) -> String {
    let wrapped = style.wrap(&style.plain(text), indent);
    let lines = wrapped.lines();
    lines.map(|line| style.paint(paint, line) + "\n").collect()
}

fn header(sheet: &Sheet, style: Style) -> String {
    let line = format!("{}   {}", sheet.name, sheet.conditions.join(", "));
    let wrapped = style.wrap(&style.plain(&line), 2);
    let name = style.plain(&sheet.name);
    let first = match wrapped.strip_prefix(name.as_str()) {
        Some(rest) => style.paint(Paint::Strong, &name) + rest,
        None => wrapped,
    };
    let summaries = sheet.candidates.iter().map(|candidate| {
        let line = format!("{}: {}", candidate.name, candidate.counts);
        style.wrap(&style.plain(&line), 2) + "\n"
    });
    first + "\n" + &summaries.collect::<String>()
}

/// How much a table leaves out to fit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Squeeze {
    /// Nothing.
    None,
    /// `speed` for `zfs/ext4 speed`.
    ShortHeadings,
    /// Also p, and names of columns are cut.
    NoP,
    /// Nothing but the names of columns: each row's name and verdict have a line of their own.
    TwoLines,
}

impl Squeeze {
    const ALL: [Squeeze; 4] = [
        Squeeze::None,
        Squeeze::ShortHeadings,
        Squeeze::NoP,
        Squeeze::TwoLines,
    ];

    fn shows_p(self) -> bool {
        self != Squeeze::NoP
    }
}

fn tables(sheet: &Sheet, style: Style) -> String {
    let everyone: Vec<usize> = (0..sheet.candidates.len()).collect();
    let fitting = |shown: &[usize], squeezes: &[Squeeze]| {
        let mut squeezes = squeezes.iter();
        squeezes.find_map(|squeeze| table(sheet, shown, *squeeze, style))
    };
    let whole = |shown: &[usize]| {
        fitting(shown, &Squeeze::ALL).unwrap_or_else(|| blocks(sheet, shown, style))
    };
    if everyone.len() <= 1 {
        return whole(&everyone);
    }
    // Side by side only as long as nothing is lost by it.
    if let Some(text) = fitting(&everyone, &Squeeze::ALL[..2]) {
        return text;
    }
    let stacked: Vec<String> = everyone.iter().map(|one| whole(&[*one])).collect();
    stacked.join("\n")
}

/// A text and its colour.
type Piece = (String, Option<Paint>);

/// A line of the table: texts a column, and the colour of some.
struct Line {
    /// What stands on a line of its own above it: the row's name, then verdicts.
    lead: Vec<Piece>,
    texts: Vec<String>,
    paints: Vec<Option<Paint>>,
}

enum Item {
    Heading(String),
    Line(Line),
}

/// `None` where it does not fit.
fn table(sheet: &Sheet, shown: &[usize], squeeze: Squeeze, style: Style) -> Option<String> {
    let head = headings(sheet, shown, squeeze, style);
    let mut items = Vec::new();
    for section in &sheet.sections {
        items.extend(section.title.map(|title| Item::Heading(title.to_owned())));
        let rows = section.rows.iter();
        items.extend(rows.map(|row| Item::Line(line(row, shown, squeeze, style))));
    }
    let mut widths: Vec<usize> = head.iter().map(|text| width(text)).collect();
    for item in &items {
        if let Item::Line(line) = item {
            for (column, text) in line.texts.iter().enumerate() {
                widths[column] = widths[column].max(width(text));
            }
        }
    }
    let leads = items.iter().filter_map(|item| match item {
        Item::Line(line) => line.lead.first().map(|(name, _)| width(name)),
        Item::Heading(_) => None,
    });
    let lead_width = leads.max().unwrap_or(0);
    let all = widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
    if all > style.columns() {
        return None;
    }
    let draw = |texts: &[String], paints: &[Option<Paint>]| {
        let columns = texts.iter().zip(&widths).enumerate();
        let cells: Vec<String> = columns
            .map(|(column, (text, width))| {
                let padded = left(text, *width);
                match paints.get(column).copied().flatten() {
                    Some(paint) => style.paint(paint, &padded),
                    None => padded,
                }
            })
            .collect();
        cells.join(&" ".repeat(GAP)) + "\n"
    };
    let mut text = draw(&head, &vec![Some(Paint::Dim); head.len()]);
    for item in &items {
        text += &match item {
            Item::Heading(heading) => remark(heading, 2, Paint::Cyan, style),
            Item::Line(line) => {
                lead(&line.lead, lead_width, style) + &draw(&line.texts, &line.paints)
            }
        };
    }
    Some(text)
}

fn headings(sheet: &Sheet, shown: &[usize], squeeze: Squeeze, style: Style) -> Vec<String> {
    let name = |name: &str| shortened(name, squeeze, style);
    let mut head = vec![String::new(), name(&sheet.baseline)];
    for candidate in shown.iter().map(|index| &sheet.candidates[*index]) {
        head.push(name(&candidate.name));
        head.push(match squeeze {
            Squeeze::None => format!(
                "{}/{} speed [{}]",
                candidate.name, sheet.baseline, candidate.level
            ),
            _ => format!("speed [{}]", candidate.level),
        });
        if squeeze.shows_p() {
            head.push("adj.p".to_owned());
        }
        if squeeze != Squeeze::TwoLines {
            head.push(String::new());
        }
    }
    head.iter().map(|text| style.plain(text)).collect()
}

fn line(row: &SheetRow, shown: &[usize], squeeze: Squeeze, style: Style) -> Line {
    let mut pieces = vec![(style.plain(&label(row)), None)];
    let mut texts = vec![(row.baseline.clone(), None)];
    for cell in shown.iter().map(|index| row.cells[*index].as_ref()) {
        let text = |of: fn(&SheetCell) -> &str| cell.map_or("", of).to_owned();
        texts.push((text(|cell| &cell.median), None));
        texts.push((text(|cell| &cell.ratio), None));
        if squeeze.shows_p() {
            texts.push((text(|cell| &cell.p), None));
        }
        let verdict = cell.map_or(String::new(), SheetCell::verdict);
        let verdict = (verdict, cell.map(paint));
        match squeeze {
            Squeeze::TwoLines => pieces.push(verdict),
            _ => texts.push(verdict),
        }
    }
    let (lead, first) = match squeeze {
        Squeeze::TwoLines => (pieces, String::new()),
        _ => (Vec::new(), label(row)),
    };
    texts.insert(0, (first, None));
    Line {
        lead,
        texts: texts.iter().map(|(text, _)| style.plain(text)).collect(),
        paints: texts.iter().map(|(_, paint)| *paint).collect(),
    }
}

/// The line above a row's figures, its verdicts below those of the other rows; empty without pieces.
fn lead(pieces: &[Piece], name_width: usize, style: Style) -> String {
    match pieces.split_first() {
        None => String::new(),
        Some(((name, paint), verdicts)) => {
            let name = (left(name, name_width), *paint);
            flow(&[&[name], verdicts].concat(), 0, style)
        }
    }
}

/// The row's name, with the metric where the name alone says too little.
fn label(row: &SheetRow) -> String {
    let names = row.name.iter().filter(|name| !name.is_empty());
    let metric = Some(&row.metric).filter(|_| row.metric_matters);
    let parts: Vec<&str> = names.chain(metric).map(String::as_str).collect();
    parts.join(" ")
}

fn paint(cell: &SheetCell) -> Paint {
    match cell.tone {
        Tone::Good => Paint::Green,
        Tone::Bad => Paint::Red,
        Tone::Settled => Paint::Cyan,
        Tone::Open => Paint::Yellow,
    }
}

fn shortened(name: &str, squeeze: Squeeze, style: Style) -> String {
    match squeeze {
        Squeeze::None | Squeeze::ShortHeadings => name.to_owned(),
        Squeeze::NoP | Squeeze::TwoLines => ended(name, SHORT_NAME, style),
    }
}

/// As much of a text as fits, with a mark where there was more.
fn ended(text: &str, columns: usize, style: Style) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mark = if style.unicode { "…" } else { ">" };
    cut(text, columns.saturating_sub(1)) + mark
}

/// For what is too wide for a table: a row's name, and below it what would stand in its columns.
fn blocks(sheet: &Sheet, shown: &[usize], style: Style) -> String {
    let mut text = String::new();
    for Section { title, rows } in &sheet.sections {
        if let Some(title) = title {
            text += &remark(title, 2, Paint::Cyan, style);
        }
        for row in rows {
            text += &(ended(&style.plain(&label(row)), style.columns(), style) + "\n");
            for index in shown {
                text += &block(sheet, row, *index, style);
            }
        }
    }
    text
}

fn block(sheet: &Sheet, row: &SheetRow, index: usize, style: Style) -> String {
    let Some(cell) = &row.cells[index] else {
        return String::new();
    };
    let side = |name: &str, median: &str| match median.is_empty() {
        true => String::new(),
        false => format!("{name} {median}"),
    };
    let candidate = &sheet.candidates[index].name;
    let p = match cell.p.is_empty() {
        true => String::new(),
        false => format!("adj.p {}", cell.p),
    };
    let pieces = [
        side(&sheet.baseline, &row.baseline),
        side(candidate, &cell.median),
        cell.ratio.clone(),
        p,
    ];
    let mut pieces: Vec<Piece> = pieces
        .into_iter()
        .filter(|piece| !piece.is_empty())
        .map(|piece| (piece, None))
        .collect();
    pieces.push((cell.verdict(), Some(paint(cell))));
    flow(&pieces, 2, style)
}

/// Pieces one after the other, three spaces between them, on as many lines as it takes.
fn flow(pieces: &[Piece], indent: usize, style: Style) -> String {
    let between = 3;
    let mut text = String::new();
    let mut used = 0;
    for (piece, paint) in pieces {
        let piece = style.plain(piece);
        let piece = ended(&piece, style.columns() - indent, style);
        if used > 0 && used + between + width(&piece) <= style.columns() {
            text += &" ".repeat(between);
            used += between + width(&piece);
        } else {
            text += if used > 0 { "\n" } else { "" };
            text += &" ".repeat(indent);
            used = indent + width(&piece);
        }
        text += &match paint {
            Some(paint) => style.paint(*paint, &piece),
            None => piece,
        };
    }
    text + "\n"
}

/// `same: kernel, device.   differs: file system (the axis)`
fn facts(sheet: &Sheet, style: Style) -> String {
    let part = |word: &str, facts: &[String]| match facts.is_empty() {
        true => String::new(),
        false => format!("{word}: {}", facts.join(", ")),
    };
    let parts = [part("same", &sheet.same), part("differs", &sheet.differs)];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let line = style.plain(&parts.join(".   "));
    match parts.is_empty() {
        true => String::new(),
        false if width(&line) <= style.columns() => line + "\n",
        false => parts
            .iter()
            .map(|part| style.wrap(&style.plain(part), 2) + "\n")
            .collect(),
    }
}

fn claims_block(claims: &Claims, style: Style) -> String {
    let mut text = remark(&claims.title, 2, Paint::Strong, style);
    let plain =
        |texts: &[String]| -> Vec<String> { texts.iter().map(|text| style.plain(text)).collect() };
    let printed: Vec<Vec<String>> = claims.rows.iter().map(|row| plain(&row.printed)).collect();
    let columns = printed.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let texts = printed.iter().filter_map(|row| row.get(column));
            texts.map(|text| width(text)).max().unwrap_or(0)
        })
        .collect();
    let names = claims.rows.iter().map(|row| width(&style.plain(&row.name)));
    let name_width = names.max().unwrap_or(0);
    for (row, printed) in claims.rows.iter().zip(&printed) {
        let paint = if row.follows {
            Paint::Green
        } else {
            Paint::Red
        };
        let padded = printed
            .iter()
            .zip(&widths)
            .map(|(text, width)| left(text, *width));
        let name = left(&style.plain(&row.name), name_width);
        let mut pieces: Vec<Piece> = std::iter::once(name)
            .chain(padded)
            .map(|text| (text, None))
            .collect();
        pieces.push((row.standing().to_owned(), Some(paint)));
        text += &flow(&pieces, 2, style);
        if let Some(recomputed) = &row.recomputed {
            let line = format!("    from the trials: {}", recomputed.join(", "));
            text += &remark(&line, 6, Paint::Dim, style);
        }
        for against in &row.against {
            text += &remark(&format!("    {against}"), 6, Paint::Dim, style);
        }
    }
    text
}
