//! CPUs: a bar for each, or for several neighbours if there is not enough room.

use iodyno_model::{FigureRow, SeriesKind};

use super::history::Measure;
use super::line::{LineBuilder, columns, level, share};
use super::section::Section;
use super::{Latest, WatchView};
use crate::spark;
use crate::style::{Paint, Style, right};

/// The kinds of CPU time in the order of the bar: column, heading, mark, mark in ASCII, colour.
const SORTS: [(&str, &str, char, char, Option<Paint>); 5] = [
    ("%user", "user", '█', '#', Some(Paint::Green)),
    ("%system", "system", '▓', '=', Some(Paint::Cyan)),
    ("%irq", "irq", '▒', '%', Some(Paint::Yellow)),
    ("%steal", "steal", '!', '!', Some(Paint::Red)),
    ("%iowait", "iowait", '░', '.', Some(Paint::Dim)),
];

/// Width of a name, and of a number below a heading with a mark, columns.
const NAME: usize = 8;
const NUMBER: usize = 8;

/// The largest number of CPUs that have one line each; otherwise several share a line.
const MAX_LINES: usize = 8;

/// Minimum number of columns per CPU, and of these for its name and its number.
const CELL: usize = 26;
const SHORT_NAME: usize = 6;
const SHORT_NUMBER: usize = 6;

/// The CPU time of one or several rows: a share for each of [`SORTS`].
type Shares = [Option<f64>; 5];

/// The section of CPUs.
pub(super) struct Cpus<'a> {
    view: &'a WatchView<'a>,
    style: Style,
    all: Shares,
    each: Vec<(&'a str, Shares)>,
}

impl<'a> Cpus<'a> {
    /// The section; `None` if CPUs are not sampled.
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

    /// The number of CPUs per line. If it is above 1, each has a bar and one number; if it is 1, each has all numbers.
    fn beside(&self) -> usize {
        match self.each.len() {
            0..=MAX_LINES => 1,
            _ => (columns(self.style) / CELL).max(1),
        }
    }

    fn draw(&self, room: usize) -> Vec<String> {
        let mut lines = vec![self.head(), self.in_full("all", &self.all)];
        let room = room.saturating_sub(2);
        if room == 0 || self.each.is_empty() {
            return lines;
        }
        let beside = self.beside();
        let together = self.each.len().div_ceil(room.saturating_mul(beside));
        let groups: Vec<(String, Shares)> = self.each.chunks(together).map(group).collect();
        // A single group of all CPUs would repeat the line above.
        if groups.len() == 1 && self.each.len() > 1 {
            return lines;
        }
        if beside == 1 {
            let groups = groups.iter();
            lines.extend(groups.map(|(name, shares)| self.in_full(name, shares)));
            return lines;
        }
        // In columns, from top to bottom.
        let rows = groups.len().div_ceil(beside);
        for row in 0..rows {
            let cells = groups.iter().skip(row).step_by(rows);
            let line = cells.fold(LineBuilder::new(self.style), |line, (name, shares)| {
                self.cell(line, name, shares, columns(self.style) / beside)
            });
            lines.push(line.done());
        }
        lines
    }

    /// The history of CPU time, and the headings of the numbers.
    fn head(&self) -> String {
        let bar = self.bar();
        let history = self.view.history;
        let seen = history.track(SeriesKind::Cpu, Measure::Busy, "all", bar);
        let drawn = spark::scaled(&seen, 100.0, self.style);
        let line =
            LineBuilder::new(self.style).paint(Some(Paint::Strong), &format!("{:NAME$}", "cpu"));
        let line = line.paint(Some(Paint::Dim), &right(&drawn, bar));
        let heads = SORTS.iter();
        heads
            .fold(line, |line, (_, head, mark, ascii, paint)| {
                let mark = if self.style.unicode { *mark } else { *ascii };
                let line = line.push(&" ".repeat(NUMBER.saturating_sub(head.len() + 1)));
                line.paint(*paint, &mark.to_string())
                    .paint(Some(Paint::Dim), head)
            })
            .done()
    }

    /// Width of a bar if the CPU has its own line, columns.
    fn bar(&self) -> usize {
        let numbers = SORTS.len() * NUMBER;
        columns(self.style).saturating_sub(NAME + numbers)
    }

    /// A line for one CPU, with all numbers.
    fn in_full(&self, name: &str, shares: &Shares) -> String {
        let line = LineBuilder::new(self.style).left(name, NAME);
        let line = self.marks(line, shares, self.bar());
        let numbers = shares.iter().zip(SORTS);
        numbers
            .fold(line, |line, (part, (sort, ..))| {
                let paint = match sort {
                    "%steal" if part.is_some_and(|steal| steal >= 0.05) => Some(Paint::Red),
                    "%user" | "%system" => level(*part),
                    _ => None,
                };
                line.right(paint, &share(*part), NUMBER)
            })
            .done()
    }

    /// One of several CPUs on a line: its bar and its utilisation.
    fn cell(&self, line: LineBuilder, name: &str, shares: &Shares, width: usize) -> LineBuilder {
        // Without iowait, because the CPU is idle then.
        let known = shares[..SORTS.len() - 1].iter().flatten().copied();
        let busy = known.reduce(|a, b| a + b);
        let line = line.left(name, SHORT_NAME);
        let line = self.marks(line, shares, width - SHORT_NAME - SHORT_NUMBER - 2);
        line.right(level(busy), &share(busy), SHORT_NUMBER)
            .push("  ")
    }

    fn marks(&self, mut line: LineBuilder, shares: &Shares, bar: usize) -> LineBuilder {
        let mut drawn = 0;
        let mut sum = 0.0;
        for (part, sort) in shares.iter().zip(SORTS) {
            sum += part.unwrap_or(0.0).max(0.0);
            // The sum is rounded, not each part, so that the bar of a busy CPU is full.
            let until = ((sum / 100.0 * bar as f64).round() as usize).min(bar);
            let mark = if self.style.unicode { sort.2 } else { sort.3 };
            let marks: String = std::iter::repeat_n(mark, until - drawn).collect();
            line = line.paint(sort.4, &marks);
            drawn = until;
        }
        line.push(&" ".repeat(bar - drawn))
    }
}

/// A line for each mark of the bars.
pub(super) fn legend(style: Style) -> Vec<String> {
    let words = [
        "in user mode",
        "in the kernel",
        "interrupts, soft ones included",
        "taken by the hypervisor",
        "idle while a task of the CPU waits for I/O",
    ];
    let mut lines = Vec::new();
    for ((_, head, mark, ascii, paint), words) in SORTS.iter().zip(words) {
        let mark = if style.unicode { *mark } else { *ascii };
        let line = LineBuilder::new(style).push("  ");
        let line = line.paint(*paint, &mark.to_string());
        lines.push(line.push(&format!("  {head:7} {words}")).done());
    }
    lines
}

fn shares(latest: &Latest, row: &FigureRow) -> Shares {
    SORTS.map(|(column, ..)| latest.value(row, column))
}

/// The mean of neighbouring CPUs.
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
