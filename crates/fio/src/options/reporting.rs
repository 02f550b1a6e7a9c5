//! Options of logs, statistics and reports, and of where threads run.

use std::path::PathBuf;

use crate::draft::Draft;
use crate::option::{OptionSpec, Unit};
use crate::value::{Fault, Value};

const RECORDED: &str = "everything is always recorded; its cost is part of the result";
const ALWAYS_SHOWN: &str = "every latency is kept, and reports choose what they show";
const NO_HISTOGRAM_LOG: &str = "it only says more about `write_hist_log`, which is refused";
const SERIES: &str = "bandwidth and IOPS are kept for every second";

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::honoured(
        "write_bw_log",
        Unit::OptionalPath,
        "Writes a log of the bandwidth, `PREFIX_bw.N.log`.",
        |draft, value| {
            draft.job.logs.bandwidth = Some(prefix(value));
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "write_iops_log",
        Unit::OptionalPath,
        "Writes a log of the IOPS, `PREFIX_iops.N.log`.",
        |draft, value| {
            draft.job.logs.iops = Some(prefix(value));
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "write_lat_log",
        Unit::OptionalPath,
        "Writes logs of the latencies, `PREFIX_lat.N.log` and others.",
        |draft, value| {
            draft.job.logs.latency = Some(prefix(value));
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "log_avg_msec",
        Unit::Count,
        "Logs the mean over so many milliseconds; every op without it.",
        |draft, value| {
            draft.job.logs.window_ms = value.count_of(value.single()?, 0, 86_400_000)?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "log_window_value",
        Unit::Words(&["avg", "max", "0", "1"]),
        "Whether the window's mean or maximum is logged.",
        |draft, value| {
            let largest = value.choice(&[
                ("avg", Some(false)),
                ("0", Some(false)),
                ("max", Some(true)),
                ("1", Some(true)),
                ("both", None),
            ])?;
            draft.job.logs.max_value = largest.ok_or_else(|| {
                Fault::refusal("a log holds the mean or the maximum, not both")
                    .hint("write `avg` or `max`")
            })?;
            Ok(())
        },
    )
    .alias(&["log_max_value"])
    .default("avg"),
    OptionSpec::honoured(
        "log_offset",
        Unit::Boolean,
        "Logs each op's offset.",
        |draft, value| {
            draft.job.logs.offset = value.boolean()?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::ignored(
        "log_entries",
        Unit::Count,
        "Room for log entries.",
        "logs are written as they come",
    ),
    OptionSpec::refused(
        "write_hist_log",
        Unit::OptionalPath,
        "Writes a log of latency histograms.",
        "histograms are kept with the result, not in a log",
        "`write_lat_log`, or `--output-format=json+`",
    ),
    OptionSpec::ignored(
        "log_hist_msec",
        Unit::Count,
        "Time between two histograms.",
        NO_HISTOGRAM_LOG,
    ),
    OptionSpec::ignored(
        "log_hist_coarseness",
        Unit::Count,
        "Resolution of the histograms.",
        NO_HISTOGRAM_LOG,
    ),
    OptionSpec::differs(
        "log_prio",
        Unit::Boolean,
        "Logs each op's priority.",
        "all ops of a job have one priority, and the log's column is 0",
    )
    .neutral(&["0"]),
    OptionSpec::refused(
        "log_issue_time",
        Unit::Boolean,
        "Logs when each op was issued.",
        "logs have fio's five columns",
        "leaving it out",
    )
    .neutral(&["0"]),
    OptionSpec::refused(
        "per_job_logs",
        Unit::Boolean,
        "One log file for each clone.",
        "clones do not share a log",
        "leaving it out, and joining the files afterwards",
    )
    .neutral(&["1"]),
    OptionSpec::refused(
        "log_alternate_epoch",
        Unit::Boolean,
        "Logs time since the epoch.",
        "logs count from the start of the job",
        "the start time in the result",
    )
    .alias(&["log_unix_epoch"])
    .neutral(&["0"]),
    OptionSpec::ignored(
        "log_alternate_epoch_clock_id",
        Unit::Count,
        "The clock of that epoch.",
        "it only says more about `log_alternate_epoch`, which is refused",
    ),
    OptionSpec::ignored(
        "log_compression",
        Unit::Bytes,
        "Compresses logs in memory.",
        "logs are written as they come",
    ),
    OptionSpec::ignored(
        "log_compression_cpus",
        Unit::List,
        "CPUs that compress.",
        "logs are written as they come",
    ),
    OptionSpec::refused(
        "log_store_compressed",
        Unit::Boolean,
        "Writes logs compressed.",
        "logs are plain text",
        "compressing them afterwards",
    )
    .neutral(&["0"]),
    OptionSpec::honoured(
        "percentile_list",
        Unit::Text,
        "The percentiles shown, apart by `:`.",
        |draft, value| {
            let percentiles: Vec<f64> = value
                .string()?
                .split(':')
                .map(|token| match value.float_of(token)? {
                    number if number > 0.0 && number <= 100.0 => Ok(number),
                    _ => Err(value.at(
                        token,
                        Fault::error(format!("`{token}` is not a percentage above 0, up to 100")),
                    )),
                })
                .collect::<Result<_, _>>()?;
            draft.job.reporting.percentiles = percentiles;
            Ok(())
        },
    )
    .default("1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99"),
    OptionSpec::ignored(
        "clat_percentiles",
        Unit::Boolean,
        "Shows percentiles of completion latency.",
        ALWAYS_SHOWN,
    ),
    OptionSpec::ignored(
        "lat_percentiles",
        Unit::Boolean,
        "Shows percentiles of total latency.",
        ALWAYS_SHOWN,
    ),
    OptionSpec::ignored(
        "slat_percentiles",
        Unit::Boolean,
        "Shows percentiles of submission latency.",
        ALWAYS_SHOWN,
    ),
    OptionSpec::ignored(
        "significant_figures",
        Unit::Count,
        "Digits shown.",
        "three digits are shown, all are kept",
    ),
    OptionSpec::ignored(
        "bwavgtime",
        Unit::Milliseconds,
        "Time over which bandwidth is averaged.",
        SERIES,
    ),
    OptionSpec::ignored(
        "iopsavgtime",
        Unit::Milliseconds,
        "Time over which IOPS are averaged.",
        SERIES,
    ),
    OptionSpec::ignored(
        "gtod_reduce",
        Unit::Boolean,
        "Reads the clock less.",
        RECORDED,
    ),
    OptionSpec::ignored(
        "gtod_cpu",
        Unit::Count,
        "A CPU that keeps the time.",
        RECORDED,
    ),
    OptionSpec::ignored(
        "disable_lat",
        Unit::Boolean,
        "Keeps no total latency.",
        RECORDED,
    ),
    OptionSpec::ignored(
        "disable_clat",
        Unit::Boolean,
        "Keeps no completion latency.",
        RECORDED,
    ),
    OptionSpec::ignored(
        "disable_slat",
        Unit::Boolean,
        "Keeps no submission latency.",
        RECORDED,
    ),
    OptionSpec::ignored(
        "disable_bw_measurement",
        Unit::Boolean,
        "Keeps no bandwidth.",
        RECORDED,
    )
    .alias(&["disable_bw"]),
    OptionSpec::ignored(
        "disk_util",
        Unit::Boolean,
        "Shows the devices' use.",
        "it is always part of the result",
    ),
    OptionSpec::refused(
        "stats",
        Unit::Boolean,
        "Whether the job is part of the result.",
        "a job that loads the target cannot be left out",
        "reading the other jobs' lines",
    )
    .neutral(&["1"]),
    OptionSpec::refused(
        "unified_rw_reporting",
        Unit::Words(&["none", "mixed", "both", "0", "1", "2"]),
        "Reads and writes as one.",
        "reads and writes have latencies of their own",
        "adding their figures",
    )
    .neutral(&["none", "0"]),
    OptionSpec::refused(
        "block_error_percentiles",
        Unit::Boolean,
        "Shows how often blocks were trimmed before they failed.",
        "wear of blocks is not followed",
        "leaving it out",
    )
    .neutral(&["0"]),
    OptionSpec::honoured(
        "cpus_allowed",
        Unit::List,
        "CPUs the clones run on.",
        |draft, value| {
            draft.job.placement.cpus = value.number_list(value.string()?, draft.cpus)?;
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "cpumask",
        Unit::Count,
        "The same as a bit mask.",
        |draft, value| {
            let mask = value.bytes()?;
            let cpus: Vec<u32> = (0..64).filter(|bit| mask >> bit & 1 == 1).collect();
            match cpus.last() {
                Some(last) if *last < draft.cpus => {
                    draft.job.placement.cpus = cpus;
                    Ok(())
                }
                Some(last) => Err(Fault::error(format!(
                    "there is no CPU {last}: this host has {}",
                    draft.cpus
                ))),
                None => Err(Fault::error("the mask is empty")),
            }
        },
    ),
    OptionSpec::honoured(
        "cpus_allowed_policy",
        Unit::Words(&["shared", "split"]),
        "Whether each clone gets one of the CPUs, or all share them.",
        |draft, value| {
            draft.job.placement.split = value.choice(&[("shared", false), ("split", true)])?;
            Ok(())
        },
    )
    .default("shared"),
    OptionSpec::honoured(
        "numa_cpu_nodes",
        Unit::List,
        "NUMA nodes whose CPUs are used, or `all`.",
        |draft, value| {
            draft.job.placement.numa_cpu_nodes = nodes(value, value.string()?)?;
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "numa_mem_policy",
        Unit::Words(&[
            "default",
            "local",
            "bind:nodes",
            "interleave:nodes",
            "prefer:node",
        ]),
        "NUMA nodes the buffers come from.",
        |draft, value| {
            let (takes_nodes, after) = value.word(&[
                ("default", false),
                ("local", false),
                ("bind", true),
                ("interleave", true),
                ("prefer", true),
            ])?;
            draft.job.placement.numa_memory_nodes = match (takes_nodes, after) {
                (false, None) => Vec::new(),
                (true, Some(list)) => nodes(value, list)?,
                (true, None) if value.text == "interleave" => Vec::new(),
                (true, None) => {
                    return Err(Fault::error("the nodes are missing")
                        .hint(format!("write `{}:0`", value.text)));
                }
                (false, Some(_)) => return Err(Fault::error("this policy takes no nodes")),
            };
            if takes_nodes && !value.text.starts_with("bind") {
                value.remark(
                    Fault::warning("the buffers are bound to these nodes")
                        .hint("write `bind:` to say so"),
                );
            }
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "nice",
        Unit::Number,
        "The scheduler's niceness, -20 to 19.",
        |draft, value| {
            draft.job.placement.nice = match value.string()?.parse::<i32>() {
                Ok(nice @ -20..=19) => nice,
                _ => {
                    return Err(Fault::error(format!(
                        "`{}` is not a niceness from -20 to 19",
                        value.text
                    )));
                }
            };
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "prio",
        Unit::Count,
        "I/O priority within its class, 0 (first) to 7.",
        |draft, value| {
            draft.io_level = Some(value.count(0, 7)? as u8);
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "prioclass",
        Unit::Count,
        "I/O priority class: 1 real time, 2 best effort, 3 idle.",
        |draft, value| {
            draft.io_class = Some(value.count(0, 3)? as u8);
            Ok(())
        },
    ),
    OptionSpec::refused(
        "priohint",
        Unit::Count,
        "A hint to the device with the priority.",
        "priority hints are not given",
        "leaving it out",
    )
    .neutral(&["0"]),
];

/// The prefix of a log; without one the job's name, which is not known yet.
fn prefix(value: &Value) -> PathBuf {
    PathBuf::from(value.text)
}

fn nodes(value: &Value, list: &str) -> Result<Vec<u32>, Fault> {
    match list {
        "all" => Ok(Vec::new()),
        _ => value.number_list(list, 1024),
    }
}

/// Log prefixes without a name get the job's.
pub(crate) fn name_logs(draft: &mut Draft, job: &str) {
    let logs = &mut draft.job.logs;
    for log in [&mut logs.bandwidth, &mut logs.iops, &mut logs.latency] {
        if log.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            *log = Some(PathBuf::from(job));
        }
    }
}
