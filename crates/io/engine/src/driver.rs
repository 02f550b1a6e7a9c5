//! The loop that loads the storage: pace, fill, submit, reap, record.
//!
//! It does not allocate, lock or use dynamic dispatch: slots, buffers and histograms are reserved before it starts.
//! Every wait is bounded, so that a stop request is noticed.

mod failures;

use std::collections::VecDeque;
use std::sync::Arc;

use iodyno_model::{DepthUse, Direction, EndedBy, Engine, EngineKind, Job, StopRequest};
use iodyno_sys::{
    Backend, BackendError, Capabilities, Clock, Completion, Completions, OpKind, RunDelay, Slot,
};

use crate::checks::Checks;
use crate::content::Filler;
use crate::counters::{LatencyCounters, OpCounters, add};
use crate::depth_search::{DepthSearch, Searched};
use crate::error_counts::{self, ErrorCounts};
use crate::in_flight::OpsInFlight;
use crate::log::{OpLog, OpRecord};
use crate::minimum_rates::MinimumRates;
use crate::outcome::WorkerError;
use crate::priorities::Priorities;
use crate::shared::CloneShared;
use crate::stream::{Issue, Next, OpStream};
use crate::verify_reads::VerifyReads;

/// The longest wait for completions, ns: the longest delay of a stop request.
const MAX_STOP_DELAY_NS: u64 = 100_000_000;
/// Number of first turns that do not wait for completions, so that their duration is that of submission.
const PROBES: u32 = 4;
/// The clock is read again after recording this many completions or more.
const MANY_COMPLETIONS: usize = 16;

/// An op in flight.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    issue: Issue,
    /// Bytes already moved by a short op that was continued.
    moved: u32,
    /// When its first attempt was submitted; 0 if it was not continued.
    first_submitted: u64,
    /// Duration of the call that submitted it, ns.
    submission_ns: u64,
}

impl InFlight {
    /// Whether an op with this result is complete: it neither failed nor moved less than requested.
    #[inline(always)]
    fn is_complete(&self, result: i32) -> bool {
        let op = &self.issue.op;
        result >= 0 && (!op.kind.transfers() || self.moved + result as u32 >= op.length)
    }

    /// The log record of this op.
    fn record(&self, at: u64, service: u64) -> OpRecord {
        OpRecord {
            at,
            submission: self.submission_ns,
            service,
            direction: self.issue.direction,
            data_only: false,
            bytes: self.issue.op.length,
            file: self.issue.op.file,
            offset: self.issue.op.offset,
            priority: self.issue.op.priority,
        }
    }
}

/// Causes of late detection of completions in a turn. Instants are those of the engine clock, ns.
#[derive(Debug, Clone, Copy, Default)]
struct Unseen {
    /// When completions were last looked for before this turn.
    since: u64,
    entered: u64,
    /// When they were looked for after submission.
    looked: u64,
    /// Duration of the submission of all ops of the turn but one.
    others_ns: u64,
    /// For how long after that the worker waited for a CPU.
    no_cpu_ns: u64,
    /// The turn waited for several completions: each but the last waited for others.
    for_several: bool,
}

impl Unseen {
    /// The longest possible time between the end of an op and its detection, ns. An op submitted alone is not delayed
    /// by its own submission.
    #[inline(always)]
    fn longest_ns(&self, completion: &Completion) -> u64 {
        let since = completion.submitted.max(self.since);
        if completion.completed < self.entered {
            // A call that the turn made before, and timed.
            0
        } else if self.for_several {
            completion.completed - since
        } else if since >= self.entered {
            self.others_ns + self.no_cpu_ns
        } else {
            self.looked - since + self.no_cpu_ns
        }
    }
}

/// How often the worker reads for how long it waited for a CPU, ns: a system call that costs about 1 µs.
const CPU_WAITS_NS: u64 = 500_000;

/// The time for which the worker waited for a CPU, read at intervals.
#[derive(Debug, Default)]
struct CpuWaits {
    read_at: u64,
    sum_ns: Option<u64>,
}

impl CpuWaits {
    #[cold]
    fn begin(&mut self, now: u64, run_delay: &RunDelay) {
        (self.read_at, self.sum_ns) = (now, run_delay.read());
    }

