//! The end of a trial: the last frames, the last sample of the host, clean-up, and the part.
//!
//! Invariant: stuck storage does not delay the part. It is not accessed before the part is sent.

use iodyno_engine::WrittenBlocks;
use iodyno_host::{Roots, stack};
use iodyno_model::{
    EndedBy, HostUse, Outcome, Part, SamplerCost, Severity, Step, StepTime, StopRequest,
};

use super::Trial;
use crate::files::operations::Site;
use crate::files::shared_files;
use crate::files::verify_records::ClonePlaces;
use crate::node::assemble::{self, Ended};
use crate::node::control;
use crate::node::host_counters::HostWatch;
use crate::node::message_writer::MessageSender;
use crate::node::stalls::stalls;
use crate::node::stuck::StuckGuard;
use crate::node::telemetry::BackgroundSampler;
use crate::node::timeline::Timeline;
use crate::node::worker::Signal;
use crate::protocol::{Event, Message, TrialEnd};
use crate::resolve::seeds;

/// At most this many files are named in a note.
const NAMED_FILES: usize = 3;

/// A trial that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) part: Part,
    pub(crate) outcome: Outcome,
    /// What to remove after the part is sent.
    pub(crate) remains: Option<Remains>,
    /// Whether ops did not complete or threads did not return.
    pub(crate) stuck: bool,
}

/// The folder of a trial on stuck storage.
#[derive(Debug)]
pub(crate) struct Remains {
    site: Site,
    timeline: Timeline,
    /// Workers that have not returned.
    workers: usize,
}

impl Remains {
    /// Removes the folder as soon as the storage responds: waits for the workers without a time limit.
    pub(crate) fn remove(mut self, messages: &MessageSender) {
        while self.workers > 0 {
            match self.timeline.next() {
                Some(Signal::Ended(..)) => self.workers -= 1,
                Some(_) => {}
                None => return,
            }
        }
        let mut tell = |done, total| {
            let step = Step::TearDown;
            messages.event(Event::Progress { step, done, total });
        };
        for left in self.site.tear_down(&|| StopRequest::Abort, &mut tell) {
            tracing::warn!("{}", left.message);
        }
    }
}

