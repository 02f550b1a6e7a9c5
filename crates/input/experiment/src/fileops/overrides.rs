//! Changes to a workload by the command line.

use std::collections::BTreeSet;

use crate::document::{LARGEST, listed};
use iodyno_model::{Action, Arrival, CycleStep, Diagnostic, Job, Operations, Writing};
use iodyno_units::{Bytes, Nanos};

use super::sets::MAX_FILES;
use super::write::total_rate;
use super::{Described, amounts, check, read};

/// Changes to a workload; `None`, empty or false means no change.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Overrides {
    /// Number of threads.
    pub threads: Option<u32>,
    /// Whether each thread has its own folder, or all share one.
    pub own_folders: Option<bool>,
    /// Number of files of the named set. Without a name: the set from which the cycle takes files, or the
    /// only set.
    pub files: Vec<(Option<String>, u64)>,
    /// Length of the files of the named set, bytes. Without a name: of the files that the timed steps use,
    /// which is the set from which they take files, or else the amount that a cycle writes.
    pub file_size: Vec<(Option<String>, u64)>,
    /// Length at which a file that is appended to is replaced by a new one, bytes.
    pub new_file_at: Option<u64>,
    /// Measured time.
    pub duration: Option<Nanos>,
    /// Number of cycles, all threads together.
    pub max_ops: Option<u64>,
    /// Time before statistics begin.
    pub ramp: Option<Nanos>,
    /// Cycles per second, all threads together.
    pub rate: Option<f64>,
    /// Whether the intervals between cycles are exponentially distributed.
    pub poisson: bool,
    /// Whether to sync and wait for steady free space at the end.
    pub drain: Option<bool>,
    /// Compressible share of the data, percent.
    pub compress_percent: Option<u32>,
    /// Bytes of one write.
    pub chunk: Option<u64>,
    /// Number of threads that create the files of the sets.
    pub setup_threads: Option<u32>,
}

impl Overrides {
    /// How the original tool writes files: 1 KiB with each call, by one thread.
    pub const ORIGINAL: Writing = Writing {
        chunk: 1024,
        threads: Some(1),
    };

    /// The changes without those that do not apply to a workload although they apply to another of its suite.
    fn fitting(&self, described: &Described, suite: &[Described]) -> Overrides {
        let elsewhere =
            |applies: &dyn Fn(&Described) -> bool| !applies(described) && suite.iter().any(applies);
        let mut fitting = self.clone();
        fitting
            .files
            .retain(|(set, _)| !elsewhere(&|it| has_files(it.operations(), set.as_deref())));
        fitting
            .file_size
            .retain(|(set, _)| !elsewhere(&|it| has_size(it.operations(), set.as_deref())));
        if elsewhere(&|it| it.operations().cycle.iter().any(appends)) {
            fitting.new_file_at = None;
        }
        if elsewhere(&|it| used_up(it).is_none()) {
            fitting.duration = None;
        }
        fitting
    }
}

/// Applies changes to each workload of a suite. What concerns files, their size, or the duration applies to the
/// workloads that have it: it is an error only if there are none. Returns each workload or its errors, and warnings.
///
/// A duration is meant for workloads that have no other end: it does not end those that use up a set of files, unless
/// all of the suite do.
pub fn with_all(
    suite: &[Described],
    overrides: &Overrides,
) -> (Vec<Result<Described, Vec<Diagnostic>>>, Vec<Diagnostic>) {
    let mut warnings = Vec::new();
    let changed = suite.iter().map(|described| {
        let fitting = overrides.fitting(described, suite);
        if let (Some(_), None, Some(set)) =
            (overrides.duration, fitting.duration, used_up(described))
        {
            let name = &described.name;
            let message = format!(
                "the duration does not apply to `{name}`, which ends when `{set}` is empty"
            );
            let hint = format!("to end it earlier, use `--set {name}.duration=TIME`");
            warnings.push(Diagnostic::warning(message).hint(hint));
        }
        described.clone().with(&fitting)
    });
    let changed = changed.collect();
    (changed, warnings)
}

