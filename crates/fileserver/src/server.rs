//! What all clients of a server share: its settings, policy, pool, estimates and counts; and the way of a batch through them.

use std::fs::File;
use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use iodyno_sys::thread::{Usage, own_directory, quick_thread_usage};
use iodyno_sys::{Credentials, Transfer, Transferred, Transfers};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{set_current_timer_slack, set_thread_groups};

use crate::files::{Open, without_fsetid};
use crate::folder::{Answered, Begun, Exchange, Folder, Settings};
use crate::policy::{Class, Dispatcher, Division, Estimates, HAND_OFF_NS, Policy, Situation};
use crate::pool::{Job, Pool};
use crate::request::{HEADER, Head, REPLY_HEADER, WRITE_HEADER, opcode};
use crate::stats::{Stats, Transport, Worked};
use crate::watchdog::{Turn, Watchdog};

/// The client is told of replies within a batch after this many hand-offs: a notification costs about half of one.
const TOLD_AFTER: u64 = 4;
/// Transfers of a queue in flight. More than these go to the pool.
const MOST_TRANSFERS: u16 = 256;

/// A file server without its transports.
pub struct FileServer {
    settings: Settings,
    policy: Policy,
    pub(crate) threads: u16,
    pool: Option<Pool>,
    pub(crate) estimates: Estimates,
    pub(crate) stats: Stats,
    transport: OnceLock<Transport>,
    /// Processors that the server may use.
    cpus: usize,
    pub(crate) watchdog: Watchdog,
}

