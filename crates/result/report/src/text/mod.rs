//! A trial, and lists of runs, for the terminal.

mod bars;
mod describe;
mod layers;
mod list;
mod markup;
mod nodes;
mod operations;
mod remarks;
mod table;
#[cfg(test)]
mod tests;

use iodyno_model::{
    EndedBy, Finding, FindingKind, SteadyMetric, SteadyResult, Step, Summary, Trial, Workload,
};
use iodyno_units::{Nanos, Rate, multiple};

pub use list::{RunRow, list};
pub use markup::{NumberedTrial, trials_markup};
pub use remarks::{on_set_up, remarks};

use remarks::Detail;

use crate::operations::{Cycles, came_to_its_end, completion_ns, cycles, longest};
use crate::style::{Style, left, sanitize, trimmed};
use crate::{course, spark, sysbench};
use iodyno_model::ordered::entry;

/// Width of the label at the beginning of a line, columns.
const LABEL: usize = 9;

/// Below this share, the time for which workers waited for a CPU is not printed.
const MIN_RUN_DELAY: f64 = 0.01;

/// One trial: its workload, rates and latencies, the series, CPU and devices, steps, a latency histogram, its findings,
/// and the kinds of its notes on the set-up.
pub fn trial(
    workload: &Workload,
    trial: &Trial,
    summary: &Summary,
    findings: &[Finding],
    style: Style,
) -> String {
    drawn(workload, trial, summary, findings, Detail::Brief, style)
}

/// The same with every note, and the threshold below each finding.
pub fn trial_in_full(
    workload: &Workload,
    trial: &Trial,
    summary: &Summary,
    findings: &[Finding],
    style: Style,
) -> String {
    drawn(workload, trial, summary, findings, Detail::Full, style)
}

fn drawn(
    workload: &Workload,
    trial: &Trial,
    summary: &Summary,
    findings: &[Finding],
    detail: Detail,
    style: Style,
) -> String {
    let blocks = [
        describe::header(workload, trial, summary, style),
        match workload.runs_once() {
            true => labelled(&[("time", operations::times(summary))], style),
            false => table::table(workload, summary, style),
        },
        facts(workload, summary, trial, findings, style),
        match detail {
            Detail::Full => labelled(
                &[("output", operations::output(workload, summary, trial))],
                style,
            ),
            Detail::Brief => String::new(),
        },
        bars::histogram(summary, style),
        remarks::told(trial, findings, detail, style),
    ];
    style.plain(&trimmed(&blocks.concat()))
}

/// The lines below the table: series, CPU and devices, steps, verification.
fn facts(
    workload: &Workload,
    summary: &Summary,
    trial: &Trial,
    findings: &[Finding],
    style: Style,
) -> String {
    let cycles = cycles(workload, summary);
    let one = |text: String| vec![text];
    // Its time is all that there is.
    let once = workload.runs_once();
    let of_many = |text: String| if once { Vec::new() } else { vec![text] };
    let lines = [
        (
            "op",
            one(cycles
                .as_ref()
                .map_or_else(String::new, |cycles| cycles.times(trial))),
        ),
        ("prints", operations::printed(workload, summary, trial)),
        ("nodes", one(nodes::line(summary, trial))),
        ("sampled", nodes::sampled(summary)),
        ("series", of_many(series(summary, style))),
        ("steady", steady(summary)),
        ("cpu", of_many(cpu(summary, cycles.is_some()))),
        ("server", layers::servers(summary)),
        ("device", one(device(summary))),
        ("layers", layers::layers(summary, trial)),
        ("requests", layers::device_times(summary)),
        ("verify", one(verify(summary))),
        ("syncs", one(syncs(workload, trial, findings))),
        ("steps", one(steps(workload, trial, cycles.as_ref()))),
    ];
    labelled(&lines, style)
}

