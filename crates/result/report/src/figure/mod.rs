//! Figures of trials and comparisons: their data ([`Figure`]), and how they are drawn.
//!
//! [`kinds`] builds the figures from results. `scene` lays out their panels, `svg` draws these for a page ([`page()`])
//! and for a file ([`picture()`]), which can be a PNG as well. Nothing here decides anything: medians, intervals,
//! regimes and knees come from `judge`.

mod axis;
pub mod kinds;
mod page;
mod picture;
mod scene;
mod svg;
#[cfg(test)]
mod tests;

pub use axis::{Axis, Scale};
pub use page::{Content, Page, Section, page};
pub use picture::{Format, PictureError, picture};
pub(crate) use svg::css;

/// The kind of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Speed ratios with their intervals.
    Verdicts,
    /// The value of each trial, by round.
    Trials,
    /// Distributions of latency.
    Latency,
    /// Latency over time.
    Heatmap,
    /// Throughput over time.
    Series,
    /// Telemetry of the host over time.
    Telemetry,
    /// A metric over a numeric axis.
    Curve,
    /// A metric over runs.
    History,
}

impl Kind {
    /// Every kind, in the order of a report.
    pub const ALL: [Kind; 8] = [
        Kind::Verdicts,
        Kind::Trials,
        Kind::Latency,
        Kind::Heatmap,
        Kind::Series,
        Kind::Telemetry,
        Kind::Curve,
        Kind::History,
    ];

    /// Its name on the command line and in a page.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Verdicts => "verdicts",
            Kind::Trials => "trials",
            Kind::Latency => "latency",
            Kind::Heatmap => "heatmap",
            Kind::Series => "series",
            Kind::Telemetry => "telemetry",
            Kind::Curve => "curve",
            Kind::History => "history",
        }
    }
}

/// A figure: panels below each other. Panels with [`Figure::shared_x`] have one horizontal axis and one cursor.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its kind.
    pub kind: Kind,
    /// A short title.
    pub title: String,
    /// A note for the reader: how to read it, and omitted data.
    pub caption: String,
    /// Remarks below the caption, as a list.
    pub notes: Vec<String>,
    /// From top to bottom; at least one.
    pub panels: Vec<Panel>,
    /// Whether all panels have the same horizontal axis.
    pub shared_x: bool,
}

impl Figure {
    /// A figure without notes, whose panels have their own axes; `None` without panels.
    pub(crate) fn new(
        kind: Kind,
        title: impl Into<String>,
        caption: impl Into<String>,
        panels: Vec<Panel>,
    ) -> Option<Figure> {
        (!panels.is_empty()).then(|| Figure {
            kind,
            title: title.into(),
            caption: caption.into(),
            notes: Vec::new(),
            shared_x: false,
            panels,
        })
    }

    /// Whether curves have a legend also where a panel has a single one: the figure has several sides, or colours that
    /// mean something.
    pub(crate) fn has_sides(&self) -> bool {
        let mut curves = self.panels.iter().flat_map(|panel| &panel.curves);
        let Some(first) = curves.next() else {
            return false;
        };
        // The colour of an interval is its verdict.
        first.form == Form::Intervals || curves.any(|curve| curve.name != first.name)
    }

    /// The legend of a panel: colours, whether the symbols are round, and names.
    pub(crate) fn keys(&self, panel: &Panel) -> Vec<(Colour, bool, String)> {
        if let Some(cells) = &panel.cells {
            let keys = scene::shade_keys(cells).into_iter();
            return keys.map(|(colour, name)| (colour, false, name)).collect();
        }
        let named = match self.shared_x {
            true => panel
                .curves
                .iter()
                .any(|curve| !panel.title.contains(&curve.name)),
            false => self.has_sides(),
        };
        let curves = panel.curves.iter().filter(|_| named);
        let key = |curve: &Curve| {
            let place = curve.colour % COLOURS.len();
            (COLOURS[place], place.is_multiple_of(2), curve.name.clone())
        };
        curves.map(key).collect()
    }
}

/// Points of all long lines of a page or a picture, about: what a page of half a megabyte can hold.
const POINTS: usize = 40_000;

