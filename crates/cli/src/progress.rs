//! What is told while a run goes: a live line on a terminal, plain lines elsewhere.

use std::sync::Arc;
use std::time::Instant;

use iodyno_lab::Progress;
use iodyno_model::{After, Job, Severity, Step, Workload};
use iodyno_report::{Style, live};
use iodyno_runner::Event;
use iodyno_store::StoreError;
use iodyno_units::{Bytes, Nanos};

use crate::context::{Context, store_fault};
use crate::screen::Screen;
use crate::terminal::Terminal;

/// The first plain line comes after so long.
const FIRST: Nanos = Nanos::from_secs(10);
/// The distance of plain lines grows with the time that has passed, up to this.
const FARTHEST: Nanos = Nanos::from_secs(600);

/// A live line that wraps would be drawn again and again.
const NARROWEST: usize = 40;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A line redrawn in place.
    Live,
    /// Lines at growing intervals.
    Plain,
    /// Not at all.
    Quiet,
}

impl Mode {
    /// What suits the terminal.
    pub(crate) fn of(terminal: Terminal, quiet: bool) -> Mode {
        match (quiet, terminal.redraws) {
            (true, _) => Mode::Quiet,
            (false, true) => Mode::Live,
            (false, false) => Mode::Plain,
        }
    }
}

/// Shows the progress of a run.
pub(crate) struct Reporter<'a> {
    context: &'a Context,
    screen: Arc<Screen>,
    mode: Mode,
    planned: Option<Nanos>,
    /// Since the trial, or a step that tells its own progress, began.
    begun: Instant,
    step: Option<Step>,
    /// Plain lines come at this distance, beside a live line as well.
    every: Option<Nanos>,
    next_plain: Nanos,
}

impl<'a> Reporter<'a> {
    pub(crate) fn new(context: &'a Context, mode: Mode) -> Reporter<'a> {
        Reporter {
            context,
            screen: context.screen.clone(),
            mode,
            planned: None,
            begun: Instant::now(),
            step: None,
            every: None,
            next_plain: FIRST,
        }
    }

    /// With plain lines at this distance.
    pub(crate) fn with_lines_every(self, every: Option<Nanos>) -> Reporter<'a> {
        Reporter { every, ..self }
    }

    /// Shows one piece of news.
    pub(crate) fn show(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Begun(_) => {}
            Progress::Trial {
                number,
                of,
                configuration,
                workload,
            } => {
                self.planned = planned(workload);
                self.begin(None);
                if *of > 1 && self.mode != Mode::Quiet {
                    self.screen.note(&format!(
                        "trial {number} of {of}: {} on {}",
                        workload.name, configuration.name
                    ));
                }
            }
            Progress::Node(event) => self.event(event),
            Progress::StoreFails(error) => self.store_fails(error),
            Progress::StoreRecovered => {
                self.screen
                    .note("the store works again; nothing is missing");
            }
            Progress::Ended(_) => self.screen.clear(),
        }
    }

    fn begin(&mut self, step: Option<Step>) {
        self.step = step;
        self.begun = Instant::now();
        self.next_plain = self.every.unwrap_or(FIRST);
    }

    fn event(&mut self, event: &Event) {
        let style = self.context.style_err();
        match event {
            Event::Progress { step, done, total } => {
                if self.step != Some(*step) {
                    self.begin(Some(*step));
                }
                let elapsed = Nanos::from(self.begun.elapsed());
                let line = || step_line(*step, *done, *total, elapsed, style);
                self.draw(elapsed, line, line);
            }
            Event::Frame(frame) => {
                // Frames end some µs before the full second.
                let elapsed =
                    Nanos::from_secs((frame.end_ns + Nanos::SECOND.0 / 2) / Nanos::SECOND.0);
                let planned = self.planned;
                self.draw(
                    elapsed,
                    || live::line(frame, elapsed, planned, style),
                    || live::plain_line(frame, elapsed, planned, style),
                );
            }
            Event::Ready { .. } | Event::Started { .. } => self.begin(None),
        }
    }

    fn draw(
        &mut self,
        elapsed: Nanos,
        live: impl FnOnce() -> String,
        plain: impl FnOnce() -> String,
    ) {
        let lines = match self.mode {
            Mode::Live => self.every.is_some(),
            Mode::Plain => true,
            Mode::Quiet => false,
        };
        if lines && elapsed >= self.next_plain {
            self.next_plain = match self.every {
                Some(every) => Nanos(elapsed.0 + every.0),
                None => next_plain(elapsed),
            };
            self.screen.note(&plain());
        }
        if self.mode == Mode::Live && self.context.terminal.width_err() >= NARROWEST {
            self.screen.live(&live());
        }
    }

    fn store_fails(&self, error: &StoreError) {
        let mut fault = store_fault(error, Severity::Warning);
        fault.message += "; the run goes on, and its result is printed at the end";
        self.context.tell(&[fault]);
    }
}

/// The next plain line: a tenth of the time later, so that ten hours fit on a few pages.
fn next_plain(elapsed: Nanos) -> Nanos {
    let distance = Nanos(elapsed.0 / 10).clamp(FIRST, FARTHEST);
    Nanos(elapsed.0 + distance.0)
}

fn step_line(step: Step, done: u64, total: u64, elapsed: Nanos, style: Style) -> String {
    let doing = match step {
        Step::LayOut if total > 0 => {
            return live::lay_out(Bytes(done), Bytes(total), elapsed, style);
        }
        Step::LayOut => "laying out files",
        Step::Provision => "making storage",
        Step::Ramp => "ramping up",
        Step::Measure => "measuring",
        Step::Drain => "draining",
        Step::EndFsync => "syncing files",
        Step::VerifyPass => "verifying",
        Step::TearDown => "tidying up",
    };
    match total {
        0 => doing.to_owned(),
        _ => format!("{doing}: {} of {}", Bytes(done), Bytes(total)),
    }
}

/// How long the jobs take at most, where each has a time.
fn planned(workload: &Workload) -> Option<Nanos> {
    let mut ends: Vec<(&str, u64)> = Vec::new();
    for job in &workload.jobs {
        let latest = |ends: &[(&str, u64)]| ends.iter().map(|end| end.1).max().unwrap_or(0);
        let start = match &job.after {
            After::Start => 0,
            After::AllBefore => latest(&ends),
            After::Job(name) => ends
                .iter()
                .filter(|end| end.0 == name)
                .map(|end| end.1)
                .max()?,
        };
        ends.push((&job.name, start + duration(job)?));
    }
    ends.iter().map(|end| Nanos(end.1)).max()
}

fn duration(job: &Job) -> Option<u64> {
    let parts = [job.delay.max, job.end.ramp, job.end.runtime?];
    Some(parts.iter().map(|part| part.0).fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_of_ten_hours_fit_on_a_few_pages() {
        let mut elapsed = FIRST;
        let mut lines = 0;
        while elapsed < Nanos::from_secs(36_000) {
            elapsed = next_plain(elapsed);
            lines += 1;
        }
        assert!((60..140).contains(&lines), "{lines}");
        assert_eq!(next_plain(FIRST), Nanos::from_secs(20));
    }
}
