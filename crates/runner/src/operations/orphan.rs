//! What a node that died leaves behind is removed by its parent, which knows the folder's name.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use iodyno_model::{BoundPlan, TrialKey};

use super::Tell;
use super::folder::{self, Own};
use super::site::{self, Site, target_folder};

/// Storage on which nothing can be removed for so long is given up.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(100);

/// The folder of a trial whose node is dead.
#[derive(Debug, Clone)]
pub(crate) struct OrphanFolder {
    at: PathBuf,
    key: TrialKey,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Left {
    /// There was none.
    Nothing,
    /// Words that follow on what the node died of.
    Said(String),
}

impl OrphanFolder {
    /// `None`: its plan has no file operations.
    pub(crate) fn of(plan: &BoundPlan) -> Option<OrphanFolder> {
        Site::wanted(plan).then(|| OrphanFolder {
            at: target_folder(&plan.configuration.target).to_owned(),
            key: plan.key,
        })
    }

    fn path(&self) -> PathBuf {
        self.at.join(folder::folder_name(&self.key))
    }

    /// A process that cannot die still holds it.
    pub(crate) fn held(&self) -> String {
        let path = folder::quoted(&self.path());
        format!("its folder remains; remove it when the process has ended: rm -r {path}")
    }

    /// Removes it, unless it is not that trial's.
    pub(crate) fn clear(self, tell: Tell<'_>) -> Left {
        let path = self.path();
        let stays = |why: &str| {
            let command = folder::quoted(&path);
            Left::Said(format!(
                "its folder could not be removed ({why}); remove it: rm -r {command}"
            ))
        };
        let counts = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let (send, done) = mpsc::channel();
        let work = {
            let counts = Arc::clone(&counts);
            move || {
                let _ = send.send(self.remove(&counts));
            }
        };
        // On a thread of its own: storage that hangs must not take this process with it.
        let thread = thread::Builder::new().name("clean-up".to_owned());
        if let Err(error) = thread.spawn(work) {
            return stays(&error.to_string());
        }
        let (mut last, mut since) = (0, Instant::now());
        loop {
            match done.recv_timeout(LOOK) {
                Ok(Ok(None)) => return Left::Nothing,
                Ok(Ok(Some(_))) => {
                    return Left::Said(format!("its folder `{}` was removed", path.display()));
                }
                Ok(Err(why)) => return stays(&why),
                Err(RecvTimeoutError::Disconnected) => {
                    return stays("the clean-up thread panicked");
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let (removed, found) = (counts.0.load(Relaxed), counts.1.load(Relaxed));
            if removed != last {
                (last, since) = (removed, Instant::now());
                tell(removed, found);
            }
            if since.elapsed() >= PATIENCE {
                return stays("its storage does not respond");
            }
        }
    }

    fn remove(&self, counts: &(AtomicU64, AtomicU64)) -> Result<Option<u64>, String> {
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
