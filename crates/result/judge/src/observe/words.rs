//! Describes a workload in the terms of job files.

use iodyno_model::{
    Access, Action, Amount, Arrival, BlockSizes, Blocks, Buffers, Content, Distribution, Engine,
    EngineKind, Job, Operations, Pattern, PickOrder, ShellCommand, Subject, Work, Workload,
};
use iodyno_units::Bytes;

use iodyno_model::ordered::distinct;

/// The values of a fact.
pub(super) struct Values(Vec<String>);

impl Values {
    /// The distinct values, in the order of their first appearance.
    pub(super) fn of(values: impl Iterator<Item = String>) -> Values {
        Values(distinct(values.filter(|value| !value.is_empty())))
    }

    /// One value per job, in the order of the jobs; a single one if all are equal. Equal values of some jobs are not
    /// combined, because it matters which job has which value.
    pub(super) fn of_jobs(values: impl Iterator<Item = String>) -> Values {
        let mut values: Vec<String> = values.filter(|value| !value.is_empty()).collect();
        if values.iter().all(|value| *value == values[0]) {
            values.truncate(1);
        }
        Values(values)
    }

    /// Whether there are several.
    pub(super) fn several(&self) -> bool {
        self.0.len() > 1
    }

    /// The value, if there is exactly one.
    pub(super) fn agreed(self) -> Option<String> {
        match self.0.len() {
            1 => self.0.into_iter().next(),
            _ => None,
        }
    }

    /// All values; `None` if there are none.
    pub(super) fn joined(self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join(" and "))
    }
}

/// The traits that are dimensions as well as facts, by name. File operations have none that concern reads and
/// writes at offsets, but have a number of threads.
pub(super) fn traits(workload: &Workload) -> Vec<(&'static str, Values)> {
    let (cycles, at_offsets): (Vec<&Job>, Vec<&Job>) =
        (workload.jobs.iter()).partition(|job| job.work.file_operations().is_some());
    let accesses = || at_offsets.iter().filter_map(|job| job.work.access());
    let engines = || at_offsets.iter().filter_map(|job| job.work.engine());
    let number = |jobs: &[&Job]| {
        let clones: u32 = jobs.iter().map(|job| job.clones).sum();
        Values::of((clones > 0).then(|| clones.to_string()).into_iter())
    };
    vec![
        (
            "rw",
            Values::of_jobs(accesses().map(|access| access.pattern().to_owned())),
        ),
        (
            "bs",
            Values::of_jobs(accesses().map(|access| sizes(&access))),
        ),
        (
            "engine",
            Values::of_jobs(at_offsets.iter().map(|job| engine(&job.work).to_owned())),
        ),
        (
            "depth",
            Values::of_jobs(engines().map(|engine| engine.depth.to_string())),
        ),
        (
            "direct",
            Values::of_jobs(engines().map(|engine| u8::from(engine.direct).to_string())),
        ),
        ("jobs", number(&at_offsets)),
        ("threads", number(&cycles)),
    ]
}

/// What each job does: the test mode of shared files, the pattern of reads and writes at offsets, the timed steps of
/// file operations.
pub(super) fn modes(workload: &Workload) -> Values {
    Values::of_jobs(workload.jobs.iter().map(|job| match &job.work {
        Work::Blocks(blocks) => blocks.access.pattern().to_owned(),
        Work::SharedFiles(shared) => shared.mode.name().to_owned(),
        Work::FileOperations(operations) => {
            let timed = operations.cycle.iter().filter(|step| step.timed);
            let names: Vec<&str> = timed.map(|step| step.action.direction().name()).collect();
            names.join("+")
        }
    }))
}

/// The engine. For shared files it is sysbench's I/O mode, so that imported and own trials use the same name.
fn engine(work: &Work) -> &'static str {
    let Work::SharedFiles(shared) = work else {
        return work.engine_name();
    };
    match shared.engine.kind {
        EngineKind::Mmap => "mmap",
        EngineKind::Libaio
        | EngineKind::IoUring
        | EngineKind::IoUringCmd
        | EngineKind::Posixaio => "async",
        EngineKind::Psync | EngineKind::Sync | EngineKind::Pvsync2 => "sync",
        kind => kind.name(),
    }
}

/// `4k`, or one value per direction: `4k,64k`.
fn sizes(access: &Access) -> String {
    let each = access
        .directions()
        .filter_map(|direction| access.block_sizes.get(direction));
    let mut texts: Vec<String> = each
        .map(|sizes| match sizes {
            BlockSizes::Range {
                unaligned: true, ..
            } => format!("{sizes} unaligned"),
            sizes => sizes.to_string(),
        })
        .collect();
    if texts.iter().all(|text| *text == texts[0]) {
        texts.truncate(1);
    }
    texts.join(",")
}

