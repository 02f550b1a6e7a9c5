//! Findings that compare the nodes of a trial.

use std::collections::{BTreeMap, HashMap};

use iodyno_model::{Finding, FindingKind, Frame, Part, Step, Summary, Trial, Weight, Workload};
use iodyno_units::{Nanos, Rate, counted};

use super::{finding, list, remedied};
use crate::work;

/// Nodes that start further apart than this, ns, or [`SPREAD_SHARE`] of the measured time if that is more, do not load
/// common storage at the same time.
const SPREAD_NS: u64 = 5_000_000;
const SPREAD_SHARE: f64 = 0.001;

/// A node is far from the others if its rate is this many times the median, or the median this many times its rate.
/// Nodes of equal hardware differ by some percent.
const FAR: f64 = 1.25;

/// Without a completion for this time, ns, a node is stalled: storage that responds completes an op within it.
const STALL_NS: u64 = 1_000_000_000;

/// Findings on the nodes of a trial with several.
pub(super) fn findings(workload: &Workload, trial: &Trial, summary: &Summary) -> Vec<Finding> {
    let found = [
        apart(&trial.parts),
        differs(summary),
        stalled(workload, trial, summary),
    ];
    found.into_iter().flatten().collect()
}

/// The distance between the first and the last start, with its maximum error, ns; `None` if fewer than two nodes
/// measured.
fn spread_ns(parts: &[Part]) -> Option<(u64, u64)> {
    let starts: Vec<u64> = parts.iter().filter_map(Part::measured_from_ns).collect();
    let spread_ns = starts.iter().max()? - starts.iter().min()?;
    // The two clocks that are known least.
    let working = parts.iter().filter(|part| !part.only_sampled());
    let mut errors: Vec<u64> = working.map(|part| part.clock_error_ns).collect();
    errors.sort_unstable();
    let error_ns = errors.iter().rev().take(2).sum();
    (starts.len() > 1).then_some((spread_ns, error_ns))
}

fn apart(parts: &[Part]) -> Option<Finding> {
    let (spread_ns, error_ns) = spread_ns(parts)?;
    let spans = parts
        .iter()
        .filter_map(|part| Some(part.measured_until_ns()? - part.measured_from_ns()?));
    let limit_ns = SPREAD_NS.max((spans.max()? as f64 * SPREAD_SHARE) as u64);
    (spread_ns.saturating_add(error_ns) > limit_ns).then(|| {
        let text = format!(
            "the nodes started {} apart, ± {}",
            Nanos(spread_ns),
            Nanos(error_ns)
        );
        let threshold = format!(
            "more than 5 ms and 0.1 % of the measured time: {}",
            Nanos(limit_ns)
        );
        let mut working = parts.iter().filter(|part| !part.only_sampled());
        let in_guest = |part: &Part| {
            let made = part.environment.made.as_ref();
            made.is_some_and(|made| made.facts.contains_key("vm.acceleration"))
        };
        let remedy = match working.all(in_guest) {
            true => "lower the load of the host, or use a longer runtime",
            false => {
                "use a faster connection, lower the load of the nodes, or use a longer runtime"
            }
        };
        remedied(
            finding(FindingKind::NodesApart, Weight::Warning, text, threshold),
            remedy,
        )
    })
}

fn differs(summary: &Summary) -> Option<Finding> {
    let rates: Vec<(&str, f64)> = summary
        .nodes
        .iter()
        .map(|node| {
            let rates = node.rows.iter().map(iodyno_model::Row::iops);
            (node.name.as_str(), rates.sum())
        })
        .collect();
    let mut sorted: Vec<f64> = rates.iter().map(|(_, rate)| *rate).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median = match sorted.len() % 2 {
        1 => sorted[middle],
        _ => (sorted.get(middle.checked_sub(1)?)? + sorted.get(middle)?) / 2.0,
    };
    let far = |rate: f64| rate > median * FAR || rate * FAR < median;
    let far: Vec<String> = rates
        .iter()
        .filter(|(_, rate)| far(*rate))
        .map(|(name, rate)| format!("`{name}` with {}/s", Rate(*rate)))
        .collect();
    (!far.is_empty()).then(|| {
        let text = format!(
            "the median rate of the nodes is {}/s; far from it: {}",
            Rate(median),
            list(&far)
        );
        let threshold = format!("a rate of {FAR} times the median, or the inverse");
        finding(FindingKind::NodeDiffers, Weight::Warning, text, threshold)
    })
}

/// The nodes on which no op completed for [`STALL_NS`].
fn stalled(workload: &Workload, trial: &Trial, summary: &Summary) -> Option<Finding> {
    if work::runs_commands(trial) {
        return None;
    }
    let stalls: Vec<String> = summary
        .nodes
        .iter()
        .filter(|node| node.longest_stall_ns >= STALL_NS)
        .map(|node| format!("`{}` for {}", node.name, Nanos(node.longest_stall_ns)))
        .collect();
    let at_once = match summary.stalls {
        Some(all) => format!(
            "{} (of at least {})",
            times(all.at_once),
            Nanos(all.least_ns)
        ),
        None => counted(seconds_at_once(workload, trial), "second"),
    };
    (!stalls.is_empty()).then(|| {
        let text = format!(
            "no op completed on {}, longest time each; on several nodes at once: {at_once}",
            list(&stalls)
        );
        let threshold = format!("{} without a completion", Nanos(STALL_NS));
        finding(FindingKind::NodeStalled, Weight::Warning, text, threshold)
    })
}