    /// The wait since the last reading; 0 if that is less than [`CPU_WAITS_NS`] ago.
    #[inline(always)]
    fn since(&mut self, now: u64, read: impl FnOnce() -> Option<u64>) -> u64 {
        match self.sum_ns {
            Some(before) if now.saturating_sub(self.read_at) >= CPU_WAITS_NS => {
                self.read_at = now;
                self.sum_ns = read();
                self.sum_ns.map_or(0, |sum| sum.saturating_sub(before))
            }
            _ => 0,
        }
    }
}

/// The depths and batch sizes of the job, in ops.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batches {
    pub(crate) refill_below: u32,
    pub(crate) submit: u32,
    pub(crate) complete_min: u32,
    pub(crate) complete_max: u32,
}

impl Batches {
    pub(crate) fn of(engine: &Engine) -> Batches {
        let all_if_zero = |value: u32| if value == 0 { engine.depth } else { value };
        Batches {
            refill_below: if engine.depth_low == 0 {
                engine.depth
            } else {
                engine.depth_low.saturating_add(1)
            },
            submit: engine.batch_submit,
            complete_min: engine.batch_complete_min.max(1),
            complete_max: all_if_zero(engine.batch_complete_max),
        }
    }
}

/// Runs a stream on a backend, and keeps its results.
pub(crate) struct Driver<'a, B, C> {
    pub(crate) backend: B,
    pub(crate) clock: C,
    job: Arc<Job>,
    /// Writes are atomic.
    atomic: bool,
    /// A read may end at the end of its file, because the job's writes extend it.
    reads_to_end: bool,
    /// The latencies of read, write, trim and sync above which the job fails, ns.
    max_latency_ns: [u64; 4],
    bad_block_fails: bool,
    /// As in [`Parts`].
    cached: Vec<(u64, u64)>,
    shared: &'a CloneShared,
    /// The ops in flight, readable by other threads.
    seen: Arc<OpsInFlight>,
    slots: Box<[InFlight]>,
    /// The last one is issued next.
    free: VecDeque<Slot>,
    /// Slots are used in turn, so that the contents of their buffers are written in turn. Otherwise the last one that
    /// was released is used, whose buffer is in the CPU's cache.
    in_turn: bool,
    in_flight: u32,
    /// Slots issued since the last turn; kept only where submission is timed.
    issued: Vec<Slot>,
    batches: Batches,
    filling: bool,
    completions: Completions,
    filler: Filler,
    /// `Some` if ops have their own priorities.
    priorities: Option<Box<Priorities>>,
    pub(crate) verifier: Option<Checks>,
    /// `Some` if there is a verifier.
    pub(crate) verify_reads: Option<VerifyReads>,
    log: Option<Arc<OpLog>>,
    /// The record of ops at their issue.
    iolog: Option<Arc<OpLog>>,
    capabilities: Capabilities,
    /// When completions were last looked for.
    looked_at: u64,
    unseen: Unseen,
    run_delay: RunDelay,
    waits: CpuWaits,
    /// Ops in flight when the kernel returned.
    left_in_flight: u32,
    fastest_submission_ns: u64,
    /// Turns of [`PROBES`] that are still to be done.
    probes: u32,
    pub(crate) windows: LatencyCounters,
    pub(crate) depth: DepthUse,
    pub(crate) errors: ErrorCounts,
    /// When the last counted op ended, well or badly.
    pub(crate) last_end: Option<u64>,
    /// An op failed against the error policy, or a check that ends the job failed.
    pub(crate) failed: bool,
    /// The reason, if the op's error does not explain it.
    pub(crate) fault: Option<WorkerError>,
    /// The storage is full, which ends the job.
    full: bool,
    /// Cancelled ops did not complete in time.
    pub(crate) stuck: bool,
    /// The job's end steps are running: only the user ends them.
    finishing: bool,
    rates: Option<MinimumRates>,
    search: Option<DepthSearch>,
    /// Maximum number of ops in flight: less than there are slots while a depth is searched.
    most_in_flight: u32,
    /// When the minimum rates or the depth are checked next.
    checked_at: u64,
}

