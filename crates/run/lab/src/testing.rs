//! Small plans, a fake node, a fake judge, and the messages of a run.

mod locked;
mod store;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use iodyno_judge::testing as made_up;
use iodyno_judge::testing::telemetry::recording;
use iodyno_model::{
    Admission, Behaviour, BoundPlan, CommandRun, Comparison, Configuration, Diagnostic, Direction,
    EngineKind, ExportUri, Figure, Forecast, Frame, Identity, Kind, KnownTarget, Metric,
    Observation, Outcome, Part, Plan, Question, RunId, SeriesKind, Settling, StackLayer, Target,
    TargetInfo, TargetUse, TelemetryBatch, Trial, TrialKey, Workload,
};
use iodyno_runner::{
    Command, EngineSupport, Event, Examination, Examined, Guest, Hello, Later, Message, Node,
    PROTOCOL, ProvisionRequest, Provisioned, RunnerError, Session, StopFlag, StorageChange,
    StorageNode, TornDown, TrialEnd, Unsettled,
};

use crate::interim::Judge;
use crate::rounds::Dependencies;
use crate::{Lab, LabNode, Progress};

pub(crate) use locked::{Locked, Meeting};
pub(crate) use store::FakeStore;

/// A plan with these numbers of configurations, workloads and rounds.
pub(crate) fn plan(configurations: usize, workloads: usize, rounds: u32) -> Plan {
    let configuration = |index| {
        Configuration::new(
            format!("c{index}"),
            Target::Path(format!("/c{index}").into()),
        )
    };
    let workload = |index| made_up::workload(&format!("w{index}"), vec![made_up::reader("r")]);
    Plan {
        rounds,
        seed: 7,
        destroy: vec!["/dev/x".into()],
        ..Plan::new(
            "p",
            (0..configurations).map(configuration).collect(),
            (0..workloads).map(workload).collect(),
        )
    }
}

pub(crate) fn key() -> TrialKey {
    TrialKey {
        run: RunId::fresh(),
        round: 0,
        cell: 0,
        attempt: 0,
    }
}

pub(crate) fn frame(number: u32) -> Frame {
    made_up::frame(number, &[(0, Direction::Read, 1000, 100_000)])
}

/// One second of telemetry: `virtiofsd` uses half of its core, and there is much swapping.
pub(crate) fn batch(number: u32) -> TelemetryBatch {
    let server = |_| {
        let used = [
            ("user", 300_000_000),
            ("system", 200_000_000),
            ("threads", 4),
        ];
        vec![("virtiofsd[7]", used.to_vec())]
    };
    let reclaim = |_| vec![("", vec![("swapped_out", 500_000_000), ("stalls", 900)])];
    let mut telemetry = recording()
        .seconds_from(number, SeriesKind::Process, 1, server)
        .seconds_from(number, SeriesKind::Reclaim, 1, reclaim)
        .done();
    if number > 0 {
        telemetry.shapes.clear();
    }
    TelemetryBatch { number, telemetry }
}

pub(crate) fn trial(key: TrialKey) -> Trial {
    Trial {
        key,
        ..made_up::trial(Vec::new())
    }
}

/// The behaviour of a trial on the fake node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Complete,
    Refuse,
    Unprepared,
    Die,
    Cancelled,
    NoNode,
    FillStore,
    /// It finds another target than before.
    Move,
    /// Panics, which ends the whole program.
    Panic,
}

