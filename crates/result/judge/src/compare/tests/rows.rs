//! Rows: families, repetitions, and trials that must not be combined.

use iodyno_model::{FactClass, Metric, Observation, Pairing, Question, Verdict};

use super::{around, both, compared, differently_around, first_cell, only_cell};
use crate::testing::observations::{each, fact, figure, imported, rounds};

fn one_row() -> Question {
    Question {
        rows: Vec::new(),
        ..Question::default()
    }
}

fn with(trials: Vec<Observation>, dimension: &str, value: &str) -> Vec<Observation> {
    each(trials, |o| {
        o.dimensions.insert(dimension.to_owned(), value.to_owned());
    })
}

#[test]
fn combines_the_workloads_of_a_row_to_a_family() {
    let trials = [
        rounds("ext4", "read", &around(1000.0)),
        rounds("ext4", "write", &around(50.0)),
        rounds("zfs", "read", &differently_around(2000.0)),
        rounds("zfs", "write", &differently_around(25.0 * 1.21)),
    ]
    .concat();
    let comparison = compared(&trials, &one_row());
    let cell = &comparison.rows[0].cells[0];
    assert_eq!(
        (comparison.primaries, cell.n, cell.pairing),
        (1, 10, Pairing::Paired)
    );
    // √(2 × 0.605)
    assert!(
        (cell.ratio.unwrap().value - 1.1).abs() < 0.005,
        "{:?}",
        cell.ratio
    );
    assert_eq!(cell.verdict, Verdict::Faster);
    let members: Vec<_> = cell.members.iter().map(|m| m.workload.as_str()).collect();
    assert_eq!(members, ["read", "write"]);
    assert!((cell.members[1].ratio - 0.605).abs() < 0.005);
    assert_eq!((cell.side.median, cell.side.values.len()), (None, 0));
}

#[test]
fn leaves_out_pairs_that_the_plan_does_not_have() {
    // `btrfs` runs on the host only, `md` in the guest only.
    let trials = [
        rounds("iodyno", "guest", &around(1000.0)),
        rounds("md", "guest", &differently_around(900.0)),
        rounds("iodyno", "host", &around(800.0)),
        rounds("btrfs", "host", &differently_around(400.0)),
    ]
    .concat();
    let comparison = compared(&trials, &Question::default());
    let rows: Vec<(&str, Vec<&str>)> = (comparison.rows.iter())
        .map(|row| {
            let candidates = row.cells.iter().map(|cell| cell.side.column.as_str());
            (row.name[0].as_str(), candidates.collect())
        })
        .collect();
    assert_eq!(rows, [("guest", vec!["md"]), ("host", vec!["btrfs"])]);
    assert!(!comparison.inconclusive(), "{comparison:?}");
    assert!(
        comparison
            .notes
            .contains(&"left out: 2 pairs of a row and a configuration without trials".to_owned()),
        "{:?}",
        comparison.notes
    );
}

#[test]
fn tells_that_the_only_candidate_has_no_trial() {
    let trials = [
        rounds("ext4", "create", &around(1000.0)),
        rounds("zfs", "create", &differently_around(900.0)),
        rounds("ext4", "delete", &around(800.0)),
    ]
    .concat();
    let comparison = compared(&trials, &Question::default());
    let verdict = &comparison.rows[1].cells[0].verdict;
    assert!(matches!(verdict, Verdict::NoData { .. }), "{verdict:?}");
}

#[test]
fn combines_imported_workloads_to_a_family_by_trial() {
    let trials = [
        imported("ext4", "a", &[10.0, 11.0, 12.0]),
        imported("ext4", "b", &[100.0, 110.0, 120.0, 130.0]),
        imported("zfs", "a", &[20.0, 22.0, 24.0]),
        imported("zfs", "b", &[50.0, 55.0, 60.0]),
    ]
    .concat();
    let cell = first_cell(&trials, &one_row());
    assert_eq!((cell.n, cell.pairing), (3, Pairing::Unpaired));
    assert!((cell.ratio.unwrap().value - 1.0).abs() < 1e-9);
    assert!(matches!(cell.verdict, Verdict::CannotDecide { n: 3, .. }));
    assert!(
        cell.notes
            .iter()
            .any(|note| note.starts_with("1 trial that not every workload"))
    );
}

