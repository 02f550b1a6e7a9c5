//! The CPU time that sampling took.

use iodyno_model::SamplerCost;
use iodyno_units::{Nanos, percent};

use crate::style::{Paint, Style};
use crate::table::{Column, Table};

/// The CPU time of sampling, as a share of one core over `span_ns`: the total, then a row for each series, the most
/// expensive first. Ends with a newline; empty without costs.
pub fn costs(costs: &[SamplerCost], span_ns: u64, style: Style) -> String {
    if costs.is_empty() {
        return String::new();
    }
    let share = |cpu_ns: u64| match span_ns {
        0 => "-".to_owned(),
        span => percent(cpu_ns as f64 / span as f64),
    };
    let all: u64 = costs
        .iter()
        .fold(0, |sum, cost| sum.saturating_add(cost.cpu_ns));
    let head = format!(
        "sampling took {} of CPU time in {}: {} of one core",
        Nanos(all),
        Nanos(span_ns),
        share(all)
    );
    let numbers = ["samples", "CPU", "each", "longest", "of a core"];
    let columns = std::iter::once(Column::left(""));
    let mut table = Table::new(columns.chain(numbers.map(Column::right)));
    let mut sorted: Vec<&SamplerCost> = costs.iter().collect();
    sorted.sort_by_key(|cost| std::cmp::Reverse(cost.cpu_ns));
    for cost in sorted {
        table.row([
            cost.kind.name().to_owned(),
            cost.samples.to_string(),
            Nanos(cost.cpu_ns).to_string(),
            Nanos(cost.cpu_ns / cost.samples.max(1)).to_string(),
            Nanos(cost.longest_ns).to_string(),
            share(cost.cpu_ns),
        ]);
    }
    style.paragraph(&head, 2, Paint::Strong) + &table.draw(style.columns(), style)
}
