//! Facts: attributes of a trial that could explain a difference in its figures.
//!
//! Names are stable, values are text, and unknown facts are left out. Identity is not a fact: mount points,
//! names of partitions, loops and mappings, and UUIDs differ between any two configurations of one host and
//! explain nothing. The kernel name of a disk is kept, because another disk can explain a difference. Mount
//! options of one kind of file system are a fact of their own (`ext4 options`), so that the common options can
//! be compared between kinds.

use iodyno_model::{
    CloneResult, Configuration, DeviceLayer, EndedBy, Environment, Fact, FactClass, FilePolicy,
    Job, Kind, Layer, MountInfo, Operations, SharedFiles, SharedMode, SimRecords, StackLayer,
    TargetInfo, Trial, Work, Workload,
};
use iodyno_units::{Bytes, Nanos};

use super::options::options;
use super::words::{self, Values};
use crate::{devices, work};

/// How full the file systems of the targets are, in percent.
pub(crate) const FULLNESS: &str = "fullness";

/// Whether the host was idle, with empty caches, before the trial.
pub(crate) const SETTLED: &str = "settled";
/// Whether requests at block devices were traced, which costs CPU time.
pub(crate) const TRACED: &str = "requests traced";

/// Options that the kernel's mount layer handles for every file system.
const COMMON_OPTIONS: [&str; 16] = [
    "async",
    "dirsync",
    "lazytime",
    "mand",
    "noatime",
    "nodev",
    "nodiratime",
    "noexec",
    "nosuid",
    "nosymfollow",
    "relatime",
    "ro",
    "rw",
    "strictatime",
    "sync",
    "discard",
];

/// Options that identify a mount and do not change its behaviour.
const IDENTITY_OPTIONS: [&str; 6] = ["fsid", "fsname", "subvol", "subvolid", "uuid", "fd"];

/// Queue settings of a lowest device that change its service, by sysfs name and by fact name.
const QUEUE: [(&str, &str); 6] = [
    ("write_cache", "write cache"),
    ("rotational", "rotational"),
    ("nr_requests", "nr_requests"),
    ("read_ahead_kb", "read_ahead_kb"),
    ("max_sectors_kb", "max_sectors_kb"),
    ("wbt_lat_usec", "wbt_lat_usec"),
];

pub(super) fn facts(workload: &Workload, trial: &Trial, kind: Kind) -> Vec<Fact> {
    let mut found = Vec::new();
    target(workload, trial, &mut found);
    host(trial, &mut found);
    work(workload, trial, &mut found);
    ending(workload, trial, kind, &mut found);
    found
}

/// Adds a fact unless it is unknown.
fn add(found: &mut Vec<Fact>, class: FactClass, name: &str, values: Values) {
    if let Some(value) = values.joined() {
        found.push(Fact {
            class,
            name: name.to_owned(),
            value: without_tokens(&value),
        });
    }
}

fn environments(trial: &Trial) -> impl Iterator<Item = &Environment> + Clone {
    trial.parts.iter().map(|part| &part.environment)
}

fn target(workload: &Workload, trial: &Trial, found: &mut Vec<Fact>) {
    let targets = || environments(trial).flat_map(|environment| &environment.targets);
    let mut add = |name: &str, values| add(found, FactClass::Target, name, values);
    add("file system", Values::of(targets().map(file_system)));
    add("stack", Values::of(targets().map(stack)));
    // The layer that the jobs use: layers below the file of a loop device are counted as devices.
    let mounts = || targets().filter_map(top_mount);
    add(
        "mount options",
        Values::of(mounts().map(|mount| mount_options(mount, true))),
    );
    let mut kinds: Vec<&str> = mounts().map(|mount| mount.file_system.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let own = mounts().filter(|mount| mount.file_system == kind);
        let values = Values::of(own.map(|mount| mount_options(mount, false)));
        add(&format!("{kind} options"), values);
    }
    let own = own_bytes(workload, trial);
    let fullness = mounts().filter_map(|mount| fullness(mount, own));
    add(FULLNESS, Values::of(fullness));
    let lowest = || trial.parts.iter().flat_map(lowest_layers);
    add("device", Values::of(lowest().map(device)));
    add(
        "scheduler",
        Values::of(targets().map(|target| of_devices(target, |d| Some(&d.scheduler)))),
    );
    for (key, name) in QUEUE {
        add(
            name,
            Values::of(targets().map(|target| of_devices(target, |d| d.queue.get(key)))),
        );
    }
}

