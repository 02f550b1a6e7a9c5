//! CPUs: a bar for each, or for neighbours together where there are more than lines.

use iodyno_model::{FigureRow, SeriesKind};

use super::history::Measure;
use super::line::{Line, columns, level, share};
use super::screen::Section;
use super::{Latest, WatchView};
use crate::style::{Paint, Style, right};
use crate::text::spark;

/// The sorts of time, in the bar's order: their columns, headings, marks, those marks in ASCII, and colours.
const SORTS: [(&str, &str, char, char, Option<Paint>); 5] = [
    ("%user", "user", '█', '#', Some(Paint::Green)),
    ("%system", "system", '▓', '=', Some(Paint::Cyan)),
    ("%irq", "irq", '▒', '%', Some(Paint::Yellow)),
    ("%steal", "steal", '!', '!', Some(Paint::Red)),
    ("%iowait", "iowait", '░', '.', Some(Paint::Dim)),
];

/// Columns of a name, and of a number.
const NAME: usize = 8;
const NUMBER: usize = 7;

/// With less than this, bars say nothing.
const LEAST_BAR: usize = 12;

/// CPU time of a row or of several: a share for each of [`SORTS`].
type Shares = [Option<f64>; 5];

/// The CPUs of a picture.
pub(super) struct Cpus<'a> {
    view: &'a WatchView<'a>,
    style: Style,
    all: Shares,
    each: Vec<(&'a str, Shares)>,
}

impl<'a> Cpus<'a> {
    /// `None` where CPUs are not sampled.
    pub(super) fn section(view: &'a WatchView<'a>, style: Style) -> Option<Section<'a>> {
        let latest = view.latest(SeriesKind::Cpu)?;
        let each = latest.rows.iter().filter(|row| row.subject != "all");
        let cpus = Cpus {
            view,
            style,
            all: latest
                .row("all")
                .map_or([None; 5], |row| shares(&latest, row)),
            each: each
                .map(|row| (row.subject.as_str(), shares(&latest, row)))
                .collect(),
        };
        let beside = cpus.beside();
        let most = 2 + cpus.each.len().div_ceil(beside);
        Some(Section::new(2, most, move |room| cpus.draw(room)))
    }

    /// How many CPUs stand beside each other.
    fn beside(&self) -> usize {
        match (columns(self.style), self.each.len()) {
            (_, 0..=4) => 1,
            (150.., 5..) => 2,
            _ => 1,
        }
    }

    fn draw(&self, room: usize) -> Vec<String> {
        let mut lines = vec![self.head(), self.one("all", &self.all, 1)];
        let room = room.saturating_sub(2);
        if room == 0 || self.each.is_empty() {
            return lines;
        }
        let beside = self.beside();
        let together = self.each.len().div_ceil(room.saturating_mul(beside));
        let groups: Vec<(String, Shares)> = self.each.chunks(together).map(group).collect();
        // Downwards first, as one counts.
        let rows = groups.len().div_ceil(beside);
        for row in 0..rows {
            let mut line = Line::new(self.style);
            for (name, shares) in groups.iter().skip(row).step_by(rows) {
                line = self.cell(line, name, shares, beside);
            }
            lines.push(line.done());
        }
        lines
    }

    /// The last pictures' CPU time above the bars, and what the numbers are.
    fn head(&self) -> String {
        let bar = self.bar_columns(1);
        let history = self.view.history;
        let seen = history.track(SeriesKind::Cpu, Measure::Busy, "all", bar);
        let drawn = spark::scaled(&seen, 100.0, self.style);
        let line = Line::new(self.style).paint(Some(Paint::Strong), &format!("{:NAME$}", "cpu"));
        let line = line.paint(Some(Paint::Dim), &right(&drawn, bar));
        SORTS
            .iter()
            .map(|(_, head, ..)| *head)
            .fold(line, |line, head| {
                line.right(Some(Paint::Dim), head, NUMBER)
            })
            .done()
    }

    fn one(&self, name: &str, shares: &Shares, beside: usize) -> String {
        let line = Line::new(self.style);
        self.cell(line, name, shares, beside).done()
    }

    fn bar_columns(&self, beside: usize) -> usize {
        let each = columns(self.style) / beside;
        each.saturating_sub(NAME + SORTS.len() * NUMBER + if beside > 1 { 3 } else { 0 })
            .max(LEAST_BAR)
    }

    fn cell(&self, line: Line, name: &str, shares: &Shares, beside: usize) -> Line {
        let mut line = line.left(name, NAME);
        let bar = self.bar_columns(beside);
        let mut drawn = 0;
        let mut sum = 0.0;
        for (part, sort) in shares.iter().zip(SORTS) {
            sum += part.unwrap_or(0.0).max(0.0);
            // Rounded as a whole, so that full is full.
            let until = ((sum / 100.0 * bar as f64).round() as usize).min(bar);
            let mark = if self.style.unicode { sort.2 } else { sort.3 };
            let marks: String = std::iter::repeat_n(mark, until - drawn).collect();
            line = line.paint(sort.4, &marks);
            drawn = until;
        }
        line = line.push(&" ".repeat(bar - drawn));
        for (part, (sort, ..)) in shares.iter().zip(SORTS) {
            let paint = match sort {
                "%steal" if part.is_some_and(|steal| steal >= 0.05) => Some(Paint::Red),
                "%user" | "%system" => level(*part),
                _ => None,
            };
            line = line.right(paint, &share(*part), NUMBER);
        }
        if beside > 1 { line.push("   ") } else { line }
    }
}

fn shares(latest: &Latest, row: &FigureRow) -> Shares {
    SORTS.map(|(column, ..)| latest.value(row, column))
}

/// Neighbours in one: their mean.
fn group(cpus: &[(&str, Shares)]) -> (String, Shares) {
    let number = |name: &str| name.trim_start_matches("CPU").to_owned();
    let name = match cpus {
        [(only, _)] => (*only).to_owned(),
        [(first, _), .., (last, _)] => format!("{}-{}", number(first), number(last)),
        [] => String::new(),
    };
    let mean = |sort: usize| {
        let known: Vec<f64> = cpus.iter().filter_map(|(_, shares)| shares[sort]).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    (name, std::array::from_fn(mean))
}
