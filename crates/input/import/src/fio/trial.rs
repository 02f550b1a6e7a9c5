//! Converts a job of fio's output to an imported trial.

use iodyno_fio::{TimeUnit, time};
use iodyno_model::{
    Fact, FactClass, Figure, ImportedPoint, ImportedTrial, Kind, Metric, Withheld, errno_name,
};
use iodyno_units::Nanos;

use super::entry::{DIRECTIONS, Direction, Entry, Latency};
use super::options::{dimensions, facts};
use super::terse;
use crate::lines::Lines;

/// A percentile needs at least this many ops beyond it; with fewer it depends on chance.
const OPS_BEYOND: f64 = 10.0;

/// The lowest percentile that is kept: percentiles below the median are not compared.
const MIN_PERCENT: f64 = 50.0;

/// From this mean size of an op on, bytes, bandwidth is the primary figure of a job.
const LARGE_OP: f64 = 65_536.0;

/// Converts an entry to a trial.
pub(super) fn trial(entry: &Entry, lines: &Lines<'_>) -> ImportedTrial {
    let mut trial = lines.trial(entry.form, entry.line);
    trial.workload = entry.name.clone();
    trial.dimensions = dimensions(entry);
    if let Some(node) = &entry.node {
        trial.dimensions.insert("node".to_owned(), node.clone());
    }
    trial.remarks = entry.remarks.clone();
    trial.withheld = entry.withheld.clone();
    trial.facts = facts(entry);
    trial.options_complete = entry.options_complete;
    let (kind, ending) = ending(entry);
    trial.kind = kind;
    trial.facts.extend(ending);
    trial.unusable = unusable(entry);
    Figures {
        trial: &mut trial,
        entry,
    }
    .all();
    trial.series = series(entry);
    trial
}

fn unusable(entry: &Entry) -> Option<String> {
    if entry.error != 0 {
        let name = i32::try_from(entry.error)
            .map(errno_name)
            .unwrap_or_default();
        return Some(
            format!("fio says that it failed: error {} {name}", entry.error)
                .trim_end()
                .to_owned(),
        );
    }
    let idle = entry.directions.iter().all(Option::is_none);
    idle.then(|| "fio counted no op in it".to_owned())
}

/// If the runtime reached this share of the limit, the limit ended the job.
const REACHED: f64 = 0.98;

/// What ended the job, derived from the options and the runtime.
fn ending(entry: &Entry) -> (Kind, Vec<Fact>) {
    let requested = entry
        .option("runtime")
        .and_then(|text| time(text, TimeUnit::Seconds).ok())
        .filter(|runtime| runtime.0 > 0);
    let reached = |requested: Nanos| entry.runtime_ns() >= REACHED * requested.0 as f64;
    let kind = match requested {
        Some(requested) if entry.switch("time_based") || reached(requested) => Kind::Timed,
        Some(_) => Kind::Finite,
        None if entry.options_complete => Kind::Finite,
        None => Kind::Unknown,
    };
    let fact = |name: &str, value: String| Fact {
        class: FactClass::Ending,
        name: name.to_owned(),
        value,
    };
    let mut facts = Vec::new();
    match (kind, requested) {
        (Kind::Timed, Some(requested)) => {
            facts.push(fact("duration", requested.to_string()));
            facts.push(fact("ended by", "runtime".to_owned()));
        }
        (Kind::Finite, _) => facts.push(fact("ended by", "size".to_owned())),
        _ => {}
    }
    (kind, facts)
}

/// The rate between successive reports, if there are interim reports.
fn series(entry: &Entry) -> Vec<ImportedPoint> {
    let reports = std::iter::once(&(0.0, 0)).chain(&entry.interim);
    let ends = entry.interim.iter().copied();
    let ends = ends.chain((!entry.interim.is_empty()).then(|| (entry.runtime_ns(), entry.ops())));
    reports
        .zip(ends)
        .filter(|(start, end)| end.0 > start.0 && end.1 >= start.1)
        .map(|(start, end)| ImportedPoint {
            start_ns: start.0 as u64,
            end_ns: end.0 as u64,
            rate: (end.1 - start.1) as f64 / (end.0 - start.0) * 1e9,
        })
        .collect()
}

struct Figures<'t> {
    trial: &'t mut ImportedTrial,
    entry: &'t Entry,
}

