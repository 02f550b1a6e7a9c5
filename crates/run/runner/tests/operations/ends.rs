//! After any end of a trial of file operations its folder is removed, and nothing else.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use iodyno_model::{BoundPlan, Direction, Outcome, Step};
use iodyno_runner::{Event, StopFlag, TrialEnd, carry_out};

use crate::common;
use crate::stage::{LONG_MS, MIB, TrialRecord, attempts, framed, node, wait_until, watched};
use crate::workloads::{
    creates, deletes, formatted, has, job, names, ops, own, plan, stats, timed,
};

crate::tests![
    a_finish_in_set_up_leaves_no_files,
    a_finish_and_an_abort_keep_the_results_and_leave_no_files,
    a_disk_that_fills_up_in_set_up_is_an_error_with_its_progress,
    a_disk_that_fills_up_in_the_measurement_is_a_failure_and_leaves_no_files,
    a_folder_that_disappears_is_reported,
    the_folder_of_a_killed_node_is_removed_by_its_parent,
    the_folder_of_a_killed_parent_is_removed_by_its_node,
    mounted_and_linked_content_in_the_folder_is_kept,
];

/// A folder with a file of the user.
struct Ground(tempfile::TempDir);

impl Ground {
    fn new() -> Ground {
        Ground::on(tempfile::tempdir().unwrap())
    }

    /// In memory if possible, so that no disk causes delays.
    fn in_memory() -> Ground {
        let memory = Path::new("/dev/shm");
        match memory.is_dir() {
            true => Ground::on(tempfile::tempdir_in(memory).unwrap()),
            false => Ground::new(),
        }
    }

    fn on(folder: tempfile::TempDir) -> Ground {
        fs::create_dir(folder.path().join("theirs")).unwrap();
        fs::write(folder.path().join("theirs/file"), "stays").unwrap();
        fs::write(folder.path().join("iodyno-notes.txt"), "stays").unwrap();
        Ground(folder)
    }

    #[track_caller]
    fn is_as_before(&self) {
        let names: Vec<String> = names(self.0.path()).into_iter().collect();
        assert_eq!(names, ["iodyno-notes.txt", "theirs"]);
        let theirs = fs::read_to_string(self.0.path().join("theirs/file"));
        assert_eq!(theirs.unwrap(), "stays");
    }
}

fn a_finish_in_set_up_leaves_no_files() {
    for abort in [false, true] {
        attempts(|| {
            let ground = Ground::new();
            let plan = plan(ground.0.path(), vec![deletes(100_000, 4096)]);
            let trial = watched(&plan, |event, stop| {
                if let Event::Progress {
                    step: Step::LayOut, ..
                } = event
                {
                    match abort {
                        true => stop.abort(),
                        false => stop.finish(),
                    }
                }
            });
            // All files existed already.
            if trial.ready.is_some() {
                return None;
            }
            let TrialEnd::Failed { outcome, death } = &trial.end else {
                panic!("{:?}", trial.end);
            };
            assert!(matches!(outcome, Outcome::Interrupted(_)) && death.is_none());
            ground.is_as_before();
            Some(())
        });
    }
}

fn a_finish_and_an_abort_keep_the_results_and_leave_no_files() {
    for abort in [false, true] {
        attempts(|| {
            // A worker that waits for a disk longer than the limit of an abort is given up.
            let ground = Ground::in_memory();
            let mut job = creates(None, LONG_MS);
            job.clones = 2;
            let mut begun = 0;
            let trial = watched(&plan(ground.0.path(), vec![job]), |event, stop| {
                if let Event::Frame(frame) = event {
                    begun += frame.ops(Direction::Op);
                    match abort {
                        _ if begun == 0 => {}
                        true => stop.abort(),
                        false => stop.finish(),
                    }
                }
            });
            let (part, outcome) = trial.done();
            assert!(matches!(outcome, Outcome::Interrupted(_)), "{outcome:?}");
            // So is a worker to which a busy host gives no CPU time. Its folder is removed when it has returned.
            if part.notes.iter().any(|note| note.contains("is stuck")) {
                return None;
            }
            let all = ops(part, Direction::Op);
            assert!(all > 0 && all == framed(&trial.frames, Direction::Op));
            assert!(has(part, Step::TearDown));
            ground.is_as_before();
            Some(())
        });
    }
}

fn a_disk_that_fills_up_in_set_up_is_an_error_with_its_progress() {
    let Some(disk) = formatted(256, &["mkfs.ext4", "-q", "-N", "30000"]) else {
        return;
    };
    let mounted = disk.mount();
    let filler = mounted.path().join("filler");
    attempts(|| {
        let trial = watched(
            &plan(mounted.path(), vec![deletes(20_000, 8192)]),
            |event, _| {
                if matches!(
                    event,
                    Event::Progress {
                        step: Step::LayOut,
                        ..
                    }
                ) && !filler.exists()
                {
                    let mut file = fs::File::create(&filler).unwrap();
                    while file.write_all(&[7; 1 << 16]).is_ok() {}
                }
            },
        );
        // All files existed already.
        if trial.ready.is_some() {
            let _ = fs::remove_file(&filler);
            return None;
        }
        let TrialEnd::Unprepared(faults) = &trial.end else {
            panic!("{:?}", trial.end);
        };
        let message = &faults[0].message;
        for part in ["No space left", "of 20000 files", "job `fs`", "files.0"] {
            assert!(message.contains(part), "{message}");
        }
        assert!(faults[0].hint.as_deref().unwrap().contains("`--files`"));
        let left: Vec<String> = names(mounted.path()).into_iter().collect();
        assert_eq!(left, ["filler", "lost+found"]);
        Some(())
    });
}

