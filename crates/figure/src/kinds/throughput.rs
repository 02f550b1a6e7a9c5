//! Throughput over time, with ramp, regimes and changes of level.

use iodyno_model::{Behaviour, Direction, Frame, Step};
use iodyno_units::{Nanos, Rate};

use super::latency::ramp;
use super::{MOST_PANELS, left_out, thinned};
use crate::{Axis, Curve, Figure, Form, Kind, Mark, Panel, Point};
use iodyno_model::SeriesUnit;

/// The ops of a rate: those that move data, and cycles of file operations.
const COUNTED: [Direction; 4] = [
    Direction::Read,
    Direction::Write,
    Direction::Trim,
    Direction::Op,
];

/// The throughput of one side in one panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// The panel: the workload.
    pub panel: String,
    /// The side: its name in the legend, with the trial.
    pub name: String,
    /// Index of the colour of the side.
    pub colour: usize,
    /// The frames of the trial.
    pub frames: Vec<Frame>,
    /// Its regimes.
    pub behaviour: Behaviour,
}

/// Ops per second by time, one panel for each workload. With several levels, their means are drawn as steps. `None` if no trial
/// has two seconds.
pub fn throughput(courses: &[Course]) -> Option<Figure> {
    let mut panels: Vec<(&str, Vec<&Course>)> = Vec::new();
    let drawn = |it: &&Course| Frame::of_all_nodes(&it.frames).len() > 1;
    for it in courses.iter().filter(drawn) {
        match panels.iter_mut().find(|(panel, _)| *panel == it.panel) {
            Some((_, own)) => own.push(it),
            None => panels.push((&it.panel, vec![it])),
        }
    }
    let all = panels.len();
    panels.truncate(MOST_PANELS);
    let shown = panels.len();
    let mut thin = false;
    let panels: Vec<Panel> = panels
        .into_iter()
        .map(|(title, own)| {
            let mut curves = Vec::new();
            let mut marks: Vec<Mark> = Vec::new();
            for course in &own {
                let frames = Frame::of_all_nodes(&course.frames);
                if marks.is_empty() {
                    marks = ramp(&frames);
                }
                let (line, fewer) = thinned(rates(&course.name, &frames), |point| {
                    point.y.unwrap_or_default()
                });
                thin |= fewer;
                curves.push(Curve {
                    name: course.name.clone(),
                    colour: course.colour,
                    form: Form::Line,
                    points: line,
                });
                curves.extend(levels(course));
            }
            let heights = curves.iter().flat_map(|it| &it.points);
            let largest = heights.filter_map(|point| point.y).fold(0.0, f64::max);
            let mut panel = Panel {
                title: title.to_owned(),
                x: Axis::seconds("time"),
                y: Axis::of_unit("ops", SeriesUnit::PerSecond, largest).zero(),
                curves,
                cells: None,
                marks: Vec::new(),
            };
            panel.in_units_of_axes();
            panel.marks = marks;
            panel
        })
        .collect();
    let thin = match thin {
        true => " Of long series, only the extremes of each period are drawn.",
        false => "",
    };
    (!panels.is_empty()).then(|| Figure {
        kind: Kind::Series,
        title: "Throughput over time".to_owned(),
        caption: format!(
            "Of each side the trial whose result is the median. Steps are the means of regimes, where the level changed; the shaded \
             time is the ramp, which is not measured.{thin}{}",
            left_out(all, shown, "workload")
        ),
        shared_x: false,
        panels,
    })
}

fn rates(name: &str, frames: &[Frame]) -> Vec<Point> {
    let measured = frames
        .iter()
        .filter(|frame| matches!(frame.step, Step::Ramp | Step::Measure) && frame.span_ns() > 0);
    measured
        .map(|frame| {
            let ops: u64 = COUNTED
                .into_iter()
                .map(|direction| frame.ops(direction))
                .sum();
            let rate = ops as f64 * 1e9 / frame.span_ns() as f64;
            let end = frame.end_ns;
            Point {
                text: format!("{name}: {}/s at {}", Rate(rate), Nanos(end)),
                ..Point::new(end as f64, rate)
            }
        })
        .collect()
}

/// The means of several regimes.
fn levels(course: &Course) -> Option<Curve> {
    let regimes = &course.behaviour.regimes;
    let last = regimes.last().filter(|_| regimes.len() > 1)?;
    let starts = regimes.iter().map(|regime| (regime.start_ns, regime.rate));
    let end = std::iter::once((last.end_ns, last.rate));
    let points = starts.chain(end).map(|(at, rate)| Point {
        text: format!("{}: regime of {}/s", course.name, Rate(rate)),
        ..Point::new(at as f64, rate)
    });
    Some(Curve {
        name: format!("{}, regimes", course.name),
        colour: course.colour,
        form: Form::Steps,
        points: points.collect(),
    })
}
