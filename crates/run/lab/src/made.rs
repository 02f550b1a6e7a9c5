//! The targets that are made for a run's trials: when each is made, prepared, and torn down.
//!
//! A target is made before the first trial that uses it and torn down after the last one, as [`Plan::fresh`] says. The
//! order of the trials does not depend on it. A target whose trial did not complete is not used again. Every made
//! target is torn down before the run ends, however its trials end; failures to undo are reported. Each node has its
//! own targets: all nodes make, prepare and undo theirs at the same time, each on a separate thread.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use iodyno_host::{join, on_threads};
use iodyno_model::{
    Configuration, Diagnostic, ExportUri, FilePolicy, Files, Fresh, Layer, MadeTarget, Pinning,
    Plan, Provision, RunId, Severity, Trial, TrialKey, Work, Workload,
};
use iodyno_runner::{
    Guest, Node, ProvisionRequest, Provisioned, StopFlag, StorageChange, TornDown, TrialEnd,
    carry_out,
};
use iodyno_units::Nanos;

use crate::nodes::workers;
use crate::outcome::reasons;
use crate::precondition::Preconditioned;
use crate::ready::{Ready, on_each, on_target};
use crate::schedule::bind;
use crate::target_event::{TargetEvent, Tell, pass_on};
use crate::{Lab, LabNode, Progress};

/// How often the targets of a plan are made again: as the plan requests, but for every trial if two configurations take
/// turns. Then all are, so that every configuration is measured on targets of the same age.
pub fn fresh(plan: &Plan) -> Fresh {
    match turns(plan).is_empty() {
        true => plan.fresh,
        false => Fresh::Trial,
    }
}

/// The pairs of configurations that cannot exist at the same time on a node that both use: they use one device or
/// command, or one of them affects the trials of the other. A configuration with an existing path depends on the host,
/// too. Each pair has the reason, as a clause.
pub fn turns(plan: &Plan) -> Vec<(&Configuration, &Configuration, &'static str)> {
    let all = plan.configurations.iter().enumerate();
    let pairs = all.flat_map(|(place, one)| {
        let others = plan.configurations[place + 1..].iter();
        others.map(move |other| (one, other))
    });
    pairs
        .filter(|(one, other)| share_a_node(one, other))
        .filter_map(|(one, other)| Some((one, other, exclusive(one, other)?)))
        .collect()
}

/// Why two configurations cannot exist at the same time.
fn exclusive(one: &Configuration, other: &Configuration) -> Option<&'static str> {
    let both = [one, other].map(Configuration::provision);
    let any = |holds: &dyn Fn(&Provision) -> bool| both.into_iter().flatten().any(holds);
    // Virtual machines use memory and CPUs even when idle, unless the user accepts that. A kernel setting acts on the
    // whole host, and undoing the first configuration would end it for the other.
    let keeps_alone = |it: &Provision| it.vm().is_some_and(|(vm, _)| !vm.side_by_side);
    if any(&|it| !it.sysctl.is_empty()) {
        return Some("`host.sysctl` acts on the whole host");
    }
    if any(&keeps_alone) {
        return Some("virtual machines without `vm.side_by_side` are alone");
    }
    let [Some(one), Some(other)] = both else {
        return None;
    };
    let common = |one: &PathBuf, other: &PathBuf| one.starts_with(other) || other.starts_with(one);
    let folders = one
        .folders()
        .any(|own| other.folders().any(|its| common(own, its)));
    let devices = one
        .devices()
        .any(|own| other.devices().any(|its| own == its));
    // Devices with different names may be partitions, which have one queue.
    let queues = one.devices().next().is_some()
        && other.devices().next().is_some()
        && any(&|it| !it.queue.is_empty());
    let servers = (pool_server(one), pool_server(other));
    let reasons = [
        (devices, "both use one device"),
        (queues, "`host.queue` acts on a whole disk"),
        (
            folders && any(&|it| it.setup.is_some()),
            "`setup` changes a folder of both",
        ),
        (
            one.setup.is_some() && one.setup == other.setup,
            "both have the same `setup`",
        ),
        (
            matches!(servers, (Some(one), Some(other)) if one != other),
            "zfs-fuse runs on other CPUs",
        ),
    ];
    let mut reasons = reasons.into_iter();
    reasons.find_map(|(holds, why)| holds.then_some(why))
}

