//! IOR 3 and 4: a row for each access and repetition, then a summary over the repetitions.

use iodyno_model::{FactClass, ImportedTrial, Metric};

use super::{MIB, add, fact, setting};
use crate::extract::Extract;
use crate::lines::Lines;
use crate::number::number;

const FORM: &str = "ior";
/// Settings that IOR prints above its results, with the names of the facts.
const SETTINGS: [(&str, FactClass, &str); 8] = [
    ("api", FactClass::Workload, "engine"),
    ("xfersize", FactClass::Workload, "bs"),
    ("blocksize", FactClass::Workload, "block of a task"),
    ("segments", FactClass::Workload, "segments"),
    ("access", FactClass::Workload, "files"),
    ("ordering in a file", FactClass::Workload, "order"),
    ("tasks", FactClass::Workload, "jobs"),
    ("aggregate filesize", FactClass::Workload, "size"),
];

/// All results of this form.
pub(in super::super) fn read(lines: &Lines<'_>) -> Vec<Extract> {
    let mut found = Vec::new();
    let mut free_from = 1;
    for (head, text) in lines.iter() {
        let columns: Vec<&str> = text.split_whitespace().collect();
        if head < free_from || !is_head(&columns) {
            continue;
        }
        let start = (free_from..head)
            .rev()
            .find(|&above| lines.get(above).starts_with("IOR-"))
            .unwrap_or(head);
        let mut end = head + 1;
        let mut summary = false;
        for (number, text) in lines.range(head + 1..lines.count() + 1) {
            let words: Vec<&str> = text.split_whitespace().collect();
            summary |= text.starts_with("Summary of all tests");
            match words[..] {
                [] => {}
                [first, ..] if first.chars().all(|c| c == '-') => {}
                [_, ..] if summary && (words.len() > 20 || text.starts_with("Summary")) => {}
                ["Max", "Write:" | "Read:", ..] | ["Finished", ..] => {}
                // What a removal takes is in none of the columns that are read.
                ["remove", ..] if !summary => {}
                ["write" | "read", ..] if !summary && words.len() == columns.len() => {
                    let trial = row(lines, (start, number), (&columns, &words));
                    found.push(Extract::trial(number..number + 1, trial));
                }
                ["write" | "read" | "remove", ..] => {
                    found.push(super::not_a_row(number, "the table of IOR above it"));
                }
                _ if is_head(&words)
                    || words.first().is_some_and(|word| word.starts_with("IOR-")) =>
                {
                    break;
                }
                _ if summary => break,
                // Warnings and messages of MPI between the rows.
                _ => {
                    found.extend(Extract::stray(number, text));
                    continue;
                }
            }
            end = number + 1;
        }
        free_from = end;
        found.push(Extract::known(start..end));
    }
    found
}

/// `access bw(MiB/s) IOPS Latency(s) block(KiB) …`; without rates and latencies before IOR 3.3.
fn is_head(columns: &[&str]) -> bool {
    matches!(columns, ["access", "bw(MiB/s)", ..]) && columns.last() == Some(&"iter")
}

/// A repetition of one access.
fn row(
    lines: &Lines<'_>,
    (start, line): (u32, u32),
    (columns, words): (&[&str], &[&str]),
) -> ImportedTrial {
    let cell = |name: &str| {
        let place = columns.iter().position(|column| *column == name)?;
        number(words[place])
    };
    let mut trial = lines.trial(FORM, line);
    trial.workload = words[0].to_owned();
    let bandwidth = cell("bw(MiB/s)").map(|mib| mib * MIB);
    add(&mut trial, Metric::bandwidth(Metric::BANDWIDTH), bandwidth);
    add(&mut trial, Metric::iops(Metric::IOPS), cell("IOPS"));
    let latency = cell("Latency(s)").map(|seconds| seconds * 1e9);
    add(&mut trial, Metric::time("op.mean"), latency);
    let total = cell("total(s)").map(|seconds| seconds * 1e9);
    add(&mut trial, Metric::time(Metric::COMPLETION), total);
    trial.kind = iodyno_model::Kind::Finite;
    trial.primary = Some(Metric::BANDWIDTH.to_owned());
    for (_, text) in lines.range(start..line) {
        if let Some(version) = text.strip_prefix("IOR-") {
            let version = version.split(':').next().unwrap_or_default();
            fact(
                &mut trial,
                FactClass::Program,
                "program",
                &format!("IOR {version}"),
            );
        }
        let known = setting(text, ':').and_then(|(name, value)| {
            let row = SETTINGS.iter().find(|(known, ..)| *known == name)?;
            Some((row, value))
        });
        if let Some((&(_, class, name), value)) = known {
            fact(&mut trial, class, name, value);
        }
    }
    trial
}
