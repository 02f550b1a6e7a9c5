//! fio's command lines in a write-up: their options apply to the results below them that state no options themselves.

use std::collections::BTreeMap;

use iodyno_model::ImportedTrial;

use super::fio;
use super::lines::Lines;

/// A command line of fio.
pub(crate) struct Command {
    line: u32,
    /// Line and depth of the heading above it.
    section: Option<(u32, usize)>,
    options: BTreeMap<String, String>,
}

/// Adds the options of fio commands as facts to a result of a table that follows under the same heading.
///
/// If there are several commands, the options common to all apply to each result. The others apply to a result whose
/// workload contains their values: `4k block bandwidth` belongs to the command with `--bs=4k`. If no single command
/// matches, a remark says so.
pub(crate) fn apply(commands: &[Command], trial: &mut ImportedTrial, lines: &Lines<'_>) {
    if !trial.facts.is_empty() {
        return;
    }
    let over = lines.context(trial.at.line);
    let applies = |command: &&Command| {
        command.line < trial.at.line
            && command
                .section
                .is_none_or(|(line, _)| over.headings.iter().any(|heading| heading.line == line))
    };
    let depth = |command: &Command| command.section.map_or(0, |(_, depth)| depth);
    let near: Vec<&Command> = commands.iter().filter(applies).collect();
    let deepest = near.iter().map(|command| depth(command)).max();
    let near: Vec<&Command> = near
        .into_iter()
        .filter(|command| Some(depth(command)) == deepest)
        .collect();
    let Some(first) = near.first() else {
        return;
    };
    let common: BTreeMap<String, String> = first
        .options
        .iter()
        .filter(|(name, value)| near.iter().all(|it| it.options.get(*name) == Some(value)))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let workload = trial.workload.to_lowercase();
    let words: Vec<&str> = workload.split(|c: char| !c.is_alphanumeric()).collect();
    let names = |value: &String| {
        let value = value.to_lowercase();
        words
            .iter()
            .any(|word| *word == value || *word == format!("{value}b"))
    };
    let named: Vec<&&Command> = near
        .iter()
        .filter(|command| {
            let mut own = command.options.iter();
            own.all(|(name, value)| common.contains_key(name) || names(value))
        })
        .collect();
    let options = match named.as_slice() {
        [only] => &only.options,
        _ => {
            trial.remarks.push(format!(
                    "made by one of {} fio commands, but not known by which: only the options that they share are facts",
                    near.len()
                ));
            &common
        }
    };
    trial.facts = fio::facts_of_options(options);
}

/// All command lines of fio; a backslash at the end of a line continues it.
pub(crate) fn commands(lines: &Lines<'_>) -> Vec<Command> {
    let mut commands = Vec::new();
    let mut open: Option<(u32, String)> = None;
    for (number, text) in lines.iter() {
        let text = text.trim();
        let words = text.trim_start_matches(['$', '#', ' ']);
        let words = words.strip_prefix("sudo ").unwrap_or(words);
        let (line, so_far) = match open.take() {
            Some((line, so_far)) => (line, so_far + " " + text),
            None if words == "fio" || words.starts_with("fio ") => (number, words.to_owned()),
            None => continue,
        };
        match so_far.strip_suffix('\\') {
            Some(so_far) => open = Some((line, so_far.to_owned())),
            None => commands.extend(command(line, &so_far, lines)),
        }
    }
    commands
}

/// Parses a command line with at least one option; `None` for prose that begins with `fio`.
fn command(line: u32, text: &str, lines: &Lines<'_>) -> Option<Command> {
    let options: BTreeMap<String, String> = text
        .split_whitespace()
        .filter_map(|word| {
            let (name, value) = word
                .strip_prefix("--")
                .map(|it| it.split_once('=').unwrap_or((it, "")))?;
            let value = value.trim_matches(['"', '\'']);
            Some((name.to_owned(), value.to_owned()))
        })
        .collect();
    let headings = lines.context(line).headings;
    let sections = headings.iter().filter(|heading| heading.is_section());
    let section = sections
        .enumerate()
        .last()
        .map(|(depth, heading)| (heading.line, depth + 1));
    (!options.is_empty()).then_some(Command {
        line,
        section,
        options,
    })
}

#[cfg(test)]
mod tests {
    use crate::{Options, Text, read};

    const TEXT: &str = "= A\n\n== One\n\n4kB blocks\n\n----\nfio \\\n  --name=w \\\n  --rw=randwrite \\\n  --bs=4k \\\n  --iodepth=8\n----\n\n\
        $ sudo fio --name=w --rw=randwrite --bs=512 --iodepth=8\n\nfio is a tool.\n\n=== Zvol\n\n4k block bandwidth\n\n|Node|Bandwidth\n|-|-\n|a|1 MiB/s\n\n\
        512 block bandwidth\n\n|Node|Bandwidth\n|-|-\n|a|2 MiB/s\n\nother bandwidth\n\n|Node|Bandwidth\n|-|-\n|a|3 MiB/s\n\n\
        == Two\n\n4k block bandwidth\n\n|Node|Bandwidth\n|-|-\n|a|4 MiB/s\n";

    #[test]
    fn commands_are_facts_of_the_results_under_their_heading() {
        let text = Text {
            source: "t.adoc",
            text: TEXT,
        };
        let imported = read(&[text], &Options::default());
        let found: Vec<(String, String)> = imported
            .trials
            .iter()
            .map(|trial| {
                let facts: Vec<String> = trial
                    .facts
                    .iter()
                    .map(|fact| format!("{}={}", fact.name, fact.value))
                    .collect();
                (trial.workload, facts.join(" "))
            })
            .collect();
        let result = |workload: &str, facts: &str| (workload.to_owned(), facts.to_owned());
        assert_eq!(
            found,
            [
                result("4k block bandwidth", "bs=4k depth=8 rw=randwrite"),
                result("512 block bandwidth", "bs=512 depth=8 rw=randwrite"),
                result("other bandwidth", "depth=8 rw=randwrite"),
                result("4k block bandwidth", ""),
            ]
        );
        let remarks = imported.trials.get(2).unwrap().remarks;
        assert!(
            remarks
                .iter()
                .any(|remark| remark.contains("one of 2 fio commands")),
            "{remarks:?}"
        );
    }
}
