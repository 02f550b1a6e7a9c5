//! What time a trial runs in, and how its trial thread waits: for the kernel's clock, or in virtual time.
//!
//! In virtual time the trial thread and the clones are actors of one event queue, of which one runs at a
//! time. A clone prepares and ends outside of it: the trial thread really waits for that, so that what it
//! hears next does not depend on the host.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use iodyno_engine::{Clock, CloneShared, CloneSpec, VirtualClock};

use crate::clock;
use crate::worker::{self, Signal};

/// When virtual time begins, ns. Not 0, which stands for "not yet" in what clones share.
pub(crate) const VIRTUAL_START_NS: u64 = 1_000_000_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Timeline {
    sender: Sender<Signal>,
    signals: Receiver<Signal>,
    simulation: Option<Simulation>,
}

#[derive(Debug)]
struct Simulation {
    /// The trial thread's.
    clock: VirtualClock,
    /// The clones' clocks and threads, as long as they have not ended or were not heard of.
    clones: BTreeMap<usize, (VirtualClock, JoinHandle<()>)>,
}

impl Timeline {
    /// On the kernel's clock.
    pub(crate) fn real(sender: Sender<Signal>, signals: Receiver<Signal>) -> Timeline {
        Timeline {
            sender,
            signals,
            simulation: None,
        }
    }

    /// In the virtual time of this clock. The calling thread is the actor that made it.
    pub(crate) fn simulated(
        sender: Sender<Signal>,
        signals: Receiver<Signal>,
        clock: VirtualClock,
    ) -> Timeline {
        let simulation = Simulation {
            clock,
            clones: BTreeMap::new(),
        };
        Timeline {
            simulation: Some(simulation),
            ..Timeline::real(sender, signals)
        }
    }

    pub(crate) fn is_virtual(&self) -> bool {
        self.simulation.is_some()
    }

    /// Now, ns.
    pub(crate) fn now(&self) -> u64 {
        match &self.simulation {
            None => clock::now(),
            Some(simulation) => simulation.clock.now(),
        }
    }

    /// CPU time that this process has used, ns; 0 in virtual time, where it does not count.
    pub(crate) fn cpu(&self) -> u64 {
        match self.simulation {
            None => clock::cpu(),
            Some(_) => 0,
        }
    }

    /// Waits for a signal without moving virtual time. `None`: there will be none.
    pub(crate) fn next(&self) -> Option<Signal> {
        self.signals.recv().ok()
    }

    /// A signal that is there already.
    pub(crate) fn ready(&self) -> Option<Signal> {
        self.signals.try_recv().ok()
    }

    /// Waits for a signal, until this instant at the latest.
    pub(crate) fn wait(&self, until: u64) -> Option<Signal> {
        match &self.simulation {
            None => {
                let span = Duration::from_nanos(until.saturating_sub(clock::now()));
                self.signals.recv_timeout(span).ok()
            }
            Some(simulation) => self.ready().or_else(|| {
                simulation.clock.sleep_until(until);
                self.ready()
            }),
        }
    }

    /// Makes a clone's thread. [`Timeline::await_ready`] tells when it has arrived at its gate.
    pub(crate) fn spawn(&mut self, clone: usize, mut spec: CloneSpec, shared: &Arc<CloneShared>) {
        let sender = self.sender.clone();
        let Some(simulation) = &mut self.simulation else {
            worker::spawn(clone, spec, Arc::clone(shared), sender, None);
            return;
        };
        let clock = simulation.clock.actor();
        if let Some(simulated) = &mut spec.simulated {
            simulated.clock = Some(clock.clone());
        }
        let actor = Some(clock.clone());
        let thread = worker::spawn(clone, spec, Arc::clone(shared), sender, actor);
        simulation
            .clones
            .extend(thread.map(|thread| (clone, (clock, thread))));
    }

    /// Has a signal sent for each of these clones when it has arrived at its gate.
    pub(crate) fn await_ready(&mut self, clones: Vec<(usize, Arc<CloneShared>)>) {
        if self.simulation.is_none() {
            return worker::notify_when_ready(clones, self.sender.clone());
        }
        for (clone, shared) in clones {
            match shared.gate.arrived() {
                true => drop(self.sender.send(Signal::Arrived(clone))),
                false => self.join(clone),
            }
        }
    }

    /// Lets a clone start at this instant.
    pub(crate) fn release(&self, clone: usize, shared: &CloneShared, at: u64) {
        if let Some(simulation) = &self.simulation
            && let Some((clock, _)) = simulation.clones.get(&clone)
        {
            clock.start(at);
        }
        shared.gate.release(at);
    }

    /// A clone that was not released never starts.
    pub(crate) fn close(&mut self, clone: usize, shared: &CloneShared) {
        shared.gate.close();
        self.join(clone);
    }

    /// Waits until a clone that was never scheduled has said its last word.
    fn join(&mut self, clone: usize) {
        let simulation = self.simulation.as_mut();
        if let Some((_, thread)) = simulation.and_then(|one| one.clones.remove(&clone)) {
            // A panic was told as the clone's end.
            let _ = thread.join();
        }
    }
}