/// How the target was made: its layers from the top down, and each option of a layer (`zfs.properties.compression`).
/// Where it was made is not a fact.
pub(super) fn made(configuration: &Configuration) -> Vec<Fact> {
    let mut found = Vec::new();
    let mut add = |name: &str, value: String| {
        let values = Values::of(std::iter::once(value));
        add(&mut found, FactClass::Target, name, values);
    };
    if let Some(simulated) = configuration.simulated() {
        add("simulated target", simulated.to_string());
        let policy = simulated.policy().unwrap_or("none");
        add("mirror.policy", policy.to_owned());
        add("mirror.queues", simulated.queues.to_string());
        add("sim.stripe", exact_size(simulated.stripe));
        add("sim.aggregation", exact_size(simulated.aggregation));
        let records = |value: fn(&SimRecords) -> u64| match &simulated.records {
            Some(records) => exact_size(value(records)),
            None => "none".to_owned(),
        };
        add("sim.record", records(|records| records.length));
        add("sim.prefetch", records(|records| records.prefetch));
    }
    let Some(provision) = configuration.provision() else {
        return found;
    };
    let kinds: Vec<&str> = provision.layers.iter().map(Layer::kind).collect();
    add("layers", kinds.join(" on "));
    for (layer, kind) in provision.layers.iter().zip(&kinds) {
        if let Ok(serde_json::Value::Object(options)) = serde_json::to_value(layer) {
            for (name, value) in options {
                if !["kind", "fs", "path", "paths"].contains(&name.as_str()) {
                    option(&format!("{kind}."), &name, &value, &mut add);
                }
            }
        }
    }
    for (name, value) in provision.sysctl.iter().chain(&provision.queue) {
        add(name, value.clone());
    }
    add("fill", exact_size(provision.fill));
    let precondition = match provision.precondition_ns {
        0 => "none".to_owned(),
        ns => format!("at most {}", Nanos(ns)),
    };
    add("precondition", precondition);
    let given = |command: &Option<String>| command.clone().unwrap_or_else(|| "none".to_owned());
    add("setup", given(&provision.setup));
    for (name, value) in &provision.env {
        add(&format!("env.{name}"), value.clone());
    }
    found
}

/// An option as facts: one for each of its parts that has a name.
fn option(prefix: &str, name: &str, value: &serde_json::Value, add: &mut impl FnMut(&str, String)) {
    use serde_json::Value as Json;
    // As in an experiment: the unit is part of the value.
    let own = name.strip_suffix("_ns").unwrap_or(name);
    let full = format!("{prefix}{own}");
    match value {
        Json::Object(parts) => {
            for (part, value) in parts {
                option(&format!("{full}."), part, value, add);
            }
        }
        Json::Array(values) if !values.is_empty() => {
            let words = values.iter().map(|value| match value {
                Json::String(text) => text.clone(),
                other => other.to_string(),
            });
            add(&full, words.collect::<Vec<_>>().join(" "));
        }
        Json::Null | Json::Array(_) => add(&full, "default".to_owned()),
        Json::String(text) => add(&full, text.clone()),
        other => {
            let text = match (name, other.as_u64()) {
                ("size" | "volume" | "chunk" | "rsize" | "wsize", Some(bytes)) => exact_size(bytes),
                ("read_iops" | "write_iops" | "read_bandwidth" | "write_bandwidth", Some(0)) => {
                    "no limit".to_owned()
                }
                ("read_bandwidth" | "write_bandwidth", Some(bytes)) => {
                    format!("{}/s", exact_size(bytes))
                }
                (_, Some(ns)) if own != name => Nanos(ns).to_string(),
                _ => other.to_string(),
            };
            add(&full, text);
        }
    }
}

