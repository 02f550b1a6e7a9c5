//! Prepares a trial: binds names and sizes, has the files admitted, lays them out and opens them, creates the logs and
//! reads the environment.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use iodyno_engine::{
    BlocksPart, ClonePart, CloneSpec, JobFile, OutputFiles, ReplayPart, SharedFlow, Simulated,
};
use iodyno_guard::create_output;
use iodyno_host::{Roots, environment};
use iodyno_model::{
    BoundPlan, Diagnostic, EngineKind, Environment, FileState, Job, Step, Target, Work,
};

use crate::clock;
use crate::faults::{self, PrepareError, fault};
use crate::files::exports;
use crate::files::layout;
use crate::files::operations::Site;
use crate::files::requirements::{self, Wanted};
use crate::files::shared_files;
use crate::files::shares::{Connections, ShareFiles, TrialProbe};
use crate::files::verify_records::{ClonePlaces, Recorder, recorded_places};
use crate::files::{self, Files, Opening};
use crate::logs::iolog::{self, Iolog};
use crate::logs::{self, CloneLogs, Epoch};
use crate::node::control::Control;
use crate::node::examine::no_block_trace;
use crate::node::message_writer::MessageSender;
use crate::node::simulated_devices;
use crate::node::telemetry::BackgroundSampler;
use crate::node::timeline::{Timeline, VIRTUAL_START_NS};
use crate::node::worker::Signal;
use crate::protocol::{Command, Event};
use crate::resolve::resolve;
use crate::resolve::resolved::{Resolved, ResolvedClone};
use crate::resolve::seeds;

/// A clone that waits for its thread.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) job: u32,
    pub(crate) clone: u32,
    pub(crate) seed: u64,
    pub(crate) region_bytes: u64,
    /// The names of its first few files.
    pub(crate) files: Vec<String>,
    /// `None`: it only requested that its files be laid out.
    pub(crate) spec: Option<CloneSpec>,
    pub(crate) logs: CloneLogs,
    /// The places for which its last writes are recorded, if they are.
    pub(crate) places: ClonePlaces,
}

/// The prepared resources of a trial.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    pub(crate) clones: Vec<Waiting>,
    pub(crate) files: Files,
    pub(crate) shares: ShareFiles,
    /// The processes on this host that serve exports and shares.
    pub(crate) servers: Vec<u32>,
    /// The place of file operations, if there are any.
    pub(crate) site: Option<Site>,
    pub(crate) states: Vec<FileState>,
    pub(crate) environment: Environment,
    pub(crate) notes: Vec<String>,
    /// Start and end of the layout, clock ns, if files were laid out.
    pub(crate) layout: Option<(u64, u64)>,
    /// Records the last writes to blocks with headers.
    pub(crate) recorder: Recorder,
    /// Samples the host since the layout began, if there is one.
    pub(crate) sampler: Option<BackgroundSampler>,
}

/// The largest number of file names per clone in the result.
const NAMES: usize = 8;

/// Prepares everything except the threads.
pub(crate) fn prepare(
    plan: &BoundPlan,
    control: &Control,
    messages: &MessageSender,
    timeline: &Timeline,
) -> Result<Prepared, PrepareError> {
    let jobs = &plan.workload.jobs;
    let connections = Connections::default();
    let resolved = resolve(plan, &TrialProbe(&connections));
    let resolved = resolved.map_err(|faults| PrepareError::untouched(plan, faults))?;
    let wanted = requirements::of(&resolved, jobs, &plan.configuration.target);
    files::raise_descriptors(descriptors(&resolved, jobs, wanted.len()))
        .map_err(|fault| PrepareError::Unprepared(vec![fault]))?;
    // A layout changes the environment, so it is read after the layout.
    exports::admit(plan)?;
    let traced = samples(plan) && plan.sampling.block_trace;
    if let Some(fault) = traced.then(no_block_trace).flatten() {
        return Err(PrepareError::Unprepared(vec![fault]));
    }
    let beside = wanted.iter().all(Wanted::ready) && !Site::lays_out(plan);
    let paths = wanted.iter().map(|wanted| wanted.path.clone());
    let paths = paths.chain(beyond_files(plan)).collect();
    let environment = read_environment(paths, beside);
    let mut prepared = Prepared {
        files: Files::admit(plan, wanted)?,
        ..Prepared::default()
    };
    match ShareFiles::admit(plan, &resolved, &connections) {
        Ok(shares) => prepared.shares = shares,
        Err(unready) => return Err(prepared.undo(unready, control, messages)),
    }
    if let Err(unready) = tell(&prepared.files, messages, timeline) {
        return Err(prepared.undo(unready, control, messages));
    }
    if let Err(unready) = make(plan, control, messages, &resolved, &mut prepared) {
        return Err(prepared.undo(unready, control, messages));
    }
    let (files, site) = (&prepared.files, &prepared.site);
    prepared.notes.extend(resolved.notes);
    prepared.notes.extend(prepared.recorder.take_notes());
    prepared.notes.extend(real_time(plan));
    prepared.notes.extend(files.notes());
    prepared.notes.extend(prepared.shares.notes());
    prepared.notes.extend(site.iter().flat_map(Site::notes));
    files.invalidate();
    files.pre_read(&|| control.stop.is_set());
    prepared.states = files.states();
    prepared.states.extend(prepared.shares.states());
    let folders = site.iter().flat_map(|site| site.states(plan));
    prepared.states.extend(folders);
    prepared.environment = environment.get();
    Ok(prepared)
}

