//! One trial: bound, run, stored and judged.

use iodyno_model::{
    BoundPlan, Diagnostic, Environment, Frame, Outcome, Part, Plan, SCHEMA, SeriesKind, Settled,
    Telemetry, Trial, TrialKey, Workload,
};
use iodyno_runner::{Event, Examination, RunnerError, TrialEnd, carry_out};
use iodyno_store::{Rebuilder, StoreError};

use crate::downsampler::Downsampler;
use crate::made::Ready;
use crate::place::Places;
use crate::resume::drop_histograms;
use crate::schedule::bind;
use crate::store_place::store_on_target;
use crate::targets::KnownTargets;
use crate::writer::{StoreHealth, StoreWriter};
use crate::{Ended, Lab, Progress, unix_ms};

/// The result of a trial.
pub(crate) struct TrialResult {
    /// Its frames are without histograms.
    pub(crate) trial: Trial,
    /// The node could be started.
    pub(crate) startable: bool,
    /// The environment of its I/O, if it got that far.
    pub(crate) environment: Option<Environment>,
    /// Why it is not completely stored.
    pub(crate) unstored: Option<StoreError>,
}

/// One trial in progress.
pub(crate) struct TrialRun<'a> {
    lab: &'a Lab<'a>,
    plan: &'a Plan,
    key: TrialKey,
    started_unix_ms: u64,
    /// Wall clock when the node started the jobs, ms since 1970.
    node_started_unix_ms: Option<u64>,
    writer: StoreWriter<'a>,
    environment: Option<Environment>,
    /// Whether the host settled before it, with notes; `None` if settling was not needed.
    settled: Option<(Settled, Vec<String>)>,
    notes: Vec<String>,
    frames: Vec<Frame>,
    rebuilder: Rebuilder,
    downsampler: Downsampler,
    /// Its target, if that was made for the run.
    made: Option<Ready>,
    /// Its load, if its workload is searched.
    load: Option<f64>,
}

