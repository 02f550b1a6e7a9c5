//! Flags of the command line other than job options: destination and format of the output, and others.

use std::path::PathBuf;

use iodyno_options::{OptionSpec, Problem, Status, Unit, Unit::*, ignored, refused, value_of};
use iodyno_units::Nanos;

use super::number::{TimeUnit, time};
use super::output::{Eta, OutputFormat, OutputOptions};

/// The settings that flags change.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    pub(super) output: OutputOptions,
    pub(super) sections: Vec<String>,
    pub(super) read_only: bool,
    pub(super) warnings_fatal: bool,
    pub(super) parse_only: bool,
    pub(super) show_command: bool,
    pub(super) own: OwnFlags,
    pub(super) version: bool,
    pub(super) inflate_log: Option<PathBuf>,
    /// `--help`, `--cmdhelp` or `--enghelp`, with its argument.
    pub(super) help: Option<(&'static str, Option<String>)>,
}

/// iodyno's own flags among fio's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnFlags {
    /// Print no warnings.
    pub quiet: bool,
    /// Do not store the result.
    pub no_store: bool,
    /// Print the plan, and change nothing.
    pub dry_run: bool,
    /// Run the commands of jobs.
    pub allow_exec: bool,
    /// Devices and disk images that may be overwritten.
    pub destroy: Vec<PathBuf>,
}

/// A flag of the command line. An alias is a letter after a single dash.
pub(super) type Flag = OptionSpec<fn(&mut Settings, &str) -> Result<(), Problem>>;

/// A supported flag, with its letter.
const fn honoured(
    name: &'static str,
    letter: &'static [&'static str],
    unit: Unit,
    text: &'static str,
    set: fn(&mut Settings, &str) -> Result<(), Problem>,
) -> Flag {
    OptionSpec::new(name, unit, text, Status::Honoured(set)).alias(letter)
}

const NO_SERVER: &str =
    "a run starts its nodes itself and needs no server; nodes on other hosts are not supported yet";
const OVER_SSH: &str = "run `ssh HOST iodyno fio …` on each host";
const NO_TRIGGER: &str = "commands are not run during a measurement";