fn share_a_node(one: &Configuration, other: &Configuration) -> bool {
    let all = one.nodes.is_empty() || other.nodes.is_empty();
    all || one.nodes.iter().any(|name| other.nodes.contains(name))
}

/// The pinning of the server of a target's pool.
fn pool_server(provision: &Provision) -> Option<&Pinning> {
    provision.layers.iter().find_map(|layer| match layer {
        Layer::Zfs(zfs) => Some(&zfs.pinning),
        _ => None,
    })
}

/// The faults that prevent making the targets of a plan on its nodes. Changes nothing.
pub fn obstacles(
    plan: &Plan,
    nodes: &[LabNode<'_>],
    protected: &[PathBuf],
    stop: &StopFlag,
) -> Vec<Diagnostic> {
    let requests = |number: usize| -> Vec<ProvisionRequest> {
        let uses =
            |cell: u32, place| plan.place(cell).0 == place && workers(plan, cell).contains(&number);
        let places = (0..plan.configurations.len()).filter(|place| {
            let again = plan.configurations[*place].again;
            !again && (0..plan.cells()).any(|cell| uses(cell, *place))
        });
        places
            .filter_map(|place| request(plan, place, protected))
            .collect()
    };
    let requested = nodes.iter().enumerate().filter_map(|(number, node)| {
        let requests = requests(number);
        (!requests.is_empty()).then_some((node, requests))
    });
    let found = on_threads(requested, |(node, requests)| {
        let found = node.node.check_provision(&requests, stop).into_iter();
        found
            .map(|fault| node.prefix_fault(fault))
            .collect::<Vec<_>>()
    });
    found.into_iter().flatten().collect()
}

fn request(plan: &Plan, place: usize, protected: &[PathBuf]) -> Option<ProvisionRequest> {
    let configuration = &plan.configurations[place];
    Some(ProvisionRequest {
        token: token(),
        configuration: configuration.name.clone(),
        provision: configuration.provision()?.clone(),
        destroy: plan.destroy.clone(),
        protected: protected.to_vec(),
        golden: None,
    })
}

/// A unique token, short enough for the names of pools and folders.
fn token() -> String {
    // The last bits of a UUIDv7 are random.
    format!("{:012x}", RunId::fresh().0.as_u128() & 0xffff_ffff_ffff)
}

/// The targets of a run that exist now, of all nodes.
pub(crate) struct MadeTargets<'a> {
    lab: &'a Lab<'a>,
    plan: &'a Plan,
    nodes: Vec<OnNode<'a>>,
}

/// The targets of a run that exist now on one node.
struct OnNode<'a> {
    node: &'a LabNode<'a>,
    plan: &'a Plan,
    /// The files of the store, which nothing may overwrite.
    protected: &'a [PathBuf],
    stop: &'a StopFlag,
    /// The place of the node.
    number: usize,
    fresh: Fresh,
    /// In the order in which they were made.
    live: Vec<Live>,
    /// The golden disks of configurations whose virtual machines start on clones or copies of one. Made once.
    golden: Vec<Live>,
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
    /// The virtual machines that run its trials; empty: the node itself does.
    guests: Vec<Guest>,
    /// The file server that the jobs use; `None`: they use the path.
    share: Option<ExportUri>,
    /// The sockets on which its file servers report statistics.
    stats: Vec<PathBuf>,
    /// The latest trial on it.
    latest: Option<TrialKey>,
    /// The files that exist on it, by [`files_of`].
    laid_out: BTreeSet<String>,
    snapshot: bool,
}

