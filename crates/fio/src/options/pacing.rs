//! Options of pacing, durability and the fate of failed ops.

use iodyno_model::{Arrival, DirectionRate, PerDirection, closest};

use crate::draft::Draft;
use crate::errno;
use crate::number::TimeUnit;
use crate::option::{OptionSpec, Unit};
use crate::value::{Fault, Value};

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::honoured(
        "rate",
        Unit::Bytes,
        "Bytes a second of each clone; a comma list is for read, write, trim.",
        |draft, value| rates(draft, value, |rate, number| rate.bytes_per_s = number),
    ),
    OptionSpec::honoured(
        "rate_min",
        Unit::Bytes,
        "Fails below so many bytes a second over a `rate_cycle`; the first 2 s are not judged.",
        |draft, value| rates(draft, value, |rate, number| rate.least_bytes_per_s = number),
    )
    .alias(&["ratemin"]),
    OptionSpec::honoured(
        "rate_iops",
        Unit::Count,
        "Ops a second of each clone; a comma list is for read, write, trim.",
        |draft, value| rates(draft, value, |rate, number| rate.iops = number as f64),
    ),
    OptionSpec::honoured(
        "rate_iops_min",
        Unit::Count,
        "Fails below so many ops a second over a `rate_cycle`; the first 2 s are not judged.",
        |draft, value| rates(draft, value, |rate, number| rate.least_iops = number as f64),
    ),
    OptionSpec::honoured(
        "rate_process",
        Unit::Words(&["linear", "poisson"]),
        "Whether ops are due at equal distances or at random.",
        |draft, value| {
            draft.job.pacing.arrival =
                value.choice(&[("linear", Arrival::Linear), ("poisson", Arrival::Poisson)])?;
            Ok(())
        },
    )
    .default("linear"),
    OptionSpec::honoured(
        "rate_cycle",
        Unit::Milliseconds,
        "`rate_min` and `rate_iops_min` are judged over this long.",
        |draft, value| {
            let time = value.time(TimeUnit::Milliseconds)?;
            if time.0 == 0 {
                return Err(Fault::error("a rate cannot be judged over no time"));
            }
            draft.job.pacing.check_every = time;
            Ok(())
        },
    )
    .alias(&["ratecycle"])
    .default("1000"),
    OptionSpec::refused(
        "rate_ignore_thinktime",
        Unit::Boolean,
        "Time spent thinking does not count for the rate.",
        "the schedule of a rate does not wait",
        "`rate` or `thinktime` alone",
    )
    .neutral(&["0"]),
    OptionSpec::honoured(
        "thinktime",
        Unit::Microseconds,
        "Does nothing for so long, every `thinktime_blocks` ops, once they have ended.",
        |draft, value| {
            draft.think.pause = value.time(TimeUnit::Microseconds)?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "thinktime_spin",
        Unit::Microseconds,
        "Of it, spent computing in place of sleeping.",
        |draft, value| {
            draft.think.spin = value.time(TimeUnit::Microseconds)?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "thinktime_blocks",
        Unit::Count,
        "Ops between two pauses.",
        |draft, value| {
            draft.think.every_ops = value.count(1, u32::MAX)?;
            Ok(())
        },
    )
    .default("1"),
    OptionSpec::honoured(
        "thinktime_blocks_type",
        Unit::Words(&["complete", "issue"]),
        "Whether completed or issued ops are counted: the same, as a pause begins when all have ended.",
        |_, value| value.choice(&[("complete", ()), ("issue", ())]),
    )
    .default("complete"),
    OptionSpec::refused(
        "thinktime_iotime",
        Unit::Seconds,
        "Time of I/O between two pauses.",
        "pauses come after a number of ops",
        "`thinktime_blocks`",
    )
    .neutral(&["0"]),
    OptionSpec::refused(
        "thinkcycles",
        Unit::Count,
        "CPU cycles spent before each op.",
        "time is counted in microseconds, not in cycles",
        "`thinktime` with `thinktime_spin`",
    )
    .neutral(&["0"]),
    OptionSpec::refused(
        "max_latency",
        Unit::Microseconds,
        "Ends the job when one op takes longer.",
        "latencies are recorded and do not end a job",
        "the result's percentiles and maximum",
    )
    .neutral(&["0"]),
    OptionSpec::refused(
        "latency_target",
        Unit::Microseconds,
        "Looks for the depth that keeps to a latency.",
        "depths are not searched for",
        "a job for each depth, or `rate_iops` and the response latency",
    )
    .neutral(&["0"]),
    OptionSpec::ignored(
        "latency_window",
        Unit::Microseconds,
        "How long `latency_target` looks.",
        "it only says more about `latency_target`, which is refused",
    ),
    OptionSpec::ignored(
        "latency_percentile",
        Unit::Percent,
        "Share of ops within `latency_target`.",
        "it only says more about `latency_target`, which is refused",
    ),
    OptionSpec::ignored(
        "latency_run",
        Unit::Boolean,
        "Goes on looking.",
        "it only says more about `latency_target`, which is refused",
    ),
    OptionSpec::honoured(
        "fsync",
        Unit::Count,
        "fsync after so many writes; 0: never.",
        |draft, value| {
            draft.job.sync.fsync_every = value.count(0, u32::MAX)?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "fdatasync",
        Unit::Count,
        "fdatasync after so many writes; 0: never.",
        |draft, value| {
            draft.job.sync.fdatasync_every = value.count(0, u32::MAX)?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "end_fsync",
        Unit::Boolean,
        "fsync when a job that writes has ended, timed as a step of its own.",
        |draft, value| {
            draft.job.sync.end_fsync = value.boolean()?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::refused(
        "end_syncfs",
        Unit::Boolean,
        "syncfs when the job has ended.",
        "only the job's own files are synced",
        "`end_fsync=1`",
    )
    .neutral(&["0"]),
    OptionSpec::refused(
        "write_barrier",
        Unit::Count,
        "Every so many writes are barriers.",
        "Linux has no barriers of this kind any more",
        "`fdatasync`",
    )
    .neutral(&["0"]),
    OptionSpec::refused(
        "sync_file_range",
        Unit::Text,
        "sync_file_range after so many writes.",
        "it makes nothing durable",
        "`fdatasync`",
    ),
    OptionSpec::honoured(
        "continue_on_error",
        Unit::Words(&["none", "read", "write", "io", "verify", "all", "0", "1"]),
        "Failed ops of these kinds are counted and do not end the job.",
        |draft, value| {
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
        },
    )
    .default("none"),
    OptionSpec::honoured(
        "ignore_error",
        Unit::Text,
        "Errors that do not count: `EIO:ENOSPC` for reads, writes, verification.",
        |draft, value| {
            let [read, write, verify] = value.parts(|token| error_list(value, token))?;
            if let Some(read) = read {
                draft.job.errors.ignore_read = read;
            }
            if let Some(write) = write {
                draft.job.errors.ignore_write = write;
            }
            match verify.as_deref() {
                None => {}
                Some([errno::EILSEQ]) => draft.job.errors.continue_verify = true,
                Some(_) => {
                    return Err(Fault::refusal(
                        "only EILSEQ, a block that fails its check, can be ignored in verification",
                    ));
                }
            }
            Ok(())
        },
    ),
    OptionSpec::ignored(
        "error_dump",
        Unit::Boolean,
        "Prints each failed op.",
        "errors are counted by kind in the result",
    ),
];

fn rates(
    draft: &mut Draft,
    value: &Value,
    set: impl Fn(&mut DirectionRate, u64),
) -> Result<(), Fault> {
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

fn error_list(value: &Value, list: &str) -> Result<Vec<i32>, Fault> {
    list.split(':')
        .map(str::trim)
        .filter(|token| !token.is_empty())
        .map(|token| {
            let number = match token.starts_with(|c: char| c.is_ascii_digit()) {
                true => Some(value.count_of(token, 1, 4095)? as i32),
                false => errno::by_name(token),
            };
            number.ok_or_else(|| {
                let fault = Fault::error(format!("`{token}` is not an error that is known"));
                let hint = match closest(token, errno::names()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "write a name such as ENOSPC, or its number".to_owned(),
                };
                value.at(token, fault.hint(hint))
            })
        })
        .collect()
}
