//! The keys of workloads of file operations, and the options of `iodyno fs run`.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::case::{Case, Language, Look, Through, case};
use crate::looks::{SLEEPS, joined, kib, until};
use crate::run::Run;
use crate::strace::Call;

pub(crate) static LANGUAGE: Language = Language {
    name: "operations",
    options: || iodyno_experiment::fileops::keys().collect(),
    topics: &[KEYS, SETS, STEPS, OPTIONS],
    arguments,
};

/// Lines that begin with `--` are arguments; the others are the text of the workload.
fn arguments(folder: &Path, _: &Look, lines: &str) -> Vec<String> {
    let lines = lines.lines().map(str::trim);
    let (options, text): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with("--"));
    std::fs::write(folder.join("w.toml"), text.join("\n")).unwrap();
    let words = "fs run w.toml --no-settle".split(' ');
    let options = options.iter().flat_map(|option| option.split(' '));
    words.chain(options).map(str::to_owned).collect()
}

/// Creates and closes a file.
macro_rules! create { ($($more:literal)?) => { concat!("cycle = [{op='create',timed=true},{op='close',timed=true}]\ndrain = false\n", $($more)?) }; }
/// Creates a file, and writes to it.
macro_rules! writes { ($bytes:literal $($more:literal)?) => { concat!("cycle = [{op='create',timed=true},{op='write',bytes='", $bytes, "',timed=true},{op='close',timed=true}]\n", $($more)?) }; }
/// Opens files of the set `s`, which begins with `[{name='s',count=2,size='8KiB'}]`.
macro_rules! open { ($($more:literal)?) => { concat!("max-ops = 2\ncycle = [{op='open',of='s',timed=true},{op='close',timed=true}]\n", $($more)?) }; }

#[rustfmt::skip]
const KEYS: &[Case] = &[
    case("name", PRINTED, create!("max-ops = 1"), &[("", "Running benchmark: w"), ("name = 'mine'", "Running benchmark: mine")]),
    case("about", ABOUT, create!("max-ops = 1"), &[("", "Description: create, close timed"), ("about = 'of files'", "Description: of files")]),
    case("threads", WORKERS, create!("max-ops = 8"), &[("", "1 threads"), ("threads = 3", "3 threads")]),
    case("folders", FOLDERS, create!("max-ops = 2"), &[("", "job0"), ("folders = 'own'", "job0/clone0")]),
    case("duration", ENDED, "cycle = [{op='statfs',timed=true}]", &[("max-ops = 2", "2 ops"), ("duration = '200ms'\nmax-ops = 1000000000", "before the last op")]),
    case("max-ops", CYCLE, create!(), &[("max-ops = 1", "create new~0.0 close"), ("max-ops = 2", "create new~0.0 close create new~0.1 close")]),
    case("ramp", RAMPED, create!("max-ops = 2\nrate = 100"), &[("", "as many ops as calls"), ("ramp = '200ms'", "fewer ops than calls")]),
    case("rate", SLEEPS, writes!("4KiB" "max-ops = 8"), &[("", "none"), ("rate = 20", "sleeps")]),
    case("arrival", INTERVALS, writes!("4KiB" "max-ops = 24\nrate = 25"), &[("", "multiples of 40 ms"), ("arrival = 'linear'", "multiples of 40 ms"), ("arrival = 'poisson'", "different")]),
    case("drain", CYCLE, "max-ops = 1\ncycle = [{op='create',timed=true},{op='close',timed=true}]", &[("", "create new~0.0 close"), ("drain = true", "create new~0.0 close syncfs")]),
    case("compress-percent", CONTENT, writes!("64KiB" "max-ops = 1"), &[("", "0 % zero"), ("compress-percent = 50", "50 % zero")]),
    case("chunk", CYCLE, writes!("64KiB" "max-ops = 1"), &[("", "create new~0.0 write(64k) close"), ("chunk = '32KiB'", "create new~0.0 write(32k) write(32k) close")]),
    case("setup-threads", MAKERS, open!("files = [{name='s',count=8,size='8KiB'}]"), &[("", "4 threads"), ("setup-threads = 1", "1 threads")]),
];

