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

use iodyno_model::ordered::entry;
use iodyno_model::{
    Certainty, Explained, ExplainedFamily, Explanation, Quantity, Reasons, SeriesUnit, Stack,
    StackOf, TimePart,
};

pub use json::json;
pub use words::headline;

use crate::series::with_unit;
use crate::style::{Paint, Style, trimmed};
use crate::table::{Cell, Column, Markup, Table};
use bars::Bar;
use words::difference;

/// Rows of work for each op, at most; JSON has all.
const MAX_WORK: usize = 7;

/// Steps of a cycle in a table, at most: the longest ones.
const MAX_STEPS: usize = 6;

/// Parts with a smaller share of both sides have no row; JSON has all.
const NEGLIGIBLE: f64 = 0.0005;

/// A figure of which more than this share of the whole may belong elsewhere has a `~`; JSON has how much.
const UNCERTAIN: f64 = 0.05;

/// An explanation for the terminal. Ends with a newline.
pub fn text(explanation: &Explanation, style: Style) -> String {
    let mut text = style.paragraph(&explanation.name, 2, Paint::Strong);
    for section in sections(explanation, Some(style)) {
        text += "\n";
        text += &style.paragraph(&section.title, 2, Paint::Cyan);
        text += &style.paragraph(&section.sentence, 2, None);
        for (table, bars) in &section.blocks {
            text += &table.draw(style.columns(), style);
            text += &bars::lines(bars, style.columns(), style);
        }
        text += &style.warnings(&section.remarks);
    }
    let remarks = not_explained(explanation);
    if !remarks.is_empty() {
        text += "\n";
    }
    text += &style.warnings(&remarks);
    if explanation.comparisons.is_empty() {
        text += &style.paragraph("nothing to explain", 0, Paint::Yellow);
    }
    trimmed(&style.plain(&text))
}

/// The same in markup. Ends with a newline.
pub fn markup(explanation: &Explanation, markup: Markup) -> String {
    if markup != Markup::Html {
        return markup.block(&text(explanation, Style::default()));
    }
    let mut page = Vec::new();
    for section in sections(explanation, None) {
        let title = markup.strong(&markup.escape(&section.title));
        page.push(markup.paragraph(&[title, markup.prose(&section.sentence)]));
        for (table, bars) in &section.blocks {
            page.extend((!bars.is_empty()).then(|| bars::svg(bars)));
            page.push(table.markup(markup));
        }
        page.extend(markup.list(&section.remarks));
    }
    page.extend(markup.list(not_explained(explanation)));
    page.join("\n")
}

/// A comparison, or a family of them.
struct Section<'a> {
    title: String,
    sentence: String,
    /// Tables, with bars below them.
    blocks: Vec<(Table, Vec<Bar<'a>>)>,
    remarks: Vec<String>,
}

/// `style`: tables have the characters of the bars.
fn sections(explanation: &Explanation, style: Option<Style>) -> Vec<Section<'_>> {
    let families = explanation.families.iter().map(|family| {
        let stack = family.stack.iter();
        let stack = stack.map(|stack| stack_block(&family.of.columns, stack, style));
        let members = members(family, explanation);
        Section {
            title: words::title(&family.of, family.members.len()),
            sentence: words::of_family(family),
            blocks: stack.chain([(members, Vec::new())]).collect(),
            remarks: Vec::new(),
        }
    });
    // Members of a family are in its table, except if only one comparison was asked for.
    let alone = explanation.comparisons.iter();
    let alone = alone.filter(|it| !explanation.families.iter().any(|family| family.has(it)));
    let alone = alone.filter_map(|it| {
        let reasons = it.reasons.as_ref().ok()?;
        let lacking = it.lacking.join("; ");
        Some(Section {
            title: words::title(&it.of, 0),
            sentence: words::headline(it),
            blocks: blocks(&it.of.columns, reasons, style),
            remarks: match lacking.is_empty() {
                true => Vec::new(),
                false => vec![format!("not known: {lacking}")],
            },
        })
    });
    families.chain(alone).collect()
}