/// The parts of a driver except its backend and clock.
pub(crate) struct Parts<'a> {
    pub(crate) job: Arc<Job>,
    pub(crate) engine: Engine,
    /// Whether write buffers are filled before the start.
    pub(crate) writes: bool,
    /// Whether a bad block fails the job.
    pub(crate) bad_block_fails: bool,
    /// Regions (offset, length) of the files whose cached pages are dropped before each pass; empty: none are.
    pub(crate) cached: Vec<(u64, u64)>,
    pub(crate) shared: &'a CloneShared,
    pub(crate) names: Vec<String>,
    pub(crate) filler: Filler,
    pub(crate) priorities: Option<Box<Priorities>>,
    pub(crate) verifier: Option<Checks>,
    pub(crate) log: Option<Arc<OpLog>>,
    pub(crate) iolog: Option<Arc<OpLog>>,
}

impl<'a, B: Backend, C: Clock> Driver<'a, B, C> {
    /// Runs the stream until it ends, the instant `until` passes, an op fails against the error policy, or the worker
    /// is told to stop. Ops can still be in flight then: see [`Driver::drain`].
    pub(crate) fn drive<S: OpStream>(
        &mut self,
        stream: &mut S,
        counters: &OpCounters,
        until: u64,
    ) -> Result<EndedBy, BackendError> {
        let mut now = self.clock.now();
        self.looked_at = now;
        self.waits.begin(now, &self.run_delay);
        loop {
            if now >= self.checked_at
                && let Some(ended) = self.check(counters, now)
            {
                return Ok(ended);
            }
            if let Some(ended) = self.ended(now, until) {
                return Ok(ended);
            }
            let latest = until.min(now + MAX_STOP_DELAY_NS);
            let before = self.in_flight;
            let (min, deadline) = match self.fill(stream, now) {
                Next::Op => (0, latest),
                Next::WaitForCompletion if self.probes > 0 && self.in_flight > before => {
                    self.probes -= 1;
                    (0, latest)
                }
                Next::WaitForCompletion => (self.batches.complete_min.min(self.in_flight), latest),
                Next::WaitUntil(due) if self.in_flight > 0 => (1, due.min(latest)),
                Next::WaitUntil(due) => {
                    self.clock.sleep_until(due.min(latest));
                    now = self.clock.now();
                    continue;
                }
                Next::SpinUntil(due) => {
                    self.clock.spin_until(due.min(latest));
                    (0, latest)
                }
                Next::Done(ended) => return Ok(ended),
            };
            now = self.turn(stream, counters, min, deadline)?;
        }
    }

    /// Issues ops until a batch is complete, no slot is free, or no op is due. Returns the condition for the next op;
    /// `Op`: there is room for more.
    #[inline(always)]
    fn fill<S: OpStream>(&mut self, stream: &mut S, now: u64) -> Next {
        if self.in_flight >= self.batches.refill_below && !self.filling {
            return Next::WaitForCompletion;
        }
        self.filling = true;
        let slots = self.most_in_flight.saturating_sub(self.in_flight);
        let room = self.backend.room().min(slots);
        let batch = self.batch().min(room);
        for _ in 0..batch {
            let slot = self.free[self.free.len() - 1];
            match stream.next(now, slot, &mut self.slots[slot as usize].issue) {
                Next::Op => self.issue(slot, now),
                wait_or_end => return wait_or_end,
            }
        }
        self.filling = batch < room;
        match self.filling {
            true => Next::Op,
            false => Next::WaitForCompletion,
        }
    }

    /// Submits the issued ops, reaps at least `min` completions unless the deadline passes, and records them. Returns
    /// the last reading of the clock.
    #[inline]
    fn turn<S: OpStream>(
        &mut self,
        stream: &mut S,
        counters: &OpCounters,
        min: u32,
        deadline: u64,
    ) -> Result<u64, BackendError> {
        let max = self.batches.complete_max;
        self.backend
            .turn(min, max, Some(deadline), &mut self.completions)?;
        let count = self.completions.list.len();
        self.note_turn(counters, count, min);
        for index in 0..count {
            let completion = self.completions.list[index];
            if self.slots[completion.slot as usize].is_complete(completion.result) {
                self.record(counters, &completion);
                self.release(stream, completion.slot, true);
            } else {
                self.fell_short(stream, counters, &completion);
            }
        }
        match count < MANY_COMPLETIONS {
            true => Ok(self.completions.returned),
            false => Ok(self.clock.now()),
        }
    }

