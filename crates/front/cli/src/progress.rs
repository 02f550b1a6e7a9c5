//! Progress of a run: a live line on a terminal, plain lines elsewhere.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use iodyno_lab::{Ended, Progress};
use iodyno_model::printable::on_one_line;
use iodyno_model::{Comparison, Diagnostic, Outcome, Settling, Severity, Step, Workload};
use iodyno_report::compare::load_words;
use iodyno_report::{Style, live};
use iodyno_runner::Event;
use iodyno_store::StoreError;
use iodyno_units::{Bytes, Nanos};

use crate::context::{Context, store_fault};
use crate::duration::longest;
use crate::screen::Screen;
use crate::terminal::Terminal;

/// Time until the first plain line.
const FIRST: Nanos = Nanos::from_secs(10);
/// The interval of plain lines grows with the elapsed time, up to this.
const FARTHEST: Nanos = Nanos::from_secs(600);

/// Narrower terminals get no live line, because a wrapped line cannot be redrawn in place.
const NARROWEST: usize = 40;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A line redrawn in place.
    Live,
    /// Lines at growing intervals.
    Plain,
    /// No progress is shown.
    Quiet,
}

impl Mode {
    /// The mode for the terminal.
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
    /// When the trial, or a step with its own progress, began.
    begun: Instant,
    step: Option<Step>,
    /// Interval of plain lines, in addition to a live line.
    every: Option<Nanos>,
    next_plain: Nanos,
    /// Whether the next event with data is printed as a plain line in every mode.
    print_next: bool,
    /// `3/20 `, before the live line of a run with several trials.
    trial: String,
    /// The trial of a run with several: `trial 3 of 20: job on configuration`.
    trial_name: String,
    /// The reasons of failed trials that were printed, each after its cell.
    reasons: Vec<String>,
    /// The loads of searches in this round: `curve on here: rate_iops 7.73k`.
    loads: Vec<String>,
    /// Whether a complete round was printed. After that, single trials are not printed.
    rounds_told: bool,
    /// Whether measurements are printed elsewhere, as data.
    without_frames: bool,
    /// Whether only empty files are laid out, so that their number is shown instead of their size.
    empty_files: bool,
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
            print_next: false,
            trial: String::new(),
            trial_name: String::new(),
            reasons: Vec::new(),
            loads: Vec::new(),
            rounds_told: false,
            without_frames: false,
            empty_files: false,
        }
    }

    /// Without lines on measurements, which are printed as data.
    pub(crate) fn without_frames(self) -> Reporter<'a> {
        Reporter {
            without_frames: true,
            ..self
        }
    }

    /// With plain lines at this interval.
    pub(crate) fn with_lines_every(self, every: Option<Nanos>) -> Reporter<'a> {
        Reporter { every, ..self }
    }

    /// Prints the next event with data as a line, in every mode.
    pub(crate) fn print_next(&mut self) {
        self.print_next = true;
    }

    /// Shows one event.
    pub(crate) fn show(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Begun(_) => {}
            Progress::Settling { settling, targets } => {
                self.step_live(&settling_line(settling, targets));
            }
            Progress::Storage {
                configuration,
                step,
            } => self.step_live(&format!("storage of {}: {step}", configuration.name)),
            Progress::Probe {
                configuration,
                workload,
            } => {
                let names = format!("{} on {}", workload.name, configuration.name);
                self.step_live(&format!("probe: {names}"));
            }
            Progress::Trial {
                number,
                of,
                configuration,
                workload,
                load,
            } => {
                self.planned = longest(workload);
                self.empty_files = makes_empty_files(workload);
                self.begin(None);
                let search = workload.search.as_ref().zip(*load);
                let load = search.map(|(search, load)| load_words(search.axis, load));
                if *of > 1 {
                    let mut cell = format!("{} on {}", workload.name, configuration.name);
                    self.trial = format!("{number}/{of} ");
                    if let Some(load) = load {
                        self.trial += &format!("{load} ");
                        cell += &format!(": {load}");
                        self.loads.push(cell.clone());
                    }
                    self.trial_name = format!("trial {number} of {of}: {cell}");
                    // Trials of later rounds are shown on the live line only.
                    if !self.rounds_told {
                        self.note(&self.trial_name);
                    }
                }
            }
            Progress::Note(text) | Progress::NotUndone(text) => self.note(text),
            Progress::Round {
                done,
                of,
                left_ns,
                comparison,
            } => self.round(*done, *of, *left_ns, *comparison),
            Progress::Node(event) => self.event(event),
            Progress::StoreFails(error) => self.store_fails(error),
            Progress::StoreRecovered => {
                self.screen
                    .note("the store can be written again; no data was lost");
            }
            Progress::Ended(ended) => {
                self.screen.clear();
                self.screen.set_step(String::new());
                self.tell_outcome(ended);
            }
        }
    }

    /// Prints the reason why a trial of a run with several trials was not completed. The result of a single trial
    /// contains it.
    fn tell_outcome(&mut self, ended: &Ended<'_>) {
        let outcome = &ended.trial.outcome;
        let (Some(reason), true) = (outcome.reason(), ended.faults.is_empty()) else {
            return;
        };
        let cell = self
            .trial_name
            .split_once(": ")
            .map_or("", |(_, cell)| cell);
        let of_cell = format!("{cell}: {reason}");
        if self.reasons.contains(&of_cell) {
            self.note(&format!("{}: the same error", self.trial_name));
        } else if !self.trial_name.is_empty() {
            self.reasons.push(of_cell);
            let text = format!("{}: {reason}", self.trial_name);
            self.context.tell(&[match outcome {
                Outcome::Interrupted(_) => Diagnostic::warning(text),
                _ => Diagnostic::error(text),
            }]);
        }
    }

    /// Prints a line for a complete round: the progress, the remaining time, the interim comparison.
    fn round(&mut self, done: u32, of: u32, left_ns: Option<u64>, comparison: Option<&Comparison>) {
        self.screen.clear();
        let loads = std::mem::take(&mut self.loads);
        if of == 1 {
            return;
        }
        self.rounds_told = true;
        let left = left_ns.map_or(String::new(), |left| {
            format!(", at most {} left", whole_seconds(left))
        });
        let verdict = comparison.map_or(String::new(), |comparison| {
            format!("; {}", iodyno_report::compare::progress_line(comparison))
        });
        let loads: String = loads.iter().map(|load| format!("; {load}")).collect();
        self.note(&format!("round {done} of {of}{left}{loads}{verdict}"));
    }

    /// Prints one line. Line breaks and colour codes in names are removed.
    fn note(&self, text: &str) {
        if self.mode != Mode::Quiet {
            self.screen.note(&on_one_line(text));
        }
    }

    fn step_live(&self, text: &str) {
        let room = self.context.terminal.width_err();
        let line = on_one_line(&format!("{}{text}", self.trial));
        self.screen.set_step(line.clone());
        if self.mode == Mode::Live && room >= NARROWEST {
            self.screen.live(&live::fitted(&line, room));
        }
    }

    fn begin(&mut self, step: Option<Step>) {
        self.step = step;
        self.screen.set_step(String::new());
        self.begun = Instant::now();
        self.next_plain = self.every.unwrap_or(FIRST);
    }

    fn event(&mut self, event: &Event) {
        let mut style = self.context.style_err();
        style.width = style.width.saturating_sub(self.trial.len());
        if matches!(event, Event::Frame(_)) {
            self.screen.set_step(String::new());
        }
        match event {
            Event::Progress { step, done, total } => {
                if self.step != Some(*step) {
                    self.begin(Some(*step));
                }
                let elapsed = Nanos::from(self.begun.elapsed());
                let files = *step == Step::TearDown || self.empty_files;
                let line = || match (files, *step, *total) {
                    (true, Step::LayOut, 1..) => live::lay_out_files(*done, *total, elapsed, style),
                    (true, Step::TearDown, 1..) => {
                        format!("removing files: {done} of {total}")
                    }
                    _ => step_line(*step, *done, *total, elapsed, style),
                };
                self.screen.set_step(format!("{}{}", self.trial, line()));
                self.draw(elapsed, line, line);
            }
            // A drain has no data to print, and can take long.
            Event::Frame(frame)
                if self.without_frames && frame.step != Step::Drain && !self.print_next => {}
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
            // These are stored, or evaluated at the end of the trial.
            Event::Admitted { .. } | Event::Telemetry(_) | Event::Finished => {}
            Event::Ready { .. } | Event::Started { .. } => self.begin(None),
            Event::Halted { pid } => self.note(&format!(
                "process {pid}, which does the I/O, is stopped: the run waits until it continues (`kill -CONT {pid}`)"
            )),
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
        if std::mem::take(&mut self.print_next) {
            self.screen.note(&format!("{}{}", self.trial, plain()));
        } else if lines && elapsed >= self.next_plain {
            self.next_plain = match self.every {
                Some(every) => Nanos(elapsed.0 + every.0),
                None => next_plain(elapsed),
            };
            self.screen.note(&plain());
        }
        if self.mode == Mode::Live && self.context.terminal.width_err() >= NARROWEST {
            self.screen.live(&format!("{}{}", self.trial, live()));
        }
    }

    fn store_fails(&self, error: &StoreError) {
        let mut fault = store_fault(error, Severity::Warning);
        fault.message += "; the run continues, and its result is printed at the end";
        self.context.tell(&[fault]);
    }
}