#[rustfmt::skip]
const SETS: &[Case] = &[
    case("files.name", MADE, "max-ops = 1\ncycle = [{op='statfs',timed=true}]", &[("files = [{name='s',count=1,size='8KiB'}]", "create s.0 write(8k) fsync close"), ("files = [{name='z',count=1,size='8KiB'}]", "create z.0 write(8k) fsync close")]),
    case("files.count", MADE, open!("setup-threads = 1"), &[("files = [{name='s',count=1,size='8KiB'}]", "create s.0 write(8k) fsync close"), ("files = [{name='s',count=2,size='8KiB'}]", "create s.0 write(8k) fsync close create s.1 write(8k) fsync close")]),
    case("files.size", MADE, open!("setup-threads = 1"), &[("files = [{name='s',count=1,size='8KiB'}]", "create s.0 write(8k) fsync close"), ("files = [{name='s',count=1,size='64KiB'}]", "create s.0 write(64k) fsync close")]),
    case("files.fsync", MADE, open!("setup-threads = 1"), &[("files = [{name='s',count=1,size='8KiB'}]", "create s.0 write(8k) fsync close"), ("files = [{name='s',count=1,size='8KiB',fsync=false}]", "create s.0 write(8k) close")]),
];

#[rustfmt::skip]
const STEPS: &[Case] = &[
    case("cycle.op", CYCLE, "max-ops = 1\ndrain = false\nfiles = [{name='s',count=2,size='8KiB'}]", &[("cycle = [{op='statfs',timed=true}]", "statfs"), ("cycle = [{op='create',timed=true},{op='write',bytes='4KiB',timed=true},{op='sync',timed=true},{op='truncate',length=10,timed=true},{op='fallocate',bytes='4KiB',timed=true},{op='close',timed=true},{op='stat',of='current',timed=true},{op='rename',of='current',timed=true},{op='sync_folder',timed=true},{op='unlink',of='current',timed=true}]", "create new~0.0 write(4k) fsync truncate(10) fallocate(10+4k) close stat new~0.0 rename new~0.0 fsync_folder unlink new~0.1"), ("cycle = [{op='mkdir',timed=true},{op='readdir',timed=true},{op='rmdir',timed=true}]", "mkdir getdents64 getdents64 rmdir"), ("cycle = [{op='open',of='s',timed=true},{op='close',timed=true}]", "open s.1 close"), ("cycle = [{op='append',bytes='4KiB',new-file-at='8KiB',timed=true}]", "create new~0.a0.0 write(4k) close")]),
    case("cycle.timed", TIMED, "max-ops = 3\n--json", &[("cycle = [{op='statfs',timed=true},{op='readdir',timed=true}]", "statfs readdir"), ("cycle = [{op='statfs',timed=true},{op='readdir',timed=false}]", "statfs")]),
    case("cycle.of", CYCLE, "max-ops = 1\nfiles = [{name='s',count=1,size=0},{name='z',count=1,size=0}]", &[("cycle = [{op='stat',of='s',timed=true}]", "stat s.0"), ("cycle = [{op='stat',of='z',timed=true}]", "stat z.0")]),
    case("cycle.order", CYCLE, "max-ops = 4\nfiles = [{name='s',count=4,size=0}]", &[("cycle = [{op='stat',of='s',timed=true}]", "stat s.3 stat s.2 stat s.1 stat s.0"), ("cycle = [{op='stat',of='s',order='newest',timed=true}]", "stat s.3 stat s.2 stat s.1 stat s.0"), ("cycle = [{op='stat',of='s',order='oldest',timed=true}]", "stat s.0 stat s.1 stat s.2 stat s.3"), ("--seed 1\ncycle = [{op='stat',of='s',order='random',timed=true}]", "stat s.3 stat s.3 stat s.0 stat s.0")]),
    case("cycle.bytes", CYCLE, "max-ops = 1", &[("cycle = [{op='create',timed=true},{op='write',bytes='4KiB',timed=true},{op='fallocate',bytes='4KiB',timed=true},{op='close',timed=true}]", "create new~0.0 write(4k) fallocate(4k+4k) close"), ("cycle = [{op='create',timed=true},{op='write',bytes='8KiB',timed=true},{op='fallocate',bytes='16KiB',timed=true},{op='close',timed=true}]", "create new~0.0 write(8k) fallocate(8k+16k) close")]),
    case("cycle.new-file-at", CYCLE, "max-ops = 4", &[("cycle = [{op='append',bytes='4KiB',new-file-at='4KiB',timed=true}]", "create new~0.a0.0 write(4k) close create new~0.a0.1 write(4k) close create new~0.a0.2 write(4k) close create new~0.a0.3 write(4k) close"), ("cycle = [{op='append',bytes='4KiB',new-file-at='8KiB',timed=true}]", "create new~0.a0.0 write(4k) write(4k) close create new~0.a0.1 write(4k) write(4k) close")]),
    case("cycle.keep", CYCLE, "max-ops = 3", &[("cycle = [{op='append',bytes='4KiB',new-file-at='4KiB',timed=true}]", "create new~0.a0.0 write(4k) close create new~0.a0.1 write(4k) close create new~0.a0.2 write(4k) close"), ("cycle = [{op='append',bytes='4KiB',new-file-at='4KiB',keep=0,timed=true}]", "create new~0.a0.0 write(4k) close create new~0.a0.1 write(4k) unlink new~0.a0.0 close create new~0.a0.2 write(4k) unlink new~0.a0.1 close")]),
    case("cycle.length", CYCLE, "max-ops = 1", &[("cycle = [{op='create',timed=true},{op='truncate',length=0,timed=true},{op='close',timed=true}]", "create new~0.0 truncate(0k) close"), ("cycle = [{op='create',timed=true},{op='truncate',length='4KiB',timed=true},{op='close',timed=true}]", "create new~0.0 truncate(4k) close")]),
];

