//! A run as one file: exported, imported, and damaged in between.

mod common;

use std::sync::LazyLock;

use common::*;
use iodyno_model::*;
use iodyno_store::{
    EXPORT_VERSION, OwnNames, SqliteStore, Store, StoreError, export, export_without_names,
};
use proptest::prelude::*;

fn exported(store: &SqliteStore, run: RunId) -> Vec<u8> {
    let mut file = Vec::new();
    export(store, run, &mut file).unwrap();
    file
}

/// The file without its last line, and with a footer that matches.
fn with_footer(text: &str, counts: &str) -> Vec<u8> {
    let hash = xxhash_rust::xxh3::xxh3_128(text.as_bytes());
    format!("{text}{{\"footer\":{{{counts},\"xxh3\":\"{hash:032x}\"}}}}\n").into_bytes()
}

#[test]
fn an_imported_run_is_the_exported_one() {
    let ((_a, a), (_b, b)) = (fresh(), fresh());
    let (from, to) = (SqliteStore::open(a).unwrap(), SqliteStore::open(b).unwrap());
    finished_run(&to, "already there", 1);
    let run = finished_run(&from, "oltp", 600);
    let verdicts = VerdictCounts {
        faster: 2,
        undecided: 1,
        ..VerdictCounts::default()
    };
    from.set_verdicts(run, &verdicts).unwrap();
    let mut file = Vec::new();
    let report = export(&from, run, &mut file).unwrap();
    assert_eq!((report.trials, report.frames, report.left_out), (1, 600, 0));
    assert_eq!(report.telemetry, 600);

    let report = to.import(&mut file.as_slice()).unwrap();
    assert!(report.new_run && !report.changed_nothing());
    assert_eq!(
        (report.run.id, report.run.alias),
        (run, 2),
        "the identity stays, the number is the store's"
    );
    assert_eq!((report.trials_added, report.frames_added), (1, 600));
    let (mut ours, theirs) = (to.run(run).unwrap(), from.run(run).unwrap());
    ours.summary.alias = theirs.summary.alias;
    assert!(std::mem::take(&mut ours.foreign), "it came from elsewhere");
    assert_eq!(ours, theirs);
    assert_eq!(ours.summary.verdicts, Some(verdicts));
    assert_eq!(to.trial(key(run)).unwrap(), from.trial(key(run)).unwrap());
    assert_eq!(
        to.frames(key(run), 0, 999).unwrap(),
        from.frames(key(run), 0, 999).unwrap()
    );
    let all = to.telemetry(key(run), 0, 999).unwrap();
    assert_eq!(all, from.telemetry(key(run), 0, 999).unwrap());
    assert_eq!(all.len(), 600);
    assert_eq!(exported(&to, run), file, "byte for byte");

    let again = to.import(&mut file.as_slice()).unwrap();
    assert!(again.changed_nothing());
    assert_eq!(
        (again.run.alias, again.trials_known, again.frames_added),
        (2, 1, 0)
    );
    assert_eq!(to.runs(9, 0).unwrap().len(), 2);
}

