//! File-operation benchmarks: live tables with one row per second, their closing row, and `fsbench/NAME` lines.
//!
//! A result is a closing row, the rows of seconds above it, and the `fsbench/` line below it. Any of them can be
//! missing. The table truncates names to ten letters; they are completed from the surrounding text.

mod below;
mod figures;
mod names;
mod series;
mod table;

use std::ops::Range;

use self::below::Below;
use self::figures::Ended;
use self::names::Names;
use self::table::{Line, Named, Row};
use super::benchstat::Keys;
use super::context::{Context, results_of};
use super::extract::{Extract, ExtractContent};
use super::lines::Lines;

pub(super) use self::figures::{of_cycles, of_line};

/// The name of the form in results.
const FORM: &str = "fsbench table";

/// Highest relative difference between the rate of a table and that of the line below it, which can be more precise.
const SAME_RATE: f64 = 0.01;

/// A benchmark whose lines are being collected.
#[derive(Debug, Default)]
struct Gathering {
    /// Its first line; 0: none yet.
    start: u32,
    /// The line after its last one.
    end: u32,
    running: Option<String>,
    description: Option<String>,
    head: Vec<String>,
    /// The head is that of the closing row.
    closing: bool,
    series: Vec<(u32, Row)>,
    closed: Option<Row>,
    below: Below,
    named: Option<Named>,
}

impl Gathering {
    fn takes(&mut self, line: u32) {
        if self.start == 0 {
            self.start = line;
        }
        self.end = line + 1;
    }

    fn lines(&self) -> Range<u32> {
        self.start..self.end
    }

    /// The name in the table's rows.
    fn optype(&self) -> Option<&str> {
        let row = self.closed.as_ref();
        row.or_else(|| self.series.first().map(|(_, row)| row))
            .map(|row| row.optype.as_str())
    }

    /// The name above the table, if it is equal to that of the closing line as far as names of benchmarks can be
    /// compared.
    fn announced(&self, named: &Named) -> Option<&str> {
        let running = self.running.as_deref()?;
        names::alike(running, &named.name).then_some(running)
    }

    /// Whether a closing line belongs to the collected lines.
    fn is_closed_by(&self, named: &Named) -> bool {
        let running = self.announced(named);
        let fits = |optype| names::fits(running.unwrap_or(&named.name), optype);
        let same_rate = |rate: f64| (rate - named.rate).abs() <= SAME_RATE * named.rate;
        let same_figures = |row: &Row| {
            row.get("ops(total)") == Some(named.ops)
                && row.get("ops/sec(cum)").is_some_and(same_rate)
        };
        self.named.is_none()
            && self.optype().is_some_and(fits)
            && self.closed.as_ref().is_none_or(same_figures)
    }
}

/// All results of this form.
pub(super) fn read(lines: &Lines<'_>) -> Vec<Extract> {
    let mut reader = Reader {
        lines,
        keys: Keys::of(lines),
        names: Names::default(),
        now: Gathering::default(),
        found: Vec::new(),
    };
    for (number, text) in lines.iter() {
        reader.keys.note(text);
        reader.line(number, text);
    }
    reader.end();
    reader.found
}

struct Reader<'l, 'a> {
    lines: &'l Lines<'a>,
    /// The keys in force for benchmark lines.
    keys: Keys,
    names: Names,
    now: Gathering,
    found: Vec<Extract>,
}

impl Reader<'_, '_> {
    fn line(&mut self, number: u32, text: &str) {
        match table::line(text) {
            Line::Running(name) => {
                self.end();
                self.names.note(&name);
                self.now.running = Some(name);
                self.now.takes(number);
            }
            Line::Description(words) if self.now.running.is_some() => {
                self.now.description = Some(words);
                self.now.takes(number);
            }
            Line::SeriesHead(columns) => self.head(number, columns, false),
            Line::ClosingHead(columns) => self.head(number, columns, true),
            Line::Named(named) => self.named(number, named),
            Line::Full(named) => self.full(number, text, &named),
            Line::Description(_) | Line::Other => self.other(number, text),
        }
    }

    fn head(&mut self, number: u32, columns: Vec<String>, closing: bool) {
        if self.now.closed.is_some() {
            self.end();
        }
        self.now.head = columns;
        self.now.closing = closing;
        self.now.takes(number);
    }