#[test]
fn estimates_each_member_in_the_same_way_as_its_family() {
    // `read` alone would be paired; with `write`, which shares no rounds, nothing is.
    let trials = [
        rounds("ext4", "read", &around(1000.0)),
        imported("ext4", "write", &around(50.0)),
        rounds("zfs", "read", &differently_around(2000.0)[..7]),
        imported("zfs", "write", &differently_around(25.0)),
    ]
    .concat();
    let cell = first_cell(&trials, &one_row());
    assert_eq!((cell.n, cell.pairing), (7, Pairing::Unpaired));
    let ratios: Vec<f64> = cell.members.iter().map(|m| m.ratio).collect();
    assert_eq!(ratios.len(), 2, "{:?}", cell.members);
    assert!((ratios[0] - 2.0).abs() < 0.02 && (ratios[1] - 0.5).abs() < 0.005);
}

#[test]
fn pairs_runs_by_their_names_in_any_order() {
    let first = |name, level| rounds(name, "job", &around(level)[..4]);
    let second = |name, level| with(first(name, level), "run", "2");
    let trials = [
        first("ext4", 100.0),
        second("ext4", 9000.0),
        second("zfs", 18000.0),
        first("zfs", 200.0),
    ]
    .concat();
    let cell = only_cell(&trials);
    assert_eq!((cell.n, cell.pairing), (8, Pairing::Paired));
    let (low, high) = cell.ratio.unwrap().interval.unwrap();
    assert!((low - 2.0).abs() < 1e-9 && (high - 2.0).abs() < 1e-9);
}

#[test]
fn omits_and_reports_a_member_that_one_side_lacks() {
    let trials = [
        rounds("ext4", "read", &around(1000.0)),
        rounds("ext4", "write", &around(50.0)),
        rounds("zfs", "read", &differently_around(2000.0)),
    ]
    .concat();
    let cell = first_cell(&trials, &one_row());
    assert!((cell.ratio.unwrap().value - 2.0).abs() < 0.02);
    assert_eq!(cell.notes, ["without write: zfs has no trial here"]);
}

#[test]
fn treats_a_label_of_repetitions_as_repetitions() {
    let mut trials = imported("ext4", "job", &around(1000.0));
    trials.extend(imported("zfs", "job", &differently_around(1500.0)));
    for (index, trial) in trials.iter_mut().enumerate() {
        let number = (index % 10).to_string();
        trial.dimensions.insert("loop".to_owned(), number);
    }
    let cell = only_cell(&trials);
    assert_eq!((cell.n, cell.by_numbers), (10, Verdict::Faster));
}

#[test]
fn combines_the_nodes_of_one_workload_to_a_family() {
    let node =
        |column: &str, node: &str, iops: f64| with(imported(column, "4k", &[iops]), "node", node);
    let trials = [
        node("zvol", "a", 100.0),
        node("zvol", "b", 200.0),
        node("file", "a", 400.0),
        node("file", "b", 200.0),
        // The sum is listed in addition to its parts and is not counted separately.
        node("zvol", "a+b", 300.0),
        node("file", "a+b", 600.0),
    ]
    .concat();
    let cell = only_cell(&trials);
    assert_eq!((cell.n, cell.members.len()), (1, 2));
    assert!((cell.ratio.unwrap().value - 2.0).abs() < 1e-9);
}

#[test]
fn matches_workloads_by_their_traits_if_each_column_has_its_own() {
    let job = |engine: &str, bs: &str, iops: &[f64]| {
        let trials = rounds("here", &format!("{engine}-{bs}"), iops);
        with(with(trials, "engine", engine), "bs", bs)
    };
    let trials = [
        job("psync", "4k", &around(100.0)),
        job("psync", "64k", &around(10.0)),
        job("io_uring", "4k", &differently_around(200.0)),
        job("io_uring", "64k", &differently_around(20.0)),
    ]
    .concat();
    let question = Question {
        columns: "engine".to_owned(),
        rows: Vec::new(),
        ..Question::default()
    };
    let cell = first_cell(&trials, &question);
    assert_eq!((cell.members.len(), cell.n), (2, 10));
    assert!((cell.ratio.unwrap().value - 2.0).abs() < 0.02);
    let by_block_size = Question {
        rows: vec!["bs".to_owned()],
        ..question
    };
    let comparison = compared(&trials, &by_block_size);
    assert_eq!(comparison.rows.len(), 2);
    assert!(
        comparison
            .rows
            .iter()
            .all(|row| row.cells[0].verdict == Verdict::Faster)
    );
}

