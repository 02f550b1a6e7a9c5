//! From a plan to clones that are ready to start: names and sizes bound, files admitted, laid out and
//! open, logs made, the environment read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use iodyno_engine::{CloneSpec, SharedFlow};
use iodyno_model::{BoundPlan, Diagnostic, Environment, FileState, Job, Step, Target};
use iodyno_target::{Roots, environment};

use crate::clock;
use crate::control::{Control, Told};
use crate::files::{self, Files};
use crate::layout::{self, LayoutError};
use crate::logs::{self, CloneLogs};
use crate::outbox::Outbox;
use crate::probe::HostProbe;
use crate::protocol::FromNode;
use crate::resolve::{Resolved, resolve};
use crate::wanted::{self, Wanted};

/// Why a trial does not begin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unready {
    /// The guard refused a target.
    Refused(Vec<Diagnostic>),
    /// It cannot be carried out here.
    Unprepared(Vec<Diagnostic>),
    /// It was told to end.
    Withdrawn,
}

/// A clone that waits for its thread.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) job: u32,
    pub(crate) clone: u32,
    pub(crate) seed: u64,
    pub(crate) region_bytes: u64,
    /// The names of its first few files.
    pub(crate) files: Vec<String>,
    /// `None`: its files are laid out and that is all it asked for.
    pub(crate) spec: Option<CloneSpec>,
    pub(crate) logs: CloneLogs,
}

/// Everything that a trial needs.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) clones: Vec<Waiting>,
    pub(crate) files: Files,
    pub(crate) states: Vec<FileState>,
    pub(crate) environment: Environment,
    pub(crate) notes: Vec<String>,
    /// When files were laid out, if any were: from, to; the clock's ns.
    pub(crate) layout: Option<(u64, u64)>,
}

/// A clone's names in the result.
const NAMES: usize = 8;

/// Makes everything ready but the threads.
pub(crate) fn prepare(
    plan: &BoundPlan,
    control: &Control,
    outbox: &Outbox,
) -> Result<Prepared, Unready> {
    let jobs = &plan.workload.jobs;
    let resolved = resolve(plan, &HostProbe).map_err(Unready::Unprepared)?;
    let (wanted, _) = wanted::of(&resolved, jobs, &plan.configuration.target);
    files::raise_descriptors(descriptors(&resolved, wanted.len()))
        .map_err(|fault| Unready::Unprepared(vec![fault]))?;
    // A layout changes what it tells: then it is read after.
    let beside = wanted.iter().all(Wanted::ready);
    let paths = wanted.iter().map(|wanted| wanted.path.clone()).collect();
    let environment = read_environment(paths, beside);
    let mut files = Files::admit(plan, wanted)?;
    let made = make(plan, control, outbox, &resolved, &mut files);
    let (clones, layout) = match made {
        Ok(made) => made,
        Err(unready) => {
            files.undo_unfinished();
            return Err(unready);
        }
    };
    let mut notes = resolved.notes;
    notes.extend(files.notes());
    files.invalidate();
    Ok(Prepared {
        clones,
        states: files.states(),
        environment: environment.get(),
        files,
        notes,
        layout,
    })
}

/// Files of the trial, of each clone, and a ring and five logs a clone.
fn descriptors(resolved: &Resolved, shared: usize) -> u64 {
    let own = resolved.clones.iter().map(|clone| clone.files.len() + 6);
    (shared + own.sum::<usize>()) as u64
}

type Made = (Vec<Waiting>, Option<(u64, u64)>);

