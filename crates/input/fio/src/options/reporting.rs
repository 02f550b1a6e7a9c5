//! Options of logs, statistics, reports and thread placement.

use std::path::PathBuf;

use iodyno_model::{IoPriority, LeftOut, MemoryPolicy, UnifiedReporting};
use iodyno_options::{Problem, Unit::*, ignored, refused};

use crate::draft::Draft;
use crate::options::{OptionSpec, honoured};
use crate::value::Value;

const RECORDED: &str = "everything is always recorded; its cost is part of the result";
const WRITTEN_AT_ONCE: &str = "log entries are written immediately";
const SERIES: &str = "bandwidth and IOPS are recorded every second";

#[rustfmt::skip]
pub(super) const OPTIONS: &[OptionSpec] = &[
    honoured("write_bw_log", OptionalPath, "Writes a bandwidth log, `PREFIX_bw.N.log`.", write_bw_log),
    honoured("write_iops_log", OptionalPath, "Writes an IOPS log, `PREFIX_iops.N.log`.", write_iops_log),
    honoured("write_lat_log", OptionalPath, "Writes logs of the latencies, `PREFIX_lat.N.log` and others.", write_lat_log),
    honoured("write_hist_log", OptionalPath, "Writes a log of histograms of completion latency, `PREFIX_clat_hist.N.log`, every `log_hist_msec`.", write_hist_log),
    honoured("log_avg_msec", Count, "Averaging window in milliseconds; default: every op is logged.",
        |draft, value| value.count_of(value.single()?, 0, 86_400_000).map(|it| draft.job.logs.window_ms = it)).default("0"),
    honoured("log_window_value", Words(&["avg", "max", "both", "0", "1"]), "Whether the mean or the maximum of a window is logged, or both.",
        log_window_value).alias(&["log_max_value"]).default("avg"),
    honoured("log_offset", Boolean, "Logs the offset of each op.",
        |draft, value| value.boolean().map(|it| draft.job.logs.offset = it)).default("0"),
    ignored("log_entries", Count, "Number of log entries to reserve.", WRITTEN_AT_ONCE),
    honoured("log_hist_msec", Count, "Interval of the histograms in milliseconds.",
        |draft, value| value.count_of(value.single()?, 0, 86_400_000).map(|it| draft.job.logs.histogram_ms = it)).default("0"),
    honoured("log_hist_coarseness", Count, "Logged histograms have 1856 bins, or 2^N times fewer, N up to 6.",
        |draft, value| value.count(0, 6).map(|it| draft.job.logs.coarseness = it)).default("0"),
    honoured("log_prio", Boolean, "Logs the priority of each op as a hexadecimal number, not only whether it is real time.",
        |draft, value| value.boolean().map(|it| draft.job.logs.priority = it)).default("0"),
    honoured("log_issue_time", Boolean, "Logs when each op was issued, in nanoseconds; with `write_lat_log` and `log_offset=1`.",
        |draft, value| value.boolean().map(|it| draft.job.logs.issue_time = it)).default("0"),
    honoured("per_job_logs", Boolean, "Whether each clone has its own log; with 0 all append to `PREFIX_bw.log`, which keeps its content.",
        |draft, value| value.boolean().map(|it| draft.job.logs.shared = !it)).default("1"),
    honoured("log_alternate_epoch", Boolean, "Times in logs are those of a clock, in milliseconds since its epoch.",
        |draft, value| value.boolean().map(|it| draft.log_epoch = it)).alias(&["log_unix_epoch"]).default("0"),
    honoured("log_alternate_epoch_clock_id", Count, "That clock: its number for `clock_gettime`.",
        log_clock).default("0"),
    ignored("log_compression", Bytes, "Compresses logs in memory.", WRITTEN_AT_ONCE),
    ignored("log_compression_cpus", Numbers, "CPUs that compress.", WRITTEN_AT_ONCE),
    honoured("log_store_compressed", Boolean, "Writes logs compressed, with `.fz` after their names; `--inflate-log` prints one.",
        |draft, value| value.boolean().map(|it| draft.job.logs.compressed = it)).default("0"),
    honoured("percentile_list", Forms(&["50:99:99.9"]), "Percentiles to show.",
        percentile_list).default("1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99"),
    honoured("clat_percentiles", Boolean, "Percentiles of completion latency in fio's formats.",
        |draft, value| value.boolean().map(|it| draft.job.reporting.percentiles_of.completion = it)).default("1"),
    honoured("lat_percentiles", Boolean, "Percentiles of total latency in fio's formats.",
        |draft, value| value.boolean().map(|it| draft.job.reporting.percentiles_of.total = it)).default("0"),
    honoured("slat_percentiles", Boolean, "Percentiles of submission latency in fio's formats. With io_uring it is measured only on request, by a system call more for each batch.",
        |draft, value| value.boolean().map(|it| draft.job.reporting.percentiles_of.submission = it)).default("0"),
    honoured("significant_figures", Count, "Number of digits in `normal` output, 1 to 10.",
        |draft, value| value.count(1, 10).map(|it| draft.job.reporting.digits = it)).default("4"),
    ignored("bwavgtime", Milliseconds, "Averaging time of the bandwidth.", SERIES),
    ignored("iopsavgtime", Milliseconds, "Averaging time of the IOPS.", SERIES),
    honoured("gtod_reduce", Boolean, "The same as `disable_lat`, `disable_clat` and `disable_slat`; everything is recorded.", gtod_reduce).default("0"),
    ignored("gtod_cpu", Count, "A CPU that reads the clock for all threads.", RECORDED),
    honoured("disable_lat", Boolean, "`write_lat_log` writes no log of total latency, which is recorded.",
        |draft, value| value.boolean().map(|it| draft.job.logs.left_out.total = it)).default("0"),
    honoured("disable_clat", Boolean, "`write_lat_log` writes no log of completion latency, which is recorded.",
        |draft, value| value.boolean().map(|it| draft.job.logs.left_out.completion = it)).default("0"),
    honoured("disable_slat", Boolean, "`write_lat_log` writes no log of submission latency. 0: io_uring measures it, too, as for `write_lat_log` and `slat_percentiles=1`.",
        disable_slat),
    ignored("disable_bw_measurement", Boolean, "Does not record bandwidth.", RECORDED).alias(&["disable_bw"]),
    ignored("disk_util", Boolean, "Shows the use of the devices.", "it is always part of the result"),
    honoured("stats", Boolean, "Whether fio's output formats contain the job; other results always contain it.",
        |draft, value| value.boolean().map(|it| draft.job.reporting.hidden = !it)).default("1"),
    honoured("unified_rw_reporting", Words(&["none", "mixed", "both", "0", "1", "2"]), "fio's formats contain the sum of reads, writes and trims as `mixed`: in place of them, or (`both`) beside them.",
        unified).default("none"),
    refused("block_error_percentiles", Boolean, "Shows how often blocks were trimmed before they failed.", "wear of blocks is not recorded", "leave it out").neutral(&["0"]),
    honoured("cpus_allowed", Numbers, "Allowed CPUs of the clones.",
        |draft, value| value.number_list(value.string()?, draft.cpus).map(|it| draft.job.placement.cpus = it)).sets(&["placement.cpus"]),
    honoured("cpumask", Count, "The same as a bit mask.", cpumask),
    honoured("cpus_allowed_policy", Words(&["shared", "split"]), "Whether each clone gets one of the CPUs, or all share them.",
        |draft, value| value.choice(&[("shared", false), ("split", true)]).map(|it| draft.job.placement.split = it)).default("shared").sets(&["placement.split"]),
    honoured("numa_cpu_nodes", Numbers, "NUMA nodes whose CPUs are allowed, or `all`.",
        |draft, value| nodes(value, value.string()?).map(|it| draft.job.placement.numa_cpu_nodes = it)).sets(&["placement.numa_cpu_nodes"]),
    honoured("numa_mem_policy", Words(&["default", "local", "bind:nodes", "interleave:nodes", "prefer:node"]), "NUMA nodes of the buffers' memory: only from these, from each in turn, or from one while it has memory.",
        numa_mem_policy).sets(&["placement.numa_memory_nodes", "placement.numa_memory_policy"]),
    honoured("nice", Number, "Nice value, -20 to 19.", nice).default("0").sets(&["placement.nice"]),
    honoured("prio", Count, "I/O priority within its class, 0 (highest) to 7.",
        |draft, value| value.count(0, 7).map(|it| draft.io_level = Some(it as u8))),
    honoured("prioclass", Count, "I/O priority class: 1 real time, 2 best effort, 3 idle.",
        |draft, value| value.count(0, 3).map(|it| draft.io_class = Some(it as u8))).sets(&["placement.io_priority"]),
    honoured("priohint", Count, "Hint to the device that is part of the priority (Linux 6.6): 1 to 7 ask for a command duration limit.",
        |draft, value| value.count(0, MAX_HINT).map(|it| draft.job.placement.io_hint = it as u16)).default("0").sets(&["placement.io_hint"]),
    honoured("cmdprio_percentage", Percent, "libaio, io_uring: percentage of ops with a priority of their own; a comma-separated list is for reads and writes.",
        |draft, value| value.spread(&mut draft.op_priorities.percent, |token| value.count_of(token, 0, 100).map(|it| it as u32))).default("0").sets(&["priorities"]),
    honoured("cmdprio_bssplit", Forms(&["64k/50", "64k/25/1/0:64k/75/3/2"]), "The same by block size: `size/percentage`, or with `/class/level` or `/class/level/hint`.",
        cmdprio_bssplit),
    honoured("cmdprio_class", Count, "Priority class of those ops.",
        |draft, value| value.spread(&mut draft.op_priorities.class, |token| value.count_of(token, 0, 3).map(|it| it as u8))).default("1"),
    honoured("cmdprio", Count, "Their priority within the class, 0 (highest) to 7.",
        |draft, value| value.spread(&mut draft.op_priorities.level, |token| value.count_of(token, 0, 7).map(|it| it as u8))).default("0"),
    honoured("cmdprio_hint", Count, "Their hint to the device.",
        |draft, value| value.spread(&mut draft.op_priorities.hint, |token| value.count_of(token, 0, MAX_HINT.into()).map(|it| it as u16))).default("0"),
];

