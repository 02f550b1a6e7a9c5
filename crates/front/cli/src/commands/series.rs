//! `iodyno show RUN --series KIND`: host statistics during the trials of a run.

mod reading;

use iodyno_judge::figures;
use iodyno_model::printable::on_one_line;
use iodyno_model::{
    Diagnostic, FigureTable, Part, Run, SamplerCost, SeriesKind, Telemetry, Trial, TrialKey,
};
use iodyno_report::series::{self, TrialClock, TrialSeries};
use iodyno_store::{SqliteStore, Store};

use crate::args::{Format, ShowArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::screen::write_out;
use iodyno_units::counted;

use reading::{MAX_VALUES, ReadError};

/// Maximum number of lines per subject; the samples of a longer trial are combined unless `--every` is given.
const MAX_LINES: u64 = 600;

/// Round interval lengths, s.
const INTERVALS_S: [u64; 13] = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];

/// Prints the requested series.
pub(crate) fn series(
    args: &ShowArgs,
    store: &SqliteStore,
    run: &Run,
    context: &Context,
) -> Result<Exit, Failure> {
    let format = if args.json { Format::Json } else { args.format };
    check(args, format)?;
    let trials = trials(args.trial, run)?;
    let query = SeriesQuery {
        kinds: kinds(&args.series),
        every_ns: args.every.map(|every| every.0),
        brief: format == Format::Text,
    };
    let mut sampled = false;
    if format == Format::Text {
        // One trial at a time: a long run has many.
        for trial in trials {
            for stored in Stored::load(store, run, trial, &query, MAX_VALUES)? {
                sampled |= !stored.telemetry.is_empty();
                write_out(stored.text(run, context))?;
            }
        }
    } else {
        let mut stored = Vec::new();
        let mut room = MAX_VALUES;
        for trial in trials {
            for trial in Stored::load(store, run, trial, &query, room)? {
                room = room.saturating_sub(reading::values(&trial.telemetry.samples));
                sampled |= !trial.telemetry.is_empty();
                stored.push(trial);
            }
        }
        let shown: Vec<TrialSeries<'_>> = stored.iter_mut().map(Stored::shown).collect();
        if sampled {
            write_out(match (format, args.raw) {
                (Format::Json, _) => series::json(&shown),
                (_, true) => series::raw_csv(&shown),
                (_, false) => series::csv(&shown),
            })?;
        }
    }
    match sampled {
        true => Ok(Exit::Fine),
        false => Err(nothing(store, run, &query)),
    }
}

/// Refuses invalid combinations of flags.
fn check(args: &ShowArgs, format: Format) -> Result<(), Failure> {
    let mut faults = Vec::new();
    if !matches!(format, Format::Text | Format::Csv | Format::Json) {
        faults.push(
            Diagnostic::error("series cannot be shown in this format")
                .hint("use `--format text`, `csv` or `json`"),
        );
    }
    if args.raw && format != Format::Csv {
        faults.push(
            Diagnostic::error("`--raw` requires `--format csv`")
                .hint("JSON always contains the values as they were read"),
        );
    }
    if args.every.is_some_and(|every| every.0 == 0) {
        faults.push(
            Diagnostic::error("`--every 0` is not a valid interval")
                .hint("give an interval above 0, such as `--every 10s`"),
        );
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Failure::input(faults)),
    }
}

/// The trials of a run with their numbers, from 1; with `only`, the trial with that number.
pub(super) fn trials(only: Option<u32>, run: &Run) -> Result<Vec<(u32, TrialKey)>, Failure> {
    let keys = run.trials.iter().map(|trial| trial.key);
    let numbered = (1..).zip(keys);
    let chosen: Vec<(u32, TrialKey)> = match only {
        None => numbered.collect(),
        Some(only) => numbered.filter(|(number, _)| *number == only).collect(),
    };
    match (chosen.is_empty(), only) {
        (true, Some(only)) => Err(Failure::one(Diagnostic::error(format!(
            "run {} has {}; there is no trial {only}",
            run.summary.alias,
            counted(run.trials.len() as u64, "trial")
        )))),
        _ => Ok(chosen),
    }
}