/// Sends the identities of the admitted targets, and waits until the parent has stored them. The next trial then
/// recognises these files and devices even if both processes are killed.
fn tell(files: &Files, messages: &MessageSender, timeline: &Timeline) -> Result<(), PrepareError> {
    let targets = files.identities();
    if targets.is_empty() {
        return Ok(());
    }
    messages.event(Event::Admitted { targets });
    loop {
        match timeline.next() {
            Some(Signal::Command(Command::Proceed)) => return Ok(()),
            Some(Signal::Command(Command::Finish | Command::Abort) | Signal::ParentGone) | None => {
                return Err(PrepareError::Withdrawn);
            }
            Some(_) => {}
        }
    }
}

impl Prepared {
    /// Call this if the trial does not start: removes created files, except those that the next trial can use. Files
    /// that cannot be removed are reported in `why`.
    pub(crate) fn undo(
        &mut self,
        why: PrepareError,
        control: &Control,
        messages: &MessageSender,
    ) -> PrepareError {
        self.files.undo_unfinished();
        self.shares.undo_unfinished();
        let left = self.tear_down(control, messages);
        match why {
            PrepareError::Refused(mut faults) => {
                faults.extend(left);
                PrepareError::Refused(faults)
            }
            PrepareError::Unprepared(mut faults) => {
                faults.extend(left);
                PrepareError::Unprepared(faults)
            }
            PrepareError::Withdrawn if !left.is_empty() => PrepareError::Unprepared(left),
            PrepareError::Withdrawn => PrepareError::Withdrawn,
        }
    }

    /// Removes the folder of the trial's file operations, if there is one: see [`Site::tear_down`].
    pub(crate) fn tear_down(
        &mut self,
        control: &Control,
        messages: &MessageSender,
    ) -> Vec<Diagnostic> {
        let Some(site) = &mut self.site else {
            return Vec::new();
        };
        let stop = || control.stop.requested();
        site.tear_down(&stop, &mut telling(messages, Step::TearDown))
    }
}

/// Reports the progress of a step.
fn telling(messages: &MessageSender, step: Step) -> impl FnMut(u64, u64) {
    move |done, total| messages.event(Event::Progress { step, done, total })
}

/// A note if simulated jobs run in real time because of other jobs.
fn real_time(plan: &BoundPlan) -> Option<String> {
    if plan.workload.in_virtual_time() {
        return None;
    }
    let jobs = plan
        .workload
        .jobs
        .iter()
        .filter(|job| job.work.in_virtual_time());
    let names: Vec<String> = jobs.map(|job| format!("`{}`", job.name)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "simulated job {} runs in real time, because not all jobs of the workload are simulated in virtual time",
            names.join(", ")
        )
    })
}

/// The number of descriptors that are open at the same time: the `shared` files, and those of each clone.
fn descriptors(resolved: &Resolved, jobs: &[Job], shared: usize) -> u64 {
    let own = resolved.clones.iter().map(|clone| {
        let job = &jobs[clone.job as usize];
        let logs = logs::files(&job.logs);
        let files = match job.work.engine() {
            // Its folder, and the file that a cycle has open.
            None => 2,
            Some(engine) if engine.kind.without_storage() => 0,
            // One more for the ring.
            Some(engine) if engine.kind.has_ring() => clone.files.len() + 1,
            Some(_) => clone.files.len(),
        };
        files + logs
    });
    (shared + own.sum::<usize>()) as u64
}

