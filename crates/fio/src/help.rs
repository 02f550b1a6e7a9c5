//! Help texts for options and engines, and jobs printed as a command.

use std::fmt::Write;

use iodyno_model::{Job, Workload};

use iodyno_options::{Status, Unit, quoted};

use super::engines::ENGINES;
use super::flags::FLAGS;
use super::options::{OPTIONS, OptionSpec};

/// The text of `--help`.
pub(super) fn usage() -> String {
    let mut text = String::from(
        "iodyno fio [OPTION…] [JOBFILE…]\n\
         Options before the first --name count for all jobs; --name=NAME begins a job.\n\n",
    );
    for flag in FLAGS {
        if matches!(flag.status, Status::Honoured(_)) {
            let argument = match flag.unit {
                Unit::Nothing => "",
                Unit::OptionalText => "[=…]",
                _ => "=…",
            };
            let name = format!("--{}{argument}", flag.name);
            let _ = writeln!(text, "  {name:<24} {}", flag.text);
        }
    }
    text.push_str("\nJob options are listed by --cmdhelp.\n");
    text
}

/// Describes one option, or lists all.
pub(super) fn option_help(name: Option<&str>) -> String {
    let mut text = String::new();
    let Some(name) = name.filter(|name| *name != "all") else {
        for (topic, options) in OPTIONS.topics {
            let _ = writeln!(text, "{topic}:");
            for option in options.iter() {
                let _ = writeln!(text, "  {:<28} {}", option.name, option.text);
            }
        }
        return text;
    };
    match OPTIONS.find(name) {
        Some(option) => describe(option),
        None => match OPTIONS.suggestion(name) {
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
        Status::Honoured(_) => {}
        Status::Ignored { why, .. } => line("ignored", why),
        Status::Refused { why, instead } => {
            line("refused", why);
            line("instead", instead);
        }
    }
    text
}

/// Describes one engine, or lists all.
pub(super) fn engine_help(name: Option<&str>) -> String {
    let mut text = String::new();
    for engine in ENGINES
        .iter()
        .filter(|engine| name.is_none_or(|name| name == engine.name))
    {
        let _ = write!(text, "  {:<14} {}", engine.name, engine.text);
        if let Status::Refused { why, instead } = engine.status {
            let _ = write!(text, "; not supported: {why}; {instead}");
        }
        text.push('\n');
    }
    if text.is_empty() {
        let _ = writeln!(text, "there is no engine `{}`", name.unwrap_or_default());
    }
    text
}

/// Formats the jobs as one command.
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
