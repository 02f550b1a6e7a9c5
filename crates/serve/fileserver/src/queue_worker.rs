//! One queue of a client: its thread divides batches between itself, the pool and the kernel, by the server's policy.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use iodyno_sys::{Credentials, Transfer, Transferred, Transfers};

use crate::files::{OpenFile, without_fsetid};
use crate::folder::PartialIo;
use crate::inline_batch::InlineBatch;
use crate::policy::{Class, Dispatcher, Division, Policy, Situation};
use crate::pool::Pool;
use crate::request::{HEADER, REPLY_HEADER, WRITE_HEADER, opcode};
use crate::server::Client;
use crate::work::{Request, Work, Worker};

/// The client is notified of replies within a batch after this many hand-offs. A notification costs about half of one.
const NOTIFIED_AFTER: u64 = 4;
/// Transfers of a queue in flight. More than these go to the pool.
const MAX_TRANSFERS: u16 = 256;

/// A transfer in flight.
struct Started<R> {
    work: Work<R>,
    start: Instant,
}

/// Where the kernel transfers data for a queue.
enum Ring<R> {
    /// It was not needed so far.
    Unused,
    There(Box<Transfers<Arc<OpenFile>, Started<R>>>),
    /// This host or this policy has none.
    Missing,
}

/// The credentials of writes that clear the set-user-id bits of their file: the server's, without `CAP_FSETID`.
enum Unprivileged {
    /// Not needed so far.
    Unused,
    There(Credentials),
    /// The ring cannot use them, so the pool executes such writes.
    Missing,
}

impl Unprivileged {
    fn of(ring: &Transfers<impl AsFd, impl Sized>) -> Unprivileged {
        match registered(ring) {
            Ok(known) => Unprivileged::There(known),
            Err(_) => Unprivileged::Missing,
        }
    }
}

fn registered(ring: &Transfers<impl AsFd, impl Sized>) -> io::Result<Credentials> {
    without_fsetid(|| ring.credentials())?
}

/// The state of a queue's thread.
pub(crate) struct QueueWorker<R: Request> {
    client: Arc<Client>,
    /// Requests that it processes itself.
    batch: Arc<InlineBatch<R>>,
    /// Another thread continues with the queue.
    replaced: bool,
    dispatcher: Dispatcher,
    division: Division,
    classes: Vec<Class>,
    works: Vec<Option<Work<R>>>,
    ring: Ring<R>,
    unprivileged: Unprivileged,
}

impl<R: Request> QueueWorker<R> {
    /// For use by one thread only, which creates its ring. `prompt`: its requests are never handed over.
    pub(crate) fn new(batch: Arc<InlineBatch<R>>, prompt: bool) -> QueueWorker<R> {
        let client = Arc::clone(batch.client());
        let policy = match prompt {
            true => Policy::Inline,
            false => client.server.policy,
        };
        QueueWorker {
            ring: match policy == Policy::Adaptive && client.server.settings.delay.is_zero() {
                true => Ring::Unused,
                false => Ring::Missing,
            },
            client,
            batch,
            replaced: false,
            dispatcher: Dispatcher::new(policy),
            division: Division::default(),
            classes: Vec::new(),
            works: Vec::new(),
            unprivileged: Unprivileged::Unused,
        }
    }

    /// Registers with the watchdog, if the server has one. `substitute` starts the thread that continues with the
    /// queue, using a worker with this batch.
    pub(crate) fn watch(
        &self,
        substitute: impl Fn(Arc<InlineBatch<R>>) -> io::Result<()> + Send + Sync + 'static,
    ) {
        self.batch.watch(Box::new(substitute));
    }

    /// Whether another thread continues with the queue. This one then answers its requests in flight ([`Self::reap`])
    /// and ends.
    pub(crate) fn replaced(&self) -> bool {
        self.replaced
    }

    /// Processes the requests that the replaced thread left, like [`Self::work`].
    ///
    /// # Errors
    /// Those of [`Self::work`].
    pub(crate) fn work_left(
        &mut self,
        in_flight: impl Fn() -> usize,
        notify: impl Fn(),
    ) -> io::Result<()> {
        self.works = self.batch.left();
        match self.works.is_empty() {
            true => Ok(()),
            false => self.divide_and_work(true, in_flight, notify),
        }
    }

    /// Records that its thread wakes up or goes to sleep.
    pub(crate) fn awake(&self, awake: bool) {
        // A replaced thread does not count.
        if !self.replaced {
            self.client.server.watchdog.awake(awake);
        }
    }

    /// Whether an idle queue thread may poll for work without taking a processor from its client.
    pub(crate) fn may_spin(&self) -> bool {
        self.client.server.client_has_cpu() && self.in_flight() == 0
    }

