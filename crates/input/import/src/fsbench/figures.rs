//! Converts the figures of a file-operation benchmark to metrics, and adds remarks on their limits.

use std::collections::BTreeMap;

use iodyno_model::{Better, Fact, FactClass, Figure, ImportedTrial, Kind, Metric, Unit, Withheld};
use iodyno_units::Nanos;

use super::below::Below;
use super::names;
use super::table::{Named, Printed, Row};

/// The rate is that of the ops if the ops fill at least this share of the time.
const FILLED: f64 = 0.95;
/// The completion time is that of the ops if they fill at least this share of the time.
const MOSTLY: f64 = 0.5;
/// Highest relative uncertainty of figures that are computed from a latency.
const SURE: f64 = 0.05;
/// Half of the last digit of an elapsed time, s, with a margin for its computation.
const ELAPSED_ROUNDING: f64 = 0.051;

/// How a benchmark ended.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    /// Total ops.
    pub(super) ops: f64,
    /// Ops per second over the whole run.
    pub(super) rate: f64,
    row: Option<Row>,
    /// iodyno's lines below the table; empty for other tools.
    below: Below,
}

impl Ended {
    /// From the closing row, or from the `fsbench/` line if there is none.
    pub(super) fn of(row: Option<&Row>, named: Option<&Named>, below: Below) -> Option<Ended> {
        let printed = match (row, named) {
            (Some(row), _) => row.get("ops(total)").zip(row.get("ops/sec(cum)")),
            (None, Some(named)) => Some((named.ops, named.rate)),
            (None, None) => None,
        };
        printed.map(|(ops, rate)| Ended {
            ops,
            rate,
            row: row.cloned(),
            below,
        })
    }

    /// Whether time or work ended it, derived from its name; iodyno's own tables say it.
    fn kind(&self, name: &str) -> Kind {
        match (self.below.is_ours(), self.below.completion_ns()) {
            (true, Some(_)) => Kind::Finite,
            (true, None) => Kind::Timed,
            (false, _) => names::kind(name),
        }
    }

    /// Its duration, s, computed from ops and rate, which are printed with more digits than the time.
    pub(super) fn seconds(&self) -> f64 {
        let printed = self.row.as_ref().map(|row| row.elapsed);
        match printed {
            Some(elapsed) if !self.agrees(elapsed) => elapsed,
            _ if self.rate > 0.0 => self.ops / self.rate,
            _ => printed.unwrap_or(0.0),
        }
    }

    /// Whether ops ÷ rate agrees with the printed time within rounding.
    fn agrees(&self, elapsed: f64) -> bool {
        if self.rate <= 0.0 {
            return false;
        }
        let by_rate = self.ops / self.rate;
        let printed = self
            .row
            .as_ref()
            .and_then(|row| row.printed("ops/sec(cum)"));
        let rounding = printed.map_or(0.0, |printed| printed.rounding());
        (by_rate - elapsed).abs() <= ELAPSED_ROUNDING + by_rate * rounding / self.rate
    }

    /// The largest share of the time that the ops themselves can have taken; `None` without a mean.
    fn filled(&self) -> Option<f64> {
        let mean = self.row.as_ref()?.printed("avg(ms)")?;
        Some(self.rate * (mean.value + mean.rounding()) / 1e3)
    }
}

/// A fact about the work.
pub(super) fn workload_fact(name: &str, value: &str) -> Fact {
    Fact {
        class: FactClass::Workload,
        name: name.to_owned(),
        value: value.to_owned(),
    }
}

/// Fills in a result that consists only of its closing line.
pub(crate) fn of_line(trial: &mut ImportedTrial, name: &str, ops: f64, rate: f64) {
    let ended = Ended {
        ops,
        rate,
        row: None,
        below: Below::default(),
    };
    of_table(trial, name, &ended);
}

