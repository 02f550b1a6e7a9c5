//! Checks printed comparisons against the trials in the same source.
//!
//! The tables are benchstat's. Until 2022: outliers beyond 1.5 interquartile ranges are dropped, the mean ± the
//! largest deviation is printed, and `~` if p is not below 0.05. Since then: the median ± the farther end of its 95 %
//! interval, and `~` if p is above 0.05. A printed number agrees with the trials if it is equal to theirs rounded to
//! the printed digits, so neither the tool's scales nor its rounding of ties matter.

use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::{Claim, ClaimCheck, ClaimRules, Figure, Observation, Unit};
use iodyno_stats::{Sample, geometric_mean, mann_whitney, mean_difference, trimmed_mean};
use iodyno_units::significant;

use super::grouping::{distinct, values};
use super::words;

/// The tools print `~` above this p by default.
const ALPHA: f64 = 0.05;
/// Computed values agree up to this relative difference: sums in another order differ in the last bits.
const ROUNDING: f64 = 1e-9;

/// Checks every claim against the trials of its own source, or of all sources if its own has none.
pub fn check_claims(claims: &[Claim], observations: &[Observation]) -> Vec<ClaimCheck> {
    let usable: Vec<&Observation> = observations
        .iter()
        .filter(|o| o.unusable.is_none() && o.source.is_some())
        .collect();
    let rows: Vec<Row> = claims
        .iter()
        .map(|claim| Row::of(claim, claims, &usable))
        .collect();
    claims
        .iter()
        .zip(&rows)
        .map(|(claim, row)| match claim.subject.geomean {
            true => check_geomean(claim, &row.pool, claims, &rows),
            false => check_row(claim, row),
        })
        .collect()
}

/// The comparison of a claim with the trials.
struct Row<'a> {
    /// The trials that its table can refer to.
    pool: Vec<&'a Observation>,
    /// The best interpretation of the claim, or the reason why there is none.
    attempt: Result<Attempt<'a>, String>,
}

