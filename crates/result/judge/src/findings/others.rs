//! Detects I/O of other processes on the devices under test.

use iodyno_model::{Direction, Finding, FindingKind, SeriesKind, StackLayer, Weight};
use iodyno_units::Bytes;

use super::{Evidence, during, finding, list, remedied};
use crate::series::{Total, View, sum, totals};
use crate::{devices, work};

/// The devices transferred this much more than the jobs, as a fraction of the jobs' bytes. Metadata, journals and
/// earlier writeback stay below it unless requests are tiny.
const EXCESS_SHARE: f64 = 0.1;

/// Other processes transferred at least this fraction of the excess; with less it has another cause, such as the file
/// system itself.
const EXPLAINED_SHARE: f64 = 0.5;

/// Fewer bytes are negligible, such as a log file's.
const MIN_BYTES: u64 = 16 << 20;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    // Any number of samples is sufficient: the devices show the excess, and the samples only identify its cause.
    let others = totals(&evidence.telemetry, SeriesKind::Others);
    [
        (Direction::Read, "read_bytes"),
        (Direction::Write, "written_bytes"),
    ]
    .into_iter()
    .filter_map(|(direction, column)| of_direction(evidence, &others, direction, column))
    .collect()
}

fn of_direction(
    evidence: &Evidence,
    others: &[Total],
    direction: Direction,
    column: &str,
) -> Option<Finding> {
    let mut shares = evidence.summary.shares.iter();
    let share = shares.find(|share| share.direction == direction)?;
    // A server under test is not another process. If it also does the jobs' own I/O, the remaining excess is too
    // small.
    let excess = share
        .device_bytes
        .saturating_sub(share.job_bytes)
        .saturating_sub(servers(evidence, direction));
    if excess < MIN_BYTES || (excess as f64) < EXCESS_SHARE * share.job_bytes as f64 {
        return None;
    }
    let mut moved: Vec<(&str, u64)> = others
        .iter()
        .map(|process| (process.subject, process.count(column)))
        .filter(|(_, bytes)| *bytes > 0)
        .collect();
    moved.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let theirs = sum(moved.iter().map(|(_, bytes)| *bytes));
    let explained = theirs >= MIN_BYTES && theirs as f64 >= EXPLAINED_SHARE * excess as f64;
    // On a host without other I/O there are no samples.
    let looked = evidence.sampled(SeriesKind::Disk);
    let verb = match direction {
        Direction::Read => "read",
        _ => "wrote",
    };
    let devices = format!(
        "the devices {verb} {} more than the jobs' {}",
        Bytes(excess),
        Bytes(share.job_bytes)
    );
    let (weight, text) = match explained {
        true => {
            let named: Vec<String> = moved
                .iter()
                .map(|(name, bytes)| format!("{name} {verb} {}", Bytes(*bytes)))
                .collect();
            (Weight::Warning, format!("{}; {devices}", list(&named)))
        }
        false if direction == Direction::Read && looked && reads_are_exact(evidence) => (
            Weight::Note,
            format!("{devices}: direct reads do not explain it, and no process was seen doing it"),
        ),
        false => return None,
    };
    let spans_ns = evidence.spans_ns(SeriesKind::Others, |shape, sample| {
        let moved = |row: View| row.count(column).is_some_and(|bytes| bytes > 0);
        View::of(shape, sample).any(moved)
    });
    let found = remedied(
        finding(
            FindingKind::OtherIo,
            weight,
            text,
            format!(
                "the lowest devices moved ≥ {:.0} % and ≥ {} more than the jobs, and other processes ≥ {:.0} % of that; a note \
                 where only direct reads are measured and no process is known",
                EXCESS_SHARE * 100.0,
                Bytes(MIN_BYTES),
                EXPLAINED_SHARE * 100.0
            ),
        ),
        "stop the process, or move it to another device; name a server under test with --sample",
    );
    Some(during(found, spans_ns))
}

/// Bytes transferred by the processes under test.
fn servers(evidence: &Evidence, direction: Direction) -> u64 {
    let servers = evidence
        .trial
        .parts
        .iter()
        .flat_map(|part| &part.host.servers);
    let bytes = servers.filter_map(|server| match direction {
        Direction::Read => server.read_bytes,
        _ => server.written_bytes,
    });
    sum(bytes)
}

/// Whether every byte that the devices read was requested by a job: no read-ahead, no read-modify-write, and no
/// layer with checksums or maps of its own.
fn reads_are_exact(evidence: &Evidence) -> bool {
    let exact = |layer: &StackLayer| match layer {
        StackLayer::Mount(mount) => devices::LOCAL.contains(&mount.file_system.as_str()),
        StackLayer::Loop { direct, .. } => *direct,
        StackLayer::Partition(_) | StackLayer::Disk(_) => true,
        StackLayer::Mapped { .. } | StackLayer::Other(_) => false,
    };
    let mut targets = (evidence.trial.parts.iter()).flat_map(|part| &part.environment.targets);
    let mut jobs = evidence.clones_on_files().map(|(_, job)| job).peekable();
    jobs.peek().is_some()
        && jobs.all(|job| job.work.direct() && work::reads(job) && !work::writes(job))
        && targets.all(|target| target.stack.iter().all(exact))
}
