//! Parses a text: top-level keys, sets and cycle, and checks that they fit together.

use std::path::Path;

use crate::document::{Located, Report, Section, parse};
use iodyno_model::{
    Action, Arrival, Content, CycleStep, Diagnostic, ErrorPolicy, Job, JobEnd, Operations, Pacing,
    Reporting, Work, Writing,
};
use iodyno_units::Nanos;

use super::check::{self, Places};
use super::sets::{self, sound_name};
use super::{Described, amounts, cycle};

/// Maximum number of threads.
pub(super) const MAX_THREADS: u32 = 4096;

/// Maximum number of threads that create the files of sets.
pub(super) const MAX_SETUP_THREADS: u32 = 256;

/// The keys before the first `[[…]]`.
pub(super) const KEYS: [&str; 15] = [
    "name",
    "about",
    "threads",
    "folders",
    "duration",
    "max-ops",
    "ramp",
    "rate",
    "arrival",
    "drain",
    "compress-percent",
    "chunk",
    "setup-threads",
    "files",
    "cycle",
];

/// Parses a workload of file operations. `source` is the name of the text in messages, and the default name
/// of the workload.
///
/// # Errors
/// All errors of the text, each with its location, in the order of the text.
pub fn read(source: &str, text: &str) -> Result<Described, Vec<Diagnostic>> {
    let mut report = Report::new(source, text);
    let table = parse(text, &mut report);
    let found = read_table(source, &Section::new(&table, 0..0, "the file"), &mut report);
    match found {
        Some(described) if report.errors() == 0 => Ok(described),
        _ => Err(report.into_diagnostics()),
    }
}

/// Reads the table of a workload; `name` is its default name. `None` after an error, which was added to `report`.
pub fn read_table(name: &str, file: &Section<'_>, report: &mut Report<'_>) -> Option<Described> {
    let (source, before) = (name, report.errors());
    file.refuse_unknown(&KEYS, report);
    let name = self::name(source, file, report);
    let about = about(file, report);
    let mut places = Places::new(file.at.clone());
    let sets = sets::read(file, &mut places, report);
    let cycle = cycle::read(file, &sets, &mut places, report);
    let unlinks = |step: &CycleStep| matches!(step.action, Action::Unlink { .. });
    let drain = file.switch("drain", report);
    let operations = Operations {
        about: about.unwrap_or_else(|| amounts::steps(&cycle)),
        // If files are removed, the work is complete only when their space is free.
        drain: drain.unwrap_or_else(|| cycle.iter().any(unlinks)),
        sets,
        cycle,
        own_folders: folders(file, report),
        writing: writing(file, report),
        fio: None,
        command: None,
    };
    let job = job(&name, operations, file, report);
    if !(report.broken || places.incomplete) {
        let end_is_said = ["duration", "max-ops"]
            .iter()
            .any(|key| file.key(key).is_some());
        for fault in check::check(&job, end_is_said) {
            report.push(places.of(fault.step), fault.message, fault.hint);
        }
    }
    let about = job.description.clone();
    (report.errors() == before).then_some(Described { name, about, job })
}

fn name(source: &str, file: &Section<'_>, report: &mut Report<'_>) -> String {
    let allowed = "letters, digits, `_`, `.` and `-`, the first a letter or digit, 100 at most";
    let sound = |name: &str| sound_name(name, &['_', '.', '-']);
    if file.key("name").is_some() {
        let found = file.text("name", report).unwrap_or_else(|| Located {
            value: "nameless".to_owned(),
            at: 0..0,
        });
        if !sound(&found.value) {
            let message = format!("{:?} cannot be a workload's name", found.value);
            report.error(found.at, message, format!("a name has {allowed}"));
        }
        return found.value;
    }
    let stem = Path::new(source).file_stem().and_then(|stem| stem.to_str());
    match stem.filter(|stem| sound(stem)) {
        Some(stem) => stem.to_owned(),
        None => {
            file.miss("name", "\"my_workload\"", report);
            String::new()
        }
    }
}

