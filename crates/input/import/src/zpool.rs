//! `zpool iostat [-v] INTERVAL`: a table for each pool and device.

use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::ImportedTable;
use iodyno_units::{Bytes, Nanos};

use super::extract::Extract;
use super::lines::Lines;
use super::number::{number, split, unit_ns};

/// The name of the form in results.
const FORM: &str = "zpool iostat";
/// The columns of every sample, in the order of its values.
const COLUMNS: [&str; 6] = [
    "alloc B",
    "free B",
    "read ops/s",
    "write ops/s",
    "read B/s",
    "write B/s",
];
/// The further columns of `-l`, in order. Versions before 2.2 do not have the last one, those before 0.8 the last two.
const LATENCIES: [&str; 11] = [
    "total_wait read ns",
    "total_wait write ns",
    "disk_wait read ns",
    "disk_wait write ns",
    "syncq_wait read ns",
    "syncq_wait write ns",
    "asyncq_wait read ns",
    "asyncq_wait write ns",
    "scrub wait ns",
    "trim wait ns",
    "rebuild wait ns",
];
/// The head of the further columns of `-l`.
const LATENCY_HEAD: [&str; 11] = [
    "read", "write", "read", "write", "read", "write", "read", "write", "wait", "wait", "wait",
];
/// The second line of the head.
const HEAD: [&str; 7] = ["pool", "alloc", "free", "read", "write", "read", "write"];
/// The largest number of lines of other kinds between the rows of a listing.
const MAX_STRAYS: u32 = 20;
/// The largest number of lines between the command line and the head.
const COMMAND_WITHIN: u32 = 4;

/// The sections in which the devices of a pool are listed.
const SECTIONS: [&str; 6] = ["logs", "cache", "spares", "special", "dedup", "indirect"];

/// The values of a line, in the order of [`COLUMNS`] and [`LATENCIES`].
type Sample = Vec<Option<f64>>;

/// All tables of this form.
pub(super) fn read(lines: &Lines<'_>) -> Vec<Extract> {
    let mut found = Vec::new();
    let mut free_from = 1;
    for (number, text) in lines.iter() {
        if number < free_from || !is_head(text) {
            continue;
        }
        let listing = Listing::read(lines, free_from, number);
        free_from = listing.end;
        found.extend(listing.found(lines));
    }
    found
}

/// The output of one command.
#[derive(Debug, Default)]
struct Listing {
    start: u32,
    end: u32,
    /// Seconds between samples.
    interval: Option<f64>,
    /// The first sample covers the time since boot.
    since_boot: bool,
    /// Samples by device, in the order of first appearance.
    order: Vec<String>,
    samples: BTreeMap<String, Vec<Sample>>,
    /// The names in the first column.
    names: BTreeSet<String>,
    /// Lines between the rows that look like other results.
    strays: Vec<Extract>,
    /// The number of columns of latencies; `None`: there are columns that are not supported.
    latencies: Option<usize>,
}

impl Listing {
    fn read(lines: &Lines<'_>, free_from: u32, head: u32) -> Listing {
        let mut listing = Listing {
            start: head,
            end: head + 1,
            since_boot: true,
            latencies: latencies(lines.get(head)),
            ..Listing::default()
        };
        listing.command(lines, free_from, head);
        let mut path = Path::default();
        for (number, text) in lines.range(head + 1..lines.count() + 1) {
            if is_separator(text) || is_group_head(text) || is_head(text) {
                path = Path::default();
            } else if let Some((name, indent, sample)) = row(text, listing.latencies) {
                listing.names.insert(name.to_owned());
                listing.put(path.enter(name, indent), sample);
            } else if !(is_time(text) || listing.latencies.is_none() && is_wider_row(text)) {
                if !listing.resumes(lines, number + 1) {
                    break;
                }
                // A message between the samples.
                listing.strays.extend(Extract::stray(number, text));
            }
            listing.end = number + 1;
        }
        listing
    }