/// The rows of each of several nodes, and how far apart they started; empty with one node.
pub fn by_node(workload: &Workload, trial: &Trial, summary: &Summary, style: Style) -> String {
    let rows = table::by_node(workload, summary, style);
    if rows.is_empty() {
        return rows;
    }
    let lines = [
        ("nodes", vec![nodes::line(summary, trial)]),
        ("sampled", nodes::sampled(summary)),
    ];
    style.plain(&trimmed(&(rows + &labelled(&lines, style))))
}

/// Lines below a table. Texts that are empty are omitted.
fn labelled(lines: &[(&str, Vec<String>)], style: Style) -> String {
    lines
        .iter()
        .flat_map(|(label, texts)| {
            let texts = texts.iter().filter(|text| !text.is_empty());
            // Only the first of several lines has the label.
            let labels = std::iter::once(*label).chain(std::iter::repeat(""));
            texts.zip(labels)
        })
        .map(|(text, label)| style.wrap(&format!("{}{text}", left(label, LABEL)), LABEL) + "\n")
        .collect()
}

fn series(summary: &Summary, style: Style) -> String {
    let rates: Vec<f64> = summary.series.iter().map(|point| point.iops).collect();
    // A single value is already in the table.
    let line = match rates.len() {
        0 | 1 => String::new(),
        _ => spark::line(&rates, (style.columns() - LABEL).min(40), style),
    };
    let parts = [
        Some(line),
        Some(course::words(&summary.behaviour)),
        ended(summary),
    ];
    join(parts.into_iter().flatten(), "   ")
}

/// For jobs that end when steady: whether they became steady. Equal texts of several clones are printed once.
fn steady(summary: &Summary) -> Vec<String> {
    let results = summary.groups.iter().flat_map(|group| &group.steady);
    let mut lines: Vec<String> = results.map(steady_words).collect();
    lines.dedup();
    lines
}

fn steady_words(result: &SteadyResult) -> String {
    let rule = &result.rule;
    let figure = match rule.metric {
        SteadyMetric::Iops => "IOPS",
        SteadyMetric::Bandwidth => "bandwidth",
        SteadyMetric::Latency => "latency",
    };
    let law = match rule.slope {
        true => "slope",
        false => "largest deviation",
    };
    let amount = |value: f64| match (rule.percent, rule.metric) {
        (true, _) => format!("{value:.3} %"),
        (false, SteadyMetric::Iops) => format!("{value:.1}/s"),
        (false, SteadyMetric::Bandwidth) => format!("{value:.0} B/s"),
        (false, SteadyMetric::Latency) => format!("{value:.0} ns"),
    };
    let window = format!("{law} of {figure} in {}", rule.window);
    let found = match result.criterion {
        Some(criterion) => format!("{window}: {}", amount(criterion)),
        None => format!("{window}: unknown"),
    };
    let limit = format!("limit {}", amount(rule.limit));
    match result.attained_ns {
        Some(at) => format!("attained after {}; {found}, {limit}", Nanos(at)),
        None => format!("not attained; {found}, {limit}"),
    }
}

fn ended(summary: &Summary) -> Option<String> {
    let mut all: Vec<(EndedBy, u32)> = Vec::new();
    for (by, count) in summary.groups.iter().flat_map(|group| &group.ended) {
        *entry(&mut all, *by) += count;
    }
    let word = |by: &EndedBy| match by {
        EndedBy::Runtime => "runtime",
        EndedBy::Size => "size",
        EndedBy::Count => "number of ops",
        EndedBy::Interruption => "interruption",
        EndedBy::Stuck => "stuck storage",
        EndedBy::Error => "an error",
        EndedBy::ExitAll => "another job's end",
        EndedBy::Steady => "steady state",
        EndedBy::NotStarted => "not being started",
    };
    match all.as_slice() {
        [] => None,
        [(by, _)] => Some(format!("ended by {}", word(by))),
        several => {
            let parts = several
                .iter()
                .map(|(by, count)| format!("{} ({count})", word(by)));
            Some(format!("ended by {}", join(parts, ", ")))
        }
    }
}

