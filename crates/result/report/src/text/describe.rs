//! The description of a workload in one line: jobs, backend, depth, pattern, block sizes, region, target.

use iodyno_model::{
    Access, Amount, Arrival, Blocks, Direction, Distribution, GroupSummary, Job, Replay,
    StackLayer, Summary, TargetInfo, Trial, Work, Workload,
};
use iodyno_units::{Bytes, Rate, counted};

use super::{join, operations};
use crate::style::{Paint, Style, sanitize};
use iodyno_model::ordered::distinct;

/// The lines above the table.
pub(super) fn header(
    workload: &Workload,
    trial: &Trial,
    summary: &Summary,
    style: Style,
) -> String {
    let mut pieces = vec![sanitize(&workload.name)];
    // The default configuration is not named.
    if !trial.configuration.is_empty() && trial.configuration != "default" {
        pieces.push(format!("on {}", sanitize(&trial.configuration)));
    }
    if let [only] = summary.groups.as_slice() {
        pieces.extend(group_pieces(workload, only));
    } else {
        let clones: u32 = workload.jobs.iter().map(|job| job.clones).sum();
        pieces.push(format!(
            "{}, {}",
            counted(workload.jobs.len() as u64, "job"),
            counted(clones.into(), "worker")
        ));
    }
    pieces.push(targets(trial));
    pieces.push(clock(workload).to_owned());
    style.paragraph(&join(pieces.into_iter(), "  "), super::LABEL, Paint::Strong)
}

/// The clock of simulated devices; empty without any.
fn clock(workload: &Workload) -> &'static str {
    match workload.simulated() {
        true if workload.in_virtual_time() => "simulated in virtual time",
        true => "simulated in real time",
        false => "",
    }
}

/// The line above a group's rows, if there are several groups.
pub(super) fn group(workload: &Workload, group: &GroupSummary) -> String {
    let jobs = group.jobs.iter();
    let jobs = jobs.map(|job| workload.jobs.get(*job as usize));
    let names = some(jobs.map(|job| job.map_or("?".to_owned(), |job| sanitize(&job.name))));
    let pieces = std::iter::once(names).chain(group_pieces(workload, group));
    join(pieces, "  ")
}

/// Each of equal texts once: at most three, or two and the number of the others.
fn some(texts: impl Iterator<Item = String>) -> String {
    let mut texts = distinct(texts.filter(|text| !text.is_empty()));
    if texts.len() > 3 {
        let more = texts.len() - 2;
        texts.truncate(2);
        texts.push(format!("{more} more"));
    }
    texts.join(", ")
}

fn group_pieces(workload: &Workload, group: &GroupSummary) -> Vec<String> {
    let jobs: Vec<&Job> = group
        .jobs
        .iter()
        .filter_map(|job| workload.jobs.get(*job as usize))
        .collect();
    if let [job, ..] = jobs.as_slice() {
        match &job.work {
            Work::Blocks(_) => {}
            Work::FileOperations(steps) => return operations::pieces(job, steps),
            Work::SharedFiles(files) => return operations::shared(job, files),
        }
    }
    let jobs: Vec<(&Job, &Blocks)> = jobs
        .into_iter()
        .filter_map(|job| Some((job, job.work.blocks()?)))
        .collect();
    let mut pieces = Vec::new();
    if group.clones > 1 {
        pieces.push(format!("{} workers", group.clones));
    }
    let kinds = jobs.iter().map(|(job, blocks)| kind(job, blocks, group));
    pieces.push(join(distinct(kinds).into_iter(), " + "));
    pieces.push(match (group.region_bytes, jobs.as_slice()) {
        (0, [(_, blocks), ..]) => blocks.extent.size.map_or(String::new(), amount),
        (0, []) => String::new(),
        (all, _) if group.clones > 1 => {
            let clones = u64::from(group.clones);
            format!("{clones} × {}", Bytes(all / clones))
        }
        (all, _) => Bytes(all).to_string(),
    });
    pieces
}

/// `libaio QD16  randrw 75/25  4k direct  rate 10.0k IOPS`.
fn kind(job: &Job, blocks: &Blocks, group: &GroupSummary) -> String {
    let engine = match group.engines.as_slice() {
        [used] if !used.name.is_empty() => format!("{} QD{}", used.name, used.depth),
        _ => format!("{} QD{}", blocks.engine.kind.name(), blocks.engine.depth),
    };
    let mut pieces = match &blocks.replay {
        None => vec![sizes(&blocks.access)],
        Some(_) => Vec::new(),
    };
    if blocks.engine.direct {
        pieces.push("direct".to_owned());
    }
    if blocks.engine.o_sync {
        pieces.push("O_SYNC".to_owned());
    }
    if blocks.engine.o_dsync {
        pieces.push("O_DSYNC".to_owned());
    }
    if blocks.sync.fsync_every > 0 {
        pieces.push(format!("fsync={}", blocks.sync.fsync_every));
    }
    if blocks.sync.fdatasync_every > 0 {
        pieces.push(format!("fdatasync={}", blocks.sync.fdatasync_every));
    }
    let rest = join(pieces.into_iter(), " ");
    let columns = [
        engine,
        match &blocks.replay {
            None => pattern(&blocks.access),
            Some(replay) => replayed(replay),
        },
        rest,
        rate(job, &blocks.access),
    ];
    join(columns.into_iter(), "  ")
}

