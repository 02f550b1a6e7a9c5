//! A shell command as the work of a workload.

use crate::check::Keyed;
use crate::document::{Node, Report, Table};
use iodyno_model::{
    Action, Better, CycleStep, Job, JobEnd, Metric, Operations, OutputMetric, OutputSource,
    ShellCommand, Unit, Workload, Writing,
};
use iodyno_units::Nanos;
use regex::RegexBuilder;

use crate::fileops::new_job;
use crate::keys::OUTPUT;

/// The keys of a workload that belong to `command`.
const KEYS: [&str; 6] = [
    "prepare", "cleanup", "repeat", "may_fail", "timeout", "metric",
];

/// Units of numbers in outputs, with the unit and the factor of the metric.
const UNITS: [(&str, Unit, u64); 13] = [
    ("/s", Unit::OpsPerSecond, 1),
    ("ns", Unit::Nanos, 1),
    ("us", Unit::Nanos, 1_000),
    ("ms", Unit::Nanos, 1_000_000),
    ("s", Unit::Nanos, 1_000_000_000),
    ("min", Unit::Nanos, 60_000_000_000),
    ("B/s", Unit::BytesPerSecond, 1),
    ("kB/s", Unit::BytesPerSecond, 1_000),
    ("MB/s", Unit::BytesPerSecond, 1_000_000),
    ("GB/s", Unit::BytesPerSecond, 1_000_000_000),
    ("KiB/s", Unit::BytesPerSecond, 1 << 10),
    ("MiB/s", Unit::BytesPerSecond, 1 << 20),
    ("GiB/s", Unit::BytesPerSecond, 1 << 30),
];

/// The names of the metrics that the commands of a text print.
pub(crate) fn printed(file: &Table) -> Vec<String> {
    let tables = |table: &Table, key: &str| table.get(key).and_then(Node::as_table).cloned();
    let workloads = tables(file, "workload").unwrap_or_default();
    let workloads = workloads.entries.iter();
    let metrics = workloads.filter_map(|entry| tables(entry.node.as_table()?, "metric"));
    metrics
        .flat_map(|metrics| metrics.entries.into_iter().map(|entry| entry.key))
        .collect()
}

/// Reports keys of commands in a workload without a command.
pub(crate) fn refuse(keyed: &Keyed<'_>, report: &mut Report<'_>) {
    for key in KEYS {
        if let Some(at) = keyed.at(key) {
            let message = format!("`{key}` has no effect without `command`");
            report.error(
                at,
                message,
                "leave it out, or make a workload with `command`",
            );
        }
    }
}

/// The workload of a section with `command`. `None` after an error, which was reported.
pub(crate) fn read(
    job: &str,
    duration: Option<Nanos>,
    keyed: &Keyed<'_>,
    report: &mut Report<'_>,
) -> Option<Workload> {
    let before = report.errors();
    let mut line = |key: &str| {
        let text = keyed.text(key, report)?;
        if text.value.trim().is_empty() || text.value.contains('\0') {
            let message = format!("`{key}` is not a command");
            report.error(
                text.at,
                message,
                "give the words as in a shell, or leave it out",
            );
            return None;
        }
        Some(text.value)
    };
    let (run, prepare, cleanup) = (line("command"), line("prepare"), line("cleanup"));
    let metrics = metrics(keyed, report);
    let command = ShellCommand {
        run: run?,
        prepare,
        cleanup,
        metrics,
        may_fail: keyed.switch("may_fail", report).unwrap_or(false),
        timeout: keyed.time("timeout", report),
    };
    let repeat = keyed.count("repeat", report);
    let place = keyed.at("command").map(|at| report.place(at));
    let end = JobEnd {
        runtime: duration,
        ops: repeat.or(duration.is_none().then_some(1)),
        ..JobEnd::default()
    };
    let mut workload = workload(job, command, end);
    workload.jobs[0].place = place;
    (report.errors() == before).then_some(workload)
}

/// A workload that runs a command. Its only job has its name.
pub fn workload(name: &str, command: ShellCommand, end: JobEnd) -> Workload {
    let operations = Operations {
        about: command.run.clone(),
        sets: Vec::new(),
        cycle: vec![CycleStep {
            action: Action::Run,
            timed: true,
        }],
        own_folders: false,
        drain: false,
        writing: Writing::default(),
        fio: None,
        command: Some(command),
    };
    let job = Job {
        end,
        ..new_job(name, operations)
    };
    Workload::new(name, Vec::new(), vec![job])
}

