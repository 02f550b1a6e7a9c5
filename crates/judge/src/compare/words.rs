//! Wording of remarks: counts, lists, regimes.

use iodyno_model::Regime;
use iodyno_units::{Nanos, Rate, counted};

/// `1 trial`, `3 trials`.
pub(super) fn trials(count: usize) -> String {
    counted(count as u64, "trial")
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
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