/// The error for a run that has none of the requested series.
fn nothing(store: &SqliteStore, run: &Run, query: &SeriesQuery) -> Failure {
    let alias = run.summary.alias;
    let others = run.trials.iter().any(|trial| {
        let first = store.telemetry(trial.key, 0, 1);
        first.is_ok_and(|batches| !batches.is_empty())
    });
    let (fault, hint) = match (others, query.kinds.as_slice()) {
        (true, [SeriesKind::Process]) => (
            format!("run {alias} has no series `process`"),
            "processes are sampled with `--sample NAME` of `run`, `fs run`, `fio` and `fileio`",
        ),
        (true, [SeriesKind::Pool | SeriesKind::Arc]) => (
            format!("run {alias} has no series `{}`", query.kinds[0].name()),
            "none of its targets was on ZFS",
        ),
        (true, kinds) => {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            (
                format!("run {alias} has no series `{}`", names.join("`, `")),
                "`--series all` shows the series that it has",
            )
        }
        (false, _) if run.plan.sampling.every_ns > 0 => (
            format!("no series are stored with run {alias}"),
            "it was made by a version without sampling, ran in virtual time, or ended before the first sample",
        ),
        (false, _) => (
            format!("no series are stored with run {alias}"),
            "it was made with `--sample-every 0`",
        ),
    };
    Failure::one(Diagnostic::error(fault).hint(hint))
}

/// The error for more values than fit in memory.
fn too_many(run: &Run) -> Failure {
    Failure::one(
        Diagnostic::error(format!(
            "the series of run {} have more than {} million values",
            run.summary.alias,
            MAX_VALUES / 1_000_000
        ))
        .hint(
            "combine samples with `--every 10s` or more, or select fewer series with `--series` or a trial with `--trial`",
        ),
    )
}

/// The selection and the form of the series.
struct SeriesQuery {
    kinds: Vec<SeriesKind>,
    every_ns: Option<u64>,
    /// Whether to limit the number of lines, because the output is text for people.
    brief: bool,
}

impl SeriesQuery {
    /// The selected series of a trial, at most this number of values.
    fn read(
        &self,
        store: &SqliteStore,
        run: &Run,
        key: TrialKey,
        every_ns: Option<u64>,
        most: usize,
    ) -> Result<Telemetry, Failure> {
        let read = reading::read(store, key, &self.kinds, every_ns, most);
        read.map_err(|fault| match fault {
            ReadError::Store(error) => error.into(),
            ReadError::TooMany => too_many(run),
        })
    }

    /// The interval over which samples are combined, ns; `None` if they are not combined.
    fn every_ns(&self, sampled_every_ns: u64, length_ns: u64) -> Option<u64> {
        let long = self.brief && length_ns / sampled_every_ns.max(1) > MAX_LINES;
        self.every_ns.or_else(|| long.then(|| interval(length_ns)))
    }
}

/// Duration of a trial, ns.
fn length_ns(parts: &[Part]) -> u64 {
    let clones = parts.iter().flat_map(|part| &part.clones);
    let ends = clones.map(|clone| clone.start_ns.saturating_add(clone.runtime_ns));
    let spans = parts.iter().map(|part| part.host.span_ns);
    ends.chain(spans).max().unwrap_or(0)
}

/// The shortest round interval that divides a duration into at most [`MAX_LINES`] parts, ns.
fn interval(length_ns: u64) -> u64 {
    let least = length_ns.div_ceil(MAX_LINES);
    let mut intervals = INTERVALS_S.iter().map(|seconds| seconds * 1_000_000_000);
    intervals
        .find(|interval| *interval >= least)
        .unwrap_or(least)
}

/// All series of a trial, with at most [`MAX_LINES`] samples for each subject.
pub(super) fn telemetry(
    store: &SqliteStore,
    run: &Run,
    trial: &Trial,
) -> Result<Telemetry, Failure> {
    let query = SeriesQuery {
        kinds: SeriesKind::ALL.to_vec(),
        every_ns: None,
        brief: true,
    };
    let every_ns = query.every_ns(run.plan.sampling.every_ns, length_ns(&trial.parts));
    query.read(store, run, trial.key, every_ns, MAX_VALUES)
}

