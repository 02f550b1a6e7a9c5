//! `run --command COMMAND`: shell commands as workloads.

use iodyno_experiment::command_workload;
use iodyno_model::{Diagnostic, JobEnd, ShellCommand, Workload};

use crate::args::RunArgs;

/// The longest name of a workload, characters; a longer command is cut.
const NAME: usize = 40;

/// A workload for each command, named after it.
///
/// # Errors
/// Every error of every flag.
pub(crate) fn shell_commands(args: &RunArgs) -> Result<Vec<Workload>, Vec<Diagnostic>> {
    let once = [("--prepare", &args.prepare), ("--cleanup", &args.cleanup)];
    let once = once.into_iter();
    let given = once.filter_map(|(flag, text)| Some((flag, text.as_ref()?)));
    let commands = args.command.iter().map(|text| ("--command", text));
    let empty = commands
        .chain(given)
        .filter(|(_, text)| text.trim().is_empty());
    let mut faults: Vec<Diagnostic> = empty
        .map(|(flag, _)| {
            let fault = Diagnostic::error(format!("`{flag}` is empty"));
            fault.hint("give a command as in a shell, in quotes")
        })
        .collect();
    let mut names: Vec<String> = Vec::new();
    for text in &args.command {
        if args.command.iter().filter(|other| *other == text).count() > 1 {
            let fault = Diagnostic::error(format!("`--command '{text}'` is given twice"));
            let fault = fault.hint("use `--aa` to measure the noise of one command");
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        names.push(unique(text.trim(), &names));
    }
    if args.files.is_empty() && !args.settings.is_empty() && !args.command.is_empty() {
        let fault = Diagnostic::error("`--set` has no effect on `--command`");
        faults.push(fault.hint("write the options into the command"));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let workload = |(text, name): (&String, String)| {
        let command = ShellCommand {
            run: text.clone(),
            prepare: args.prepare.clone(),
            cleanup: args.cleanup.clone(),
            metrics: Vec::new(),
            may_fail: false,
        };
        let end = JobEnd {
            ops: Some(1),
            ..JobEnd::default()
        };
        command_workload(&name, command, end)
    };
    Ok(args.command.iter().zip(names).map(workload).collect())
}

/// The beginning of a command on one line, with a number if another command begins in the same way.
fn unique(text: &str, names: &[String]) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let cut = |most: usize| match line.chars().count() > most {
        true => line.chars().take(most - 1).chain(['…']).collect(),
        false => line.clone(),
    };
    let mut name: String = cut(NAME);
    let mut number = 2;
    while names.contains(&name) {
        name = format!("{} ({number})", cut(NAME - 5));
        number += 1;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::unique;

    #[test]
    fn commands_with_the_same_beginning_have_different_names() {
        let long = "make -C /usr/src/linux -j4 all modules headers";
        let mut names = vec![unique("make  -j4\n all", &[])];
        for end in ["", " a", " b"] {
            let name = unique(&format!("{long}{end}"), &names);
            assert!(name.chars().count() <= 40, "{name}");
            names.push(name);
        }
        assert_eq!(names[0], "make -j4 all");
        assert_eq!(names[1], "make -C /usr/src/linux -j4 all modules …");
        assert_eq!(names[2], "make -C /usr/src/linux -j4 all mod… (2)");
        assert_eq!(names[3], "make -C /usr/src/linux -j4 all mod… (3)");
    }
}
