//! The options of a run and of its report.

use iodyno_options::{Unit::*, ignored, refused};

use super::{OptionSpec, honoured};
use crate::value::{count, number_within, seconds, switch};

const NO_LUA: &str = "nothing here is a Lua script";
const SEEDED: &str = "every run is seeded; `--rand-seed` repeats one";

#[rustfmt::skip]
pub(super) const OPTIONS: &[OptionSpec] = &[
    honoured("threads", Count, "Threads, which share the files.",
        |draft, text| count(text, 1..=65536).map(|value| draft.threads = value as u32)).default("1").alias(&["num-threads"]),
    honoured("events", Count, "Ends after so many events of all threads together, where an event is a request or the fsync of one file; 0: no such end.",
        |draft, text| count(text, 0..=i64::MAX as u64).map(|value| draft.events = value)).default("0").alias(&["max-requests"]),
    honoured("time", Seconds, "Ends after so long; 0: no such end.",
        |draft, text| seconds(text).map(|value| draft.time = value)).default("10").alias(&["max-time"]),
    honoured("warmup-time", Seconds, "Runs for so long before, which is not measured.",
        |draft, text| seconds(text).map(|value| draft.warmup = value)).default("0"),
    honoured("rate", Number, "Events a second of all threads together, at random instants; 0: as fast as they go.",
        |draft, text| number_within(text, 0.0..=1e12).map(|value| draft.rate = value)).default("0").alias(&["tx-rate"]),
    ignored("forced-shutdown", Text, "How long after the end a request that hangs is waited for.", "what is in flight at the end is waited for; Ctrl-C ends a run that hangs").default("off"),
    ignored("thread-stack-size", Bytes, "Stack of a thread.", "buffers lie elsewhere, and the stack is as large as it must be").default("64K"),
    ignored("thread-init-timeout", Seconds, "How long threads may take to begin.", "threads begin together, however long they take; Ctrl-C ends it").default("30"),
    ignored("luajit-cmd", Text, "A command to LuaJIT.", NO_LUA),
    refused("config-file", Text, "A file of options.", "options are read from the command line only", "write its lines as options"),
    honoured("help", Switch, "Prints this, and does nothing else.",
        |draft, text| switch(text).map(|value| draft.help = value)).default("off"),
    honoured("version", Switch, "Prints the program's version, and does nothing else.",
        |draft, text| switch(text).map(|value| draft.version = value)).default("off"),
    ignored("tx-jitter", Number, "How far instants of `--tx-rate` were scattered, in release 0.5.", "instants are random as it is").default("0"),
];

#[rustfmt::skip]
pub(super) const REPORT: &[OptionSpec] = &[
    honoured("report-interval", Seconds, "Prints a line every so often; 0: none.",
        |draft, text| seconds(text).map(|value| draft.report_interval = value)).default("0"),
    refused("report-checkpoints", Text, "Prints a report at these times, and counts from nothing again.", "a trial has one report, and the last checkpoint would cut off what came before", "leave it out; each second is in the store, and `--report-interval` prints as it goes"),
    honoured("percentile", Percent, "The percentile of latency that is printed; 0: none.",
        |draft, text| number_within(text, 0.0..=100.0).map(|value| draft.percentile = value)).default("95"),
    honoured("histogram", Switch, "Prints the latencies' histogram.",
        |draft, text| switch(text).map(|value| draft.histogram = value)).default("off"),
    ignored("debug", Switch, "Prints more.", "the trial's record has each thread's figures as it is").default("off"),
    ignored("verbosity", Count, "How much is printed, 0 to 5.", "errors are always told, and the report is always printed").default("3"),
    ignored("init-rng", Switch, "Seeded the random numbers, in release 0.4.", SEEDED).default("off").alias(&["seed-rng", "rand-init"]),
];
