//! Options that name, repeat, order and group jobs.

use iodyno_model::Span;

use crate::number::TimeUnit;
use crate::option::{OptionSpec, Unit};
use crate::value::Fault;

/// As many workers as one job may have.
const MOST_CLONES: u32 = 4096;

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::honoured(
        "name",
        Unit::Text,
        "The job's name in the result; files are still named after the section.",
        |draft, value| {
            draft.name = Some(value.string()?.to_owned());
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "description",
        Unit::Text,
        "Free text, kept with the result.",
        |draft, value| {
            draft.job.description = value.text.to_owned();
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "numjobs",
        Unit::Count,
        "Clones of the job, each a thread with a region and files of its own.",
        |draft, value| {
            draft.job.clones = value.count(1, MOST_CLONES)?;
            Ok(())
        },
    )
    .default("1"),
    OptionSpec::honoured(
        "stonewall",
        Unit::Boolean,
        "Begins when all jobs before it have ended; begins a new group.",
        |draft, value| {
            draft.stonewall = value.boolean()?;
            Ok(())
        },
    )
    .alias(&["wait_for_previous"]),
    OptionSpec::honoured(
        "new_group",
        Unit::Boolean,
        "Begins a new reporting group.",
        |draft, value| {
            draft.new_group = value.boolean()?;
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "wait_for",
        Unit::Text,
        "Begins when all clones of the named job have ended.",
        |draft, value| {
            draft.wait_for = Some(value.string()?.to_owned());
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "startdelay",
        Unit::Seconds,
        "Begins so long after it could; a range is drawn from for each clone.",
        |draft, value| {
            let (min, max) = value.range_of(value.single()?, |token| {
                value.time_of(token, TimeUnit::Seconds)
            })?;
            draft.job.delay = Span { min, max };
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "exitall",
        Unit::Boolean,
        "When the job ends, all others that run end too.",
        |draft, value| {
            draft.job.exit_all = value.boolean()?;
            Ok(())
        },
    ),
    OptionSpec::differs(
        "exit_what",
        Unit::Words(&["group", "stonewall", "all"]),
        "Which jobs `exitall` ends.",
        "`exitall` always ends every job that runs",
    )
    .default("group")
    .neutral(&["all"]),
    OptionSpec::honoured(
        "exitall_on_error",
        Unit::Boolean,
        "When the job fails, all others end too.",
        |draft, value| {
            draft.job.errors.exit_all = value.boolean()?;
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "group_reporting",
        Unit::Boolean,
        "The jobs and clones of a group are reported as one.",
        |draft, value| {
            draft.job.reporting.together = value.boolean()?;
            Ok(())
        },
    ),
    OptionSpec::ignored(
        "thread",
        Unit::Boolean,
        "Threads in place of processes.",
        "clones are always threads of one process",
    )
    .alias(&["threads"])
    .neutral(&["", "0", "1"]),
    OptionSpec::honoured(
        "kb_base",
        Unit::Words(&["1024", "1000"]),
        "Whether `k` is 1024 or 1000; counts for the whole section.",
        |draft, value| {
            draft.kb_base = value.choice(&[("1024", 1024), ("1000", 1000)])?;
            Ok(())
        },
    )
    .default("1024"),
    OptionSpec::ignored(
        "unit_base",
        Unit::Count,
        "Bits or bytes in the output.",
        "the output is always in bytes",
    ),
    OptionSpec::refused(
        "profile",
        Unit::Text,
        "A built-in set of jobs.",
        "built-in profiles are not here",
        "write the jobs out",
    ),
    OptionSpec::refused(
        "exec_prerun",
        Unit::Text,
        "A command run before the job.",
        "a job file must not run commands",
        "run the command before iodyno",
    ),
    OptionSpec::refused(
        "exec_postrun",
        Unit::Text,
        "A command run after the job.",
        "a job file must not run commands",
        "run the command after iodyno",
    ),
    OptionSpec::honoured(
        "flow",
        Unit::Count,
        "Weight of each clone in its flow: clones keep their ops in the ratio of their weights.",
        |draft, value| {
            draft.flow.weight = value.count(0, 1 << 20)?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "flow_id",
        Unit::Count,
        "Which jobs `flow` holds together.",
        |draft, value| {
            draft.flow.id = value.count(0, u32::MAX)?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::ignored(
        "flow_watermark",
        Unit::Count,
        "How far `flow` may run apart.",
        "it runs apart by no more than one op of each",
    ),
    OptionSpec::honoured(
        "flow_sleep",
        Unit::Microseconds,
        "How long a clone that is ahead of its flow sleeps before it looks again; 0: 10 µs.",
        |draft, value| {
            draft.flow.pause = value.time(TimeUnit::Microseconds)?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::refused(
        "cgroup",
        Unit::Text,
        "Puts the job into a control group.",
        "control groups are not made here",
        "start iodyno within the group, such as with systemd-run",
    ),
    OptionSpec::ignored(
        "cgroup_weight",
        Unit::Count,
        "The control group's weight.",
        "it only says more about `cgroup`, which is refused",
    ),
    OptionSpec::ignored(
        "cgroup_nodelete",
        Unit::Boolean,
        "Leaves the control group.",
        "it only says more about `cgroup`, which is refused",
    ),
    OptionSpec::refused(
        "uid",
        Unit::Count,
        "Runs the job as another user.",
        "jobs run as the user who starts them",
        "start iodyno as that user",
    ),
    OptionSpec::refused(
        "gid",
        Unit::Count,
        "Runs the job as another group.",
        "jobs run as the user who starts them",
        "start iodyno as that group",
    ),
    OptionSpec::ignored(
        "comm",
        Unit::Text,
        "The name of the job's process.",
        "threads are named after their jobs",
    ),
    OptionSpec::ignored(
        "clocksource",
        Unit::Words(&["gettimeofday", "clock_gettime", "cpu"]),
        "The clock that stamps ops.",
        "the monotonic clock of the kernel is used, which reads the cycle counter where it can",
    ),
    OptionSpec::ignored(
        "job_start_clock_id",
        Unit::Count,
        "The clock of `job_start`.",
        "start times are always those of the real-time clock",
    ),
];

/// A fault for an option that needs another one's value.
pub(super) fn out_of_range(text: &str, rule: &str) -> Fault {
    Fault::error(format!("`{text}` is out of range: {rule}"))
}
