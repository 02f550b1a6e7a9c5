//! The state that all clients of a server share: settings, policy, pool, estimates and statistics.

use std::io;
use std::num::NonZero;
use std::sync::{Arc, OnceLock};
use std::thread;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{set_current_timer_slack, set_thread_groups};

use crate::folder::{Folder, Settings};
use crate::policy::{Estimates, HAND_OFF_NS, Policy};
use crate::pool::Pool;
use crate::request::opcode;
use crate::stats::{Stats, Transport};
use crate::watchdog::Watchdog;

/// A file server without its transports.
pub struct FileServer {
    pub(crate) settings: Settings,
    pub(crate) policy: Policy,
    pub(crate) threads: u16,
    pub(crate) pool: Option<Pool>,
    pub(crate) estimates: Estimates,
    pub(crate) stats: Stats,
    transport: OnceLock<Transport>,
    /// Processors that the server may use.
    cpus: usize,
    pub(crate) watchdog: Watchdog,
}

impl FileServer {
    /// Starts the threads of the pool and, with `adaptive`, the watchdog, and measures the cost of a hand-off. The
    /// thread that calls this loses its supplementary groups, so that neither it nor threads that it starts create
    /// files by them; and the process may open as many files as its hard limit allows.
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
                // A user namespace may forbid changing them; then they are those of the user who created it.
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
            // Otherwise a sleep ends up to 50 µs late. Threads started later inherit this.
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
            // The fixed policies never replace a thread.
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

    /// Whether processors are free for the clients of all busy queues. If so, a client notified of the first reply of a
    /// batch runs concurrently; otherwise it would take the processor from the rest of the batch.
    pub(crate) fn client_has_cpu(&self) -> bool {
        2 * self.watchdog.count_awake() <= self.cpus
    }

    /// The delay of slower storage.
    pub(crate) fn delays(&self, number: u32) {
        if !self.settings.delay.is_zero() && matches!(number, opcode::READ | opcode::WRITE) {
            thread::sleep(self.settings.delay);
        }
    }

    /// The statistics since the start, as JSON.
    #[must_use]
    pub fn stats(&self) -> String {
        let transport = self.transport.get().copied();
        (self.stats).json(transport, self.policy, self.threads, &self.estimates)
    }

    /// Whether the kernel executes direct reads by io_uring if a client requests them.
    #[must_use]
    pub fn transfers(&self) -> bool {
        let settings = &self.settings;
        self.policy == Policy::Adaptive && settings.delay.is_zero() && settings.direct_io
    }

    /// Records the transport of its clients.
    pub(crate) fn uses(&self, transport: Transport) {
        // It is the same for all.
        let _ = self.transport.set(transport);
    }

    /// Adds a client. `submounts`: see [`Folder::open`].
    pub(crate) fn client(self: &Arc<FileServer>, submounts: bool) -> io::Result<Client> {
        Ok(Client {
            folder: Folder::open(&self.settings, submounts)?,
            server: Arc::clone(self),
        })
    }
}

/// A client of a server, with its nodes and open files.
pub(crate) struct Client {
    pub(crate) folder: Folder,
    pub(crate) server: Arc<FileServer>,
}