#[rustfmt::skip]
const OPTIONS: &[Case] = &[
    case("--set threads", WORKERS, create!("max-ops = 8"), &[("", "1 threads"), ("--set threads=3", "3 threads"), ("--threads 3", "3 threads")]),
    case("--set own-folders", FOLDERS, create!("max-ops = 2"), &[("", "job0"), ("--set own-folders=1", "job0/clone0"), ("--own-folders", "job0/clone0")]),
    case("--set files", MADE, open!("setup-threads = 1\nfiles = [{name='s',count=1,size=0}]"), &[("", "create s.0 fsync close"), ("--set files=2", "create s.0 fsync close create s.1 fsync close"), ("--files s=2", "create s.0 fsync close create s.1 fsync close")]),
    case("--set file-size", MADE, open!("setup-threads = 1\nfiles = [{name='s',count=1,size=0}]"), &[("", "create s.0 fsync close"), ("--set file-size=8KiB", "create s.0 write(8k) fsync close"), ("--file-size s=4KiB", "create s.0 write(4k) fsync close")]),
    case("--set new-file-at", CYCLE, "max-ops = 2\ncycle = [{op='append',bytes='4KiB',new-file-at='4KiB',timed=true}]", &[("", "create new~0.a0.0 write(4k) close create new~0.a0.1 write(4k) close"), ("--set new-file-at=8KiB", "create new~0.a0.0 write(4k) write(4k) close"), ("--new-file-at 8KiB", "create new~0.a0.0 write(4k) write(4k) close")]),
    case("--set duration", ENDED, "cycle = [{op='statfs',timed=true}]", &[("max-ops = 2", "2 ops"), ("max-ops = 1000000000\n--set duration=200ms", "before the last op"), ("max-ops = 1000000000\n--duration 200ms", "before the last op")]),
    case("--set ramp", RAMPED, create!("max-ops = 2\nrate = 100"), &[("", "as many ops as calls"), ("--set ramp=200ms", "fewer ops than calls"), ("--ramp 200ms", "fewer ops than calls")]),
    case("--set max-ops", CYCLE, create!("max-ops = 1"), &[("", "create new~0.0 close"), ("--set max-ops=2", "create new~0.0 close create new~0.1 close"), ("--max-ops 2", "create new~0.0 close create new~0.1 close")]),
    case("--set rate", SLEEPS, writes!("4KiB" "max-ops = 8"), &[("", "none"), ("--set rate=20", "sleeps"), ("--rate 20", "sleeps")]),
    case("--set poisson", INTERVALS, writes!("4KiB" "max-ops = 24\nrate = 25"), &[("", "multiples of 40 ms"), ("--set poisson=1", "different"), ("--rate 25 --poisson", "different")]),
    case("--set drain", CYCLE, "max-ops = 1\ncycle = [{op='create',timed=true},{op='close',timed=true}]", &[("", "create new~0.0 close"), ("--set drain=1", "create new~0.0 close syncfs"), ("--drain", "create new~0.0 close syncfs")]),
    case("--set compress", CONTENT, writes!("64KiB" "max-ops = 1"), &[("", "0 % zero"), ("--set compress=50%", "50 % zero"), ("--compress 50%", "50 % zero")]),
    case("--set chunk", CYCLE, writes!("64KiB" "max-ops = 1"), &[("", "create new~0.0 write(64k) close"), ("--set chunk=32KiB", "create new~0.0 write(32k) write(32k) close")]),
    case("--set setup-threads", MAKERS, open!("files = [{name='s',count=8,size='8KiB'}]"), &[("", "4 threads"), ("--set setup-threads=1", "1 threads")]),
    case("--set setup", MADE, open!("setup-threads = 1\nfiles = [{name='s',count=1,size='2KiB'}]"), &[("", "create s.0 write(2k) fsync close"), ("--set setup=original", "create s.0 write(1k) write(1k) fsync close")]),
];

