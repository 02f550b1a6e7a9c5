//! The option table. A new option is one row.

use iodyno_model::SharedMode;
use iodyno_options::{Problem, Status, Table, Unit, Unit::*, ignored, one_of, refused};

use crate::draft::{Draft, IoMode, Law};
use crate::value::{count, number, number_within, seconds, size, switch};

/// Sets an option in the draft of a job.
pub(crate) type Setter = fn(&mut Draft, &str) -> Result<(), Problem>;

/// An option of sysbench. Its aliases are the names in earlier releases.
pub(crate) type OptionSpec = iodyno_options::OptionSpec<Setter>;

/// The options by topic, in the order of the documentation.
pub(crate) static OPTIONS: Table<Setter> = Table {
    topics: &[
        ("Files and requests", FILES),
        ("Run", RUN),
        ("Report", REPORT),
        ("Random offsets", RANDOM),
        ("Databases", DATABASES),
    ],
    dashes: "--",
};

/// The names and aliases of all options.
pub fn option_names() -> impl Iterator<Item = &'static str> {
    OPTIONS.options().flat_map(OptionSpec::names)
}

/// The names of the supported options, without aliases.
pub fn honoured_options() -> impl Iterator<Item = &'static str> {
    OPTIONS.honoured()
}

/// Why an option has no effect; `None` if it has one, is refused, or is not an option.
pub fn ignored_option(name: &str) -> Option<&'static str> {
    OPTIONS.ignored(name)
}

/// Every option at its default.
pub(super) fn defaults() -> Draft {
    let mut draft = Draft::default();
    for option in OPTIONS.options() {
        if let Status::Honoured(set) = option.status
            && !option.default.is_empty()
        {
            let outcome = set(&mut draft, option.default);
            debug_assert_eq!(outcome, Ok(()), "{}", option.name);
        }
    }
    draft
}

/// A supported option.
const fn honoured(name: &'static str, unit: Unit, text: &'static str, set: Setter) -> OptionSpec {
    OptionSpec::new(name, unit, text, Status::Honoured(set))
}

/// A name in the notation of the table: `_` and `-` are equivalent.
pub(super) fn dashed(name: &str) -> String {
    name.replace('_', "-")
}

const MODES: [(&str, SharedMode); 6] = [
    ("seqwr", SharedMode::SequentialWrite),
    ("seqrewr", SharedMode::SequentialRewrite),
    ("seqrd", SharedMode::SequentialRead),
    ("rndrd", SharedMode::RandomRead),
    ("rndwr", SharedMode::RandomWrite),
    ("rndrw", SharedMode::RandomMix),
];

const MODE_NAMES: &[&str] = &["seqwr", "seqrewr", "seqrd", "rndrd", "rndwr", "rndrw"];

/// Release 0.4 called the last two `mmap`.
const IO_MODES: [(&str, IoMode); 5] = [
    ("sync", IoMode::Sync),
    ("async", IoMode::Async),
    ("mmap", IoMode::Mmap),
    ("fastmmap", IoMode::Mmap),
    ("slowmmap", IoMode::Mmap),
];

#[derive(Clone, Copy)]
enum Flag {
    Sync,
    Dsync,
    Direct,
}

const FLAGS: [(&str, Flag); 4] = [
    ("sync", Flag::Sync),
    ("dsync", Flag::Dsync),
    ("direct", Flag::Direct),
    ("directio", Flag::Direct),
];

const MOST: u64 = i32::MAX as u64;

