//! One trial: bound, run, stored and judged.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::{
    BoundPlan, Diagnostic, Environment, Frame, Layer, MirrorLayer, Outcome, Part, Plan, Provision,
    SCHEMA, SeriesKind, Settled, Target, Telemetry, TelemetryBatch, Trial, TrialKey, TrialState,
    VmLayer, Workload, server_program,
};
use iodyno_runner::{Event, Examination, Node, RunnerError, TrialEnd, drive};
use iodyno_store::{Rebuilder, StoreError};

use crate::downsampler::Downsampler;
use crate::nodes::{examine, named, workers};
use crate::outcome::{reasons, with_reason, worst};
use crate::place::Places;
use crate::ready::Ready;
use crate::schedule::bind;
use crate::store_place::store_on_target;
use crate::targets::{KnownTargets, name_node};
use crate::writer::{StoreHealth, StoreWriter};
use crate::{Ended, Lab, Progress, unix_ms};

/// The result of a trial.
pub(crate) struct TrialResult {
    /// Its frames are without histograms.
    pub(crate) trial: Trial,
    /// The node could be started.
    pub(crate) startable: bool,
    /// The environment of its I/O by node, if it got that far.
    pub(crate) environments: Vec<Option<Environment>>,
    /// Why it is not completely stored.
    pub(crate) unstored: Option<StoreError>,
    /// It failed and is repeated.
    pub(crate) repeated: bool,
}

/// One trial in progress.
pub(crate) struct TrialRun<'a> {
    lab: &'a Lab<'a>,
    plan: &'a Plan,
    key: TrialKey,
    started_unix_ms: u64,
    writer: StoreWriter<'a>,
    /// The nodes that take part: those of the run, or the virtual machines of its target, followed by their host.
    nodes: Vec<TrialNode>,
    /// The data sent by each of them so far.
    records: Vec<NodeRecord>,
    /// The nodes whose frames are queued in the writer.
    collected: BTreeSet<usize>,
    /// The places of the nodes that run its jobs.
    workers: Vec<usize>,
    /// Whether the host settled before it, with notes; `None` if settling was not needed.
    settled: Option<(Settled, Vec<String>)>,
    frames: Vec<Frame>,
    downsampler: Downsampler,
    /// The number of shapes and of batches of telemetry of all nodes.
    shapes: u32,
    batches: u32,
    /// The end of the last frame of all nodes together that was shown, ns.
    shown_ns: u64,
    /// Its targets by node, if they were made for the run.
    made: BTreeMap<usize, Ready>,
    /// Its load, if its workload is searched.
    load: Option<f64>,
    /// How often it may be repeated.
    retries: u32,
}

/// A node of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TrialNode {
    /// Its name; empty if it is the only one.
    name: String,
    /// Whether it is the host of this process.
    here: bool,
    /// The place of the run's node that it is, or belongs to.
    host: usize,
    /// Whether it is a virtual machine of that node.
    guest: bool,
}

impl TrialNode {
    /// The nodes of a trial, and the places of those that run its jobs: the nodes of the run, or the virtual machines
    /// of its targets, followed by their hosts.
    fn all(
        lab: &Lab<'_>,
        plan: &Plan,
        key: TrialKey,
        made: &BTreeMap<usize, Ready>,
    ) -> (Vec<TrialNode>, Vec<usize>) {
        let guests = made.iter().flat_map(|(host, made)| {
            made.guests.iter().map(|guest| TrialNode {
                name: match lab.nodes[*host].name.as_str() {
                    "" => guest.name.clone(),
                    host => format!("{host}.{}", guest.name),
                },
                here: false,
                host: *host,
                guest: true,
            })
        });
        let guests: Vec<TrialNode> = guests.collect();
        let own = lab.nodes.iter().enumerate().map(|(host, node)| TrialNode {
            name: node.name.clone(),
            here: node.here,
            host,
            guest: false,
        });
        match guests.len() {
            0 => (own.collect(), workers(plan, key.cell)),
            all => {
                let hosts = made.iter().filter(|(_, made)| !made.guests.is_empty());
                let hosts = hosts.map(|(host, _)| TrialNode {
                    name: match lab.nodes[*host].name.as_str() {
                        "" => VmLayer::HOST.to_owned(),
                        name => name.to_owned(),
                    },
                    here: lab.nodes[*host].here,
                    host: *host,
                    guest: false,
                });
                (
                    guests.into_iter().chain(hosts).collect(),
                    (0..all).collect(),
                )
            }
        }
    }