/// The set whose end ends a workload that has no duration of its own.
fn used_up(described: &Described) -> Option<&str> {
    let mut steps = described.operations().cycle.iter();
    let set = steps.find_map(|step| match &step.action {
        Action::Unlink { of } => of.set(),
        _ => None,
    });
    set.filter(|_| described.job.end.runtime.is_none())
}

fn has_set(operations: &Operations, name: &str) -> bool {
    operations.sets.iter().any(|set| set.name == name)
}

/// Whether a number of files can apply to a workload.
fn has_files(operations: &Operations, set: Option<&str>) -> bool {
    set.map_or(!operations.sets.is_empty(), |set| has_set(operations, set))
}

/// Whether a size can apply to a workload.
fn has_size(operations: &Operations, set: Option<&str>) -> bool {
    let writes = |step: &CycleStep| matches!(step.action, Action::Write { .. }) || appends(step);
    match set {
        Some(set) => has_set(operations, set),
        None => !operations.sets.is_empty() || operations.cycle.iter().any(writes),
    }
}

fn appends(step: &CycleStep) -> bool {
    matches!(step.action, Action::Append { .. })
}

impl Described {
    /// Applies changes. The name is unchanged; if amounts change, they are corrected in `about`.
    ///
    /// # Errors
    /// All changes that do not apply to this workload.
    pub fn with(mut self, overrides: &Overrides) -> Result<Described, Vec<Diagnostic>> {
        let mut faults = Vec::new();
        let rate = (self.job.pacing.ops_per_s > 0.0).then(|| total_rate(&self.job));
        apply_to_job(&mut self.job, rate, overrides, &mut faults);
        if let Some(operations) = self.job.work.file_operations_mut() {
            apply_to_operations(operations, &self.name, overrides, &mut faults);
            if !(overrides.files.is_empty()
                && overrides.file_size.is_empty()
                && overrides.new_file_at.is_none())
            {
                self.about = corrected(&self.about, operations);
                operations.about.clone_from(&self.about);
                self.job.description.clone_from(&self.about);
            }
        }
        if faults.is_empty() {
            let found = check::check(&self.job, false).into_iter();
            faults.extend(found.map(|fault| Diagnostic {
                hint: fault.hint.map(str::to_owned),
                ..Diagnostic::error(fault.message)
            }));
        }
        match faults.is_empty() {
            true => Ok(self),
            false => Err(faults),
        }
    }
}

/// Replaces amounts in the description that are no longer correct.
fn corrected(about: &str, operations: &Operations) -> String {
    let before = match about.find(" (here: ") {
        Some(end) => &about[..end],
        None => about,
    };
    format!("{before} (here: {})", amounts::amounts(operations))
}

fn apply_to_job(
    job: &mut Job,
    rate: Option<f64>,
    overrides: &Overrides,
    faults: &mut Vec<Diagnostic>,
) {
    let mut refuse = |refused: bool, message: &str, hint: &str| {
        if refused {
            faults.push(Diagnostic::error(message).hint(hint));
        }
    };
    let threads = overrides.threads.unwrap_or(job.clones);
    refuse(
        !(1..=read::MAX_THREADS).contains(&threads),
        "the number of threads is out of range",
        "it is from 1 to 4096",
    );
    let rate = overrides.rate.or(rate);
    refuse(
        rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)),
        "the rate is not a number above 0",
        "it is in ops a second of all threads together",
    );
    refuse(
        overrides.poisson && rate.is_none(),
        "`poisson` requires a rate",
        "use `--rate N`",
    );
    refuse(
        overrides.duration == Some(Nanos(0)),
        "the duration is 0",
        "give a time, such as `10s`",
    );
    refuse(
        overrides
            .max_ops
            .is_some_and(|ops| !(1..=i64::MAX as u64).contains(&ops)),
        "the number of ops is out of range",
        "at least one op is to be done",
    );
    let percent = overrides.compress_percent;
    refuse(
        percent.is_some_and(|percent| percent > 100),
        "compression cannot save more than 100 %",
        "it is from 0 to 100",
    );
    job.clones = threads;
    job.end.runtime = overrides.duration.or(job.end.runtime);
    job.end.ops = overrides.max_ops.or(job.end.ops);
    job.end.ramp = overrides.ramp.unwrap_or(job.end.ramp);
    job.pacing.ops_per_s = rate.map_or(0.0, |rate| rate / f64::from(threads.max(1)));
    if overrides.poisson {
        job.pacing.arrival = Arrival::Poisson;
    }
    if let Some(percent) = percent {
        job.buffers.content = read::content(percent);
    }
}

