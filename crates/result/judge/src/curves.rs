//! A metric over a numeric axis, such as throughput over depth.

use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::{AxisCurve, AxisPoint, Observation};
use iodyno_units::{Bytes, Nanos};

use crate::repeats;
use iodyno_model::ordered::entry;

/// The number of values from which an axis is drawn as a curve.
const MIN_VALUES: usize = 3;

/// The curves over the axes of a matrix: for each axis with at least three values that are all numbers, sizes or times,
/// and each combination of work and configuration that is the same along it, the median of the primary metric. `axes`:
/// names of dimensions. Trials that do not count and those of searches are left out.
pub fn curves(trials: &[Observation], axes: &BTreeSet<String>) -> Vec<AxisCurve> {
    axes.iter()
        .flat_map(|axis| of_axis(trials, axis, axes))
        .collect()
}

fn of_axis(trials: &[Observation], axis: &str, axes: &BTreeSet<String>) -> Vec<AxisCurve> {
    let own = trials.iter().filter(|trial| {
        trial.unusable.is_none()
            && !trial.again
            && trial.probe.is_none()
            && !trial.dimension(axis).is_empty()
    });
    let own: Vec<&Observation> = own.collect();
    let embeds = |dimension: &str| {
        let contains = |it: &&Observation| it.dimension(dimension).contains(it.dimension(axis));
        own.iter().all(contains)
    };
    // By what is the same along the axis, then by the value of the axis.
    let mut lines: BTreeMap<String, Vec<(String, Vec<Observation>)>> = BTreeMap::new();
    for &trial in &own {
        let line = lines.entry(name(trial, axis, axes, &embeds)).or_default();
        entry(line, trial.dimension(axis).to_owned()).push(trial.clone());
    }
    let curves = lines.into_iter().filter_map(|(name, groups)| {
        let mut metric = None;
        let mut points = Vec::new();
        for (text, trials) in groups {
            let repeated = repeats(&trials).into_iter().next()?;
            let metric = metric.get_or_insert_with(|| repeated.metric.clone());
            if repeated.metric != *metric {
                return None;
            }
            points.push(AxisPoint {
                value: number(&text)?,
                text,
                median: repeated.median,
            });
        }
        points.sort_by(|a, b| a.value.total_cmp(&b.value));
        points.dedup_by(|a, b| a.value == b.value);
        (points.len() >= MIN_VALUES).then_some(())?;
        Some(AxisCurve {
            axis: axis.to_owned(),
            name,
            metric: metric?,
            knee: knee(&points),
            points,
        })
    });
    curves.collect()
}

/// The knee over the logarithm of the axis where its values span more than a factor of eight, as depths and sizes do.
fn knee(points: &[AxisPoint]) -> Option<usize> {
    let first = points.first()?.value;
    let last = points.last()?.value;
    let logarithmic = first > 0.0 && last / first > 8.0;
    let x = points.iter().map(|point| match logarithmic {
        true => point.value.ln(),
        false => point.value,
    });
    let x: Vec<f64> = x.collect();
    let y: Vec<f64> = points.iter().map(|point| point.median.value).collect();
    iodyno_stats::knee(&x, &y).ok().flatten()
}

