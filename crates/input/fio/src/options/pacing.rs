//! Options of pacing, durability and failed ops.

use iodyno_model::errno::EILSEQ;
use iodyno_model::{
    Arrival, DirectionRate, PerDirection, RangeSync, closest, errno_named, errno_names,
};
use iodyno_options::{Problem, Unit::*, ignored, refused};

use super::general::out_of_range;
use crate::draft::Draft;
use crate::number::TimeUnit;
use crate::options::{OptionSpec, honoured};
use crate::value::Value;

#[rustfmt::skip]
pub(super) const OPTIONS: &[OptionSpec] = &[
    honoured("rate", Bytes, "Bytes per second of each clone; a comma-separated list is for read, write, trim.",
        |draft, value| rates(draft, value, |rate, number| rate.bytes_per_s = number)),
    honoured("rate_min", Bytes, "Minimum bytes per second over a `rate_cycle`; below it, the job fails. The first 2 s are not checked.",
        |draft, value| rates(draft, value, |rate, number| rate.least_bytes_per_s = number)).alias(&["ratemin"]).sets(&["pacing.rates.read.least_bytes_per_s", "pacing.rates.write.least_bytes_per_s", "pacing.rates.trim.least_bytes_per_s"]),
    honoured("rate_iops", Count, "Ops per second of each clone; a comma-separated list is for read, write, trim. With `bsrange`, those of the smallest block.",
        |draft, value| rates(draft, value, |rate, number| rate.iops = number as f64)),
    honoured("rate_iops_min", Count, "Minimum ops per second over a `rate_cycle`; below it, the job fails. The first 2 s are not checked.",
        |draft, value| rates(draft, value, |rate, number| rate.least_iops = number as f64)).sets(&["pacing.rates.read.least_iops", "pacing.rates.write.least_iops", "pacing.rates.trim.least_iops"]),
    honoured("rate_process", Words(&["linear", "poisson"]), "Whether ops are due at constant or at random intervals.",
        rate_process).default("linear"),
    honoured("rate_cycle", Milliseconds, "Period over which `rate_min` and `rate_iops_min` are checked.",
        rate_cycle).alias(&["ratecycle"]).default("1000").sets(&["pacing.check_every"]),
    refused("rate_ignore_thinktime", Boolean, "Excludes think time from the rate.", "the schedule of a rate is independent of pauses", "use `rate` or `thinktime` alone").neutral(&["0"]),
    honoured("thinktime", Microseconds, "Pause after every `thinktime_blocks` ops, once they have completed.",
        |draft, value| value.time(TimeUnit::Microseconds).map(|it| draft.think.pause = it)).default("0").sets(&["pacing.think"]),
    honoured("thinktime_spin", Microseconds, "Part of `thinktime` spent spinning instead of sleeping.",
        |draft, value| value.time(TimeUnit::Microseconds).map(|it| draft.think.spin = it)).default("0"),
    honoured("thinktime_blocks", Count, "Number of ops between two pauses.",
        |draft, value| value.count(0, u32::MAX).map(|it| draft.think.every_ops = it.max(1))).default("1"),
    ignored("thinktime_blocks_type", Words(&["complete", "issue"]), "Whether completed or issued ops are counted.", "a pause starts when all ops that were issued have completed, so that there are as many of both"),
    honoured("thinktime_iotime", Seconds, "Time between two pauses; with `thinktime_blocks`, whichever ends first.",
        |draft, value| value.time(TimeUnit::Seconds).map(|it| draft.think.io_time = it)).default("0"),
    refused("thinkcycles", Count, "CPU cycles spent before each op.", "time is counted in microseconds, not in cycles", "use `thinktime` with `thinktime_spin`").neutral(&["0"]),
    honoured("max_latency", Microseconds, "Fails the job if an op takes longer; a comma-separated list is for read, write, trim. 0: no limit.",
        max_latency).default("0").sets(&["errors.max_latency"]),
    honoured("latency_target", Microseconds, "Searches for the largest depth, up to `iodepth`, at which ops keep this latency. The job's figures are those of all depths.",
        |draft, value| value.time(TimeUnit::Microseconds).map(|it| draft.latency_target.limit = it)).default("0").sets(&["pacing.latency_target"]),
    honoured("latency_window", Microseconds, "Time at each depth; 0: 1 s.",
        |draft, value| value.time(TimeUnit::Microseconds).map(|it| draft.latency_target.window = it)).default("0"),
    honoured("latency_percentile", Number, "Percentage of the ops of a window that must keep `latency_target`; with 100, the first slow op ends the window, and the job fails if that is at depth 1.",
        latency_percentile).default("100"),
    honoured("latency_run", Boolean, "Continues to adapt the depth until the job ends; otherwise the job ends when the depth is found.",
        |draft, value| value.boolean().map(|it| draft.latency_target.endless = it)).default("0"),
    honoured("fsync", Count, "fsync after this number of writes; 0: never.",
        |draft, value| value.count(0, u32::MAX).map(|it| draft.blocks.sync.fsync_every = it)).default("0"),
    honoured("fdatasync", Count, "fdatasync after this number of writes; 0: never.",
        |draft, value| value.count(0, u32::MAX).map(|it| draft.blocks.sync.fdatasync_every = it)).default("0"),
    honoured("end_fsync", Boolean, "fsync when a job that writes has ended, timed as a separate step.",
        |draft, value| value.boolean().map(|it| draft.blocks.sync.end_fsync = it)).default("0"),
    refused("end_syncfs", Boolean, "syncfs when the job has ended.", "only the job's own files are synced", "use `end_fsync=1`").neutral(&["0"]),
    refused("write_barrier", Count, "Number of writes between barriers.", "Linux no longer has such barriers", "use `fdatasync`").neutral(&["0"]),
    honoured("sync_file_range", Forms(&["write:8", "wait_before,write,wait_after:8"]), "sync_file_range of what was written, after this number of writes. It makes nothing durable.",
        sync_file_range).sets(&["sync.range"]),
    honoured("continue_on_error", Words(&["none", "read", "write", "io", "verify", "all", "0", "1"]), "EIO, EILSEQ and reads beyond the end, in ops of these kinds, are counted and do not end the job. Other errors do.",
        continue_on_error).default("none").sets(&["errors.continue_read", "errors.continue_write", "errors.continue_verify"]),
    honoured("ignore_error", Forms(&["EIO:ENOSPC"]), "Errors that are not counted; a comma-separated list is for reads, writes, verification.",
        ignore_error).sets(&["errors.ignore_read", "errors.ignore_write"]),
    ignored("error_dump", Boolean, "Prints each failed op.", "errors are counted by kind in the result"),
];

