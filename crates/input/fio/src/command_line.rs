//! fio's command line: options, jobs defined by `--name`, and job files, in any order.

use std::collections::BTreeSet;
use std::path::PathBuf;

use iodyno_model::{Diagnostic, HeaderFormat, Place, Source, closest};
use iodyno_options::{Problem, Unit};

use super::apply::say;
use super::assemble::Assembly;
use super::flags::{FLAGS, Flag, OwnFlags, Settings};
use super::help;
use super::host::Host;
use super::options::{OPTIONS, OptionSpec};
use super::output::OutputOptions;
use super::parsed::Parsed;
use super::text::{COMMAND_LINE, Entry, Section};

/// What the command line requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Run the jobs.
    Run,
    /// Only check the jobs.
    ParseOnly,
    /// Print the program's version.
    Version,
    /// Print this compressed log.
    InflateLog(PathBuf),
    /// Print this text and run nothing.
    Print(String),
    /// Print this text about a name that does not exist, and fail.
    PrintAndFail(String),
}

/// A parsed command line.
#[derive(Debug, Clone)]
pub struct CommandLine {
    /// Its jobs, and those of its files.
    pub parsed: Parsed,
    /// Destination of the result.
    pub output: OutputOptions,
    /// The action.
    pub action: Action,
    /// iodyno's own flags.
    pub own: OwnFlags,
    /// The messages of the warnings that `--warnings-fatal` makes errors; other warnings are advice.
    pub serious: BTreeSet<String>,
}

/// Parses the arguments after the program's name.
pub fn parse_command_line(args: &[String], host: &dyn Host) -> CommandLine {
    let mut reader = Reader::new(args, host);
    reader.read();
    let Reader {
        settings,
        globals,
        sections,
        files,
        line,
        mut assembly,
        ..
    } = reader;
    if let Some(action) = asked_for_text(&settings, &sections, &files) {
        let parsed = Parsed {
            workload: None,
            diagnostics: assembly.report.diagnostics,
            well_formed: true,
        };
        return CommandLine {
            parsed,
            output: settings.output,
            action,
            own: settings.own,
            serious: BTreeSet::new(),
        };
    }
    assembly.sources.push(Source {
        name: COMMAND_LINE.to_owned(),
        text: line,
    });
    assembly.only(settings.sections.clone());
    assembly.read_only = settings.read_only;
    // As in fio, probes such as `--ioengine=io_uring --parse-only` need neither a job nor a size.
    assembly.report.runs_nothing = settings.parse_only || settings.show_command;
    assembly.verify_header = HeaderFormat::Fio;
    let mut for_files = globals.clone();
    let global_sections = sections.iter().filter(|section| section.is_global());
    for_files.extend(global_sections.flat_map(|section| section.entries.clone()));
    // If there is no job file yet, the workload is named after a job.
    assembly.sections(sections.clone(), &globals, false);
    for file in &files {
        assembly.file(file, &for_files);
    }
    if files.len() > 1 && !for_files.is_empty() {
        let note = Problem::note("options before the job files count for all of them")
            .hint("fio applies them to the first file only");
        say(&mut assembly.report, note, None);
    }
    let serious = std::mem::take(&mut assembly.report.fatal_warnings);
    let mut parsed = assembly.parsed();
    if settings.warnings_fatal {
        make_fatal(&serious, &mut parsed);
    }
    let action = match (&parsed.workload, settings.show_command) {
        (Some(workload), true) => Action::Print(help::as_commands(workload)),
        _ if settings.parse_only => Action::ParseOnly,
        _ => Action::Run,
    };
    CommandLine {
        parsed,
        output: settings.output,
        action,
        own: settings.own,
        serious,
    }
}

