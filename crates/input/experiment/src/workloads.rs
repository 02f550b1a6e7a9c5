//! The work of a workload: fio, file operations or sysbench fileio, by the crates of those languages.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::document::{Entry, Node, Report, Section, Table, Value, wrong};
use crate::fileops::{Described, Overrides};
use iodyno_fio::Host;
use iodyno_model::printable::shell_word;
use iodyno_model::{
    Configuration, Diagnostic, DiskInterface, EngineKind, Job, Layer, Severity, Source, Work,
    Workload,
};
use iodyno_units::Nanos;

use crate::check::{Keyed, scalars};
use crate::command;

/// The languages of a workload's work; exactly one is given.
pub(crate) const TOOLS: [&str; 4] = ["fio", "fs", "fileio", "command"];

/// Whether an axis with this name sets an option of the tool.
pub(crate) fn is_option(tool: &str, name: &str) -> bool {
    let dashed = name.replace('_', "-");
    match tool {
        "fio" => iodyno_fio::option_names().any(|known| known == name),
        "fs" => crate::fileops::SETTINGS.contains(&dashed.as_str()),
        "command" => false,
        _ => iodyno_sysbench::option_names().any(|known| known == dashed),
    }
}

/// Why an option of the tool has no effect; `None` if it has one.
pub(crate) fn ignored_option(tool: &str, name: &str) -> Option<&'static str> {
    match tool {
        "fio" => iodyno_fio::ignored_option(name),
        "fs" | "command" => None,
        _ => iodyno_sysbench::ignored_option(&name.replace('_', "-")),
    }
}

/// What the work is read with.
pub(crate) struct Reader<'a, 't> {
    /// The name of the experiment's file; job files are relative to its folder.
    pub(crate) source: &'a str,
    pub(crate) host: &'a dyn Host,
    /// Options of axes, by the tool's names. They take precedence over those of the tool's own table.
    pub(crate) options: &'a [Entry],
    pub(crate) duration: Option<Nanos>,
    /// Where `duration` is written.
    pub(crate) duration_at: Range<usize>,
    pub(crate) report: &'a mut Report<'t>,
}

/// Work with the name of its job file or operation; `None` for a table.
pub(crate) type NamedWork = (Option<String>, Workload);

