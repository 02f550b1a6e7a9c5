//! Scenes as SVG: in a page, where they are as wide as the page, and as a file of fixed width.
//!
//! In a page, the coordinates of an area are positions on the axes, in its `viewBox`: the script zooms by changing the
//! latter, and reads the values of the points from the paths. Colours are attributes, which the style of a page
//! overrides; a file needs no style.

use maud::{Markup, html};

use crate::figure::Colour;
use crate::figure::axis::Scale;
use crate::figure::scene::{Label, RIGHT, Role, Scene, Shade, Shape, Strokes};
use crate::figure::{COLOURS, Form, Panel};

/// From positions to the coordinates of an area.
pub(crate) struct Frame {
    /// For each axis, the position at 0, and the coordinates for each unit.
    x: (f64, f64),
    y: (f64, f64),
    /// Digits after the point of both coordinates.
    digits: [usize; 2],
    /// The area.
    view: [f64; 4],
}

impl Frame {
    /// Coordinates in pixels. `width`: that of the area.
    pub(crate) fn pixels(scene: &Scene, width: f64) -> Frame {
        Frame {
            x: (scene.x.0, width / (scene.x.1 - scene.x.0)),
            y: (scene.y.0, scene.height / (scene.y.1 - scene.y.0)),
            digits: [1, 1],
            view: [0.0, 0.0, width, scene.height],
        }
    }

    /// Positions as coordinates. Those of SVG increase downwards.
    fn positions(scene: &Scene) -> Frame {
        let (span, height) = (scene.x.1 - scene.x.0, scene.y.1 - scene.y.0);
        let digits =
            |span: f64, least: f64| (least - span.abs().log10().floor()).clamp(0.0, 15.0) as usize;
        Frame {
            x: (0.0, 1.0),
            y: (0.0, height.signum()),
            // Thousandths of the width, and numbers of four digits.
            digits: [digits(span, 3.0), digits(height, 4.0)],
            view: [scene.x.0, height.signum() * scene.y.0, span, height.abs()],
        }
    }

    pub(crate) fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        ((x - self.x.0) * self.x.1, (y - self.y.0) * self.y.1)
    }
}

/// The data of a path: lines with relative coordinates, which are short.
struct Path<'a> {
    frame: &'a Frame,
    text: String,
    /// In units of the last digit.
    last: [i64; 2],
}

impl Path<'_> {
    fn of<const N: usize>(
        frame: &Frame,
        lines: impl IntoIterator<Item = [(f64, f64); N]>,
    ) -> String {
        let mut path = Path::new(frame);
        lines.into_iter().for_each(|line| path.line(&line));
        path.text
    }

    fn new(frame: &Frame) -> Path<'_> {
        let text = String::new();
        Path {
            frame,
            text,
            last: [0, 0],
        }
    }

    fn line(&mut self, points: &[(f64, f64)]) {
        for (place, point) in points.iter().enumerate() {
            if place == 0 {
                self.text.push('m');
            }
            let (x, y) = self.frame.at(*point);
            for (axis, at) in [x, y].into_iter().enumerate() {
                let digits = self.frame.digits[axis];
                let unit = 10_f64.powi(digits as i32);
                let at = (at * unit).round() as i64;
                let moved = number((at - self.last[axis]) as f64 / unit, digits);
                self.last[axis] = at;
                let separate = !moved.starts_with('-') && !self.text.ends_with('m');
                self.text.extend(separate.then_some(' '));
                self.text.push_str(&moved);
            }
        }
    }
}

/// A number without needless zeros.
fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    match text.strip_prefix("0.").or(text.strip_prefix("-0.")) {
        Some(rest) if text.starts_with('-') => format!("-.{rest}"),
        Some(rest) => format!(".{rest}"),
        None => text.to_owned(),
    }
}

/// A colour as SVG and CSS have it.
pub(crate) fn css((red, green, blue): Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// A scene of a page. `title`: what a screen reader calls it.
pub(crate) fn inline(scene: &Scene, title: &str) -> Markup {
    let (panel, [left, ..]) = (scene.panel, scene.room);
    let style = format!("margin-left:{left}px;width:calc(100% - {}px)", left + RIGHT);
    html! {
        svg.scene role="img" tabindex="0" aria-label=(title) height=(scene.whole()) style=(style)
            data-x=(kind(&panel.x.scale)) data-y=(kind(&panel.y.scale))
            data-x-title=(panel.x.title) data-y-title=(panel.y.title) {
            desc { (description(panel)) }
            (area(scene, &Frame::positions(scene), None))
        }
    }
}

/// Scenes as a file, with their positions.
pub(crate) fn file(scenes: &[(f64, Scene)], (width, height): (f64, f64)) -> String {
    let drawn = html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) }
            font-family="system-ui, sans-serif" font-size="13" {
            rect width="100%" height="100%" fill="#ffffff" {}
            @for (top, scene) in scenes {
                @let own = width - scene.room[0] - RIGHT;
                g transform={ "translate(" (scene.room[0]) " " (top) ")" } {
                    (area(scene, &Frame::pixels(scene, own), Some(own)))
                }
            }
        }
    };
    drawn.into_string()
}

/// `width`: that of the area, in pixels; `None`: as wide as the page.
fn area(scene: &Scene, frame: &Frame, width: Option<f64>) -> Markup {
    let view = frame.view.map(|edge| edge.to_string()).join(" ");
    let wide = width.map_or_else(|| "100%".to_owned(), |width| width.to_string());
    html! {
        svg.area y=(scene.room[1]) width=(wide) height=(scene.height)
            viewBox=(view) preserveAspectRatio="none" fill="none" {
            @for shape in &scene.shapes { (drawn(scene, shape, frame)) }
        }
        g.labels { @for text in &scene.labels { (label(text, width)) } }
    }
}