#[test]
fn does_not_treat_different_workloads_of_a_run_as_repetitions() {
    let trials = [
        rounds("ext4", "a", &around(100.0)),
        rounds("ext4", "b", &around(10.0)),
        rounds("zfs", "c", &around(100.0)),
    ]
    .concat();
    let cell = first_cell(&trials, &one_row());
    let Verdict::NoData { why } = cell.verdict else {
        panic!("{cell:?}");
    };
    assert!(why.contains("add workload to the rows"), "{why}");
}

#[test]
fn compares_workloads_on_one_target() {
    let trials = both(
        rounds("here", "a", &around(1000.0)),
        rounds("here", "b", &differently_around(1500.0)),
    );
    // The dimension of the columns does not create rows.
    let question = Question {
        columns: "workload".to_owned(),
        ..Question::default()
    };
    assert_eq!(first_cell(&trials, &question).verdict, Verdict::Faster);
}

#[test]
fn reports_that_trials_have_different_primary_metrics() {
    let mut trials = both(
        rounds("ext4", "job", &around(1000.0)),
        rounds("zfs", "job", &differently_around(1500.0)),
    );
    for trial in &mut trials[..4] {
        let bandwidth = Metric::bandwidth("bandwidth");
        trial.figures.push(figure(bandwidth.clone(), 1.0));
        trial.primary = Some(bandwidth);
    }
    let comparison = compared(&trials, &Question::default());
    assert_eq!(comparison.rows[0].metric.name, "iops");
    let notes = &comparison.rows[0].cells[0].notes;
    assert_eq!(
        notes,
        &["compared by iops, though 4 trials would be judged by bandwidth"]
    );
}

#[test]
fn omits_trials_that_belong_to_no_column() {
    let mut trials = both(
        with(rounds("here", "job", &around(1000.0)), "fs", "ext4"),
        with(
            rounds("here", "job", &differently_around(1500.0)),
            "fs",
            "zfs",
        ),
    );
    trials.extend(rounds("here", "job", &[1.0]));
    let question = Question {
        columns: "fs".to_owned(),
        ..Question::default()
    };
    let comparison = compared(&trials, &question);
    assert_eq!(comparison.rows[0].cells[0].n, 10);
    assert_eq!(comparison.notes, ["1 trial without a fs left out"]);
}

#[test]
fn a_primary_metric_that_a_trial_withholds_is_replaced_by_one_that_all_have() {
    let by = |name: &str| Metric::time(name);
    let side = |configuration: &str, level: f64| {
        each(rounds(configuration, "job", &around(level)), |o| {
            o.figures = vec![figure(by("read.mean"), 1e9 / o.figures[0].value)];
            if o.round == Some(0) {
                o.primary = Some(by("read.mean"));
                o.withheld.push(iodyno_model::Withheld {
                    metric: "read.p99".to_owned(),
                    why: "too few ops".to_owned(),
                });
            } else {
                o.primary = Some(by("read.p99"));
                o.figures.push(figure(by("read.p99"), 1.0));
            }
        })
    };
    let trials = both(side("ext4", 1000.0), side("zfs", 2000.0));
    let row = &compared(&trials, &Question::default()).rows[0];
    assert_eq!(row.metric.name, "read.mean");
    assert_eq!(row.cells[0].verdict, Verdict::Faster);
}

#[test]
fn tails_of_closed_loops_at_different_throughput_are_reported_as_not_comparable() {
    let side = |configuration: &str, level: f64, rate: &'static str| {
        each(rounds(configuration, "job", &around(level)), move |o| {
            let iops = o.figures[0].value;
            o.figures.push(figure(Metric::iops("read.iops"), iops));
            for name in ["read.p99", "read.mean"] {
                o.figures.push(figure(Metric::time(name), 1e9 / iops));
            }
            o.dimensions.insert("jobs".to_owned(), "4".to_owned());
            o.facts.push(fact(FactClass::Workload, "rate", rate));
        })
    };
    let note = |level: f64, metric: &str, rate: &'static str| {
        let trials = both(side("ext4", 1000.0, rate), side("zfs", level, rate));
        let question = Question {
            metrics: vec![metric.to_owned()],
            ..Question::default()
        };
        let notes = first_cell(&trials, &question).notes;
        notes.into_iter().find(|note| note.contains("closed loops"))
    };
    let told = note(2000.0, "read.p99", "none").unwrap();
    assert_eq!(
        told,
        "closed loops at different throughput (1.00k/s against 2.00k/s): read.p99 is not like for like; to \
         compare them at an equal rate, add rate_iops=200 to the jobs and run both again"
    );
    let trials = both(side("ext4", 1000.0, "none"), side("zfs", 2000.0, "none"));
    let question = Question {
        metrics: vec!["read.p99".to_owned()],
        ..Question::default()
    };
    let rate = first_cell(&trials, &question).equal_rate.unwrap();
    assert_eq!((rate.per_clone, rate.total), (200.0, 800.0));
    assert_eq!(note(1010.0, "read.p99", "none"), None, "within the margin");
    assert_eq!(note(2000.0, "read.mean", "none"), None);
    assert_eq!(note(2000.0, "iops", "none"), None);
    assert_eq!(note(2000.0, "read.p99", "read 100 ops/s"), None);
}