/// Rounds up to whole seconds.
fn whole_seconds(ns: u64) -> Nanos {
    Nanos::from_secs(ns.div_ceil(Nanos::SECOND.0))
}

/// When to print the next plain line: after a further tenth of the elapsed time, so that ten hours fit on a few
/// pages.
fn next_plain(elapsed: Nanos) -> Nanos {
    let distance = Nanos(elapsed.0 / 10).clamp(FIRST, FARTHEST);
    Nanos(elapsed.0 + distance.0)
}

/// Whether all files that the workload creates first are empty.
fn makes_empty_files(workload: &Workload) -> bool {
    let jobs = workload.jobs.iter();
    let mut sets = jobs
        .filter_map(|job| job.work.file_operations())
        .flat_map(|operations| &operations.sets)
        .peekable();
    sets.peek().is_some() && sets.all(|set| set.size == 0)
}

/// `writing dirty data out, dropping caches, then waiting for idle devices below /mnt/a, at most 10 s`.
fn settling_line(settling: &Settling, targets: &[PathBuf]) -> String {
    let mut steps = Vec::new();
    if settling.drop_caches {
        steps.push("writing dirty data out, dropping caches".to_owned());
    }
    if settling.idle_ns > 0 {
        let targets: Vec<String> = targets.iter().map(|it| it.display().to_string()).collect();
        steps.push(format!(
            "waiting at most {} for idle devices below {}",
            Nanos(settling.idle_ns),
            targets.join(", ")
        ));
    }
    steps.join(", then ")
}

