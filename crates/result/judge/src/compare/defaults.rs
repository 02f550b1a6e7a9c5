//! Default columns and rows of a question.

use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::Observation;

/// Dimensions that number repetitions and do not describe the work.
const REPETITIONS: [&str; 3] = ["loop", "round", Observation::INSTANCE];

/// The dimension with several values that is most likely the attribute under test.
pub fn likeliest_axis(observations: &[Observation]) -> Option<String> {
    dimensions(observations)
        .into_iter()
        .filter(|name| !REPETITIONS.contains(&name.as_str()))
        .filter(|name| {
            // Trials that lack the dimension are not compared.
            let mut values = values(observations, name);
            values.remove("");
            values.len() > 1
        })
        .min_by_key(|name| rank(name))
}

/// The dimension that distinguishes the runs: configuration, workload or name of the runs if no value of it occurs in
/// two runs, or if there are several values and each run has one of them; otherwise the run.
pub fn distinguishing_runs(observations: &[Observation]) -> String {
    let one_of_each = |keys: &str, values: &str| {
        let mut known: BTreeMap<&str, &str> = BTreeMap::new();
        observations.iter().all(|observation| {
            let value = observation.dimension(values);
            *known.entry(observation.dimension(keys)).or_insert(value) == value
        })
    };
    let telling = |dimension: &&str| {
        one_of_each(dimension, Observation::RUN)
            || values(observations, dimension).len() > 1 && one_of_each(Observation::RUN, dimension)
    };
    let named = [
        Observation::CONFIGURATION,
        Observation::WORKLOAD,
        Observation::NAME,
    ];
    let found = named.iter().copied().find(telling);
    found.unwrap_or(Observation::RUN).to_owned()
}

/// Rows that separate what differs: configuration and workload if they vary, and every dimension in which trials of one
/// workload in one column differ. Dimensions that are printed `across` are not among them; a workload that they
/// determine is not either.
pub fn default_rows(columns: &str, across: &[String], observations: &[Observation]) -> Vec<String> {
    let mut rows = across.to_vec();
    let mut cells = Cells::of(observations);
    for name in [columns, Observation::RUN] {
        cells.split_by(name);
    }
    rows.iter().for_each(|row| cells.split_by(row));
    for name in [Observation::CONFIGURATION, Observation::WORKLOAD] {
        let determined =
            name == Observation::WORKLOAD && !across.is_empty() && !cells.are_split_by(name);
        let known = name == columns || rows.iter().any(|row| row == name);
        if !known && !determined && values(observations, name).len() > 1 {
            cells.split_by(name);
            rows.push(name.to_owned());
        }
    }
    for name in dimensions(observations) {
        let known = [Observation::RUN, columns].contains(&name.as_str())
            || REPETITIONS.contains(&name.as_str())
            || rows.contains(&name);
        if !known && cells.are_split_by(&name) {
            cells.split_by(&name);
            rows.push(name);
        }
    }
    rows.drain(..across.len());
    if rows.is_empty() && across.is_empty() {
        let other = match columns {
            Observation::WORKLOAD => Observation::CONFIGURATION,
            _ => Observation::WORKLOAD,
        };
        rows.push(other.to_owned());
    }
    rows
}

/// The cell of each trial: trials in one have the same values of the dimensions that split them so far.
struct Cells<'a> {
    observations: &'a [Observation],
    numbers: Vec<usize>,
}

impl<'a> Cells<'a> {
    fn of(observations: &'a [Observation]) -> Cells<'a> {
        let numbers = vec![0; observations.len()];
        Cells {
            observations,
            numbers,
        }
    }

    /// The cell and the value of each trial.
    fn with(&self, name: &str) -> impl Iterator<Item = (usize, &'a str)> {
        let values = self.observations.iter().map(|it| it.dimension(name));
        self.numbers.iter().copied().zip(values)
    }

    /// Whether trials of one cell have several values of a dimension.
    fn are_split_by(&self, name: &str) -> bool {
        let mut seen = BTreeMap::new();
        self.with(name)
            .any(|(cell, value)| *seen.entry(cell).or_insert(value) != value)
    }

    fn split_by(&mut self, name: &str) {
        let mut seen = BTreeMap::new();
        let numbers = self.with(name).map(|place| {
            let next = seen.len();
            *seen.entry(place).or_insert(next)
        });
        self.numbers = numbers.collect();
    }
}

/// Priority of the dimensions as columns.
fn rank(dimension: &str) -> u8 {
    match dimension {
        Observation::CONFIGURATION => 0,
        Observation::WORKLOAD => 2,
        Observation::RUN => 3,
        _ => 1,
    }
}

fn dimensions(observations: &[Observation]) -> BTreeSet<String> {
    let names = observations.iter().flat_map(|o| o.dimensions.keys());
    names.cloned().collect()
}

fn values<'a>(observations: &'a [Observation], dimension: &str) -> BTreeSet<&'a str> {
    observations
        .iter()
        .filter(|observation| !observation.again)
        .map(|observation| observation.dimension(dimension))
        .collect()
}

