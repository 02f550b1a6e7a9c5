//! The ready-made experiments, reduced, killed at many points: `clean` leaves nothing on the host, and the resumed run
//! has the order of the plan.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{Done, Home, Running, alive, children, processes, root, skip, wait_for};

/// An experiment and its settings.
const REDUCED: &[(&str, &[&str])] = &[
    ("disk", &["size=4m", "duration=100ms"]),
    ("quickstart", &["size=4m", "duration=100ms", "direct=0"]),
    ("virtiofs-suite", &["size=1m", "runtime=100ms"]),
    ("dispatch-policies", &["size=1m", "runtime=100ms"]),
    (
        "zvol-vs-file",
        &["size=128MiB", "extent=2m", "duration=100ms"],
    ),
    (
        "sysbench-on-a-pool",
        &["size=128MiB", "total=4M", "files=4", "duration=100ms"],
    ),
    (
        "zfs-vs-ext4",
        &[
            "size=256MiB",
            "duration=100ms",
            "small=20",
            "many=40",
            "most=60",
            "mixed_small=10",
            "mixed_large=2",
            "file_size=4KiB",
            "large_size=64KiB",
        ],
    ),
    (
        "mirror-workloads",
        &["size=128MiB", "extent=1m", "duration=100ms"],
    ),
];
/// Kills of each experiment in `make test-long`. `IODYNO_TEST_KILLS=20` kills each of them twenty times.
const KILLS: u64 = 2;
/// Have too many trials for `make test-long`; they run if a number of kills is given.
const LONGEST: [&str; 2] = ["mirror-workloads", "dispatch-policies"];
/// Number of rounds: few, so that many kills meet the making and undoing of storage.
const ROUNDS: &str = "2";

#[test]
fn killed_experiments_leave_nothing_and_are_resumed_in_their_order() {
    if !root() {
        return skip("the experiments make storage");
    }
    let given = std::env::var("IODYNO_TEST_KILLS").ok();
    let kills = given.as_ref().map_or(KILLS, |kills| kills.parse().unwrap());
    for (name, settings) in REDUCED {
        if !LONGEST.contains(name) || given.is_some() {
            killed(name, settings, kills);
        }
    }
}

fn killed(name: &str, settings: &[&str], kills: u64) {
    let home = Home::new();
    let folder = home.work().join("images");
    fs::create_dir(&folder).unwrap();
    let begin = arguments(name, settings, &folder);
    let planned = planned(home.iodyno(&[begin.clone(), vec!["--dry-run".to_owned()]].concat()));
    let Some(planned) = planned else {
        return skip(format!("{name} cannot run on this host"));
    };
    let mut tokens = BTreeSet::new();
    let (mut killed, mut missed, mut resumed) = (0u64, 0u32, false);
    // Each kill costs a few attempts at most.
    for _ in 0..20 * (kills + 1) {
        let resume = ["run", "--resume", "last", "-q"].map(str::to_owned);
        let running = home.start(&match resumed {
            true => resume.to_vec(),
            false => begin.clone(),
        });
        // Each event is a change of a journal or of the store: storage is made, a trial has ended, and so on. The kills
        // are spread over the events. A run that ended before its kill is followed by one that is killed earlier: on a
        // busy host few events are seen.
        let at = match killed < kills {
            true => (killed * 7919 % (40 + 20 * killed)) >> missed,
            false => u64::MAX,
        };
        let processes = after_events(at, &running, &home, &folder, &mut tokens);
        // Every second time the process that makes storage survives, and undoes it.
        if killed % 2 == 0 {
            for process in processes {
                let _ = rustix::process::kill_process(process, Signal::KILL);
            }
        }
        running.signal(Signal::KILL);
        let done = running.done();
        assert!([0, -9].contains(&done.code), "{name}: {done:?}");
        let ended = done.code == 0;
        (killed, missed) = match ended {
            true => (killed, (missed + 1).min(63)),
            false => (killed + 1, 0),
        };
        wait_for("a host without traces", || {
            // It fails as well if storage of others cannot be undone.
            home.iodyno(&["clean"]);
            let left = traces(&folder, &tokens);
            left.is_empty().then_some(())
        });
        let list = home.iodyno(&["list", "--json"]).succeeds().json();
        let state = list["runs"][0]["state"].as_str().map(str::to_owned);
        if ended && killed >= kills {
            assert_eq!(order(&home, &planned), planned, "{name}");
            return;
        }
        // A run that ended before all kills is followed by another one.
        resumed = state.is_some_and(|state| state != "completed");
    }
    panic!("{name}: after {killed} kills the run did not end");
}

fn arguments(name: &str, settings: &[&str], folder: &Path) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../experiments");
    let file = file.join(format!("{name}.toml"));
    let mut words = vec!["run".to_owned(), file.display().to_string()];
    let fixed = ["--rounds", ROUNDS, "--seed", "7", "--no-settle", "-q"];
    words.extend(fixed.map(str::to_owned));
    words.extend(["--set".to_owned(), format!("folder={}", folder.display())]);
    for setting in settings {
        words.extend(["--set".to_owned(), (*setting).to_owned()]);
    }
    words
}

