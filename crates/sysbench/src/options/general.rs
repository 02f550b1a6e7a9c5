//! The options of a run and of its report.

use crate::option::{OptionSpec, Unit};
use crate::value::{count, number_within, seconds, switch};

const NO_LUA: &str = "nothing here is a Lua script";
const SEEDED: &str = "every run is seeded; `--rand-seed` repeats one";

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::honoured(
        "threads",
        Unit::Count,
        "1",
        "Threads, which share the files.",
        |draft, text| count(text, 1..=65536).map(|value| draft.threads = value as u32),
    )
    .once(&["num-threads"]),
    OptionSpec::honoured(
        "events",
        Unit::Count,
        "0",
        "Ends after so many events of all threads together, where an event is a request or the fsync of one file; 0: no \
         such end.",
        |draft, text| count(text, 0..=i64::MAX as u64).map(|value| draft.events = value),
    )
    .once(&["max-requests"]),
    OptionSpec::honoured(
        "time",
        Unit::Seconds,
        "10",
        "Ends after so long; 0: no such end.",
        |draft, text| seconds(text).map(|value| draft.time = value),
    )
    .once(&["max-time"]),
    OptionSpec::honoured(
        "warmup-time",
        Unit::Seconds,
        "0",
        "Runs for so long before, which is not measured.",
        |draft, text| seconds(text).map(|value| draft.warmup = value),
    ),
    OptionSpec::honoured(
        "rate",
        Unit::Number,
        "0",
        "Events a second of all threads together, at random instants; 0: as fast as they go.",
        |draft, text| number_within(text, 0.0..=1e12).map(|value| draft.rate = value),
    )
    .once(&["tx-rate"]),
    OptionSpec::ignored(
        "forced-shutdown",
        Unit::Text,
        "off",
        "How long after the end a request that hangs is waited for.",
        "what is in flight at the end is waited for; Ctrl-C ends a run that hangs",
    ),
    OptionSpec::ignored(
        "thread-stack-size",
        Unit::Size,
        "64K",
        "Stack of a thread.",
        "buffers lie elsewhere, and the stack is as large as it must be",
    ),
    OptionSpec::ignored(
        "thread-init-timeout",
        Unit::Seconds,
        "30",
        "How long threads may take to begin.",
        "threads begin together, however long they take; Ctrl-C ends it",
    ),
    OptionSpec::ignored("luajit-cmd", Unit::Text, "", "A command to LuaJIT.", NO_LUA),
    OptionSpec::refused(
        "config-file",
        Unit::Text,
        "A file of options.",
        "options are read from the command line only",
        "write its lines as options",
    ),
    OptionSpec::honoured(
        "help",
        Unit::Switch,
        "off",
        "Prints this, and does nothing else.",
        |draft, text| switch(text).map(|value| draft.help = value),
    ),
    OptionSpec::honoured(
        "version",
        Unit::Switch,
        "off",
        "Prints the program's version, and does nothing else.",
        |draft, text| switch(text).map(|value| draft.version = value),
    ),
    OptionSpec::ignored(
        "tx-jitter",
        Unit::Number,
        "0",
        "How far instants of `--tx-rate` were scattered, in release 0.5.",
        "instants are random as it is",
    ),
];

pub(super) const REPORT: &[OptionSpec] = &[
    OptionSpec::honoured(
        "report-interval",
        Unit::Seconds,
        "0",
        "Prints a line every so often; 0: none.",
        |draft, text| seconds(text).map(|value| draft.report_interval = value),
    ),
    OptionSpec::refused(
        "report-checkpoints",
        Unit::Text,
        "Prints a report at these times, and counts from nothing again.",
        "a trial has one report, and the last checkpoint would cut off what came before",
        "leave it out; each second is in the store, and `--report-interval` prints as it goes",
    ),
    OptionSpec::honoured(
        "percentile",
        Unit::Percent,
        "95",
        "The percentile of latency that is printed; 0: none.",
        |draft, text| number_within(text, 0.0..=100.0).map(|value| draft.percentile = value),
    ),
    OptionSpec::honoured(
        "histogram",
        Unit::Switch,
        "off",
        "Prints the latencies' histogram.",
        |draft, text| switch(text).map(|value| draft.histogram = value),
    ),
    OptionSpec::ignored(
        "debug",
        Unit::Switch,
        "off",
        "Prints more.",
        "the trial's record has each thread's figures as it is",
    ),
    OptionSpec::ignored(
        "verbosity",
        Unit::Count,
        "3",
        "How much is printed, 0 to 5.",
        "errors are always told, and the report is always printed",
    ),
    OptionSpec::ignored(
        "init-rng",
        Unit::Switch,
        "off",
        "Seeded the random numbers, in release 0.4.",
        SEEDED,
    )
    .once(&["seed-rng", "rand-init"]),
];