fn a_disk_that_fills_up_in_the_measurement_is_a_failure_and_leaves_no_files() {
    let Some(disk) = formatted(64, &["mkfs.ext4", "-q"]) else {
        return;
    };
    let mounted = disk.mount();
    let cycle = [
        iodyno_model::Action::Create,
        iodyno_model::Action::Write { bytes: MIB },
        iodyno_model::Action::Sync,
        iodyno_model::Action::Close,
    ];
    let mut growing = job(Vec::new(), cycle.map(timed).to_vec());
    growing.end.runtime = Some(iodyno_units::Nanos::from_millis(LONG_MS));
    let trial = watched(&plan(mounted.path(), vec![growing]), |_, _| {});
    let (part, outcome) = trial.done();
    let Outcome::Failed(reason) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(reason.contains("ENOSPC"), "{reason}");
    assert!(ops(part, Direction::Op) > 10, "most of 64 MiB were free");
    let left: Vec<String> = names(mounted.path()).into_iter().collect();
    assert_eq!(left, ["lost+found"]);
}

fn a_folder_that_disappears_is_reported() {
    let ground = Ground::new();
    let plan = plan(ground.0.path(), vec![stats(100, LONG_MS)]);
    let own = own(&plan);
    let trial = watched(&plan, |event, _| {
        if let Event::Frame(_) = event
            && own.exists()
        {
            fs::remove_dir_all(&own).unwrap();
        }
    });
    let (_, outcome) = trial.done();
    let Outcome::Failed(reason) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(reason.contains("removed"), "{reason}");
    assert!(reason.contains("ENOENT"), "{reason}");
    ground.is_as_before();
}

/// Kills the only child of this process that is the trial's node.
fn kill_node(own: &Path) {
    // The node has its folder open.
    let holds = |pid: &str| {
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            return false;
        };
        open.flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(own)))
    };
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if name.parse::<u32>().is_ok() && holds(&name) {
            common::run(&["kill", "-9", &name]).unwrap();
            return;
        }
    }
    panic!("no process holds `{}`", own.display());
}

fn the_folder_of_a_killed_node_is_removed_by_its_parent() {
    let in_set_up = deletes(200_000, 4096);
    let at_work = stats(300, LONG_MS);
    for job in [in_set_up, at_work] {
        let ground = Ground::new();
        let plan = plan(ground.0.path(), vec![job]);
        let own = own(&plan);
        let mut killed = false;
        let trial: TrialRecord = watched(&plan, |event, _| {
            let now = matches!(
                event,
                Event::Frame(_)
                    | Event::Progress {
                        step: Step::LayOut,
                        done: 1..,
                        ..
                    }
            );
            if now
                && !killed
                && (matches!(event, Event::Frame(_)) || plan.workload.jobs[0].end.runtime.is_none())
            {
                killed = true;
                kill_node(&own);
            }
        });
        let TrialEnd::Failed { outcome, death } = &trial.end else {
            panic!("{:?}", trial.end);
        };
        let reason = outcome.reason().unwrap();
        assert!(death.is_some() && reason.contains("SIGKILL"), "{reason}");
        assert!(
            reason.contains("its folder") && reason.contains("was removed"),
            "{reason}"
        );
        ground.is_as_before();
    }
}

/// Runs a trial until this process is killed.
pub(crate) fn be_a_parent(folder: &str) -> ExitCode {
    let folder = PathBuf::from(folder);
    let plan: BoundPlan = plan(&folder, vec![stats(2000, LONG_MS)]);
    let end = carry_out(&plan, &node(), &StopFlag::new(), &mut |event| {
        if let Event::Started { .. } = event {
            println(&own(&plan));
        }
    });
    ExitCode::from(u8::from(end.is_err()))
}

fn println(path: &Path) {
    let mut out = io::stdout();
    let _ = writeln!(out, "{}", path.display());
    let _ = out.flush();
}

fn the_folder_of_a_killed_parent_is_removed_by_its_node() {
    let ground = Ground::new();
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .arg("parent")
        .arg(ground.0.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 1];
    parent
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut first)
        .unwrap();
    assert_eq!(names(ground.0.path()).len(), 3);
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until("its folder is removed", || {
        names(ground.0.path()).len() == 2
    });
    ground.is_as_before();
}

fn mounted_and_linked_content_in_the_folder_is_kept() {
    let ground = Ground::new();
    let theirs = ground.0.path().join("theirs");
    let plan = plan(ground.0.path(), vec![stats(10, LONG_MS)]);
    let own = own(&plan);
    let inside = own.join("job0/mounted");
    let mut mounted = false;
    let trial = watched(&plan, |event, stop| {
        if let Event::Started { .. } = event {
            std::os::unix::fs::symlink(&theirs, own.join("job0/link")).unwrap();
            fs::create_dir(&inside).unwrap();
            let bind = [
                "mount",
                "--bind",
                theirs.to_str().unwrap(),
                inside.to_str().unwrap(),
            ];
            match common::run(&bind) {
                Ok(_) => mounted = true,
                Err(why) => common::skip(&why),
            }
        }
        if let Event::Frame(_) = event {
            stop.finish();
        }
    });
    let (part, _) = trial.done();
    if mounted {
        common::run(&["umount", inside.to_str().unwrap()]).unwrap();
        let notes = part.notes.join("\n");
        assert!(notes.contains("a file system is mounted there"), "{notes}");
        assert!(notes.contains("rm -r "), "{notes}");
        assert_eq!(names(&own.join("job0")), ["mounted".to_owned()].into());
        fs::remove_dir_all(&own).unwrap();
    }
    ground.is_as_before();
}
