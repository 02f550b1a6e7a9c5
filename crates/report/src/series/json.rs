//! Series as JSON: as they are stored, and the figures that follow.

use super::TrialSeries;
use crate::json::{list, object, print};

/// `schema` = `iodyno.series/1`: `trials`, each with `trial` (its place in the run, from 1), `round` (from 0), `configuration`, `workload`,
/// and of its series `shapes`, `samples` and `gaps` as they are stored, the `figures` that follow from them, and what `sampling`
/// cost. Counts are over a sample's `span_ns`, which ends at `at_ns` on the trial's clock. Ends with a newline.
pub fn json(trials: &[TrialSeries]) -> String {
    print(&Document(trials))
}

object!(Document<'a>(trials in &'a [TrialSeries<'a>]) {
    schema: "iodyno.series/1",
    trials: list(trials, TrialView),
});

object!(TrialView<'a>(series in &'a TrialSeries<'a>) {
    trial: series.number,
    round: series.round,
    configuration: series.configuration,
    workload: series.workload,
    shapes: series.telemetry.shapes,
    samples: series.telemetry.samples,
    gaps: series.telemetry.gaps,
    figures: series.tables,
    sampling: series.sampling,
});
