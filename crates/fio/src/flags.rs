//! What the command line takes besides job options: where the output goes, and in which form.

use std::path::PathBuf;

use iodyno_model::closest;
use iodyno_units::Nanos;

use super::number::{TimeUnit, time};
use super::output::{Eta, OutputFormat, OutputOptions};
use super::value::Fault;

/// Everything the flags set.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    pub(super) output: OutputOptions,
    pub(super) sections: Vec<String>,
    pub(super) read_only: bool,
    pub(super) warnings_fatal: bool,
    pub(super) parse_only: bool,
    pub(super) show_command: bool,
    pub(super) version: bool,
    /// `--help`, `--cmdhelp` or `--enghelp` with what it asks for.
    pub(super) help: Option<(&'static str, Option<String>)>,
}

/// Whether a flag has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Argument {
    /// It has none.
    None,
    /// It must.
    Required,
    /// After `=` only.
    Optional,
}

/// What becomes of a flag.
#[derive(Debug, Clone, Copy)]
pub(super) enum FlagStatus {
    Honoured(fn(&mut Settings, &str) -> Result<(), Fault>),
    /// With why that is harmless.
    Ignored(&'static str),
    /// With why, and what to use.
    Refused(&'static str, &'static str),
}

/// A flag of the command line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) short: Option<char>,
    pub(super) argument: Argument,
    pub(super) text: &'static str,
    pub(super) status: FlagStatus,
}

const fn honoured(
    name: &'static str,
    short: char,
    argument: Argument,
    text: &'static str,
    set: fn(&mut Settings, &str) -> Result<(), Fault>,
) -> Flag {
    Flag {
        name,
        short: Some(short),
        argument,
        text,
        status: FlagStatus::Honoured(set),
    }
}

const fn ignored(
    name: &'static str,
    argument: Argument,
    text: &'static str,
    why: &'static str,
) -> Flag {
    Flag {
        name,
        short: None,
        argument,
        text,
        status: FlagStatus::Ignored(why),
    }
}

const fn refused(
    name: &'static str,
    argument: Argument,
    text: &'static str,
    why: &'static str,
    instead: &'static str,
) -> Flag {
    Flag {
        name,
        short: None,
        argument,
        text,
        status: FlagStatus::Refused(why, instead),
    }
}

use Argument::{None as Without, Optional, Required};

const NO_SERVER: &str = "there is no client and server of this kind";
const NO_TRIGGER: &str = "commands are not run from within a measurement";