/// `1 GiB`; in bytes if that would be rounded, because different sizes are different facts.
fn exact_size(bytes: u64) -> String {
    let text = Bytes(bytes).to_string();
    match text.parse() {
        Ok(Bytes(read)) if read == bytes => text,
        _ => format!("{bytes} B"),
    }
}

/// A setting of the devices below a target, from the top down: `mq-deadline over none`; once if all are equal. A
/// partition has the settings of its disk.
fn of_devices(target: &TargetInfo, setting: impl Fn(&DeviceLayer) -> Option<&String>) -> String {
    let layers = target.stack.iter();
    let devices = layers.filter_map(|layer| match layer {
        StackLayer::Partition(_) => None,
        layer => layer.device(),
    });
    let mut values: Vec<&str> = devices
        .filter_map(|device| setting(device).map(String::as_str))
        .filter(|value| !value.is_empty())
        .collect();
    values.dedup();
    values.join(" over ")
}

/// `37 %`: the space of a file system that is not free to the user. `34 % to 40 %`: before the trial, and with its own
/// files, which may exist already.
fn fullness(mount: &MountInfo, own: u64) -> Option<String> {
    let used = mount.total.saturating_sub(mount.free);
    let share = |bytes: u64| format!("{:.0} %", 100.0 * bytes as f64 / mount.total as f64);
    let (before, with_own) = (used, used.saturating_add(own).min(mount.total));
    (mount.total > 0).then(|| {
        let (before, with_own) = (share(before), share(with_own));
        match before == with_own {
            true => before,
            false => format!("{before} to {with_own}"),
        }
    })
}

/// The largest size of the files that the trial itself makes, bytes.
fn own_bytes(workload: &Workload, trial: &Trial) -> u64 {
    let regions = work::clones(trial).map(|clone| clone.region_bytes);
    let jobs = workload.jobs.iter().map(|job| match &job.work {
        Work::Blocks(_) => 0,
        Work::FileOperations(of) => of.needs(job.clones).bytes,
        Work::SharedFiles(shared) => shared.total_size(),
    });
    regions.chain(jobs).fold(0, u64::saturating_add)
}

/// The topmost layer.
fn file_system(target: &TargetInfo) -> String {
    match target.stack.first() {
        Some(StackLayer::Mount(mount)) => mount.file_system.clone(),
        Some(StackLayer::Other(what)) => what.clone(),
        Some(_) => "none (block device)".to_owned(),
        None => String::new(),
    }
}

fn top_mount(target: &TargetInfo) -> Option<&MountInfo> {
    match target.stack.first() {
        Some(StackLayer::Mount(mount)) => Some(mount),
        _ => None,
    }
}

/// `ext4 on loop (direct) on ext4 on disk`: kinds, no names.
fn stack(target: &TargetInfo) -> String {
    let layers = target.stack.iter().map(|layer| match layer {
        StackLayer::Mount(mount) => mount.file_system.clone(),
        StackLayer::Partition(_) => "partition".to_owned(),
        StackLayer::Loop { direct: true, .. } => "loop (direct)".to_owned(),
        StackLayer::Loop { direct: false, .. } => "loop (cached)".to_owned(),
        StackLayer::Mapped { driver, name, .. } => match (driver.as_str(), name.as_str()) {
            // The name of an md device is its level; the name of a mapping is arbitrary.
            ("md", level) if !level.is_empty() => format!("md {level}"),
            (driver, _) => driver.to_owned(),
        },
        StackLayer::Disk(_) => "disk".to_owned(),
        StackLayer::Other(what) => what.clone(),
    });
    layers.collect::<Vec<_>>().join(" on ")
}

/// `iodyno-0a1b2c3d4e5f/data` and `/run/iodyno/0a1b2c3d4e5f/1` without the token: storage that iodyno makes has another
/// one each time.
fn without_tokens(text: &str) -> String {
    const STARTS: [&str; 2] = ["iodyno-", "/"];
    const DIGITS: usize = 12;
    let is_token = |word: &str, after: &str| {
        let hexadecimal = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        word.len() == DIGITS
            && word.chars().all(hexadecimal)
            && !after.starts_with(|c: char| c.is_ascii_alphanumeric())
    };
    let mut plain = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let start = STARTS.iter().find(|start| rest.starts_with(**start));
        let (begin, after) = rest.split_at(start.map_or(next.len_utf8(), |start| start.len()));
        let token = after.split_at_checked(DIGITS);
        plain += begin;
        rest = match token.filter(|(word, after)| start.is_some() && is_token(word, after)) {
            Some((_, after)) => {
                plain += "TOKEN";
                after
            }
            None => after,
        };
    }
    plain
}

