use iodyno_model::{
    Configuration, Content, Direction, EndedBy, FactClass, Kind, Metric, Observation, SharedMode,
    Target, Trial, Workload,
};

use super::observe;
use crate::testing::operations as made;
use Direction::Op;

fn observed(made: &(Workload, Trial)) -> Observation {
    let configuration = Configuration::new("ext4", Target::Path("/mnt/e".into()));
    let (workload, trial) = made;
    observe("run 7", &configuration, workload, trial.key, trial)
}

fn changed(
    mut made: (Workload, Trial),
    change: impl FnOnce(&mut Workload, &mut Trial),
) -> Observation {
    change(&mut made.0, &mut made.1);
    observed(&made)
}

fn value(observation: &Observation, metric: &str) -> f64 {
    let figure = observation.figure(metric);
    figure
        .unwrap_or_else(|| panic!("no {metric} among {:?}", observation.figures))
        .value
}

fn names(observation: &Observation) -> Vec<&str> {
    let figures = observation.figures.iter();
    figures.map(|figure| figure.metric.name.as_str()).collect()
}

fn fact<'a>(observation: &'a Observation, name: &str) -> Option<&'a str> {
    let found = observation.facts.iter().find(|fact| fact.name == name);
    found.map(|fact| fact.value.as_str())
}

fn primary(observation: &Observation) -> &str {
    let primary = observation.primary.as_ref();
    primary.map_or("", |metric| &metric.name)
}

#[test]
fn the_rate_is_that_of_cycles_and_the_times_are_those_of_ops_and_steps() {
    let found = observed(&made::create_empty_trial());
    assert_eq!((found.kind, primary(&found)), (Kind::Timed, "iops"));
    assert_eq!(value(&found, "iops"), 1000.0);
    assert_eq!(value(&found, "op.iops"), 1000.0);
    assert_eq!(value(&found, "op.mean"), 990_000.0);
    assert_eq!(value(&found, "create.mean"), 30_000.0);
    assert_eq!(value(&found, "sync_folder.mean"), 960_000.0);
    assert_eq!(value(&found, "ops_from_mean"), 1e9 / 990_000.0);
    assert_eq!(value(&found, "cpu_per_op"), 100_000.0);
    for metric in ["op.p50", "op.p95", "op.p99", "op.min", "op.max", "drain"] {
        assert!(value(&found, metric) > 0.0, "{metric}");
    }
    for metric in [
        "create.iops",
        "bandwidth",
        "setup",
        "loop.iops",
        "completion",
    ] {
        assert!(found.figure(metric).is_none(), "{metric}");
    }
}

#[test]
fn every_figure_can_be_requested_by_its_name() {
    for made in [
        made::create_empty_trial(),
        made::write_sync_trial(),
        made::delete_trial(1_000_000_000),
        made::fileio_trial(),
    ] {
        let found = observed(&made);
        let unknown: Vec<&str> = names(&found)
            .into_iter()
            .filter(|name| !Metric::is_own(name))
            .collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        let mut all = names(&found);
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "one value a metric");
    }
}

#[test]
fn if_untimed_steps_affect_the_rate_the_op_time_is_primary() {
    let found = observed(&made::write_sync_trial());
    assert_eq!(primary(&found), "op.mean");
    assert_eq!(value(&found, "op.mean"), 25_000_000.0);
    // The plain names are those of the timed step; the loop has the longer ones.
    assert_eq!(value(&found, "ops_from_mean"), 40.0);
    for (metric, timed) in [
        ("iops", 40.0),
        ("op.iops", 40.0),
        ("bandwidth", 400_000_000.0),
        ("write.bandwidth", 400_000_000.0),
        ("loop.iops", 30.0),
        ("loop.bandwidth", 300_000_000.0),
    ] {
        let found = value(&found, metric);
        assert!((found / timed - 1.0).abs() < 1e-9, "{metric}: {found}");
    }
    // 8 ms × 600 are 24 % of 20 s. Below 1 % they do not matter.
    let little = changed(made::write_sync_trial(), |_, trial| {
        let writes = &mut trial.parts[0].clones[0].directions[0];
        writes.service = made::all_equal(600, 300_000);
    });
    assert_eq!(primary(&little), "iops");
    assert!(little.figure("loop.iops").is_none());
}

