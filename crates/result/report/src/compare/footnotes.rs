//! Footnotes of a comparison: the reasons of verdicts, and remarks on the sides.

use std::collections::HashSet;

use iodyno_model::{
    CandidateResult, ComparedRow, Comparison, Metric, Pairing, Side, SideFlag, Verdict,
};
use iodyno_units::counted;

use super::figures::{limit, possible_p, ratio};
use super::words::in_words;
use super::words::{amount, still_needed, words};
use crate::style::sanitize;
use iodyno_model::ordered::distinct;

/// Footnotes in the order of their first use; equal texts share a number.
#[derive(Default)]
pub(super) struct Footnotes {
    texts: Vec<String>,
}

impl Footnotes {
    /// The number of a text, from 1.
    fn number(&mut self, text: String) -> usize {
        match self.texts.iter().position(|known| *known == text) {
            Some(index) => index + 1,
            None => {
                self.texts.push(text);
                self.texts.len()
            }
        }
    }

    /// The numbers of a cell's footnotes, ascending, each once.
    pub(super) fn of_cell(
        &mut self,
        comparison: &Comparison,
        row: &ComparedRow,
        cell: &CandidateResult,
        (alike, verbose): (bool, bool),
    ) -> Vec<usize> {
        let mut texts: Vec<String> = Vec::new();
        texts.extend(of_verdict(comparison, cell));
        texts.extend(of_conditions(comparison, row, cell));
        texts.extend(of_members(cell));
        texts.extend(of_differences(comparison, cell));
        if verbose {
            texts.extend(of_sides(&row.baseline, &cell.side));
        }
        texts.extend(cell.notes.iter().cloned());
        if verbose {
            texts.extend(cell.remarks.iter().cloned());
        }
        let texts = texts.iter().map(|text| match alike {
            true => sanitize(&unnamed(text, &cell.side.column)),
            false => sanitize(text),
        });
        let mut numbers: Vec<usize> = texts.map(|text| self.number(text)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    pub(super) fn texts(self) -> Vec<String> {
        self.texts
    }
}

/// The candidate of the cell that has the footnote.
pub(super) const MARKED: &str = "the marked side";

/// A text with [`MARKED`] for the candidate's name, where it is one: after `of` or `and`, or at the start.
fn unnamed(text: &str, candidate: &str) -> String {
    if candidate.is_empty() {
        return text.to_owned();
    }
    let mut unnamed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(candidate) {
        let (before, from) = rest.split_at(at);
        let after = &from[candidate.len()..];
        unnamed += before;
        let begins = unnamed.is_empty() || unnamed.ends_with(" of ") || unnamed.ends_with(" and ");
        let ends = after.is_empty() || after.starts_with([' ', ',', ':', ';', ')']);
        unnamed += match begins && ends {
            true => MARKED,
            false => candidate,
        };
        rest = after;
    }
    unnamed + rest
}

fn of_verdict(comparison: &Comparison, cell: &CandidateResult) -> Option<String> {
    match &cell.verdict {
        Verdict::NotComparable { reasons } => {
            let reasons = match reasons.is_empty() {
                true => "the sides differ in more than the axis".to_owned(),
                false => reasons.join("; "),
            };
            let numbers = match &cell.by_numbers {
                Verdict::NotComparable { .. } | Verdict::NoData { .. } => String::new(),
                verdict => format!("; by the numbers alone {}", by_numbers(cell, verdict)),
            };
            Some(reasons + &numbers)
        }
        Verdict::Inconclusive { reasons, .. } if !reasons.is_empty() => {
            let numbers = match (&cell.by_numbers, &cell.ratio) {
                (same, _) if *same == cell.verdict => String::new(),
                // More trials would not help here.
                (Verdict::Inconclusive { .. }, Some(it)) => {
                    format!("; by the numbers alone {}", ratio(it))
                }
                (verdict, _) => format!("; by the numbers alone {}", by_numbers(cell, verdict)),
            };
            Some(reasons.join("; ") + &numbers)
        }
        Verdict::Inconclusive { more, .. } => {
            let needed = still_needed(cell.pairing, *more);
            let guess = if more.is_some() {
                " at the current spread"
            } else {
                ""
            };
            Some(format!("undecided: {needed}{guess}"))
        }
        Verdict::CannotDecide {
            n,
            smallest_p,
            needed_p,
            least,
        } => {
            // More trials of the same one or two runs would not help: a note says how many runs are needed.
            let needed = match cell.pairing {
                Pairing::Unpaired => String::new(),
                pairing => format!(": at least {}", amount(pairing, *least)),
            };
            let spent = match comparison.question.looks {
                Some(1..) => ", because an earlier verdict of this run spent a part of α",
                _ => "",
            };
            // One round less would be enough without a further look.
            let fewer = 0.5f64.powi(least.saturating_sub(2) as i32) <= *needed_p;
            let extended = match cell.pairing == Pairing::Paired && fewer {
                true => ", because a verdict after an extension has a fifth of this",
                false => "",
            };
            Some(format!(
                "n={n}, smallest possible p is {}, and it has to be below {}{spent}{needed}{extended}",
                possible_p(*smallest_p),
                limit(*needed_p)
            ))
        }
        Verdict::NoData { why } if !why.is_empty() => Some(why.clone()),
        _ => None,
    }
}

/// The verdict by the numbers alone, with the ratio, because the table omits it for such verdicts.
fn by_numbers(cell: &CandidateResult, verdict: &Verdict) -> String {
    let told = words(cell, verdict);
    match (&cell.ratio, verdict) {
        (Some(it), Verdict::CannotDecide { .. } | Verdict::Equivalent) => {
            format!("{} and {told}", ratio(it))
        }
        _ => told,
    }
}

/// Conditions of a cell that differ from the header's, and the meaning of a metric whose name does not explain it.
fn of_conditions(
    comparison: &Comparison,
    row: &ComparedRow,
    cell: &CandidateResult,
) -> Vec<String> {
    let mut texts = Vec::new();
    if row.metric.name == Metric::COMPLETION {
        texts.push("compared by completion, drain included".to_owned());
    }
    let paired = cell.pairing == Pairing::Paired;
    let told = matches!(
        cell.verdict,
        Verdict::CannotDecide { .. } | Verdict::NoData { .. }
    );
    if !told && (cell.n != comparison.rounds || paired != comparison.paired) {
        texts.push(amount(cell.pairing, cell.n));
    }
    texts
}

fn of_members(cell: &CandidateResult) -> Option<String> {
    let members: Vec<String> = cell
        .members
        .iter()
        .map(|member| {
            let ratio = iodyno_model::Estimated {
                value: member.ratio,
                interval: None,
                level: 0.0,
            };
            format!("{} {}", member.workload, self::ratio(&ratio))
        })
        .collect();
    (!members.is_empty()).then(|| format!("geometric mean of {}", members.join(", ")))
}

/// Differences of this cell that the comparison as a whole does not list.
fn of_differences(comparison: &Comparison, cell: &CandidateResult) -> Option<String> {
    let told = |name: &str| comparison.differs.iter().any(|it| it.name == name);
    let texts: Vec<String> = cell
        .differs
        .iter()
        .filter(|difference| !difference.axis && !told(&difference.name))
        .map(|difference| in_words(&difference.name, &difference.values))
        .collect();
    (!texts.is_empty()).then(|| format!("differs: {}", texts.join(", ")))
}

/// The flags of both sides; a flag of both is listed once. Excluded trials and the regimes of finite work are in the
/// cell's notes.
fn of_sides(baseline: &Side, candidate: &Side) -> Vec<String> {
    let both = |flag: &&SideFlag| candidate.flags.contains(flag);
    let own = |side: &Side, flag: &SideFlag| format!("{}: {flag}", side.column);
    let shared = baseline.flags.iter().filter(both);
    let shared = shared.map(|flag| format!("{} and {}: {flag}", baseline.column, candidate.column));
    let first = baseline.flags.iter().filter(|flag| !both(flag));
    let second = candidate
        .flags
        .iter()
        .filter(|flag| !baseline.flags.contains(flag));
    shared
        .chain(first.map(|flag| own(baseline, flag)))
        .chain(second.map(|flag| own(candidate, flag)))
        .collect()
}

/// The number of flags that are listed, at most.
const MAX_FLAGS: usize = 3;

/// A flag of a whole comparison.
struct CommonFlag<'a> {
    words: &'a str,
    trials: u32,
    /// The row and the side with the largest share.
    worst: (&'a [String], &'a Side, &'a SideFlag),
}

/// The flags of all trials in one line, the most frequent first, and the number of further flags and remarks: `workers
/// waited for a CPU in 7 trials (depth-1: 6 of 10); -v lists 2 more notes`. Empty without any.
pub(super) fn in_short(comparison: &Comparison) -> String {
    // The members of a family have rows of their own.
    let all_families = comparison.rows.iter().all(|row| row.family);
    let rows = comparison.rows.iter();
    let rows = rows.filter(|row| all_families || !row.family);
    let sides = rows.flat_map(|row| {
        let cells = row.cells.iter().map(|cell| &cell.side);
        let own = std::iter::once(&row.baseline).chain(cells);
        own.map(|side| (row.name.as_slice(), side))
    });
    // The trials of further metrics of a row are the same ones.
    let mut known: HashSet<(&[String], &str)> = HashSet::new();
    let sides = sides.filter(|(name, side)| known.insert((*name, &side.column)));
    let mut flags: Vec<CommonFlag<'_>> = Vec::new();
    let each = sides.flat_map(|(row, side)| side.flags.iter().map(move |it| (row, side, it)));
    for (row, side, flag) in each {
        let share = |flag: &SideFlag| f64::from(flag.trials) / f64::from(flag.of.max(1));
        match flags.iter_mut().find(|it| it.words == flag.words) {
            Some(known) => {
                known.trials += flag.trials;
                if share(flag) > share(known.worst.2) {
                    known.worst = (row, side, flag);
                }
            }
            None => flags.push(CommonFlag {
                words: &flag.words,
                trials: flag.trials,
                worst: (row, side, flag),
            }),
        }
    }
    flags.sort_by_key(|flag| std::cmp::Reverse(flag.trials));
    let cells = comparison.rows.iter().flat_map(|row| &row.cells);
    let remarks = cells.flat_map(|cell| cell.remarks.iter().map(String::as_str));
    let remarks: HashSet<&str> = remarks.collect();
    let more = flags.len().saturating_sub(MAX_FLAGS) + remarks.len();
    let several = comparison.rows.len() > 1;
    let shown = flags.iter().take(MAX_FLAGS).map(|flag| {
        let (row, side, worst) = flag.worst;
        // With one row, its name says nothing.
        let row = row.iter().filter(|_| several).map(String::as_str);
        let place: Vec<&str> = row.chain([side.column.as_str()]).collect();
        let trials = counted(flag.trials.into(), "trial");
        let (words, place) = (flag.words, place.join(", "));
        format!(
            "{words} in {trials} ({place}: {} of {})",
            worst.trials, worst.of
        )
    });
    let shown: Vec<String> = shown.collect();
    let more = match more {
        0 => String::new(),
        more => format!("-v prints {}", counted(more as u64, "more note")),
    };
    let parts = [shown.join(", "), more];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    sanitize(&parts.join("; "))
}

pub(super) fn each_once(texts: &[String]) -> String {
    distinct(texts.iter().map(String::as_str)).join("; ")
}

#[cfg(test)]
mod tests {
    use super::unnamed;

    #[test]
    fn the_candidate_is_unnamed_only_where_its_name_is_a_name() {
        for (text, name, expected) in [
            (
                "1 run of run 1 and 1 of run 12",
                "run 1",
                "1 run of the marked side and 1 of run 12",
            ),
            ("run 2: a cache", "run 2", "the marked side: a cache"),
            (
                "steadiness of a and b unknown",
                "b",
                "steadiness of a and the marked side unknown",
            ),
            ("about 3 more rounds", "rounds", "about 3 more rounds"),
            ("", "x", ""),
            ("ab", "", "ab"),
        ] {
            assert_eq!(unnamed(text, name), expected);
        }
    }
}
