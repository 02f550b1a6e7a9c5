//! Assembles a part from the clones' results: their figures, the steps, and the outcome.

use std::collections::BTreeMap;

use iodyno_engine::{CloneOutcome, CloneShared, StepSpan, WorkerError, WrittenBlocks};
use iodyno_model::{
    CloneResult, CpuUse, DepthUse, Direction, DirectionResult, EndedBy, EngineUsed, Job,
    OpInFlight, Outcome, PriorityResult, Step, StepTime, StopRequest, errno_name,
};
use iodyno_units::Nanos;

use crate::node::control::Control;
use crate::node::monitor::Left;
use crate::node::prepare::Waiting;
use crate::node::stalls::Pauses;

/// A clone that has ended or was given up.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) result: CloneResult,
    pub(crate) steps: Vec<StepSpan>,
    /// The error that ended its worker.
    pub(crate) broken: Option<WorkerError>,
    /// Its thread did not return, or some of its ops did not complete.
    pub(crate) stuck: bool,
    /// When none of its ops ended.
    pub(crate) pauses: Pauses,
    /// The blocks that it wrote, for the record.
    pub(crate) written: Option<WrittenBlocks>,
}

/// A clone without ops: it never started, or only its files had to be laid out.
pub(crate) fn idle(waiting: &Waiting, job: &Job, ended: EndedBy) -> Ended {
    Ended {
        result: CloneResult {
            job: waiting.job,
            clone: waiting.clone,
            start_ns: 0,
            runtime_ns: 0,
            done_ns: None,
            ended,
            directions: Vec::new(),
            verify_reads: None,
            cpu: CpuUse::default(),
            depth: DepthUse::default(),
            errors: Vec::new(),
            verify: None,
            engine: EngineUsed {
                name: job.work.engine_name().to_owned(),
                depth: job.work.depth(),
                ..EngineUsed::default()
            },
            region_bytes: waiting.region_bytes,
            files: waiting.files.clone(),
            stamp_window_ns: (0, 0),
            in_flight: Vec::new(),
            missed: Vec::new(),
            steady: None,
            command: None,
        },
        steps: Vec::new(),
        broken: None,
        stuck: false,
        pauses: Pauses::default(),
        written: None,
    }
}

impl Ended {
    /// It was aborted because the storage is stuck.
    pub(crate) fn by_stuck_storage(&mut self) {
        if self.result.ended == EndedBy::Interruption || !self.result.in_flight.is_empty() {
            self.result.ended = EndedBy::Stuck;
        }
    }
}

