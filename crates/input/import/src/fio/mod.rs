//! fio's output: JSON, json+, terse and normal, in a separate file or within other text.
//!
//! One entry for a job (or for a group with `group_reporting`) is one trial. A result that appears in several
//! formats, as `--append-terse` and lists of formats produce it, is one trial too, and so are the clones of a job
//! that were reported separately. Of interim reports only the last counts.

mod document;
mod entry;
mod invalid;
mod job;
mod json;
mod merge;
mod normal;
mod options;
mod quantity;
mod terse;
#[cfg(test)]
mod tests;
mod trial;

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use iodyno_model::Fact;

use super::extract::Extract;
use super::lines::Lines;

pub use job::{FioJob, fio_jobs};

/// Reads all of fio's output in a text.
pub(super) fn read<'l>(lines: &'l Lines<'_>) -> impl Iterator<Item = Extract> + 'l {
    let (json, mut found) = json::entries(lines);
    let (terse, broken) = terse::entries(lines);
    found.extend(broken);
    // Lines within a document are not lines of other formats.
    let mut documents: Vec<Range<u32>> = json.iter().map(|entry| entry.lines.clone()).collect();
    documents.dedup();
    let outside = |entry: &entry::Entry| {
        let next = documents.partition_point(|lines| lines.end <= entry.line);
        documents
            .get(next)
            .is_none_or(|lines| !lines.contains(&entry.line))
    };
    let normal: Vec<entry::Entry> = normal::entries(lines).into_iter().filter(outside).collect();
    let reports = summaries(lines, &[&json, &terse], &normal);
    let all = [&json, &terse, &normal];
    let places: HashSet<(u32, u32)> = all
        .iter()
        .flat_map(|entries| entries.iter())
        .map(|entry| (entry.lines.start, entry.lines.end))
        .collect();
    let (entries, _) = merge::one_format([json, terse, normal]);
    let entries = merge::clones_together(merge::last_reports(entries));
    found.extend(
        trial::on_latencies(&entries)
            .into_iter()
            .map(Extract::remark),
    );
    // Merged reports count as understood.
    found.extend(
        places
            .into_iter()
            .map(|(start, end)| Extract::known(start..end)),
    );
    found.extend(reports);
    let trials = entries
        .into_iter()
        .map(|entry| Extract::trial(entry.lines.clone(), trial::trial(&entry, lines)));
    trials.chain(found)
}

/// Sums over a group, and the directions of the jobs that they are about.
const SUMS: [(&str, &[usize]); 4] = [
    ("READ:", &[0]),
    ("WRITE:", &[1]),
    ("TRIM:", &[2]),
    ("MIXED:", &[0, 1, 2]),
];

/// The directions that a sum over a group is about; `None` for other lines.
fn sum_of(text: &str) -> Option<&'static [usize]> {
    let text = text.trim();
    let row = SUMS.iter().find(|(begin, _)| text.starts_with(begin));
    let (begin, directions) = row?;
    let rest = text[begin.len()..].trim_start();
    (rest.starts_with("bw=") || rest.starts_with("io=")).then_some(*directions)
}

/// Lines around the results that repeat them or report progress. A sum repeats results only if its jobs were read: in
/// the same text for documents, since the sums before it for normal output.
fn summaries(
    lines: &Lines<'_>,
    documents: &[&[entry::Entry]],
    normal: &[entry::Entry],
) -> Vec<Extract> {
    let mut found = Vec::new();
    let mut group = 0..0;
    for (number, text) in lines.iter() {
        let text = text.trim();
        let progress = text.starts_with("Jobs: ") && text.contains("[eta");
        let Some(directions) = sum_of(text) else {
            found.extend(progress.then(|| Extract::known(number..number + 1)));
            continue;
        };
        // The sums of all groups follow the jobs of all groups.
        if normal
            .iter()
            .any(|entry| (group.end..number).contains(&entry.line))
        {
            group.start = group.end;
        }
        group.end = number + 1;
        let has =
            |entry: &&entry::Entry| directions.iter().any(|&at| entry.directions[at].is_some());
        let of_document = documents
            .iter()
            .any(|entries| entries.iter().any(|entry| has(&entry)));
        let mut of_group = normal
            .iter()
            .filter(|entry| (group.start..number).contains(&entry.line));
        if of_document || of_group.any(|entry| has(&entry)) {
            found.push(Extract::known(number..number + 1));
        }
    }
    found
}

/// Dimensions and facts from fio's options on a command line.
pub(crate) fn facts_of_options(options: &BTreeMap<String, String>) -> Vec<Fact> {
    options::facts(&entry::Entry {
        options: Some(options.clone()),
        ..entry::Entry::default()
    })
}
