//! Verdicts as text, as a full line and as a short form for tables; and the number of verdicts of each kind.

use iodyno_model::{
    Better, CandidateResult, ComparedRow, Comparison, Observation, Pairing, Question, Unit,
    Verdict, VerdictCounts,
};

use iodyno_units::percent;

use super::figures::{change, p_is, possible_p, ratio};
use crate::style::sanitize;
use iodyno_model::ordered::entry;

/// A verdict in one line, without the candidate's name: `FASTER 1.66× [1.45, 1.90], 10 rounds, p=0.002`.
///
/// p is the adjusted one if there is one. The text is not wrapped and contains characters beyond ASCII.
pub fn verdict_words(cell: &CandidateResult) -> String {
    words(cell, &cell.verdict)
}

/// The primary verdicts as self-contained sentences: one for each, or for rows that have the same one. Undecided rows
/// have no figures, which a reader could take for a result.
pub fn sentences(comparison: &Comparison) -> Vec<String> {
    let baseline = comparison.columns.first().map_or("", String::as_str);
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let rows = comparison.rows.iter();
    let rows = rows.filter(|row| !row.exploratory && !row.no_difference);
    let all = rows.clone().count();
    for row in rows {
        let mut name = row_name(row, &comparison.question);
        name.retain(|part| !part.is_empty());
        for cell in &row.cells {
            entry(&mut found, sentence(cell, baseline)).push(name.join(" "));
        }
    }
    let texts = found.into_iter().map(|(text, mut names)| {
        names.retain(|name| !name.is_empty());
        match names.len() {
            0 => text,
            number if number == all && all > 2 => format!("all {all}: {text}"),
            _ => format!("{}: {text}", names.join(", ")),
        }
    });
    texts.map(|text| sanitize(&text)).collect()
}

fn sentence(cell: &CandidateResult, baseline: &str) -> String {
    let candidate = &cell.side.column;
    let times = || match cell.ratio.as_ref() {
        None => String::new(),
        Some(found) => {
            let level = found.interval.map_or(String::new(), |_| {
                format!(", with {} confidence", percent(found.level))
            });
            format!(": {} the speed{level}", ratio(found))
        }
    };
    let evidence = || {
        let p = cell.adjusted_p.or(cell.p).map(p_is);
        let parts = [Some(amount(cell.pairing, cell.n)), p];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join(", ")
    };
    match &cell.verdict {
        Verdict::Faster | Verdict::Slower => format!(
            "{candidate} is {} than {baseline}{}; {}",
            short(&cell.verdict),
            times(),
            evidence()
        ),
        Verdict::DifferentButSmall => format!(
            "{candidate} is different from {baseline}, but by less than the margin of {}{}; {}",
            percent(cell.margin),
            times(),
            evidence()
        ),
        Verdict::Equivalent => format!(
            "{candidate} and {baseline} are EQUIVALENT: they differ by less than the margin of {}",
            percent(cell.margin)
        ),
        Verdict::Inconclusive { .. } | Verdict::CannotDecide { .. } => {
            format!("{candidate} against {baseline}: undecided")
        }
        Verdict::NotComparable { .. } | Verdict::NoData { .. } => {
            format!("{candidate} against {baseline}: {}", verdict_words(cell))
        }
    }
}

/// The name of a row: a value for each dimension of the rows. A family is marked, because a workload can have its name.
pub(super) fn row_name(row: &ComparedRow, question: &Question) -> Vec<String> {
    let mut name = row.name.clone();
    // Without row dimensions there is one row, with empty names.
    name.resize(question.rows.len(), String::new());
    let workload = question
        .rows
        .iter()
        .position(|row| row == Observation::WORKLOAD);
    if let Some(place) = workload.filter(|_| row.family) {
        name[place] += " (family)";
    }
    name
}