    /// The largest number of ops to issue before the next kernel entry, unless the job sets it: as many as are in
    /// flight, so that the device has work while they are prepared. If all were submitted together, they would
    /// complete together and leave it idle. If nothing is in flight (all ops were served from a cache), one kernel
    /// entry for all of them costs least.
    #[inline(always)]
    fn batch(&self) -> u32 {
        let many = self.capabilities.submits_many;
        match self.batches.submit {
            0 if self.in_flight == 0 && (many || !self.capabilities.submits_apart) => u32::MAX,
            0 if many => self.in_flight,
            0 => 1,
            requested => requested,
        }
    }

    /// Passes the op of the last free slot to the backend.
    #[inline(always)]
    fn issue(&mut self, slot: Slot, now: u64) {
        self.free.pop_back();
        let state = &mut self.slots[slot as usize];
        (state.moved, state.first_submitted) = (0, 0);
        if let Some(priorities) = &mut self.priorities {
            state.issue.op.priority = priorities.draw(&state.issue);
        }
        let issue = &state.issue;
        if issue.op.kind == OpKind::Write {
            let buffer = &mut self.backend.buffer(slot)[..issue.op.length as usize];
            self.filler.before_write(buffer);
            if let Some(verifier) = &mut self.verifier {
                verifier.seal(slot, &issue.op, buffer, now);
            }
        }
        if self.iolog.is_some() {
            self.note_issue(slot, now);
        }
        let issue = &self.slots[slot as usize].issue;
        let at = (issue.op.file, issue.op.offset);
        self.seen.begin(slot, issue.direction, at, now);
        if issue.begins_pass {
            // After the op counts as in flight: on stuck storage this blocks.
            self.drop_pages(at.0);
        }
        self.backend.prep(slot, &self.slots[slot as usize].issue.op);
        self.in_flight += 1;
        if self.capabilities.submits_apart {
            self.issued.push(slot);
        }
    }

    /// Before a pass over a file: drops its cached pages, if the job requests it.
    #[cold]
    fn drop_pages(&mut self, file: u32) {
        if let Some((offset, length)) = self.cached.get(file as usize) {
            self.backend.drop_pages(file, *offset, *length);
        }
    }

    /// Before the written blocks of all files are verified.
    pub(crate) fn drop_all_pages(&mut self) {
        (0..self.cached.len() as u32).for_each(|file| self.drop_pages(file));
    }

    /// Counts a turn with `count` completions that requested at least `min`.
    #[inline(always)]
    fn note_turn(&mut self, counters: &OpCounters, count: usize, min: u32) {
        error_counts::submitted(&mut self.depth, self.completions.submitted, self.in_flight);
        error_counts::completed(&mut self.depth, count);
        if self.capabilities.submits_apart {
            self.note_submissions(counters);
        }
        if !self.capabilities.stamps_each {
            let run_delay = &self.run_delay;
            let waited_ns = self
                .waits
                .since(self.completions.returned, || run_delay.read());
            if count > 0 {
                self.note_window(min, waited_ns);
            }
        }
        self.left_in_flight = self.in_flight - count as u32;
        // After a full batch there can be more completions, which have been unseen for longer.
        let looked = !self.capabilities.submits_apart || self.completions.looked_from.is_some();
        let all = count < self.batches.complete_max as usize || self.left_in_flight == 0;
        if looked && all {
            self.looked_at = self.completions.returned;
        }
    }

