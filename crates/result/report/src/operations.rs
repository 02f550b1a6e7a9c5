//! Figures that only trials of file operations have: cycles with untimed steps, set-up, drain. All text formats use
//! them.

use iodyno_model::{
    CloneResult, CommandResult, Direction, DirectionResult, EndedBy, GroupSummary, Operations, Row,
    ShellCommand, Step, Summary, Trial, Workload,
};
use iodyno_units::{Bytes, Nanos, Rate, counted, significant};

/// The smallest share of a cycle from which the time between steps is printed.
const REST_TOLD: f64 = 0.05;

/// The file operations of a group; `None` for groups of other jobs.
pub(crate) fn of_group<'a>(workload: &'a Workload, group: &GroupSummary) -> Option<&'a Operations> {
    let first = *group.jobs.first()? as usize;
    workload.jobs.get(first)?.work.file_operations()
}

/// A group of file operations, with its operations and the row of its cycles.
pub(crate) struct Cycles<'a> {
    pub(crate) group: &'a GroupSummary,
    pub(crate) operations: &'a Operations,
    pub(crate) op: &'a Row,
}

/// The first group of file operations that completed or failed a cycle.
pub(crate) fn cycles<'a>(workload: &'a Workload, summary: &'a Summary) -> Option<Cycles<'a>> {
    summary.groups.iter().find_map(|group| of(workload, group))
}

/// The same for one group.
pub(crate) fn of<'a>(workload: &'a Workload, group: &'a GroupSummary) -> Option<Cycles<'a>> {
    let operations = of_group(workload, group)?;
    let op = group
        .rows
        .iter()
        .find(|row| row.result.direction == Direction::Op)?;
    Some(Cycles {
        group,
        operations,
        op,
    })
}

/// The commands of a group with the results of each clone.
pub(crate) fn commands<'a>(
    workload: &'a Workload,
    group: &'a GroupSummary,
    trial: &'a Trial,
) -> impl Iterator<Item = (&'a ShellCommand, &'a CommandResult)> {
    let clones = trial.parts.iter().flat_map(|part| &part.clones);
    let clones = clones.filter(|clone| group.jobs.contains(&clone.job));
    clones.filter_map(|clone| {
        let job = workload.jobs.get(clone.job as usize)?;
        Some((job.work.command()?, clone.command.as_ref()?))
    })
}

impl Cycles<'_> {
    /// `op 1.23 ms of 4.56 ms a cycle; not timed: write 3.1 ms, create 12 µs`; empty without ops.
    pub(crate) fn times(&self, trial: &Trial) -> String {
        let ops = self.op.result.ops;
        if ops == 0 || self.operations.command.is_some() {
            return String::new();
        }
        let op = self.op.result.service.mean_ns();
        let each = |row: &Row| row.result.service.sum_ns() as f64 / ops as f64;
        let untimed: Vec<(Direction, f64)> = self
            .group
            .rows
            .iter()
            .filter(|row| !self.operations.times(row.result.direction) && row.result.ops > 0)
            .map(|row| (row.result.direction, each(row)))
            .collect();
        let cycle = self.cycle_ns(trial);
        let rest = cycle - op - untimed.iter().map(|(_, ns)| ns).sum::<f64>();
        let mut others: Vec<String> = untimed
            .iter()
            .map(|(direction, ns)| format!("{} {}", direction.name(), nanos(*ns)))
            .collect();
        if rest > cycle * REST_TOLD {
            let why = match self.op.response.is_empty() {
                true => "between steps",
                false => "waiting for the rate",
            };
            others.push(format!("{why} {}", nanos(rest)));
        }
        let mut text = format!("{} of {} a cycle", nanos(op), nanos(cycle.max(op)));
        if !others.is_empty() {
            text += &format!("; not timed: {}", others.join(", "));
        }
        text
    }

    /// Measured time of all clones ÷ cycles, ns.
    pub(crate) fn cycle_ns(&self, trial: &Trial) -> f64 {
        let clones = trial.parts.iter().flat_map(|part| &part.clones);
        let spans = clones
            .filter(|clone| self.group.jobs.contains(&clone.job))
            .map(|clone| clone.runtime_ns as f64);
        spans.sum::<f64>() / self.op.result.ops.max(1) as f64
    }

    /// `10 000 files, 19.5 GiB in 40.2 s (249 files/s, 498 MiB/s), 1 MiB a write, 4 threads`; empty if nothing is
    /// created before the ops.
    pub(crate) fn set_up(&self, trial: &Trial) -> String {
        let Some(span) = longest(trial, Step::LayOut) else {
            return String::new();
        };
        let sets = &self.operations.sets;
        let files: u64 = sets.iter().map(|set| set.count).sum();
        let bytes = sets.iter().fold(0u64, |sum, set| {
            sum.saturating_add(set.count.saturating_mul(set.size))
        });
        if files == 0 {
            return String::new();
        }
        let seconds = Nanos(span).secs();
        let mut rates = format!("{} files/s", Rate(files as f64 / seconds));
        let mut made = counted(files, "file");
        if bytes > 0 {
            let mib = Bytes(bytes).mib() / seconds;
            rates += &format!(", {} MiB/s", significant(mib));
            made += &format!(", {}", Bytes(bytes));
        }
        let writing = self.operations.writing_in_words();
        format!("{made} in {} ({rates}), {writing}", Nanos(span))
    }
}

