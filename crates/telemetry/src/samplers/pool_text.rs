//! Parses the reports of `zpool iostat -v` line by line, without I/O.
//!
//! Each report begins with its head. A device is listed below its parent, indented further: its name is its path,
//! `tank/mirror-0/sda`. Without a head (`-H`) there is no indentation, and two disks with the same name could not be
//! distinguished.

use std::collections::BTreeMap;

/// Maximum number of rows; a longer report is invalid.
const ROWS: usize = 4096;

/// A device by its path in its pool, and its values in the order of [`iodyno_model::POOL`].
pub type PoolRow = (String, [Option<u64>; 6]);

/// All reports in the output of `zpool iostat -v`, in order. `since_boot`: the command ran without `-y`, so the first
/// report, and each one after pools appeared or disappeared, counts since boot and is omitted. Text that is not a
/// report is skipped.
pub fn pool_reports(text: &str, since_boot: bool) -> Vec<Vec<PoolRow>> {
    let mut reader = Reader::new(since_boot);
    let mut reports: Vec<Report> = text.lines().filter_map(|line| reader.line(line)).collect();
    reports.extend(reader.take());
    reports.into_iter().map(|report| report.rows).collect()
}

/// One report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Report {
    /// The devices by path, which is unique; pools before their devices.
    pub(crate) rows: Vec<PoolRow>,
}

/// Converts lines to reports.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The first report, and each one after pools appeared or disappeared, counts since boot.
    since_boot: bool,
    /// Number of pools in the previous report; `None`: there was none.
    pools: Option<usize>,
    current: Report,
    path: Path,
    /// The last line ends a pool.
    ended: bool,
}

impl Reader {
    /// `since_boot`: the command does not omit reports that count since boot.
    pub(crate) fn new(since_boot: bool) -> Reader {
        Reader {
            since_boot,
            ..Reader::default()
        }
    }

    /// Adds the next line, without its end. Returns a report if the line begins another one.
    pub(crate) fn line(&mut self, text: &str) -> Option<Report> {
        if is_head(text) {
            return self.take();
        }
        if is_separator(text) {
            // The line below the head does not end a pool.
            self.ended = !self.current.rows.is_empty();
            self.path.above.clear();
        } else if let Some(row) = Row::read(text) {
            self.ended = false;
            self.enter(&row);
        }
        None
    }

    /// Whether the report may be complete: no further line has to follow it.
    pub(crate) fn may_be_complete(&self) -> bool {
        self.ended
    }

    /// Returns the current report, which is complete now; `None`: there is none, or it counts since boot.
    pub(crate) fn take(&mut self) -> Option<Report> {
        let report = std::mem::take(&mut self.current);
        (self.path, self.ended) = (Path::default(), false);
        if report.rows.is_empty() {
            return None;
        }
        let pools = report
            .rows
            .iter()
            .filter(|row| !row.0.contains('/'))
            .count();
        let as_before = self.pools.replace(pools) == Some(pools);
        (as_before || !self.since_boot).then_some(report)
    }

    fn enter(&mut self, row: &Row<'_>) {
        // `logs`, `cache`: not indented, but still part of the pool above.
        let section = row.indent == 0 && row.values == [None; 6] && !self.path.is_empty();
        let name = self.path.enter(row.name, row.indent + usize::from(section));
        if !section && self.current.rows.len() < ROWS {
            self.current.rows.push((name, row.values));
        }
    }
}

/// The path of a device in its pool, from the indentation.
#[derive(Debug, Default)]
struct Path {
    above: Vec<(usize, String)>,
    /// The paths in this report with their number of occurrences, so that two mirrors without a number stay separate.
    seen: BTreeMap<String, u32>,
}

impl Path {
    fn is_empty(&self) -> bool {
        self.above.is_empty()
    }

    /// The name, with a number if another device has it.
    fn unique(&mut self, name: String) -> String {
        let mut times = self.seen.get(&name).map_or(1, |times| times + 1);
        let mut full = name.clone();
        while times > 1 {
            full = format!("{name}#{times}");
            if !self.seen.contains_key(&full) {
                break;
            }
            times += 1;
        }
        self.seen.insert(name, times);
        if times > 1 {
            self.seen.insert(full.clone(), 1);
        }
        full
    }

    fn enter(&mut self, name: &str, indent: usize) -> String {
        while self.above.last().is_some_and(|(other, _)| *other >= indent) {
            self.above.pop();
        }
        let full = match self.above.last() {
            // A file is named by its full path.
            Some((_, above)) => format!("{above}/{}", name.trim_start_matches('/')),
            None => name.to_owned(),
        };
        let full = self.unique(full);
        self.above.push((indent, full.clone()));
        full
    }
}

/// `pool alloc free read write read write`, or the line above it.
fn is_head(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    match words.next() {
        Some("pool") => words.eq(["alloc", "free", "read", "write", "read", "write"]),
        Some("capacity") => words.eq(["operations", "bandwidth"]),
        _ => false,
    }
}

fn is_separator(text: &str) -> bool {
    // The columns of a head without pools have no name to be below of.
    text.trim_start().starts_with("---") && text.bytes().all(|c| c == b'-' || c == b' ')
}

/// A line with six values.
#[derive(Debug, PartialEq, Eq)]
struct Row<'a> {
    name: &'a str,
    indent: usize,
    values: [Option<u64>; 6],
}

impl Row<'_> {
    fn read(text: &str) -> Option<Row<'_>> {
        let (mut rest, mut values) = (text.trim_end(), [None; 6]);
        // From the end, because a name can contain blanks.
        for value in values.iter_mut().rev() {
            let (before, word) = rest.rsplit_once([' ', '\t'])?;
            *value = amount(word)?;
            rest = before.trim_end();
        }
        // With exact numbers, a device without a capacity of its own has the value 0.
        if values[..2] == [Some(0); 2] {
            values[..2].fill(None);
        }
        let name = rest.trim_start();
        (!name.is_empty()).then_some(Row {
            name,
            indent: rest.len() - name.len(),
            values,
        })
    }
}

/// Parses `126G`, `14.8K`, `0`, `-`, with powers of 1024, rounded to an integer. A value that became negative
/// (`16.0E`) is unknown.
fn amount(word: &str) -> Option<Option<u64>> {
    if word == "-" {
        return Some(None);
    }
    let (digits, power) = match word.char_indices().next_back()? {
        (at, suffix) if suffix.is_ascii_uppercase() => (&word[..at], 1 + "KMGTPEZ".find(suffix)?),
        _ => (word, 0),
    };
    let plain = digits.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    let exact = || digits.parse().ok().filter(|_| power == 0);
    let rounded = || {
        let value: f64 = digits.parse().ok()?;
        Some((value * 1024f64.powi(power as i32)).round() as u64)
    };
    let value: u64 = plain.then(|| exact().or_else(rounded)).flatten()?;
    Some(i64::try_from(value).is_ok().then_some(value))
}

#[cfg(test)]
mod tests;