/// A clone whose thread has ended, or did not return (`None`). The values of its counters are kept in both cases.
pub(crate) fn ended(
    waiting: &Waiting,
    job: &Job,
    shared: &CloneShared,
    left: &Left,
    outcome: Option<Result<CloneOutcome, WorkerError>>,
    origin: u64,
    now: u64,
) -> Ended {
    let gone = outcome.is_none();
    let (outcome, broken) = match outcome {
        Some(Ok(mut outcome)) => {
            let broken = outcome.broken.take();
            (Some(outcome), broken)
        }
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    let because = match (&outcome, gone) {
        (Some(outcome), _) => outcome.ended,
        (None, true) => EndedBy::Interruption,
        (None, false) => EndedBy::Error,
    };
    let (start, end) = match &outcome {
        Some(outcome) => outcome.measured,
        None => measured_so_far(shared, now),
    };
    let mut ended = idle(waiting, job, because);
    ended.stuck = outcome.as_ref().map_or(gone, |outcome| outcome.stuck);
    let result = &mut ended.result;
    result.start_ns = start.saturating_sub(origin);
    result.runtime_ns = end.saturating_sub(start);
    if start == 0 {
        (result.start_ns, result.runtime_ns) = (0, 0);
    }
    let measured_ns = (result.start_ns, result.start_ns + result.runtime_ns);
    let (least_ns, list) = shared.pauses.list();
    let on_trial =
        |(from, to): (u64, u64)| (from.saturating_sub(origin), to.saturating_sub(origin));
    let pauses = list.into_iter().map(on_trial);
    ended.pauses = Pauses {
        measured: measured_ns,
        least_ns,
        list: pauses.collect(),
    };
    result.directions = directions(job, shared, left, result.runtime_ns);
    if let Some(outcome) = outcome {
        result.missed = outcome.missed;
        result.command = outcome.command;
        result.cpu = outcome.cpu;
        result.depth = outcome.depth;
        result.errors = outcome.errors;
        ended.written = outcome.written;
        result.verify = outcome.verify;
        result.verify_reads = outcome.verify_reads;
        result.engine = outcome.engine;
        result.stamp_window_ns = outcome.stamp_window;
        result.done_ns = done(&outcome.steps, origin);
        ended.steps = outcome.steps;
    }
    ended.broken = broken;
    ended
}

/// The end of the last op and of the last flush on the trial's clock, ns. The verify pass is not included.
fn done(steps: &[StepSpan], origin: u64) -> Option<u64> {
    steps
        .iter()
        .filter(|span| matches!(span.step, Step::Measure | Step::Drain | Step::EndFsync))
        .map(|span| span.end.saturating_sub(origin))
        .max()
}

fn measured_so_far(shared: &CloneShared, now: u64) -> (u64, u64) {
    match (shared.measure_start(), shared.measure_end()) {
        (0, _) => (0, 0),
        (start, 0) => (start, now),
        measured => measured,
    }
}

/// The latencies of each priority that ops had.
fn priorities(
    job: &Job,
    direction: Direction,
    counters: &iodyno_engine::counters::DirectionCounters,
) -> Vec<PriorityResult> {
    let priorities = job.op_priorities(direction).into_iter();
    let results = priorities.zip(&counters.priorities);
    results
        .map(|(priority, latencies)| PriorityResult {
            priority,
            latency: latencies.histogram(),
        })
        .filter(|result| !result.latency.is_empty())
        .collect()
}

fn directions(
    job: &Job,
    shared: &CloneShared,
    left: &Left,
    runtime_ns: u64,
) -> Vec<DirectionResult> {
    use std::sync::atomic::Ordering::Relaxed;
    let full = |counters: &Option<iodyno_engine::counters::LatencyCounters>| {
        let histogram = counters.as_ref()?.histogram();
        (!histogram.is_empty()).then_some(histogram)
    };
    let mut results = Vec::new();
    for (index, direction) in Direction::EVERY.into_iter().enumerate() {
        let counters = shared.measure.of(direction);
        let service = counters.service.histogram();
        if service.is_empty() && counters.errors.load(Relaxed) == 0 {
            continue;
        }
        let (bandwidth, iops) = left.rates[index];
        results.push(DirectionResult {
            direction,
            ops: service.count(),
            bytes: counters.bytes.load(Relaxed),
            short: counters.short.load(Relaxed),
            runtime_ns,
            submission: full(&counters.submission),
            completion: full(&counters.completion),
            service,
            response: full(&counters.response),
            priorities: priorities(job, direction, counters),
            bandwidth,
            iops,
        });
    }
    results
}

/// The steps of all clones. The clones of a job have one entry per step, with the earliest start and the longest
/// duration.
pub(crate) fn steps(ended: &[Ended], origin: u64) -> Vec<StepTime> {
    let mut steps: BTreeMap<(u32, Step), (i64, u64)> = BTreeMap::new();
    for clone in ended {
        for span in &clone.steps {
            let start = relative(span.start, origin);
            let length = span.end - span.start;
            let entry = steps
                .entry((clone.result.job, span.step))
                .or_insert((start, length));
            *entry = (entry.0.min(start), entry.1.max(length));
        }
    }
    steps
        .into_iter()
        .map(|((job, step), (start_ns, span_ns))| StepTime {
            step,
            job: Some(job),
            start_ns,
            span_ns,
        })
        .collect()
}

/// A step of the whole trial.
pub(crate) fn step(step: Step, from: u64, to: u64, origin: u64) -> StepTime {
    StepTime {
        step,
        job: None,
        start_ns: relative(from, origin),
        span_ns: to - from,
    }
}

/// The instant on the trial's clock, ns; negative before its start.
fn relative(instant: u64, origin: u64) -> i64 {
    i128::from(instant)
        .saturating_sub(i128::from(origin))
        .clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// The largest number of faults in an outcome; others are counted.
const TOLD: usize = 3;

/// The outcome of a trial whose storage made no progress for this time, ns.
pub(crate) fn stuck(ended: &[Ended], after_ns: u64) -> Outcome {
    Outcome::Failed(format!(
        "the storage is stuck: no op completed, and the storage made no progress, for {}; in flight: {}",
        Nanos(after_ns),
        in_flight(ended)
    ))
}

/// The ops in flight, the oldest first.
fn in_flight(ended: &[Ended]) -> String {
    let mut ops: Vec<&OpInFlight> = ended
        .iter()
        .flat_map(|clone| &clone.result.in_flight)
        .collect();
    ops.sort_by_key(|op| op.since_ns);
    let more = ops.len().saturating_sub(TOLD);
    let mut named: Vec<String> = ops
        .into_iter()
        .take(TOLD)
        .map(|op| {
            let offset = op.offset.map(|offset| format!(" at offset {offset}"));
            format!(
                "{} of `{}`{} since {:.1} s into the trial",
                op.direction.name(),
                op.file,
                offset.unwrap_or_default(),
                op.since_ns as f64 / 1e9
            )
        })
        .collect();
    named.extend((more > 0).then(|| format!("and {more} more")));
    named.join(", ")
}

/// The outcome of the trial. A failure takes precedence over an interruption, because it came first.
pub(crate) fn outcome(ended: &[Ended], jobs: &[Job], control: &Control) -> Outcome {
    let mut faults: Vec<String> = Vec::new();
    for clone in ended.iter().filter(|clone| fails(clone)) {
        let job = &jobs[clone.result.job as usize];
        let fault = match job.work.command() {
            // The fault names the command.
            Some(_) => fault(clone),
            None => format!("job `{}`: {}", job.name, fault(clone)),
        };
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }
    if !faults.is_empty() {
        let more = faults.len().saturating_sub(TOLD);
        faults.truncate(TOLD);
        if more > 0 {
            faults.push(format!("and {more} more"));
        }
        return Outcome::Failed(faults.join("; "));
    }
    let reason = match control.stop.requested() {
        _ if control.is_parent_gone() => "the process that started the node ended",
        StopRequest::No | StopRequest::Steady | StopRequest::ExitAll => return Outcome::Completed,
        StopRequest::Finish => "ended early by the user",
        StopRequest::Abort => "aborted by the user",
    };
    let mut stuck: Vec<&str> = ended
        .iter()
        .filter(|clone| clone.stuck)
        .map(|clone| jobs[clone.result.job as usize].name.as_str())
        .collect();
    stuck.dedup();
    match stuck.is_empty() {
        true => Outcome::Interrupted(reason.to_owned()),
        false => Outcome::Interrupted(format!(
            "{reason}; I/O of job `{}` did not complete: {}",
            stuck.join("`, `"),
            in_flight(ended)
        )),
    }
}

/// An outcome with its cause if it has a reason; otherwise the cause becomes a note.
pub(crate) fn because(outcome: Outcome, cause: Option<String>, notes: &mut Vec<String>) -> Outcome {
    match (outcome, cause) {
        (Outcome::Failed(reason), Some(cause)) => Outcome::Failed(format!("{cause}; {reason}")),
        (outcome, cause) => {
            notes.extend(cause);
            outcome
        }
    }
}

/// Notes on jobs whose duration ended before their cycles removed all files: their completion then covers only a part
/// of the work.
pub(crate) fn cut_off(ended: &[Ended], jobs: &[Job]) -> Vec<String> {
    let notes = jobs.iter().enumerate().filter_map(|(index, job)| {
        let operations = job.work.file_operations()?;
        let all = operations.cycles_until_empty(job.clones)?;
        let own = || {
            let clones = ended.iter().map(|clone| &clone.result);
            clones.filter(|clone| clone.job as usize == index)
        };
        let done: u64 = own()
            .filter_map(|clone| clone.direction(Direction::Op))
            .map(|op| op.ops)
            .sum();
        let cut = own().any(|clone| clone.ended == EndedBy::Runtime);
        (cut && done < all).then(|| {
            format!(
                "`{}` was ended by its duration after {done} of {all} cycles: the other files were not removed by it",
                job.name
            )
        })
    });
    notes.collect()
}

/// Notes on blocks that verification left out.
pub(crate) fn unchecked(ended: &[Ended], jobs: &[Job]) -> Vec<String> {
    let notes = jobs.iter().enumerate().filter_map(|(index, job)| {
        let own = ended.iter().map(|clone| &clone.result);
        let own = own.filter(|clone| clone.job as usize == index);
        let results = own.filter_map(|clone| clone.verify.as_ref());
        let blocks: u64 = results.map(|result| result.unchecked).sum();
        (blocks > 0).then(|| {
            format!(
                "`{}`: {blocks} blocks were not checked: their last write failed, was not made, or was a trim",
                job.name
            )
        })
    });
    notes.collect()
}

fn fails(clone: &Ended) -> bool {
    clone.broken.is_some() || clone.result.ended == EndedBy::Error
}

/// The fault of a clone, in one line.
fn fault(clone: &Ended) -> String {
    if let Some(broken) = &clone.broken {
        let hint = broken.hint.as_ref();
        let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
        return format!("cannot {}: {}{hint}", broken.what, broken.cause);
    }
    if let Some(verify) = clone.result.verify.as_ref().filter(|v| v.bad() > 0) {
        let first = verify.first.as_deref().unwrap_or("");
        return format!(
            "{} of {} blocks differ from what was written: {first}",
            verify.bad(),
            verify.checked
        );
    }
    match clone.result.errors.first() {
        // A file operation has no offset.
        Some(error) if error.direction > Direction::Op => format!(
            "{} of {}, first of `{}`",
            errno_name(error.errno),
            error.direction.name(),
            error.first_file
        ),
        Some(error) => format!(
            "{} of {}, first in `{}` at offset {}",
            errno_name(error.errno),
            error.direction.name(),
            error.first_file,
            error.first_offset
        ),
        None => "it failed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::CloneLogs;
    use crate::samples::job;
    use iodyno_model::{Action, CycleStep, ErrorCount, FileSet, Operations, Subject, Work};

    fn told(stop: StopRequest) -> Control {
        let control = Control::default();
        control.stop.request(stop);
        control
    }

    fn waiting(job: u32, clone: u32) -> Waiting {
        Waiting {
            job,
            clone,
            seed: 0,
            region_bytes: 4096,
            files: vec!["f".to_owned()],
            spec: None,
            logs: CloneLogs::default(),
            places: Vec::new(),
        }
    }

    fn clone(number: u32, because: EndedBy) -> Ended {
        idle(&waiting(0, number), &job("j"), because)
    }

    fn span(step: Step, start: u64, end: u64) -> StepSpan {
        StepSpan { step, start, end }
    }

    #[test]
    fn steps_have_the_earliest_start_and_the_longest_duration() {
        let mut clones = [clone(0, EndedBy::Runtime), clone(1, EndedBy::Runtime)];
        clones[0].steps = vec![
            span(Step::Measure, 1010, 2000),
            span(Step::Drain, 2000, 2001),
        ];
        clones[1].steps = vec![span(Step::Measure, 1000, 1500)];
        let found = steps(&clones, 1000);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].start_ns, found[0].span_ns), (0, 990));
        assert_eq!((found[1].start_ns, found[1].span_ns), (1000, 1));
        assert_eq!(step(Step::LayOut, 400, 900, 1000).start_ns, -600);
    }

    #[test]
    fn completion_includes_the_flush_but_not_the_verify_pass() {
        let steps = [
            span(Step::Measure, 1000, 2000),
            span(Step::Drain, 2000, 2010),
            span(Step::EndFsync, 2010, 2900),
            span(Step::VerifyPass, 2900, 5000),
        ];
        assert_eq!(done(&steps, 1000), Some(1900));
        assert_eq!(done(&steps[..2], 1000), Some(1010));
        assert_eq!(done(&[], 1000), None);
    }

    #[test]
    fn a_failure_has_its_errno_and_takes_precedence_over_an_interruption() {
        let mut failed = clone(0, EndedBy::Error);
        failed.result.errors.push(ErrorCount {
            direction: Direction::Write,
            errno: 28,
            count: 1,
            first_file: "f".into(),
            first_offset: 8192,
            first_length: 0,
        });
        let clones = [failed, clone(1, EndedBy::Interruption)];
        let found = outcome(&clones, &[job("j")], &told(StopRequest::Finish));
        assert_eq!(
            found,
            Outcome::Failed("job `j`: ENOSPC of write, first in `f` at offset 8192".into())
        );
    }

    #[test]
    fn errors_that_the_policy_allows_are_not_a_failure() {
        let mut clones = [clone(0, EndedBy::Runtime)];
        clones[0].result.errors.push(ErrorCount {
            direction: Direction::Read,
            errno: 5,
            count: 9,
            first_file: "f".into(),
            first_offset: 0,
            first_length: 0,
        });
        assert_eq!(
            outcome(&clones, &[job("j")], &told(StopRequest::No)),
            Outcome::Completed
        );
    }

    #[test]
    fn deletes_that_a_duration_ends_are_reported() {
        let unlink = Action::Unlink {
            of: Subject::Set {
                name: "files".to_owned(),
                order: Default::default(),
            },
        };
        let mut deletes = job("deletes");
        deletes.clones = 2;
        deletes.work = Work::FileOperations(Operations {
            about: String::new(),
            sets: vec![FileSet {
                name: "files".to_owned(),
                count: 20,
                size: 1,
                fsync: false,
                folders: false,
            }],
            cycle: vec![CycleStep {
                action: unlink,
                timed: true,
            }],
            own_folders: false,
            drain: false,
            writing: Default::default(),
            fio: None,
            command: None,
        });
        let clone = |number, ops, because| {
            let mut ended = clone(number, because);
            let mut op = DirectionResult::empty(Direction::Op);
            op.ops = ops;
            ended.result.directions = vec![op];
            ended
        };
        let cut = [clone(0, 10, EndedBy::Count), clone(1, 4, EndedBy::Runtime)];
        assert_eq!(
            cut_off(&cut, &[deletes.clone()]),
            [
                "`deletes` was ended by its duration after 14 of 20 cycles: the other files were not removed by it"
            ]
        );
        for whole in [
            [clone(0, 10, EndedBy::Count), clone(1, 10, EndedBy::Count)],
            [
                clone(0, 10, EndedBy::Runtime),
                clone(1, 10, EndedBy::Runtime),
            ],
            // As requested with `max-ops`.
            [clone(0, 1, EndedBy::Count), clone(1, 1, EndedBy::Count)],
        ] {
            assert_eq!(cut_off(&whole, &[deletes.clone()]), Vec::<String>::new());
        }
        assert!(cut_off(&cut, &[job("blocks")]).is_empty());
    }

    #[test]
    fn a_stuck_job_is_named() {
        let mut clones = [clone(0, EndedBy::Interruption)];
        clones[0].stuck = true;
        let Outcome::Interrupted(reason) = outcome(&clones, &[job("j")], &told(StopRequest::Abort))
        else {
            panic!("it was interrupted");
        };
        assert!(reason.contains("aborted by the user; I/O of job `j` did not complete"));
    }

    #[test]
    fn many_faults_are_counted() {
        let clones: Vec<Ended> = (0..9)
            .map(|n| {
                let mut clone = clone(n, EndedBy::Error);
                clone.broken = Some(WorkerError::new(format!("do {n}"), "no"));
                clone
            })
            .collect();
        let Outcome::Failed(reason) = outcome(&clones, &[job("j")], &told(StopRequest::No)) else {
            panic!("it failed");
        };
        assert!(
            reason.contains("cannot do 2: no") && reason.ends_with("and 6 more"),
            "{reason}"
        );
    }
}