const MAX_HINT: u32 = IoPriority::MAX_HINT as u32;

/// The shares of each direction. A share without a priority has that of `cmdprio_class` and `cmdprio`.
fn cmdprio_bssplit(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let mut split = draft.op_priorities.split.clone();
    value.spread(&mut split, |token| {
        let mut shares = Vec::new();
        for part in token.split(':').filter(|part| !part.trim().is_empty()) {
            let fields: Vec<&str> = part.split('/').map(str::trim).collect();
            let count = |place: usize, most: u32| match fields.get(place).copied() {
                None | Some("") => Ok(0),
                Some(field) => value.count_of(field, 0, most.into()),
            };
            if !matches!(fields.len(), 1 | 2 | 4 | 5) {
                let fault = Problem::error(format!("`{part}` is not a share"));
                return Err(value.at(
                    part,
                    fault.hint("write `size/percentage`, or `size/percentage/class/level`"),
                ));
            }
            let own = (fields.len() >= 4).then_some(IoPriority {
                class: count(2, 3)? as u8,
                level: count(3, 7)? as u8,
                hint: count(4, MAX_HINT)? as u16,
            });
            let block = value.count_of(fields[0], 1, 1 << 40)?;
            shares.push((block, count(1, 100)? as u32, own));
        }
        for (block, ..) in &shares {
            let same = shares.iter().filter(|share| share.0 == *block);
            let percent: u32 = same.map(|share| share.1).sum();
            if percent > 100 {
                let message =
                    format!("the shares of blocks of {block} bytes add up to {percent} %");
                return Err(value.at(
                    token,
                    Problem::error(message).hint("lower them to 100 % at most"),
                ));
            }
        }
        Ok(shares)
    })?;
    draft.op_priorities.split = split;
    Ok(())
}

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