fn blocks<'a>(
    names: &'a (String, String),
    reasons: &'a Reasons,
    style: Option<Style>,
) -> Vec<(Table, Vec<Bar<'a>>)> {
    let stacks = reasons.stacks.iter();
    let mut blocks: Vec<_> = stacks.map(|it| stack_block(names, it, style)).collect();
    if !words::is_fine(reasons) && !reasons.worker.is_empty() {
        blocks.insert(1, (worker_table(names, &reasons.worker, style), Vec::new()));
    }
    if !reasons.work.is_empty() {
        blocks.push((work_table(names, &reasons.work), Vec::new()));
    }
    blocks
}

/// Comparisons without an explanation, by the reason.
fn not_explained(explanation: &Explanation) -> Vec<String> {
    let mut without: Vec<(&String, Vec<&Explained>)> = Vec::new();
    for it in &explanation.comparisons {
        if let Err(why) = &it.reasons {
            entry(&mut without, why).push(it);
        }
    }
    let remark = |(why, all): (&String, Vec<&Explained>)| match all.as_slice() {
        [one] => format!("{}; not explained: {why}", words::title(&one.of, 0)),
        several => format!("{} comparisons are not explained: {why}", several.len()),
    };
    without.into_iter().map(remark).collect()
}

/// The columns of a table of quantities.
fn columns(head: impl Into<String>, (one, other): &(String, String)) -> [Column; 5] {
    [
        Column::left(head).wrap(20),
        Column::right(one).end(8),
        Column::right(other).end(8),
        Column::left("difference").drop(2),
        Column::left("").drop(1),
    ]
}

/// A quantity, with `~` where more of it is uncertain than a share of the whole.
fn row(name: String, quantity: &Quantity, whole: &Quantity) -> Vec<Cell> {
    let paint = (quantity.certainty < Certainty::Certain).then_some(Paint::Dim);
    let figure = |value: f64, uncertain: f64, whole: f64| -> Cell {
        let about = if uncertain > UNCERTAIN * whole {
            "~"
        } else {
            ""
        };
        format!("{about}{}", with_unit(value, quantity.unit)).into()
    };
    vec![
        name.into(),
        figure(quantity.sides.0, quantity.uncertain.0, whole.sides.0),
        figure(quantity.sides.1, quantity.uncertain.1, whole.sides.1),
        Cell::painted(difference(quantity), paint),
        Cell::painted(quantity.certainty.name(), paint),
    ]
}

fn stack_block<'a>(
    names: &'a (String, String),
    stack: &Stack,
    style: Option<Style>,
) -> (Table, Vec<Bar<'a>>) {
    let head = match &stack.of {
        StackOf::Op => "time of an op".to_owned(),
        StackOf::Job(name) => format!("time of an op of {name}"),
        StackOf::Sync((one, other)) if one == other => {
            format!(
                "time of a sync ({} per op)",
                with_unit(*one, SeriesUnit::Number)
            )
        }
        StackOf::Sync(_) => "time of a sync".to_owned(),
        StackOf::Cycle => "time of a cycle".to_owned(),
        StackOf::Background => "device in the background".to_owned(),
    };
    let mut table = Table::new(columns(head, names));
    let mut parts: Vec<&(TimePart, Quantity)> = stack.parts.iter().collect();
    if stack.of == StackOf::Cycle {
        let longest = |it: &Quantity| it.sides.0.max(it.sides.1);
        parts.sort_by(|(_, one), (_, other)| longest(other).total_cmp(&longest(one)));
        parts.truncate(MAX_STEPS);
    }
    let drawn = !matches!(stack.of, StackOf::Cycle | StackOf::Background);
    for (part, it) in &parts {
        let (one, other) = stack.whole.sides;
        if it.sides.0 >= NEGLIGIBLE * one || it.sides.1 >= NEGLIGIBLE * other {
            let name = match style.filter(|_| drawn) {
                Some(style) => format!("{} {}", bars::mark(*part, style), it.words),
                None => it.words.clone(),
            };
            table.row(row(name, it, &stack.whole));
        }
    }
    if parts.len() > 1 {
        table.row(row(stack.whole.words.clone(), &stack.whole, &stack.whole));
    }
    let bars = drawn.then(|| bars::of_sides(names, stack));
    (table, bars.into_iter().flatten().collect())
}

