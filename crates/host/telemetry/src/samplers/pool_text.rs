//! Parses the reports of `zpool iostat -v` line by line, without I/O.
//!
//! Each report begins with its head, whose second line names the columns: versions of ZFS have different ones. A device
//! is listed below its parent, indented further: its path is `tank/mirror-0/sda`. Without a head (`-H`) there is no
//! indentation, and two disks with the same name could not be distinguished.

use std::collections::BTreeMap;

use iodyno_model::POOL;

/// Maximum number of rows; a longer report is invalid.
const ROWS: usize = 4096;

/// The columns that every version has.
const LEAST: usize = 6;

/// A line of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRow {
    /// The path in the pool, unique in its report: `tank/mirror-0/sda`.
    pub path: String,
    /// The name as printed: of a pool, a group of devices, a disk, or the path of a file.
    pub name: String,
    /// The values of [`PoolReport::columns`].
    pub values: Vec<Option<u64>>,
}

/// One report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolReport {
    /// The columns: their places in [`POOL`], ascending.
    pub columns: Vec<usize>,
    /// Pools before their devices.
    pub rows: Vec<PoolRow>,
}

impl PoolReport {
    /// The rows without a row below them: disks, partitions and files, each with the name of its pool.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = (&str, &PoolRow)> {
        let below = |row: &PoolRow, next: &PoolRow| {
            let rest = next.path.strip_prefix(row.path.as_str());
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        let rows = self.rows.iter().enumerate();
        rows.filter_map(move |(place, row)| {
            let next = self.rows.get(place + 1);
            let (pool, _) = row.path.split_once('/')?;
            (!next.is_some_and(|next| below(row, next))).then_some((pool, row))
        })
    }
}

/// All reports in the output of `zpool iostat -v`, in order. `since_boot`: the command ran without `-y`, so the first
/// report, and each one after pools appeared or disappeared, counts since boot and is omitted. Text that is not a
/// report is skipped.
pub fn pool_reports(text: &str, since_boot: bool) -> Vec<PoolReport> {
    let mut reader = Reader::new(since_boot);
    let mut reports: Vec<PoolReport> = text.lines().filter_map(|line| reader.line(line)).collect();
    reports.extend(reader.take());
    reports
}

/// Converts lines to reports.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The first report, and each one after pools appeared or disappeared, counts since boot.
    since_boot: bool,
    /// Number of pools in the previous report; `None`: there was none.
    pools: Option<usize>,
    /// Reports after the first that were omitted because they count since boot.
    omitted: u64,
    /// The first line of a head: names of groups of columns.
    groups: Vec<String>,
    /// Index in [`POOL`] of each column; `None`: an unknown column. Empty without a head.
    columns: Vec<Option<usize>>,
    current: PoolReport,
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

    /// Adds the next line, without its newline. Returns a report if the line begins another one.
    pub(crate) fn line(&mut self, text: &str) -> Option<PoolReport> {
        if let Some(groups) = groups(text) {
            self.groups = groups;
            return self.take();
        }
        if let Some(columns) = columns(&self.groups, text) {
            self.columns = columns;
            return self.take();
        }
        if is_separator(text) {
            // The line below the head does not end a pool.
            self.ended = !self.current.rows.is_empty();
            self.path.above.clear();
        } else if let Some(row) = Row::read(text, &self.columns) {
            self.ended = false;
            self.enter(row);
        }
        None
    }

    /// Whether a report has begun.
    pub(crate) fn has_begun(&self) -> bool {
        !self.current.rows.is_empty()
    }

    /// Whether the report may be complete without further lines.
    pub(crate) fn may_be_complete(&self) -> bool {
        self.ended
    }

    /// Takes the current report, now complete; `None`: no report, or one that counts since boot.
    pub(crate) fn take(&mut self) -> Option<PoolReport> {
        let mut report = std::mem::take(&mut self.current);
        (self.path, self.ended) = (Path::default(), false);
        if report.rows.is_empty() {
            return None;
        }
        report.columns = known(&self.columns);
        let pools = report.rows.iter().filter(|row| !row.path.contains('/'));
        let pools = pools.count();
        let before = self.pools.replace(pools);
        let usable = before == Some(pools) || !self.since_boot;
        self.omitted += u64::from(!usable && before.is_some());
        usable.then_some(report)
    }

    /// The number of reports since the last call that were omitted because they count since boot, without the first
    /// report of all.
    pub(crate) fn take_omitted(&mut self) -> u64 {
        std::mem::take(&mut self.omitted)
    }

    fn enter(&mut self, row: Row<'_>) {
        // `logs`, `cache`: not indented, but still part of the pool above.
        let nothing = row.values.iter().all(Option::is_none);
        let section = row.indent == 0 && nothing && !self.path.is_empty();
        let path = self.path.enter(row.name, row.indent + usize::from(section));
        if !section && self.current.rows.len() < ROWS {
            self.current.rows.push(PoolRow {
                path,
                name: row.name.to_owned(),
                values: row.values,
            });
        }
    }
}