fn times(count: u64) -> String {
    counted(count, "time")
}

/// The number of seconds in which several nodes have a whole frame of the measured time without a completion.
fn seconds_at_once(workload: &Workload, trial: &Trial) -> u64 {
    let mut seconds: BTreeMap<u64, u32> = BTreeMap::new();
    let idle = |frame: &&Frame| {
        frame.step == Step::Measure && frame.span_ns() > 0 && work::frame_ops(workload, frame) == 0
    };
    for frame in trial.frames.iter().filter(idle) {
        *seconds
            .entry((frame.start_ns + frame.span_ns() / 2) / 1_000_000_000)
            .or_default() += 1;
    }
    seconds.values().filter(|nodes| **nodes > 1).count() as u64
}

/// The findings on each node as findings on the trial: those that several nodes share are told once, with the names of
/// the nodes. Of those that differ only in figures, the first is told. `each`: the findings by the node's name.
pub(super) fn shared(each: Vec<(&str, Vec<Finding>)>) -> Vec<Finding> {
    let nodes = each.len();
    let mut told: Vec<(Finding, Vec<&str>)> = Vec::new();
    let mut places: HashMap<(FindingKind, String), Vec<usize>> = HashMap::new();
    for (name, findings) in each {
        for finding in findings {
            let alike = (finding.kind, finding.text.clone());
            let alike = places.entry(alike).or_default();
            match alike.iter().find(|place| told[**place].0 == finding) {
                Some(place) => told[*place].1.push(name),
                None => {
                    alike.push(told.len());
                    told.push((finding, vec![name]));
                }
            }
        }
    }
    let mut firsts: Vec<(Finding, Vec<&str>, Vec<&str>)> = Vec::new();
    for (finding, names) in told {
        let like = |first: &Finding| {
            let same = |one: &Finding| {
                (
                    one.kind,
                    one.weight,
                    one.threshold.clone(),
                    one.remedy.clone(),
                )
            };
            same(first) == same(&finding)
                && without_figures(&first.text).eq(without_figures(&finding.text))
        };
        match firsts.iter_mut().find(|(first, _, _)| like(first)) {
            Some((_, _, others)) => others.extend(names),
            None => firsts.push((finding, names, Vec::new())),
        }
    }
    let named = firsts.into_iter().map(|(finding, names, others)| {
        let quoted = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| format!("`{name}`")).collect()
        };
        let (quoted, others) = (quoted(&names), quoted(&others));
        let [quoted, others] =
            [&quoted, &others].map(|all| all.iter().map(String::as_str).collect::<Vec<_>>());
        let text = match (finding.kind, names.len()) {
            // It is about the trial.
            (FindingKind::Interrupted, _) => finding.text,
            (_, count) if count == nodes => format!("all nodes: {}", finding.text),
            (_, 1) => format!("node {}: {}", quoted[0], finding.text),
            _ => format!("nodes {}: {}", list(&quoted), finding.text),
        };
        let text = match others.len() {
            0 => text,
            _ => format!("{text} (with other figures also on {})", list(&others)),
        };
        Finding { text, ..finding }
    });
    named.collect()
}

/// The words of a text that do not begin with a digit.
fn without_figures(text: &str) -> impl Iterator<Item = &str> {
    let word = |word: &&str| !word.starts_with(|first: char| first.is_ascii_digit());
    text.split_whitespace().filter(word)
}

#[cfg(test)]
mod tests {
    use iodyno_model::Direction;

    use super::*;
    use crate::testing as made_up;

    const SECOND: u64 = 1_000_000_000;

    /// Nodes `a`, `b`, … with these rates for ten seconds, and a frame for each second; 0 ops in the second `idle`.
    fn nodes(rates: &[u64], idle: &[Option<u32>]) -> (Workload, Trial) {
        let workload = made_up::workload("w", vec![made_up::reader("r")]);
        let mut trial = made_up::trial(Vec::new());
        for (place, rate) in rates.iter().enumerate() {
            let name = ["a", "b", "c", "d"][place];
            let mut clone = made_up::clone(
                0,
                0,
                vec![made_up::direction(Direction::Read, rate * 10, 100_000)],
            );
            (clone.start_ns, clone.runtime_ns) = (0, 10 * SECOND);
            clone.directions[0].runtime_ns = 10 * SECOND;
            trial.parts.push(Part {
                node: name.to_owned(),
                ..made_up::part(vec![clone])
            });
            let idle = idle.get(place).copied().flatten();
            trial.frames.extend((0..10).map(|second| {
                let ops = match idle == Some(second) {
                    true => 0,
                    false => *rate,
                };
                let mut frame = made_up::frame(second, &[(0, Direction::Read, ops, 100_000)]);
                frame.node = name.to_owned();
                frame
            }));
        }
        (workload, trial)
    }

