use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use iodyno_model::{
    Amount, Diagnostic, Direction, Engine, EngineKind, Environment, Frame, Job, Outcome, Part,
    SimLaw, SimOptions,
};
use iodyno_units::Nanos;

use super::*;
use crate::protocol::{EngineSupport, Hello};
use crate::samples::{job, plan};
use crate::{Death, LocalNode};

/// Random reads with this duration of an op, for this time, in virtual time.
fn simulated(runtime_ms: u64, latency_ns: u64) -> Job {
    let mut job = job("sim");
    job.work.blocks_mut().unwrap().engine = Engine::new(EngineKind::Sim, 1);
    job.work.blocks_mut().unwrap().engine.sim = Some(SimOptions {
        law: SimLaw::Constant(latency_ns),
        ..SimOptions::default()
    });
    job.work.blocks_mut().unwrap().passes.time_based = true;
    job.end.runtime = Some(Nanos::from_millis(runtime_ms));
    job.work.blocks_mut().unwrap().extent.size = Some(Amount::Bytes(1 << 24));
    job
}

/// Runs one simulated node for each job.
fn simulate(
    jobs: &[Job],
    stop: &StopFlag,
    watch: &mut dyn FnMut(usize, &Event),
) -> (Vec<TrialEnd>, Vec<Vec<Frame>>) {
    let node = LocalNode::this_program();
    let plans: Vec<BoundPlan> = jobs
        .iter()
        .map(|job| plan("/", vec![job.clone()]))
        .collect();
    let nodes: Vec<(&dyn Node, &BoundPlan)> = plans
        .iter()
        .map(|plan| (&node as &dyn Node, plan))
        .collect();
    let mut frames = vec![Vec::new(); jobs.len()];
    let ends = drive(&nodes, stop, &mut |index, event| {
        watch(index, &event);
        if let Event::Frame(frame) = event {
            frames[index].push(frame);
        }
    });
    (ends.into_iter().map(Result::unwrap).collect(), frames)
}

fn reads(end: &TrialEnd) -> u64 {
    match end {
        TrialEnd::Done(part, _) => part.clones[0].direction(Direction::Read).unwrap().ops,
        end => panic!("{end:?}"),
    }
}

#[test]
fn several_simulated_nodes_give_the_same_results_as_each_alone() {
    let jobs = [
        simulated(2500, 100_000),
        simulated(700, 200_000),
        simulated(1300, 50_000),
    ];
    let (ends, frames) = simulate(&jobs, &StopFlag::new(), &mut |_, _| {});
    assert_eq!(
        ends.iter().map(reads).collect::<Vec<u64>>(),
        [25_000, 3500, 26_000]
    );
    for (index, job) in jobs.iter().enumerate() {
        let (_, alone) = simulate(std::slice::from_ref(job), &StopFlag::new(), &mut |_, _| {});
        assert_eq!(frames[index], alone[0]);
    }
}

#[test]
fn no_node_starts_before_all_are_ready() {
    let jobs = [simulated(10, 100_000), simulated(10, 100_000)];
    let mut ready = 0;
    simulate(&jobs, &StopFlag::new(), &mut |_, event| match event {
        Event::Ready { .. } => ready += 1,
        Event::Started { .. } => assert_eq!(ready, 2),
        _ => {}
    });
}

#[test]
fn a_node_that_fails_to_prepare_ends_the_others_before_they_begin() {
    let mut impossible = simulated(10, 100_000);
    impossible
        .work
        .blocks_mut()
        .unwrap()
        .engine
        .sim
        .as_mut()
        .unwrap()
        .law = SimLaw::LogNormal {
        median_ns: 1,
        sigma: f64::NAN,
    };
    let jobs = [simulated(10, 100_000), impossible, simulated(10, 100_000)];
    let (ends, _) = simulate(&jobs, &StopFlag::new(), &mut |_, event| {
        assert!(!matches!(event, Event::Started { .. }));
    });
    assert_eq!(ends[0], TrialEnd::withdrawn());
    assert!(matches!(&ends[1], TrialEnd::Unprepared(faults) if faults.len() == 1));
    assert_eq!(ends[2], TrialEnd::withdrawn());
}

