//! Every way in which a trial can end is reported separately, and none leaves processes or files behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use iodyno_model::{
    Amount, BoundPlan, Direction, EndedBy, Engine, EngineKind, Identity, Outcome, Settling,
    SimFault,
};
use iodyno_runner::{
    Connection, Death, Event, Examination, Examined, Launcher, LocalNode, Node, PROTOCOL,
    RunnerError, StopFlag, TrialEnd, carry_out, drive,
};

use crate::samples::plan;
use crate::stage::{
    LONG_MS, MIB, faulty, framed, node, on_file, run, simulated, timed, wait_until, watched,
};

crate::tests![
    a_finish_keeps_the_results,
    a_finish_ends_clones_that_have_not_begun,
    an_abort_gives_up_ops_that_do_not_complete,
    a_failed_workload_is_distinguished_from_a_completed_one,
    a_backend_that_cannot_be_created_is_an_error_with_its_job,
    a_killed_node_is_reported_with_its_signal_and_its_frames_are_kept,
    a_truncated_mapped_file_is_a_recorded_outcome,
    a_killed_parent_leaves_no_orphan_and_no_file,
    the_process_that_settles_the_host_answers,
    files_and_devices_are_examined_by_a_process,
    a_program_that_is_not_a_node_is_an_error,
    several_children_start_together_and_finish_when_one_of_them_dies,
    a_node_elsewhere_that_is_silent_is_lost,
    a_node_whose_parent_is_silent_ends,
];

fn a_finish_keeps_the_results() {
    let jobs = vec![simulated("s", LONG_MS)];
    let told = watched(&plan("/", jobs), |event, stop| {
        if let Event::Frame(frame) = event
            && frame.ops(Direction::Read) > 0
        {
            stop.finish();
        }
    });
    let (part, outcome) = told.done();
    assert_eq!(
        outcome,
        &Outcome::Interrupted("ended early by the user".into())
    );
    assert_eq!(part.clones[0].ended, EndedBy::Interruption);
    let read = part.clones[0].direction(Direction::Read).unwrap();
    assert_eq!(framed(&told.frames, Direction::Read), read.ops);
    assert!(read.ops > 0 && read.runtime_ns > 0);
}

fn a_finish_ends_clones_that_have_not_begun() {
    let mut delayed = simulated("b", LONG_MS);
    delayed.delay.min = iodyno_units::Nanos::from_secs(LONG_MS / 1000);
    delayed.delay.max = delayed.delay.min;
    let mut later = simulated("c", LONG_MS);
    later.after = iodyno_model::After::AllBefore;
    let jobs = vec![simulated("a", LONG_MS), delayed, later];
    let told = watched(&plan("/", jobs), |event, stop| {
        if let Event::Started { .. } = event {
            stop.finish();
        }
    });
    let ended: Vec<EndedBy> = told
        .done()
        .0
        .clones
        .iter()
        .map(|clone| clone.ended)
        .collect();
    let not_started = EndedBy::NotStarted;
    assert_eq!(ended, [EndedBy::Interruption, not_started, not_started]);
}

fn an_abort_gives_up_ops_that_do_not_complete() {
    let stall = SimFault::Stall {
        from_ns: 100_000_000,
        for_ns: u64::MAX / 4,
    };
    let jobs = vec![
        faulty("stalled", LONG_MS, stall),
        simulated("sound", LONG_MS),
    ];
    let mut before = [0, 0];
    let told = watched(&plan("/", jobs), |event, stop| {
        if let Event::Frame(frame) = event {
            for job in &frame.jobs {
                let done: u64 = job.directions.iter().map(|part| part.ops).sum();
                before[job.job as usize] += done;
            }
            if before.iter().all(|ops| *ops > 0) {
                stop.abort();
            }
        }
    });
    let (part, outcome) = told.done();
    assert!(!matches!(outcome, Outcome::Completed), "{outcome:?}");
    // The results of both up to then are kept.
    for (clone, before) in part.clones.iter().zip(before) {
        assert!(clone.direction(Direction::Read).unwrap().ops >= before);
    }
}