impl<'a> Row<'a> {
    fn of(claim: &Claim, claims: &[Claim], usable: &[&'a Observation]) -> Row<'a> {
        let of_source = |o: &&&Observation| {
            let source = o.source.as_ref().map(|at| &at.source);
            source == Some(&claim.at.source)
        };
        let mut pool: Vec<&Observation> = usable.iter().filter(of_source).copied().collect();
        if pool.is_empty() {
            pool = usable.to_vec();
        }
        pool.retain(|o| {
            claim
                .subject
                .keys
                .iter()
                .all(|(key, value)| has(o, key, value))
        });
        let attempt = best_attempt(claim, claims, &pool);
        Row { pool, attempt }
    }
}

/// Tries each division of the trials into sides and each metric in the claim's unit, and returns the one that agrees
/// best.
fn best_attempt<'a>(
    claim: &Claim,
    claims: &[Claim],
    pool: &[&'a Observation],
) -> Result<Attempt<'a>, String> {
    let trials = matching(claim, claims, pool);
    let label = label(claim);
    if pool.is_empty() {
        return Err("there are no trials to check it against".to_owned());
    }
    if trials.is_empty() && !claim.subject.geomean {
        return Err(format!("there are no trials of {label}"));
    }
    let metrics = metrics(&trials, claim);
    if metrics.is_empty() && !claim.subject.geomean {
        return Err(format!("the trials of {label} have no {}", claim.unit));
    }
    let partitions = partitions(claim, &trials, pool);
    if partitions.is_empty() {
        let configurations = values(pool.iter().copied(), Observation::CONFIGURATION);
        return Err(format!(
            "the row has {}, the trials have {}: which is which is not known",
            iodyno_units::counted(claim.sides.len() as u64, "side"),
            iodyno_units::counted(configurations.len() as u64, "configuration")
        ));
    }
    // The first of the best ones: a rate as printed has precedence over a derived one.
    let mut attempts = Vec::new();
    for sides in &partitions {
        for (metric, scale) in &metrics {
            for reading in Reading::of(claim) {
                attempts.push(Attempt::of(claim, sides, (metric, *scale), *reading));
            }
        }
    }
    let best = attempts.into_iter().rev().max_by_key(Attempt::agreeing);
    best.ok_or_else(|| format!("there are no trials of {label}"))
}

/// The row's label without the prefix that its program adds.
fn label(claim: &Claim) -> &str {
    bare(&claim.workload)
}

fn bare(name: &str) -> &str {
    let name = name.strip_prefix("Benchmark").unwrap_or(name);
    name.strip_prefix("fsbench/").unwrap_or(name)
}

/// Whether a trial has a value for a key. A key that the trial does not have excludes nothing.
fn has(o: &Observation, key: &str, value: &str) -> bool {
    let own = match key {
        "config" | Observation::CONFIGURATION => Observation::CONFIGURATION,
        other => other,
    };
    let imported = format!("imported {key}");
    let part = format!("/{key}");
    let mut known = [own, imported.as_str(), part.as_str()]
        .into_iter()
        .filter_map(|name| o.dimensions.get(name).map(String::as_str))
        .chain(
            o.facts
                .iter()
                .filter(|fact| fact.name == key)
                .map(|fact| fact.value.as_str()),
        )
        .peekable();
    known.peek().is_none() || known.any(|known| known == value)
}

/// The trials named by a row's label.
fn matching<'a>(claim: &Claim, claims: &[Claim], pool: &[&'a Observation]) -> Vec<&'a Observation> {
    let subject = &claim.subject;
    let name = match subject.benchmark.is_empty() {
        true => label(claim),
        false => &subject.benchmark,
    };
    // Parameters that other labels of the table have and this one lacks.
    let absent: BTreeSet<&String> = claims
        .iter()
        .filter(|other| other.at.source == claim.at.source)
        .flat_map(|other| other.subject.dimensions.keys())
        .filter(|key| !subject.dimensions.contains_key(*key))
        .collect();
    let named = |o: &&&Observation| {
        bare(o.dimension(Observation::WORKLOAD)) == name
            && subject.dimensions.iter().all(|(key, value)| {
                o.dimension(key) == value || o.dimension(&format!("/{key}")) == value
            })
            && !absent.iter().any(|key| o.dimensions.contains_key(*key))
    };
    let found: Vec<&Observation> = pool.iter().filter(named).copied().collect();
    if !found.is_empty() {
        return found;
    }
    // A label can consist of values of any dimension: `Read 4k`.
    let words: Vec<&str> = label(claim).split_whitespace().collect();
    let worded = |o: &&&Observation| {
        words
            .iter()
            .all(|word| o.dimensions.values().any(|value| bare(value) == *word))
    };
    pool.iter().filter(worded).copied().collect()
}

/// The metrics in the claim's unit, each with the conversion factor: first as measured, then those derived from
/// others.
fn metrics(trials: &[&Observation], claim: &Claim) -> Vec<(String, f64)> {
    let named = &claim.subject.metrics;
    let scale_of = |figure: &Figure| match named.is_empty() {
        true => (figure.metric.unit == unit(claim)).then_some(1.0),
        false => {
            let by_name = named.iter().find(|(name, _)| *name == figure.metric.name);
            let derived = figure.derived.is_some() && figure.metric.unit == unit(claim);
            by_name
                .map(|(_, scale)| *scale)
                .or(derived.then(|| named[0].1))
        }
    };
    let mut found: Vec<(bool, String, f64)> = Vec::new();
    for figure in trials.iter().flat_map(|o| &o.figures) {
        let known = found.iter().any(|(derived, name, _)| {
            *derived == figure.derived.is_some() && *name == figure.metric.name
        });
        if let (false, Some(scale)) = (known, scale_of(figure)) {
            found.push((figure.derived.is_some(), figure.metric.name.clone(), scale));
        }
    }
    found.sort_by_key(|(derived, ..)| *derived);
    let mut metrics: Vec<(String, f64)> = found
        .into_iter()
        .map(|(_, name, scale)| (name, scale))
        .collect();
    metrics.dedup();
    metrics
}

/// The unit in the head of an older table.
fn unit(claim: &Claim) -> Unit {
    match claim.unit.as_str() {
        "ops/sec" | "ops/s" | "op/s" => Unit::OpsPerSecond,
        "MB/s" | "B/s" | "speed" => Unit::BytesPerSecond,
        "ns/op" | "time/op" | "ns" => Unit::Nanos,
        other => Unit::Other(other.to_owned()),
    }
}

/// A side of a claim: its name and its trials.
type Trials<'a> = (String, Vec<&'a Observation>);