#[rustfmt::skip]
const FILES: &[OptionSpec] = &[
    honoured("file-num", Count, "Number of files: `test_file.0`, `test_file.1`, … in the current folder.",
        |draft, text| count(text, 1..=MOST).map(|value| draft.file_num = value as u32)).default("128"),
    honoured("file-block-size", Bytes, "Length of a request.",
        |draft, text| size(text).map(|value| draft.block = value)).default("16384"),
    honoured("file-total-size", Bytes, "Total length of all files, divided equally among them.",
        |draft, text| size(text).map(|value| draft.total = value)).default("2G"),
    honoured("file-test-mode", Words(MODE_NAMES), "Test mode of `run`: sequential write of new files, rewrite or read; random read, write or both.",
        |draft, text| one_of(text, &MODES).map(|value| draft.mode = Some(value))),
    honoured("file-io-mode", Words(&["sync", "async", "mmap"]), "pread and pwrite; Linux AIO with file-async-backlog requests of a thread in flight; mapped files.",
        |draft, text| one_of(text, &IO_MODES).map(|value| draft.io_mode = value)).default("sync"),
    honoured("file-async-backlog", Count, "Number of requests in flight per thread, with `--file-io-mode=async`.",
        |draft, text| count(text, 1..=65536).map(|value| draft.backlog = value as u32)).default("128"),
    honoured("file-extra-flags", SomeOf(&["sync", "dsync", "direct"]), "Additional open flags: O_SYNC, O_DSYNC, O_DIRECT; `directio` is `direct`.",
        file_extra_flags),
    honoured("file-fsync-freq", Count, "Syncs all files after this number of requests; 0: never.",
        |draft, text| count(text, 0..=MOST).map(|value| draft.fsync_freq = value as u32)).default("100"),
    honoured("file-fsync-all", Switch, "Syncs the file after each write; disables file-fsync-freq and file-fsync-end.",
        |draft, text| switch(text).map(|value| draft.fsync_all = value)).default("off"),
    honoured("file-fsync-end", Switch, "Syncs all files at the end of a run that writes.",
        |draft, text| switch(text).map(|value| draft.fsync_end = value)).default("on"),
    honoured("file-fsync-mode", Words(&["fsync", "fdatasync"]), "Method of syncing files.", file_fsync_mode).default("fsync"),
    honoured("file-merged-requests", Count, "Number of blocks per sequential request; 0: one.",
        |draft, text| count(text, 0..=MOST).map(|value| draft.merged_requests = value as u32)).default("0"),
    honoured("file-rw-ratio", Number, "Ratio of reads to writes in `rndrw`.",
        |draft, text| number(text).map(|value| draft.ratio = value)).default("1.5"),
    honoured("validate", Switch, "Each block written ends in a checksum and its offset, and each block read is checked against them; for `prepare` as well as for `run`.",
        |draft, text| switch(text).map(|value| draft.validate = value)).default("off"),
];

fn file_extra_flags(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    (draft.sync, draft.dsync, draft.direct) = (false, false, false);
    for flag in text.split(',').filter(|flag| !flag.is_empty()) {
        match one_of(flag, &FLAGS)? {
            Flag::Sync => draft.sync = true,
            Flag::Dsync => draft.dsync = true,
            Flag::Direct => draft.direct = true,
        }
    }
    Ok(())
}

fn file_fsync_mode(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    let words = [("fsync", false), ("fdatasync", true)];
    one_of(text, &words).map(|value| draft.data_only = value)
}

const NO_LUA: &str = "there are no Lua scripts";
const SEEDED: &str = "every run is seeded; `--rand-seed` repeats one";

#[rustfmt::skip]
const RUN: &[OptionSpec] = &[
    honoured("threads", Count, "Number of threads, which share the files.",
        |draft, text| count(text, 1..=65536).map(|value| draft.threads = value as u32)).default("1").alias(&["num-threads"]),
    honoured("events", Count, "Ends after this number of events of all threads, where an event is a request or the fsync of a file; 0: no limit.",
        |draft, text| count(text, 0..=i64::MAX as u64).map(|value| draft.events = value)).default("0").alias(&["max-requests"]),
    honoured("time", Seconds, "Ends after this time; 0: no limit.",
        |draft, text| seconds(text).map(|value| draft.time = value)).default("10").alias(&["max-time"]),
    honoured("warmup-time", Seconds, "Time to run before the measurement.",
        |draft, text| seconds(text).map(|value| draft.warmup = value)).default("0"),
    honoured("rate", Number, "Events per second of all threads together, at random times; 0: no limit.",
        |draft, text| number_within(text, 0.0..=1e12).map(|value| draft.rate = value)).default("0").alias(&["tx-rate"]),
    ignored("forced-shutdown", Text, "Time to wait for hanging requests at the end.", "requests in flight at the end are waited for; Ctrl-C ends a run that hangs").default("off"),
    ignored("thread-stack-size", Bytes, "Stack size of a thread.", "buffers are not on the stack, whose size is sufficient").default("64K"),
    ignored("thread-init-timeout", Seconds, "Time limit for starting threads.", "threads start together when all are ready; Ctrl-C ends the wait").default("30"),
    ignored("luajit-cmd", Text, "A command to LuaJIT.", NO_LUA),
    refused("config-file", Text, "A file of options.", "options are read from the command line only", "write its lines as options"),
    honoured("help", Switch, "Prints this help and exits.",
        |draft, text| switch(text).map(|value| draft.help = value)).default("off"),
    honoured("version", Switch, "Prints the program's version and exits.",
        |draft, text| switch(text).map(|value| draft.version = value)).default("off"),
    ignored("tx-jitter", Number, "Jitter of `--tx-rate`, in release 0.5.", "times are always random").default("0"),
];

