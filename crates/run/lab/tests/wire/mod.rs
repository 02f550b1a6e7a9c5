//! Simulated nodes that speak the real protocol: the messages of one of them in virtual time are recorded as bytes, and
//! each node replays them. Only the parent's side does work: the start, reading of each message, storing, merging and
//! judging.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use iodyno_judge::testing;
use iodyno_judge::testing::telemetry::recording;
use iodyno_lab::{Lab, LabNode};
use iodyno_model::{
    Amount, BoundPlan, Configuration, Engine, EngineKind, Plan, PlannedNode, SeriesKind, Settling,
    SimOptions, Target, TelemetryBatch,
};
use iodyno_runner::{
    Command, Event, Examination, Examined, Later, LocalNode, Message, Node, RunnerError, Session,
    StopFlag, StorageNode, Unsettled,
};
use iodyno_store::Store;
use iodyno_units::Nanos;

/// Number of CPUs and of disks of each node in its telemetry.
const CPUS: usize = 16;
const DISKS: usize = 4;

/// The messages of all nodes.
pub(crate) struct Wire {
    nodes: usize,
    recorded: OnceLock<Recorded>,
    /// When the last result of a node was read.
    last: Mutex<Option<Instant>>,
    begun: Instant,
}

/// Messages as they are sent: a length, and that many bytes.
struct Recorded {
    hello: Vec<u8>,
    /// After the plan, up to the one that the node is ready.
    prepared: Vec<Vec<u8>>,
    /// After the start, before the last one.
    measured: Vec<Vec<u8>>,
    ended: Vec<u8>,
}

/// One of the nodes.
struct WireNode(Arc<Wire>);

impl Wire {
    /// A number of nodes.
    pub(crate) fn new(nodes: usize) -> Arc<Wire> {
        Arc::new(Wire {
            nodes,
            recorded: OnceLock::new(),
            last: Mutex::new(None),
            begun: Instant::now(),
        })
    }

    /// A plan for them: random reads of 100 µs each, for this number of seconds, in this number of rounds.
    pub(crate) fn plan(&self, seconds: u64, rounds: u32) -> Plan {
        let mut job = testing::reader("reads");
        job.end.runtime = Some(Nanos::from_secs(seconds));
        let blocks = testing::blocks(&mut job);
        blocks.engine = Engine::new(EngineKind::Sim, 4);
        blocks.engine.sim = Some(SimOptions::default());
        blocks.extent.size = Some(Amount::Bytes(1 << 24));
        let folder = PathBuf::from("/");
        let configuration = Configuration::new("simulated", Target::AsWritten { folder });
        let mut plan = Plan::new(
            "nodes",
            vec![configuration],
            vec![testing::workload("reads", vec![job])],
        );
        plan.rounds = rounds;
        plan.nodes = (0..self.nodes)
            .map(|number| PlannedNode::new(format!("n{number}"), "local"))
            .collect();
        plan
    }

    /// Carries a plan out on the nodes. `on_result`: called for each trial, with the time since its last message was
    /// read.
    pub(crate) fn carry_out(
        self: &Arc<Wire>,
        plan: &Plan,
        store: &dyn Store,
        on_result: &mut dyn FnMut(&iodyno_model::Trial, Duration),
    ) -> iodyno_lab::RunEnd {
        let nodes: Vec<WireNode> = (0..self.nodes)
            .map(|_| WireNode(Arc::clone(self)))
            .collect();
        let stop = StopFlag::new();
        let named = plan
            .nodes
            .iter()
            .zip(&nodes)
            .map(|(planned, node)| LabNode {
                name: planned.name.clone(),
                ..LabNode::here(node)
            });
        let lab = Lab {
            store,
            store_files: Vec::new(),
            store_stack: Vec::new(),
            nodes: named.collect(),
            stop: &stop,
        };
        let end = iodyno_lab::carry_out(plan, &lab, &mut |progress| {
            if let iodyno_lab::Progress::Ended(ended) = progress {
                let last = self.last.lock().unwrap().take();
                on_result(
                    ended.trial,
                    last.map_or(Duration::ZERO, |last| last.elapsed()),
                );
            }
        });
        end.unwrap()
    }

    /// The bytes that the nodes have sent for one trial.
    pub(crate) fn bytes(&self) -> usize {
        let recorded = self.recorded.get().unwrap();
        let long = recorded.prepared.iter().chain(&recorded.measured);
        let long: usize = long.map(Vec::len).sum();
        (long + recorded.hello.len() + recorded.ended.len()) * self.nodes
    }
}

/// A message as it is sent.
fn framed(message: &Message) -> Vec<u8> {
    let json = serde_json::to_vec(message).unwrap();
    let mut bytes = u32::try_from(json.len()).unwrap().to_le_bytes().to_vec();
    bytes.extend(json);
    bytes
}

/// A command as it arrives.
fn sent(command: &Command) -> Command {
    serde_json::from_slice(&serde_json::to_vec(command).unwrap()).unwrap()
}

