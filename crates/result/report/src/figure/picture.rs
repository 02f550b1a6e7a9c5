//! Figures as SVG and PNG.

use std::sync::LazyLock;

use iodyno_model::printable::steers;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use thiserror::Error;

use crate::figure::axis::Scale;
use crate::figure::{Axis, COLOURS, FEW, Figure, Form, Panel, Point};

/// Sizes in pixels.
const WIDTH: u32 = 1200;
const PANEL: u32 = 380;
const STACKED: u32 = 190;
/// The width of their axis including a legend, relative to the width of the drawing.
const BESIDE: f64 = 1.2;
const ROW: u32 = 26;
const HEAD: u32 = 64;
/// Width of a character of the labels, about.
const CHARACTER: u32 = 7;
/// The widest labels of a vertical axis.
const WIDEST: u32 = 420;
/// Names in a legend, at most; further curves are drawn without.
const LEGEND: usize = 8;

/// The form of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Scalable Vector Graphics.
    Svg,
    /// Portable Network Graphics.
    Png,
}

/// Why a picture could not be drawn.
#[derive(Debug, Error)]
pub enum PictureError {
    /// The figure has no extent that can be drawn, or is too large.
    #[error("the figure cannot be drawn: {0}")]
    Draw(String),
    /// The picture could not be compressed.
    #[error("the picture cannot be encoded")]
    Encode(#[from] png::EncodingError),
}

/// Whether the font of the labels is registered. It is a part of the program, so that pictures are the same on every
/// host.
static FONT: LazyLock<bool> = LazyLock::new(|| {
    let regular = register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular());
    let bold = register_font("sans-serif", FontStyle::Bold, dejavu::sans::bold());
    regular.is_ok() && bold.is_ok()
});

/// A figure as a picture, 1200 pixels wide, on white.
///
/// # Errors
/// It cannot be drawn or encoded.
pub fn picture(figure: &Figure, format: Format) -> Result<Vec<u8>, PictureError> {
    if !*FONT {
        return Err(PictureError::Draw("the font cannot be read".to_owned()));
    }
    let heights = figure.panels.iter().map(|panel| height(figure, panel));
    let height = HEAD + heights.sum::<u32>();
    match format {
        Format::Svg => {
            let mut text = String::new();
            draw(
                figure,
                &SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area(),
            )?;
            // XML forbids most of them, and a terminal interprets them.
            let steering = |character| character != '\n' && steers(character);
            Ok(text.replace(steering, "?").into_bytes())
        }
        Format::Png => {
            let mut pixels = vec![255; WIDTH as usize * height as usize * 3];
            let area = BitMapBackend::with_buffer(&mut pixels, (WIDTH, height)).into_drawing_area();
            draw(figure, &area)?;
            drop(area);
            let mut encoded = Vec::new();
            let mut encoder = png::Encoder::new(&mut encoded, WIDTH, height);
            encoder.set_color(png::ColorType::Rgb);
            let mut writer = encoder.write_header()?;
            writer.write_image_data(&pixels)?;
            writer.finish()?;
            Ok(encoded)
        }
    }
}

fn height(figure: &Figure, panel: &Panel) -> u32 {
    match &panel.y.scale {
        // With room for a legend.
        Scale::Names(names) => {
            130 + ROW * names.len() as u32 + 18 * panel.curves.len().min(LEGEND) as u32
        }
        _ if figure.shared_x => STACKED,
        _ => PANEL,
    }
}

type Area<B> = DrawingArea<B, Shift>;

fn failed(error: impl ToString) -> PictureError {
    PictureError::Draw(error.to_string())
}

fn draw<B: DrawingBackend>(figure: &Figure, area: &Area<B>) -> Result<(), PictureError> {
    area.fill(&WHITE).map_err(failed)?;
    let area = area
        .margin(12, 0, 0, 0)
        .titled(&figure.title, ("sans-serif", 24))
        .map_err(failed)?;
    let mut below = area;
    for panel in &figure.panels {
        let (own, rest) = below.split_vertically(height(figure, panel));
        let named = match figure.shared_x {
            true => panel.curves.iter().any(|curve| !curve.name.is_empty()),
            false => figure.has_sides(),
        };
        draw_panel(panel, &own, height(figure, panel), named)?;
        below = rest;
    }
    below.present().map_err(failed)
}

