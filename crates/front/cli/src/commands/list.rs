//! `iodyno list`: the runs in the store.

use std::collections::BTreeMap;

use iodyno_model::printable::on_one_line;
use iodyno_model::{Diagnostic, Direction, DirectionTotal, RunSummary, Workload};
use iodyno_report::Style;
use iodyno_report::text::{RunRow, list as table};
use iodyno_store::{SqliteStore, Store};
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
        let planned = planned(&runs, &store);
        let apart = told_apart(&runs, &planned);
        let rows = runs.iter().map(|run| {
            let row = row(run, context, now_ms);
            let simulated = planned.get(&run.alias).is_some_and(|it| it.simulated);
            RunRow {
                apart: apart.get(&run.alias).cloned().unwrap_or_default(),
                headline: match simulated {
                    true => marked(&row.headline),
                    false => row.headline,
                },
                ..row
            }
        });
        let style = match context.terminal.columns_out() {
            Some(_) => context.style_out(),
            // Nothing is cut for a pager or a file.
            None => Style {
                width: usize::MAX,
                ..context.style_out()
            },
        };
        write_out(table(&rows.collect::<Vec<_>>(), style))?;
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

/// Flags that do not describe what a run measures, and whether they take a value.
const MINOR: [(&str, bool); 7] = [
    ("-q", false),
    ("--quiet", false),
    ("--json", false),
    ("--seed", true),
    ("--name", true),
    ("--store", true),
    ("--color", true),
];

/// The listed facts of a run's plan.
struct Planned {
    /// The words of its command that concern the measurement.
    command: Vec<String>,
    /// Whether a workload uses simulated devices.
    simulated: bool,
}

/// The plans of iodyno's own runs that can be read, by the runs' numbers.
fn planned(runs: &[RunSummary], store: &SqliteStore) -> BTreeMap<u64, Planned> {
    let own = runs
        .iter()
        .filter(|run| run.imported == 0 && run.damaged.is_none());
    let planned = own.filter_map(|run| {
        let plan = store.plan(run.id).ok()?;
        let planned = Planned {
            simulated: plan.workloads.iter().any(Workload::simulated),
            command: telling(plan.command),
        };
        Some((run.alias, planned))
    });
    planned.collect()
}

/// A result that no real storage had.
fn marked(headline: &str) -> String {
    match headline {
        "" => "simulated".to_owned(),
        headline => format!("simulated: {headline}"),
    }
}

/// The arguments in which the commands of runs with one name differ, by run number: `bs=4k`, `bs=64k`.
fn told_apart(runs: &[RunSummary], planned: &BTreeMap<u64, Planned>) -> BTreeMap<u64, String> {
    let mut named: BTreeMap<&str, Vec<(u64, &[String])>> = BTreeMap::new();
    for run in runs {
        if let Some(planned) = planned.get(&run.alias) {
            let commands = named.entry(&run.name).or_default();
            commands.push((run.alias, &planned.command));
        }
    }
    let mut apart = BTreeMap::new();
    for commands in named.into_values().filter(|group| group.len() > 1) {
        for (alias, words) in &commands {
            let everywhere =
                |word: &&String| commands.iter().all(|(_, other)| other.contains(word));
            let own: Vec<&str> = words
                .iter()
                .filter(|word| !everywhere(word))
                .map(String::as_str)
                .collect();
            apart.insert(*alias, on_one_line(&own.join(" ")));
        }
    }
    apart
}

/// The words of a command without [`MINOR`] flags.
fn telling(command: Vec<String>) -> Vec<String> {
    let mut words = command.into_iter();
    let mut telling = Vec::new();
    while let Some(word) = words.next() {
        let (flag, value) = match word.split_once('=') {
            Some((flag, _)) => (flag, true),
            None => (word.as_str(), false),
        };
        match MINOR.iter().find(|(minor, _)| *minor == flag) {
            Some((_, true)) if !value => drop(words.next()),
            Some(_) => {}
            None => telling.push(word),
        }
    }
    telling
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
        apart: String::new(),
        headline: headline(run),
    }
}

/// `2 faster, 1 slower, 4 undecided`, or for a run of one trial its figures: `read 138.4k IOPS 540 MiB, write …`.
fn headline(run: &RunSummary) -> String {
    if let Some(verdicts) = run.verdicts {
        return verdicts.to_string();
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_result_is_marked() {
        assert_eq!(marked(""), "simulated");
        assert_eq!(marked("read 5 IOPS"), "simulated: read 5 IOPS");
    }

    #[test]
    fn flags_that_do_not_concern_the_measurement_tell_nothing_apart() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            telling(words(
                "iodyno run a.fio --seed 7 -q --set bs=4k --name=x --rounds 3 --json"
            )),
            words("iodyno run a.fio --set bs=4k --rounds 3")
        );
    }
}