/// As `cli` plans it.
fn planned(mut made: (Workload, Trial)) -> (Workload, Trial) {
    made.0.metric = crate::planned_metric(&made.0);
    made
}

#[test]
fn a_planned_metric_does_not_depend_on_what_the_trials_measure() {
    // 0.01 %, 1 % and 60 % of the time: of closing files, and of appending to one.
    for (close_ns, append_ns) in [(100, 3_333), (10_000, 333_000), (600_000, 20_000_000)] {
        let created = changed(planned(made::create_empty_trial()), |_, trial| {
            trial.parts[0].clones[0].directions[2].service = made::all_equal(20_000, close_ns);
        });
        assert_eq!(primary(&created), "iops");
        assert!(created.figure("loop.iops").is_none());
        let synced = changed(planned(made::write_sync_trial()), |_, trial| {
            trial.parts[0].clones[0].directions[0].service = made::all_equal(600, append_ns);
        });
        assert_eq!(primary(&synced), "op.mean");
        assert!(synced.figure("loop.iops").is_some());
    }
    let slow = changed(planned(made::delete_trial(0)), |_, trial| {
        trial.parts[0].clones[0].runtime_ns *= 3;
    });
    assert_eq!(primary(&slow), "completion");
}

#[test]
fn the_metric_of_file_operations_follows_from_their_plan() {
    type Change = fn(&mut iodyno_model::Job);
    let cases: [(iodyno_model::Job, Change, &str); 7] = [
        (made::create_empty(), |_| {}, "iops"),
        (made::write_sync(), |_| {}, "op.mean"),
        (made::delete(100), |_| {}, "completion"),
        (
            made::write_sync(),
            |job| (job.end.runtime, job.end.ops) = (None, Some(600)),
            "op.mean",
        ),
        (
            made::create_empty(),
            |job| (job.end.runtime, job.end.ops) = (None, Some(600)),
            "completion",
        ),
        (
            made::create_empty(),
            |job| job.pacing.ops_per_s = 1000.0,
            "op.p99",
        ),
        // Of 400 ops in 20 s only four lie beyond the percentile.
        (
            made::create_empty(),
            |job| (job.pacing.ops_per_s, job.clones) = (5.0, 4),
            "op.mean",
        ),
    ];
    for (mut job, change, expected) in cases {
        change(&mut job);
        let workload = crate::testing::workload("w", vec![job]);
        let metric = crate::planned_metric(&workload).map(|metric| metric.name);
        assert_eq!(metric.as_deref(), Some(expected), "{workload:?}");
    }
    assert_eq!(crate::planned_metric(&made::fileio_trial().0), None);
}

#[test]
fn finite_work_is_judged_by_its_completion_and_work_at_a_rate_by_its_tail() {
    let found = observed(&made::delete_trial(3_000_000_000));
    assert_eq!((found.kind, primary(&found)), (Kind::Finite, "completion"));
    // 13 s at 4000 per second, then one second of 48 000.
    assert_eq!(value(&found, "completion"), 17_000_000_000.0);
    assert_eq!(value(&found, "drain"), 3_000_000_000.0);
    assert_eq!(value(&found, "setup"), 3_210_000_000.0);
    let paced = changed(made::create_empty_trial(), |workload, trial| {
        workload.jobs[0].pacing.ops_per_s = 1000.0;
        let op = &mut trial.parts[0].clones[0].directions[0];
        op.response = Some(made::all_equal(20_000, 5_000_000));
    });
    assert_eq!(primary(&paced), "op.p99");
    let p99 = value(&paced, "op.p99");
    assert!((4_900_000.0..5_200_000.0).contains(&p99), "{p99}");
    assert!(
        paced.figure("ops_from_mean").is_none(),
        "a requested rate is not a property of the op"
    );
    let counted = changed(made::write_sync_trial(), |workload, trial| {
        workload.jobs[0].end.runtime = None;
        workload.jobs[0].end.ops = Some(600);
        trial.parts[0].clones[0].ended = EndedBy::Count;
    });
    assert_eq!(primary(&counted), "completion");
    assert_eq!(fact(&counted, "duration"), Some("600 ops"));
    let mostly_other_work = changed(made::write_sync_trial(), |_, trial| {
        let clone = &mut trial.parts[0].clones[0];
        clone.ended = EndedBy::Count;
        clone.directions[0].service = made::all_equal(600, 30_000_000);
    });
    assert_eq!(
        primary(&mostly_other_work),
        "op.mean",
        "the completion is mostly that of untimed steps"
    );
}

