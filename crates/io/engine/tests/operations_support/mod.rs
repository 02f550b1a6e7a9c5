//! A folder, clones that work in it, and their results.
#![allow(dead_code, clippy::print_stderr)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use iodyno_engine::operations::{OperationsPart, file_name, share};
use iodyno_engine::{CloneOutcome, ClonePart, CloneShared, CloneSpec, WorkerError, run};
use iodyno_model::{
    Action, CycleStep, Direction, FileSet, Histogram, Job, Operations, PickOrder, StopRequest,
    Subject, Work,
};
use iodyno_sys::counting::count_this_thread;
use iodyno_sys::{Clock, MonotonicClock};

pub(crate) fn set(name: &str, count: u64, size: u64) -> FileSet {
    FileSet {
        name: name.to_owned(),
        count,
        size,
        fsync: false,
        folders: false,
    }
}

pub(crate) fn of(name: &str, order: PickOrder) -> Subject {
    Subject::Set {
        name: name.to_owned(),
        order,
    }
}

pub(crate) fn current() -> Subject {
    Subject::Current
}

pub(crate) fn timed(action: Action) -> CycleStep {
    CycleStep {
        action,
        timed: true,
    }
}

pub(crate) fn untimed(action: Action) -> CycleStep {
    CycleStep {
        action,
        timed: false,
    }
}

/// Creates, writes and closes a file.
pub(crate) fn make(bytes: u64) -> [Action; 3] {
    [Action::Create, Action::Write { bytes }, Action::Close]
}

/// All steps timed, one folder, no drain.
pub(crate) fn operations(sets: Vec<FileSet>, cycle: &[Action]) -> Operations {
    Operations {
        about: String::new(),
        sets,
        cycle: cycle.iter().cloned().map(timed).collect(),
        own_folders: false,
        drain: false,
        writing: Default::default(),
        fio: None,
        command: None,
    }
}

/// Longer than any wait on a host that is not stuck.
const WATCHDOG: Duration = Duration::from_secs(120);
/// A day, ns: beyond every watchdog.
const FAR_NS: u64 = 86_400_000_000_000;

/// Waits for an event.
#[track_caller]
pub(crate) fn wait_until(what: &str, come: impl Fn() -> bool) {
    let end = Instant::now() + WATCHDOG;
    while !come() {
        assert!(
            Instant::now() < end,
            "the condition did not become true: {what}"
        );
        thread::sleep(Duration::from_micros(200));
    }
}

/// Number of cycles of a clone in its measured time.
pub(crate) fn cycles_of(shared: &CloneShared) -> u64 {
    shared.measure.of(Direction::Op).service.count()
}

pub(crate) struct Bench {
    root: PathBuf,
    kept: Option<tempfile::TempDir>,
    pub(crate) job: Job,
    pub(crate) seed: u64,
    /// The start is not reached during the test.
    pub(crate) far_start: bool,
    pub(crate) never_start: bool,
    left: Arc<AtomicU32>,
    shared: Vec<Arc<CloneShared>>,
    outcomes: Vec<CloneOutcome>,
    released: u64,
}

