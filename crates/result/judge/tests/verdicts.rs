//! The shares of false verdicts, and the coverage of intervals, in simulated experiments with known truth: tables in
//! Markdown (`--nocapture`), and bounds on them. The same seeds give the same tables on every host.
//!
//! "Before" is the rule without the correction under test: the trials of separate runs as if each were independent, a
//! look at the full α after each extension, the noise floor as the margin.

#![allow(clippy::print_stdout)] // the tables

use iodyno_judge::compare;
use iodyno_judge::testing::observations::{each, rounds};
use iodyno_model::{CandidateResult, Observation, Question, Verdict};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

const TIMES: u64 = 4000;
const SIZES: [usize; 3] = [5, 10, 20];

/// The variation of a host from trial to trial, in logarithms of the speed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Law {
    /// Independent, 3 %.
    Independent,
    /// The same, and 10 % slower at the end of the experiment than at its beginning.
    Drift,
    /// 3 %, each trial correlated with the previous one by 0.5.
    Autocorrelated,
    /// Two levels that differ by 10 %, with changes after ten trials on average, and 1 %.
    Regimes,
}

const LAWS: [Law; 4] = [
    Law::Independent,
    Law::Drift,
    Law::Autocorrelated,
    Law::Regimes,
];

/// A simulated host: each call is the next trial.
struct Host {
    random: Xoshiro256PlusPlus,
    law: Law,
    trials: usize,
    trial: usize,
    state: f64,
}

impl Host {
    fn new(law: Law, seed: u64, trials: usize) -> Host {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let normal: f64 = StandardNormal.sample(&mut random);
        let state = match law {
            Law::Regimes => f64::from(u8::from(random.random_bool(0.5))),
            _ => normal,
        };
        Host {
            random,
            law,
            trials,
            trial: 0,
            state,
        }
    }

    fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.random)
    }

    fn next(&mut self) -> f64 {
        let place = self.trial as f64 / (self.trials - 1).max(1) as f64;
        self.trial += 1;
        let noise = self.normal();
        match self.law {
            Law::Independent => 0.03 * noise,
            Law::Drift => 0.03 * noise - 0.1 * place,
            Law::Autocorrelated => {
                self.state = 0.5 * self.state + 0.75f64.sqrt() * noise;
                0.03 * self.state
            }
            Law::Regimes => {
                if self.random.random_bool(0.1) {
                    self.state = 1.0 - self.state;
                }
                0.1 * self.state + 0.01 * noise
            }
        }
    }
}

fn side(name: &str, logarithms: &[f64]) -> Vec<Observation> {
    let values: Vec<f64> = logarithms.iter().map(|l| 1000.0 * l.exp()).collect();
    rounds(name, "w", &values)
}

/// One run of n rounds of two cells. The order of each round is drawn; `alternating`: of each pair of rounds, AB BA or
/// BA AB.
fn interleaved(host: &mut Host, n: usize, alternating: bool) -> [Vec<f64>; 2] {
    let mut sides = [Vec::new(), Vec::new()];
    let mut first = 0;
    for round in 0..n {
        first = match alternating && round % 2 == 1 {
            true => 1 - first,
            false => usize::from(host.random.random_bool(0.5)),
        };
        for place in [first, 1 - first] {
            sides[place].push(host.next());
        }
    }
    sides
}

/// Separate runs of n trials, `runs` per side, alternating or one side after the other. Runs differ by 3 % without a
/// cause.
fn separate(host: &mut Host, n: usize, runs: usize, in_turns: bool) -> Vec<Observation> {
    let mut trials = Vec::new();
    for number in 0..2 * runs {
        let candidate = match in_turns {
            true => number % 2 == 1,
            false => number >= runs,
        };
        let own = 0.03 * host.normal();
        let logarithms: Vec<f64> = (0..n).map(|_| host.next() + own).collect();
        let name = ["a", "b"][usize::from(candidate)];
        trials.extend(each(side(name, &logarithms), |o| {
            let run = format!("{number}");
            o.dimensions.insert(Observation::RUN.to_owned(), run);
            o.started_unix_ms = Some(number as u64);
        }));
    }
    trials
}

/// The trials as if they were independent ones of one file.
fn pooled(trials: &[Observation]) -> Vec<Observation> {
    each(trials.to_vec(), |o| {
        o.round = None;
        o.dimensions
            .insert(Observation::RUN.to_owned(), "1".to_owned());
    })
}

fn cell(trials: &[Observation], question: &Question) -> CandidateResult {
    let comparison = compare("", trials, question, &[]).unwrap();
    comparison.rows[0].cells[0].clone()
}

fn at_look(looks: u32) -> Question {
    Question {
        looks: Some(looks),
        ..Question::default()
    }
}

