//! The observations of cases.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::case::Look;
use crate::run::Run;
use crate::strace::{Call, FOLDER};

/// The flags with which the jobs' descriptors of each file were opened: the last open of each file.
pub(crate) const OPEN_FLAGS: Look = Look::calls("open flags", |run| {
    let mut flags: Vec<(&str, String)> = Vec::new();
    for call in run
        .calls
        .iter()
        .filter(|call| call.name.starts_with("open"))
    {
        let Some(file) = &call.file else { continue };
        let text = call.arguments.iter().find(|it| it.starts_with("O_"));
        let text: Vec<&str> = text.map_or("", |it| it).split('|').collect();
        let noise = ["O_NOCTTY", "O_LARGEFILE", "O_CLOEXEC"];
        let text: Vec<&str> = text.into_iter().filter(|it| !noise.contains(it)).collect();
        let flag = text.join("|");
        match flags.iter_mut().find(|(name, _)| name == file) {
            Some(found) => found.1 = flag,
            None => flags.push((file, flag)),
        }
    }
    joined(flags.into_iter().map(|(_, flags)| flags))
});

/// The calls of the threads that do the ops, on files of the folder, without those that drop cached pages.
pub(crate) const CALLS: Look = Look::calls("system calls", |run| {
    let calls = of_workers(run);
    joined(calls.filter(|call| call.name != "fadvise64").map(shown))
});

/// The first calls of the threads that do the ops, on files of the folder, without those of libaio and io_uring.
pub(crate) const PASSES: Look = Look::calls("system calls", |run| {
    let calls = of_workers(run).filter(|call| !call.name.starts_with("io_"));
    joined(calls.take(8).map(shown))
});

/// The calls of the thread that makes the files, on files of the folder.
pub(crate) const LAYOUT: Look = Look::calls("system calls of the layout", |run| {
    let main = main_thread(run);
    joined(
        on_files(run)
            .filter(|call| Some(call.thread) == main)
            .map(shown),
    )
});

/// The same of all threads, in their order.
pub(crate) const ALL_CALLS: Look =
    Look::calls("system calls", |run| joined(on_files(run).map(shown)));

/// The advice on the order of accesses to mapped files.
pub(crate) const MAPPED: Look = Look::calls("system calls", |run| {
    let advice = run.calls.iter().filter(|call| call.name == "madvise");
    let known = ["MADV_SEQUENTIAL", "MADV_RANDOM"];
    joined(
        advice
            .filter(|call| known.contains(&&*call.arguments[2]))
            .map(|call| call.arguments[1..].join("+")),
    )
});

/// How requests are passed to the kernel and reaped, by libaio and io_uring: the last ring is that of the job.
pub(crate) const QUEUE: Look = Look::calls("system calls", |run| {
    let last = |name: &str| run.calls.iter().rposition(|call| call.name == name);
    let ring = last("io_uring_setup").filter(|_| last("io_submit").is_none());
    let job = run.calls.iter().skip(ring.unwrap_or(0));
    joined(job.filter_map(|call| {
        let argument = |index: usize| call.arguments.get(index).map_or("", |it| &**it);
        let word = match &*call.name {
            "io_submit" => format!("submit({})", argument(1)),
            "io_getevents" => format!("reap({}..{})", argument(1), argument(2)),
            "io_uring_setup" if ring.is_some() => {
                let known = ["IOPOLL", "SQPOLL", "SQ_AFF"];
                let set = |flag: &&str| argument(1).contains(&format!("IORING_SETUP_{flag}"));
                let flags: Vec<&str> = known.into_iter().filter(set).collect();
                match argument(1).contains("sq_thread_cpu=0x1") {
                    true => format!("setup({}) on CPU 1", flags.join("|")),
                    false => format!("setup({})", flags.join("|")),
                }
            }
            "io_uring_register" if ring.is_some() => {
                let what = argument(1).replace("IORING_REGISTER_", "");
                let known = matches!(&*what, "BUFFERS" | "FILES");
                return known.then(|| format!("register({what})"));
            }
            _ => return None,
        };
        Some(word)
    }))
});

/// Direction, offset and length of each op.
pub(crate) const OPS: Look = Look::ops("ops", ops);
/// The same, for options of offsets.
pub(crate) const OFFSETS: Look = Look::ops("offsets", ops);
/// The same, for options of lengths.
pub(crate) const LENGTHS: Look = Look::ops("lengths", ops);

fn ops(run: &Run) -> String {
    let op = |op: crate::run::Op| {
        let letter = op.action.chars().next().unwrap_or('?');
        match &*op.action {
            "read" | "write" | "trim" => format!("{letter}{}+{}", kib(op.offset), kib(op.length)),
            action => action.to_owned(),
        }
    };
    joined(run.ops().into_iter().map(op))
}