/// The known columns; without a head, those of all versions.
fn known(columns: &[Option<usize>]) -> Vec<usize> {
    match columns {
        [] => (0..LEAST).collect(),
        columns => columns.iter().copied().flatten().collect(),
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

/// The line `capacity operations bandwidth …` above the names of columns.
fn groups(text: &str) -> Option<Vec<String>> {
    let words: Vec<String> = text.split_ascii_whitespace().map(str::to_owned).collect();
    let least = ["capacity", "operations", "bandwidth"];
    (words.len() >= least.len() && words.iter().zip(least).all(|(word, least)| word == least))
        .then_some(words)
}

/// The columns that the line `pool alloc free read write read write …` names, below a line of groups. A group has a
/// column `wait`, or two columns.
fn columns(groups: &[String], text: &str) -> Option<Vec<Option<usize>>> {
    const HEAD: [&str; 1 + LEAST] = ["pool", "alloc", "free", "read", "write", "read", "write"];
    let mut words = text.split_ascii_whitespace();
    if !HEAD.iter().all(|head| words.next() == Some(head)) {
        return None;
    }
    let mut columns: Vec<Option<usize>> = (0..LEAST).map(Some).collect();
    let place = |group: &str, word: &str| {
        let name = format!("{group}_{word}");
        POOL.iter().position(|column| column.0 == name)
    };
    for group in groups.iter().skip(3) {
        let Some(first) = words.next() else { break };
        columns.push(place(group, first));
        if first != "wait" {
            columns.extend(words.next().map(|second| place(group, second)));
        }
    }
    columns.extend(words.map(|_| None));
    // Each column once, in the order of the table.
    let mut last = None;
    for column in &mut columns {
        match *column > last {
            true => last = *column,
            false => *column = None,
        }
    }
    Some(columns)
}

fn is_separator(text: &str) -> bool {
    // Without pools, there are no dashes in the column of names.
    text.trim_start().starts_with("---") && text.bytes().all(|c| c == b'-' || c == b' ')
}

/// A line with a value for each column.
#[derive(Debug, PartialEq, Eq)]
struct Row<'a> {
    name: &'a str,
    indent: usize,
    values: Vec<Option<u64>>,
}

impl Row<'_> {
    fn read<'a>(text: &'a str, columns: &[Option<usize>]) -> Option<Row<'a>> {
        let mut rest = text.trim_end();
        let mut values = Vec::new();
        // From the end, because a name can contain blanks.
        for place in (0..columns.len().max(LEAST)).rev() {
            let (before, word) = rest.rsplit_once([' ', '\t'])?;
            let value = amount(word)?;
            if columns.get(place).is_none_or(Option::is_some) {
                values.push(value);
            }
            rest = before.trim_end();
        }
        values.reverse();
        // With exact numbers, a device without its own capacity has the value 0.
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