/// The explanation of the number of fsyncs of shared files, if the counters agree.
fn syncs(workload: &Workload, trial: &Trial, findings: &[Finding]) -> String {
    let told = findings
        .iter()
        .any(|finding| finding.kind == FindingKind::SyncsDominate);
    match workload.jobs.as_slice() {
        [job] if !told => sysbench::explanation(job, trial).unwrap_or_default(),
        _ => String::new(),
    }
}

fn cpu(summary: &Summary, cycles: bool) -> String {
    let cpu = &summary.cpu;
    if cpu.cores() <= 0.0 {
        return String::new();
    }
    let mut text = format!("{:.2} cores", cpu.cores());
    if let (Some(worker), Some(other)) = (cpu.worker_ns_per_op(), cpu.other_ns_per_op()) {
        let [worker, other] = [worker, other].map(|ns| Nanos(ns.round() as u64));
        text += &format!(", {worker}/op (harness +{other})");
    }
    if let Some(share) = cpu.run_delay.filter(|share| *share >= MIN_RUN_DELAY) {
        text += &format!(
            ", workers waited for a CPU {:.0} % of the time",
            share * 100.0
        );
    }
    if let Some(rate) = cpu.iops_per_core() {
        let unit = if cycles {
            "ops/s per core"
        } else {
            "IOPS/core"
        };
        text += &format!(", {} {unit}", Rate(rate));
    }
    text
}

fn device(summary: &Summary) -> String {
    let lowest = summary.devices.iter().filter(|device| device.lowest);
    let several = summary
        .devices
        .iter()
        .any(|device| device.node != summary.devices[0].node);
    let busy = lowest.map(|device| {
        let name = match several {
            true => format!("{} {}", sanitize(&device.node), sanitize(&device.name)),
            false => sanitize(&device.name),
        };
        match device.busy_percent {
            Some(percent) => format!("{name} {percent:.0} % busy"),
            None => format!("{name} {}", layers::NOT_COUNTED),
        }
    });
    let shares = summary.shares.iter().map(|share| {
        let all = format!("{} {} job", share.direction.name(), multiple(share.ratio()));
        // Less than what the jobs moved came from the devices, and others moved the rest.
        match share.caused_ratio() < share.ratio().min(1.0) - 0.1 {
            true => format!(
                "{all}, of these {} by the jobs",
                multiple(share.caused_ratio())
            ),
            false => all,
        }
    });
    join(busy.chain(shares), ", ")
}

fn verify(summary: &Summary) -> String {
    let results: Vec<_> = summary
        .groups
        .iter()
        .filter_map(|group| group.verify.as_ref())
        .collect();
    if results.is_empty() {
        return String::new();
    }
    let checked: u64 = results.iter().map(|result| result.checked).sum();
    let bad: u64 = results.iter().map(|result| result.bad()).sum();
    let unchecked: u64 = results.iter().map(|result| result.unchecked).sum();
    let left_out = match unchecked {
        0 => String::new(),
        unchecked => format!(", {unchecked} not checked"),
    };
    format!("{checked} blocks checked, {bad} bad{left_out}")
}

fn steps(workload: &Workload, trial: &Trial, cycles: Option<&Cycles>) -> String {
    let once = workload.runs_once();
    let set_up = cycles.map_or_else(String::new, |cycles| cycles.set_up(trial));
    let shown = Step::ALL
        .into_iter()
        .filter(|step| !(once && *step == Step::Measure));
    let times = shown.filter_map(|step| {
        let longest = longest(trial, step)?;
        Some(match step {
            Step::LayOut if !set_up.is_empty() => format!("set-up {set_up}"),
            Step::LayOut if workload.only_commands() => format!("prepare {}", Nanos(longest)),
            _ => format!("{} {}", step.name(), Nanos(longest)),
        })
    });
    // Completed work has a completion time, drain included.
    let done = cycles
        .filter(|_| came_to_its_end(trial) && !once)
        .map(|_| format!("complete in {}", Nanos(completion_ns(trial))));
    join(times.chain(done), "   ")
}

fn join(parts: impl Iterator<Item = String>, between: &str) -> String {
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    parts.join(between)
}
