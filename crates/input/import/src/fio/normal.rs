//! fio's normal output, versions 2 and 3, complete or as a pasted extract.

use std::collections::{BTreeMap, HashMap};

use super::entry::{DIRECTIONS, Direction, Entry, Latency};
use super::quantity::{bytes, count, date_ms, per_second, span_ns};
use crate::lines::Lines;
use crate::number::unit_ns;

/// The form of the entries.
pub(super) const FORM: &str = "fio output";

/// All jobs of a text.
pub(super) fn entries(lines: &Lines<'_>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut version = None;
    let mut announced: HashMap<String, BTreeMap<String, String>> = HashMap::new();
    let mut open: Option<Block> = None;
    let (mut run, mut began) = (0, 0);
    for (line, text) in lines.iter() {
        if let Some(block) = &mut open {
            if block.take(line, text) {
                continue;
            }
            entries.extend(open.take().and_then(Block::done));
        }
        let trimmed = text.trim();
        if trimmed.starts_with("fio-") && !trimmed.contains([' ', ':', '/']) {
            version = Some(trimmed.to_owned());
            (run, began) = (line, line);
        } else if let Some((name, options)) = announcement(trimmed) {
            announced.insert(name, options);
            (run, began) = (line, line);
        } else if trimmed.starts_with("Run status group") {
            run = line;
        } else {
            open = Block::begin(line, text, version.as_ref(), &announced);
            if let Some(block) = &mut open {
                // Pasted lines without a job's first line are separate results.
                let pasted = block.entry.name.is_empty();
                block.entry.run.0 = if pasted { line } else { run };
                // In containers every run can have the same process number.
                if let Some((line, _)) = &mut block.entry.process {
                    *line = began;
                }
            }
        }
    }
    entries.extend(open.and_then(Block::done));
    entries
}

/// Parses fio's description of a job: `a: (g=0): rw=randrw, bs=(R) 4096B-4096B, …`.
fn announcement(line: &str) -> Option<(String, BTreeMap<String, String>)> {
    let (name, rest) = line.split_once(": (g=")?;
    let (_, rest) = rest.split_once("): ")?;
    let mut options = BTreeMap::new();
    for part in rest.split(", ") {
        if let Some((key, value)) = part.split_once('=')
            && ["rw", "bs", "ioengine", "iodepth"].contains(&key)
        {
            options.insert(key.to_owned(), value.to_owned());
        }
    }
    if let Some(sizes) = options.get_mut("bs") {
        // `(R) 4096B-4096B`, or `4K-4K/4K-4K/4K-4K` in version 2: minimum and maximum.
        let first = sizes.trim_start_matches("(R) ").split('/').next();
        match first.and_then(|sizes| sizes.split_once('-')) {
            Some((least, greatest)) if least == greatest => {
                *sizes = bytes(least).map_or_else(|| least.to_owned(), |bytes| bytes.to_string());
            }
            _ => *sizes = sizes.trim_start_matches("(R) ").to_owned(),
        }
    }
    Some((name.to_owned(), options))
}

/// A job whose lines are being read.
struct Block {
    entry: Entry,
    indent: usize,
    /// The direction of the current lines; `None`: the syncs, or no direction yet.
    current: Option<usize>,
    /// The distribution to which a percentile block belongs.
    percentiles: Option<(Distribution, f64)>,
    issued: Vec<u64>,
}

