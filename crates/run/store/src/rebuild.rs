//! Rebuilds the results of an interrupted trial from its frames.
//!
//! Frames contain every op of the measured time. Counts, bytes and distributions are therefore exact, but only for
//! each job as a whole: frames do not distinguish its clones. Data that are not in frames (the host and its devices,
//! errnos, verification, depths) stay empty, and the notes of the part say so.

use std::collections::BTreeMap;

use iodyno_model::{
    CloneResult, CpuUse, DepthUse, Direction, DirectionFrame, DirectionResult, EndedBy, EngineUsed,
    Environment, ErrorCount, Frame, HostUse, Job, Part, RunningStats, Step, StepTime, Workload,
};

use crate::totals::counts;

/// Rebuilds a part from all frames of a trial, in order. A pure function.
pub fn rebuild<'a>(
    frames: impl IntoIterator<Item = &'a Frame>,
    environment: Environment,
    workload: &Workload,
) -> Part {
    let mut rebuilder = Rebuilder::default();
    for frame in frames {
        rebuilder.add(frame);
    }
    rebuilder.part(environment, workload)
}

/// The parts of all nodes of a trial, from its frames in the order in which they were stored.
#[derive(Debug, Default)]
pub(crate) struct PartsRebuilder {
    nodes: BTreeMap<String, Rebuilder>,
    next_number: u32,
    missing: u64,
}

impl PartsRebuilder {
    /// Adds the next frame.
    pub(crate) fn add(&mut self, frame: &Frame) {
        self.missing += u64::from(frame.number.saturating_sub(self.next_number));
        self.next_number = frame.number.saturating_add(1);
        if !self.nodes.contains_key(&frame.node) {
            self.nodes.insert(frame.node.clone(), Rebuilder::default());
        }
        if let Some(node) = self.nodes.get_mut(&frame.node) {
            // Frames are numbered over all nodes.
            node.next_number = frame.number;
            node.add(frame);
        }
    }

    /// The parts of these nodes, without those that have neither an environment nor frames: their preparation was not
    /// finished.
    pub(crate) fn parts(
        mut self,
        environments: Vec<(String, Option<Environment>)>,
        workload: &Workload,
    ) -> Vec<Part> {
        let mut parts = Vec::new();
        let works = |node: &Rebuilder| !node.jobs.is_empty();
        let any_works = self.nodes.values().any(works);
        for (name, environment) in environments {
            let frames = self.nodes.remove(&name);
            if environment.is_none() && frames.is_none() {
                continue;
            }
            let mut rebuilder = frames.unwrap_or_default();
            rebuilder.missing = self.missing;
            // A node without jobs is only sampled.
            let only_sampled = any_works && !works(&rebuilder);
            let mut part = rebuilder.part(environment.unwrap_or_default(), workload);
            if only_sampled {
                part.clones.clear();
            }
            parts.push(match name.is_empty() {
                true => part,
                false => Part { node: name, ..part },
            });
        }
        parts
    }
}

/// [`rebuild`], one frame at a time, so that a long trial does not have to fit in memory.
#[derive(Debug, Default)]
pub struct Rebuilder {
    jobs: BTreeMap<u32, JobSum>,
    steps: Vec<StepTime>,
    frames: u64,
    next_number: u32,
    missing: u64,
    /// Number of frames of the measuring step so far; each gives one sample of every rate.
    samples: u64,
    measured_ns: u64,
    cpu_ns: u64,
    /// End of the last frame of the measured time, ns.
    measured_until_ns: u64,
    end_ns: u64,
}

/// The state of one job so far.
#[derive(Debug, Default)]
struct JobSum {
    /// Start of the first frame of the measured time in which the job ran, ns.
    start_ns: Option<u64>,
    /// End of the last such frame, ns.
    end_ns: u64,
    /// Number of samples of the trial before the first such frame, and up to the last one.
    samples: (u64, u64),
    /// Number of running clones in the job's last frame.
    running: u32,
    directions: Vec<DirectionSum>,
}

/// The results of one job in one direction so far.
#[derive(Debug)]
struct DirectionSum {
    result: DirectionResult,
    errors: u64,
    bandwidth: RunningStats,
    iops: RunningStats,
}