/// A second of telemetry of a node.
fn telemetry(number: u32) -> Message {
    const CPU_NAMES: [&str; CPUS] = [
        "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15",
    ];
    const DISK_NAMES: [&str; DISKS] = ["sda", "sdb", "sdc", "sdd"];
    let cpus = |_| {
        let used = |name| (name, vec![("user", 300_000_000), ("system", 200_000_000)]);
        CPU_NAMES.map(used).to_vec()
    };
    let disks = |_| {
        let used = |name| (name, vec![("reads", 10_000), ("read_bytes", 40_960_000)]);
        DISK_NAMES.map(used).to_vec()
    };
    let mut telemetry = recording()
        .seconds_from(number, SeriesKind::Cpu, 1, cpus)
        .seconds_from(number, SeriesKind::Disk, 1, disks)
        .done();
    if number > 0 {
        telemetry.shapes.clear();
    }
    Message::Event(Event::Telemetry(TelemetryBatch { number, telemetry }))
}

impl Recorded {
    /// Runs the trial in virtual time.
    fn of(plan: &BoundPlan) -> Recorded {
        let node = LocalNode::this_program();
        let mut session = node.open(plan).unwrap();
        let mut recorded = Recorded {
            hello: Vec::new(),
            prepared: Vec::new(),
            measured: Vec::new(),
            ended: Vec::new(),
        };
        let mut batches = 0;
        loop {
            let Some(message) = session.poll().unwrap() else {
                std::thread::park_timeout(Duration::from_millis(1));
                continue;
            };
            let bytes = framed(&message);
            match message {
                Message::Hello(mut hello) => {
                    // Its clock is read, as that of a real node.
                    hello.virtual_time = false;
                    recorded.hello = framed(&Message::Hello(hello));
                    let plan = Box::new(plan.clone());
                    session.send(Command::Prepare { plan });
                }
                Message::Event(Event::Ready { .. }) => {
                    recorded.prepared.push(bytes);
                    let (at_ns, stay) = (0, false);
                    session.send(Command::Arm { at_ns, stay });
                }
                Message::Armed => session.send(Command::Go),
                Message::Ended(_) => {
                    recorded.ended = bytes;
                    return recorded;
                }
                Message::Event(Event::Frame(_)) => {
                    recorded.measured.push(bytes);
                    recorded.measured.push(framed(&telemetry(batches)));
                    batches += 1;
                }
                _ if recorded.prepared.is_empty() => {}
                _ => recorded.measured.push(bytes),
            }
        }
    }
}

impl StorageNode for WireNode {}

impl Node for WireNode {
    fn open(&self, plan: &BoundPlan) -> Result<Box<dyn Session + '_>, RunnerError> {
        let recorded = self.0.recorded.get_or_init(|| Recorded::of(plan));
        Ok(Box::new(Replay {
            wire: &self.0,
            recorded,
            stays: false,
            queued: VecDeque::from([recorded.hello.clone()]),
        }))
    }

    fn settle<'a>(
        &'a self,
        _: &Settling,
        _: &[PathBuf],
        _: &'a StopFlag,
    ) -> Later<'a, Vec<Unsettled>> {
        Box::new(Vec::new)
    }

    fn examine<'a>(&'a self, _: Examination, _: &'a StopFlag) -> Later<'a, Examined> {
        Box::new(Examined::default)
    }
}

/// A trial on one of the nodes.
struct Replay<'a> {
    wire: &'a Wire,
    recorded: &'a Recorded,
    stays: bool,
    /// The messages that have arrived, as bytes.
    queued: VecDeque<Vec<u8>>,
}

impl Session for Replay<'_> {
    fn send(&mut self, command: Command) {
        let recorded = self.recorded;
        match sent(&command) {
            Command::Prepare { .. } => self.queued.extend(recorded.prepared.iter().cloned()),
            Command::Ping { number } => {
                let now_ns = u64::try_from(self.wire.begun.elapsed().as_nanos()).unwrap();
                self.queued
                    .push_back(framed(&Message::Clock { number, now_ns }));
            }
            Command::Arm { stay, .. } => {
                self.stays = stay;
                self.queued.push_back(framed(&Message::Armed));
            }
            Command::Go => {
                self.queued.extend(recorded.measured.iter().cloned());
                self.queued.push_back(match self.stays {
                    true => framed(&Message::Event(Event::Finished)),
                    false => recorded.ended.clone(),
                });
            }
            Command::Leave => self.queued.push_back(recorded.ended.clone()),
            _ => {}
        }
    }

    fn poll(&mut self) -> Result<Option<Message>, RunnerError> {
        let Some(bytes) = self.queued.pop_front() else {
            return Ok(None);
        };
        let message = Message::read(&mut bytes.as_slice()).unwrap();
        if matches!(message, Message::Ended(_)) {
            *self.wire.last.lock().unwrap() = Some(Instant::now());
        }
        Ok(Some(message))
    }
}
