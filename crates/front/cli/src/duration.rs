//! The duration of a workload, if its jobs have time limits.

use iodyno_model::{After, Job, Plan, Workload};
use iodyno_units::Nanos;

/// The maximum duration of the jobs; `None` if one has no time limit.
pub(crate) fn longest(workload: &Workload) -> Option<Nanos> {
    let mut ends: Vec<(&str, u64)> = Vec::new();
    for job in &workload.jobs {
        let latest = |ends: &[(&str, u64)]| ends.iter().map(|end| end.1).max().unwrap_or(0);
        let start = match &job.after {
            After::Start => 0,
            After::AllBefore => latest(&ends),
            After::Job(name) => ends
                .iter()
                .filter(|end| end.0 == name)
                .map(|end| end.1)
                .max()?,
        };
        ends.push((&job.name, start + duration(job)?));
    }
    ends.iter().map(|end| Nanos(end.1)).max()
}

fn duration(job: &Job) -> Option<u64> {
    let parts = [job.delay.max, job.end.ramp, job.end.runtime?];
    Some(parts.iter().map(|part| part.0).fold(0, u64::saturating_add))
}

/// The duration of the measurements of a round, ns, and the workloads without a time limit.
pub(crate) fn of_round(plan: &Plan) -> (u64, Vec<String>) {
    let mut sum = 0u64;
    let mut endless: Vec<String> = Vec::new();
    for (_, workload) in plan.each_cell() {
        match longest(workload) {
            Some(time) => sum = sum.saturating_add(time.0),
            None if !endless.contains(&workload.name) => endless.push(workload.name.clone()),
            None => {}
        }
    }
    (sum, endless)
}
