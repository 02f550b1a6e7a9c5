//! `iodyno list`: the runs in the store.

use iodyno_model::{Diagnostic, Direction, DirectionTotal, RunSummary};
use iodyno_report::text::{RunRow, list as table};
use iodyno_store::Store;
use iodyno_units::{Bytes, Nanos, Rate};
use serde::Serialize;

use crate::args::ListArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::screen::write_out;

/// Number of runs read from the store at once.
const BATCH: usize = 500;

/// Printed in place of an empty list.
const EMPTY: &str = "nothing is stored yet; `iodyno run FILE` stores its results";

/// Prints all runs, newest last: the newest is then the last line on a terminal.
pub(crate) fn list(args: &ListArgs, context: &Context) -> Result<Exit, Failure> {
    let Some(store) = context.existing_store()? else {
        if args.json {
            write_out(document(&[], context))?;
        } else {
            context.note(EMPTY);
        }
        return Ok(Exit::Fine);
    };
    let mut runs: Vec<RunSummary> = Vec::new();
    loop {
        let batch = store.runs(BATCH, runs.len())?;
        let full = batch.len() == BATCH;
        runs.extend(batch);
        if !full {
            break;
        }
    }
    runs.reverse();
    if args.json {
        write_out(document(&runs, context))?;
    } else if runs.is_empty() {
        context.note(EMPTY);
    } else {
        let now_ms = context.now_unix_ms();
        let rows: Vec<RunRow> = runs.iter().map(|run| row(run, context, now_ms)).collect();
        write_out(table(&rows, context.style_out()))?;
    }
    let damaged: Vec<Diagnostic> = runs
        .iter()
        .filter_map(|run| {
            let what = run.damaged.as_ref()?;
            let fault = format!("the record of run {} is damaged: {what}", run.alias);
            Some(
                Diagnostic::error(fault)
                    .hint("copy the store away; the other runs can be exported"),
            )
        })
        .collect();
    context.tell(&damaged);
    Ok(match damaged.is_empty() {
        true => Exit::Fine,
        false => Exit::CheckFailed,
    })
}

/// `schema` = `iodyno.runs/1` and `runs`, newest last.
fn document(runs: &[RunSummary], context: &Context) -> String {
    #[derive(Serialize)]
    struct Document<'a> {
        schema: &'static str,
        runs: &'a [RunSummary],
    }
    context.json(&Document {
        schema: "iodyno.runs/1",
        runs,
    })
}

fn row(run: &RunSummary, context: &Context, now_ms: u64) -> RunRow {
    let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let imported = run.imported > 0 || run.cells == 0;
    let ended_ms = match run.damaged {
        None => now_ms,
        Some(_) => run.started_unix_ms,
    };
    let so_far = ended_ms.saturating_sub(run.started_unix_ms);
    RunRow {
        alias: run.alias.to_string(),
        started_unix_ms: run.started_unix_ms,
        utc_offset_s: context.utc_offset_s(run.started_unix_ms),
        span_ns: Nanos::from_millis(run.duration_ms.unwrap_or(so_far)).0,
        state: match (&run.damaged, imported) {
            (Some(_), _) => "damaged",
            (None, true) => "imported",
            (None, false) => run.state.name(),
        }
        .to_owned(),
        trials_done: count(run.trials_completed + run.imported),
        trials_planned: count(run.trials_planned + run.imported),
        name: run.name.clone(),
        configurations: Vec::new(),
        headline: headline(run),
    }
}

/// `read 138.4k IOPS 540 MiB, write …`: the figures of a run of one trial.
fn headline(run: &RunSummary) -> String {
    // For file operations, only the rate of whole cycles is shown.
    let cycles = |total: &DirectionTotal| total.direction == Direction::Op && total.ops > 0;
    if let Some(total) = run.totals.iter().find(|total| cycles(total)) {
        return format!("{} ops/s", Rate(total.iops()));
    }
    let moves = |direction| direction != Direction::Sync;
    let parts: Vec<String> = run
        .totals
        .iter()
        .filter(|total| moves(total.direction) && total.ops > 0)
        .map(|total| {
            format!(
                "{} {} IOPS {}/s",
                total.direction.name(),
                Rate(total.iops()),
                Bytes(total.bytes_per_s() as u64)
            )
        })
        .collect();
    parts.join(", ")
}