/// When data are made durable: `fsync=1, end_fsync`, or `none`.
pub(super) fn sync(blocks: &Blocks) -> String {
    let mut words = Vec::new();
    if blocks.engine.o_sync {
        words.push("O_SYNC".to_owned());
    }
    if blocks.engine.o_dsync {
        words.push("O_DSYNC".to_owned());
    }
    for (name, every) in [
        ("fsync", blocks.sync.fsync_every),
        ("fdatasync", blocks.sync.fdatasync_every),
    ] {
        if every > 0 {
            words.push(format!("{name}={every}"));
        }
    }
    if blocks.sync.end_fsync {
        words.push("end_fsync".to_owned());
    }
    match words.is_empty() {
        true => "none".to_owned(),
        false => words.join(", "),
    }
}

/// The requested rates: `read 1000 ops/s`, or `none`.
pub(super) fn rate(job: &Job) -> String {
    if job.pacing.ops_per_s > 0.0 {
        // In the form of sysbench's imported output: the total of all threads, in full.
        let all = job.pacing.ops_per_s * f64::from(job.clones.max(1));
        return match job.pacing.arrival {
            Arrival::Linear => format!("{all} ops/s"),
            Arrival::Poisson => format!("{all} ops/s, poisson"),
        };
    }
    let rates = job.work.moves().into_iter().filter_map(|direction| {
        let rate = job.pacing.rates.get(direction)?;
        let asked = match (rate.bytes_per_s, rate.iops) {
            (0, iops) if iops > 0.0 => format!("{iops} ops/s"),
            (0, _) => return None,
            (bytes, _) => format!("{}/s", exact(bytes)),
        };
        Some(format!("{} {asked}", direction.name()))
    });
    match (rates.collect::<Vec<_>>(), job.pacing.arrival) {
        (none, _) if none.is_empty() => "none".to_owned(),
        (some, Arrival::Linear) => some.join(", "),
        (some, Arrival::Poisson) => format!("{}, poisson", some.join(", ")),
    }
}

/// The amount of work that ends the job: `1000 ops`, `4 GiB`, `2 × the files' size`.
pub(super) fn amount(job: &Job) -> String {
    let ops = |ops: u64| format!("{ops} ops");
    let blocks = match (&job.work, job.end.ops) {
        (Work::FileOperations(operations), most) => {
            let until_empty = operations.cycles_until_empty(job.clones);
            let cycles = most.into_iter().chain(until_empty).min();
            return cycles.map_or_else(|| "no end".to_owned(), ops);
        }
        (_, Some(most)) => return ops(most),
        (Work::SharedFiles(shared), None) => return exact(shared.total_size()),
        (Work::Blocks(blocks), None) => blocks,
    };
    let once = match blocks.passes.io_size.or(blocks.extent.size) {
        Some(Amount::Bytes(bytes)) => exact(bytes),
        Some(Amount::Percent(percent)) => format!("{percent} %"),
        None => "the whole target".to_owned(),
    };
    match blocks.passes.loops {
        0 | 1 => once,
        loops => format!("{loops} × {once}"),
    }
}

/// The files that exist before the cycles: `files: 10000 × 2 MiB, fsynced`, or `none`.
pub(super) fn sets(operations: &Operations) -> String {
    let sets = operations.sets.iter().map(|set| {
        let synced = match set.fsync {
            true => ", fsynced",
            false => "",
        };
        let size = exact(set.size);
        format!("{}: {} × {size}{synced}", set.name, set.count)
    });
    match sets.collect::<Vec<_>>() {
        none if none.is_empty() => "none".to_owned(),
        some => some.join("; "),
    }
}

/// Printed in full, because requested values are not rounded.
pub(super) fn exact(bytes: u64) -> String {
    let rounded = Bytes(bytes).to_string();
    match rounded.parse::<Bytes>() {
        Ok(back) if back.0 == bytes => rounded,
        _ => format!("{bytes} B"),
    }
}

/// The steps of a cycle, untimed ones in brackets: `create, write 100 KiB, sync, (close)`.
pub(super) fn cycle(operations: &Operations) -> String {
    let steps = operations.cycle.iter().map(|step| {
        let words = match (&step.action, &operations.command) {
            (Action::Run, Some(command)) => command_words(command),
            (other, _) => action(other),
        };
        match step.timed {
            true => words,
            false => format!("({words})"),
        }
    });
    steps.collect::<Vec<_>>().join(", ")
}

