//! Series as JSON: the stored values and the derived figures.

use super::TrialSeries;
use crate::json::{list, object, print};

/// `schema` = `iodyno.series/1`: `trials`, each with `trial` (its place in the run, from 1), `round` (from 0),
/// `configuration`, `workload`, `node` (empty if the plan names none), `start_unix_ms` (wall clock at 0 of the trial's
/// clock, ms since 1970, null if unknown), `steps` on the trial's clock, for its series `shapes`, `samples` and `gaps`
/// as stored, the derived `figures`, and the costs of `sampling`. Counts are over a sample's `span_ns`, which ends at
/// `at_ns` on the trial's clock. Ends with a newline.
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
    node: series.node,
    start_unix_ms: series.clock.start_unix_ms,
    steps: series.clock.steps,
    shapes: series.telemetry.shapes,
    samples: series.telemetry.samples,
    gaps: series.telemetry.gaps,
    figures: series.tables,
    sampling: series.sampling,
});
