//! Whether a trial had a time to fill or work to do, and whether it was one trial at all.

use iodyno_model::{CloneResult, EndedBy, Kind, Trial, Workload};

/// Clones that begin further apart than this, ns, make the rates of a trial range by themselves: the
/// series is one of seconds.
const TOGETHER_NS: u64 = 1_000_000_000;

/// By what ended the clones; by what was planned where that does not tell. Clones that another job's end took with it
/// follow those that ended by themselves. Ends of both kinds make an unknown one.
pub(crate) fn kind(workload: &Workload, trial: &Trial) -> Kind {
    let ended = |by: &[EndedBy]| clones(trial).any(|clone| by.contains(&clone.ended));
    let by_time = ended(&[EndedBy::Runtime]);
    let by_work = ended(&[EndedBy::Size, EndedBy::Count]);
    match (by_time, by_work) {
        (true, false) => Kind::Timed,
        (false, true) => Kind::Finite,
        (true, true) => Kind::Unknown,
        (false, false) => planned(workload),
    }
}

fn planned(workload: &Workload) -> Kind {
    let timed = |job: &iodyno_model::Job| job.end.runtime.is_some();
    match workload.jobs.iter().filter(|job| timed(job)).count() {
        0 => Kind::Finite,
        all if all == workload.jobs.len() => Kind::Timed,
        _ => Kind::Unknown,
    }
}

/// Jobs began one after the other, as `stonewall`, `wait_for` or `startdelay` ask: the series is that of several
/// behaviours because it was meant to be.
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