#[test]
fn comparing_targets_reports_that_rounds_do_not_repeat_them() {
    let on = |configuration: &str, kind: &'static str| {
        each(rounds(configuration, "job", &around(1000.0)), move |o| {
            o.facts.push(fact(FactClass::Target, "file system", kind));
        })
    };
    let told = |trials: &[Observation], question: &Question| {
        let notes = compared(trials, question).notes;
        notes
            .iter()
            .any(|note| note.contains("one instance of its target"))
    };
    let two = both(on("a", "ext4"), on("b", "zfs"));
    assert!(told(&two, &Question::default()));
    let anew = |configuration: &str| {
        each(on(configuration, "ext4"), |o| {
            let instance = o.round.unwrap_or(0).to_string();
            o.dimensions
                .insert(Observation::INSTANCE.to_owned(), instance);
        })
    };
    assert!(!told(&both(anew("a"), anew("b")), &Question::default()));
    assert!(told(&both(anew("a"), on("b", "zfs")), &Question::default()));
    let unmade = rounds("b", "job", &around(1000.0));
    assert!(!told(&both(anew("a"), unmade), &Question::default()));
    let simulated = both(
        rounds("a", "job", &around(1000.0)),
        rounds("b", "job", &around(1000.0)),
    );
    assert!(!told(&simulated, &Question::default()));
    let workloads = Question {
        columns: "workload".to_owned(),
        rows: vec!["configuration".to_owned()],
        ..Question::default()
    };
    let jobs = each(on("a", "ext4"), |o| {
        if o.round < Some(5) {
            o.dimensions
                .insert("workload".to_owned(), "other".to_owned());
        }
    });
    assert!(!told(&jobs, &workloads));
}

/// Two runs of sequential and random reads with two block sizes; each trial has rates and bandwidths.
fn layouts() -> Vec<Observation> {
    let mut trials = Vec::new();
    for (run, speed) in [("1", 1.0), ("2", 2.0)] {
        for (rw, bs, bytes) in [
            ("read", "1m", 1e6),
            ("read", "4k", 4096.0),
            ("randread", "1m", 1e6),
            ("randread", "4k", 4096.0),
        ] {
            for configuration in ["mirror", "stripe"] {
                let name = format!("{rw}-{bs}");
                let found = rounds(configuration, &name, &around(100.0 * speed));
                let found = each(found, |o| {
                    let iops = o.figures[0].value;
                    let metric = Metric::bandwidth(Metric::BANDWIDTH);
                    o.figures.push(figure(metric, iops * bytes));
                });
                let found = with(with(found, "rw", rw), "bs", bs);
                trials.extend(with(found, Observation::RUN, run));
            }
        }
    }
    trials
}

#[test]
fn dimensions_printed_across_define_rows_in_place_of_the_workloads_they_determine() {
    let trials = layouts();
    let across = ["rw", "bs"].map(str::to_owned).to_vec();
    let rows = crate::default_rows(Observation::RUN, &across, &trials);
    assert_eq!(rows, ["configuration"]);
    assert_eq!(
        crate::default_rows(Observation::RUN, &across[..1], &trials),
        ["configuration", "workload"],
        "a workload for each block size"
    );
    let comparison = compared(
        &trials,
        &Question {
            columns: Observation::RUN.to_owned(),
            rows,
            across,
            ..Question::default()
        },
    );
    assert_eq!(comparison.columns, ["1", "2"]);
    assert_eq!(comparison.question.rows, ["configuration", "rw", "bs"]);
    assert_eq!(comparison.rows.len(), 8);
    assert_eq!(comparison.rows[3].name, ["stripe", "read", "4k"]);
}

