//! Tries out each cell of a plan before its first round, so that errors are found before hours are spent, and the time
//! is known. Nothing is stored.

use std::time::Instant;

use iodyno_model::{BoundPlan, Diagnostic, Plan, RunId, Target, TrialKey, Workload};
use iodyno_runner::{Node, TrialEnd, drive};
use iodyno_units::Nanos;

use crate::made::MadeTargets;
use crate::nodes::workers;
use crate::schedule::bind;
use crate::{Lab, LabNode, Progress};

/// The longest measured time of a probe.
pub const PROBE: Nanos = Nanos::SECOND;

/// A probe of a cell.
#[derive(Debug)]
pub struct Probed {
    /// The cell.
    pub cell: u32,
    /// From the start of making its storage to its end, ns.
    pub span_ns: u64,
    /// Why it failed.
    pub faults: Vec<Diagnostic>,
}

/// Runs each cell for at most [`PROBE`], including making its storage and files. Ends early if the lab is stopped.
pub fn probe(plan: &Plan, lab: &Lab<'_>, observer: &mut dyn FnMut(Progress<'_>)) -> Vec<Probed> {
    let plan = &without_preconditioning(plan.clone());
    let mut made = MadeTargets::new(lab, plan);
    let own = (0..plan.cells()).filter(|cell| {
        let (configuration, workload) = plan.cell(*cell);
        !configuration.again && !workload.again
    });
    let own: Vec<u32> = own.collect();
    let mut probed = Vec::new();
    for (place, cell) in own.iter().copied().enumerate() {
        if lab.stop.is_set() {
            break;
        }
        let begun = Instant::now();
        let key = TrialKey {
            run: RunId::fresh(),
            round: 0,
            cell,
            attempt: 0,
        };
        let faults = one(plan, lab, key, &mut made, observer);
        made.used(key, faults.is_empty(), &own[place + 1..], observer);
        let (configuration, workload) = plan.cell(cell);
        let named = |fault: Diagnostic| Diagnostic {
            message: format!(
                "`{}` on `{}`: {}",
                workload.name, configuration.name, fault.message
            ),
            ..fault
        };
        probed.push(Probed {
            cell,
            span_ns: u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX),
            faults: faults.into_iter().map(named).collect(),
        });
    }
    made.end(observer);
    probed
}

fn without_preconditioning(mut plan: Plan) -> Plan {
    for configuration in &mut plan.configurations {
        if let Target::Made(provision) = &mut configuration.target {
            provision.precondition_ns = 0;
        }
    }
    plan
}

/// A probe on one node.
struct OnNode<'a> {
    node: &'a LabNode<'a>,
    /// The virtual machines of its target.
    guests: Vec<Box<dyn Node + 'a>>,
    bound: BoundPlan,
}

/// Why the probe of a cell failed; empty if it completed.
fn one(
    plan: &Plan,
    lab: &Lab<'_>,
    key: TrialKey,
    made: &mut MadeTargets<'_>,
    observer: &mut dyn FnMut(Progress<'_>),
) -> Vec<Diagnostic> {
    let (configuration, workload) = plan.cell(key.cell);
    let ready = match made.ready(key, observer) {
        Ok(ready) => ready,
        Err(faults) => return faults,
    };
    observer(Progress::Probe {
        configuration,
        workload,
    });
    let mut bound = BoundPlan {
        protected: lab.store_files.clone(),
        ..bind(plan, key)
    };
    shorten(&mut bound.workload);
    let workers = workers(plan, key.cell);
    let own = |place: &usize| {
        let (node, ready) = (&lab.nodes[*place], ready.get(place));
        OnNode {
            node,
            guests: ready.map_or_else(Vec::new, |ready| ready.nodes(node.node)),
            bound: match ready {
                Some(ready) => ready.bind(bound.clone()),
                None => bound.clone(),
            },
        }
    };
    let plans: Vec<OnNode<'_>> = workers.iter().map(own).collect();
    // One of several virtual machines represents all.
    let nodes: Vec<(&dyn Node, &BoundPlan)> = (plans.iter())
        .map(|own| {
            let guest = own.guests.first();
            (guest.map_or(own.node.node, AsRef::as_ref), &own.bound)
        })
        .collect();
    let ends = drive(&nodes, lab.stop, &mut |_, _| {});
    // A stop request is not a fault.
    if lab.stop.is_set() {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for (OnNode { node, .. }, end) in plans.iter().zip(ends) {
        let found = match end {
            Ok(TrialEnd::Done(_, outcome) | TrialEnd::Failed { outcome, .. }) => outcome
                .reason()
                .map(|why| Diagnostic::error(why.to_owned()))
                .into_iter()
                .collect(),
            Ok(TrialEnd::Refused(faults) | TrialEnd::Unprepared(faults)) => faults,
            Err(error) => vec![Diagnostic::error(error.to_string())],
        };
        faults.extend(found.into_iter().map(|fault| node.prefix_fault(fault)));
    }
    faults
}

/// Limits the time of each job.
fn shorten(workload: &mut Workload) {
    for job in &mut workload.jobs {
        let runtime = job.end.runtime.map_or(PROBE, |runtime| runtime.min(PROBE));
        job.end.runtime = Some(runtime);
        job.end.ramp = Nanos(0);
        job.delay = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use iodyno_runner::StopFlag;

    use super::*;
    use crate::testing::{Act, FakeNode, FakeStore, lab, plan};

    #[test]
    fn each_cell_is_tried_shortly_and_its_faults_are_named() {
        let mut plan = plan(2, 2, 10);
        for workload in &mut plan.workloads {
            workload.jobs[0].end.runtime = Some(Nanos::from_secs(60));
            workload.jobs[0].end.ramp = Nanos::from_secs(5);
        }
        plan.configurations[1].again = true;
        let store = FakeStore::default();
        let node = FakeNode::new(|bound| match bound.workload.name.as_str() {
            "w1" => Act::Unprepared,
            _ => Act::Complete,
        });
        let stop = StopFlag::new();
        let probed = probe(&plan, &lab(&store, &node, &stop), &mut |_| {});
        let bound = node.bound.borrow();
        let runtimes = bound.iter().map(|bound| bound.workload.jobs[0].end.runtime);
        assert_eq!(runtimes.collect::<Vec<_>>(), [Some(PROBE), Some(PROBE)]);
        assert!(
            bound
                .iter()
                .all(|bound| bound.workload.jobs[0].end.ramp == Nanos(0))
        );
        let faults: Vec<&str> = probed
            .iter()
            .flat_map(|one| &one.faults)
            .map(|fault| fault.message.split(':').next().unwrap())
            .collect();
        assert_eq!(probed.len(), 2);
        assert!(
            faults.iter().all(|fault| *fault == "`w1` on `c0`"),
            "{faults:?}"
        );
        assert!(!faults.is_empty());
        // Nothing is stored.
        assert!(store.log().is_empty(), "{:?}", store.log());
    }
}