impl Rebuilder {
    /// Adds the next frame.
    pub fn add(&mut self, frame: &Frame) {
        self.frames += 1;
        self.missing += u64::from(frame.number.saturating_sub(self.next_number));
        self.next_number = frame.number.saturating_add(1);
        self.end_ns = self.end_ns.max(frame.end_ns);
        self.add_step(frame);
        let samples_before = self.samples;
        let measures = counts(frame) && !waits(frame);
        if measures {
            self.samples += u64::from(samples(frame));
            self.measured_ns += span_ns(frame);
            self.measured_until_ns = frame.end_ns;
            self.cpu_ns += frame.cpu_ns;
        }
        for job in &frame.jobs {
            let sum = self.jobs.entry(job.job).or_default();
            sum.running = job.running;
            let at_work = job.running > 0 || !job.directions.is_empty();
            if !measures || !at_work {
                continue;
            }
            if sum.start_ns.is_none() {
                sum.start_ns = Some(frame.start_ns);
                sum.samples.0 = samples_before;
            }
            sum.end_ns = frame.end_ns;
            sum.samples.1 = self.samples;
            for done in &job.directions {
                sum.direction(done.direction).add(done, frame);
            }
        }
    }

    fn add_step(&mut self, frame: &Frame) {
        match self.steps.last_mut() {
            Some(last) if last.step == frame.step => last.span_ns += span_ns(frame),
            _ => self.steps.push(StepTime {
                step: frame.step,
                job: None,
                start_ns: i64::try_from(frame.start_ns).unwrap_or(i64::MAX),
                span_ns: span_ns(frame),
            }),
        }
    }

    /// The part rebuilt from the frames.
    pub fn part(mut self, environment: Environment, workload: &Workload) -> Part {
        let notes = self.notes(workload);
        for sum in self.jobs.values_mut().filter(|sum| sum.running > 0) {
            // The job ran to the end, even if no op completed in the last seconds.
            sum.end_ns = self.measured_until_ns;
            sum.samples.1 = self.samples;
        }
        let last = workload.jobs.len().max(
            self.jobs
                .keys()
                .next_back()
                .map_or(0, |job| *job as usize + 1),
        );
        let mut jobs = self.jobs;
        let clones = (0..last as u32)
            .map(|job| {
                jobs.remove(&job)
                    .unwrap_or_default()
                    .clone_result(job, workload)
            })
            .collect();
        Part {
            node: "local".to_owned(),
            clock_offset_ns: 0,
            clock_error_ns: 0,
            clock_at_ns: 0,
            clock_after: None,
            start_late_ns: 0,
            environment,
            clones,
            steps: self.steps,
            host: HostUse {
                span_ns: self.measured_ns,
                harness_user_ns: self.cpu_ns,
                ..HostUse::default()
            },
            files: Vec::new(),
            notes,
            start_unix_ms: None,
            settled: None,
            sampling: Vec::new(),
            stalls: None,
        }
    }

    fn notes(&self, workload: &Workload) -> Vec<String> {
        let mut notes = vec![format!(
            "rebuilt from {} frames, {:.1} s of the trial; clones of a job are put together; the \
             harness's CPU time is user and system in one; host, devices and depths are not known",
            self.frames,
            self.end_ns as f64 / 1e9
        )];
        if self.missing > 0 {
            notes.push(format!(
                "{} frames before the last one are missing",
                self.missing
            ));
        }
        for (job, sum) in &self.jobs {
            let name = workload
                .jobs
                .get(*job as usize)
                .map_or("?", |job| &job.name);
            let errors: u64 = sum.directions.iter().map(|sum| sum.errors).sum();
            if errors > 0 {
                notes.push(format!(
                    "job {job} `{name}`: {errors} ops failed; their errnos are not known"
                ));
            }
            if sum.running == 0 && sum.start_ns.is_some() {
                notes.push(format!(
                    "job {job} `{name}` had ended before; by what is not known"
                ));
            }
        }
        notes
    }
}

impl JobSum {
    fn runtime_ns(&self) -> u64 {
        let start_ns = self.start_ns.unwrap_or(self.end_ns);
        self.end_ns.saturating_sub(start_ns)
    }

