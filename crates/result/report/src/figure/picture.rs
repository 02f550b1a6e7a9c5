//! Figures as files: SVG and PNG.

use std::sync::LazyLock;

use iodyno_model::printable::steers;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};
use thiserror::Error;

use crate::figure::scene::{CHARACTER, Label, RIGHT, Role, Scene, Shape, Strokes, scenes};
use crate::figure::svg::{self, Frame};
use crate::figure::{COLOURS, Figure, points_a_line};

/// Sizes in pixels.
const WIDTH: u32 = 1200;
const HEAD: f64 = 48.0;
const LINE: f64 = 22.0;

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
    register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular()).is_ok()
});

/// A figure as a picture, 1200 pixels wide, on white.
///
/// # Errors
/// It cannot be drawn or encoded.
pub fn picture(figure: &Figure, format: Format) -> Result<Vec<u8>, PictureError> {
    let mut placed = Vec::new();
    let mut top = HEAD;
    for mut scene in scenes(figure, points_a_line([figure])) {
        top += head(figure, &mut scene);
        let height = scene.whole();
        placed.push((top, scene));
        top += height;
    }
    if let Some((first, scene)) = placed.first_mut() {
        let place = (0.5, (RIGHT - scene.room[0]) / 2.0);
        let title = Label::new(Role::Head, place, 30.0 - *first, figure.title.as_str());
        scene.labels.push(Label {
            anchor: 0.5,
            ..title
        });
    }
    match format {
        Format::Svg => {
            let text = svg::file(&placed, (f64::from(WIDTH), top));
            // XML forbids most of them, and a terminal interprets them.
            let steering = |character| character != '\n' && steers(character);
            Ok((text.replace(steering, "?") + "\n").into_bytes())
        }
        Format::Png => png(&placed, top.ceil() as u32),
    }
}

/// Adds title and legend above a scene. Returns their height.
fn head(figure: &Figure, scene: &mut Scene) -> f64 {
    let panel = scene.panel;
    let mut lines: Vec<Vec<Label>> = Vec::new();
    let title = match figure.shared_x {
        true => panel.y.title_of(&panel.title),
        false => panel.title.clone(),
    };
    let role = if figure.shared_x {
        Role::Plain
    } else {
        Role::Title
    };
    if !title.is_empty() {
        lines.push(vec![Label::new(role, (0.0, 0.0), 0.0, title)]);
    }
    let room = f64::from(WIDTH) - scene.room[0] - RIGHT;
    let mut x = room;
    for (colour, round, name) in figure.keys(panel) {
        let text = format!("{} {name}", if round { '●' } else { '■' });
        let width = CHARACTER * (text.chars().count() as f64 + 3.0);
        if x + width > room {
            x = 0.0;
            lines.push(Vec::new());
        }
        let label = Label::new(Role::Key(colour), (0.0, x), 0.0, text);
        if let Some(line) = lines.last_mut() {
            line.push(label);
        }
        x += width;
    }
    let height = LINE * lines.len() as f64;
    for (place, line) in lines.into_iter().enumerate() {
        let y = LINE * (place as f64 + 0.7) - height;
        scene
            .labels
            .extend(line.into_iter().map(|label| Label { y, ..label }));
    }
    height
}

fn png(scenes: &[(f64, Scene)], height: u32) -> Result<Vec<u8>, PictureError> {
    if !*FONT {
        return Err(PictureError::Draw("the font cannot be read".to_owned()));
    }
    let mut pixels = vec![255; WIDTH as usize * height as usize * 3];
    let paper = BitMapBackend::with_buffer(&mut pixels, (WIDTH, height)).into_drawing_area();
    for (top, scene) in scenes {
        paint(scene, *top, &paper).map_err(|error| PictureError::Draw(error.to_string()))?;
    }
    drop(paper);
    let mut encoded = Vec::new();
    let mut encoder = png::Encoder::new(&mut encoded, WIDTH, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(encoded)
}

type Paper<'a> = DrawingArea<BitMapBackend<'a>, plotters::coord::Shift>;
type Painted =
    Result<(), DrawingAreaErrorKind<<BitMapBackend<'static> as DrawingBackend>::ErrorType>>;

fn paint(scene: &Scene, top: f64, paper: &Paper) -> Painted {
    let [left, above, _] = scene.room;
    let width = f64::from(WIDTH) - left - RIGHT;
    let frame = Frame::pixels(scene, width);
    let at = |position| {
        let (x, y) = frame.at(position);
        ((left + x).round() as i32, (top + above + y).round() as i32)
    };
    for shape in &scene.shapes {
        match shape {
            Shape::Rules {
                upright,
                at: places,
                grid,
            } => {
                let grey = if *grid { 225 } else { 110 };
                for place in places {
                    let ends = scene.across(*upright, *place).map(at);
                    paper.draw(&PathElement::new(ends, RGBColor(grey, grey, grey)))?;
                }
            }
            Shape::Band(from, to) => {
                let corners = [at((*from, scene.y.0)), at((*to, scene.y.1))];
                paper.draw(&Rectangle::new(corners, BLACK.mix(0.1).filled()))?;
            }
            Shape::Shade(cells) => {
                for corners in cells.corners() {
                    let fill = rgb(cells.colour).filled();
                    paper.draw(&Rectangle::new(corners.map(at), fill))?;
                }
            }
            Shape::Curve(strokes) => trace(strokes, at, paper)?,
        }
    }
    for label in &scene.labels {
        let place = (left + label.x.0 * width + label.x.1, top + label.y);
        write(label, place, paper)?;
    }
    Ok(())
}

fn trace(strokes: &Strokes, at: impl Fn((f64, f64)) -> (i32, i32), paper: &Paper) -> Painted {
    let colour = rgb(COLOURS[strokes.curve.colour % COLOURS.len()]);
    let line: Vec<(i32, i32)> = strokes.line.iter().copied().map(&at).collect();
    paper.draw(&PathElement::new(line, colour.stroke_width(2)))?;
    for ends in &strokes.intervals {
        paper.draw(&PathElement::new(ends.map(&at), colour.stroke_width(2)))?;
    }
    for (place, _) in &strokes.dots {
        let (x, y) = at(*place);
        match strokes.curve.colour.is_multiple_of(2) {
            true => paper.draw(&Circle::new((x, y), 4, colour.filled()))?,
            false => {
                let corners = [(x - 3, y - 3), (x + 4, y + 4)];
                paper.draw(&Rectangle::new(corners, colour.filled()))?;
            }
        }
    }
    Ok(())
}

/// `place`: of its anchor, on its base line.
fn write(label: &Label, place: (f64, f64), paper: &Paper) -> Painted {
    let (size, colour) = match label.role {
        Role::Head => (20, BLACK),
        Role::Title => (16, BLACK),
        Role::Tick | Role::Mark | Role::Plain => (13, BLACK),
        Role::Key(colour) => (13, rgb(colour)),
    };
    let across = match label.anchor {
        at if at > 0.75 => HPos::Right,
        at if at > 0.25 => HPos::Center,
        _ => HPos::Left,
    };
    let style = ("sans-serif", size).into_font().color(&colour);
    let style = style.pos(Pos::new(across, VPos::Center));
    let place = (place.0 as i32, place.1 as i32 - size / 3);
    paper.draw(&Text::new(label.text.as_str(), place, style))
}

fn rgb((red, green, blue): (u8, u8, u8)) -> RGBColor {
    RGBColor(red, green, blue)
}
