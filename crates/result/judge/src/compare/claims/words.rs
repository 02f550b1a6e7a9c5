//! Words for the trials of a side.

use iodyno_model::{Claim, Unit};
use iodyno_units::{list, significant};

use super::attempt::Recomputed;

/// Describes the trials of a side; the tool may have excluded some as outliers.
pub(super) fn held_words(side: &Recomputed, claim: &Claim) -> String {
    let held = side.figures.len();
    let number = match held {
        0 => return "none".to_owned(),
        1 => "one run".to_owned(),
        n => format!("{n} runs"),
    };
    let outliers = match held - side.counted {
        0 => String::new(),
        n => format!(" ({n} left out as outliers)"),
    };
    let values: Vec<String> = side
        .figures
        .iter()
        .map(|(_, f)| plain(f.value / side.scale))
        .collect();
    format!("{number}{outliers}: {} {}", list(&values), claim.unit)
}

/// Describes the figures of a side's mean; for rates derived from mean latencies, those latencies.
pub(super) fn figures_words(side: &Recomputed, claim: &Claim) -> String {
    let figures = &side.figures;
    let number = match figures.len() {
        1 => "one".to_owned(),
        2 => "two".to_owned(),
        3 => "three".to_owned(),
        n => n.to_string(),
    };
    let averages: Option<Vec<String>> = figures
        .iter()
        .map(|(observation, figure)| {
            figure.derived.as_ref()?;
            let mean = observation.figures.iter().find(|other| {
                other.metric.unit == Unit::Nanos
                    && (other.value * figure.value / 1e9 - 1.0).abs() < 1e-9
            })?;
            Some(plain(mean.value / 1e6))
        })
        .collect();
    match averages {
        Some(averages) if !averages.is_empty() => {
            format!("the {number} averages {} ms", list(&averages))
        }
        _ => {
            let values: Vec<String> = figures
                .iter()
                .map(|(_, f)| plain(f.value / side.scale))
                .collect();
            let noun = if figures.len() == 1 {
                "value"
            } else {
                "values"
            };
            format!("the {number} {noun} {} {}", list(&values), claim.unit)
        }
    }
}

/// A number as in its source: one decimal unless it has more significant digits.
fn plain(value: f64) -> String {
    let one = format!("{value:.1}");
    let same = one
        .parse::<f64>()
        .is_ok_and(|parsed| (parsed - value).abs() <= 1e-9 * value.abs());
    match same {
        true => one,
        false => significant(value).to_string(),
    }
}

/// With one blank between words: `2.42k ±18%` becomes `2.42k ± 18%`.
pub(super) fn tidy(text: &str) -> String {
    let spaced = text.replace('±', " ± ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    words.join(" ")
}