/// Opens what each clone needs, and then, when nothing can fail any more but the storage, lays out.
fn make(
    plan: &BoundPlan,
    control: &Control,
    outbox: &Outbox,
    resolved: &Resolved,
    files: &mut Files,
) -> Result<Made, Unready> {
    let jobs: Vec<Arc<Job>> = plan.workload.jobs.iter().cloned().map(Arc::new).collect();
    let folder = match &plan.configuration.target {
        Target::AsWritten { folder } => folder.clone(),
        Target::Path(_) => PathBuf::new(),
    };
    let clones = open_all(resolved, files, &jobs, &folder).map_err(Unready::Unprepared)?;
    let needed = files.list.iter().any(|file| !file.wanted.ready());
    let from = clock::now();
    if needed {
        let stop = || control.told() != Told::GoOn;
        let mut progress = |done, total| {
            let step = Step::LayOut;
            outbox.say(FromNode::Progress { step, done, total });
        };
        layout::lay_out(files, plan.seed, &stop, &mut progress).map_err(|error| match error {
            LayoutError::Stopped => Unready::Withdrawn,
            LayoutError::Failed(fault) => Unready::Unprepared(vec![fault]),
        })?;
    }
    match control.told() {
        Told::GoOn => Ok((clones, needed.then(|| (from, clock::now())))),
        _ => Err(Unready::Withdrawn),
    }
}

fn open_all(
    resolved: &Resolved,
    files: &Files,
    jobs: &[Arc<Job>],
    folder: &Path,
) -> Result<Vec<Waiting>, Vec<Diagnostic>> {
    let by_path = files.by_path();
    let mut faults: Vec<Diagnostic> = Vec::new();
    let mut clones = Vec::with_capacity(resolved.clones.len());
    // The jobs of a flow share its count of ops.
    let mut flows: HashMap<u32, Arc<SharedFlow>> = HashMap::new();
    for (index, clone) in resolved.clones.iter().enumerate() {
        let job = &jobs[clone.job as usize];
        let opened = match files.open(job, clone, &by_path) {
            Ok(opened) => opened,
            Err(found) => {
                // All clones of a job on one file fail alike; it is said once.
                faults.extend(
                    found
                        .into_iter()
                        .filter(|f| !faults.contains(f))
                        .collect::<Vec<_>>(),
                );
                continue;
            }
        };
        let logs = match logs::create(&job.logs, folder, index + 1) {
            Ok(logs) => logs,
            Err(message) => {
                let fault = Diagnostic::error(message).hint("name a folder that can be written");
                faults.push(files::of_job(fault, job));
                continue;
            }
        };
        let spec = CloneSpec {
            job: Arc::clone(job),
            job_index: clone.job,
            clone: clone.clone,
            files: opened,
            seed: clone.seed,
            byte_budget: clone.byte_budget,
            log: logs.ops.as_ref().map(|ops| Arc::clone(&ops.queue)),
            flow: job
                .pacing
                .flow
                .map(|flow| Arc::clone(flows.entry(flow.id).or_default())),
            dumps: folder.to_owned(),
            operations: None,
            shared_files: None,
        };
        clones.push(Waiting {
            job: clone.job,
            clone: clone.clone,
            seed: clone.seed,
            region_bytes: clone.region_bytes,
            files: spec
                .files
                .iter()
                .take(NAMES)
                .map(|f| f.name.clone())
                .collect(),
            spec: (!job.files.create_only).then_some(spec),
            logs,
        });
    }
    match faults.is_empty() {
        true => Ok(clones),
        false => Err(faults),
    }
}

/// The environment, read by a thread beside the rest of the preparation, or after it.
enum Reading {
    Beside(JoinHandle<Environment>),
    Later(Vec<PathBuf>),
}

fn read_environment(paths: Vec<PathBuf>, beside: bool) -> Reading {
    if !beside {
        return Reading::Later(paths);
    }
    let own = paths.clone();
    let thread = thread::Builder::new().name("environment".to_owned());
    match thread.spawn(move || read(&own)) {
        Ok(handle) => Reading::Beside(handle),
        Err(_) => Reading::Later(paths),
    }
}

impl Reading {
    fn get(self) -> Environment {
        match self {
            Reading::Beside(handle) => handle.join().unwrap_or_default(),
            Reading::Later(paths) => read(&paths),
        }
    }
}

fn read(paths: &[PathBuf]) -> Environment {
    environment::read(&Roots::host(), env!("CARGO_PKG_VERSION"), paths)
}