impl FileServer {
    /// Starts the threads of the pool and, with `adaptive`, the watchdog, and measures the cost of a hand-off. The thread that calls this loses its
    /// supplementary groups, so that neither it nor threads that it starts create files by them; and the process may open as many files as its
    /// hard limit allows.
    ///
    /// # Errors
    /// The folder cannot be opened, or a thread not be started.
    pub fn start(
        settings: Settings,
        policy: Policy,
        threads: Option<u16>,
    ) -> io::Result<FileServer> {
        if rustix::process::geteuid().is_root() {
            match set_thread_groups(&[]) {
                // In a user namespace they may be beyond change; then they are those of the user who made it.
                Ok(()) | Err(Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: limit.maximum,
            ..limit
        };
        // Otherwise clients get EMFILE earlier.
        let _ = setrlimit(Resource::Nofile, raised);
        settings.check()?;
        if !settings.delay.is_zero() {
            // A sleep ends up to 50 µs late otherwise. Threads that are started later inherit it.
            set_current_timer_slack(NonZero::new(1))?;
        }
        let threads = policy.threads(threads);
        let pool = match threads {
            0 => None,
            threads => Some(Pool::start(threads)?),
        };
        let measured = pool.as_ref().and_then(Pool::hand_off_ns);
        let cpus = thread::available_parallelism().map_or(1, NonZero::get);
        Ok(FileServer {
            cpus,
            // The fixed policies are what their names say.
            watchdog: Watchdog::start(policy == Policy::Adaptive && pool.is_some())?,
            settings,
            policy,
            threads,
            pool,
            estimates: Estimates::new(measured.unwrap_or(HAND_OFF_NS), cpus),
            stats: Stats::default(),
            transport: OnceLock::new(),
        })
    }

    /// Whether there are processors for the clients of all queues that are worked. Then a client that is told of the first reply of a batch
    /// works at the same time; otherwise it would take the processor from the rest of the batch.
    fn client_has_cpu(&self) -> bool {
        2 * self.watchdog.count_awake() <= self.cpus
    }

    /// The delay of slower storage.
    fn delays(&self, number: u32) {
        if !self.settings.delay.is_zero() && matches!(number, opcode::READ | opcode::WRITE) {
            thread::sleep(self.settings.delay);
        }
    }

    /// What was counted since the start, as JSON.
    #[must_use]
    pub fn stats(&self) -> String {
        let transport = self.transport.get().copied();
        (self.stats).json(transport, self.policy, self.threads, &self.estimates)
    }

    /// Whether it lets the kernel transfer direct reads by io_uring, where a client asks for them.
    #[must_use]
    pub fn transfers(&self) -> bool {
        let settings = &self.settings;
        self.policy == Policy::Adaptive && settings.delay.is_zero() && settings.direct_io
    }

    /// How the requests of its clients come.
    pub(crate) fn uses(&self, transport: Transport) {
        // It is the same for all.
        let _ = self.transport.set(transport);
    }

    /// A new client of this server. `submounts`: as of [`Folder::open`].
    pub(crate) fn client(self: &Arc<FileServer>, submounts: bool) -> io::Result<Client> {
        Ok(Client {
            folder: Folder::open(&self.settings, submounts)?,
            server: Arc::clone(self),
        })
    }
}

/// To be called first by each thread that works requests: some change its working directory or mask of permissions for a moment.
pub(crate) fn prepare_thread() {
    own_directory();
}

/// A client of a server, with its nodes and open files.
pub(crate) struct Client {
    folder: Folder,
    pub(crate) server: Arc<FileServer>,
}

/// A request that a transport took from a queue.
pub(crate) trait Request: Exchange + Send + 'static {
    /// Its beginning.
    fn head(&self) -> &Head;
    /// When it was taken.
    fn taken(&self) -> Instant;
    /// It is handed over to the pool.
    fn handed_over(&mut self);
    /// It was answered. `told`: the client must learn of it at once. Otherwise the queue's thread tells it when its batch ends.
    fn answered(self, answered: Answered, told: bool);
}

/// A request on its way.
pub(crate) struct Work<R> {
    request: R,
    begun: Begun,
}

/// A transfer in flight.
struct Started<R> {
    work: Work<R>,
    start: Instant,
}

/// Where the kernel transfers data for a queue.
enum Ring<R> {
    /// It was not needed so far.
    Unused,
    There(Box<Transfers<Arc<Open>, Started<R>>>),
    /// This host or this policy has none.
    Missing,
}

/// The credentials of writes that end the set-user-id bits of their file: those of the server without the right to keep these bits.
enum Unprivileged {
    /// They were not needed so far.
    Unused,
    There(Credentials),
    /// The ring cannot know them. The pool works such writes.
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

/// One queue of a client: what its thread keeps.
pub(crate) struct Lane<R: Request> {
    client: Arc<Client>,
    /// What it works itself.
    turn: Arc<Turn<R>>,
    /// Another thread goes on with the queue.
    replaced: bool,
    dispatcher: Dispatcher,
    division: Division,
    classes: Vec<Class>,
    works: Vec<Option<Work<R>>>,
    ring: Ring<R>,
    unprivileged: Unprivileged,
}

impl<R: Request> Lane<R> {
    /// To be used by one thread only, which makes its ring. `prompt`: its requests are never handed over.
    pub(crate) fn new(turn: Arc<Turn<R>>, prompt: bool) -> Lane<R> {
        let client = Arc::clone(turn.client());
        let policy = match prompt {
            true => Policy::Inline,
            false => client.server.policy,
        };
        Lane {
            ring: match policy == Policy::Adaptive && client.server.settings.delay.is_zero() {
                true => Ring::Unused,
                false => Ring::Missing,
            },
            client,
            turn,
            replaced: false,
            dispatcher: Dispatcher::new(policy),
            division: Division::default(),
            classes: Vec::new(),
            works: Vec::new(),
            unprivileged: Unprivileged::Unused,
        }
    }

    /// Lets the watchdog look at it, if the server has one. `substitute` starts the thread that goes on with the queue, by a lane with this turn.
    pub(crate) fn watch(
        &self,
        substitute: impl Fn(Arc<Turn<R>>) -> io::Result<()> + Send + Sync + 'static,
    ) {
        self.turn.watch(Box::new(substitute));
    }

    /// Whether another thread goes on with the queue. This one then answers what it has in flight ([`Self::reap`]) and ends.
    pub(crate) fn replaced(&self) -> bool {
        self.replaced
    }

    /// Works what a thread left that this one is the substitute of; as [`Self::work`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn work_left(
        &mut self,
        in_flight: impl Fn() -> usize,
        tell: impl Fn(),
    ) -> io::Result<()> {
        self.works = self.turn.left();
        match self.works.is_empty() {
            true => Ok(()),
            false => self.divide_and_work(true, in_flight, tell),
        }
    }

    /// Its thread goes to sleep or wakes up.
    pub(crate) fn awake(&self, awake: bool) {
        // One that was replaced does not count.
        if !self.replaced {
            self.client.server.watchdog.awake(awake);
        }
    }

    /// Whether a queue's thread that has no work may look for more for a moment without taking a processor from its client.
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