impl Reader<'_, '_> {
    /// The work of a tool. `job`: the name of a job that is made from a table. Faults are reported, and what has one is
    /// left out.
    pub(crate) fn work(&mut self, tool: &str, job: &str, keyed: &Keyed<'_>) -> Vec<NamedWork> {
        let Some(node) = keyed.value(tool) else {
            return Vec::new();
        };
        match tool {
            "fio" => self.fio(job, node, keyed),
            "fs" => self.file_operations(job, node, keyed),
            "command" => {
                let workload = command::read(job, self.duration, keyed, self.report);
                workload
                    .map(|workload| (None, workload))
                    .into_iter()
                    .collect()
            }
            _ => self.fileio(node, keyed).into_iter().collect(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        let folder = Path::new(self.source).parent().unwrap_or(Path::new(""));
        folder.join(name)
    }

    /// Adds diagnostics about another text, which is named at a range. Those with a place in it keep it.
    fn foreign(&mut self, at: &Range<usize>, found: Vec<Diagnostic>) {
        for diagnostic in found {
            match (diagnostic.severity, &diagnostic.place) {
                (Severity::Note, _) => {}
                (_, Some(_)) => self.report.add_foreign(diagnostic),
                (_, None) => self.report.add(at.clone(), diagnostic),
            }
        }
    }

    fn fio(&mut self, job: &str, node: &Node, keyed: &Keyed<'_>) -> Vec<NamedWork> {
        if let Some(table) = node.as_table() {
            let mut entries = scalars(table, "", self.report);
            for option in self.options {
                let of_option = Table {
                    entries: vec![option.clone()],
                };
                for (entry, text) in scalars(&of_option, "", self.report) {
                    entries.retain(|(other, _)| !iodyno_fio::replaces(&other.key, &entry.key));
                    entries.push((entry, text));
                }
            }
            return self.job(job, node, entries).into_iter().collect();
        }
        let own = Table {
            entries: self.options.to_vec(),
        };
        let mut overrides: Vec<(String, String)> = scalars(&own, "", self.report)
            .into_iter()
            .map(|(entry, text)| (entry.key, text))
            .collect();
        self.twice(&["runtime"], self.options);
        overrides.extend(self.runtime());
        let mut found = Vec::new();
        for text in self.texts(
            "fio",
            "a path, an array of paths or a table of options",
            node,
            keyed,
        ) {
            let path = self.path(&text.0);
            let parsed =
                iodyno_fio::parse_files(std::slice::from_ref(&path), &overrides, self.host);
            self.foreign(&text.1, parsed.diagnostics);
            let stem = path
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned());
            found.extend(parsed.workload.map(|workload| (stem, workload)));
        }
        found
    }

    /// `duration` as options of fio.
    fn runtime(&self) -> Vec<(String, String)> {
        let Some(duration) = self.duration else {
            return Vec::new();
        };
        let seconds = duration.0 / Nanos::SECOND.0;
        let runtime = match duration == Nanos::from_secs(seconds) {
            true => format!("{seconds}s"),
            false => format!("{}us", duration.0 / 1000),
        };
        vec![
            ("runtime".to_owned(), runtime),
            ("time_based".to_owned(), "1".to_owned()),
        ]
    }

    /// Reports `duration` beside an option of these names, which gives the measured time, too.
    fn twice<'e>(&mut self, names: &[&str], options: impl IntoIterator<Item = &'e Entry>) {
        let mut options = options.into_iter();
        let found = options.find(|option| names.contains(&option.key.replace('_', "-").as_str()));
        if let (Some(option), Some(_)) = (found, self.duration) {
            let message = format!(
                "both `duration` and `{}` give the measured time",
                option.key
            );
            let hint = "leave one of them out";
            self.report.error(option.key_at.clone(), message, hint);
        }
    }

    /// One job of fio, from options. It is read as a job file with an option per line; messages name the option here.
    fn job(&mut self, name: &str, node: &Node, entries: Vec<(Entry, String)>) -> Option<NamedWork> {
        let mut lines: Vec<(String, Range<usize>, Range<usize>)> = Vec::new();
        for (entry, text) in &entries {
            let text = match entry.node.value {
                Value::Switch(on) => u8::from(on).to_string(),
                _ => text.clone(),
            };
            if text.contains(['\n', '\r', '#', ';']) {
                let message = format!("the value of `{}` cannot be part of a job file", entry.key);
                let hint = "leave out line ends, `#` and `;`";
                self.report.error(entry.node.at.clone(), message, hint);
                continue;
            }
            let line = format!("{}={text}", entry.key);
            lines.push((line, entry.key_at.clone(), entry.node.at.clone()));
        }
        self.twice(&["runtime"], entries.iter().map(|(entry, _)| entry));
        for (key, value) in self.runtime() {
            let at = self.duration_at.clone();
            lines.retain(|(line, ..)| !line.starts_with(&format!("{key}=")));
            lines.push((format!("{key}={value}"), at.clone(), at));
        }
        let mut text = format!("[{name}]\n");
        for (line, ..) in &lines {
            text += line;
            text.push('\n');
        }
        let path = PathBuf::from(format!("{} [workload.{name}]", self.source));
        let parsed = iodyno_fio::parse_text(&path, &text, self.host);
        for diagnostic in parsed.diagnostics {
            if diagnostic.severity == Severity::Note {
                continue;
            }
            let at = diagnostic.place.as_ref().and_then(|place| {
                let (line, key, value) = lines.get((place.line as usize).checked_sub(2)?)?;
                let equals = line.find('=').unwrap_or(0);
                Some(match place.column as usize > equals {
                    true => value.clone(),
                    false => key.clone(),
                })
            });
            self.report
                .add(at.unwrap_or_else(|| node.at.clone()), diagnostic);
        }
        let mut workload = parsed.workload?;
        for job in &mut workload.jobs {
            job.place = Some(self.report.place(node.at.clone()));
        }
        Some((None, workload))
    }

