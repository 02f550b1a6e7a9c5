//! What commands leave behind: processes, mounts, and a clean-up that fails or hangs.

use std::path::Path;

use iodyno_model::printable::shell_path;
use iodyno_testing::{Mounted, is_root, skip};
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Done, Home, Running, alive, wait_for};

/// Starts or runs trials of one command in the working folder.
fn arguments<'a>(command: &'a str, further: &[&'a str]) -> Vec<&'a str> {
    let fixed = ["run", "--command", command, "--no-settle", "--on", "here=."];
    [&fixed, further].concat()
}

fn run(home: &Home, command: &str, further: &[&str]) -> Done {
    home.iodyno(&arguments(command, further))
}

fn pid_in(file: &Path) -> Option<Pid> {
    let text = std::fs::read_to_string(file).ok()?;
    Pid::from_raw(text.trim().parse().ok()?)
}

fn await_pid(home: &Home, running: &Running, name: &str) -> Pid {
    running.wait_for(name, || pid_in(&home.work().join(name)))
}

#[test]
fn a_background_process_is_killed_and_a_daemon_is_named() {
    let home = Home::new();
    let background = "sleep 1000 & echo $! > ../../background";
    run(&home, background, &["--rounds", "1"]);
    let pid = pid_in(&home.work().join("background")).unwrap();
    assert!(!alive(pid));
    home.iodyno(&["show", "last"])
        .succeeds()
        // It may not be called `sleep` yet.
        .prints(&format!("were killed: {} (`", pid.as_raw_nonzero()));
    // It still runs for `cleanup`.
    let to_clean_up = "kill -0 $(cat ../../background) && touch ../../ran";
    run(
        &home,
        background,
        &["--rounds", "1", "--cleanup", to_clean_up],
    );
    assert!(home.work().join("ran").exists());

    let daemon = "setsid sh -c 'echo $$ > ../../daemon; exec sleep 1000' & \
                  while ! [ -s ../../daemon ]; do sleep 0.01; done";
    run(&home, daemon, &["--rounds", "1"]);
    let pid = pid_in(&home.work().join("daemon")).unwrap();
    assert!(alive(pid));
    home.iodyno(&["show", "last"])
        .succeeds()
        .prints(&format!("still run: {} (`", pid.as_raw_nonzero()));
    kill_process(pid, Signal::KILL).unwrap();
}

#[test]
fn a_command_ends_with_its_node() {
    for signal in [Signal::TERM, Signal::KILL] {
        let home = Home::new();
        let command = "(sleep 1000 & echo $! > ../../child; wait) & echo $$ > ../../shell; wait";
        let running = home.start(&arguments(command, &["--rounds", "1"]));
        let pids = ["child", "shell"].map(|name| await_pid(&home, &running, name));
        kill_process(running.node(), signal).unwrap();
        running.done().exits(4);
        assert!(pids.iter().all(|pid| !alive(*pid)));
    }
}

#[test]
fn a_failed_cleanup_fails_its_trial() {
    let home = Home::new();
    run(
        &home,
        "true",
        &["--rounds", "1", "--cleanup", "echo busy; false"],
    )
    .exits(4)
    .prints("`cleanup` of workload `true` failed: `echo busy; false`")
    .prints("busy");
}

#[test]
fn a_cleanup_that_hangs_is_ended_by_an_abort() {
    let home = Home::new();
    let cleanup = "echo $$ > ../../cleanup; exec sleep 1000";
    let running = home.start(&arguments("true", &["--rounds", "1", "--cleanup", cleanup]));
    let pid = await_pid(&home, &running, "cleanup");
    running.signal(Signal::INT);
    running.wait_until_it_tells("Interrupt again to abort");
    running.signal(Signal::INT);
    running.done().exits(130);
    wait_for("the clean-up to end", || (!alive(pid)).then_some(()));
}

#[test]
fn what_is_mounted_in_the_folder_survives_and_is_to_be_unmounted_first() {
    if !is_root() {
        return skip("mounting needs root");
    }
    let home = Home::new();
    let precious = home.work().join("precious");
    std::fs::create_dir(&precious).unwrap();
    if Mounted::on(&precious, &["--bind", "/proc"]).is_none() {
        return;
    }
    std::fs::write(precious.join("data"), "precious").unwrap();
    let command = "mkdir m && mount --bind ../../precious m && pwd > ../../folder";
    run(&home, command, &["--rounds", "1"]);
    assert!(precious.join("data").exists());
    let folder = std::fs::read_to_string(home.work().join("folder")).unwrap();
    let job = Path::new(folder.trim());
    let (mount, trial) = (
        shell_path(&job.join("m")),
        shell_path(job.parent().unwrap()),
    );
    let advice = format!("umount {mount} && rm -r {trial}");
    home.iodyno(&["show", "last"]).succeeds().prints(&advice);
    // The next run gives the same advice.
    run(&home, "true", &["--rounds", "1"]);
    home.iodyno(&["show", "last"]).succeeds().prints(&advice);
    iodyno_testing::run(&["umount".as_ref(), job.join("m").as_os_str()]).unwrap();
}
