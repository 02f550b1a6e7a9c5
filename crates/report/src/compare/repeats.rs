//! One configuration measured again and again.

use iodyno_model::{Estimated, Repeated};

use super::figures::{median, percent, ratio, value};
use crate::style::{Paint, Style, harmless, left, right, trimmed, width};

/// A baseline held against itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Again {
    /// The second over the first.
    pub ratio: Estimated,
    /// Rounds that count.
    pub rounds: u32,
    /// What differs by no more is noise, as a share.
    pub floor: f64,
}

/// Metrics with their median ± the interval, and the range of their values; below them what the same
/// thing made twice differs by.
pub fn repeats(name: &str, repeats: &[Repeated], again: Option<Again>, style: Style) -> String {
    let trials = repeats.iter().map(|r| r.values.len()).max().unwrap_or(0);
    let mut text = format!(
        "{}   {trials} trials, nothing to compare them with\n",
        harmless(name)
    );
    let cells: Vec<[String; 4]> = std::iter::once(["", "median", "smallest", "largest"])
        .map(|heading| heading.map(str::to_owned))
        .chain(repeats.iter().map(|repeated| {
            let unit = &repeated.metric.unit;
            let (low, high) = repeated.extremes;
            [
                harmless(&repeated.metric.name),
                median(&repeated.median, unit),
                value(low, unit),
                value(high, unit),
            ]
        }))
        .collect();
    let widths: [usize; 4] = std::array::from_fn(|column| {
        let cells = cells.iter().map(|line| width(&line[column]));
        cells.max().unwrap_or(0)
    });
    for (number, line) in cells.iter().enumerate() {
        let drawn = left(&line[0], widths[0])
            + "  "
            + &left(&line[1], widths[1])
            + "  "
            + &right(&line[2], widths[2])
            + "  "
            + &right(&line[3], widths[3]);
        text += &match number {
            0 => style.paint(Paint::Dim, drawn.trim_end()),
            _ => drawn,
        };
        text += "\n";
    }
    if repeats
        .iter()
        .all(|repeated| repeated.median.interval.is_none())
    {
        text += "fewer than 6 trials: the median has no interval at 95 %\n";
    }
    if let Some(again) = again {
        text += &format!(
            "A/A {}, {} rounds: what differs by less than {} is noise here\n",
            ratio(&again.ratio),
            again.rounds,
            percent(again.floor)
        );
    }
    style.plain(&trimmed(&text))
}
