//! Facts about a sysbench run, in fio's terms, so that it can be compared with fio's runs.

use iodyno_model::{Fact, FactClass, Figure, ImportedTrial, Kind, Metric};
use iodyno_units::{Bytes, Nanos, counted, grouped, percent};

use super::preamble::Preamble;
use super::result::Result;

/// Fills in dimensions and facts.
pub(super) fn fill(
    trial: &mut ImportedTrial,
    preamble: &Preamble,
    mode: Option<&str>,
    (threads, result): (Option<u32>, &Result),
) {
    let jobs = threads.map(|threads| threads.to_string());
    if let (None, Some(threads)) = (preamble.threads, threads) {
        trial.remarks.extend(derived_in_words(threads, result));
    }
    let dimensions = [
        ("rw", mode.and_then(pattern).map(str::to_owned)),
        ("bs", preamble.block_bytes.map(block)),
        ("engine", preamble.io_mode.clone()),
        ("jobs", jobs),
    ];
    let size = |bytes: u64| Bytes(bytes).to_string();
    let flags = preamble.open_flags.as_deref();
    let flags = flags.map(|flags| flags.trim_matches(['(', ')']).to_owned());
    let every = preamble.fsync_every;
    let others = [
        ("files", preamble.files.map(|files| files.to_string())),
        ("file size", preamble.file_bytes.map(size)),
        ("size", preamble.total_bytes.map(size)),
        ("open flags", flags),
        ("rate", preamble.rate.map(|rate| format!("{rate} ops/s"))),
        ("fsync-freq", every.map(|every| every.to_string())),
    ];
    let program = match &preamble.version {
        Some(version) => format!("sysbench {version}"),
        None if preamble.ours => "iodyno".to_owned(),
        None => "sysbench".to_owned(),
    };
    trial.facts.push(Fact {
        class: FactClass::Program,
        name: "program".to_owned(),
        value: program,
    });
    for (name, value) in dimensions.iter().chain(&others) {
        trial.facts.extend(value.clone().map(|value| Fact {
            class: FactClass::Workload,
            name: (*name).to_owned(),
            value,
        }));
    }
    for (name, value) in dimensions {
        if let Some(value) = value {
            trial.dimensions.insert(name.to_owned(), value);
        }
    }
}

/// Whether the text is the name of a mode of the test.
pub(crate) fn is_mode(text: &str) -> bool {
    pattern(text).is_some()
}

/// fio's name of a mode.
fn pattern(mode: &str) -> Option<&'static str> {
    Some(match mode {
        "seqrd" => "read",
        "seqwr" | "seqrewr" => "write",
        "rndrd" => "randread",
        "rndwr" => "randwrite",
        "rndrw" => "randrw",
        _ => return None,
    })
}

/// `16k`, as in job files.
fn block(bytes: u64) -> String {
    for (unit, factor) in [("m", 1 << 20), ("k", 1 << 10)] {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    bytes.to_string()
}

/// As printed, or as derived.
pub(super) fn threads(preamble: &Preamble, result: &Result) -> Option<u32> {
    preamble.threads.or_else(|| derived(result))
}

/// The largest difference of a quotient from the number of threads. Numbers are printed with four decimals.
const ROUNDING: f64 = 0.01;

/// The number of threads, from all events ÷ events of a thread or, without these, from the sum of the latencies ÷ the
/// time of a thread in events.
fn derived(result: &Result) -> Option<u32> {
    let quotient = |all: Option<f64>, mean: Option<(f64, f64)>| {
        let threads = all? / mean.filter(|(mean, _)| *mean > 0.0)?.0;
        let whole = threads.round();
        let fits = (1.0..=65536.0).contains(&whole) && (threads / whole - 1.0).abs() <= ROUNDING;
        fits.then_some(whole as u32)
    };
    let busy = result.sum.map(|ms| ms / 1e3);
    quotient(result.events, result.thread_events).or_else(|| quotient(busy, result.thread_time))
}

/// What shows the number of threads: `1 thread: it had all 7 123 125 events, and their latencies add up to 292.3 s in
/// 300.0 s`.
fn derived_in_words(threads: u32, result: &Result) -> Option<String> {
    let events = result.events.zip(result.thread_events);
    let mut shown = events.map(|(all, (mean, deviation))| match threads {
        1 => format!(
            "one had all {} events, with a deviation of {deviation}",
            grouped(all as u64)
        ),
        _ => format!(
            "each had {mean:.0} of {} events in the mean",
            grouped(all as u64)
        ),
    });
    if let (Some(sum), Some(time)) = (result.sum, result.total_time.filter(|time| *time > 0.0)) {
        let sum = sum / 1e3;
        let share = percent(sum / (f64::from(threads) * time));
        let busy = format!(
            "the latencies add up to {sum:.1} s in {time:.1} s, {share} of the time of {}",
            counted(u64::from(threads), "thread")
        );
        shown = Some(shown.map_or(busy.clone(), |shown| format!("{shown}; {busy}")));
    }
    Some(format!(
        "{}: {}",
        counted(u64::from(threads), "thread"),
        shown?
    ))
}

/// Why the printed number of threads cannot be that of the result.
pub(super) fn other_threads(preamble: &Preamble, result: &Result) -> Option<String> {
    let (printed, derived) = (preamble.threads?, derived(result)?);
    (printed != derived).then(|| derived_in_words(derived, result))?
}

/// Whether time or work ended it.
pub(super) fn ending(trial: &mut ImportedTrial, preamble: &Preamble, result: &Result) {
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
    let requested = preamble.requests.filter(|requests| *requests > 0);
    if requested.is_some_and(|requested| {
        result
            .events
            .is_some_and(|events| events >= requested as f64)
    }) {
        trial.kind = Kind::Finite;
        fact("ended by", "number of ops".to_owned());
        fact("duration", format!("{} ops", requested.unwrap_or_default()));
        trial.primary = Some(Metric::COMPLETION.to_owned());
        trial.figures.push(Figure {
            metric: Metric::time(Metric::COMPLETION),
            value: (time * 1e9).round(),
            derived: None,
        });
        return;
    }
    let whole = match preamble.time_ns {
        Some(requested) => requested as f64 / 1e9,
        None => time.round(),
    };
    // A time that is a whole number of seconds was requested: work rarely ends after one by chance.
    if whole >= 1.0 && (time / whole - 1.0).abs() < 0.005 {
        trial.kind = Kind::Timed;
        fact("ended by", "runtime".to_owned());
        fact("duration", Nanos((whole * 1e9) as u64).to_string());
    }
}
