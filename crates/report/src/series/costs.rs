//! What sampling itself cost.

use iodyno_model::SamplerCost;
use iodyno_units::{Nanos, percent};

use crate::columns::{Align, draw};
use crate::style::{Paint, Style};

/// A line with the whole in percent of one core over `span_ns`, and one for each series, the dearest first; empty
/// without costs. Ends with a newline.
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
    let names = ["", "samples", "CPU", "each", "longest", "of a core"];
    let mut lines = vec![names.map(str::to_owned).to_vec()];
    let mut sorted: Vec<&SamplerCost> = costs.iter().collect();
    sorted.sort_by_key(|cost| std::cmp::Reverse(cost.cpu_ns));
    for cost in sorted {
        lines.push(vec![
            cost.kind.name().to_owned(),
            cost.samples.to_string(),
            Nanos(cost.cpu_ns).to_string(),
            Nanos(cost.cpu_ns / cost.samples.max(1)).to_string(),
            Nanos(cost.longest_ns).to_string(),
            share(cost.cpu_ns),
        ]);
    }
    let mut aligns = [Align::Right; 6];
    aligns[0] = Align::Left;
    let head = style.wrap(&head, 2);
    let head: String = head
        .lines()
        .map(|line| style.paint(Paint::Strong, line) + "\n")
        .collect();
    style.plain(&(head + &draw(&lines, &aligns, style)))
}