/// A node that behaves as given for each trial.
pub(crate) struct FakeNode<'a> {
    act: Box<dyn Fn(&BoundPlan) -> Act + Sync + 'a>,
    store: Option<&'a FakeStore>,
    /// Set by [`Act::Cancelled`].
    pub(crate) stop: StopFlag,
    /// Number of reads of a trial; 0 by default.
    pub(crate) reads: Option<fn(&BoundPlan) -> u64>,
    /// Number of writes of a trial, in a second; 0 by default.
    pub(crate) writes: Option<fn(&BoundPlan) -> u64>,
    /// It samples: [`batch`] after each frame.
    pub(crate) samples: bool,
    /// Duration of a trial on its clock, ns.
    pub(crate) trial_ns: Locked<u64>,
    /// Duration of making a target on its clock, ns.
    pub(crate) making_ns: u64,
    pub(crate) clock_ns: Locked<u64>,
    pub(crate) bound: Locked<Vec<BoundPlan>>,
    pub(crate) settled: Locked<Vec<Vec<PathBuf>>>,
    pub(crate) unsettled: Vec<Unsettled>,
    /// The files of each configuration have a separate path.
    pub(crate) own_paths: bool,
    /// Paths that are no longer mounted, by the number of trials before.
    pub(crate) unmounted: fn(usize) -> &'static [&'static str],
    /// Trials that lack space.
    pub(crate) lacks: fn(&BoundPlan) -> bool,
    /// The file at a path after this number of trials.
    pub(crate) identity: fn(&Path, usize) -> Option<Identity>,
    /// The actions on storage, in order, and the trials on it: `make c0`, `trial w0 on c0`, `undo c0`.
    pub(crate) storage: Locked<Vec<String>>,
    /// The configurations of the storage that exists, by token.
    existing: Locked<BTreeMap<String, String>>,
    /// Whether making storage for this configuration fails, given how often it was tried before.
    pub(crate) unmakeable: fn(&str, usize) -> bool,
    /// The number of virtual machines of the storage that is made.
    pub(crate) guests: usize,
    /// Whether a server shares each target by virtio-fs.
    pub(crate) share: bool,
    /// Where it waits for the other node while making and undoing storage.
    pub(crate) meeting: Option<&'a Meeting>,
    /// Undoing storage fails.
    pub(crate) undoing_fails: Option<Diagnostic>,
}

impl<'a> FakeNode<'a> {
    pub(crate) fn new(act: impl Fn(&BoundPlan) -> Act + Sync + 'a) -> FakeNode<'a> {
        FakeNode {
            act: Box::new(act),
            store: None,
            stop: StopFlag::new(),
            reads: None,
            writes: None,
            samples: false,
            trial_ns: Locked::new(1_000_000_000),
            making_ns: 0,
            clock_ns: Locked::new(0),
            bound: Locked::default(),
            settled: Locked::default(),
            unsettled: Vec::new(),
            own_paths: false,
            unmounted: |_| &[],
            lacks: |_| false,
            identity: |_, _| None,
            storage: Locked::default(),
            existing: Locked::default(),
            unmakeable: |_, _| false,
            guests: 0,
            share: false,
            meeting: None,
            undoing_fails: None,
        }
    }

    fn log(&self, what: &str, token: &str) {
        let existing = self.existing.borrow();
        let name = existing.get(token).map_or("nothing", String::as_str);
        self.storage.borrow_mut().push(format!("{what} {name}"));
    }

    /// These acts in order, and completion afterwards.
    pub(crate) fn acting(acts: &[Act], store: &'a FakeStore) -> FakeNode<'a> {
        let acts = acts.to_vec();
        let next = AtomicUsize::new(0);
        FakeNode {
            store: Some(store),
            ..FakeNode::new(move |_| {
                let index = next.fetch_add(1, Ordering::Relaxed);
                acts.get(index).copied().unwrap_or(Act::Complete)
            })
        }
    }

    /// The file at a path after a number of trials, as in [`Node::examine`] and in a trial.
    fn target(&self, path: PathBuf, made: usize) -> TargetInfo {
        let mut target = made_up::part(Vec::new()).environment.targets.remove(0);
        let unmounted = (self.unmounted)(made);
        if let (true, Some(StackLayer::Mount(mount))) = (
            unmounted.iter().any(|below| path.starts_with(below)),
            target.stack.first_mut(),
        ) {
            mount.point = "/".into();
        }
        TargetInfo { path, ..target }
    }

    /// The results of a trial.
    fn part(&self, plan: &BoundPlan) -> Part {
        let reads = self.reads.map(|reads| reads(plan));
        let directions = reads.map(|ops| made_up::direction(Direction::Read, ops, 100_000));
        let writes = self.writes.map(|writes| writes(plan));
        let writes = writes.map(|ops| made_up::direction(Direction::Write, ops, 100_000));
        let directions = directions.into_iter().chain(writes).collect();
        let mut part = made_up::part(vec![made_up::clone(0, 0, directions)]);
        let path = match (&plan.configuration.target, self.own_paths) {
            (Target::Path(path), true) => path.clone(),
            _ => PathBuf::from("/mnt/e"),
        };
        let made = self.bound.borrow().len() - 1;
        part.environment.targets = vec![self.target(path, made)];
        if plan.workload.jobs.is_empty() {
            part.clones.clear();
        }
        part
    }

    /// Round, cell and attempt of every trial it received.
    pub(crate) fn places(&self) -> Vec<(u32, u32, u32)> {
        let bound = self.bound.borrow();
        let places = bound.iter().map(|plan| plan.key);
        places
            .map(|key| (key.round, key.cell, key.attempt))
            .collect()
    }
}

/// A node in a virtual machine of another one.
struct FakeGuest<'a>(&'a FakeNode<'a>);

impl StorageNode for FakeGuest<'_> {}

impl Node for FakeGuest<'_> {
    fn open(&self, plan: &BoundPlan) -> Result<Box<dyn Session + '_>, RunnerError> {
        self.0.open(plan)
    }

