//! The results of a workload over runs: changes of level, and the newest run.
//!
//! The unit is the run: its value is the median of its trials. Levels are those of the logarithm, so that a change is a ratio.

use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::{
    Better, Estimated, Fact, FactClass, History, HistoryChange, HistoryDifference, HistoryPoint,
    Metric, NewestRun, NewestVerdict, Observation,
};
use iodyno_stats::{ChangePointOptions, change_points, geometric_mean, prediction_interval};

use crate::repeats;

/// The probability that a further steady run lies within its prediction.
const LEVEL: f64 = 0.99;

/// The facts of the workload that are results: they may differ between runs of the same plan.
const RESULTS: [&str; 2] = ["ended by", "fallbacks"];

/// The histories in these trials: one for each workload, host and configuration. The same work has the same facts of its workload
/// and its end; targets, programs and times may differ. Configurations are told apart where a run has several, because the
/// name of a single one is often that of its target. Trials that do not count, those of searches, and trials without a start are
/// left out. `metric`: by its name; by default the primary metric. `margin`: a smaller difference of the newest run is
/// negligible, as a fraction. Sorted by workload, configuration and host, the longest history first among equals.
pub fn history(trials: &[Observation], metric: Option<&str>, margin: f64) -> Vec<History> {
    let counting = || {
        trials.iter().filter(|trial| {
            trial.unusable.is_none()
                && !trial.again
                && trial.probe.is_none()
                && trial.started_unix_ms.is_some()
        })
    };
    let mut configurations: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for trial in counting() {
        let run = trial.dimension(Observation::RUN);
        let of_run = configurations.entry((run, trial.dimension(Observation::WORKLOAD)));
        of_run
            .or_default()
            .insert(trial.dimension(Observation::CONFIGURATION));
    }
    let mut lines: BTreeMap<[String; 4], Vec<&Observation>> = BTreeMap::new();
    for trial in counting() {
        let run = trial.dimension(Observation::RUN);
        let workload = trial.dimension(Observation::WORKLOAD);
        let several = configurations[&(run, workload)].len() > 1;
        let configuration = match several {
            true => trial.dimension(Observation::CONFIGURATION),
            false => "",
        };
        let key = [
            workload.to_owned(),
            configuration.to_owned(),
            value(trial, "host").to_owned(),
            identity(trial),
        ];
        lines.entry(key).or_default().push(trial);
    }
    let mut histories: Vec<History> = lines
        .into_iter()
        .filter_map(|(key, own)| of_line(key, own, metric, margin))
        .collect();
    histories.sort_by(|a, b| {
        let key = |it: &History| {
            (
                it.workload.clone(),
                it.configuration.clone(),
                it.host.clone(),
            )
        };
        key(a)
            .cmp(&key(b))
            .then(b.points.len().cmp(&a.points.len()))
    });
    histories
}

fn value<'a>(trial: &'a Observation, name: &str) -> &'a str {
    let fact = trial.facts.iter().find(|fact| fact.name == name);
    fact.map_or("", |fact| fact.value.as_str())
}

