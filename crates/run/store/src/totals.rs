//! Totals of a trial by direction, for lists.

use iodyno_model::{DirectionTotal, Frame, Step, Trial};

/// Whether a frame counts towards a trial's results: all except those of the ramp.
pub(crate) fn counts(frame: &Frame) -> bool {
    frame.step != Step::Ramp
}

/// Adds a frame to the totals.
pub(crate) fn add_frame(totals: &mut Vec<DirectionTotal>, frame: &Frame) {
    if !counts(frame) {
        return;
    }
    for done in frame.jobs.iter().flat_map(|job| &job.directions) {
        add(
            totals,
            DirectionTotal {
                direction: done.direction,
                ops: done.ops,
                bytes: done.bytes,
                start_ns: frame.start_ns,
                end_ns: frame.end_ns,
            },
        );
    }
}

/// The totals of a finished trial, from its clones.
pub(crate) fn of_trial(trial: &Trial) -> Vec<DirectionTotal> {
    let mut totals = Vec::new();
    for clone in trial.parts.iter().flat_map(|part| &part.clones) {
        for done in &clone.directions {
            add(
                &mut totals,
                DirectionTotal {
                    direction: done.direction,
                    ops: done.ops,
                    bytes: done.bytes,
                    start_ns: clone.start_ns,
                    end_ns: clone.start_ns.saturating_add(done.runtime_ns),
                },
            );
        }
    }
    totals
}

fn add(totals: &mut Vec<DirectionTotal>, more: DirectionTotal) {
    match totals
        .iter_mut()
        .find(|total| total.direction == more.direction)
    {
        Some(total) => {
            total.ops = total.ops.saturating_add(more.ops);
            total.bytes = total.bytes.saturating_add(more.bytes);
            total.start_ns = total.start_ns.min(more.start_ns);
            total.end_ns = total.end_ns.max(more.end_ns);
        }
        None => {
            totals.push(more);
            totals.sort_by_key(|total| total.direction);
        }
    }
}