    fn settle<'a>(
        &'a self,
        settling: &Settling,
        targets: &[PathBuf],
        stop: &'a StopFlag,
    ) -> Later<'a, Vec<Unsettled>> {
        self.0.settle(settling, targets, stop)
    }

    fn examine<'a>(&'a self, wanted: Examination, stop: &'a StopFlag) -> Later<'a, Examined> {
        self.0.examine(wanted, stop)
    }
}

impl Node for FakeNode<'_> {
    fn open(&self, plan: &BoundPlan) -> Result<Box<dyn Session + '_>, RunnerError> {
        self.bound.borrow_mut().push(plan.clone());
        let existing = self.existing.borrow();
        let target = plan.configuration.target.path();
        let made = existing.keys().any(|token| target.ends_with(token));
        if let (Some(job), true) = (plan.workload.jobs.first(), made) {
            let blocks = job.work.blocks();
            let what = match blocks.is_some_and(|blocks| blocks.files.create_only) {
                true => "lay out",
                false => "trial",
            };
            let on = format!("{} on {}", plan.workload.name, plan.configuration.name);
            self.storage.borrow_mut().push(format!("{what} {on}"));
        }
        self.clock_ns.set(self.clock_ns.get() + self.trial_ns.get());
        let act = (self.act)(plan);
        if act == Act::NoNode {
            return Err(RunnerError::NotANode {
                program: "/x".into(),
                why: "no".to_owned(),
            });
        }
        let support = |engine| EngineSupport {
            engine,
            unusable: None,
        };
        let hello = Hello {
            version: PROTOCOL,
            iodyno: "0".to_owned(),
            pid: 1,
            process_start: 0,
            architecture: String::new(),
            libc: String::new(),
            boot_id: String::new(),
            virtual_time: true,
            engines: EngineKind::ALL.map(support).to_vec(),
            sampling: SeriesKind::ALL.to_vec(),
            removes_orphans: true,
        };
        Ok(Box::new(FakeSession {
            node: self,
            act,
            part: self.part(plan),
            queued: VecDeque::from([Message::Hello(hello)]),
        }))
    }

    fn settle<'a>(
        &'a self,
        _: &Settling,
        targets: &[PathBuf],
        _: &'a StopFlag,
    ) -> Later<'a, Vec<Unsettled>> {
        self.settled.borrow_mut().push(targets.to_vec());
        Box::new(|| self.unsettled.clone())
    }

    fn examine<'a>(&'a self, wanted: Examination, _: &'a StopFlag) -> Later<'a, Examined> {
        let made = self.bound.borrow().len();
        let files = wanted.plans.iter().filter_map(|plan| {
            let Target::Path(folder) = &plan.configuration.target else {
                return None;
            };
            Some(folder.join("made-up"))
        });
        let paths = wanted.identify.into_iter().chain(files);
        let targets = paths.filter_map(|path| {
            let identity = (self.identity)(&path, made)?;
            Some(KnownTarget {
                node: String::new(),
                path,
                identity,
            })
        });
        let stacks = wanted.describe.into_iter();
        let room = wanted.room.iter().enumerate();
        let lacking = room.filter(|(_, plan)| (self.lacks)(plan));
        let shortages = lacking.map(|(index, _)| (Some(index), Diagnostic::error("no space")));
        let forecasts = wanted.forecast.iter().map(|plan| Forecast {
            targets: vec![(
                PathBuf::from(&plan.configuration.name),
                Admission::Granted(TargetUse::Create),
            )],
            faults: Vec::new(),
            traces: Vec::new(),
        });
        let found = Examined {
            targets: targets.collect(),
            stacks: stacks.map(|path| self.target(path, made)).collect(),
            shortages: shortages.collect(),
            forecasts: forecasts.collect(),
            ..Examined::default()
        };
        Box::new(|| found)
    }
}

