//! `/proc/interrupts`, complete or filtered by `grep`.

use iodyno_model::ImportedTable;
use iodyno_units::grouped;

use super::extract::Extract;
use super::lines::Lines;

/// The name of the form in results.
pub(crate) const FORM: &str = "/proc/interrupts";
/// With fewer interrupts than this, their distribution over CPUs is not reported.
const MIN_INTERRUPTS: f64 = 1000.0;
/// A CPU with at least this share receives nearly all interrupts of a source.
const ALL: f64 = 0.9;

/// One source of interrupts.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    /// `99`, `NMI`.
    id: String,
    counts: Vec<f64>,
    /// Controller and name: `xen-dyn-event blkif`.
    what: String,
}

impl Row {
    fn label(&self) -> String {
        format!("{} {}", self.id, self.what).trim_end().to_owned()
    }
}

/// All listings.
pub(super) fn read(lines: &Lines<'_>) -> Vec<Extract> {
    let mut found: Vec<Extract> = Vec::new();
    let mut listings: Vec<ImportedTable> = Vec::new();
    let mut number = 1;
    while number <= lines.count() {
        let cpus = head(lines.get(number));
        let start = number;
        let mut rows: Vec<Row> = Vec::new();
        if cpus.is_some() {
            number += 1;
        }
        while let Some(row) = row(lines.get(number), cpus.as_deref(), rows.first()) {
            rows.push(row);
            number += 1;
        }
        match (&cpus, rows.is_empty()) {
            (None, true) => number += 1,
            (Some(_), true) => {
                let why = "the head of /proc/interrupts without a row below it";
                found.push(Extract::unread(start..number, why));
            }
            (_, false) => {
                let mut table = table(lines, start, cpus, &rows);
                listings.push(table.clone());
                table
                    .remarks
                    .extend(interrupt_counts(&table, &listings).remarks());
                found.push(Extract::table(start..number, table));
            }
        }
    }
    found
}

/// The names of the CPUs, if the line is a head.
fn head(text: &str) -> Option<Vec<String>> {
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let is_cpu = |word: &String| {
        word.strip_prefix("CPU")
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit()))
    };
    (!words.is_empty() && words.iter().all(is_cpu)).then_some(words)
}

/// Parses a row. Without a head it must have the form of the first row, a name and several CPUs.
fn row(text: &str, cpus: Option<&[String]>, first: Option<&Row>) -> Option<Row> {
    let (id, rest) = text.trim_start().split_once(':')?;
    let numbered = id.bytes().all(|c| c.is_ascii_digit());
    let named = id
        .bytes()
        .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    if id.is_empty() || id.len() > 8 || !(numbered || named) {
        return None;
    }
    let most = cpus.map_or(usize::MAX, <[String]>::len);
    let mut rest = rest.trim_start();
    let mut counts = Vec::new();
    while counts.len() < most {
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let plain = !word.is_empty() && word.bytes().all(|c| c.is_ascii_digit());
        let Some(count) = plain.then(|| word.parse::<u64>().ok()).flatten() else {
            break;
        };
        counts.push(count as f64);
        rest = after.trim_start();
    }
    let what = rest.split_whitespace().collect::<Vec<_>>().join(" ");
    let fits = match (cpus, first) {
        // `ERR:` and `MIS:` have one count for all CPUs.
        (Some(cpus), _) => counts.len() == cpus.len() || (counts.len() == 1 && what.is_empty()),
        (None, Some(first)) => counts.len() == first.counts.len(),
        (None, None) => counts.len() > 1 && what.starts_with(char::is_alphabetic),
    };
    fits.then(|| Row {
        id: id.to_owned(),
        counts,
        what,
    })
}

fn table(lines: &Lines<'_>, start: u32, cpus: Option<Vec<String>>, rows: &[Row]) -> ImportedTable {
    let width = rows.iter().map(|row| row.counts.len()).max().unwrap_or(0);
    let mut remarks = Vec::new();
    let columns = cpus.unwrap_or_else(|| {
        remarks.push("without its head: CPUs are numbered from 0".to_owned());
        (0..width).map(|cpu| format!("CPU{cpu}")).collect()
    });
    ImportedTable {
        form: FORM.to_owned(),
        subject: String::new(),
        at: lines.at(start),
        rows: rows
            .iter()
            .map(|row| {
                let mut values: Vec<Option<f64>> = row.counts.iter().copied().map(Some).collect();
                values.resize(columns.len(), None);
                (row.label(), values)
            })
            .collect(),
        columns,
        remarks,
    }
}

/// The interrupts of one source in a period.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SourceCounts {
    /// `99 (blkif)`.
    pub(crate) name: String,
    pub(crate) total: f64,
    /// The CPU that received most, and how many.
    busiest: (String, f64),
    /// The number of CPUs.
    cpus: usize,
}

impl SourceCounts {
    /// Whether one CPU received nearly all while there are others.
    pub(crate) fn is_on_one_cpu(&self) -> bool {
        self.cpus > 1 && self.total >= MIN_INTERRUPTS && self.busiest.1 / self.total >= ALL
    }