#[test]
fn a_stop_request_reaches_every_node_and_results_are_kept() {
    let jobs = [
        simulated(86_400_000, 100_000),
        simulated(86_400_000, 100_000),
    ];
    let stop = StopFlag::new();
    let mut told = [false; 2];
    let (ends, frames) = simulate(&jobs, &stop, &mut |index, event| {
        told[index] |= matches!(event, Event::Frame(_));
        if told == [true; 2] {
            stop.finish();
        }
    });
    for (end, frames) in ends.iter().zip(frames) {
        assert!(matches!(end, TrialEnd::Done(_, Outcome::Interrupted(_))));
        let framed: u64 = frames.iter().map(|frame| frame.ops(Direction::Read)).sum();
        assert_eq!(reads(end), framed);
    }
}

#[test]
fn a_trial_that_is_stopped_ends_although_its_ops_take_longer_than_the_storage_is_watched() {
    let stop = StopFlag::new();
    // A thousand days of virtual time: a day can be over before the node is told to stop.
    let job = simulated(86_400_000_000, 30_000_000_000);
    let (ends, _) = simulate(&[job], &stop, &mut |_, event| {
        if matches!(event, Event::Frame(_)) {
            stop.finish();
        }
    });
    let [TrialEnd::Done(_, outcome)] = &ends[..] else {
        panic!("{ends:?}");
    };
    assert!(matches!(outcome, Outcome::Interrupted(_)), "{outcome:?}");
}

#[test]
fn a_trial_without_a_receiver_ends() {
    let job = simulated(86_400_000, 100_000);
    let plan = plan("/", vec![job]);
    let node = LocalNode::this_program();
    let mut session = node.open(&plan).unwrap();
    session.send(Command::Prepare {
        plan: Box::new(plan.clone()),
    });
    while !matches!(
        session.poll().unwrap(),
        Some(Message::Event(Event::Ready { .. }))
    ) {
        thread::park_timeout(POLL);
    }
    session.send(Command::Arm {
        at_ns: 0,
        stay: false,
    });
    session.send(Command::Go);
    drop(session);
}

#[test]
fn a_trial_that_is_aborted_before_it_is_prepared_never_begins() {
    let stop = StopFlag::new();
    stop.abort();
    let (ends, _) = simulate(&[simulated(1000, 100_000)], &stop, &mut |_, event| {
        panic!("{event:?}");
    });
    assert_eq!(ends, [TrialEnd::withdrawn()]);
}

/// The commands that several nodes received, by the offset of the node.
type Log = Arc<Mutex<Vec<(u64, Command)>>>;

/// A node whose clock is ahead by this offset, and the commands that it received.
struct Ahead {
    by_ns: u64,
    /// How much further ahead it is after the trial.
    drift_ns: u64,
    /// How much further ahead it is after the preparation.
    prepared_drift_ns: u64,
    hello: Hello,
    told: Mutex<Vec<Command>>,
    log: Option<Log>,
    /// The number of polls before it acknowledges the start.
    acknowledges_after: u32,
    /// What it sends after the start command, before the end.
    sends: Vec<Event>,
    /// It is lost at the start command, and its session ends after another node was told to finish. After this number
    /// of polls, the test fails.
    lost_for: Option<u32>,
    /// It ends only on request.
    runs_on: bool,
}

impl Ahead {
    fn new(by_ns: u64) -> Ahead {
        let psync = EngineSupport {
            engine: EngineKind::Psync,
            unusable: None,
        };
        Ahead {
            by_ns,
            drift_ns: 0,
            prepared_drift_ns: 0,
            hello: Hello::new(vec![psync]),
            told: Mutex::default(),
            log: None,
            acknowledges_after: 0,
            sends: Vec::new(),
            lost_for: None,
            runs_on: false,
        }
    }

    fn armed(&self) -> u64 {
        let told = self.told.lock().unwrap();
        let armed = told.iter().find_map(|command| match command {
            Command::Arm { at_ns, .. } => Some(*at_ns),
            _ => None,
        });
        armed.unwrap()
    }
}

