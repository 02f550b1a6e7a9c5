//! Simulated observations.

use std::collections::BTreeMap;

use iodyno_model::{
    Behaviour, Course, Fact, FactClass, Figure, FindingKind, Flag, Kind, Metric, Observation,
    Regime, SourceLine, Weight,
};

/// A steady, timed trial of run 1 with this `iops`, without a round.
pub fn observation(configuration: &str, workload: &str, iops: f64) -> Observation {
    let dimensions = [
        (Observation::RUN, "1"),
        (Observation::CONFIGURATION, configuration),
        (Observation::WORKLOAD, workload),
    ];
    Observation {
        dimensions: dimensions
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect::<BTreeMap<_, _>>(),
        round: None,
        started_unix_ms: None,
        again: false,
        probe: None,
        unusable: None,
        kind: Kind::Timed,
        primary: Some(Metric::iops(Metric::IOPS)),
        figures: vec![figure(Metric::iops(Metric::IOPS), iops)],
        withheld: Vec::new(),
        behaviour: steady(),
        facts: Vec::new(),
        options_complete: true,
        flags: Vec::new(),
        source: None,
    }
}

/// One trial per round.
pub fn rounds(configuration: &str, workload: &str, iops: &[f64]) -> Vec<Observation> {
    let trials = iops.iter().zip(0..);
    trials
        .map(|(iops, round)| Observation {
            round: Some(round),
            ..observation(configuration, workload, *iops)
        })
        .collect()
}

/// Imported trials, one after the other in one file.
pub fn imported(configuration: &str, workload: &str, iops: &[f64]) -> Vec<Observation> {
    let trials = iops.iter().zip(1..);
    trials
        .map(|(iops, line)| Observation {
            kind: Kind::Unknown,
            behaviour: Behaviour::default(),
            options_complete: false,
            source: Some(SourceLine {
                source: "results.txt".to_owned(),
                line,
            }),
            ..observation(configuration, workload, *iops)
        })
        .collect()
}

/// Runs of five trials each, with these start times; within a run the trials are within 0.2 % of its level.
pub fn runs(configuration: &str, workload: &str, levels: &[(u64, f64)]) -> Vec<Observation> {
    let each_run = levels.iter().map(|(begun, level)| {
        let values = [0.0, 0.1, -0.2, 0.2, -0.1].map(|percent| level * (1.0 + percent / 100.0));
        each(rounds(configuration, workload, &values), |o| {
            let run = format!("run at {begun}");
            o.dimensions.insert(Observation::RUN.to_owned(), run);
            let round = u64::from(o.round.unwrap_or(0));
            o.started_unix_ms = Some(begun * 1000 + round);
        })
    });
    each_run.flatten().collect()
}

/// A measured figure.
pub fn figure(metric: Metric, value: f64) -> Figure {
    Figure {
        metric,
        value,
        derived: None,
    }
}

/// A behaviour that is steady from the beginning.
pub fn steady() -> Behaviour {
    Behaviour {
        course: Course::Steady {
            from_ns: 0,
            range_percent: 5.0,
        },
        regimes: Vec::new(),
        autocorrelation_time: Some(1.0),
    }
}

/// A behaviour with regimes of one second each, with these rates.
pub fn regimes(rates: &[f64]) -> Behaviour {
    let regimes = rates.iter().zip(0..).map(|(rate, second)| Regime {
        start_ns: second * 1_000_000_000,
        end_ns: (second + 1) * 1_000_000_000,
        rate: *rate,
        deviation: rate / 100.0,
    });
    Behaviour {
        course: Course::Regimes,
        regimes: regimes.collect(),
        autocorrelation_time: None,
    }
}

/// A fact.
pub fn fact(class: FactClass, name: &str, value: &str) -> Fact {
    Fact {
        class,
        name: name.to_owned(),
        value: value.to_owned(),
    }
}

/// A flag of weight `warning`.
pub fn warning(kind: FindingKind) -> Flag {
    Flag {
        kind,
        weight: Weight::Warning,
        text: format!("{kind:?} it is"),
    }
}

/// Changes every trial of a list.
pub fn each(mut trials: Vec<Observation>, change: impl Fn(&mut Observation)) -> Vec<Observation> {
    trials.iter_mut().for_each(change);
    trials
}