fn apply_to_operations(
    operations: &mut Operations,
    name: &str,
    overrides: &Overrides,
    faults: &mut Vec<Diagnostic>,
) {
    operations.own_folders = overrides.own_folders.unwrap_or(operations.own_folders);
    operations.drain = overrides.drain.unwrap_or(operations.drain);
    let writing = &mut operations.writing;
    writing.chunk = overrides.chunk.unwrap_or(writing.chunk);
    writing.threads = overrides.setup_threads.or(writing.threads);
    if !read::is_chunk(writing.chunk) {
        let message = format!("a write cannot have {}", Bytes(writing.chunk));
        faults.push(Diagnostic::error(message).hint(read::CHUNKS));
    }
    if !(1..=read::MAX_SETUP_THREADS).contains(&writing.threads.unwrap_or(1)) {
        let message = "the number of threads of the set-up is out of range";
        let hint = format!("it is from 1 to {}", read::MAX_SETUP_THREADS);
        faults.push(Diagnostic::error(message).hint(hint));
    }
    // The sets for changes without a name are determined before anything changes.
    let mut change = Change {
        workload: name,
        done: BTreeSet::new(),
        operations,
        faults,
    };
    for (set, count) in &overrides.files {
        change.count(set.as_deref(), *count);
    }
    change.done.clear();
    for (set, size) in &overrides.file_size {
        change.size(set.as_deref(), *size);
    }
    if let Some(length) = overrides.new_file_at {
        change.new_file_at(length);
    }
}

/// What a size applies to.
enum Sized {
    /// The files of a set, by its index.
    Set(usize),
    /// The amount of a writing step, by its index.
    Step(usize),
}

struct Change<'a> {
    workload: &'a str,
    /// Changes so far: a second change of the same value would contradict the first.
    done: BTreeSet<(bool, usize)>,
    operations: &'a mut Operations,
    faults: &'a mut Vec<Diagnostic>,
}

