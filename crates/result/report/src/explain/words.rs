//! The sentences of an explanation.

use iodyno_model::{
    Cause, Change, Contrast, Estimated, Explained, ExplainedFamily, Pairing, SeriesUnit, Term,
    TooFew, Verdict,
};
use iodyno_units::significant;

use crate::compare::verdict_short;
use crate::series::Scale;

/// The most causes named with a term.
const MAX_CAUSES: usize = 4;

/// Longer values are truncated.
const MAX_VALUE_LEN: usize = 64;

const NO_DIFFERENCE: &str = "no difference to explain";

/// `randread: zfs against ext4, iops: 0.36× [0.34, 0.38], SLOWER`.
pub(super) fn title(explained: &Explained) -> String {
    let mut row = explained.row.clone();
    row.retain(|name| !name.is_empty());
    let row = match row.is_empty() {
        true => String::new(),
        false => format!("{}: ", row.join(" ")),
    };
    let (baseline, candidate) = &explained.columns;
    format!(
        "{row}{candidate} against {baseline} by {}: {}",
        explained.metric.name,
        speed(explained)
    )
}

/// `0.36× [0.34, 0.38], SLOWER`.
pub(super) fn speed(explained: &Explained) -> String {
    outcome(explained.ratio, &explained.verdict)
}

fn outcome(ratio: Option<Estimated>, verdict: &Verdict) -> String {
    let ratio = ratio.map_or("no ratio".to_owned(), times);
    // The reasons of a verdict are in the comparison.
    format!("{ratio}, {}", verdict_short(verdict))
}

/// `0.36× [0.34, 0.38]`.
fn times(ratio: Estimated) -> String {
    let interval = ratio.interval.map_or(String::new(), |(low, high)| {
        format!(" [{}, {}]", significant(low), significant(high))
    });
    format!("{}{interval}", factor(ratio.value))
}

/// `psync: zfs against ext4 by iops over 5 workloads: 0.36× [0.34, 0.38], SLOWER`.
pub(super) fn family_title(family: &ExplainedFamily) -> String {
    let (baseline, candidate) = &family.columns;
    format!(
        "{}: {candidate} against {baseline} by {} over {}: {}",
        family.row.join(" ").trim(),
        family.metric.name,
        iodyno_units::counted(family.members.len() as u64, "workload"),
        outcome(family.ratio, &family.verdict)
    )
}

/// Why a family differs, in a sentence.
pub(super) fn of_family(family: &ExplainedFamily) -> String {
    let Some(common) = &family.common else {
        return "not explained: its workloads have no reason in common".to_owned();
    };
    let candidate = &family.columns.1;
    let undecided = match decided(&family.verdict, &family.by_numbers) {
        true => "",
        false => "undecided; so far ",
    };
    let ratio = family.ratio.map_or(String::new(), |ratio| {
        format!(
            "{undecided}{candidate} is {}× (geometric mean): ",
            significant(ratio.value)
        )
    });
    let causes = candidates(&common.causes);
    format!(
        "{ratio}{} is the first reason in {} of {} workloads, where it alone gives {} (geometric mean){causes}{}",
        common.words,
        common.rows.len(),
        family.members.len(),
        factor(common.factor),
        hint(common.too_few)
    )
}

/// `why: psync: …`.
pub(super) fn family_line(family: &ExplainedFamily) -> String {
    let row = family.row.join(" ");
    format!("why: {}: {}", row.trim(), of_family(family))
}

/// The name of a member of a family: the values of its row that are not those of the family.
pub(super) fn member(family: &ExplainedFamily, member: &Explained) -> String {
    let both = member.row.iter().zip(&family.row);
    let own: Vec<&str> = both
        .filter(|(own, of_family)| own != of_family)
        .map(|(own, _)| own.as_str())
        .collect();
    own.join(" ")
}

/// The verdict on whether the sides differ: that of the numbers alone if the sides are not comparable.
fn judged<'a>(verdict: &'a Verdict, by_numbers: &'a Verdict) -> &'a Verdict {
    match verdict {
        Verdict::NotComparable { .. } => by_numbers,
        verdict => verdict,
    }
}

/// Whether the numbers allow a difference as well as none.
fn undecided(explained: &Explained) -> bool {
    matches!(
        judged(&explained.verdict, &explained.by_numbers),
        Verdict::Inconclusive { .. } | Verdict::CannotDecide { .. }
    )
}

/// The table entry of a family's member without a difference.
pub(super) fn without_difference(member: &Explained) -> &'static str {
    match undecided(member) {
        true => "undecided",
        false => NO_DIFFERENCE,
    }
}