/// All flags.
#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    honoured("output", &["o"], Text, "File for the result.",
        |settings, value| { settings.output.file = Some(PathBuf::from(value)); Ok(()) }),
    honoured("output-format", &["F"], Text, "normal, json, json+, terse, or several, separated by commas.",
        |settings, value| formats(value).map(|it| settings.output.formats = it)),
    honoured("minimal", &["m"], Nothing, "The same as `--output-format=terse`.",
        |settings, _| { settings.output.formats = vec![OutputFormat::Terse]; Ok(()) }),
    honoured("append-terse", &["f"], OptionalText, "Adds terse lines after the result.", append_terse),
    honoured("terse-version", &["V"], Text, "Version of terse lines: 2 to 5; default: 3.", terse_version),
    honoured("status-interval", &["L"], Text, "Prints the result so far at this interval.",
        |settings, value| interval(value).map(|it| settings.output.status_interval = Some(it))),
    honoured("eta", &["e"], Text, "Whether the remaining time is shown: always, never, auto.", eta),
    ignored("eta-interval", Text, "Interval at which the remaining time is shown.", "it is updated once a second; `--eta-newline` prints lines").alias(&["O"]),
    honoured("eta-newline", &["E"], Text, "Interval at which it is printed on a new line.",
        |settings, value| interval(value).map(|it| settings.output.eta_newline = Some(it))),
    honoured("bandwidth-log", &["b"], OptionalText, "Writes the bandwidth of all jobs by second: `PREFIX-read_bw.log`, `-write_bw.log`, `-trim_bw.log`; default prefix: `agg`.", bandwidth_log),
    honoured("section", &["x"], Text, "Runs only this section of the job file; may be repeated.", section),
    honoured("readonly", &["r"], Nothing, "Refuses jobs that write or trim.",
        |settings, _| { settings.read_only = true; Ok(()) }),
    honoured("warnings-fatal", &["w"], Nothing, "Fails if fio would print a warning, or if an option that matters has no effect. Advice does not count.",
        |settings, _| { settings.warnings_fatal = true; Ok(()) }),
    honoured("parse-only", &["P"], Nothing, "Checks the options and the jobs, if there are any, and runs nothing.",
        |settings, _| { settings.parse_only = true; Ok(()) }),
    honoured("showcmd", &["s"], Nothing, "Shows job files as a command line.",
        |settings, _| { settings.show_command = true; Ok(()) }),
    honoured("version", &["v"], Nothing, "Shows the version of fio whose command line and output these are.", |settings, _| { settings.version = true; Ok(()) }),
    honoured("help", &["h"], Nothing, "Shows this.", |settings, _| { settings.help = Some(("help", None)); Ok(()) }),
    honoured("cmdhelp", &["c"], OptionalText, "Explains a job option, or lists all.",
        |settings, value| { settings.help = Some(("cmdhelp", some(value))); Ok(()) }),
    honoured("enghelp", &["i"], OptionalText, "Explains an engine, or lists all.",
        |settings, value| { settings.help = Some(("enghelp", some(value))); Ok(()) }),
    honoured("quiet", &["q"], Nothing, "iodyno's own: prints errors on standard error, but no warnings.",
        |settings, _| { settings.own.quiet = true; Ok(()) }),
    honoured("no-store", &[], Nothing, "iodyno's own: does not store the result.",
        |settings, _| { settings.own.no_store = true; Ok(()) }),
    honoured("destroy", &[], Text, "iodyno's own: allows overwriting the data on this device, or the disk image in this file.",
        |settings, value| { settings.own.destroy.push(PathBuf::from(value)); Ok(()) }),
    honoured("dry-run", &[], Nothing, "iodyno's own: prints the plan and what a run would do with its files and devices, and changes nothing.",
        |settings, _| { settings.own.dry_run = true; Ok(()) }),
    honoured("allow-exec", &[], Nothing, "iodyno's own: runs the commands of `exec_prerun` and `exec_postrun`.",
        |settings, _| { settings.own.allow_exec = true; Ok(()) }),
    honoured("inflate-log", &["X"], Text, "Prints a log of `log_store_compressed`.",
        |settings, value| { settings.inflate_log = Some(PathBuf::from(value)); Ok(()) }),
    honoured("idle-prof", &["I"], Text, "Adds the idle share of all CPUs to the result (system). percpu: the same; `iodyno show last --series cpu` prints each CPU.", idle_prof),
    ignored("debug", Text, "Shows internal events.", "fio's events do not exist here; `iodyno -vv fio …` logs what iodyno does").alias(&["d"]),
    ignored("alloc-size", Text, "Amount of memory to reserve.", "memory is allocated as needed").alias(&["a"]),
    ignored("max-jobs", Text, "Maximum number of jobs.", "the number of jobs is not limited").alias(&["j"]),
    ignored("aux-path", Text, "The folder of state files.", "no state files are written there: `verify_dump` writes to the current folder").alias(&["K"]),
    refused("store", Text, "The store of the results.", "it is a flag of iodyno and must precede fio's options", "write it first, or set `IODYNO_STORE`"),
    refused("latency-log", Text, "A log of latencies.", "it is deprecated", "use `--write_lat_log=PREFIX`").alias(&["l"]),
    refused("profile", Text, "A built-in set of jobs.", "there are no built-in profiles", "use a job file").alias(&["p"]),
    refused("server", OptionalText, "Waits for clients.", NO_SERVER, OVER_SSH).alias(&["S"]),
    refused("daemonize", Text, "Waits for clients in the background.", NO_SERVER, OVER_SSH).alias(&["D"]),
    refused("client", Text, "Runs on a server.", NO_SERVER, OVER_SSH).alias(&["C"]),
    refused("remote-config", Text, "Reads a job file on the server.", NO_SERVER, OVER_SSH).alias(&["R"]),
    refused("trigger-file", Text, "Runs a command when a file appears.", NO_TRIGGER, "use SIGINT, which ends a run early and keeps its results").alias(&["W"]),
    refused("trigger-timeout", Text, "Runs a command after a time.", NO_TRIGGER, "use `--runtime`").alias(&["B"]),
    refused("trigger", Text, "That command.", NO_TRIGGER, "use SIGINT, which ends a run early and keeps its results").alias(&["H"]),
    refused("trigger-remote", Text, "That command on servers.", NO_TRIGGER, "use SIGINT, which ends a run early and keeps its results").alias(&["J"]),
    refused("merge-blktrace-only", Nothing, "Only merges traces.", "traces are not merged", "use blktrace's own tools").alias(&["A"]),
    refused("cpuclock-test", Nothing, "Tests the clock.", "each result contains the clock source and the cost of reading it", "use `iodyno show RUN --json`").alias(&["T"]),
    refused("crctest", OptionalText, "Measures checksums.", "no storage is involved", "use a CPU benchmark").alias(&["G"]),
    refused("memcpytest", OptionalText, "Measures memory copies.", "no storage is involved", "use a memory benchmark").alias(&["M"]),
];

