//! Explanations: why one side of a comparison is faster.
//!
//! [`iodyno_model::Explanation`] contains all decisions. For each comparison, a sentence comes first, then the parts of
//! the time of an op with bars, the workers' time, and the work for each op. Terminal and page have the same sentences
//! and tables; Markdown and AsciiDoc have the text of the terminal.

mod bars;
mod json;
#[cfg(test)]
mod tests;
mod words;

use iodyno_model::{
    Certainty, Explained, ExplainedFamily, Explanation, Limit, Quantity, Reasons, Stack, StackOf,
    TimePart,
};

pub use json::json;
pub use words::headline;

use crate::compare::contradiction;
use crate::style::{Paint, Style, trimmed};
use crate::table::{Cell, Column, Markup, Table};
use bars::Bar;
use iodyno_model::ordered::entry;
use words::{certainty, difference, with_unit};

/// Rows of work for each op, at most; JSON has all.
const MAX_WORK: usize = 7;

/// Steps of a cycle in a table, at most: the longest ones.
const MAX_STEPS: usize = 6;

/// Parts with a smaller share of both sides have no row; JSON has all.
const NEGLIGIBLE: f64 = 0.0005;

/// An explanation for the terminal. Ends with a newline.
pub fn text(explanation: &Explanation, style: Style) -> String {
    let mut text = style.paragraph(&explanation.name, 2, Paint::Strong);
    for section in sections(explanation) {
        text += "\n";
        text += &style.paragraph(&section.title, 2, Paint::Cyan);
        text += &style.paragraph(&section.sentence, 2, None);
        for block in &section.blocks {
            text += &block.table(Some(style)).draw(style.columns(), style);
            text += &bars::lines(&block.bars(), style.columns(), style);
        }
        text += &style.warnings(&section.remarks);
    }
    let remarks = remarks(explanation);
    if !remarks.is_empty() {
        text += "\n";
    }
    text += &style.warnings(&remarks);
    if explanation.comparisons.is_empty() && explanation.contradictions.is_empty() {
        text += &style.paragraph("nothing to explain", 0, Paint::Yellow);
    }
    trimmed(&style.plain(&text))
}

/// What limits each row of repeated trials; empty without rows. Ends with a newline.
pub fn limits(rows: &[(String, Limit)], style: Style) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let named = rows.len() > 1;
    let name = named.then(|| Column::left(""));
    let mut table = Table::new(
        name.into_iter()
            .chain([Column::left("limited by").wrap(24)]),
    );
    for (row, limit) in rows {
        let name = named.then(|| row.clone());
        table.row(name.into_iter().chain([words::limited_by(limit)]));
    }
    table.draw(style.columns(), style)
}

/// The same in markup. Ends with a newline.
pub fn markup(explanation: &Explanation, markup: Markup) -> String {
    if markup != Markup::Html {
        return markup.block(&text(explanation, Style::default()));
    }
    let mut page = Vec::new();
    for section in sections(explanation) {
        let title = markup.strong(&markup.escape(&section.title));
        page.push(markup.paragraph(&[title, markup.escape(&section.sentence)]));
        for block in &section.blocks {
            let bars = block.bars();
            if !bars.is_empty() {
                page.push(bars::svg(&bars));
            }
            page.push(block.table(None).markup(markup));
        }
        page.extend(markup.list(&section.remarks));
    }
    page.extend(markup.list(remarks(explanation)));
    page.join("\n")
}

/// A comparison, or a family of them.
struct Section<'a> {
    title: String,
    sentence: String,
    blocks: Vec<Block<'a>>,
    remarks: Vec<String>,
}