/// Whether the numbers state a difference.
pub(super) fn decided(verdict: &Verdict, by_numbers: &Verdict) -> bool {
    matches!(
        judged(verdict, by_numbers),
        Verdict::Faster | Verdict::Slower | Verdict::DifferentButSmall
    )
}

/// Why the candidate differs, in a sentence: the largest part of the ratio, its share, and candidates for its cause.
pub fn headline(explained: &Explained) -> String {
    let candidate = &explained.columns.1;
    if let Some(why) = &explained.without {
        return format!("not explained: {why}");
    }
    let Some(ratio) = explained.ratio.map(|ratio| ratio.value) else {
        return "not explained: there is no ratio".to_owned();
    };
    let Some(share) = explained.explained else {
        let none = match undecided(explained) {
            true => format!(
                "undecided; after {}, no difference is shown",
                rounds(explained)
            ),
            false => NO_DIFFERENCE.to_owned(),
        };
        return match explained.series.len() {
            0 => none,
            1 => format!("{none}; 1 quantity differs nevertheless"),
            count => format!("{none}; {count} quantities differ nevertheless"),
        };
    };
    let speed = match decided(&explained.verdict, &explained.by_numbers) {
        true => format!("{candidate} is {}×", significant(ratio)),
        false => format!(
            "undecided; after {}, {candidate} is {}×",
            rounds(explained),
            significant(ratio)
        ),
    };
    let weak = hint(explained.too_few());
    if explained.is_unexplained() {
        let known = match share > 0.0 {
            true => format!(
                "{:.0} % of it follows from what was measured",
                share * 100.0
            ),
            false => "nothing that was measured accounts for it".to_owned(),
        };
        let most = explained.terms.first();
        let most = most.filter(|term| term.share.is_some_and(|share| share > 0.0));
        let most = most.map_or(String::new(), |term| {
            format!("; the largest part is {}", part(term, ratio))
        });
        return format!("{speed}: unexplained, {known}{most}{weak}");
    }
    let mut reasons = explained.reasons();
    let first = reasons.next();
    let mut text = first.map_or(String::new(), |term| {
        format!("{}{}", part(term, ratio), candidates(&term.causes))
    });
    if let Some(second) = reasons.next() {
        text += &format!("; then {}", part(second, ratio));
    }
    format!("{speed}: {text}{weak}")
}

/// `3.10× as much of reads at the devices per op (2.9 of 2.8×)`.
fn part(term: &Term, ratio: f64) -> String {
    let larger = |value: f64| significant(value.max(value.recip()));
    let (own, all) = (larger(term.factor.value), larger(ratio));
    let contrast = &term.contrast;
    format!(
        "{}, {} ({own} of {all}×)",
        contrast.words,
        medians(contrast)
    )
}

/// `12.3 µs → 24.6 µs`.
fn medians(contrast: &Contrast) -> String {
    let (one, other) = contrast.medians;
    let unit = contrast.unit;
    format!("{} → {}", with_unit(one, unit), with_unit(other, unit))
}

/// The hint after a reason if there are too few rounds to show it.
fn hint(too_few: Option<TooFew>) -> String {
    too_few.map_or(String::new(), |TooFew { pairing, n, needed }| {
        format!(
            " (a hint: {} cannot show it, {needed} can)",
            counted(pairing, n)
        )
    })
}

fn rounds(explained: &Explained) -> String {
    counted(explained.pairing, explained.n)
}

fn counted(pairing: Pairing, n: u32) -> String {
    match pairing {
        Pairing::Paired => iodyno_units::counted(n.into(), "round"),
        Pairing::Unpaired | Pairing::Runs => {
            format!("{} a side", iodyno_units::counted(n.into(), "trial"))
        }
    }
}

/// The end of a sentence with the candidates for the cause.
fn candidates(causes: &[Cause]) -> String {
    listed(causes).map_or(String::new(), |causes| {
        format!("; candidate cause: {causes}")
    })
}

fn listed(causes: &[Cause]) -> Option<String> {
    let all: Vec<String> = causes.iter().map(cause).collect();
    match all.as_slice() {
        [] => None,
        few if few.len() <= MAX_CAUSES => Some(few.join("; ")),
        many => Some(format!(
            "{}; {} more",
            many[..MAX_CAUSES].join("; "),
            many.len() - MAX_CAUSES
        )),
    }
}

fn cause(cause: &Cause) -> String {
    match cause {
        Cause::Fact { name, values, .. } => {
            let [one, other] = short([&values.0, &values.1]);
            format!("{name}: {one} → {other}")
        }
        Cause::Series(contrast) => format!("{} {}", contrast.words, medians(contrast)),
    }
}