impl Change<'_> {
    fn fault(&mut self, message: String, hint: String) {
        self.faults.push(Diagnostic::error(message).hint(hint));
    }

    fn count(&mut self, set: Option<&str>, count: u64) {
        let index = match set {
            Some(name) => self.named(name),
            None => self.counted(),
        };
        let Some(index) = index else { return };
        if !(1..=MAX_FILES).contains(&count) {
            let set = &self.operations.sets[index].name;
            let message = format!("set `{set}` cannot have {count} files");
            self.fault(message, format!("it is from 1 to {MAX_FILES}"));
        } else if self.first_time((true, index), "number of files") {
            self.operations.sets[index].count = count;
        }
    }

    fn size(&mut self, set: Option<&str>, size: u64) {
        let sized = match set {
            Some(name) => self.named(name).map(Sized::Set),
            None => self.sized(),
        };
        let Some(sized) = sized else { return };
        let (key, least) = match sized {
            Sized::Set(index) => ((true, index), 0),
            Sized::Step(index) => ((false, index), 1),
        };
        if !(least..=LARGEST).contains(&size) {
            let message = format!("files cannot have a size of {}", Bytes(size));
            self.fault(
                message,
                format!("it is from {least} bytes to {}", Bytes(LARGEST)),
            );
            return;
        }
        if !self.first_time(key, "size of files") {
            return;
        }
        match sized {
            Sized::Set(index) => self.operations.sets[index].size = size,
            Sized::Step(index) => write_so_much(&mut self.operations.cycle[index].action, size),
        }
    }

    fn new_file_at(&mut self, length: u64) {
        let mut appends = 0;
        for step in &mut self.operations.cycle {
            if let Action::Append { new_file_at, .. } = &mut step.action {
                *new_file_at = length;
                appends += 1;
            }
        }
        if appends == 0 {
            let message = format!(
                "`new-file-at` has no effect: `{}` does not append",
                self.workload
            );
            self.fault(message, "leave it out".to_owned());
        }
    }

    /// Whether this value was not changed yet; otherwise an error is added.
    fn first_time(&mut self, key: (bool, usize), what: &str) -> bool {
        if self.done.insert(key) {
            return true;
        }
        let of = match key {
            (true, index) => format!("set `{}`", self.operations.sets[index].name),
            (false, _) => "what a cycle writes".to_owned(),
        };
        let message = format!("the {what} of {of} is given twice");
        self.fault(message, "give it once".to_owned());
        false
    }

    fn set_names(&self) -> Vec<&str> {
        let names = self.operations.sets.iter();
        names.map(|set| set.name.as_str()).collect()
    }

    fn named(&mut self, name: &str) -> Option<usize> {
        let names = self.set_names();
        let found = names.iter().position(|known| *known == name);
        if found.is_none() {
            let message = format!("`{}` has no set `{name}`", self.workload);
            let hint = match names.is_empty() {
                true => "it creates no files beforehand; leave out the name".to_owned(),
                false => format!("it has {}", listed(&names)),
            };
            self.fault(message, hint);
        }
        found
    }

    /// The set of a number of files without a name.
    fn counted(&mut self) -> Option<usize> {
        let taken = self.taken(false);
        match (taken.as_slice(), self.operations.sets.len()) {
            ([one], _) => Some(*one),
            ([], 1) => Some(0),
            ([], 0) => {
                let message = format!(
                    "`{}` creates no files beforehand, so a number of files has no effect",
                    self.workload
                );
                let hint = "leave it out, or use `--events N`".to_owned();
                self.fault(message, hint);
                None
            }
            _ => self.unclear("number of files"),
        }
    }

    /// The target of a size without a name.
    fn sized(&mut self) -> Option<Sized> {
        let steps = self.operations.cycle.iter().enumerate();
        let writes = steps.filter(|(_, step)| {
            matches!(step.action, Action::Write { .. } | Action::Append { .. })
        });
        let writes: Vec<usize> = writes.map(|(index, _)| index).collect();
        match (self.taken(true).as_slice(), writes.as_slice()) {
            ([set], _) => Some(Sized::Set(*set)),
            ([], [step]) => Some(Sized::Step(*step)),
            ([], []) if self.operations.sets.len() == 1 => Some(Sized::Set(0)),
            ([], []) if self.operations.sets.is_empty() => {
                let message = format!(
                    "`{}` writes nothing, so that no file has a size",
                    self.workload
                );
                self.fault(message, "leave it out".to_owned());
                None
            }
            _ => {
                self.unclear("size");
                None
            }
        }
    }

    fn unclear(&mut self, what: &str) -> Option<usize> {
        let names = self.set_names();
        let hint = match names.is_empty() {
            true => "change it in the text of the workload".to_owned(),
            false => format!(
                "name the set, {} or in the text of the workload",
                listed(&names)
            ),
        };
        let message = format!(
            "it is not clear whose {what} is meant in `{}`",
            self.workload
        );
        self.fault(message, hint);
        None
    }

    /// The sets from which steps take files; of all steps, or only of timed ones.
    fn taken(&self, timed_only: bool) -> Vec<usize> {
        let steps = self.operations.cycle.iter();
        let names = steps
            .filter(|step| step.timed || !timed_only)
            .filter_map(|step| taken_from(&step.action));
        let indices: BTreeSet<usize> = names
            .filter_map(|name| self.operations.sets.iter().position(|set| set.name == name))
            .collect();
        indices.into_iter().collect()
    }
}

/// The set from which a step takes a file.
fn taken_from(action: &Action) -> Option<&str> {
    match action {
        Action::Open { of }
        | Action::Unlink { of }
        | Action::Rename { of }
        | Action::Stat { of } => of.set(),
        _ => None,
    }
}

/// Sets the amount of a writing step; a file that is appended to must be at least this long.
fn write_so_much(action: &mut Action, size: u64) {
    match action {
        Action::Write { bytes } => *bytes = size,
        Action::Append {
            bytes, new_file_at, ..
        } => (*bytes, *new_file_at) = (size, size.max(*new_file_at)),
        _ => {}
    }
}
