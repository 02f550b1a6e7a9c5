use std::cell::RefCell;
use std::collections::VecDeque;

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
    let node = LocalNode::this_program().unwrap();
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
fn a_trial_without_a_receiver_ends() {
    let job = simulated(86_400_000, 100_000);
    let plan = plan("/", vec![job]);
    let node = LocalNode::this_program().unwrap();
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
    session.send(Command::Arm { at_ns: 0 });
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

/// A node whose clock is ahead by this offset, and the commands that it received.
struct Ahead {
    by_ns: u64,
    hello: Hello,
    told: RefCell<Vec<Command>>,
}

impl Ahead {
    fn new(by_ns: u64) -> Ahead {
        let psync = EngineSupport {
            engine: EngineKind::Psync,
            unusable: None,
        };
        Ahead {
            by_ns,
            hello: Hello::new(vec![psync]),
            told: RefCell::default(),
        }
    }

    fn armed(&self) -> u64 {
        let told = self.told.borrow();
        let armed = told.iter().find_map(|command| match command {
            Command::Arm { at_ns } => Some(*at_ns),
            _ => None,
        });
        armed.unwrap()
    }
}

struct AheadSession<'a>(&'a Ahead, VecDeque<Message>);

impl Session for AheadSession<'_> {
    fn send(&mut self, command: Command) {
        self.0.told.borrow_mut().push(command.clone());
        self.1.extend(match command {
            Command::Prepare { .. } => Some(Message::Event(Event::Admitted {
                targets: Vec::new(),
            })),
            Command::Proceed => Some(Message::Event(Event::Ready {
                environment: Box::default(),
                notes: Vec::new(),
            })),
            Command::Ping { number } => Some(Message::Clock {
                number,
                now_ns: clock::now() + self.0.by_ns,
            }),
            Command::Arm { .. } => {
                let part = Part {
                    node: "ahead".to_owned(),
                    clock_offset_ns: 0,
                    clock_error_ns: 0,
                    environment: Environment::default(),
                    clones: Vec::new(),
                    steps: Vec::new(),
                    host: Default::default(),
                    files: Vec::new(),
                    notes: Vec::new(),
                    start_unix_ms: None,
                    settled: None,
                    sampling: Vec::new(),
                };
                let end = TrialEnd::Done(Box::new(part), Outcome::Completed);
                Some(Message::Ended(end))
            }
            Command::Finish | Command::Abort => Some(Message::Ended(TrialEnd::Failed {
                outcome: Outcome::Interrupted("told to".to_owned()),
                death: Some(Death::Exit(1)),
            })),
            Command::Hello { .. }
            | Command::Settle { .. }
            | Command::Storage { .. }
            | Command::Examine(_)
            | Command::CleanUp { .. } => None,
        });
    }

    fn poll(&mut self) -> Result<Option<Message>, RunnerError> {
        Ok(self.1.pop_front())
    }
}

impl Node for Ahead {
    fn open(&self, _: &BoundPlan) -> Result<Box<dyn Session + '_>, RunnerError> {
        let hello = Message::Hello(self.hello.clone());
        Ok(Box::new(AheadSession(self, VecDeque::from([hello]))))
    }

    fn settle(&self, _: &Settling, _: &[PathBuf], _: &StopFlag) -> Vec<Unsettled> {
        Vec::new()
    }

    fn examine(&self, _: Examination, _: &StopFlag) -> Examined {
        Examined::default()
    }
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
        let pings = node.told.borrow();
        let pings = pings
            .iter()
            .filter(|one| matches!(one, Command::Ping { .. }));
        assert_eq!(pings.count(), PINGS as usize);
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
        let told = node.told.borrow();
        told.iter()
            .any(|one| matches!(one, Command::Prepare { .. }))
    };
    assert!(!prepared(&unable));
}

#[test]
fn a_round_trip_bounds_the_offset() {
    for (sent, node, received, offset, error) in [
        (100, 100, 100, 0, 0),
        (100, 150, 200, 0, 50),
        (100, 1150, 201, 1000, 51),
        (5000, 150, 5100, -4900, 50),
    ] {
        let read = ClockOffset::of_round_trip(sent, node, received);
        assert_eq!((read.offset_ns, read.error_ns), (offset, error));
    }
}