    /// Whether rows of the same devices follow below a line that is not one.
    fn resumes(&self, lines: &Lines<'_>, from: u32) -> bool {
        let after = |(_, text): (u32, &str)| {
            is_separator(text)
                || row(text, self.latencies).is_some_and(|(name, ..)| self.names.contains(name))
        };
        let mut next = lines.range(from..from + MAX_STRAYS);
        !self.names.is_empty()
            && next
                .by_ref()
                .take_while(|(_, text)| !is_head(text))
                .any(after)
    }

    /// The interval and `-y` of the command line above the head.
    fn command(&mut self, lines: &Lines<'_>, free_from: u32, head: u32) {
        let first = head.saturating_sub(COMMAND_WITHIN).max(free_from);
        for number in (first..head).rev() {
            let text = lines.get(number);
            if let Some((_, arguments)) = text.split_once("zpool iostat") {
                let words: Vec<&str> = arguments.split_whitespace().collect();
                let is_short = |word: &&&str| word.starts_with('-') && !word.starts_with("--");
                self.since_boot = !words.iter().filter(is_short).any(|word| word.contains('y'));
                self.interval = words
                    .iter()
                    .find_map(|word| word.parse().ok())
                    .filter(|seconds: &f64| *seconds > 0.0 && seconds.is_finite());
                self.start = number;
                return;
            }
            if is_group_head(text) {
                self.start = number;
            } else if !text.trim().is_empty() && !text.trim_start().starts_with("```") {
                return;
            }
        }
    }

    fn put(&mut self, device: String, sample: Sample) {
        if !self.samples.contains_key(&device) {
            self.order.push(device.clone());
        }
        self.samples.entry(device).or_default().push(sample);
    }

    fn found(self, lines: &Lines<'_>) -> Vec<Extract> {
        let range = self.start..self.end;
        let Some(latencies) = self.latencies else {
            let why = "`zpool iostat` with further columns (-q, -r, -w) is not read: only capacity, operations, \
                       bandwidth and latencies (-l) are read";
            return vec![Extract::unread(range, why)];
        };
        if self.order.is_empty() {
            return vec![Extract::unread(
                range,
                "the head of `zpool iostat` without a row below it",
            )];
        }
        let tables = self.order.iter();
        let tables = tables
            .map(|device| Extract::table(range.clone(), self.table(lines, device, latencies)));
        tables.chain(self.strays.iter().cloned()).collect()
    }

    fn table(&self, lines: &Lines<'_>, device: &str, latencies: usize) -> ImportedTable {
        let all = self.samples.get(device).map_or(&[][..], Vec::as_slice);
        let mut remarks = Vec::new();
        let mut samples = all;
        if self.since_boot
            && let [first, rest @ ..] = all
        {
            remarks.push(format!(
                "the first row is the mean since boot and set aside: {}",
                in_words(first)
            ));
            samples = rest;
        }
        if self.interval.is_none() && !samples.is_empty() {
            remarks.push("the interval is not known: rows are numbered".to_owned());
        }
        let label = |index: usize| match self.interval {
            Some(seconds) => format!("{} s", seconds * (index + 1) as f64),
            None => (index + 1).to_string(),
        };
        ImportedTable {
            form: FORM.to_owned(),
            subject: device.to_owned(),
            at: lines.at(self.start),
            columns: columns()
                .take(COLUMNS.len() + latencies)
                .map(str::to_owned)
                .collect(),
            rows: samples
                .iter()
                .enumerate()
                .map(|(index, sample)| (label(index), sample.clone()))
                .collect(),
            remarks,
        }
    }
}

/// The path of a device in its pool, from the indentation.
#[derive(Debug, Default)]
struct Path {
    above: Vec<(usize, String)>,
    /// The full names in this sample, so that two mirrors without a number stay separate.
    seen: BTreeMap<String, u32>,
}

