//! `/proc/interrupts`, complete or filtered by `grep`.

use iodyno_model::ImportedTable;

use super::extract::Extract;
use super::lines::Lines;

/// The name of the form in results.
const FORM: &str = "/proc/interrupts";
/// With fewer interrupts than this, their distribution over CPUs is not judged.
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

    /// The short name: `99 (blkif)`.
    fn short(&self) -> String {
        match self.what.split_whitespace().next_back() {
            Some(name) => format!("{} ({name})", self.id),
            None => self.id.clone(),
        }
    }
}

/// All listings.
pub(super) fn read(lines: &Lines<'_>) -> Vec<Extract> {
    let mut found = Vec::new();
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
                let table = table(lines, start, cpus, &rows);
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
    remarks.extend(rows.iter().filter_map(|row| one_takes_all(row, &columns)));
    remarks.extend(totals(rows, &columns));
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

/// A source whose interrupts are received by one CPU while others receive none.
fn one_takes_all(row: &Row, columns: &[String]) -> Option<String> {
    let total: f64 = row.counts.iter().sum();
    let (cpu, most) = row
        .counts
        .iter()
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(b.1))?;
    if row.counts.len() < 2 || total < MIN_INTERRUPTS || most / total < ALL {
        return None;
    }
    Some(format!(
        "{}: {} on {}: {} of {}",
        row.short(),
        percent(*most, total),
        columns.get(cpu)?,
        grouped(*most),
        grouped(total)
    ))
}

/// The total of each CPU.
fn totals(rows: &[Row], columns: &[String]) -> Option<String> {
    let sums: Vec<f64> = (0..columns.len())
        .map(|cpu| {
            let whole = rows.iter().filter(|row| row.counts.len() == columns.len());
            whole.map(|row| row.counts[cpu]).sum()
        })
        .collect();
    let total: f64 = sums.iter().sum();
    if total <= 0.0 {
        return None;
    }
    let words: Vec<String> = columns
        .iter()
        .zip(&sums)
        .map(|(name, sum)| format!("{name} {} ({})", grouped(*sum), percent(*sum, total)))
        .collect();
    Some(format!("in all by CPU: {}", words.join(", ")))
}

fn percent(part: f64, whole: f64) -> String {
    format!("{:.1} %", part / whole * 100.0)
}

/// `20281233` → `20 281 233`.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
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
        assert_eq!(remarks.len(), 4, "{remarks:?}");
        assert_eq!(
            remarks[1],
            "99 (blkif): 99.7 % on CPU0: 20 281 233 of 20 336 274"
        );
        assert_eq!(
            remarks[2],
            "100 (vif0-q0-tx): 100.0 % on CPU5: 4 188 616 of 4 188 672"
        );
        let sum: f64 = table.rows.iter().filter_map(|(_, row)| row[0]).sum();
        assert_eq!(sum, 26530026.0);
        assert!(
            remarks[3].starts_with("in all by CPU: CPU0 26 530 026 ("),
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
                "24 (virtio0-req.0): 99.8 % on CPU1: 1 995 of 2 000",
                "in all by CPU: CPU0 41 (2.0 %), CPU1 1 995 (98.0 %)"
            ]
        );
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
