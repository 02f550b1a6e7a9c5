//! Exports a run as one file.
//!
//! JSON lines in UTF-8. Each line is an object with one key, which says what the line is:
//!
//! 1. `header`: `format` (`iodyno-run`), `version` of this format, `run` (its identity), `iodyno`
//!    (the version of the program that wrote the file). A reader ignores the rest of a file
//!    whose version it does not know.
//! 2. `run`: `state`, `started_unix_ms`, `ended_unix_ms`, the whole `plan`, `rounds` where they are not the
//!    plan's, and the `verdicts` of its comparison if it ended with one. The results of an imported run are in its plan, and it has no trials.
//! 3. For each trial, by round, cell and attempt: a line `trial` with all results except the
//!    series, then a line `frame` for each of its frames, by number, then a line `telemetry` for each
//!    batch of host telemetry, by number.
//! 4. `footer`: how many `trials`, `frames` and batches of `telemetry` there were, and `xxh3`, the XXH3-128
//!    hash in hexadecimal of all bytes before this line. A file without a footer is truncated.
//!
//! Version 1 has no lines `telemetry`, and no count of them. Up to version 2, jobs have the form that `upgrade`
//! describes.
//!
//! Plan, trial, frame and batch are the types of `iodyno-model` as serde writes them. An interrupted trial is
//! exported with the results rebuilt from its frames; a running trial is omitted.

use std::io::{self, Write};

use iodyno_model::{
    Frame, Plan, RunId, RunState, TelemetryBatch, Trial, TrialKey, TrialState, VerdictCounts,
    printable,
};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::blob::text;
use crate::secrets::{Names, OwnNames, frame_without, mask_trial, plan_without, telemetry_without};
use crate::segment::{MAX_VALUES, values};
use crate::{Store, StoreError, upgrade};

/// The `format` in the header of every exported run.
pub const EXPORT_FORMAT: &str = "iodyno-run";

/// Version of the format. It is raised when an older reader would misread a file.
pub const EXPORT_VERSION: u32 = 3;

/// Maximum number of frames held in memory at once.
const BATCH: usize = 256;

/// One line of the file, for reading; [`LineRef`] is for writing.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    Header(Header),
    Run(Box<RunLine>),
    Trial(Box<Trial>),
    Frame(Frame),
    Telemetry(TelemetryBatch),
    Footer(Footer),
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum LineRef<'a> {
    Header(&'a Header),
    Run(&'a RunLine),
    Trial(&'a Trial),
    Frame(&'a Frame),
    Telemetry(&'a TelemetryBatch),
    Footer(&'a Footer),
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) format: String,
    pub(crate) version: u32,
    pub(crate) run: RunId,
    pub(crate) iodyno: String,
}

/// The second line.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunLine {
    pub(crate) state: RunState,
    pub(crate) started_unix_ms: u64,
    pub(crate) ended_unix_ms: Option<u64>,
    /// Present where it differs from the plan: a stop rule ended the run earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rounds: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verdicts: Option<VerdictCounts>,
    #[serde(deserialize_with = "upgrade::read")]
    pub(crate) plan: Plan,
}

/// The last line.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Footer {
    pub(crate) trials: u64,
    pub(crate) frames: u64,
    #[serde(default)]
    pub(crate) telemetry: u64,
    pub(crate) xxh3: String,
}

/// The result of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportReport {
    /// Number of trials in the file.
    pub trials: u64,
    /// Number of frames in the file.
    pub frames: u64,
    /// Number of batches of telemetry in the file.
    pub telemetry: u64,
    /// Number of trials omitted because they are running.
    pub left_out: u64,
}

/// Writes a run, with all trials that have ended, as one file.
///
/// # Errors
/// [`StoreError::ExportWrite`] if `out` fails; otherwise the errors of reading the run.
pub fn export(
    store: &dyn Store,
    run: RunId,
    out: &mut dyn Write,
) -> Result<ExportReport, StoreError> {
    write(store, run, None, out)
}

/// [`export`] without the command line and without the names of hosts and users, as far as they are known.
///
/// # Errors
/// As [`export`].
pub fn export_without_names(
    store: &dyn Store,
    run: RunId,
    own: &OwnNames,
    out: &mut dyn Write,
) -> Result<ExportReport, StoreError> {
    write(store, run, Some(own), out)
}

fn write(
    store: &dyn Store,
    run: RunId,
    hidden: Option<&OwnNames>,
    out: &mut dyn Write,
) -> Result<ExportReport, StoreError> {
    let stored = store.run(run)?;
    let names = hidden.map(|own| Names::of_run(own, &stored));
    let names = names.as_ref();
    // Versions before this one stored secrets.
    let plan = plan_without(&stored.plan)?;
    let plan = match names {
        None => plan,
        Some(names) => names.plan(plan)?,
    };
    let mut lines = LineWriter {
        out,
        hash: Xxh3::new(),
    };
    lines.write(LineRef::Header(&Header {
        format: EXPORT_FORMAT.to_owned(),
        version: EXPORT_VERSION,
        run,
        iodyno: env!("CARGO_PKG_VERSION").to_owned(),
    }))?;
    let summary = &stored.summary;
    lines.write(LineRef::Run(&RunLine {
        state: match summary.state {
            RunState::Running => RunState::Interrupted,
            ended => ended,
        },
        started_unix_ms: summary.started_unix_ms,
        ended_unix_ms: summary
            .duration_ms
            .map(|span| summary.started_unix_ms + span),
        rounds: (summary.rounds != plan.rounds).then_some(summary.rounds),
        verdicts: summary.verdicts,
        plan,
    }))?;
    let (running, ended): (Vec<_>, Vec<_>) = stored
        .trials
        .iter()
        .partition(|trial| trial.state == TrialState::Running);
    let (mut frames, mut telemetry) = (0, 0);
    for trial in &ended {
        let mut result = store.trial(trial.key)?;
        mask_trial(&mut result)?;
        let result = match names {
            None => result,
            Some(names) => names.trial(result)?,
        };
        lines.write(LineRef::Trial(&result))?;
        frames += lines.frames(store, trial.key, names)?;
        telemetry += lines.telemetry(store, trial.key, names)?;
    }
    let report = ExportReport {
        trials: ended.len() as u64,
        frames,
        telemetry,
        left_out: running.len() as u64,
    };
    let footer = Footer {
        trials: report.trials,
        frames: report.frames,
        telemetry: report.telemetry,
        xxh3: hexadecimal(&lines.hash),
    };
    lines.write(LineRef::Footer(&footer))?;
    lines.out.flush().map_err(StoreError::ExportWrite)?;
    Ok(report)
}

/// The hash of the bytes written or read so far, in the form of the footer.
pub(crate) fn hexadecimal(hash: &Xxh3) -> String {
    format!("{:032x}", hash.digest128())
}

struct LineWriter<'a> {
    out: &'a mut dyn Write,
    hash: Xxh3,
}