    fn texts(
        &mut self,
        name: &str,
        what: &str,
        node: &Node,
        keyed: &Keyed<'_>,
    ) -> Vec<(String, Range<usize>)> {
        let nodes = match &node.value {
            Value::List(list) => list.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let texts: Option<Vec<(String, Range<usize>)>> = nodes
            .iter()
            .map(|node| Some((node.as_text()?.to_owned(), node.at.clone())))
            .collect();
        match texts {
            Some(texts) if !texts.is_empty() => texts,
            _ => {
                let at = keyed.value(name).map_or(0..0, |node| node.at.clone());
                self.report.plain_error(at, wrong(name, what, node));
                Vec::new()
            }
        }
    }

    fn file_operations(&mut self, job: &str, node: &Node, keyed: &Keyed<'_>) -> Vec<NamedWork> {
        let mut overrides = Overrides {
            duration: self.duration,
            ..Overrides::default()
        };
        let own = Table {
            entries: self.options.to_vec(),
        };
        let mut settings = scalars(&own, "", self.report);
        let mut names = node;
        if let Some(table) = node.as_table() {
            if table.get("cycle").is_some() {
                self.set(&mut overrides, settings);
                return self.own_operations(job, node, table, keyed, &overrides);
            }
            let mut options = table.clone();
            options.remove("names");
            let mut options = scalars(&options, "", self.report);
            options.retain(|(entry, _)| !settings.iter().any(|(other, _)| other.key == entry.key));
            settings.extend(options);
            match table.get("names") {
                Some(found) => names = found,
                None => {
                    let hint = "add `names = [\"create_empty\"]`, or the steps as `cycle`";
                    self.report.error(node.at.clone(), "`fs` has no work", hint);
                    return Vec::new();
                }
            }
        }
        self.set(&mut overrides, settings);
        let what = "a name, an array of names or a table";
        let texts = self.texts("fs", what, names, keyed);
        let mut suite: Vec<Described> = Vec::new();
        for (text, at) in &texts {
            match self.described(text) {
                Ok(described) => suite.push(described),
                Err(faults) => self.foreign(at, faults),
            }
        }
        let (changed, warnings) = crate::fileops::with_all(&suite, &overrides);
        for mut warning in warnings {
            let hint = "make a workload of it alone: its `duration` ends it earlier";
            warning.hint = Some(hint.to_owned());
            let at = match self.duration {
                Some(_) => self.duration_at.clone(),
                None => node.at.clone(),
            };
            self.report.add(at, warning);
        }
        let mut found = Vec::new();
        for described in changed {
            match described {
                Ok(described) => found.push((Some(described.name.clone()), described.workload())),
                Err(faults) => self.foreign(&node.at, faults),
            }
        }
        found
    }

    /// File operations whose steps are in the workload itself.
    fn own_operations(
        &mut self,
        job: &str,
        node: &Node,
        table: &Table,
        keyed: &Keyed<'_>,
        overrides: &Overrides,
    ) -> Vec<NamedWork> {
        let mut table = table.clone();
        if let (None, Some(value)) = (table.get("duration"), keyed.value("duration")) {
            table.set(Entry {
                key: "duration".to_owned(),
                key_at: self.duration_at.clone(),
                node: value.clone(),
            });
        }
        let section = Section::new(&table, node.at.clone(), "the workload");
        let described = crate::fileops::read_table(job, &section, self.report);
        match described.map(|described| described.with(overrides)) {
            Some(Ok(described)) => vec![(None, described.workload())],
            Some(Err(faults)) => {
                self.foreign(&node.at, faults);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn set(&mut self, overrides: &mut Overrides, settings: Vec<(Entry, String)>) {
        for (entry, text) in settings {
            // `files.SET = N` is the option for one set.
            let (key, value) = match entry.key.split_once('.') {
                Some((key, set)) => (key, format!("{set}={text}")),
                None => (entry.key.as_str(), text),
            };
            if let Err(why) = overrides.set(key, &value) {
                let message = format!("`{key}` of file operations: {why}");
                self.report.plain_error(entry.key_at.clone(), message);
            }
        }
    }

    fn described(&self, name: &str) -> Result<Described, Vec<Diagnostic>> {
        if name.ends_with(".toml") {
            let path = self.path(name);
            return match self.host.read(&path) {
                Ok(text) => crate::fileops::read(&path.display().to_string(), &text),
                Err(error) => Err(vec![
                    Diagnostic::error(format!("cannot read `{}`: {error}", path.display()))
                        .hint("check the path; it is relative to the folder of the experiment"),
                ]),
            };
        }
        crate::fileops::named(name).ok_or_else(|| {
            let hint = match crate::fileops::suggest(name) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`iodyno fs list` lists the names; files end in .toml".to_owned(),
            };
            let message = format!("there are no file operations named `{name}`");
            vec![Diagnostic::error(message).hint(hint)]
        })
    }

    fn fileio(&mut self, node: &Node, keyed: &Keyed<'_>) -> Option<NamedWork> {
        let mut entries = keyed.scalars("fileio", self.report);
        for option in self.options {
            let dashed = option.key.replace('_', "-");
            entries.retain(|(other, _)| other.key.replace('_', "-") != dashed);
            entries.push((option.clone(), option.node.scalar().unwrap_or_default()));
        }
        self.twice(
            &["time", "max-time"],
            entries.iter().map(|(entry, _)| entry),
        );
        let mut command = "run".to_owned();
        let mut arguments: Vec<(String, Range<usize>)> = Vec::new();
        for (entry, text) in entries {
            let text = match entry.node.value {
                Value::Switch(on) => if on { "on" } else { "off" }.to_owned(),
                _ => text,
            };
            if entry.key != "command" {
                let option = format!("--{}={text}", entry.key.replace('_', "-"));
                arguments.push((option, entry.key_at));
            } else if ["run", "prepare"].contains(&text.as_str()) {
                command = text;
            } else {
                let hint = "it is `run` or `prepare`";
                let message = format!("`command` cannot be {text:?}");
                self.report.error(entry.node.at.clone(), message, hint);
            }
        }
        if self.duration.is_some() && command == "prepare" {
            let message = "`duration` has no effect: `prepare` creates the files and ends";
            self.report
                .error(self.duration_at.clone(), message, "leave it out");
        }
        if let Some(duration) = self.duration {
            arguments.retain(|(option, _)| !option.starts_with("--time="));
            let seconds = duration.secs();
            arguments.push((format!("--time={seconds}"), self.duration_at.clone()));
        }
        arguments.push((command, node.at.clone()));
        let words: Vec<String> = arguments.iter().map(|(word, _)| word.clone()).collect();
        let (diagnostics, command) = match iodyno_sysbench::read(&words) {
            Ok(command) => (command.notes.clone(), Some(command)),
            Err(diagnostics) => (diagnostics, None),
        };
        for diagnostic in diagnostics {
            if diagnostic.severity == Severity::Note {
                continue;
            }
            let word = diagnostic
                .place
                .as_ref()
                .and_then(|place| word_at(&words, place.column));
            let at = word.map_or(node.at.clone(), |word| arguments[word].1.clone());
            self.report.add(at, diagnostic);
        }
        let mut workload = command?.workload()?;
        for job in &mut workload.jobs {
            if let Work::SharedFiles(rule) = &mut job.work {
                rule.lay_out = true;
            }
        }
        Some((None, workload))
    }
}

/// The word at a column of a command line, from 1.
fn word_at(words: &[String], column: u32) -> Option<usize> {
    let mut end = 0;
    words.iter().position(|word| {
        end += shell_word(word).chars().count() + 1;
        column as usize <= end
    })
}

/// A workload whose source is named after the experiment.
pub(crate) fn renamed(mut workload: Workload, source: &str) -> Workload {
    if let [Source { name: file, .. }] = workload.sources.as_mut_slice()
        && file.starts_with('<')
    {
        *file = format!("{source} [workload.{}]", workload.name);
    }
    workload
}

/// Reports that a workload issues NVMe commands, and runs on storage that is made and is not an NVMe device.
pub(crate) fn check_passthrough(
    (workload, at): (&Workload, &Range<usize>),
    configurations: &[Configuration],
    report: &mut Report<'_>,
) {
    let passes = |job: &Job| {
        let blocks = job.work.blocks();
        blocks.is_some_and(|blocks| blocks.engine.kind == EngineKind::IoUringCmd)
    };
    if !workload.jobs.iter().any(passes) {
        return;
    }
    let runs = |it: &&Configuration| workload.runs_on(it, configurations);
    for configuration in configurations.iter().filter(runs) {
        let Some(provision) = configuration.provision() else {
            continue;
        };
        let mut layers = provision.layers.iter();
        let fits = match layers.find(|layer| !matches!(layer, Layer::Throttle(_))) {
            // The guard finds out which device it is.
            Some(Layer::Device { .. }) | None => true,
            Some(Layer::Vm(vm)) => vm.share.is_none() && vm.disk().interface == DiskInterface::Nvme,
            Some(_) => false,
        };
        if !fits {
            let message = format!(
                "`{}` needs an NVMe device for `io_uring_cmd`, and the configuration `{}` has none",
                workload.name, configuration.name
            );
            let hint = "put `vm` on top and set `vm.disk.interface` to `nvme`, use `device on /dev/nvme0n1`, or leave the pair out with `only`";
            report.error(at.clone(), message, hint);
        }
    }
}

/// Reports that a workload runs on a server whose clients the jobs are, and does what a client of it cannot do.
pub(crate) fn check_clients(
    (workload, at): (&Workload, &Range<usize>),
    configurations: &[Configuration],
    report: &mut Report<'_>,
) {
    let runs = |it: &&Configuration| workload.runs_on(it, configurations);
    for configuration in configurations.iter().filter(runs) {
        let Some(engine) = configuration.provision().and_then(|it| it.client_engine()) else {
            continue;
        };
        let mut jobs = workload.jobs.iter();
        if let Some((why, hint)) = jobs.find_map(|job| no_client(job, engine)) {
            let server = match engine {
                EngineKind::Virtiofs => "virtio-fs server",
                _ => "mirror",
            };
            let message = format!(
                "`{}` cannot be a client of the {server} of `{}`: {why}",
                workload.name, configuration.name
            );
            report.error(at.clone(), message, hint);
        }
    }
}

/// Why a job cannot run by this engine of clients in place of its own, and what to do.
pub fn no_client(job: &Job, client: EngineKind) -> Option<(String, &'static str)> {
    let others = match client {
        EngineKind::Virtiofs => {
            "use jobs of fio, or the layer `fuse`, whose folder all tools can use"
        }
        _ => "use jobs of fio, or leave `mirror.queues` out: all tools can use a block device",
    };
    let Some(blocks) = job.work.blocks() else {
        return Some(("only jobs of fio can".to_owned(), others));
    };
    let (engine, files) = (&blocks.engine, &blocks.files);
    match engine.kind {
        EngineKind::Psync
        | EngineKind::Sync
        | EngineKind::Pvsync2
        | EngineKind::Libaio
        | EngineKind::IoUring
        | EngineKind::Posixaio => {}
        kind if kind == client => {
            let why = "`uri` names another server".to_owned();
            let hint = "name an engine for files: `psync` for one request in flight, `libaio` for `iodepth`";
            return Some((why, hint));
        }
        kind => {
            let why = format!(
                "the engine `{}` does not send its requests to one",
                kind.name()
            );
            let hint = "use `psync` for one request in flight or `libaio` for `iodepth`, or leave the pair out with `only`";
            return Some((why, hint));
        }
    }
    if blocks.replay.is_some() {
        return Some(("it replays a trace".to_owned(), others));
    }
    files.pre_read.then(|| {
        (
            "`pre_read` has no cache to fill".to_owned(),
            "remove `pre_read`",
        )
    })
}
