//! The options of a workload as facts: every field of its jobs that is not at its default.
//!
//! The fields are those of the jobs' stored form, so that a new one is a fact without further code. The exceptions
//! are listed in [`defaults`]. A fact has the name of the option of fio that sets the field, as the table of options
//! lists it. An option at its default is not a fact; comparing two own trials fills it in with [`default_option`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use iodyno_model::{
    Access, Blocks, DirectionRate, Engine, EngineKind, Job, Order, Pacing, PerDirection, Replay,
    SharedFiles, SimOptions, SyncPolicy, Work, Workload,
};
use iodyno_units::Nanos;
use serde_json::{Map, Value};

use super::words::{self, Values};

/// Fields that no option of fio sets, or whose facts have another name than the option.
const OTHERS: [(&str, &str); 4] = [
    ("access.block_align", "blockalign"),
    ("access.sequence", "rw suffix"),
    ("files.read_only", "readonly"),
    ("seed", "rand-seed"),
];

/// Means the opposite of its field.
const NO_RANDOM_MAP: &str = "norandommap";

/// The number of files counts, but not their location.
const FILE_NAMES: &str = "filename";

/// The options of each job that are not at their default, as texts by name. If jobs differ, a text lists all of
/// them in their order.
pub(super) fn options(workload: &Workload) -> BTreeMap<String, String> {
    let jobs: Vec<BTreeMap<String, String>> = workload.jobs.iter().map(of_job).collect();
    let names: BTreeSet<&String> = jobs.iter().flat_map(BTreeMap::keys).collect();
    let value = |name: &String| {
        let values = jobs.iter().map(|job| {
            job.get(name)
                .cloned()
                .unwrap_or_else(|| default_option(name))
        });
        Values::of_jobs(values).joined().unwrap_or_default()
    };
    let own = names.iter().map(|name| ((*name).clone(), value(name)));
    own.chain(among_jobs(workload)).collect()
}

/// Properties of several jobs: operations that end a job in addition to its runtime, if the jobs differ in them;
/// which jobs use the same files, by the positions of the jobs. The location of the files is not a fact.
fn among_jobs(workload: &Workload) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let jobs = || workload.jobs.iter();
    if jobs().any(|job| job.end.ops.is_some() && job.end.runtime.is_some()) {
        let ops = jobs().map(|job| {
            let ops = job.end.ops.map(|ops| ops.to_string());
            ops.unwrap_or_else(|| "none".to_owned())
        });
        let ops = Values::of_jobs(ops);
        found.extend((ops.several()).then(|| ("number_ios".to_owned(), ops)));
    }
    let files: Vec<BTreeSet<PathBuf>> = jobs().map(paths).collect();
    let users = |path: &PathBuf| -> Vec<String> {
        let users = files.iter().zip(1..).filter(|(own, _)| own.contains(path));
        users.map(|(_, place)| place.to_string()).collect()
    };
    let mut shared: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for path in files.iter().flatten().collect::<BTreeSet<_>>() {
        let users = users(path);
        if users.len() > 1 {
            *shared.entry(users).or_default() += 1;
        }
    }
    let shared = shared.iter().map(|(users, count)| {
        let files = iodyno_units::counted(*count, "file");
        format!("{files} of jobs {}", users.join(", "))
    });
    found.push(("shared files".to_owned(), Values::of(shared)));
    let told = |(name, values): (String, Values)| Some((name, values.joined()?));
    found.into_iter().filter_map(told).collect()
}

/// The files of a job on blocks as given in it: names, or the format with the name of the job.
fn paths(job: &Job) -> BTreeSet<PathBuf> {
    let Work::Blocks(blocks) = &job.work else {
        return BTreeSet::new();
    };
    let files = &blocks.files;
    let here = [PathBuf::new()];
    let directories = match files.directories.as_slice() {
        [] => &here,
        some => some,
    };
    let names = match files.names.as_slice() {
        [] => vec![files.format.replace("$jobname", &job.name).into()],
        some => some.to_vec(),
    };
    let paths = directories
        .iter()
        .flat_map(|folder| names.iter().map(|name| folder.join(name)));
    paths.collect()
}

/// The value of an option that a job leaves at its default; `none` if there is no value by default.
pub(crate) fn default_option(name: &str) -> String {
    known_default(name).unwrap_or_else(|| "none".to_owned())
}

/// The same by the name of an option of fio; `None` if no field of a job has that name.
pub(crate) fn known_default(name: &str) -> Option<String> {
    let mut job = Job::default();
    job.pacing.check_every = Nanos::SECOND;
    if let Work::Blocks(blocks) = &mut job.work {
        blocks.engine.sim = Some(SimOptions::default());
        blocks.replay = Some(Replay::default());
    }
    let job = stored(&job);
    let fields: Vec<(&str, Value)> = fields_of(name)
        .map(|path| (path, at(&job, path).cloned().unwrap_or(Value::Null)))
        .collect();
    (!fields.is_empty()).then(|| joined(name, &fields))
}

