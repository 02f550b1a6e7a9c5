//! sysbench's figures, as printed.

use super::super::lines::Lines;
use crate::number::number;

/// The figures of one run; `None` if not printed.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Result {
    /// Per second.
    pub(super) reads: Option<f64>,
    pub(super) writes: Option<f64>,
    pub(super) fsyncs: Option<f64>,
    /// MiB per second.
    pub(super) read_mib: Option<f64>,
    pub(super) written_mib: Option<f64>,
    /// Seconds.
    pub(super) total_time: Option<f64>,
    pub(super) events: Option<f64>,
    /// Milliseconds.
    pub(super) min: Option<f64>,
    pub(super) avg: Option<f64>,
    pub(super) max: Option<f64>,
    /// (percent, milliseconds)
    pub(super) percentile: Option<(f64, f64)>,
    pub(super) sum: Option<f64>,
    /// Mean and deviation over the threads.
    pub(super) thread_events: Option<(f64, f64)>,
    /// Mean and deviation over the threads, seconds.
    pub(super) thread_time: Option<(f64, f64)>,
}

/// Blank lines that may be between two sections.
const GAP: u32 = 3;

impl Result {
    /// Parses from `File operations:` on; also returns the line after the last one.
    pub(super) fn read(lines: &Lines<'_>, from: u32) -> (Result, u32) {
        const SECTIONS: [&str; 4] = [
            "Throughput:",
            "General statistics:",
            "Latency (ms):",
            "Threads fairness:",
        ];
        let mut result = Result::default();
        let mut end = from + 1;
        for (number, text) in lines.range(from + 1..lines.count() + 1) {
            let text = text.trim();
            if SECTIONS.contains(&text) || result.line(text) {
                end = number + 1;
            } else if !text.is_empty() || number - end >= GAP {
                break;
            }
            if result.thread_time.is_some() {
                break;
            }
        }
        (result, end)
    }

    /// How many of the most important figures are present.
    pub(super) fn values(&self) -> usize {
        [self.reads, self.writes, self.fsyncs, self.events, self.avg]
            .iter()
            .flatten()
            .count()
    }

    /// Takes a line `name: value`; `false` if it has another form or repeats a value.
    fn line(&mut self, text: &str) -> bool {
        let Some((name, value)) = text.rsplit_once(':') else {
            return false;
        };
        let value = value.trim();
        let place = match name.trim_end() {
            "reads/s" => &mut self.reads,
            "writes/s" => &mut self.writes,
            "fsyncs/s" => &mut self.fsyncs,
            "read, MiB/s" => &mut self.read_mib,
            "written, MiB/s" => &mut self.written_mib,
            "total time" => &mut self.total_time,
            "total number of events" => &mut self.events,
            "min" => &mut self.min,
            "avg" => &mut self.avg,
            "max" => &mut self.max,
            "sum" => &mut self.sum,
            "events (avg/stddev)" => return pair(&mut self.thread_events, value),
            "execution time (avg/stddev)" => return pair(&mut self.thread_time, value),
            other => return self.percentile(other, value),
        };
        match number(value.trim_end_matches('s')) {
            Some(number) if place.is_none() => {
                *place = Some(number);
                true
            }
            _ => false,
        }
    }

    /// `95th percentile`, `99.9th percentile`.
    fn percentile(&mut self, name: &str, value: &str) -> bool {
        let percent = name
            .strip_suffix(" percentile")
            .map(|ordinal| ordinal.trim_end_matches(char::is_alphabetic))
            .and_then(number);
        match percent.zip(number(value)) {
            Some(pair) if self.percentile.is_none() => {
                self.percentile = Some(pair);
                true
            }
            _ => false,
        }
    }
}

fn pair(place: &mut Option<(f64, f64)>, value: &str) -> bool {
    let read = value
        .split_once('/')
        .and_then(|(mean, deviation)| number(mean).zip(number(deviation)));
    let fresh = read.is_some() && place.is_none();
    if fresh {
        *place = read;
    }
    fresh
}
