//! Options of logs, statistics, reports and thread placement.

use std::path::PathBuf;

use iodyno_options::{Problem, Unit::*, differs, ignored, refused};

use crate::draft::Draft;
use crate::options::{OptionSpec, honoured};
use crate::value::Value;

const RECORDED: &str = "everything is always recorded; its cost is part of the result";
const ALWAYS_SHOWN: &str =
    "every latency is recorded, and reports show all percentiles that they need";
const NO_HISTOGRAM_LOG: &str = "it only modifies `write_hist_log`, which is refused";
const SERIES: &str = "bandwidth and IOPS are recorded every second";

#[rustfmt::skip]
pub(super) const OPTIONS: &[OptionSpec] = &[
    honoured("write_bw_log", OptionalPath, "Writes a bandwidth log, `PREFIX_bw.N.log`.", write_bw_log),
    honoured("write_iops_log", OptionalPath, "Writes an IOPS log, `PREFIX_iops.N.log`.", write_iops_log),
    honoured("write_lat_log", OptionalPath, "Writes logs of the latencies, `PREFIX_lat.N.log` and others.", write_lat_log),
    honoured("log_avg_msec", Count, "Averaging window in milliseconds; default: every op is logged.",
        |draft, value| value.count_of(value.single()?, 0, 86_400_000).map(|it| draft.job.logs.window_ms = it)).default("0"),
    honoured("log_window_value", Words(&["avg", "max", "0", "1"]), "Whether the mean or the maximum of a window is logged.",
        log_window_value).alias(&["log_max_value"]).default("avg"),
    honoured("log_offset", Boolean, "Logs the offset of each op.",
        |draft, value| value.boolean().map(|it| draft.job.logs.offset = it)).default("0"),
    ignored("log_entries", Count, "Number of log entries to reserve.", "log entries are written immediately"),
    refused("write_hist_log", OptionalPath, "Writes a log of latency histograms.", "histograms are part of the result", "use `write_lat_log`, or `--output-format=json+`"),
    ignored("log_hist_msec", Count, "Interval of the histograms.", NO_HISTOGRAM_LOG),
    ignored("log_hist_coarseness", Count, "Resolution of the histograms.", NO_HISTOGRAM_LOG),
    differs("log_prio", Boolean, "Logs the priority of each op.", "all ops of a job have the same priority, and the column in the log is 0").neutral(&["0"]),
    refused("log_issue_time", Boolean, "Logs when each op was issued.", "logs have only fio's first five columns", "leave it out").neutral(&["0"]),
    refused("per_job_logs", Boolean, "One log file for each clone.", "each clone has its own log", "leave it out, and join the files afterwards").neutral(&["1"]),
    honoured("log_alternate_epoch", Boolean, "Times in logs are those of a clock, in milliseconds since its epoch.",
        |draft, value| value.boolean().map(|it| draft.log_epoch = it)).alias(&["log_unix_epoch"]).default("0"),
    honoured("log_alternate_epoch_clock_id", Count, "That clock: its number for `clock_gettime`.",
        log_clock).default("0"),
    ignored("log_compression", Bytes, "Compresses logs in memory.", "log entries are written immediately"),
    ignored("log_compression_cpus", Numbers, "CPUs that compress.", "log entries are written immediately"),
    refused("log_store_compressed", Boolean, "Writes logs compressed.", "logs are plain text", "compress them afterwards").neutral(&["0"]),
    honoured("percentile_list", Forms(&["50:99:99.9"]), "Percentiles to show.",
        percentile_list).default("1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99"),
    ignored("clat_percentiles", Boolean, "Shows percentiles of completion latency.", ALWAYS_SHOWN),
    ignored("lat_percentiles", Boolean, "Shows percentiles of total latency.", ALWAYS_SHOWN),
    ignored("slat_percentiles", Boolean, "Shows percentiles of submission latency.", ALWAYS_SHOWN),
    ignored("significant_figures", Count, "Number of digits shown.", "three digits are shown, all are stored"),
    ignored("bwavgtime", Milliseconds, "Averaging time of the bandwidth.", SERIES),
    ignored("iopsavgtime", Milliseconds, "Averaging time of the IOPS.", SERIES),
    ignored("gtod_reduce", Boolean, "Reads the clock less often.", RECORDED),
    ignored("gtod_cpu", Count, "A CPU that reads the clock for all threads.", RECORDED),
    ignored("disable_lat", Boolean, "Does not record total latency.", RECORDED),
    ignored("disable_clat", Boolean, "Does not record completion latency.", RECORDED),
    ignored("disable_slat", Boolean, "Does not record submission latency.", RECORDED),
    ignored("disable_bw_measurement", Boolean, "Does not record bandwidth.", RECORDED).alias(&["disable_bw"]),
    ignored("disk_util", Boolean, "Shows the use of the devices.", "it is always part of the result"),
    honoured("stats", Boolean, "Whether fio's output formats contain the job; other results always contain it.",
        |draft, value| value.boolean().map(|it| draft.job.reporting.hidden = !it)).default("1"),
    refused("unified_rw_reporting", Words(&["none", "mixed", "both", "0", "1", "2"]), "Reports reads and writes as one.", "reads and writes have separate latencies", "add their figures").neutral(&["none", "0"]),
    refused("block_error_percentiles", Boolean, "Shows how often blocks were trimmed before they failed.", "wear of blocks is not recorded", "leave it out").neutral(&["0"]),
    honoured("cpus_allowed", Numbers, "Allowed CPUs of the clones.",
        |draft, value| value.number_list(value.string()?, draft.cpus).map(|it| draft.job.placement.cpus = it)),
    honoured("cpumask", Count, "The same as a bit mask.", cpumask),
    honoured("cpus_allowed_policy", Words(&["shared", "split"]), "Whether each clone gets one of the CPUs, or all share them.",
        |draft, value| value.choice(&[("shared", false), ("split", true)]).map(|it| draft.job.placement.split = it)).default("shared"),
    honoured("numa_cpu_nodes", Numbers, "NUMA nodes whose CPUs are allowed, or `all`.",
        |draft, value| nodes(value, value.string()?).map(|it| draft.job.placement.numa_cpu_nodes = it)),
    honoured("numa_mem_policy", Words(&["default", "local", "bind:nodes", "interleave:nodes", "prefer:node"]), "NUMA nodes of the buffers' memory.",
        numa_mem_policy),
    honoured("nice", Number, "Nice value, -20 to 19.", nice).default("0"),
    honoured("prio", Count, "I/O priority within its class, 0 (highest) to 7.",
        |draft, value| value.count(0, 7).map(|it| draft.io_level = Some(it as u8))),
    honoured("prioclass", Count, "I/O priority class: 1 real time, 2 best effort, 3 idle.",
        |draft, value| value.count(0, 3).map(|it| draft.io_class = Some(it as u8))),
    refused("priohint", Count, "A hint to the device with the priority.", "priority hints are not supported", "leave it out").neutral(&["0"]),
];