fn of_job(job: &Job) -> BTreeMap<String, String> {
    let mut found = Vec::new();
    differences(&stored(&defaults(job)), &stored(job), "", &mut found);
    let mut by_option: BTreeMap<String, Vec<(&str, Value)>> = BTreeMap::new();
    for (path, value) in &found {
        let name = option_of(path).unwrap_or(path);
        let fields = by_option.entry(name.to_owned()).or_default();
        fields.push((path, value.clone()));
    }
    by_option
        .into_iter()
        .map(|(name, fields)| {
            let text = joined(&name, &fields);
            (name, text)
        })
        .collect()
}

/// The job with every option at its default, except for options that
/// - do not affect the work: how the job was written, the location of its files, the contents of its report;
/// - are contained in other facts: `rw`, `bs`, `engine`, `depth`, `direct`, `jobs`, `size`, `sync`, `rate`,
///   `content`, the end, and all of file operations and shared files but the engine;
/// - have no effect because of the other options.
fn defaults(job: &Job) -> Job {
    let mut rates = job.pacing.rates;
    for rate in [&mut rates.read, &mut rates.write, &mut rates.trim] {
        *rate = DirectionRate {
            least_bytes_per_s: 0,
            least_iops: 0.0,
            ..*rate
        };
    }
    let checked = rates != job.pacing.rates;
    let mut buffers = iodyno_model::Buffers {
        content: job.buffers.content.clone(),
        dedupe_percent: job.buffers.dedupe_percent,
        ..iodyno_model::Buffers::default()
    };
    let mut errors = iodyno_model::ErrorPolicy::default();
    let work = match &job.work {
        Work::Blocks(blocks) => Work::Blocks(default_blocks(blocks)),
        Work::FileOperations(operations) => {
            // The defaults of these workloads.
            buffers.refill = job.buffers.refill;
            errors.exit_all = true;
            Work::FileOperations(operations.clone())
        }
        Work::SharedFiles(shared) => {
            buffers.refill = job.buffers.refill;
            Work::SharedFiles(SharedFiles {
                engine: Engine {
                    kind: EngineKind::Psync,
                    ..default_engine(&shared.engine)
                },
                seed: None,
                ..shared.clone()
            })
        }
    };
    Job {
        name: job.name.clone(),
        description: job.description.clone(),
        place: job.place.clone(),
        clones: job.clones,
        work,
        end: iodyno_model::JobEnd {
            until_full: false,
            steady: None,
            ..job.end.clone()
        },
        pacing: Pacing {
            rates,
            arrival: job.pacing.arrival,
            ops_per_s: job.pacing.ops_per_s,
            check_every: match checked {
                true => Nanos::SECOND,
                false => job.pacing.check_every,
            },
            ..Pacing::default()
        },
        buffers,
        errors,
        logs: job.logs.clone(),
        reporting: job.reporting.clone(),
        options: job.options.clone(),
        inherited: job.inherited.clone(),
        ..Job::default()
    }
}

fn default_blocks(blocks: &Blocks) -> Blocks {
    let own = &blocks.access;
    let random = own.order == Order::Random;
    let default = Blocks::default();
    Blocks {
        engine: default_engine(&blocks.engine),
        access: Access {
            reads: own.reads,
            writes: own.writes,
            trims: own.trims,
            order: own.order,
            block_sizes: own.block_sizes.clone(),
            read_percent: match own.reads && own.writes {
                true => default.access.read_percent,
                false => own.read_percent,
            },
            percent_random: match random {
                true => default.access.percent_random,
                false => PerDirection::all(0),
            },
            // Other distributions, and those with a grid of their own, have no map.
            random_map: match own.distribution == default.access.distribution
                && own.block_align == default.access.block_align
            {
                true => random,
                false => own.random_map,
            },
            sequencer: match own.sequence {
                Some(_) => default.access.sequencer,
                None => own.sequencer,
            },
            ..default.access
        },
        files: iodyno_model::Files {
            directories: blocks.files.directories.clone(),
            format: blocks.files.format.clone(),
            ..default.files
        },
        // The number of bytes of a percentage or of the whole length is known after the trial.
        extent: iodyno_model::Extent {
            size: blocks.extent.size,
            ..default.extent
        },
        sync: SyncPolicy {
            range: None,
            ..blocks.sync
        },
        replay: blocks.replay.as_ref().map(|replay| Replay {
            traces: replay.traces.clone(),
            redirect: replay.redirect.clone(),
            ..Replay::default()
        }),
        ..default
    }
}

