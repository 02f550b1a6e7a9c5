//! What printed comparisons are worth: recomputed from the trials beside them.
//!
//! The tables are those of benchstat before its change to medians: outliers beyond 1.5 interquartile
//! ranges dropped, mean ± largest deviation in percent, the U test's p, and `~` where p is 0.05 or more.

use iodyno_model::{Claim, ClaimCheck, Figure, Observation, Unit};
use iodyno_stats::{mann_whitney, trimmed_mean};
use iodyno_units::significant;

use super::grouping::values;
use super::words;

/// From this p on the tool prints `~`.
const ALPHA: f64 = 0.05;

/// Holds every claim against the trials of its own source.
pub(super) fn check(claims: &[Claim], observations: &[Observation]) -> Vec<ClaimCheck> {
    claims
        .iter()
        .map(|claim| check_one(claim, observations))
        .collect()
}

fn check_one(claim: &Claim, observations: &[Observation]) -> ClaimCheck {
    let of_source = |o: &&Observation| {
        o.unusable.is_none()
            && o.source
                .as_ref()
                .is_some_and(|at| at.source == claim.at.source)
    };
    let source: Vec<&Observation> = observations.iter().filter(of_source).collect();
    let columns = values(source.iter().copied(), Observation::CONFIGURATION);
    let workload = bare(&claim.workload);
    let trials: Vec<&Observation> = source
        .into_iter()
        .filter(|o| bare(o.dimension(Observation::WORKLOAD)) == workload)
        .collect();
    if columns.len() != claim.sides.len() {
        return refused(
            claim,
            format!(
                "the table has {}, its text {}",
                iodyno_units::counted(claim.sides.len() as u64, "side"),
                iodyno_units::counted(columns.len() as u64, "configuration")
            ),
        );
    }
    let sides: Vec<Vec<&Observation>> = columns
        .iter()
        .map(|column| {
            let mut side = trials.clone();
            side.retain(|o| o.dimension(Observation::CONFIGURATION) == column);
            side
        })
        .collect();
    let metrics = metrics(&trials, claim);
    let attempts: Vec<Attempt> = metrics
        .iter()
        .map(|metric| attempt(&sides, metric, claim))
        .collect();
    // The first of those that reproduce most sides: a rate as printed before one that is derived.
    let best = attempts.into_iter().rev().max_by_key(Attempt::reproduced);
    let Some(best) = best else {
        return refused(
            claim,
            format!("the text holds no {} of {workload}", claim.unit),
        );
    };
    ClaimCheck {
        claim: claim.clone(),
        against: against(claim, &best, &columns),
        recomputed: best.sides.iter().map(|side| side.text.clone()).collect(),
        p: best.p,
    }
}

fn refused(claim: &Claim, why: String) -> ClaimCheck {
    ClaimCheck {
        claim: claim.clone(),
        recomputed: vec![None; claim.sides.len()],
        p: None,
        against: vec![why],
    }
}

/// A workload's name without the prefix under which its program lists it.
fn bare(name: &str) -> &str {
    let name = name.strip_prefix("Benchmark").unwrap_or(name);
    name.strip_prefix("fsbench/").unwrap_or(name)
}

/// The metrics in the claim's unit: as measured first, then those derived from others.
fn metrics(trials: &[&Observation], claim: &Claim) -> Vec<String> {
    let unit = unit(claim);
    let mut found: Vec<(bool, String)> = Vec::new();
    for figure in trials.iter().flat_map(|o| &o.figures) {
        let entry = (figure.derived.is_some(), figure.metric.name.clone());
        if figure.metric.unit == unit && !found.contains(&entry) {
            found.push(entry);
        }
    }
    found.sort_by_key(|(derived, _)| *derived);
    let mut names: Vec<String> = found.into_iter().map(|(_, name)| name).collect();
    names.dedup();
    names
}

/// What the claim's column head says it is counted in.
fn unit(claim: &Claim) -> Unit {
    match claim.unit.as_str() {
        "ops/sec" | "ops/s" | "op/s" => Unit::OpsPerSecond,
        "MB/s" | "B/s" | "speed" => Unit::BytesPerSecond,
        "ns/op" | "time/op" | "ns" => Unit::Nanos,
        other => Unit::Other(other.to_owned()),
    }
}

/// A claim recomputed from one metric.
struct Attempt<'a> {
    sides: Vec<Recomputed<'a>>,
    p: Option<f64>,
}

struct Recomputed<'a> {
    figures: Vec<(&'a Observation, &'a Figure)>,
    text: Option<String>,
    agrees: bool,
}

impl Attempt<'_> {
    fn reproduced(&self) -> usize {
        self.sides.iter().filter(|side| side.agrees).count()
    }
}