impl LineWriter<'_> {
    /// Writes the frames of a trial; returns how many.
    fn frames(
        &mut self,
        store: &dyn Store,
        key: TrialKey,
        names: Option<&Names<'_>>,
    ) -> Result<u64, StoreError> {
        let (mut written, mut next) = (0, 0);
        loop {
            let batch = store.frames(key, next, BATCH)?;
            for frame in &batch {
                let mut frame = frame_without(frame);
                if let Some(names) = names {
                    names.frame(frame.to_mut());
                }
                self.write(LineRef::Frame(&frame))?;
            }
            written += batch.len() as u64;
            match batch.last().and_then(|last| last.number.checked_add(1)) {
                Some(after) => next = after,
                None => return Ok(written),
            }
        }
    }

    /// Writes the telemetry of a trial; returns how many batches.
    fn telemetry(
        &mut self,
        store: &dyn Store,
        key: TrialKey,
        names: Option<&Names<'_>>,
    ) -> Result<u64, StoreError> {
        // A host with many CPUs has many values per second: the first batch shows how many fit into memory.
        let (mut written, mut next, mut limit) = (0, 0, 1);
        loop {
            let batches = store.telemetry(key, next, limit)?;
            for batch in &batches {
                let mut batch = telemetry_without(batch)?;
                if let Some(names) = names {
                    names.telemetry(batch.to_mut())?;
                }
                self.write(LineRef::Telemetry(&batch))?;
            }
            written += batches.len() as u64;
            let last = batches.last();
            if let Some(last) = last {
                limit = (MAX_VALUES / values(last).max(1)).clamp(1, BATCH);
            }
            match last.and_then(|last| last.number.checked_add(1)) {
                Some(after) => next = after,
                None => return Ok(written),
            }
        }
    }

    fn write(&mut self, line: LineRef<'_>) -> Result<(), StoreError> {
        let text = text(&line).map_err(|error| StoreError::ExportWrite(io::Error::other(error)))?;
        let text = printable::json(&text).into_owned() + "\n";
        self.hash.update(text.as_bytes());
        self.out
            .write_all(text.as_bytes())
            .map_err(StoreError::ExportWrite)
    }
}