    /// Records a complete op.
    #[inline(always)]
    fn record(&mut self, counters: &OpCounters, completion: &Completion) {
        let state = &self.slots[completion.slot as usize];
        let issue = &state.issue;
        let submitted = match state.first_submitted {
            0 => completion.submitted,
            first => first,
        };
        let service = completion.completed - submitted;
        let limit_ns = self.max_latency_ns[issue.direction as usize];
        let slow = issue.counted && service > limit_ns;
        if issue.counted {
            let (all, counters) = (counters, counters.of(issue.direction));
            // The range of a sync was counted when it was written.
            if issue.direction != Direction::Sync {
                add(&counters.bytes, issue.op.length.into());
            }
            let unseen_ns = match self.capabilities.stamps_each {
                true => None,
                false => Some(self.unseen.longest_ns(completion)),
            };
            counters.service.record_with(service, unseen_ns);
            if let Some(search) = &mut self.search
                && search.note(submitted, service)
            {
                self.checked_at = 0;
            }
            if let (Some(response), Some(intended)) = (&counters.response, issue.intended) {
                let ns = completion.completed.saturating_sub(intended.get());
                response.record_with(ns, unseen_ns);
            }
            if let Some(completion) = &counters.completion {
                completion.record(service.saturating_sub(state.submission_ns));
            }
            if let Some(priorities) = &self.priorities {
                priorities.record(all, issue, service, state.submission_ns);
            }
            self.shared.op_ended(self.last_end, completion.completed);
            self.last_end = self.last_end.max(Some(completion.completed));
            if let Some(log) = &self.log {
                let record = state.record(completion.completed, service);
                log.push(record, || self.waits_for_log());
            }
        }
        if self.verifier.is_some() {
            let (issue, submission) = (*issue, state.submission_ns);
            if let Some(reads) = &self.verify_reads
                && issue.checked
                && !issue.counted
            {
                reads.record(issue.op.length, service, submission);
            }
            self.verify(completion.slot, &issue);
        }
        if slow {
            self.took_too_long(counters, completion.slot, service);
        }
    }

    #[inline(always)]
    fn release<S: OpStream>(&mut self, stream: &mut S, slot: Slot, succeeded: bool) {
        self.in_flight -= 1;
        self.seen.end(slot);
        match self.in_turn {
            true => self.free.push_front(slot),
            false => self.free.push_back(slot),
        }
        stream.completed(slot, succeeded);
    }

    #[cold]
    fn note_issue(&self, slot: Slot, now: u64) {
        let issue = &self.slots[slot as usize].issue;
        let record = OpRecord {
            submission: 0,
            data_only: issue.op.kind != OpKind::Fsync,
            ..self.slots[slot as usize].record(now, 0)
        };
        if let Some(iolog) = &self.iolog {
            iolog.push(record, || self.waits_for_log());
        }
    }

    /// Lets the reader of a full log run. Returns whether to give up logging.
    fn waits_for_log(&self) -> bool {
        self.clock.pause();
        self.shared.stop_request() == StopRequest::Abort
    }

    #[inline]
    fn ended(&self, now: u64, until: u64) -> Option<EndedBy> {
        if self.failed {
            return Some(EndedBy::Error);
        }
        if self.full {
            return Some(EndedBy::Size);
        }
        match self.shared.stop_request() {
            StopRequest::No if now < until => None,
            StopRequest::No => Some(EndedBy::Runtime),
            StopRequest::Steady | StopRequest::ExitAll if self.finishing => None,
            StopRequest::Steady => Some(EndedBy::Steady),
            StopRequest::ExitAll => Some(EndedBy::ExitAll),
            StopRequest::Finish | StopRequest::Abort => Some(EndedBy::Interruption),
        }
    }

    /// Waits for the ops in flight and issues no new ones. After an abort they are cancelled; ops that do not complete
    /// within `patience_ns` are given up (see [`Driver::stuck`]).
    pub(crate) fn drain<S: OpStream>(
        &mut self,
        stream: &mut S,
        counters: &OpCounters,
        patience_ns: u64,
    ) -> Result<(), BackendError> {
        let mut cancelled_at = None;
        while self.in_flight > 0 {
            let now = self.clock.now();
            if self.shared.stop_request() == StopRequest::Abort {
                let since = *cancelled_at.get_or_insert_with(|| {
                    self.backend.cancel_all();
                    now
                });
                if now - since > patience_ns {
                    self.stuck = true;
                    break;
                }
            }
            self.turn(stream, counters, self.in_flight, now + MAX_STOP_DELAY_NS)?;
        }
        Ok(())
    }

