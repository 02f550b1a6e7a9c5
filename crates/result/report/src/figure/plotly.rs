//! Figures as charts of plotly.js: `data` and `layout` in its JSON.

use serde_json::{Map, Value, json};

use crate::figure::axis::{NINES, nines, whole_step};
use crate::figure::{Axis, COLOURS, Cells, Curve, FEW, Figure, Form, Mark, Panel, Point, Scale};

/// Symbols, by the index of a colour: colours alone do not identify a curve in print.
const SYMBOLS: [&str; 6] = ["circle", "square", "diamond", "triangle-up", "x", "cross"];

/// Heights in pixels.
const PANEL: u64 = 340;
const STACKED: u64 = 130;
const ROW: u64 = 24;

/// A chart of a page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chart {
    /// Its title, as text; empty: none.
    pub(crate) title: String,
    /// Height in pixels.
    pub(crate) height: u64,
    /// `data` and `layout`.
    pub(crate) json: Value,
}

/// The script, from the copy that the crate `plotly` contains. Its other scripts, for formulas, are left out.
pub(crate) fn script() -> String {
    let all = plotly::Plot::offline_js_sources();
    let own = all.split("<script").find(|script| {
        let begins = script
            .char_indices()
            .nth(400)
            .map_or(script.len(), |(at, _)| at);
        script[..begins].contains("plotly.js v")
    });
    let own = own.and_then(|own| own.split_once('>'));
    let text = own.map_or("", |(_, text)| text);
    text.rsplit_once("</script>")
        .map_or(text, |(text, _)| text)
        .to_owned()
}

/// One chart for each panel; a single one with panels below each other if they share their horizontal axis.
pub(crate) fn charts(figure: &Figure) -> Vec<Chart> {
    if figure.shared_x {
        return vec![Chart {
            title: String::new(),
            height: 60 + STACKED * figure.panels.len() as u64,
            json: chart(&figure.panels, true, false),
        }];
    }
    let panels = figure.panels.iter();
    panels
        .map(|panel| Chart {
            title: panel.title.clone(),
            height: match &panel.y.scale {
                Scale::Names(names) => 110 + ROW * names.len() as u64,
                _ => PANEL,
            },
            json: chart(std::slice::from_ref(panel), false, figure.has_sides()),
        })
        .collect()
}

