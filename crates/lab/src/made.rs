//! The targets that are made for a run's trials: when each is made, prepared, and torn down.
//!
//! A target is made before the first trial that uses it and torn down after the last one, as [`Plan::fresh`] says. The order of the
//! trials does not depend on it. A target whose trial did not complete is not used again. Whatever happens to a trial, every
//! target that was made is torn down before the run ends; what could not be undone is reported. Each node has targets of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use iodyno_model::{
    BoundPlan, Configuration, Diagnostic, FilePolicy, Files, Fresh, Layer, MadeTarget, Pinning,
    Plan, Provision, RunId, Severity, Target, Trial, TrialKey, Work, Workload,
};
use iodyno_runner::{Guest, Node, ProvisionRequest, StopFlag, TornDown, TrialEnd, carry_out};
use iodyno_units::Nanos;

use crate::experiment::workers;
use crate::precondition::Preconditioned;
use crate::schedule::bind;
use crate::trial_run::reasons;
use crate::{Lab, LabNode, Progress};

/// How often the targets of a plan are made anew: as the plan requests, but for every trial if two configurations take
/// turns. Then all are, so that every configuration is measured on targets of the same age.
pub fn fresh(plan: &Plan) -> Fresh {
    match turns(plan).is_empty() {
        true => plan.fresh,
        false => Fresh::Trial,
    }
}

/// The pairs of configurations that cannot exist at the same time, on a node that both use: they use one device, are made by the
/// same command, run the one server of their pools on other CPUs, or one of them has virtual machines, which use memory and CPUs
/// also when idle.
pub fn turns(plan: &Plan) -> Vec<(&Configuration, &Configuration)> {
    let made = plan
        .configurations
        .iter()
        .filter_map(|configuration| Some((configuration, configuration.provision()?)));
    let made: Vec<(&Configuration, &Provision)> = made.collect();
    let pairs = made.iter().enumerate();
    let pairs =
        pairs.flat_map(|(place, one)| made[place + 1..].iter().map(move |other| (one, other)));
    let exclusive = |one: &Provision, other: &Provision| {
        let mut devices = one.devices();
        devices.any(|device| other.devices().any(|other| other == device))
            || one.setup.is_some() && one.setup == other.setup
            || [one, other]
                .iter()
                .any(|provision| provision.vm().is_some())
            || matches!((pool_server(one), pool_server(other)), (Some(one), Some(other)) if one != other)
    };
    pairs
        .filter(|((on, one), (others_on, other))| {
            share_a_node(on, others_on) && exclusive(one, other)
        })
        .map(|((one, _), (other, _))| (*one, *other))
        .collect()
}

fn share_a_node(one: &Configuration, other: &Configuration) -> bool {
    let all = one.nodes.is_empty() || other.nodes.is_empty();
    all || one.nodes.iter().any(|name| other.nodes.contains(name))
}

/// Where the server of a target's pool runs.
fn pool_server(provision: &Provision) -> Option<&Pinning> {
    provision.layers.iter().find_map(|layer| match layer {
        Layer::Zfs(zfs) => Some(&zfs.pinning),
        _ => None,
    })
}

/// What prevents the targets of a plan from being made on its nodes. Changes nothing.
pub fn obstacles(
    plan: &Plan,
    nodes: &[LabNode<'_>],
    protected: &[PathBuf],
    stop: &StopFlag,
) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        let uses =
            |cell: u32, place| plan.place(cell).0 == place && workers(plan, cell).contains(&number);
        let places = (0..plan.configurations.len()).filter(|place| {
            let again = plan.configurations[*place].again;
            !again && (0..plan.cells()).any(|cell| uses(cell, *place))
        });
        let requests: Vec<ProvisionRequest> = places
            .filter_map(|place| request(plan, place, protected))
            .collect();
        if !requests.is_empty() {
            let found = node.node.check_provision(&requests, stop).into_iter();
            faults.extend(found.map(|fault| node.told(fault)));
        }
    }
    faults
}

fn request(plan: &Plan, place: usize, protected: &[PathBuf]) -> Option<ProvisionRequest> {
    let configuration = &plan.configurations[place];
    Some(ProvisionRequest {
        token: token(),
        configuration: configuration.name.clone(),
        provision: configuration.provision()?.clone(),
        destroy: plan.destroy.clone(),
        protected: protected.to_vec(),
    })
}