#[test]
fn each_of_several_primary_metrics_is_a_primary_comparison() {
    let question = |primary_metrics: usize| Question {
        columns: Observation::RUN.to_owned(),
        rows: vec!["configuration".to_owned(), "workload".to_owned()],
        metrics: [Metric::BANDWIDTH, Metric::IOPS]
            .map(str::to_owned)
            .to_vec(),
        primary_metrics,
        ..Question::default()
    };
    let trials = layouts();
    let both = compared(&trials, &question(2));
    assert_eq!((both.rows.len(), both.primaries), (16, 16));
    assert!(both.rows.iter().all(|row| !row.exploratory));
    let first = compared(&trials, &question(1));
    assert_eq!((first.rows.len(), first.primaries), (16, 8));
}

#[test]
fn a_metric_may_be_that_of_the_rows_with_a_value() {
    let question = Question {
        columns: Observation::RUN.to_owned(),
        rows: ["configuration", "rw", "bs"].map(str::to_owned).to_vec(),
        metric_where: vec![(
            "rw".to_owned(),
            "read".to_owned(),
            Metric::BANDWIDTH.to_owned(),
        )],
        ..Question::default()
    };
    let comparison = compared(&layouts(), &question);
    assert_eq!(comparison.rows.len(), 8);
    for row in &comparison.rows {
        let expected = match row.name[1].as_str() {
            "read" => Metric::BANDWIDTH,
            _ => Metric::IOPS,
        };
        assert_eq!(row.metric.name, expected, "{:?}", row.name);
    }
    for (dimension, value, metric) in [
        ("rv", "read", "iops"),
        ("rw", "raed", "iops"),
        ("rw", "read", "iosp"),
    ] {
        let wrong = [dimension, value, metric].map(str::to_owned);
        let [dimension, value, metric] = wrong;
        let question = Question {
            metric_where: vec![(dimension, value, metric)],
            ..question.clone()
        };
        let error = super::compare("made up", &layouts(), &question, &[]).unwrap_err();
        assert!(error.to_string().contains("did you mean"), "{error}");
    }
}

/// Trials of workloads named `a`, `b` and `c`, each with a rate and a bandwidth.
fn with_both_figures(configuration: &str, speed: f64) -> Vec<Observation> {
    let trials = ["a", "b", "c"].into_iter().flat_map(|name| {
        let found = rounds(configuration, name, &around(100.0 * speed));
        each(found, |o| {
            let metric = Metric::bandwidth(Metric::BANDWIDTH);
            let value = o.figures[0].value;
            o.figures.push(figure(metric, value * 4096.0));
        })
    });
    trials.collect()
}

fn by_bandwidth(workloads: &[&str]) -> Vec<(String, String, String)> {
    let conditions = workloads.iter().map(|name| {
        let condition = [Observation::WORKLOAD, name, Metric::BANDWIDTH];
        let [dimension, value, metric] = condition.map(str::to_owned);
        (dimension, value, metric)
    });
    conditions.collect()
}

#[test]
fn the_metrics_of_workloads_hold_in_rows_with_several_of_them() {
    let trials = with_both_figures("one", 1.0);
    let metric = |workloads: &[&str]| {
        let question = Question {
            columns: Observation::WORKLOAD.to_owned(),
            rows: vec![Observation::CONFIGURATION.to_owned()],
            metric_where: by_bandwidth(workloads),
            ..Question::default()
        };
        compared(&trials, &question).rows.remove(0).metric.name
    };
    assert_eq!(metric(&["a", "b", "c"]), Metric::BANDWIDTH);
    // That of most trials.
    assert_eq!(metric(&["a", "b"]), Metric::BANDWIDTH);
    assert_eq!(metric(&["a"]), Metric::IOPS);
    assert_eq!(metric(&[]), Metric::IOPS);
}

#[test]
fn a_family_is_compared_by_the_metrics_of_its_workloads() {
    let trials = of_family(
        both(with_both_figures("one", 1.0), with_both_figures("two", 2.0)),
        "all",
    );
    let metric = |workloads: &[&str]| {
        let question = Question {
            metric_where: by_bandwidth(workloads),
            ..Question::default()
        };
        let rows = compared(&trials, &question).rows;
        rows.into_iter().find(|row| row.family).unwrap().metric.name
    };
    assert_eq!(metric(&["a", "b", "c"]), Metric::BANDWIDTH);
    assert_eq!(metric(&["a"]), "speed");
    assert_eq!(metric(&[]), Metric::IOPS);
}

