//! Repeated trials of one configuration.

use iodyno_model::{Estimated, Repeated};

use iodyno_units::{counted, percent};

use super::ComparisonFormat;
use super::figures::{median, ratio, value_in};

use crate::style::{Style, sanitize, trimmed};
use crate::table::{Column, Table};

/// A comparison of the baseline with itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Again {
    /// Second series of trials ÷ first.
    pub ratio: Estimated,
    /// Rounds that count.
    pub rounds: u32,
    /// The noise floor, as a share: smaller differences are noise.
    pub floor: f64,
}

/// Each metric with its median, interval, on request its mean, and range of values; below them the difference between
/// two series of trials of the same configuration. With `verbose`, it also prints why a median has no interval. `rows`:
/// their names, which are printed if there are several, and metrics.
pub fn repeats(
    name: &str,
    rows: &[(String, Vec<Repeated>)],
    again: Option<Again>,
    shown: &ComparisonFormat,
    style: Style,
) -> String {
    let several = rows.len() > 1;
    let all = || rows.iter().flat_map(|(_, metrics)| metrics);
    let trials = all().map(|r| r.values.len()).max().unwrap_or(0);
    let mut text = format!(
        "{}   {}{}, nothing to compare with\n",
        sanitize(name),
        counted(trials as u64, "trial"),
        if several { " a row" } else { "" }
    );
    let mean = shown.mean.then(|| Column::right("mean"));
    let row = several.then(|| Column::left(""));
    let columns = row.into_iter().chain(["", "median"].map(Column::left));
    let columns = columns.chain(mean);
    let mut table = Table::new(columns.chain(["smallest", "largest"].map(Column::right)));
    for (row, metrics) in rows {
        for (number, repeated) in metrics.iter().enumerate() {
            let unit = &repeated.metric.unit;
            let (low, high) = repeated.extremes;
            let name = if number == 0 {
                row.clone()
            } else {
                String::new()
            };
            let mut cells: Vec<String> = several.then_some(name).into_iter().collect();
            cells.push(repeated.metric.name.clone());
            cells.push(median(&repeated.median, unit, shown));
            let mean = shown.mean_of(&repeated.values);
            let others = mean.into_iter().chain([low, high]);
            cells.extend(others.map(|value| value_in(value, unit, shown)));
            table.row(cells);
        }
    }
    text += &table.draw(style.columns(), style);
    if shown.verbose && all().all(|repeated| repeated.median.interval.is_none()) {
        text += "fewer than 6 trials: the median has no interval at 95 %\n";
    }
    if shown.verbose && several {
        text += "the rows are not compared with each other; two runs of them can be: `iodyno compare RUN OTHER`\n";
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
