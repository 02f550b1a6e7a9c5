//! Wording of remarks: counts, lists, regimes.

use iodyno_model::Regime;
use iodyno_units::{Nanos, Rate, counted};

/// `1 trial`, `3 trials`.
pub(super) fn trials(count: usize) -> String {
    counted(count as u64, "trial")
}

/// Ascending numbers, those in sequence as a range: `1 to 3, 7`.
pub(super) fn ranges(numbers: &[u64]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let texts: Vec<String> = runs
        .map(|run| match run {
            [first, .., last] => format!("{first} to {last}"),
            [only] => only.to_string(),
            [] => String::new(),
        })
        .collect();
    texts.join(", ")
}

/// `two regimes: 3.93k/s until 1.88 s, then 65.3k/s`.
pub(crate) fn regimes(regimes: &[Regime]) -> String {
    const MOST: usize = 6;
    let last = regimes.len().min(MOST).saturating_sub(1);
    let rates: Vec<String> = regimes
        .iter()
        .take(MOST)
        .enumerate()
        .map(|(index, regime)| match index == last {
            true => format!("{}/s", Rate(regime.rate)),
            false => format!("{}/s until {}", Rate(regime.rate), Nanos(regime.end_ns)),
        })
        .collect();
    let number = match regimes.len() {
        2 => "two".to_owned(),
        3 => "three".to_owned(),
        4 => "four".to_owned(),
        5 => "five".to_owned(),
        n => n.to_string(),
    };
    let rest = match regimes.len() > MOST {
        true => ", …",
        false => "",
    };
    format!("{number} regimes: {}{rest}", rates.join(", then "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_sequence_are_a_range() {
        for (numbers, text) in [
            (&[][..], ""),
            (&[4], "4"),
            (&[1, 2, 3, 7], "1 to 3, 7"),
            (&[1, 3, 4], "1, 3 to 4"),
        ] {
            assert_eq!(ranges(numbers), text);
        }
    }
}