/// When each op was issued, µs since the start of the job.
pub(crate) const TIMES: Look = Look::ops("virtual time", |run| {
    // The record begins with opening the files, in the first microsecond.
    joined(
        run.ops()
            .into_iter()
            .map(|op| op.at.saturating_sub(1).to_string()),
    )
});

/// Each job: group and name, when it began and ended in ms since the start of the first, and its ops by direction.
pub(crate) const JOBS: Look = Look::output("virtual time", |run| {
    let Some(jobs) = run.value("/jobs").as_array().cloned() else {
        return run.fault();
    };
    let number =
        |job: &Value, pointer: &str| job.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let begin = jobs.first().map_or(0, |job| number(job, "/job_start"));
    joined(jobs.iter().map(|job| {
        let start = number(job, "/job_start") - begin;
        let ops = ["read", "write", "trim"].map(|kind| number(job, &format!("/{kind}/total_ios")));
        let named = ["r", "w", "t"]
            .into_iter()
            .zip(ops)
            .filter(|(_, ops)| *ops > 0);
        let ops: String = named.map(|(kind, ops)| format!(" {kind}{ops}")).collect();
        let name = job["jobname"].as_str().unwrap_or_default();
        let end = start + number(job, "/job_runtime");
        format!("{}/{name} {start}..{end}{ops};", number(job, "/groupid"))
    }))
});

/// The files of the folder with their lengths.
pub(crate) const FILES: Look = Look::output("files", |run| {
    let length = |name: &String| run.work().join(name).metadata().map_or(0, |it| it.len());
    let files = run.names().into_iter();
    joined(files.map(|name| format!("{name}:{}", kib(length(&name)))))
});

/// The exit code and the printed error, without its place and its hint.
pub(crate) const FAULT: Look = Look::output("errors", |run| {
    let text = joined(run.done.stderr.split_whitespace().map(str::to_owned));
    let folder = format!("{}/", run.work().display());
    let end = [" at: ", " hint: ", " cause: ", " 1 error"]
        .iter()
        .filter_map(|end| text.find(end))
        .min();
    format!(
        "{} {}",
        run.done.code,
        text[..end.unwrap_or(text.len())].replace(&folder, "")
    )
});

/// The rates in the text of a result.
pub(crate) const RATES: Look = Look::output("output", |run| {
    let words = run.done.stdout.split_whitespace();
    joined(
        words
            .filter(|word| word.starts_with("IOPS=") || word.starts_with("BW="))
            .map(str::to_owned),
    )
});

/// When the last op was issued, ms since the start of the job.
pub(crate) const LAST: Look = Look::ops("virtual time", |run| {
    run.ops()
        .last()
        .map_or(String::new(), |op| (op.at / 1000).to_string())
});

/// Whether a thread sleeps until the times of its ops: one that does ops on a file, if there is any. The samplers do so
/// once a second, and after a late sample sooner; a few such sleeps do not count.
pub(crate) const SLEEPS: Look = Look::calls("system calls", |run| {
    let on_file = |call: &&Call| call.name == "pwrite64" && call.file.is_some();
    let any_file = run.calls.iter().any(|call| on_file(&call));
    let (mut began, mut sleeps) = (BTreeSet::new(), BTreeMap::<u32, Vec<u64>>::new());
    for call in &run.calls {
        if on_file(&call) {
            began.insert(call.thread);
        }
        // Sleeps before the first op wait for the start.
        let counts = !any_file || began.contains(&call.thread);
        if counts && call.name == "clock_nanosleep" && call.arguments[1] == "TIMER_ABSTIME" {
            sleeps.entry(call.thread).or_default().push(until(call));
        }
    }
    let short = |times: &Vec<u64>| {
        let pairs = times.windows(2);
        pairs
            .filter(|pair| pair[1].abs_diff(pair[0]) < 900_000_000)
            .count()
    };
    let least = if any_file { 2 } else { 4 };
    match sleeps.values().any(|times| short(times) >= least) {
        true => "sleeps",
        false => "none",
    }
    .to_owned()
});