/// The range of the positions of an axis, with a margin.
fn range(axis: &Axis, values: impl Iterator<Item = f64>) -> (f64, f64) {
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
    match (high - low) > 0.0 {
        true => {
            let margin = (high - low) * 0.04;
            let bottom = axis.from_zero || axis.scale == Scale::Nines;
            (if bottom { low } else { low - margin }, high + margin)
        }
        false if low.is_finite() => (
            low - low.abs().max(1.0) * 0.1,
            low + low.abs().max(1.0) * 0.1,
        ),
        false => (0.0, 1.0),
    }
}

/// A range of positions with labels at its ticks.
struct Labelled {
    range: (f64, f64),
    ticks: Vec<(f64, String)>,
}

impl Labelled {
    /// The label of a tick.
    fn text(&self, at: f64) -> String {
        let close = |tick: f64| (tick - at).abs() < 1e-9 * tick.abs().max(1.0);
        let own = self.ticks.iter().find(|(tick, _)| close(*tick));
        let text = own.map(|(_, text)| text.clone()).unwrap_or_default();
        let most = (WIDEST / CHARACTER) as usize;
        match text.chars().count() > most {
            true => text.chars().take(most - 1).chain(['…']).collect(),
            false => text,
        }
    }
}

impl Ranged for Labelled {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.range.0) / (self.range.1 - self.range.0);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.iter().map(|(at, _)| *at).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.range.0..self.range.1
    }
}

impl ValueFormatter<f64> for Labelled {
    fn format_ext(&self, value: &f64) -> String {
        self.text(*value)
    }
}

