//! The threads that run clones, and those that watch for their arrival.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};

use iodyno_engine::{CloneOutcome, CloneShared, CloneSpec, VirtualClock, WorkerError};

use crate::protocol::Command;

/// A worker's stack. The engine keeps what is large on the heap.
const STACK: usize = 256 << 10;

/// What the trial thread waits for.
#[derive(Debug)]
pub(crate) enum Signal {
    /// A command of the parent.
    Command(Command),
    /// The parent has gone.
    ParentGone,
    /// A clone is ready.
    Arrived(usize),
    /// A clone's thread has ended.
    Ended(usize, Box<Result<CloneOutcome, WorkerError>>),
}

/// Makes a clone's thread, an actor of this clock where it has one. `None`: there is no thread; its end is
/// signalled.
pub(crate) fn spawn(
    index: usize,
    spec: CloneSpec,
    shared: Arc<CloneShared>,
    signals: Sender<Signal>,
    actor: Option<VirtualClock>,
) -> Option<JoinHandle<()>> {
    let work = {
        let (shared, signals) = (Arc::clone(&shared), signals.clone());
        move || {
            let run = AssertUnwindSafe(|| iodyno_engine::run(spec, &shared));
            let result = catch_unwind(run).unwrap_or_else(|_| {
                Err(WorkerError {
                    what: "go on".to_owned(),
                    cause: "its worker panicked; see stderr".to_owned(),
                    hint: Some("this is a bug in iodyno: please report it".to_owned()),
                })
            });
            // Whoever waits for it at the gate learns that it does not come.
            shared.gate.arrive(false);
            // Nobody listens any more once the trial was given up.
            let _ = signals.send(Signal::Ended(index, Box::new(result)));
            if let Some(actor) = actor {
                actor.leave();
            }
        }
    };
    let made = thread::Builder::new()
        .name(format!("clone-{index}"))
        .stack_size(STACK)
        .spawn(work);
    made.map_err(|error| {
        shared.gate.arrive(false);
        let fault = WorkerError {
            what: "start a thread".to_owned(),
            cause: error.to_string(),
            hint: Some("raise `ulimit -u` or the cgroup's pids.max, or lower `numjobs=`".into()),
        };
        let _ = signals.send(Signal::Ended(index, Box::new(Err(fault))));
    })
    .ok()
}

/// Tells of each of these clones when it has arrived at its gate.
pub(crate) fn notify_when_ready(clones: Vec<(usize, Arc<CloneShared>)>, signals: Sender<Signal>) {
    if clones.is_empty() {
        return;
    }
    let wait = {
        let (clones, signals) = (clones.clone(), signals.clone());
        move || {
            for (index, shared) in clones {
                // One that cannot start tells so itself, by its end.
                if shared.gate.arrived() {
                    let _ = signals.send(Signal::Arrived(index));
                }
            }
        }
    };
    let made = thread::Builder::new()
        .name("notify_when_ready".to_owned())
        .stack_size(STACK)
        .spawn(wait);
    if made.is_err() {
        // Without a watcher they count as ready at once and start as soon as they are.
        for (index, _) in clones {
            let _ = signals.send(Signal::Arrived(index));
        }
    }
}