/// The possible divisions of the trials into the claim's sides.
fn partitions<'a>(
    claim: &Claim,
    trials: &[&'a Observation],
    pool: &[&'a Observation],
) -> Vec<Vec<Trials<'a>>> {
    let count = claim.sides.len();
    let mut found = Vec::new();
    let columns = &claim.subject.columns;
    let below = |texts: &[String]| -> Vec<&'a Observation> {
        let stands_below = |o: &&&Observation| texts.iter().all(|text| is_called(o, text));
        trials.iter().filter(stands_below).copied().collect()
    };
    if columns.len() == count && columns.iter().all(|texts| !texts.is_empty()) {
        let sides: Vec<Trials> = columns
            .iter()
            .map(|texts| (texts.join(" "), below(texts)))
            .collect();
        if sides.iter().any(|(_, side)| !side.is_empty()) {
            return vec![sides];
        }
    }
    type Of = fn(&Observation) -> Option<&String>;
    let by: [Of; 2] = [
        |o| o.dimensions.get(Observation::CONFIGURATION),
        |o| o.source.as_ref().map(|at| &at.source),
    ];
    // One side is one configuration, even if a file contains several.
    let by = if count == 1 { &by[..1] } else { &by[..] };
    for of in by {
        let parted = [trials, pool]
            .map(|some| distinct(some.iter().filter_map(|o| of(o))))
            .into_iter()
            .find(|names| names.len() == count);
        let Some(names) = parted else { continue };
        let side = |name: &String| {
            let mut side = trials.to_vec();
            side.retain(|o| of(o) == Some(name));
            side
        };
        found.push(
            names
                .iter()
                .map(|name| (name.clone(), side(name)))
                .collect(),
        );
    }
    found
}

/// Whether a column's head names a trial: by its configuration, another dimension, or its file.
fn is_called(o: &Observation, text: &str) -> bool {
    let of_file = o.source.as_ref().is_some_and(|at| {
        let file = at.source.as_str();
        let after = |end: &str| {
            file.strip_suffix(end)
                .is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
        };
        after(text) || text.rsplit('/').next().is_some_and(after)
    });
    of_file || o.dimensions.values().any(|value| value == text)
}

/// The values that a row of medians can refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    All,
    /// The unit is declared exact: the most frequent value with the whole range.
    Exact,
    /// A table in `sec` or `B`: values of 0 in `ns` or `MB` are in a separate table.
    NotZero,
    /// That separate table.
    Zero,
}

impl Reading {
    fn of(claim: &Claim) -> &'static [Reading] {
        match claim.subject.rules {
            ClaimRules::Means => &[Reading::All],
            ClaimRules::Medians => &[
                Reading::All,
                Reading::Exact,
                Reading::NotZero,
                Reading::Zero,
            ],
        }
    }

    fn takes(self, value: f64) -> bool {
        match self {
            Reading::All | Reading::Exact => true,
            Reading::NotZero => value != 0.0,
            Reading::Zero => value == 0.0,
        }
    }
}

/// A claim recomputed from one metric of some trials.
struct Attempt<'a> {
    sides: Vec<Recomputed<'a>>,
    /// The p of each test that the tool offers, the default one first.
    ps: Vec<f64>,
    /// A t test of the two sides is defined.
    has_t: bool,
    delta_agrees: bool,
}

struct Recomputed<'a> {
    name: String,
    figures: Vec<(&'a Observation, &'a Figure)>,
    /// One printed unit in the unit of the figures.
    scale: f64,
    summary: Option<Summary>,
    /// Number of summarised values.
    counted: usize,
    count_agrees: bool,
    text: Option<String>,
    agrees: bool,
}

