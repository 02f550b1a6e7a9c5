//! The reports of `zpool iostat -v`, line by line. Pure.
//!
//! Each begins with its head. A device stands below the one that it is part of, indented further: its name is
//! the path that leads there, `tank/mirror-0/sda`. Without a head (`-H`) there is no indentation, and two disks of one
//! name could not be told apart.

use std::collections::BTreeMap;

/// No report has more rows: what has is none.
const ROWS: usize = 4096;

/// A device by its path in its pool, and its values in the order of [`iodyno_model::POOL`].
pub type PoolRow = (String, [Option<u64>; 6]);

/// Each report in the output of `zpool iostat -v`, in its order. `since_boot`: it was run without `-y`, so that the first report, and
/// each after pools came or went, counts from the boot on and is left out. What is no report is passed over.
pub fn pool_reports(text: &str, since_boot: bool) -> Vec<Vec<PoolRow>> {
    let mut reader = Reader::new(since_boot);
    let mut reports: Vec<Report> = text.lines().filter_map(|line| reader.line(line)).collect();
    reports.extend(reader.take());
    reports.into_iter().map(|report| report.rows).collect()
}

/// One report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Report {
    /// Each device by its path, which no other has; pools before their devices.
    pub(crate) rows: Vec<PoolRow>,
}

/// Takes lines as they come and makes reports of them.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The first report, and each after pools came or went, counts from the boot on.
    since_boot: bool,
    /// How many pools the report before had; `None`: there was none.
    pools: Option<usize>,
    current: Report,
    path: Path,
    /// The last line ends a pool.
    ended: bool,
}

impl Reader {
    /// `since_boot`: the command was not told to leave out reports that count from the boot on.
    pub(crate) fn new(since_boot: bool) -> Reader {
        Reader {
            since_boot,
            ..Reader::default()
        }
    }

    /// The next line, without its end. A report that is complete because another begins.
    pub(crate) fn line(&mut self, text: &str) -> Option<Report> {
        if is_head(text) {
            return self.take();
        }
        if is_separator(text) {
            // The line below the head ends nothing.
            self.ended = !self.current.rows.is_empty();
            self.path.above.clear();
        } else if let Some(row) = Row::read(text) {
            self.ended = false;
            self.enter(&row);
        }
        None
    }

    /// The report may be whole: nothing has to come before the next one.
    pub(crate) fn may_be_whole(&self) -> bool {
        self.ended
    }

    /// The report so far, which is whole now; `None`: there is none, or it counts from the boot on.
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
        // `logs`, `cache`: not indented and still part of the pool above.
        let section = row.indent == 0 && row.values == [None; 6] && !self.path.is_empty();
        let name = self.path.enter(row.name, row.indent + usize::from(section));
        if !section && self.current.rows.len() < ROWS {
            self.current.rows.push((name, row.values));
        }
    }
}

/// Where a device stands in its pool: by indentation.
#[derive(Debug, Default)]
struct Path {
    above: Vec<(usize, String)>,
    /// Paths that stood in this report, and how often: two mirrors without a number stay two.
    seen: BTreeMap<String, u32>,
}

impl Path {
    fn is_empty(&self) -> bool {
        self.above.is_empty()
    }

    /// The name, or one with a number that no other has.
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
            // A file is named by its whole path.
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
    // The columns of a head without pools have no name to stand below.
    text.trim_start().starts_with("---") && text.bytes().all(|c| c == b'-' || c == b' ')
}

/// A line of six values.
#[derive(Debug, PartialEq, Eq)]
struct Row<'a> {
    name: &'a str,
    indent: usize,
    values: [Option<u64>; 6],
}

impl Row<'_> {
    fn read(text: &str) -> Option<Row<'_>> {
        let (mut rest, mut values) = (text.trim_end(), [None; 6]);
        // From the end: a name may have blanks.
        for value in values.iter_mut().rev() {
            let (before, word) = rest.rsplit_once([' ', '\t'])?;
            *value = amount(word)?;
            rest = before.trim_end();
        }
        // With exact numbers a device without a capacity of its own has one of 0.
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

/// `126G`, `14.8K`, `0`, `-`: by powers of 1024, the nearest whole number. What has gone below zero (`16.0E`) is not known.
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
