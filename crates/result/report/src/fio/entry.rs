//! Clones combined as in fio: each separately, or a group as one entry.

use iodyno_model::{
    Blocks, CloneResult, CpuUse, DepthUse, Direction, DirectionResult, EndedBy, Histogram, Job,
    LatencyTarget, PriorityResult, SteadyResult, Step, Trial, UnifiedReporting, Workload,
};
use iodyno_units::Nanos;

use super::latency::{self, Classes};

/// One member of fio's `jobs` list.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    /// Its first job; the entry has its name and options.
    pub(super) job: &'a Job,
    /// Number of clones in this entry.
    pub(super) members: u32,
    /// Read, write, trim, sync.
    directions: [DirectionResult; 4],
    /// The sum of the first three, if it is reported in addition.
    sum: Option<DirectionResult>,
    pub(super) cpu: CpuUse,
    pub(super) depth: DepthUse,
    /// Failed ops.
    pub(super) failed: u64,
    /// The first errno, or 0.
    pub(super) errno: i32,
    /// Start on the trial's clock, ns.
    pub(super) start_ns: u64,
    /// Sum of the measured times of all clones, ms.
    pub(super) runtime_ms: u64,
    /// Whether it became steady, if its jobs end when steady.
    pub(super) steady: Option<SteadyResult>,
}

/// EILSEQ: fio's error for data that fail verification.
const VERIFY_ERRNO: i32 = 84;
/// EIO: fio's error for a job that failed without a failed op, such as one below its minimum rate.
const OTHER_ERRNO: i32 = 5;

/// The subject of a block of figures.
#[derive(Debug, Clone, Copy)]
pub(super) enum Row {
    /// A direction; reads represent all directions if only their sum is reported.
    Of(Direction),
    /// Reads, writes and trims, in addition to each of them.
    Sum,
}

