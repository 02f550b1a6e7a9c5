//! The nodes of a trial with several.

use iodyno_model::{NodeSummary, Summary, Trial};
use iodyno_units::{Nanos, Rate, significant};

use crate::style::sanitize;

/// The line above a node's rows: when it started, and for how long it measured.
pub(super) fn heading(summary: &Summary, node: &NodeSummary) -> String {
    let name = sanitize(&node.name);
    let Some((from_ns, until_ns)) = node.measured_ns else {
        return format!("{name}  measured nothing");
    };
    let starts = summary.nodes.iter().filter_map(|node| node.measured_ns);
    let first_ns = starts.map(|measured| measured.0).min().unwrap_or(from_ns);
    let span = Nanos(until_ns - from_ns);
    match from_ns - first_ns {
        0 => format!("{name}  started first, {span}"),
        later => format!("{name}  started {} later, {span}", Nanos(later)),
    }
}

/// The load of each node that was only sampled.
pub(super) fn sampled(summary: &Summary) -> Vec<String> {
    let lines = summary.sampled.iter().map(|node| {
        let name = sanitize(&node.name);
        match node.busy_cpus() {
            Some(busy) => format!(
                "{name}: {} of {} CPUs busy, I/O wait {:.0} %, steal {:.0} %",
                significant(busy),
                node.cpus,
                node.percent(node.host.iowait_ns),
                node.percent(node.host.steal_ns)
            ),
            None => format!("{name}: its load is unknown"),
        }
    });
    lines.collect()
}

/// How far apart the nodes started and ended, the rate while all of them measured, and the longest time without a
/// completion.
pub(super) fn line(summary: &Summary, trial: &Trial) -> String {
    let spans: Vec<(u64, u64)> = summary
        .nodes
        .iter()
        .filter_map(|node| node.measured_ns)
        .collect();
    let apart = |ends: Vec<u64>| Some(Nanos(ends.iter().max()? - ends.iter().min()?));
    let starts = apart(spans.iter().map(|span| span.0).collect());
    let ends = apart(spans.iter().map(|span| span.1).collect());
    let (Some(starts), Some(ends)) = (starts, ends) else {
        return String::new();
    };
    let working = trial.parts.iter().filter(|part| !part.only_sampled());
    let mut errors: Vec<u64> = working.map(|part| part.clock_error_ns).collect();
    errors.sort_unstable();
    let error: u64 = errors.iter().rev().take(2).sum();
    let mut facts = Vec::new();
    if summary.nodes.len() > 1 {
        facts.push(format!(
            "starts {starts} apart (± {}), ends {ends} apart",
            Nanos(error)
        ));
        facts.extend(summary.common.as_ref().map(|common| {
            format!(
                "{} ops/s while all measured ({})",
                Rate(common.iops),
                Nanos(common.span_ns)
            )
        }));
    }
    let longest = summary
        .nodes
        .iter()
        .max_by_key(|node| node.longest_stall_ns);
    if let Some(node) = longest.filter(|node| node.longest_stall_ns > 0) {
        let mut text = format!(
            "longest time without a completion {} on {}",
            Nanos(node.longest_stall_ns),
            sanitize(&node.name)
        );
        if let Some(all) = &summary.stalls {
            text += &format!(" ({} of at least {}", all.count, Nanos(all.least_ns));
            text += &match summary.nodes.len() {
                1 => ")".to_owned(),
                _ => format!(", {} on several nodes at once)", all.at_once),
            };
        }
        facts.push(text);
    }
    facts.join(", ")
}