/// What a command does to the figures: `run make -j4, after make clean`.
fn command_words(command: &ShellCommand) -> String {
    let prepare = command.prepare.as_ref();
    let prepare = prepare.map_or(String::new(), |prepare| format!(", after {prepare}"));
    format!("run {}{prepare}", command.run)
}

fn action(action: &Action) -> String {
    let name = action.direction().name();
    match action {
        Action::Write { bytes } | Action::Fallocate { bytes } => {
            format!("{name} {}", exact(*bytes))
        }
        Action::Truncate { length } => format!("{name} to {}", exact(*length)),
        Action::Append {
            bytes,
            new_file_at,
            keep,
        } => {
            let kept = match keep {
                Some(keep) => format!(", of which {keep} stay"),
                None => String::new(),
            };
            format!(
                "append {} to files of {}{kept}",
                exact(*bytes),
                exact(*new_file_at)
            )
        }
        Action::Open { of }
        | Action::Unlink { of }
        | Action::Rename { of }
        | Action::Stat { of } => format!("{name}{}", subject(of)),
        Action::Create
        | Action::Close
        | Action::Sync
        | Action::SyncFolder
        | Action::Statfs
        | Action::Mkdir
        | Action::Rmdir
        | Action::Readdir
        | Action::Run => name.to_owned(),
    }
}

fn subject(of: &Subject) -> String {
    match of {
        Subject::Current => String::new(),
        Subject::Set { name, order } => {
            let order = match order {
                PickOrder::Newest => "newest",
                PickOrder::Oldest => "oldest",
                PickOrder::Random => "random",
            };
            format!(" {order} of {name}")
        }
    }
}

/// The folders that the clones use; a single clone always has its own.
pub(super) fn folders(job: &Job, operations: &Operations) -> String {
    match (job.clones, operations.own_folders) {
        (0 | 1, _) => "one",
        (_, true) => "one a thread",
        (_, false) => "one, shared",
    }
    .to_owned()
}

/// The content of the written data: `incompressible`, `50 % compressible in chunks of 512 B`, `zeroes`.
pub(super) fn content(buffers: &Buffers) -> String {
    let pattern = |pattern: &Pattern| {
        let digits: String = pattern.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("the pattern 0x{digits}")
    };
    let content = match &buffers.content {
        Content::Random | Content::Compressible { percent: 0, .. } => "incompressible".to_owned(),
        Content::Zero => "zeroes".to_owned(),
        Content::Pattern(repeated) => pattern(repeated),
        Content::Compressible {
            percent,
            chunk,
            pattern: filling,
        } => {
            let chunks = match chunk {
                0 => String::new(),
                chunk => format!(" in chunks of {}", exact(*chunk)),
            };
            let filling = filling
                .as_ref()
                .map_or(String::new(), |filling| format!(" by {}", pattern(filling)));
            format!("{percent} % compressible{chunks}{filling}")
        }
    };
    match buffers.dedupe_percent {
        0 => content,
        percent => format!("{content}, {percent} % repeated"),
    }
}

/// As sysbench prints them: `directio`, `sync `, `(none)` without the brackets.
pub(super) fn open_flags(engine: &Engine) -> String {
    let flags = [
        (engine.o_sync, "sync"),
        (engine.o_dsync, "dsync"),
        (engine.direct, "directio"),
    ];
    let set = flags.iter().filter(|(set, _)| *set);
    match set.map(|(_, name)| *name).collect::<Vec<_>>() {
        none if none.is_empty() => "none".to_owned(),
        some => some.join(" "),
    }
}

/// sysbench's `rand-type`.
pub(super) fn distribution(law: &Distribution) -> String {
    match law {
        Distribution::Uniform => "uniform".to_owned(),
        Distribution::Zipf(exponent) => format!("zipfian {exponent}"),
        Distribution::Pareto(power) => format!("pareto {power}"),
        Distribution::Normal(percent) => format!("gaussian {percent} %"),
        Distribution::Zoned(zones) => {
            let zones = zones.iter().map(|(share, length)| match length {
                Amount::Bytes(bytes) => format!("{share} % in {}", exact(*bytes)),
                Amount::Percent(percent) => format!("{share} % in {percent} %"),
            });
            format!("zones: {}", zones.collect::<Vec<_>>().join(", "))
        }
        Distribution::Sequence { blocks, stride } => {
            let blocks: Vec<String> = blocks.iter().map(u64::to_string).collect();
            let stride = if *stride { ", moving on" } else { "" };
            format!("blocks {}{stride}", blocks.join(", "))
        }
    }
}
