//! Gives the clones of a trial the simulated disks and mirrors that they share, and reads their counters in the
//! measured time.

use iodyno_engine::{CloneSpec, SharedDevice, SimObserver};
use iodyno_model::{Diagnostic, SimDevice, SimTarget, SimulatedDisk};

use crate::faults::fault;

/// Files begin at multiples of this, bytes.
const ALIGNMENT: u64 = 1 << 20;

/// All clones use the simulated target of the configuration, if any; otherwise clones with the same disk or mirror
/// share one. Their files are on it one after the other, in the order of jobs, clones and files.
///
/// # Errors
/// A read policy is unknown.
pub(crate) fn connect(
    mut specs: Vec<&mut CloneSpec>,
    target: Option<&SimTarget>,
) -> Result<(), Diagnostic> {
    while let Some(device) = specs.iter().find_map(|spec| unconnected(spec, target)) {
        let mut users: Vec<&mut CloneSpec> = specs
            .iter_mut()
            .filter(|spec| unconnected(spec, target).as_ref() == Some(&device))
            .map(|spec| &mut **spec)
            .collect();
        let mut end = 0;
        let places = users.iter().map(|spec| places(spec, &mut end)).collect();
        let simulated = users.iter().find_map(|spec| spec.simulated.as_ref());
        let seed = simulated.map_or(0, |simulated| simulated.seed);
        let shared = SharedDevice::new(&device, places, seed)
            .map_err(|error| fault(error.to_string(), "name one of them in `sim_device`"))?;
        for (spec, shared) in users.iter_mut().zip(shared.into_iter().flatten()) {
            if let Some(simulated) = &mut spec.simulated {
                simulated.device = Some(shared);
            }
        }
    }
    Ok(())
}

/// The activity of a trial's simulated disks in the measured time; for a host's devices see
/// [`crate::node::host_counters::HostWatch`].
#[derive(Debug)]
pub(crate) struct DiskWatch {
    observers: Vec<SimObserver>,
    before: (u64, Vec<SimulatedDisk>),
    after: Option<(u64, Vec<SimulatedDisk>)>,
}

impl DiskWatch {
    /// Watches the disks that these clones share.
    pub(crate) fn new<'a>(specs: impl Iterator<Item = &'a CloneSpec>) -> DiskWatch {
        let mut observers: Vec<SimObserver> = Vec::new();
        for spec in specs {
            let simulated = spec.simulated.as_ref();
            let device = simulated.and_then(|simulated| simulated.device.as_ref());
            let observer = device.map(SharedDevice::observer);
            let known = |it: &SimObserver| observers.iter().any(|known| known.is_of(it));
            observers.extend(observer.filter(|it| !known(it)));
        }
        DiskWatch {
            observers,
            before: (0, Vec::new()),
            after: None,
        }
    }

    fn read(&self, now: u64) -> (u64, Vec<SimulatedDisk>) {
        let disks = self.observers.iter().flat_map(SimObserver::disks);
        (now, disks.collect())
    }

    /// Call this when the measured time begins.
    pub(crate) fn begin(&mut self, now: u64) {
        self.before = self.read(now);
        self.after = None;
    }

    /// `measuring`: whether any clone is measured now.
    pub(crate) fn look(&mut self, measuring: bool, now: u64) {
        if measuring {
            self.after = None;
        } else if self.after.is_none() {
            self.after = Some(self.read(now));
        }
    }

    /// Their activity in the measured time.
    pub(crate) fn used(&mut self, now: u64) -> Vec<SimulatedDisk> {
        let (end, after) = self.after.take().unwrap_or_else(|| self.read(now));
        let (start, before) = &self.before;
        let span_ns = end.saturating_sub(*start);
        let both = after.iter().zip(before);
        both.map(|(after, before)| after.since(before, span_ns))
            .collect()
    }
}

/// The disk or mirror that a clone needs and has not received.
fn unconnected(spec: &CloneSpec, target: Option<&SimTarget>) -> Option<SimTarget> {
    let lacks = spec.simulated.as_ref()?.device.is_none();
    let options = spec.job.work.engine()?.sim.as_ref()?;
    if !lacks {
        return None;
    }
    match (target, &options.device) {
        (Some(target), _) => Some(target.clone()),
        (None, SimDevice::Law) => None,
        (None, device) => Some(SimTarget::new(device.clone())),
    }
}

/// The start of each of a clone's files on the device.
fn places(spec: &CloneSpec, end: &mut u64) -> Vec<u64> {
    let place = |file: &iodyno_engine::JobFile| {
        let place = *end;
        *end += (file.base + file.length).next_multiple_of(ALIGNMENT);
        place
    };
    spec.files.iter().map(place).collect()
}