/// A unique token, short enough for the names of pools and folders.
fn token() -> String {
    // The last bits of a UUIDv7 are random.
    format!("{:012x}", RunId::fresh().0.as_u128() & 0xffff_ffff_ffff)
}

/// The targets of a run that exist now, of all nodes.
pub(crate) struct MadeTargets<'a>(Vec<OnNode<'a>>);

/// The targets of a run that exist now on one node.
struct OnNode<'a> {
    lab: &'a Lab<'a>,
    plan: &'a Plan,
    /// The place of the node.
    number: usize,
    fresh: Fresh,
    /// In the order in which they were made.
    live: Vec<Live>,
    /// The number of the last target that was made for each configuration, also by earlier sessions of the run.
    made: BTreeMap<usize, u32>,
}

/// A target that exists.
#[derive(Debug)]
struct Live {
    configuration: usize,
    token: String,
    round: u32,
    path: PathBuf,
    about: MadeTarget,
    /// The virtual machines that carry out its trials; none: the node itself does.
    guests: Vec<Guest>,
    /// The latest trial on it.
    latest: Option<TrialKey>,
    /// The files that exist on it, by [`files_of`].
    laid_out: BTreeSet<String>,
    snapshot: bool,
}

/// The target of a trial that is made.
#[derive(Debug, Clone)]
pub(crate) struct Ready {
    /// The folder or device.
    pub(crate) path: PathBuf,
    /// How it was made.
    pub(crate) about: MadeTarget,
    /// The virtual machines that carry out its trials, with the node that reaches them; none: the run's nodes do.
    pub(crate) guests: Vec<Guest>,
    /// Whether it was made for this trial.
    pub(crate) anew: bool,
}

impl Ready {
    /// The nodes within its virtual machines, which this node has started; none without.
    pub(crate) fn nodes<'n>(&self, node: &'n dyn Node) -> Vec<Box<dyn Node + 'n>> {
        nodes(&self.guests, node)
    }

    /// The plan of a trial on this target.
    pub(crate) fn bind(&self, mut plan: BoundPlan) -> BoundPlan {
        plan.configuration.target = Target::Path(self.path.clone());
        // What it contains was written by this run.
        plan.destroy.push(self.path.clone());
        plan
    }
}

/// The nodes within these virtual machines, which this node has started.
fn nodes<'n>(guests: &[Guest], node: &'n dyn Node) -> Vec<Box<dyn Node + 'n>> {
    guests
        .iter()
        .filter_map(|guest| node.guest(guest))
        .collect()
}

/// Does the same on each node that carries out trials on a target of this node.
fn on_each(
    guests: &[Guest],
    node: &dyn Node,
    mut work: impl FnMut(&dyn Node) -> Result<(), Vec<Diagnostic>>,
) -> Result<(), Vec<Diagnostic>> {
    match nodes(guests, node) {
        within if within.is_empty() => work(node),
        within => within.iter().try_for_each(|node| work(node.as_ref())),
    }
}