/// fio's name of the pattern, with its mix and distribution.
fn pattern(access: &Access) -> String {
    let mut text = access.pattern().to_owned();
    if access.reads && access.writes {
        let read = access.read_percent.min(100);
        text += &format!(" {read}/{}", 100 - read);
    }
    let first = access.directions().next();
    match first.and_then(|direction| access.distribution.get(direction)) {
        Some(Distribution::Zipf(theta)) => text += &format!(" zipf:{theta}"),
        Some(Distribution::Pareto(power)) => text += &format!(" pareto:{power}"),
        Some(Distribution::Normal(deviation)) => text += &format!(" normal:{deviation}"),
        Some(Distribution::Zoned(zones)) => text += &format!(" {} zones", zones.len()),
        Some(Distribution::Sequence { blocks, .. }) => {
            text += &format!(" {} blocks in turn", blocks.len());
        }
        Some(Distribution::Uniform) | None => {}
    }
    text
}

/// `replay of a.log`, and its speed.
fn replayed(replay: &Replay) -> String {
    let names = replay.traces.iter().map(|path| path.display().to_string());
    let speed = match (replay.no_stall, replay.time_percent) {
        (true, _) => "  without pauses".to_owned(),
        (false, 100) => String::new(),
        (false, percent) => format!("  at {percent} % of its speed"),
    };
    format!("replay of {}{speed}", join(names, ", "))
}

fn sizes(access: &Access) -> String {
    let mut texts: Vec<(Direction, String)> = access
        .directions()
        .filter_map(|direction| Some((direction, access.block_sizes.get(direction)?.to_string())))
        .collect();
    let first = texts.first().map(|(_, text)| text.clone());
    if let Some(first) = first
        && texts.iter().all(|(_, text)| *text == first)
    {
        return first;
    }
    let texts = texts
        .drain(..)
        .map(|(direction, text)| format!("{} {text}", direction.name()));
    join(texts, ", ")
}

fn amount(amount: Amount) -> String {
    match amount {
        Amount::Bytes(bytes) => Bytes(bytes).to_string(),
        Amount::Percent(percent) => format!("{percent} %"),
    }
}

fn rate(job: &Job, access: &Access) -> String {
    let rates = [
        (Direction::Read, job.pacing.rates.read),
        (Direction::Write, job.pacing.rates.write),
        (Direction::Trim, job.pacing.rates.trim),
    ];
    let asked = rates.into_iter().filter_map(|(direction, rate)| {
        let issued = access.directions().any(|issued| issued == direction);
        match (issued, rate.bytes_per_s, rate.iops) {
            (true, 0, iops) if iops > 0.0 => Some(format!("{} IOPS", Rate(iops))),
            (true, bytes, _) if bytes > 0 => Some(format!("{}/s", Bytes(bytes))),
            _ => None,
        }
    });
    let mut asked: Vec<String> = asked.collect();
    asked.dedup();
    match (asked.is_empty(), job.pacing.arrival) {
        (true, _) => String::new(),
        (false, Arrival::Linear) => format!("rate {}", asked.join(", ")),
        (false, Arrival::Poisson) => format!("Poisson rate {}", asked.join(", ")),
    }
}

/// `ext4 on vda`; several targets are listed.
fn targets(trial: &Trial) -> String {
    let parts = trial.parts.iter();
    let infos = parts.flat_map(|part| &part.environment.targets);
    some(infos.map(target))
}

fn target(info: &TargetInfo) -> String {
    let layers = info.stack.iter().filter_map(|layer| match layer {
        StackLayer::Mount(mount) => Some(mount.file_system.clone()),
        // The disk below a partition is the next layer, and is sufficient.
        StackLayer::Partition(_) => None,
        StackLayer::Loop { device, .. } | StackLayer::Disk(device) => Some(device.name.clone()),
        StackLayer::Mapped { device, name, .. } if name.is_empty() => Some(device.name.clone()),
        StackLayer::Mapped { device, name, .. } => Some(format!("{} ({name})", device.name)),
        StackLayer::Other(text) => Some(text.clone()),
    });
    sanitize(&join(layers, " on "))
}