fn attempt<'a>(sides: &[Vec<&'a Observation>], metric: &str, claim: &Claim) -> Attempt<'a> {
    let figures: Vec<Vec<(&Observation, &Figure)>> = sides
        .iter()
        .map(|side| {
            let figures = side.iter().map(|o| (*o, o.figure(metric)));
            figures
                .filter_map(|(o, figure)| Some((o, figure?)))
                .collect()
        })
        .collect();
    let numbers: Vec<Vec<f64>> = figures
        .iter()
        .map(|side| side.iter().map(|(_, figure)| figure.value).collect())
        .collect();
    // One scale a row, that of its first mean.
    let scale = numbers
        .iter()
        .find_map(|side| Some(Scale::of(trimmed_mean(side).ok()?.mean, &unit(claim))));
    let p = match numbers.as_slice() {
        [old, new] => mann_whitney(old, new).ok().map(|test| test.p),
        _ => None,
    };
    let sides =
        figures
            .into_iter()
            .zip(&numbers)
            .zip(&claim.sides)
            .map(|((figures, numbers), printed)| {
                let text = scale.and_then(|scale| as_printed(numbers, scale));
                let agrees = text.as_deref().is_some_and(|text| alike(text, printed));
                Recomputed {
                    figures,
                    text,
                    agrees,
                }
            });
    Attempt {
        sides: sides.collect(),
        p,
    }
}

fn against(claim: &Claim, attempt: &Attempt, columns: &[String]) -> Vec<String> {
    let mut against = Vec::new();
    let mut numbers_agree = true;
    for (index, ((side, column), printed)) in attempt
        .sides
        .iter()
        .zip(columns)
        .zip(&claim.sides)
        .enumerate()
    {
        let claimed = claim.n.get(index).map(|n| *n as usize);
        let held = side.figures.len();
        if let Some(n) = claimed.filter(|n| *n != held) {
            numbers_agree = false;
            against.push(format!(
                "{column}: the table says n={n}, the text holds {}",
                held_words(side, claim)
            ));
        } else if !side.agrees {
            numbers_agree = false;
            let gives = side.text.as_deref().map_or("nothing".to_owned(), tidy);
            against.push(format!(
                "{column}: {} give {gives}, not {}",
                figures_words(&side.figures, claim),
                tidy(printed)
            ));
        }
    }
    // Other numbers have another p; only with the same ones does its difference say something.
    if let (true, Some(claimed), Some(p)) = (numbers_agree, claim.p, attempt.p) {
        if (claimed - p).abs() > 0.0006 {
            against.push(format!("p is {p:.3}, not {claimed:.3}"));
        }
        if (claim.delta.trim() == "~") != (p >= ALPHA) {
            against.push(format!(
                "with p={p:.3} the difference is not printed as {}",
                claim.delta.trim()
            ));
        }
    }
    against
}

fn held_words(side: &Recomputed, claim: &Claim) -> String {
    let number = match side.figures.len() {
        0 => return "none".to_owned(),
        1 => "one run".to_owned(),
        n => format!("{n} runs"),
    };
    let values: Vec<String> = side
        .figures
        .iter()
        .map(|(_, figure)| plain(figure.value))
        .collect();
    format!("{number}: {} {}", words::list(&values), claim.unit)
}

/// The figures that a side's mean is made of; for rates derived from mean latencies, those.
fn figures_words(figures: &[(&Observation, &Figure)], claim: &Claim) -> String {
    let number = match figures.len() {
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
            format!("the {number} averages {} ms", words::list(&averages))
        }
        _ => {
            let values: Vec<String> = figures.iter().map(|(_, f)| plain(f.value)).collect();
            format!(
                "the {number} values {} {}",
                words::list(&values),
                claim.unit
            )
        }
    }
}

/// A number as its source had it: one decimal unless it has more to say.
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

/// Blanks aside, as the tool pads its columns.
fn alike(one: &str, other: &str) -> bool {
    let bare = |text: &str| {
        text.chars()
            .filter(|c| !c.is_whitespace())
            .collect::<String>()
    };
    bare(one) == bare(other)
}

/// With one blank between words: `2.42k ±18%` becomes `2.42k ± 18%`.
fn tidy(text: &str) -> String {
    let spaced = text.replace('±', " ± ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    words.join(" ")
}

/// How the tool scales a row's means: three significant digits, decided by the first.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scale {
    decimals: usize,
    divisor: f64,
    suffix: &'static str,
}

/// The units by which means are divided; each from 0.995 of it on.
const RATES: [(f64, &str); 5] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
const BYTE_RATES: [(f64, &str); 5] = [
    (1e12, "TB/s"),
    (1e9, "GB/s"),
    (1e6, "MB/s"),
    (1e3, "kB/s"),
    (1.0, "B/s"),
];
const TIMES: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];

impl Scale {
    fn of(mean: f64, unit: &Unit) -> Scale {
        let units: &[(f64, &'static str)] = match unit {
            Unit::BytesPerSecond => &BYTE_RATES,
            Unit::Nanos => &TIMES,
            _ => &RATES,
        };
        let (divisor, suffix) = units
            .iter()
            .copied()
            .find(|(divisor, _)| mean >= 0.995 * divisor)
            .unwrap_or(units[units.len() - 1]);
        let decimals = match mean / divisor {
            scaled if scaled >= 99.5 => 0,
            scaled if scaled >= 9.95 => 1,
            _ => 2,
        };
        Scale {
            decimals,
            divisor,
            suffix,
        }
    }

    fn print(self, mean: f64) -> String {
        format!("{:.*}{}", self.decimals, mean / self.divisor, self.suffix)
    }
}

/// Mean ± largest deviation as the tool prints it; `None` without values.
fn as_printed(values: &[f64], scale: Scale) -> Option<String> {
    let mean = trimmed_mean(values).ok()?;
    let deviation = mean.deviation.map_or(String::new(), |share| {
        format!(" ±{:>3}", format!("{:.0}%", share * 100.0))
    });
    Some(format!("{}{deviation}", scale.print(mean.mean)))
}