impl<'a> MadeTargets<'a> {
    pub(crate) fn new(lab: &'a Lab<'a>, plan: &'a Plan) -> MadeTargets<'a> {
        let on_node = |number| OnNode {
            lab,
            plan,
            number,
            fresh: fresh(plan),
            live: Vec::new(),
            made: BTreeMap::new(),
        };
        MadeTargets((0..lab.nodes.len()).map(on_node).collect())
    }

    /// Gives the targets of a trial's configuration higher numbers than this trial's have.
    pub(crate) fn number_after(&mut self, trial: &Trial) {
        let made = trial
            .parts
            .iter()
            .filter_map(|part| part.environment.made.as_ref());
        let Some(last) = made.map(|made| made.instance).max() else {
            return;
        };
        for own in &mut self.0 {
            let (place, _) = own.plan.place(trial.key.cell);
            let number = own.made.entry(place).or_default();
            *number = last.max(*number);
        }
    }

    /// Makes and prepares the targets of a trial, by the places of the nodes that do its work; none if its target exists without.
    ///
    /// # Errors
    /// Why they could not be made or prepared, on any node. Nothing is left on such a node, unless that is reported.
    pub(crate) fn ready(
        &mut self,
        key: TrialKey,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Result<BTreeMap<usize, Ready>, Vec<Diagnostic>> {
        let (mut ready, mut faults) = (BTreeMap::new(), Vec::new());
        for own in self.0.iter_mut().filter(|own| own.works(key.cell)) {
            match own.ready(key, observer) {
                Ok(made) => ready.extend(made.map(|made| (own.number, made))),
                Err(found) => {
                    let node = &own.lab.nodes[own.number];
                    faults.extend(found.into_iter().map(|fault| node.told(fault)));
                }
            }
        }
        match faults.is_empty() {
            true => Ok(ready),
            false => Err(faults),
        }
    }

    /// Tears the targets of a trial down unless a trial of the `rest` of its round, or of a later round, uses them.
    pub(crate) fn used(
        &mut self,
        key: TrialKey,
        completed: bool,
        rest: &[u32],
        observer: &mut dyn FnMut(Progress<'_>),
    ) {
        for own in self.0.iter_mut().filter(|own| own.works(key.cell)) {
            own.used(key, completed, rest, observer);
        }
    }

    /// Tears all targets down at once, so that a stopped run ends soon.
    pub(crate) fn end(&mut self, observer: &mut dyn FnMut(Progress<'_>)) {
        for own in &mut self.0 {
            own.end(observer);
        }
    }
}

impl OnNode<'_> {
    fn node(&self) -> &dyn Node {
        self.lab.nodes[self.number].node
    }

    /// Whether the node does the work of a cell.
    fn works(&self, cell: u32) -> bool {
        workers(self.plan, cell).contains(&self.number)
    }

    /// A step of making storage, with the name of the node.
    fn step(&self, what: &str) -> String {
        self.lab.nodes[self.number].says(what)
    }

    /// Makes and prepares the target of a trial; `None` if it exists without.
    ///
    /// # Errors
    /// Why it could not be made or prepared. Nothing of it is left, unless that is reported.
    fn ready(
        &mut self,
        key: TrialKey,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Option<Ready>, Vec<Diagnostic>> {
        let (place, _) = self.plan.place(key.cell);
        if self.plan.configurations[place].provision().is_none() {
            return Ok(None);
        }
        let usable = self.find(place).is_some_and(|live| match self.fresh {
            Fresh::Trial => false,
            Fresh::Round => live.round == key.round,
            Fresh::Experiment => true,
        });
        if !usable {
            self.tear_down(place, observer);
            self.make(place, key.round, observer)?;
        }
        let prepared = match usable {
            true => Ok(()),
            false => self.precondition(place, key, observer),
        };
        let prepared = prepared.and_then(|()| self.prepare(place, key, observer));
        if let Err(faults) = prepared {
            self.used(key, false, &[], observer);
            return Err(faults);
        }
        Ok(self.find_mut(place).map(|live| {
            live.latest = Some(key);
            Ready {
                path: live.path.clone(),
                about: live.about.clone(),
                guests: live.guests.clone(),
                anew: !usable,
            }
        }))
    }

    /// Tears the target of a trial down unless a trial of the `rest` of its round, or of a later round, uses it.
    fn used(
        &mut self,
        key: TrialKey,
        completed: bool,
        rest: &[u32],
        observer: &mut dyn FnMut(Progress<'_>),
    ) {
        // After a stop, all targets are torn down at once.
        if self.lab.stop.is_set() {
            return;
        }
        let (place, _) = self.plan.place(key.cell);
        let needed = match self.fresh {
            Fresh::Trial => false,
            Fresh::Round => rest
                .iter()
                .any(|cell| self.plan.place(*cell).0 == place && self.works(*cell)),
            Fresh::Experiment => true,
        };
        if !needed || !completed {
            self.tear_down(place, observer);
        }
    }

    /// Tears all targets down at once, so that a stopped run ends soon.
    fn end(&mut self, observer: &mut dyn FnMut(Progress<'_>)) {
        let mut targets = std::mem::take(&mut self.live);
        targets.reverse();
        self.undo(targets, observer);
    }

    fn find(&self, place: usize) -> Option<&Live> {
        let mut live = self.live.iter();
        live.find(|live| live.configuration == place)
    }

    fn find_mut(&mut self, place: usize) -> Option<&mut Live> {
        let mut live = self.live.iter_mut();
        live.find(|live| live.configuration == place)
    }

    fn make(
        &mut self,
        place: usize,
        round: u32,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), Vec<Diagnostic>> {
        let Some(request) = request(self.plan, place, &self.lab.store_files) else {
            return Ok(());
        };
        let configuration = &self.plan.configurations[place];
        tracing::info!(
            configuration = configuration.name,
            token = request.token,
            "making a target"
        );
        let mut told = |step: &str| {
            observer(Progress::Storage {
                configuration,
                step: &self.step(step),
            });
        };
        told(
            &configuration
                .provision()
                .map_or(String::new(), Provision::words),
        );
        let node = self.node();
        let made = node.provision(&request, self.lab.stop, &mut told)?;
        let number = self.made.entry(place).or_default();
        *number += 1;
        self.live.push(Live {
            configuration: place,
            token: request.token,
            round,
            path: made.path,
            about: MadeTarget {
                instance: *number,
                facts: made.facts,
                commands: made.commands,
            },
            guests: made.guests,
            latest: None,
            laid_out: BTreeSet::new(),
            snapshot: false,
        });
        Ok(())
    }

    /// Preconditions a new target, if its configuration says so.
    fn precondition(
        &mut self,
        place: usize,
        key: TrialKey,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), Vec<Diagnostic>> {
        let (lab, plan) = (self.lab, self.plan);
        let host = &lab.nodes[self.number];
        let Some(provision) = plan.configurations[place].provision() else {
            return Ok(());
        };
        let limit = Nanos(provision.precondition_ns);
        if let (Some(live), 1..) = (self.find_mut(place), limit.0) {
            let path = live.path.clone();
            let (guests, mut facts) = (live.guests.clone(), BTreeMap::new());
            on_each(&guests, host.node, |node| {
                let target = Preconditioned {
                    lab,
                    node,
                    host,
                    plan,
                    key,
                    path: path.clone(),
                };
                facts.extend(target.carry_out(provision, limit, observer)?);
                Ok(())
            })?;
            live.about.facts.extend(facts);
        }
        Ok(())
    }

    /// Creates the files that a trial expects on its target, and rolls the target back to them.
    fn prepare(
        &mut self,
        place: usize,
        key: TrialKey,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), Vec<Diagnostic>> {
        let (plan, stop) = (self.plan, self.lab.stop);
        let node = self.lab.nodes[self.number].node;
        let rolls_back = |workload: &Workload| workload.files == FilePolicy::Rollback;
        let own = |cell: &u32| plan.place(*cell).0 == place;
        let (_, workload) = plan.cell(key.cell);
        if rolls_back(workload) && !self.find(place).is_some_and(|live| live.snapshot) {
            // The snapshot contains the files of every workload that is rolled back to it.
            for cell in (0..plan.cells()).filter(own) {
                if self.works(cell) && rolls_back(plan.cell(cell).1) {
                    self.lay_out(place, TrialKey { cell, ..key }, observer)?;
                }
            }
            if let Some(live) = self.find_mut(place) {
                on_each(&live.guests, node, |node| node.snapshot(&live.token, stop))?;
                live.snapshot = true;
            }
        }
        match self.find(place) {
            Some(live) if rolls_back(workload) => {
                on_each(&live.guests, node, |node| node.roll_back(&live.token, stop))?;
            }
            // Other jobs of fio create their files in the trial, and leave them in caches.
            Some(_) if needs_files(workload) || workload.files == FilePolicy::Shared => {
                self.lay_out(place, key, observer)?;
            }
            _ => {}
        }
        match self.find(place) {
            // The files of a virtual machine's disks are in use.
            Some(live) if plan.settling.drop_caches && live.guests.is_empty() => {
                node.empty_caches(&live.token, stop)
            }
            _ => Ok(()),
        }
    }

    /// Creates the files of a cell's workload, unless they exist.
    fn lay_out(
        &mut self,
        place: usize,
        key: TrialKey,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), Vec<Diagnostic>> {
        let (configuration, workload) = self.plan.cell(key.cell);
        let Some(live) = self
            .live
            .iter_mut()
            .find(|live| live.configuration == place)
        else {
            return Ok(());
        };
        let mut bound = bind(self.plan, key);
        lay_out_only(&mut bound.workload);
        if bound.workload.jobs.is_empty() || !live.laid_out.insert(files_of(&bound.workload)) {
            return Ok(());
        }
        bound.configuration.target = Target::Path(live.path.clone());
        bound.destroy.push(live.path.clone());
        bound.protected.clone_from(&self.lab.store_files);
        let step = format!("laying out the files of {}", workload.name);
        let node = &self.lab.nodes[self.number];
        observer(Progress::Storage {
            configuration,
            step: &node.says(&step),
        });
        let failed = |why: String| vec![Diagnostic::error(format!("{step}: {why}"))];
        let stop = self.lab.stop;
        on_each(&live.guests, node.node, |node| {
            match carry_out(&bound, node, stop, &mut |_| {}) {
                Ok(TrialEnd::Done(_, outcome)) | Ok(TrialEnd::Failed { outcome, .. }) => outcome
                    .reason()
                    .map_or(Ok(()), |why| Err(failed(why.to_owned()))),
                Ok(TrialEnd::Refused(faults) | TrialEnd::Unprepared(faults)) => Err(faults),
                Err(error) => Err(failed(error.to_string())),
            }
        })
    }

    fn tear_down(&mut self, place: usize, observer: &mut dyn FnMut(Progress<'_>)) {
        let mut live = self.live.iter();
        if let Some(at) = live.position(|live| live.configuration == place) {
            let target = self.live.remove(at);
            self.undo(vec![target], observer);
        }
    }

    fn undo(&mut self, targets: Vec<Live>, observer: &mut dyn FnMut(Progress<'_>)) {
        let tokens: Vec<String> = targets.iter().map(|live| live.token.clone()).collect();
        tracing::info!(?tokens, "tearing targets down");
        let node = &self.lab.nodes[self.number];
        let ended = node.node.tear_down(&tokens, self.lab.stop);
        let mut told: Vec<String> = Vec::new();
        for (live, torn_down) in targets.iter().zip(ended) {
            self.store_commands(live, &torn_down, observer);
            let name = &self.plan.configurations[live.configuration].name;
            for fault in torn_down.faults {
                let why = reasons(std::slice::from_ref(&fault));
                let why = why.trim_end_matches('.');
                let hint = fault
                    .hint
                    .unwrap_or("`iodyno clean` undoes the rest".to_owned());
                let text = match fault.severity {
                    Severity::Error => node.says(&format!(
                        "the storage of {name} is not undone completely: {why}; {hint}"
                    )),
                    // It concerns all targets.
                    _ => node.says(&format!("{why}; {hint}")),
                };
                if !told.contains(&text) {
                    observer(match fault.severity {
                        Severity::Error => Progress::NotUndone(&text),
                        _ => Progress::Note(&text),
                    });
                    told.push(text);
                }
            }
        }
    }

    /// Adds the commands that undid a target to its latest trial, if the user named one of them or one failed.
    fn store_commands(
        &self,
        live: &Live,
        torn_down: &TornDown,
        observer: &mut dyn FnMut(Progress<'_>),
    ) {
        let configuration = &self.plan.configurations[live.configuration];
        let own = configuration
            .provision()
            .is_some_and(|provision| provision.teardown.is_some());
        let failed = torn_down.commands.iter().any(|run| run.status != Some(0));
        let (true, Some(key)) = (own || failed, live.latest) else {
            return;
        };
        let (store, node) = (self.lab.store, &self.lab.nodes[self.number].name);
        if let Err(error) = store.add_commands(key, node, &torn_down.commands) {
            let name = &configuration.name;
            let text =
                format!("the commands that undid the storage of {name} are not stored: {error}");
            observer(Progress::Note(&text));
        }
    }
}

/// Whether a workload needs files that its trials do not create.
fn needs_files(workload: &Workload) -> bool {
    let jobs = workload.jobs.iter();
    let mut shared = jobs.filter_map(|job| job.work.shared_files());
    shared.any(|files| !files.mode.makes_files())
}

/// Leaves of a workload what creates its files. File operations create theirs in each trial.
fn lay_out_only(workload: &mut Workload) {
    workload
        .jobs
        .retain(|job| job.work.file_operations().is_none());
    for job in &mut workload.jobs {
        match &mut job.work {
            Work::Blocks(blocks) => blocks.files.create_only = true,
            Work::SharedFiles(files) => (files.lay_out, files.create_only) = (true, true),
            Work::FileOperations(_) => {}
        }
    }
}

/// What distinguishes the files of two workloads on one target.
fn files_of(workload: &Workload) -> String {
    let jobs = workload.jobs.iter().map(|job| match &job.work {
        Work::SharedFiles(files) => format!("{:?}", (files.count, files.file_size, files.validate)),
        Work::Blocks(blocks) => {
            let Files {
                directories,
                names,
                format,
                count,
                size,
                ..
            } = &blocks.files;
            // Names that do not contain the job's are those of other workloads, too.
            let own = names.is_empty() && format.contains("$jobname");
            let own = own.then_some((&workload.name, &job.name));
            let region = (&blocks.extent, job.clones);
            format!(
                "{:?}",
                (own, directories, names, format, count, size, region)
            )
        }
        Work::FileOperations(_) => String::new(),
    });
    jobs.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
