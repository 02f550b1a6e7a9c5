//! Options for names, copies, order and groups of jobs.

use iodyno_model::{ExitScope, Span};
use iodyno_options::{Problem, Unit::*, ignored, refused};

use crate::draft::Draft;
use crate::number::TimeUnit;
use crate::options::{OptionSpec, honoured};
use crate::value::Value;

/// Maximum number of clones of a job.
const MAX_CLONES: u32 = 4096;

#[rustfmt::skip]
pub(super) const OPTIONS: &[OptionSpec] = &[
    honoured("name", Text, "The job's name in the result; files are still named after the section. Without effect in a global section.",
        |draft, value| value.string().map(|it| draft.name = Some(it.to_owned()))),
    honoured("description", Text, "Free text, stored with the result.", description),
    honoured("numjobs", Count, "Number of clones of the job; each is a thread with its own region and files.",
        |draft, value| value.count(1, MAX_CLONES).map(|it| draft.job.clones = it)).default("1"),
    honoured("stonewall", Boolean, "Starts when all jobs before it have ended, and starts a new group.",
        |draft, value| value.boolean().map(|it| draft.stonewall = it)).alias(&["wait_for_previous"]),
    honoured("new_group", Boolean, "Starts a new reporting group.",
        |draft, value| value.boolean().map(|it| draft.new_group = it)),
    honoured("wait_for", Text, "Starts when all clones of the named job have ended.",
        |draft, value| value.string().map(|it| draft.wait_for = Some(it.to_owned()))).sets(&["after"]),
    honoured("startdelay", Seconds, "Delay before the job starts; a range gives each clone a random delay.",
        startdelay).default("0").sets(&["delay"]),
    honoured("exitall", Boolean, "When a job ends, the jobs named by its `exit_what` end, too; one job with `exitall` sets it for all.",
        |draft, value| value.boolean().map(|it| draft.job.exit_all = it)).sets(&["exit_all"]),
    honoured("exit_what", Words(&["group", "stonewall", "all"]), "Which jobs end with this one by `exitall` or `exitall_on_error`: those of its group; those that run, in all groups; all.",
        exit_what).default("group").sets(&["exit_what"]),
    honoured("exitall_on_error", Boolean, "When the job fails, the jobs named by its `exit_what` end, too.",
        |draft, value| value.boolean().map(|it| draft.job.errors.exit_all = it)).sets(&["errors.exit_all"]),
    honoured("group_reporting", Boolean, "Reports the jobs and clones of a group as one.",
        |draft, value| value.boolean().map(|it| draft.job.reporting.together = it)),
    ignored("thread", Boolean, "Uses threads instead of processes.", "clones are always threads of one process").alias(&["threads"]).neutral(&["", "0", "1"]),
    honoured("kb_base", Words(&["1024", "1000"]), "Whether `k` is 1024 or 1000; applies to the whole section.",
        |draft, value| value.choice(&[("1024", 1024), ("1000", 1000)]).map(|it| draft.kb_base = it)).default("1024"),
    honoured("unit_base", Words(&["0", "8", "1"]), "Bits (1) or bytes (8) in `normal` output.",
        |draft, value| value.choice(&[("0", false), ("8", false), ("1", true)]).map(|it| draft.job.reporting.bits = it)).default("0"),
    refused("profile", Text, "A built-in set of jobs.", "there are no built-in profiles", "write the jobs out"),
    honoured("exec_prerun", Text, "A shell command that each clone runs at its start. Its output goes to JOB.prerun.txt. Needs `--allow-exec`.",
        |draft, value| value.string().map(|it| draft.job.exec_prerun = Some(it.to_owned()))),
    honoured("exec_postrun", Text, "A shell command that each clone runs after its work. Its output goes to JOB.postrun.txt. Needs `--allow-exec`.",
        |draft, value| value.string().map(|it| draft.job.exec_postrun = Some(it.to_owned()))),
    honoured("flow", Count, "Weight of each clone in its flow: clones keep their ops in the ratio of their weights.",
        |draft, value| value.count(0, 1 << 20).map(|it| draft.flow.weight = it)).default("0").sets(&["pacing.flow"]),
    honoured("flow_id", Count, "Identifier of the flow: `flow` applies to jobs with the same one.",
        |draft, value| value.count(0, u32::MAX).map(|it| draft.flow.id = it)).default("0"),
    ignored("flow_watermark", Count, "Maximum difference between the clones of a `flow`.", "clones differ by at most one op"),
    honoured("flow_sleep", Microseconds, "Time for which a clone that is ahead of its flow sleeps before it checks again; 0: 10 µs.",
        |draft, value| value.time(TimeUnit::Microseconds).map(|it| draft.flow.pause = it)).default("0"),
    refused("cgroup", Text, "Puts the job into a control group.", "control groups are not created", "start iodyno in the group, for example with systemd-run"),
    ignored("cgroup_weight", Count, "The control group's weight.", "it only modifies `cgroup`, which is refused"),
    ignored("cgroup_nodelete", Boolean, "Keeps the control group.", "it only modifies `cgroup`, which is refused"),
    refused("uid", Count, "Runs the job as another user.", "jobs run as the user who starts them", "start iodyno as that user"),
    refused("gid", Count, "Runs the job as another group.", "jobs run as the user who starts them", "start iodyno as that group"),
    ignored("comm", Text, "The name of the job's process.", "threads are named after their jobs"),
    ignored("clocksource", Words(&["gettimeofday", "clock_gettime", "cpu"]), "The clock that stamps ops.", "the monotonic clock of the kernel is used, which reads the cycle counter where it can"),
    ignored("job_start_clock_id", Count, "The clock of `job_start`.", "start times are always those of the real-time clock"),
];

fn description(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    draft.job.description = value.text.to_owned();
    Ok(())
}

fn exit_what(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    draft.job.exit_what = value.choice(&[
        ("group", ExitScope::Group),
        ("stonewall", ExitScope::Stonewall),
        ("all", ExitScope::All),
    ])?;
    Ok(())
}

fn startdelay(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let (min, max) = value.range_of(value.single()?, |token| {
        value.time_of(token, TimeUnit::Seconds)
    })?;
    draft.job.delay = Span { min, max };
    Ok(())
}

/// An error for a value out of range.
pub(super) fn out_of_range(text: &str, rule: &str) -> Problem {
    Problem::error(format!("`{text}` is out of range: {rule}"))
}
