//! The process that makes storage, and its parent, are killed at every step; cleaning up leaves nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use iodyno_model::{FileSystemKind, Provision};
use iodyno_runner::{ProvisionRequest, StopFlag, StorageNode};

use crate::common::{alone, is_root, skip};
use crate::layers::{LOOP, directory, file_system, image, node, plain, request, traces};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("clean_undoes_a_target_that_was_killed_at_any_step", killed),
    ("a_stop_ends_a_blocked_setup_and_undoes_it", stopped),
];

/// A watchdog: nothing here takes long, but the host may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// Makes the target that a file describes, says so, and waits.
pub(crate) fn be_a_parent(arguments: &[String]) -> ExitCode {
    let text = fs::read(&arguments[0]).unwrap();
    let wanted: ProvisionRequest = serde_json::from_slice(&text).unwrap();
    let made = node().provision(&wanted, &StopFlag::new(), &mut |_| ());
    fs::write(format!("{}.made", arguments[0]), made.is_ok().to_string()).unwrap();
    std::thread::sleep(PATIENCE);
    ExitCode::SUCCESS
}

fn target(folder: &Path) -> ProvisionRequest {
    let ext4 = file_system(FileSystemKind::Ext4, &[], &[]);
    request(Provision {
        setup: Some("true".to_owned()),
        ..plain(vec![ext4, LOOP, image(64, 1), directory(folder)])
    })
}

/// Ends the process when dropped.
struct Parent(Child);

impl Drop for Parent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(folder: &Path, wanted: &ProvisionRequest) -> (Parent, PathBuf) {
    let file = folder.join("request.json");
    fs::write(&file, serde_json::to_vec(wanted).unwrap()).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .arg("parent")
        .arg(&file)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    (Parent(child), folder.join("request.json.made"))
}

fn children(process: u32) -> Vec<String> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Kills the parent and its helper once the journal has this many lines, or the target was made. Returns whether the
/// target was made before.
fn kill_at(lines: usize, folder: &Path, wanted: &ProvisionRequest) -> bool {
    let (parent, made) = start(folder, wanted);
    let journal = PathBuf::from("/var/lib/iodyno/journal").join(format!("{}.jsonl", wanted.token));
    let begun = Instant::now();
    loop {
        let text = fs::read_to_string(&journal).unwrap_or_default();
        let whole = made.exists();
        if whole || text.lines().count() >= lines {
            let mut processes = children(parent.0.id());
            processes.insert(0, parent.0.id().to_string());
            let mut kill = Command::new("kill");
            let _ = kill
                .arg("-9")
                .args(&processes)
                .stderr(Stdio::null())
                .status();
            return whole;
        }
        assert!(begun.elapsed() < PATIENCE, "the journal has {text}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn killed() {
    let _alone = alone();
    if !is_root() {
        return skip("layers need root");
    }
    for lines in 1.. {
        let folder = tempfile::tempdir().unwrap();
        let storage = folder.path().join("storage");
        fs::create_dir(&storage).unwrap();
        let wanted = target(&storage);
        let whole = kill_at(lines, folder.path(), &wanted);
        let (node, stop) = (node(), StopFlag::new());
        let begun = Instant::now();
        // The killed helper's lock is released when it is gone.
        while !traces(&wanted.token).is_empty() {
            let cleaned = node.clean(false, &stop, &mut |_| ()).unwrap();
            for orphan in cleaned.orphans {
                assert_eq!(orphan.faults, [], "at line {lines}");
            }
            assert!(begun.elapsed() < PATIENCE, "{:?}", traces(&wanted.token));
        }
        assert_eq!(
            fs::read_dir(&storage).unwrap().count(),
            0,
            "at line {lines}"
        );
        if whole {
            assert!(lines > 10, "{lines}");
            return;
        }
    }
}

fn stopped() {
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let wanted = request(Provision {
        setup: Some(format!("touch {}; sleep 1000", begun.display())),
        teardown: Some(format!("rm {}", begun.display())),
        ..plain(vec![directory(folder.path())])
    });
    let stop = StopFlag::new();
    let requested = {
        let (begun, stop) = (begun.clone(), stop.clone());
        std::thread::spawn(move || {
            while !begun.exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.finish();
        })
    };
    let faults = node().provision(&wanted, &stop, &mut |_| ()).unwrap_err();
    requested.join().unwrap();
    assert!(faults[0].message.contains("was stopped"), "{faults:?}");
    assert!(!begun.exists(), "the teardown command was run");
}
