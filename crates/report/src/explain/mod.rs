//! Explanations: why one side of a comparison is faster.
//!
//! [`iodyno_model::Explanation`] contains all decisions. A sentence comes first, then the parts of the ratio, then the series that differ and
//! the equations with their residuals. Terminal, Markdown, AsciiDoc and HTML have the same texts and tables.

mod json;
#[cfg(test)]
mod tests;
mod words;

use iodyno_model::{Contrast, Explained, Explanation, Term};

pub use json::json;
pub use words::headline;

use crate::imported::contradiction;
use crate::style::{Paint, Style, trimmed};
use crate::table::{Cell, Column, Markup, Table};
use words::{
    alike, causes, change, correlation, factor, p, quantity, remarks, share, title, with_unit,
};

/// A part that changes the speed by less is left out of tables; JSON has all.
const LEAST_FACTOR: f64 = 1.02;

/// Other quantities in a table, at most; JSON has all.
const MOST_SERIES: usize = 12;

/// An explanation for the terminal. Ends with a newline.
pub fn text(explanation: &Explanation, style: Style) -> String {
    let mut text = style.paragraph(&explanation.name, 2, Paint::Strong);
    for explained in &explanation.comparisons {
        text += "\n";
        text += &style.paragraph(&title(explained), 2, Paint::Cyan);
        text += &style.paragraph(&headline(explained), 2, None);
        for (head, table) in tables(explained) {
            if !head.is_empty() {
                text += &style.paragraph(&head, 2, Paint::Dim);
            }
            text += &table.draw(style.columns(), style);
        }
        for remark in remarks(explained) {
            text += &style.paragraph(&format!("! {remark}"), 2, Paint::Yellow);
        }
    }
    if !explanation.contradictions.is_empty() {
        text += "\n";
    }
    for found in &explanation.contradictions {
        text += &style.paragraph(&format!("! {}", contradiction(found)), 2, Paint::Yellow);
    }
    if explanation.comparisons.is_empty() && explanation.contradictions.is_empty() {
        text += &style.paragraph("nothing to explain", 0, Paint::Yellow);
    }
    trimmed(&style.plain(&text))
}

/// The same in GitHub's Markdown. Ends with a newline.
pub fn markdown(explanation: &Explanation) -> String {
    draw(explanation, Markup::Markdown)
}

/// The same as an AsciiDoc text. Ends with a newline.
pub fn asciidoc(explanation: &Explanation) -> String {
    draw(explanation, Markup::AsciiDoc)
}

/// The same as HTML for the body of a page. Ends with a newline.
pub fn html(explanation: &Explanation) -> String {
    draw(explanation, Markup::Html)
}

fn draw(explanation: &Explanation, markup: Markup) -> String {
    let mut blocks = Vec::new();
    for explained in &explanation.comparisons {
        let title = markup.strong(&markup.escape(&title(explained)));
        blocks.push(markup.paragraph(&[title, markup.escape(&headline(explained))]));
        for (head, table) in tables(explained) {
            if !head.is_empty() {
                blocks.push(markup.paragraph(&[markup.escape(&head)]));
            }
            blocks.push(table.markup(markup));
        }
        let remarks: Vec<String> = remarks(explained)
            .iter()
            .map(|text| markup.escape(text))
            .collect();
        if !remarks.is_empty() {
            blocks.push(markup.list(&remarks));
        }
    }
    let contradictions = explanation.contradictions.iter().map(contradiction);
    let contradictions: Vec<String> = contradictions.map(|text| markup.escape(&text)).collect();
    if !contradictions.is_empty() {
        blocks.push(markup.list(&contradictions));
    }
    blocks.join("\n")
}

/// The tables of a comparison, each with what stands above it.
fn tables(explained: &Explained) -> Vec<(String, Table)> {
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
    let shown = |size: f64| size.max(size.recip()) >= LEAST_FACTOR;
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
            let mut cells = vec![
                factor(term.factor.value).into(),
                share(term.share).into(),
                Cell::painted(quantity(term), paint),
            ];
            cells.extend(figures(&term.contrast));
            table.row(cells);
            let large = term.share.is_none_or(|share| share >= Term::LEAST_SHARE);
            if let Some(causes) = causes(term).filter(|_| large) {
                table.text(format!("       {causes}"), 9, Paint::Dim);
            }
        }
        tables.push((String::new(), table));
    }
    if !explained.series.is_empty() {
        let mut table =
            Table::new(std::iter::once(Column::left("also differs").wrap(24)).chain(columns()));
        for contrast in explained.series.iter().take(MOST_SERIES) {
            let mut cells = vec![Cell::from(contrast.words.as_str())];
            cells.extend(figures(contrast));
            table.row(cells);
        }
        tables.push((String::new(), table));
    }
    if !explained.identities.is_empty() {
        let mut table = Table::new([
            Column::left("equation: left, right side").wrap(30),
            Column::right(baseline).end(8),
            Column::right("right"),
            Column::right("off by"),
            Column::right(candidate).end(8),
            Column::right("right"),
            Column::right("off by"),
        ]);
        for it in &explained.identities {
            let side = |place: usize, off: f64| {
                let (left, right) = it.values[place];
                [
                    with_unit(left, it.unit),
                    with_unit(right, it.unit),
                    words::signed_percent(off),
                ]
            };
            let cells = side(0, it.residual.0)
                .into_iter()
                .chain(side(1, it.residual.1));
            table.row(std::iter::once(it.words.clone()).chain(cells));
        }
        tables.push((String::new(), table));
    }
    tables
}

/// Lines below verdicts, at most.
const MOST_REASONS: usize = 6;

/// A line for each comparison whose difference has a reason, to stand below the verdicts; empty without any. Each ends with a newline.
pub fn reasons(explanation: &Explanation, style: Style) -> String {
    // What is unexplained, such as all of simulated devices, `iodyno explain` tells.
    let known = |it: &&Explained| it.explained.is_some() && !it.is_unexplained();
    let with_reason = explanation.comparisons.iter().filter(known);
    let lines: Vec<String> = with_reason.map(words::line).collect();
    let mut text = String::new();
    for line in lines.iter().take(MOST_REASONS) {
        text += &style.paragraph(line, 2, None);
    }
    if lines.len() > MOST_REASONS {
        let more = format!("why: {} more: `iodyno explain`", lines.len() - MOST_REASONS);
        text += &style.paragraph(&more, 2, None);
    }
    style.plain(&text)
}