/// Every sample of all series of a trial, for each of its nodes.
pub(super) fn each_series(
    store: &SqliteStore,
    run: &Run,
    trial: (u32, TrialKey),
    mut each: impl FnMut(&TrialSeries<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // One kind at a time: a long trial has many samples.
    for kind in SeriesKind::ALL {
        let query = SeriesQuery {
            kinds: vec![kind],
            every_ns: None,
            brief: false,
        };
        for mut stored in Stored::load(store, run, trial, &query, usize::MAX)? {
            each(&stored.shown())?;
        }
    }
    Ok(())
}

/// A trial with its series, or one of several nodes of a trial.
struct Stored {
    number: u32,
    key: TrialKey,
    configuration: String,
    /// Its node; empty if the plan names none.
    node: String,
    workload: String,
    clock: TrialClock,
    telemetry: Telemetry,
    tables: Vec<FigureTable>,
    sampling: Vec<SamplerCost>,
}

impl Stored {
    fn load(
        store: &SqliteStore,
        run: &Run,
        (number, key): (u32, TrialKey),
        query: &SeriesQuery,
        most: usize,
    ) -> Result<Vec<Stored>, Failure> {
        let parts = store.trial(key)?.parts;
        let every_ns = query.every_ns(run.plan.sampling.every_ns, length_ns(&parts));
        let telemetry = query.read(store, run, key, every_ns, most)?;
        let (configuration, workload) = run.plan.cell(key.cell);
        let stored = |node: &str, telemetry: Telemetry, parts: &[Part]| {
            let tables = telemetry.kinds().into_iter();
            let tables = tables.map(|kind| figures(&telemetry, kind, None)).collect();
            Stored {
                number,
                key,
                configuration: configuration.name.clone(),
                node: node.to_owned(),
                workload: workload.name.clone(),
                clock: TrialClock {
                    steps: parts.iter().flat_map(|part| part.steps.clone()).collect(),
                    start_unix_ms: parts.iter().find_map(|part| part.start_unix_ms),
                    utc_offset_s: 0,
                },
                tables,
                telemetry,
                sampling: parts
                    .iter()
                    .flat_map(|part| part.sampling.clone())
                    .collect(),
            }
        };
        if telemetry.shapes.iter().all(|shape| shape.node.is_empty()) {
            return Ok(vec![stored("", telemetry, &parts)]);
        }
        let nodes = parts.iter().map(|part| {
            let own = telemetry.of_node(&part.node);
            stored(&part.node, own, std::slice::from_ref(part))
        });
        Ok(nodes.collect())
    }

    /// For JSON and CSV. The tables are moved: they may be large.
    fn shown(&mut self) -> TrialSeries<'_> {
        let tables = std::mem::take(&mut self.tables);
        TrialSeries {
            number: self.number,
            round: self.key.round,
            configuration: &self.configuration,
            workload: &self.workload,
            node: &self.node,
            clock: self.clock.clone(),
            telemetry: &self.telemetry,
            tables,
            sampling: self.sampling.clone(),
        }
    }

    fn text(&self, run: &Run, context: &Context) -> String {
        let style = context.style_out();
        let start = self.clock.start_unix_ms;
        let clock = TrialClock {
            utc_offset_s: start.map_or(0, |start| context.utc_offset_s(start)),
            ..self.clock.clone()
        };
        let mut text = match run.trials.len() {
            1 if self.node.is_empty() => String::new(),
            trials => format!(
                "trial {} of {trials}, round {}: {} on {}{}\n",
                self.number,
                self.key.round + 1,
                on_one_line(&self.workload),
                on_one_line(&self.configuration),
                match self.node.as_str() {
                    "" => String::new(),
                    node => format!(", node {node}"),
                }
            ),
        };
        for table in &self.tables {
            let whole = figures(&self.telemetry, table.kind, Some(u64::MAX));
            text += &(series::text(table, Some(&whole), &clock, style) + "\n");
        }
        text
    }
}

fn kinds(query: &[Option<SeriesKind>]) -> Vec<SeriesKind> {
    let all = query.contains(&None);
    let chosen = |kind: &SeriesKind| all || query.contains(&Some(*kind));
    SeriesKind::ALL.into_iter().filter(chosen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_long_trials_are_combined_into_a_readable_number_of_lines() {
        const SECOND: u64 = 1_000_000_000;
        for (length_s, expected) in [
            (1, 1),
            (600, 1),
            (601, 2),
            (3600, 10),
            (36_000, 60),
            (600 * 3600, 3600),
            (600 * 3601, 3601),
        ] {
            assert_eq!(interval(length_s * SECOND), expected * SECOND, "{length_s}");
        }
        let query = |every_ns, brief| SeriesQuery {
            kinds: Vec::new(),
            every_ns,
            brief,
        };
        for (every_ns, brief, seconds, expected) in [
            (None, true, 600, None),
            (None, true, 3600, Some(10 * SECOND)),
            (None, false, 3600, None),
            (Some(7), true, 3600, Some(7)),
            (Some(7), false, 60, Some(7)),
        ] {
            let found = query(every_ns, brief).every_ns(SECOND, seconds * SECOND);
            assert_eq!(found, expected, "{every_ns:?} {brief} {seconds}");
        }
    }
}
