//! Panels as shapes and labels: pages, SVG files and PNG files draw the same scenes.

use iodyno_units::grouped;

use crate::figure::axis::Scale;
use crate::figure::{Axis, Cells, Colour, Curve, Figure, Form, Panel, Point};

/// Heights of the area of a panel, pixels: alone, stacked on others, and that of a row with a name.
const ALONE: f64 = 260.0;
const STACKED: f64 = 72.0;
const ROW: f64 = 44.0;
/// Width of a character, pixels, about.
pub(crate) const CHARACTER: f64 = 7.5;
/// Characters of the name of a row, at most.
const NAME: usize = 120;
/// Room right of the area, pixels: half a label.
pub(crate) const RIGHT: f64 = 24.0;
/// Lines of at most this many points have symbols, too: a line of one point would not be visible.
const FEW: usize = 30;
/// Shades for each factor of ten.
const SHADES: f64 = 5.0;

/// A panel. Positions are values on linear axes and logarithms on logarithmic ones.
pub(crate) struct Scene<'a> {
    /// What is drawn.
    pub(crate) panel: &'a Panel,
    /// Positions at the left and at the right end.
    pub(crate) x: (f64, f64),
    /// Positions at the top and at the bottom.
    pub(crate) y: (f64, f64),
    /// Height of the area, pixels.
    pub(crate) height: f64,
    /// Room left of the area, above and below it, pixels.
    pub(crate) room: [f64; 3],
    /// In this order.
    pub(crate) shapes: Vec<Shape<'a>>,
    /// Above all shapes.
    pub(crate) labels: Vec<Label>,
    /// Whether points were left out.
    pub(crate) thinned: bool,
}

/// Something in the area of a panel.
pub(crate) enum Shape<'a> {
    /// Straight lines across the area, at these positions of an axis.
    Rules {
        upright: bool,
        at: Vec<f64>,
        grid: bool,
    },
    /// A shaded range of the horizontal axis.
    Band(f64, f64),
    /// Cells with similar counts.
    Shade(Shade),
    /// A curve.
    Curve(Strokes<'a>),
}

/// Cells with similar counts, as a matrix of columns and rows of equal size.
pub(crate) struct Shade {
    pub(crate) colour: Colour,
    /// The counts.
    pub(crate) text: String,
    /// Neighbours in a row: the column of the first one, the row, and how many there are.
    pub(crate) runs: Vec<(usize, usize, usize)>,
    /// Position of the lower left corner of the matrix, and the size of a cell.
    pub(crate) origin: (f64, f64),
    pub(crate) size: (f64, f64),
}

impl Shade {
    /// Opposite corners of the runs.
    pub(crate) fn corners(&self) -> impl Iterator<Item = [(f64, f64); 2]> {
        let ((x, y), (width, height)) = (self.origin, self.size);
        let at = move |column, row| (x + width * column as f64, y + height * row as f64);
        let runs = self.runs.iter();
        runs.map(move |(column, row, length)| [at(*column, row + 1), at(column + length, *row)])
    }
}

/// A curve as lines and symbols.
pub(crate) struct Strokes<'a> {
    pub(crate) curve: &'a Curve,
    /// Through all points; empty: none.
    pub(crate) line: Vec<(f64, f64)>,
    /// Both ends of each interval.
    pub(crate) intervals: Vec<[(f64, f64); 2]>,
    /// Positions of symbols, with descriptions.
    pub(crate) dots: Vec<((f64, f64), &'a str)>,
}

/// What a label is, which decides its size and colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Title of the picture.
    Head,
    /// Title of the panel.
    Title,
    /// A value of the horizontal axis.
    Tick,
    /// The text of a mark on the horizontal axis.
    Mark,
    /// Any other text.
    Plain,
    /// A name in the legend, with its colour.
    Key(Colour),
}

/// A text.
pub(crate) struct Label {
    pub(crate) role: Role,
    /// Its place: a share of the width of the area, and pixels to the right of it.
    pub(crate) x: (f64, f64),
    /// Its base line, pixels below the top of the scene.
    pub(crate) y: f64,
    /// Where the place is: 0 at the start of the text, 1 at its end.
    pub(crate) anchor: f64,
    pub(crate) text: String,
}

