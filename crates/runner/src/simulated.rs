//! Gives the clones of a trial the simulated disks and mirrors that they share.

use iodyno_engine::{CloneSpec, SharedDevice, SharedLegs};
use iodyno_model::{Diagnostic, LegUse, SimDevice, SimTarget};

use crate::faults::fault;
use crate::prepare::Waiting;

/// Files begin at multiples of it, bytes.
const ALIGNMENT: u64 = 1 << 20;

/// All clones use the simulated target of the configuration, if it has one; otherwise all with the same disk or mirror use one. Their files lie on it one after the other, in the order of jobs, clones
/// and files.
///
/// # Errors
/// A read policy is unknown.
pub(crate) fn connect(
    clones: &mut [Waiting],
    target: Option<&SimTarget>,
) -> Result<(), Diagnostic> {
    let mut specs: Vec<&mut CloneSpec> = clones
        .iter_mut()
        .filter_map(|clone| clone.spec.as_mut())
        .collect();
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

/// The disks of all devices that these clones share.
pub(crate) fn legs(clones: &[Waiting]) -> Vec<SharedLegs> {
    let mut found: Vec<SharedLegs> = Vec::new();
    let simulated = clones
        .iter()
        .filter_map(|clone| clone.spec.as_ref()?.simulated.as_ref());
    for device in simulated.filter_map(|simulated| simulated.device.as_ref()) {
        let legs = device.legs();
        if !found.iter().any(|other| other.same(&legs)) {
            found.push(legs);
        }
    }
    found
}

/// What they were given so far; `None`: there are none.
pub(crate) fn use_of(legs: &[SharedLegs]) -> Option<LegUse> {
    let mut sum = LegUse::default();
    for totals in legs.iter().map(SharedLegs::totals) {
        sum.requests += totals.requests;
        sum.commands += totals.commands;
    }
    (!legs.is_empty()).then_some(sum)
}

/// The disk or mirror that a clone is to use and has not got.
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

/// Where the files of a clone begin on the device.
fn places(spec: &CloneSpec, end: &mut u64) -> Vec<u64> {
    let place = |file: &iodyno_engine::JobFile| {
        let place = *end;
        *end += (file.base + file.length).next_multiple_of(ALIGNMENT);
        place
    };
    spec.files.iter().map(place).collect()
}