impl Bench {
    pub(crate) fn new(operations: Operations, clones: u32) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let mut bench = Bench::within(folder.path(), operations, clones);
        bench.kept = Some(folder);
        bench
    }

    pub(crate) fn within(root: &Path, operations: Operations, clones: u32) -> Bench {
        let job = Job {
            name: "test".to_owned(),
            clones,
            work: Work::FileOperations(operations),
            ..Job::default()
        };
        Bench {
            root: root.to_owned(),
            kept: None,
            job,
            seed: 5,
            far_start: false,
            never_start: false,
            left: Arc::new(AtomicU32::new(clones)),
            shared: Vec::new(),
            outcomes: Vec::new(),
            released: 0,
        }
    }

    /// The folder of a clone.
    pub(crate) fn folder(&self, clone: u32) -> PathBuf {
        match self.job.work.file_operations() {
            Some(operations) if operations.own_folders => self.root.join(format!("clone{clone}")),
            _ => self.root.clone(),
        }
    }

    /// Creates the folders and the files of the sets.
    pub(crate) fn lay_out(&self) {
        let operations = self.job.work.file_operations().unwrap();
        for clone in 0..self.job.clones {
            fs::create_dir_all(self.folder(clone)).unwrap();
            for set in operations.sets.iter().filter(|set| !set.name.contains('/')) {
                for number in share(set.count, clone, self.job.clones) {
                    let path = self.folder(clone).join(file_name(&set.name, number));
                    fs::write(path, vec![b'x'; set.size as usize]).unwrap();
                }
            }
        }
    }

    pub(crate) fn spec(&self, clone: u32) -> CloneSpec {
        let path = self.folder(clone);
        CloneSpec {
            job: Arc::new(self.job.clone()),
            job_index: 0,
            clone,
            files: Vec::new(),
            seed: self.seed + 1000 * u64::from(clone),
            simulated: None,
            output: Default::default(),
            byte_budget: 0,
            log: None,
            flow: None,
            part: ClonePart::FileOperations(OperationsPart {
                folder: File::open(&path).unwrap().into(),
                path,
                prefix: format!("c{clone}."),
                unfinished: Arc::clone(&self.left),
            }),
        }
    }

    /// Prepares all clones, runs `before`, and starts them; `meanwhile` runs at the same time.
    fn carry_out<T>(
        &mut self,
        before: impl FnOnce(),
        meanwhile: impl FnOnce(&[Arc<CloneShared>]) -> T,
    ) -> T {
        self.lay_out();
        let clones = 0..self.job.clones;
        self.shared = clones
            .clone()
            .map(|_| Arc::new(CloneShared::of(&self.job)))
            .collect();
        let specs: Vec<CloneSpec> = clones.map(|clone| self.spec(clone)).collect();
        let workers: Vec<_> = specs
            .into_iter()
            .zip(&self.shared)
            .map(|(spec, shared)| {
                let shared = Arc::clone(shared);
                thread::spawn(move || {
                    count_this_thread();
                    run(spec, &shared).unwrap()
                })
            })
            .collect();
        for shared in &self.shared {
            assert!(shared.gate.arrived());
        }
        before();
        let start = match self.far_start {
            true => MonotonicClock.now() + FAR_NS,
            false => MonotonicClock.now(),
        };
        self.released = start;
        for shared in &self.shared {
            match self.never_start {
                true => shared.gate.close(),
                false => shared.gate.release(start),
            }
        }
        let result = meanwhile(&self.shared);
        wait_until("all clones have ended", || {
            workers.iter().all(JoinHandle::is_finished)
        });
        self.outcomes = workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect();
        result
    }

    /// Starts all clones; `meanwhile` runs at the same time.
    pub(crate) fn play_with<T>(&mut self, meanwhile: impl FnOnce(&[Arc<CloneShared>]) -> T) -> T {
        self.carry_out(|| (), meanwhile)
    }

    /// Runs all clones to their end; `before` runs when all are ready and none has begun.
    pub(crate) fn play_after(&mut self, before: impl FnOnce()) {
        self.carry_out(before, |_| ());
    }

    /// Runs all clones to their end.
    pub(crate) fn play(&mut self) {
        self.carry_out(|| (), |_| ());
    }

    /// Requests all clones to stop once `begun` is true for each.
    pub(crate) fn play_until(&mut self, begun: impl Fn(&CloneShared) -> bool, stop: StopRequest) {
        self.play_with(|all| {
            wait_until("the clones are at work", || {
                all.iter().all(|one| begun(one))
            });
            all.iter().for_each(|shared| shared.request_stop(stop));
        });
    }

    /// Why a clone cannot begin.
    pub(crate) fn refused(&mut self) -> WorkerError {
        self.lay_out();
        let shared = CloneShared::of(&self.job);
        let error = run(self.spec(0), &shared).unwrap_err();
        assert!(!shared.gate.arrived());
        error
    }

    pub(crate) fn outcome(&self, clone: usize) -> &CloneOutcome {
        &self.outcomes[clone]
    }

    /// The start of the clones, ns on the clock of the engine.
    pub(crate) fn released(&self) -> u64 {
        self.released
    }

    pub(crate) fn unfinished(&self) -> u32 {
        self.left.load(Ordering::Relaxed)
    }

    pub(crate) fn ops_of(&self, clone: usize, direction: Direction) -> u64 {
        self.shared[clone].measure.of(direction).service.count()
    }

    pub(crate) fn ops(&self, direction: Direction) -> u64 {
        self.histogram(direction).count()
    }

    pub(crate) fn ramp_ops(&self, direction: Direction) -> u64 {
        let clones = self.shared.iter();
        clones
            .map(|one| one.ramp.of(direction).service.count())
            .sum()
    }

    pub(crate) fn bytes(&self, direction: Direction) -> u64 {
        let bytes =
            |one: &Arc<CloneShared>| one.measure.of(direction).bytes.load(Ordering::Relaxed);
        self.shared.iter().map(bytes).sum()
    }

    pub(crate) fn errors(&self, direction: Direction) -> u64 {
        let errors =
            |one: &Arc<CloneShared>| one.measure.of(direction).errors.load(Ordering::Relaxed);
        self.shared.iter().map(errors).sum()
    }

    pub(crate) fn histogram(&self, direction: Direction) -> Histogram {
        let mut all = Histogram::default();
        for shared in &self.shared {
            all.merge(&shared.measure.of(direction).service.histogram());
        }
        all
    }

    pub(crate) fn response(&self, direction: Direction) -> Option<Histogram> {
        let mut all = Histogram::default();
        for shared in &self.shared {
            all.merge(&shared.measure.of(direction).response.as_ref()?.histogram());
        }
        Some(all)
    }

    /// Names and lengths of the entries of a clone's folder, by name; folders have the length `u64::MAX`.
    pub(crate) fn entries(&self, clone: u32) -> Vec<(String, u64)> {
        let entries = fs::read_dir(self.folder(clone)).unwrap();
        let mut found: Vec<(String, u64)> = entries
            .map(|entry| {
                let entry = entry.unwrap();
                let metadata = entry.metadata().unwrap();
                let length = if metadata.is_dir() {
                    u64::MAX
                } else {
                    metadata.len()
                };
                (entry.file_name().into_string().unwrap(), length)
            })
            .collect();
        found.sort();
        found
    }

    /// The descriptors of this process that refer to files below the folder.
    pub(crate) fn open_files(&self) -> Vec<PathBuf> {
        let all = fs::read_dir("/proc/self/fd").unwrap();
        all.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .filter(|path| path.starts_with(&self.root) && *path != self.root)
            .collect()
    }
}