impl Label {
    pub(crate) fn new(role: Role, x: (f64, f64), y: f64, text: impl Into<String>) -> Label {
        Label {
            role,
            x,
            y,
            anchor: 0.0,
            text: text.into(),
        }
    }

    fn anchored(self, anchor: f64) -> Label {
        Label { anchor, ..self }
    }
}

/// The panels of a figure. `most`: points of a line.
pub(crate) fn scenes(figure: &Figure, most: usize) -> Vec<Scene<'_>> {
    let stacked = figure.shared_x;
    let mut scenes: Vec<Scene> = (figure.panels.iter())
        .map(|panel| Scene::new(panel, stacked, most))
        .collect();
    if stacked {
        let ends = scenes.iter().map(|scene| scene.x);
        let x = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |all, own| {
            (all.0.min(own.0), all.1.max(own.1))
        });
        let left = scenes.iter().map(|it| it.room[0]).fold(0.0, f64::max);
        for scene in &mut scenes {
            (scene.x, scene.room[0]) = (x, left);
        }
    }
    let all = scenes.len();
    for (place, scene) in scenes.iter_mut().enumerate() {
        scene.furnish(stacked, place == 0, place + 1 == all);
    }
    scenes
}

impl<'a> Scene<'a> {
    /// The curves, their ranges and rooms.
    fn new(panel: &'a Panel, stacked: bool, most: usize) -> Scene<'a> {
        let mut thinned = false;
        let curves = panel.curves.iter().map(|curve| {
            let (strokes, fewer) = strokes(panel, curve, most);
            thinned |= fewer;
            Shape::Curve(strokes)
        });
        let shades = panel.cells.iter().flat_map(|cells| shades(panel, cells));
        let shapes: Vec<Shape> = shades.chain(curves).collect();
        let (x, mut y) = ranges(panel);
        if !matches!(panel.y.scale, Scale::Names(_)) {
            y = (y.1, y.0);
        }
        let ticks = panel.y.ticks(y.1.min(y.0), y.0.max(y.1));
        let widest = ticks.iter().map(|(_, text)| text.chars().count()).max();
        let (height, left) = match &panel.y.scale {
            Scale::Names(names) => (ROW * names.len() as f64, 12.0),
            _ => (
                if stacked { STACKED } else { ALONE },
                (widest.unwrap_or(0) as f64 * CHARACTER + 14.0).clamp(48.0, 160.0),
            ),
        };
        let below = if stacked { 8.0 } else { 44.0 };
        let above = if stacked || panel.y.title.is_empty() {
            6.0
        } else {
            24.0
        };
        Scene {
            panel,
            x,
            y,
            height,
            room: [left, above, below],
            shapes,
            labels: Vec::new(),
            thinned,
        }
    }

    /// Adds axes and marks, below the curves.
    fn furnish(&mut self, stacked: bool, first: bool, last: bool) {
        let (panel, bottom) = (self.panel, self.room[1] + self.height);
        let mut labels = Vec::new();
        let mut below = Vec::new();
        let mut grid = |upright, at| {
            let grid = true;
            below.push(Shape::Rules { upright, at, grid });
        };

        let ticks = panel.x.ticks(self.x.0, self.x.1);
        grid(true, ticks.iter().map(|tick| tick.0).collect());
        if last || !stacked {
            let label =
                |(at, text)| Label::new(Role::Tick, (self.share(at), 0.0), bottom + 17.0, text);
            labels.extend(ticks.into_iter().map(|tick| label(tick).anchored(0.5)));
            let title = panel.x.title.as_str();
            labels.push(Label::new(Role::Plain, (0.5, 0.0), bottom + 36.0, title).anchored(0.5));
            self.room[2] = 44.0;
        }
        match &panel.y.scale {
            Scale::Names(names) => {
                let edges = (0..=names.len()).map(|row| row as f64 - 0.5);
                grid(false, edges.clone().collect());
                labels.extend(names.iter().zip(edges).map(|(name, top)| {
                    let name: String = name.chars().take(NAME).collect();
                    Label::new(Role::Plain, (0.0, 4.0), self.down(top) + 14.0, name)
                }));
            }
            _ => {
                let ticks = panel.y.ticks(self.y.1, self.y.0);
                // Few labels fit beside a low area.
                let step = if stacked { ticks.len().div_ceil(4) } else { 1 };
                let ticks: Vec<_> = ticks.into_iter().step_by(step.max(1)).collect();
                grid(false, ticks.iter().map(|tick| tick.0).collect());
                labels.extend(ticks.into_iter().map(|(at, text)| {
                    Label::new(Role::Plain, (0.0, -8.0), self.down(at) + 4.5, text).anchored(1.0)
                }));
            }
        }
        if !stacked {
            let place = (0.0, 8.0 - self.room[0]);
            labels.push(Label::new(Role::Plain, place, 12.0, panel.y.title.as_str()));
        }
        // Once for all panels of a stack.
        let marks = self.mark(&mut below);
        labels.extend(marks.into_iter().filter(|_| first || !stacked));
        below.append(&mut self.shapes);
        (self.shapes, self.labels) = (below, labels);
    }

    /// Adds periods and instants. Returns their texts.
    fn mark(&self, below: &mut Vec<Shape>) -> Vec<Label> {
        let mut labels = Vec::new();
        for mark in &self.panel.marks {
            let (axis, ends) = match mark.vertical_axis {
                true => (&self.panel.y, self.y),
                false => (&self.panel.x, self.x),
            };
            let (low, high) = (ends.0.min(ends.1), ends.0.max(ends.1));
            let [from, to] = [mark.from, mark.to].map(|at| axis.position(at).clamp(low, high));
            match from == to || mark.vertical_axis {
                true => below.push(Shape::Rules {
                    upright: !mark.vertical_axis,
                    at: vec![from],
                    grid: false,
                }),
                false => below.push(Shape::Band(from, to)),
            }
            let (role, x, y) = match mark.vertical_axis {
                true => (Role::Plain, 0.0, self.down(from) - 4.0),
                false => (Role::Mark, self.share(from), self.room[1] + 12.0),
            };
            labels.push(Label::new(role, (x, 4.0), y, mark.text.as_str()));
        }
        labels.retain(|label| !label.text.is_empty());
        labels
    }

    /// A position as a share of the width.
    fn share(&self, at: f64) -> f64 {
        (at - self.x.0) / (self.x.1 - self.x.0)
    }

    /// A position as pixels below the top of the scene.
    fn down(&self, at: f64) -> f64 {
        self.room[1] + self.height * (at - self.y.0) / (self.y.1 - self.y.0)
    }

    /// The ends of a straight line across the area.
    pub(crate) fn across(&self, upright: bool, at: f64) -> [(f64, f64); 2] {
        match upright {
            true => [(at, self.y.0), (at, self.y.1)],
            false => [(self.x.0, at), (self.x.1, at)],
        }
    }

    /// Height of all, pixels.
    pub(crate) fn whole(&self) -> f64 {
        self.room[1] + self.height + self.room[2]
    }
}

/// The ranges of the positions of both axes, with margins.
fn ranges(panel: &Panel) -> ((f64, f64), (f64, f64)) {
    let points = || panel.curves.iter().flat_map(|curve| &curve.points);
    let ends = |form: Form| {
        let own = panel.curves.iter().filter(move |curve| curve.form == form);
        let intervals = own
            .flat_map(|curve| &curve.points)
            .filter_map(|point| point.interval);
        intervals.flat_map(|(low, high)| [low, high])
    };
    // Ratios are read by their distance from the marked 1.
    let ratios = panel.curves.iter().any(|it| it.form == Form::Intervals);
    let marks = panel.marks.iter();
    let across = marks.clone().filter(|mark| ratios && !mark.vertical_axis);
    let up = marks.filter(|mark| mark.vertical_axis);
    let edges = |pick: fn(&Cells) -> &Vec<f64>| panel.cells.iter().flat_map(pick).copied();
    let xs = points()
        .map(|it| it.x)
        .chain(ends(Form::Intervals))
        .chain(across.flat_map(|mark| [mark.from, mark.to]))
        .chain(edges(|it| &it.x));
    let ys = points()
        .map(|it| it.y)
        .chain(ends(Form::Measured))
        .chain(up.map(|mark| mark.from))
        .chain(edges(|it| &it.y));
    let margin = if panel.cells.is_some() { 0.0 } else { 0.04 };
    (range(&panel.x, xs, margin), range(&panel.y, ys, margin))
}

/// The range of the positions of an axis.
fn range(axis: &Axis, values: impl Iterator<Item = f64>, margin: f64) -> (f64, f64) {
    if let Scale::Names(names) = &axis.scale {
        return (-0.5, names.len() as f64 - 0.5);
    }
    let positions = values
        .map(|value| axis.position(value))
        .filter(|at| at.is_finite());
    let (mut low, high) = positions.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| {
        (low.min(at), high.max(at))
    });
    if axis.from_zero || axis.scale == Scale::Nines {
        low = low.min(0.0);
    }
    let margin = match high - low {
        span if span > 0.0 => span * margin,
        _ if low.is_finite() => low.abs().max(1.0) * 0.1,
        _ => return (0.0, 1.0),
    };
    (low - margin, high + margin)
}