impl Path {
    fn enter(&mut self, name: &str, indent: usize) -> String {
        // Not indented, but still part of the pool above.
        let indent = indent + usize::from(indent == 0 && SECTIONS.contains(&name));
        if indent == 0 && self.seen.contains_key(name) {
            // The samples of a single pool follow each other without a separator.
            *self = Path::default();
        }
        while self.above.last().is_some_and(|(other, _)| *other >= indent) {
            self.above.pop();
        }
        let full = match self.above.last() {
            Some((_, above)) => format!("{above}/{name}"),
            None => name.to_owned(),
        };
        let times = self.seen.entry(full.clone()).or_insert(0);
        *times += 1;
        let full = match *times {
            1 => full,
            times => format!("{full}#{times}"),
        };
        self.above.push((indent, full.clone()));
        full
    }
}

fn is_head(text: &str) -> bool {
    let mut words = text.split_whitespace();
    HEAD[..5].iter().all(|&name| words.next() == Some(name))
}

/// All columns in the order of a sample's values.
fn columns() -> impl Iterator<Item = &'static str> {
    COLUMNS.into_iter().chain(LATENCIES)
}

/// The number of columns of latencies in a head: 0 without `-l`, otherwise at least one of scrub. `None` if it has
/// other columns.
fn latencies(head: &str) -> Option<usize> {
    let mut words = head.split_whitespace();
    if !HEAD.iter().all(|&name| words.next() == Some(name)) {
        return None;
    }
    let further: Vec<&str> = words.collect();
    let known = LATENCY_HEAD.starts_with(&further);
    (known && (further.is_empty() || further.ends_with(&["wait"]))).then_some(further.len())
}

/// `capacity operations bandwidth`, followed by other groups if further columns are shown.
fn is_group_head(text: &str) -> bool {
    let mut words = text.split_whitespace();
    words.next() == Some("capacity") && words.next() == Some("operations")
}

/// A line of `-T`: a date with its time, or seconds since 1970.
fn is_time(text: &str) -> bool {
    let seconds = |word: &str| word.len() >= 10 && word.bytes().all(|c| c.is_ascii_digit());
    let time = |word: &str| {
        let parts: Vec<&str> = word.split(':').collect();
        let two = |part: &&str| part.len() == 2 && part.bytes().all(|c| c.is_ascii_digit());
        parts.len() == 3 && parts.iter().all(two)
    };
    seconds(text.trim()) || text.split_whitespace().any(time)
}

fn is_separator(text: &str) -> bool {
    let text = text.trim();
    text.starts_with("---") && text.chars().all(|c| c == '-' || c == ' ')
}

/// The name, the indentation and the values of a row.
fn row(text: &str, latencies: Option<usize>) -> Option<(&str, usize, Sample)> {
    let mut words = text.split_whitespace();
    let name = words.next()?;
    let values: Vec<&str> = words.collect();
    if values.len() != COLUMNS.len() + latencies? {
        return None;
    }
    let sample: Option<Sample> = values
        .iter()
        .enumerate()
        .map(|(place, word)| match (*word, place < COLUMNS.len()) {
            ("-", _) => Some(None),
            (word, true) => amount(word).map(Some),
            (word, false) => time_ns(word).map(Some),
        })
        .collect();
    Some((name, text.len() - text.trim_start().len(), sample?))
}

/// Parses `543us`, `1.05ms`, and with `-p` `543210`, in ns.
fn time_ns(word: &str) -> Option<f64> {
    let (digits, unit) = split(word);
    let scale = match unit {
        "" => 1.0,
        unit => unit_ns(unit)?,
    };
    Some(number(digits)? * scale)
}

/// A row with more columns than are supported.
fn is_wider_row(text: &str) -> bool {
    text.split_whitespace().count() > HEAD.len()
}