#[test]
fn an_interrupted_run_is_exported_with_its_data() {
    let ((_a, a), (_b, b)) = (fresh(), fresh());
    let store = SqliteStore::open(&a).unwrap();
    let run = store.begin_run(&plan("p", 1, 1), START_MS).unwrap().id;
    store.begin_trial(key(run), "c0", "p", START_MS).unwrap();
    store
        .set_environment(key(run), "", &environment("ada"))
        .unwrap();
    store.append_frame(key(run), &frame(0, 500)).unwrap();
    store
        .append_telemetry(key(run), &telemetry(0, 500))
        .unwrap();
    store
        .append_telemetry(key(run), &telemetry(1, 500))
        .unwrap();
    let mut file = Vec::new();
    let live = export(&store, run, &mut file).unwrap();
    assert_eq!(
        (live.trials, live.left_out),
        (0, 1),
        "a running trial is not a result"
    );
    drop(store);

    let from = SqliteStore::open(&a).unwrap();
    let to = SqliteStore::open(b).unwrap();
    to.import(&mut file.as_slice()).unwrap();
    let file = exported(&from, run);
    let report = to.import(&mut file.as_slice()).unwrap();
    assert_eq!(
        (report.new_run, report.trials_added, report.frames_added),
        (false, 1, 1)
    );
    assert_eq!(to.trial(key(run)).unwrap(), from.trial(key(run)).unwrap());
    assert_eq!(
        to.telemetry(key(run), 0, 9).unwrap(),
        [telemetry(0, 500), telemetry(1, 500)]
    );
    assert_eq!(exported(&to, run), file, "byte for byte");
    let (ours, theirs) = (to.run(run).unwrap().summary, from.run(run).unwrap().summary);
    assert_eq!(
        (ours.state, ours.duration_ms),
        (theirs.state, theirs.duration_ms)
    );
    assert!(from.import(&mut file.as_slice()).unwrap().changed_nothing());
}

#[test]
fn trials_added_in_another_store_are_imported() {
    let ((_a, a), (_b, b)) = (fresh(), fresh());
    let home = SqliteStore::open(&a).unwrap();
    let run = home.begin_run(&plan("p", 1, 2), START_MS).unwrap().id;
    home.begin_trial(key(run), "c0", "p", START_MS + 5).unwrap();
    home.finish_trial(&trial(key(run), Outcome::Completed))
        .unwrap();
    home.finish_run(run, RunState::Interrupted, START_MS + 1000)
        .unwrap();
    let away = SqliteStore::open(b).unwrap();
    away.import(&mut exported(&home, run).as_slice()).unwrap();
    away.resume_run(run).unwrap();
    let second = TrialKey {
        round: 1,
        ..key(run)
    };
    away.begin_trial(second, "c0", "p", START_MS + 5).unwrap();
    let while_it_runs = away
        .import(&mut exported(&home, run).as_slice())
        .unwrap_err();
    assert!(
        matches!(while_it_runs, StoreError::RunIsLive { .. }),
        "{while_it_runs:?}"
    );
    away.finish_trial(&trial(second, Outcome::Completed))
        .unwrap();
    away.finish_run(run, RunState::Completed, START_MS + 5000)
        .unwrap();

    let report = home.import(&mut exported(&away, run).as_slice()).unwrap();
    assert_eq!((report.trials_known, report.trials_added), (1, 1));
    let summary = home.run(run).unwrap().summary;
    assert_eq!(
        (summary.state, summary.duration_ms),
        (RunState::Completed, Some(5000))
    );
    assert_eq!(summary.trials_completed, 2);
}

fn unnamed(store: &SqliteStore, run: RunId, secret: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let own = OwnNames {
        secret: secret.to_owned(),
        hosts: vec!["xown.example".to_owned()],
        users: vec!["xme".to_owned(), "root".to_owned(), String::new()],
    };
    export_without_names(store, run, &own, &mut file).unwrap();
    file
}