/// Every flag.
pub(super) const FLAGS: &[Flag] = &[
    honoured(
        "output",
        'o',
        Required,
        "The file the result goes to.",
        |settings, value| {
            settings.output.file = Some(PathBuf::from(value));
            Ok(())
        },
    ),
    honoured(
        "output-format",
        'F',
        Required,
        "normal, json, json+, terse, or several with commas.",
        |settings, value| {
            settings.output.formats = formats(value)?;
            Ok(())
        },
    ),
    honoured(
        "minimal",
        'm',
        Without,
        "The same as `--output-format=terse`.",
        |settings, _| {
            settings.output.formats = vec![OutputFormat::Terse];
            Ok(())
        },
    ),
    honoured(
        "append-terse",
        'f',
        Optional,
        "Terse lines after the result.",
        |settings, _| {
            if !settings.output.formats.contains(&OutputFormat::Terse) {
                settings.output.formats.push(OutputFormat::Terse);
            }
            Ok(())
        },
    ),
    honoured(
        "terse-version",
        'V',
        Required,
        "The version of terse lines: 3.",
        |_, value| match value {
            "3" => Ok(()),
            _ => Err(
                Fault::refusal(format!("terse version `{value}` is not supported"))
                    .hint("write 3, or use `--output-format=json`"),
            ),
        },
    ),
    honoured(
        "status-interval",
        'L',
        Required,
        "Gives the result so far every so often.",
        |settings, value| {
            settings.output.status_interval = Some(at_least(value, 1)?);
            Ok(())
        },
    ),
    honoured(
        "eta",
        'e',
        Required,
        "Whether the time left is shown: always, never, auto.",
        |settings, value| {
            settings.output.eta = match value {
                "always" => Eta::Always,
                "never" => Eta::Never,
                "auto" => Eta::Auto,
                _ => return Err(word_fault(value, &["always", "never", "auto"])),
            };
            Ok(())
        },
    ),
    honoured(
        "eta-interval",
        'O',
        Required,
        "How often the time left is shown.",
        |settings, value| {
            settings.output.eta_interval = Some(at_least(value, 250)?);
            Ok(())
        },
    ),
    honoured(
        "eta-newline",
        'E',
        Required,
        "How often it gets a line of its own.",
        |settings, value| {
            settings.output.eta_newline = Some(at_least(value, 1)?);
            Ok(())
        },
    ),
    honoured(
        "section",
        'x',
        Required,
        "Runs only this section of the job file; may stand often.",
        |settings, value| {
            if value.starts_with("global") {
                return Err(
                    Fault::error("a global section is always read and is no job")
                        .hint("name a job's section"),
                );
            }
            settings.sections.push(value.to_owned());
            Ok(())
        },
    ),
    honoured(
        "readonly",
        'r',
        Without,
        "Refuses jobs that write or trim.",
        |settings, _| {
            settings.read_only = true;
            Ok(())
        },
    ),
    honoured(
        "warnings-fatal",
        'w',
        Without,
        "Treats warnings as errors.",
        |settings, _| {
            settings.warnings_fatal = true;
            Ok(())
        },
    ),
    honoured(
        "parse-only",
        'P',
        Without,
        "Reads the jobs and runs nothing.",
        |settings, _| {
            settings.parse_only = true;
            Ok(())
        },
    ),
    honoured(
        "showcmd",
        's',
        Without,
        "Shows job files as a command line.",
        |settings, _| {
            settings.show_command = true;
            Ok(())
        },
    ),
    honoured(
        "version",
        'v',
        Without,
        "Shows the version.",
        |settings, _| {
            settings.version = true;
            Ok(())
        },
    ),
    honoured("help", 'h', Without, "Shows this.", |settings, _| {
        settings.help = Some(("help", None));
        Ok(())
    }),
    honoured(
        "cmdhelp",
        'c',
        Optional,
        "Explains a job option, or lists all.",
        |settings, value| {
            settings.help = Some(("cmdhelp", some(value)));
            Ok(())
        },
    ),
    honoured(
        "enghelp",
        'i',
        Optional,
        "Explains an engine, or lists all.",
        |settings, value| {
            settings.help = Some(("enghelp", some(value)));
            Ok(())
        },
    ),
    ignored(
        "debug",
        Required,
        "Shows what happens within.",
        "the result and its warnings say what happened",
    ),
    ignored(
        "alloc-size",
        Required,
        "Memory set aside.",
        "memory is taken as it is needed",
    ),
    ignored(
        "max-jobs",
        Required,
        "Most jobs at once.",
        "there may be as many as are written",
    ),
    refused(
        "bandwidth-log",
        Optional,
        "A log of all jobs' bandwidth.",
        "logs belong to jobs",
        "`--write_bw_log=PREFIX`",
    ),
    refused(
        "latency-log",
        Required,
        "A log of latencies.",
        "it is deprecated",
        "`--write_lat_log=PREFIX`",
    ),
    refused(
        "inflate-log",
        Required,
        "Unpacks a compressed log.",
        "logs are plain text",
        "the tool that packed it",
    ),
    refused(
        "profile",
        Required,
        "A built-in set of jobs.",
        "built-in profiles are not here",
        "a job file",
    ),
    refused(
        "server",
        Optional,
        "Waits for clients.",
        NO_SERVER,
        "iodyno over ssh on that host",
    ),
    refused(
        "daemonize",
        Required,
        "Waits for clients in the background.",
        NO_SERVER,
        "iodyno over ssh on that host",
    ),
    refused(
        "client",
        Required,
        "Runs on a server.",
        NO_SERVER,
        "iodyno over ssh on that host",
    ),
    refused(
        "remote-config",
        Required,
        "Reads a job file on the server.",
        NO_SERVER,
        "iodyno over ssh on that host",
    ),
    refused(
        "idle-prof",
        Required,
        "Measures idle CPU.",
        "CPU use is always part of the result",
        "leaving it out",
    ),
    refused(
        "trigger-file",
        Required,
        "Runs a command when a file appears.",
        NO_TRIGGER,
        "SIGINT, which ends a run early and keeps it",
    ),
    refused(
        "trigger-timeout",
        Required,
        "Runs a command after a time.",
        NO_TRIGGER,
        "`--runtime`",
    ),
    refused(
        "trigger",
        Required,
        "That command.",
        NO_TRIGGER,
        "SIGINT, which ends a run early and keeps it",
    ),
    refused(
        "trigger-remote",
        Required,
        "That command on servers.",
        NO_TRIGGER,
        "SIGINT, which ends a run early and keeps it",
    ),
    refused(
        "aux-path",
        Required,
        "The folder of logs.",
        "logs go where their prefix says",
        "a path in `--write_bw_log=`",
    ),
    refused(
        "merge-blktrace-only",
        Without,
        "Only merges traces.",
        "traces are not read",
        "blktrace's own tools",
    ),
    refused(
        "cpuclock-test",
        Without,
        "Tests the clock.",
        "each result tells the clock source and what its reading costs",
        "`iodyno show RUN --json`",
    ),
    refused(
        "crctest",
        Optional,
        "Measures checksums.",
        "no storage is involved",
        "a CPU benchmark",
    ),
    refused(
        "memcpytest",
        Optional,
        "Measures memory copies.",
        "no storage is involved",
        "a memory benchmark",
    ),
];

fn some(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

fn word_fault(value: &str, words: &[&str]) -> Fault {
    let fault = Fault::error(format!("`{value}` is not one of its values"));
    match closest(value, words.iter().copied()) {
        Some(near) => fault.hint(format!("did you mean `{near}`?")),
        None => fault.hint(format!("write one of: {}", words.join(", "))),
    }
}

fn formats(value: &str) -> Result<Vec<OutputFormat>, Fault> {
    let mut formats = Vec::new();
    for word in value.split(',').map(str::trim) {
        let format = match word {
            "normal" => OutputFormat::Normal,
            "json" => OutputFormat::Json,
            "json+" => OutputFormat::JsonPlus,
            "terse" | "minimal" | "csv" => OutputFormat::Terse,
            _ => return Err(word_fault(word, &["normal", "json", "json+", "terse"])),
        };
        if !formats.contains(&format) {
            formats.push(format);
        }
    }
    Ok(formats)
}

/// A time in seconds of at least so many milliseconds.
fn at_least(value: &str, milliseconds: u64) -> Result<Nanos, Fault> {
    let read = time(value, TimeUnit::Seconds).map_err(|error| {
        let fault = Fault::error(error.to_string());
        match error.hint() {
            Some(hint) => fault.hint(hint),
            None => fault,
        }
    })?;
    match read >= Nanos::from_millis(milliseconds) {
        true => Ok(read),
        false => Err(Fault::error(format!("`{value}` is too short"))
            .hint(format!("write at least {milliseconds}ms"))),
    }
}