/// The options that the mount layer handles for every file system, or the others; `none` if there are none.
fn mount_options(mount: &MountInfo, common: bool) -> String {
    let key = |option: &str| option.split('=').next().unwrap_or_default().to_owned();
    let chosen = mount.options.split(',').filter(|option| {
        let key = key(option);
        !option.is_empty()
            && !IDENTITY_OPTIONS.contains(&key.as_str())
            && COMMON_OPTIONS.contains(option) == common
    });
    match chosen.collect::<Vec<_>>() {
        none if none.is_empty() && !mount.options.is_empty() => "none".to_owned(),
        some => some.join(","),
    }
}

/// The layers of the devices with no known device below them.
fn lowest_layers(part: &iodyno_model::Part) -> impl Iterator<Item = &StackLayer> {
    let names = devices::lowest(part);
    part.environment
        .targets
        .iter()
        .flat_map(|target| &target.stack)
        .filter(move |layer| {
            let device = layer.device();
            device.is_some_and(|device| names.contains(&device.name.as_str()))
        })
}

/// `vda, 256 GiB`, `nvme0n1, Samsung SSD 980, 1 TiB`, `loop, 4 GiB`.
fn device(layer: &StackLayer) -> String {
    let Some(device) = layer.device() else {
        return String::new();
    };
    let name = match layer {
        StackLayer::Disk(device) => without_number(&device.name),
        StackLayer::Partition(_) => "partition",
        StackLayer::Loop { .. } => "loop",
        StackLayer::Mapped { driver, .. } => driver.as_str(),
        StackLayer::Mount(_) | StackLayer::Other(_) => "",
    };
    let size = match device.size {
        0 => String::new(),
        size => Bytes(size).to_string(),
    };
    let words = [name, device.model.trim(), size.as_str()];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join(", ")
}

/// Devices that are made and get any free number: `zram` for `zram3`. Other names identify a disk.
fn without_number(name: &str) -> &str {
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    match ["zram", "nbd", "ublkb", "nullb"].contains(&kind) {
        true => kind,
        false => name,
    }
}

fn host(trial: &Trial, found: &mut Vec<Fact>) {
    let each = |value: fn(&Environment) -> String| Values::of(environments(trial).map(value));
    let number = |count: u64| match count {
        0 => String::new(),
        count => count.to_string(),
    };
    let facts = [
        ("host", each(|e| e.host.clone())),
        ("kernel", each(|e| e.kernel.clone())),
        ("cpu", each(|e| e.cpu.model.clone())),
        (
            "cpus",
            Values::of(environments(trial).map(|e| number(e.cpu.logical.into()))),
        ),
        (
            "memory",
            Values::of(environments(trial).map(|e| match e.memory.usable() {
                0 => String::new(),
                bytes => Bytes(bytes).to_string(),
            })),
        ),
        ("governor", each(governor)),
        ("virtualisation", each(|e| e.virtualisation.clone())),
    ];
    for (name, values) in facts {
        add(found, FactClass::Host, name, values);
    }
    let settled = trial.parts.iter().filter_map(|part| part.settled);
    add(
        found,
        FactClass::Host,
        SETTLED,
        Values::of(settled.map(|settled| settled.to_string())),
    );
    // Only of traced trials: see `default_value` of the comparison.
    let traced = trial
        .parts
        .iter()
        .filter(|part| part.host.device_times.is_some());
    let traced = traced.map(|_| "yes".to_owned());
    add(found, FactClass::Host, TRACED, Values::of(traced));
    add(
        found,
        FactClass::Program,
        "iodyno",
        each(|e| e.iodyno.clone()),
    );
}