/// The text of another verdict on the cell, such as the one by the numbers alone.
pub(super) fn words(cell: &CandidateResult, verdict: &Verdict) -> String {
    let head = short(verdict);
    match verdict {
        Verdict::Faster | Verdict::Slower | Verdict::DifferentButSmall => {
            let figures = [
                cell.ratio.as_ref().map(ratio),
                Some(amount(cell.pairing, cell.n)),
                cell.adjusted_p.or(cell.p).map(p_is),
            ];
            let figures: Vec<String> = figures.into_iter().flatten().collect();
            format!("{head} {}", figures.join(", "))
        }
        Verdict::Equivalent => format!("{head} within ±{}", percent(cell.margin)),
        Verdict::Inconclusive { more, reasons } => {
            let told = *verdict != cell.verdict || !no_verdict(cell);
            let interval = cell.ratio.as_ref().filter(|_| told).and_then(change);
            let interval = interval.map_or(String::new(), |interval| format!(" {interval}"));
            let why = match reasons.is_empty() {
                true => still_needed(cell.pairing, *more),
                false => reasons.join("; "),
            };
            format!("{head}{interval}: {why}")
        }
        Verdict::CannotDecide { n, smallest_p, .. } => format!(
            "{head}: n={n}, smallest possible p is {}",
            possible_p(*smallest_p)
        ),
        Verdict::NotComparable { reasons } if reasons.is_empty() => head.to_owned(),
        Verdict::NotComparable { reasons } => format!("{head}: {}", reasons.join("; ")),
        Verdict::NoData { why } if why.is_empty() => head.to_owned(),
        Verdict::NoData { why } => format!("{head}: {why}"),
    }
}

/// Whether the design of the trials allows no verdict. Ratio and interval are then not printed, because they would be
/// mistaken for one.
pub(super) fn no_verdict(cell: &CandidateResult) -> bool {
    matches!(cell.verdict, Verdict::Inconclusive { .. }) && cell.by_numbers != cell.verdict
}

/// `about 14 more rounds`.
pub(super) fn still_needed(pairing: Pairing, more: Option<u32>) -> String {
    match more {
        Some(1) if pairing == Pairing::Paired => "about 1 more round".to_owned(),
        Some(1) if pairing == Pairing::Runs => "about 1 more run a side".to_owned(),
        Some(1) => "about 1 more trial a side".to_owned(),
        Some(more) => format!("about {more} more {}", unit(pairing)),
        None => format!("more {}, number unknown", unit(pairing)),
    }
}

/// `10 rounds`, `3 trials a side`.
pub(super) fn amount(pairing: Pairing, n: u32) -> String {
    match (pairing, n) {
        (Pairing::Paired, 1) => "1 round".to_owned(),
        (Pairing::Unpaired, 1) => "1 trial a side".to_owned(),
        (Pairing::Runs, 1) => "1 run a side".to_owned(),
        (pairing, n) => format!("{n} {}", unit(pairing)),
    }
}

fn unit(pairing: Pairing) -> &'static str {
    match pairing {
        Pairing::Paired => "rounds",
        Pairing::Unpaired => "trials a side",
        Pairing::Runs => "runs a side",
    }
}

/// The text at the beginning of a verdict.
pub(crate) fn short(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "FASTER",
        Verdict::Slower => "SLOWER",
        Verdict::Equivalent => "EQUIVALENT",
        Verdict::DifferentButSmall => "DIFFERENT BUT SMALL",
        Verdict::Inconclusive { .. } => "INCONCLUSIVE",
        Verdict::CannotDecide { .. } => "CANNOT DECIDE",
        Verdict::NotComparable { .. } => "NOT COMPARABLE",
        Verdict::NoData { .. } => "NO DATA",
    }
}

/// The name of a verdict in CSV and JSON.
pub(crate) fn tag(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Equivalent => "equivalent",
        Verdict::DifferentButSmall => "different_but_small",
        Verdict::Inconclusive { .. } => "inconclusive",
        Verdict::CannotDecide { .. } => "cannot_decide",
        Verdict::NotComparable { .. } => "not_comparable",
        Verdict::NoData { .. } => "no_data",
    }
}