#[derive(Clone, Copy)]
enum Distribution {
    Total,
    Completion,
    Sync,
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

impl Block {
    /// A block begins with a job's first line, or with a direction's if the job's is missing.
    fn begin(
        line: u32,
        text: &str,
        version: Option<&String>,
        announced: &HashMap<String, BTreeMap<String, String>>,
    ) -> Option<Block> {
        let mut entry = Entry {
            form: FORM,
            lines: line..line + 1,
            line,
            version: version.cloned(),
            ..Entry::default()
        };
        if let Some((name, rest)) = text.trim().split_once(": (groupid=") {
            let mut numbers = rest.split([',', ')', ':', '=']).map(str::trim);
            entry.name = name.to_owned();
            entry.group = numbers.next()?.parse().ok();
            entry.clones = after(rest, "jobs=").and_then(|n| n.parse().ok());
            entry.error = after(rest, "err=")?.parse().ok()?;
            // Clones of one run end at the same time; a repetition of the job ends later.
            if let Some((process, ended)) = after(rest, "pid=").zip(rest.split_once("pid=")) {
                let written = ended.1.trim_start_matches(|c: char| c != ' ');
                entry.process = process.parse().ok().map(|process| (0, process));
                entry.written_ms = date_ms(written);
                entry.run.1 = Some(written.to_owned());
            }
            entry.options = announced.get(name).cloned();
            return Some(Block::new(entry, indent(text)));
        }
        direction_line(text)?;
        let mut block = Block::new(entry, indent(text).saturating_sub(1));
        block.take_direction(text);
        Some(block)
    }

    fn new(entry: Entry, indent: usize) -> Block {
        Block {
            entry,
            indent,
            current: None,
            percentiles: None,
            issued: Vec::new(),
        }
    }

    /// Takes a line that belongs to the job; otherwise returns `false`.
    fn take(&mut self, line: u32, text: &str) -> bool {
        let trimmed = text.trim();
        let headless = self.entry.name.is_empty();
        let belongs = !trimmed.is_empty()
            && (indent(text) > self.indent || (headless && indent(text) >= self.indent))
            && !trimmed.contains(": (groupid=")
            && super::sum_of(trimmed).is_none();
        if !belongs || (direction_line(text).is_some() && !self.take_direction(text)) {
            return false;
        }
        self.entry.lines.end = line + 1;
        if let Some(cells) = trimmed.strip_prefix('|') {
            self.take_percentiles(cells);
        } else if let Some((what, numbers)) = trimmed.split_once(':') {
            self.take_numbers(what.trim(), numbers);
        }
        true
    }

    /// Takes a direction's first line; `false` if the direction already has one.
    fn take_direction(&mut self, text: &str) -> bool {
        let Some((index, direction)) = direction_line(text) else {
            return false;
        };
        let slot = &mut self.entry.directions[index];
        let free = slot.is_none();
        if free {
            *slot = Some(direction);
            self.current = Some(index);
            self.percentiles = None;
        }
        free
    }

    fn take_numbers(&mut self, what: &str, numbers: &str) {
        if what.starts_with("fsync") {
            self.current = None;
        } else if what == "cpu" {
            let share = |name| {
                after(numbers, name)?
                    .trim_end_matches('%')
                    .parse::<f64>()
                    .ok()
            };
            self.entry.cpu_percent = share("usr=").zip(share("sys=")).map(|(a, b)| a + b);
        } else if what.starts_with("issued") {
            let totals = after_until(numbers, "total=", ' ').unwrap_or_default();
            let first = |part: &str| {
                part.trim_start_matches(|c: char| !c.is_ascii_digit())
                    .parse()
            };
            self.issued = totals
                .split([',', '/'])
                .map_while(|part| first(part).ok())
                .collect();
        } else if let Some((name, unit)) = what.split_once('(') {
            let Some(factor) = unit_ns(unit.trim_end_matches(')')) else {
                return;
            };
            let name = name.trim();
            if let Some(name) = name.strip_suffix(" percentiles") {
                self.percentiles = distribution(name).map(|which| (which, factor));
            } else if let Some(which) = distribution(name) {
                let number = |key| after(numbers, key).and_then(|text| count(&text));
                let latency = Latency {
                    mean: number("avg=").map(|value| value * factor),
                    max: number("max=").map(|value| value * factor),
                    ..Latency::default()
                };
                if latency.max.is_some()
                    && let Some(slot) = self.slot(which)
                {
                    *slot = Some(latency);
                }
            }
        }
    }

    fn slot(&mut self, which: Distribution) -> Option<&mut Option<Latency>> {
        match (which, self.current) {
            (Distribution::Sync, _) => {
                let syncs = self.entry.sync.get_or_insert_default();
                Some(&mut syncs.latency)
            }
            (Distribution::Total, Some(index)) => {
                Some(&mut self.entry.directions[index].as_mut()?.total)
            }
            (Distribution::Completion, Some(index)) => {
                Some(&mut self.entry.directions[index].as_mut()?.completion)
            }
            (_, None) => None,
        }
    }

