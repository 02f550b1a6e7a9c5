//! Throughput over time, with ramp, regimes and changes of level.

use iodyno_model::{Behaviour, Direction, Frame, SeriesUnit, Step};

use super::latency::{ramp, ramp_of};
use super::{left_out, panels_of};
use crate::figure::{Axis, Curve, Figure, Form, Kind, Panel, Point};

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
    /// The panel: the compared dimension's value.
    pub panel: String,
    /// The side: its name in the legend, with the trial.
    pub name: String,
    /// Index of the colour of the side.
    pub colour: usize,
    /// The rate of each second: its end, ns, and ops per second.
    pub rates: Vec<(u64, f64)>,
    /// Start and end of the ramp, ns.
    pub ramp: Option<(u64, u64)>,
    /// Its regimes.
    pub behaviour: Behaviour,
}

impl Course {
    /// Sets rates and ramp to those of the frames of a trial.
    pub fn of_frames(self, frames: &[Frame]) -> Course {
        let frames = Frame::of_all_nodes(frames);
        let drawn = |frame: &&Frame| matches!(frame.step, Step::Ramp | Step::Measure);
        let drawn: Vec<&Frame> = frames.iter().filter(drawn).collect();
        let longest = drawn.iter().map(|frame| frame.span_ns()).max().unwrap_or(0);
        // The rate of the last moments would be chance.
        let whole = drawn.into_iter().filter(|it| it.span_ns() * 2 > longest);
        let rates = whole.map(|frame| {
            let ops = COUNTED.into_iter().map(|direction| frame.ops(direction));
            let rate = ops.sum::<u64>() as f64 * 1e9 / frame.span_ns() as f64;
            (frame.end_ns, rate)
        });
        Course {
            rates: rates.collect(),
            ramp: ramp_of(&frames),
            ..self
        }
    }
}

/// Ops per second by time, one panel for each workload. With several levels, their means are drawn as steps. `None` if
/// no trial has two seconds.
pub fn throughput(courses: &[Course]) -> Option<Figure> {
    let drawn = courses.iter().filter(|it| it.rates.len() > 1);
    let (panels, all) = panels_of(drawn, |it| &it.panel, panel);
    let more = left_out(all, panels.len(), "panel");
    Figure::new(
        Kind::Series,
        "Throughput over time",
        format!(
            "Of each side the trial whose result is the median. Steps are the means of regimes, where the level changed; the shaded \
             time is the ramp, which is not measured.{more}"
        ),
        panels,
    )
}

fn panel(own: &[&Course]) -> Panel {
    let mut curves = Vec::new();
    for course in own {
        let points = course.rates.iter();
        let points = points.map(|(end, rate)| Point::new(*end as f64, *rate));
        curves.push(Curve {
            name: course.name.clone(),
            colour: course.colour,
            form: Form::Line,
            points: points.collect(),
        });
        curves.extend(levels(course));
    }
    let heights = curves.iter().flat_map(|it| &it.points);
    let largest = heights.map(|point| point.y).fold(0.0, f64::max);
    let x = Axis::seconds("time").zero();
    let y = Axis::of_unit("ops", SeriesUnit::PerSecond, largest).zero();
    let marks = own.iter().find_map(|course| course.ramp.map(ramp));
    Panel::of(&own[0].panel, x, y, curves).marked(marks)
}

/// The means of several regimes.
fn levels(course: &Course) -> Option<Curve> {
    let regimes = &course.behaviour.regimes;
    let last = regimes.last().filter(|_| regimes.len() > 1)?;
    let starts = regimes.iter().map(|regime| (regime.start_ns, regime.rate));
    let end = std::iter::once((last.end_ns, last.rate));
    let points = starts
        .chain(end)
        .map(|(at, rate)| Point::new(at as f64, rate));
    Some(Curve {
        name: format!("{}, regimes", course.name),
        colour: course.colour,
        form: Form::Steps,
        points: points.collect(),
    })
}