/// What a trial shares with the others along an axis: its configuration and workload without the value of this axis in
/// their names, and the values of the other axes. `embeds`: whether all names of this dimension contain the value of
/// the axis.
fn name(
    trial: &Observation,
    axis: &str,
    axes: &BTreeSet<String>,
    embeds: &dyn Fn(&str) -> bool,
) -> String {
    let values = axes
        .iter()
        .map(|axis| trial.dimension(axis))
        .filter(|value| !value.is_empty());
    let values: Vec<&str> = values.collect();
    let plain = |dimension: &str| {
        let mut name = trial.dimension(dimension);
        while let Some(short) = values
            .iter()
            .find_map(|value| name.strip_suffix(value)?.strip_suffix('-'))
        {
            name = short;
        }
        // A name that was given contains the value anywhere: `qd16`.
        let value = trial.dimension(axis);
        match name.rfind(value) {
            Some(at) if embeds(dimension) && name == trial.dimension(dimension) => {
                format!("{}{}", &name[..at], &name[at + value.len()..])
            }
            _ => name.to_owned(),
        }
    };
    let mut parts = vec![
        plain(Observation::WORKLOAD),
        plain(Observation::CONFIGURATION),
    ];
    let others = axes.iter().filter(|other| *other != axis);
    parts.extend(others.filter_map(|other| {
        let value = trial.dimension(other);
        (!value.is_empty()).then(|| format!("{other}={value}"))
    }));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// `16`, `4k`, `1 MiB`, `500us`.
fn number(text: &str) -> Option<f64> {
    let plain = text.trim().parse::<f64>().ok();
    let size = || text.parse::<Bytes>().ok().map(|Bytes(bytes)| bytes as f64);
    let time = || text.parse::<Nanos>().ok().map(|Nanos(ns)| ns as f64);
    plain
        .or_else(size)
        .or_else(time)
        .filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::observations::observation;

    fn trials(axis: &str, values: &[(&str, f64)]) -> Vec<Observation> {
        let each = values.iter().flat_map(|(text, rate)| {
            let trials = [0.99, 1.0, 1.01].map(|noise| {
                let mut trial = observation("ext4", &format!("read-{text}"), rate * noise);
                trial.dimensions.insert(axis.to_owned(), (*text).to_owned());
                trial
            });
            trials.to_vec()
        });
        each.collect()
    }

    fn drawn(axis: &str, values: &[(&str, f64)]) -> Vec<AxisCurve> {
        curves(&trials(axis, values), &BTreeSet::from([axis.to_owned()]))
    }

    #[test]
    fn a_depth_has_a_curve_with_its_knee() {
        let values = [
            ("16", 400.0),
            ("1", 100.0),
            ("2", 200.0),
            ("4", 390.0),
            ("8", 400.0),
        ];
        let found = drawn("iodepth", &values);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "read, ext4");
        let texts: Vec<&str> = found[0].points.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(texts, ["1", "2", "4", "8", "16"]);
        assert_eq!(found[0].knee, Some(2));
        assert_eq!(found[0].points[2].median.value, 390.0);
    }

    #[test]
    fn only_numbers_sizes_and_times_are_an_axis() {
        assert_eq!(
            drawn("bs", &[("4k", 1.0), ("8k", 2.0), ("1m", 3.0)])[0].points[2].value,
            1048576.0
        );
        assert!(
            drawn(
                "zfs.compression",
                &[("off", 1.0), ("lz4", 2.0), ("zstd", 3.0)]
            )
            .is_empty()
        );
        assert!(drawn("iodepth", &[("1", 1.0), ("2", 2.0)]).is_empty());
    }

    #[test]
    fn names_that_were_given_may_contain_the_value_anywhere() {
        let mut all = trials("iodepth", &[("1", 1.0), ("4", 4.0), ("16", 9.0)]);
        for trial in &mut all {
            let name = format!("qd{}x", trial.dimension("iodepth"));
            trial.dimensions.insert("workload".to_owned(), name);
        }
        let found = curves(&all, &BTreeSet::from(["iodepth".to_owned()]));
        assert_eq!(found.len(), 1);
        // The 4 of ext4 is not the depth.
        assert_eq!(found[0].name, "qdx, ext4");
        assert_eq!(found[0].points.len(), 3);
    }

    #[test]
    fn different_work_and_other_axes_have_their_own_curves() {
        let mut all = trials("iodepth", &[("1", 1.0), ("2", 2.0), ("4", 4.0)]);
        let mut other = all.clone();
        for trial in &mut other {
            let name = trial.dimension("workload").replace("read", "write");
            trial.dimensions.insert("workload".to_owned(), name);
        }
        all.extend(other);
        for (place, trial) in all.iter_mut().enumerate() {
            let sync = ["standard", "always"][place % 2];
            trial.dimensions.insert("sync".to_owned(), sync.to_owned());
        }
        let axes = BTreeSet::from(["iodepth".to_owned(), "sync".to_owned()]);
        let names: Vec<String> = curves(&all, &axes).into_iter().map(|it| it.name).collect();
        assert_eq!(
            names,
            [
                "read, ext4, sync=always",
                "read, ext4, sync=standard",
                "write, ext4, sync=always",
                "write, ext4, sync=standard"
            ]
        );
    }
}
