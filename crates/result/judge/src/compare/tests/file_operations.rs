//! File operations and shared files: own trials compared with each other and with printed results of other tools.

use iodyno_model::{
    Configuration, Fact, FactClass, Figure, ImportedTrial, Kind, Metric, Observation, Question,
    SourceLine, Target, Trial, Verdict, Workload,
};

use super::{around, both, compared, differently_around, first_cell, only_cell};
use crate::testing::operations as made;

/// One trial per round on a configuration; its ops take `factor` times as long as those of the sample.
fn own(
    configuration: &str,
    made: impl Fn() -> (Workload, Trial),
    times: &[f64],
) -> Vec<Observation> {
    let rounds = times.iter().zip(0..);
    rounds
        .map(|(times, round)| {
            let (workload, mut trial) = made();
            slow_down(&mut trial, *times);
            let key = iodyno_model::TrialKey { round, ..trial.key };
            let configuration = Configuration::new(configuration, Target::Path("/mnt/e".into()));
            crate::observe("run 1", &configuration, &workload, key, &trial)
        })
        .collect()
}

/// Multiplies the times of a trial; counts are unchanged.
fn slow_down(trial: &mut Trial, times: f64) {
    let stretch = |ns: u64| (ns as f64 * times) as u64;
    trial.frames.clear();
    let part = &mut trial.parts[0];
    for clone in &mut part.clones {
        clone.runtime_ns = stretch(clone.runtime_ns);
        clone.done_ns = clone.done_ns.map(stretch);
        for result in &mut clone.directions {
            result.runtime_ns = stretch(result.runtime_ns);
            let mean = result.service.mean_ns() as u64;
            result.service = made::all_equal(result.ops, stretch(mean));
        }
    }
    for step in &mut part.steps {
        (step.start_ns, step.span_ns) =
            ((step.start_ns as f64 * times) as i64, stretch(step.span_ns));
    }
}

fn delete() -> (Workload, Trial) {
    made::delete_trial(1_000_000_000)
}

#[test]
fn equal_trials_are_equivalent_and_twice_the_time_is_half_the_speed() {
    type Made = fn() -> (Workload, Trial);
    let cases: [(Made, &str); 4] = [
        (made::create_empty_trial, "iops"),
        (made::write_sync_trial, "op.mean"),
        (delete, "completion"),
        (made::fileio_trial, "iops"),
    ];
    for (made, metric) in cases {
        let trials = |times| {
            both(
                own("ext4", made, &around(1.0)),
                own("zfs", made, &differently_around(times)),
            )
        };
        let same = compared(&trials(1.0), &Question::default());
        assert_eq!(same.rows[0].metric.name, metric);
        assert_eq!(
            same.rows[0].cells[0].verdict,
            Verdict::Equivalent,
            "{metric}"
        );
        let slower = only_cell(&trials(2.0));
        assert_eq!(slower.verdict, Verdict::Slower, "{metric}");
        let ratio = slower.ratio.map_or(0.0, |ratio| ratio.value);
        assert!((ratio - 0.5).abs() < 0.01, "{metric}: {ratio}");
    }
}

#[test]
fn workloads_of_one_table_are_each_compared_by_their_own_metric() {
    let of = |configuration: &str, times: f64| {
        let created = own(configuration, made::create_empty_trial, &around(times));
        let deleted = own(configuration, delete, &around(times));
        both(created, deleted)
    };
    let question = Question {
        rows: vec![Observation::WORKLOAD.to_owned()],
        ..Question::default()
    };
    let found = compared(&both(of("ext4", 1.0), of("zfs", 1.5)), &question);
    let rows: Vec<(&str, &str)> = found
        .rows
        .iter()
        .map(|row| (row.name[0].as_str(), row.metric.name.as_str()))
        .collect();
    assert_eq!(rows, [("create_empty", "iops"), ("delete", "completion")]);
}

#[test]
fn two_sizes_under_one_name_are_not_comparable() {
    let small = || {
        let (mut workload, trial) = delete();
        let operations = workload.jobs[0].work.file_operations_mut().unwrap();
        operations.sets[0].size = 4096;
        (workload, trial)
    };
    let trials = both(
        own("ext4", delete, &around(2.0)),
        own("zfs", small, &around(1.0)),
    );
    let Verdict::NotComparable { reasons } = only_cell(&trials).verdict else {
        panic!("{:?}", only_cell(&trials).verdict);
    };
    assert!(
        reasons[0].contains("differing sets: files: 100000 × 2 MiB, fsynced against"),
        "{reasons:?}"
    );
    let unsynced = || {
        let (mut workload, trial) = made::fileio_trial();
        workload.jobs[0]
            .work
            .shared_files_mut()
            .unwrap()
            .fsync_every = 0;
        (workload, trial)
    };
    let trials = both(
        own("ext4", made::fileio_trial, &around(2.0)),
        own("zfs", unsynced, &around(1.0)),
    );
    let Verdict::NotComparable { reasons } = only_cell(&trials).verdict else {
        panic!("{:?}", only_cell(&trials).verdict);
    };
    assert!(
        reasons[0].contains("fsync-freq: 100 against none"),
        "{reasons:?}"
    );
}