/// A plan and its trial in which users and hosts have names in every place where they can.
fn with_names() -> (Plan, impl Fn(TrialKey) -> Trial) {
    let mut named = plan("p", 1, 2);
    named.command = vec!["iodyno".to_owned(), "xcommand".to_owned()];
    named.nodes = vec![
        PlannedNode::new("xhost", "ssh://xuser@xhost.example:22?fio"),
        PlannedNode::new("mine", "ssh://xother"),
    ];
    named.configurations[0].nodes = vec!["xhost".to_owned()];
    named.configurations[0].target = Target::Path("/home/xuser/data".into());
    named.question.baseline = Some("xhost".to_owned());
    // Free text.
    named.name = "xhost".to_owned();
    named.workloads[0].jobs[0].description = "by xme on XOWN, root".to_owned();
    named.workloads[0].jobs[0].exec_prerun = Some("scp xuser@xhost.example: xown:".to_owned());
    named.workloads[0].sources = vec![Source {
        name: "<command line>".to_owned(),
        text: "--xcommand".to_owned(),
    }];
    named.workloads[0].jobs[0].place = Some(Place {
        file: "<command line>".into(),
        line: 1,
        column: 1,
        length: 1,
        text: "--xcommand".to_owned(),
    });
    let of = |key| {
        let mut trial = trial(key, Outcome::Failed("node `xhost`: gone".to_owned()));
        let part = &mut trial.parts[0];
        part.node = "xhost".to_owned();
        part.notes = vec!["no file /home/xuser/x of xme@xhost".to_owned()];
        part.files = vec![FileState {
            path: "/home//xuser/f".to_owned(),
            length: 1,
            unwritten: None,
            read: true,
            laid_out: false,
            device: false,
        }];
        let clones = part.clones.iter_mut();
        clones.for_each(|it| it.files = vec!["/home/corp.example/xuser/f".to_owned()]);
        part.environment.host = "xhost".to_owned();
        part.environment.boot_id = "xboot".to_owned();
        part.environment.targets[0].stack = vec![StackLayer::Mount(MountInfo {
            source: "xserver:/data".to_owned(),
            options: "rw,addr=xserver".to_owned(),
            ..MountInfo::default()
        })];
        trial.findings[0].text = "node `xhost` is slow, xown not".to_owned();
        trial
    };
    (named, of)
}

#[test]
fn a_run_without_names_is_the_same_run() {
    let ((_a, a), (_b, b)) = (fresh(), fresh());
    let (home, away) = (SqliteStore::open(a).unwrap(), SqliteStore::open(b).unwrap());
    let (plan, of) = with_names();
    let run = home.begin_run(&plan, START_MS).unwrap().id;
    let finish = |store: &SqliteStore, key: TrialKey, node: &str| {
        store.begin_trial(key, "c0", "p", START_MS + 5).unwrap();
        let mut frame = frame(0, 60);
        frame.node = node.to_owned();
        store.append_frame(key, &frame).unwrap();
        let mut batch = telemetry(0, 60);
        batch.telemetry.shapes[0].node = node.to_owned();
        batch.telemetry.gaps[0].node = node.to_owned();
        batch.telemetry.gaps[0].reason = "xhost is away".to_owned();
        store.append_telemetry(key, &batch).unwrap();
        let mut trial = of(key);
        trial.parts[0].node = node.to_owned();
        store.finish_trial(&trial).unwrap();
    };
    finish(&home, key(run), "xhost");
    home.finish_run(run, RunState::Interrupted, START_MS + 1000)
        .unwrap();
    let (with, without) = (exported(&home, run), unnamed(&home, run, b"secret"));
    let text = String::from_utf8(without.clone()).unwrap();
    for name in [
        "xhost", "xuser", "xother", "xboot", "xserver", "xcommand", "xme", "xown", "XOWN",
    ] {
        assert!(String::from_utf8_lossy(&with).contains(name), "{name}");
        assert!(!text.contains(name), "{name}: {text}");
    }
    for kept in ["?fio", "\"mine\"", ", root"] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
    assert_ne!(without, unnamed(&home, run, b"other"));
    // Whichever comes first, and whoever exported it.
    assert!(
        home.import(&mut without.as_slice())
            .unwrap()
            .changed_nothing()
    );
    away.import(&mut without.as_slice()).unwrap();
    for file in [
        &with,
        &unnamed(&home, run, b"other"),
        &unnamed(&away, run, b"third"),
    ] {
        assert!(away.import(&mut file.as_slice()).unwrap().changed_nothing());
    }
    // What was added elsewhere has the names of this store, and its plan stays.
    away.resume_run(run).unwrap();
    let second = TrialKey {
        round: 1,
        ..key(run)
    };
    let node = away.run(run).unwrap().plan.nodes[0].name.clone();
    assert_ne!(node, "xhost");
    finish(&away, second, &node);
    away.finish_run(run, RunState::Completed, START_MS + 5000)
        .unwrap();
    let added = home.import(&mut exported(&away, run).as_slice()).unwrap();
    assert_eq!((added.trials_known, added.trials_added), (1, 1));
    assert_eq!(home.trial(second).unwrap().parts[0].node, "xhost");
    assert_eq!(home.frames(second, 0, 9).unwrap()[0].node, "xhost");
    let batch = &home.telemetry(second, 0, 9).unwrap()[0].telemetry;
    assert_eq!([&batch.shapes[0].node, &batch.gaps[0].node], ["xhost"; 2]);
    let kept = home.run(run).unwrap().plan;
    assert_eq!((kept.nodes, kept.command), (plan.nodes, plan.command));
    assert_eq!(kept.workloads, plan.workloads);
}