/// `height`: that of the area, pixels. `named`: whether there is a legend.
fn draw_panel<B: DrawingBackend>(
    panel: &Panel,
    area: &Area<B>,
    height: u32,
    named: bool,
) -> Result<(), PictureError> {
    let (x, y) = (&panel.x, &panel.y);
    let points = || panel.curves.iter().flat_map(|curve| &curve.points);
    let edges = |pick: fn(&crate::figure::Cells) -> &Vec<f64>| {
        panel
            .cells
            .iter()
            .flat_map(pick)
            .copied()
            .collect::<Vec<f64>>()
    };
    let ends = |form: Form| {
        let own = panel.curves.iter().filter(move |curve| curve.form == form);
        let intervals = own
            .flat_map(|curve| &curve.points)
            .filter_map(|point| point.interval);
        intervals.flat_map(|(low, high)| [low, high])
    };
    // Ratios are read by their distance from the marked 1.
    let ratios = panel.curves.iter().any(|it| it.form == Form::Intervals);
    let marked = panel
        .marks
        .iter()
        .filter(|mark| ratios && !mark.vertical_axis);
    let xs = points()
        .map(|it| it.x)
        .chain(ends(Form::Intervals))
        .chain(marked.flat_map(|mark| [mark.from, mark.to]))
        .chain(edges(|it| &it.x));
    let ys = points()
        .filter_map(|it| it.y)
        .chain(ends(Form::Measured))
        .chain(edges(|it| &it.y));
    let (across, up) = (range(x, xs), range(y, ys));
    let (x_ticks, y_ticks) = (x.ticks(across.0, across.1), y.ticks(up.0, up.1));
    // Stacked panels have the room for their legends on the right, all alike.
    let stacked = height <= STACKED && !matches!(y.scale, Scale::Names(_));
    let across = match stacked {
        true => (across.0, across.0 + (across.1 - across.0) * BESIDE),
        false => across,
    };
    // The first name is at the top.
    let up = match y.scale {
        Scale::Names(_) => (up.1, up.0),
        _ => up,
    };
    // Above everything that is drawn, there is room for the legend.
    let legend = match named && !stacked {
        true => f64::from(14 + 18 * panel.curves.len().min(LEGEND) as u32) / f64::from(height),
        false => 0.0,
    };
    let up = (up.0, up.0 + (up.1 - up.0) / (1.0 - legend.min(0.5)));
    let widest = y_ticks
        .iter()
        .map(|(_, text)| text.chars().count() as u32)
        .max();
    let room = (widest.unwrap_or(0) * CHARACTER + 34).clamp(70, WIDEST);
    let mut chart = ChartBuilder::on(area);
    chart
        .margin(10)
        .x_label_area_size(44)
        .y_label_area_size(room);
    if !panel.title.is_empty() {
        chart.caption(&panel.title, ("sans-serif", 16));
    }
    let mut chart = chart
        .build_cartesian_2d(
            Labelled {
                range: across,
                ticks: x_ticks,
            },
            Labelled {
                range: up,
                ticks: y_ticks,
            },
        )
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc(&x.title)
        .y_desc(&y.title)
        .label_style(("sans-serif", 13))
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .draw()
        .map_err(failed)?;
    let clamp = |(low, high): (f64, f64), at: f64| at.clamp(low.min(high), low.max(high));
    for mark in panel.marks.iter().filter(|mark| !mark.vertical_axis) {
        let [from, to] = [mark.from, mark.to].map(|at| clamp(across, x.position(at)));
        let shade = match from == to {
            true => RGBColor(110, 110, 110).to_rgba(),
            false => BLACK.mix(0.1),
        };
        let rectangle = Rectangle::new([(from, up.0), (to, up.1)], shade.filled());
        chart.draw_series([rectangle]).map_err(failed)?;
        if !mark.text.is_empty() {
            let label = Text::new(mark.text.clone(), (from, up.1), ("sans-serif", 12));
            chart.draw_series([label]).map_err(failed)?;
        }
    }
    for mark in panel.marks.iter().filter(|mark| mark.vertical_axis) {
        let at = clamp(up, y.position(mark.from));
        let line = PathElement::new([(across.0, at), (across.1, at)], RGBColor(110, 110, 110));
        chart.draw_series([line]).map_err(failed)?;
        let label = Text::new(mark.text.clone(), (across.0, at), ("sans-serif", 12));
        chart.draw_series([label]).map_err(failed)?;
    }
    if let Some(cells) = &panel.cells {
        let most = cells.counts.iter().flatten().copied().fold(1.0, f64::max);
        let most = most.log10().max(1.0);
        let rows = cells.counts.iter().zip(cells.y.windows(2));
        let shaded = rows.flat_map(|(counts, edges)| {
            let own = counts
                .iter()
                .zip(cells.x.windows(2))
                .filter(|(count, _)| **count > 0.0);
            own.map(move |(count, span)| {
                let corners = [
                    (x.position(span[0]), y.position(edges[0])),
                    (x.position(span[1]), y.position(edges[1])),
                ];
                Rectangle::new(corners, shade(count.log10() / most).filled())
            })
        });
        chart.draw_series(shaded).map_err(failed)?;
    }
    for (place, curve) in panel.curves.iter().enumerate() {
        let (red, green, blue) = COLOURS[curve.colour % COLOURS.len()];
        let colour = RGBColor(red, green, blue);
        let at = |point: &Point| Some((x.position(point.x), y.position(point.y?)));
        let symbols = match curve.form {
            Form::Points | Form::Intervals | Form::Measured => true,
            Form::Line => curve.points.len() <= FEW,
            Form::Steps => false,
        };
        let mut drawn = Vec::new();
        if matches!(curve.form, Form::Line | Form::Steps | Form::Measured) {
            let mut line: Vec<(f64, f64)> = Vec::new();
            for place in curve.points.iter().filter_map(at) {
                if let (Form::Steps, Some((_, before))) = (curve.form, line.last().copied()) {
                    line.push((place.0, before));
                }
                line.push(place);
            }
            drawn.push(PathElement::new(line, colour.stroke_width(2)));
        }
        for point in &curve.points {
            let (Some(middle), Some((low, high))) = (at(point), point.interval) else {
                continue;
            };
            let ends = match curve.form {
                Form::Intervals => [low, high].map(|end| (x.position(end), middle.1)),
                _ => [low, high].map(|end| (middle.0, y.position(end))),
            };
            drawn.push(PathElement::new(ends.to_vec(), colour.stroke_width(2)));
        }
        let drawn = chart.draw_series(drawn).map_err(failed)?;
        if place < LEGEND && named {
            drawn.label(curve.name.clone()).legend(move |(x, y)| {
                Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled())
            });
        }
        if symbols {
            let symbols = curve.points.iter().filter_map(at);
            let symbols = symbols.map(|place| Circle::new(place, 4, colour.filled()));
            chart.draw_series(symbols).map_err(failed)?;
        }
    }
    if named {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(200, 200, 200))
            .label_font(("sans-serif", 13))
            .draw()
            .map_err(failed)?;
    }
    Ok(())
}

/// A shade of blue, darker for more: 0…1.
fn shade(share: f64) -> RGBColor {
    let (from, to) = ((222.0, 235.0, 247.0), (8.0, 48.0, 107.0));
    let mix = |from: f64, to: f64| (from + (to - from) * share.clamp(0.0, 1.0)) as u8;
    RGBColor(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}