fn write_hist_log(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    draft.job.logs.histogram = Some(prefix(value));
    Ok(())
}

fn disable_slat(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let disabled = value.boolean()?;
    draft.job.logs.left_out.submission = disabled;
    draft.measure_submission = !disabled;
    Ok(())
}

fn gtod_reduce(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let reduced = value.boolean()?;
    draft.job.logs.left_out = LeftOut {
        submission: reduced,
        completion: reduced,
        total: reduced,
    };
    Ok(())
}

fn log_window_value(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let logs = &mut draft.job.logs;
    (logs.max_value, logs.both_values) = value.choice(&[
        ("avg", (false, false)),
        ("0", (false, false)),
        ("max", (true, false)),
        ("1", (true, false)),
        ("both", (false, true)),
    ])?;
    Ok(())
}

fn unified(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    draft.job.reporting.unified = value.choice(&[
        ("none", UnifiedReporting::None),
        ("0", UnifiedReporting::None),
        ("mixed", UnifiedReporting::Mixed),
        ("1", UnifiedReporting::Mixed),
        ("both", UnifiedReporting::Both),
        ("2", UnifiedReporting::Both),
    ])?;
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
    let (policy, after) = value.word(&[
        ("default", None),
        ("local", None),
        ("bind", Some(MemoryPolicy::Bind)),
        ("interleave", Some(MemoryPolicy::Interleave)),
        ("prefer", Some(MemoryPolicy::Prefer)),
    ])?;
    let takes_nodes = policy.is_some();
    draft.job.placement.numa_memory_policy = policy.unwrap_or_default();
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

/// Sets the prefix of unnamed logs to the job's name.
pub(crate) fn name_logs(draft: &mut Draft, job: &str) {
    let logs = &mut draft.job.logs;
    let prefixes = [
        &mut logs.bandwidth,
        &mut logs.iops,
        &mut logs.latency,
        &mut logs.histogram,
    ];
    for log in prefixes {
        if log.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            *log = Some(PathBuf::from(job));
        }
    }
}