fn metrics(keyed: &Keyed<'_>, report: &mut Report<'_>) -> Vec<OutputMetric> {
    let Some(table) = keyed.value("metric").and_then(Node::as_table) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in &table.entries {
        let Some(own) = entry.node.as_table() else {
            continue;
        };
        if let Err((message, hint)) = fit_name(&entry.key) {
            report.error(entry.key_at.clone(), message, hint);
        }
        let own = Keyed::within(own, entry.node.at.clone(), "metric", OUTPUT);
        let source = source(&own, report);
        let better = match own.word("better", report) {
            Some("more") => Better::Higher,
            Some(_) => Better::Lower,
            None => {
                if own.value("better").is_none() {
                    let message = format!("`metric.{}` lacks `better`", entry.key);
                    let hint = "add `better = \"more\"` or `better = \"less\"`";
                    report.error(own.whole(), message, hint);
                }
                Better::Lower
            }
        };
        let unit = own.text("unit", report).map(|unit| unit.value);
        let (unit, factor) = unit_of(&unit.unwrap_or_default());
        let metric = Metric {
            name: entry.key.clone(),
            unit,
            better,
        };
        found.extend(source.map(|source| OutputMetric {
            metric,
            factor,
            source,
        }));
    }
    found
}

fn unit_of(name: &str) -> (Unit, u64) {
    let known = UNITS.iter().find(|(known, ..)| *known == name);
    match known {
        Some((_, unit, factor)) => (unit.clone(), *factor),
        None => (Unit::Other(name.to_owned()), 1),
    }
}

/// An error and its remedy.
type Fault = (String, &'static str);

fn fit_name(name: &str) -> Result<(), Fault> {
    let fit = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if name.is_empty() || !name.bytes().all(fit) {
        let message = format!("`{name}` cannot be the name of a metric");
        return Err((message, "use letters, digits, `_` and `-`"));
    }
    if Metric::is_own(name) || name == Metric::EVERY {
        let message = format!("trials have a metric `{name}` of their own");
        return Err((message, "choose another name"));
    }
    Ok(())
}

fn valid_regex(pattern: &str) -> Result<(), String> {
    let built = RegexBuilder::new(pattern).multi_line(true).build();
    built.map_err(|why| format!("`{pattern}` is not a regular expression: {why}"))?;
    Ok(())
}

/// A number without a unit in the output of a command: its name, regular expression, and which values are better.
///
/// # Errors
/// The name or the expression is not valid, with the remedy.
pub fn printed_number(name: &str, regex: &str, better: Better) -> Result<OutputMetric, Fault> {
    fit_name(name)?;
    valid_regex(regex).map_err(|message| (message, "escape special characters with `\\`"))?;
    let (unit, factor) = unit_of("");
    Ok(OutputMetric {
        metric: Metric {
            name: name.to_owned(),
            unit,
            better,
        },
        factor,
        source: OutputSource::Regex(regex.to_owned()),
    })
}

fn source(own: &Keyed<'_>, report: &mut Report<'_>) -> Option<OutputSource> {
    match (own.text("regex", report), own.text("json", report)) {
        (Some(regex), None) => match valid_regex(&regex.value) {
            Ok(()) => Some(OutputSource::Regex(regex.value)),
            Err(message) => {
                let hint = "escape `\\` in TOML, or write the expression in single quotes";
                report.error(regex.at, message, hint);
                None
            }
        },
        (None, Some(json)) => {
            if !(json.value.is_empty() || json.value.starts_with('/')) {
                let message = format!("`{}` is not a JSON pointer", json.value);
                report.error(json.at, message, "begin it with `/`: `/jobs/0/iops`");
                return None;
            }
            Some(OutputSource::Json(json.value))
        }
        (regex, json) => {
            let given = ["regex", "json"].map(|key| own.value(key).is_some());
            // A value of the wrong kind was reported.
            if given[0] == given[1] && regex.is_some() == json.is_some() {
                let message = "a metric has either `regex` or `json`";
                let hint = "add `regex = 'tps = ([0-9.]+)'`";
                report.error(own.whole(), message, hint);
            }
            None
        }
    }
}