impl Trial<'_> {
    /// Runs the clean-up commands and removes the trial's temporary files. If that gets stuck, the part is sent without
    /// waiting for it. Returns why a command failed.
    fn clean_up(
        &mut self,
        part: &mut Part,
        outcome: &Outcome,
        written: Vec<(usize, WrittenBlocks)>,
    ) -> Option<String> {
        let origin = self.due.origin();
        let finished = |job: usize| {
            let mut clones = part.clones.iter();
            clones.all(|clone| clone.job as usize != job || clone.ended == EndedBy::Size)
        };
        let jobs = &self.plan.workload.jobs;
        let shares = jobs.iter().any(|job| job.work.shared_files().is_some());
        let closes = self.prepared.files.to_close() || self.prepared.shares.to_close();
        let removes = shares || closes || self.prepared.site.is_some();
        if !removes && written.is_empty() {
            return None;
        }
        // A simulation runs in the process of the user.
        let real = !self.timeline.is_virtual();
        let _guard = real.then(|| self.guard(part, outcome));
        let undone = shared_files::settle(&mut self.prepared.files, jobs, finished);
        part.notes.extend(undone);
        let (step, failed) = self.tear_down(origin);
        part.steps.extend(step);
        let workers = self.workers.iter_mut();
        let places: Vec<ClonePlaces> = workers
            .map(|worker| std::mem::take(&mut worker.waiting.places))
            .collect();
        let recorder = &mut self.prepared.recorder;
        let trial = seeds::trial_identity(&self.plan.key);
        recorder.end((&places, trial), written);
        self.prepared.notes.extend(recorder.take_notes());
        part.notes.append(&mut self.prepared.notes);
        failed
    }

    /// Sends the part as it is if the clean-up gets stuck.
    fn guard(&self, part: &Part, outcome: &Outcome) -> StuckGuard {
        let (mut part, outcome) = (part.clone(), outcome.clone());
        let messages = self.messages.clone();
        let paths: Vec<_> = part
            .environment
            .targets
            .iter()
            .map(|target| target.path.clone())
            .collect();
        let send = move || {
            part.notes.push(format!(
                "the clean-up of the trial's files is stuck; process {} continues it in the background",
                std::process::id()
            ));
            // The parent then does not kill the process.
            let (step, done, total) = (Step::TearDown, 0, 0);
            messages.event(Event::Progress { step, done, total });
            messages.send(Message::Ended(TrialEnd::Done(Box::new(part), outcome)));
            control::release_stderr();
        };
        let describe = move || {
            let roots = Roots::host();
            paths
                .iter()
                .map(|path| stack::describe(path, &roots))
                .collect()
        };
        let (limit_ns, ends) = (self.plan.stuck_after_ns, (self.control, self.messages));
        StuckGuard::watch(limit_ns, true, ends, describe, send)
    }

    /// Notes on the files that remain on stuck storage, and the folder that is removed later.
    fn leave(mut self, part: &mut Part) -> Option<Remains> {
        let list = self.prepared.files.list.iter();
        let mut kept: Vec<String> = list
            .filter(|file| file.wanted.unlink || file.unfinished)
            .map(|file| format!("`{}`", file.wanted.path.display()))
            .collect();
        let more = kept.len().saturating_sub(NAMED_FILES);
        kept.truncate(NAMED_FILES);
        kept.extend((more > 0).then(|| format!("{more} more")));
        if !kept.is_empty() {
            part.notes.push(format!(
                "the storage is stuck: {} not removed or cut back",
                kept.join(", ")
            ));
        }
        let site = self.prepared.site.take()?;
        part.notes.push(format!(
            "the storage is stuck: process {} removes the trial's folder when it responds again",
            std::process::id()
        ));
        // The parent then does not kill the process.
        let (step, done, total) = (Step::TearDown, 0, 0);
        self.messages.event(Event::Progress { step, done, total });
        Some(Remains {
            site,
            workers: self.scheduler.unfinished().len(),
            timeline: self.timeline,
        })
    }

    /// Runs the clean-up commands and removes the trial's temporary files. Returns the step, and why a command failed.
    fn tear_down(&mut self, origin: u64) -> (Option<StepTime>, Option<String>) {
        let closes = self.prepared.files.to_close() || self.prepared.shares.to_close();
        let clears = self.prepared.site.is_some();
        if !closes && !clears {
            return (None, None);
        }
        let from = self.timeline.now();
        if closes {
            let haste = self.control.stop.is_set();
            self.prepared.notes.extend(self.prepared.files.close(haste));
            let shares = self.prepared.shares.close(haste);
            self.prepared.notes.extend(shares);
        }
        let mut failed = None;
        for left in self.prepared.tear_down(self.control, self.messages) {
            let hint = left.hint.map_or(String::new(), |hint| format!("; {hint}"));
            match left.severity {
                Severity::Error => failed = failed.or(Some(left.message)),
                _ => self.prepared.notes.push(left.message + &hint),
            }
        }
        let step = assemble::step(Step::TearDown, from, self.timeline.now(), origin);
        (Some(step), failed)
    }

    /// Sends the ops since the last frame, and those after the measured time.
    fn last_frames(&mut self, now: u64) {
        if !self.monitor.idle() {
            self.cut();
        }
        if self.followed() && self.monitor.tail(now) {
            self.cut();
        }
    }

    /// Takes the last sample of the host, before anything is removed. Returns the cost of sampling.
    fn sampled(&mut self) -> Vec<SamplerCost> {
        let origin = self.due.origin();
        if self.stuck || self.control.stop.is_set() {
            self.telemetry.iter_mut().for_each(BackgroundSampler::hurry);
        }
        let ended = self.telemetry.as_mut().map(|sampler| sampler.end(origin));
        ended
            .unwrap_or_else(|| Ok(Vec::new()))
            .unwrap_or_else(|note| {
                self.prepared.notes.push(note);
                Vec::new()
            })
    }

    /// Sends the last frames; returns the part and what to remove.
    pub(super) fn finish(mut self) -> Finished {
        let now = self.timeline.now();
        for clone in self.scheduler.unfinished() {
            self.retire(clone, None, now);
        }
        for clone in 0..self.workers.len() {
            if self.workers[clone].ended.is_none() {
                self.close_idle(clone, EndedBy::NotStarted);
            }
        }
        self.last_frames(now);
        self.update_step();
        for (clone, steady) in self.steady.take_results() {
            if let Some(ended) = &mut self.workers[clone].ended {
                ended.result.steady = Some(steady);
            }
        }
        let host = self.host.as_mut().map(HostWatch::used);
        let host = host.unwrap_or_default();
        let host = HostUse {
            simulated: self.disks.used(now),
            // A server reads for this process.
            own_read_bytes: host.own_read_bytes.filter(|_| self.plan.shared.is_none()),
            ..host
        };
        let sampling = self.sampled();
        let mut ended: Vec<Ended> = self
            .workers
            .iter_mut()
            .filter_map(|p| p.ended.take())
            .collect();
        if self.stuck {
            ended.iter_mut().for_each(Ended::by_stuck_storage);
        }
        let written = ended.iter_mut().zip(&self.workers).enumerate();
        let written: Vec<(usize, WrittenBlocks)> = written
            .filter(|(_, (_, worker))| !worker.waiting.places.is_empty())
            .filter_map(|(clone, (ended, _))| Some((clone, ended.written.take()?)))
            .collect();
        let origin = self.due.origin();
        let mut steps = Vec::new();
        if let Some((from, to)) = self.prepared.layout {
            steps.push(assemble::step(Step::LayOut, from, to, origin));
        }
        steps.extend(assemble::steps(&ended, origin));
        let jobs = &self.plan.workload.jobs;
        let outcome = match (self.overtime, self.stuck) {
            (true, _) => Outcome::Failed(
                "the trial still ran 24 h of virtual time after its jobs should have ended"
                    .to_owned(),
            ),
            (_, true) => assemble::stuck(&ended, self.plan.stuck_after_ns),
            _ => assemble::outcome(&ended, jobs, self.control),
        };
        let stuck = self.stuck || ended.iter().any(|clone| clone.stuck);
        let vanished = self.prepared.site.as_ref().and_then(Site::vanished);
        let mut outcome = assemble::because(outcome, vanished, &mut self.prepared.notes);
        self.prepared.notes.extend(assemble::cut_off(&ended, jobs));
        self.prepared
            .notes
            .extend(assemble::unchecked(&ended, jobs));
        let stalls = stalls(ended.iter().map(|clone| &clone.pauses));
        let mut part = Part {
            clock_at_ns: 0,
            clock_after: None,
            start_late_ns: self.late_ns,
            node: "local".to_owned(),
            clock_offset_ns: 0,
            clock_error_ns: 0,
            start_unix_ms: (!self.timeline.is_virtual()).then_some(self.start_unix_ms),
            environment: std::mem::take(&mut self.prepared.environment),
            clones: ended.into_iter().map(|ended| ended.result).collect(),
            steps,
            host,
            files: std::mem::take(&mut self.prepared.states),
            notes: std::mem::take(&mut self.prepared.notes),
            settled: None,
            sampling,
            stalls: Some(stalls),
        };
        let remains = match stuck {
            true => self.leave(&mut part),
            false => {
                let failed = self.clean_up(&mut part, &outcome, written);
                outcome = match (outcome, failed) {
                    (Outcome::Completed, Some(why)) => Outcome::Failed(why),
                    (outcome, why) => {
                        part.notes.extend(why);
                        outcome
                    }
                };
                None
            }
        };
        Finished {
            part,
            outcome,
            remains,
            stuck,
        }
    }
}
