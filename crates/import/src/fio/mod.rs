//! fio's output: JSON, json+, terse and normal, in a separate file or within other text.
//!
//! One entry for a job (or for a group with `group_reporting`) is one trial. A result that appears in several
//! formats, as `--append-terse` and lists of formats produce it, is one trial too, and so are the clones of a job
//! that were reported separately. Of interim reports only the last counts.

mod document;
mod entry;
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
    let reports = summaries(
        lines,
        !(json.is_empty() && terse.is_empty() && normal.is_empty()),
    );
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

/// Lines around the results that repeat them or report progress.
fn summaries(lines: &Lines<'_>, with_jobs: bool) -> Vec<Extract> {
    let mut found = Vec::new();
    for (number, text) in lines.iter() {
        let text = text.trim();
        let group = ["READ: bw=", "WRITE: bw=", "TRIM: bw=", "MIXED: bw="];
        let old = ["READ: io=", "WRITE: io=", "TRIM: io=", "MIXED: io="];
        let sums = group
            .iter()
            .chain(&old)
            .any(|begin| text.starts_with(begin));
        let progress = text.starts_with("Jobs: ") && text.contains("[eta");
        if progress || (sums && with_jobs) {
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