    /// Starts the transfers that wait and answers those that have ended. Returns whether there was one.
    ///
    /// # Errors
    /// The kernel cannot be entered. Then no transfer is answered any more.
    pub(crate) fn reap(&mut self) -> io::Result<bool> {
        if self.in_flight() == 0 || self.replaced {
            return self.turn_transfers();
        }
        self.turn.begin(Vec::new(), None);
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
        // They wait for storage.
        self.client.hand_over(rests.into_iter());
        turned
    }

    /// The end of what its thread works itself. What is left is in `works`, unless another thread goes on.
    fn end_turn(&mut self) {
        (self.works, self.replaced) = self.turn.end();
        if self.replaced {
            self.client.hand_over(self.works.drain(..).flatten());
        }
    }

    /// Works a batch. `early`: as in [`Situation`]. `in_flight` returns how many requests of this queue the pool has; `tell` tells the client what was answered.
    ///
    /// # Errors
    /// As [`Self::reap`].
    pub(crate) fn work(
        &mut self,
        batch: &mut Vec<R>,
        early: bool,
        in_flight: impl Fn() -> usize,
        tell: impl Fn(),
    ) -> io::Result<()> {
        self.client.server.stats.batch(batch.len());
        let steps = !matches!(self.ring, Ring::Missing);
        let begun = |request: &R| match steps {
            true => self.client.folder.opened(request.head()),
            false => Begun::default(),
        };
        self.works.clear();
        self.works.extend(batch.drain(..).map(|request| {
            Some(Work {
                begun: begun(&request),
                request,
            })
        }));
        self.divide_and_work(early, in_flight, tell)
    }