/// Opens the files of each clone. Then, when only the storage can still fail, lays them out.
fn make(
    plan: &BoundPlan,
    control: &Control,
    messages: &MessageSender,
    resolved: &Resolved,
    prepared: &mut Prepared,
) -> Result<(), PrepareError> {
    let jobs: Vec<Arc<Job>> = plan.workload.jobs.iter().cloned().map(Arc::new).collect();
    let folder = match &plan.configuration.target {
        Target::AsWritten { folder } => folder.clone(),
        Target::Path(_) | Target::Made(_) | Target::Simulated(_) => PathBuf::new(),
    };
    prepared.site = Site::make(plan)?;
    let (files, site) = (&mut prepared.files, prepared.site.as_ref());
    let made = site.is_some() || files.any_made() || prepared.shares.any_made();
    shared_files::check(files, &plan.workload.jobs).map_err(|faults| match made {
        true => PrepareError::Unprepared(faults),
        false => PrepareError::untouched(plan, faults),
    })?;
    let mut recorder = Recorder::begin(resolved, &plan.workload.jobs, files, &prepared.shares);
    let places = Places {
        files,
        shares: &prepared.shares,
        site,
        folder: &folder,
    };
    prepared.clones =
        open_all(plan, resolved, places, &jobs, &mut recorder).map_err(PrepareError::Unprepared)?;
    prepared.recorder = recorder;
    let specs = prepared.clones.iter().filter_map(|it| it.spec.as_ref());
    prepared.servers = exports::servers(specs);
    let mut needed = files.list.iter().any(|file| !file.wanted.ready());
    needed |= prepared.shares.needs_layout();
    if needed || Site::lays_out(plan) {
        let paths = files.list.iter().map(|file| file.wanted.path.clone());
        let paths: Vec<PathBuf> = paths.chain(beyond_files(plan)).collect();
        let (sampler, note) = sample_layout(plan, &paths, &prepared.servers, messages);
        prepared.sampler = sampler;
        prepared.notes.extend(note);
    }
    let from = clock::now();
    let stop = || control.stop.is_set();
    let mut progress = telling(messages, Step::LayOut);
    if needed {
        layout::lay_out(files, plan.seed, &stop, &mut progress)?;
        prepared.shares.lay_out(plan.seed, &stop, &mut progress)?;
    }
    if let Some(site) = &mut prepared.site {
        needed |= site.lay_out(plan, &stop, &mut progress)?;
    }
    if control.stop.is_set() {
        return Err(PrepareError::Withdrawn);
    }
    shared_files::make_ready(files, &plan.workload.jobs)
        .map_err(|fault| PrepareError::Unprepared(vec![fault]))?;
    prepared.layout = needed.then(|| (from, clock::now()));
    Ok(())
}

/// The folders of the trial beside the files of its clones: that of file operations, and that of a server.
fn beyond_files(plan: &BoundPlan) -> impl Iterator<Item = PathBuf> {
    Site::folder(plan).into_iter().chain(plan.shared.clone())
}

/// Whether the host is sampled.
fn samples(plan: &BoundPlan) -> bool {
    !plan.workload.in_virtual_time() && plan.sampling.every_ns > 0
}

/// Begins to sample the host before the layout. `None`, or a note: see [`BackgroundSampler::open`].
fn sample_layout(
    plan: &BoundPlan,
    paths: &[PathBuf],
    servers: &[u32],
    messages: &MessageSender,
) -> (Option<BackgroundSampler>, Option<String>) {
    if !samples(plan) {
        return (None, None);
    }
    let targets = environment::targets(&Roots::host(), paths);
    let messages = messages.clone();
    let (sampler, note) = BackgroundSampler::open(&plan.sampling, &targets, servers, messages);
    sampler.iter().for_each(BackgroundSampler::set_up);
    (sampler, note)
}

/// The files, folders and exports of the clones of a trial.
#[derive(Clone, Copy)]
struct Places<'a> {
    files: &'a Files,
    shares: &'a ShareFiles,
    site: Option<&'a Site>,
    /// The folder of logs.
    folder: &'a Path,
}