fn asked_for_text(settings: &Settings, sections: &[Section], files: &[PathBuf]) -> Option<Action> {
    if settings.version {
        return Some(Action::Version);
    }
    if let Some(log) = &settings.inflate_log {
        return Some(Action::InflateLog(log.clone()));
    }
    match &settings.help {
        Some(("cmdhelp", name)) => Some(Action::Print(help::option_help(name.as_deref()))),
        Some(("enghelp", name)) => Some(match help::engine_help(name.as_deref()) {
            Ok(text) => Action::Print(text),
            Err(text) => Action::PrintAndFail(text),
        }),
        Some(_) => Some(Action::Print(help::usage())),
        None if settings.show_command && sections.is_empty() && files.is_empty() => {
            Some(Action::Print(String::new()))
        }
        None => None,
    }
}

fn make_fatal(warnings: &BTreeSet<String>, parsed: &mut Parsed) {
    if warnings.is_empty() {
        return;
    }
    parsed.workload = None;
    parsed.well_formed = false;
    let errors = warnings.iter().map(|warning| {
        let message = format!("`--warnings-fatal` makes this an error: {warning}");
        Diagnostic::error(message).hint("change it, or leave `--warnings-fatal` out")
    });
    parsed.diagnostics.extend(errors);
}

struct Reader<'a> {
    args: &'a [String],
    next: usize,
    /// The arguments, joined by spaces, for locations.
    line: String,
    /// Column at which each argument starts, in characters from 1.
    columns: Vec<u32>,
    settings: Settings,
    globals: Vec<Entry>,
    sections: Vec<Section>,
    files: Vec<PathBuf>,
    assembly: Assembly<'a>,
}

/// The target of an argument.
enum Known {
    Flag(&'static Flag),
    Option(&'static OptionSpec),
}

impl<'a> Reader<'a> {
    fn new(args: &'a [String], host: &'a dyn Host) -> Reader<'a> {
        let mut columns = Vec::new();
        let mut column = 1;
        for arg in args {
            columns.push(column);
            column += arg.chars().count() as u32 + 1;
        }
        Reader {
            args,
            next: 0,
            line: args.join(" "),
            columns,
            settings: Settings::default(),
            globals: Vec::new(),
            sections: Vec::new(),
            files: Vec::new(),
            assembly: Assembly::new(host),
        }
    }

    fn read(&mut self) {
        let mut only_files = false;
        while let Some(arg) = self.args.get(self.next) {
            let index = self.next;
            self.next += 1;
            if arg == "--" && !only_files {
                only_files = true;
            } else if only_files || arg == "-" || !arg.starts_with('-') {
                self.files.push(PathBuf::from(arg));
            } else {
                self.argument(index, arg);
            }
        }
    }

    fn argument(&mut self, index: usize, arg: &str) {
        let dashes = if arg.starts_with("--") { 2 } else { 1 };
        let (name, value) = match arg[dashes..].split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (&arg[dashes..], None),
        };
        match self.known(index, name, dashes) {
            Some(Known::Flag(flag)) => self.flag(index, flag, name, value),
            Some(Known::Option(option)) => self.option(index, option, name, value, dashes),
            None => {}
        }
    }

    /// The flag or option of this name, or with this unambiguous prefix.
    fn known(&mut self, index: usize, name: &str, dashes: usize) -> Option<Known> {
        if let Some(option) = OPTIONS.find(name) {
            // `--profile` is both; the refusal of the flag is more specific.
            if !FLAGS.iter().any(|flag| flag.name == name) {
                return Some(Known::Option(option));
            }
        }
        let flag = FLAGS
            .iter()
            .find(|flag| flag.name == name || (dashes == 1 && flag.aliases.contains(&name)));
        if let Some(flag) = flag {
            return Some(Known::Flag(flag));
        }
        let all = || {
            let flags = FLAGS.iter().map(|flag| flag.name);
            flags.chain(OPTIONS.options().flat_map(OptionSpec::names))
        };
        let mut longer = all().filter(|known| name.len() > 1 && known.starts_with(name));
        if let (Some(only), None) = (longer.next(), longer.next()) {
            let note = Problem::note(format!("`--{name}` is taken for `--{only}`"));
            let hint = format!("write `--{only}`");
            let place = self.place(index, dashes, name.chars().count());
            say(&mut self.assembly.report, note.hint(hint), Some(place));
            return self.known(index, only, 2);
        }
        let hint = match closest(name, all()) {
            Some(near) => format!("did you mean `--{near}`?"),
            None => "`--cmdhelp` lists job options, `--help` the rest".to_owned(),
        };
        let place = self.place(index, 0, dashes + name.chars().count());
        self.assembly.report.push(
            Diagnostic::error(format!("unknown option `{}{name}`", &"--"[..dashes]))
                .at(place)
                .hint(hint),
        );
        None
    }