#[test]
fn shared_files_have_the_figures_that_sysbench_prints() {
    let found = observed(&made::fileio_trial());
    assert_eq!((found.kind, primary(&found)), (Kind::Timed, "iops"));
    assert_eq!(value(&found, "iops"), 5000.0, "without fsyncs");
    assert_eq!(value(&found, "read.iops"), 3000.0);
    assert_eq!(value(&found, "write.iops"), 2000.0);
    assert_eq!(value(&found, "sync.iops"), 6400.0);
    assert_eq!(value(&found, "bandwidth"), 5000.0 * 16_384.0);
    // All requests together, including fsyncs.
    let mean = (60.0 * 10_000.0 + 40.0 * 20_000.0 + 128.0 * 250_000.0) / 228.0;
    assert!((value(&found, "op.mean") - mean).abs() < 1.0);
    assert_eq!(value(&found, "op.min"), 10_000.0);
    assert_eq!(value(&found, "op.max"), 250_000.0);
    assert!(value(&found, "op.p95") > 240_000.0);
    assert!(found.figure("op.iops").is_none());
}

#[test]
fn options_of_job_files_are_not_dimensions_of_file_operations() {
    let found = observed(&made::create_empty_trial());
    let dimensions: Vec<&str> = found.dimensions.keys().map(String::as_str).collect();
    assert_eq!(
        dimensions,
        ["configuration", "mode", "run", "threads", "workload"]
    );
    assert_eq!(found.dimension("threads"), "1");
    assert_eq!(found.dimension("mode"), "create+sync_folder");
    let shared = observed(&made::fileio_trial());
    assert_eq!(
        (shared.dimension("mode"), shared.dimension("threads")),
        ("rndrw", shared.dimension("jobs"))
    );
    for name in ["rw", "bs", "engine", "size", "sync"] {
        assert_eq!(fact(&found, name), None, "{name}");
    }
    let shared = observed(&made::fileio_trial());
    for (name, expected) in [
        ("rw", "randrw"),
        ("bs", "16k"),
        ("engine", "sync"),
        ("jobs", "2"),
    ] {
        assert_eq!(shared.dimension(name), expected, "{name}");
        assert_eq!(fact(&shared, name), Some(expected), "{name}");
    }
}

/// The names of facts in which two observations differ.
fn differing(one: &Observation, other: &Observation) -> Vec<String> {
    let names = one.facts.iter().map(|fact| fact.name.clone());
    names
        .filter(|name| fact(one, name) != fact(other, name))
        .collect()
}