impl Figures<'_> {
    fn all(mut self) {
        let several = self.entry.directions.iter().flatten().count() > 1;
        let sum = several.then_some("the sum of its directions");
        let total = |of: fn(&Direction) -> Option<f64>| -> Option<f64> {
            let mut all = self.entry.directions.iter().flatten().peekable();
            all.peek()?;
            all.map(of).sum()
        };
        let (iops, bandwidth) = (total(|d| d.iops), total(|d| d.bandwidth));
        self.add(Metric::iops(Metric::IOPS), iops, sum);
        self.add(Metric::bandwidth(Metric::BANDWIDTH), bandwidth, sum);
        for (name, direction) in DIRECTIONS.iter().zip(&self.entry.directions) {
            if let Some(direction) = direction {
                self.direction(name, direction);
            }
        }
        self.syncs();
        if self.trial.kind == Kind::Finite {
            let runtime = Some(self.entry.runtime_ns()).filter(|ns| *ns > 0.0);
            self.add(Metric::time(Metric::COMPLETION), runtime, None);
        }
        let cpu = self.entry.cpu_percent.zip(self.entry.cpu_span_ns);
        let per_op = cpu.map(|(percent, span)| percent / 100.0 * span / self.entry.ops() as f64);
        let how = "usr_cpu and sys_cpu × job_runtime ÷ ops";
        self.add(
            Metric::time("cpu_per_op"),
            per_op.filter(|ns| ns.is_finite() && *ns > 0.0),
            Some(how),
        );
        self.trial.primary = self.primary().map(str::to_owned);
    }

    fn add(&mut self, metric: Metric, value: Option<f64>, derived: Option<&str>) {
        self.trial.figures.extend(value.map(|value| Figure {
            metric,
            value,
            derived: derived.map(str::to_owned),
        }));
    }

    fn direction(&mut self, name: &str, direction: &Direction) {
        self.add(Metric::iops(format!("{name}.iops")), direction.iops, None);
        let bandwidth = Metric::bandwidth(format!("{name}.bandwidth"));
        self.add(bandwidth, direction.bandwidth, None);
        let (total, completion) = (direction.total.as_ref(), direction.completion.as_ref());
        let Some(whole) = total.or(completion) else {
            return;
        };
        // `lat_percentiles` and `clat_percentiles` select which of the two has percentiles.
        let with_percentiles = [total, completion].into_iter().flatten();
        let of = with_percentiles
            .into_iter()
            .find(|latency| !latency.percentiles.is_empty());
        self.latency(name, whole, of, direction.count());
    }

    fn syncs(&mut self) {
        let Some(sync) = &self.entry.sync else { return };
        let Some(latency) = &sync.latency else { return };
        let ops = sync.ops.unwrap_or(0);
        let rate = ops as f64 / self.entry.runtime_ns() * 1e9;
        let rate = Some(rate).filter(|rate| rate.is_finite() && ops > 0);
        self.add(Metric::iops("sync.iops"), rate, Some("syncs ÷ runtime"));
        self.latency("sync", latency, Some(latency), ops);
    }

    fn latency(&mut self, name: &str, whole: &Latency, percentiles: Option<&Latency>, ops: u64) {
        self.add(Metric::time(format!("{name}.mean")), whole.mean, None);
        let percentiles = percentiles.iter().flat_map(|latency| &latency.percentiles);
        for &(percent, ns) in percentiles {
            if !(MIN_PERCENT..=100.0).contains(&percent) {
                continue;
            }
            let metric = format!("{name}.p{percent}");
            if in_last_bin(ns, whole.max) {
                self.trial.withheld.push(Withheld {
                    metric,
                    why: "it is in fio's last bin, 17.1 s, which holds all longer latencies: a lower limit".to_owned(),
                });
                continue;
            }
            let beyond = (100.0 - percent) / 100.0 * ops as f64;
            if beyond < OPS_BEYOND {
                self.trial.withheld.push(Withheld {
                    metric,
                    why: format!(
                        "{ops} ops, of which {beyond:.1} lie beyond it, fewer than {OPS_BEYOND:.0}: too few for a reliable value"
                    ),
                });
            } else {
                self.add(Metric::time(metric), Some(ns), None);
            }
        }
        self.add(Metric::time(format!("{name}.max")), whole.max, None);
    }

    /// The completion time for finite work, otherwise the rate according to the size of its ops.
    fn primary(&self) -> Option<&'static str> {
        let value = |name: &str| {
            let figure = self
                .trial
                .figures
                .iter()
                .find(|figure| figure.metric.name == name);
            figure.map(|figure| figure.value)
        };
        if value(Metric::COMPLETION).is_some() {
            return Some(Metric::COMPLETION);
        }
        match (value(Metric::IOPS), value(Metric::BANDWIDTH)) {
            (Some(iops), Some(bandwidth)) if bandwidth >= iops * LARGE_OP => {
                Some(Metric::BANDWIDTH)
            }
            (Some(_), _) => Some(Metric::IOPS),
            (None, Some(_)) => Some(Metric::BANDWIDTH),
            (None, None) => None,
        }
    }
}

/// Where fio's last bin of latencies begins, ns. Longer latencies are counted in it.
const LAST_BIN_NS: f64 = (1u64 << 34) as f64 - (1u64 << 27) as f64;
/// Where the last bin would end if it held no longer latencies, ns.
const LAST_BIN_END_NS: f64 = (1u64 << 34) as f64;

/// Whether a percentile is in fio's last bin, and longer latencies may be too. In normal output it is rounded to 1 ms.
fn in_last_bin(ns: f64, max: Option<f64>) -> bool {
    ns >= LAST_BIN_NS - 1e6 && max.is_none_or(|max| max > LAST_BIN_END_NS)
}

/// The remarks that apply to all latencies, each once.
pub(super) fn on_latencies(entries: &[Entry]) -> Vec<String> {
    let has = |latency: &Option<Latency>| latency.as_ref().map(|l| !l.percentiles.is_empty());
    let mixed = |direction: &Direction| {
        has(&direction.total) == Some(false) && has(&direction.completion) == Some(true)
    };
    let any = |form: Option<&str>, test: &dyn Fn(&Direction) -> bool| {
        entries
            .iter()
            .filter(|entry| form.is_none_or(|form| entry.form == form))
            .any(|entry| entry.directions.iter().flatten().any(test))
    };
    let mut remarks = Vec::new();
    if any(None, &mixed) {
        let remark = "fio: means and extremes of latency are of lat (submission included), percentiles of clat \
                      (completion alone), as fio keeps them";
        remarks.push(remark.to_owned());
    }
    if any(Some(terse::FORM), &|d| has(&d.completion) == Some(true)) {
        remarks.push("fio: terse lines give percentiles in whole µs, cut off".to_owned());
    }
    remarks
}