    fn other(&mut self, number: u32, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        if self.now.closed.is_some() && self.now.below.takes(text) {
            self.now.takes(number);
            return;
        }
        let row = match self.now.closed {
            None => table::row(text, &self.now.head),
            Some(_) => None,
        };
        match row {
            Some(row) if self.now.closing => {
                self.now.closed = Some(row);
                self.now.takes(number);
            }
            Some(row) => self.second(number, row),
            // Any other line ends a table; a benchmark that is only announced continues.
            None => {
                if !self.now.head.is_empty() || text.trim_start().starts_with("```") {
                    self.end();
                }
                self.names.note_prose(text);
            }
        }
    }

    /// A row of the series. A row that does not follow the previous one begins another trial.
    fn second(&mut self, number: u32, row: Row) {
        if let Some((_, last)) = self.now.series.last()
            && (last.optype != row.optype || last.elapsed >= row.elapsed)
        {
            let head = self.now.head.clone();
            self.end();
            self.now.head = head;
        }
        self.now.series.push((number, row));
        self.now.takes(number);
    }

    /// A line that repeats the table with more digits: its figures are used, and the table adds its seconds.
    fn full(&mut self, number: u32, text: &str, named: &Named) {
        if self.now.closed.is_none() || !self.now.is_closed_by(named) {
            return self.other(number, text);
        }
        self.now.takes(number);
        let now = std::mem::take(&mut self.now);
        let name = now.announced(named).unwrap_or(&named.name).to_owned();
        self.names.note(&name);
        let lines = now.lines();
        let ended = Ended::of(now.closed.as_ref(), Some(named), now.below);
        let found = self.keys.benchmark(self.lines, number, text);
        let (Some(ended), Some(ExtractContent::Trial(mut trial))) =
            (ended, found.map(|it| it.what))
        else {
            // The reader of that line reports its error.
            self.found.push(Extract::known(now.start..number));
            return;
        };
        if trial.configuration.is_empty() {
            trial.configuration = configuration(&self.lines.context(lines.start));
        }
        trial.workload.clone_from(&name);
        figures::beside_line(&mut trial, &name, &ended);
        if let Some(words) = now.description.as_deref().filter(|words| !words.is_empty()) {
            let fact = figures::workload_fact("description", words);
            trial.facts.push(fact);
        }
        series::fill(&mut trial, &now.series, &ended);
        self.found.push(Extract::trial(lines, *trial));
    }

    fn named(&mut self, number: u32, named: Named) {
        if self.now.is_closed_by(&named) {
            self.names.note(&named.name);
            self.now.named = Some(named);
            self.now.takes(number);
            self.end();
            return;
        }
        self.end();
        self.names.note(&named.name);
        // With `Benchmark` in front, the keys above the line apply as well, and the reader of that form takes it.
        if !named.prefixed {
            let mut trial = self.lines.trial("fsbench line", number);
            trial.configuration = configuration(&self.lines.context(number));
            of_line(&mut trial, &named.name, named.ops, named.rate);
            self.found.push(Extract::trial(number..number + 1, trial));
        }
    }

    /// Converts the collected lines to a result.
    fn end(&mut self) {
        let now = std::mem::take(&mut self.now);
        let Some(optype) = now.optype() else {
            if !now.head.is_empty() {
                let why = "the head of a table of file operations without a row below it";
                self.found.push(Extract::unread(now.lines(), why));
            }
            return;
        };
        let stated = now.named.as_ref().map(|named| &named.name);
        let running = now
            .running
            .as_ref()
            .filter(|name| names::fits(name, optype));
        let name = stated.or(running).cloned();
        let name = name.unwrap_or_else(|| self.names.whole(optype));
        let below = now.below.clone();
        let Some(ended) = Ended::of(now.closed.as_ref(), now.named.as_ref(), below) else {
            let why = format!(
                "{} rows of `{name}` without the row that closes them: the benchmark did not end, or was cut off here",
                now.series.len()
            );
            self.found.push(Extract::unread(now.lines(), why));
            return;
        };
        let mut trial = self.lines.trial(FORM, now.start);
        trial.configuration = configuration(&self.lines.context(now.start));
        figures::of_table(&mut trial, &name, &ended);
        if let Some(words) = now.description.as_deref().filter(|words| !words.is_empty()) {
            trial
                .facts
                .push(figures::workload_fact("description", words));
        }
        series::fill(&mut trial, &now.series, &ended);
        self.found.push(Extract::trial(now.lines(), trial));
    }
}

/// The configuration that a heading names: `1. ext4 results from each run`.
pub(super) fn configuration(context: &Context<'_>) -> String {
    context
        .nearest(|heading| results_of(&heading.text).is_some())
        .and_then(|heading| results_of(&heading.text))
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests;
