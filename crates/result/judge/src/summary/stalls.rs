//! The times in which no op of a node completed.

use std::collections::HashMap;

use iodyno_model::{CloneResult, NodeStalls, Part, Step, Trial, Workload};

use crate::work;

/// The longest time in which no op completed by node, as far as its frames show it, ns: whole frames of the measured
/// time without an op, one after the other. 0: every frame has ops.
pub(super) fn by_frames<'a>(workload: &Workload, trial: &'a Trial) -> HashMap<&'a str, u64> {
    let (mut longest, mut current) = (HashMap::new(), HashMap::new());
    let measured = trial.frames.iter();
    for frame in measured.filter(|frame| frame.step == Step::Measure) {
        let stall: &mut u64 = current.entry(frame.node.as_str()).or_default();
        *stall = match work::frame_ops(workload, frame) {
            0 => *stall + frame.span_ns(),
            _ => 0,
        };
        let longest: &mut u64 = longest.entry(frame.node.as_str()).or_default();
        *longest = (*longest).max(*stall);
    }
    longest
}

/// Without a completion for this time, ns, the storage stood still. Disks complete ops within it, also if their queue
/// is full.
pub(crate) const STANDSTILL_NS: u64 = 5_000_000_000;

/// From this fraction of the measured time upwards, the figures describe the standstill.
pub(crate) const STANDSTILL_SHARE: f64 = 0.5;

/// A time in which ops were in flight and none completed.
pub(crate) struct Standstill {
    pub(crate) longest_ns: u64,
    /// The latency of the slowest op.
    pub(crate) slowest_op_ns: u64,
    pub(crate) measured_ns: u64,
}

impl Standstill {
    /// The longest one, if it is of at least [`STANDSTILL_NS`]. Jobs with a rate or pauses wait without an op in
    /// flight. The time of a command says nothing about the storage.
    pub(crate) fn of(trial: &Trial) -> Option<Standstill> {
        if work::runs_commands(trial) {
            return None;
        }
        let stalls = trial.parts.iter().filter_map(|part| part.stalls.as_ref());
        let slowest = |clone: &CloneResult| {
            let results = clone.directions.iter();
            results.map(|result| result.service.max_ns()).max()
        };
        let clones = trial.parts.iter().flat_map(|part| &part.clones);
        let found = Standstill {
            longest_ns: stalls.map(|stalls| stalls.longest_ns()).max()?,
            slowest_op_ns: clones.filter_map(slowest).max()?,
            measured_ns: work::measured_ns(trial),
        };
        (found.longest_ns.min(found.slowest_op_ns) >= STANDSTILL_NS).then_some(found)
    }

    /// Whether it was most of the measured time.
    pub(crate) fn dominates(&self) -> bool {
        self.longest_ns as f64 >= STANDSTILL_SHARE * self.measured_ns as f64
    }
}

/// The stalls of all nodes; `None` if there are fewer than two, or if they are not known of one.
pub(super) fn of_all(parts: &[Part]) -> Option<NodeStalls> {
    let working = parts.iter().filter(|part| !part.only_sampled());
    let stalls: Option<Vec<_>> = working
        .map(|part| Some((part.start_late_ns, part.stalls.as_ref()?)))
        .collect();
    let stalls = stalls.filter(|nodes| nodes.len() > 1)?;
    // Each node lists those of some length: only that of all can be counted.
    let least_ns = stalls.iter().map(|(_, own)| own.least_ns).max()?;
    let mut count = 0;
    // When one begins and ends, on the clock of all nodes. The end of one does not meet the begin of another one.
    let mut edges: Vec<(u64, i32)> = Vec::new();
    for (late_ns, own) in stalls {
        for (start_ns, span_ns) in own.list.iter().filter(|(_, span_ns)| *span_ns >= least_ns) {
            let start_ns = start_ns + late_ns;
            edges.extend([(start_ns, 1), (start_ns + span_ns, -1)]);
            count += 1;
        }
    }
    edges.sort_unstable();
    let (mut nodes, mut since_ns) = (0, 0);
    let (mut at_once, mut longest_at_once_ns) = (0, 0);
    for (at_ns, change) in edges {
        let before = nodes;
        nodes += change;
        match (before, nodes) {
            (1, 2) => since_ns = at_ns,
            (2, 1) => {
                at_once += 1;
                longest_at_once_ns = longest_at_once_ns.max(at_ns - since_ns);
            }
            _ => {}
        }
    }
    Some(NodeStalls {
        least_ns,
        count,
        at_once,
        longest_at_once_ns,
    })
}

#[cfg(test)]
mod tests {
    use iodyno_model::Stalls;

    use super::*;
    use crate::testing as made_up;

    const MS: u64 = 1_000_000;

    fn part(late_ms: u64, stalls: Option<(u64, &[(u64, u64)])>) -> Part {
        Part {
            start_late_ns: late_ms * MS,
            stalls: stalls.map(|(least_ms, list)| Stalls {
                least_ns: least_ms * MS,
                list: list.iter().map(|(at, span)| (at * MS, span * MS)).collect(),
            }),
            ..made_up::part(vec![made_up::clone(0, 0, Vec::new())])
        }
    }

    #[test]
    fn stalls_of_several_nodes_at_once_are_counted_on_the_clock_of_all() {
        for (parts, expected) in [
            (vec![part(0, Some((10, &[])))], None),
            (vec![part(0, Some((10, &[]))), part(0, None)], None),
            (
                vec![part(0, Some((10, &[]))), part(0, Some((10, &[])))],
                Some((10, 0, 0, 0)),
            ),
            // One after the other.
            (
                vec![
                    part(0, Some((10, &[(0, 20)]))),
                    part(0, Some((10, &[(20, 30), (90, 10)]))),
                ],
                Some((10, 3, 0, 0)),
            ),
            // The second node started 15 ms later.
            (
                vec![
                    part(0, Some((10, &[(0, 20), (100, 50)]))),
                    part(15, Some((10, &[(0, 30), (90, 10)]))),
                ],
                Some((10, 4, 2, 10)),
            ),
            // A third one makes it no second time.
            (
                vec![
                    part(0, Some((10, &[(0, 100)]))),
                    part(0, Some((10, &[(20, 40)]))),
                    part(0, Some((10, &[(30, 60)]))),
                ],
                Some((10, 3, 1, 70)),
            ),
            // Only those that every node lists.
            (
                vec![
                    part(0, Some((10, &[(0, 20), (100, 80)]))),
                    part(0, Some((40, &[(0, 60)]))),
                ],
                Some((40, 2, 0, 0)),
            ),
        ] {
            let found = of_all(&parts).map(|found| {
                let NodeStalls {
                    least_ns,
                    count,
                    at_once,
                    longest_at_once_ns,
                } = found;
                (least_ns / MS, count, at_once, longest_at_once_ns / MS)
            });
            assert_eq!(found, expected);
        }
    }
}
