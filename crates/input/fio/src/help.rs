//! Help texts for options and engines, and jobs printed as a command.

use std::fmt::Write;

use iodyno_model::printable::shell_word;
use iodyno_model::{Job, Workload};

use iodyno_options::{Status, Unit};

use super::engines::{ENGINES, EngineUse};
use super::flags::FLAGS;
use super::options::{OPTIONS, OptionSpec, engine_options};

/// The text of `--help`.
pub(super) fn usage() -> String {
    let mut text = String::from(
        "iodyno fio [OPTION…] [JOBFILE…]\n\
         Options before the first --name count for all jobs; --name=NAME begins a job.\n\n",
    );
    for flag in FLAGS {
        if !flag.status.is_refused() {
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
            let _ = writeln!(text, "# {topic}");
            // Each name begins a line, and refused options are not listed, because scripts search for options here.
            for option in options.iter().filter(|option| !option.status.is_refused()) {
                let _ = writeln!(text, "{:<24}: {}", option.name, option.text);
            }
        }
        return text;
    };
    match OPTIONS.find(name) {
        Some(option) => describe(option),
        None => match OPTIONS.suggestion(name) {
            Some(near) => format!("unknown option `{name}`; did you mean `{near}`?\n"),
            None => format!("unknown option `{name}`\n"),
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

/// Lists the supported engines, the options of one engine, or describes one of its options: `libaio,nowait`.
///
/// # Errors
/// The text for an engine that is not supported, an engine without options, or an unknown option. fio fails for these,
/// too.
pub(super) fn engine_help(name: Option<&str>) -> Result<String, String> {
    let Some(name) = name else {
        let mut text = String::from("Available IO engines:\n");
        let supported = ENGINES.iter().filter(|engine| engine.status.is_honoured());
        for engine in supported {
            let _ = writeln!(text, "\t{:<14} {}", engine.name, engine.text);
        }
        return Ok(text);
    };
    let (name, wanted) = match name.split_once(',') {
        Some((name, option)) => (name, Some(option)),
        None => (name, None),
    };
    let kind = match ENGINES.iter().find(|engine| engine.name == name) {
        None => return Err(format!("unknown engine `{name}`\n")),
        Some(engine) => match engine.status {
            Status::Honoured(EngineUse::Backend(kind)) => Some(kind),
            Status::Honoured(EngineUse::Files(_) | EngineUse::Cpu) => None,
            Status::Ignored { why, .. } => return Err(format!("{name}: {why}\n")),
            Status::Refused { why, instead } => {
                return Err(format!("{name}: not supported: {why}; {instead}\n"));
            }
        },
    };
    let own =
        engine_options().filter(|(_, engines)| kind.is_some_and(|kind| engines.contains(&kind)));
    let options: Vec<&OptionSpec> = own.map(|(option, _)| option).collect();
    if options.is_empty() {
        return Err(format!("the engine {name} has no options of its own\n"));
    }
    match wanted {
        None => Ok(options
            .iter()
            .map(|option| format!("{:<24}: {}\n", option.name, option.text))
            .collect()),
        Some(wanted) => options
            .iter()
            .find(|option| option.names().any(|name| name == wanted))
            .map(|option| describe(option))
            .ok_or_else(|| format!("the engine {name} has no option `{wanted}`\n")),
    }
}

/// Formats the jobs as one command.
pub(super) fn as_commands(workload: &Workload) -> String {
    let mut text = String::from("fio");
    for job in &workload.jobs {
        let _ = write!(text, " --name={}", shell_word(&job.name));
        for (name, value) in arguments(job) {
            match value.is_empty() {
                true => text.push_str(&format!(" --{name}")),
                false => text.push_str(&format!(" --{name}={}", shell_word(value))),
            }
        }
    }
    text.push('\n');
    text
}

/// The options without the name; `kb_base` counts for those after it.
fn arguments(job: &Job) -> impl Iterator<Item = (&String, &String)> {
    let base = job.options.get_key_value("kb_base");
    let others = job.options.iter();
    base.into_iter()
        .chain(others.filter(|(name, _)| !["name", "kb_base"].contains(&name.as_str())))
}