impl Live {
    /// Changes it on a node.
    fn change(
        &self,
        node: &dyn Node,
        change: StorageChange,
        stop: &StopFlag,
    ) -> Result<(), Vec<Diagnostic>> {
        node.change(&self.token, change, stop, &mut |_| ())
    }

    fn new(
        configuration: usize,
        token: String,
        round: u32,
        instance: u32,
        made: Provisioned,
    ) -> Live {
        Live {
            configuration,
            token,
            round,
            path: made.path,
            about: MadeTarget {
                instance,
                facts: made.facts,
                commands: made.commands,
            },
            guests: made.guests,
            share: made.share,
            stats: made.stats,
            latest: None,
            laid_out: BTreeSet::new(),
            snapshot: false,
        }
    }
}

impl<'a> MadeTargets<'a> {
    pub(crate) fn new(lab: &'a Lab<'a>, plan: &'a Plan) -> MadeTargets<'a> {
        let on_node = |(number, node)| OnNode {
            node,
            plan,
            protected: &lab.store_files,
            stop: lab.stop,
            number,
            fresh: fresh(plan),
            live: Vec::new(),
            golden: Vec::new(),
            made: BTreeMap::new(),
        };
        let nodes = lab.nodes.iter().enumerate().map(on_node).collect();
        MadeTargets { lab, plan, nodes }
    }

    /// Runs `work` with the targets of these nodes at the same time, and passes on its events. Returns the results in
    /// the order of the nodes, with their places.
    fn on_nodes<R: Send>(
        &mut self,
        chosen: impl Fn(&OnNode<'a>) -> bool,
        observer: &mut dyn FnMut(Progress<'_>),
        work: impl Fn(&mut OnNode<'a>, &mut Tell<'_>) -> R + Sync,
    ) -> Vec<(usize, R)> {
        let (lab, plan, work) = (self.lab, self.plan, &work);
        let chosen = self.nodes.iter_mut().filter(|own| chosen(own));
        let (sender, receiver) = mpsc::channel();
        let begun: Vec<_> = chosen.map(|own| (own, sender.clone())).collect();
        drop(sender);
        thread::scope(|scope| {
            let ended = scope.spawn(move || {
                on_threads(begun, |(own, sender)| {
                    let done = work(own, &mut |event| drop(sender.send(event)));
                    (own.number, done)
                })
            });
            for event in receiver {
                pass_on(event, lab, plan, observer);
            }
            join(ended)
        })
    }

    /// Reserves the numbers up to those of this trial's targets, so that later targets get higher ones.
    pub(crate) fn number_after(&mut self, trial: &Trial) {
        let made = trial
            .parts
            .iter()
            .filter_map(|part| part.environment.made.as_ref());
        let Some(last) = made.map(|made| made.instance).max() else {
            return;
        };
        for own in &mut self.nodes {
            let (place, _) = own.plan.place(trial.key.cell);
            let number = own.made.entry(place).or_default();
            *number = last.max(*number);
        }
    }

    /// Makes and prepares the targets of a trial, by the places of the nodes that do its work; none if its target
    /// exists without.
    ///
    /// # Errors
    /// Why they could not be made or prepared, on any node. Nothing is left on such a node, unless that is reported.
    pub(crate) fn ready(
        &mut self,
        key: TrialKey,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Result<BTreeMap<usize, Ready>, Vec<Diagnostic>> {
        let (mut ready, mut faults) = (BTreeMap::new(), Vec::new());
        if self.plan.cell(key.cell).0.provision().is_none() {
            return Ok(ready);
        }
        let works = |own: &OnNode<'_>| own.works(key.cell);
        for (number, made) in self.on_nodes(works, observer, |own, tell| own.ready(key, tell)) {
            match made {
                Ok(made) => ready.extend(made.map(|made| (number, made))),
                Err(found) => {
                    let node = &self.lab.nodes[number];
                    faults.extend(found.into_iter().map(|fault| node.prefix_fault(fault)));
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
        let (place, _) = self.plan.place(key.cell);
        let has = |own: &OnNode<'_>| own.works(key.cell) && own.find(place).is_some();
        self.on_nodes(has, observer, |own, tell| {
            own.used(key, completed, rest, tell);
        });
    }

    /// Tears all targets down immediately, so that a stopped run ends soon.
    pub(crate) fn end(&mut self, observer: &mut dyn FnMut(Progress<'_>)) {
        let any = |own: &OnNode<'_>| !own.live.is_empty() || !own.golden.is_empty();
        self.on_nodes(any, observer, OnNode::end);
    }
}

impl<'a> OnNode<'a> {
    /// Whether the node runs the trials of a cell.
    fn works(&self, cell: u32) -> bool {
        workers(self.plan, cell).contains(&self.number)
    }

    /// Makes and prepares the target of a trial; `None` if it exists without.
    ///
    /// # Errors
    /// Why it could not be made or prepared. It is undone then, unless the errors say otherwise.
    fn ready(
        &mut self,
        key: TrialKey,
        tell: &mut Tell<'_>,
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
            self.tear_down(place, tell);
            self.make(place, key.round, tell)?;
        }
        let prepared = match usable {
            true => Ok(()),
            false => self.precondition(place, key, tell),
        };
        let prepared = prepared.and_then(|()| self.prepare(place, key, tell));
        if let Err(faults) = prepared {
            self.used(key, false, &[], tell);
            return Err(faults);
        }
        Ok(self.find_mut(place).map(|live| {
            live.latest = Some(key);
            Ready {
                path: live.path.clone(),
                token: live.token.clone(),
                about: live.about.clone(),
                guests: live.guests.clone(),
                share: live.share.clone(),
                stats: live.stats.clone(),
                anew: !usable,
            }
        }))
    }

    /// Tears the target of a trial down unless a trial of the `rest` of its round, or of a later round, uses it.
    fn used(&mut self, key: TrialKey, completed: bool, rest: &[u32], tell: &mut Tell<'_>) {
        // After a stop, all targets are torn down immediately.
        if self.stop.is_set() {
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
            self.tear_down(place, tell);
        }
    }

    /// Tears all targets down immediately, so that a stopped run ends soon.
    fn end(&mut self, tell: &mut Tell<'_>) {
        let mut targets = std::mem::take(&mut self.live);
        targets.reverse();
        targets.append(&mut self.golden);
        self.undo(targets, tell);
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
        tell: &mut Tell<'_>,
    ) -> Result<(), Vec<Diagnostic>> {
        let Some(mut request) = request(self.plan, place, self.protected) else {
            return Ok(());
        };
        if let Some(golden) = request.provision.golden() {
            let golden = ProvisionRequest {
                token: token(),
                configuration: format!("{} (golden disk)", request.configuration),
                provision: golden,
                ..request.clone()
            };
            request.golden = Some(self.golden(place, round, golden, tell)?);
        }
        let configuration = &self.plan.configurations[place];
        tracing::info!(
            configuration = configuration.name,
            token = request.token,
            "making a target"
        );
        let node = self.node;
        let mut progress = |step: &str| tell(TargetEvent::Step(place, node.prefix_text(step)));
        progress(
            &configuration
                .provision()
                .map_or(String::new(), Provision::words),
        );
        let made = node.node.provision(&request, self.stop, &mut progress)?;
        for note in &made.notes {
            tell(TargetEvent::Note(node.prefix_text(note)));
        }
        let number = self.made.entry(place).or_default();
        *number += 1;
        let live = Live::new(place, request.token, round, *number, made);
        self.live.push(live);
        Ok(())
    }

    /// Makes the golden disk of a configuration, unless it exists. Returns its token.
    fn golden(
        &mut self,
        place: usize,
        round: u32,
        request: ProvisionRequest,
        tell: &mut Tell<'_>,
    ) -> Result<String, Vec<Diagnostic>> {
        let mut golden = self.golden.iter();
        if let Some(live) = golden.find(|live| live.configuration == place) {
            return Ok(live.token.clone());
        }
        let node = self.node;
        let made = node.node.provision(&request, self.stop, &mut |step| {
            tell(TargetEvent::Step(
                place,
                node.prefix_text(&format!("golden disk: {step}")),
            ));
        })?;
        let token = request.token.clone();
        self.golden
            .push(Live::new(place, request.token, round, 0, made));
        Ok(token)
    }

    /// Preconditions a new target, if its configuration says so.
    fn precondition(
        &mut self,
        place: usize,
        key: TrialKey,
        tell: &mut Tell<'_>,
    ) -> Result<(), Vec<Diagnostic>> {
        let (plan, host) = (self.plan, self.node);
        let (protected, stop) = (self.protected, self.stop);
        let Some(provision) = plan.configurations[place].provision() else {
            return Ok(());
        };
        let limit = Nanos(provision.precondition_ns);
        if let (Some(live), 1..) = (self.find_mut(place), limit.0) {
            let path = live.path.clone();
            let (guests, mut facts) = (live.guests.clone(), BTreeMap::new());
            on_each(&guests, host.node, |node| {
                let target = Preconditioned {
                    protected,
                    stop,
                    node,
                    host,
                    plan,
                    key,
                    path: path.clone(),
                };
                // Facts of each virtual machine.
                for (name, fact) in target.carry_out(provision, limit, tell)? {
                    let known: &mut String = facts.entry(name).or_default();
                    if !known.is_empty() {
                        known.push_str(", ");
                    }
                    known.push_str(&fact);
                }
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
        tell: &mut Tell<'_>,
    ) -> Result<(), Vec<Diagnostic>> {
        let (plan, stop, node) = (self.plan, self.stop, self.node.node);
        let rolls_back = |workload: &Workload| workload.files == FilePolicy::Rollback;
        let own = |cell: &u32| plan.place(*cell).0 == place;
        let change = |live: &Live, change| {
            on_each(&live.guests, node, |node| live.change(node, change, stop))
        };
        let (_, workload) = plan.cell(key.cell);
        if rolls_back(workload) && !self.find(place).is_some_and(|live| live.snapshot) {
            // The snapshot contains the files of every workload that is rolled back to it.
            for cell in (0..plan.cells()).filter(own) {
                if self.works(cell) && rolls_back(plan.cell(cell).1) {
                    self.lay_out(place, TrialKey { cell, ..key }, tell)?;
                }
            }
            if let Some(live) = self.find_mut(place) {
                change(live, StorageChange::Snapshot)?;
                live.snapshot = true;
            }
        }
        match self.find(place) {
            Some(live) if rolls_back(workload) => {
                change(live, StorageChange::RollBack)?;
            }
            // Other jobs of fio create their files in the trial, and leave them in caches.
            Some(_) if needs_files(workload) || workload.files == FilePolicy::Shared => {
                self.lay_out(place, key, tell)?;
            }
            _ => {}
        }
        let provision = plan.configurations[place].provision();
        let has_settings = provision.is_some_and(Provision::has_settings);
        if let Some(live) = self.find(place)
            && (live.share.is_some() || has_settings)
        {
            live.change(node, StorageChange::Renew, stop)?;
            if has_settings && !live.guests.is_empty() {
                change(live, StorageChange::Renew)?;
            }
        }
        match self.find(place) {
            // The files of a virtual machine's disks are in use.
            Some(live) if plan.settling.drop_caches && live.guests.is_empty() => {
                let mut progress =
                    |step: &str| tell(TargetEvent::Step(place, self.node.prefix_text(step)));
                node.change(&live.token, StorageChange::EmptyCaches, stop, &mut progress)
            }
            _ => Ok(()),
        }
    }

    /// Creates the files of a cell's workload, unless they exist.
    fn lay_out(
        &mut self,
        place: usize,
        key: TrialKey,
        tell: &mut Tell<'_>,
    ) -> Result<(), Vec<Diagnostic>> {
        let (_, workload) = self.plan.cell(key.cell);
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
        on_target(&mut bound, &live.path, live.share.as_ref());
        bound.protected = self.protected.to_vec();
        let step = format!("laying out the files of {}", workload.name);
        let (node, stop) = (self.node, self.stop);
        tell(TargetEvent::Step(place, node.prefix_text(&step)));
        if live.share.is_some() && live.latest.is_some() {
            live.change(node.node, StorageChange::Renew, stop)?;
        }
        let failed = |why: String| vec![Diagnostic::error(format!("{step}: {why}"))];
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

    fn tear_down(&mut self, place: usize, tell: &mut Tell<'_>) {
        let mut live = self.live.iter();
        if let Some(at) = live.position(|live| live.configuration == place) {
            let target = self.live.remove(at);
            self.undo(vec![target], tell);
        }
    }

    fn undo(&mut self, targets: Vec<Live>, tell: &mut Tell<'_>) {
        let tokens: Vec<String> = targets.iter().map(|live| live.token.clone()).collect();
        tracing::info!(?tokens, "tearing targets down");
        let node = self.node;
        // Targets that are undone at the same time have one place of progress.
        let place = targets.first().map_or(0, |live| live.configuration);
        let mut progress = |step: &str| tell(TargetEvent::Step(place, node.prefix_text(step)));
        let ended = node.node.tear_down(&tokens, self.stop, &mut progress);
        let mut reported: Vec<String> = Vec::new();
        for (live, torn_down) in targets.iter().zip(ended) {
            self.tell_commands(live, &torn_down, tell);
            let name = &self.plan.configurations[live.configuration].name;
            for fault in torn_down.faults {
                let why = reasons(std::slice::from_ref(&fault));
                let why = why.trim_end_matches('.');
                let hint = (fault.hint).unwrap_or_else(|| {
                    let mut nodes = self.plan.nodes.iter();
                    let elsewhere = nodes.find(|it| it.name == node.name && !node.here);
                    match elsewhere {
                        Some(it) => format!(
                            "`iodyno clean --node {}={}` undoes the rest",
                            it.name, it.at
                        ),
                        None => "`iodyno clean` undoes the rest".to_owned(),
                    }
                });
                let text = match fault.severity {
                    Severity::Error => node.prefix_text(&format!(
                        "the storage of {name} is not undone completely: {why}; {hint}"
                    )),
                    // It concerns all targets.
                    _ => node.prefix_text(&format!("{why}; {hint}")),
                };
                if !reported.contains(&text) {
                    tell(match fault.severity {
                        Severity::Error => TargetEvent::NotUndone(text.clone()),
                        _ => TargetEvent::Note(text.clone()),
                    });
                    reported.push(text);
                }
            }
        }
    }

    /// Reports the commands that undid a target, if the user named one of them or one failed.
    fn tell_commands(&self, live: &Live, torn_down: &TornDown, tell: &mut Tell<'_>) {
        let configuration = &self.plan.configurations[live.configuration];
        let own = configuration
            .provision()
            .is_some_and(|provision| provision.teardown.is_some());
        let failed = torn_down.commands.iter().any(|run| run.status != Some(0));
        if let (true, Some(latest)) = (own || failed, live.latest) {
            tell(TargetEvent::Undone {
                latest,
                configuration: live.configuration,
                node: self.node.name.clone(),
                commands: torn_down.commands.clone(),
            });
        }
    }
}

/// Whether a workload needs files that its trials do not create.
fn needs_files(workload: &Workload) -> bool {
    let jobs = workload.jobs.iter();
    let mut shared = jobs.filter_map(|job| job.work.shared_files());
    shared.any(|files| !files.mode.makes_files())
}

/// Reduces a workload to the creation of its files. File operations create theirs in each trial.
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

/// A key for the files of a workload on a target.
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
            // Names that do not contain the job's name are shared with other workloads.
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
