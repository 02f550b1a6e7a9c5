//! Prints a workload as TOML: each key that differs from its default, and a few others for clarity.

use std::fmt::Write as _;

use iodyno_model::{
    Action, Arrival, Content, CycleStep, FileSet, Job, Subject, Writing, printable,
};
use toml_writer::TomlStringBuilder;

use super::Described;
use super::cycle::{op_word, order_word};

/// The text that [`super::read`] parses to exactly this workload.
pub fn write(described: &Described) -> String {
    let job = &described.job;
    let operations = described.operations();
    let mut text = Text::default();
    text.quoted("name", &described.name);
    text.quoted("about", &described.about);
    text.line("threads", job.clones);
    let folders = if operations.own_folders {
        "own"
    } else {
        "shared"
    };
    text.quoted("folders", folders);
    if let Some(runtime) = job.end.runtime {
        text.quoted("duration", &time(runtime.0));
    }
    if let Some(ops) = job.end.ops {
        text.line("max-ops", ops);
    }
    if job.end.ramp.0 > 0 {
        text.quoted("ramp", &time(job.end.ramp.0));
    }
    if job.pacing.ops_per_s > 0.0 {
        text.line("rate", format_args!("{:?}", total_rate(job)));
        let arrival = match job.pacing.arrival {
            Arrival::Linear => "linear",
            Arrival::Poisson => "poisson",
        };
        text.quoted("arrival", arrival);
    }
    text.line("drain", operations.drain);
    text.line("compress-percent", compress_percent(job));
    if operations.makes_data() || operations.writing.chunk != Writing::CHUNK {
        text.line("chunk", size(operations.writing.chunk));
    }
    if let Some(threads) = operations.writing.threads {
        text.line("setup-threads", threads);
    }
    for set in &operations.sets {
        text.set(set);
    }
    for step in &operations.cycle {
        text.step(step);
    }
    // TOML has the escapes of JSON.
    printable::json(&text.0).into_owned()
}

/// The rate of all threads together which, divided by their number, gives exactly the rate of each.
pub(super) fn total_rate(job: &Job) -> f64 {
    let (each, threads) = (job.pacing.ops_per_s, f64::from(job.clones));
    let total = each * threads;
    // Because division rounds, the dividend may be next to the product.
    let (mut below, mut above) = (total, total);
    for _ in 0..3 {
        for candidate in [below, above] {
            if candidate / threads == each {
                return candidate;
            }
        }
        (below, above) = (below.next_down(), above.next_up());
    }
    total
}

/// Compressible share of a job's data, percent.
pub(super) fn compress_percent(job: &Job) -> u32 {
    match &job.buffers.content {
        Content::Compressible { percent, .. } => *percent,
        _ => 0,
    }
}

/// In the largest unit with an integer value: `1500ms`.
fn time(ns: u64) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let unit = units.iter().find(|(_, factor)| ns.is_multiple_of(*factor));
    let (name, factor) = unit.unwrap_or(&("ns", 1));
    format!("{}{name}", ns / factor)
}

/// In the largest unit with an integer value, in quotes; a number of bytes has no quotes.
fn size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units
        .iter()
        .find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    match unit {
        Some((name, shift)) => format!("\"{}{name}\"", bytes >> shift),
        None => bytes.to_string(),
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, key: &str, value: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{key} = {value}");
    }

    fn quoted(&mut self, key: &str, value: &str) {
        let mut quoted = String::new();
        let built = TomlStringBuilder::new(value).as_basic();
        let _ = toml_writer::TomlWrite::value(&mut quoted, built);
        self.line(key, quoted);
    }

    fn header(&mut self, name: &str) {
        let _ = writeln!(self.0, "\n[[{name}]]");
    }

    fn set(&mut self, set: &FileSet) {
        self.header("files");
        self.quoted("name", &set.name);
        self.line("count", set.count);
        self.line("size", size(set.size));
        self.line("fsync", set.fsync);
    }

    fn step(&mut self, step: &CycleStep) {
        self.header("cycle");
        self.quoted("op", op_word(&step.action));
        match &step.action {
            Action::Open { of }
            | Action::Unlink { of }
            | Action::Rename { of }
            | Action::Stat { of } => self.of(of),
            Action::Write { bytes } | Action::Fallocate { bytes } => {
                self.line("bytes", size(*bytes));
            }
            Action::Append {
                bytes,
                new_file_at,
                keep,
            } => {
                self.line("bytes", size(*bytes));
                self.line("new-file-at", size(*new_file_at));
                if let Some(keep) = keep {
                    self.line("keep", keep);
                }
            }
            Action::Truncate { length } => self.line("length", size(*length)),
            _ => {}
        }
        self.line("timed", step.timed);
    }

    fn of(&mut self, of: &Subject) {
        match of {
            Subject::Current => self.quoted("of", "current"),
            Subject::Set { name, order } => {
                self.quoted("of", name);
                self.quoted("order", order_word(*order));
            }
        }
    }
}
