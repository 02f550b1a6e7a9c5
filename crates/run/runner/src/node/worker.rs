//! The threads that run clones, and the threads that wait for their arrival at the gate.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};

use iodyno_engine::{CloneOutcome, CloneShared, CloneSpec, VirtualClock, WorkerError};

use crate::protocol::Command;

/// Stack size of a worker, bytes. The engine keeps large data on the heap.
const STACK: usize = 256 << 10;

/// A signal to the trial thread.
#[derive(Debug)]
pub(crate) enum Signal {
    /// A command of the parent.
    Command(Command),
    /// The parent has ended.
    ParentGone,
    /// A clone is ready.
    Arrived(usize),
    /// A clone's thread has ended.
    Ended(usize, Box<Result<CloneOutcome, WorkerError>>),
}

/// Creates a clone's thread, an actor of this clock if given. `None`: the thread could not be created; the clone's end
/// is signalled.
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
                Err(
                    WorkerError::new("continue", "its worker panicked; see stderr")
                        .hint("this is a bug in iodyno: please report it"),
                )
            });
            // The thread that waits for it at the gate learns that it failed.
            shared.gate.arrive(false);
            // After an abandoned trial, the receiver is gone.
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
        let fault = WorkerError::new("start a thread", error)
            .hint("raise `ulimit -u` or the cgroup's pids.max, or lower `numjobs=`");
        let _ = signals.send(Signal::Ended(index, Box::new(Err(fault))));
    })
    .ok()
}

/// Sends a signal for each of these clones when it has arrived at its gate.
pub(crate) fn notify_when_ready(clones: Vec<(usize, Arc<CloneShared>)>, signals: Sender<Signal>) {
    if clones.is_empty() {
        return;
    }
    let wait = {
        let (clones, signals) = (clones.clone(), signals.clone());
        move || {
            for (index, shared) in clones {
                // A clone that cannot start signals its end itself.
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
        // Without this thread they count as ready immediately and start as soon as they arrive.
        for (index, _) in clones {
            let _ = signals.send(Signal::Arrived(index));
        }
    }
}