impl StorageNode for FakeNode<'_> {
    fn check_provision(&self, requests: &[ProvisionRequest], _: &StopFlag) -> Vec<Diagnostic> {
        let unmakeable = requests
            .iter()
            .filter(|request| (self.unmakeable)(&request.configuration, 0));
        unmakeable
            .map(|request| Diagnostic::error(format!("no tool for {}", request.configuration)))
            .collect()
    }

    fn provision(
        &self,
        request: &ProvisionRequest,
        _: &StopFlag,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Provisioned, Vec<Diagnostic>> {
        let name = &request.configuration;
        self.clock_ns.set(self.clock_ns.get() + self.making_ns);
        let tries = format!("make {name}");
        let before = self.storage.borrow();
        let tried = before.iter().filter(|one| **one == tries).count();
        drop(before);
        self.storage.borrow_mut().push(tries);
        self.meeting.iter().for_each(|meeting| meeting.wait());
        progress("mkfs");
        if (self.unmakeable)(name, tried) {
            return Err(vec![Diagnostic::error("mkfs failed")]);
        }
        let mut existing = self.existing.borrow_mut();
        existing.insert(request.token.clone(), name.clone());
        Ok(Provisioned {
            path: Path::new("/made").join(&request.token),
            facts: BTreeMap::from([("mkfs".to_owned(), "1.0".to_owned())]),
            commands: Vec::new(),
            guests: (1..=self.guests)
                .map(|number| Guest {
                    name: format!("guest{number}"),
                    socket: PathBuf::new(),
                    disks: Vec::new(),
                    shared: false,
                })
                .collect(),
            share: self
                .share
                .then(|| ExportUri::of_share(Path::new("/made/share"))),
            stats: Vec::new(),
            notes: Vec::new(),
        })
    }

    fn guest(&self, _: &Guest) -> Option<Box<dyn Node + '_>> {
        Some(Box::new(FakeGuest(self)))
    }

    fn change(
        &self,
        token: &str,
        change: StorageChange,
        _: &StopFlag,
        _: &mut dyn FnMut(&str),
    ) -> Result<(), Vec<Diagnostic>> {
        let what = match change {
            StorageChange::Snapshot => "snapshot",
            StorageChange::RollBack => "roll back",
            StorageChange::EmptyCaches => "empty caches of",
            StorageChange::Renew => "renew servers of",
        };
        self.log(what, token);
        Ok(())
    }

    fn tear_down(&self, tokens: &[String], _: &StopFlag, _: &mut dyn FnMut(&str)) -> Vec<TornDown> {
        self.meeting.iter().for_each(|meeting| meeting.wait());
        let undo = |token: &String| {
            self.log("undo", token);
            self.existing.borrow_mut().remove(token);
            match &self.undoing_fails {
                Some(fault) => TornDown {
                    commands: vec![CommandRun {
                        command: "umount".to_owned(),
                        status: Some(1),
                        output: "busy".to_owned(),
                        span_ns: 1,
                    }],
                    faults: vec![fault.clone()],
                },
                None => TornDown::default(),
            }
        };
        tokens.iter().map(undo).collect()
    }
}

