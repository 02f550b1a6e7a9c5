//! The row at the end of a trial, with explanations.

use iodyno_model::{Course, Direction, Row, Step, Summary, Trial, Workload, errno_name};
use iodyno_units::Nanos;

use super::live::latencies;
use super::optype;
use crate::course;
use crate::digits;
use crate::operations::{self, Cycles};
use crate::style::{Style, left, sanitize, trimmed};

const HEAD: &str = "____optype__elapsed_____ops(total)___ops/sec(cum)__avg(ms)__p50(ms)__p95(ms)__p99(ms)_pMax(ms)";

/// Width of the label at the beginning of a line, columns.
const LABEL: usize = 9;

/// Head and row, then: the share of the op in its cycle, the untimed steps, set-up, drain and completion, the regimes
/// of the rate if there were several, errors. `ops/sec(cum)` is cycles over measured time, untimed steps included. Ends
/// with a newline.
pub fn closing(workload: &Workload, trial: &Trial, summary: &Summary, style: Style) -> String {
    let cycles = operations::cycles(workload, summary);
    let mut text = format!(
        "{HEAD}\n{}\n",
        row(workload, cycles.as_ref().map(|it| it.op))
    );
    if let Some(cycles) = &cycles {
        text += &facts(cycles, trial, summary, style);
    }
    style.plain(&trimmed(&text))
}

fn row(workload: &Workload, op: Option<&Row>) -> String {
    let name = optype(&workload.name);
    let Some(op) = op else {
        return format!(
            "{name}{:>9}{:>15}{:>15}{:>9}{:>9}{:>9}{:>9}{:>9}",
            "0.0s", 0, "0.0", "-", "-", "-", "-", "-"
        );
    };
    let (histogram, _) = op.latency();
    let mean = match histogram.is_empty() {
        true => "-".to_owned(),
        false => digits::ms(histogram.mean_ns()),
    };
    let [p50, p95, p99, max] = latencies(histogram);
    let elapsed = format!("{:.1}s", Nanos(op.result.runtime_ns).secs());
    format!(
        "{name}{elapsed:>9}{:>15}{:>15}{mean:>9}{p50:>9}{p95:>9}{p99:>9}{max:>9}",
        op.result.ops,
        digits::rate(op.iops()),
    )
}

fn facts(cycles: &Cycles, trial: &Trial, summary: &Summary, style: Style) -> String {
    let lines = [
        ("op", op(cycles, trial)),
        ("set-up", cycles.set_up(trial)),
        ("done", done(trial)),
        ("rates", rates(summary)),
        ("errors", errors(cycles)),
    ];
    lines
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(label, text)| style.wrap(&format!("{}{text}", left(label, LABEL)), LABEL) + "\n")
        .collect()
}

fn op(cycles: &Cycles, trial: &Trial) -> String {
    let times = cycles.times(trial);
    match cycles.op.response.is_empty() || times.is_empty() {
        true => times,
        false => format!("{times}. Latencies above: from the intended instant on"),
    }
}

/// `in 12.3 s, of which drain 10.5 s; torn down in 200 ms`.
fn done(trial: &Trial) -> String {
    let drain = operations::longest(trial, Step::Drain);
    let mut parts = Vec::new();
    match (operations::came_to_its_end(trial), drain) {
        (true, drain) => {
            let all = Nanos(operations::completion_ns(trial));
            let drain = drain.map(|ns| format!(", of which drain {}", Nanos(ns)));
            parts.push(format!("in {all}{}", drain.unwrap_or_default()));
        }
        (false, Some(drain)) => parts.push(format!("drained in {}", Nanos(drain))),
        (false, None) => {}
    }
    if let Some(ns) = operations::longest(trial, Step::TearDown) {
        parts.push(format!("torn down in {}", Nanos(ns)));
    }
    parts.join("; ")
}

/// The rates of the regimes: a mean over several regimes has no meaning.
fn rates(summary: &Summary) -> String {
    match summary.behaviour.course {
        Course::Regimes => course::words(&summary.behaviour),
        _ => String::new(),
    }
}

fn errors(cycles: &Cycles) -> String {
    let errors = cycles.group.errors.iter().map(|error| {
        let step = match error.direction {
            Direction::Op => "cycle",
            direction => direction.name(),
        };
        let first = match error.first_file.is_empty() {
            true => String::new(),
            false => format!(", first at {}", sanitize(&error.first_file)),
        };
        format!(
            "{step} {} × {}{first}",
            errno_name(error.errno),
            error.count
        )
    });
    errors.collect::<Vec<_>>().join("; ")
}
