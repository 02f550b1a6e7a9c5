//! Orphan clean-up: the folder of a trial whose node died is removed by the node's session, which knows its name.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use iodyno_model::{BoundPlan, TrialKey};

use super::folder::{self, Own};
use super::site::{self, Site};
use crate::resolve::target_folder;

/// The removal is given up when nothing could be removed for this long.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The folder of a trial whose node is dead.
#[derive(Debug, Clone)]
pub(crate) struct OrphanFolder {
    at: PathBuf,
    key: TrialKey,
}

impl OrphanFolder {
    /// `None`: the plan has no file operations.
    pub(crate) fn of(plan: &BoundPlan) -> Option<OrphanFolder> {
        Site::wanted(plan).then(|| OrphanFolder {
            at: target_folder(&plan.configuration.target).to_owned(),
            key: plan.key,
        })
    }

    fn path(&self) -> PathBuf {
        self.at.join(folder::folder_name(&self.key))
    }

    /// A note for the case that a process that cannot be killed still uses it.
    pub(crate) fn held(&self) -> String {
        let path = folder::quoted(&self.path());
        format!("its folder remains; remove it when the process has ended: rm -r {path}")
    }

    /// Begins to remove it, unless it belongs to another trial, and wakes the calling thread when that is done. On a
    /// thread of its own, since storage may hang.
    ///
    /// # Errors
    /// It stays: why, and what to do.
    pub(crate) fn remove(self) -> Result<Removal, String> {
        let path = self.path();
        let counts = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let (send, done) = mpsc::channel();
        let work = {
            let (counts, owner) = (Arc::clone(&counts), thread::current());
            move || {
                let _ = send.send(self.removed(&counts));
                owner.unpark();
            }
        };
        let thread = thread::Builder::new().name("clean-up".to_owned());
        let removal = Removal {
            path,
            counts,
            done,
            reported: 0,
            since: Instant::now(),
        };
        match thread.spawn(work) {
            Ok(_) => Ok(removal),
            Err(error) => Err(removal.stays(&error.to_string())),
        }
    }

    /// How many files and folders were removed; `None`: there was no folder.
    fn removed(&self, counts: &(AtomicU64, AtomicU64)) -> Result<Option<u64>, String> {
        let own = Own::open_orphan(&self.at, &self.key).map_err(|error| error.to_string())?;
        let Some(own) = own else {
            return Ok(None);
        };
        let mut tell = |removed, found| {
            counts.0.store(removed, Relaxed);
            counts.1.store(found, Relaxed);
        };
        let removed = site::remove(&own, &mut tell).map_err(|fault| fault.message)?;
        Ok(Some(removed))
    }
}

/// A removal under way.
#[derive(Debug)]
pub(crate) struct Removal {
    path: PathBuf,
    /// Files removed, and found.
    counts: Arc<(AtomicU64, AtomicU64)>,
    done: Receiver<Result<Option<u64>, String>>,
    /// Files removed when progress was last reported, and when.
    reported: u64,
    since: Instant,
}

/// How far a removal is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RemovalState {
    /// Under way; with new progress: files removed, and found so far.
    Working(Option<(u64, u64)>),
    /// There was no folder.
    Nothing,
    /// It was removed, or remains: a text that follows on the cause of the node's death.
    Over(String),
}

impl Removal {
    /// Looks how far it is; does not wait.
    pub(crate) fn poll(&mut self) -> RemovalState {
        match self.done.try_recv() {
            Ok(Ok(None)) => return RemovalState::Nothing,
            Ok(Ok(Some(_))) => {
                let path = self.path.display();
                return RemovalState::Over(format!("its folder `{path}` was removed"));
            }
            Ok(Err(why)) => return RemovalState::Over(self.stays(&why)),
            Err(TryRecvError::Disconnected) => {
                return RemovalState::Over(self.stays("the clean-up thread panicked"));
            }
            Err(TryRecvError::Empty) => {}
        }
        let (removed, found) = (self.counts.0.load(Relaxed), self.counts.1.load(Relaxed));
        if removed != self.reported {
            (self.reported, self.since) = (removed, Instant::now());
            return RemovalState::Working(Some((removed, found)));
        }
        match self.since.elapsed() >= TIMEOUT {
            true => RemovalState::Over(self.stays("its storage does not respond")),
            false => RemovalState::Working(None),
        }
    }

    fn stays(&self, why: &str) -> String {
        let command = folder::quoted(&self.path);
        format!("its folder could not be removed ({why}); remove it: rm -r {command}")
    }
}