/// A trial on the fake node.
struct FakeSession<'a> {
    node: &'a FakeNode<'a>,
    act: Act,
    part: Part,
    queued: VecDeque<Message>,
}

impl FakeSession<'_> {
    fn prepare(&mut self) {
        let faults = vec![
            Diagnostic::error("one"),
            Diagnostic::error("two\n  cause: three"),
        ];
        let mut environment = Box::new(self.part.environment.clone());
        if self.act == Act::Move {
            environment.targets[0].path = "/".into();
        }
        self.queued.push_back(match self.act {
            Act::Refuse => Message::Ended(TrialEnd::Refused(faults)),
            Act::Unprepared => Message::Ended(TrialEnd::Unprepared(faults)),
            _ => Message::Event(Event::Ready {
                environment,
                notes: vec!["a note".to_owned()],
            }),
        });
    }

    fn run(&mut self) {
        for number in 0..6 {
            if !self.part.only_sampled() {
                let frame = frame(number);
                self.queued.push_back(Message::Event(Event::Frame(frame)));
            }
            if self.node.samples {
                let batch = batch(number);
                self.queued
                    .push_back(Message::Event(Event::Telemetry(batch)));
            }
        }
        let part = Box::new(self.part.clone());
        self.queued.push_back(Message::Ended(match self.act {
            Act::Die => TrialEnd::Failed {
                outcome: Outcome::Failed("SIGBUS".to_owned()),
                death: None,
            },
            Act::Cancelled => TrialEnd::Done(part, Outcome::Interrupted("by the user".to_owned())),
            _ => TrialEnd::Done(part, Outcome::Completed),
        }));
    }
}

impl Session for FakeSession<'_> {
    fn send(&mut self, command: Command) {
        match command {
            Command::Prepare { .. } => self.prepare(),
            Command::Arm { .. } => self.queued.push_back(Message::Armed),
            Command::Go => self.run(),
            _ => {}
        }
    }

    fn poll(&mut self) -> Result<Option<Message>, RunnerError> {
        let message = self.queued.pop_front();
        match (&message, self.act) {
            (Some(Message::Event(Event::Frame(frame))), Act::FillStore) => {
                let store = self.node.store.unwrap();
                store.full(frame.number > 0);
            }
            (Some(Message::Ended(_)), Act::Cancelled) => self.node.stop.finish(),
            (Some(Message::Ended(_)), Act::Panic) => {
                std::panic::resume_unwind(Box::new("killed"));
            }
            _ => {}
        }
        Ok(message)
    }
}

/// Returns the given widths of intervals, one for each round; afterwards `None`.
#[derive(Default)]
pub(crate) struct FakeJudge {
    pub(crate) widths: Locked<Vec<f64>>,
    /// Round, cell and usefulness of the trials of the last comparison.
    pub(crate) compared: Locked<Vec<(u32, String, bool)>>,
}

impl FakeJudge {
    /// The judge, with the clock of a node.
    pub(crate) fn dependencies<'a>(&'a self, node: &'a FakeNode<'_>) -> Dependencies<'a> {
        Dependencies {
            judge: self,
            now: Box::new(|| node.clock_ns.get()),
        }
    }
}

/// The figures of a trial at this requested rate on a queue M/M/1 that serves 10 000/s; 0: as fast as possible.
fn figures_of_queue(load: f64) -> Vec<Figure> {
    const SERVED: f64 = 10_000.0;
    let (rate, mean) = match load {
        0.0 => (SERVED, 16e9 / SERVED),
        load if load < SERVED => (load, 1e9 / (SERVED - load)),
        _ => (SERVED, 1e10),
    };
    let figures = [
        (Metric::iops(Metric::IOPS), rate),
        (Metric::time("read.mean"), mean),
        (Metric::time("read.p99"), mean * 100f64.ln()),
    ];
    let figure = |(metric, value)| Figure {
        metric,
        value,
        derived: None,
    };
    figures.map(figure).into_iter().collect()
}

