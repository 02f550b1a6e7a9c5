//! Descriptions of jobs of file operations and of shared files.

use iodyno_model::{
    Action, Arrival, CycleStep, Direction, Distribution, Engine, EngineKind, FileSet, Job, JobEnd,
    Operations, PickOrder, Row, SharedFiles, Subject, Summary, Trial, Workload,
};
use iodyno_units::{Bytes, Nanos, Rate, grouped};

use super::join;
use crate::compare::value;
use crate::operations::commands;
use crate::style::sanitize;

/// sysbench's default, which is not printed.
const USUAL_RATIO: f64 = 1.5;

/// `4 threads, own folders`, `10 000 × 2 MiB`, `create* sync_folder* close`, `10 s`.
pub(super) fn pieces(job: &Job, operations: &Operations) -> Vec<String> {
    let threads = match (job.clones, operations.own_folders) {
        (0 | 1, _) => String::new(),
        (clones, false) => format!("{clones} threads, one folder"),
        (clones, true) => format!("{clones} threads, own folders"),
    };
    if let (Some(command), Some(1)) = (&operations.command, job.end.ops) {
        let named = sanitize(&command.run) == job.name;
        let text = (!named).then(|| format!("`{}`", sanitize(&command.run)));
        return text.into_iter().collect();
    }
    let cycle = match &operations.command {
        Some(command) => format!("`{}`", sanitize(&command.run)),
        None => join(operations.cycle.iter().map(step), " "),
    };
    vec![
        threads,
        join(operations.sets.iter().map(set), " + "),
        cycle,
        end(&job.end),
        rate(job),
    ]
}

/// `15.0 ms, user 9.20 ms, system 2.10 ms` of a command that ran once; empty if it was not completed.
pub(super) fn times(summary: &Summary) -> Vec<String> {
    let rows = summary.groups.iter().flat_map(|group| &group.rows);
    let mut ops = rows.filter(|row| row.result.direction == Direction::Op && row.result.ops > 0);
    let time = |row: &Row| Nanos(row.result.service.mean_ns().round() as u64);
    let cpu = &summary.cpu;
    let [user, system] = [cpu.worker_user_ns, cpu.worker_system_ns].map(Nanos);
    let times = |row| format!("{}, user {user}, system {system}", time(row));
    ops.next().map(times).into_iter().collect()
}

/// The values that the commands of each clone printed, and their exit status if it is a result other than 0.
pub(super) fn printed(workload: &Workload, summary: &Summary, trial: &Trial) -> Vec<String> {
    let groups = summary.groups.iter();
    let each = groups.flat_map(|group| commands(workload, group, trial));
    each.map(|(command, result)| {
        let values = command
            .metrics
            .iter()
            .zip(&result.values)
            .map(|(printed, mean)| {
                let metric = &printed.metric;
                format!("{} {}", sanitize(&metric.name), value(*mean, &metric.unit))
            });
        let status = (command.may_fail && result.exit_status != 0)
            .then(|| format!("exit status {}", result.exit_status));
        join(values.chain(status), ", ")
    })
    .collect()
}

/// The lines of the last output of the commands.
pub(super) fn output(workload: &Workload, summary: &Summary, trial: &Trial) -> Vec<String> {
    let groups = summary.groups.iter();
    let each = groups.flat_map(|group| commands(workload, group, trial));
    let lines = each.flat_map(|(_, result)| result.output.lines());
    lines.map(sanitize).collect()
}

fn set(set: &FileSet) -> String {
    let size = match set.size {
        0 => "empty files".to_owned(),
        size => Bytes(size).to_string(),
    };
    format!("{} × {size}", grouped(set.count))
}

/// A step of the cycle; timed ones are marked.
fn step(step: &CycleStep) -> String {
    let name = step.action.direction().name();
    let of = |subject: &Subject| match subject {
        Subject::Current => String::new(),
        Subject::Set { order, .. } => match order {
            PickOrder::Newest => String::new(),
            PickOrder::Oldest => " oldest".to_owned(),
            PickOrder::Random => " any".to_owned(),
        },
    };
    let more = match &step.action {
        Action::Write { bytes } | Action::Append { bytes, .. } | Action::Fallocate { bytes } => {
            format!(" {}", Bytes(*bytes))
        }
        Action::Truncate { length } => format!(" {}", Bytes(*length)),
        Action::Open { of: subject }
        | Action::Unlink { of: subject }
        | Action::Rename { of: subject }
        | Action::Stat { of: subject } => of(subject),
        _ => String::new(),
    };
    let mark = if step.timed { "*" } else { "" };
    format!("{name}{mark}{more}")
}