/// The names of the supported flags, without letters.
pub fn honoured_flags() -> impl Iterator<Item = &'static str> {
    let honoured = FLAGS.iter().filter(|flag| flag.honoured());
    honoured.map(|flag| flag.name)
}

/// The share is that of the kernel's counters; there is no unit of work whose time fio adds.
fn idle_prof(settings: &mut Settings, value: &str) -> Result<(), Problem> {
    if value == "calibrate" {
        return Err(Problem::refusal(
            "`--idle-prof=calibrate` is not supported: there is no unit of work to calibrate",
        )
        .hint("leave it out"));
    }
    let words = [("system", ()), ("percpu", ()), ("calibrate", ())];
    value_of("--idle-prof", value, &words)?;
    settings.output.idle_prof = true;
    Ok(())
}

fn append_terse(settings: &mut Settings, _: &str) -> Result<(), Problem> {
    settings.output.formats.push(OutputFormat::Terse);
    settings.output.formats = in_order(std::mem::take(&mut settings.output.formats));
    Ok(())
}

fn bandwidth_log(settings: &mut Settings, value: &str) -> Result<(), Problem> {
    let prefix = some(value).unwrap_or_else(|| "agg".to_owned());
    settings.output.bandwidth_log = Some(PathBuf::from(prefix));
    Ok(())
}

fn terse_version(settings: &mut Settings, value: &str) -> Result<(), Problem> {
    match value.parse() {
        Ok(version @ 2..=5) => settings.output.terse_version = version,
        _ => {
            return Err(
                Problem::error(format!("there is no terse version `{value}`"))
                    .hint("write 2, 3, 4 or 5"),
            );
        }
    }
    Ok(())
}

fn eta(settings: &mut Settings, value: &str) -> Result<(), Problem> {
    let words = [
        ("always", Eta::Always),
        ("never", Eta::Never),
        ("auto", Eta::Auto),
    ];
    settings.output.eta = value_of("--eta", value, &words)?;
    Ok(())
}

fn section(settings: &mut Settings, value: &str) -> Result<(), Problem> {
    if value.starts_with("global") {
        return Err(
            Problem::error("a global section is always read and is not a job")
                .hint("name a job's section"),
        );
    }
    settings.sections.push(value.to_owned());
    Ok(())
}

fn some(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

fn formats(value: &str) -> Result<Vec<OutputFormat>, Problem> {
    let mut formats = Vec::new();
    for word in value.split(',').map(str::trim) {
        let format = match word {
            "minimal" | "csv" => OutputFormat::Terse,
            _ => value_of(
                "--output-format",
                word,
                &[
                    ("normal", OutputFormat::Normal),
                    ("json", OutputFormat::Json),
                    ("json+", OutputFormat::JsonPlus),
                    ("terse", OutputFormat::Terse),
                ],
            )?,
        };
        formats.push(format);
    }
    Ok(in_order(formats))
}

/// Each format once, in the order in which fio prints them. JSON with bins replaces JSON without.
fn in_order(mut formats: Vec<OutputFormat>) -> Vec<OutputFormat> {
    formats.sort();
    formats.dedup();
    if formats.contains(&OutputFormat::JsonPlus) {
        formats.retain(|format| *format != OutputFormat::Json);
    }
    formats
}

/// A time in seconds, at least a millisecond.
fn interval(value: &str) -> Result<Nanos, Problem> {
    let read = time(value, TimeUnit::Seconds).map_err(|error| {
        let fault = Problem::error(error.to_string());
        match error.hint() {
            Some(hint) => fault.hint(hint),
            None => fault,
        }
    })?;
    match read >= Nanos::from_millis(1) {
        true => Ok(read),
        false => Err(Problem::error(format!("`{value}` is too short")).hint("write at least 1ms")),
    }
}