    /// The text, after the node's name if it has one.
    fn prefix_text(&self, text: &str) -> String {
        named(&self.name, text)
    }
}

/// How the trial of the node at this place ended; without a place, the trial of all nodes.
type NodeEnd = (Option<usize>, Result<TrialEnd, RunnerError>);

/// The data sent by a node so far.
#[derive(Debug, Default)]
struct NodeRecord {
    /// Wall clock when it started the jobs, ms since 1970.
    started_unix_ms: Option<u64>,
    environment: Option<Environment>,
    notes: Vec<String>,
    rebuilder: Rebuilder,
    /// Its last frame.
    last: Option<Frame>,
    /// The numbers of the shapes of its telemetry, in the trial.
    shapes: BTreeMap<u32, u32>,
}

/// 2^64 divided by the golden ratio: seeds that are so far apart give unrelated random numbers.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// The display does not wait for a node whose last frame is older than this, ns.
const SHOWN_WITHOUT_NS: u64 = 3_000_000_000;

impl<'a> TrialRun<'a> {
    pub(crate) fn new(
        lab: &'a Lab<'a>,
        plan: &'a Plan,
        key: TrialKey,
        made: BTreeMap<usize, Ready>,
        settled: Option<(Settled, Vec<String>)>,
    ) -> TrialRun<'a> {
        let (nodes, workers) = TrialNode::all(lab, plan, key, &made);
        TrialRun {
            lab,
            plan,
            key,
            started_unix_ms: unix_ms(),
            writer: StoreWriter::new(lab.store, key),
            records: nodes.iter().map(|_| NodeRecord::default()).collect(),
            collected: BTreeSet::new(),
            nodes,
            workers,
            settled,
            frames: Vec::new(),
            shapes: 0,
            batches: 0,
            shown_ns: 0,
            downsampler: Downsampler::new(plan.sampling.every_ns),
            made,
            load: None,
            retries: 0,
        }
    }

    /// Allows at most this many repetitions if the trial fails.
    pub(crate) fn repeatable(self, retries: u32) -> TrialRun<'a> {
        TrialRun { retries, ..self }
    }

    /// The trial at this load of its workload's search.
    pub(crate) fn at(self, load: Option<f64>) -> TrialRun<'a> {
        TrialRun { load, ..self }
    }

    /// Its workload, at its load.
    fn loaded(&self, workload: &Workload) -> Workload {
        workload.at(self.load).into_owned()
    }

    /// Runs the trial, unless its target has changed since its cell's earlier trials. If the change is found only
    /// during the trial, the trial has failed.
    pub(crate) fn carry_out(
        mut self,
        number: u32,
        places: &mut [Places],
        targets: &mut KnownTargets,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> TrialResult {
        let (configuration, workload) = self.plan.cell(self.key.cell);
        let (round, attempt) = (self.key.round, self.key.attempt);
        for (place, _) in self.made.iter().filter(|(_, made)| made.anew) {
            let configuration = self.plan.place(self.key.cell).0;
            places[*place].forget(self.plan, configuration);
        }
        tracing::info!(
            number,
            round,
            attempt,
            configuration = configuration.name,
            workload = workload.name,
            "trial begins"
        );
        self.begin(observer);
        if let Some(targets) = targets.take_unstored() {
            tell(self.writer.targets(targets), observer);
        }
        let (plan, cell) = (self.plan, self.key.cell);
        let mut changed: Option<String> = None;
        let lab = self.lab;
        let found = examine(&lab.nodes, lab.stop, |node| {
            // The targets within a virtual machine are as old as it is.
            let own = self.workers.contains(&node) && !self.in_guests();
            own.then(|| Examination {
                identify: targets.of_cell(plan, cell),
                describe: places[node].of_cell(plan, cell),
                ..Examination::default()
            })
        });
        for ((node, places), found) in lab.nodes.iter().zip(&*places).zip(found) {
            let Some(mut now) = found else { continue };
            name_node(&node.name, &mut now.targets);
            let lost_target = places.lost(plan, cell, &now.stacks);
            let lost_target = lost_target.map(|why| node.prefix_text(&why));
            changed = changed
                .or(lost_target)
                .or_else(|| targets.changed(&now.targets));
        }
        let end = match changed {
            Some(why) => vec![(None, Ok(TrialEnd::Unprepared(vec![lost(why)])))],
            None => self.make(targets, observer),
        };
        self.ended(end, number, places, observer)
    }

    /// Stores that the trial failed because its target could not be made.
    pub(crate) fn unmade(
        mut self,
        faults: Vec<Diagnostic>,
        number: u32,
        places: &mut [Places],
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> TrialResult {
        self.begin(observer);
        let ends = vec![(None, Ok(TrialEnd::Unprepared(faults)))];
        self.ended(ends, number, places, observer)
    }

    /// Stores and reports the end.
    fn ended(
        mut self,
        ends: Vec<NodeEnd>,
        number: u32,
        places: &mut [Places],
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> TrialResult {
        let (_, workload) = self.plan.cell(self.key.cell);
        let startable = ends.iter().all(|(_, end)| end.is_ok());
        let (mut outcome, mut parts, mut faults) = self.result(ends, workload);
        let cell = self.key.cell;
        let own = self.workers.iter().filter(|_| !self.in_guests());
        for place in own {
            let (node, places) = (&self.lab.nodes[*place], &mut places[*place]);
            let now = self.records[*place].environment.as_ref();
            let moved = now.and_then(|now| places.moved(self.plan, cell, now));
            if let (Outcome::Completed, Some(why)) = (&outcome, moved) {
                let why = node.prefix_text(&why);
                faults.push(lost(why.clone()));
                outcome = Outcome::Failed(why);
            }
        }
        if let Some((settled, notes)) = &self.settled {
            for part in parts.iter_mut().filter(|part| !part.only_sampled()) {
                part.settled = Some(*settled);
                part.notes.extend(notes.iter().cloned());
            }
        }
        let trial = self.trial(outcome, parts);
        tracing::info!(number, outcome = ?trial.outcome, "trial ended");
        let unstored = self.writer.finish(&trial).err();
        let failed = trial.outcome.state() == TrialState::Failed;
        let repeated = failed && self.retries > 0 && !self.lab.stop.is_set();
        observer(Progress::Ended(Ended {
            number,
            workload,
            trial: &trial,
            faults: &faults,
            unstored: unstored.as_ref(),
            repeated,
        }));
        // The result does not wait for it.
        self.lab.store.pack_trial(self.key);
        TrialResult {
            trial,
            startable,
            environments: environments(self.records),
            unstored,
            repeated,
        }
    }

    fn make(
        &mut self,
        targets: &mut KnownTargets,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Vec<NodeEnd> {
        let lab = self.lab;
        let plans = self.plans();
        let within: Vec<Box<dyn Node + '_>> = (self.made.iter())
            .flat_map(|(host, made)| made.nodes(lab.nodes[*host].node))
            .collect();
        let carrying: Vec<&dyn Node> = match within.is_empty() {
            false => {
                let guests = within.iter().map(|node| node.as_ref());
                let hosts = self.nodes[within.len()..].iter();
                guests
                    .chain(hosts.map(|host| lab.nodes[host.host].node))
                    .collect()
            }
            true => lab.nodes.iter().map(|node| node.node).collect(),
        };
        self.writer.collects = plans.len() > 1;
        let nodes: Vec<(&dyn Node, &BoundPlan)> = (plans.iter())
            .map(|(place, plan)| (carrying[*place], plan))
            .collect();
        let ends = drive(&nodes, lab.stop, &mut |member, event| {
            let node = plans[member].0;
            let health = self.keep(node, &event, targets);
            match event {
                Event::Frame(_) if nodes.len() > 1 => {
                    if let Some(all) = self.frame_to_show() {
                        observer(Progress::Node(&Event::Frame(all)));
                    }
                }
                event => observer(Progress::Node(&event)),
            }
            tell(health, observer);
        });
        let places = plans.iter().map(|(place, _)| Some(*place));
        places.zip(ends).collect()
    }

    /// The plans of the nodes that take part, with their places.
    fn plans(&self) -> Vec<(usize, BoundPlan)> {
        let mut bound = BoundPlan {
            protected: self.lab.store_files.clone(),
            ..bind(self.plan, self.key)
        };
        bound.workload = self.loaded(&bound.workload);
        let worker = |place: &usize| {
            let made = self.made_on(*place);
            let bound = made.map_or_else(|| bound.clone(), |made| made.bind(bound.clone()));
            // Each node issues other ops: they may share storage.
            let seed = (*place as u64).wrapping_mul(GOLDEN_RATIO);
            let plan = BoundPlan {
                seed: bound.seed.wrapping_add(seed),
                node: u32::try_from(*place).unwrap_or(u32::MAX),
                ..bound
            };
            (*place, plan)
        };
        let mut plans: Vec<(usize, BoundPlan)> = self.workers.iter().map(worker).collect();
        // Virtual time is not that of a host.
        let samples = bound.sampling.every_ns > 0 && !bound.workload.in_virtual_time();
        if samples && self.in_guests() {
            // Servers under test are processes of the host.
            for (_, guest) in &mut plans {
                guest.sampling.processes.clear();
                guest.sampling.stats.clear();
            }
            let hosts = self.workers.len()..self.nodes.len();
            plans.extend(hosts.map(|place| (place, self.sampling_below(&bound, place))));
        } else if samples {
            let nodes = self.lab.nodes.iter().enumerate();
            let sampled = nodes.filter(|(_, node)| node.only_sampled);
            plans.extend(sampled.map(|(place, _)| (place, sampling(&bound))));
        }
        plans
    }

    /// The plan of the host of virtual machines at this place: it samples their servers.
    fn sampling_below(&self, bound: &BoundPlan, place: usize) -> BoundPlan {
        let mut host = sampling(bound);
        host.configuration.target = self.below();
        host.sampling.processes = bound.sampling.processes.clone();
        let made = self.made.get(&self.nodes[place].host);
        let provision = self.plan.cell(self.key.cell).0.provision();
        let layers = provision.map_or(&[][..], |it| it.layers.as_slice());
        let mirror = layers.iter().any(|it| matches!(it, Layer::Mirror(_)));
        let servers = provision.and_then(Provision::vm).into_iter();
        let servers = servers.flat_map(|(vm, _)| vm.servers()).map(server_program);
        let servers = servers.map(|program| program.rsplit('/').next().unwrap_or(program));
        let names = std::iter::once(VmLayer::PROCESS)
            .chain(mirror.then_some(MirrorLayer::PROCESS))
            .chain(servers);
        for name in names {
            if !host.sampling.processes.iter().any(|other| other == name) {
                host.sampling.processes.push(name.to_owned());
                // Other runs can have processes with this name.
                let made_for = made.map(|made| (name.to_owned(), made.token.clone()));
                host.sampling.made_for.extend(made_for);
            }
        }
        if let Some(made) = made {
            host.sampling.stats.clone_from(&made.stats);
        }
        host
    }

    /// The last frames of all nodes together, if each node that still sends frames has sent one since the last time.
    fn frame_to_show(&mut self) -> Option<Frame> {
        let last = self
            .records
            .iter()
            .filter_map(|record| record.last.as_ref());
        let latest_ns = last.clone().map(|frame| frame.end_ns).max()?;
        let sending: Vec<&Frame> = last
            .filter(|frame| frame.end_ns + SHOWN_WITHOUT_NS >= latest_ns)
            .collect();
        let earliest_ns = sending.iter().map(|frame| frame.end_ns).min()?;
        let all_began = latest_ns > SHOWN_WITHOUT_NS || sending.len() == self.workers.len();
        if earliest_ns <= self.shown_ns || !all_began {
            return None;
        }
        self.shown_ns = latest_ns;
        Frame::sum(sending)
    }

    /// Stores that the trial was skipped, with the reason.
    pub(crate) fn give_up(
        mut self,
        why: String,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> TrialResult {
        self.begin(observer);
        let trial = self.trial(Outcome::Failed(why), Vec::new());
        let unstored = self.writer.finish(&trial).err();
        TrialResult {
            trial,
            startable: true,
            environments: environments(self.records),
            unstored,
            repeated: false,
        }
    }

    /// Whether the virtual machines of its target carry it out.
    fn in_guests(&self) -> bool {
        self.nodes.iter().any(|node| node.guest)
    }

    /// The target of the node at this place, if it was made for the run; `None` for a node without jobs.
    fn made_on(&self, place: usize) -> Option<&Ready> {
        let made = self.made.get(&self.nodes[place].host);
        made.filter(|_| self.workers.contains(&place))
    }

    /// A path of this host that is below the virtual machines of its target.
    fn below(&self) -> Target {
        let (configuration, _) = self.plan.cell(self.key.cell);
        let paths = configuration.provision().map(Provision::paths);
        let first = paths.and_then(|paths| paths.into_iter().next());
        Target::Path(first.unwrap_or_else(|| "/".into()))
    }

    fn begin(&mut self, observer: &mut dyn FnMut(Progress<'_>)) {
        let (configuration, workload) = self.plan.cell(self.key.cell);
        let begun = self
            .writer
            .begin(&configuration.name, &workload.name, self.started_unix_ms);
        tell(begun, observer);
    }

    /// The trial as it is stored, with its findings.
    fn trial(&mut self, outcome: Outcome, parts: Vec<Part>) -> Trial {
        let (configuration, workload) = self.plan.cell(self.key.cell);
        let workload = &self.loaded(workload);
        let mut trial = Trial {
            schema: SCHEMA,
            key: self.key,
            configuration: configuration.name.clone(),
            workload: workload.name.clone(),
            started_unix_ms: self.started_unix_ms,
            probe: self.load,
            outcome,
            parts,
            frames: std::mem::take(&mut self.frames),
            telemetry: self.downsampler.take(),
            findings: Vec::new(),
        };
        let by_node = iodyno_judge::ByNode::new(&trial);
        let sampled: Vec<_> = (0..trial.parts.len())
            .map(|place| {
                let own = match trial.parts.len() {
                    1 => Cow::Borrowed(&trial),
                    _ => Cow::Owned(by_node.part(place)),
                };
                // For a node without jobs, the measured time of the others counts.
                let own = match trial.parts[place].only_sampled() {
                    true => Cow::Owned(Trial {
                        parts: trial.parts.clone(),
                        ..own.into_owned()
                    }),
                    false => own,
                };
                let times = iodyno_judge::device_times(workload, &own);
                (iodyno_judge::servers(&own), times, unseen(&own.telemetry))
            })
            .collect();
        for (part, (servers, times, unseen)) in trial.parts.iter_mut().zip(sampled) {
            part.host.servers = servers;
            part.host.device_times = times;
            part.notes.extend(unseen);
        }
        trial.findings = iodyno_judge::findings(workload, &trial);
        // The findings are derived from the telemetry; all of it is in the store.
        trial.telemetry = Telemetry::default();
        let here = self.records.iter().zip(&self.nodes);
        let here = here.filter(|(_, node)| node.here).map(|(record, _)| record);
        if let Some(environment) = here.filter_map(|record| record.environment.as_ref()).next() {
            let found = store_on_target(&self.lab.store_stack, environment, workload);
            trial.findings.extend(found);
            trial
                .findings
                .sort_by_key(|finding| std::cmp::Reverse(finding.weight));
        }
        trial
    }

    /// Stores an event of a node.
    fn keep(&mut self, place: usize, event: &Event, targets: &mut KnownTargets) -> StoreHealth {
        let name = &self.nodes[place].name;
        match event {
            // A target that was made belongs to this run alone, and has another identity each time.
            Event::Admitted { .. } if self.made_on(place).is_some() => StoreHealth::Unchanged,
            Event::Admitted { targets: found } => {
                let mut found = found.clone();
                name_node(name, &mut found);
                targets.learn(found);
                match targets.take_unstored() {
                    Some(targets) => self.writer.targets(targets),
                    None => StoreHealth::Unchanged,
                }
            }
            Event::Ready { environment, notes } => {
                let environment = Environment {
                    made: self.made_on(place).map(|made| made.about.clone()),
                    ..(**environment).clone()
                };
                let health = self.writer.environment(name, &environment);
                let record = &mut self.records[place];
                record.notes.clone_from(notes);
                record.environment = Some(environment);
                health
            }
            Event::Frame(frame) => self.keep_frame(place, frame),
            Event::Telemetry(batch) => match name.is_empty() {
                true => self.keep_telemetry(batch),
                false => {
                    let batch = self.of_trial(place, batch);
                    self.keep_telemetry(&batch)
                }
            },
            Event::Started { unix_ms } => {
                self.records[place].started_unix_ms = Some(*unix_ms);
                StoreHealth::Unchanged
            }
            Event::Progress { .. } | Event::Finished | Event::Halted { .. } => {
                StoreHealth::Unchanged
            }
        }
    }

    fn keep_frame(&mut self, place: usize, frame: &Frame) -> StoreHealth {
        self.records[place].rebuilder.add(frame);
        let frame = match self.nodes[place].name.as_str() {
            "" => frame.clone(),
            name => Frame {
                number: u32::try_from(self.frames.len()).unwrap_or(u32::MAX),
                node: name.to_owned(),
                ..frame.clone()
            },
        };
        // The frames of all nodes, each about one per second, are stored in one transaction. A node that sends
        // another frame before all have sent one does not wait for them: they may be lost.
        let before = match self.collected.contains(&place) {
            true => self.store_collected(),
            false => StoreHealth::Unchanged,
        };
        self.collected.insert(place);
        let mut health = self.writer.frame(&frame);
        if self.writer.collects && self.collected.len() == self.workers.len() {
            health = self.store_collected();
        }
        if matches!(health, StoreHealth::Unchanged) {
            health = before;
        }
        let mut counts = frame.clone();
        counts.drop_histograms();
        self.frames.push(counts);
        self.records[place].last = Some(frame);
        health
    }

    fn store_collected(&mut self) -> StoreHealth {
        self.collected.clear();
        match self.writer.collects {
            true => self.writer.store(),
            false => StoreHealth::Unchanged,
        }
    }

    fn keep_telemetry(&mut self, batch: &TelemetryBatch) -> StoreHealth {
        self.downsampler.add(&batch.telemetry);
        self.writer.telemetry(batch)
    }

    /// A batch of a named node with the numbers that it and its shapes have in the trial.
    fn of_trial(&mut self, place: usize, batch: &TelemetryBatch) -> TelemetryBatch {
        let name = &self.nodes[place].name;
        let numbers = &mut self.records[place].shapes;
        let mut telemetry = batch.telemetry.clone();
        for shape in &mut telemetry.shapes {
            numbers.insert(shape.number, self.shapes);
            shape.number = self.shapes;
            shape.node.clone_from(name);
            self.shapes += 1;
        }
        telemetry
            .samples
            .retain_mut(|sample| match numbers.get(&sample.shape) {
                Some(number) => {
                    sample.shape = *number;
                    true
                }
                None => false,
            });
        for gap in &mut telemetry.gaps {
            gap.node.clone_from(name);
        }
        self.batches += 1;
        TelemetryBatch {
            number: self.batches - 1,
            telemetry,
        }
    }

    /// Outcome, parts and errors. The part of a node that died is rebuilt from its frames.
    fn result(
        &mut self,
        ends: Vec<NodeEnd>,
        workload: &Workload,
    ) -> (Outcome, Vec<Part>, Vec<Diagnostic>) {
        let (mut outcomes, mut parts, mut all_faults) = (Vec::new(), Vec::new(), Vec::new());
        for (place, end) in ends {
            let (outcome, part, faults) = match end {
                Ok(TrialEnd::Done(part, outcome)) => (outcome, Some(*part), Vec::new()),
                Ok(TrialEnd::Refused(faults)) => (Outcome::Refused(reasons(&faults)), None, faults),
                Ok(TrialEnd::Unprepared(faults)) => {
                    (Outcome::Failed(reasons(&faults)), None, faults)
                }
                Ok(TrialEnd::Failed { outcome, .. }) => {
                    let part = place.and_then(|place| self.rebuilt(place, workload));
                    (outcome, part, Vec::new())
                }
                Err(error) => {
                    let fault = Diagnostic::error(error.to_string());
                    let outcome = Outcome::Failed(error.to_string());
                    let part = place.and_then(|place| self.rebuilt(place, workload));
                    (outcome, part, vec![fault])
                }
            };
            // Faults without a node are those of the trial.
            let Some(place) = place else {
                all_faults.extend(faults);
                outcomes.push(outcome);
                continue;
            };
            let node = self.nodes[place].clone();
            all_faults.extend(faults.into_iter().map(|fault| Diagnostic {
                message: node.prefix_text(&fault.message),
                ..fault
            }));
            parts.extend(part.map(|mut part| {
                if !node.name.is_empty() {
                    part.node.clone_from(&node.name);
                }
                part.environment.made = self.made_on(place).map(|made| made.about.clone());
                part
            }));
            outcomes.push(with_reason(outcome, |why| node.prefix_text(why)));
        }
        (worst(outcomes), parts, all_faults)
    }

    fn rebuilt(&mut self, place: usize, workload: &Workload) -> Option<Part> {
        let record = &mut self.records[place];
        let environment = record.environment.clone()?;
        record.last.as_ref()?;
        let rebuilder = std::mem::take(&mut record.rebuilder);
        let mut part = rebuilder.part(environment, workload);
        part.notes.append(&mut record.notes);
        part.start_unix_ms = record.started_unix_ms;
        Some(part)
    }
}

/// The plan of a node that is only sampled during this trial.
fn sampling(bound: &BoundPlan) -> BoundPlan {
    let mut bound = bound.clone();
    bound.workload.jobs.clear();
    bound.destroy.clear();
    // Servers under test are processes of the nodes that do the work.
    bound.sampling.processes.clear();
    bound.background = true;
    bound
}

fn environments(records: Vec<NodeRecord>) -> Vec<Option<Environment>> {
    let records = records.into_iter();
    records.map(|record| record.environment).collect()
}

/// Why processes or pools were not sampled, each reason once: a name that no process has is reported.
fn unseen(telemetry: &Telemetry) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    for gap in &telemetry.gaps {
        let kinds = [SeriesKind::Process, SeriesKind::Others, SeriesKind::Pool];
        if kinds.contains(&gap.kind) && !reasons.contains(&gap.reason) {
            reasons.push(gap.reason.clone());
        }
    }
    // If many appear and disappear, the first ones are sufficient.
    reasons.truncate(5);
    reasons
}

fn lost(why: String) -> Diagnostic {
    Diagnostic::error(why)
        .hint("restore the target and continue with `--resume`, or begin a new run")
}

fn tell(health: StoreHealth, observer: &mut dyn FnMut(Progress<'_>)) {
    match health {
        StoreHealth::Unchanged => {}
        StoreHealth::Fails(error) => observer(Progress::StoreFails(&error)),
        StoreHealth::Recovered => observer(Progress::StoreRecovered),
    }
}
