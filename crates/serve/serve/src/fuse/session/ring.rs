//! The threads of io_uring queues, and the queues of each.

use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use iodyno_model::number_list;
use iodyno_sys::fuse::FuseRing;

use super::device::Worker;
use super::message::{RequestMemory, ReturnQueue, SessionState};
use crate::fuse::protocol::MAX_DATA;

/// Ring entries per online CPU, and in total. Offline CPUs need one each.
const ENTRIES: usize = 32;
const ALL_ENTRIES: usize = 256;
/// How long the kernel may take to send `INIT`.
pub(super) const ASKS: Duration = Duration::from_secs(10);

/// A ring and its thread's way to it.
pub(super) struct RingThread {
    pub(super) shared: Arc<SessionState>,
    pub(super) back: Arc<ReturnQueue>,
    pub(super) queues: Vec<(u16, u32)>,
}

impl RingThread {
    /// Serves the queues, when the kernel has agreed on it.
    pub(super) fn run(&self, worker: &mut impl Worker, made: Sender<io::Result<()>>) {
        let ring = worker.start(None).and_then(|()| self.make());
        let _ = made.send(ring.as_ref().map(|_| ()).map_err(copy));
        // Ends the wait for all rings.
        drop(made);
        let Ok(mut ring) = ring else {
            return;
        };
        let agreed = loop {
            let state =
                (self.shared).wait_while(ASKS, |state| state.agreed.is_none() && !state.ended);
            let stopped = state.ended || self.shared.stopping.load(Ordering::Acquire);
            match state.agreed {
                None if !stopped => {}
                agreed => break agreed.unwrap_or_default(),
            }
        };
        if !agreed.io_uring {
            return;
        }
        let registered = ring.register();
        let failed = registered.is_err();
        self.shared.change(|state| match registered {
            Ok(()) => state.registered += 1,
            Err(error) => state.refused = Some(error),
        });
        if !failed && let Err(error) = self.serve(ring, worker) {
            self.shared.ended(Err(error));
        }
    }

    fn make(&self) -> io::Result<FuseRing> {
        let device = self.shared.device.as_fd().try_clone_to_owned()?;
        let wake = self.back.wake.try_clone()?;
        FuseRing::new(device, wake, &self.queues, MAX_DATA as usize)
    }

    fn serve(&self, ring: FuseRing, worker: &mut impl Worker) -> io::Result<()> {
        let entries: usize = self
            .queues
            .iter()
            .map(|(_, entries)| *entries as usize)
            .sum();
        let ring = RefCell::new(ring);
        let (mut taken, mut batch) = (Vec::with_capacity(entries), Vec::with_capacity(entries));
        let replies = RefCell::new(Vec::with_capacity(entries));
        // Entries that are with workers.
        let out = AtomicUsize::new(0);
        let commit = |asleep: bool| {
            let (mut replies, mut ring) = (replies.borrow_mut(), ring.borrow_mut());
            self.back.take(&mut replies, asleep);
            out.fetch_sub(replies.len(), Ordering::Relaxed);
            for (entry, length) in replies.drain(..) {
                ring.commit(entry, length);
            }
        };
        loop {
            commit(true);
            let stopping = self.shared.stopping.load(Ordering::Acquire);
            let none_out = out.load(Ordering::Relaxed) == 0;
            if stopping && none_out {
                return ring.borrow_mut().submit();
            }
            let last = none_out && self.shared.draining.load(Ordering::Acquire);
            if !ring.borrow_mut().turn(!last, &mut taken)? {
                return Ok(());
            }
            if last && taken.is_empty() {
                return Ok(());
            }
            out.fetch_add(taken.len(), Ordering::Relaxed);
            let now = Instant::now();
            batch.extend(taken.drain(..).map(|entry| {
                let back = Arc::clone(&self.back);
                self.shared
                    .message(RequestMemory::Ring { entry, back }, now)
            }));
            match stopping {
                // Only requests in flight are still served.
                true => batch.clear(),
                false if batch.is_empty() => {}
                false => {
                    self.back.given().asleep = false;
                    worker.work(&mut batch, &|| {
                        commit(false);
                        // The next turn fails as well.
                        let _ = ring.borrow_mut().submit();
                    })?;
                }
            }
        }
    }
}

fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// The queues of each thread, with the number of entries of each queue, or why FUSE over io_uring is unavailable.
pub(super) fn queues() -> Result<Vec<Vec<(u16, u32)>>, String> {
    const ENABLED: &str = "/sys/module/fuse/parameters/enable_uring";
    let enabled = std::fs::read_to_string(ENABLED);
    match enabled.as_deref().map(str::trim) {
        Ok("Y") => {}
        Ok(_) => return Err(format!("{ENABLED} is not Y")),
        Err(_) => return Err("this kernel does not have it (Linux 6.14)".to_owned()),
    }
    let read = |name: &str| {
        let path = Path::new("/sys/devices/system/cpu").join(name);
        let list = std::fs::read_to_string(&path).ok();
        list.and_then(|list| number_list(&list))
            .ok_or_else(|| format!("{} cannot be read", path.display()))
    };
    Ok(shares(read("possible")?.len(), &read("online")?))
}

/// Divides the queues of this number of CPUs among threads, one for each that is online.
fn shares(possible: usize, online: &[u32]) -> Vec<Vec<(u16, u32)>> {
    let count = online.len().max(1);
    let entries = (ALL_ENTRIES / count).clamp(4, ENTRIES) as u32;
    let mut threads = vec![Vec::new(); count];
    let mut next = 0;
    for queue in 0..possible as u16 {
        match online.iter().position(|cpu| *cpu == u32::from(queue)) {
            Some(at) => threads[at].push((queue, entries)),
            None => {
                threads[next % count].push((queue, 1));
                next += 1;
            }
        }
    }
    threads.retain(|queues| !queues.is_empty());
    threads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_has_a_thread_and_entries() {
        assert_eq!(
            shares(4, &[0, 2]),
            [vec![(0, 32), (1, 1)], vec![(2, 32), (3, 1)]]
        );
        let many: Vec<u32> = (0..128).collect();
        let threads = shares(240, &many);
        assert_eq!(threads.len(), 128);
        let mut queues: Vec<u16> = threads.iter().flatten().map(|(queue, _)| *queue).collect();
        queues.sort_unstable();
        assert_eq!(queues, (0..240).collect::<Vec<u16>>());
        assert!(threads.iter().all(|queues| queues[0].1 == 4));
    }
}