fn default_engine(engine: &Engine) -> Engine {
    Engine {
        direct: engine.direct,
        o_sync: engine.o_sync,
        o_dsync: engine.o_dsync,
        depth: engine.depth,
        sim: engine.sim.as_ref().map(|_| SimOptions::default()),
        ..Engine::new(engine.kind, engine.depth)
    }
}

/// The stored form of a job, with the fields of its work added to its own.
fn stored(job: &Job) -> Value {
    // Fails for maps whose keys are not texts; a job has none.
    let mut value = serde_json::to_value(job).unwrap_or_default();
    if let Value::Object(fields) = &mut value
        && let Some(Value::Object(work)) = fields.remove("work")
    {
        for kind in work.into_iter().filter_map(|(_, kind)| match kind {
            Value::Object(kind) => Some(kind),
            _ => None,
        }) {
            fields.extend(kind);
        }
    }
    value
}

/// The fields in which the second value differs from the first, with their paths. A field that has a name is one
/// value, whatever its structure.
fn differences(base: &Value, own: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    if base == own {
        return;
    }
    let named = option_of(path);
    let (Value::Object(one), Value::Object(other), None) = (base, own, named) else {
        found.push((path.to_owned(), own.clone()));
        return;
    };
    let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    for key in keys {
        let below = match path {
            "" => key.clone(),
            path => format!("{path}.{key}"),
        };
        let of = |fields: &Map<String, Value>| fields.get(key).cloned().unwrap_or_default();
        differences(&of(one), &of(other), &below, found);
    }
}

fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.')
        .try_fold(value, |value, field| value.get(field))
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// The option that sets a field. A field without one is a fact under its path.
fn option_of(path: &str) -> Option<&'static str> {
    let other = OTHERS.iter().find(|(field, _)| *field == path);
    match other {
        Some((_, name)) => Some(name),
        None => iodyno_fio::option_of_field(path),
    }
}

/// The fields that an option sets.
fn fields_of(name: &str) -> impl Iterator<Item = &'static str> {
    let others = OTHERS.iter().filter(move |(_, option)| *option == name);
    let fields = iodyno_fio::fields_of_option(name).iter().copied();
    others.map(|(field, _)| *field).chain(fields)
}

/// The value of an option; if several fields form it, each with its name.
fn joined(name: &str, fields: &[(&str, Value)]) -> String {
    let of_field = |(path, value): &(&str, Value)| match (name, value) {
        (NO_RANDOM_MAP, Value::Bool(map)) => text("", &Value::Bool(!map)),
        (FILE_NAMES, Value::Array(files)) => iodyno_units::counted(files.len() as u64, "file"),
        _ => text(last(path), value),
    };
    match (fields, fields_of(name).count()) {
        ([only], 0 | 1) => of_field(only),
        _ => {
            let each = fields.iter().map(|field| {
                let label = match field.0.split_once('.') {
                    Some((_, label)) => label,
                    None => field.0,
                };
                format!("{label} {}", of_field(field))
            });
            each.collect::<Vec<_>>().join(", ")
        }
    }
}

/// A stored value as text: booleans as 0 and 1, times and sizes with their units.
fn text(field: &str, value: &Value) -> String {
    match (field, value) {
        (_, Value::Null) => "none".to_owned(),
        (_, Value::Bool(on)) => u8::from(*on).to_string(),
        (_, Value::String(text)) => text.clone(),
        ("pause" | "spin" | "min" | "max" | "check_every", Value::Number(ns)) => {
            let ns = ns.as_u64().unwrap_or(0);
            format!("{} s", ns as f64 / 1e9)
        }
        ("bytes", Value::Number(bytes)) => words::exact(bytes.as_u64().unwrap_or(0)),
        (_, Value::Number(number)) => number.to_string(),
        (_, Value::Array(values)) => {
            let values: Vec<String> = values.iter().map(|value| text("", value)).collect();
            match values.is_empty() {
                true => "none".to_owned(),
                false => values.join(","),
            }
        }
        (_, Value::Object(fields)) => {
            let mut values: Vec<&Value> = fields.values().collect();
            values.dedup();
            match (fields.contains_key("trim"), values.as_slice()) {
                (true, [one]) => text("", one),
                _ => {
                    let each = fields.iter().map(|(name, value)| match name.as_str() {
                        "bytes" => text(name, value),
                        "percent" if fields.len() == 1 => format!("{} %", text("", value)),
                        _ => format!("{name} {}", text(name, value)),
                    });
                    each.collect::<Vec<_>>().join(", ")
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