fn about(file: &Section<'_>, report: &mut Report<'_>) -> Option<String> {
    let found = file.text("about", report)?;
    if found.value.chars().any(char::is_control) {
        let hint = "say in one line what is done and what is timed";
        report.error(found.at, "`about` is more than one line", hint);
        return None;
    }
    Some(found.value)
}

fn folders(file: &Section<'_>, report: &mut Report<'_>) -> bool {
    let words = [("shared", false), ("own", true)];
    let found = file.word("folders", &words, report);
    found.is_some_and(|found| found.value)
}

fn writing(file: &Section<'_>, report: &mut Report<'_>) -> Writing {
    let chunk = file.size("chunk", 1, report);
    if chunk.is_some_and(|chunk| !is_chunk(chunk)) {
        let at = file.key("chunk").unwrap_or_default();
        report.error(at, "`chunk` cannot have this size", CHUNKS);
    }
    let threads = file.count("setup-threads", (1, u64::from(MAX_SETUP_THREADS)), report);
    Writing {
        chunk: chunk.unwrap_or(Writing::CHUNK),
        threads: threads.map(|found| found.value as u32),
    }
}

/// Whether calls can write this number of bytes each.
pub(super) fn is_chunk(bytes: u64) -> bool {
    bytes.is_power_of_two() && bytes <= Writing::CHUNK
}

/// The valid chunks.
pub(super) const CHUNKS: &str = "it is a power of two, at most 1MiB";

fn job(name: &str, operations: Operations, file: &Section<'_>, report: &mut Report<'_>) -> Job {
    let threads = file.count("threads", (1, u64::from(MAX_THREADS)), report);
    let threads = threads.map_or(1, |found| found.value as u32);
    let percent = file.count("compress-percent", (0, 100), report);
    let mut job = new_job(name, operations);
    job.clones = threads;
    job.end = end(file, report);
    job.pacing = pacing(threads, file, report);
    job.buffers.content = content(percent.map_or(0, |found| found.value as u32));
    job
}

/// A job of file operations without an end condition.
pub(crate) fn new_job(name: &str, operations: Operations) -> Job {
    Job {
        name: name.to_owned(),
        description: operations.about.clone(),
        work: Work::FileOperations(operations),
        // A failed step ends all threads: the others would measure a different workload.
        errors: ErrorPolicy {
            exit_all: true,
            ..ErrorPolicy::default()
        },
        reporting: Reporting {
            together: true,
            ..Reporting::default()
        },
        ..Job::default()
    }
}

/// Content of files with this compressible share.
pub(super) fn content(compress_percent: u32) -> Content {
    match compress_percent {
        0 => Content::Random,
        percent => Content::Compressible {
            percent,
            chunk: 0,
            pattern: None,
        },
    }
}

fn end(file: &Section<'_>, report: &mut Report<'_>) -> JobEnd {
    let runtime = file.time("duration", report);
    if runtime == Some(Nanos(0)) {
        let at = file.key("duration").unwrap_or_default();
        report.error(at, "`duration` is 0", "give a time, such as `\"10s\"`");
    }
    let ops = file.count("max-ops", (1, i64::MAX as u64), report);
    JobEnd {
        runtime,
        ops: ops.map(|found| found.value),
        ramp: file.time("ramp", report).unwrap_or_default(),
        ..JobEnd::default()
    }
}

fn pacing(threads: u32, file: &Section<'_>, report: &mut Report<'_>) -> Pacing {
    let rate = file.positive("rate", report);
    let words = [("linear", Arrival::Linear), ("poisson", Arrival::Poisson)];
    let arrival = file.word("arrival", &words, report);
    if let (Some(arrival), None) = (&arrival, file.key("rate")) {
        let hint = "add `rate`, in ops a second of all threads together";
        report.error(
            arrival.at.clone(),
            "`arrival` has no effect without a `rate`",
            hint,
        );
    }
    Pacing {
        ops_per_s: rate.map_or(0.0, |rate| rate.value / f64::from(threads)),
        arrival: arrival.map_or(Arrival::Linear, |found| found.value),
        ..Pacing::default()
    }
}