#[test]
fn different_results_of_one_trial_are_refused() {
    let ((_a, a), (_b, b)) = (fresh(), fresh());
    let (from, to) = (SqliteStore::open(a).unwrap(), SqliteStore::open(b).unwrap());
    let run = finished_run(&from, "p", 2);
    let file = String::from_utf8(exported(&from, run)).unwrap();
    to.import(&mut file.as_bytes()).unwrap();
    let (body, _) = file.trim_end().rsplit_once('\n').unwrap();
    let counts = r#""trials":1,"frames":2,"telemetry":2"#;
    let changed = |from, to| with_footer(&format!("{}\n", body.replace(from, to)), counts);
    for other in [
        changed("2 s are few", "2 s are many"),
        changed("\"seed\":7", "\"seed\":8"),
    ] {
        let error = to.import(&mut other.as_slice()).unwrap_err();
        assert!(matches!(error, StoreError::Conflict(_)), "{error:?}");
    }
    assert!(to.import(&mut file.as_bytes()).unwrap().changed_nothing());
}

#[test]
fn other_newer_and_truncated_files_are_reported_with_the_line() {
    let (_a, a) = fresh();
    let store = SqliteStore::open(a).unwrap();
    let run = finished_run(&store, "p", 3);
    let file = String::from_utf8(exported(&store, run)).unwrap();
    let lines: Vec<&str> = file.split_inclusive('\n').collect();
    assert_eq!(lines.len(), 10);
    let line = |numbers: &[usize]| numbers.iter().map(|at| lines[*at]).collect::<String>();
    let swapped = line(&[0, 1, 2, 4, 3, 5]);
    let orphan = line(&[0, 1, 3]);
    let twice = line(&[0, 1, 2, 2]);
    let batches_swapped = line(&[0, 1, 2, 3, 4, 5, 7, 6]);
    let batch_twice = line(&[0, 1, 2, 6, 6]);
    let batch_orphan = line(&[0, 1, 6]);
    let inside = lines[2].replacen(
        "\"findings\"",
        "\"telemetry\":{\"gaps\":[{\"kind\":\"cpu\",\"at_ns\":0,\"reason\":\"\"}]},\"findings\"",
        1,
    );
    let inside = [lines[0], lines[1], &inside].concat();
    let foreign = lines[..3]
        .concat()
        .replacen(&run.to_string(), &RunId::fresh().to_string(), 1);
    let no_cells = lines[..2].concat().replace(
        "\"configurations\":[{\"name\":\"c0\",\"target\":{\"path\":\"/mnt/c0\"},\"again\":false}]",
        "\"configurations\":[]",
    );
    let newer = file.replacen("\"version\":3", "\"version\":4", 1);
    let check = |text: &[u8], words: &[&str]| {
        let error = store.import(&mut &*text).unwrap_err();
        let told = format!("{error} | {}", error.hint().unwrap_or_default());
        for word in words {
            assert!(told.contains(word), "{told}");
        }
    };
    check(b"", &["line 1", "the file is empty"]);
    check(b"\x7fELF\x02\x01", &["line 1", "not an exported run"]);
    check(b"{\"jobs\": []}\n", &["line 1", "not an exported run"]);
    check(b"\n\n\n", &["line 1", "not an exported run"]);
    check(newer.as_bytes(), &["version 4", "newer iodyno", "up to 3"]);
    check(
        file.replacen("iodyno-run", "iodyno-rum", 1).as_bytes(),
        &["line 1", "iodyno-rum"],
    );
    check(
        lines[1..].concat().as_bytes(),
        &["line 1", "does not begin with a header"],
    );
    check(
        [lines[0], lines[2]].concat().as_bytes(),
        &["line 2", "`run` is expected"],
    );
    check(
        [lines[0], lines[0]].concat().as_bytes(),
        &["line 2", "`run` is expected"],
    );
    check(
        lines[..8].concat().as_bytes(),
        &["line 9", "cut off here", "export the run again"],
    );
    check(
        &file.as_bytes()[..file.len() - 200],
        &["line 9", "cut off in this line"],
    );
    check(
        [&file, "{}\n"].concat().as_bytes(),
        &["line 10", "more after the footer"],
    );
    check(
        [lines[0], lines[1], lines[1]].concat().as_bytes(),
        &["line 3", "second header"],
    );
    check(swapped.as_bytes(), &["line 5", "frame 0 is out of order"]);
    check(orphan.as_bytes(), &["line 3", "before any trial"]);
    let late = lines[2].replacen("\"attempt\":0", "\"attempt\":4294967295", 1);
    check(
        [lines[0], lines[1], &late].concat().as_bytes(),
        &["line 3", "attempt 4294967295 of a trial"],
    );
    check(twice.as_bytes(), &["line 4", "out of order"]);
    check(
        batches_swapped.as_bytes(),
        &["line 8", "batch 0 of telemetry is out of order"],
    );
    check(
        batch_twice.as_bytes(),
        &["line 5", "batch 0 of telemetry is out of order"],
    );
    check(
        batch_orphan.as_bytes(),
        &["line 3", "telemetry before any trial"],
    );
    check(inside.as_bytes(), &["line 3", "lines of its own"]);
    let uncounted = with_footer(&lines[..9].concat(), r#""trials":1,"frames":3"#);
    check(&uncounted, &["line 10", "was changed"]);
    check(foreign.as_bytes(), &["line 3", "belongs to run"]);
    check(no_cells.as_bytes(), &["line 2", "no configuration"]);
    check(&[lines[0].as_bytes(), b"\xff\xfe\n"].concat(), &["line 2"]);
    let changed = file.replacen("\"cpu_ns\":420000000", "\"cpu_ns\":420000001", 1);
    check(changed.as_bytes(), &["line 10", "was changed"]);
    assert_eq!(EXPORT_VERSION, 3, "a newer version needs a newer file here");
    assert_eq!(store.runs(9, 0).unwrap().len(), 1);
}

#[test]
fn a_file_of_version_1_is_read() {
    let ((_a, a), (_b, b)) = (fresh(), fresh());
    let (from, to) = (SqliteStore::open(a).unwrap(), SqliteStore::open(b).unwrap());
    let run = finished_run(&from, "p", 2);
    let file = String::from_utf8(exported(&from, run)).unwrap();
    let older: String = file
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("{\"telemetry\"") && !line.starts_with("{\"footer\""))
        .collect();
    let older = older.replacen("\"version\":3", "\"version\":1", 1);
    let older = with_footer(&older, r#""trials":1,"frames":2"#);
    let report = to.import(&mut older.as_slice()).unwrap();
    assert_eq!((report.trials_added, report.frames_added), (1, 2));
    assert_eq!(to.trial(key(run)).unwrap(), from.trial(key(run)).unwrap());
    assert!(to.telemetry(key(run), 0, 9).unwrap().is_empty());
}

#[test]
fn a_writer_that_fails_is_reported() {
    struct Broken;
    impl std::io::Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (_a, a) = fresh();
    let store = SqliteStore::open(a).unwrap();
    let run = finished_run(&store, "p", 1);
    let error = export(&store, run, &mut Broken).unwrap_err();
    assert!(matches!(error, StoreError::ExportWrite(_)), "{error:?}");
}

/// A small exported run of two trials.
static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(path).unwrap();
    let run = store.begin_run(&plan("p", 1, 2), START_MS).unwrap().id;
    for round in 0..2 {
        let key = TrialKey { round, ..key(run) };
        store.begin_trial(key, "c0", "p", START_MS + 5).unwrap();
        store.append_frame(key, &frame(0, 20)).unwrap();
        store.append_frame(key, &frame(1, 20)).unwrap();
        for number in 0..3 {
            store.append_telemetry(key, &telemetry(number, 20)).unwrap();
        }
        store.finish_trial(&trial(key, Outcome::Completed)).unwrap();
    }
    store
        .finish_run(run, RunState::Completed, START_MS + 9)
        .unwrap();
    exported(&store, run)
});