fn governor(environment: &Environment) -> String {
    let governor = &environment.cpu.governor;
    let boost = match governor.boost {
        Some(true) => "boost",
        Some(false) => "no boost",
        None => "",
    };
    let words = [governor.name.as_str(), boost];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join(", ")
}

fn work(workload: &Workload, trial: &Trial, found: &mut Vec<Fact>) {
    let mut add = |name: &str, values| add(found, FactClass::Workload, name, values);
    for (name, values) in words::traits(workload) {
        let clones = clones_of_jobs(workload, name);
        add(
            name,
            match clones.several() {
                true => clones,
                false => values,
            },
        );
    }
    let clones = || trial.parts.iter().flat_map(|part| &part.clones);
    add("size", sizes(workload, trial));
    let each = |value: fn(&Job) -> String| Values::of_jobs(workload.jobs.iter().map(value));
    let blocks = workload.jobs.iter().filter_map(|job| job.work.blocks());
    add("sync", Values::of_jobs(blocks.map(words::sync)));
    add("rate", each(words::rate));
    let files = match workload.files {
        FilePolicy::Own => "",
        FilePolicy::Shared => "shared",
        FilePolicy::Rollback => "rolled back",
    };
    add(
        "files between trials",
        Values::of([files.to_owned()].into_iter()),
    );
    file_operations(workload, &mut add);
    shared_files(workload, &mut add);
    // An engine or feature that replaced the requested one.
    let fallbacks = clones().flat_map(|clone| &clone.engine.fallbacks).cloned();
    add("fallbacks", Values::of(fallbacks));
    for (name, value) in options(workload) {
        add(&name, Values::of(std::iter::once(value)));
    }
}

/// The clones of each job that the traits `jobs` and `threads` count; none for other traits.
fn clones_of_jobs(workload: &Workload, name: &str) -> Values {
    let jobs = workload.jobs.iter();
    let counted = jobs.filter(|job| match name {
        "jobs" => job.work.file_operations().is_none(),
        "threads" => job.work.file_operations().is_some(),
        _ => false,
    });
    Values::of_jobs(counted.map(|job| job.clones.to_string()))
}

/// The bytes of all regions; of each job if they differ. Shared files exist once. Files that file operations create and
/// remove have their own facts.
fn sizes(workload: &Workload, trial: &Trial) -> Values {
    let clones = || trial.parts.iter().flat_map(|part| &part.clones);
    let mut sizes = Vec::new();
    for (index, job) in workload.jobs.iter().enumerate() {
        let own = clones().filter(|clone| clone.job as usize == index);
        match &job.work {
            Work::Blocks(_) => sizes.push(own.map(|clone| clone.region_bytes).sum::<u64>()),
            Work::FileOperations(_) => {}
            Work::SharedFiles(_) => sizes.extend(work::shared_bytes(job)),
        }
    }
    let all = sizes.iter().copied().fold(0, u64::saturating_add);
    let each = Values::of_jobs(sizes.into_iter().map(words::exact));
    match each.several() {
        true => each,
        false => Values::of((all > 0).then(|| words::exact(all)).into_iter()),
    }
}

/// Facts that distinguish workloads of file operations with the same name.
fn file_operations(workload: &Workload, add: &mut impl FnMut(&str, Values)) {
    let jobs = || workload.jobs.iter();
    let each = |value: &dyn Fn(&Job, &Operations) -> String| {
        Values::of_jobs(jobs().filter_map(|job| Some(value(job, job.work.file_operations()?))))
    };
    add("sets", each(&|_, of| words::sets(of)));
    add("cycle", each(&|_, of| words::cycle(of)));
    add("writes", each(&|_, of| of.writing_in_words()));
    add("folders", each(&words::folders));
    add("drain", each(&|_, of| yes_no(of.drain)));
    // Jobs on blocks that only read lay out files of this content.
    let writes = jobs().filter(|job| match &job.work {
        Work::Blocks(_) => true,
        Work::FileOperations(of) => of.makes_data(),
        Work::SharedFiles(shared) => shared.mode.writes(),
    });
    let content = writes.map(|job| words::content(&job.buffers));
    add("content", Values::of_jobs(content));
}

