//! What all clients of a server share: its settings, policy, pool, estimates and counts; and the way of a batch through them.

use std::fs::File;
use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use iodyno_sys::thread::{Usage, own_directory, quick_thread_usage};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{set_current_timer_slack, set_thread_groups};

use crate::folder::{Answered, Exchange, Folder, Settings};
use crate::policy::{Class, Dispatcher, Division, Estimates, HAND_OFF_NS, Policy, Situation};
use crate::pool::{Job, Pool};
use crate::request::{Head, opcode};
use crate::stats::{Stats, Worked};

/// The client is told of replies within a batch after this many hand-offs: a notification costs about half of one.
const TOLD_AFTER: u64 = 4;

/// A file server without its transports.
pub struct FileServer {
    settings: Settings,
    policy: Policy,
    threads: u16,
    pool: Option<Pool>,
    estimates: Estimates,
    stats: Stats,
    /// Processors that the server may use.
    cpus: usize,
    /// Queues whose thread is awake.
    awake: AtomicUsize,
}

impl FileServer {
    /// Starts the threads of the pool and measures the cost of a hand-off. The thread that calls this loses its supplementary groups, so that
    /// neither it nor threads that it starts create files by them; and the process may open as many files as its hard limit allows.
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
        if !std::fs::metadata(&settings.folder)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Folder::open(&settings, true)?;
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
            awake: AtomicUsize::new(0),
            settings,
            policy,
            threads,
            pool,
            estimates: Estimates::new(measured.unwrap_or(HAND_OFF_NS), cpus),
            stats: Stats::default(),
        })
    }

    /// Whether there are processors for the clients of all queues that are worked. Then a client that is told of the first reply of a batch
    /// works at the same time; otherwise it would take the processor from the rest of the batch.
    fn client_has_cpu(&self) -> bool {
        2 * self.awake.load(Ordering::Relaxed) <= self.cpus
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
        (self.stats).json(self.policy, self.threads, &self.estimates)
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
    server: Arc<FileServer>,
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

/// One queue of a client: what its thread keeps.
pub(crate) struct Lane {
    client: Arc<Client>,
    dispatcher: Dispatcher,
    division: Division,
    classes: Vec<Class>,
}

impl Lane {
    /// `prompt`: its requests are never handed over.
    pub(crate) fn new(client: Arc<Client>, prompt: bool) -> Lane {
        let policy = match prompt {
            true => Policy::Inline,
            false => client.server.policy,
        };
        Lane {
            client,
            dispatcher: Dispatcher::new(policy),
            division: Division::default(),
            classes: Vec::new(),
        }
    }

    /// Its thread goes to sleep or wakes up.
    pub(crate) fn awake(&self, awake: bool) {
        let count = &self.client.server.awake;
        match awake {
            true => count.fetch_add(1, Ordering::Relaxed),
            false => count.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Whether a queue's thread that has no work may look for more for a moment without taking a processor from its client.
    pub(crate) fn may_spin(&self) -> bool {
        self.client.server.client_has_cpu()
    }

    /// Works a batch. `early`: as in [`Situation`]. `in_flight` returns how many requests of this queue the pool has; `tell` tells the client what was answered.
    pub(crate) fn work<R: Request>(
        &mut self,
        batch: &mut Vec<R>,
        mut early: bool,
        in_flight: impl Fn() -> usize,
        tell: impl Fn(),
    ) {
        let server = Arc::clone(&self.client.server);
        server.stats.batch(batch.len());
        let mut requests: Vec<Option<R>> = batch.drain(..).map(Some).collect();
        loop {
            self.classes.clear();
            (self.classes).extend(requests.iter().flatten().map(class));
            let (classes, estimates) = (&self.classes, &server.estimates);
            let situation = Situation {
                in_flight: in_flight(),
                waiting: server.pool.as_ref().map_or(0, Pool::waiting),
                early,
            };
            (self.dispatcher).divide(classes, situation, estimates, &mut self.division);
            if let Some(pool) = &server.pool {
                let places = self.division.pooled.iter();
                let taken = places.filter_map(|at| requests[*at].take());
                pool.hand_over(taken.map(|request| self.job(request)));
            }
            let start = Instant::now();
            let mut told = 0;
            let mut rest = None;
            for (nth, at) in self.division.inline.iter().enumerate() {
                let worked = start.elapsed().as_nanos() as u64;
                if nth > 0 && server.pool.is_some() {
                    let next = self.classes[*at];
                    if (self.dispatcher).interrupted(worked, next, estimates) {
                        rest = Some(nth);
                        break;
                    }
                    // A reply waits for others, but not much longer than some hand-offs take.
                    if worked - told > TOLD_AFTER * estimates.hand_off_ns() {
                        tell();
                        told = worked;
                    }
                }
                if let Some(request) = requests[*at].take() {
                    self.client.answer(request, true);
                }
                if nth == 0 && server.client_has_cpu() {
                    tell();
                }
            }
            tell();
            let Some(nth) = rest else {
                return;
            };
            // The rest is a batch of its own.
            early = true;
            let places = self.division.inline[nth..].iter();
            requests = places.map(|at| requests[*at].take()).collect();
        }
    }

    fn job<R: Request>(&self, mut request: R) -> Job {
        request.handed_over();
        let client = Arc::clone(&self.client);
        Box::new(move || client.answer(request, false))
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

fn class<R: Request>(request: &R) -> Class {
    Class::of(request.head().opcode(), request.head().data())
}

impl Client {
    /// A descriptor of the open file of a node and handle, asked for by a request.
    pub(crate) fn descriptor(&self, head: &Head, node: u64, handle: u64) -> io::Result<File> {
        self.folder.descriptor(head, node, handle)
    }

    fn answer<R: Request>(&self, mut request: R, inline: bool) {
        let head = *request.head();
        let adaptive = self.server.policy == Policy::Adaptive;
        let class = Class::of(head.opcode(), head.data());
        let estimates = &self.server.estimates;
        let asks = adaptive && estimates.asks_for_waits(class);
        let before = asks.then(quick_thread_usage);
        let start = Instant::now();
        self.server.delays(head.opcode());
        let answered = self.folder.answer(&head, &mut request);
        let service_ns = start.elapsed().as_nanos() as u64;
        let queueing_ns = start.duration_since(request.taken()).as_nanos() as u64;
        if adaptive && head.is_answered() && !answered.failed && head.opcode() != opcode::INIT {
            let waited = before.map(|before| waited_ns(&before, &quick_thread_usage(), service_ns));
            estimates.record(class, service_ns, waited);
        }
        self.server.stats.worked(Worked {
            opcode: head.opcode(),
            inline,
            failed: answered.failed,
            bytes: match answered.failed {
                true => 0,
                false => head.data().into(),
            },
            queueing_ns,
            service_ns,
        });
        request.answered(answered, !inline);
    }
}