/// Adds the figures that follow from the rate of iodyno's own line and the mean of its op, under the names used for
/// tables.
pub(crate) fn of_cycles(trial: &mut ImportedTrial) {
    let value = |name: &str| {
        let mut figures = trial.figures.iter();
        figures
            .find(|figure| figure.metric.name == name)
            .map(|figure| figure.value)
    };
    let (Some(rate), Some(mean_ns)) = (value(Metric::IOPS), value("op.mean")) else {
        return;
    };
    let threads = trial.dimensions.get("threads").map(|it| it.parse::<u32>());
    let Ok(threads) = threads.unwrap_or(Ok(1)) else {
        return;
    };
    if mean_ns <= 0.0 {
        return;
    }
    let whole = f64::from(threads) * 1e9 / mean_ns;
    trial.figures.push(Figure {
        metric: Metric::iops("ops_from_mean"),
        value: whole,
        derived: Some("threads ÷ op.mean".to_owned()),
    });
    let known = names::untimed_work(&trial.workload);
    let untimed = known.unwrap_or(rate < whole * FILLED);
    if untimed {
        // The plain name is the rate of the timed steps, as in own trials.
        trial
            .figures
            .retain(|figure| figure.metric.name != Metric::IOPS);
        for (name, value, derived) in [
            (Metric::IOPS, whole, Some("threads ÷ op.mean".to_owned())),
            (Metric::LOOP_RATE, rate, None),
        ] {
            trial.figures.push(Figure {
                metric: Metric::iops(name),
                value,
                derived,
            });
        }
        trial.primary = Some("op.mean".to_owned());
    }
    let by_completion = match known {
        Some(untimed) => !untimed,
        None => rate >= whole * MOSTLY,
    };
    if trial.kind == Kind::Finite && by_completion {
        trial.primary = Some(Metric::COMPLETION.to_owned());
    }
}

/// Fills in name, kind, figures, facts and remarks.
pub(super) fn of_table(trial: &mut ImportedTrial, name: &str, ended: &Ended) {
    trial.workload = name.to_owned();
    trial.kind = ended.kind(name);
    if names::may_be_cut(name) {
        trial.remarks.push(format!(
            "`{name}` has ten letters, where the table cuts names: it may lack its end"
        ));
    }
    latencies(trial, ended);
    let whole_loop = match ended.filled() {
        Some(filled) => (filled < FILLED).then_some(filled * 100.0),
        None => None,
    };
    let known = names::untimed_work(name);
    if known.unwrap_or(whole_loop.is_some()) {
        of_whole_loop(trial, ended, whole_loop, known.is_none());
    } else {
        of_ops_alone(trial, ended);
        trial.remarks.extend(
            whole_loop.map(|percent| {
                format!("the ops themselves fill at most {percent:.0} % of the time")
            }),
        );
    }
    trial.figures.push(count(ended.ops));
    ended.below.fill(trial);
    facts(trial, ended);
}

/// Adds the figures of a table to a trial whose other figures come from a more precise line.
pub(super) fn beside_line(trial: &mut ImportedTrial, name: &str, ended: &Ended) {
    trial.kind = ended.kind(name);
    ended.below.fill(trial);
    facts(trial, ended);
}

/// The rate of the ops themselves.
fn of_ops_alone(trial: &mut ImportedTrial, ended: &Ended) {
    trial.figures.push(Figure {
        metric: Metric::iops(Metric::IOPS),
        value: ended.rate,
        derived: None,
    });
    trial.primary = Some(Metric::IOPS.to_owned());
    if trial.kind == Kind::Finite {
        completion(trial, ended);
        trial.primary = Some(Metric::COMPLETION.to_owned());
    }
}

/// The rate of a loop that includes more than the op, as a separate metric. `completes`: whether a completion time that
/// consists mostly of the ops is the primary metric.
fn of_whole_loop(trial: &mut ImportedTrial, ended: &Ended, filled: Option<f64>, completes: bool) {
    let share = filled.map_or(String::new(), |percent| {
        format!(", of which the ops themselves fill at most {percent:.0} %")
    });
    trial.figures.push(Figure {
        metric: Metric::iops("loop.iops"),
        value: ended.rate,
        derived: None,
    });
    trial.withheld.push(Withheld {
        metric: Metric::IOPS.to_owned(),
        why: format!("ops/sec(cum) is of the whole loop, untimed work included{share}"),
    });
    trial.remarks.push(format!(
        "ops/sec(cum) {} is of the whole loop, untimed work included{share}: it is to be compared by the time of an op",
        ended.rate
    ));
    trial.primary = Some("op.mean".to_owned());
    if let Some(ns) = ended.below.completion_ns() {
        trial.figures.push(told_completion(ns));
        if completes && filled.is_none_or(|percent| percent >= MOSTLY * 100.0) {
            trial.primary = Some(Metric::COMPLETION.to_owned());
        }
    }
}

/// The time that iodyno prints, including the drain.
fn told_completion(ns: u64) -> Figure {
    Figure {
        metric: Metric::time(Metric::COMPLETION),
        value: ns as f64,
        derived: None,
    }
}

