//! Converts sysbench's figures to metrics, and adds remarks on their limits.

use iodyno_model::{Figure, ImportedPoint, ImportedTrial, Metric, Unit, Withheld};

use super::preamble::Preamble;
use super::result::Result;
use super::{facts, fsyncs};

const MIB: f64 = (1u64 << 20) as f64;

/// Fills in all data that follow from the output.
pub(super) fn fill(trial: &mut ImportedTrial, preamble: &Preamble, result: &Result) {
    let mode = mode(trial, preamble, result);
    trial.workload = mode.clone().unwrap_or_else(|| "fileio".to_owned());
    rates(trial, result);
    latencies(trial, result);
    let threads = facts::threads(preamble, result);
    facts::fill(trial, preamble, mode.as_deref(), (threads, result));
    facts::ending(trial, preamble, result);
    trial
        .remarks
        .extend(fsyncs::explained(preamble, result, threads));
    series(trial, preamble);
}

/// The test's mode; if it is not printed, derived from figures that only one mode can have.
fn mode(trial: &mut ImportedTrial, preamble: &Preamble, result: &Result) -> Option<String> {
    let moved = |rate: Option<f64>| rate.is_some_and(|rate| rate > 0.0);
    let (reads, writes) = (moved(result.reads), moved(result.writes));
    if let (true, true, Some(read), Some(written)) = (reads, writes, result.reads, result.writes) {
        let ratio = read / written;
        let requested = preamble.ratio.unwrap_or(1.5);
        let fits = (ratio / requested - 1.0).abs() < 0.01;
        let words = if fits { "as" } else { "not" };
        trial.remarks.push(format!(
            "{ratio:.2} reads to a write, {words} file-rw-ratio={requested} has it"
        ));
    }
    if preamble.mode.is_some() {
        return preamble.mode.clone();
    }
    if reads && writes {
        let remark = "the mode is not printed; reads and writes together are rndrw".to_owned();
        trial.remarks.push(remark);
        return Some("rndrw".to_owned());
    }
    None
}

fn rates(trial: &mut ImportedTrial, result: &Result) {
    let figures = &mut trial.figures;
    let mut put = |metric: Metric, value: Option<f64>, derived: Option<&str>| {
        figures.extend(value.map(|value| Figure {
            metric,
            value,
            derived: derived.map(str::to_owned),
        }));
    };
    let used = |value: Option<f64>| value.filter(|value| *value > 0.0);
    let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    let bytes = |mib: Option<f64>| mib.map(|mib| mib * MIB);
    put(
        Metric::iops(Metric::IOPS),
        sum(result.reads, result.writes),
        Some("reads/s + writes/s"),
    );
    put(
        Metric::bandwidth(Metric::BANDWIDTH),
        bytes(sum(result.read_mib, result.written_mib)),
        Some("read + written"),
    );
    put(Metric::iops("read.iops"), used(result.reads), None);
    put(Metric::iops("write.iops"), used(result.writes), None);
    put(Metric::iops("sync.iops"), used(result.fsyncs), None);
    put(
        Metric::bandwidth("read.bandwidth"),
        bytes(used(result.read_mib)),
        None,
    );
    put(
        Metric::bandwidth("write.bandwidth"),
        bytes(used(result.written_mib)),
        None,
    );
}

/// Latencies are printed in hundredths of a millisecond: the rounding error, ms.
const ROUNDING_MS: f64 = 0.005;
/// Relative uncertainty of a printed latency above which a remark states it.
const SURE: f64 = 0.05;
/// Relative uncertainty of a printed latency above which it is withheld.
const UNSURE: f64 = 0.25;

/// Adds the latencies, which are of all kinds of events together.
fn latencies(trial: &mut ImportedTrial, result: &Result) {
    let mean = match (result.sum, result.events) {
        (Some(sum), Some(events)) if sum > 0.0 && events > 0.0 => {
            let derived = "sum ÷ events, which is finer than avg".to_owned();
            Some((sum / events, Some(derived)))
        }
        _ => result.avg.map(|avg| (avg, None)),
    };
    if let Some((ms, derived)) = mean {
        latency(trial, "op.mean".to_owned(), ms, derived);
    }
    for (name, ms) in [("op.min", result.min), ("op.max", result.max)] {
        if let Some(ms) = ms {
            latency(trial, name.to_owned(), ms, None);
        }
    }
    if let Some((percent, ms)) = result.percentile {
        latency(trial, format!("op.p{percent}"), ms, None);
    }
    resolution(trial);
    let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    let all = sum(sum(result.reads, result.writes), result.fsyncs);
    let by_events = result.events.zip(result.total_time);
    if let (Some(all), Some((events, time)), Some(fsyncs)) = (all, by_events, result.fsyncs)
        && fsyncs > 0.0
        && (events / time / all - 1.0).abs() < 0.01
    {
        trial.remarks.push(format!(
            "the latencies are of all {events} events together; {:.0} % of these are fsyncs",
            fsyncs / all * 100.0
        ));
    }
}

fn latency(trial: &mut ImportedTrial, name: String, ms: f64, derived: Option<String>) {
    if ms <= 0.0 {
        trial.withheld.push(Withheld {
            metric: name,
            why: "printed as 0.00 ms, which is anything below 0.005 ms".to_owned(),
        });
        return;
    }
    let share = ROUNDING_MS / ms;
    if derived.is_none() && share > UNSURE {
        let percent = share * 100.0;
        trial.withheld.push(Withheld {
            metric: name,
            why: format!("printed as {ms:.2} ms, which rounding makes uncertain by {percent:.0} %"),
        });
        return;
    }
    trial.figures.push(Figure {
        metric: Metric::time(name),
        value: if derived.is_some() {
            ms * 1e6
        } else {
            (ms * 1e6).round()
        },
        derived,
    });
}

/// Adds a remark on the uncertainty of the printed latencies that were kept.
fn resolution(trial: &mut ImportedTrial) {
    let coarse = |figure: &&Figure| {
        figure.derived.is_none()
            && figure.metric.unit == Unit::Nanos
            && ROUNDING_MS * 1e6 / figure.value > SURE
    };
    let coarse: Vec<String> = trial
        .figures
        .iter()
        .filter(coarse)
        .map(|figure| {
            let percent = ROUNDING_MS * 1e8 / figure.value;
            format!("{} ±{percent:.0} %", figure.metric.name)
        })
        .collect();
    if !coarse.is_empty() {
        trial.remarks.push(format!(
            "latencies are printed to 0.01 ms: {}",
            coarse.join(", ")
        ));
    }
}

/// The progress lines give bytes; the block size converts them to requests.
fn series(trial: &mut ImportedTrial, preamble: &Preamble) {
    if preamble.progress.is_empty() {
        return;
    }
    let Some(block) = preamble.block_bytes.filter(|bytes| *bytes > 0) else {
        let remark = "lines of progress without a block size: no series".to_owned();
        trial.remarks.push(remark);
        return;
    };
    let mut before = 0.0;
    for progress in &preamble.progress {
        if progress.at <= before {
            trial.series.clear();
            let remark = "the lines of progress do not go forward: no series".to_owned();
            trial.remarks.push(remark);
            return;
        }
        trial.series.push(ImportedPoint {
            start_ns: (before * 1e9) as u64,
            end_ns: (progress.at * 1e9) as u64,
            rate: (progress.read + progress.written) * MIB / block as f64,
        });
        before = progress.at;
    }
}