const fn calls(seen: &'static str, of: fn(&Run) -> String) -> Look {
    let through = Through::Folders;
    Look { seen, through, of }
}

/// The threads whose names begin so.
pub(crate) fn threads(run: &Run, begin: &str) -> BTreeSet<u32> {
    let named = |call: &&Call| {
        call.name == "prctl"
            && call.arguments[0] == "PR_SET_NAME"
            && call.arguments[1][1..].starts_with(begin)
    };
    run.calls
        .iter()
        .filter(named)
        .map(|call| call.thread)
        .collect()
}

/// Calls of the threads that run the cycle.
fn of_cycle(run: &Run) -> impl Iterator<Item = &Call> {
    let workers = threads(run, "clone-");
    run.calls
        .iter()
        .filter(move |call| workers.contains(&call.thread))
}

/// Calls of the threads that make the files of sets.
fn of_makers(run: &Run) -> impl Iterator<Item = &Call> {
    let makers = threads(run, "set-up-");
    run.calls
        .iter()
        .filter(move |call| makers.contains(&call.thread))
}

/// The calls of the cycle.
const CYCLE: Look = calls("system calls", |run| {
    joined(of_cycle(run).filter_map(shown))
});

/// The calls that make the files of sets.
const MADE: Look = calls("system calls", |run| {
    joined(of_makers(run).filter_map(shown))
});

/// A call on a file or folder of the trial in few words; `None`: it is none of a step.
fn shown(call: &Call) -> Option<String> {
    let file = call
        .file
        .as_deref()
        .filter(|file| file.contains("iodyno-"))?;
    let folder = file
        .rsplit('/')
        .next()
        .is_some_and(|last| last.starts_with("job"));
    let argument = |index: usize| call.arguments.get(index).map_or("", |it| &**it);
    let name = || {
        let name = argument(1).trim_matches('"');
        let (set, number) = name.rsplit_once('.').unwrap_or((name, ""));
        let number: u64 = number.parse().unwrap_or(0);
        format!("{}.{number}", set)
    };
    let bytes = |index: usize| argument(index).parse().map_or(String::new(), kib);
    Some(match &*call.name {
        "openat" if argument(1) == "\".\"" => return None,
        "openat" if argument(2).contains("O_CREAT") => format!("create {}", name()),
        "openat" => format!("open {}", name()),
        "pwrite64" => format!("write({})", bytes(2)),
        "close" | "fstatfs" if folder || call.name == "fstatfs" => return None,
        "fsync" if folder => "fsync_folder".to_owned(),
        "unlinkat" if argument(2) == "AT_REMOVEDIR" => "rmdir".to_owned(),
        "unlinkat" => format!("unlink {}", name()),
        "newfstatat" => format!("stat {}", name()),
        "renameat" | "renameat2" => format!("rename {}", name()),
        "ftruncate" => format!("truncate({})", bytes(1)),
        "fallocate" => format!("fallocate({}+{})", bytes(2), bytes(3)),
        "mkdirat" => "mkdir".to_owned(),
        known @ ("close" | "fsync" | "statfs" | "getdents64" | "syncfs") => known.to_owned(),
        _ => return None,
    })
}

pub(crate) const WORKERS: Look = calls("threads", |run| {
    format!("{} threads", threads(run, "clone-").len())
});

const MAKERS: Look = calls("threads", |run| {
    format!("{} threads", threads(run, "set-up-").len())
});

