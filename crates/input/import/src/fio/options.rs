//! Dimensions and facts from fio's job options.

use std::collections::BTreeMap;

use iodyno_fio::{TimeUnit, size, time};
use iodyno_model::{Fact, FactClass};

use super::entry::Entry;

/// fio's option, our dimension, and fio's default if it is always the same.
const DIMENSIONS: [(&str, &str, Option<&str>); 6] = [
    ("rw", "rw", Some("read")),
    ("bs", "bs", Some("4k")),
    ("ioengine", "engine", None),
    ("iodepth", "depth", Some("1")),
    ("numjobs", "jobs", Some("1")),
    ("direct", "direct", Some("0")),
];

/// Other spellings of options.
const ALIASES: [(&str, &str); 4] = [
    ("readwrite", "rw"),
    ("blocksize", "bs"),
    ("filesize", "size"),
    ("timeout", "runtime"),
];

/// The location of the I/O, which is not part of the workload.
const TARGET: [&str; 3] = ["filename", "directory", "filename_format"];

/// Options that do not change a result, are recorded in another field, or end a job.
const NOT_FACTS: [&str; 16] = [
    "name",
    "description",
    "group_reporting",
    "stonewall",
    "wait_for",
    "new_group",
    "runtime",
    "timeout",
    "time_based",
    "percentile_list",
    "clat_percentiles",
    "lat_percentiles",
    "log_avg_msec",
    "unlink",
    "output",
    "output-format",
];

fn canonical(name: &str) -> &str {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    alias.map_or(name, |(_, name)| name)
}

/// The pattern, sizes and depths of a job, under our names.
pub(super) fn dimensions(entry: &Entry) -> BTreeMap<String, String> {
    let mut dimensions = BTreeMap::new();
    for (theirs, ours, default) in DIMENSIONS {
        let given = entry.option(theirs).or_else(|| {
            let (alias, _) = ALIASES.iter().find(|(_, name)| *name == theirs)?;
            entry.option(alias)
        });
        let default = default.filter(|_| entry.options_complete);
        let value = match theirs {
            "direct" if given == Some("") => Some("1".to_owned()),
            "numjobs" => given
                .map(str::to_owned)
                .or_else(|| entry.clones.map(|clones| clones.to_string()))
                .or(default.map(str::to_owned)),
            "bs" => given.or(default).map(block_size),
            _ => given.or(default).map(str::to_owned),
        };
        dimensions.extend(value.map(|value| (ours.to_owned(), value)));
    }
    dimensions
}

/// `4096`, `4K`, `4k` → `4k`; a text that is not a single size is unchanged.
fn block_size(text: &str) -> String {
    match size(text, 1024).map(|size| size.bytes) {
        Ok(bytes) if bytes > 0 && bytes % (1 << 20) == 0 => format!("{}m", bytes >> 20),
        Ok(bytes) if bytes > 0 && bytes % (1 << 10) == 0 => format!("{}k", bytes >> 10),
        Ok(bytes) => bytes.to_string(),
        Err(_) => text.to_owned(),
    }
}

/// The program, and every option that could explain a difference.
pub(super) fn facts(entry: &Entry) -> Vec<Fact> {
    let fact = |class, name: &str, value: &str| Fact {
        class,
        name: name.to_owned(),
        value: value.to_owned(),
    };
    let mut facts = Vec::new();
    if let Some(version) = &entry.version {
        let number = version.strip_prefix("fio-").unwrap_or(version);
        facts.push(fact(FactClass::Program, "fio", number));
    }
    for (name, value) in dimensions(entry) {
        facts.push(fact(FactClass::Workload, &name, &value));
    }
    for (name, value) in entry.options.iter().flatten() {
        let name = canonical(name);
        let is_dimension = DIMENSIONS.iter().any(|(theirs, _, _)| *theirs == name);
        let logs = name.starts_with("write_") && name.ends_with("_log");
        if is_dimension || logs || NOT_FACTS.contains(&name) {
            continue;
        }
        let class = match TARGET.contains(&name) {
            true => FactClass::Target,
            false if name == "ramp_time" => FactClass::Ending,
            false => FactClass::Workload,
        };
        let value = if value.is_empty() { "1" } else { value };
        facts.push(fact(class, name, value));
    }
    if entry.options_complete {
        in_own_words(entry, &mut facts);
    }
    facts
}

/// Renames or combines facts as in iodyno's own trials, and adds the defaults of those.
fn in_own_words(entry: &Entry, facts: &mut Vec<Fact>) {
    let workload = |name: &str, value: String| Fact {
        class: FactClass::Workload,
        name: name.to_owned(),
        value,
    };
    if let Some(sync) = sync(entry) {
        facts.retain(|fact| !SYNCS.contains(&fact.name.as_str()));
        facts.push(workload("sync", sync));
    }
    let ramp = entry.option("ramp_time").unwrap_or("0");
    if let Ok(ramp) = time(ramp, TimeUnit::Seconds) {
        facts.retain(|fact| fact.name != "ramp_time");
        let value = match ramp.0 {
            0 => "none".to_owned(),
            ns => format!("{} s", ns as f64 / 1e9),
        };
        facts.push(Fact {
            class: FactClass::Ending,
            ..workload("ramp", value)
        });
    }
    let given = |beginnings: &[&str]| {
        let mut names = entry.options.iter().flatten().map(|(name, _)| name);
        names.any(|name| beginnings.iter().any(|begin| name.starts_with(begin)))
    };
    if !given(&["rate"]) {
        facts.push(workload("rate", "none".to_owned()));
    }
    if !given(&["buffer_", "dedupe_", "zero_buffers"]) {
        facts.push(workload("content", "incompressible".to_owned()));
    }
    // In an own trial, the size is that of all clones.
    let jobs = dimensions(entry)
        .get("jobs")
        .and_then(|jobs| jobs.parse::<u64>().ok());
    if let Some(fact) = facts.iter_mut().find(|fact| fact.name == "size")
        && let Ok(each) = size(&fact.value, 1024)
        && let Some(all) = each.bytes.checked_mul(jobs.unwrap_or(1))
    {
        fact.value = block_size(&all.to_string());
    }
}

/// The options that make up the fact `sync`.
const SYNCS: [&str; 4] = ["sync", "fsync", "fdatasync", "end_fsync"];

/// `fsync=1, end_fsync`, or `none`; `None` if a value has another form.
fn sync(entry: &Entry) -> Option<String> {
    let mut words = Vec::new();
    match entry.option("sync") {
        None | Some("0" | "none") => {}
        Some("" | "1" | "sync") => words.push("O_SYNC".to_owned()),
        Some("dsync") => words.push("O_DSYNC".to_owned()),
        Some(_) => return None,
    }
    for name in ["fsync", "fdatasync"] {
        match entry.option(name).unwrap_or("0").parse::<u32>().ok()? {
            0 => {}
            every => words.push(format!("{name}={every}")),
        }
    }
    if entry.switch("end_fsync") {
        words.push("end_fsync".to_owned());
    }
    Some(match words.is_empty() {
        true => "none".to_owned(),
        false => words.join(", "),
    })
}