#[test]
fn differences_between_file_operations_are_facts() {
    type Change = fn(&mut Workload, &mut Trial);
    let cases: [(&str, Change); 11] = [
        ("sets", |w, _| operations(w).sets[0].count = 10_000),
        ("sets", |w, _| operations(w).sets[0].size += 1),
        ("sets", |w, _| operations(w).sets[0].fsync = false),
        ("cycle", |w, _| operations(w).cycle[0].timed = false),
        ("drain", |w, _| operations(w).drain = false),
        ("threads", |w, _| w.jobs[0].clones = 2),
        ("rate", |w, _| w.jobs[0].pacing.ops_per_s = 100.0),
        ("content", |w, _| {
            w.jobs[0].buffers.content = Content::Zero;
        }),
        ("duration", |w, _| w.jobs[0].end.ops = Some(50)),
        ("ramp", |w, _| {
            w.jobs[0].end.ramp = iodyno_units::Nanos::from_secs(1);
        }),
        ("ended by", |_, t| {
            t.parts[0].clones[0].ended = EndedBy::Runtime;
        }),
    ];
    let plain = observed(&made::delete_trial(0));
    assert_eq!(fact(&plain, "sets"), Some("files: 100000 × 2 MiB, fsynced"));
    assert_eq!(fact(&plain, "cycle"), Some("unlink newest of files"));
    assert_eq!(fact(&plain, "ended by"), Some("number of ops"));
    assert_eq!(fact(&plain, "duration"), Some("100000 ops"));
    for (name, change) in cases {
        let other = changed(made::delete_trial(0), change);
        let found = differing(&plain, &other);
        assert!(found.iter().any(|found| found == name), "{name}: {found:?}");
    }
    let many = |own| {
        changed(made::delete_trial(0), move |w, _| {
            w.jobs[0].clones = 4;
            operations(w).own_folders = own;
        })
    };
    assert_eq!(differing(&many(true), &many(false)), ["folders"]);
    let class = plain.facts.iter().find(|fact| fact.name == "sets");
    assert_eq!(class.map(|fact| fact.class), Some(FactClass::Workload));
}

fn operations(workload: &mut Workload) -> &mut iodyno_model::Operations {
    workload.jobs[0]
        .work
        .file_operations_mut()
        .expect("it does file operations")
}

#[test]
fn differences_between_runs_over_shared_files_are_facts() {
    type Change = fn(&mut Workload);
    fn shared(workload: &mut Workload) -> &mut iodyno_model::SharedFiles {
        workload.jobs[0]
            .work
            .shared_files_mut()
            .expect("it has shared files")
    }
    let cases: [(&str, Change); 13] = [
        ("test mode", |w| shared(w).mode = SharedMode::RandomWrite),
        ("files", |w| shared(w).count = 64),
        ("file size", |w| shared(w).file_size *= 2),
        ("rw-ratio", |w| shared(w).read_write_ratio = 2.0),
        ("fsync-freq", |w| shared(w).fsync_every = 0),
        ("fsync-all", |w| shared(w).fsync_all = true),
        ("fsync-end", |w| shared(w).fsync_end = false),
        ("fsync-mode", |w| shared(w).data_only = true),
        ("validate", |w| shared(w).validate = true),
        ("open flags", |w| shared(w).engine.direct = true),
        ("rand-type", |w| {
            shared(w).distribution = iodyno_model::Distribution::Pareto(0.2);
        }),
        ("rate", |w| w.jobs[0].pacing.ops_per_s = 10.0),
        ("engine", |w| {
            shared(w).engine.kind = iodyno_model::EngineKind::Mmap;
        }),
    ];
    let plain = observed(&made::fileio_trial());
    for (name, expected) in [
        ("size", "2 GiB"),
        ("files", "128"),
        ("file size", "16 MiB"),
        ("fsync-freq", "100"),
        ("open flags", "none"),
        ("rw-ratio", "1.5"),
    ] {
        assert_eq!(fact(&plain, name), Some(expected), "{name}");
    }
    for (name, change) in cases {
        let other = changed(made::fileio_trial(), |workload, _| change(workload));
        let found = differing(&plain, &other);
        assert!(found.iter().any(|found| found == name), "{name}: {found:?}");
    }
}

#[test]
fn interrupted_work_has_the_figures_of_the_completed_part() {
    let cut = changed(made::delete_trial(0), |_, trial| {
        trial.outcome = iodyno_model::Outcome::Interrupted("SIGKILL".to_owned());
        trial.parts[0].clones[0].ended = EndedBy::Interruption;
        let clone = &mut trial.parts[0].clones[0];
        clone.directions.retain(|result| result.direction != Op);
    });
    assert_eq!(cut.kind, Kind::Finite, "as planned: without a runtime");
    assert!(cut.unusable.is_some());
    assert!(value(&cut, "unlink.mean") > 0.0);
    assert!(cut.figure("iops").is_none(), "no cycle, no rate");
}
