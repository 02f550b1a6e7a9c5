//! A comparison to paste, as Markdown, AsciiDoc or HTML.
//!
//! A row is a workload (or whatever the rows are), a column a configuration; a candidate's cell has median, ratio and
//! verdict.

use iodyno_model::Comparison;

use super::ComparisonFormat;
use super::pivot::flat;
use super::searches::in_markup;
use super::view::{ResultView, Section, ViewModel, view};
use crate::table::{Column, Markup, Table};

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
    head.extend(view.question.iter().map(|question| markup.escape(question)));
    head.extend(summaries.map(|it| markup.escape(&format!("{}.", it.answer))));
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

fn table(view: &ViewModel, section: &Section) -> Table {
    let metric = section.rows.iter().any(|row| row.metric_matters);
    let names = view.dimensions.iter().map(Column::left);
    let metrics = metric.then(|| Column::left("metric"));
    let sides = view.candidates.iter().map(|candidate| &candidate.heading);
    let sides = std::iter::once(&view.baseline).chain(sides);
    let mut table = Table::new(names.chain(metrics).chain(sides.map(Column::right)));
    for row in &section.rows {
        let mut texts: Vec<String> = row.name.clone();
        texts.extend(metric.then(|| row.metric.clone()));
        texts.push(row.baseline.clone());
        texts.extend(row.results.iter().map(result));
        table.row(texts);
    }
    table
}

/// `1.12k/s ±4% · 1.66× [1.58, 1.75] · FASTER`
fn result(result: &Option<ResultView>) -> String {
    let Some(result) = result else {
        return String::new();
    };
    let parts = [
        result.median.clone(),
        result.ratio.clone(),
        result.verdict(),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" · ")
}