/// A curve, and whether points were left out.
fn strokes<'a>(panel: &'a Panel, curve: &'a Curve, most: usize) -> (Strokes<'a>, bool) {
    let at = |point: &Point| (panel.x.position(point.x), panel.y.position(point.y));
    let all: Vec<(f64, f64)> = curve.points.iter().map(at).collect();
    let few = all.len() <= FEW;
    let symbols = match curve.form {
        Form::Points | Form::Intervals | Form::Measured => true,
        Form::Line => few,
        Form::Steps => false,
    };
    let (line, thinned) = match curve.form {
        Form::Points | Form::Intervals => (Vec::new(), false),
        Form::Line | Form::Measured => thinned(&all, most),
        Form::Steps => {
            let starts = all.iter().copied().take(1);
            let pairs = all.windows(2);
            let steps = pairs.flat_map(|pair| [(pair[1].0, pair[0].1), pair[1]]);
            (starts.chain(steps).collect(), false)
        }
    };
    let intervals = curve.points.iter().filter_map(|point| {
        let (middle, (low, high)) = (at(point), point.interval?);
        Some(match curve.form {
            Form::Intervals => [low, high].map(|end| (panel.x.position(end), middle.1)),
            _ => [low, high].map(|end| (middle.0, panel.y.position(end))),
        })
    });
    let texts = curve.points.iter().map(|point| point.text.as_str());
    let strokes = Strokes {
        curve,
        intervals: intervals.collect(),
        dots: if symbols {
            all.iter().copied().zip(texts).collect()
        } else {
            Vec::new()
        },
        line,
    };
    (strokes, thinned)
}

