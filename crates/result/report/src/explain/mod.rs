//! Explanations: why one side of a comparison is faster.
//!
//! [`iodyno_model::Explanation`] contains all decisions. A sentence comes first, then the parts of the ratio, then the
//! series that differ and the equations with their residuals. Terminal, Markdown, AsciiDoc and HTML have the same texts
//! and tables.

mod json;
#[cfg(test)]
mod tests;
mod words;

use iodyno_model::{Contrast, Explained, ExplainedFamily, Explanation, Term};

pub use json::json;
pub use words::headline;

use crate::compare::contradiction;
use crate::style::{Paint, Style, trimmed};
use crate::table::{Cell, Column, Markup, Table};
use iodyno_model::ordered::entry;
use words::{
    alike, causes, change, correlation, decided, factor, p, quantity, share, title, with_unit,
};

/// A part that changes the speed by less is left out of tables; JSON has all.
const MIN_FACTOR: f64 = 1.02;

/// Other quantities in a table, at most; JSON has all.
const MAX_SERIES: usize = 12;

/// An explanation for the terminal. Ends with a newline.
pub fn text(explanation: &Explanation, style: Style) -> String {
    let mut text = style.paragraph(&explanation.name, 2, Paint::Strong);
    let Arranged { sections, remarks } = arranged(explanation, true);
    for section in &sections {
        text += "\n";
        text += &style.paragraph(&section.title, 2, Paint::Cyan);
        text += &style.paragraph(&section.sentence, 2, None);
        for table in &section.tables {
            text += &table.draw(style.columns(), style);
        }
        text += &style.warnings(&section.remarks);
    }
    if !remarks.is_empty() {
        text += "\n";
    }
    text += &style.warnings(&remarks);
    if explanation.comparisons.is_empty() && explanation.contradictions.is_empty() {
        text += &style.paragraph("nothing to explain", 0, Paint::Yellow);
    }
    trimmed(&style.plain(&text))
}

/// The same in markup. Ends with a newline.
pub fn markup(explanation: &Explanation, markup: Markup) -> String {
    let mut blocks = Vec::new();
    // Markup has no place for text between the rows of a table.
    let Arranged { sections, remarks } = arranged(explanation, false);
    for section in &sections {
        let title = markup.strong(&markup.escape(&section.title));
        blocks.push(markup.paragraph(&[title, markup.escape(&section.sentence)]));
        blocks.extend(section.tables.iter().map(|table| table.markup(markup)));
        blocks.extend(markup.list(&section.remarks));
    }
    blocks.extend(markup.list(&remarks));
    blocks.join("\n")
}

/// A comparison, or a family of them.
struct Section {
    title: String,
    sentence: String,
    tables: Vec<Table>,
    remarks: Vec<String>,
}

/// The printed parts of an explanation.
struct Arranged {
    sections: Vec<Section>,
    /// Remarks on several comparisons, or on none.
    remarks: Vec<String>,
}

/// Groups what several comparisons share, to be printed once: the first reason of a family, why an explanation is
/// missing, and remarks. `between`: causes are texts between the rows of a table.
fn arranged(explanation: &Explanation, between: bool) -> Arranged {
    let families = explanation.families.iter();
    let families: Vec<&ExplainedFamily> = families.filter(|it| it.common.is_some()).collect();
    let all = explanation.comparisons.iter();
    // The table of a family already covers members without a difference.
    let told = |it: &Explained, family: &ExplainedFamily| {
        let equal = it.explained.is_none() && it.without.is_none();
        let member = it.columns == family.columns && family.members.contains(&it.row);
        family.tells(it) || equal && member
    };
    let alone = all.filter(|it| !families.iter().any(|family| told(it, family)));
    let alone: Vec<&Explained> = alone.collect();
    // Comparisons that nothing can explain, by the reason.
    let mut without: Vec<(Vec<String>, usize)> = Vec::new();
    for it in alone.iter().filter(|it| it.without.is_some()) {
        *entry(&mut without, unexplainable(it)) += 1;
    }
    without.retain(|(_, count)| *count > 1);
    let together = |it: &Explained| without.iter().any(|(lines, _)| *lines == unexplainable(it));
    let alone: Vec<&Explained> = alone.into_iter().filter(|it| !together(it)).collect();
    let own: Vec<Vec<String>> = alone.iter().map(|it| words::remarks(it)).collect();
    let times = |remark: &String| own.iter().filter(|own| own.contains(remark)).count();
    let mut remarks: Vec<String> = Vec::new();
    for remark in own.iter().flatten() {
        let (times, all) = (times(remark), own.len());
        let text = match times == all {
            true => format!("all {all} comparisons: {remark}"),
            false => format!("{times} of {all} comparisons: {remark}"),
        };
        if times > 1 && !remarks.contains(&text) {
            remarks.push(text);
        }
    }
    let of_families = families.iter().map(|family| Section {
        title: words::family_title(family),
        sentence: words::of_family(family),
        tables: vec![members(family, explanation)],
        remarks: Vec::new(),
    });
    let of_comparisons = alone.iter().zip(&own).map(|(it, own)| Section {
        title: title(it),
        sentence: headline(it),
        tables: tables(it, between),
        remarks: own.iter().filter(|it| times(it) == 1).cloned().collect(),
    });
    let sections = of_families.chain(of_comparisons).collect();
    let without = without
        .into_iter()
        .map(|(lines, count)| format!("{count} comparisons are {}", lines.join("; ")));
    let contradictions = explanation.contradictions.iter().map(contradiction);
    let remarks = without.chain(remarks).chain(contradictions).collect();
    Arranged { sections, remarks }
}