/// A hash of what was measured: FNV-1a over the facts of the workload and its end, which is the same on every host and in every
/// version of the program. Source: Fowler, Noll, Vo, RFC 9923.
fn identity(trial: &Observation) -> String {
    let measured = |fact: &&Fact| {
        let class = matches!(fact.class, FactClass::Workload | FactClass::Ending);
        class && !RESULTS.contains(&fact.name.as_str())
    };
    let mut facts: Vec<(&str, &str)> = (trial.facts.iter().filter(measured))
        .map(|fact| (fact.name.as_str(), fact.value.as_str()))
        .collect();
    facts.sort_unstable();
    let texts = facts.iter().flat_map(|(name, value)| [*name, *value]);
    let bytes = texts.flat_map(|text| text.bytes().chain([0]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn of_line(
    [workload, configuration, host, identity]: [String; 4],
    trials: Vec<&Observation>,
    metric: Option<&str>,
    margin: f64,
) -> Option<History> {
    let mut runs: Vec<(u64, String, Vec<Observation>)> = Vec::new();
    for trial in trials {
        let (name, started) = (trial.dimension(Observation::RUN), trial.started_unix_ms?);
        match runs.iter_mut().find(|(_, known, _)| known == name) {
            Some((first, _, own)) => {
                *first = started.min(*first);
                own.push(trial.clone());
            }
            None => runs.push((started, name.to_owned(), vec![trial.clone()])),
        }
    }
    runs.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let mut chosen: Option<Metric> = None;
    let mut points = Vec::new();
    let mut kept = Vec::new();
    for (started_unix_ms, run, own) in runs {
        let mut found = repeats(&own).into_iter();
        let found = match (metric, &chosen) {
            (Some(name), _) => found.find(|it| it.metric.name == name),
            (None, Some(known)) => found.find(|it| it.metric == *known),
            (None, None) => found.next(),
        };
        let Some(found) = found else { continue };
        points.push(HistoryPoint {
            run,
            started_unix_ms,
            trials: found.values.len() as u32,
            median: found.median,
        });
        chosen.get_or_insert(found.metric);
        kept.push(own);
    }
    let metric = chosen?;
    let speeds: Option<Vec<f64>> = points
        .iter()
        .map(|point| speed(&metric, point.median.value))
        .collect();
    let levels = speeds.as_deref().map_or(Vec::new(), segments);
    let changes = levels.windows(2).map(|pair| HistoryChange {
        point: pair[1].start,
        ratio: pair[1].mean_speed / pair[0].mean_speed,
        p: pair[1].p,
        differs: differences(&kept[pair[1].start - 1], &kept[pair[1].start]),
    });
    Some(History {
        workload,
        configuration,
        host,
        identity,
        changes: changes.collect(),
        newest: newest(speeds.as_deref().unwrap_or_default(), &levels, margin),
        metric,
        points,
    })
}

/// A value as a speed, above 0; `None`: it has no logarithm.
fn speed(metric: &Metric, value: f64) -> Option<f64> {
    let speed = match metric.better {
        Better::Higher => value,
        Better::Lower => 1.0 / value,
    };
    (speed > 0.0 && speed.is_finite()).then_some(speed)
}

/// Runs of one level.
struct Level {
    start: usize,
    end: usize,
    mean_speed: f64,
    /// p of the change before it; 1 for the first.
    p: f64,
}

fn segments(speeds: &[f64]) -> Vec<Level> {
    let logarithms: Vec<f64> = speeds.iter().map(|speed| speed.ln()).collect();
    // Two runs of a new level are enough to see it. Runs are far apart in time: they are not taken as correlated.
    let options = ChangePointOptions {
        min_segment: 2,
        effective_size: false,
        pooled: true,
        ..ChangePointOptions::default()
    };
    let Ok(found) = change_points(&logarithms, &options) else {
        return Vec::new();
    };
    let changes = std::iter::once(1.0).chain(found.changes.iter().map(|change| change.p));
    let levels = found.segments.iter().zip(changes).map(|(segment, p)| {
        let own = &speeds[segment.start..segment.end];
        Level {
            start: segment.start,
            end: segment.end,
            mean_speed: geometric_mean(own).unwrap_or(f64::NAN),
            p,
        }
    });
    levels.collect()
}

/// Compares the newest run with the last level before it that has enough runs. A level that is still younger than that is not
/// one to compare with: a regression remains one until it has lasted.
fn newest(speeds: &[f64], levels: &[Level], margin: f64) -> NewestRun {
    let too_few = NewestRun {
        verdict: NewestVerdict::TooFewRuns,
        steady: (0, 0),
        expected: None,
    };
    let Some((last, before)) = speeds.split_last() else {
        return too_few;
    };
    let steady = levels.iter().rev().find_map(|level| {
        let end = level.end.min(before.len());
        (end.saturating_sub(level.start) >= History::STEADY_RUNS).then_some((level.start, end))
    });
    let Some((start, end)) = steady else {
        return too_few;
    };
    let own: Vec<f64> = speeds[start..end].iter().map(|speed| speed.ln()).collect();
    let Ok((low, high)) = prediction_interval(&own, LEVEL) else {
        return too_few;
    };
    let centre = own.iter().sum::<f64>() / own.len() as f64;
    let ratio = (last.ln() - centre).exp();
    let (low, high) = ((low - centre).exp(), (high - centre).exp());
    let verdict = match ratio {
        ratio if ratio < low && ratio < 1.0 / (1.0 + margin) => NewestVerdict::Regression,
        ratio if ratio > high && ratio > 1.0 + margin => NewestVerdict::Improvement,
        _ => NewestVerdict::AsBefore,
    };
    NewestRun {
        verdict,
        steady: (start, end),
        expected: Some(Estimated {
            value: ratio,
            interval: Some((low, high)),
            level: LEVEL,
        }),
    }
}

/// The facts that differ between two runs, in the order of their trials' facts.
fn differences(before: &[Observation], after: &[Observation]) -> Vec<HistoryDifference> {
    let mut names: Vec<&str> = Vec::new();
    for fact in before.iter().chain(after).flat_map(|trial| &trial.facts) {
        if !names.contains(&fact.name.as_str()) {
            names.push(&fact.name);
        }
    }
    let values = |trials: &[Observation], name: &str| {
        let values: BTreeSet<&str> = (trials.iter().map(|trial| value(trial, name)))
            .filter(|value| !value.is_empty())
            .collect();
        Vec::from_iter(values).join("; ")
    };
    let differs = names.into_iter().filter_map(|name| {
        let (before, after) = (values(before, name), values(after, name));
        (before != after).then(|| HistoryDifference {
            name: name.to_owned(),
            before,
            after,
        })
    });
    differs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::observations::observation;

    fn run(number: u64, iops: f64, kernel: &str) -> Vec<Observation> {
        let fact = |class, name: &str, value: &str| Fact {
            class,
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let trial = |round: u64| {
            let mut trial = observation("c", "w", iops * (1.0 + round as f64 * 1e-4));
            trial
                .dimensions
                .insert("run".to_owned(), format!("run {number}"));
            trial.started_unix_ms = Some(number * 1000 + round);
            trial.facts = vec![
                fact(FactClass::Host, "host", "a"),
                fact(FactClass::Host, "kernel", kernel),
                fact(FactClass::Workload, "bs", "4k"),
            ];
            trial
        };
        (0..3).map(trial).collect()
    }

    /// Runs with small differences that are not random.
    fn runs(levels: &[f64], kernel: impl Fn(usize) -> &'static str) -> Vec<Observation> {
        let each = levels.iter().enumerate().flat_map(|(number, level)| {
            let noise = 1.0 + ((number * 7919) % 13) as f64 * 1e-3;
            run(number as u64 + 1, level * noise, kernel(number))
        });
        each.collect()
    }

    #[test]
    fn a_change_is_found_and_the_kernel_that_came_with_it_is_named() {
        let levels = [vec![100.0; 12], vec![80.0; 8]].concat();
        let found = history(
            &runs(&levels, |n| if n < 12 { "6.1" } else { "6.2" }),
            None,
            0.03,
        );
        assert_eq!(found.len(), 1);
        let line = &found[0];
        assert_eq!(line.points.len(), 20);
        assert_eq!(line.changes.len(), 1, "{:?}", line.changes);
        assert_eq!(line.changes[0].point, 12);
        assert!((line.changes[0].ratio - 0.8).abs() < 0.01);
        let differs = &line.changes[0].differs;
        assert_eq!(differs.len(), 1, "{differs:?}");
        assert_eq!(
            (&*differs[0].name, &*differs[0].before, &*differs[0].after),
            ("kernel", "6.1", "6.2")
        );
        // The new level has lasted: it is what the newest run is compared with.
        assert_eq!(line.newest.verdict, NewestVerdict::AsBefore);
        assert_eq!(line.newest.steady, (12, 19));
    }

    #[test]
    fn a_regression_remains_one_until_it_has_lasted() {
        for bad in 1..=4 {
            let levels = [vec![100.0; 12], vec![80.0; bad]].concat();
            let found = history(&runs(&levels, |_| "6.1"), None, 0.03);
            assert_eq!(
                found[0].newest.verdict,
                NewestVerdict::Regression,
                "{bad} runs"
            );
        }
        let faster = [vec![100.0; 12], vec![120.0]].concat();
        let found = history(&runs(&faster, |_| "6.1"), None, 0.03);
        assert_eq!(found[0].newest.verdict, NewestVerdict::Improvement);
    }

    #[test]
    fn a_difference_within_the_margin_is_negligible_and_few_runs_decide_nothing() {
        let levels = [vec![100.0; 12], vec![96.0]].concat();
        let trials = runs(&levels, |_| "6.1");
        let verdict = |margin| history(&trials, None, margin)[0].newest.verdict;
        assert_eq!(verdict(0.01), NewestVerdict::Regression);
        assert_eq!(verdict(0.10), NewestVerdict::AsBefore);
        let few = history(&runs(&[100.0; 5], |_| "6.1"), None, 0.03);
        assert_eq!(few[0].newest.verdict, NewestVerdict::TooFewRuns);
        assert!(history(&[], None, 0.03).is_empty());
    }

    #[test]
    fn other_work_hosts_and_configurations_have_their_own_history() {
        let mut trials = runs(&[100.0; 3], |_| "6.1");
        for (place, trial) in trials.iter_mut().enumerate() {
            let fact = match place / 3 {
                0 => &mut trial.facts[0],
                1 => &mut trial.facts[2],
                _ => continue,
            };
            fact.value = "other".to_owned();
        }
        assert_eq!(history(&trials, None, 0.03).len(), 3);
        let mut trials = runs(&[100.0; 3], |_| "6.1");
        for trial in trials.iter_mut().step_by(3) {
            let name = Observation::CONFIGURATION.to_owned();
            trial.dimensions.insert(name, "d".to_owned());
        }
        let found = history(&trials, None, 0.03);
        let names: Vec<&str> = found.iter().map(|it| &*it.configuration).collect();
        assert_eq!(names, ["c", "d"]);
    }

    /// The histories of 400 series of log-normal runs with a spread of 2 %: the share that meets a condition.
    fn share(levels: &[f64], meets: impl Fn(&[f64], &[Level]) -> bool) -> f64 {
        use rand::SeedableRng;
        use rand_distr::Distribution;
        let noise = rand_distr::Normal::new(0.0, 0.02).unwrap();
        let mut source = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(5);
        let met = (0..400).filter(|_| {
            let speed = |level: &f64| level * f64::exp(noise.sample(&mut source));
            let speeds: Vec<f64> = levels.iter().map(speed).collect();
            meets(&speeds, &segments(&speeds))
        });
        met.count() as f64 / 400.0
    }

    #[test]
    fn steady_runs_are_rarely_called_changed() {
        let steady = [100.0; 30];
        let changed = share(&steady, |_, levels| levels.len() > 1);
        assert!(changed <= 0.10, "{changed}");
        let regressed = share(&steady, |speeds, levels| {
            newest(speeds, levels, 0.03).verdict == NewestVerdict::Regression
        });
        assert!(regressed <= 0.02, "{regressed}");
    }

    #[test]
    fn a_regression_of_ten_percent_is_found_in_its_first_runs() {
        for (bad, least) in [(1, 0.95), (2, 0.9), (3, 0.95)] {
            let levels = [vec![100.0; 15], vec![90.0; bad]].concat();
            let regressed = share(&levels, |speeds, levels| {
                newest(speeds, levels, 0.03).verdict == NewestVerdict::Regression
            });
            assert!(regressed >= least, "{bad} runs: {regressed}");
        }
        let levels = [vec![100.0; 15], vec![90.0; 4]].concat();
        let found = share(&levels, |_, levels| {
            levels.len() == 2 && levels[1].start.abs_diff(15) <= 1
        });
        assert!(found >= 0.9, "{found}");
    }
}