struct AheadSession<'a> {
    /// It ends only on request.
    background: bool,
    node: &'a Ahead,
    queued: VecDeque<Message>,
    /// Polls until it acknowledges the start; `None`: it is not armed, or has acknowledged.
    acknowledges: Option<u32>,
    stays: bool,
    prepared: bool,
    gone: bool,
    polls: u32,
}

fn empty_part() -> Part {
    Part {
        node: "ahead".to_owned(),
        clock_offset_ns: 0,
        clock_error_ns: 0,
        clock_at_ns: 0,
        clock_after: None,
        start_late_ns: 0,
        environment: Environment::default(),
        clones: Vec::new(),
        steps: Vec::new(),
        host: Default::default(),
        files: Vec::new(),
        notes: Vec::new(),
        start_unix_ms: None,
        settled: None,
        sampling: Vec::new(),
        stalls: None,
    }
}

impl Session for AheadSession<'_> {
    fn send(&mut self, command: Command) {
        self.node.told.lock().unwrap().push(command.clone());
        if let Some(log) = &self.node.log {
            log.lock().unwrap().push((self.node.by_ns, command.clone()));
        }
        let end = || {
            let end = TrialEnd::Done(Box::new(empty_part()), Outcome::Completed);
            Message::Ended(end)
        };
        let answer = match command {
            Command::Prepare { .. } => {
                self.prepared = true;
                Some(Message::Event(Event::Admitted {
                    targets: Vec::new(),
                }))
            }
            Command::Proceed => Some(Message::Event(Event::Ready {
                environment: Box::default(),
                notes: Vec::new(),
            })),
            Command::Ping { number } => {
                let drift_ns = u64::from(self.gone) * self.node.drift_ns
                    + u64::from(self.prepared) * self.node.prepared_drift_ns;
                Some(Message::Clock {
                    number,
                    now_ns: clock::now() + self.node.by_ns + drift_ns,
                })
            }
            Command::Arm { stay, .. } => {
                self.stays = stay;
                self.acknowledges = Some(self.node.acknowledges_after);
                None
            }
            Command::Go => {
                self.gone = true;
                let sends = self.node.sends.iter().cloned();
                self.queued.extend(sends.map(Message::Event));
                if self.node.runs_on || self.node.lost_for.is_some() {
                    return;
                }
                match (self.background, self.stays) {
                    (true, _) => None,
                    (false, true) => Some(Message::Event(Event::Finished)),
                    (false, false) => Some(end()),
                }
            }
            Command::ExitAll => Some(Message::Event(Event::Finished)),
            Command::Leave => Some(end()),
            Command::Finish | Command::Abort => Some(Message::Ended(TrialEnd::Failed {
                outcome: Outcome::Interrupted("told to".to_owned()),
                death: Some(Death::Exit(1)),
            })),
            Command::Hello { .. }
            | Command::Settle { .. }
            | Command::Storage { .. }
            | Command::Examine(_)
            | Command::CleanUp { .. }
            | Command::Keep { .. } => None,
        };
        self.queued.extend(answer);
    }

    fn has_failed(&self) -> bool {
        self.gone && self.node.lost_for.is_some()
    }

    fn poll(&mut self) -> Result<Option<Message>, RunnerError> {
        if self.has_failed() {
            let log = self.node.log.iter();
            let mut told = log.flat_map(|log| log.lock().unwrap().clone());
            let finished = told.any(|(_, command)| command == Command::Finish);
            self.polls += 1;
            let given_up = Some(self.polls) > self.node.lost_for;
            assert!(!given_up, "no other node was told to finish");
            if finished {
                self.queued.push_back(Message::Ended(TrialEnd::Failed {
                    outcome: Outcome::Failed("lost".to_owned()),
                    death: Some(Death::Lost("lost".to_owned())),
                }));
            }
        }
        match &mut self.acknowledges {
            Some(0) => {
                self.acknowledges = None;
                self.queued.push_back(Message::Armed);
            }
            Some(polls) => *polls -= 1,
            None => {}
        }
        Ok(self.queued.pop_front())
    }
}

