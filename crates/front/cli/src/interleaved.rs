//! Commands that make results comparable: separate runs as rounds of one run, tails at an equal rate.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
#[cfg(feature = "charts")]
use iodyno_model::Plan;
use iodyno_model::printable::shell_word as quoted;
use iodyno_model::{CandidateResult, Comparison, EqualRate, Pairing, Run, Verdict, Work};

#[cfg(feature = "charts")]
use crate::args::FsCommand;
use crate::args::{Cli, Command, RunArgs};

/// A remark with the command that compares the work of separate runs in one run; `None` if no verdict requires it, or
/// results were imported.
pub(crate) fn advice(comparison: &Comparison, runs: &[Run]) -> Option<String> {
    let lacking = |cell: &CandidateResult| {
        let open = matches!(
            cell.verdict,
            Verdict::Inconclusive { .. } | Verdict::CannotDecide { .. }
        );
        open && cell.pairing != Pairing::Paired
    };
    let cells = comparison.rows.iter().flat_map(|row| &row.cells);
    let imported = runs.iter().any(|run| run.plan.imported.is_some());
    if imported || runs.len() < 2 || !cells.into_iter().any(lacking) {
        return None;
    }
    let commands: Option<Vec<RunArgs>> =
        runs.iter().map(|run| command(&run.plan.command)).collect();
    Some(match commands.as_deref().and_then(interleaved) {
        Some(command) => format!("to compare both in the rounds of one run: {command}"),
        None => {
            "to compare both, make them configurations or workloads of one run: iodyno run FILE… \
                 --on NAME=PATH…"
                .to_owned()
        }
    })
}

/// A remark with the command that measures tails at an equal rate. `None` if no tail needs it, or if no single command
/// can do it: results were imported; blocks and file operations are compared together; or fio's command line, whose
/// options belong to single jobs, was given.
pub(crate) fn at_equal_rate(comparison: &Comparison, runs: &[Run]) -> Option<String> {
    let cells = || comparison.rows.iter().flat_map(|row| &row.cells);
    let rates = || cells().filter_map(|cell| cell.equal_rate);
    let least = |of: fn(EqualRate) -> f64| rates().map(of).reduce(f64::min);
    let (per_clone, total) = (least(|rate| rate.per_clone)?, least(|rate| rate.total)?);
    let works = || runs.iter().flat_map(|run| &run.plan.workloads);
    let all = |test: fn(&Work) -> bool| {
        let jobs = works().flat_map(|workload| &workload.jobs);
        jobs.into_iter().all(|job| test(&job.work))
    };
    let blocks = all(|work| matches!(work, Work::Blocks(_)));
    let operations = all(|work| work.file_operations().is_some() && work.command().is_none());
    let commands: Vec<&[String]> = runs.iter().map(|run| run.plan.command.as_slice()).collect();
    let commands: Vec<String> = match commands.as_slice() {
        [words] => vec![with_rate(words, blocks, operations, per_clone, total)?],
        several => {
            let parsed: Option<Vec<RunArgs>> = several.iter().map(|words| command(words)).collect();
            match parsed.as_deref().and_then(interleaved) {
                Some(one) if blocks => vec![format!("{one} --set rate_iops={per_clone}")],
                Some(one) if operations => vec![format!("{one} --set rate={total}")],
                Some(_) => return None,
                None => several
                    .iter()
                    .map(|words| with_rate(words, blocks, operations, per_clone, total))
                    .collect::<Option<Vec<String>>>()?,
            }
        }
    };
    let commands = each_once(commands.iter());
    Some(format!(
        "to compare tails at an equal rate: {}",
        commands.join("; ")
    ))
}

/// A command with the flag that sets its rate; `None` if it has none.
fn with_rate(
    words: &[String],
    blocks: bool,
    operations: bool,
    per_clone: f64,
    total: f64,
) -> Option<String> {
    let mut words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    match words.get(1).map(String::as_str)? {
        "run" if blocks => words.extend(["--set".to_owned(), format!("rate_iops={per_clone}")]),
        "run" if operations => words.extend(["--set".to_owned(), format!("rate={total}")]),
        "fs" => words.extend(["--rate".to_owned(), total.to_string()]),
        "fileio" => words.insert(2, format!("--rate={total}")),
        _ => return None,
    }
    Some(words.join(" "))
}

/// The flags of a stored `iodyno run` command.
fn command(words: &[String]) -> Option<RunArgs> {
    match Cli::try_parse_from(words).ok()?.command {
        Command::Run(args) => Some(*args),
        _ => None,
    }
}

/// One command for the work of several commands that differ in their targets or in their workloads. If they do not
/// differ, something else was changed between the runs, and the command has a placeholder for each version.
fn interleaved(commands: &[RunArgs]) -> Option<String> {
    let (first, others) = commands.split_first()?;
    let same = |one: &dyn Fn(&RunArgs) -> bool| others.iter().all(one);
    let shell = commands.iter().any(|one| !one.command.is_empty());
    if shell || !same(&|other| other.settings == first.settings) {
        return None;
    }
    let same_files = same(&|other| other.files == first.files);
    let same_targets = same(&|other| other.experiment.on == first.experiment.on);
    let files = each_once(commands.iter().flat_map(|command| &command.files));
    let targets = each_once(commands.iter().flat_map(|command| &command.experiment.on));
    let targets: Vec<OsString> = match (same_files, same_targets) {
        (false, false) => return None,
        (true, true) => vec!["before=PATH".into(), "after=PATH".into()],
        _ if named_twice(&targets) => return None,
        _ => targets,
    };
    let mut words = vec!["iodyno".to_owned(), "run".to_owned()];
    words.extend(
        files
            .iter()
            .map(|file: &PathBuf| quoted(&file.to_string_lossy())),
    );
    for setting in &first.settings {
        words.extend(["--set".to_owned(), quoted(setting)]);
    }
    for target in &targets {
        words.extend(["--on".to_owned(), quoted(&target.to_string_lossy())]);
    }
    Some(words.join(" "))
}

