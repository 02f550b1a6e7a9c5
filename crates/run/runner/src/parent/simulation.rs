//! A session in virtual time: the trial runs in this process, on simulated devices.
//!
//! The trial is the one that a child process would run, with the same jobs, op streams, scheduler, counters and frames.
//! But time comes from an event queue, the host is not sampled, and no pipe is used. Everything except the environment
//! and the wall clock is a function of the plan: the same plan gives the same frames and the same part on any host.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};

use iodyno_engine::VirtualClock;
use iodyno_model::{BoundPlan, Diagnostic, EngineKind, Outcome, StopRequest};

use crate::node::control::Control;
use crate::node::message_writer::MessageSender;
use crate::node::serve;
use crate::node::timeline::{Timeline, VIRTUAL_START_NS};
use crate::node::worker::Signal;
use crate::parent::session::{RunnerError, Session};
use crate::protocol::{Command, EngineSupport, Hello, Message, TrialEnd};

/// A trial in virtual time.
pub(crate) struct Simulation {
    control: Control,
    /// Messages of the session itself.
    queued: VecDeque<Message>,
    trial: Option<Running>,
}

/// Its trial, once it is prepared.
struct Running {
    /// The clock of the trial thread.
    clock: VirtualClock,
    signals: Sender<Signal>,
    messages: Receiver<Option<Message>>,
    /// `None`: it was joined.
    thread: Option<JoinHandle<()>>,
}

impl Simulation {
    pub(crate) fn new() -> Simulation {
        let engine = EngineKind::Sim;
        let engines = vec![EngineSupport {
            engine,
            unusable: None,
        }];
        let hello = Hello {
            virtual_time: true,
            ..Hello::new(engines)
        };
        Simulation {
            control: Control::default(),
            queued: VecDeque::from([Message::Hello(hello)]),
            trial: None,
        }
    }

    fn prepare(&mut self, plan: BoundPlan) {
        let clock = VirtualClock::starting_at(VIRTUAL_START_NS);
        let (signals, received) = mpsc::channel();
        let (sender, messages) = MessageSender::bounded();
        let work = {
            let (control, signals, clock) = (self.control.clone(), signals.clone(), clock.clone());
            move || {
                let timeline = Timeline::simulated(signals, received, clock);
                let ended = serve::trial(&plan, &control, &sender, timeline);
                sender.send(Message::Ended(ended.end));
            }
        };
        let thread = thread::Builder::new().name("simulation".to_owned());
        match thread.spawn(work) {
            Ok(thread) => {
                self.trial = Some(Running {
                    clock,
                    signals,
                    messages,
                    thread: Some(thread),
                });
            }
            Err(error) => {
                let fault = Diagnostic::error(format!("cannot start a thread: {error}"))
                    .hint("raise `ulimit -u` or the cgroup's pids.max");
                let end = TrialEnd::Unprepared(vec![fault]);
                self.queued.push_back(Message::Ended(end));
            }
        }
    }

    fn stop(&mut self, stop: StopRequest, command: Command) {
        self.control.stop.request(stop);
        match &self.trial {
            Some(trial) => {
                trial.signal(command);
                // Otherwise the trial thread would not notice before the end of the next frame or window.
                trial.clock.interrupt();
            }
            None => self.queued.push_back(Message::Ended(TrialEnd::withdrawn())),
        }
    }
}

impl Running {
    fn signal(&self, command: Command) {
        // A trial that has ended reads no more commands.
        let _ = self.signals.send(Signal::Command(command));
    }
}

impl Session for Simulation {
    fn send(&mut self, command: Command) {
        match command {
            // A simulation has no files, and needs nothing on the host.
            Command::Hello { .. }
            | Command::Proceed
            | Command::Settle { .. }
            | Command::Examine(_)
            | Command::CleanUp { .. }
            | Command::Leave
            // Its clock is not that of the other nodes: it runs to its own end.
            | Command::ExitAll
            | Command::Keep { .. }
            | Command::Storage { .. } => {}
            Command::Prepare { plan } => self.prepare(*plan),
            Command::Ping { number } => {
                let now_ns = VIRTUAL_START_NS;
                self.queued.push_back(Message::Clock { number, now_ns });
            }
            Command::Arm { .. } | Command::Go => {
                if let Some(trial) = &self.trial {
                    trial.signal(command);
                }
            }
            Command::Finish => self.stop(StopRequest::Finish, command),
            Command::Abort => self.stop(StopRequest::Abort, command),
        }
    }

