//! Series for programs: as stored, and the figures that follow.

use iodyno_model::{FigureTable, Sample, SamplerCost, SeriesGap, SeriesShape};
use serde::Serialize;

use super::TrialSeries;
use crate::json::print;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    trials: Vec<TrialObject<'a>>,
}

#[derive(Serialize)]
struct TrialObject<'a> {
    trial: u32,
    round: u32,
    configuration: &'a str,
    workload: &'a str,
    shapes: &'a [SeriesShape],
    samples: &'a [Sample],
    gaps: &'a [SeriesGap],
    figures: &'a [FigureTable],
    sampling: &'a [SamplerCost],
}

/// `schema` = `iodyno.series/1`: `trials`, each with `trial` (its place in the run, from 1), `round` (from 0), `configuration`, `workload`,
/// and of its series `shapes`, `samples` and `gaps` as they are stored, the `figures` that follow from them, and what `sampling`
/// cost. Counts are over a sample's `span_ns`, which ends at `at_ns` on the trial's clock. Ends with a newline.
pub fn json(trials: &[TrialSeries]) -> String {
    print(&Document {
        schema: "iodyno.series/1",
        trials: trials.iter().map(object).collect(),
    })
}

fn object<'a>(series: &'a TrialSeries<'_>) -> TrialObject<'a> {
    TrialObject {
        trial: series.number,
        round: series.round,
        configuration: series.configuration,
        workload: series.workload,
        shapes: &series.telemetry.shapes,
        samples: &series.telemetry.samples,
        gaps: &series.telemetry.gaps,
        figures: &series.tables,
        sampling: &series.sampling,
    }
}
