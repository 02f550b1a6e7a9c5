//! The end of a trial: the last frames, the last sample of the host, clean-up, and the part.

use iodyno_model::{EndedBy, Outcome, Part, SamplerCost, Step, StepTime, StopRequest};

use super::Trial;
use crate::assemble::{self, Ended};
use crate::host::HostWatch;
use crate::operations::Site;
use crate::shared_files;

impl Trial<'_> {
    /// Removes what is not to stay after the trial.
    fn tear_down(&mut self, origin: u64) -> Option<StepTime> {
        let (closes, clears) = (self.prepared.files.to_close(), self.prepared.site.is_some());
        if !closes && !clears {
            return None;
        }
        let from = self.timeline.now();
        if closes {
            let haste = self.control.stop.requested() == StopRequest::Abort;
            self.prepared.notes.extend(self.prepared.files.close(haste));
        }
        if let Some(left) = self.prepared.tear_down(self.messages) {
            let hint = left.hint.unwrap_or_default();
            self.prepared
                .notes
                .push(format!("{}; {hint}", left.message));
        }
        Some(assemble::step(
            Step::TearDown,
            from,
            self.timeline.now(),
            origin,
        ))
    }

    /// What was measured since the last frame, and what followed that.
    fn last_frames(&mut self, now: u64) {
        if !self.monitor.idle() {
            self.cut();
        }
        if self.followed() && self.monitor.tail(now) {
            self.cut();
        }
    }

    /// Takes the last sample of the host, before anything is removed. What sampling has cost.
    fn sampled(&mut self) -> Vec<SamplerCost> {
        let origin = self.due.origin();
        let ended = self.telemetry.as_mut().map(|sampler| sampler.end(origin));
        ended
            .unwrap_or_else(|| Ok(Vec::new()))
            .unwrap_or_else(|note| {
                self.prepared.notes.push(note);
                Vec::new()
            })
    }

    /// The last frames, what is to be removed, and the part.
    pub(super) fn finish(mut self) -> (Part, Outcome) {
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
        let host = self.host.as_mut().map(HostWatch::used);
        let sampling = self.sampled();
        let ended: Vec<Ended> = self
            .workers
            .iter_mut()
            .filter_map(|p| p.ended.take())
            .collect();
        let origin = self.due.origin();
        let mut steps = Vec::new();
        if let Some((from, to)) = self.prepared.layout {
            steps.push(assemble::step(Step::LayOut, from, to, origin));
        }
        steps.extend(assemble::steps(&ended, origin));
        let finished = |job: usize| {
            let mut clones = ended.iter().map(|ended| &ended.result);
            clones.all(|clone| clone.job as usize != job || clone.ended == EndedBy::Size)
        };
        let undone =
            shared_files::settle(&mut self.prepared.files, &self.plan.workload.jobs, finished);
        self.prepared.notes.extend(undone);
        let outcome = match self.overtime {
            true => Outcome::Failed(
                "the trial still ran 24 h of virtual time after its jobs should have ended"
                    .to_owned(),
            ),
            false => assemble::outcome(&ended, &self.plan.workload.jobs, self.control),
        };
        let vanished = self.prepared.site.as_ref().and_then(Site::vanished);
        let outcome = assemble::because(outcome, vanished, &mut self.prepared.notes);
        steps.extend(self.tear_down(origin));
        let part = Part {
            node: "local".to_owned(),
            clock_offset_ns: 0,
            clock_error_ns: 0,
            environment: self.prepared.environment,
            clones: ended.into_iter().map(|ended| ended.result).collect(),
            steps,
            host: host.unwrap_or_default(),
            files: self.prepared.states,
            notes: self.prepared.notes,
            sampling,
        };
        (part, outcome)
    }
}
