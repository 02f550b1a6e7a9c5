//! Restricts a trial's series to the measured time.

use iodyno_model::{Sample, Step, Telemetry, Trial};

/// A sample can extend outside the measured time by at most this fraction of its span: clones begin some microseconds
/// after the preceding sample.
const OUTSIDE: f64 = 0.05;

/// The series within the measured time. Samples of ramps and drains, and those that overlap an edge of the
/// measured time, are left out; shapes and gaps are kept.
pub fn measured(trial: &Trial) -> Telemetry {
    let measured_spans = measured_spans(trial);
    let samples = trial.telemetry.samples.iter();
    let samples = samples.filter(|sample| {
        measured_spans
            .iter()
            .any(|stretch| within(sample, *stretch))
    });
    Telemetry {
        shapes: trial.telemetry.shapes.clone(),
        samples: samples.cloned().collect(),
        gaps: trial.telemetry.gaps.clone(),
    }
}

fn within(sample: &Sample, (start, end): (u64, u64)) -> bool {
    let allowed = (sample.span_ns as f64 * OUTSIDE) as i128;
    let at = i128::from(sample.at_ns);
    at - i128::from(sample.span_ns) + allowed >= i128::from(start)
        && at <= i128::from(end) + allowed
}

/// The intervals in which any clone was measured: from and to, ns on the trial's clock, ascending and disjoint.
/// Without times of the clones, those of the frames.
fn measured_spans(trial: &Trial) -> Vec<(u64, u64)> {
    let clones = crate::work::clones(trial).filter(|clone| clone.runtime_ns > 0);
    let mut spans: Vec<(u64, u64)> = clones
        .map(|clone| {
            (
                clone.start_ns,
                clone.start_ns.saturating_add(clone.runtime_ns),
            )
        })
        .collect();
    if spans.is_empty() {
        let frames = trial
            .frames
            .iter()
            .filter(|frame| frame.step == Step::Measure);
        spans.extend(frames.map(|frame| (frame.start_ns, frame.end_ns)));
    }
    spans.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (start, end) in spans {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}