    pub(crate) fn in_words(&self) -> String {
        let (cpu, most) = &self.busiest;
        format!(
            "{}: {} on {cpu}: {} of {}",
            self.name,
            percent(*most, self.total),
            grouped(*most as u64),
            grouped(self.total as u64)
        )
    }

    /// Whether both are queues of one device: their names differ only in numbers.
    pub(crate) fn is_queue_of_the_same(&self, other: &SourceCounts) -> bool {
        let (one, two) = (own_name(&self.name), own_name(&other.name));
        let plain =
            |name: &str| -> String { name.chars().filter(|c| !c.is_ascii_digit()).collect() };
        one != two && plain(one) == plain(two)
    }
}

/// `blkif` of `99 (blkif)`.
fn own_name(short: &str) -> &str {
    let name = short.split_once(" (").map_or(short, |(_, name)| name);
    name.trim_end_matches(')')
}

/// The distribution of the interrupts of a listing over CPUs.
pub(crate) struct InterruptCounts<'t> {
    /// Sources with interrupts.
    pub(crate) sources: Vec<SourceCounts>,
    /// The interrupts of all of them.
    pub(crate) total: f64,
    /// The period: `since boot`.
    pub(crate) since: String,
    table: &'t ImportedTable,
    /// The interrupts of each CPU.
    by_cpu: Vec<f64>,
}

/// Counts the interrupts of a listing: those since the previous listing of the same CPUs, or since boot without one.
pub(crate) fn interrupt_counts<'t>(
    table: &'t ImportedTable,
    all: &[ImportedTable],
) -> InterruptCounts<'t> {
    let earlier = all.iter().rev().find(|other| {
        other.form == FORM
            && other.at.source == table.at.source
            && other.at.line < table.at.line
            && other.columns == table.columns
            && differences(table, other).is_some()
    });
    let (rows, since) = match earlier.and_then(|it| Some((differences(table, it)?, it.at.line))) {
        Some((rows, line)) => (rows, format!("since the listing on line {line}")),
        None => (counts(table), "since boot".to_owned()),
    };
    let mut by_cpu = vec![0.0; table.columns.len()];
    let mut sources = Vec::new();
    for (label, counts) in rows {
        // `ERR:` and `MIS:` have one count for all CPUs.
        if counts.len() == by_cpu.len() {
            by_cpu
                .iter_mut()
                .zip(&counts)
                .for_each(|(sum, count)| *sum += count);
        }
        let most = counts.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let total: f64 = counts.iter().sum();
        if let (Some((cpu, most)), true) = (most, total > 0.0) {
            sources.push(SourceCounts {
                name: short(label),
                total,
                busiest: (table.columns.get(cpu).cloned().unwrap_or_default(), *most),
                cpus: counts.len(),
            });
        }
    }
    InterruptCounts {
        total: sources.iter().map(|it| it.total).sum(),
        sources,
        since,
        table,
        by_cpu,
    }
}

fn counts(table: &ImportedTable) -> Vec<(&str, Vec<f64>)> {
    let rows = table.rows.iter();
    rows.map(|(label, values)| (label.as_str(), values.iter().flatten().copied().collect()))
        .collect()
}

/// The counts of the sources of a listing since an earlier one; `None` if it has none of them, or one became smaller:
/// the host was started in between.
fn differences<'t>(
    table: &'t ImportedTable,
    earlier: &ImportedTable,
) -> Option<Vec<(&'t str, Vec<f64>)>> {
    let before = counts(earlier);
    let mut common = false;
    let mut rows = counts(table);
    for (label, counts) in &mut rows {
        // A source that is new has counted from 0.
        let Some((_, old)) = before.iter().find(|(own, _)| own == label) else {
            continue;
        };
        common = true;
        if old.len() != counts.len() {
            return None;
        }
        for (count, old) in counts.iter_mut().zip(old) {
            *count -= old;
            if *count < 0.0 {
                return None;
            }
        }
    }
    common.then_some(rows)
}

/// `99 xen-dyn-event blkif` → `99 (blkif)`.
fn short(label: &str) -> String {
    match label.split_once(' ') {
        Some((id, what)) => {
            let name = what.split_whitespace().next_back().unwrap_or(what);
            format!("{id} ({name})")
        }
        None => label.to_owned(),
    }
}

impl InterruptCounts<'_> {
    /// The period, the sources that one CPU serves, and the total of each CPU.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![match self.since.as_str() {
            "since boot" => "one listing: counts since boot, and not of a test alone".to_owned(),
            since => format!("interrupts {since}"),
        }];
        let alone = self.sources.iter().filter(|it| it.is_on_one_cpu());
        remarks.extend(alone.map(SourceCounts::in_words));
        let total: f64 = self.by_cpu.iter().sum();
        if total > 0.0 {
            let cpus = self.table.columns.iter().zip(&self.by_cpu);
            let words: Vec<String> = cpus
                .map(|(name, sum)| {
                    format!("{name} {} ({})", grouped(*sum as u64), percent(*sum, total))
                })
                .collect();
            remarks.push(format!("in all by CPU: {}", words.join(", ")));
        }
        remarks
    }
}