/// The sum of the cycles of all clones, with the time from the first start to the last end; and the number of clones
/// with cycles.
pub(crate) fn all_cycles(trial: &Trial) -> (DirectionResult, usize) {
    let mut all = DirectionResult::empty(Direction::Op);
    let (mut start, mut end, mut clones) = (u64::MAX, 0, 0);
    for clone in cycling(trial) {
        if let Some(result) = clone.direction(Direction::Op) {
            all.add(result);
        }
        start = start.min(clone.start_ns);
        end = end.max(clone.start_ns.saturating_add(clone.runtime_ns));
        clones += 1;
    }
    all.runtime_ns = end.saturating_sub(start);
    (all, clones)
}

fn cycling(trial: &Trial) -> impl Iterator<Item = &CloneResult> {
    let clones = trial.parts.iter().flat_map(|part| &part.clones);
    clones.filter(|clone| clone.direction(Direction::Op).is_some())
}

/// Whether the clones completed their work, and were not ended by time. The completion time is then the result.
pub(crate) fn came_to_its_end(trial: &Trial) -> bool {
    let done = |clone: &CloneResult| matches!(clone.ended, EndedBy::Count | EndedBy::Size);
    cycling(trial).next().is_some() && cycling(trial).all(done)
}

/// Time from the first clone's start (of its ramp, if there is one) until all work was on the storage, drain included,
/// ns.
pub(crate) fn completion_ns(trial: &Trial) -> u64 {
    let steps = trial.parts.iter().flat_map(|part| &part.steps);
    let ramps = steps.filter(|time| time.step == Step::Ramp);
    let ramps = ramps.map(|time| u64::try_from(time.start_ns).unwrap_or(0));
    let starts = cycling(trial).map(|clone| clone.start_ns);
    let start = starts.chain(ramps).min().unwrap_or(0);
    let worked = cycling(trial).map(|clone| {
        let measured = clone.start_ns.saturating_add(clone.runtime_ns);
        clone.done_ns.unwrap_or(0).max(measured)
    });
    worked.max().unwrap_or(0).saturating_sub(start)
}

/// The longest duration of a step on any node, ns; `None` if no node had this step.
pub(crate) fn longest(trial: &Trial, step: Step) -> Option<u64> {
    let times = trial.parts.iter().flat_map(|part| &part.steps);
    let spans = times.filter(|time| time.step == step);
    spans.map(|time| time.span_ns).max().filter(|ns| *ns > 0)
}

fn nanos(ns: f64) -> Nanos {
    Nanos(ns.round() as u64)
}