#[test]
fn a_ratio_unlike_that_of_the_medians_is_explained() {
    // Each round is 1.1 times as fast, but most fast rounds of one side are slow ones of the other.
    let levels = [
        100.0, 100.0, 100.0, 100.0, 300.0, 300.0, 300.0, 300.0, 300.0,
    ];
    let candidate = |low: f64| {
        levels.map(|level| {
            if level < 200.0 {
                level * low
            } else {
                level * 1.1
            }
        })
    };
    let note = |candidate: [f64; 9]| {
        let trials = both(rounds("ext4", "w", &levels), rounds("zfs", "w", &candidate));
        let cell = only_cell(&trials);
        let mut remarks = cell.remarks.into_iter();
        remarks.find(|it| it.contains("ratio of the medians"))
    };
    assert_eq!(note(candidate(1.1)), None);
    assert_eq!(
        note(candidate(1.5)).as_deref(),
        Some(
            "the ratio of the medians is 1.10×; 1.28× is the median of the ratios within the rounds"
        )
    );
}

fn of_family(trials: Vec<Observation>, family: &str) -> Vec<Observation> {
    with(trials, Observation::FAMILY, family)
}

#[test]
fn a_family_has_one_verdict_and_its_workloads_are_exploratory() {
    let side = |name: &str, [read, write, sync]: [f64; 3]| {
        [
            of_family(rounds(name, "read", &around(read)), "disk"),
            of_family(rounds(name, "write", &differently_around(write)), "disk"),
            // A family of one workload is that workload.
            of_family(rounds(name, "sync", &around(sync)), "sync"),
        ]
        .concat()
    };
    let trials = both(
        side("a", [1000.0, 50.0, 7.0]),
        side("b", [2000.0, 30.25, 7.0]),
    );
    let comparison = compared(&trials, &Question::default());
    let rows: Vec<(&str, bool, bool)> = comparison
        .rows
        .iter()
        .map(|row| (row.name[0].as_str(), row.family, row.exploratory))
        .collect();
    assert_eq!(
        rows,
        [
            ("sync", false, false),
            ("disk", true, false),
            ("read", false, true),
            ("write", false, true)
        ]
    );
    assert_eq!(comparison.primaries, 2);
    let family = &comparison.rows[1].cells[0];
    // √(2 × 0.605)
    assert!((family.ratio.unwrap().value - 1.1).abs() < 1e-9);
    assert_eq!((family.n, family.verdict.clone()), (10, Verdict::Faster));
    assert_eq!(family.members.len(), 2);
    // Rows that are not workloads have no further rows.
    let question = Question {
        rows: vec![Observation::FAMILY.to_owned()],
        ..Question::default()
    };
    let comparison = compared(&trials, &question);
    let rows: Vec<&str> = comparison
        .rows
        .iter()
        .map(|row| row.name[0].as_str())
        .collect();
    assert_eq!(rows, ["disk", "sync"]);
}

#[test]
fn families_are_separate_in_each_row_and_count_the_repeated_baseline() {
    let trials = |name: &str, level: f64| -> Vec<Observation> {
        let each_size = [("4k", 1.0), ("64k", 3.0)]
            .into_iter()
            .flat_map(move |(bs, factor)| {
                ["read", "write"].into_iter().flat_map(move |workload| {
                    let values = around(level * factor);
                    with(of_family(rounds(name, workload, &values), "f"), "bs", bs)
                })
            });
        each_size.collect()
    };
    let again = each(trials("a", 1.02), |o| o.again = true);
    let trials = [trials("a", 1.0), again, trials("b", 1.5)].concat();
    let question = Question {
        rows: vec!["bs".to_owned(), Observation::WORKLOAD.to_owned()],
        ..Question::default()
    };
    let comparison = compared(&trials, &question);
    let primary: Vec<&Vec<String>> = comparison
        .rows
        .iter()
        .filter(|row| !row.exploratory)
        .map(|row| {
            assert!(row.family && row.floor.is_some_and(|floor| floor > 0.01));
            &row.name
        })
        .collect();
    assert_eq!(primary, [&["4k", "f"], &["64k", "f"]]);
}
