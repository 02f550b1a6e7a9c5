//! Checks of the geometric means below a table.

use std::collections::BTreeMap;

use iodyno_model::{Claim, ClaimCheck, ClaimRules, Observation};
use iodyno_stats::geometric_mean;

use super::attempt::Row;
use super::matching::{label, metrics, partitions};
use super::number::{Number, share_agrees};
use super::row::unchecked;
use super::summary::{Reading, Spread, Summary, summary};
use super::words::tidy;

/// Checks the geometric means of a table: of all its rows, or before 2022 of all benchmarks in the trials.
pub(super) fn check_geomean(
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
