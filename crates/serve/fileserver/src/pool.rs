//! The threads that process what queues hand over. They are started on demand: idle threads would change how the
//! scheduler places the others. With two processors and four clients of a folder in memory, 8 idle threads cost a
//! quarter of the rate.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use iodyno_sys::thread::own_directory;

/// How often the cost of a hand-off is measured.
const HAND_OFFS: usize = 101;
/// Limits of a plausible hand-off cost, ns. A busy host inflates the measurement; even a job that starts soon costs two
/// context switches and a notification.
const MIN_NS: u64 = 12_000;
const MAX_NS: u64 = 40_000;
/// Timeout of one hand-off in the calibration.
const GIVEN_UP: Duration = Duration::from_secs(1);

/// A piece of work.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct PoolState {
    jobs: VecDeque<Job>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that wait for a job or have just started.
    idle: usize,
    stopping: bool,
}

#[derive(Default)]
struct PoolShared {
    state: Mutex<PoolState>,
    more: Condvar,
    /// The number of `PoolState::jobs`. All queues read it for each batch, and would contend for the lock.
    waiting: AtomicUsize,
}

impl PoolShared {
    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, state: &PoolState) {
        self.waiting.store(state.jobs.len(), Ordering::Relaxed);
    }
}

/// A thread pool. Dropping it ends the threads after their queued jobs.
pub(crate) struct Pool {
    shared: Arc<PoolShared>,
    most: usize,
}

impl Pool {
    /// Starts the first thread of a pool of at most `most`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(most: u16) -> io::Result<Pool> {
        let pool = Pool {
            shared: Arc::default(),
            most: most.into(),
        };
        pool.add(&mut pool.shared.state())?;
        Ok(pool)
    }

    /// Starts a thread, with the credentials of this one.
    fn add(&self, state: &mut PoolState) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name("pool".to_owned());
        state.threads.push(thread.spawn(move || work(&shared))?);
        state.idle += 1;
        Ok(())
    }

    /// Hands jobs over, which begin in this order. The thread that calls this has the credentials of the server.
    pub(crate) fn hand_over(&self, jobs: impl Iterator<Item = Job>) {
        self.hand_over_to(self.most, jobs);
    }

    /// The same, with at most this many threads.
    fn hand_over_to(&self, most: usize, jobs: impl Iterator<Item = Job>) {
        let mut jobs = jobs.peekable();
        // Most batches of fast storage: others are not held up.
        if jobs.peek().is_none() {
            return;
        }
        let mut state = self.shared.state();
        let before = state.jobs.len();
        state.jobs.extend(jobs);
        let woken = (state.jobs.len() - before).min(state.idle);
        self.shared.count(&state);
        while state.idle < state.jobs.len() && state.threads.len() < most {
            // The host allows no more: the existing threads process the jobs.
            if self.add(&mut state).is_err() {
                break;
            }
        }
        drop(state);
        (0..woken).for_each(|_| self.shared.more.notify_one());
    }

    /// The number of jobs that have not started.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// The cost of a hand-off, ns: the median time until a job of an idle pool begins.
    pub(crate) fn hand_off_ns(&self) -> Option<u64> {
        let mut taken = Vec::with_capacity(HAND_OFFS);
        for _ in 0..HAND_OFFS {
            let (started, begins) = std::sync::mpsc::channel();
            let start = Instant::now();
            let job: Job = Box::new(move || {
                let _ = started.send(start.elapsed());
            });
            self.hand_over_to(1, std::iter::once(job));
            let waited = begins.recv_timeout(GIVEN_UP).ok()?;
            taken.push(waited.as_nanos() as u64);
        }
        taken.sort_unstable();
        Some(taken[HAND_OFFS / 2].clamp(MIN_NS, MAX_NS))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.stopping = true;
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.shared.more.notify_all();
        // A job may be the last to use the pool.
        let own = thread::current().id();
        for thread in threads.into_iter().filter(|it| it.thread().id() != own) {
            // Jobs do not panic: they answer requests, which catch it.
            let _ = thread.join();
        }
    }
}

fn work(shared: &PoolShared) {
    own_directory();
    let mut state = shared.state();
    state.idle -= 1;
    loop {
        if let Some(job) = state.jobs.pop_front() {
            shared.count(&state);
            drop(state);
            job();
            state = shared.state();
            continue;
        }
        if state.stopping {
            return;
        }
        state.idle += 1;
        state = (shared.more.wait(state)).unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_jobs_are_worked_before_a_pool_ends() {
        let done = Arc::new(AtomicUsize::new(0));
        let pool = Pool::start(3).unwrap();
        let job = |_| -> Job {
            let done = Arc::clone(&done);
            Box::new(move || {
                done.fetch_add(1, Ordering::Relaxed);
            })
        };
        pool.hand_over((0..500).map(job));
        pool.hand_over((0..500).map(job));
        pool.hand_over(std::iter::empty());
        let shared = Arc::clone(&pool.shared);
        drop(pool);
        assert_eq!(shared.waiting.load(Ordering::Relaxed), 0);
        assert_eq!(done.load(Ordering::Relaxed), 1000);
    }

    #[test]
    fn a_job_may_be_the_last_to_use_its_pool() {
        let pool = Arc::new(Pool::start(2).unwrap());
        let (go, goes) = std::sync::mpsc::channel::<()>();
        let (ended, ends) = std::sync::mpsc::channel();
        let own = Arc::clone(&pool);
        let job: Job = Box::new(move || {
            let _ = goes.recv();
            drop(own);
            ended.send(()).unwrap();
        });
        pool.hand_over(std::iter::once(job));
        drop(pool);
        drop(go);
        ends.recv().expect("the thread of the job goes on");
    }

    #[test]
    fn jobs_are_worked_at_the_same_time() {
        let pool = Pool::start(2).unwrap();
        let barrier = Arc::new(std::sync::Barrier::new(2));
        let job = |_| -> Job {
            let barrier = Arc::clone(&barrier);
            Box::new(move || {
                barrier.wait();
            })
        };
        // With one thread this would never end.
        pool.hand_over((0..2).map(job));
        assert!(pool.hand_off_ns().is_some_and(|ns| ns >= MIN_NS));
    }

    #[test]
    fn a_pool_has_as_many_threads_as_jobs_waited_at_a_time_up_to_its_limit() {
        let pool = Pool::start(5).unwrap();
        let threads = || pool.shared.state().threads.len();
        assert!(pool.hand_off_ns().is_some());
        assert_eq!(threads(), 1);
        let jobs = |count: usize| {
            let started = Arc::new(std::sync::Barrier::new(count + 1));
            let job = |_| -> Job {
                let started = Arc::clone(&started);
                Box::new(move || {
                    started.wait();
                })
            };
            (0..count).for_each(|at| pool.hand_over(std::iter::once(job(at))));
            started.wait();
        };
        // Each waits for all others, handed over one by one.
        jobs(3);
        assert!((3..=4).contains(&threads()), "{}", threads());
        jobs(5);
        assert_eq!(threads(), 5);
        let done = Arc::new(AtomicUsize::new(0));
        pool.hand_over((0..20).map(|_| -> Job {
            let done = Arc::clone(&done);
            Box::new(move || {
                done.fetch_add(1, Ordering::Relaxed);
            })
        }));
        assert_eq!(threads(), 5);
        drop(pool);
        assert_eq!(done.load(Ordering::Relaxed), 20);
    }
}