#[cfg(test)]
mod tests {
    use iodyno_model::{ImportedTrial, Kind, SourceLine};

    use super::*;

    fn trial(configuration: &str, workload: &str, further: &[(&str, &str)]) -> Observation {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let trial = ImportedTrial {
            configuration: configuration.to_owned(),
            workload: workload.to_owned(),
            dimensions: further.iter().map(pair).collect(),
            form: "test".to_owned(),
            at: SourceLine {
                source: "t".to_owned(),
                line: 1,
            },
            kind: Kind::Unknown,
            primary: None,
            figures: Vec::new(),
            withheld: Vec::new(),
            series: Vec::new(),
            facts: Vec::new(),
            options_complete: false,
            remarks: Vec::new(),
            unusable: None,
        };
        crate::observe_imported("run 1", &trial)
    }

    #[test]
    fn runs_are_distinguished_by_values_that_they_do_not_share() {
        let of_run = |run: &str, configuration: &str, workload: &str| {
            let mut trial = trial(configuration, workload, &[]);
            let dimension = Observation::RUN.to_owned();
            trial.dimensions.insert(dimension, run.to_owned());
            trial
        };
        type Trial<'a> = (&'a str, &'a str, &'a str);
        let cases: [(&[Trial<'_>], &str); 6] = [
            (&[("1", "a", "w"), ("2", "b", "w")], "configuration"),
            (&[("1", "a", "v"), ("2", "a", "w")], "workload"),
            (&[("1", "a", "w"), ("2", "a", "w")], "run"),
            // Several runs of each.
            (
                &[("1", "a", "w"), ("2", "b", "w"), ("3", "a", "w")],
                "configuration",
            ),
            (&[("1", "a", "w"), ("1", "b", "w"), ("2", "a", "w")], "run"),
            (
                &[("1", "a", "w"), ("1", "b", "w"), ("2", "c", "w")],
                "configuration",
            ),
        ];
        for (trials, expected) in cases {
            let trials: Vec<Observation> = trials.iter().map(|(r, c, w)| of_run(r, c, w)).collect();
            assert_eq!(distinguishing_runs(&trials), expected);
        }
        let mut named: Vec<Observation> = ["1", "2", "3"].map(|run| of_run(run, "a", "w")).into();
        for (trial, name) in named.iter_mut().zip(["before", "after", "before"]) {
            let dimension = Observation::NAME.to_owned();
            trial.dimensions.insert(dimension, name.to_owned());
        }
        assert_eq!(distinguishing_runs(&named), "name");
    }

    #[test]
    fn a_dimension_that_some_trials_lack_is_not_the_axis() {
        let axis = |second: &str| {
            let trials = [trial("a", "w", &[("direct", "0")]), trial("a", "w", &[])];
            let third = trial(second, "w", &[]);
            likeliest_axis(&[trials.to_vec(), vec![third]].concat())
        };
        assert_eq!(axis("a"), None);
        assert_eq!(axis("b").as_deref(), Some("configuration"));
    }

    #[test]
    fn rows_separate_trials_that_differ() {
        type Trial<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);
        type Case<'a> = (&'a str, &'a [Trial<'a>], &'a [&'a str]);
        let cases: [Case<'_>; 4] = [
            (
                "configuration",
                &[
                    ("a", "w", &[("loop", "1")]),
                    ("a", "w", &[("loop", "2")]),
                    ("b", "w", &[]),
                ],
                &["workload"],
            ),
            (
                "configuration",
                &[
                    ("a", "w", &[("node", "1")]),
                    ("a", "w", &[("node", "2")]),
                    ("b", "w", &[]),
                ],
                &["node"],
            ),
            (
                "configuration",
                &[("a", "v", &[]), ("b", "w", &[])],
                &["workload"],
            ),
            (
                "workload",
                &[("a", "v", &[]), ("a", "w", &[])],
                &["configuration"],
            ),
        ];
        for (columns, trials, expected) in cases {
            let trials: Vec<Observation> = trials.iter().map(|(c, w, f)| trial(c, w, f)).collect();
            assert_eq!(default_rows(columns, &[], &trials), expected, "{trials:?}");
        }
    }
}