fn write_bw_log(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    draft.job.logs.bandwidth = Some(prefix(value));
    Ok(())
}

fn write_iops_log(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    draft.job.logs.iops = Some(prefix(value));
    Ok(())
}

fn write_lat_log(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    draft.job.logs.latency = Some(prefix(value));
    Ok(())
}

fn log_window_value(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let largest = value.choice(&[
        ("avg", Some(false)),
        ("0", Some(false)),
        ("max", Some(true)),
        ("1", Some(true)),
        ("both", None),
    ])?;
    draft.job.logs.max_value = largest.ok_or_else(|| {
        Problem::refusal("a log holds the mean or the maximum, not both")
            .hint("write `avg` or `max`")
    })?;
    Ok(())
}

fn log_clock(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    // Real time, monotonic, raw, both coarse ones, time since boot.
    const CLOCKS: [u32; 6] = [0, 1, 4, 5, 6, 7];
    let clock = value.count(0, u32::MAX)?;
    if !CLOCKS.contains(&clock) {
        return Err(
            Problem::error(format!("there is no clock {clock} with an epoch"))
                .hint("write 0 (real time), 1 (monotonic), 4, 5, 6 or 7 (since boot)"),
        );
    }
    draft.log_clock = clock;
    Ok(())
}

fn percentile_list(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let percentiles: Vec<f64> = value
        .string()?
        .split(':')
        .map(|token| match value.float_of(token)? {
            number if number > 0.0 && number <= 100.0 => Ok(number),
            _ => Err(value.at(
                token,
                Problem::error(format!("`{token}` is not a percentage above 0, up to 100")),
            )),
        })
        .collect::<Result<_, _>>()?;
    draft.job.reporting.percentiles = percentiles;
    Ok(())
}

fn cpumask(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let mask = value.bytes()?;
    let cpus: Vec<u32> = (0..64).filter(|bit| mask >> bit & 1 == 1).collect();
    match cpus.last() {
        Some(last) if *last < draft.cpus => {
            draft.job.placement.cpus = cpus;
            Ok(())
        }
        Some(last) => Err(Problem::error(format!(
            "there is no CPU {last}: this host has {}",
            draft.cpus
        ))),
        None => Err(Problem::error("the mask is empty")),
    }
}

fn numa_mem_policy(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
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
            return Err(
                Problem::error("the nodes are missing").hint(format!("write `{}:0`", value.text))
            );
        }
        (false, Some(_)) => return Err(Problem::error("this policy takes no nodes")),
    };
    if takes_nodes && !value.text.starts_with("bind") {
        value.remark(
            Problem::warning("the buffers are bound to these nodes")
                .hint("write `bind:` to say so"),
        );
    }
    Ok(())
}

fn nice(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    draft.job.placement.nice = match value.string()?.parse::<i32>() {
        Ok(nice @ -20..=19) => nice,
        _ => {
            return Err(Problem::error(format!(
                "`{}` is not a niceness from -20 to 19",
                value.text
            )));
        }
    };
    Ok(())
}

/// The prefix of a log; by default the job's name, which is not known yet.
fn prefix(value: &Value) -> PathBuf {
    PathBuf::from(value.text)
}

fn nodes(value: &Value, list: &str) -> Result<Vec<u32>, Problem> {
    match list {
        "all" => Ok(Vec::new()),
        _ => value.number_list(list, 1024),
    }
}

/// Sets the prefix of logs without a name to the job's name.
pub(crate) fn name_logs(draft: &mut Draft, job: &str) {
    let logs = &mut draft.job.logs;
    for log in [&mut logs.bandwidth, &mut logs.iops, &mut logs.latency] {
        if log.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            *log = Some(PathBuf::from(job));
        }
    }
}