    /// Transfers in flight. They are answered by [`Self::reap`] only.
    pub(crate) fn in_flight(&self) -> usize {
        match &self.ring {
            Ring::There(ring) => ring.in_flight(),
            _ => 0,
        }
    }

    /// Whether there are writes among them.
    fn writing(&self) -> bool {
        matches!(&self.ring, Ring::There(ring) if ring.writes_in_flight() > 0)
    }

    /// It can be read when a transfer has ended.
    pub(crate) fn ended(&self) -> Option<BorrowedFd<'_>> {
        match &self.ring {
            Ring::There(ring) => Some(ring.descriptor()),
            _ => None,
        }
    }

    /// Starts the waiting transfers and answers those that have ended. Returns whether one had.
    ///
    /// # Errors
    /// The kernel cannot be entered. No transfer is answered from then on.
    pub(crate) fn reap(&mut self) -> io::Result<bool> {
        if self.in_flight() == 0 || self.replaced {
            return self.turn_transfers();
        }
        self.batch.begin(Vec::new(), None);
        let turned = self.turn_transfers();
        self.end_turn();
        turned
    }

    fn turn_transfers(&mut self) -> io::Result<bool> {
        let Ring::There(ring) = &mut self.ring else {
            return Ok(false);
        };
        let client = &self.client;
        let mut found = false;
        let mut rests = Vec::new();
        let turned = loop {
            match ring.turn(|done| rests.extend(client.transferred(done))) {
                Ok(ended) => found |= ended,
                Err(error) => break Err(error),
            }
            if !ring.is_behind() {
                break Ok(found);
            }
        };
        // The remaining parts wait for storage.
        self.client.hand_over(rests.into_iter());
        turned
    }

    /// Ends the inline work. `works` gets the remaining requests, unless another thread continues.
    fn end_turn(&mut self) {
        (self.works, self.replaced) = self.batch.end();
        if self.replaced {
            self.client.hand_over(self.works.drain(..).flatten());
        }
    }

    /// Processes a batch. `early`: see [`Situation`]. `in_flight` returns the number of requests of this queue in the
    /// pool; `notify` notifies the client of replies.
    ///
    /// # Errors
    /// Those of [`Self::reap`].
    pub(crate) fn work(
        &mut self,
        batch: &mut Vec<R>,
        early: bool,
        in_flight: impl Fn() -> usize,
        notify: impl Fn(),
    ) -> io::Result<()> {
        self.client.server.stats.batch(batch.len());
        let steps = !matches!(self.ring, Ring::Missing);
        let partial = |request: &R| match steps {
            true => self.client.folder.opened(request.head()),
            false => PartialIo::default(),
        };
        self.works.clear();
        self.works.extend(batch.drain(..).map(|request| {
            Some(Work {
                partial: partial(&request),
                request,
            })
        }));
        self.divide_and_work(early, in_flight, notify)
    }

    /// Works the requests in `works`.
    fn divide_and_work(
        &mut self,
        mut early: bool,
        in_flight: impl Fn() -> usize,
        notify: impl Fn(),
    ) -> io::Result<()> {
        let server = Arc::clone(&self.client.server);
        loop {
            self.classes.clear();
            (self.classes).extend(self.works.iter().flatten().map(Work::class));
            let (classes, estimates) = (&self.classes, &server.estimates);
            let situation = Situation {
                in_flight: in_flight() + self.in_flight() + self.batch.hung(),
                waiting: server.pool.as_ref().map_or(0, Pool::waiting),
                early,
                writing: self.writing(),
            };
            (self.dispatcher).divide(classes, situation, estimates, &mut self.division);
            let mut division = std::mem::take(&mut self.division);
            let mut works = std::mem::take(&mut self.works);
            let transferred = division.transferred.first().map(|at| self.classes[*at]);
            self.start(&mut works, &mut division);
            let pooled = division.pooled.iter();
            (self.client).hand_over(pooled.filter_map(|at| works[*at].take()));
            self.batch.begin(works, transferred);
            // Only now, so that the pool is at work while this thread submits.
            if let Err(error) = self.turn_transfers() {
                self.end_turn();
                self.client.hand_over(self.works.drain(..).flatten());
                return Err(error);
            }
            self.try_cached(&division.tried);
            let interrupted = self.work_inline(&division.inline, &notify);
            notify();
            self.division = division;
            self.end_turn();
            if self.replaced || !interrupted {
                return Ok(());
            }
            // The rest is a new batch.
            early = true;
            self.works.retain(Option::is_some);
        }
    }

    /// Answers reads of the batch that hit the page cache. The pool gets the others.
    fn try_cached(&self, tried: &[usize]) {
        let mut missed = false;
        for at in tried {
            let Some(work) = self.batch.take(*at) else {
                break;
            };
            if let Some(work) = self.client.try_cached(work) {
                self.batch.put_back(*at, work);
                missed = true;
            }
        }
        if missed {
            let missed: Vec<_> = tried.iter().filter_map(|at| self.batch.take(*at)).collect();
            self.client.hand_over(missed.into_iter());
        }
    }

    /// Processes requests of the batch. Returns whether it was interrupted and the rest must be divided again.
    fn work_inline(&self, inline: &[usize], notify: impl Fn()) -> bool {
        let server = &self.client.server;
        let estimates = &server.estimates;
        // The end of one request is the start of the next, unless the client was notified in between: the client may
        // have had the processor.
        let start = Instant::now();
        let (mut now, mut notified) = (start, 0);
        for (nth, at) in inline.iter().enumerate() {
            let class = self.classes[*at];
            if nth > 0 && server.pool.is_some() {
                let worked = now.duration_since(start).as_nanos() as u64;
                if (self.dispatcher).interrupted(worked, class, estimates) {
                    return true;
                }
                // A reply waits for others, but not much longer than a few hand-offs.
                if worked - notified > NOTIFIED_AFTER * estimates.hand_off_ns() {
                    notify();
                    now = Instant::now();
                    notified = worked;
                }
            }
            // The watchdog has the rest.
            let Some(work) = self.batch.take_at(*at, now, class) else {
                return false;
            };
            now = self.client.answer(work, true, now);
            if nth == 0 && inline.len() > 1 && server.client_has_cpu() {
                notify();
                now = Instant::now();
            }
        }
        false
    }

    /// Prepares the transfers of a division. Requests that cannot be transferred go to the pool.
    fn start(&mut self, works: &mut [Option<Work<R>>], division: &mut Division) {
        if matches!(self.ring, Ring::Unused) && !division.transferred.is_empty() {
            self.ring = match Transfers::new(MAX_TRANSFERS) {
                Ok(ring) => Ring::There(Box::new(ring)),
                Err(_) => Ring::Missing,
            };
        }
        for at in division.transferred.drain(..) {
            let started = match (&mut self.ring, works[at].take()) {
                (Ring::There(ring), Some(work)) => {
                    self.client.start(ring, &mut self.unprivileged, work)
                }
                (_, work) => Err(work),
            };
            if let Err(work) = started {
                works[at] = work;
                division.pooled.push(at);
            }
        }
    }
}