/// A table, with bars below it.
enum Block<'a> {
    /// The names of the sides, and the stack.
    Stack((&'a str, &'a str), &'a Stack),
    /// The time of the workers.
    Worker((&'a str, &'a str), &'a [(TimePart, Quantity)]),
    /// Work for each op.
    Work((&'a str, &'a str), &'a [Quantity]),
    /// The members of a family.
    Members(&'a ExplainedFamily, &'a Explanation),
}

fn sections(explanation: &Explanation) -> Vec<Section<'_>> {
    let families = explanation.families.iter().map(|family| Section {
        title: words::family_title(family),
        sentence: words::of_family(family),
        blocks: {
            let stack = family.stack.as_ref();
            let stack = stack.map(|stack| Block::Stack(names(&family.columns), stack));
            stack
                .into_iter()
                .chain([Block::Members(family, explanation)])
                .collect()
        },
        remarks: Vec::new(),
    });
    // Members of a family are in its table, except if only one comparison was asked for.
    let alone = explanation.comparisons.iter();
    let alone = alone.filter(|it| !explanation.families.iter().any(|family| family.has(it)));
    let alone = alone.filter(|it| it.reasons.is_ok());
    let alone = alone.map(|it| Section {
        title: words::title(it),
        sentence: words::headline(it),
        blocks: it
            .reasons
            .as_ref()
            .map_or(Vec::new(), |reasons| blocks(it, reasons)),
        remarks: match it.lacking.is_empty() {
            true => Vec::new(),
            false => vec![format!("not known: {}", it.lacking.join("; "))],
        },
    });
    families.chain(alone).collect()
}

fn names(columns: &(String, String)) -> (&str, &str) {
    (&columns.0, &columns.1)
}

fn blocks<'a>(explained: &'a Explained, reasons: &'a Reasons) -> Vec<Block<'a>> {
    let names = names(&explained.columns);
    let mut blocks: Vec<Block> = Vec::new();
    blocks.extend(
        reasons
            .stacks
            .iter()
            .map(|stack| Block::Stack(names, stack)),
    );
    if !words::is_fine(reasons) && !reasons.worker.is_empty() {
        blocks.insert(1, Block::Worker(names, &reasons.worker));
    }
    if !reasons.work.is_empty() {
        blocks.push(Block::Work(names, &reasons.work));
    }
    blocks
}

/// Comparisons without an explanation, by the reason, and contradicted statements.
fn remarks(explanation: &Explanation) -> Vec<String> {
    let mut without: Vec<(&String, Vec<String>)> = Vec::new();
    for it in &explanation.comparisons {
        if let Err(why) = &it.reasons {
            entry(&mut without, why).push(words::title(it));
        }
    }
    let without = without
        .into_iter()
        .map(|(why, titles)| match titles.as_slice() {
            [one] => format!("{one}; not explained: {why}"),
            several => format!("{} comparisons are not explained: {why}", several.len()),
        });
    without
        .chain(explanation.contradictions.iter().map(contradiction))
        .collect()
}

impl<'a> Block<'a> {
    /// `style`: with the characters of the bars.
    fn table(&self, style: Option<Style>) -> Table {
        match self {
            Block::Stack(names, stack) => stack_table(*names, stack, style),
            Block::Worker(names, parts) => worker_table(*names, parts, style),
            Block::Work(names, work) => work_table(*names, work),
            Block::Members(family, explanation) => members(family, explanation),
        }
    }

    fn bars(&self) -> Vec<Bar<'a>> {
        match self {
            Block::Stack(names, stack)
                if !matches!(stack.of, StackOf::Cycle | StackOf::Background) =>
            {
                bars::of_sides(*names, &stack.parts).into()
            }
            _ => Vec::new(),
        }
    }
}

/// The columns of a table of quantities.
fn columns(head: impl Into<String>, (one, other): (&str, &str)) -> [Column; 5] {
    [
        Column::left(head).wrap(20),
        Column::right(one).end(8),
        Column::right(other).end(8),
        Column::left("difference").drop(2),
        Column::left("").drop(1),
    ]
}

fn row(name: String, quantity: &Quantity) -> Vec<Cell> {
    let paint = match quantity.certainty {
        Certainty::Certain => None,
        Certainty::Likely | Certainty::NotDecided => Some(Paint::Dim),
    };
    vec![
        name.into(),
        with_unit(quantity.sides.0, quantity.unit).into(),
        with_unit(quantity.sides.1, quantity.unit).into(),
        Cell::painted(difference(quantity), paint),
        Cell::painted(certainty(quantity.certainty), paint),
    ]
}

fn stack_table(names: (&str, &str), stack: &Stack, style: Option<Style>) -> Table {
    let head = match &stack.of {
        StackOf::Op => "time of an op".to_owned(),
        StackOf::Job(name) => format!("time of an op of {name}"),
        StackOf::Sync((one, other)) if one == other => {
            format!(
                "time of a sync ({} per op)",
                with_unit(*one, iodyno_model::SeriesUnit::Number)
            )
        }
        StackOf::Sync(_) => "time of a sync".to_owned(),
        StackOf::Cycle => "time of a cycle".to_owned(),
        StackOf::Background => "device in the background".to_owned(),
    };
    let mut table = Table::new(columns(head, names));
    let marked = |part: TimePart, name: &str| match (style, part) {
        (Some(_), TimePart::Step(_)) | (None, _) => name.to_owned(),
        (Some(_), _) if matches!(stack.of, StackOf::Background) => name.to_owned(),
        (Some(style), part) => format!("{} {name}", bars::mark(part, style)),
    };
    let mut parts: Vec<&(TimePart, Quantity)> = stack.parts.iter().collect();
    if matches!(stack.of, StackOf::Cycle) {
        let longest = |it: &Quantity| it.sides.0.max(it.sides.1);
        parts.sort_by(|(_, one), (_, other)| longest(other).total_cmp(&longest(one)));
        parts.truncate(MAX_STEPS);
    }
    let some = |it: &Quantity| {
        let (one, other) = stack.whole.sides;
        it.sides.0 >= NEGLIGIBLE * one || it.sides.1 >= NEGLIGIBLE * other
    };
    for (part, quantity) in parts.iter().filter(|(_, it)| some(it)) {
        table.row(row(marked(*part, &quantity.words), quantity));
    }
    if parts.len() > 1 {
        table.row(row(stack.whole.words.clone(), &stack.whole));
    }
    table
}