impl<'a> Entry<'a> {
    fn new(job: &'a Job) -> Entry<'a> {
        Entry {
            job,
            members: 0,
            directions: Direction::ALL.map(DirectionResult::empty),
            sum: None,
            cpu: CpuUse::default(),
            depth: DepthUse::default(),
            failed: 0,
            errno: 0,
            start_ns: 0,
            runtime_ms: 0,
            steady: None,
        }
    }

    /// With `verify_only`, fio also counts the writes that it skips.
    fn add_unmade_writes(&mut self, job: &Job, clone: &CloneResult) {
        let only_checks = |blocks: &Blocks| {
            let verify = blocks.verify.as_ref();
            blocks.access.writes && verify.is_some_and(|verify| verify.only)
        };
        if !job.work.blocks().is_some_and(only_checks) {
            return;
        }
        let reads = clone.directions.iter();
        for reads in reads.filter(|result| result.direction == Direction::Read) {
            let writes = &mut self.directions[Direction::Write as usize];
            writes.ops += reads.ops;
            writes.bytes += reads.bytes;
        }
    }

    /// `flush_ns` is the duration of the job's closing fsync. As in fio, it is part of the runtime and of the rates, so
    /// that the bandwidth is that of data on stable storage.
    fn add(&mut self, job: &Job, clone: &CloneResult, flush_ns: u64) {
        let cycles = as_fio(job, clone);
        // In fio, reads that verify written blocks are counted like other reads.
        let verify_reads = clone.verify_reads.iter().map(|result| (result, 0));
        let measured = cycles.as_ref().unwrap_or(&clone.directions);
        let measured = measured.iter().map(|result| (result, flush_ns));
        for (result, flush_ns) in measured.chain(verify_reads) {
            // Steps of file operations have other directions.
            let Some(sum) = self.directions.get_mut(result.direction as usize) else {
                continue;
            };
            let longest_ns = sum.runtime_ns;
            sum.add(result);
            if result.direction != Direction::Sync {
                sum.runtime_ns = longest_ns.max(result.runtime_ns + flush_ns);
            }
            for stats in [&mut sum.bandwidth, &mut sum.iops] {
                let fields = [
                    &mut stats.min,
                    &mut stats.max,
                    &mut stats.mean,
                    &mut stats.stddev,
                ];
                // The formats cannot express a value that is not a number.
                for field in fields.into_iter().filter(|field| !field.is_finite()) {
                    *field = 0.0;
                }
            }
        }
        self.add_unmade_writes(job, clone);
        self.cpu.user_ns += clone.cpu.user_ns;
        self.cpu.system_ns += clone.cpu.system_ns;
        self.cpu.voluntary += clone.cpu.voluntary;
        self.cpu.involuntary += clone.cpu.involuntary;
        self.cpu.minor_faults += clone.cpu.minor_faults;
        self.cpu.major_faults += clone.cpu.major_faults;
        let depths = [
            (&mut self.depth.level, &clone.depth.level),
            (&mut self.depth.submit, &clone.depth.submit),
            (&mut self.depth.complete, &clone.depth.complete),
        ];
        for (into, from) in depths {
            for (into, from) in into.iter_mut().zip(from) {
                *into += from;
            }
        }
        self.depth.found = self.depth.found.max(clone.depth.found);
        self.failed += clone.errors.iter().map(|error| error.count).sum::<u64>();
        if self.errno == 0 {
            let bad = clone.verify.as_ref().is_some_and(|verify| verify.bad() > 0);
            let first = clone.errors.first().map(|error| error.errno);
            self.errno = first.unwrap_or(match clone.ended {
                _ if bad => VERIFY_ERRNO,
                EndedBy::Error => OTHER_ERRNO,
                _ => 0,
            });
        }
        self.start_ns = match self.members {
            0 => clone.start_ns,
            _ => self.start_ns.min(clone.start_ns),
        };
        self.runtime_ms += (clone.runtime_ns + flush_ns) / 1_000_000;
        self.steady = self.steady.take().or_else(|| clone.steady.clone());
        self.members += 1;
    }

    pub(super) fn direction(&self, direction: Direction) -> &DirectionResult {
        &self.directions[direction as usize]
    }

    pub(super) fn row(&self, row: Row) -> &DirectionResult {
        match (row, &self.sum) {
            (Row::Of(direction), _) => self.direction(direction),
            (Row::Sum, Some(sum)) => sum,
            (Row::Sum, None) => self.direction(Direction::Read),
        }
    }

    /// The rows of a document: all directions and their sum, or only the sum.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row> + use<> {
        const DIRECTIONS: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Trim];
        let directions = if self.only_sum() { 1 } else { 3 };
        let sum = self.sum.as_ref().map(|_| Row::Sum);
        DIRECTIONS
            .into_iter()
            .take(directions)
            .map(Row::Of)
            .chain(sum)
    }

    /// The name of a row.
    pub(super) fn label(&self, row: Row) -> &'static str {
        match row {
            Row::Of(direction) if !self.only_sum() => direction.name(),
            _ => "mixed",
        }
    }

    /// Whether reads represent all directions.
    pub(super) fn only_sum(&self) -> bool {
        self.job.reporting.unified == UnifiedReporting::Mixed
    }

    /// Adds up the directions if the job requests their sum: rates are added, and the runtime is the longest one.
    fn unify(&mut self) {
        let unified = self.job.reporting.unified;
        if unified == UnifiedReporting::None {
            return;
        }
        let mut sum = DirectionResult::empty(Direction::Read);
        self.moved().iter().for_each(|result| sum.add(result));
        if self.only_sum() {
            self.directions[..3].fill_with(|| DirectionResult::empty(Direction::Read));
            self.directions[0] = sum;
        } else {
            self.sum = Some(sum);
        }
    }

    /// Reads, writes and trims.
    pub(super) fn moved(&self) -> &[DirectionResult] {
        &self.directions[..3]
    }

    /// Ops of reads, writes and trims.
    pub(super) fn ops(&self) -> u64 {
        self.moved().iter().map(|result| result.ops).sum()
    }

    /// Whether no failed op ends the job. fio then prints the total of errors.
    pub(super) fn continues_on_error(&self) -> bool {
        let errors = &self.job.errors;
        errors.continue_read || errors.continue_write || errors.continue_verify
    }

    /// The search for its depth; without a limit if there was none.
    pub(super) fn latency_target(&self) -> LatencyTarget {
        self.job.pacing.latency_target.unwrap_or(LatencyTarget {
            limit: Nanos(0),
            window: Nanos(0),
            percent: 100.0,
            endless: false,
        })
    }

    /// The depth that was found, or the job's.
    pub(super) fn latency_depth(&self) -> u32 {
        match self.depth.found {
            0 => self.job.work.depth(),
            found => found,
        }
    }

    /// CPU time in user mode and in the kernel, percent of the measured time.
    pub(super) fn cpu_percent(&self) -> (f64, f64) {
        match self.runtime_ms {
            0 => (0.0, 0.0),
            ms => {
                let percent = |ns: u64| ns as f64 / 1e4 / ms as f64;
                (percent(self.cpu.user_ns), percent(self.cpu.system_ns))
            }
        }
    }

    /// The latencies of its reads, writes and trims in classes.
    pub(super) fn classes(&self) -> Classes {
        let services: Vec<&Histogram> = self.moved().iter().map(|it| &it.service).collect();
        latency::classes(&services, self.ops())
    }

    /// Context switches.
    pub(super) fn switches(&self) -> u64 {
        self.cpu.voluntary + self.cpu.involuntary
    }
}

/// The cycles of a file engine of fio as reads or writes; `None` for other jobs. Their steps named write or sync do not
/// correspond to fio's writes and syncs.
fn as_fio(job: &Job, clone: &CloneResult) -> Option<Vec<DirectionResult>> {
    let fio = job.work.file_operations()?.fio.as_ref()?;
    let cycles = clone.directions.iter();
    let cycles = cycles.filter(|result| result.direction == Direction::Op);
    let cycles = cycles.map(|result| DirectionResult {
        direction: fio.direction,
        bytes: result.ops.saturating_mul(fio.bytes),
        ..result.clone()
    });
    Some(cycles.collect())
}

