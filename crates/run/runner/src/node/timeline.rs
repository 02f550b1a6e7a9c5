//! The time of a trial and the waits of its trial thread: on the kernel's clock, or in virtual time.
//!
//! In virtual time the trial thread and the clones are actors of one event queue; one of them runs at a time. A clone
//! prepares and ends outside the queue: the trial thread waits for that in real time, so that the order of signals does
//! not depend on the host.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use iodyno_engine::{Clock, CloneShared, CloneSpec, VirtualClock};
use iodyno_model::StopRequest;

use crate::clock;
use crate::node::worker::{self, Signal};

/// The start of virtual time, ns. It is not 0, because 0 means "not yet" in the state of clones.
pub(crate) const VIRTUAL_START_NS: u64 = 1_000_000_000;

/// The time of a trial; see the module.
#[derive(Debug)]
pub(crate) struct Timeline {
    sender: Sender<Signal>,
    signals: Receiver<Signal>,
    simulation: Option<Simulation>,
}

#[derive(Debug)]
struct Simulation {
    /// The clock of the trial thread.
    clock: VirtualClock,
    /// The clones whose threads have not been joined.
    clones: BTreeMap<usize, SimulatedClone>,
}

#[derive(Debug)]
struct SimulatedClone {
    clock: VirtualClock,
    shared: Arc<CloneShared>,
    thread: JoinHandle<()>,
    /// Whether it is in the event queue.
    released: bool,
}

impl Drop for Simulation {
    /// Ends the clones that still run because the trial was abandoned or its thread panicked.
    fn drop(&mut self) {
        let (released, waiting): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.clones)
                .into_iter()
                .partition(|(_, clone)| clone.released);
        for clone in waiting.into_values() {
            clone.shared.gate.close();
            let _ = clone.thread.join();
        }
        for clone in released.values() {
            clone.shared.request_stop(StopRequest::Abort);
        }
        let running = || released.values().any(|clone| !clone.thread.is_finished());
        // Each end of a clone wakes this thread. Time cannot advance beyond its maximum.
        while running() && self.clock.now() < u64::MAX {
            self.clock.sleep_until(u64::MAX);
        }
    }
}

impl Timeline {
    /// A timeline on the kernel's clock.
    pub(crate) fn real(sender: Sender<Signal>, signals: Receiver<Signal>) -> Timeline {
        Timeline {
            sender,
            signals,
            simulation: None,
        }
    }

    /// A timeline in the virtual time of this clock. The calling thread is the actor that created the clock.
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

    /// CPU time of this process, ns; 0 in virtual time, where it has no meaning.
    pub(crate) fn cpu(&self) -> u64 {
        match self.simulation {
            None => clock::cpu(),
            Some(_) => 0,
        }
    }

    /// Waits for a signal without advancing virtual time. `None`: there will be no more.
    pub(crate) fn next(&self) -> Option<Signal> {
        self.signals.recv().ok()
    }

    /// A signal that has already arrived.
    pub(crate) fn ready(&self) -> Option<Signal> {
        self.signals.try_recv().ok()
    }

    /// Waits for a signal, at most until this instant.
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

    /// Creates a clone's thread. [`Timeline::await_ready`] reports when it has arrived at its gate.
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
        if let Some(thread) = thread {
            let shared = Arc::clone(shared);
            let simulated = SimulatedClone {
                clock,
                shared,
                thread,
                released: false,
            };
            simulation.clones.insert(clone, simulated);
        }
    }

    /// Requests a signal for each of these clones when it has arrived at its gate.
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

    /// Releases a clone to start at this instant.
    pub(crate) fn release(&mut self, clone: usize, shared: &CloneShared, at: u64) {
        if let Some(simulation) = &mut self.simulation
            && let Some(simulated) = simulation.clones.get_mut(&clone)
        {
            simulated.released = true;
            simulated.clock.start(at);
        }
        shared.gate.release(at);
    }

    /// A clone that was not released never starts.
    pub(crate) fn close(&mut self, clone: usize, shared: &CloneShared) {
        shared.gate.close();
        self.join(clone);
    }

    /// Waits for the end of a clone that was never released.
    fn join(&mut self, clone: usize) {
        let simulation = self.simulation.as_mut();
        if let Some(simulated) = simulation.and_then(|one| one.clones.remove(&clone)) {
            // A panic was reported as the clone's end.
            let _ = simulated.thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;

    use iodyno_engine::{ClonePart, Simulated};
    use iodyno_model::{Engine, EngineKind, Job, SimOptions};
    use iodyno_units::Nanos;

    use super::*;
    use crate::samples::job;

    /// A clone of random reads on a simulated device for a day.
    fn clone() -> CloneSpec {
        let mut job: Job = job("s");
        job.work.blocks_mut().unwrap().engine = Engine::new(EngineKind::Sim, 1);
        job.work.blocks_mut().unwrap().engine.sim = Some(SimOptions::default());
        job.work.blocks_mut().unwrap().passes.time_based = true;
        job.end.runtime = Some(Nanos::from_secs(86_400));
        CloneSpec {
            job: Arc::new(job),
            job_index: 0,
            clone: 0,
            files: vec![iodyno_engine::JobFile {
                descriptor: None,
                name: "s".to_owned(),
                base: 0,
                length: 1 << 20,
                device: false,
            }],
            seed: 1,
            simulated: Some(Simulated {
                seed: 1,
                device: None,
                clock: None,
            }),
            output: Default::default(),
            byte_budget: u64::MAX,
            log: None,
            flow: None,
            part: ClonePart::default(),
        }
    }

    #[test]
    fn a_panic_of_the_trial_thread_leaves_no_clone_running() {
        let (sender, signals) = mpsc::channel();
        let shared: Vec<Arc<CloneShared>> = (0..3)
            .map(|_| Arc::new(CloneShared::of(&clone().job)))
            .collect();
        let clock = VirtualClock::starting_at(VIRTUAL_START_NS);
        let mut timeline = Timeline::simulated(sender, signals, clock);
        let run = || {
            for (index, shared) in shared.iter().enumerate() {
                timeline.spawn(index, clone(), shared);
            }
            timeline.await_ready(shared.iter().cloned().enumerate().collect());
            // The third one stays at its gate.
            for (index, shared) in shared.iter().enumerate().take(2) {
                timeline.release(index, shared, VIRTUAL_START_NS);
            }
            timeline.wait(VIRTUAL_START_NS + 1_000_000);
            // Without the message that a panic prints.
            let _timeline = timeline;
            std::panic::resume_unwind(Box::new("a fault"));
        };
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        for shared in shared {
            // Each thread had a reference.
            while Arc::strong_count(&shared) > 1 {
                std::thread::yield_now();
            }
            assert_eq!(shared.phase(), None);
        }
    }
}