fn a_failed_workload_is_distinguished_from_a_completed_one() {
    let fault = SimFault::Errno {
        every: 1000,
        errno: 5,
    };
    let told = run(Path::new("/"), vec![faulty("f", LONG_MS, fault)]);
    let (part, outcome) = told.done();
    let Outcome::Failed(reason) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(reason.contains("job `f`: EIO of read"), "{reason}");
    assert_eq!(part.clones[0].ended, EndedBy::Error);
    assert_eq!(part.clones[0].direction(Direction::Read).unwrap().ops, 999);
    let mut survivor = faulty("s", 300, fault);
    survivor.errors.continue_read = true;
    let told = run(Path::new("/"), vec![survivor]);
    let clone = &told.completed().clones[0];
    assert!(clone.errors[0].count > 0 && clone.ended == EndedBy::Runtime);
    let framed: u64 = told
        .frames
        .iter()
        .flat_map(|frame| frame.of(Direction::Read))
        .map(|part| part.errors)
        .sum();
    assert_eq!(framed, clone.errors[0].count);
}

fn a_backend_that_cannot_be_created_is_an_error_with_its_job() {
    let mut job = simulated("huge", 100);
    job.work.blocks_mut().unwrap().engine.depth = 1 << 20;
    job.work.blocks_mut().unwrap().access.block_sizes =
        iodyno_model::PerDirection::all(iodyno_model::BlockSizes::Fixed(1 << 30));
    job.work.blocks_mut().unwrap().extent.size = Some(Amount::Bytes(1 << 40));
    let told = run(Path::new("/"), vec![job, simulated("sound", 100)]);
    let TrialEnd::Unprepared(faults) = &told.end else {
        panic!("{:?}", told.end);
    };
    assert!(
        faults[0].message.contains("job `huge`: cannot reserve"),
        "{faults:?}"
    );
    assert!(faults[0].message.contains("cause: ") && faults[0].hint.is_some());
}

/// The node that this thread has started.
pub(crate) fn child() -> String {
    children().remove(0)
}

/// All of them, in the order of their start, without helpers and children that have exited.
fn children() -> Vec<String> {
    let children = fs::read_to_string("/proc/thread-self/children").unwrap();
    let is_node = |pid: &&str| {
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.starts_with("iodyno\0")
    };
    let nodes = children.split_whitespace().filter(is_node);
    nodes.map(str::to_owned).collect()
}

pub(crate) fn kill(pid: &str) {
    let killed = Command::new("kill").arg("-KILL").arg(pid).status();
    assert!(killed.unwrap().success());
}

fn a_killed_node_is_reported_with_its_signal_and_its_frames_are_kept() {
    let mut killed = false;
    let told = watched(&plan("/", vec![simulated("s", LONG_MS)]), |event, _| {
        if let Event::Frame(frame) = event
            && frame.ops(Direction::Read) > 0
            && !killed
        {
            killed = true;
            kill(&child());
        }
    });
    let TrialEnd::Failed { outcome, death } = &told.end else {
        panic!("{:?}", told.end);
    };
    assert_eq!(death, &Some(Death::Signal(9)));
    assert!(matches!(outcome, Outcome::Interrupted(why) if why.contains("SIGKILL")));
    assert!(framed(&told.frames, Direction::Read) > 0);
}

fn a_truncated_mapped_file_is_a_recorded_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = timed(on_file("m", "f", &[Direction::Read], 4 * MIB), LONG_MS);
    job.work.blocks_mut().unwrap().engine = Engine::new(EngineKind::Mmap, 1);
    let told = watched(&plan(folder.path(), vec![job]), |event, _| {
        if let Event::Frame(_) = event {
            let file = fs::OpenOptions::new()
                .write(true)
                .open(folder.path().join("f"));
            file.unwrap().set_len(0).unwrap();
        }
    });
    match &told.end {
        TrialEnd::Failed { outcome, death } => {
            assert_eq!(death, &Some(Death::Signal(7)));
            assert!(matches!(outcome, Outcome::Failed(why) if why.contains("SIGBUS")));
        }
        // A backend that catches the fault reports it as a failed op.
        TrialEnd::Done(_, outcome) => assert!(matches!(outcome, Outcome::Failed(_))),
        other => panic!("{other:?}"),
    }
}