/// Parses `126G`, `14.8K`, `0`, with powers of 1024.
fn amount(word: &str) -> Option<f64> {
    let (digits, power) = match word.char_indices().next_back()? {
        (at, suffix) if suffix.is_ascii_uppercase() => {
            (&word[..at], 1 + "KMGTPE".find(suffix)? as i32)
        }
        _ => (word, 0),
    };
    Some(number(digits)? * 1024f64.powi(power))
}

/// A sample as text for a remark: `alloc 126 GiB, write 11 ops/s`.
fn in_words(sample: &Sample) -> String {
    let words = columns().zip(sample).filter_map(|(column, value)| {
        let (name, unit) = column.rsplit_once(' ')?;
        let value = (*value)?;
        Some(match (unit, unit.strip_prefix('B')) {
            ("ns", _) => format!("{name} {}", Nanos(value.round() as u64)),
            (_, Some(rate)) => format!("{name} {}{rate}", Bytes(value.round() as u64)),
            (_, None) => format!("{name} {value:.0} {unit}"),
        })
    });
    words.collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use iodyno_model::ImportedTable;
    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;
    use crate::extract::ExtractContent;

    const SEED: &str = include_str!("../tests/data/zfs-sysbench.txt");

    fn tables(text: &str) -> Vec<ImportedTable> {
        let found = read(&Lines::new("notes.txt", text));
        found
            .into_iter()
            .filter_map(|found| match found.what {
                ExtractContent::Table(table) => Some(*table),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn continues_below_a_message_between_samples() {
        let text = "$ zpool iostat -y 1\n              capacity     operations     bandwidth\n\
                    pool        alloc   free   read  write   read  write\n\
                    ----------  -----  -----  -----  -----  -----  -----\n\
                    tank         1G     2G      1      2     3K     4K\n\
                    [  12.345] nvme0: timeout, 250 MB/s\n\
                    tank         1G     2G      5      6     7K     8K\n\
                    the end: 17 ms\n";
        let lines = Lines::new("notes.txt", text);
        let tables = tables(text);
        assert_eq!(tables[0].rows.len(), 2);
        assert_eq!(tables[0].rows[1].1[2], Some(5.0));
        let unread: Vec<Range<u32>> = read(&lines)
            .into_iter()
            .filter(|found| matches!(found.what, ExtractContent::Unread(_)))
            .map(|found| found.lines)
            .collect();
        assert_eq!(unread, std::slice::from_ref(&(6..7)));
    }

    #[test]
    fn keeps_a_pools_series_without_the_row_since_boot() {
        let tables = tables(SEED);
        assert_eq!(tables.len(), 2);
        let backup = &tables[0];
        assert_eq!((backup.subject.as_str(), backup.at.line), ("backup", 6));
        assert_eq!(backup.columns, COLUMNS);
        let labels: Vec<&str> = backup
            .rows
            .iter()
            .map(|(label, _)| label.as_str())
            .collect();
        assert_eq!(labels, ["30 s", "60 s", "90 s", "120 s", "150 s"]);
        let column = |index: usize| -> Vec<f64> {
            backup
                .rows
                .iter()
                .map(|(_, row)| row[index].unwrap())
                .collect()
        };
        let gib = |value: f64| value / f64::from(1 << 30);
        let alloc: Vec<f64> = column(0).into_iter().map(gib).collect();
        assert_eq!(alloc, [143.0, 158.0, 177.0, 190.0, 203.0]);
        let written: Vec<f64> = column(5).into_iter().map(|b| b / 1048576.0).collect();
        assert_eq!(written, [759.0, 763.0, 762.0, 763.0, 760.0]);
        assert_eq!(column(3)[0], 6.17 * 1024.0);
        assert_eq!(column(4)[3], 1.48 * 1024.0);
        assert_eq!(column(2), [0.0; 5]);
        assert_eq!(backup.remarks.len(), 1);
        let aside = &backup.remarks[0];
        assert!(aside.contains("since boot"), "{aside}");
        let values = "alloc 126 GiB, free 1.60 TiB, read 0 ops/s, write 11 ops/s, read 14.8 KiB/s, \
                      write 1.36 MiB/s";
        assert!(aside.ends_with(values), "{aside}");
        assert_eq!(tables[1].subject, "zp0");
        assert_eq!(tables[1].rows.len(), 5);
    }

    #[test]
    fn keeps_all_rows_if_the_command_omitted_the_one_since_boot() {
        let text = "$ zpool iostat -y 2\n\
                    pool alloc free read write read write\n\
                    ---- ----- ---- ---- ----- ---- -----\n\
                    tank 1G 2G 3 4 5K 6M\n";
        let tables = tables(text);
        let row = vec![
            Some(1073741824.0),
            Some(2147483648.0),
            Some(3.0),
            Some(4.0),
            Some(5120.0),
            Some(6291456.0),
        ];
        assert_eq!(tables[0].rows, [("2 s".to_owned(), row)]);
        assert!(tables[0].remarks.is_empty());
    }

    #[test]
    fn recognises_samples_of_one_pool_by_its_name_and_skips_times() {
        let head = "pool alloc free read write read write\n----- ----- -----\n";
        let row = "tank 1G 2G 3 4 5K 6M\n";
        for between in ["", "1795300000\n", "Sat Nov 21 23:00:30 UTC 2026\n"] {
            let tables = tables(&format!("{head}{row}{between}{row}{between}{row}"));
            assert_eq!(tables.len(), 1, "{between}");
            assert_eq!(tables[0].rows.len(), 2, "{between}");
        }
    }

    #[test]
    fn separates_the_logs_of_two_pools() {
        let pool = |name: &str| {
            format!(
                "{name} 1G 2G 3 4 5K 6M\n  sda 1G 2G 3 4 5K 6M\nlogs - - - - - -\n  sdb 1G 2G 3 4 5K 6M\n"
            )
        };
        let head = "pool alloc free read write read write\n";
        let text = format!("{head}----- -----\n{}----- -----\n{}", pool("a"), pool("b"));
        let all = tables(&text);
        let subjects: Vec<&str> = all.iter().map(|table| table.subject.as_str()).collect();
        let expected = [
            "a",
            "a/sda",
            "a/logs",
            "a/logs/sdb",
            "b",
            "b/sda",
            "b/logs",
            "b/logs/sdb",
        ];
        assert_eq!(subjects, expected);
    }

    #[test]
    fn names_devices_by_their_path_in_the_pool() {
        let sample = "pool        alloc   free   read  write   read  write\n\
                      ----------  -----  -----  -----  -----  -----  -----\n\
                      tank        1.00G  9.00G      1      2    3K    4K\n\
                      \u{20} mirror    1.00G  9.00G      1      2    3K    4K\n\
                      \u{20}   sda         -      -      1      2    3K    4K\n\
                      \u{20}   sdb         -      -      1      2    3K    4K\n\
                      \u{20} mirror    1.00G  9.00G      1      2    3K    4K\n\
                      \u{20}   sdc         -      -      1      2    3K    4K\n\
                      ----------  -----  -----  -----  -----  -----  -----\n";
        let tables = tables(&format!("{sample}{sample}"));
        let subjects: Vec<&str> = tables.iter().map(|table| table.subject.as_str()).collect();
        let expected = [
            "tank",
            "tank/mirror",
            "tank/mirror/sda",
            "tank/mirror/sdb",
            "tank/mirror#2",
            "tank/mirror#2/sdc",
        ];
        assert_eq!(subjects, expected);
        assert!(tables.iter().all(|table| table.rows.len() == 1));
        assert_eq!(tables[2].rows[0].0, "1");
        assert_eq!(tables[2].rows[0].1[0], None);
    }

    #[test]
    fn reports_why_further_columns_or_an_empty_table_are_not_read() {
        for (text, words) in [
            (
                "pool alloc free read write read write total_wait\n----- -----\ntank 1G 2G 3 4 5 6 7\n",
                "further columns",
            ),
            // `-q`.
            (
                "pool alloc free read write read write pend activ pend activ\ntank 1G 2G 3 4 5 6 7 8 9 10\n",
                "further columns",
            ),
            (
                "pool alloc free read write read write read write read write\ntank 1G 2G 3 4 5 6 7 8 9 10\n",
                "further columns",
            ),
            (
                "pool alloc free read write read write\nend\n",
                "without a row",
            ),
        ] {
            let found = read(&Lines::new("x", text));
            assert_eq!(found.len(), 1);
            let ExtractContent::Unread(why) = &found[0].what else {
                panic!("{found:?}")
            };
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn reads_the_latencies_of_every_version() {
        let head = "              capacity     operations     bandwidth    total_wait     disk_wait    syncq_wait    \
                    asyncq_wait  scrub   trim  rebuild\n\
                    pool        alloc   free   read  write   read  write   read  write   read  write   read  write   \
                    read  write   wait";
        let row = "\ntank        1.00G  9.00G      1      2     3K     4K    3ms  543us    2ms  1.05ms     4us      -  \
                   917ns     1s  12345";
        for waits in 0..3 {
            let more = "   wait".repeat(waits);
            let values = "      -".repeat(waits);
            let tables = tables(&format!(
                "$ zpool iostat -ly 2\n{head}{more}\n----------  -----  -----\n{}{row}{values}\n",
                row.trim_start().to_owned() + &values
            ));
            let [table] = &tables[..] else {
                panic!("{tables:?}")
            };
            assert_eq!(table.columns.len(), 15 + waits);
            assert_eq!(
                table.columns[6..8],
                ["total_wait read ns", "total_wait write ns"]
            );
            assert_eq!(table.columns[14], "scrub wait ns");
            assert_eq!(table.rows.len(), 2);
            let expected = [3e6, 543e3, 2e6, 1.05e6, 4e3, f64::NAN, 917.0, 1e9, 12345.0];
            let found = table.rows[0].1[6..15]
                .iter()
                .map(|it| it.unwrap_or(f64::NAN));
            for (found, expected) in found.zip(expected) {
                assert_eq!(found.to_string(), expected.to_string());
            }
            assert!(table.rows[1].1[15..].iter().all(Option::is_none));
        }
    }

    #[test]
    fn says_the_latencies_since_boot() {
        let text = "pool alloc free read write read write read write read write read write read write wait\n\
                    tank 1G 2G 3 4 5 6 3ms 1ms 2ms 543us 4us 2us 1ms 730us -\n";
        let remark = &tables(text)[0].remarks[0];
        assert!(remark.ends_with("total_wait read 3.00 ms, total_wait write 1.00 ms, disk_wait read 2.00 ms, \
                                  disk_wait write 543 µs, syncq_wait read 4.00 µs, syncq_wait write 2.00 µs, \
                                  asyncq_wait read 1.00 ms, asyncq_wait write 730 µs"), "{remark}");
    }

    #[test]
    fn reads_amounts_by_powers_of_1024() {
        for (word, value) in [
            ("0", Some(0.0)),
            ("529", Some(529.0)),
            ("14.8K", Some(15155.2)),
            ("1.60T", Some(1759218604441.6)),
            ("", None),
            ("K", None),
            ("1k", None),
            ("-5", None),
            ("1.2.3", None),
        ] {
            assert_eq!(amount(word), value, "{word}");
        }
    }

    proptest! {
        #[test]
        fn does_not_panic_on_a_truncated_table(end in 0..SEED.len()) {
            if let Some(cut) = SEED.get(..end) {
                for table in tables(cut) {
                    prop_assert!(table.rows.iter().all(|(_, row)| row.len() == 6));
                }
            }
        }

        #[test]
        fn does_not_panic_on_any_lines(words in "(pool alloc free read write read write\n)?([a-z0-9KMG.é -]{0,30}\n){0,8}") {
            read(&Lines::new("x", &words));
        }
    }
}