fn differs(verdict: &Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Faster | Verdict::Slower | Verdict::DifferentButSmall
    )
}

/// The result of a simulated experiment without a difference.
#[derive(Default, Clone, Copy)]
struct ExperimentResult {
    /// A difference.
    differs: bool,
    /// Whether the interval contains the true ratio; `None` if no interval is given as the result.
    covers: Option<bool>,
}

impl ExperimentResult {
    fn of(cell: &CandidateResult, verdict: &Verdict) -> ExperimentResult {
        let refused =
            matches!(verdict, Verdict::Inconclusive { reasons, .. } if !reasons.is_empty());
        let interval = cell.ratio.and_then(|ratio| ratio.interval);
        ExperimentResult {
            differs: differs(verdict),
            covers: interval
                .filter(|_| !refused)
                .map(|(low, high)| low <= 1.0 && 1.0 <= high),
        }
    }
}

/// Counts of simulated experiments without a difference.
#[derive(Default, Clone, Copy)]
struct Counts {
    wrong: u64,
    covering: u64,
    intervals: u64,
}

impl Counts {
    fn add(&mut self, gave: ExperimentResult) {
        self.wrong += u64::from(gave.differs);
        self.covering += u64::from(gave.covers == Some(true));
        self.intervals += u64::from(gave.covers.is_some());
    }

    fn wrong(&self) -> f64 {
        self.wrong as f64 / TIMES as f64
    }

    fn coverage(&self) -> String {
        match self.intervals {
            0 => "–".to_owned(),
            intervals => format!("{:.1}", 100.0 * self.covering as f64 / intervals as f64),
        }
    }
}

/// Simulates, prints a row of the table, and returns the share of false verdicts afterwards.
fn row(
    name: &str,
    law: Law,
    n: &str,
    mut experiment: impl FnMut(u64) -> (ExperimentResult, ExperimentResult),
) -> f64 {
    let (mut before, mut after) = (Counts::default(), Counts::default());
    for seed in 0..TIMES {
        let gave = experiment(seed);
        before.add(gave.0);
        after.add(gave.1);
    }
    println!(
        "| {name} | {law:?} | {n} | {:.1} | {:.1} | {} | {} |",
        100.0 * before.wrong(),
        100.0 * after.wrong(),
        before.coverage(),
        after.coverage()
    );
    after.wrong()
}

/// The upper bound of an observed share whose expectation is at most 5 %: four standard errors more.
fn bound() -> f64 {
    0.05 + 4.0 * (0.05 * 0.95 / TIMES as f64).sqrt()
}

const HEAD: &str = "| design | law | n | false before | false after | coverage before | coverage after |\n\
                    |---|---|--:|--:|--:|--:|--:|";

#[test]
fn one_run_in_rounds_is_wrong_in_at_most_5_of_100() {
    println!("{HEAD}");
    for law in LAWS {
        for n in SIZES {
            let wrong = row("one run, paired", law, &n.to_string(), |seed| {
                let mut host = Host::new(law, seed, 2 * n);
                let [a, b] = interleaved(&mut host, n, false);
                let trials = [side("a", &a), side("b", &b)].concat();
                let of = |question: &Question| {
                    let cell = cell(&trials, question);
                    ExperimentResult::of(&cell, &cell.verdict)
                };
                (of(&Question::default()), of(&at_look(0)))
            });
            assert!(wrong <= bound(), "{law:?} {n}: {wrong}");
        }
    }
}

/// Rounds that alternate are not independent of each other, and an autocorrelated host makes their test
/// anticonservative.
#[test]
fn an_order_drawn_for_each_round_is_exact_and_finds_as_much_as_an_alternating_one() {
    println!(
        "| law | n | false, AB BA | false, drawn | 5 % found, AB BA | 5 % found, drawn |\n|---|--:|--:|--:|--:|--:|"
    );
    for law in LAWS {
        for n in SIZES {
            let share = |alternating: bool, true_ratio: f64| {
                let found = (0..TIMES).filter(|seed| {
                    let mut host = Host::new(law, *seed, 2 * n);
                    let [a, mut b] = interleaved(&mut host, n, alternating);
                    b.iter_mut().for_each(|value| *value += true_ratio.ln());
                    let trials = [side("a", &a), side("b", &b)].concat();
                    differs(&cell(&trials, &at_look(0)).verdict)
                });
                found.count() as f64 / TIMES as f64
            };
            let [older, wrong] = [true, false].map(|alternating| share(alternating, 1.0));
            let [most, found] = [true, false].map(|alternating| share(alternating, 1.05));
            let percent = [older, wrong, most, found].map(|share| format!("{:.1}", 100.0 * share));
            println!("| {law:?} | {n} | {} |", percent.join(" | "));
            assert!(wrong <= bound(), "{law:?} {n}: {wrong}");
            assert!(found >= most - 0.05, "{law:?} {n}: {found} of {most}");
        }
    }
}