impl<'a> TrialRun<'a> {
    pub(crate) fn new(
        lab: &'a Lab<'a>,
        plan: &'a Plan,
        key: TrialKey,
        made: Option<Ready>,
        settled: Option<(Settled, Vec<String>)>,
    ) -> TrialRun<'a> {
        TrialRun {
            lab,
            plan,
            key,
            started_unix_ms: unix_ms(),
            node_started_unix_ms: None,
            writer: StoreWriter::new(lab.store, key),
            environment: None,
            settled,
            notes: Vec::new(),
            frames: Vec::new(),
            rebuilder: Rebuilder::default(),
            downsampler: Downsampler::new(plan.sampling.every_ns),
            made,
            load: None,
        }
    }

    /// The trial at this load of its workload's search.
    pub(crate) fn at(self, load: Option<f64>) -> TrialRun<'a> {
        TrialRun { load, ..self }
    }

    /// Its workload, at its load.
    fn loaded(&self, workload: &Workload) -> Workload {
        match workload.search.as_ref().zip(self.load) {
            Some((search, load)) => search.at(workload, load),
            None => workload.clone(),
        }
    }

    /// Runs the trial, unless its target has changed since its cell's earlier trials. If the change is found only
    /// during the trial, the trial has failed.
    pub(crate) fn carry_out(
        mut self,
        number: u32,
        places: &mut Places,
        targets: &mut KnownTargets,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> TrialResult {
        let (configuration, workload) = self.plan.cell(self.key.cell);
        let (round, attempt) = (self.key.round, self.key.attempt);
        if self.made.as_ref().is_some_and(|made| made.anew) {
            places.forget(self.plan, self.plan.place(self.key.cell).0);
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
        let wanted = Examination {
            identify: targets.of_cell(plan, cell),
            describe: places.of_cell(plan, cell),
            ..Examination::default()
        };
        let now = self.lab.node.examine(wanted, self.lab.stop);
        let lost_target = places.lost(plan, cell, &now.stacks);
        let end = match lost_target.or_else(|| targets.changed(&now.targets)) {
            Some(why) => Ok(TrialEnd::Unprepared(vec![lost(why)])),
            None => self.make(targets, observer),
        };
        self.ended(end, number, places, observer)
    }

    /// Stores that the trial failed because its target could not be made.
    pub(crate) fn unmade(
        mut self,
        faults: Vec<Diagnostic>,
        number: u32,
        places: &mut Places,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> TrialResult {
        self.begin(observer);
        self.ended(Ok(TrialEnd::Unprepared(faults)), number, places, observer)
    }

    /// Stores and reports the end.
    fn ended(
        mut self,
        end: Result<TrialEnd, RunnerError>,
        number: u32,
        places: &mut Places,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> TrialResult {
        let (_, workload) = self.plan.cell(self.key.cell);
        let startable = end.is_ok();
        let (mut outcome, mut parts, mut faults) = self.result(end, workload);
        let moved = self.environment.as_ref();
        let moved = moved.and_then(|now| places.moved(self.plan, self.key.cell, now));
        if let (Outcome::Completed, Some(why)) = (&outcome, moved) {
            faults.push(lost(why.clone()));
            outcome = Outcome::Failed(why);
        }
        for part in &mut parts {
            part.environment.made = self.made.as_ref().map(|made| made.about.clone());
        }
        if let Some((settled, notes)) = &self.settled {
            for part in &mut parts {
                part.settled = Some(*settled);
                part.notes.extend(notes.iter().cloned());
            }
        }
        let trial = self.trial(outcome, parts);
        tracing::info!(number, outcome = ?trial.outcome, "trial ended");
        let unstored = self.writer.finish(&trial).err();
        observer(Progress::Ended(Ended {
            number,
            workload,
            trial: &trial,
            faults: &faults,
            unstored: unstored.as_ref(),
        }));
        TrialResult {
            trial,
            startable,
            environment: self.environment,
            unstored,
        }
    }

    fn make(
        &mut self,
        targets: &mut KnownTargets,
        observer: &mut dyn FnMut(Progress<'_>),
    ) -> Result<TrialEnd, RunnerError> {
        let mut bound = BoundPlan {
            protected: self.lab.store_files.clone(),
            ..bind(self.plan, self.key)
        };
        bound.workload = self.loaded(&bound.workload);
        if let Some(made) = &self.made {
            bound = made.bind(bound);
        }
        let (node, stop) = (self.lab.node, self.lab.stop);
        carry_out(&bound, node, stop, &mut |event| {
            let health = self.keep(&event, targets);
            observer(Progress::Node(&event));
            tell(health, observer);
        })
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
            environment: None,
            unstored,
        }
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
        let servers = iodyno_judge::servers(&trial);
        let unseen = unseen(&trial.telemetry);
        if let Some(part) = trial.parts.first_mut() {
            part.host.servers = servers;
            part.notes.extend(unseen);
        }
        trial.findings = iodyno_judge::findings(workload, &trial);
        // The findings are derived from the telemetry; all of it is in the store.
        trial.telemetry = Telemetry::default();
        if let Some(environment) = &self.environment {
            let found = store_on_target(&self.lab.store_stack, environment, workload);
            trial.findings.extend(found);
            trial
                .findings
                .sort_by_key(|finding| std::cmp::Reverse(finding.weight));
        }
        trial
    }

    /// Stores an event of the node.
    fn keep(&mut self, event: &Event, targets: &mut KnownTargets) -> StoreHealth {
        match event {
            // A target that was made belongs to this run alone, and has another identity each time.
            Event::Admitted { .. } if self.made.is_some() => StoreHealth::Unchanged,
            Event::Admitted { targets: found } => {
                targets.learn(found.iter().cloned());
                match targets.take_unstored() {
                    Some(targets) => self.writer.targets(targets),
                    None => StoreHealth::Unchanged,
                }
            }
            Event::Ready { environment, notes } => {
                let environment = Environment {
                    made: self.made.as_ref().map(|made| made.about.clone()),
                    ..(**environment).clone()
                };
                self.notes.clone_from(notes);
                let health = self.writer.environment(&environment);
                self.environment = Some(environment);
                health
            }
            Event::Frame(frame) => {
                self.rebuilder.add(frame);
                let mut counts = frame.clone();
                drop_histograms(&mut counts);
                self.frames.push(counts);
                self.writer.frame(frame)
            }
            Event::Telemetry(batch) => {
                self.downsampler.add(&batch.telemetry);
                self.writer.telemetry(batch)
            }
            Event::Started { unix_ms } => {
                self.node_started_unix_ms = Some(*unix_ms);
                StoreHealth::Unchanged
            }
            Event::Progress { .. } => StoreHealth::Unchanged,
        }
    }

    /// Outcome, parts and errors. If the node died, the part is rebuilt from its frames.
    fn result(
        &mut self,
        end: Result<TrialEnd, RunnerError>,
        workload: &Workload,
    ) -> (Outcome, Vec<Part>, Vec<Diagnostic>) {
        match end {
            Ok(TrialEnd::Done(part, outcome)) => (outcome, vec![*part], Vec::new()),
            Ok(TrialEnd::Refused(faults)) => {
                (Outcome::Refused(reasons(&faults)), Vec::new(), faults)
            }
            Ok(TrialEnd::Unprepared(faults)) => {
                (Outcome::Failed(reasons(&faults)), Vec::new(), faults)
            }
            Ok(TrialEnd::Failed { outcome, .. }) => (outcome, self.rebuilt(workload), Vec::new()),
            Err(error) => {
                let fault = Diagnostic::error(error.to_string());
                (
                    Outcome::Failed(error.to_string()),
                    self.rebuilt(workload),
                    vec![fault],
                )
            }
        }
    }

    fn rebuilt(&mut self, workload: &Workload) -> Vec<Part> {
        match (&self.environment, self.frames.is_empty()) {
            (Some(environment), false) => {
                let rebuilder = std::mem::take(&mut self.rebuilder);
                let mut part = rebuilder.part(environment.clone(), workload);
                part.notes.append(&mut self.notes);
                part.start_unix_ms = self.node_started_unix_ms;
                vec![part]
            }
            _ => Vec::new(),
        }
    }
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

/// All messages on one line.
fn reasons(faults: &[Diagnostic]) -> String {
    let lines = faults.iter().flat_map(|fault| fault.message.lines());
    lines.map(str::trim).collect::<Vec<_>>().join("; ")
}