    fn poll(&mut self) -> Result<Option<Message>, RunnerError> {
        if let Some(message) = self.queued.pop_front() {
            return Ok(Some(message));
        }
        let Some(trial) = &mut self.trial else {
            return Ok(None);
        };
        let message = match trial.messages.try_recv() {
            Ok(Some(message)) => message,
            Err(TryRecvError::Empty) => return Ok(None),
            // Its thread panicked; the message is on stderr.
            Ok(None) | Err(TryRecvError::Disconnected) => {
                let why = "the simulation panicked; see stderr. This is a bug in iodyno: please report it";
                Message::Ended(TrialEnd::Failed {
                    outcome: Outcome::Failed(why.to_owned()),
                    death: None,
                })
            }
        };
        if matches!(message, Message::Ended(_))
            && let Some(thread) = trial.thread.take()
        {
            let _ = thread.join();
        }
        Ok(Some(message))
    }
}

impl Drop for Simulation {
    /// A trial whose session was dropped does not continue.
    fn drop(&mut self) {
        if let Some(trial) = self.trial.as_ref().filter(|trial| trial.thread.is_some()) {
            self.control.stop.abort();
            trial.clock.interrupt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::trial::MAX_VIRTUAL_NS;
    use crate::parent::session::carry_out;
    use crate::protocol::Event;
    use crate::samples::{access, job, plan};
    use crate::{LocalNode, StopFlag};
    use iodyno_model::{
        After, CloneResult, Direction, EndedBy, Engine, EngineKind, Environment, Flow, Frame,
        Histogram, Job, Part, SimFault, SimLaw, SimOptions, SteadyMetric, SteadyRule, Step,
    };
    use iodyno_units::Nanos;

    fn simulate(plan: &BoundPlan, stop: &StopFlag, events: &mut dyn FnMut(Event)) -> TrialEnd {
        let node = LocalNode::this_program();
        carry_out(plan, &node, stop, events).unwrap()
    }

    /// Random reads for this time on a device that takes 100 µs for each at any depth.
    fn simulated(name: &str, depth: u32, runtime_ms: u64) -> Job {
        let mut job = job(name);
        job.work.blocks_mut().unwrap().engine = Engine::new(EngineKind::Sim, depth);
        job.work.blocks_mut().unwrap().engine.sim = Some(SimOptions::default());
        job.work.blocks_mut().unwrap().passes.time_based = true;
        job.end.runtime = Some(Nanos::from_millis(runtime_ms));
        job.work.blocks_mut().unwrap().extent.size = Some(iodyno_model::Amount::Bytes(1 << 24));
        job
    }

    fn device(job: &mut Job, law: SimLaw, servers: u32, faults: Vec<SimFault>) {
        job.work.blocks_mut().unwrap().engine.sim = Some(SimOptions {
            law,
            servers,
            faults,
            ..SimOptions::default()
        });
    }

    fn run(jobs: Vec<Job>) -> (TrialEnd, Vec<Frame>) {
        let mut frames = Vec::new();
        let end = simulate(&plan("/", jobs), &StopFlag::new(), &mut |event| {
            if let Event::Frame(frame) = event {
                frames.push(frame);
            }
        });
        (end, frames)
    }

    /// A completed trial, without values that are not simulated.
    fn completed(jobs: Vec<Job>) -> (Part, Vec<Frame>) {
        let (TrialEnd::Done(mut part, Outcome::Completed), frames) = run(jobs) else {
            panic!("it did not complete");
        };
        part.environment = Environment::default();
        (*part, frames)
    }

    #[test]
    fn figures_follow_exactly_from_the_device() {
        let (part, frames) = completed(vec![simulated("s", 4, 2500)]);
        let clone = &part.clones[0];
        let read = clone.direction(Direction::Read).unwrap();
        // Each of the four slots completes an op every 100 µs, the last ones at the end of the trial.
        assert_eq!((read.ops, read.bytes), (100_000, 100_000 * 4096));
        assert_eq!(
            (read.service.min_ns(), read.service.max_ns()),
            (100_000, 100_000)
        );
        assert_eq!(clone.runtime_ns, 2_500_000_000);
        assert_eq!(
            (clone.ended, clone.stamp_window_ns),
            (EndedBy::Runtime, (0, 0))
        );
        assert_eq!(clone.cpu, iodyno_model::CpuUse::default());
        let ends: Vec<u64> = frames.iter().map(|frame| frame.end_ns).collect();
        assert_eq!(ends, [1_000_000_000, 2_000_000_000, 2_500_000_000]);
    }

    #[test]
    fn a_ramp_is_a_separate_frame_and_is_not_counted() {
        let mut ramped = simulated("s", 1, 500);
        ramped.end.ramp = Nanos::from_millis(300);
        let (part, frames) = completed(vec![ramped]);
        let progress = |frame: &Frame| (frame.step, frame.end_ns, frame.ops(Direction::Read));
        let progress: Vec<_> = frames.iter().map(progress).collect();
        // The op that ends when the frame is cut belongs to neither frame.
        let measured = [
            (Step::Ramp, 300_000_000, 2999),
            (Step::Measure, 800_000_000, 5000),
        ];
        assert_eq!(progress, measured);
        let read = part.clones[0].direction(Direction::Read).unwrap();
        assert_eq!((read.ops, read.runtime_ns), (5000, 500_000_000));
    }

    fn steady(metric: SteadyMetric, slope: bool, limit: f64) -> SteadyRule {
        SteadyRule {
            metric,
            slope,
            limit,
            percent: true,
            window: Nanos::from_secs(3),
            ramp: Nanos(0),
            interval: Nanos::SECOND,
        }
    }

    #[test]
    fn a_steady_job_ends_when_its_window_is_full() {
        let mut job = simulated("s", 1, 60_000);
        (job.clones, job.end.ramp) = (2, Nanos::from_millis(500));
        job.end.steady = Some(SteadyRule {
            ramp: Nanos::from_secs(2),
            ..steady(SteadyMetric::Iops, false, 0.1)
        });
        let (part, _) = completed(vec![job]);
        for clone in &part.clones {
            // 0.5 s of ramp, 2 s before the first window, and the 3 s of the window.
            let found = clone.steady.as_ref().unwrap();
            assert_eq!(found.attained_ns, Some(5_500_000_000));
            assert_eq!(clone.ended, EndedBy::Steady);
            let read = clone.direction(Direction::Read).unwrap();
            assert!(read.ops.abs_diff(50_000) <= 1, "{}", read.ops);
            assert_eq!(found.window.len(), 3);
            let value = found.window[1];
            assert!((value.iops - 10_000.0).abs() <= 1.0, "{value:?}");
            assert!((value.latency_ns - 100_000.0).abs() < 20.0, "{value:?}");
            assert_eq!(value.bytes_per_s, value.iops * 4096.0);
        }
    }

    #[test]
    fn a_stall_delays_the_steady_state_and_too_short_a_run_does_not_attain_it() {
        for (runtime_ms, attained) in [(60_000, Some(8_000_000_000)), (6500, None)] {
            let mut job = simulated("s", 1, runtime_ms);
            // The fourth second has a stall; the first window without it ends with the eighth.
            let stall = SimFault::Stall {
                from_ns: 3_100_000_000,
                for_ns: 400_000_000,
            };
            device(&mut job, SimLaw::Constant(100_000), 0, vec![stall]);
            job.end.steady = Some(SteadyRule {
                window: Nanos::from_secs(4),
                ..steady(SteadyMetric::Bandwidth, false, 5.0)
            });
            let (part, _) = completed(vec![job]);
            let clone = &part.clones[0];
            let found = clone.steady.as_ref().unwrap();
            assert_eq!(found.attained_ns, attained);
            let ended = match attained {
                Some(_) => EndedBy::Steady,
                None => EndedBy::Runtime,
            };
            assert_eq!(clone.ended, ended);
            let criterion = found.criterion.unwrap();
            assert_eq!(criterion < 5.0, attained.is_some(), "{criterion}");
        }
    }

    #[test]
    fn a_group_is_steady_as_a_whole_and_its_first_clone_has_the_result() {
        let jobs = |together: bool| {
            // Each has a constant rate from its start on; the sum doubles after 2 s.
            let mut early = simulated("early", 1, 60_000);
            let mut late = simulated("late", 1, 60_000);
            late.delay.min = Nanos::from_secs(2);
            late.delay.max = Nanos::from_secs(2);
            for job in [&mut early, &mut late] {
                job.end.steady = Some(steady(SteadyMetric::Iops, true, 1.0));
                job.reporting.together = together;
            }
            vec![early, late]
        };
        let attained = |part: &Part| -> Vec<Option<u64>> {
            let clones = part.clones.iter();
            let seconds = |ns: u64| ns / 1_000_000_000;
            let found = |clone: &CloneResult| clone.steady.as_ref()?.attained_ns.map(seconds);
            clones.map(found).collect()
        };
        let (part, _) = completed(jobs(false));
        assert_eq!(attained(&part), [Some(3), Some(5)]);
        let (part, _) = completed(jobs(true));
        // 10 000, 10 000, 20 000, 20 000, 20 000 ops a second.
        assert_eq!(attained(&part), [Some(5), None]);
        assert!(part.clones[1].steady.is_none());
        assert!(
            part.clones
                .iter()
                .all(|clone| clone.ended == EndedBy::Steady)
        );
    }

    #[test]
    fn clones_that_take_turns_give_the_same_trial_each_time() {
        let jobs = || {
            let law = SimLaw::Exponential(200_000);
            let mut mixed = simulated("mixed", 4, 400);
            mixed.work.blocks_mut().unwrap().access = access(&[Direction::Read, Direction::Write]);
            (mixed.clones, mixed.end.ramp) = (3, Nanos::from_millis(50));
            device(&mut mixed, law, 2, Vec::new());
            let mut paced = simulated("paced", 8, 300);
            paced.pacing.rates.read.iops = 2000.0;
            paced.pacing.arrival = iodyno_model::Arrival::Poisson;
            paced.delay.max = Nanos::from_millis(60);
            device(&mut paced, law, 1, Vec::new());
            let mut flows: Vec<Job> = [("light", 1), ("heavy", 4)]
                .into_iter()
                .map(|(name, weight)| {
                    let mut member = simulated(name, 2, 200);
                    let pause = Nanos::from_micros(50);
                    member.pacing.flow = Some(Flow {
                        id: 1,
                        weight,
                        pause,
                    });
                    member
                })
                .collect();
            flows[0].after = After::AllBefore;
            flows[1].exit_all = true;
            [vec![mixed, paced], flows].concat()
        };
        let (part, frames) = completed(jobs());
        assert_eq!(part.clones.len(), 6);
        for _ in 0..5 {
            assert_eq!(completed(jobs()), (part.clone(), frames.clone()));
        }
        // Frames and part agree: no op is lost between them.
        for (job, clones) in [(0, 0..3), (1, 3..4), (2, 4..5), (3, 5..6)] {
            let mut whole = Histogram::default();
            for frame in frames.iter().filter(|frame| frame.step == Step::Measure) {
                let of_job = frame.jobs.iter().filter(|one| one.job == job);
                of_job
                    .flat_map(|one| &one.directions)
                    .for_each(|direction| whole.merge(&direction.service));
            }
            let directions = part.clones[clones].iter().flat_map(|one| &one.directions);
            let ops: u64 = directions.map(|one| one.ops).sum();
            assert!(ops > 0);
            assert_eq!(whole.count(), ops, "job {job}");
        }
        // The members of a flow keep their ratio.
        let ops = |clone: usize| part.clones[clone].direction(Direction::Read).unwrap().ops;
        assert!(ops(5).abs_diff(4 * ops(4)) <= 8, "{} {}", ops(4), ops(5));
    }

    #[test]
    fn another_configuration_has_other_latencies_and_the_same_ops() {
        let mut lognormal = simulated("s", 1, 100);
        device(
            &mut lognormal,
            SimLaw::LogNormal {
                median_ns: 100_000,
                sigma: 0.3,
            },
            0,
            Vec::new(),
        );
        let ops = |name: &str, seed: u64| {
            let mut plan = plan("/", vec![lognormal.clone()]);
            (plan.configuration.name, plan.seed) = (name.to_owned(), seed);
            match simulate(&plan, &StopFlag::new(), &mut |_| {}) {
                TrialEnd::Done(part, Outcome::Completed) => part.clones[0].directions[0].clone(),
                end => panic!("{end:?}"),
            }
        };
        assert_eq!(ops("a", 1), ops("a", 1));
        assert_ne!(ops("a", 1).service, ops("b", 1).service);
        assert_ne!(ops("a", 1).service, ops("a", 2).service);
    }

    #[test]
    fn a_trial_that_is_ended_early_keeps_what_was_measured() {
        for abort in [false, true] {
            let cancel = StopFlag::new();
            let (mut ops, later) = (0, simulated("later", 1, 1000));
            let jobs = vec![
                simulated("long", 1, 24 * 3600 * 1000),
                Job {
                    after: After::AllBefore,
                    ..later
                },
            ];
            let end = simulate(&plan("/", jobs), &cancel, &mut |event| {
                if let Event::Frame(frame) = event {
                    let directions = frame.jobs.iter().flat_map(|job| &job.directions);
                    ops += directions.map(|direction| direction.ops).sum::<u64>();
                    match abort {
                        true => cancel.abort(),
                        false => cancel.finish(),
                    }
                }
            });
            let TrialEnd::Done(part, Outcome::Interrupted(_)) = end else {
                panic!("{end:?}");
            };
            assert_eq!(part.clones[0].direction(Direction::Read).unwrap().ops, ops);
            let ended: Vec<EndedBy> = part.clones.iter().map(|clone| clone.ended).collect();
            assert_eq!(ended, [EndedBy::Interruption, EndedBy::NotStarted]);
        }
    }

    #[test]
    fn a_job_that_is_stopped_is_measured_until_then_and_not_until_its_last_op() {
        // One op at the start; the next one is due after the trial.
        let rare = |name: &str| {
            let mut job = simulated(name, 1, 24 * 3600 * 1000);
            job.pacing.rates.read.iops = 0.000_01;
            (job.exit_all, job.exit_what) = (true, iodyno_model::ExitScope::All);
            job
        };
        let check = |clone: &CloneResult, ended: EndedBy, least_ns: u64| {
            let read = clone.direction(Direction::Read).unwrap();
            assert_eq!((clone.ended, read.ops), (ended, 1));
            assert!(clone.runtime_ns >= least_ns, "{}", clone.runtime_ns);
            assert_eq!(read.runtime_ns, clone.runtime_ns);
        };
        let mut first = simulated("first", 1, 3_000);
        (first.exit_all, first.exit_what) = (true, iodyno_model::ExitScope::All);
        let (part, _) = completed(vec![first, rare("rare")]);
        check(&part.clones[1], EndedBy::ExitAll, 3_000_000_000);
        // A sleeping clone notices it within 0.1 s.
        assert!(part.clones[1].runtime_ns <= 3_200_000_000);
        for abort in [false, true] {
            let cancel = StopFlag::new();
            let mut until = 0;
            let end = simulate(&plan("/", vec![rare("rare")]), &cancel, &mut |event| {
                if let Event::Frame(frame) = event
                    && until == 0
                {
                    until = frame.end_ns;
                    match abort {
                        true => cancel.abort(),
                        false => cancel.finish(),
                    }
                }
            });
            let TrialEnd::Done(part, Outcome::Interrupted(_)) = end else {
                panic!("{end:?}");
            };
            check(&part.clones[0], EndedBy::Interruption, until);
        }
    }

    #[test]
    fn a_device_that_stops_answering_is_stuck_after_the_limit() {
        let stalled = |for_ns| {
            let mut job = simulated("stalled", 2, 60_000);
            let from_ns = 500_000_000;
            let stall = SimFault::Stall { from_ns, for_ns };
            device(&mut job, SimLaw::Constant(1_000_000), 0, vec![stall]);
            run(vec![simulated("sound", 1, 200), job])
        };
        // A pause that is shorter than the limit is not reported as stuck.
        let (end, _) = stalled(29_000_000_000);
        assert!(matches!(end, TrialEnd::Done(_, Outcome::Completed)));
        let (end, frames) = stalled(u64::MAX / 2);
        let TrialEnd::Done(part, Outcome::Failed(why)) = end else {
            panic!("{end:?}");
        };
        let read = part.clones[1].direction(Direction::Read).unwrap();
        assert_eq!((read.ops, part.clones[0].ended), (998, EndedBy::Runtime));
        // Detected 30 s after the first check that follows the last completion, at 1 s. The clone looks for the order
        // to stop ten times a second.
        assert_eq!(frames.last().unwrap().end_ns, 31_099_000_000);
        assert!(part.clones[0].in_flight.is_empty());
        let ops = &part.clones[1].in_flight;
        assert_eq!(ops.len(), 2);
        for op in ops {
            assert_eq!((op.direction, op.since_ns), (Direction::Read, 499_000_000));
            let named = format!("read of `{}` at offset {}", op.file, op.offset.unwrap());
            assert!(why.contains(&named), "{why}");
        }
        let words =
            "the storage is stuck: no op completed, and the storage made no progress, for 30.0 s";
        assert!(why.starts_with(words), "{why}");
        assert!(why.contains("since 0.5 s into the trial"), "{why}");
    }

    #[test]
    fn a_job_that_waits_for_its_next_op_is_not_stuck() {
        let mut slow = simulated("slow", 1, 300_000);
        slow.pacing.rates.read.iops = 0.01;
        let (end, _) = run(vec![slow]);
        assert!(
            matches!(end, TrialEnd::Done(_, Outcome::Completed)),
            "{end:?}"
        );
    }

    #[test]
    fn without_a_limit_a_device_that_never_answers_fails_the_trial_after_a_day() {
        let mut stalled = simulated("stalled", 1, 1000);
        let (from_ns, for_ns) = (500_000_000, u64::MAX / 2);
        let stall = SimFault::Stall { from_ns, for_ns };
        device(&mut stalled, SimLaw::Constant(1_000_000), 0, vec![stall]);
        let mut plan = plan("/", vec![stalled]);
        (plan.frame_ns, plan.stuck_after_ns) = (3600 * 1_000_000_000, 0);
        let mut last = 0;
        let end = simulate(&plan, &StopFlag::new(), &mut |event| {
            if let Event::Frame(frame) = event {
                last = frame.end_ns;
            }
        });
        let TrialEnd::Done(part, Outcome::Failed(why)) = end else {
            panic!("{end:?}");
        };
        assert!(why.contains("24 h of virtual time after"), "{why}");
        assert_eq!(part.clones[0].direction(Direction::Read).unwrap().ops, 499);
        // The last of the frames of an hour.
        assert_eq!(last, MAX_VIRTUAL_NS);
    }

    #[test]
    fn a_fault_of_preparation_names_its_job() {
        let mut impossible = simulated("odd", 1, 1000);
        let law = SimLaw::LogNormal {
            median_ns: 1,
            sigma: f64::NAN,
        };
        device(&mut impossible, law, 0, Vec::new());
        let (end, _) = run(vec![simulated("even", 1, 1000), impossible]);
        let TrialEnd::Unprepared(faults) = end else {
            panic!("{end:?}");
        };
        assert_eq!(faults.len(), 1);
        assert!(
            faults[0].message.contains("simulate a device"),
            "{faults:?}"
        );
        assert!(faults[0].message.contains("`odd`"), "{faults:?}");
    }
}
