//! `iodyno show RUN --series KIND`: what the host did during a run's trials.

use iodyno_judge::figures;
use iodyno_model::{Diagnostic, FigureTable, SeriesKind, Telemetry, TrialKey};
use iodyno_report::series::{self, TrialSeries};
use iodyno_store::{Run, SqliteStore, Store, StoreError};

use crate::args::{Format, ShowArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, counted};
use crate::screen::write_out;

/// Batches asked of the store at once.
const BATCH: usize = 64;

/// Prints the series that were asked for.
pub(crate) fn series(
    args: &ShowArgs,
    store: &SqliteStore,
    run: &Run,
    context: &Context,
) -> Result<Exit, Failure> {
    let format = if args.json { Format::Json } else { args.format };
    check(args, format)?;
    let trials = trials(args.trial, run)?;
    let load = |(number, key)| Stored::load(store, run, number, key, args);
    let mut sampled = false;
    if format == Format::Text {
        // A trial at a time: those of a long run are many.
        for trial in trials {
            let stored = load(trial)?;
            sampled |= !stored.telemetry.is_empty();
            write_out(stored.text(run, context))?;
        }
    } else {
        let stored: Vec<Stored> = trials.into_iter().map(load).collect::<Result<_, _>>()?;
        sampled = stored.iter().any(|trial| !trial.telemetry.is_empty());
        let shown: Vec<TrialSeries<'_>> = stored.iter().map(Stored::shown).collect();
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
        false => Err(nothing(run)),
    }
}

/// What cannot be shown in this form.
fn check(args: &ShowArgs, format: Format) -> Result<(), Failure> {
    let mut faults = Vec::new();
    if !matches!(format, Format::Text | Format::Csv | Format::Json) {
        faults.push(
            Diagnostic::error("series have none of fio's forms")
                .hint("`--format text`, `csv` and `json` show them"),
        );
    }
    if args.raw && format != Format::Csv {
        faults.push(
            Diagnostic::error("`--raw` goes with `--format csv`")
                .hint("JSON always has what was read"),
        );
    }
    if args.every.is_some_and(|every| every.0 == 0) {
        faults.push(Diagnostic::error("a stretch of no length: `--every 0`"));
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Failure::input(faults)),
    }
}

/// The trials by their places in the run, from 1.
pub(super) fn trials(only: Option<u32>, run: &Run) -> Result<Vec<(u32, TrialKey)>, Failure> {
    let keys = run.trials.iter().map(|trial| trial.key);
    let numbered = (1..).zip(keys);
    let chosen: Vec<(u32, TrialKey)> = match only {
        None => numbered.collect(),
        Some(only) => numbered.filter(|(number, _)| *number == only).collect(),
    };
    match (chosen.is_empty(), only) {
        (true, Some(only)) => Err(Failure::one(Diagnostic::error(format!(
            "run {} has {}, and none of number {only}",
            run.summary.alias,
            counted(run.trials.len(), "trial")
        )))),
        _ => Ok(chosen),
    }
}

fn nothing(run: &Run) -> Failure {
    let sampled = run.plan.sampling.every_ns > 0;
    Failure::one(
        Diagnostic::error(format!(
            "no series are stored with run {}",
            run.summary.alias
        ))
        .hint(match sampled {
            true => {
                "it was made by a version that sampled nothing, or ended before the first sample"
            }
            false => "it was made with `--sample-every 0`",
        }),
    )
}

/// A trial with its series.
struct Stored {
    number: u32,
    key: TrialKey,
    configuration: String,
    workload: String,
    telemetry: Telemetry,
    tables: Vec<FigureTable>,
    whole: Vec<FigureTable>,
    sampling: Vec<iodyno_model::SamplerCost>,
}

impl Stored {
    fn load(
        store: &SqliteStore,
        run: &Run,
        number: u32,
        key: TrialKey,
        args: &ShowArgs,
    ) -> Result<Stored, StoreError> {
        let kinds = kinds(&args.series);
        let telemetry = telemetry(store, key, &kinds, args.every.map(|every| every.0))?;
        let wanted = || kinds.iter().filter(|kind| telemetry.kinds().contains(kind));
        let tables = wanted()
            .map(|kind| figures(&telemetry, *kind, None))
            .collect();
        let whole = wanted()
            .map(|kind| figures(&telemetry, *kind, Some(u64::MAX)))
            .collect();
        let (configuration, workload) = run.plan.cell(key.cell);
        let parts = store.trial(key)?.parts;
        Ok(Stored {
            number,
            key,
            configuration: configuration.name.clone(),
            workload: workload.name.clone(),
            tables,
            whole,
            telemetry,
            sampling: parts.into_iter().flat_map(|part| part.sampling).collect(),
        })
    }

    fn shown(&self) -> TrialSeries<'_> {
        TrialSeries {
            number: self.number,
            round: self.key.round,
            configuration: &self.configuration,
            workload: &self.workload,
            telemetry: &self.telemetry,
            tables: self.tables.clone(),
            sampling: self.sampling.clone(),
        }
    }

    fn text(&self, run: &Run, context: &Context) -> String {
        let style = context.style_out();
        let mut text = match run.trials.len() {
            1 => String::new(),
            trials => format!(
                "trial {} of {trials}, round {}: {} on {}\n",
                self.number,
                self.key.round + 1,
                self.workload,
                self.configuration
            ),
        };
        for (table, whole) in self.tables.iter().zip(&self.whole) {
            text += &(series::text(table, Some(whole), style) + "\n");
        }
        text
    }
}

fn kinds(asked: &[Option<SeriesKind>]) -> Vec<SeriesKind> {
    let all = asked.contains(&None);
    let chosen = |kind: &SeriesKind| all || asked.contains(&Some(*kind));
    SeriesKind::ALL.into_iter().filter(chosen).collect()
}

/// The series of these kinds, put together over stretches as they are read: those of a long trial are large.
fn telemetry(
    store: &SqliteStore,
    key: TrialKey,
    kinds: &[SeriesKind],
    every_ns: Option<u64>,
) -> Result<Telemetry, StoreError> {
    let mut all = Telemetry::default();
    let mut next = 0;
    loop {
        let batches = store.telemetry(key, next, BATCH)?;
        let last = batches.len() < BATCH;
        next = batches.last().map_or(next, |batch| batch.number + 1);
        for batch in batches {
            all.extend(batch.telemetry);
        }
        all.samples.retain(|sample| {
            let shape = all.shapes.iter().find(|shape| shape.number == sample.shape);
            shape.is_some_and(|shape| kinds.contains(&shape.kind))
        });
        if last {
            break;
        }
    }
    all.shapes.retain(|shape| kinds.contains(&shape.kind));
    all.gaps.retain(|gap| kinds.contains(&gap.kind));
    Ok(match every_ns {
        Some(every_ns) => all.thinned(every_ns),
        None => all,
    })
}
