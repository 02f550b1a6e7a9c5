//! Impossible work is refused with numbers before anything is created or changed.

use std::fs;
use std::path::{Path, PathBuf};

use iodyno_model::{Action, Job, Target};
use iodyno_runner::TrialEnd;

use crate::common::run;
use crate::stage::{MIB, watched};
use crate::workloads::{creates, deletes, formatted, job, names, own, plan, timed};

crate::tests![
    a_target_that_is_not_a_folder_is_refused_with_every_other_error,
    a_folder_that_cannot_be_written_to_is_refused,
    too_little_space_is_refused_up_front_with_numbers,
    too_few_inodes_are_refused_up_front_with_numbers,
    an_existing_folder_with_the_same_name_is_not_used,
];

/// The reasons why a trial on `target` is refused.
fn refusals(target: &Path, jobs: Vec<Job>) -> String {
    let mut plan = plan(target, jobs);
    plan.configuration.target = Target::Path(target.to_owned());
    match watched(&plan, |_, _| {}).end {
        TrialEnd::Refused(faults) => {
            let lines = faults.iter().map(|fault| {
                let hint = fault.hint.as_deref().unwrap_or("");
                format!("{}\nhint: {hint}\n", fault.message)
            });
            lines.collect()
        }
        other => panic!("it was not refused: {other:?}"),
    }
}

#[track_caller]
fn check(target: &Path, jobs: Vec<Job>, expected: &[&str]) {
    let text = refusals(target, jobs);
    for part in expected {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

fn a_target_that_is_not_a_folder_is_refused_with_every_other_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let mut faulty = job(Vec::new(), vec![timed(Action::Sync)]);
    faulty.pacing.ops_per_s = -1.0;
    let faults = [
        "file` is a file, and file operations need a folder",
        "step 1 (sync): no file",
        "nothing limits it",
        "its rate is not a positive number",
        "hint: name a folder",
    ];
    check(&file, vec![faulty.clone(), faulty], &faults);
    check(
        &folder.path().join("gone"),
        vec![creates(None, 9)],
        &["does not exist"],
    );
    let mut few = deletes(2, 9);
    few.clones = 3;
    check(
        folder.path(),
        vec![few],
        &["2 files, but each of 3 threads", "`--threads`"],
    );
    check(
        folder.path(),
        vec![creates(Some(0), 9)],
        &["number of cycles is 0"],
    );
    assert_eq!(names(folder.path()), ["file".to_owned()].into());
}

fn a_folder_that_cannot_be_written_to_is_refused() {
    let Some(disk) = formatted(64, &["mkfs.ext4", "-q"]) else {
        return;
    };
    let mounted = disk.mount();
    let point = mounted.path().to_str().unwrap();
    run(&["mount", "-o", "remount,ro", point]).unwrap();
    check(
        mounted.path(),
        vec![creates(None, 9)],
        &["Read-only", "hint: name a folder"],
    );
}

fn too_little_space_is_refused_up_front_with_numbers() {
    let Some(disk) = formatted(64, &["mkfs.ext4", "-q"]) else {
        return;
    };
    let mounted = disk.mount();
    let before = names(mounted.path());
    let words = [
        "205 MiB are needed",
        "are free",
        "200 MiB of data in 103 files",
        "`--files`, `--file-size`",
    ];
    check(mounted.path(), vec![deletes(100, 2 * MIB)], &words);
    // A limited number of cycles is taken into account as well.
    let cycle = [Action::Create, Action::Write { bytes: MIB }, Action::Close];
    let mut growing = job(Vec::new(), cycle.map(timed).to_vec());
    growing.end.ops = Some(1000);
    check(mounted.path(), vec![growing.clone()], &["`--max-ops`"]);
    growing.end.ops = Some(10);
    let end = watched(&plan(mounted.path(), vec![growing]), |_, _| {});
    end.completed();
    assert_eq!(names(mounted.path()), before);
}

fn too_few_inodes_are_refused_up_front_with_numbers() {
    let Some(disk) = formatted(64, &["mkfs.ext4", "-q", "-N", "64"]) else {
        return;
    };
    let mounted = disk.mount();
    let before = names(mounted.path());
    let words = ["1003 files", "inodes for ", "more inodes", "`--files`"];
    check(mounted.path(), vec![deletes(1000, 0)], &words);
    assert_eq!(names(mounted.path()), before);
}

fn an_existing_folder_with_the_same_name_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), vec![creates(Some(5), 1000)]);
    let own: PathBuf = own(&plan);
    fs::create_dir(&own).unwrap();
    fs::write(own.join("theirs"), "stays").unwrap();
    let refusals = watched(&plan, |_, _| {});
    let TrialEnd::Refused(faults) = &refusals.end else {
        panic!("{:?}", refusals.end);
    };
    assert!(faults[0].message.contains("already exists"), "{faults:?}");
    assert_eq!(fs::read_to_string(own.join("theirs")).unwrap(), "stays");
    fs::remove_dir_all(&own).unwrap();
    fs::write(&own, "a file").unwrap();
    let refusals = watched(&plan, |_, _| {});
    assert!(
        matches!(refusals.end, TrialEnd::Refused(_)),
        "{:?}",
        refusals.end
    );
    assert_eq!(fs::read_to_string(&own).unwrap(), "a file");
}