fn step_line(step: Step, done: u64, total: u64, elapsed: Nanos, style: Style) -> String {
    let doing = match step {
        Step::LayOut if total > 0 => {
            return live::lay_out(Bytes(done), Bytes(total), elapsed, style);
        }
        Step::LayOut => "laying out files",
        Step::Provision => "creating storage",
        Step::Ramp => "ramping up",
        Step::Measure => "measuring",
        Step::Drain => "draining",
        Step::EndFsync => "syncing files",
        Step::VerifyPass => "verifying",
        Step::TearDown => "removing files",
    };
    match total {
        0 => doing.to_owned(),
        _ => format!("{doing}: {} of {}", Bytes(done), Bytes(total)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_on_settling_says_what_it_waits_for() {
        let targets = ["/mnt/a", "/mnt/b"].map(PathBuf::from);
        let settling = |drop_caches, idle_ns| Settling {
            drop_caches,
            idle_ns,
        };
        assert_eq!(
            settling_line(&settling(true, 10_000_000_000), &targets),
            "writing dirty data out, dropping caches, then waiting at most 10.0 s for idle devices below /mnt/a, /mnt/b"
        );
        assert_eq!(
            settling_line(&settling(true, 0), &targets),
            "writing dirty data out, dropping caches"
        );
    }

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
