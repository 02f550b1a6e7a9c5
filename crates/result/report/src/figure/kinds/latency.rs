//! Distributions of latency, and latency over time.

use iodyno_model::{Direction, Frame, Histogram, SeriesUnit, Step};
use iodyno_units::grouped;

use super::{left_out, panels_of};
use crate::figure::axis::nines;
use crate::figure::{Axis, Cells, Curve, Figure, Form, Kind, Mark, Panel, Point, Scale};

/// The largest percentile that is drawn, and the smallest number of ops above it: fewer would be chance.
const MAX_NINES: f64 = 99.99;
const MIN_ABOVE: f64 = 10.0;

/// The smallest distance between two points: in factors of ten of latency and in nines. It is less than two pixels.
const MIN_STEP: f64 = 0.02;

/// Columns of a heat map, at most.
const MAX_COLUMNS: usize = 240;
/// Rows of a heat map for each factor of ten.
const ROWS_A_DECADE: f64 = 20.0;

/// The latencies of one side in one panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// The panel: the compared dimension's value, and the direction.
    pub panel: String,
    /// The side: its name in the legend.
    pub name: String,
    /// Index of the colour of the side.
    pub colour: usize,
    /// Service latency of all its trials.
    pub histogram: Histogram,
}

/// Cumulative distributions up to p99.99, limited to values with at least 10 ops above; one panel for each workload and
/// direction. `None` without ops.
pub fn latency(distributions: &[Distribution]) -> Option<Figure> {
    let drawn = distributions.iter().filter(|it| !it.histogram.is_empty());
    let (panels, all) = panels_of(
        drawn,
        |it| &it.panel,
        |own| {
            let typical = own.iter().map(|it| it.histogram.percentile_ns(50.0));
            let typical = typical.max().unwrap_or(0) as f64;
            Panel::of(
                &own[0].panel,
                Axis::of_unit("service latency", SeriesUnit::Nanos, typical).log(),
                Axis::plain("percentile", Scale::Nines),
                own.iter().map(|it| cumulative(it)).collect(),
            )
        },
    );
    let more = left_out(all, panels.len(), "panel");
    Figure::new(
        Kind::Latency,
        "Distribution of latency",
        format!(
            "The share of ops that took at most this time, all trials together; each step upwards is one more nine. Further left is \
             faster. Lines end where fewer than 10 ops are above.{more}"
        ),
        panels,
    )
}

fn cumulative(it: &Distribution) -> Curve {
    let count = it.histogram.count() as f64;
    let mut points = vec![Point::new(it.histogram.min_ns() as f64, 0.0)];
    let mut seen = 0;
    let enough = 100.0 * (1.0 - MIN_ABOVE / count);
    let highest_percentile = enough.clamp(50.0, MAX_NINES);
    let (mut last_at, mut last_percentile) = (1.0, 0.0);
    for (_, highest, ops) in it.histogram.bins() {
        seen += ops;
        let percentile = (100.0 * seen as f64 / count).min(highest_percentile);
        let at = highest
            .clamp(it.histogram.min_ns(), it.histogram.max_ns())
            .max(1);
        let step = (at as f64 / last_at).log10() + nines(percentile) - nines(last_percentile);
        if step < MIN_STEP && percentile < highest_percentile {
            continue;
        }
        (last_at, last_percentile) = (at as f64, percentile);
        points.push(Point::new(at as f64, percentile));
        if percentile >= highest_percentile {
            break;
        }
    }
    Curve {
        name: it.name.clone(),
        colour: it.colour,
        form: Form::Line,
        points,
    }
}

/// The ops of one direction by time and service latency. `title`: the trial. `None` without ops, or with less than two
/// seconds.
pub fn heatmap(title: &str, direction: Direction, frames: &[Frame]) -> Option<Figure> {
    let frames = Frame::of_all_nodes(frames);
    if frames.len() < 2 {
        return None;
    }
    let own = |frame: &Frame| -> Vec<Histogram> {
        frame.of(direction).map(|it| it.service.clone()).collect()
    };
    let largest = |pick: fn(&Histogram) -> u64| {
        let each = frames.iter().flat_map(own).filter(|it| !it.is_empty());
        each.map(|it| pick(&it)).collect::<Vec<u64>>()
    };
    let low = largest(Histogram::min_ns).into_iter().min()?.max(1) as f64;
    let high = largest(Histogram::max_ns).into_iter().max()?.max(1) as f64;
    let first = (low.log10() * ROWS_A_DECADE).floor();
    let rows = ((high.log10() * ROWS_A_DECADE).floor() - first) as usize + 1;
    let edges = (0..=rows).map(|row| 10_f64.powf((first + row as f64) / ROWS_A_DECADE));
    let axis = Axis::of_unit("service latency", SeriesUnit::Nanos, (low * high).sqrt()).log();
    let y: Vec<f64> = edges.map(|edge| edge / axis.divisor).collect();
    let each = frames.len().div_ceil(MAX_COLUMNS).max(1);
    let groups: Vec<&[Frame]> = frames.chunks(each).collect();
    let mut x: Vec<f64> = groups
        .iter()
        .filter_map(|group| Some(group.first()?.start_ns as f64 / 1e9))
        .collect();
    x.extend(frames.last().map(|frame| frame.end_ns as f64 / 1e9));
    let mut counts = vec![vec![0.0; groups.len()]; rows];
    for (column, group) in groups.iter().enumerate() {
        for histogram in group.iter().flat_map(own) {
            for (lowest, highest, ops) in histogram.bins() {
                let middle = ((lowest.max(1) as f64) * (highest.max(1) as f64)).sqrt();
                let row = (middle.log10() * ROWS_A_DECADE).floor() - first;
                let row = (row.max(0.0) as usize).min(rows - 1);
                counts[row][column] += ops as f64;
            }
        }
    }
    let combined = match each {
        1 => String::new(),
        each => format!(" {} are combined in a column.", grouped(each as u64)),
    };
    let panel = Panel {
        cells: Some(Cells {
            x,
            y,
            counts,
            unit: "ops",
        }),
        ..Panel::of("", Axis::plain("time, s", Scale::Linear), axis, Vec::new())
    };
    Figure::new(
        Kind::Heatmap,
        format!("Latency over time: {title}"),
        format!(
            "Ops of `{}` by the second in which they completed and by service latency. The colour is their number, on a logarithmic \
             scale.{combined}",
            direction.name()
        ),
        vec![panel.marked(ramp_of(&frames).map(ramp))],
    )
}

/// Start and end of the ramp, ns.
pub(super) fn ramp_of(frames: &[Frame]) -> Option<(u64, u64)> {
    let ramp = || frames.iter().filter(|frame| frame.step == Step::Ramp);
    let from = ramp().map(|frame| frame.start_ns).min();
    from.zip(ramp().map(|frame| frame.end_ns).max())
}

/// The time of the ramp.
pub(super) fn ramp((from, to): (u64, u64)) -> Mark {
    Mark::along_x(from as f64 / 1e9, to as f64 / 1e9, "ramp")
}
