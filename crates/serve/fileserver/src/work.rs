//! Requests in progress: executed by the thread of a queue or by the pool, counted and answered.

use std::sync::Arc;
use std::time::Instant;

use iodyno_sys::thread::{Usage, quick_thread_usage};

use crate::folder::{Answered, PartialIo, RequestBuffers};
use crate::policy::{Class, Policy};
use crate::pool::Job;
use crate::request::{Head, opcode};
use crate::server::Client;
use crate::stats::Worked;

/// A request that a transport took from a queue.
pub(crate) trait Request: RequestBuffers + Send + 'static {
    /// Its beginning.
    fn head(&self) -> &Head;
    /// When it was taken.
    fn taken(&self) -> Instant;
    /// It is handed over to the pool.
    fn handed_over(&mut self);
    /// Completes the request. `notify`: notify the client at once. Otherwise the queue's thread notifies it when its
    /// batch ends.
    fn answered(self, answered: Answered, notify: bool);
}

/// A request on its way.
pub(crate) struct Work<R> {
    pub(crate) request: R,
    pub(crate) partial: PartialIo,
}

impl<R: Request> Work<R> {
    pub(crate) fn class(&self) -> Class {
        let head = self.request.head();
        let class = Class::of(head.opcode(), head.data());
        let write = head.opcode() == opcode::WRITE;
        match &self.partial.open {
            Some(open) if open.direct => class.direct(write),
            Some(open) if !write && open.tries() => class.cached(head.data()),
            _ => class,
        }
    }
}

/// How long a thread waited within `service_ns`, from its usage before and after. Time spent runnable without a
/// processor does not count, unless the thread also waited.
fn waited_ns(before: &Usage, after: &Usage, service_ns: u64) -> u64 {
    let worked = |usage: &Usage| usage.user_ns + usage.system_ns;
    match after.voluntary > before.voluntary {
        true => service_ns.saturating_sub(worked(after).saturating_sub(worked(before))),
        false => 0,
    }
}

/// Where a request ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worker {
    Queue,
    Pool,
    Kernel,
}

impl Client {
    /// Hands requests over to the pool.
    pub(crate) fn hand_over<R: Request>(self: &Arc<Client>, works: impl Iterator<Item = Work<R>>) {
        let jobs = works.map(|mut work| {
            work.request.handed_over();
            let client = Arc::clone(self);
            let job: Job = Box::new(move || {
                client.answer(work, false, Instant::now());
            });
            job
        });
        match &self.server.pool {
            Some(pool) => pool.hand_over(jobs),
            None => jobs.for_each(|job| job()),
        }
    }

    /// Executes a request, starting now, and answers it. Returns the time it was answered.
    pub(crate) fn answer<R: Request>(
        &self,
        mut work: Work<R>,
        inline: bool,
        start: Instant,
    ) -> Instant {
        let head = *work.request.head();
        let adaptive = self.server.policy == Policy::Adaptive;
        let class = work.class();
        let estimates = &self.server.estimates;
        let asks = adaptive && estimates.asks_for_waits(class);
        let before = asks.then(quick_thread_usage);
        self.server.delays(head.opcode());
        let answered = (self.folder).answer(&head, &mut work.partial, &mut work.request);
        let end = Instant::now();
        let service_ns = end.duration_since(start).as_nanos() as u64;
        if adaptive && head.is_answered() && !answered.failed && head.opcode() != opcode::INIT {
            let waited = before.map(|before| waited_ns(&before, &quick_thread_usage(), service_ns));
            estimates.record(class, service_ns, waited);
        }
        let worker = match inline {
            true => Worker::Queue,
            false => Worker::Pool,
        };
        self.count(&work.request, answered, worker, start, service_ns);
        work.request.answered(answered, !inline);
        end
    }

    /// Answers a read from the page cache, or returns it.
    pub(crate) fn try_cached<R: Request>(&self, mut work: Work<R>) -> Option<Work<R>> {
        let head = *work.request.head();
        let start = Instant::now();
        let found = (self.folder).try_cached(&head, &mut work.partial, &mut work.request);
        let service_ns = start.elapsed().as_nanos() as u64;
        (self.server.estimates).tried(found.is_some(), head.data(), service_ns);
        let Some(answered) = found else {
            return Some(work);
        };
        self.count(&work.request, answered, Worker::Queue, start, service_ns);
        work.request.answered(answered, false);
        None
    }

    pub(crate) fn count<R: Request>(
        &self,
        request: &R,
        answered: Answered,
        worker: Worker,
        start: Instant,
        service_ns: u64,
    ) {
        let head = request.head();
        self.server.stats.worked(Worked {
            opcode: head.opcode(),
            inline: worker == Worker::Queue,
            transferred: worker == Worker::Kernel,
            failed: answered.failed,
            bytes: match answered.failed {
                true => 0,
                false => head.data().into(),
            },
            queueing_ns: start.duration_since(request.taken()).as_nanos() as u64,
            service_ns,
        });
    }
}