/// Points of each line, at most, if these figures are in one page or picture.
pub(crate) fn points_a_line<'a>(figures: impl IntoIterator<Item = &'a Figure>) -> usize {
    const LEAST: usize = 100;
    let panels = figures.into_iter().flat_map(|figure| &figure.panels);
    let lines = panels
        .flat_map(|panel| &panel.curves)
        .map(|curve| curve.points.len());
    (POINTS / lines.filter(|points| *points > LEAST).count().max(1)).clamp(LEAST, 2000)
}

/// One coordinate system.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// A short title; empty: none.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The curves, in drawing order.
    pub curves: Vec<Curve>,
    /// A matrix of shaded cells below the curves.
    pub cells: Option<Cells>,
    /// Periods and instants, below everything else.
    pub marks: Vec<Mark>,
}

impl Panel {
    /// Curves with points in stored units (ns, bytes), which are converted to those of the axes. Omits points that an
    /// axis cannot show.
    pub(crate) fn of(title: impl Into<String>, x: Axis, y: Axis, mut curves: Vec<Curve>) -> Panel {
        for curve in &mut curves {
            let along = match curve.form {
                Form::Intervals => &x,
                _ => &y,
            };
            let points = std::mem::take(&mut curve.points).into_iter();
            let places = points.filter_map(|point| {
                let (low, high) = point.interval.unzip();
                let interval = low.and_then(|low| along.place(low));
                Some(Point {
                    x: x.place(point.x)?,
                    y: y.place(point.y)?,
                    interval: interval.zip(high.and_then(|high| along.place(high))),
                    text: point.text,
                })
            });
            curve.points = places.collect();
        }
        Panel {
            title: title.into(),
            x,
            y,
            curves,
            cells: None,
            marks: Vec::new(),
        }
    }

    /// The same with marks.
    pub(crate) fn marked(self, marks: impl IntoIterator<Item = Mark>) -> Panel {
        Panel {
            marks: marks.into_iter().collect(),
            ..self
        }
    }
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Index of its colour and its symbol.
    pub colour: usize,
    /// How it is drawn.
    pub form: Form,
    /// The points, by `x` or in the order in which they are connected.
    pub points: Vec<Point>,
}

/// A point of a curve, in the units of the axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Horizontal position.
    pub x: f64,
    /// Vertical position.
    pub y: f64,
    /// Ends of its interval, on the axis of [`Form::Intervals`].
    pub interval: Option<(f64, f64)>,
    /// The description of the point; empty: its coordinates.
    pub text: String,
}

impl Point {
    /// A point without an interval and a description.
    pub fn new(x: f64, y: f64) -> Point {
        Point {
            x,
            y,
            interval: None,
            text: String::new(),
        }
    }
}

/// How a curve is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Symbols.
    Points,
    /// Straight lines.
    Line,
    /// Horizontal lines, each up to the next point.
    Steps,
    /// Symbols with horizontal intervals.
    Intervals,
    /// Symbols with vertical intervals, connected by lines.
    Measured,
}

/// A matrix of cells, shaded by their counts on a logarithmic scale.
#[derive(Debug, Clone, PartialEq)]
pub struct Cells {
    /// Edges of the columns: one more than columns, ascending.
    pub x: Vec<f64>,
    /// Edges of the rows: one more than rows, ascending.
    pub y: Vec<f64>,
    /// Counts by row, then by column.
    pub counts: Vec<Vec<f64>>,
    /// The counted unit: `ops`.
    pub unit: &'static str,
}

/// A period or an instant with a description.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Whether it is on the vertical axis.
    pub vertical_axis: bool,
    /// Start, in the units of the axis.
    pub from: f64,
    /// End; equal to the start for an instant.
    pub to: f64,
    /// Description; empty: none.
    pub text: String,
}

impl Mark {
    /// A period or an instant on the horizontal axis.
    pub(crate) fn along_x(from: f64, to: f64, text: impl Into<String>) -> Mark {
        Mark {
            vertical_axis: false,
            from,
            to,
            text: text.into(),
        }
    }
}

/// Red, green, blue.
pub(crate) type Colour = (u8, u8, u8);

/// Colours distinguishable with any colour blindness, by Okabe and Ito, "Color Universal Design" (2008). Without black
/// and the yellow, which is invisible on white.
pub(crate) const COLOURS: [Colour; 6] = [
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (230, 159, 0),
    (86, 180, 233),
];