fn worker_table(
    (one, other): (&str, &str),
    parts: &[(TimePart, Quantity)],
    style: Option<Style>,
) -> Table {
    let heads = parts.iter().map(|(part, _)| {
        let mark = style.map_or(String::new(), |style| {
            format!("{} ", bars::mark(*part, style))
        });
        Column::right(format!("{mark}{}", worker_words(*part)))
    });
    let bar = style.map(|_| Column::left(""));
    let mut table = Table::new(
        [Column::left("worker").end(16)]
            .into_iter()
            .chain(heads)
            .chain(bar),
    );
    for (name, place) in [(one, 0), (other, 1)] {
        let share = |quantity: &Quantity| [quantity.sides.0, quantity.sides.1][place];
        let mut cells = vec![name.to_owned()];
        cells.extend(parts.iter().map(|(_, it)| format!("{:.0} %", share(it))));
        if let Some(style) = style {
            cells.push(worker_bar(
                parts.iter().map(|(part, it)| (*part, share(it))),
                style,
            ));
        }
        table.row(cells);
    }
    table
}

fn worker_words(part: TimePart) -> &'static str {
    match part {
        TimePart::KernelCpu => "kernel",
        TimePart::UserCpu => "user",
        TimePart::Unknown => "asleep",
        part => part.words(),
    }
}

/// A bar of twenty characters for 100 %.
fn worker_bar(parts: impl Iterator<Item = (TimePart, f64)>, style: Style) -> String {
    let (mut text, mut sum) = (String::new(), 0.0);
    for (part, share) in parts {
        sum += share;
        let drawn = text.chars().count();
        let until = ((sum / 5.0).round() as usize).max(drawn);
        text.extend(std::iter::repeat_n(bars::mark(part, style), until - drawn));
    }
    text
}

fn work_table(names: (&str, &str), work: &[Quantity]) -> Table {
    let mut table = Table::new(columns("work per op", names));
    // What differs comes first.
    let mut rows: Vec<&Quantity> = work.iter().collect();
    rows.sort_by_key(|quantity| std::cmp::Reverse(quantity.certainty));
    rows.truncate(MAX_WORK);
    for quantity in rows {
        table.row(row(quantity.words.clone(), quantity));
    }
    table
}

/// The members of a family.
fn members(family: &ExplainedFamily, explanation: &Explanation) -> Table {
    let (baseline, candidate) = &family.columns;
    let mut table = Table::new([
        Column::left("workload").end(20),
        Column::left("speed"),
        Column::right(baseline).end(8),
        Column::right(candidate).end(8),
        Column::left("mostly").wrap(12),
    ]);
    for member in explanation.comparisons.iter().filter(|it| family.has(it)) {
        let time = |of: fn(&(f64, f64)) -> f64| match &member.reasons {
            Ok(reasons) => with_unit(of(&reasons.time.sides), reasons.time.unit),
            Err(_) => String::new(),
        };
        let most = match &member.reasons {
            Ok(reasons) => reasons.most.first().map_or("", |(part, _)| part.words()),
            Err(_) => "not explained",
        };
        table.row([
            words::member(family, member),
            words::speed(member),
            time(|sides| sides.0),
            time(|sides| sides.1),
            most.to_owned(),
        ]);
    }
    table
}

/// Lines below verdicts, at most.
const MAX_REASONS: usize = 6;

/// A line for each decided comparison, printed below the verdicts; empty without any. Each ends with a newline.
pub fn reasons(explanation: &Explanation, style: Style) -> String {
    let families = explanation.families.iter();
    let families: Vec<&ExplainedFamily> = families
        .filter(|it| it.most.is_some() && it.decided())
        .collect();
    // `iodyno explain` reports what is undecided.
    let own = explanation
        .comparisons
        .iter()
        .filter(|it| it.reasons.is_ok() && it.decided());
    let own = own.filter(|it| !families.iter().any(|family| family.has(it)));
    let of_families = families.iter().map(|family| words::family_line(family));
    let lines: Vec<String> = of_families.chain(own.map(words::line)).collect();
    let mut text = String::new();
    for line in lines.iter().take(MAX_REASONS) {
        text += &style.paragraph(line, 2, None);
    }
    if lines.len() > MAX_REASONS {
        let more = format!("why: {} more: `iodyno explain`", lines.len() - MAX_REASONS);
        text += &style.paragraph(&more, 2, None);
    }
    style.plain(&text)
}
