//! What sysbench's figures are in ours, and what they cannot say.

use iodyno_model::{Fact, FactClass, Figure, ImportedPoint, ImportedTrial, Kind, Metric, Withheld};
use iodyno_units::Bytes;

use super::preamble::Preamble;
use super::result::Result;

const MIB: f64 = (1u64 << 20) as f64;
/// sysbench's own defaults, for an output that does not tell.
const DEFAULT_FSYNC_EVERY: f64 = 100.0;
/// Within this share, a printed rate is explained by a computed one.
const EXPLAINED: f64 = 0.005;

/// Fills in everything that follows from the output.
pub(super) fn fill(trial: &mut ImportedTrial, preamble: &Preamble, result: &Result) {
    let mode = mode(trial, preamble, result);
    trial.workload = mode.clone().unwrap_or_else(|| "fileio".to_owned());
    rates(trial, result);
    latencies(trial, result);
    let threads = threads(preamble, result);
    dimensions(trial, preamble, mode, threads);
    ending(trial, preamble, result);
    fsyncs(trial, preamble, result, threads);
    facts(trial, preamble, threads);
    series(trial, preamble);
}

/// The test's mode; where it is not printed, what only one mode can show.
fn mode(trial: &mut ImportedTrial, preamble: &Preamble, result: &Result) -> Option<String> {
    let moved = |rate: Option<f64>| rate.is_some_and(|rate| rate > 0.0);
    let (reads, writes) = (moved(result.reads), moved(result.writes));
    if let (true, true, Some(read), Some(written)) = (reads, writes, result.reads, result.writes) {
        let ratio = read / written;
        let asked = preamble.ratio.unwrap_or(1.5);
        let fits = (ratio / asked - 1.0).abs() < 0.01;
        let words = if fits { "as" } else { "not" };
        trial.remarks.push(format!(
            "{ratio:.2} reads to a write, {words} file-rw-ratio={asked} has it"
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

/// Latencies are printed to a hundredth of a millisecond, over all events together.
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
    let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    let all = sum(sum(result.reads, result.writes), result.fsyncs);
    let by_events = result.events.zip(result.total_time);
    if let (Some(all), Some((events, time)), Some(fsyncs)) = (all, by_events, result.fsyncs)
        && fsyncs > 0.0
        && (events / time / all - 1.0).abs() < 0.01
    {
        trial.remarks.push(format!(
            "the latencies are of all {events} events together, of which {:.0} % are fsyncs",
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
    trial.figures.push(Figure {
        metric: Metric::time(name),
        value: ms * 1e6,
        derived,
    });
}

/// As printed, or all events ÷ those of a thread.
fn threads(preamble: &Preamble, result: &Result) -> Option<u32> {
    let by_events = || {
        let (mean, _) = result.thread_events.filter(|(mean, _)| *mean > 0.0)?;
        let threads = (result.events? / mean).round();
        (1.0..=65536.0).contains(&threads).then_some(threads as u32)
    };
    preamble.threads.or_else(by_events)
}

fn dimensions(
    trial: &mut ImportedTrial,
    preamble: &Preamble,
    mode: Option<String>,
    threads: Option<u32>,
) {
    let size = |bytes: u64| Bytes(bytes).to_string().replace(' ', "");
    let known = [
        ("rw", mode),
        ("bs", preamble.block_bytes.map(size)),
        ("threads", threads.map(|threads| threads.to_string())),
        ("engine", preamble.io_mode.clone()),
    ];
    for (name, value) in known {
        if let Some(value) = value {
            trial.dimensions.insert(name.to_owned(), value);
        }
    }
}

/// Whether time or work ended it.
fn ending(trial: &mut ImportedTrial, preamble: &Preamble, result: &Result) {
    trial.primary = Some(Metric::IOPS.to_owned());
    let Some(time) = result.total_time.filter(|time| *time > 0.0) else {
        return;
    };
    let mut fact = |name: &str, value: String| {
        trial.facts.push(Fact {
            class: FactClass::Ending,
            name: name.to_owned(),
            value,
        });
    };
    let asked = preamble.requests.filter(|requests| *requests > 0);
    if asked.is_some_and(|asked| result.events.is_some_and(|events| events >= asked as f64)) {
        trial.kind = Kind::Finite;
        fact("ended by", "work done".to_owned());
        trial.primary = Some(Metric::COMPLETION.to_owned());
        trial.figures.push(Figure {
            metric: Metric::time(Metric::COMPLETION),
            value: time * 1e9,
            derived: None,
        });
        return;
    }
    let whole = match preamble.time_ns {
        Some(asked) => asked as f64 / 1e9,
        None => time.round(),
    };
    // A time that is a whole number of seconds was asked for: work does not end so by chance.
    if whole >= 1.0 && (time / whole - 1.0).abs() < 0.005 {
        trial.kind = Kind::Timed;
        fact("ended by", "runtime".to_owned());
        fact("duration", format!("{whole:.0} s"));
    }
}

/// How many fsyncs there are, and why so many.
fn fsyncs(trial: &mut ImportedTrial, preamble: &Preamble, result: &Result, threads: Option<u32>) {
    let (Some(reads), Some(writes), Some(printed)) = (result.reads, result.writes, result.fsyncs)
    else {
        return;
    };
    if printed <= 0.0 {
        return;
    }
    if preamble.fsync_each_write {
        if (printed / writes - 1.0).abs() <= EXPLAINED {
            let remark =
                format!("{printed} fsyncs/s: one after each write, as file-fsync-all has it");
            trial.remarks.push(remark);
        }
        return;
    }
    let Some(files) = preamble.files.map(f64::from) else {
        return;
    };
    let every = match preamble.fsync_every {
        None if !preamble.told_fsync => Some(DEFAULT_FSYNC_EVERY),
        told => told,
    };
    let periodic = every.map_or(0.0, |every| (reads + writes) / every * files);
    // Each thread syncs all files at its end.
    let closing = match (result.total_time, threads) {
        (Some(time), Some(threads)) if time > 0.0 => f64::from(threads) * files / time,
        _ => 0.0,
    };
    let explains = |computed: f64| (printed / computed - 1.0).abs() <= EXPLAINED;
    let remark = match every {
        Some(every) if explains(periodic) || explains(periodic + closing) => {
            let told = if preamble.told_fsync {
                ""
            } else {
                " (sysbench's default)"
            };
            format!(
                "{printed} fsyncs/s are explained by fsync-freq={every}{told} × {files} files: every {every} requests, \
                 reads too, bring {files} fsyncs, which makes {periodic:.1}/s"
            )
        }
        None if explains(closing) => format!(
            "{printed} fsyncs/s are those at the end alone: each thread syncs each of the {files} files"
        ),
        _ => format!(
            "{printed} fsyncs/s do not follow from what is known of fsync-freq: {:.1}/s would",
            periodic + closing
        ),
    };
    trial.remarks.push(remark);
}

fn facts(trial: &mut ImportedTrial, preamble: &Preamble, threads: Option<u32>) {
    let size = |bytes: u64| Bytes(bytes).to_string();
    let program = match &preamble.version {
        Some(version) => format!("sysbench {version}"),
        None => "sysbench".to_owned(),
    };
    let flags = preamble.open_flags.as_deref();
    let known = [
        ("block size", preamble.block_bytes.map(size)),
        ("files", preamble.files.map(|files| files.to_string())),
        ("file size", preamble.file_bytes.map(size)),
        ("total size", preamble.total_bytes.map(size)),
        ("threads", threads.map(|threads| threads.to_string())),
        (
            "open flags",
            flags.map(|flags| flags.trim_matches(['(', ')']).to_owned()),
        ),
        ("engine", preamble.io_mode.clone()),
        ("rate", preamble.rate.map(|rate| format!("{rate}/s"))),
        (
            "fsync every",
            preamble
                .fsync_every
                .map(|every| format!("{every} requests")),
        ),
    ];
    let fact = |class, name: &str, value| Fact {
        class,
        name: name.to_owned(),
        value,
    };
    trial
        .facts
        .push(fact(FactClass::Program, "program", program));
    let workload = known
        .into_iter()
        .filter_map(|(name, value)| Some(fact(FactClass::Workload, name, value?)));
    trial.facts.extend(workload);
}

/// The lines of progress give bytes; with the block size they are requests.
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