    pub(crate) fn new(backend: B, clock: C, parts: Parts<'a>) -> Driver<'a, B, C> {
        let depth = parts.engine.depth.max(1);
        let capabilities = backend.capabilities();
        let probes = match capabilities.submits_apart || capabilities.stamps_each || depth == 1 {
            true => 0,
            false => PROBES,
        };
        let idle = InFlight {
            issue: crate::stream::end_sync(OpKind::Fsync, 0),
            moved: 0,
            first_submitted: 0,
            submission_ns: 0,
        };
        // A single op in flight is timed like in any program that waits for it.
        let run_delay = match capabilities.stamps_each || depth == 1 {
            true => RunDelay::default(),
            false => clock.run_delay(),
        };
        let mut driver = Driver {
            backend,
            clock,
            batches: Batches::of(&parts.engine),
            atomic: parts.engine.atomic,
            reads_to_end: (parts.job.work.blocks())
                .is_some_and(|blocks| blocks.files.create_on_open && blocks.access.writes),
            max_latency_ns: Direction::ALL.map(|direction| {
                let limits = &parts.job.errors.max_latency;
                let limit = limits.get(direction).filter(|limit| limit.0 > 0);
                limit.map_or(u64::MAX, |limit| limit.0)
            }),
            job: parts.job,
            bad_block_fails: parts.bad_block_fails,
            cached: parts.cached,
            shared: parts.shared,
            seen: parts.shared.show_in_flight(parts.names, depth),
            slots: vec![idle; depth as usize].into_boxed_slice(),
            free: (0..depth).rev().collect(),
            in_turn: false,
            in_flight: 0,
            issued: Vec::with_capacity(depth as usize),
            filling: true,
            completions: Completions::with_capacity(depth),
            filler: parts.filler,
            priorities: parts.priorities,
            verify_reads: (parts.verifier.as_ref())
                .map(|_| VerifyReads::new(capabilities.submits_apart)),
            verifier: parts.verifier,
            log: parts.log,
            iolog: parts.iolog,
            capabilities,
            looked_at: 0,
            unseen: Unseen::default(),
            run_delay,
            waits: CpuWaits::default(),
            left_in_flight: 0,
            fastest_submission_ns: u64::MAX,
            probes,
            windows: LatencyCounters::new(),
            depth: DepthUse::default(),
            errors: ErrorCounts::default(),
            last_end: None,
            failed: false,
            fault: None,
            full: false,
            stuck: false,
            finishing: false,
            rates: None,
            search: None,
            most_in_flight: depth,
            checked_at: u64::MAX,
        };
        // A simulated device keeps no data, and content that each write renews needs no first one.
        let filled = parts.writes && parts.engine.kind != EngineKind::Sim;
        driver.in_turn = filled && !driver.filler.renews();
        if driver.in_turn {
            for slot in 0..depth {
                driver.filler.fill(driver.backend.buffer(slot));
            }
        }
        driver
    }

    /// Begins to check the job's minimum rates, and to search for its depth.
    pub(crate) fn watch(&mut self, start: u64) {
        self.rates = MinimumRates::new(&self.job, start);
        let target = self.job.pacing.latency_target;
        let most = self.slots.len() as u32;
        self.search = target.map(|target| DepthSearch::new(target, most, start));
        self.note_next_check();
    }

    fn note_next_check(&mut self) {
        let rates = self.rates.as_ref().map_or(u64::MAX, MinimumRates::due);
        let search = self.search.as_ref().map_or(u64::MAX, DepthSearch::due);
        self.checked_at = rates.min(search);
        if let Some(search) = &self.search {
            self.most_in_flight = search.depth();
            self.depth.found = search.depth();
        }
    }

    /// Call this when the measured time is over and the job's end steps begin.
    pub(crate) fn finish(&mut self) {
        (self.finishing, self.full) = (true, false);
        if let Some(reads) = &mut self.verify_reads {
            reads.end_measure();
        }
        (self.rates, self.search) = (None, None);
        (self.checked_at, self.most_in_flight) = (u64::MAX, self.slots.len() as u32);
    }

    /// Checks minimum rates and depth. Returns why the job ends, if its search has ended.
    #[cold]
    fn check(&mut self, counters: &OpCounters, now: u64) -> Option<EndedBy> {
        if let Some(rates) = self.rates.as_mut().filter(|rates| now >= rates.due()) {
            self.fault = self.fault.take().or(rates.check(counters, now));
        }
        let searched = self.search.as_mut().map(|search| search.judge(now));
        let ended = match searched {
            Some(Searched::Found) => Some(EndedBy::Steady),
            Some(Searched::Impossible(fault)) => {
                self.fault.get_or_insert(fault);
                None
            }
            Some(Searched::Continues) | None => None,
        };
        self.failed |= self.fault.is_some();
        self.note_next_check();
        ended
    }
}

#[cfg(test)]
mod tests;
