//! Trials in every output format: text, JSON, fio's formats.

use iodyno_model::{
    Comparison, Finding, FindingKind, Frame, Outcome, Plan, Run, RunState, Summary, Trial,
    TrialKey, Workload,
};
use iodyno_report::json::{RunView, TrialView};
use iodyno_report::{Style, fio, fsbench, json, text};
use iodyno_store::{RunHandle, Store, StoreError};

use crate::args::Format;
use crate::context::Context;

/// Number of frames read from the store at once.
const BATCH: usize = 256;

/// The part of a stored trial's frames that an output format needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Series {
    /// None.
    None,
    /// Counts without histograms, which are many times larger.
    Counts,
    /// Complete frames.
    Whole,
}

impl Format {
    /// The part of the frames that the format needs.
    pub(crate) fn series(self) -> Series {
        match self {
            Format::Text | Format::Markdown => Series::Counts,
            Format::Json | Format::Fsbench | Format::Csv => Series::Whole,
            Format::FioJson | Format::FioJsonPlus | Format::FioNormal | Format::Terse => {
                Series::None
            }
        }
    }
}

/// Loads a trial from the store with this part of its frames.
pub(crate) fn load(store: &dyn Store, key: TrialKey, series: Series) -> Result<Trial, StoreError> {
    let mut trial = store.trial(key)?;
    trial.frames.clear();
    if series == Series::None {
        return Ok(trial);
    }
    loop {
        let next = trial.frames.last().map_or(0, |frame| frame.number + 1);
        let mut batch = store.frames(key, next, BATCH)?;
        let last = batch.len() < BATCH;
        if series == Series::Counts {
            batch.iter_mut().for_each(Frame::drop_histograms);
        }
        trial.frames.append(&mut batch);
        if last {
            return Ok(trial);
        }
    }
}

/// A trial with its summary, ready for output.
pub(crate) struct Drawn<'a> {
    workload: &'a Workload,
    trial: &'a Trial,
    summary: Summary,
    cpu_idleness: bool,
}

impl<'a> Drawn<'a> {
    /// Computes the summary.
    pub(crate) fn new(workload: &'a Workload, trial: &'a Trial) -> Drawn<'a> {
        Drawn {
            workload,
            trial,
            summary: iodyno_judge::summary(workload, trial),
            cpu_idleness: false,
        }
    }

    /// Whether fio's formats contain the idle share of the CPUs.
    pub(crate) fn with_cpu_idleness(self, cpu_idleness: bool) -> Drawn<'a> {
        Drawn {
            cpu_idleness,
            ..self
        }
    }

    /// The table. Kinds of notes on the set-up that are in `printed` are omitted, and the others are added to it, so
    /// that a run prints each kind once.
    pub(crate) fn text(&self, printed: &mut Vec<FindingKind>, style: Style) -> String {
        let new =
            |finding: &&Finding| !text::on_set_up(finding) || !printed.contains(&finding.kind);
        let findings: Vec<Finding> = self.trial.findings.iter().filter(new).cloned().collect();
        let notes = findings.iter().filter(|one| text::on_set_up(one));
        printed.extend(notes.map(|note| note.kind));
        text::trial(self.workload, self.trial, &self.summary, &findings, style)
    }

    /// The table with the thresholds of the findings.
    pub(crate) fn text_in_full(&self, style: Style) -> String {
        text::trial_in_full(
            self.workload,
            self.trial,
            &self.summary,
            &self.trial.findings,
            style,
        )
    }

    /// The whole table in fsbench's format: opening, a row per second, and [`Drawn::fsbench_closing`].
    pub(crate) fn fsbench(&self, style: Style) -> String {
        let mut live = fsbench::Live::new(&self.workload.name);
        let rows = Frame::of_all_nodes(&self.trial.frames);
        let rows = rows.iter();
        let rows: String = rows.filter_map(|frame| live.frame(frame)).collect();
        let opening = fsbench::opening(self.workload);
        format!("{opening}{rows}{}", self.fsbench_closing(style))
    }

    /// The output after the rows of seconds in fsbench's format: the closing row, the line for benchstat, and the
    /// remarks.
    pub(crate) fn fsbench_closing(&self, style: Style) -> String {
        let closing = fsbench::closing(self.workload, self.trial, &self.summary, style);
        let (line, remarks) = (self.benchmark_line(), self.remarks(style));
        let by_node = match self.by_node(style) {
            none if none.is_empty() => none,
            rows => rows + "\n",
        };
        format!("{closing}\n{by_node}{line}\n{remarks}")
    }

    /// The rows of each of several nodes, and how far apart they started; empty with one node.
    pub(crate) fn by_node(&self, style: Style) -> String {
        text::by_node(self.workload, self.trial, &self.summary, style)
    }

    /// The line of a file-operation trial for benchstat.
    pub(crate) fn benchmark_line(&self) -> String {
        fsbench::benchmark_line(self.workload, self.trial)
    }

    /// The findings, and the error if the trial failed; may be empty.
    pub(crate) fn remarks(&self, style: Style) -> String {
        text::remarks(self.trial, &self.trial.findings, style)
    }

    /// The data for JSON.
    pub(crate) fn view(&self) -> TrialView<'_> {
        TrialView {
            workload: self.workload,
            trial: self.trial,
            summary: &self.summary,
            findings: &self.trial.findings,
        }
    }

    /// One of fio's formats.
    pub(crate) fn fio(&self, form: FioForm, context: &Context) -> String {
        let facts = fio::Context {
            cpu_idleness: self.cpu_idleness,
            ..fio_facts(self.trial, context)
        };
        match form {
            FioForm::Normal => fio::normal(self.workload, self.trial, &facts),
            FioForm::Json => fio::json(self.workload, self.trial, &facts, false),
            FioForm::JsonPlus => fio::json(self.workload, self.trial, &facts, true),
            FioForm::Terse(version) => fio::terse(self.workload, self.trial, version),
        }
    }
}

