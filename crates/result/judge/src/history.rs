//! The results of a workload over runs: changes of level, and the newest run.
//!
//! The unit is the run: its value is the median of its trials. Levels are those of the logarithm, so that a change is a
//! ratio.

use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::{
    Better, Estimated, Fact, FactClass, History, HistoryChange, HistoryDifference, HistoryDrift,
    HistoryPoint, Metric, NewestRun, NewestVerdict, Observation,
};
use iodyno_stats::{
    Change, MIN_FOR_CHANGE, SerialChange, geometric_mean, prediction_interval, serial_change,
    serial_correlation,
};

use crate::observe::FULLNESS;
use crate::repeats;
use iodyno_model::ordered::distinct;

/// The probability that a further steady run lies within its prediction.
const LEVEL: f64 = 0.99;

/// The largest p of a change of level or a drift: in simulations, at most 3 of 100 series of 12 to 50 runs without one
/// have one, also if a run is correlated with the one before by 0.8.
const MAX_P: f64 = 0.02;

/// A step with a smaller p may be one: the runs after it are not among those that the newest run is compared with.
const SUSPICIOUS_P: f64 = 0.1;

/// Of simulated series: the same runs have the same result.
const SEED: u64 = 1;

/// The facts of the workload that are results: they may differ between runs of the same plan.
const RESULTS: [&str; 2] = ["ended by", "fallbacks"];

/// The histories in these trials: one for each workload, host, configuration and target. The same work has the same
/// facts of its workload and its end, the same target the same facts of the target except for its fullness; programs
/// and times may differ. `any_target`: targets and configurations may differ, too; configurations are then told apart
/// where a run has several. Trials that do not count, those of searches, and trials without a start are left out.
/// `metric`: by its name; by default the primary metric. `margin`: a smaller difference of the newest run is
/// negligible, as a fraction. Sorted by workload, configuration and host, the history with the newest run first among
/// equals.
pub fn history(
    trials: &[Observation],
    metric: Option<&str>,
    margin: f64,
    any_target: bool,
) -> Vec<History> {
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
    let mut lines: BTreeMap<[String; 5], Vec<&Observation>> = BTreeMap::new();
    for trial in counting() {
        let run = trial.dimension(Observation::RUN);
        let workload = trial.dimension(Observation::WORKLOAD);
        let several = configurations[&(run, workload)].len() > 1;
        let configuration = match several || !any_target {
            true => trial.dimension(Observation::CONFIGURATION),
            false => "",
        };
        let target = match any_target {
            true => String::new(),
            false => hash(trial, is_of_target),
        };
        let key = [
            workload.to_owned(),
            configuration.to_owned(),
            value(trial, "host").to_owned(),
            hash(trial, is_measured),
            target,
        ];
        lines.entry(key).or_default().push(trial);
    }
    let targets = targets(&lines);
    let mut histories: Vec<History> = lines
        .into_iter()
        .zip(targets)
        .filter_map(|((key, own), target)| {
            let history = of_line(key, own, metric, margin)?;
            Some(History { target, ..history })
        })
        .collect();
    histories.sort_by(|a, b| {
        let key = |it: &History| {
            (
                it.workload.clone(),
                it.configuration.clone(),
                it.host.clone(),
            )
        };
        let newest = |it: &History| it.points.last().map(|point| point.started_unix_ms);
        key(a).cmp(&key(b)).then(newest(b).cmp(&newest(a)))
    });
    histories
}

/// Of each line, the facts of its target that another line of the same workload has with another value, or has not.
fn targets(lines: &BTreeMap<[String; 5], Vec<&Observation>>) -> Vec<Vec<Fact>> {
    let firsts = || lines.values().filter_map(|trials| trials.first());
    let of = |(key, trials): (&[String; 5], &Vec<&Observation>)| {
        let own = trials.first().map_or(&[][..], |trial| &trial.facts);
        let others = || firsts().filter(|it| it.dimension(Observation::WORKLOAD) == key[0]);
        let differs = |fact: &&Fact| {
            is_of_target(fact) && others().any(|other| value(other, &fact.name) != fact.value)
        };
        own.iter().filter(differs).cloned().collect()
    };
    lines.iter().map(of).collect()
}