fn percent(part: f64, whole: f64) -> String {
    format!("{:.1} %", part / whole * 100.0)
}

#[cfg(test)]
mod tests {
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
    fn names_the_source_that_has_all_its_interrupts_on_one_cpu() {
        let tables = tables(SEED);
        assert_eq!(tables.len(), 1);
        let table = &tables[0];
        assert_eq!(table.at.line, 76);
        assert_eq!(table.columns.len(), 8);
        assert_eq!(table.columns[7], "CPU7");
        assert_eq!(table.rows.len(), 20);
        let (label, values) = &table.rows[3];
        assert_eq!(label, "99 xen-dyn-event blkif");
        assert_eq!(values[0], Some(20281233.0));
        assert_eq!(values[7], Some(55041.0));
        let remarks = &table.remarks;
        assert_eq!(remarks.len(), 5, "{remarks:?}");
        assert!(remarks[1].contains("since boot"), "{remarks:?}");
        assert_eq!(
            remarks[2],
            "99 (blkif): 99.7 % on CPU0: 20 281 233 of 20 336 274"
        );
        assert_eq!(
            remarks[3],
            "100 (vif0-q0-tx): 100.0 % on CPU5: 4 188 616 of 4 188 672"
        );
        let sum: f64 = table.rows.iter().filter_map(|(_, row)| row[0]).sum();
        assert_eq!(sum, 26530026.0);
        assert!(
            remarks[4].starts_with("in all by CPU: CPU0 26 530 026 ("),
            "{remarks:?}"
        );
    }

    #[test]
    fn reads_a_whole_listing_with_its_head() {
        let text = "           CPU0       CPU1\n\
                    \u{20}  0:         36          0   IO-APIC   2-edge      timer\n\
                    \u{20} 24:          5       1995   PCI-MSI 49152-edge   virtio0-req.0\n\
                    NMI:          0          0   Non-maskable interrupts\n\
                    ERR:          0\n\
                    MIS:          0\n";
        let tables = tables(text);
        assert_eq!(tables.len(), 1);
        let table = &tables[0];
        assert_eq!(table.rows.len(), 5);
        assert_eq!(table.rows[1].0, "24 PCI-MSI 49152-edge virtio0-req.0");
        assert_eq!(table.rows[3], ("ERR".to_owned(), vec![Some(0.0), None]));
        assert_eq!(
            table.remarks,
            [
                "one listing: counts since boot, and not of a test alone",
                "24 (virtio0-req.0): 99.8 % on CPU1: 1995 of 2000",
                "in all by CPU: CPU0 41 (2.0 %), CPU1 1995 (98.0 %)"
            ]
        );
    }

    #[test]
    fn judges_a_second_listing_by_what_was_counted_since_the_first() {
        let listing = |one: u32, other: u32| {
            format!("      CPU0 CPU1\n 24:  {one}  {other}  PCI-MSI 49152-edge virtio0-req.0\n\n")
        };
        let text = listing(900_000, 5) + &listing(900_010, 4995) + &listing(10, 20);
        let remarks: Vec<Vec<String>> = tables(&text).into_iter().map(|it| it.remarks).collect();
        assert!(
            remarks[0][1].starts_with("24 (virtio0-req.0): 100.0 % on CPU0"),
            "{remarks:?}"
        );
        assert_eq!(
            remarks[1],
            [
                "interrupts since the listing on line 1",
                "24 (virtio0-req.0): 99.8 % on CPU1: 4990 of 5000",
                "in all by CPU: CPU0 10 (0.2 %), CPU1 4990 (99.8 %)"
            ]
        );
        // The host was started in between.
        assert!(remarks[2][0].contains("since boot"), "{remarks:?}");
    }

    #[test]
    fn reads_no_listing_from_other_tables() {
        for text in [
            "12: 5",
            "12: 5 6",
            "note: 5 6 x",
            "1:2:3 4 x",
            "",
            "CPU",
            "elapsed 5: 3 4 ms",
        ] {
            assert_eq!(tables(text), [], "{text}");
        }
        let found = read(&Lines::new("x", "  CPU0 CPU1\n\nend"));
        assert!(matches!(found[0].what, ExtractContent::Unread(_)));
    }

    proptest! {
        #[test]
        fn does_not_panic_on_a_truncated_listing(end in 0..SEED.len()) {
            if let Some(cut) = SEED.get(..end) {
                for table in tables(cut) {
                    let width = table.columns.len();
                    prop_assert!(table.rows.iter().all(|(_, row)| row.len() == width));
                }
            }
        }

        #[test]
        fn does_not_panic_on_any_lines(text in "( *CPU0 +CPU1\n)?([A-Z0-9é]{0,4}:?[ 0-9a-z]{0,30}\n){0,8}") {
            read(&Lines::new("x", &text));
        }
    }
}