impl Client {
    /// Prepares a transfer, or returns the request if it cannot be transferred.
    fn start<R: Request>(
        &self,
        ring: &mut Transfers<Arc<OpenFile>, Started<R>>,
        unprivileged: &mut Unprivileged,
        mut work: Work<R>,
    ) -> Result<(), Option<Work<R>>> {
        let head = *work.request.head();
        let Some(open) = work.partial.open.clone() else {
            return Err(Some(work));
        };
        let write = head.opcode() == opcode::WRITE;
        let credentials = match head.ends_privileges() {
            false => None,
            true => {
                if matches!(unprivileged, Unprivileged::Unused) {
                    *unprivileged = Unprivileged::of(ring);
                }
                match unprivileged {
                    Unprivileged::There(known) => Some(*known),
                    _ => return Err(Some(work)),
                }
            }
        };
        let (transfer, from) = match write {
            true => {
                let append = head.appends();
                (
                    Transfer::Write {
                        append,
                        credentials,
                    },
                    WRITE_HEADER,
                )
            }
            false => (Transfer::Read, REPLY_HEADER),
        };
        let lent = (work.request).lend(write, from, head.data() as usize);
        let Some(memory) = lent else {
            return Err(Some(work));
        };
        let started = Started {
            work,
            start: Instant::now(),
        };
        let place = (transfer, head.u64_at(HEADER + 8));
        let refused = ring.start(open, memory, place, started);
        refused.map_err(|(_, memory, mut started)| {
            started.work.request.give_back(memory);
            Some(started.work)
        })
    }

    /// Answers a transferred request, or returns the request if a part remains.
    fn transferred<R: Request>(
        &self,
        done: Transferred<Arc<OpenFile>, Started<R>>,
    ) -> Option<Work<R>> {
        let Started { mut work, start } = done.item;
        work.request.give_back(done.memory);
        let head = *work.request.head();
        let (partial, request) = (&mut work.partial, &mut work.request);
        let answered = (self.folder).transferred(&head, partial, done.result, request);
        let Some(answered) = answered else {
            return Some(work);
        };
        let service_ns = start.elapsed().as_nanos() as u64;
        // The time does not show how long the request would have held the queue's thread: for file systems in memory,
        // kernel threads execute transfers one after the other.
        self.count(&work.request, answered, Worker::Kernel, start, service_ns);
        work.request.answered(answered, false);
        None
    }
}