/// The folders below that of the trial in which files are created.
const FOLDERS: Look = calls("system calls", |run| {
    let creates =
        of_cycle(run).filter(|call| shown(call).is_some_and(|it| it.starts_with("create")));
    let folder = |call: &Call| {
        call.file
            .as_deref()?
            .split_once('/')
            .map(|(_, below)| below.to_owned())
    };
    joined(creates.filter_map(folder).collect::<BTreeSet<_>>())
});

/// The lines of the result with these beginnings.
fn line(run: &Run, begin: &str) -> String {
    let mut lines = run.done.stdout.lines();
    lines
        .find(|line| line.starts_with(begin))
        .map_or_else(|| run.fault(), str::to_owned)
}

const PRINTED: Look = Look::output("output", |run| line(run, "Running benchmark:"));
const ABOUT: Look = Look::output("output", |run| line(run, "Description:"));

/// The number of ops in the line for benchstat.
fn count(run: &Run) -> u64 {
    let line = line(run, "Benchmark");
    let count = line.split(' ').nth(1).and_then(|count| count.parse().ok());
    count.unwrap_or(0)
}

const ENDED: Look = Look::output("output", |run| match count(run) {
    0 => run.fault(),
    2 => "2 ops".to_owned(),
    _ => "before the last op".to_owned(),
});

/// Whether ops are made that are not reported.
const RAMPED: Look = calls("system calls", |run| {
    let created = of_cycle(run)
        .filter_map(shown)
        .filter(|call| call.starts_with("create"));
    match (created.count() as u64).cmp(&count(run)) {
        std::cmp::Ordering::Equal => "as many ops as calls",
        std::cmp::Ordering::Greater => "fewer ops than calls",
        std::cmp::Ordering::Less => "more ops than calls",
    }
    .to_owned()
});

/// Whether the times until which the thread sleeps are equally spaced. An op that is late is not waited for, and sleeps
/// before the first op wait for the start.
const INTERVALS: Look = calls("system calls", |run| {
    let work = of_cycle(run).skip_while(|call| call.name != "pwrite64");
    let sleeps = work.filter(|call| call.name == "clock_nanosleep");
    let times: Vec<u64> = sleeps.map(until).collect();
    let unequal = |pair: &[u64]| (pair[1] - pair[0] + 1_000_000) % 40_000_000 > 2_000_000;
    match (times.len(), times.windows(2).any(unequal)) {
        (0..3, _) => "never slept",
        (_, true) => "different",
        (_, false) => "multiples of 40 ms",
    }
    .to_owned()
});

/// The share of zeros in the written data, as strace prints them.
const CONTENT: Look = calls("system calls", |run| {
    let writes = of_cycle(run).filter(|call| call.name == "pwrite64");
    let (mut zeros, mut all) = (0, 0);
    for call in writes {
        let mut letters = call.arguments[1]
            .trim_end_matches('.')
            .trim_matches('"')
            .chars()
            .peekable();
        while let Some(letter) = letters.next() {
            let mut octal = String::new();
            while letter == '\\' && octal.len() < 3 {
                match letters.next_if(|next| next.is_digit(8)) {
                    Some(digit) => octal.push(digit),
                    None => break,
                }
            }
            if letter == '\\' && octal.is_empty() {
                letters.next();
            }
            all += 1;
            zeros += u32::from(!octal.is_empty() && octal.trim_start_matches('0').is_empty());
        }
    }
    format!("{} % zero", (zeros * 10 + all / 2) / all.max(1) * 10)
});

/// The steps whose times add up to that of the ops.
const TIMED: Look = Look::output("output", |run| {
    let rows = run
        .value("/trials/0/groups/0/rows")
        .as_array()
        .cloned()
        .unwrap_or_default();
    let sum = |row: &Value| {
        let part = |name: &str| row["service"][name].as_f64().unwrap_or(0.0);
        part("mean_ns") * part("count")
    };
    let (op, steps): (Vec<&Value>, Vec<&Value>) =
        rows.iter().partition(|row| row["direction"] == "op");
    let (op, all): (f64, f64) = (
        op.into_iter().map(sum).sum(),
        steps.iter().copied().map(sum).sum(),
    );
    let name = |row: &&Value| row["direction"].as_str().unwrap_or_default().to_owned();
    let within = |first: f64, second: f64| (first - second).abs() < 0.01 * second;
    match within(op, all) {
        true => joined(steps.iter().map(name)),
        false => joined(steps.iter().filter(|row| within(sum(row), op)).map(name)),
    }
});