/// Two values that differ, short enough for a sentence: of long ones, the words with which both begin are left out.
fn short(values: [&str; 2]) -> [String; 2] {
    let is_long = |value: &str| value.chars().nth(MAX_VALUE_LEN).is_some();
    let common = match values.into_iter().any(is_long) {
        true => {
            let pairs = values[0]
                .split_inclusive(' ')
                .zip(values[1].split_inclusive(' '));
            let equal = pairs.take_while(|(one, other)| one == other);
            equal.map(|(word, _)| word.len()).sum()
        }
        false => 0,
    };
    values.map(|value| {
        let rest = &value[common..];
        let begin = if common > 0 { "… " } else { "" };
        match rest.char_indices().nth(MAX_VALUE_LEN) {
            None => format!("{begin}{rest}"),
            Some((end, _)) => format!("{begin}{}…", &rest[..end]),
        }
    })
}

/// The text below a term.
pub(super) fn causes(term: &Term) -> Option<String> {
    Some(format!("candidate causes: {}", listed(&term.causes)?))
}

/// Remarks below the tables.
pub(super) fn remarks(explained: &Explained) -> Vec<String> {
    let mut remarks = Vec::new();
    if let (Some(needed), true) = (explained.rounds_needed, explained.without.is_none()) {
        remarks.push(format!(
            "{} cannot show a change in any of {}, {needed} can; here a part counts as different if it changed in the same direction in \
             every round",
            rounds(explained),
            iodyno_units::counted(explained.tested.into(), "part")
        ));
    }
    let facts: Vec<String> = explained.other_facts.iter().map(cause).collect();
    if !facts.is_empty() {
        remarks.push(format!(
            "facts that differ and act on none of these parts: {}",
            facts.join("; ")
        ));
    }
    if !explained.lacking.is_empty() {
        remarks.push(format!("not known: {}", explained.lacking.join("; ")));
    }
    remarks
}

/// The part's name, marked if it only says where the time went.
pub(super) fn quantity(term: &Term) -> String {
    match term.open {
        true => format!("{} (where, not why)", term.contrast.words),
        false => term.contrast.words.clone(),
    }
}

/// `12.3 µs`.
pub(super) fn with_unit(value: f64, unit: SeriesUnit) -> String {
    let scale = Scale::of(unit, value);
    let text = match (unit, value != 0.0 && value.abs() < 0.1) {
        // No column is so narrow that it cuts it.
        (SeriesUnit::Number, true) if value.abs() < 0.001 => format!("{value:.1e}"),
        (SeriesUnit::Number, true) => significant(value).to_string(),
        _ => scale.draw(Some(value)),
    };
    match scale.unit {
        "" => text,
        unit => format!("{text} {unit}"),
    }
}

/// `3.10× [2.90, 3.30]`, or `+12.3 µs` where a side has none.
pub(super) fn change(contrast: &Contrast) -> String {
    match contrast.change {
        None => String::new(),
        Some(Change::Ratio(ratio)) => times(ratio),
        Some(Change::Difference(difference)) => {
            let sign = match difference.value < 0.0 {
                true => "−",
                false => "+",
            };
            format!("{sign}{}", with_unit(difference.value.abs(), contrast.unit))
        }
    }
}

pub(super) fn p(contrast: &Contrast) -> String {
    contrast.adjusted_p.map_or(String::new(), |p| match p {
        p if p < 0.001 => "<0.001".to_owned(),
        p => format!("{p:.3}"),
    })
}

/// `10/10`: in how many rounds it changed in this direction.
pub(super) fn alike(contrast: &Contrast) -> String {
    format!("{}/{}", contrast.agreeing.0, contrast.agreeing.1)
}

/// `−0.82 0.10`: the correlation with the metric over the trials of each side.
pub(super) fn correlation(contrast: &Contrast) -> String {
    let one = |value: Option<f64>| {
        value.map_or("-".to_owned(), |value| {
            format!("{value:.1}").replace('-', "−")
        })
    };
    format!("{} {}", one(contrast.within.0), one(contrast.within.1))
}

/// `0.38×`.
pub(super) fn factor(value: f64) -> String {
    format!("{}×", significant(value))
}

/// `95 %`; empty without a difference.
pub(super) fn share(share: Option<f64>) -> String {
    share.map_or(String::new(), |share| {
        format!("{:.0} %", share * 100.0).replace('-', "−")
    })
}

/// `+3 %`.
pub(super) fn signed_percent(share: f64) -> String {
    match share {
        share if share.abs() < 0.005 => "0 %".to_owned(),
        share => format!("{:+.0} %", share * 100.0).replace('-', "−"),
    }
}

/// `why: randread: zfs is 0.36×: …`.
pub(super) fn line(explained: &Explained) -> String {
    match explained.row.join(" ").trim() {
        "" => format!("why: {}", headline(explained)),
        row => format!("why: {row}: {}", headline(explained)),
    }
}