/// The primary verdicts of a candidate in a sentence without its end: `zfs is faster than ext4: 1.66× [1.45, 1.90]`,
/// or `zfs against ext4: faster in 2 of 7, slower in 4, undecided in 1`. `heading`: the printed name of a side.
pub(super) fn answer(
    comparison: &Comparison,
    candidate: &str,
    heading: &dyn Fn(&str) -> String,
) -> String {
    let cells = comparison.primary_cells();
    let cells: Vec<&CandidateResult> = cells.filter(|cell| cell.side.column == candidate).collect();
    let baseline = heading(comparison.columns.first().map_or("", String::as_str));
    let names = [
        Observation::CONFIGURATION,
        Observation::WORKLOAD,
        Observation::RUN,
        Observation::NAME,
    ];
    let axis = comparison.question.columns.as_str();
    // The value of an axis says nothing without its name.
    let name = match names.contains(&axis) {
        true => heading(candidate),
        false => format!("{} {}", sanitize(axis), heading(candidate)),
    };
    match cells.as_slice() {
        [] => format!("{name} is not compared with {baseline}"),
        [cell] => of_one(cell, &name, &baseline),
        _ => of_several(&comparison.verdicts(Some(candidate)), &name, &baseline),
    }
}

fn of_one(cell: &CandidateResult, name: &str, baseline: &str) -> String {
    let times = cell.ratio.as_ref();
    let times = times.map_or(String::new(), |it| format!(": {}", ratio(it)));
    match &cell.verdict {
        Verdict::Faster => format!("{name} is faster than {baseline}{times}"),
        Verdict::Slower => format!("{name} is slower than {baseline}{times}"),
        Verdict::Equivalent => format!(
            "{name} is as fast as {baseline}, within {}",
            percent(cell.margin)
        ),
        Verdict::DifferentButSmall => {
            format!(
                "{name} differs from {baseline} by less than {}{times}",
                percent(cell.margin)
            )
        }
        Verdict::Inconclusive { .. } | Verdict::CannotDecide { .. } => {
            format!("It is undecided whether {name} is faster than {baseline}")
        }
        Verdict::NotComparable { .. } => format!("{name} and {baseline} are not comparable"),
        Verdict::NoData { .. } => format!("There are no data to compare {name} with {baseline}"),
    }
}

fn of_several(counts: &VerdictCounts, name: &str, baseline: &str) -> String {
    let all = counts.all();
    let parts = counts.parts().into_iter().filter(|(count, _)| *count > 0);
    let parts = parts.enumerate().map(|(place, (count, word))| match place {
        0 if count == all && all == 2 => format!("{word} in both"),
        0 if count == all => format!("{word} in all {all}"),
        0 => format!("{word} in {count} of {all}"),
        _ => format!("{word} in {count}"),
    });
    let parts: Vec<String> = parts.collect();
    format!("{name} against {baseline}: {}", parts.join(", "))
}

/// `mount options (noatime against relatime)`.
pub(super) fn in_words(name: &str, (baseline, candidate): &(String, String)) -> String {
    let or_unknown = |value: &str| match value.is_empty() {
        true => "unknown".to_owned(),
        false => value.to_owned(),
    };
    format!(
        "{name} ({} against {})",
        or_unknown(baseline),
        or_unknown(candidate)
    )
}

/// The name of a unit in CSV and JSON.
pub(crate) fn unit_name(unit: &Unit) -> &str {
    match unit {
        Unit::OpsPerSecond => "ops/s",
        Unit::BytesPerSecond => "B/s",
        Unit::Nanos => "ns",
        Unit::Other(unit) => unit,
    }
}

pub(crate) fn better(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher",
        Better::Lower => "lower",
    }
}

pub(super) fn pairing(pairing: Pairing) -> &'static str {
    match pairing {
        Pairing::Paired => "paired",
        Pairing::Unpaired => "unpaired",
        Pairing::Runs => "runs",
    }
}