impl Judge for FakeJudge {
    fn observe(
        &self,
        run: &str,
        (configuration, workload): (&Configuration, &Workload),
        key: TrialKey,
        trial: &Trial,
    ) -> Observation {
        let dimensions = [
            (Observation::RUN, run),
            (Observation::CONFIGURATION, configuration.name.as_str()),
            (Observation::WORKLOAD, workload.name.as_str()),
        ];
        let dimensions: BTreeMap<String, String> = dimensions
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Observation {
            dimensions,
            round: Some(key.round),
            started_unix_ms: Some(trial.started_unix_ms),
            again: configuration.again || workload.again,
            probe: trial.probe,
            unusable: trial.outcome.reason().map(str::to_owned),
            kind: Kind::Timed,
            primary: None,
            figures: trial.probe.map_or(Vec::new(), figures_of_queue),
            withheld: Vec::new(),
            behaviour: Behaviour::default(),
            facts: Vec::new(),
            options_complete: true,
            flags: Vec::new(),
            source: None,
        }
    }

    fn compare(&self, name: &str, seen: &[Observation], question: &Question) -> Option<Comparison> {
        *self.compared.borrow_mut() = seen
            .iter()
            .map(|one| {
                let configuration = one.dimension(Observation::CONFIGURATION).to_owned();
                (one.round.unwrap(), configuration, one.unusable.is_none())
            })
            .collect();
        Some(Comparison {
            name: name.to_owned(),
            question: question.clone(),
            columns: Vec::new(),
            rounds: 0,
            paired: true,
            primaries: 1,
            floor: None,
            rows: Vec::new(),
            same: Vec::new(),
            differs: Vec::new(),
            unknown: Vec::new(),
            claims: Vec::new(),
            searches: Vec::new(),
            notes: Vec::new(),
        })
    }

    fn widest(&self, _: &Comparison, _: Option<&Workload>) -> Option<f64> {
        let mut widths = self.widths.borrow_mut();
        (!widths.is_empty()).then(|| widths.remove(0))
    }
}

/// The environment of a run in tests.
pub(crate) fn lab<'a>(
    store: &'a dyn iodyno_store::Store,
    node: &'a dyn Node,
    stop: &'a StopFlag,
) -> Lab<'a> {
    Lab {
        store,
        store_files: Vec::new(),
        store_stack: Vec::new(),
        nodes: vec![LabNode::here(node)],
        stop,
    }
}

/// The permission of the user that began a run on this host.
pub(crate) fn own(store: &dyn iodyno_store::Store, run: RunId) -> crate::Permission {
    let plan = store.run(run).ok().map(|run| run.plan);
    crate::Permission {
        begun: plan.and_then(|plan| crate::fingerprint(&plan)),
        ..Default::default()
    }
}

/// All events as text, except those of nodes.
pub(crate) fn messages(progress: &Progress<'_>) -> Option<String> {
    Some(match progress {
        Progress::Begun(handle) => format!("begun {}", handle.alias),
        Progress::Settling { .. } => "settling".to_owned(),
        Progress::Trial {
            number,
            of,
            configuration,
            ..
        } => {
            format!("trial {number} of {of} {}", configuration.name)
        }
        Progress::Probe {
            configuration,
            workload,
        } => format!("probe {} on {}", workload.name, configuration.name),
        Progress::Node(_) | Progress::Storage { .. } => return None,
        Progress::StoreFails(_) => "store fails".to_owned(),
        Progress::StoreRecovered => "store recovered".to_owned(),
        Progress::Ended(ended) => format!(
            "ended {} {:?} {} faults, {}",
            ended.number,
            ended.trial.outcome.state(),
            ended.faults.len(),
            if ended.unstored.is_some() {
                "lost"
            } else {
                "stored"
            }
        ),
        Progress::Note(text) => format!("note: {text}"),
        Progress::NotUndone(text) => format!("not undone: {text}"),
        Progress::Round {
            done,
            of,
            left_ns,
            comparison,
        } => format!(
            "round {done} of {of}, {:?} s left{}",
            left_ns.map(|left| left / 1_000_000_000),
            if comparison.is_some() { ", judged" } else { "" }
        ),
    })
}