    /// Works the requests in `works`.
    fn divide_and_work(
        &mut self,
        mut early: bool,
        in_flight: impl Fn() -> usize,
        tell: impl Fn(),
    ) -> io::Result<()> {
        let server = Arc::clone(&self.client.server);
        loop {
            self.classes.clear();
            (self.classes).extend(self.works.iter().flatten().map(Work::class));
            let (classes, estimates) = (&self.classes, &server.estimates);
            let situation = Situation {
                in_flight: in_flight() + self.in_flight() + self.turn.hung(),
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
            self.turn.begin(works, transferred);
            // Only now, so that the pool is at work while this thread submits.
            if let Err(error) = self.turn_transfers() {
                self.end_turn();
                self.client.hand_over(self.works.drain(..).flatten());
                return Err(error);
            }
            self.try_cached(&division.tried);
            let interrupted = self.work_inline(&division.inline, &tell);
            tell();
            self.division = division;
            self.end_turn();
            if self.replaced || !interrupted {
                return Ok(());
            }
            // The rest is a batch of its own.
            early = true;
            self.works.retain(Option::is_some);
        }
    }

    /// Answers those reads of the turn that the page cache has. The pool gets the others.
    fn try_cached(&self, tried: &[usize]) {
        let mut missed = false;
        for at in tried {
            let Some(work) = self.turn.take(*at) else {
                break;
            };
            if let Some(work) = self.client.try_cached(work) {
                self.turn.put_back(*at, work);
                missed = true;
            }
        }
        if missed {
            let missed: Vec<_> = tried.iter().filter_map(|at| self.turn.take(*at)).collect();
            self.client.hand_over(missed.into_iter());
        }
    }

    /// Works requests of the turn. Returns whether it was interrupted, so that the rest is to be divided anew.
    fn work_inline(&self, inline: &[usize], tell: impl Fn()) -> bool {
        let server = &self.client.server;
        let estimates = &server.estimates;
        // The end of a request is the start of the next one, except where the client was told in between: then it may have had the processor.
        let start = Instant::now();
        let (mut now, mut told) = (start, 0);
        for (nth, at) in inline.iter().enumerate() {
            let class = self.classes[*at];
            if nth > 0 && server.pool.is_some() {
                let worked = now.duration_since(start).as_nanos() as u64;
                if (self.dispatcher).interrupted(worked, class, estimates) {
                    return true;
                }
                // A reply waits for others, but not much longer than some hand-offs take.
                if worked - told > TOLD_AFTER * estimates.hand_off_ns() {
                    tell();
                    now = Instant::now();
                    told = worked;
                }
            }
            // The watchdog has the rest.
            let Some(work) = self.turn.take_at(*at, now, class) else {
                return false;
            };
            now = self.client.answer(work, true, now);
            if nth == 0 && inline.len() > 1 && server.client_has_cpu() {
                tell();
                now = Instant::now();
            }
        }
        false
    }

    /// Prepares the transfers of a division. Those that cannot be transferred go to the pool.
    fn start(&mut self, works: &mut [Option<Work<R>>], division: &mut Division) {
        if matches!(self.ring, Ring::Unused) && !division.transferred.is_empty() {
            self.ring = match Transfers::new(MOST_TRANSFERS) {
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

impl<R: Request> Work<R> {
    fn class(&self) -> Class {
        let head = self.request.head();
        let class = Class::of(head.opcode(), head.data());
        let write = head.opcode() == opcode::WRITE;
        match &self.begun.open {
            Some(open) if open.direct => class.direct(write),
            Some(open) if !write && open.tries() => class.cached(head.data()),
            _ => class,
        }
    }
}

/// How long a thread waited in a time, by its usage before and after. Time in which it was ready to run and had no processor does not count,
/// unless it waited too.
fn waited_ns(before: &Usage, after: &Usage, service_ns: u64) -> u64 {
    let worked = |usage: &Usage| usage.user_ns + usage.system_ns;
    match after.voluntary > before.voluntary {
        true => service_ns.saturating_sub(worked(after).saturating_sub(worked(before))),
        false => 0,
    }
}

/// How a request was worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worker {
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

    /// As of [`Folder::prepare_to_save`].
    pub(crate) fn prepare_to_save(&self, cancel: Arc<AtomicBool>) {
        self.folder.prepare_to_save(cancel);
    }

    /// As of [`Folder::save`].
    pub(crate) fn save(&self) -> io::Result<(Vec<u8>, usize)> {
        self.folder.save()
    }

    /// As of [`Folder::load`].
    pub(crate) fn load(&self, state: &[u8]) -> io::Result<(usize, Option<String>)> {
        self.folder.load(state)
    }

    /// A descriptor of the open file of a node and handle, asked for by a request.
    pub(crate) fn descriptor(&self, head: &Head, node: u64, handle: u64) -> io::Result<File> {
        self.folder.descriptor(head, node, handle)
    }

    /// Carries a request out, whose work starts now, and answers it. Returns when that was done.
    fn answer<R: Request>(&self, mut work: Work<R>, inline: bool, start: Instant) -> Instant {
        let head = *work.request.head();
        let adaptive = self.server.policy == Policy::Adaptive;
        let class = work.class();
        let estimates = &self.server.estimates;
        let asks = adaptive && estimates.asks_for_waits(class);
        let before = asks.then(quick_thread_usage);
        self.server.delays(head.opcode());
        let answered = (self.folder).answer(&head, &mut work.begun, &mut work.request);
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
    fn try_cached<R: Request>(&self, mut work: Work<R>) -> Option<Work<R>> {
        let head = *work.request.head();
        let start = Instant::now();
        let found = (self.folder).try_cached(&head, &mut work.begun, &mut work.request);
        let service_ns = start.elapsed().as_nanos() as u64;
        (self.server.estimates).tried(found.is_some(), head.data(), service_ns);
        let Some(answered) = found else {
            return Some(work);
        };
        self.count(&work.request, answered, Worker::Queue, start, service_ns);
        work.request.answered(answered, false);
        None
    }

    /// Prepares a transfer, or returns what cannot be transferred.
    fn start<R: Request>(
        &self,
        ring: &mut Transfers<Arc<Open>, Started<R>>,
        unprivileged: &mut Unprivileged,
        mut work: Work<R>,
    ) -> Result<(), Option<Work<R>>> {
        let head = *work.request.head();
        let Some(open) = work.begun.open.clone() else {
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

    /// Answers what was transferred, or returns it if a rest is left.
    fn transferred<R: Request>(&self, done: Transferred<Arc<Open>, Started<R>>) -> Option<Work<R>> {
        let Started { mut work, start } = done.item;
        work.request.give_back(done.memory);
        let head = *work.request.head();
        let (begun, request) = (&mut work.begun, &mut work.request);
        let answered = (self.folder).transferred(&head, begun, done.result, request);
        let Some(answered) = answered else {
            return Some(work);
        };
        let service_ns = start.elapsed().as_nanos() as u64;
        // How long it took tells nothing of how long it would have held the queue's thread: file systems in memory work transfers by threads of
        // the kernel, one after the other.
        self.count(&work.request, answered, Worker::Kernel, start, service_ns);
        work.request.answered(answered, false);
        None
    }

    fn count<R: Request>(
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