fn open_all(
    plan: &BoundPlan,
    resolved: &Resolved,
    places: Places<'_>,
    jobs: &[Arc<Job>],
    recorder: &mut Recorder,
) -> Result<Vec<Waiting>, Vec<Diagnostic>> {
    let Places {
        files,
        shares,
        site,
        folder,
    } = places;
    let mut shared = Shared {
        recorder,
        files,
        shares,
        by_path: files.by_path(),
        site,
        folder,
        plan,
        flows: HashMap::new(),
        states: shared_files::States::default(),
        exports: exports::Shared::default(),
        iologs: Vec::new(),
    };
    let mut faults: Vec<Diagnostic> = Vec::new();
    let mut clones = Vec::with_capacity(resolved.clones.len());
    for (index, clone) in resolved.clones.iter().enumerate() {
        match shared.clone_of(&jobs[clone.job as usize], clone, index + 1) {
            Ok(waiting) => clones.push(waiting),
            // All clones of a job on one file have the same faults: each fault is reported once.
            Err(found) => {
                for fault in found {
                    if !faults.contains(&fault) {
                        faults.push(fault);
                    }
                }
            }
        }
    }
    if faults.is_empty() {
        let specs = clones.iter_mut().filter_map(|clone| clone.spec.as_mut());
        let connected = simulated_devices::connect(specs.collect(), plan.configuration.simulated());
        faults.extend(connected.err());
    }
    let specs = clones.iter().filter_map(|clone| clone.spec.as_ref());
    if let Some(name) = iodyno_engine::shared_zones(specs) {
        let hint = "give each clone zones of its own by `offset` and `size`, and use a run for each job that reads what another wrote";
        let message = format!("several clones use the same zones of `{name}`");
        faults.push(fault(message, hint));
    }
    match faults.is_empty() {
        true => Ok(clones),
        false => Err(faults),
    }
}

/// The inputs for creating clones, and the state that the clones of a job or a flow share.
struct Shared<'a> {
    files: &'a Files,
    shares: &'a ShareFiles,
    by_path: BTreeMap<&'a Path, usize>,
    site: Option<&'a Site>,
    folder: &'a Path,
    plan: &'a BoundPlan,
    /// The jobs of a flow share its count of ops.
    flows: HashMap<u32, Arc<SharedFlow>>,
    states: shared_files::States,
    exports: exports::Shared,
    recorder: &'a mut Recorder,
    /// Paths of the iologs.
    iologs: Vec<PathBuf>,
}

impl Shared<'_> {
    /// Creates a clone; `number` counts the clones of all jobs from 1.
    fn clone_of(
        &mut self,
        job: &Arc<Job>,
        clone: &ResolvedClone,
        number: usize,
    ) -> Result<Waiting, Vec<Diagnostic>> {
        let (create_only, places) = match &job.work {
            Work::Blocks(blocks) => (blocks.files.create_only, recorded_places(blocks, clone)),
            Work::FileOperations(_) => (false, Vec::new()),
            Work::SharedFiles(rule) => (rule.create_only, Vec::new()),
        };
        let (files, mut part) = self.part_of(job, clone)?;
        let logs = self.logs_of(job, clone, number)?;
        if let (ClonePart::Blocks(part), Some(iolog)) = (&mut part, &logs.iolog) {
            part.iolog = Some(Arc::clone(&iolog.queue));
        }
        let flows = &mut self.flows;
        let flow = job.pacing.flow;
        let engine = job.work.engine();
        let simulated = engine.is_some_and(|engine| engine.kind == EngineKind::Sim);
        let spec = CloneSpec {
            job: Arc::clone(job),
            job_index: clone.job,
            clone: clone.clone,
            files,
            seed: clone.seed,
            simulated: simulated.then(|| Simulated {
                seed: seeds::device(self.plan, clone.job, clone.clone),
                device: None,
                clock: None,
            }),
            byte_budget: clone.byte_budget,
            log: logs.ops.as_ref().map(|ops| Arc::clone(&ops.queue)),
            output: OutputFiles {
                folder: self.folder.to_owned(),
                create: create_output,
            },
            flow: flow.map(|flow| Arc::clone(flows.entry(flow.id).or_default())),
            part,
        };
        let names = spec.files.iter().take(NAMES).map(|file| file.name.clone());
        let folder = self.site.and_then(|site| site.path(clone.job, clone.clone));
        Ok(Waiting {
            job: clone.job,
            clone: clone.clone,
            seed: clone.seed,
            region_bytes: clone.region_bytes,
            files: names.chain(folder).collect(),
            spec: (!create_only).then_some(spec),
            logs,
            places,
        })
    }

    /// The open files of a clone, and what is specific to the kind of its work.
    fn part_of(
        &mut self,
        job: &Arc<Job>,
        clone: &ResolvedClone,
    ) -> Result<(Vec<JobFile>, ClonePart), Vec<Diagnostic>> {
        let of_job = |fault| vec![faults::of_job(fault, job)];
        let open = |how: &Opening<'_>| self.files.open(job, how, clone, &self.by_path);
        match &job.work {
            Work::Blocks(blocks) => {
                let mut part = BlocksPart {
                    trial: seeds::trial_identity(&self.plan.key),
                    recorded: self.recorder.expected(blocks, clone).map_err(of_job)?,
                    iolog: None,
                    service: None,
                    replay: clone.replay.as_ref().map(|replay| ReplayPart {
                        trace: Arc::clone(&replay.trace),
                        files: replay.files.clone(),
                    }),
                };
                let how = match &clone.replay {
                    Some(_) => Opening::of_replay(blocks),
                    None => Opening::of_blocks(blocks),
                };
                let mut files = open(&how)?;
                part.service = self
                    .shares
                    .open(job, clone)
                    .and_then(|share| match share {
                        Some(share) => Ok(Some(share)),
                        None => self.exports.connect(job, &clone.files, &mut files),
                    })
                    .map_err(|fault| vec![fault])?;
                Ok((files, ClonePart::Blocks(part)))
            }
            Work::FileOperations(_) => {
                let part = self.site.map(|site| site.part(clone.job, clone.clone));
                let part = part.transpose().map_err(of_job)?.flatten();
                let part = part.map_or_else(ClonePart::default, ClonePart::FileOperations);
                Ok((Vec::new(), part))
            }
            Work::SharedFiles(rule) => {
                let files = open(&Opening::of_shared_files(rule))?;
                let states = &mut self.states;
                let part = states.part(clone.job, job, rule, &clone.files, clone.seed);
                Ok((files, ClonePart::SharedFiles(part)))
            }
        }
    }

    /// The logs of a clone; `number` counts the clones of all jobs from 1.
    fn logs_of(
        &mut self,
        job: &Job,
        clone: &ResolvedClone,
        number: usize,
    ) -> Result<CloneLogs, Vec<Diagnostic>> {
        let here = match self.plan.workload.in_virtual_time() {
            true => VIRTUAL_START_NS,
            false => clock::now(),
        };
        let epoch = job.logs.epoch_clock.map_or(Epoch::default(), |number| {
            Epoch::of_clock(clock::numbered(number), here)
        });
        let priority = job.placement.priority().unwrap_or_default();
        let logs = logs::create(&job.logs, priority, self.folder, number, epoch);
        let logs = logs.and_then(|logs| {
            let (Some(path), Work::Blocks(blocks)) = (&job.logs.iolog, &job.work) else {
                return Ok(logs);
            };
            let path = iolog::path_of(path, self.folder, &mut self.iologs, number);
            Ok(CloneLogs {
                iolog: Some(Iolog::create(path, blocks, clone, self.folder)?),
                ..logs
            })
        });
        logs.map_err(|message| {
            let hint = "name another log, in a folder that can be written";
            vec![faults::of_job(fault(message, hint), job)]
        })
    }
}