    /// `1.00th=[    5],  5.00th=[    5],`
    fn take_percentiles(&mut self, cells: &str) {
        let Some((which, factor)) = self.percentiles else {
            return;
        };
        let Some(slot) = self.slot(which) else {
            return;
        };
        let latency = slot.get_or_insert_default();
        for cell in cells.split("],") {
            let pair = cell.split_once("th=[").and_then(|(percent, value)| {
                let value = count(value.trim_matches([' ', ']']))?;
                Some((percent.trim().parse::<f64>().ok()?, value * factor))
            });
            latency.percentiles.extend(pair);
        }
    }

    /// The job; ops are replaced by exact counts if these agree with the rounded rates.
    fn done(mut self) -> Option<Entry> {
        for (index, direction) in self.entry.directions.iter_mut().enumerate() {
            let Some(direction) = direction else { continue };
            let Some(&issued) = self.issued.get(index) else {
                continue;
            };
            let exact = issued as f64 / direction.runtime_ns * 1e9;
            let rounded = direction.iops.unwrap_or(exact);
            // Rates have three digits. If the difference is larger, the issued ops include those of the ramp.
            if exact.is_finite() && (exact - rounded).abs() <= 0.006 * rounded + 0.6 {
                direction.ops = Some(issued);
                direction.iops = Some(exact);
            }
        }
        if let (Some(sync), Some(&issued)) = (&mut self.entry.sync, self.issued.get(3)) {
            sync.ops = Some(issued);
        }
        let any = self.entry.directions.iter().any(Option::is_some);
        (any || self.entry.error != 0).then_some(self.entry)
    }
}

fn distribution(name: &str) -> Option<Distribution> {
    match name {
        "lat" => Some(Distribution::Total),
        "clat" => Some(Distribution::Completion),
        "sync" => Some(Distribution::Sync),
        _ => None,
    }
}

/// `read: IOPS=80.3k, BW=314MiB/s (329MB/s)(314MiB/1001msec)`, or in version 2
/// `read : io=2887.2MB, bw=49274KB/s, iops=12318, runt= 60001msec`.
fn direction_line(text: &str) -> Option<(usize, Direction)> {
    let (name, rest) = text.trim().split_once(':')?;
    let index = DIRECTIONS.iter().position(|known| *known == name.trim())?;
    let (iops, bandwidth, runtime) = match rest.contains("IOPS=") {
        true => {
            let (_, runtime) = rest.split_once(")(")?.1.split_once('/')?;
            let runtime = runtime.split(')').next()?;
            (
                after(rest, "IOPS=")?,
                after(rest, "BW=")?,
                runtime.to_owned(),
            )
        }
        false => (
            after(rest, "iops=")?,
            after(rest, "bw=")?,
            after(rest, "runt=")?,
        ),
    };
    let direction = Direction {
        iops: Some(count(&iops)?),
        bandwidth: Some(per_second(&bandwidth)?),
        runtime_ns: span_ns(&runtime)?,
        ..Direction::default()
    };
    Some((index, direction))
}

/// The word after a key: `avg=56154.19,` → `56154.19`. Blanks after the key are skipped.
fn after(text: &str, key: &str) -> Option<String> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find(key)?;
        let whole = at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric();
        from = at + key.len();
        if whole {
            let rest = text[from..].trim_start();
            let ends = |&(at, c): &(usize, char)| match c {
                ' ' | ')' | ':' | ';' => true,
                // A comma between digits separates groups of three.
                ',' => !rest[at + 1..].starts_with(|c: char| c.is_ascii_digit()),
                _ => false,
            };
            let end = rest
                .char_indices()
                .find(ends)
                .map_or(rest.len(), |(at, _)| at);
            return Some(rest[..end].to_owned());
        }
    }
}

/// As [`after`], up to another character.
fn after_until<'t>(text: &'t str, key: &str, end: char) -> Option<&'t str> {
    let (_, rest) = text.split_once(key)?;
    rest.trim_start().split(end).next()
}
