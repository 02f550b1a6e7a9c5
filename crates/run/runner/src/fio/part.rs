//! fio's results as the part of a node.

use iodyno_import::FioJob;
use iodyno_model::{
    BoundPlan, CloneResult, DepthUse, EndedBy, EngineUsed, Environment, ErrorCount, HostUse, Part,
};

use super::job_file::writes;

/// When fio's clones passed the start, ns of this host's clock.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Start {
    /// The start instant of all nodes.
    pub(super) instant_ns: u64,
    /// Index of the job, and when one of its clones passed, in order of arrival.
    pub(super) passed: Vec<(u32, u64)>,
    /// Wall clock at the instant, ms since 1970.
    pub(super) unix_ms: u64,
}

impl Start {
    /// 0 of the trial's clock: when the first clone passed, at the earliest the start instant.
    fn origin_ns(&self) -> u64 {
        let first = self.passed.iter().map(|passed| passed.1).min();
        first.map_or(self.instant_ns, |first| first.max(self.instant_ns))
    }
}

/// Returns the part.
///
/// # Errors
/// fio reports another number of clones than the plan has.
pub(super) fn part(
    plan: &BoundPlan,
    reported: Vec<FioJob>,
    start: &Start,
    fio: &str,
    environment: Environment,
    interrupted: bool,
) -> Result<Part, String> {
    let all = plan.workload.jobs.iter().zip(0..);
    let all = all.flat_map(|(job, index)| (0..job.clones).map(move |clone| (index, clone)));
    let all: Vec<(u32, u32)> = all.collect();
    if all.len() != reported.len() {
        return Err(format!(
            "fio reports {} clones, and the trial has {}",
            reported.len(),
            all.len()
        ));
    }
    let origin_ns = start.origin_ns();
    let clones: Vec<CloneResult> = (all.into_iter().zip(reported))
        .map(|((job, clone), result)| {
            let mut passed = start.passed.iter().filter(|passed| passed.0 == job);
            let passed = passed.nth(clone as usize).map(|passed| passed.1);
            clone_result(plan, (job, clone), result, passed, origin_ns, interrupted)
        })
        .collect();
    let mut host = HostUse::default();
    for clone in &clones {
        host.harness_user_ns += clone.cpu.user_ns;
        host.harness_system_ns += clone.cpu.system_ns;
        host.span_ns = host.span_ns.max(clone.runtime_ns);
    }
    Ok(Part {
        node: "local".to_owned(),
        clock_offset_ns: 0,
        clock_error_ns: 0,
        clock_at_ns: 0,
        clock_after: None,
        start_late_ns: origin_ns - start.instant_ns,
        start_unix_ms: Some(start.unix_ms + (origin_ns - start.instant_ns) / 1_000_000),
        environment,
        clones,
        steps: Vec::new(),
        host,
        files: Vec::new(),
        notes: vec![format!(
            "measured by {fio} of the node: latencies in fio's bins, no series, no telemetry"
        )],
        settled: None,
        sampling: Vec::new(),
        stalls: None,
    })
}

fn clone_result(
    plan: &BoundPlan,
    (index, clone): (u32, u32),
    result: FioJob,
    passed_ns: Option<u64>,
    origin_ns: u64,
    interrupted: bool,
) -> CloneResult {
    let job = &plan.workload.jobs[index as usize];
    let blocks = job.work.as_blocks();
    let runtime_ns = result.directions.iter().map(|one| one.runtime_ns).max();
    let runtime_ns = runtime_ns.unwrap_or(0);
    let ramp_ns = job.end.ramp.0;
    let ended = match (result.error, passed_ns, job.end.runtime) {
        (error, ..) if error != 0 => EndedBy::Error,
        (_, None, _) => EndedBy::NotStarted,
        _ if interrupted => EndedBy::Interruption,
        // fio's runtimes are in whole ms.
        (_, _, Some(limit)) if runtime_ns + 1_000_000 >= limit.0 => EndedBy::Runtime,
        _ => EndedBy::Size,
    };
    let direction = match writes(plan) && blocks.access.writes {
        true => iodyno_model::Direction::Write,
        false => iodyno_model::Direction::Read,
    };
    let errors = (result.error != 0).then(|| ErrorCount {
        direction,
        errno: i32::try_from(result.error).unwrap_or(i32::MAX),
        count: 1,
        first_file: String::new(),
        first_offset: 0,
        first_length: 0,
    });
    CloneResult {
        job: index,
        clone,
        start_ns: passed_ns.map_or(0, |passed| passed.saturating_sub(origin_ns)) + ramp_ns,
        runtime_ns,
        done_ns: None,
        ended,
        directions: result.directions,
        verify_reads: None,
        cpu: result.cpu,
        depth: DepthUse::default(),
        errors: errors.into_iter().collect(),
        verify: None,
        engine: EngineUsed {
            name: blocks.engine.kind.name().to_owned(),
            depth: blocks.engine.depth,
            ..EngineUsed::default()
        },
        region_bytes: match blocks.extent.size {
            Some(iodyno_model::Amount::Bytes(bytes)) => bytes,
            _ => 0,
        },
        files: Vec::new(),
        stamp_window_ns: (0, 0),
        in_flight: Vec::new(),
        missed: Vec::new(),
        steady: None,
        command: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{job, plan};
    use iodyno_model::{CpuUse, Direction, DirectionResult};

    fn reported(ops: u64) -> FioJob {
        FioJob {
            name: "a".to_owned(),
            error: 0,
            runtime_ns: 1_000_000_000,
            cpu: CpuUse {
                user_ns: 3,
                ..CpuUse::default()
            },
            directions: vec![DirectionResult {
                ops,
                runtime_ns: 1_000_000_000,
                ..DirectionResult::empty(Direction::Read)
            }],
        }
    }

    #[test]
    fn each_clone_starts_when_it_passed_and_the_part_when_the_first_did() {
        let mut two = job("two");
        two.clones = 2;
        let plan = plan("/", vec![two, job("later")]);
        let start = Start {
            instant_ns: 1000,
            passed: vec![(0, 1500), (0, 1700), (1, 9000)],
            unix_ms: 5,
        };
        let jobs = vec![reported(1), reported(2), reported(3)];
        let made = part(
            &plan,
            jobs.clone(),
            &start,
            "fio-3.33",
            Environment::default(),
            false,
        );
        let made = made.unwrap();
        assert_eq!((made.start_late_ns, made.host.harness_user_ns), (500, 9));
        let clones = made.clones.iter();
        let clones: Vec<_> = clones
            .map(|one| (one.job, one.clone, one.start_ns, one.directions[0].ops))
            .collect();
        assert_eq!(clones, [(0, 0, 0, 1), (0, 1, 200, 2), (1, 0, 7500, 3)]);
        let few = part(
            &plan,
            jobs[..2].to_vec(),
            &start,
            "",
            Environment::default(),
            false,
        );
        assert!(few.unwrap_err().contains("2 clones"));
    }
}