/// Checks that the import stored either nothing or the unchanged run.
fn check_damaged(file: &[u8]) {
    let folder = in_memory();
    let store = SqliteStore::open(folder.path().join("a.db")).unwrap();
    match store.import(&mut &*file) {
        Ok(report) => assert_eq!(exported(&store, report.run.id), *FILE),
        Err(_) => {
            assert!(store.runs(9, 0).unwrap().is_empty());
            store.import(&mut FILE.as_slice()).unwrap();
            assert_eq!(store.runs(9, 0).unwrap()[0].trials_completed, 2);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_truncated_file_stores_nothing(at in any::<prop::sample::Index>()) {
        let length = at.index(FILE.len());
        check_damaged(&FILE[..length]);
    }

    #[test]
    fn a_file_with_changed_bytes_stores_nothing(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)
    ) {
        let mut file = FILE.clone();
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        check_damaged(&file);
    }

    #[test]
    fn a_file_with_a_flipped_bit_near_its_end_stores_nothing(back in 1usize..120, bit in 0u8..8) {
        let mut file = FILE.clone();
        let at = file.len() - back;
        file[at] ^= 1 << bit;
        check_damaged(&file);
    }

    #[test]
    fn a_file_with_a_missing_or_repeated_piece_stores_nothing(
        from in any::<prop::sample::Index>(), length in 1usize..3000, double in any::<bool>()
    ) {
        let from = from.index(FILE.len());
        let to = (from + length).min(FILE.len());
        let middle = if double { [&FILE[from..to], &FILE[from..to]].concat() } else { Vec::new() };
        check_damaged(&[&FILE[..from], &middle, &FILE[to..]].concat());
    }

    #[test]
    fn lines_of_any_json_store_nothing(lines in prop::collection::vec("[{}\\[\\]\":,a-z0-9]{0,40}", 0..5)) {
        check_damaged(lines.join("\n").as_bytes());
    }
}

#[test]
fn an_export_contains_no_control_characters_and_is_imported_unchanged() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let name = "x\u{1b}[2J\u{7}\u{9b}\u{202e}y\u{2066}\u{7f}";
    let run = finished_run(&store, name, 2);
    let mut file = Vec::new();
    export(&store, run, &mut file).unwrap();
    let text = std::str::from_utf8(&file).unwrap();
    let steers = |character| printable::steers(character) && character != '\n';
    assert!(!text.contains(steers), "{text:?}");
    let (_other, other) = fresh();
    let other = SqliteStore::open(other).unwrap();
    other.import(&mut file.as_slice()).unwrap();
    assert_eq!(other.run(run).unwrap().plan, store.run(run).unwrap().plan);
    assert_eq!(other.run(run).unwrap().plan.name, name);
}
