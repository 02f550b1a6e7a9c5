//! A comparison to paste, as Markdown, AsciiDoc or HTML.
//!
//! A row is a workload (or whatever the rows are). The baseline has a column, a candidate columns for its median, ratio
//! and verdict.

use iodyno_model::Comparison;

use super::ComparisonFormat;
use super::pivot::flat;
use super::searches::in_markup;
use super::view::{ResultView, Section, ViewModel, view};
use crate::table::{Cell, Column, Markup, Table};

/// A table with conditions above and footnotes below it. Ends with a newline.
pub fn markup(comparison: &Comparison, shown: &ComparisonFormat, markup: Markup) -> String {
    let shown = ComparisonFormat {
        verbose: true,
        ..shown.clone()
    };
    let view = &view(comparison, &shown);
    let mut head = vec![format!(
        "{}: {}",
        markup.strong(&markup.escape(&view.name)),
        markup.escape(&view.conditions.join(", "))
    )];
    let summaries = view.summaries();
    head.extend(view.question.iter().map(|question| markup.prose(question)));
    head.extend(summaries.map(|it| markup.prose(&format!("{}.", it.answer))));
    let mut blocks = vec![markup.paragraph(&head)];
    for section in &view.sections {
        let title = section.title.map(|title| markup.escape(title));
        blocks.extend(title.map(|title| markup.paragraph(&[title])));
        let table = match view.pivots {
            true => flat(view, section),
            false => table(view, section),
        };
        blocks.push(table.markup(markup));
    }
    let footnotes = view.footnotes.iter().enumerate();
    let footnotes = footnotes.map(|(index, text)| format!("({}) {text}", index + 1));
    let facts = [
        ("same", &view.same),
        ("differs", &view.differs),
        ("unknown on one side", &view.unknown),
    ];
    let facts = facts.iter().filter(|(_, facts)| !facts.is_empty());
    let facts = facts.map(|(word, facts)| format!("{word}: {}", facts.join(", ")));
    let remarks = footnotes.chain(facts).chain(view.notes.iter().cloned());
    blocks.extend(markup.list(remarks));
    blocks.extend(in_markup(&comparison.searches, markup));
    if let Some(it) = &view.claims {
        blocks.push(it.markup(markup));
    }
    blocks.join("\n")
}

/// With more candidates, median, ratio and verdict share a cell.
const OWN_COLUMNS: usize = 3;

fn table(view: &ViewModel, section: &Section) -> Table {
    let metric = section.rows.iter().any(|row| row.metric_matters);
    let names = view.dimensions.iter().map(Column::left);
    let metrics = metric.then(|| Column::left("metric"));
    let apart = view.candidates.len() <= OWN_COLUMNS;
    let sides = view.candidates.iter().flat_map(|candidate| {
        let ratio = format!("speed {} ÷ {}", candidate.heading, view.baseline);
        let own = [Column::right(ratio), Column::left("verdict")];
        std::iter::once(Column::right(&candidate.heading)).chain(own.into_iter().filter(|_| apart))
    });
    let baseline = std::iter::once(Column::right(&view.baseline));
    let mut table = Table::new(names.chain(metrics).chain(baseline).chain(sides));
    for row in &section.rows {
        let texts = row.name.iter().chain(metric.then_some(&row.metric));
        let texts = texts
            .chain([&row.baseline])
            .map(|text| Cell::from(text.as_str()));
        let results = row.results.iter().flat_map(|result| cells(result, apart));
        table.row(texts.chain(results));
    }
    table
}

/// The cells of a candidate's columns; joined as `1.12k/s ±4% · 1.66× [1.58, 1.75] · FASTER`.
fn cells(result: &Option<ResultView>, apart: bool) -> Vec<Cell> {
    let Some(result) = result else {
        return vec![Cell::default(); if apart { 3 } else { 1 }];
    };
    let parts = [
        result.median.clone(),
        result.ratio.clone(),
        result.verdict(),
    ];
    let paint = result.tone.paint();
    if apart {
        let [median, ratio, verdict] = parts;
        return vec![median.into(), ratio.into(), Cell::painted(verdict, paint)];
    }
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    vec![Cell::painted(parts.join(" · "), paint)]
}
