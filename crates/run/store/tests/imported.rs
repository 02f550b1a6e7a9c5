//! Runs imported from the output of other tools: they have no cells, and their results are in the plan.

mod common;

use std::collections::BTreeMap;

use common::*;
use iodyno_model::*;
use iodyno_store::{OwnNames, SqliteStore, Store, StoreError, export, export_without_names};

fn imported_trial(line: u32, rate: f64) -> ImportedTrial {
    ImportedTrial {
        configuration: "zfs".to_owned(),
        workload: "create".to_owned(),
        dimensions: BTreeMap::from([("loop".to_owned(), line.to_string())]),
        form: "fsbench table".to_owned(),
        at: SourceLine {
            source: "zfs.txt".to_owned(),
            line,
        },
        kind: Kind::Finite,
        primary: Some(Metric::IOPS.to_owned()),
        figures: vec![Figure {
            metric: Metric::iops(Metric::IOPS),
            value: rate,
            derived: None,
        }],
        withheld: Vec::new(),
        series: Vec::new(),
        facts: Vec::new(),
        options_complete: true,
        remarks: vec!["a remark".to_owned()],
        unusable: None,
    }
}

fn imported_plan(trials: u32) -> Plan {
    let trials = (1..=trials).map(|line| imported_trial(line, 671.1 / f64::from(line)));
    Plan {
        imported: Some(Imported {
            trials: trials.collect(),
            ..Imported::default()
        }),
        ..Plan::new("zfs.txt", Vec::new(), Vec::new())
    }
}

fn imported(store: &SqliteStore, trials: u32) -> RunId {
    let run = store.begin_run(&imported_plan(trials), START_MS).unwrap();
    store
        .finish_run(run.id, RunState::Completed, START_MS)
        .unwrap();
    run.id
}

#[test]
fn an_imported_run_without_trials_is_listed_found_and_read() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let own = finished_run(&store, "own", 2);
    let run = imported(&store, 30);
    drop(store);

    let store = SqliteStore::open(&path).unwrap();
    for name in ["last", "2", "zfs.txt"] {
        assert_eq!(store.find(name).unwrap(), run, "{name}");
    }
    let listed = store.runs(9, 0).unwrap();
    assert_eq!((listed[0].id, listed[0].imported), (run, 30));
    assert_eq!((listed[1].id, listed[1].imported), (own, 0));
    let stored = store.run(run).unwrap();
    assert_eq!(stored.plan, imported_plan(30));
    assert_eq!(stored.summary, listed[0]);
    let summary = &stored.summary;
    assert_eq!(summary.state, RunState::Completed);
    assert_eq!((summary.cells, summary.trials_planned), (0, 0));
    assert_eq!((summary.trials_completed, summary.host.as_ref()), (0, None));
    assert!(stored.trials.is_empty() && summary.totals.is_empty());
    assert_eq!(summary.duration_ms, Some(0));
    assert_sound(&path);
}

#[test]
fn an_imported_run_accepts_no_trials() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let run = imported(&store, 2);
    let refused = store.begin_trial(key(run), "c0", "p", START_MS);
    assert!(
        matches!(refused, Err(StoreError::Conflict(_))),
        "{refused:?}"
    );
    let absent = store.trial(key(run)).unwrap_err();
    assert!(matches!(absent, StoreError::NoSuchTrial(_)), "{absent:?}");
}

#[test]
fn an_imported_run_is_exported_and_imported_unchanged() {
    let ((_a, a), (_b, b)) = (fresh(), fresh());
    let (from, to) = (
        SqliteStore::open(a).unwrap(),
        SqliteStore::open(&b).unwrap(),
    );
    let run = imported(&from, 7);
    let mut file = Vec::new();
    let report = export(&from, run, &mut file).unwrap();
    assert_eq!((report.trials, report.frames), (0, 0));
    let report = to.import(&mut file.as_slice()).unwrap();
    assert!(report.new_run);
    let mut ours = to.run(run).unwrap();
    assert!(std::mem::take(&mut ours.foreign), "it came from elsewhere");
    assert_eq!(ours, from.run(run).unwrap());
    assert_eq!(to.runs(1, 0).unwrap()[0].imported, 7);
    assert!(to.import(&mut file.as_slice()).unwrap().changed_nothing());
    drop(to);
    assert_sound(&b);
}

#[test]
fn figures_that_json_cannot_represent_are_refused_before_anything_is_stored() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let plan = Plan {
        imported: Some(Imported {
            trials: [imported_trial(1, f64::INFINITY)].into_iter().collect(),
            ..Imported::default()
        }),
        ..Plan::new("zfs.txt", Vec::new(), Vec::new())
    };
    let error = store.begin_run(&plan, START_MS).unwrap_err();
    assert!(matches!(error, StoreError::NotStorable { .. }), "{error:?}");
    assert!(store.runs(9, 0).unwrap().is_empty());
}

#[test]
fn names_in_imported_results_are_exported_only_if_asked_and_secrets_never() {
    let ((_a, a), (_b, b)) = (fresh(), fresh());
    let (from, to) = (SqliteStore::open(a).unwrap(), SqliteStore::open(b).unwrap());
    let mut trial = imported_trial(1, 5.0);
    trial
        .dimensions
        .insert("node".to_owned(), "xhost".to_owned());
    trial.workload = "/home/xuser/w.fio".to_owned();
    trial.remarks = vec!["mysql -pxsecret; in /home/xuser/data".to_owned()];
    let mut plan = imported_plan(1);
    if let Some(imported) = &mut plan.imported {
        imported.trials.push(trial);
    }
    let run = from.begin_run(&plan, START_MS).unwrap().id;
    from.finish_run(run, RunState::Completed, START_MS).unwrap();
    let mut file = Vec::new();
    export_without_names(&from, run, &OwnNames::default(), &mut file).unwrap();
    let text = String::from_utf8(file.clone()).unwrap();
    for name in ["xhost", "xuser", "xsecret"] {
        assert!(!text.contains(name), "{name}: {text}");
    }
    assert!(
        text.contains("\"node\":\"host-") && text.contains("mysql -p*****"),
        "{text}"
    );
    let stored = format!("{:?}", from.run(run).unwrap().plan);
    assert!(
        stored.contains("/home/xuser") && !stored.contains("xsecret"),
        "{stored}"
    );
    to.import(&mut file.as_slice()).unwrap();
    for store in [&from, &to] {
        assert!(
            store
                .import(&mut file.as_slice())
                .unwrap()
                .changed_nothing()
        );
    }
}