fn value<'a>(trial: &'a Observation, name: &str) -> &'a str {
    let fact = trial.facts.iter().find(|fact| fact.name == name);
    fact.map_or("", |fact| fact.value.as_str())
}

fn is_measured(fact: &Fact) -> bool {
    let class = matches!(fact.class, FactClass::Workload | FactClass::Ending);
    class && !RESULTS.contains(&fact.name.as_str())
}

fn is_of_target(fact: &Fact) -> bool {
    fact.class == FactClass::Target && fact.name != FULLNESS
}

/// A hash of some facts of a trial: FNV-1a, which is the same on every host and in every version of the program.
/// Source: Fowler, Noll, Vo, RFC 9923.
fn hash(trial: &Observation, of: fn(&Fact) -> bool) -> String {
    let mut facts: Vec<(&str, &str)> = (trial.facts.iter().filter(|fact| of(fact)))
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
    [workload, configuration, host, identity, _]: [String; 5],
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
    let drifts = levels.iter().filter_map(|level| level.drift).collect();
    Some(History {
        workload,
        configuration,
        host,
        identity,
        target: Vec::new(),
        changes: changes.collect(),
        drifts,
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

/// Runs of one level, or of one drift.
struct Level {
    start: usize,
    /// After its last run, or its last one before a suspected change.
    end: usize,
    mean_speed: f64,
    /// p of the change before it; 1 for the first.
    p: f64,
    drift: Option<HistoryDrift>,
}

fn segments(speeds: &[f64]) -> Vec<Level> {
    let logarithms: Vec<f64> = speeds.iter().map(|speed| speed.ln()).collect();
    let mut levels = Vec::new();
    if logarithms.is_empty() {
        return levels;
    }
    divide(&logarithms, 0, 1.0, &mut levels);
    levels
}

/// Appends the levels of these logarithms: one, or those on both sides of the likeliest step. `start`: the index of the
/// first one, `p`: of the change before it.
fn divide(logarithms: &[f64], start: usize, p: f64, levels: &mut Vec<Level>) {
    let found = (logarithms.len() >= MIN_FOR_CHANGE)
        .then(|| serial_change(logarithms, SEED).ok())
        .flatten();
    let last = start + logarithms.len() - 1;
    let end = match found {
        Some(SerialChange {
            change: Change::Step(at),
            p,
        }) if p <= SUSPICIOUS_P => start + at,
        _ => last + 1,
    };
    let found = found.filter(|found| found.p <= MAX_P);
    let drift = match found.map(|found| (found.change, found.p)) {
        Some((Change::Step(at), of_step)) => {
            divide(&logarithms[..at], start, p, levels);
            return divide(&logarithms[at..], start + at, of_step, levels);
        }
        Some((Change::Drift(rise), p)) => Some(HistoryDrift {
            first: start,
            last,
            ratio: rise.exp(),
            p,
        }),
        None => None,
    };
    let speeds: Vec<f64> = logarithms.iter().map(|it| it.exp()).collect();
    levels.push(Level {
        start,
        end,
        mean_speed: geometric_mean(&speeds).unwrap_or(f64::NAN),
        p,
        drift,
    });
}

/// Compares the newest run with the last level before it that has enough runs. A level that is still younger than that
/// is not one to compare with: a regression remains one until it has lasted. Where the newest run is part of a drift,
/// the drift decides.
fn newest(speeds: &[f64], levels: &[Level], margin: f64) -> NewestRun {
    let too_few = NewestRun {
        verdict: NewestVerdict::TooFewRuns,
        steady: (0, 0),
        expected: None,
    };
    let Some((last, before)) = speeds.split_last() else {
        return too_few;
    };
    let verdict = |ratio: f64, low: f64, high: f64| match ratio {
        ratio if ratio < low && ratio < 1.0 / (1.0 + margin) => NewestVerdict::Regression,
        ratio if ratio > high && ratio > 1.0 + margin => NewestVerdict::Improvement,
        _ => NewestVerdict::AsBefore,
    };
    if let Some(drift) = levels.last().and_then(|level| level.drift) {
        return NewestRun {
            verdict: verdict(drift.ratio, 1.0, 1.0),
            steady: (drift.first, drift.last),
            expected: Some(Estimated {
                value: drift.ratio,
                interval: None,
                level: LEVEL,
            }),
        };
    }
    let steady = levels.iter().rev().find_map(|level| {
        let end = level.end.min(before.len());
        (end.saturating_sub(level.start) >= History::STEADY_RUNS).then_some((level.start, end))
    });
    let Some((start, end)) = steady else {
        return too_few;
    };
    let own: Vec<f64> = speeds[start..end].iter().map(|speed| speed.ln()).collect();
    let correlation = serial_correlation(&own).unwrap_or_default();
    let Ok((low, high)) = prediction_interval(&own, LEVEL, correlation) else {
        return too_few;
    };
    let centre = own.iter().sum::<f64>() / own.len() as f64;
    let ratio = (last.ln() - centre).exp();
    let (low, high) = ((low - centre).exp(), (high - centre).exp());
    NewestRun {
        verdict: verdict(ratio, low, high),
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
    let facts = before.iter().chain(after).flat_map(|trial| &trial.facts);
    let names = distinct(facts.map(|fact| fact.name.as_str()));
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
    use crate::testing::observations::{fact, observation};

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
            false,
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
            let found = history(&runs(&levels, |_| "6.1"), None, 0.03, false);
            assert_eq!(
                found[0].newest.verdict,
                NewestVerdict::Regression,
                "{bad} runs"
            );
        }
        let faster = [vec![100.0; 12], vec![120.0]].concat();
        let found = history(&runs(&faster, |_| "6.1"), None, 0.03, false);
        assert_eq!(found[0].newest.verdict, NewestVerdict::Improvement);
    }

    #[test]
    fn a_difference_within_the_margin_is_negligible_and_few_runs_decide_nothing() {
        let levels = [vec![100.0; 12], vec![96.0]].concat();
        let trials = runs(&levels, |_| "6.1");
        let verdict = |margin| history(&trials, None, margin, false)[0].newest.verdict;
        assert_eq!(verdict(0.01), NewestVerdict::Regression);
        assert_eq!(verdict(0.10), NewestVerdict::AsBefore);
        let few = history(&runs(&[100.0; 5], |_| "6.1"), None, 0.03, false);
        assert_eq!(few[0].newest.verdict, NewestVerdict::TooFewRuns);
        assert!(history(&[], None, 0.03, false).is_empty());
    }

    #[test]
    fn other_work_hosts_configurations_and_targets_have_their_own_history() {
        let mut trials = runs(&[100.0; 3], |_| "6.1");
        for (place, trial) in trials.iter_mut().enumerate() {
            let fact = match place / 3 {
                0 => &mut trial.facts[0],
                1 => &mut trial.facts[2],
                _ => continue,
            };
            fact.value = "other".to_owned();
        }
        assert_eq!(history(&trials, None, 0.03, false).len(), 3);
        let mut trials = runs(&[100.0; 3], |_| "6.1");
        for trial in trials.iter_mut().step_by(3) {
            let name = Observation::CONFIGURATION.to_owned();
            trial.dimensions.insert(name, "d".to_owned());
        }
        for any_target in [false, true] {
            let found = history(&trials, None, 0.03, any_target);
            let names: Vec<&str> = found.iter().map(|it| &*it.configuration).collect();
            assert_eq!(names, ["c", "d"]);
        }
    }

    #[test]
    fn runs_on_another_target_are_a_regression_only_if_that_is_asked() {
        let levels = [vec![100_000.0; 6], vec![400.0]].concat();
        let mut trials = runs(&levels, |_| "6.1");
        for trial in &mut trials {
            let slow = trial.figures[0].value < 1000.0;
            let of = |fast: &str, other: &str| if slow { other } else { fast }.to_owned();
            let name = Observation::CONFIGURATION.to_owned();
            trial.dimensions.insert(name, of("fast", "slow"));
            for (name, value) in [
                ("file system", of("tmpfs", "ext4")),
                (
                    "fullness",
                    format!("{} %", trial.started_unix_ms.unwrap() / 1000),
                ),
                ("scheduler", "none".to_owned()),
            ] {
                trial.facts.push(fact(FactClass::Target, name, &value));
            }
        }
        let found = history(&trials, None, 0.03, false);
        let lines: Vec<(&str, usize, &str)> = found
            .iter()
            .map(|it| {
                let [target] = it.target.as_slice() else {
                    panic!("{:?}", it.target);
                };
                (&*it.configuration, it.points.len(), &*target.value)
            })
            .collect();
        assert_eq!(lines, [("fast", 6, "tmpfs"), ("slow", 1, "ext4")]);
        assert_eq!(found[0].newest.verdict, NewestVerdict::AsBefore);
        assert_eq!(found[1].newest.verdict, NewestVerdict::TooFewRuns);
        let found = history(&trials, None, 0.03, true);
        assert_eq!((found.len(), found[0].points.len()), (1, 7));
        assert_eq!(found[0].newest.verdict, NewestVerdict::Regression);
        // The same configuration whose target became another one.
        for trial in &mut trials {
            let name = Observation::CONFIGURATION.to_owned();
            trial.dimensions.insert(name, "data".to_owned());
        }
        assert_eq!(history(&trials, None, 0.03, false).len(), 2);
    }

    /// Number of simulated series; `make test-long` makes more.
    const TIMES: usize = if cfg!(feature = "long") { 1000 } else { 100 };

    /// The share of series of log-normal runs with a spread of 2 % that meets a condition. `correlation`: of a run with
    /// the one before.
    fn share(levels: &[f64], correlation: f64, meets: impl Fn(&[f64], &[Level]) -> bool) -> f64 {
        use rand::SeedableRng;
        use rand_distr::Distribution;
        let noise = rand_distr::Normal::new(0.0, 0.02).unwrap();
        let mut source = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(5);
        let met = (0..TIMES).filter(|_| {
            let mut wander = noise.sample(&mut source);
            let mut speed = |level: &f64| {
                let own = f64::sqrt(1.0 - correlation * correlation);
                wander = correlation * wander + own * noise.sample(&mut source);
                level * f64::exp(wander)
            };
            let speeds: Vec<f64> = levels.iter().map(&mut speed).collect();
            meets(&speeds, &segments(&speeds))
        });
        met.count() as f64 / TIMES as f64
    }

    fn regressed(speeds: &[f64], levels: &[Level]) -> bool {
        newest(speeds, levels, 0.03).verdict == NewestVerdict::Regression
    }

    #[test]
    fn steady_runs_are_rarely_called_changed_also_if_they_are_correlated() {
        for correlation in [0.0, 0.5, 0.8] {
            for runs in [12, 20, 50] {
                let steady = vec![100.0; runs];
                let changed = share(&steady, correlation, |_, levels| {
                    levels.len() > 1 || levels[0].drift.is_some()
                });
                assert!(changed <= 0.05, "{correlation} {runs}: {changed}");
                let regressed = share(&steady, correlation, regressed);
                assert!(regressed <= 0.05, "{correlation} {runs}: {regressed}");
            }
        }
    }

    #[test]
    fn a_regression_of_ten_percent_is_found_in_its_first_runs() {
        for (bad, least) in [(1, 0.8), (2, 0.8), (3, 0.8)] {
            let levels = [vec![100.0; 15], vec![90.0; bad]].concat();
            let found = share(&levels, 0.0, regressed);
            assert!(found >= least, "{bad} runs: {found}");
        }
        for correlation in [0.0, 0.5, 0.8] {
            let levels = [vec![100.0; 20], vec![90.0; 10]].concat();
            let found = share(&levels, correlation, |_, levels| {
                levels.len() == 2 && levels[1].start.abs_diff(20) <= 1
            });
            assert!(found >= 0.85, "{correlation}: {found}");
        }
    }

    #[test]
    fn a_drift_is_said_as_such_and_not_as_steps() {
        // 20 % over 40 runs.
        let line: Vec<f64> = (0..40)
            .map(|run| 100.0 * 0.8f64.powf(f64::from(run) / 39.0))
            .collect();
        let drifts = share(&line, 0.0, |speeds, levels| {
            levels.len() == 1 && levels[0].drift.is_some() && regressed(speeds, levels)
        });
        assert!(drifts >= 0.9, "{drifts}");
        let steps = share(&line, 0.0, |_, levels| levels.len() > 1);
        assert!(steps <= 0.05, "{steps}");
    }
}