/// Runs a long trial in the folder until this process is killed.
pub(crate) fn be_a_parent(folder: &str) -> ExitCode {
    let mut job = timed(on_file("w", "f", &[Direction::Write], 4 * MIB), LONG_MS);
    job.work.blocks_mut().unwrap().files.unlink = true;
    let started = PathBuf::from(folder).join("node");
    let end = carry_out(
        &plan(folder, vec![job]),
        &node(),
        &StopFlag::new(),
        &mut |event| {
            if let Event::Started { .. } = event {
                // Under another name until it is complete.
                let whole = started.with_extension("whole");
                fs::write(&whole, child()).unwrap();
                fs::rename(&whole, &started).unwrap();
            }
        },
    );
    ExitCode::from(u8::from(end.is_err()))
}

fn a_killed_parent_leaves_no_orphan_and_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .arg("parent")
        .arg(folder.path())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let started = folder.path().join("node");
    let mut pid = String::new();
    wait_until("it started", || {
        pid = fs::read_to_string(&started).unwrap_or_default();
        !pid.is_empty()
    });
    assert!(folder.path().join("f").exists());
    let alive = || {
        let state = fs::read_to_string(format!("/proc/{pid}/stat"));
        // An orphan that has ended is a zombie until its new parent waits for it.
        state.is_ok_and(|state| !state.contains(") Z "))
    };
    assert!(alive());
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until("the node ends with its parent", || !alive());
    assert!(!folder.path().join("f").exists());
}

fn the_process_that_settles_the_host_answers() {
    let unsettled = node().settle(&Settling::default(), &[], &StopFlag::new())();
    assert_eq!(unsettled, []);
}

fn files_and_devices_are_examined_by_a_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    std::fs::write(&path, b"four").unwrap();
    let wanted = Examination {
        identify: vec![path.clone(), folder.path().join("missing")],
        describe: vec![path.clone()],
        ..Examination::default()
    };
    let found = node().examine(wanted.clone(), &StopFlag::new())();
    assert_eq!(found.targets.last().unwrap().identity, Identity::Absent);
    assert_eq!(found.stacks[0].path, path);
    // A process that does not answer is left behind on a stop request.
    let silent = LocalNode {
        program: "sh".into(),
        arguments: vec!["-c".into(), "exec cat >/dev/null".into()],
    };
    let stop = StopFlag::new();
    stop.finish();
    assert_eq!(silent.examine(wanted, &stop)(), Examined::default());
}