/// The time until which a thread sleeps, ns.
pub(crate) fn until(call: &Call) -> u64 {
    let number = |name: &str| -> u64 {
        let (_, rest) = call.arguments[2].split_once(name).unwrap();
        let end = rest.find(|letter: char| !letter.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().unwrap()
    };
    number("tv_sec=") * 1_000_000_000 + number("tv_nsec=")
}

/// The files of the ops, in their order.
pub(crate) const FILE_ORDER: Look = Look::ops("files of the ops", |run| {
    joined(run.ops().into_iter().map(|op| {
        op.file
            .rsplit(['.', '/'])
            .next()
            .unwrap_or_default()
            .to_owned()
    }))
});

/// How many ops there are, of how many different blocks, and how many of them are in the first eighth of 1 MiB.
pub(crate) const SPREAD: Look = Look::ops("offsets", |run| {
    let ops = run.ops();
    let different: BTreeSet<u64> = ops.iter().map(|op| op.offset).collect();
    let first = ops.iter().filter(|op| op.offset < 1 << 17).count();
    format!(
        "{} ops, {} blocks, {first} in front",
        ops.len(),
        different.len()
    )
});

/// Whether the ops are those of the run before, whose record is `first`.
pub(crate) const REPEATED: Look = Look::ops("offsets", |run| {
    let offsets = |ops: Vec<crate::run::Op>| ops.iter().map(|op| op.offset).collect::<Vec<_>>();
    let mut first = run.recorded("first");
    first.retain(|op| op.length > 0);
    (offsets(first) == offsets(run.ops())).to_string()
});

/// A number of bytes in KiB where that is a whole number.
pub(crate) fn kib(bytes: u64) -> String {
    match bytes.is_multiple_of(1024) {
        true => format!("{}k", bytes / 1024),
        false => bytes.to_string(),
    }
}

/// Words with a blank between them.
pub(crate) fn joined(words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().collect::<Vec<_>>().join(" ")
}

/// A trace that is replayed: it is also read before the trial, by another thread.
const TRACE: &str = "trace";

/// The thread that opens the files first, not only to identify them.
fn main_thread(run: &Run) -> Option<u32> {
    let mut calls = run.calls.iter();
    let opens = |call: &Call| {
        let file = call.file.as_deref().is_some_and(|file| file != TRACE);
        let path = call.arguments.iter().any(|it| it.contains("O_PATH"));
        file && call.name.starts_with("open") && !path
    };
    calls.find(|call| opens(call)).map(|call| call.thread)
}

fn of_workers(run: &Run) -> impl Iterator<Item = &Call> {
    let main = main_thread(run);
    on_files(run).filter(move |call| Some(call.thread) != main)
}

fn on_files(run: &Run) -> impl Iterator<Item = &Call> {
    let quiet = ["close", "ioctl"];
    let own = |call: &Call| {
        let name = call.arguments.get(1).map_or("", |it| it.trim_matches('"'));
        !(name.is_empty() || name.starts_with('/') || name.starts_with(FOLDER))
    };
    let calls = run.calls.iter();
    let calls = calls.filter(|call| call.file.as_deref().is_some_and(|file| file != TRACE));
    calls.filter(move |call| match call.name.starts_with("open") {
        true => call.arguments.iter().any(|it| it.contains("O_CREAT")),
        // Those of a file by its name within a folder.
        false if call.name == "statx" || call.name == "newfstatat" => own(call),
        false => !quiet.contains(&&*call.name),
    })
}

/// A call in few words, with offsets and lengths in KiB.
fn shown(call: &Call) -> String {
    let argument = |index: usize| call.arguments.get(index).map_or("", |it| &**it);
    let bytes = |index: usize| {
        argument(index)
            .parse()
            .map_or(argument(index).to_owned(), kib)
    };
    let range = |offset: usize, length: usize| format!("{}+{}", bytes(offset), bytes(length));
    let flags = |index: usize, prefix: &str| argument(index).replace(prefix, "");
    match &*call.name {
        "pread64" | "pwrite64" => format!("{}({})", call.name, range(3, 2)),
        "sync_file_range" => {
            format!(
                "sync_file_range({},{})",
                range(1, 2),
                flags(3, "SYNC_FILE_RANGE_")
            )
        }
        "fallocate" => format!("fallocate({},{})", flags(1, "FALLOC_FL_"), range(2, 3)),
        "fadvise64" if argument(2) == "0" => format!("fadvise({})", flags(3, "POSIX_FADV_")),
        "fadvise64" => format!("fadvise({},{})", flags(3, "POSIX_FADV_"), range(1, 2)),
        "ftruncate" => format!("ftruncate({})", bytes(1)),
        "read" | "write" => format!("{}({})", call.name, bytes(2)),
        "mmap" => format!("mmap({})", bytes(1)),
        "statx" | "newfstatat" => format!("stat({})", argument(1)),
        "open" | "openat" => "create".to_owned(),
        "preadv2" | "pwritev2" => {
            // Older versions of strace have no name for it.
            let flags = argument(4).replace("0x40 /* RWF_??? */", "RWF_ATOMIC");
            format!("{}({},{})", call.name, bytes(3), flags.replace("RWF_", ""))
        }
        name => format!("{name}({})", call.arguments[1..].join(",")),
    }
}