/// fio's forms of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FioForm {
    /// `normal`.
    Normal,
    /// `json`.
    Json,
    /// `json+`.
    JsonPlus,
    /// `terse` of this version, 2 to 5.
    Terse(u8),
}

/// Additional data for fio's formats. The time is that of the trial, so that the output of a stored trial does not
/// depend on when it is printed.
fn fio_facts(trial: &Trial, context: &Context) -> fio::Context {
    let span_ns = trial
        .parts
        .iter()
        .flat_map(|part| &part.clones)
        .map(|clone| clone.start_ns + clone.runtime_ns)
        .max()
        .unwrap_or(0);
    let now_unix_ms = trial.started_unix_ms + span_ns / 1_000_000;
    fio::Context {
        now_unix_ms,
        utc_offset_s: context.utc_offset_s(now_unix_ms),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        // As in fio, a second that began counts.
        elapsed_s: span_ns.div_ceil(1_000_000_000).max(1),
        eta_s: 0,
        cpu_idleness: false,
    }
}

/// The `run` object in the JSON of a run.
pub(crate) fn run_view(plan: &Plan, handle: RunHandle, state: RunState) -> RunView {
    RunView {
        id: handle.id.to_string(),
        alias: handle.alias.to_string(),
        name: plan.name.clone(),
        about: plan.about.clone(),
        command: plan.command.clone(),
        state: state.name().to_owned(),
        extended_after_rounds: plan.looks.clone(),
        searches: Vec::new(),
        table: None,
    }
}

/// A stored run as one JSON document, with the `searches` missing from the comparison. `fresh`: trials that are not in
/// the store.
pub(crate) fn run_json(
    store: &dyn Store,
    run: &Run,
    head: &RunView,
    comparison: Option<&Comparison>,
    fresh: Vec<Trial>,
) -> Result<String, StoreError> {
    let mut trials = fresh;
    for stored in &run.trials {
        if trials.iter().all(|trial| trial.key != stored.key) {
            trials.push(load(store, stored.key, Series::Whole)?);
        }
    }
    trials.sort_by_key(|trial| (trial.key.round, trial.key.cell, trial.key.attempt));
    Ok(trials_json(&run.plan, head, comparison, &trials))
}

/// Trials as one JSON document.
pub(crate) fn trials_json(
    plan: &Plan,
    head: &RunView,
    comparison: Option<&Comparison>,
    trials: &[Trial],
) -> String {
    let drawn: Vec<Drawn<'_>> = trials
        .iter()
        .map(|trial| Drawn::new(plan.cell(trial.key.cell).1, trial))
        .collect();
    let views: Vec<TrialView<'_>> = drawn.iter().map(Drawn::view).collect();
    json::run(head, comparison, &views)
}

/// Whether the trial has results to print.
pub(crate) fn has_figures(trial: &Trial) -> bool {
    !trial.parts.is_empty() || matches!(trial.outcome, Outcome::Completed)
}
