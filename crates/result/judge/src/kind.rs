//! Whether a trial was limited by time or by an amount of work, and whether its jobs ran at the same time.

use iodyno_model::{CloneResult, EndedBy, Kind, Trial, Workload};

/// If clones start further apart than this, in ns, the rate of the trial varies for that reason alone. One
/// second, because the series has one point per second.
const TOGETHER_NS: u64 = 1_000_000_000;

/// Decides by the reasons why the clones ended, and by the plan if these are unknown. Clones that were ended by
/// another job's end are ignored if others ended by themselves. Ends of both kinds give an unknown kind.
pub(crate) fn kind(workload: &Workload, trial: &Trial) -> Kind {
    let ended = |by: &[EndedBy]| clones(trial).any(|clone| by.contains(&clone.ended));
    let by_time = ended(&[EndedBy::Runtime, EndedBy::Steady]);
    let by_work = ended(&[EndedBy::Size, EndedBy::Count]);
    match (by_time, by_work) {
        (true, false) => Kind::Timed,
        (false, true) => Kind::Finite,
        (true, true) => Kind::Unknown,
        (false, false) => planned(workload),
    }
}

/// Whether the plan limits it by time or by an amount of work.
pub(crate) fn planned(workload: &Workload) -> Kind {
    let timed = |job: &iodyno_model::Job| job.end.runtime.is_some();
    match workload.jobs.iter().filter(|job| timed(job)).count() {
        0 => Kind::Finite,
        all if all == workload.jobs.len() => Kind::Timed,
        _ => Kind::Unknown,
    }
}

/// Whether jobs began one after the other because of `stonewall`, `wait_for` or `startdelay`. Their series then
/// intentionally has several levels.
pub(crate) fn in_stages(trial: &Trial) -> bool {
    let starts = || {
        let ran = clones(trial).filter(|clone| clone.runtime_ns > 0);
        ran.map(|clone| clone.start_ns)
    };
    let (first, last) = (starts().min(), starts().max());
    last.unwrap_or(0) > first.unwrap_or(0).saturating_add(TOGETHER_NS)
}

fn clones(trial: &Trial) -> impl Iterator<Item = &CloneResult> {
    trial.parts.iter().flat_map(|part| &part.clones)
}