fn worker_table(
    (one, other): &(String, String),
    parts: &[(TimePart, Quantity)],
    style: Option<Style>,
) -> Table {
    let heads = parts.iter().map(|(part, _)| {
        let words = match part {
            TimePart::KernelCpu => "kernel",
            TimePart::UserCpu => "user",
            part => part.words(),
        };
        Column::right(match style {
            Some(style) => format!("{} {words}", bars::mark(*part, style)),
            None => words.to_owned(),
        })
    });
    let name = [Column::left("worker").end(16)].into_iter();
    let bar = style.map(|_| Column::left(""));
    let mut table = Table::new(name.chain(heads).chain(bar));
    let share: [fn(&Quantity) -> f64; 2] = [|it| it.sides.0, |it| it.sides.1];
    for (name, share) in [one, other].into_iter().zip(share) {
        let shares = parts.iter().map(|(part, it)| (*part, share(it)));
        let shares: Vec<(TimePart, f64)> = shares.collect();
        let cells = shares.iter().map(|(_, share)| format!("{share:.0} %"));
        // Twenty characters for 100 %.
        let bar = style.map(|style| bars::characters(&shares, 0.2, style));
        table.row([name.clone()].into_iter().chain(cells).chain(bar));
    }
    table
}

fn work_table(names: &(String, String), work: &[Quantity]) -> Table {
    let mut table = Table::new(columns("work per op", names));
    // What differs comes first.
    let mut rows: Vec<&Quantity> = work.iter().collect();
    rows.sort_by_key(|quantity| std::cmp::Reverse(quantity.certainty));
    for quantity in rows.into_iter().take(MAX_WORK) {
        table.row(row(quantity.words.clone(), quantity, quantity));
    }
    table
}

/// The members of a family.
fn members(family: &ExplainedFamily, explanation: &Explanation) -> Table {
    let (baseline, candidate) = &family.of.columns;
    let mut table = Table::new([
        Column::left("workload").end(20),
        Column::left("speed"),
        Column::right(baseline).end(8),
        Column::right(candidate).end(8),
        Column::left("mostly").wrap(12),
    ]);
    for member in explanation.comparisons.iter().filter(|it| family.has(it)) {
        let (one, other, most) = match &member.reasons {
            Ok(reasons) => {
                let time = |ns| with_unit(ns, reasons.time.unit);
                let most = reasons.most.first().map_or("", |(part, _)| part.words());
                (time(reasons.time.sides.0), time(reasons.time.sides.1), most)
            }
            Err(_) => (String::new(), String::new(), "not explained"),
        };
        let name = words::member(family, member);
        table.row([
            name,
            words::outcome(&member.of),
            one,
            other,
            most.to_owned(),
        ]);
    }
    table
}

/// Lines below verdicts, at most.
const MAX_REASONS: usize = 6;

/// A line for each decided comparison, printed below the verdicts; empty without any. Each ends with a newline.
pub fn reasons(explanation: &Explanation, style: Style) -> String {
    // `iodyno explain` reports what is undecided.
    let families = explanation.families.iter();
    let families = families.filter(|it| it.most.is_some() && it.of.decided());
    let of_families = families
        .clone()
        .map(|it| (&it.of.row, words::of_family(it)));
    let own = explanation.comparisons.iter();
    let own = own.filter(|it| it.reasons.is_ok() && it.of.decided());
    let own = own.filter(|it| !families.clone().any(|family| family.has(it)));
    let all = of_families.chain(own.map(|it| (&it.of.row, headline(it))));
    let mut lines: Vec<String> = all.map(|(row, text)| words::with_row(row, &text)).collect();
    if lines.len() > MAX_REASONS {
        let more = format!("{} more: `iodyno explain`", lines.len() - MAX_REASONS);
        lines.truncate(MAX_REASONS);
        lines.push(more);
    }
    let lines = lines
        .iter()
        .map(|line| style.paragraph(&format!("why: {line}"), 2, None));
    style.plain(&lines.collect::<String>())
}