/// A side as summarised by the tool.
#[derive(Debug, Clone)]
struct Summary {
    /// In printed units.
    center: f64,
    spread: Spread,
    /// The values that count.
    values: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Spread {
    None,
    Share(f64),
    Unbounded,
    SignsDiffer,
}

impl<'a> Attempt<'a> {
    fn of(
        claim: &Claim,
        sides: &[Trials<'a>],
        (metric, scale): (&str, f64),
        reading: Reading,
    ) -> Attempt<'a> {
        let sides: Vec<Recomputed> = sides
            .iter()
            .zip(&claim.sides)
            .enumerate()
            .map(|(index, ((name, trials), printed))| {
                let figures: Vec<(&Observation, &Figure)> = trials
                    .iter()
                    .filter_map(|o| Some((*o, o.figure(metric)?)))
                    .filter(|(_, figure)| reading.takes(figure.value))
                    .collect();
                let numbers: Vec<f64> = figures
                    .iter()
                    .map(|(_, figure)| figure.value / scale)
                    .collect();
                let summary = summary(&numbers, claim, reading);
                let counted = summary.as_ref().map_or(0, |it| it.values.len());
                let number = Number::of(printed, claim);
                Recomputed {
                    name: name.clone(),
                    figures,
                    scale,
                    counted,
                    count_agrees: claim.n.get(index).is_none_or(|n| *n as usize == counted),
                    agrees: match (&summary, &number) {
                        (Some(summary), Some(number)) => number.agrees(summary),
                        _ => false,
                    },
                    text: summary
                        .as_ref()
                        .zip(number)
                        .map(|(summary, number)| number.print(summary, claim.subject.rules)),
                    summary,
                }
            })
            .collect();
        let summaries: Vec<&Summary> = sides
            .iter()
            .filter_map(|side| side.summary.as_ref())
            .collect();
        let (ps, has_t, delta_agrees) = match summaries[..] {
            [old, new] => (
                ps(old, new, claim),
                welch(&old.values, &new.values).is_some(),
                delta_agrees(&claim.delta, old.center, new.center),
            ),
            _ => (Vec::new(), false, false),
        };
        Attempt {
            sides,
            ps,
            has_t,
            delta_agrees,
        }
    }

    fn agreeing(&self) -> usize {
        let agreeing =
            |side: &Recomputed| usize::from(side.agrees) + usize::from(side.count_agrees);
        self.sides.iter().map(agreeing).sum()
    }
}

/// A side according to the claim's rules; `None` without values.
fn summary(numbers: &[f64], claim: &Claim, reading: Reading) -> Option<Summary> {
    match claim.subject.rules {
        ClaimRules::Means => {
            let mean = trimmed_mean(numbers).ok()?;
            Some(Summary {
                center: mean.mean,
                spread: mean.deviation.map_or(Spread::None, Spread::Share),
                values: numbers
                    .iter()
                    .copied()
                    .filter(|value| (mean.min..=mean.max).contains(value))
                    .collect(),
            })
        }
        ClaimRules::Medians => {
            let sample = Sample::new(numbers).ok()?;
            let (center, range) = match reading {
                Reading::Exact => (mode(sample.sorted()), Some((sample.min(), sample.max()))),
                _ => {
                    let median = sample.median_interval(1.0 - ALPHA).ok()?;
                    let range = median.interval.map(|it| (it.low, it.high));
                    (median.median, range)
                }
            };
            let spread = match range {
                None => Spread::Unbounded,
                Some((low, high)) if sign(low) != sign(center) || sign(high) != sign(center) => {
                    Spread::SignsDiffer
                }
                Some(_) if center == 0.0 => Spread::Share(0.0),
                Some((low, high)) => Spread::Share((high / center - 1.0).max(1.0 - low / center)),
            };
            Some(Summary {
                center,
                spread,
                values: numbers.to_vec(),
            })
        }
    }
}

fn sign(value: f64) -> i32 {
    i32::from(value > 0.0) - i32::from(value < 0.0)
}

/// The most frequent of sorted values; of several, the lowest.
fn mode(sorted: &[f64]) -> f64 {
    let runs = sorted.chunk_by(|one, other| one == other);
    let longest = runs.rev().max_by_key(|run| run.len());
    longest.and_then(|run| run.first()).copied().unwrap_or(0.0)
}

/// The p of each test that the tool offers.
fn ps(old: &Summary, new: &Summary, claim: &Claim) -> Vec<f64> {
    let ranks = mann_whitney(&old.values, &new.values)
        .ok()
        .map(|test| [test.p, test.p_benchstat]);
    let mut ps: Vec<f64> = ranks.into_iter().flatten().collect();
    if claim.subject.rules == ClaimRules::Means {
        ps.extend(welch(&old.values, &new.values));
    }
    ps
}

/// The two-sided p of Welch's t test; `None` with fewer than two values per side or without variance.
fn welch(old: &[f64], new: &[f64]) -> Option<f64> {
    let difference = mean_difference(old, new).ok()?;
    (difference.error > 0.0).then(|| difference.p())
}

fn delta_agrees(delta: &str, old: f64, new: f64) -> bool {
    match delta {
        "~" | "" => true,
        "?" => old == 0.0,
        other if new == old => share_agrees(other, 0.0),
        other => share_agrees(other, (new / old - 1.0) * 100.0),
    }
}

/// Whether a printed percentage is equal to this one after rounding.
fn share_agrees(printed: &str, percent: f64) -> bool {
    let Some(number) = printed.strip_suffix('%') else {
        return false;
    };
    let Ok(value) = number.parse::<f64>() else {
        return false;
    };
    if !value.is_finite() || !percent.is_finite() {
        return value == percent || (value.is_nan() && percent.is_nan());
    }
    (value - percent).abs() <= half_unit(number) + ROUNDING * (1.0 + percent.abs())
}

/// Half of the last printed digit of a number.
fn half_unit(number: &str) -> f64 {
    let decimals = number.split_once('.').map_or(0, |(_, after)| after.len());
    0.5 * 0.1_f64.powi(decimals as i32)
}

/// A side as printed: `5.31k ± 7%`.
#[derive(Debug, Clone)]
struct Number<'t> {
    value: f64,
    half_unit: f64,
    decimals: usize,
    /// `k`, `MB/s`, `µs`, `Ki`.
    suffix: &'t str,
    /// The factor of the suffix in printed units.
    factor: f64,
    /// `7%`, `∞`, `?`; `None` if nothing is printed.
    spread: Option<&'t str>,
}