/// Why an explanation is missing, and the facts known nevertheless.
fn unexplainable(explained: &Explained) -> Vec<String> {
    let lines = std::iter::once(headline(explained));
    lines.chain(words::remarks(explained)).collect()
}

/// The members of a family, each with its first reason.
fn members(family: &ExplainedFamily, explanation: &Explanation) -> Table {
    let (baseline, candidate) = &family.columns;
    let mut table = Table::new([
        Column::left("").end(20),
        Column::left("speed"),
        Column::left("first reason").wrap(24),
        Column::right("share").drop(1),
        Column::right(baseline).end(8),
        Column::right(candidate).end(8),
    ]);
    let own = explanation.comparisons.iter();
    let own = own.filter(|it| it.columns == family.columns && family.members.contains(&it.row));
    for member in own {
        let told = member.explained.is_some() && !member.is_unexplained();
        let term = member.reasons().next().filter(|_| told);
        let (one, other) = term.map_or((String::new(), String::new()), |term| {
            let value = |of: f64| with_unit(of, term.contrast.unit);
            (
                value(term.contrast.medians.0),
                value(term.contrast.medians.1),
            )
        });
        let reason = match (term, member.explained) {
            (Some(term), _) => quantity(term),
            (None, Some(_)) => "unexplained".to_owned(),
            (None, None) if member.without.is_some() => "not explained".to_owned(),
            (None, None) => words::without_difference(member).to_owned(),
        };
        table.row([
            words::member(family, member),
            words::speed(member),
            reason,
            share(term.and_then(|term| term.share)),
            one,
            other,
        ]);
    }
    table
}

/// The tables of a comparison.
fn tables(explained: &Explained, between: bool) -> Vec<Table> {
    let mut tables = Vec::new();
    let (baseline, candidate) = &explained.columns;
    let columns = || {
        [
            Column::right(baseline).end(8),
            Column::right(candidate).end(8),
            Column::left("change").drop(4),
            Column::right("adj.p").drop(3),
            Column::right("alike").drop(2),
            Column::right("within").drop(1),
        ]
    };
    let figures = |contrast: &Contrast| -> Vec<Cell> {
        let (one, other) = contrast.medians;
        let all = [
            with_unit(one, contrast.unit),
            with_unit(other, contrast.unit),
            change(contrast),
            p(contrast),
            alike(contrast),
            correlation(contrast),
        ];
        all.map(Cell::from).into()
    };
    let shown = |size: f64| size.max(size.recip()) >= MIN_FACTOR;
    let terms = explained.terms.iter();
    let terms: Vec<_> = terms.filter(|term| shown(term.factor.value)).collect();
    if !terms.is_empty() {
        let heads = [
            Column::right("speed"),
            Column::right("share").drop(5),
            Column::left("part of the ratio").wrap(24),
        ];
        let mut table = Table::new(heads.into_iter().chain(columns()));
        for term in terms {
            let paint = match term.share {
                Some(share) if share < 0.0 => Some(Paint::Dim),
                Some(_) if term.explains() => Some(Paint::Strong),
                _ => None,
            };
            let large = term.share.is_none_or(|share| share >= Term::MIN_SHARE);
            let causes = causes(term).filter(|_| large);
            let part = match &causes {
                Some(causes) if !between => format!("{}; {causes}", quantity(term)),
                _ => quantity(term),
            };
            let mut cells = vec![
                factor(term.factor.value).into(),
                share(term.share).into(),
                Cell::painted(part, paint),
            ];
            cells.extend(figures(&term.contrast));
            table.row(cells);
            if let Some(causes) = causes.filter(|_| between) {
                table.text(format!("       {causes}"), 9, Paint::Dim);
            }
        }
        tables.push(table);
    }
    if !explained.series.is_empty() {
        let mut table =
            Table::new(std::iter::once(Column::left("also differs").wrap(24)).chain(columns()));
        for contrast in explained.series.iter().take(MAX_SERIES) {
            let mut cells = vec![Cell::from(contrast.words.as_str())];
            cells.extend(figures(contrast));
            table.row(cells);
        }
        tables.push(table);
    }
    if !explained.identities.is_empty() {
        let mut table = Table::new([
            Column::left("equation").wrap(24),
            Column::left("of").end(8),
            Column::right("left side"),
            Column::right("right side"),
            Column::right("off by"),
        ]);
        for it in &explained.identities {
            let sides = [
                (&it.words[..], baseline, it.residual.0),
                // Only the first row shows the equation.
                ("", candidate, it.residual.1),
            ];
            for ((equation, column, off), (left, right)) in sides.into_iter().zip(it.values) {
                table.row([
                    equation.to_owned(),
                    column.clone(),
                    with_unit(left, it.unit),
                    with_unit(right, it.unit),
                    words::signed_percent(off),
                ]);
            }
        }
        tables.push(table);
    }
    tables
}

/// Lines below verdicts, at most.
const MAX_REASONS: usize = 6;

/// A line for each comparison whose difference has a reason, printed below the verdicts; empty without any. Each ends
/// with a newline.
pub fn reasons(explanation: &Explanation, style: Style) -> String {
    // `iodyno explain` reports what is unexplained or undecided.
    let known = |it: &&Explained| {
        it.explained.is_some() && !it.is_unexplained() && decided(&it.verdict, &it.by_numbers)
    };
    let families = explanation.families.iter();
    let families: Vec<&ExplainedFamily> = families
        .filter(|it| it.common.is_some() && decided(&it.verdict, &it.by_numbers))
        .collect();
    let with_reason = explanation.comparisons.iter().filter(known);
    let with_reason = with_reason.filter(|it| !families.iter().any(|family| family.tells(it)));
    let of_families = families.iter().map(|family| words::family_line(family));
    let lines: Vec<String> = of_families.chain(with_reason.map(words::line)).collect();
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