#[test]
fn two_numbers_of_files_under_one_name_are_not_comparable() {
    let scaled = || {
        let (mut workload, mut trial) = delete();
        let operations = workload.jobs[0].work.file_operations_mut().unwrap();
        operations.sets[0].count = 300;
        operations.about += " (here: files 300 × 2 MiB)";
        for result in &mut trial.parts[0].clones[0].directions {
            result.ops = 300;
            result.service = made::all_equal(300, 140_000);
        }
        (workload, trial)
    };
    for times in [1.0, 2.0] {
        let trials = both(
            own("ext4", delete, &around(times)),
            own("zfs", scaled, &around(1.0)),
        );
        let Verdict::NotComparable { reasons } = only_cell(&trials).verdict else {
            panic!("{:?}", only_cell(&trials).verdict);
        };
        assert!(
            reasons
                .iter()
                .any(|why| why.contains("100000 ops") && why.contains("300 ops")),
            "{reasons:?}"
        );
    }
}

#[test]
fn regimes_of_own_deletes_are_reported_with_the_verdict() {
    let paced = |configuration: &str, times: &[f64]| -> Vec<Observation> {
        let rounds = times.iter().zip(0..);
        rounds
            .map(|(times, round)| {
                let (workload, mut trial) = delete();
                trial.parts[0].clones[0].done_ns = Some((15e9 * times) as u64);
                let key = iodyno_model::TrialKey { round, ..trial.key };
                let target = Configuration::new(configuration, Target::Path("/mnt/e".into()));
                crate::observe("run 1", &target, &workload, key, &trial)
            })
            .collect()
    };
    let cell = only_cell(&both(
        paced("ext4", &around(1.0)),
        paced("zfs", &around(2.0)),
    ));
    assert_eq!(cell.verdict, Verdict::Slower, "{cell:?}");
    let told = "ext4 has two regimes: 4.00k/s until 13.0 s, then 48.0k/s";
    assert!(
        cell.notes.iter().any(|note| note == told),
        "{:?}",
        cell.notes
    );
}

/// The imported output of another tool for the same work.
fn imported(
    workload: &str,
    kind: Kind,
    figures: &[(Metric, f64)],
    facts: &[(FactClass, &str, &str)],
) -> Observation {
    let trial = ImportedTrial {
        configuration: "original".to_owned(),
        workload: workload.to_owned(),
        dimensions: Default::default(),
        form: "test".to_owned(),
        at: SourceLine {
            source: "original.txt".to_owned(),
            line: 1,
        },
        kind,
        primary: figures.first().map(|(metric, _)| metric.name.clone()),
        figures: figures
            .iter()
            .map(|(metric, value)| Figure {
                metric: metric.clone(),
                value: *value,
                derived: None,
            })
            .collect(),
        withheld: Vec::new(),
        series: Vec::new(),
        options_complete: false,
        facts: facts
            .iter()
            .map(|(class, name, value)| Fact {
                class: *class,
                name: (*name).to_owned(),
                value: (*value).to_owned(),
            })
            .collect(),
        remarks: Vec::new(),
        unusable: None,
    };
    crate::observe_imported("run 2", &trial)
}

#[test]
fn results_of_another_tool_are_compared_with_own_trials() {
    use FactClass::{Ending, Workload as Work};
    let by = |name: &str| match name {
        "iops" => Metric::iops(name),
        name => Metric::time(name),
    };
    type Case<'a> = (
        fn() -> (Workload, Trial),
        Kind,
        &'a [(&'a str, f64)],
        &'a [(FactClass, &'a str, &'a str)],
    );
    let cases: [Case<'_>; 4] = [
        (
            made::create_empty_trial,
            Kind::Timed,
            &[("iops", 1000.0), ("op.p95", 1e6)],
            &[
                (Ending, "ended by", "runtime"),
                (Ending, "duration", "20.0 s"),
            ],
        ),
        (
            made::write_sync_trial,
            Kind::Timed,
            &[("op.mean", 25e6)],
            &[(Ending, "duration", "20.0 s")],
        ),
        (
            delete,
            Kind::Finite,
            &[("completion", 15e9)],
            &[
                (Ending, "ended by", "number of ops"),
                (Ending, "duration", "100000 ops"),
            ],
        ),
        (
            made::fileio_trial,
            Kind::Timed,
            &[("iops", 5000.0), ("op.p95", 250e3), ("sync.iops", 6400.0)],
            &[
                (Work, "rw", "randrw"),
                (Work, "bs", "16k"),
                (Work, "engine", "sync"),
                (Work, "jobs", "2"),
                (Work, "files", "128"),
                (Work, "file size", "16 MiB"),
                (Work, "size", "2 GiB"),
                (Work, "open flags", "none"),
                (Work, "fsync-freq", "100"),
                (Ending, "ended by", "runtime"),
                (Ending, "duration", "20.0 s"),
            ],
        ),
    ];
    for (made, kind, figures, facts) in cases {
        let workload = made().0.name;
        let theirs: Vec<Observation> = around(1.0)
            .iter()
            .map(|times| {
                let figures: Vec<(Metric, f64)> = figures
                    .iter()
                    .map(|(name, value)| (by(name), value * times))
                    .collect();
                imported(&workload, kind, &figures, facts)
            })
            .collect();
        let ours = own("iodyno", made, &differently_around(1.0));
        let question = Question {
            baseline: Some("original".to_owned()),
            ..Question::default()
        };
        let cell = first_cell(&both(theirs, ours), &question);
        let equivalent = Verdict::Equivalent;
        assert_eq!(cell.by_numbers, equivalent, "{workload}: {cell:?}");
        assert_eq!(cell.differs, [], "{workload}");
    }
}