/// Its latencies by priority; as in fio, empty if all ops had the same.
pub(super) fn priorities(result: &DirectionResult) -> &[PriorityResult] {
    match result.priorities.len() {
        0 | 1 => &[],
        _ => &result.priorities,
    }
}

/// The runtime of a result, ms: at least 1 if any op was done, because rates are divided by it.
pub(super) fn runtime_ms(result: &DirectionResult) -> u64 {
    match result.runtime_ns / 1_000_000 {
        0 if result.ops > 0 && result.runtime_ns > 0 => 1,
        ms => ms,
    }
}

/// Bytes per second, from the exact runtime.
pub(super) fn bytes_per_s(result: &DirectionResult) -> f64 {
    per_second(result.bytes, result.runtime_ns)
}

/// Ops per second, from the exact runtime.
pub(super) fn iops(result: &DirectionResult) -> f64 {
    per_second(result.ops, result.runtime_ns)
}

fn per_second(count: u64, span_ns: u64) -> f64 {
    match span_ns {
        0 => 0.0,
        ns => count as f64 * 1e9 / ns as f64,
    }
}

/// The entries in fio's order. A job without results yet has an empty entry, so that the list always has the same
/// members.
pub(super) fn entries<'a>(workload: &'a Workload, trial: &Trial) -> Vec<Entry<'a>> {
    let mut clones: Vec<&CloneResult> = trial.parts.iter().flat_map(|part| &part.clones).collect();
    clones.sort_by_key(|clone| (clone.job, clone.clone));
    let mut entries: Vec<Entry<'a>> = Vec::new();
    let jobs = workload.jobs.iter().enumerate();
    // fio has no file operations except those of its file engines.
    let known = |job: &Job| {
        let operations = job.work.file_operations();
        operations.is_none_or(|operations| operations.fio.is_some())
    };
    let shown = |job: &Job| known(job) && !job.reporting.hidden;
    for (index, job) in jobs.filter(|(_, job)| shown(job)) {
        let own: Vec<&CloneResult> = clones
            .iter()
            .copied()
            .filter(|clone| clone.job as usize == index)
            .collect();
        let joins = entries.last().is_some_and(|last| {
            let (job, last) = (&job.reporting, &last.job.reporting);
            job.together && last.together && job.group == last.group
        });
        if !joins {
            entries.push(Entry::new(job));
        }
        let flush_ns = flush_ns(trial, index);
        for (number, clone) in own.into_iter().enumerate() {
            if number > 0 && !job.reporting.together {
                entries.push(Entry::new(job));
            }
            if let Some(last) = entries.last_mut() {
                last.add(job, clone, flush_ns);
            }
        }
    }
    entries.iter_mut().for_each(Entry::unify);
    entries
}

/// The longest closing fsync among a job's clones, ns.
fn flush_ns(trial: &Trial, job: usize) -> u64 {
    let steps = trial.parts.iter().flat_map(|part| &part.steps);
    steps
        .filter(|time| time.step == Step::EndFsync && time.job.is_none_or(|of| of as usize == job))
        .map(|time| time.span_ns)
        .max()
        .unwrap_or(0)
}

/// A group's bytes and times in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct GroupRun {
    pub(super) bytes: u64,
    /// Bytes ÷ the longest runtime, bytes/s.
    pub(super) bytes_per_s: f64,
    /// Bandwidth of the slowest and of the fastest entry, bytes/s.
    pub(super) rates: (f64, f64),
    /// The shortest and the longest runtime, ms.
    pub(super) runs_ms: (u64, u64),
}

/// A group's figures in a direction; `None` without ops in that direction.
pub(super) fn group_run(entries: &[Entry], group: u32, row: Row) -> Option<GroupRun> {
    let mut run: Option<GroupRun> = None;
    let mut longest_ns = 0;
    let members = entries
        .iter()
        .filter(|entry| entry.job.reporting.group == group);
    for result in members.map(|entry| entry.row(row)) {
        if runtime_ms(result) == 0 {
            continue;
        }
        let (ms, rate) = (runtime_ms(result), bytes_per_s(result));
        longest_ns = longest_ns.max(result.runtime_ns);
        let run = run.get_or_insert(GroupRun {
            rates: (rate, rate),
            runs_ms: (ms, ms),
            ..GroupRun::default()
        });
        run.bytes += result.bytes;
        run.rates = (run.rates.0.min(rate), run.rates.1.max(rate));
        run.runs_ms = (run.runs_ms.0.min(ms), run.runs_ms.1.max(ms));
    }
    run.map(|run| GroupRun {
        bytes_per_s: per_second(run.bytes, longest_ns),
        ..run
    })
}

/// An entry's share of its group's bandwidth, percent, from the means of its samples; 0 without samples.
pub(super) fn share_of_group(entry: &Entry, entries: &[Entry], row: Row) -> f64 {
    let bandwidth = &entry.row(row).bandwidth;
    if bandwidth.samples == 0 {
        return 0.0;
    }
    let mean = bandwidth.mean;
    match group_run(entries, entry.job.reporting.group, row) {
        Some(run) if run.bytes_per_s > 1024.0 => (mean * 100.0 / run.bytes_per_s).min(100.0),
        _ => 100.0,
    }
}