/// `named`: whether it has a legend.
fn chart(panels: &[Panel], stacked: bool, named: bool) -> Value {
    let mut data = Vec::new();
    let mut layout = Map::new();
    let mut shapes = Vec::new();
    let mut annotations = Vec::new();
    let all = panels.len() as f64;
    for (place, panel) in panels.iter().enumerate() {
        let number = match place {
            0 => String::new(),
            place => (place + 1).to_string(),
        };
        let (x, y) = (
            if stacked {
                "x".to_owned()
            } else {
                format!("x{number}")
            },
            format!("y{number}"),
        );
        data.extend(panel.cells.iter().map(cells));
        data.extend(
            panel
                .curves
                .iter()
                .map(|curve| trace(curve, &x, &y, stacked)),
        );
        let mut vertical = axis(&panel.y, along(panel, true));
        if stacked {
            let height = 1.0 / all;
            let top = 1.0 - height * place as f64;
            vertical["domain"] = json!([top - height * 0.72, top]);
            vertical["title"] = Value::Null;
            annotations.push(json!({
                "text": escaped(&panel.y.title_of(&panel.title)) + &names(&panel.curves), "showarrow": false, "xref": "paper", "yref": "paper",
                "x": 0, "y": top, "xanchor": "left", "yanchor": "bottom", "font": { "size": 12 },
            }));
        }
        layout.insert(format!("yaxis{number}"), vertical);
        for mark in &panel.marks {
            let shape = shape(mark, stacked);
            if !shapes.contains(&shape) {
                annotations.extend(annotation(mark, &panel.x));
                shapes.push(shape);
            }
        }
    }
    if let Some(last) = panels.last() {
        let mut horizontal = axis(&last.x, along(last, false));
        if stacked {
            horizontal["rangemode"] = "tozero".into();
            horizontal["anchor"] = format!(
                "y{}",
                match panels.len() {
                    1 => String::new(),
                    n => n.to_string(),
                }
            )
            .into();
            horizontal["showspikes"] = true.into();
            horizontal["spikemode"] = "across".into();
            horizontal["spikethickness"] = 1.into();
        }
        layout.insert("xaxis".to_owned(), horizontal);
    }
    layout.insert("shapes".to_owned(), shapes.into());
    layout.insert("annotations".to_owned(), annotations.into());
    layout.insert(
        "hovermode".to_owned(),
        if stacked { "x" } else { "closest" }.into(),
    );
    layout.insert("showlegend".to_owned(), named.into());
    layout.insert(
        "legend".to_owned(),
        json!({ "orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0 }),
    );
    layout.insert(
        "modebar".to_owned(),
        json!({ "bgcolor": "rgba(0, 0, 0, 0)", "color": "#888888", "activecolor": "#0072b2" }),
    );
    layout.insert(
        "margin".to_owned(),
        json!({ "l": 64, "r": 24, "t": 36, "b": 48 }),
    );
    json!({ "data": data, "layout": layout })
}

/// The names of curves in their colours, as markup, instead of a legend; empty for a single one.
fn names(curves: &[Curve]) -> String {
    if curves.len() < 2 {
        return String::new();
    }
    let each = curves.iter().map(|curve| {
        let (colour, name) = (colour(curve.colour), escaped(&curve.name));
        format!("  <span style=\"color: {colour}\">⬤ {name}</span>")
    });
    each.collect()
}

/// The range of a panel's points along one of its axes.
fn along(panel: &Panel, vertical: bool) -> (f64, f64) {
    let points = panel.curves.iter().flat_map(|curve| &curve.points);
    let values = points.flat_map(|point| match (vertical, point.interval) {
        (true, _) => [point.y, None],
        (false, Some((low, high))) => [Some(low), Some(high)],
        (false, None) => [Some(point.x), None],
    });
    let edges = panel.cells.iter().flat_map(|cells| match vertical {
        true => &cells.y,
        false => &cells.x,
    });
    let values = values.flatten().chain(edges.copied());
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

/// `low`, `high`: the range of the values along it.
fn axis(axis: &Axis, (low, high): (f64, f64)) -> Value {
    let mut json =
        json!({ "title": { "text": escaped(&axis.title) }, "automargin": true, "zeroline": false });
    match &axis.scale {
        Scale::Linear if axis.from_zero => json["rangemode"] = "tozero".into(),
        Scale::Linear => {}
        Scale::Whole => json["dtick"] = whole_step(high - low).into(),
        Scale::Log => {
            json["type"] = "log".into();
            let (low, high) = (low.log10(), high.log10());
            match high - low {
                // Labels at 1, 2 and 5, the last two as digits only.
                span if span > 1.5 => json["dtick"] = "D2".into(),
                span => {
                    let ticks = axis.ticks(low - span / 20.0, high + span / 20.0);
                    let (at, texts): (Vec<f64>, Vec<String>) = ticks.into_iter().unzip();
                    json["tickvals"] = at.iter().map(|at| 10_f64.powf(*at)).collect();
                    json["ticktext"] = texts.into();
                }
            }
        }
        Scale::Nines => {
            json["tickvals"] = NINES
                .iter()
                .map(|(at, _)| nines(*at))
                .collect::<Vec<f64>>()
                .into();
            json["ticktext"] = NINES
                .iter()
                .map(|(_, text)| *text)
                .collect::<Vec<&str>>()
                .into();
            json["rangemode"] = "tozero".into();
        }
        Scale::Names(names) => {
            json["tickvals"] = (0..names.len()).collect::<Vec<usize>>().into();
            json["ticktext"] = names
                .iter()
                .map(|name| escaped(name))
                .collect::<Vec<String>>()
                .into();
            json["range"] = json!([names.len() as f64 - 0.5, -0.5]);
        }
    }
    json
}

fn trace(curve: &Curve, x: &str, y: &str, stacked: bool) -> Value {
    let colour = colour(curve.colour);
    let points = &curve.points;
    let mut trace = json!({
        "type": "scatter",
        "name": escaped(&curve.name),
        "x": points.iter().map(|point| rounded(point.x)).collect::<Vec<f64>>(),
        "y": points.iter().map(|point| point.y.map(rounded)).collect::<Vec<Option<f64>>>(),
        "xaxis": x,
        "yaxis": y,
        "mode": match curve.form {
            Form::Points | Form::Intervals => "markers",
            Form::Line if points.len() <= FEW => "lines+markers",
            Form::Line | Form::Steps => "lines",
            Form::Measured => "lines+markers",
        },
        "line": {
            "color": colour, "width": 1.5,
            "shape": if curve.form == Form::Steps { "hv" } else { "linear" },
            "dash": if curve.form == Form::Steps { "dot" } else { "solid" },
        },
        "marker": { "color": colour, "size": 7, "symbol": SYMBOLS[curve.colour % SYMBOLS.len()] },
    });
    if points.iter().any(|point| !point.text.is_empty()) {
        trace["text"] = points
            .iter()
            .map(|point| escaped(&point.text))
            .collect::<Vec<String>>()
            .into();
        trace["hovertemplate"] = "%{text}<extra></extra>".into();
    } else if stacked {
        trace["hovertemplate"] = format!(
            "%{{y:.4~g}} {}<extra></extra>",
            escaped(&curve.name).replace('%', "%%")
        )
        .into();
    }
    let ends = |of: fn(&Point) -> Option<f64>| {
        let (up, down): (Vec<f64>, Vec<f64>) = points
            .iter()
            .map(|point| match (of(point), point.interval) {
                (Some(at), Some((low, high))) => (rounded(high - at), rounded(at - low)),
                _ => (0.0, 0.0),
            })
            .unzip();
        json!({ "type": "data", "symmetric": false, "array": up, "arrayminus": down, "color": colour, "thickness": 1.5 })
    };
    match curve.form {
        Form::Intervals => trace["error_x"] = ends(|point| Some(point.x)),
        Form::Measured => trace["error_y"] = ends(|point| point.y),
        Form::Points | Form::Line | Form::Steps => {}
    }
    trace
}

/// Counts on a logarithmic scale; cells without any are empty.
fn cells(cells: &Cells) -> Value {
    let shade = |count: &f64| (*count > 0.0).then(|| rounded(count.log10()));
    let rows = cells.counts.iter();
    let shades: Vec<Vec<Option<f64>>> = rows.map(|row| row.iter().map(shade).collect()).collect();
    let most = cells
        .counts
        .iter()
        .flatten()
        .copied()
        .fold(1.0, f64::max)
        .log10();
    let ticks: Vec<f64> = (0..=most.floor() as u32).map(f64::from).collect();
    let texts: Vec<String> = ticks
        .iter()
        .map(|tick| format!("{:.0}", 10_f64.powf(*tick)))
        .collect();
    json!({
        "type": "heatmap",
        "x": cells.x.iter().copied().map(rounded).collect::<Vec<f64>>(),
        "y": cells.y.iter().copied().map(rounded).collect::<Vec<f64>>(),
        "z": shades,
        "zmin": 0.0,
        "zmax": most.max(1.0),
        "colorscale": "Cividis",
        "reversescale": true,
        "hovertemplate": "%{x} s, %{y:.3~g}: %{customdata}<extra></extra>",
        "colorbar": { "title": { "text": cells.unit }, "tickvals": ticks, "ticktext": texts, "thickness": 12 },
    })
}

fn shape(mark: &Mark, stacked: bool) -> Value {
    let across = if stacked {
        "paper"
    } else if mark.vertical_axis {
        "x domain"
    } else {
        "y domain"
    };
    let mut shape = match mark.vertical_axis {
        false => {
            json!({ "xref": "x", "yref": across, "x0": mark.from, "x1": mark.to, "y0": 0, "y1": 1 })
        }
        true => {
            json!({ "yref": "y", "xref": across, "y0": mark.from, "y1": mark.to, "x0": 0, "x1": 1 })
        }
    };
    shape["layer"] = "below".into();
    match mark.from == mark.to {
        true => {
            shape["type"] = "line".into();
            shape["line"] = json!({ "width": 1, "dash": "dash", "color": "#888888" });
        }
        false => {
            shape["type"] = "rect".into();
            shape["line"] = json!({ "width": 0 });
            shape["fillcolor"] = "rgba(128, 128, 128, 0.18)".into();
        }
    }
    shape
}

fn annotation(mark: &Mark, x: &Axis) -> Option<Value> {
    // Unlike shapes, annotations of logarithmic axes are placed by the logarithm.
    let at = match x.scale {
        Scale::Log => mark.from.log10(),
        _ => mark.from,
    };
    (!mark.text.is_empty() && !mark.vertical_axis).then(|| {
        json!({
            "text": escaped(&mark.text), "showarrow": false, "xref": "x", "yref": "paper",
            "x": at, "y": 1, "xanchor": "left", "yanchor": "top", "font": { "size": 11 },
        })
    })
}

fn colour(index: usize) -> String {
    let (red, green, blue) = COLOURS[index % COLOURS.len()];
    format!("rgb({red}, {green}, {blue})")
}

/// With six significant digits: more cannot be seen, and would double the size of a page.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Without markup: plotly.js reads tags and entities in texts.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