#[test]
fn separate_runs_are_wrong_in_at_most_5_of_100() {
    println!("{HEAD}");
    for (name, runs, in_turns) in [
        ("1 run a side", 1, true),
        ("3 runs per side, alternating", 3, true),
        ("5 runs per side, alternating", 5, true),
        ("3 runs a side, in blocks", 3, false),
        ("5 runs a side, in blocks", 5, false),
    ] {
        for law in LAWS {
            for n in SIZES {
                let wrong = row(name, law, &n.to_string(), |seed| {
                    let mut host = Host::new(law, seed, 2 * n * runs);
                    let trials = separate(&mut host, n, runs, in_turns);
                    let before = cell(&pooled(&trials), &Question::default());
                    let after = cell(&trials, &at_look(0));
                    (
                        ExperimentResult::of(&before, &before.by_numbers),
                        ExperimentResult::of(&after, &after.verdict),
                    )
                });
                assert!(wrong <= bound(), "{name} {law:?} {n}: {wrong}");
            }
        }
    }
}

#[test]
fn a_run_that_is_extended_until_it_decides_is_wrong_in_at_most_5_of_100() {
    println!("{HEAD}");
    for law in LAWS {
        let wrong = row("extended, looked at", law, "5, 10, 15, 20", |seed| {
            let mut host = Host::new(law, seed, 40);
            let [a, b] = interleaved(&mut host, 20, false);
            let all_looks = |spending: bool| {
                let mut looks = 0;
                let mut all = ExperimentResult {
                    differs: false,
                    covers: Some(true),
                };
                for n in [5, 10, 15, 20] {
                    let question = match spending {
                        true => at_look(looks),
                        false => Question::default(),
                    };
                    let trials = [side("a", &a[..n]), side("b", &b[..n])].concat();
                    let cell = cell(&trials, &question);
                    let gave = ExperimentResult::of(&cell, &cell.verdict);
                    all.differs |= gave.differs;
                    // The interval must contain the ratio at each look.
                    all.covers = all
                        .covers
                        .map(|so_far| so_far && gave.covers != Some(false));
                    match cell.verdict {
                        // Five rounds cannot decide, so they use no part of α.
                        Verdict::CannotDecide { .. } => {}
                        Verdict::Inconclusive { .. } => looks += 1,
                        _ => break,
                    }
                }
                all
            };
            (all_looks(false), all_looks(true))
        });
        assert!(wrong <= bound(), "{law:?}: {wrong}");
    }
}

#[test]
fn a_difference_of_ten_percent_is_called_equivalent_in_at_most_5_of_100() {
    println!(
        "| law, with a baseline made twice, true ratio 1.10 | n | equivalent before | after |\n|---|--:|--:|--:|"
    );
    for (law, spread) in [
        (Law::Independent, 10.0 / 3.0),
        (Law::Autocorrelated, 10.0 / 3.0),
    ] {
        for n in SIZES {
            let (mut before, mut after) = (0, 0);
            for seed in 0..TIMES {
                let mut host = Host::new(law, seed, 3 * n);
                let mut sides = [Vec::new(), Vec::new(), Vec::new()];
                for _ in 0..n {
                    for side in &mut sides {
                        side.push(spread * host.next());
                    }
                }
                sides[2].iter_mut().for_each(|value| *value += 1.1f64.ln());
                let again = each(side("a again", &sides[1]), |o| o.again = true);
                let trials = [side("a", &sides[0]), again, side("b", &sides[2])].concat();
                let question = at_look(0);
                let comparison = compare("", &trials, &question, &[]).unwrap();
                let equal = |verdict: &Verdict| {
                    matches!(verdict, Verdict::Equivalent | Verdict::DifferentButSmall)
                };
                after += u64::from(equal(&comparison.rows[0].cells[0].verdict));
                let floor = comparison.floor.unwrap_or(0.0);
                let wide = Question {
                    margin: question.margin.max(floor),
                    ..Question::default()
                };
                let without: Vec<Observation> =
                    trials.iter().filter(|o| !o.again).cloned().collect();
                before += u64::from(equal(&cell(&without, &wide).verdict));
            }
            let percent = |count: u64| 100.0 * count as f64 / TIMES as f64;
            println!(
                "| {law:?}, 10 % | {n} | {:.1} | {:.1} |",
                percent(before),
                percent(after)
            );
            assert!(
                after as f64 / TIMES as f64 <= bound(),
                "{law:?} {n}: {after}"
            );
        }
    }
}
