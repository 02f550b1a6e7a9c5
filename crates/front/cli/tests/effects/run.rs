//! A run of a case: its output, its record of ops, its system calls, and the files that it left.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use iodyno_testing::Loop;
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::case::Through;
use crate::harness::{Done, Home, Running, alive, children, iodyno};
use crate::strace::{self, Call};

/// The record of ops of a traced job.
pub(crate) const RECORD: &str = "ops.record";

/// A run that has ended.
pub(crate) struct Run {
    home: Home,
    pub(crate) done: Done,
    /// System calls on files of the folder, and those that place threads.
    pub(crate) calls: Vec<Call>,
    /// The observation during a trial.
    pub(crate) during: String,
    /// Names of the threads of the process that does the I/O.
    pub(crate) threads: BTreeSet<String>,
}

/// A line of the record of ops.
pub(crate) struct Op {
    /// Since the start of the job, µs.
    pub(crate) at: u64,
    pub(crate) file: String,
    /// `read`, `write`, `trim`, `sync`, `open`, ...
    pub(crate) action: String,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Run {
    pub(crate) fn of(home: Home, through: Through, arguments: &[String]) -> Run {
        let (mut calls, mut threads) = (Vec::new(), BTreeSet::new());
        let mut during = String::new();
        let done = match through {
            Through::Output | Through::Ops => home.iodyno(arguments),
            Through::During(script) | Through::Starting(script) | Through::Apart(script) => {
                let running = match through {
                    Through::Apart(_) => Running::of(apart(&home, arguments)),
                    _ => home.start(arguments),
                };
                if !matches!(through, Through::Starting(_)) {
                    running.wait_for("a trial", || clones(running.pid()));
                }
                let seen = || Some(shell(&home, &running, script)).filter(|seen| seen != " ");
                during = running.wait_for("output of the script", seen);
                running.signal(Signal::INT);
                running.done()
            }
            Through::Threads => {
                let running = home.start(arguments);
                let node = running.node();
                while alive(node) {
                    threads.extend(names_of_threads(node));
                    std::thread::sleep(Duration::from_millis(5));
                }
                running.done()
            }
            Through::Calls | Through::Folders | Through::Addresses => {
                let command = home.command(arguments);
                let record = home.work().join("../calls");
                let done = Running::of(strace::around(&command, &record, through)).done();
                let text = std::fs::read_to_string(record).unwrap_or_default();
                let folder = home.work().canonicalize().unwrap();
                calls = strace::read(&text, &folder);
                done
            }
        };
        Run {
            home,
            done,
            calls,
            during,
            threads,
        }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.home.work()
    }

    /// Whether a store was made.
    pub(crate) fn stored(&self) -> bool {
        self.home.store().exists()
    }

    /// A value of the JSON on standard output, or the failure.
    pub(crate) fn value(&self, pointer: &str) -> Value {
        let begin = self.done.stdout.find('{').unwrap_or(0);
        match serde_json::from_str::<Value>(&self.done.stdout[begin..]) {
            Ok(value) => value.pointer(pointer).cloned().unwrap_or_default(),
            Err(_) => Value::String(self.fault()),
        }
    }

    /// The value as text.
    pub(crate) fn text(&self, pointer: &str) -> String {
        match self.value(pointer) {
            Value::String(text) => text,
            value => value.to_string(),
        }
    }

    /// The exit code and the printed error.
    pub(crate) fn fault(&self) -> String {
        format!("exit code {}: {}", self.done.code, self.done.stderr)
    }

    /// The ops of the job's record, without opening and closing.
    pub(crate) fn ops(&self) -> Vec<Op> {
        let mut ops = self.recorded(RECORD);
        ops.retain(|op| !matches!(&*op.action, "add" | "open" | "close"));
        ops
    }

    /// All lines of a record.
    pub(crate) fn recorded(&self, name: &str) -> Vec<Op> {
        let text = self.file(name);
        let text = String::from_utf8_lossy(&text);
        assert!(text.starts_with("fio version 3"), "{text}{}", self.fault());
        let number = |word: Option<&str>| word.and_then(|it| it.parse().ok()).unwrap_or(0);
        let op = |line: &str| {
            let mut words = line.split(' ');
            Some(Op {
                at: number(words.next()),
                file: words.next()?.to_owned(),
                action: words.next()?.to_owned(),
                offset: number(words.next()),
                length: number(words.next()),
            })
        };
        text.lines().skip(1).filter_map(op).collect()
    }

    /// The bytes of a file of the folder.
    pub(crate) fn file(&self, name: &str) -> Vec<u8> {
        let read = std::fs::read(self.work().join(name));
        read.unwrap_or_else(|error| panic!("{name}: {error}: {}", self.fault()))
    }

    /// The files in the folder and below it, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut folders = vec![self.work()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => names.push(
                        path.strip_prefix(self.work())
                            .unwrap()
                            .display()
                            .to_string(),
                    ),
                }
            }
        }
        names.sort();
        names
    }
}

/// The output of a script in the folder, with names of a trial: `LOOP`, its loop device; `AT`, the job's file or
/// device; `TOKEN`.
fn shell(home: &Home, trial: &Running, script: &str) -> String {
    let names = "PATH=$PATH:/usr/sbin:/sbin
        LOOP=$(grep -ls \"^$PWD\" /sys/block/loop*/loop/backing_file | cut -d/ -f4 | head -1)
        OPEN=$(for CHILD in $(cat /proc/$TRIAL/task/*/children 2>/dev/null); do readlink /proc/$CHILD/fd/*; done)
        AT=$(echo \"$OPEN\" | grep -m1 -E '/a[.]0[.]0$|^/dev/(loop|zram|dm-|md|mapper)|disk0[.]img$')
        TOKEN=$(ls -td iodyno-* 2>/dev/null | head -1); TOKEN=${TOKEN#iodyno-}; TOKEN=${TOKEN:-no-token}";
    let mut command = home.program(Path::new("sh"));
    command
        .args(["-c", &format!("{names}\n{script}")])
        .env("TRIAL", trial.pid().as_raw_nonzero().to_string())
        .current_dir(home.work().canonicalize().unwrap());
    let done = Running::of(command).done();
    format!("{} {}", done.stdout, done.stderr)
}

/// The program with its own mount namespace, and so with a zfs-fuse that no other run uses.
fn apart(home: &Home, arguments: &[String]) -> Command {
    let mut command = home.program(Path::new("unshare"));
    let script = "for D in run lock; do mkdir -p /var/$D/zfs && mount -t tmpfs none /var/$D/zfs || exit 9; done; exec \"$@\"";
    command
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(iodyno())
        .args(arguments);
    command
}

/// Makes the file `NUMBER.img` in the folder a blank loop device, and `dNUMBER` a link to it.
pub(crate) fn attach(folder: &Path, number: usize) -> Loop {
    let device = Loop::blank(&folder.join(format!("{number}.img")), 16 << 20).unwrap();
    symlink(device.path(), folder.join(format!("d{number}"))).unwrap();
    device
}

/// Whether a child of this process does the ops of a trial.
fn clones(process: Pid) -> Option<()> {
    let mut threads = children(process).into_iter().flat_map(names_of_threads);
    threads.any(|name| name.starts_with("clone-")).then_some(())
}

fn names_of_threads(process: Pid) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
    let tasks = tasks.into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.collect()
}