/// At most this number of points: of each group of neighbours the first, the lowest, the highest and the last one.
fn thinned(points: &[(f64, f64)], most: usize) -> (Vec<(f64, f64)>, bool) {
    if points.len() <= most {
        return (points.to_vec(), false);
    }
    let size = points.len().div_ceil(most / 4);
    let groups = points.chunks(size).flat_map(|group| {
        let by_height = |a: &usize, b: &usize| group[*a].1.total_cmp(&group[*b].1);
        let places = || 0..group.len();
        let mut chosen = vec![0, group.len() - 1];
        chosen.extend(places().min_by(by_height));
        chosen.extend(places().max_by(by_height));
        chosen.sort_unstable();
        chosen.dedup();
        chosen.into_iter().map(|place| group[place])
    });
    (groups.collect(), true)
}

/// The largest count.
fn most(cells: &Cells) -> f64 {
    cells.counts.iter().flatten().copied().fold(1.0, f64::max)
}

/// The index of the shade of a count.
fn level(count: f64) -> usize {
    (count.log10() * SHADES).floor().max(0.0) as usize
}

/// A shade of blue, darker for more: 0…1.
pub(crate) fn shade(share: f64) -> Colour {
    let (from, to) = ((198.0, 219.0, 239.0), (8.0, 48.0, 107.0));
    let mix = |from: f64, to: f64| (from + (to - from) * share.clamp(0.0, 1.0)) as u8;
    (mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

/// The shades of the powers of ten.
pub(crate) fn shade_keys(cells: &Cells) -> Vec<(Colour, String)> {
    let highest = level(most(cells));
    let powers = (0..=highest).step_by(SHADES as usize).enumerate();
    powers
        .map(|(power, level)| {
            let count = grouped(10_u64.pow(power as u32));
            let unit = if power == 0 { "" } else { cells.unit };
            let share = level as f64 / highest.max(1) as f64;
            (shade(share), format!("{count} {unit}").trim().to_owned())
        })
        .collect()
}

/// The cells of a panel by their shades.
fn shades<'a>(panel: &Panel, cells: &Cells) -> Vec<Shape<'a>> {
    let edges = |axis: &Axis, edges: &[f64]| -> (f64, f64) {
        let at = |value: Option<&f64>| axis.position(value.copied().unwrap_or_default());
        // The last one may be shorter.
        let whole = edges.len().saturating_sub(2).max(1);
        let first = at(edges.first());
        (first, (at(edges.get(whole)) - first) / whole as f64)
    };
    let (across, up) = (edges(&panel.x, &cells.x), edges(&panel.y, &cells.y));
    let most = most(cells);
    let highest = level(most);
    let mut runs: Vec<Vec<(usize, usize, usize)>> = vec![Vec::new(); highest + 1];
    for (row, counts) in cells.counts.iter().enumerate() {
        for (column, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            let own = &mut runs[level(*count)];
            match own.last_mut() {
                Some((first, of, length)) if *of == row && *first + *length == column => {
                    *length += 1;
                }
                _ => own.push((column, row, 1)),
            }
        }
    }
    let edge = |level: usize| 10_f64.powf(level as f64 / SHADES).ceil();
    let drawn = runs
        .into_iter()
        .enumerate()
        .filter(|(_, runs)| !runs.is_empty());
    drawn
        .map(|(level, runs)| {
            let (low, high) = (edge(level), (edge(level + 1) - 1.0).min(most));
            let text = match low < high {
                true => format!("{low:.0} to {high:.0} {}", cells.unit),
                false => format!("{low:.0} {}", cells.unit),
            };
            Shape::Shade(Shade {
                colour: shade(level as f64 / highest.max(1) as f64),
                text,
                runs,
                origin: (across.0, up.0),
                size: (across.1, up.1),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_has_one_shade_that_names_its_count() {
        let counts = vec![vec![0.0, 1.0, 1.0], vec![150.0, 0.0, 9.0]];
        let cells = Cells {
            x: vec![0.0, 1.0, 2.0, 2.5],
            y: vec![10.0, 100.0, 1000.0],
            counts: counts.clone(),
            unit: "ops",
        };
        let panel = Panel {
            title: String::new(),
            x: Axis::plain("time, s", Scale::Linear),
            y: Axis::plain("latency, ms", Scale::Log),
            curves: Vec::new(),
            cells: None,
            marks: Vec::new(),
        };
        let mut seen = vec![vec![0.0; 3]; 2];
        let mut texts = Vec::new();
        for shape in shades(&panel, &cells) {
            let Shape::Shade(shade) = shape else {
                panic!("another shape");
            };
            assert_eq!((shade.origin, shade.size), ((0.0, 1.0), (1.0, 1.0)));
            for (column, row, length) in shade.runs {
                (column..column + length)
                    .for_each(|column| seen[row][column] += counts[row][column]);
            }
            texts.push(shade.text);
        }
        assert_eq!(seen, counts);
        assert_eq!(texts, ["1 ops", "7 to 9 ops", "100 to 150 ops"]);
        let names: Vec<String> = shade_keys(&cells).into_iter().map(|it| it.1).collect();
        assert_eq!(names, ["1", "10 ops", "100 ops"]);
    }

    #[test]
    fn thinning_keeps_extremes_and_order() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|at| (f64::from(at), 1.0)).collect();
        points[77_777].1 = 50.0;
        points[12_345].1 = -3.0;
        let (kept, thin) = thinned(&points, 2000);
        assert!(thin);
        assert!(kept.len() <= 2000, "{}", kept.len());
        assert!(kept.contains(&(77_777.0, 50.0)) && kept.contains(&(12_345.0, -3.0)));
        assert!(kept.is_sorted_by_key(|point| point.0));
        assert_eq!((kept[0].0, kept.last().unwrap().0), (0.0, 99_999.0));
        let few = vec![(0.0, 2.0), (1.0, 1.0)];
        assert_eq!(thinned(&few, 2000), (few, false));
    }
}