fn rate_process(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    draft.job.pacing.arrival =
        value.choice(&[("linear", Arrival::Linear), ("poisson", Arrival::Poisson)])?;
    Ok(())
}

fn latency_percentile(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let text = value.string()?;
    match value.float_of(text)? {
        percent if percent > 0.0 && percent <= 100.0 => draft.latency_target.percent = percent,
        _ => return Err(out_of_range(text, "above 0, up to 100")),
    }
    Ok(())
}

fn max_latency(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let mut limits = draft.job.errors.max_latency;
    value.spread(&mut limits, |token| {
        value.time_of(token, TimeUnit::Microseconds)
    })?;
    draft.job.errors.max_latency = limits;
    Ok(())
}

fn rate_cycle(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let time = value.time(TimeUnit::Milliseconds)?;
    if time.0 == 0 {
        return Err(Problem::error("a rate cannot be checked over a time of 0"));
    }
    draft.job.pacing.check_every = time;
    Ok(())
}

fn sync_file_range(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let text = value.string()?;
    let (words, every) = text.split_once(':').unwrap_or((text, "1"));
    let every = value.count_of(every, 0, u64::from(u32::MAX))? as u32;
    let mut flags = 0;
    for word in words.split(',') {
        flags |= Value::new(word.trim(), value.kb_base).choice(&[
            ("wait_before", 1),
            ("write", 2),
            ("wait_after", 4),
        ])?;
    }
    draft.blocks.sync.range = (every > 0).then_some(RangeSync { every, flags });
    Ok(())
}

fn continue_on_error(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let (read, write, verify) = value.choice(&[
        ("none", (false, false, false)),
        ("0", (false, false, false)),
        ("read", (true, false, false)),
        ("write", (false, true, false)),
        ("io", (true, true, false)),
        ("verify", (false, false, true)),
        ("all", (true, true, true)),
        ("1", (true, true, true)),
    ])?;
    let errors = &mut draft.job.errors;
    (errors.continue_read, errors.continue_write) = (read, write);
    errors.continue_verify = verify;
    Ok(())
}

fn ignore_error(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let [read, write, verify] = value.parts(|token| error_list(value, token))?;
    if let Some(read) = read {
        draft.job.errors.ignore_read = read;
    }
    if let Some(write) = write {
        draft.job.errors.ignore_write = write;
    }
    match verify.as_deref() {
        None => {}
        Some([EILSEQ]) => draft.job.errors.continue_verify = true,
        Some(_) => {
            return Err(Problem::refusal(
                "only EILSEQ, a block that fails its check, can be ignored in verification",
            ));
        }
    }
    Ok(())
}

fn rates(
    draft: &mut Draft,
    value: &Value,
    set: impl Fn(&mut DirectionRate, u64),
) -> Result<(), Problem> {
    let mut numbers = PerDirection::all(None);
    value.spread(&mut numbers, |token| {
        value.count_of(token, 0, 1 << 60).map(Some)
    })?;
    let rates = &mut draft.job.pacing.rates;
    for (rate, number) in [
        (&mut rates.read, numbers.read),
        (&mut rates.write, numbers.write),
        (&mut rates.trim, numbers.trim),
    ] {
        if let Some(number) = number {
            set(rate, number);
        }
    }
    Ok(())
}

fn error_list(value: &Value, list: &str) -> Result<Vec<i32>, Problem> {
    list.split(':')
        .map(str::trim)
        .filter(|token| !token.is_empty())
        .map(|token| {
            let number = match token.starts_with(|c: char| c.is_ascii_digit()) {
                true => Some(value.count_of(token, 1, 4095)? as i32),
                false => errno_named(token),
            };
            number.ok_or_else(|| {
                let fault = Problem::error(format!("`{token}` is not a known error"));
                let hint = match closest(token, errno_names()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "write a name such as ENOSPC, or its number".to_owned(),
                };
                value.at(token, fault.hint(hint))
            })
        })
        .collect()
}