fn each_once<'a, T: PartialEq + Clone + 'a>(all: impl Iterator<Item = &'a T>) -> Vec<T> {
    let mut found: Vec<T> = Vec::new();
    for one in all {
        if !found.contains(one) {
            found.push(one.clone());
        }
    }
    found
}

/// Whether a name is used for several paths.
fn named_twice(targets: &[OsString]) -> bool {
    let names: Vec<String> = targets
        .iter()
        .filter_map(|target| Some(target.to_string_lossy().split_once('=')?.0.to_owned()))
        .collect();
    each_once(names.iter()).len() < names.len()
}

/// A stored command, as it is typed.
pub(crate) fn typed(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

/// The command that repeats a run, with its seed.
#[cfg(feature = "charts")]
pub(crate) fn again(plan: &Plan) -> String {
    let seed = match Cli::try_parse_from(&plan.command).map(|cli| cli.command) {
        Ok(Command::Run(args)) if args.resume.is_none() => Some(args.experiment.seed),
        Ok(Command::Fs(args)) => match args.command {
            FsCommand::Run(args) => Some(args.experiment.seed),
            FsCommand::List(_) | FsCommand::Show(_) => None,
        },
        _ => None,
    };
    let command = typed(&plan.command);
    match seed {
        Some(None) => format!("{command} --seed {}", plan.seed),
        _ => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_added_to_each_kind_of_command_that_has_one() {
        for (text, blocks, operations, expected) in [
            (
                "iodyno run a.fio --on x=/m",
                true,
                false,
                Some("iodyno run a.fio --on x=/m --set rate_iops=200"),
            ),
            (
                "iodyno run a.toml",
                false,
                true,
                Some("iodyno run a.toml --set rate=800"),
            ),
            ("iodyno run a.toml b.fio", false, false, None),
            (
                "iodyno fs run create_empty",
                false,
                true,
                Some("iodyno fs run create_empty --rate 800"),
            ),
            (
                "iodyno fileio --time=2 run",
                false,
                false,
                Some("iodyno fileio --rate=800 --time=2 run"),
            ),
            ("iodyno fio a.fio", true, false, None),
            ("iodyno", true, false, None),
        ] {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            let found = with_rate(&words, blocks, operations, 200.0, 800.0);
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn joins_the_differences_of_the_commands() {
        for (one, other, joined) in [
            (
                "iodyno run job.fio --on a=/x --rounds 3",
                "iodyno run job.fio --on b=/y --seed 7",
                Some("iodyno run job.fio --on a=/x --on b=/y"),
            ),
            (
                "iodyno run old.fio --on /x --set runtime=5s",
                "iodyno run new.fio --on /x --set runtime=5s",
                Some("iodyno run old.fio new.fio --set runtime=5s --on /x"),
            ),
            (
                "iodyno run job.fio --on here=.",
                "iodyno run job.fio --on here=. --name after",
                Some("iodyno run job.fio --on before=PATH --on after=PATH"),
            ),
            (
                "iodyno run job.fio --on a=/x",
                "iodyno run job.fio --on a=/y",
                None,
            ),
            (
                "iodyno run a.fio --on a=/x",
                "iodyno run b.fio --on b=/y",
                None,
            ),
            ("iodyno run a.fio --set bs=4k", "iodyno run b.fio", None),
            ("iodyno run --command a", "iodyno run --command b", None),
        ] {
            let parsed = [one, other].map(|text| {
                let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
                command(&words).unwrap()
            });
            assert_eq!(interleaved(&parsed).as_deref(), joined, "{one} and {other}");
        }
        assert!(command(&["iodyno".to_owned(), "list".to_owned()]).is_none());
        assert_eq!(quoted("it's 5 %"), r"'it'\''s 5 %'");
    }

    #[cfg(feature = "charts")]
    #[test]
    fn a_run_is_done_again_with_its_seed() {
        for (words, expected) in [
            (vec!["run", "a b.fio"], "iodyno run 'a b.fio' --seed 7"),
            (
                vec!["run", "a.fio", "--seed", "9"],
                "iodyno run a.fio --seed 9",
            ),
            (
                vec!["fs", "run", "create_empty"],
                "iodyno fs run create_empty --seed 7",
            ),
            (vec!["fio", "--name=x"], "iodyno fio --name=x"),
            (vec!["import", "a.txt"], "iodyno import a.txt"),
        ] {
            let words = std::iter::once("iodyno").chain(words);
            let plan = Plan {
                command: words.map(str::to_owned).collect(),
                seed: 7,
                ..Plan::new("x".to_owned(), Vec::new(), Vec::new())
            };
            assert_eq!(again(&plan), expected);
        }
    }
}