    fn of_kind(kind: FindingKind, (workload, trial): &(Workload, Trial)) -> Vec<String> {
        let found = crate::findings(workload, trial).into_iter();
        let found = found.filter(|finding| finding.kind == kind);
        found.map(|finding| finding.text).collect()
    }

    #[test]
    fn nodes_that_start_further_apart_than_the_threshold_are_a_finding() {
        for (late_ns, error_ns, far) in [
            (0, 0, false),
            (10_000_000, 0, false),
            (10_000_001, 0, true),
            (9_000_000, 500_001, true),
            (9_000_000, 500_000, false),
        ] {
            let mut made = nodes(&[100, 100], &[]);
            made.1.parts[1].start_late_ns = late_ns;
            for part in &mut made.1.parts {
                part.clock_error_ns = error_ns;
            }
            let found = of_kind(FindingKind::NodesApart, &made);
            assert_eq!(
                found.len(),
                usize::from(far),
                "{late_ns} {error_ns}: {found:?}"
            );
        }
        let mut long = nodes(&[100, 100], &[]);
        for part in &mut long.1.parts {
            part.clones[0].runtime_ns = 100 * SECOND;
        }
        long.1.parts[1].start_late_ns = 100_000_000;
        assert_eq!(
            of_kind(FindingKind::NodesApart, &long),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_node_far_from_the_median_is_a_finding() {
        for (rates, far) in [
            (&[1000, 1000, 1000][..], None),
            (&[1000, 1200, 900], None),
            (&[1000, 1000, 500], Some("`c` with 500/s")),
            (&[1000, 1400, 1000], Some("`b` with 1.40k/s")),
        ] {
            let found = of_kind(FindingKind::NodeDiffers, &nodes(rates, &[]));
            match far {
                None => assert_eq!(found, Vec::<String>::new(), "{rates:?}"),
                Some(words) => assert!(found.len() == 1 && found[0].contains(words), "{found:?}"),
            }
        }
    }

    #[test]
    fn seconds_without_a_completion_are_told_with_their_coincidence() {
        let none = nodes(&[100, 100], &[]);
        assert_eq!(
            of_kind(FindingKind::NodeStalled, &none),
            Vec::<String>::new()
        );
        for (idle, coincide) in [
            ([Some(3), None], "0 seconds"),
            ([Some(3), Some(4)], "0 seconds"),
            ([Some(3), Some(3)], "1 second"),
        ] {
            let found = of_kind(FindingKind::NodeStalled, &nodes(&[100, 100], &idle));
            assert!(found[0].contains("`a` for 1.00 s"), "{found:?}");
            assert_eq!(found[0].contains("`b`"), idle[1].is_some());
            assert!(found[0].ends_with(coincide), "{found:?}");
        }
    }

    #[test]
    fn a_finding_of_several_nodes_is_told_once_with_their_names() {
        let found = |text: &str| finding(FindingKind::Steal, Weight::Warning, text.to_owned(), "t");
        let told = shared(vec![
            ("a", vec![found("x"), found("y"), found("z")]),
            ("b", vec![found("x"), found("y")]),
            ("c", vec![found("x")]),
        ]);
        let texts: Vec<&str> = told.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(
            texts,
            ["all nodes: x", "nodes `a` and `b`: y", "node `a`: z"]
        );
        let told = shared(vec![
            ("a", vec![found("waited 3 % of vda")]),
            ("b", vec![found("waited 12 % of vda")]),
            ("c", vec![found("waited 12 % of vdb")]),
        ]);
        let texts: Vec<&str> = told.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "node `a`: waited 3 % of vda (with other figures also on `b`)",
                "node `c`: waited 12 % of vdb"
            ]
        );
    }

    #[test]
    fn the_rates_of_all_nodes_are_added_up_and_each_has_its_row() {
        let (workload, mut trial) = nodes(&[1000, 3000], &[]);
        // The second one ends after five of ten seconds.
        let short = &mut trial.parts[1].clones[0];
        (short.runtime_ns, short.directions[0].ops) = (5 * SECOND, 15_000);
        short.directions[0].runtime_ns = 5 * SECOND;
        trial
            .frames
            .retain(|frame| frame.node != "b" || frame.number < 5);
        let summary = crate::summary(&workload, &trial);
        let rates: Vec<f64> = summary
            .nodes
            .iter()
            .map(|node| node.rows[0].iops())
            .collect();
        assert_eq!(rates, [1000.0, 3000.0]);
        assert_eq!(summary.groups[0].rows[0].result.ops, 25_000);
        assert_eq!(summary.series.len(), 10);
        assert_eq!(
            (summary.series[0].iops, summary.series[9].iops),
            (4000.0, 1000.0)
        );
        let common = summary.common.unwrap();
        assert_eq!((common.span_ns, common.iops), (5 * SECOND, 4000.0));
    }
}
