//! Texts for people: what options and engines are, and jobs as a command.

use std::fmt::Write;

use iodyno_model::{Job, Workload};

use super::engines::{Availability, ENGINES};
use super::flags::{Argument, FLAGS, FlagStatus};
use super::option::{OptionSpec, Status};
use super::options::{TOPICS, find, suggestion};

/// What `--help` prints.
pub(super) fn usage() -> String {
    let mut text = String::from(
        "iodyno fio [OPTION…] [JOBFILE…]\n\
         Options before the first --name count for all jobs; --name=NAME begins a job.\n\n",
    );
    for flag in FLAGS {
        if matches!(flag.status, FlagStatus::Honoured(_)) {
            let argument = match flag.argument {
                Argument::None => "",
                Argument::Required => "=…",
                Argument::Optional => "[=…]",
            };
            let name = format!("--{}{argument}", flag.name);
            let _ = writeln!(text, "  {name:<24} {}", flag.text);
        }
    }
    text.push_str("\nJob options are listed by --cmdhelp.\n");
    text
}

/// What is known of one option, or a line for each.
pub fn option_help(name: Option<&str>) -> String {
    let mut text = String::new();
    let Some(name) = name.filter(|name| *name != "all") else {
        for (topic, options) in TOPICS {
            let _ = writeln!(text, "{topic}:");
            for option in options.iter() {
                let _ = writeln!(text, "  {:<28} {}", option.name, option.text);
            }
        }
        return text;
    };
    match find(name) {
        Some(option) => describe(option),
        None => match suggestion(name) {
            Some(near) => format!("there is no option `{name}`; did you mean `{near}`?\n"),
            None => format!("there is no option `{name}`\n"),
        },
    }
}

fn describe(option: &OptionSpec) -> String {
    let mut text = format!("{}: {}\n", option.name, option.text);
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<9} {value}");
    };
    if !option.aliases.is_empty() {
        line("also", &option.aliases.join(", "));
    }
    line("value", &option.unit.describe());
    if !option.default.is_empty() {
        line("default", option.default);
    }
    match option.status {
        Status::Honoured => {}
        Status::Ignored { why, .. } => line("ignored", why),
        Status::Refused { why, instead } => {
            line("refused", why);
            line("instead", instead);
        }
    }
    text
}

/// What is known of one engine, or a line for each.
pub fn engine_help(name: Option<&str>) -> String {
    let mut text = String::new();
    for engine in ENGINES
        .iter()
        .filter(|engine| name.is_none_or(|name| name == engine.name))
    {
        let _ = match engine.availability {
            Availability::Here(_) => writeln!(text, "  {:<14} {}", engine.name, engine.text),
            Availability::Not { why, instead } => writeln!(
                text,
                "  {:<14} {}; not here: {why}; {instead}",
                engine.name, engine.text
            ),
        };
    }
    if text.is_empty() {
        let _ = writeln!(text, "there is no engine `{}`", name.unwrap_or_default());
    }
    text
}

/// The jobs as one command.
pub(super) fn as_commands(workload: &Workload) -> String {
    let mut text = String::from("fio");
    for job in &workload.jobs {
        let _ = write!(text, " --name={}", quoted(&job.name));
        for (name, value) in arguments(job) {
            match value.is_empty() {
                true => text.push_str(&format!(" --{name}")),
                false => text.push_str(&format!(" --{name}={}", quoted(value))),
            }
        }
    }
    text.push('\n');
    text
}

fn arguments(job: &Job) -> impl Iterator<Item = (&String, &String)> {
    job.options.iter().filter(|(name, _)| *name != "name")
}

/// In quotes where a shell would take it apart.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/.,:_-+=%@".contains(c);
    match text.chars().all(plain) && !text.is_empty() {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}