impl StorageNode for Ahead {}

impl Node for Ahead {
    fn open(&self, plan: &BoundPlan) -> Result<Box<dyn Session + '_>, RunnerError> {
        let hello = Message::Hello(self.hello.clone());
        Ok(Box::new(AheadSession {
            node: self,
            background: plan.background,
            queued: VecDeque::from([hello]),
            acknowledges: None,
            stays: false,
            prepared: false,
            gone: false,
            polls: 0,
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

/// A node that cannot be connected to, or whose process is killed while it connects.
struct Unconnected {
    at_once: bool,
}

struct Connecting {
    aborted: bool,
}

fn unconnected(why: &str) -> RunnerError {
    RunnerError::NotConnected {
        to: "ssh://h".to_owned(),
        why: why.to_owned(),
    }
}

impl Session for Connecting {
    fn send(&mut self, command: Command) {
        self.aborted |= command == Command::Abort;
    }

    fn poll(&mut self) -> Result<Option<Message>, RunnerError> {
        match self.aborted {
            true => Err(unconnected("it sent no handshake")),
            false => Ok(None),
        }
    }
}

impl StorageNode for Unconnected {}

impl Node for Unconnected {
    fn open(&self, _: &BoundPlan) -> Result<Box<dyn Session + '_>, RunnerError> {
        match self.at_once {
            true => Err(unconnected("no route to host")),
            false => Ok(Box::new(Connecting { aborted: false })),
        }
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

#[test]
fn a_node_that_is_stopped_while_it_connects_does_not_hide_the_cause() {
    let plan = plan("/", vec![job("j")]);
    let nodes = [
        Unconnected { at_once: false },
        Unconnected { at_once: true },
    ];
    let members: Vec<(&dyn Node, &BoundPlan)> = nodes
        .iter()
        .map(|node| (node as &dyn Node, &plan))
        .collect();
    let ends = drive(&members, &StopFlag::new(), &mut |_, _| {});
    assert!(
        matches!(&ends[0], Ok(end) if *end == TrialEnd::withdrawn()),
        "{ends:?}"
    );
    let Err(error) = &ends[1] else {
        panic!("{ends:?}");
    };
    assert!(error.to_string().contains("no route to host"), "{error}");
}

#[test]
fn nodes_start_at_one_instant_each_by_its_own_clock() {
    let plan = plan("/", vec![job("j")]);
    let nodes = [
        Ahead::new(0),
        Ahead::new(5_000_000_000),
        Ahead::new(1 << 40),
    ];
    let members: Vec<(&dyn Node, &BoundPlan)> = nodes
        .iter()
        .map(|node| (node as &dyn Node, &plan))
        .collect();
    let ends = drive(&members, &StopFlag::new(), &mut |_, _| {});
    let mut starts = Vec::new();
    for (node, end) in nodes.iter().zip(ends) {
        let Ok(TrialEnd::Done(part, Outcome::Completed)) = end else {
            panic!("{end:?}");
        };
        let off = part.clock_offset_ns.abs_diff(node.by_ns.cast_signed());
        assert!(off <= part.clock_error_ns, "{part:?}");
        starts.push((node.armed() - node.by_ns, part.clock_error_ns));
        let pings = node.told.lock().unwrap();
        let pings = pings
            .iter()
            .filter(|one| matches!(one, Command::Ping { .. }));
        // Before the preparation, before the start, and after the end.
        assert_eq!(pings.count(), (FIRST_PINGS + 2 * PINGS) as usize);
    }
    for (start, error) in &starts {
        assert!(start.abs_diff(starts[0].0) <= error + starts[0].1);
    }
}

#[test]
fn a_plan_that_one_node_does_not_support_is_prepared_on_none() {
    let mut unable = Ahead::new(0);
    let fault = Diagnostic::error("cannot do it").hint("buy another");
    unable.hello.engines[0].unusable = Some(fault);
    let able = Ahead::new(0);
    let plan = plan("/", vec![job("one"), job("two")]);
    let members: [(&dyn Node, &BoundPlan); 2] = [(&unable, &plan), (&able, &plan)];
    let ends = drive(&members, &StopFlag::new(), &mut |_, _| {});
    let Ok(TrialEnd::Unprepared(faults)) = &ends[0] else {
        panic!("{ends:?}");
    };
    let messages: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
    assert_eq!(
        messages,
        ["job `one`: cannot do it", "job `two`: cannot do it"]
    );
    assert!(matches!(&ends[1], Ok(TrialEnd::Failed { .. })));
    let prepared = |node: &Ahead| {
        let told = node.told.lock().unwrap();
        told.iter()
            .any(|one| matches!(one, Command::Prepare { .. }))
    };
    assert!(!prepared(&unable));
}

#[test]
fn no_node_is_told_to_go_before_all_have_acknowledged_the_start() {
    let plan = plan("/", vec![job("j")]);
    let log = Arc::new(Mutex::new(Vec::new()));
    let nodes: Vec<Ahead> = [0, 9, 2]
        .into_iter()
        .zip(0..)
        .map(|(acknowledges_after, by_ns)| Ahead {
            acknowledges_after,
            log: Some(Arc::clone(&log)),
            ..Ahead::new(by_ns)
        })
        .collect();
    let members: Vec<(&dyn Node, &BoundPlan)> = nodes
        .iter()
        .map(|node| (node as &dyn Node, &plan))
        .collect();
    drive(&members, &StopFlag::new(), &mut |_, _| {});
    let log = log.lock().unwrap();
    let steps: Vec<&str> = log
        .iter()
        .filter_map(|(_, command)| match command {
            Command::Arm { .. } => Some("arm"),
            Command::Go => Some("go"),
            Command::Leave => Some("leave"),
            _ => None,
        })
        .collect();
    assert_eq!(
        steps,
        [
            "arm", "arm", "arm", "go", "go", "go", "leave", "leave", "leave"
        ]
    );
}

#[test]
fn a_trial_in_the_background_ends_when_all_others_have_ended() {
    let work = plan("/", vec![job("j")]);
    let background = BoundPlan {
        background: true,
        ..work.clone()
    };
    let log = Arc::new(Mutex::new(Vec::new()));
    let nodes = [0, 1, 2].map(|by_ns| Ahead {
        log: Some(Arc::clone(&log)),
        ..Ahead::new(by_ns)
    });
    let members: Vec<(&dyn Node, &BoundPlan)> = vec![
        (&nodes[0], &work),
        (&nodes[1], &background),
        (&nodes[2], &work),
    ];
    let ends = drive(&members, &StopFlag::new(), &mut |_, _| {});
    for end in &ends {
        assert!(
            matches!(end, Ok(TrialEnd::Done(_, Outcome::Completed))),
            "{end:?}"
        );
    }
    let log = log.lock().unwrap();
    let told = |command: &Command| matches!(command, Command::Leave | Command::ExitAll);
    let told: Vec<(u64, &Command)> = log
        .iter()
        .filter(|(_, command)| told(command))
        .map(|(node, command)| (*node, command))
        .collect();
    assert_eq!(
        told,
        [
            (0, &Command::Leave),
            (2, &Command::Leave),
            (1, &Command::ExitAll),
            (1, &Command::Leave)
        ]
    );
}

#[test]
fn the_clock_is_read_again_after_the_trial_if_there_are_several_nodes() {
    let plan = plan("/", vec![job("j")]);
    let nodes = [
        Ahead::new(0),
        Ahead {
            drift_ns: 1 << 40,
            ..Ahead::new(5_000_000_000)
        },
    ];
    let members: Vec<(&dyn Node, &BoundPlan)> = nodes
        .iter()
        .map(|node| (node as &dyn Node, &plan))
        .collect();
    let ends = drive(&members, &StopFlag::new(), &mut |_, _| {});
    for (node, end) in nodes.iter().zip(ends) {
        let Ok(TrialEnd::Done(part, _)) = end else {
            panic!("{end:?}");
        };
        let (drift_ns, error_ns) = part.clock_drift_ns().unwrap();
        assert!(
            drift_ns.abs_diff(node.drift_ns.cast_signed()) <= error_ns,
            "{part:?}"
        );
    }
    // A single node of this host has the clock of this host.
    let alone = Ahead::new(0);
    let ends = drive(&[(&alone, &plan)], &StopFlag::new(), &mut |_, _| {});
    let Ok(TrialEnd::Done(part, _)) = &ends[0] else {
        panic!("{ends:?}");
    };
    assert_eq!(part.clock_after, None);
}

#[test]
fn a_trial_does_not_begin_with_a_clock_of_a_wrong_rate_and_has_failed_with_one() {
    let plan = plan("/", vec![job("j")]);
    let ends_with = |node: Ahead| {
        let nodes = [Ahead::new(0), node];
        let members = nodes.each_ref().map(|node| (node as &dyn Node, &plan));
        let ends = drive(&members, &StopFlag::new(), &mut |_, _| {});
        let [_, end] = <[_; 2]>::try_from(ends).unwrap();
        (end.unwrap(), nodes[1].told.lock().unwrap().clone())
    };
    // Longer than any preparation here could take.
    let (end, told) = ends_with(Ahead {
        prepared_drift_ns: 1 << 50,
        ..Ahead::new(0)
    });
    let TrialEnd::Unprepared(faults) = end else {
        panic!("{end:?}");
    };
    assert!(
        faults[0].message.contains("times the rate of this host's"),
        "{faults:?}"
    );
    assert!(!told.contains(&Command::Go), "{told:?}");
    let (end, _) = ends_with(Ahead {
        drift_ns: 1 << 50,
        ..Ahead::new(0)
    });
    let TrialEnd::Done(_, Outcome::Failed(why)) = end else {
        panic!("{end:?}");
    };
    assert!(why.contains("times the rate of this host's"), "{why}");
}

#[test]
fn the_other_nodes_finish_as_soon_as_a_node_is_lost_and_not_when_its_session_has_ended() {
    let plan = plan("/", vec![job("j")]);
    let log = Log::default();
    let nodes = [
        Ahead {
            runs_on: true,
            log: Some(Arc::clone(&log)),
            ..Ahead::new(0)
        },
        Ahead {
            lost_for: Some(100),
            log: Some(log),
            ..Ahead::new(1)
        },
    ];
    let members = nodes.each_ref().map(|node| (node as &dyn Node, &plan));
    drive(&members, &StopFlag::new(), &mut |_, _| {});
    let told = nodes[0].told.lock().unwrap();
    assert!(told.contains(&Command::Finish), "{told:?}");
    let told = nodes[1].told.lock().unwrap();
    assert!(!told.contains(&Command::Finish), "{told:?}");
}

#[test]
fn a_result_of_an_unknown_job_ends_the_session_of_its_node() {
    let frame = Frame {
        number: 0,
        node: String::new(),
        start_ns: 0,
        end_ns: 1,
        step: iodyno_model::Step::Measure,
        cpu_ns: 0,
        jobs: vec![iodyno_model::JobFrame {
            job: u32::MAX,
            running: 1,
            directions: Vec::new(),
        }],
    };
    let backwards = Frame {
        start_ns: 2,
        jobs: Vec::new(),
        ..frame.clone()
    };
    for (frame, words) in [
        (frame, "a result of job 4294967295; there are 1"),
        (backwards, "frame 0 ends before it begins"),
    ] {
        let node = Ahead {
            sends: vec![Event::Frame(frame)],
            ..Ahead::new(0)
        };
        let plan = plan("/", vec![job("j")]);
        let ends = drive(&[(&node, &plan)], &StopFlag::new(), &mut |_, event| {
            assert!(!matches!(event, Event::Frame(_)));
        });
        let Ok(TrialEnd::Failed { outcome, death }) = &ends[0] else {
            panic!("{ends:?}");
        };
        assert!(outcome.reason().unwrap().contains(words), "{outcome:?}");
        assert!(matches!(death, Some(Death::Garbled(_))));
    }
}