fn a_program_that_is_not_a_node_is_an_error() {
    let carry = |program: &str, arguments: &[&str]| {
        let node = LocalNode {
            program: program.into(),
            arguments: arguments.iter().map(Into::into).collect(),
        };
        let jobs = vec![simulated("s", 10)];
        carry_out(&plan("/", jobs), &node, &StopFlag::new(), &mut |_| {}).unwrap_err()
    };
    let missing = carry("/nowhere/iodyno", &[]);
    assert!(matches!(missing, RunnerError::Start { .. }), "{missing}");
    for (program, arguments, words) in [
        ("true", &[][..], "closed stdout before the handshake"),
        ("false", &[], "code 1"),
        ("cat", &[], "cannot be read"),
        ("echo", &["hello, I am no node"], "bytes"),
    ] {
        let error = carry(program, arguments);
        assert!(matches!(error, RunnerError::NotANode { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let hello = r#"{"say":"hello","version":99,"iodyno":"9.9","pid":1}"#;
    let other = format!(
        "printf '\\{:03o}\\0\\0\\0{hello}'; cat >/dev/null",
        hello.len()
    );
    let error = carry("sh", &["-c", &other]);
    assert!(
        matches!(error, RunnerError::Version { theirs: 99, .. }),
        "{error}"
    );
}

fn several_children_start_together_and_finish_when_one_of_them_dies() {
    let node = node();
    let plans: Vec<BoundPlan> = [LONG_MS; 3]
        .into_iter()
        .map(|ms| plan("/", vec![simulated("s", ms)]))
        .collect();
    let nodes: Vec<(&dyn Node, &BoundPlan)> = plans
        .iter()
        .map(|plan| (&node as &dyn Node, plan))
        .collect();
    let (mut ready, mut started, mut killed) = (0, 0, false);
    let (mut frames, mut pids) = (vec![Vec::new(); plans.len()], Vec::new());
    let ends = drive(&nodes, &StopFlag::new(), &mut |index, event| match event {
        Event::Ready { .. } => {
            ready += 1;
            pids = children();
        }
        Event::Started { .. } => {
            assert_eq!(ready, plans.len());
            started += 1;
        }
        Event::Frame(frame) => {
            frames[index].push(frame);
            if started == plans.len() && !killed && !frames[1].is_empty() {
                killed = true;
                kill(&pids[1]);
            }
        }
        _ => {}
    });
    assert!(killed);
    for index in [0, 2] {
        let Ok(TrialEnd::Done(part, outcome)) = &ends[index] else {
            panic!("{ends:?}");
        };
        let why = "ended because another node was lost";
        assert_eq!(outcome, &Outcome::Interrupted(why.to_owned()));
        let read = part.clones[0].direction(Direction::Read).unwrap();
        assert_eq!(framed(&frames[index], Direction::Read), read.ops);
        // Both processes read the same clock.
        assert!(part.clock_offset_ns.unsigned_abs() <= part.clock_error_ns);
        assert!(part.clock_error_ns > 0);
    }
    let Ok(TrialEnd::Failed { death, .. }) = &ends[1] else {
        panic!("{ends:?}");
    };
    assert_eq!(death, &Some(Death::Signal(9)));
}

/// A program that is connected to a node elsewhere: it prints these bytes, and then nothing.
#[derive(Debug)]
struct Silent {
    prints: std::path::PathBuf,
    connection: Connection,
}

impl Launcher for Silent {
    fn program(&self) -> &Path {
        Path::new("sh")
    }

    fn command(&self, _: &str) -> std::process::Command {
        let mut command = std::process::Command::new("sh");
        // The process that cleans up ends at once.
        let script = format!(
            "mkdir {0}.once && cat {0} && exec 3>&1 >/dev/null && exec cat",
            self.prints.display()
        );
        command.args(["-c", &script]);
        command
    }

    fn connection(&self) -> Option<&Connection> {
        Some(&self.connection)
    }
}

fn framed_message(json: &str) -> Vec<u8> {
    let mut bytes = (json.len() as u32).to_le_bytes().to_vec();
    bytes.extend(json.as_bytes());
    bytes
}

fn a_node_elsewhere_that_is_silent_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let prints = folder.path().join("hello");
    let hello = format!(
        r#"{{"say":"hello","version":{PROTOCOL},"iodyno":"0","pid":4194304,"process_start":1,"engines":[{{"engine":"sim","unusable":null}}],"sampling":["cpu"]}}"#
    );
    std::fs::write(&prints, framed_message(&hello)).unwrap();
    let node = Silent {
        prints,
        connection: Connection {
            to: "ssh://h".to_owned(),
            hello_ns: 600_000_000_000,
            every_ns: 10_000_000,
        },
    };
    let jobs = vec![simulated("s", 10)];
    let mut plan = plan("/", jobs);
    // It would run in this process.
    plan.workload.jobs[0]
        .work
        .blocks_mut()
        .unwrap()
        .engine
        .sim
        .as_mut()
        .unwrap()
        .clock = iodyno_model::SimClock::Real;
    let end = carry_out(&plan, &node, &StopFlag::new(), &mut |_| {}).unwrap();
    let TrialEnd::Failed { outcome, death } = end else {
        panic!("{end:?}");
    };
    let reason = outcome.reason().unwrap();
    assert!(reason.starts_with("ssh://h did not answer for"), "{reason}");
    assert!(matches!(death, Some(Death::Lost(_))), "{death:?}");
}

fn a_node_whose_parent_is_silent_ends() {
    use std::io::Write as _;
    let node = node();
    let mut child = node
        .command("iodyno")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // Its input stays open.
    let mut stdin = child.stdin.take().unwrap();
    let hello = format!(r#"{{"say":"hello","version":{PROTOCOL},"every_ns":10000000}}"#);
    stdin.write_all(&framed_message(&hello)).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    drop(stdin);
}