/// The environment, read by a thread during the rest of the preparation, or after it.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{job, plan};
    use iodyno_model::{Amount, Engine, SimClock, SimOptions};

    fn simulated(clock: SimClock) -> Job {
        let mut job = job("s");
        job.work.blocks_mut().unwrap().engine = Engine::new(EngineKind::Sim, 1);
        job.work.blocks_mut().unwrap().engine.sim = Some(SimOptions {
            clock,
            ..SimOptions::default()
        });
        job.work.blocks_mut().unwrap().extent.size = Some(Amount::Bytes(1 << 20));
        job
    }

    #[test]
    fn only_opened_files_count_as_descriptors() {
        let mut jobs = vec![simulated(SimClock::Virtual), job("f")];
        jobs[0].clones = 3000;
        jobs[0].logs.latency = Some("l".into());
        jobs[1].clones = 2;
        jobs[1].work.blocks_mut().unwrap().engine = Engine::new(EngineKind::IoUring, 4);
        (
            jobs[1].work.blocks_mut().unwrap().files.count,
            jobs[1].work.blocks_mut().unwrap().extent.size,
        ) = (3, Some(Amount::Bytes(1 << 20)));
        jobs[1].logs.iops = Some("l".into());
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(folder.path(), jobs.clone());
        let resolved = resolve(&plan, &crate::probe::HostProbe).unwrap();
        assert_eq!(
            descriptors(&resolved, &jobs, 6),
            3000 * 3 + 2 * (3 + 1 + 1) + 6
        );
        jobs[0].logs.latency = None;
        assert_eq!(descriptors(&resolved, &jobs, 0), 2 * (3 + 1 + 1));
    }

    #[test]
    fn a_simulated_job_beside_real_ones_is_noted() {
        let noted = |jobs: Vec<Job>| real_time(&plan("/", jobs));
        let real = || job("f");
        assert_eq!(noted(vec![simulated(SimClock::Virtual)]), None);
        assert_eq!(noted(vec![simulated(SimClock::Real), real()]), None);
        let note = noted(vec![simulated(SimClock::Virtual), real()]).unwrap();
        assert!(note.contains("`s` runs in real time"), "{note}");
    }
}
