//! What was done, in the words of job files.

use iodyno_model::{Amount, BlockSizes, Direction, Job, Workload};
use iodyno_units::{Bytes, Rate};

/// A trait of a workload: the distinct values of its jobs, in their order.
pub(super) struct Values(Vec<String>);

impl Values {
    pub(super) fn of(values: impl Iterator<Item = String>) -> Values {
        let mut distinct: Vec<String> = Vec::new();
        for value in values.filter(|value| !value.is_empty()) {
            if !distinct.contains(&value) {
                distinct.push(value);
            }
        }
        Values(distinct)
    }

    /// The value, if there is just one.
    pub(super) fn agreed(self) -> Option<String> {
        match self.0.len() {
            1 => self.0.into_iter().next(),
            _ => None,
        }
    }

    /// All of them; `None` if there are none.
    pub(super) fn joined(self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join(" and "))
    }
}

/// The traits that are dimensions as well as facts, by name.
pub(super) fn traits(workload: &Workload) -> Vec<(&'static str, Values)> {
    let each = |value: fn(&Job) -> String| Values::of(workload.jobs.iter().map(value));
    let clones: u32 = workload.jobs.iter().map(|job| job.clones).sum();
    vec![
        ("rw", each(|job| job.access.pattern().to_owned())),
        ("bs", each(sizes)),
        ("engine", each(|job| job.engine.kind.name().to_owned())),
        ("depth", each(|job| job.engine.depth.to_string())),
        (
            "direct",
            each(|job| u8::from(job.engine.direct).to_string()),
        ),
        ("jobs", Values::of(std::iter::once(clones.to_string()))),
    ]
}

/// `4k`, or one for each direction: `4k,64k`.
fn sizes(job: &Job) -> String {
    let each = job
        .access
        .directions()
        .filter_map(|direction| job.access.block_sizes.get(direction));
    let mut texts: Vec<String> = each.map(BlockSizes::to_string).collect();
    texts.dedup();
    texts.join(",")
}

/// When data are made durable: `fsync=1, end_fsync`, or `none`.
pub(super) fn sync(job: &Job) -> String {
    let mut words = Vec::new();
    if job.engine.o_sync {
        words.push("O_SYNC".to_owned());
    }
    if job.engine.o_dsync {
        words.push("O_DSYNC".to_owned());
    }
    for (name, every) in [
        ("fsync", job.sync.fsync_every),
        ("fdatasync", job.sync.fdatasync_every),
    ] {
        if every > 0 {
            words.push(format!("{name}={every}"));
        }
    }
    if job.sync.end_fsync {
        words.push("end_fsync".to_owned());
    }
    match words.is_empty() {
        true => "none".to_owned(),
        false => words.join(", "),
    }
}

/// The rates asked for: `read 1000 ops/s`, or `none`.
pub(super) fn rate(job: &Job) -> String {
    let rates = job.access.directions().filter_map(|direction| {
        let rate = job.pacing.rates.get(direction)?;
        let asked = match (rate.bytes_per_s, rate.iops) {
            (0, iops) if iops > 0.0 => format!("{} ops/s", Rate(iops)),
            (0, _) => return None,
            (bytes, _) => format!("{}/s", Bytes(bytes)),
        };
        Some(format!("{} {asked}", direction.name()))
    });
    match rates.collect::<Vec<_>>() {
        none if none.is_empty() => "none".to_owned(),
        some => some.join(", "),
    }
}

/// The work of a job that ends with it: `1000 ops`, `4 GiB`, `2 × the files' size`.
pub(super) fn amount(job: &Job) -> String {
    if let Some(ops) = job.end.ops {
        return format!("{ops} ops");
    }
    let once = match job.end.io_size.or(job.extent.size) {
        Some(Amount::Bytes(bytes)) => Bytes(bytes).to_string(),
        Some(Amount::Percent(percent)) => format!("{percent} %"),
        None => "the whole target".to_owned(),
    };
    match job.end.loops {
        0 | 1 => once,
        loops => format!("{loops} × {once}"),
    }
}

/// The directions that move data.
pub(super) const MOVING: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Trim];