    fn place(&self, index: usize, offset: usize, length: usize) -> Place {
        Place {
            file: PathBuf::from(COMMAND_LINE),
            line: 1,
            column: self.columns.get(index).copied().unwrap_or(1) + offset as u32,
            length: length.max(1) as u32,
            text: self.line.clone(),
        }
    }

    fn flag(&mut self, index: usize, flag: &'static Flag, name: &str, value: Option<String>) {
        let value = match (flag.unit, value) {
            (Unit::Text, None) => self.following(),
            (_, value) => value,
        };
        let outcome = match (flag.unit, &value) {
            (Unit::Text, None) => Err(Problem::error(format!("`--{name}` needs a value"))
                .hint(format!("write `--{}=…`", flag.name))),
            (Unit::Nothing, Some(_)) => Err(Problem::error(format!("`--{name}` takes no value"))),
            _ => {
                let value = value.as_deref().unwrap_or_default();
                let written = format!("--{}", flag.name);
                flag.apply(&written, value, |set| set(&mut self.settings, value))
            }
        };
        if let Err(fault) = outcome {
            let length = self.args[index].chars().count();
            let place = self.place(index, 0, length);
            say(&mut self.assembly.report, fault, Some(place));
        }
    }

    /// The next argument as this one's value.
    fn following(&mut self) -> Option<String> {
        let next = self.args.get(self.next)?;
        if next.starts_with("--") {
            return None;
        }
        self.next += 1;
        Some(next.clone())
    }

    fn option(
        &mut self,
        index: usize,
        option: &'static OptionSpec,
        name: &str,
        value: Option<String>,
        dashes: usize,
    ) {
        let at_next = self.next;
        let value = value.or_else(|| match option.unit {
            // `--direct 1`, but not `--thread --rw=read` nor `--thread job.fio`.
            Unit::Boolean => {
                let next = self.args.get(self.next).map(String::as_str);
                let word = next.filter(|next| matches!(*next, "0" | "1" | "true" | "false"));
                self.next += usize::from(word.is_some());
                word.map(str::to_owned)
            }
            _ => self.following(),
        });
        let length = name.chars().count();
        let key_place = self.place(index, dashes, length);
        let value_place = match &value {
            Some(value) if self.next > at_next => self.place(at_next, 0, value.chars().count()),
            Some(value) if !value.is_empty() => {
                self.place(index, dashes + length + 1, value.chars().count())
            }
            _ => key_place.clone(),
        };
        if option.name == "name" {
            self.begin(index, value.as_deref(), key_place);
            return;
        }
        let entry = Entry {
            key: option.name.to_owned(),
            value: value.map(|value| value.trim().to_owned()),
            key_place,
            value_place,
            spaced: false,
        };
        match self.sections.last_mut() {
            Some(section) => section.entries.push(entry),
            None => self.globals.push(entry),
        }
    }

    /// Starts a new job, for `--name`.
    fn begin(&mut self, index: usize, name: Option<&str>, place: Place) {
        match name.map(str::trim).filter(|name| !name.is_empty()) {
            Some(name) => self.sections.push(Section {
                name: name.to_owned(),
                place: self.place(index, 0, self.args[index].chars().count()),
                entries: Vec::new(),
                by_option: true,
            }),
            None => self.assembly.report.push(
                Diagnostic::error("`--name` needs a value")
                    .at(place)
                    .hint("write `--name=randread`"),
            ),
        }
    }
}