impl<'t> Number<'t> {
    fn of(printed: &'t str, claim: &Claim) -> Option<Number<'t>> {
        let (center, spread) = match printed.split_once('±') {
            Some((center, spread)) => (center.trim(), Some(spread.trim())),
            None => (printed.trim(), None),
        };
        let end = center
            .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-')
            .unwrap_or(center.len());
        let (number, suffix) = center.split_at(end);
        Some(Number {
            value: number.parse().ok()?,
            half_unit: half_unit(number),
            decimals: number.split_once('.').map_or(0, |(_, after)| after.len()),
            suffix,
            factor: factor(suffix, claim.subject.rules)?,
            spread,
        })
    }

    fn agrees(&self, summary: &Summary) -> bool {
        self.center_agrees(summary.center)
            && match (self.spread, summary.spread) {
                (None, _) => true,
                (Some("∞"), spread) => spread == Spread::Unbounded,
                (Some("?"), spread) => spread == Spread::SignsDiffer,
                (Some(text), Spread::Share(share)) => share_agrees(text, 100.0 * share),
                (Some(_), _) => false,
            }
    }

    fn center_agrees(&self, center: f64) -> bool {
        let scaled = center / self.factor;
        (scaled - self.value).abs() <= self.half_unit + ROUNDING * scaled.abs()
    }

    /// Prints another value in the same form.
    fn print(&self, summary: &Summary, rules: ClaimRules) -> String {
        let decimals = self.decimals;
        let center = format!("{:.decimals$}{}", summary.center / self.factor, self.suffix);
        let spread = match summary.spread {
            _ if self.spread.is_none() => return center,
            Spread::None => return center,
            Spread::Share(share) => format!("{:.0}%", share * 100.0),
            Spread::Unbounded => "∞".to_owned(),
            Spread::SignsDiffer => "?".to_owned(),
        };
        match rules {
            ClaimRules::Means => format!("{center} ±{spread:>3}"),
            ClaimRules::Medians => format!("{center} ± {spread}"),
        }
    }
}

/// The factor of a suffix.
fn factor(suffix: &str, rules: ClaimRules) -> Option<f64> {
    let times = [
        ("ns", 1.0),
        ("µs", 1e3),
        ("us", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
    ];
    let prefixes = [
        ("", 1.0),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("m", 1e-3),
        ("µ", 1e-6),
        ("n", 1e-9),
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
    ];
    let of = |table: &[(&str, f64)], text: &str| {
        let found = table.iter().find(|(name, _)| *name == text);
        found.map(|(_, factor)| *factor)
    };
    if rules == ClaimRules::Medians {
        return of(&prefixes, suffix);
    }
    of(&times, suffix).or_else(|| {
        let bare = suffix.strip_suffix("B/s").or(suffix.strip_suffix('B'));
        of(&prefixes, bare.unwrap_or(suffix))
    })
}

fn check_row(claim: &Claim, row: &Row) -> ClaimCheck {
    let attempt = match &row.attempt {
        Ok(attempt) => attempt,
        Err(why) => return unchecked(claim, why.clone()),
    };
    let missing = attempt.sides.iter().find(|side| side.figures.is_empty());
    if let Some(side) = missing {
        let why = format!("{}: there are no trials of {}", side.name, label(claim));
        return unchecked(claim, why);
    }
    if let Some(text) = claim
        .sides
        .iter()
        .find(|text| Number::of(text, claim).is_none())
    {
        return unchecked(
            claim,
            format!("`{text}` is not a number in a form that is known"),
        );
    }
    ClaimCheck {
        claim: claim.clone(),
        against: against(claim, attempt),
        recomputed: attempt.sides.iter().map(|side| side.text.clone()).collect(),
        p: p_of(claim, attempt),
        unchecked: None,
    }
}

/// The printed p if one of the tests gives it, otherwise that of the default test.
fn p_of(claim: &Claim, attempt: &Attempt) -> Option<f64> {
    let printed = attempt
        .ps
        .iter()
        .find(|p| claim.p.is_some_and(|claimed| p_agrees(claimed, **p)));
    printed.or(attempt.ps.first()).copied()
}

fn p_agrees(printed: f64, p: f64) -> bool {
    (printed - p).abs() <= 0.0005 + ROUNDING
}

/// A claim without trials; its difference can still contradict its own sides.
fn unchecked(claim: &Claim, why: String) -> ClaimCheck {
    let against: Vec<String> = contradiction(claim).into_iter().collect();
    ClaimCheck {
        claim: claim.clone(),
        recomputed: vec![None; claim.sides.len()],
        p: None,
        unchecked: against.is_empty().then_some(why),
        against,
    }
}

/// Why the printed difference is not possible for the printed sides, for any rounding.
fn contradiction(claim: &Claim) -> Option<String> {
    let [old, new] = &claim.sides[..] else {
        return None;
    };
    let bounds = |text| {
        let number = Number::of(text, claim)?;
        let low = (number.value - number.half_unit) * number.factor;
        let high = (number.value + number.half_unit) * number.factor;
        (low > 0.0).then_some((low, high))
    };
    let ((old_low, old_high), (new_low, new_high)) = (bounds(old)?, bounds(new)?);
    let printed = claim.delta.strip_suffix('%')?;
    let value: f64 = printed.parse().ok()?;
    let low = (new_low / old_high - 1.0) * 100.0 - half_unit(printed);
    let high = (new_high / old_low - 1.0) * 100.0 + half_unit(printed);
    let slack = ROUNDING * (1.0 + high.abs());
    (value < low - slack || value > high + slack).then(|| {
        format!(
            "from {} to {} it is {low:+.2}% to {high:+.2}%, not {}",
            tidy(old),
            tidy(new),
            claim.delta
        )
    })
}

fn against(claim: &Claim, attempt: &Attempt) -> Vec<String> {
    let mut against = Vec::new();
    let mut numbers_agree = true;
    for (index, (side, printed)) in attempt.sides.iter().zip(&claim.sides).enumerate() {
        let name = &side.name;
        if let (false, Some(n)) = (side.count_agrees, claim.n.get(index)) {
            numbers_agree = false;
            against.push(format!(
                "{name}: the table says n={n}, the text holds {}",
                held_words(side, claim)
            ));
        } else if !side.agrees {
            numbers_agree = false;
            let gives = side.text.as_deref().map_or("nothing".to_owned(), tidy);
            against.push(format!(
                "{name}: {} give {gives}, not {}",
                figures_words(side, claim),
                tidy(printed)
            ));
        }
    }
    // Other numbers have another p; the printed difference is informative only with the same ones.
    if numbers_agree {
        against.extend(against_test(claim, attempt));
        if let (false, [old, new]) = (attempt.delta_agrees, &attempt.sides[..])
            && let (Some(old), Some(new)) = (&old.summary, &new.summary)
        {
            let percent = (new.center / old.center - 1.0) * 100.0;
            against.push(format!(
                "the difference is {percent:+.2}%, not {}",
                claim.delta
            ));
        }
    }
    against
}

/// The contradiction between p and a row.
fn against_test(claim: &Claim, attempt: &Attempt) -> Vec<String> {
    let mut against = Vec::new();
    let Some(p) = p_of(claim, attempt) else {
        return against;
    };
    if let Some(claimed) = claim.p.filter(|claimed| !p_agrees(*claimed, p)) {
        against.push(format!("p is {p:.3}, not {claimed:.3}"));
    }
    // Exact units and tables without a test have no p, but always a difference; if a t test is not defined, there is
    // neither.
    if claim.p.is_none() && (claim.delta != "~" || !attempt.has_t) {
        return against;
    }
    let hidden = match claim.subject.rules {
        ClaimRules::Means => p >= ALPHA,
        ClaimRules::Medians => p > ALPHA,
    };
    // Exactly at the limit, the last bit decides.
    let at_limit = (p - ALPHA).abs() <= ROUNDING;
    if (claim.delta == "~") != hidden && !at_limit {
        against.push(match hidden {
            true => format!(
                "with p={p:.3} the difference is not printed as {}",
                claim.delta
            ),
            false => format!(
                "with p={p:.3} the difference is printed, not {}",
                claim.delta
            ),
        });
    }
    against
}

/// Checks the geometric means of a table: of all its rows, or before 2022 of all benchmarks in the trials.
fn check_geomean(
    claim: &Claim,
    pool: &[&Observation],
    claims: &[Claim],
    rows: &[Row],
) -> ClaimCheck {
    let siblings: Vec<(&Claim, &Row)> = claims
        .iter()
        .zip(rows)
        .filter(|(other, _)| {
            !other.subject.geomean
                && other.at.source == claim.at.source
                && other.subject.table == claim.subject.table
        })
        .collect();
    // The centers by the line of the row, one map per column.
    let mut columns: Vec<BTreeMap<u32, f64>> = vec![BTreeMap::new(); claim.sides.len()];
    for (sibling, row) in &siblings {
        let attempt = match &row.attempt {
            Ok(attempt) => attempt,
            Err(why) => {
                let name = label(sibling);
                return unchecked(claim, format!("{name} cannot be checked: {why}"));
            }
        };
        for (index, side) in attempt.sides.iter().enumerate() {
            let column = column(claim, sibling, index);
            let (Some(column), Some(summary)) = (column, &side.summary) else {
                continue;
            };
            columns[column].insert(sibling.at.line, summary.center);
        }
    }
    let over_rows: Vec<Option<f64>> = columns
        .iter()
        .map(|column| match claim.subject.rules {
            ClaimRules::Means => mean_of(column.values().copied()),
            ClaimRules::Medians => {
                geometric_mean(&column.values().copied().collect::<Vec<f64>>()).ok()
            }
        })
        .collect();
    let readings = [Some(over_rows), over_all_benchmarks(claim, pool, &siblings)];
    // A blank side is a mean that is not defined.
    let blank = |text: &str| text.is_empty();
    let numbers: Vec<Option<Number>> = claim
        .sides
        .iter()
        .map(|side| Number::of(side, claim))
        .collect();
    let unknown = |(side, number): (&String, &Option<Number>)| number.is_none() && !blank(side);
    if claim.sides.iter().zip(&numbers).any(unknown) {
        return unchecked(claim, "it is not in a form that is known".to_owned());
    }
    let agrees = |mean: &Option<f64>, number: &Option<Number>| match (mean, number) {
        (Some(mean), Some(number)) => number.center_agrees(*mean),
        (None, None) => true,
        _ => false,
    };
    let agree = |means: &Vec<Option<f64>>| {
        means
            .iter()
            .zip(&numbers)
            .all(|(mean, number)| agrees(mean, number))
    };
    let readings: Vec<Vec<Option<f64>>> = readings.into_iter().flatten().collect();
    // If several agree with the means, one whose difference agrees as well.
    let ratio = |means: &[Option<f64>]| match &columns[..] {
        [old, new] => against_ratio(claim, old, new, means),
        _ => None,
    };
    let means = readings
        .iter()
        .filter(|means| agree(means))
        .min_by_key(|means| ratio(means).is_some());
    let means = means.unwrap_or(&readings[0]);
    if claim.sides.iter().all(|side| blank(side)) && means.iter().all(Option::is_none) {
        return unchecked(
            claim,
            "it is blank, and no geometric mean is defined".to_owned(),
        );
    }
    let recomputed: Vec<Option<String>> = means
        .iter()
        .zip(&numbers)
        .map(|(mean, number)| {
            let summary = Summary {
                center: (*mean)?,
                spread: Spread::None,
                values: Vec::new(),
            };
            let number = number.as_ref()?;
            Some(number.print(&summary, claim.subject.rules))
        })
        .collect();
    let mut against = Vec::new();
    for (index, printed) in claim.sides.iter().enumerate() {
        if !agrees(&means[index], &numbers[index]) {
            let gives = recomputed[index].as_deref().unwrap_or("no geometric mean");
            let printed = if blank(printed) { "a blank" } else { printed };
            against.push(format!(
                "the rows above give {}, not {}",
                tidy(gives),
                tidy(printed)
            ));
        }
    }
    if against.is_empty() {
        against.extend(ratio(means));
    }
    ClaimCheck {
        claim: claim.clone(),
        recomputed,
        p: None,
        against,
        unchecked: None,
    }
}

/// The geometric mean of the values that are not zero; `None` if there are none or one is negative.
fn mean_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.filter(|value| *value != 0.0).collect();
    geometric_mean(&values).ok()
}

/// The column of geometric means that a side of a row is in.
fn column(claim: &Claim, sibling: &Claim, side: usize) -> Option<usize> {
    let of = |claim: &Claim, index: usize| claim.subject.columns.get(index).cloned();
    let own = of(sibling, side)?;
    match own.is_empty() {
        true => (side < claim.sides.len()).then_some(side),
        false => (0..claim.sides.len()).find(|&index| of(claim, index).as_ref() == Some(&own)),
    }
}

/// Before 2022 the mean also includes benchmarks that only one side has, which have no row.
fn over_all_benchmarks(
    claim: &Claim,
    pool: &[&Observation],
    siblings: &[(&Claim, &Row)],
) -> Option<Vec<Option<f64>>> {
    if claim.subject.rules != ClaimRules::Means {
        return None;
    }
    let (sibling, _) = siblings.first()?;
    let metrics = metrics(pool, sibling);
    let (metric, scale) = metrics.first()?;
    let partition = partitions(claim, pool, pool).into_iter().next()?;
    let means = partition.iter().map(|(_, trials)| {
        let mut benchmarks: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for o in trials {
            let mut dimensions = o.dimensions.clone();
            dimensions.remove(Observation::CONFIGURATION);
            if let Some(figure) = o.figure(metric) {
                let values = benchmarks.entry(format!("{dimensions:?}")).or_default();
                values.push(figure.value / scale);
            }
        }
        mean_of(
            benchmarks
                .values()
                .filter_map(|values| Some(summary(values, claim, Reading::All)?.center)),
        )
    });
    Some(means.collect())
}

fn against_ratio(
    claim: &Claim,
    old: &BTreeMap<u32, f64>,
    new: &BTreeMap<u32, f64>,
    means: &[Option<f64>],
) -> Option<String> {
    if matches!(claim.delta.as_str(), "" | "?") {
        return None;
    }
    let ratios = new.iter().filter_map(|(line, new)| {
        let old = old.get(line)?;
        Some(if new == old { 1.0 } else { new / old })
    });
    let percent = match claim.subject.rules {
        ClaimRules::Medians => geometric_mean(&ratios.collect::<Vec<f64>>()).ok()?,
        ClaimRules::Means => (*means.get(1)?)? / (*means.first()?)?,
    };
    let percent = (percent - 1.0) * 100.0;
    (!share_agrees(&claim.delta, percent))
        .then(|| format!("the difference is {percent:+.2}%, not {}", claim.delta))
}

/// Describes the trials of a side; the tool may have excluded some as outliers.
fn held_words(side: &Recomputed, claim: &Claim) -> String {
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
    format!(
        "{number}{outliers}: {} {}",
        words::list(&values),
        claim.unit
    )
}

/// Describes the figures of a side's mean; for rates derived from mean latencies, those latencies.
fn figures_words(side: &Recomputed, claim: &Claim) -> String {
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
            format!("the {number} averages {} ms", words::list(&averages))
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
            format!(
                "the {number} {noun} {} {}",
                words::list(&values),
                claim.unit
            )
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
fn tidy(text: &str) -> String {
    let spaced = text.replace('±', " ± ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    words.join(" ")
}