fn drawn(scene: &Scene, shape: &Shape, frame: &Frame) -> Markup {
    match shape {
        Shape::Rules { upright, at, grid } => {
            let lines = at.iter().map(|at| scene.across(*upright, *at));
            let path = Path::of(frame, lines);
            match (grid, upright) {
                (true, true) => html! { path.grid.upright d=(path) stroke="#e1e1e1" {} },
                (true, false) => html! { path.grid d=(path) stroke="#e1e1e1" {} },
                (false, _) => {
                    html! { path.mark d=(path) stroke="#6e6e6e" stroke-dasharray="5 3" {} }
                }
            }
        }
        Shape::Band(from, to) => {
            let [(left, top), (right, bottom)] =
                [frame.at((*from, scene.y.0)), frame.at((*to, scene.y.1))];
            html! {
                rect.band x=(left) y=(top) width=(right - left) height=(bottom - top)
                    fill="#808080" fill-opacity="0.16" {}
            }
        }
        Shape::Shade(cells) => shaded(cells, frame),
        Shape::Curve(strokes) => curve(strokes, frame),
    }
}

/// Each run of cells is a horizontal line as thick as a row.
fn shaded(cells: &Shade, frame: &Frame) -> Markup {
    let ((x, y), (width, height)) = (cells.origin, cells.size);
    let (left, bottom) = frame.at((x, y + height / 2.0));
    let (right, above) = frame.at((x + width, y + height * 1.5));
    let matrix = format!(
        "matrix({} 0 0 {} {left} {bottom})",
        right - left,
        above - bottom
    );
    let mut path = String::new();
    let mut last = (0, 0);
    for (column, row, length) in &cells.runs {
        let (column, row, length) = (*column as i64, *row as i64, *length as i64);
        path += &format!("m{} {}h{length}", column - last.0, row - last.1);
        last = (column + length, row);
    }
    html! {
        path.shade d=(path) transform=(matrix) stroke=(css(cells.colour)) shape-rendering="crispEdges" {
            title { (cells.text) }
        }
    }
}

fn curve(strokes: &Strokes, frame: &Frame) -> Markup {
    let curve = strokes.curve;
    let dash = (curve.form == Form::Steps).then_some("2 5");
    let line = (!strokes.line.is_empty()).then(|| {
        let mut path = Path::new(frame);
        path.line(&strokes.line);
        path.text
    });
    let intervals = Path::of(frame, strokes.intervals.iter().copied());
    let cap = if curve.colour.is_multiple_of(2) {
        "round"
    } else {
        "square"
    };
    // A line without length is drawn as its ends.
    let dot = |at: (f64, f64)| Path::of(frame, [[at]]) + "h0";
    let (named, plain): (Vec<_>, Vec<_>) =
        strokes.dots.iter().partition(|(_, text)| !text.is_empty());
    let mut dots = Path::new(frame);
    for (at, _) in &plain {
        dots.line(&[*at]);
        dots.text += "h0";
    }
    html! {
        g.curve data-name=(curve.name) stroke=(css(COLOURS[curve.colour % COLOURS.len()])) stroke-width="2" stroke-linejoin="round" stroke-linecap=(cap) {
            @if let Some(path) = line { path.line d=(path) stroke-dasharray=[dash] {} }
            @if !intervals.is_empty() { path d=(intervals) {} }
            @if !plain.is_empty() { path d=(dots.text) stroke-width="7" {} }
            @for (at, text) in named { path.dot d=(dot(at)) stroke-width="8" { title { (text) } } }
        }
    }
}

fn label(label: &Label, width: Option<f64>) -> Markup {
    let (x, offset) = match width {
        Some(width) => (number(label.x.0 * width + label.x.1, 1), None),
        None => (
            number(label.x.0 * 100.0, 3) + "%",
            (label.x.1 != 0.0).then_some(label.x.1),
        ),
    };
    let anchor = match label.anchor {
        at if at > 0.75 => Some("end"),
        at if at > 0.25 => Some("middle"),
        _ => None,
    };
    let (class, size, fill) = match label.role {
        Role::Head => (None, Some("20"), None),
        Role::Title => (None, Some("16"), None),
        Role::Tick => (Some("tick"), None, None),
        Role::Mark => (Some("note"), None, None),
        Role::Plain => (None, None, None),
        Role::Key(colour) => (None, None, Some(css(colour))),
    };
    html! {
        text class=[class] x=(x) dx=[offset] y=(number(label.y, 1))
            text-anchor=[anchor] font-size=[size] fill=[fill] { (label.text) }
    }
}

/// The name of a scale for the script.
fn kind(scale: &Scale) -> &'static str {
    match scale {
        Scale::Linear => "linear",
        Scale::Whole => "whole",
        Scale::Log => "log",
        Scale::Nines => "nines",
        Scale::Names(_) => "names",
    }
}

/// What a panel shows, for screen readers.
fn description(panel: &Panel) -> String {
    let mut text = match panel.y.title.as_str() {
        "" => panel.x.title.clone(),
        title => format!("{title} over {}", panel.x.title),
    };
    for curve in &panel.curves {
        let described = curve.points.iter().filter(|point| !point.text.is_empty());
        let texts: Vec<&str> = described.map(|point| point.text.as_str()).collect();
        let heights = curve.points.iter().map(|point| point.y);
        let ends = heights.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| {
            (low.min(y), high.max(y))
        });
        text += &match (&panel.y.scale, texts.len()) {
            (Scale::Names(_), _) | (_, 1..=3) => format!("; {}", texts.join("; ")),
            (Scale::Nines, _) => format!("; {}", curve.name),
            _ => format!("; {}: {:.4} to {:.4}", curve.name, ends.0, ends.1),
        };
    }
    text
}
