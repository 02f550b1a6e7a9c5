//! A run on many simulated nodes, through the bytes of the protocol.

mod wire;

use iodyno_model::{Direction, Outcome};
use iodyno_store::{SqliteStore, Store};

use wire::Wire;

#[test]
fn fifty_nodes_give_one_merged_result_and_the_frames_of_each() {
    const NODES: usize = 50;
    const SECONDS: u64 = 3;
    // Four slots, 100 µs for each op.
    const OPS: u64 = SECONDS * 40_000;
    let wire = Wire::new(NODES);
    let plan = wire.plan(SECONDS, 2);
    let store = SqliteStore::in_memory().unwrap();
    let mut trials = Vec::new();
    let end = wire.carry_out(&plan, &store, &mut |trial, _| trials.push(trial.clone()));
    assert_eq!((end.completed, end.planned, end.rounds), (2, 2, 2));
    assert!(end.unstored.is_none());
    for trial in &trials {
        assert_eq!(trial.outcome, Outcome::Completed);
        assert_eq!(trial.parts.len(), NODES);
        let names: Vec<&str> = plan.nodes.iter().map(|node| &*node.name).collect();
        let parts: Vec<&str> = trial.parts.iter().map(|part| &*part.node).collect();
        assert_eq!(parts, names);
        for part in &trial.parts {
            let clone = &part.clones[0];
            assert_eq!(clone.direction(Direction::Read).unwrap().ops, OPS);
            // Its clock was read before and after the trial, over round trips in this process.
            assert!(part.clock_after.is_some());
        }
        let stored = store.frames(trial.key, 0, usize::MAX).unwrap();
        assert_eq!(stored.len(), NODES * SECONDS as usize);
        for name in names {
            let own = stored.iter().filter(|frame| frame.node == name);
            let ops = own
                .flat_map(|frame| &frame.jobs[0].directions)
                .map(|it| it.ops);
            assert_eq!(ops.sum::<u64>(), OPS, "{name}");
        }
    }
    // A hello, a plan's environment, frames, telemetry and a part of each.
    assert!(wire.bytes() > NODES * 5_000, "{}", wire.bytes());
    // The merged result is that of all nodes, and comes from the histograms.
    let workload = &plan.workloads[0];
    let summary = iodyno_judge::summary(workload, &trials[0]);
    let row = &summary.groups[0].rows[0];
    assert_eq!(row.result.ops, OPS * NODES as u64);
}