fn completion(trial: &mut ImportedTrial, ended: &Ended) {
    if let Some(ns) = ended.below.completion_ns() {
        trial.figures.push(told_completion(ns));
        return;
    }
    let printed = ended.row.as_ref().map(|row| row.elapsed);
    let derived = match printed {
        Some(elapsed) if !ended.agrees(elapsed) => {
            trial.remarks.push(format!(
                "{} ops at {} a second do not take the {elapsed} s that are printed; completion is what is printed",
                ended.ops, ended.rate
            ));
            None
        }
        Some(_) => {
            Some("ops(total) ÷ ops/sec(cum), which is finer than the elapsed time".to_owned())
        }
        None => Some("ops ÷ ops/sec".to_owned()),
    };
    if ended.seconds() > 0.0 {
        trial.figures.push(Figure {
            metric: Metric::time(Metric::COMPLETION),
            value: ended.seconds() * 1e9,
            derived,
        });
    }
}

fn latencies(trial: &mut ImportedTrial, ended: &Ended) {
    let Some(row) = &ended.row else { return };
    let columns = [
        ("avg(ms)", "op.mean"),
        ("p50(ms)", "op.p50"),
        ("p95(ms)", "op.p95"),
        ("p99(ms)", "op.p99"),
        ("pMax(ms)", "op.max"),
    ];
    // The precision is given by the number of decimals.
    let mut coarse: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (column, name) in columns {
        let Some(ms) = row.printed(column) else {
            continue;
        };
        if ms.value <= 0.0 {
            trial.withheld.push(withheld(name, too_short(ms)));
            continue;
        }
        if ms.unsure() > SURE {
            let words = format!("{name} ±{:.0} %", ms.unsure() * 100.0);
            coarse.entry(ms.decimals).or_default().push(words);
        }
        trial.figures.push(Figure {
            metric: Metric::time(name),
            value: (ms.value * 1e6).round(),
            derived: None,
        });
    }
    for (decimals, words) in coarse {
        let step = Printed {
            value: 0.0,
            decimals,
        }
        .step();
        trial.remarks.push(format!(
            "latencies are printed to {step} ms: {}",
            words.join(", ")
        ));
    }
    // With several threads, the mean does not determine the rate; iodyno's own table can have several threads.
    if let Some(mean) = row.printed("avg(ms)").filter(|_| !ended.below.is_ours()) {
        rate_by_mean(trial, mean);
    }
}

/// The upper limit of a time that was rounded to zero.
fn too_short(ms: Printed) -> String {
    format!(
        "printed as {:.*} ms, which is anything below {} ms",
        ms.decimals,
        ms.value,
        ms.rounding()
    )
}

/// Ops per second if the time had consisted only of ops.
fn rate_by_mean(trial: &mut ImportedTrial, mean: Printed) {
    let name = "ops_from_mean";
    if mean.value <= 0.0 {
        trial
            .withheld
            .push(withheld(name, format!("avg(ms) is {}", too_short(mean))));
    } else if mean.unsure() > SURE {
        let (ms, percent) = (mean.value, mean.unsure() * 100.0);
        let why = format!("avg(ms) is {ms}, which rounding makes uncertain by {percent:.0} %");
        trial.withheld.push(withheld(name, why));
    } else {
        trial.figures.push(Figure {
            metric: Metric::iops(name),
            value: 1e3 / mean.value,
            derived: Some("1000 ÷ avg(ms)".to_owned()),
        });
    }
}

fn withheld(metric: &str, why: String) -> Withheld {
    Withheld {
        metric: metric.to_owned(),
        why,
    }
}

fn count(ops: f64) -> Figure {
    Figure {
        metric: Metric {
            name: "ops".to_owned(),
            unit: Unit::Other("ops".to_owned()),
            better: Better::Higher,
        },
        value: ops,
        derived: None,
    }
}

fn facts(trial: &mut ImportedTrial, ended: &Ended) {
    trial.facts.push(Fact {
        class: FactClass::Program,
        name: "program".to_owned(),
        value: match ended.below.is_ours() {
            true => "iodyno".to_owned(),
            false => "fsbench".to_owned(),
        },
    });
    let ending = |name: &str, value: String| Fact {
        class: FactClass::Ending,
        name: name.to_owned(),
        value,
    };
    match (trial.kind, &ended.row) {
        (Kind::Timed, Some(row)) => {
            trial.facts.push(ending("ended by", "runtime".to_owned()));
            trial.facts.push(ending(
                "duration",
                Nanos((row.elapsed * 1e9) as u64).to_string(),
            ));
        }
        (Kind::Finite, _) => {
            trial
                .facts
                .push(ending("ended by", "number of ops".to_owned()));
            trial
                .facts
                .push(ending("duration", format!("{} ops", ended.ops)));
        }
        _ => {}
    }
}