fn end(end: &JobEnd) -> String {
    let ops = end.ops.map(|ops| format!("{} ops", grouped(ops)));
    let time = end.runtime.map(short);
    let ramp = (end.ramp.0 > 0).then(|| format!("ramp {}", short(end.ramp)));
    join([time, ops, ramp].into_iter().flatten(), ", ")
}

/// Whole seconds without decimals: `10 s`.
fn short(span: Nanos) -> String {
    match span.0.is_multiple_of(Nanos::SECOND.0) && span.secs() < 600.0 {
        true => format!("{} s", span.secs()),
        false => span.to_string(),
    }
}

fn rate(job: &Job) -> String {
    if job.pacing.ops_per_s <= 0.0 {
        return String::new();
    }
    let all = Rate(job.pacing.ops_per_s * f64::from(job.clones));
    match job.pacing.arrival {
        Arrival::Linear => format!("rate {all}/s"),
        Arrival::Poisson => format!("Poisson rate {all}/s"),
    }
}

/// `rndrw 128 × 16 MiB, 16 KiB, sync, fsync all every 100 requests, 4 threads`.
pub(super) fn shared(job: &Job, files: &SharedFiles) -> Vec<String> {
    let what = format!(
        "{} {} × {}",
        files.mode.name(),
        grouped(files.count.into()),
        Bytes(files.file_size)
    );
    let block = match files.merged {
        0 => Bytes(files.block).to_string(),
        merged => format!("{} merged to {}", Bytes(files.block), Bytes(merged)),
    };
    let threads = match job.clones {
        0 | 1 => String::new(),
        clones => format!("{clones} threads"),
    };
    let ratio = match files.mode.reads() && files.mode.writes() {
        true if files.read_write_ratio != USUAL_RATIO => {
            format!("{} reads to a write", files.read_write_ratio)
        }
        _ => String::new(),
    };
    let words = [
        what,
        block,
        ratio,
        distribution(files),
        mode(&files.engine),
        flags(&files.engine),
        syncs(files),
        if files.validate { "validated" } else { "" }.to_owned(),
        threads,
    ];
    let seed = files.seed.map(|seed| format!("seed {seed}"));
    vec![
        join(words.into_iter(), ", "),
        end(&job.end),
        rate(job),
        seed.unwrap_or_default(),
    ]
}

fn distribution(files: &SharedFiles) -> String {
    if !files.mode.random() {
        return String::new();
    }
    match &files.distribution {
        Distribution::Uniform => String::new(),
        Distribution::Zipf(theta) => format!("zipf:{theta}"),
        Distribution::Pareto(power) => format!("pareto:{power}"),
        Distribution::Normal(deviation) => format!("normal:{deviation}"),
        Distribution::Zoned(zones) => format!("{} zones", zones.len()),
        Distribution::Sequence { blocks, .. } => format!("{} blocks in turn", blocks.len()),
    }
}

fn mode(engine: &Engine) -> String {
    match engine.kind {
        EngineKind::Psync => "sync".to_owned(),
        EngineKind::Libaio => format!("async QD{}", engine.depth),
        kind => sanitize(kind.name()),
    }
}

fn flags(engine: &Engine) -> String {
    let flags = [
        (engine.direct, "direct"),
        (engine.o_sync, "O_SYNC"),
        (engine.o_dsync, "O_DSYNC"),
    ];
    let set = flags.into_iter().filter(|(set, _)| *set);
    join(set.map(|(_, word)| word.to_owned()), " ")
}

fn syncs(files: &SharedFiles) -> String {
    let call = if files.data_only {
        "fdatasync"
    } else {
        "fsync"
    };
    if !files.mode.writes() {
        return String::new();
    }
    match (files.fsync_all, files.fsync_every, files.fsync_end) {
        (true, ..) => format!("{call} after each write"),
        (false, 0, true) => format!("{call} all at the end"),
        (false, 0, false) => format!("no {call}"),
        (false, every, _) => format!("{call} all every {every} requests"),
    }
}
