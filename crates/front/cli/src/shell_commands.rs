//! `run --command COMMAND`: shell commands as workloads.

use iodyno_experiment::{command_workload, printed_number};
use iodyno_model::{Better, Diagnostic, JobEnd, OutputMetric, ShellCommand, Workload};

use crate::args::RunArgs;

/// The longest name that is made from a command, characters.
const NAME: usize = 40;

/// A workload for each command, named after it unless it has a name.
///
/// # Errors
/// Every error of every flag.
pub(crate) fn shell_commands(args: &RunArgs) -> Result<Vec<Workload>, Vec<Diagnostic>> {
    if args.command.is_empty() {
        return Ok(Vec::new());
    }
    let mut faults = faults_of_texts(args);
    if args.files.is_empty() && !args.settings.is_empty() {
        let fault = Diagnostic::error("`--set` has no effect on `--command`");
        faults.push(fault.hint("write the options into the command"));
    }
    let metrics = printed_numbers(args).map_err(|found| faults.extend(found));
    let metrics = metrics.unwrap_or_default();
    if !faults.is_empty() {
        return Err(faults);
    }
    let workload = |(text, name): (&String, String)| {
        let command = ShellCommand {
            prepare: args.prepare.clone(),
            cleanup: args.cleanup.clone(),
            metrics: metrics.clone(),
            timeout: args.timeout,
            ..ShellCommand::new(text)
        };
        let end = JobEnd {
            ops: Some(1),
            ..JobEnd::default()
        };
        command_workload(&name, command, end)
    };
    let names = names_of(&args.command, &args.command_name);
    Ok(args.command.iter().zip(names).map(workload).collect())
}

/// Commands and names that are empty or repeated, and names without a command.
fn faults_of_texts(args: &RunArgs) -> Vec<Diagnostic> {
    let once = [("--prepare", &args.prepare), ("--cleanup", &args.cleanup)];
    let once = once.into_iter();
    let given = once.filter_map(|(flag, text)| Some((flag, text.as_ref()?)));
    let commands = args.command.iter().map(|text| ("--command", text));
    let names = args
        .command_name
        .iter()
        .map(|text| ("--command-name", text));
    let given = commands.chain(given).chain(names);
    let empty = given.filter(|(_, text)| text.trim().is_empty());
    let mut faults: Vec<Diagnostic> = empty
        .map(|(flag, _)| {
            let fault = Diagnostic::error(format!("`{flag}` is empty"));
            fault.hint(match flag {
                "--command-name" => "give a name, or leave the flag out",
                _ => "give a command as in a shell, in quotes",
            })
        })
        .collect();
    faults.extend(twice(
        "--command",
        &args.command,
        "use `--aa` to measure the noise of one command",
    ));
    faults.extend(twice(
        "--command-name",
        &args.command_name,
        "give each command its own name",
    ));
    if args.command_name.len() > args.command.len() {
        let fault = Diagnostic::error("there are more `--command-name` than `--command`");
        faults.push(fault.hint("give one name for each command, in the same order"));
    }
    faults
}

/// An error for each text that is repeated.
fn twice(flag: &str, texts: &[String], hint: &str) -> Vec<Diagnostic> {
    let mut seen = std::collections::BTreeMap::<&str, u32>::new();
    texts
        .iter()
        .for_each(|text| *seen.entry(text.trim()).or_default() += 1);
    let repeated = seen
        .into_iter()
        .filter(|(text, count)| *count > 1 && !text.is_empty());
    let fault = |text| Diagnostic::error(format!("`{flag} '{text}'` is given twice")).hint(hint);
    repeated.map(|(text, _)| fault(text)).collect()
}

/// The numbers of `--more` and `--less`.
fn printed_numbers(args: &RunArgs) -> Result<Vec<OutputMetric>, Vec<Diagnostic>> {
    let more = args
        .more
        .iter()
        .map(|text| ("--more", Better::Higher, text));
    let less = args.less.iter().map(|text| ("--less", Better::Lower, text));
    let (mut metrics, mut faults): (Vec<OutputMetric>, _) = (Vec::new(), Vec::new());
    for (flag, better, text) in more.chain(less) {
        let parsed = match text.split_once('=') {
            Some((name, regex)) => printed_number(name.trim(), regex, better),
            None => Err((
                "there is no `=`".to_owned(),
                "write `NAME=REGEX`: `'tps=tps = ([0-9.]+)'`",
            )),
        };
        match parsed {
            Ok(metric)
                if metrics
                    .iter()
                    .all(|other| other.metric.name != metric.metric.name) =>
            {
                metrics.push(metric);
            }
            Ok(metric) => {
                let name = metric.metric.name;
                let fault = Diagnostic::error(format!("two numbers are named `{name}`"));
                faults.push(fault.hint("give each its own name"));
            }
            Err((why, hint)) => {
                faults.push(Diagnostic::error(format!("`{flag} '{text}'`: {why}")).hint(hint));
            }
        }
    }
    match faults.is_empty() {
        true => Ok(metrics),
        false => Err(faults),
    }
}

/// The names of the commands: the given ones, then the commands themselves, all of them different.
fn names_of(commands: &[String], given: &[String]) -> Vec<String> {
    let mut names: Vec<String> = given.iter().map(|name| name.trim().to_owned()).collect();
    for text in &commands[given.len().min(commands.len())..] {
        names.push(unique(text, &names));
    }
    names
}

/// A command on one line, without its middle if it is long; with a number if another command looks the same.
fn unique(text: &str, names: &[String]) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: Vec<char> = words.join(" ").chars().collect();
    let short = |most: usize| match line.len() > most {
        true => {
            let end = (most - 1) / 2;
            let (first, last) = (&line[..most - 1 - end], &line[line.len() - end..]);
            first.iter().chain(&['…']).chain(last).collect()
        }
        false => line.iter().collect(),
    };
    let mut name: String = short(NAME);
    let mut number = 2;
    while names.contains(&name) {
        name = format!("{} ({number})", short(NAME - 5));
        number += 1;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::names_of;

    #[test]
    fn commands_without_a_name_are_named_by_both_ends_and_all_names_differ() {
        let long = "make -C /usr/src/linux -j4 all modules";
        let middle = |it: &str| format!("{long} {it}{it}{it} headers");
        let commands = [
            "x",
            "make  -j4\n all",
            &format!("{long} a"),
            &middle("a"),
            &middle("b"),
        ];
        let names = names_of(&commands.map(str::to_owned), &["y".to_owned()]);
        assert!(
            names.iter().all(|name| name.chars().count() <= 40),
            "{names:?}"
        );
        assert_eq!(names[..2], ["y", "make -j4 all"]);
        assert_eq!(names[2], long.to_owned() + " a");
        assert_eq!(names[3], "make -C /usr/src/lin…modules aaa headers");
        assert_eq!(names[4], "make -C /usr/src/lin…modules bbb headers");
    }
}