    fn direction(&mut self, direction: Direction) -> &mut DirectionSum {
        let found = self
            .directions
            .iter()
            .position(|sum| sum.result.direction == direction);
        let index = found.unwrap_or_else(|| {
            self.directions.push(DirectionSum {
                result: DirectionResult::empty(direction),
                errors: 0,
                bandwidth: RunningStats::default(),
                iops: RunningStats::default(),
            });
            self.directions.len() - 1
        });
        &mut self.directions[index]
    }

    fn clone_result(mut self, job: u32, workload: &Workload) -> CloneResult {
        let planned = workload.jobs.get(job as usize);
        self.directions.sort_by_key(|sum| sum.result.direction);
        let (runtime_ns, samples) = (self.runtime_ns(), self.samples.1 - self.samples.0);
        let errors = self.directions.iter().filter(|sum| sum.errors > 0);
        let errors = errors.map(DirectionSum::error_count).collect();
        let directions = self.directions.into_iter();
        let directions = directions
            .map(|sum| sum.result(runtime_ns, samples))
            .collect();
        CloneResult {
            job,
            clone: 0,
            start_ns: self.start_ns.unwrap_or(0),
            runtime_ns,
            done_ns: None,
            ended: match self.start_ns.is_some() || self.running > 0 {
                true => EndedBy::Interruption,
                false => EndedBy::NotStarted,
            },
            errors,
            directions,
            verify_reads: None,
            cpu: CpuUse::default(),
            depth: DepthUse::default(),
            verify: None,
            engine: planned.map_or_else(EngineUsed::default, engine),
            region_bytes: 0,
            files: Vec::new(),
            stamp_window_ns: (0, 0),
            in_flight: Vec::new(),
            missed: Vec::new(),
            steady: None,
            command: None,
        }
    }
}

/// The requested backend. Cycles of file operations use none.
fn engine(job: &Job) -> EngineUsed {
    EngineUsed {
        name: job.work.engine_name().to_owned(),
        depth: job.work.depth(),
        features: Vec::new(),
        fallbacks: Vec::new(),
    }
}

impl DirectionSum {
    /// Frames hold the number of failed ops, but not their errnos or offsets.
    fn error_count(&self) -> ErrorCount {
        ErrorCount {
            direction: self.result.direction,
            errno: 0,
            count: self.errors,
            first_file: String::new(),
            first_offset: 0,
            first_length: 0,
        }
    }

    fn add(&mut self, done: &DirectionFrame, frame: &Frame) {
        self.result.ops += done.ops;
        self.result.bytes += done.bytes;
        self.errors += done.errors;
        self.result.service.merge(&done.service);
        if let Some(response) = &done.response {
            self.result.response.get_or_insert_default().merge(response);
        }
        if samples(frame) {
            let per_second = |count: u64| count as f64 * 1e9 / span_ns(frame) as f64;
            self.bandwidth.add(per_second(done.bytes));
            self.iops.add(per_second(done.ops));
        }
    }

    /// `samples`: number of frames in which the job ran.
    fn result(mut self, runtime_ns: u64, samples: u64) -> DirectionResult {
        // A frame without an op of this direction does not mention it: its rate is 0.
        for _ in self.iops.samples()..samples {
            self.bandwidth.add(0.0);
            self.iops.add(0.0);
        }
        DirectionResult {
            runtime_ns,
            bandwidth: self.bandwidth.stats(),
            iops: self.iops.stats(),
            ..self.result
        }
    }
}

/// Whether a frame gives a sample. Frames of the drain give none: no ops are submitted in it.
fn samples(frame: &Frame) -> bool {
    frame.step == Step::Measure && span_ns(frame) > 0
}

/// Whether all ops are done and the jobs only wait for the file system, which may take minutes.
fn waits(frame: &Frame) -> bool {
    let mut jobs = frame.jobs.iter();
    frame.step == Step::Drain && jobs.all(|job| job.directions.is_empty())
}

fn span_ns(frame: &Frame) -> u64 {
    frame.end_ns.saturating_sub(frame.start_ns)
}

#[cfg(test)]
mod tests;