#[rustfmt::skip]
const REPORT: &[OptionSpec] = &[
    honoured("report-interval", Seconds, "Prints a line at this interval; 0: never.",
        |draft, text| seconds(text).map(|value| draft.report_interval = value)).default("0"),
    refused("report-checkpoints", Text, "Prints a report at these times, and resets all counters.", "a trial has one report", "leave it out: each second is stored, and `--report-interval` prints during the run"),
    honoured("percentile", Percent, "Latency percentile to print; 0: none.",
        |draft, text| number_within(text, 0.0..=100.0).map(|value| draft.percentile = value)).default("95"),
    honoured("histogram", Switch, "Prints the histogram of latencies.",
        |draft, text| switch(text).map(|value| draft.histogram = value)).default("off"),
    ignored("debug", Switch, "Prints debug output.", "the trial's record contains the figures of each thread").default("off"),
    ignored("verbosity", Count, "Verbosity, 0 to 5.", "errors and the report are always printed").default("3"),
    ignored("init-rng", Switch, "Seeds the random numbers, in release 0.4.", SEEDED).default("off").alias(&["seed-rng", "rand-init"]),
];

const LAWS: [(&str, Law); 5] = [
    ("uniform", Law::Uniform),
    ("gaussian", Law::Gaussian),
    ("special", Law::Special),
    ("pareto", Law::Pareto),
    ("zipfian", Law::Zipfian),
];

#[rustfmt::skip]
const RANDOM: &[OptionSpec] = &[
    honoured("rand-type", Words(&["uniform", "gaussian", "special", "pareto", "zipfian"]), "Distribution of random offsets.",
        |draft, text| one_of(text, &LAWS).map(|value| draft.law = value)).default("uniform"),
    honoured("rand-seed", Count, "Seed of random offsets and contents; 0: the trial's own seed, which is recorded.",
        |draft, text| count(text, 0..=i64::MAX as u64).map(|value| draft.seed = value)).default("0"),
    honoured("rand-spec-iter", Count, "gaussian, special: number of uniform random numbers to average; the standard deviation is the region ÷ √(12 × this).",
        |draft, text| count(text, 1..=1_000_000).map(|value| draft.iterations = value as u32)).default("12"),
    honoured("rand-spec-pct", Percent, "special: percentage of the region, in its middle, that gets most requests.",
        |draft, text| number_within(text, 0.001..=100.0).map(|value| draft.special_percent = value)).default("1"),
    honoured("rand-spec-res", Percent, "special: percentage of requests in that part; the others are gaussian.",
        |draft, text| number_within(text, 0.0..=100.0).map(|value| draft.special_share = value)).default("75"),
    honoured("rand-pareto-h", Number, "pareto: a share h of the region gets a share 1 − h of the requests.",
        rand_pareto_h).default("0.2"),
    honoured("rand-zipfian-exp", Number, "zipfian: exponent; 0: uniform.",
        |draft, text| number_within(text, 0.0..=100.0).map(|value| draft.zipf_exponent = value)).default("0.8"),
];

fn rand_pareto_h(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    let h = number(text)?;
    if h <= 0.0 || h >= 1.0 {
        return Err(Problem::error(format!("`{text}` is not between 0 and 1")));
    }
    draft.pareto_h = h;
    Ok(())
}

const fn unused(name: &'static str) -> OptionSpec {
    let why = "fileio uses no database";
    ignored(name, Unit::Text, "For database tests.", why)
}

const DATABASES: &[OptionSpec] = &[
    unused("db-driver"),
    unused("db-ps-mode"),
    unused("db-debug"),
    unused("mysql-host"),
    unused("mysql-port"),
    unused("mysql-socket"),
    unused("mysql-user"),
    unused("mysql-password"),
    unused("mysql-db"),
    unused("mysql-ssl"),
    unused("mysql-ssl-cipher"),
    unused("mysql-compression"),
    unused("mysql-debug"),
    unused("mysql-ignore-errors"),
    unused("mysql-dry-run"),
    unused("pgsql-host"),
    unused("pgsql-port"),
    unused("pgsql-user"),
    unused("pgsql-password"),
    unused("pgsql-db"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_written_with_dashes() {
        let mut seen = BTreeSet::new();
        for name in OPTIONS.options().flat_map(OptionSpec::names) {
            assert!(seen.insert(name), "{name}");
            assert!(!name.contains('_'), "{name}");
        }
    }
}