/// Facts that distinguish runs over shared files, by sysbench's option names.
fn shared_files(workload: &Workload, add: &mut impl FnMut(&str, Values)) {
    let each = |value: &dyn Fn(&SharedFiles) -> Option<String>| {
        let jobs = workload.jobs.iter();
        Values::of_jobs(jobs.filter_map(|job| value(job.work.shared_files()?)))
    };
    let always = |value: &dyn Fn(&SharedFiles) -> String| each(&|shared| Some(value(shared)));
    add("test mode", always(&|shared| shared.mode.name().to_owned()));
    add("files", always(&|shared| shared.count.to_string()));
    add(
        "file size",
        always(&|shared| words::exact(shared.file_size)),
    );
    let merged = |shared: &SharedFiles| match (shared.mode.random(), shared.merged) {
        (true, _) | (_, 0) => "none".to_owned(),
        (_, bytes) => words::exact(bytes),
    };
    add("merged requests", always(&merged));
    let ratio = |shared: &SharedFiles| shared.read_write_ratio.to_string();
    let mixes = |shared: &SharedFiles| shared.mode == SharedMode::RandomMix;
    add(
        "rw-ratio",
        each(&|shared| mixes(shared).then(|| ratio(shared))),
    );
    add(
        "rand-type",
        each(&|shared| {
            let random = shared.mode.random();
            random.then(|| words::distribution(&shared.distribution))
        }),
    );
    add(
        "open flags",
        always(&|shared| words::open_flags(&shared.engine)),
    );
    add(
        "fsync-freq",
        always(&|shared| match shared.fsync_every {
            0 => "none".to_owned(),
            every => every.to_string(),
        }),
    );
    add("fsync-all", always(&|shared| yes_no(shared.fsync_all)));
    add("fsync-end", always(&|shared| yes_no(shared.fsync_end)));
    let call = |shared: &SharedFiles| match shared.data_only {
        true => "fdatasync".to_owned(),
        false => "fsync".to_owned(),
    };
    add("fsync-mode", always(&call));
    add("validate", always(&|shared| yes_no(shared.validate)));
}

fn yes_no(is: bool) -> String {
    match is {
        true => "yes".to_owned(),
        false => "no".to_owned(),
    }
}

fn ending(workload: &Workload, trial: &Trial, kind: Kind, found: &mut Vec<Fact>) {
    let mut add = |name: &str, values| add(found, FactClass::Ending, name, values);
    let clones = trial.parts.iter().flat_map(|part| &part.clones);
    let cycles = |clone: &CloneResult| work::operations(workload, clone).is_some();
    let mut ended: Vec<&str> = clones
        .map(|clone| match clone.ended {
            // An empty set is an end by count, as for workloads that state the number of files.
            EndedBy::Size if cycles(clone) => ended_by(EndedBy::Count),
            ended => ended_by(ended),
        })
        .collect();
    // Independent of the order in which the clones ended.
    ended.sort_unstable();
    add("ended by", Values::of(ended.into_iter().map(str::to_owned)));
    let finite = kind == Kind::Finite;
    add(
        "duration",
        Values::of_jobs(workload.jobs.iter().map(|job| match job.end.runtime {
            Some(runtime) if !finite => seconds(runtime),
            _ => words::amount(job),
        })),
    );
    let ramp = |job: &Job| match job.end.ramp {
        Nanos(0) => "none".to_owned(),
        ramp => seconds(ramp),
    };
    add("ramp", Values::of_jobs(workload.jobs.iter().map(ramp)));
}

/// Printed in full, because requested values are not rounded.
fn seconds(time: Nanos) -> String {
    format!("{} s", time.0 as f64 / 1e9)
}

fn ended_by(ended: EndedBy) -> &'static str {
    match ended {
        EndedBy::Runtime => "runtime",
        EndedBy::Size => "size",
        EndedBy::Count => "number of ops",
        EndedBy::Interruption => "interruption",
        EndedBy::Error => "an error",
        EndedBy::ExitAll => "another job's end",
        EndedBy::Stuck => "stuck storage",
        EndedBy::Steady => "steady state",
        EndedBy::NotStarted => "never being started",
    }
}
