//! A text that says that interrupts are balanced, against its listings of /proc/interrupts.

use super::super::interrupts::{FORM, InterruptCounts, SourceCounts, interrupt_counts};
use super::source::Source;

/// A source with a smaller share of all interrupts does not count.
const MIN_SHARE: f64 = 0.05;

/// What contradicts the statement: the sources that one CPU serves and that have a notable share of all interrupts.
pub(super) fn against(source: &Source<'_>, line: u32) -> Option<(u32, String)> {
    let context = source.lines.context(line);
    let nearest = context.headings.last().map(|heading| heading.line);
    let tables = source
        .tables
        .iter()
        .filter(|table| table.form == FORM && source.is_below(table.at.line, nearest));
    let mut tables = tables;
    tables.find_map(|table| {
        let InterruptCounts {
            sources,
            total,
            since,
            ..
        } = interrupt_counts(table, source.tables);
        // The queues of one device can have a CPU each.
        let is_queue =
            |it: &SourceCounts| sources.iter().any(|other| it.is_queue_of_the_same(other));
        let alone = sources
            .iter()
            .filter(|it| it.is_on_one_cpu() && it.total >= MIN_SHARE * total && !is_queue(it));
        let alone: Vec<String> = alone.map(SourceCounts::in_words).collect();
        let shown = || {
            format!(
                "{since}, one CPU received nearly all interrupts of {} of {} sources: {}",
                alone.len(),
                sources.len(),
                alone.join("; ")
            )
        };
        (!alone.is_empty()).then(|| (table.at.line, shown()))
    })
}