/// The trials of a dry run in their order, as `WORKLOAD on CONFIGURATION`; `None`: the host cannot make the storage.
fn planned(dry_run: Done) -> Option<Vec<String>> {
    let dry_run = dry_run.succeeds();
    if dry_run.stderr.contains("a run would fail") {
        return None;
    }
    let (_, text) = dry_run.stdout.split_once("in this order").unwrap();
    let mut trials: Vec<String> = Vec::new();
    let mut words = text.split_whitespace().skip_while(|word| *word != "round");
    while let Some(word) = words.next() {
        match word {
            "round" => drop(words.next()),
            number if number == (trials.len() + 1).to_string() => trials.push(String::new()),
            word => {
                let trial = trials.last_mut().unwrap();
                *trial = format!("{trial} {}", word.trim_end_matches(','))
                    .trim()
                    .to_owned();
            }
        }
    }
    Some(trials)
}

/// The completed trials of the last run in the order of their starts, as in the dry run.
fn order(home: &Home, planned: &[String]) -> Vec<String> {
    let run = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let mut trials = run["trials"].as_array().unwrap().clone();
    trials.retain(|trial| trial["outcome"]["state"] == "completed");
    trials.sort_by_key(|trial| trial["started_unix_ms"].as_u64());
    let name = |trial: &serde_json::Value| {
        let text = |key: &str| trial[key].as_str().unwrap().to_owned();
        match planned[0].contains(" on ") {
            false => text("workload"),
            true => format!("{} on {}", text("workload"), text("configuration")),
        }
    };
    trials.iter().map(name).collect()
}

/// The longest time of a run, which takes seconds on an idle host: one that stores something forever has a defect.
const MAX_RUN: Duration = Duration::from_secs(15 * 60);

/// Waits for a number of events, or the end of the program. Returns the processes that it has started.
fn after_events(
    number: u64,
    running: &Running,
    home: &Home,
    folder: &Path,
    tokens: &mut BTreeSet<String>,
) -> Vec<rustix::process::Pid> {
    let (mut events, mut before) = (0, Vec::new());
    let begun = Instant::now();
    // Each event restarts the wait: a slow host needs long for all of them.
    while events <= number && alive(running.pid()) {
        before = wait_for("an event, or the end of the program", || {
            let mut now = Vec::new();
            for journal in journals(folder) {
                let name = journal.file_stem().unwrap_or_default();
                tokens.insert(name.to_string_lossy().into_owned());
                now.push((journal.metadata().map_or(0, |file| file.len()), journal));
            }
            let store = home.store();
            let log = PathBuf::from(format!("{}-wal", store.display()));
            for file in [store, log] {
                now.push((file.metadata().map_or(0, |file| file.len()), file));
            }
            (now != before || !alive(running.pid())).then_some(now)
        });
        events += 1;
        assert!(
            begun.elapsed() < MAX_RUN,
            "the run does not end; its trials:\n{}\nprocesses:\n{}",
            home.iodyno(&["show", "last"]).stdout,
            processes()
        );
    }
    children(running.pid())
}

/// The journals of storage in a folder.
fn journals(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir("/var/lib/iodyno/journal")
        .into_iter()
        .flatten()
        .flatten();
    let ours = format!("\"{}", folder.display());
    let names = |file: &PathBuf| fs::read_to_string(file).is_ok_and(|text| text.contains(&ours));
    files.map(|file| file.path()).filter(names).collect()
}

/// The remains of storage in a folder and of storage with these tokens.
fn traces(folder: &Path, tokens: &BTreeSet<String>) -> Vec<String> {
    let ours = |text: &str| {
        text.contains(&folder.display().to_string()) || tokens.iter().any(|it| text.contains(it))
    };
    let mut found = Vec::new();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(mounts.lines().filter(|line| ours(line)).map(str::to_owned));
    let mut loops = BTreeSet::new();
    for entry in fs::read_dir("/sys/block").unwrap().flatten() {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        let number = fs::read_to_string(entry.path().join("dev")).unwrap_or_default();
        if !file.is_empty() {
            loops.insert(number.trim().to_owned());
        }
        found.extend(ours(&file).then_some(file));
    }
    // Files of trials in an existing folder are kept; they do not have the names of storage that is made.
    for place in [folder, Path::new("/run/iodyno")] {
        let entries = fs::read_dir(place).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let made = |name: &String| tokens.iter().any(|token| name.contains(token));
        found.extend(names.filter(|name| made(name) || name.starts_with("iodyno-")));
    }
    found.extend(
        journals(folder)
            .iter()
            .map(|path| path.display().to_string()),
    );
    let pools = std::process::Command::new("zpool")
        .args(["list", "-H", "-o", "name"])
        .output();
    let pools = pools.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let pools = pools.unwrap_or_default();
    found.extend(pools.lines().filter(|line| ours(line)).map(str::to_owned));
    // Limits of loop devices that are detached.
    let limits = "/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device";
    let limits = fs::read_to_string(limits).unwrap_or_default();
    let limited = limits.lines().filter_map(|line| line.split_once(' '));
    for (number, _) in limited {
        found.extend(
            (number.starts_with("7:") && !loops.contains(number)).then(|| number.to_owned()),
        );
    }
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let text = String::from_utf8_lossy(&environment).into_owned();
        let step = text
            .split('\0')
            .find(|word| word.starts_with("IODYNO_STEP="));
        let ours = step.is_some_and(|step| tokens.iter().any(|token| step.contains(token)));
        found.extend(ours.then(|| String::from_utf8_lossy(&command).into_owned()));
    }
    found
}
