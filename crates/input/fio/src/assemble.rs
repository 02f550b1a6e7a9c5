//! Builds a workload from sections: global options, groups, and references between jobs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use iodyno_model::{After, Diagnostic, HeaderFormat, Job, Severity, Source, Workload};

use super::apply::apply;
use super::draft::Draft;
use super::finish::finish;
use super::host::Host;
use super::parsed::Parsed;
use super::text::{Entry, Report, Section, read_sections, unreadable};
use super::traps;

/// A workload under construction.
pub(super) struct Assembly<'h> {
    host: &'h dyn Host,
    pub(super) report: Report,
    pub(super) sources: Vec<Source>,
    overrides: Vec<Entry>,
    /// Names of the sections to use, in addition to the global ones; empty: all.
    wanted: Vec<String>,
    met: Vec<String>,
    /// Whether jobs that write or trim are refused.
    pub(super) read_only: bool,
    /// The headers of verified blocks, unless a job says otherwise.
    pub(super) verify_header: HeaderFormat,
    jobs: Vec<Job>,
    /// The options of all global sections, and those before the first job of the command line.
    global_options: BTreeMap<String, String>,
    /// How many jobs have each name.
    named: HashMap<String, usize>,
    files: usize,
    name: Option<String>,
    group: u32,
    jobs_in_group: usize,
}

impl<'h> Assembly<'h> {
    pub(super) fn new(host: &'h dyn Host) -> Assembly<'h> {
        Assembly {
            host,
            report: Report::default(),
            sources: Vec::new(),
            overrides: Vec::new(),
            wanted: Vec::new(),
            met: Vec::new(),
            read_only: false,
            verify_header: HeaderFormat::Iodyno,
            jobs: Vec::new(),
            global_options: BTreeMap::new(),
            named: HashMap::new(),
            files: 0,
            name: None,
            group: 0,
            jobs_in_group: 0,
        }
    }

    /// Options that take precedence over those of every section.
    pub(super) fn override_with(&mut self, overrides: Vec<Entry>) {
        self.overrides = overrides;
    }

    /// Uses only these sections.
    pub(super) fn only(&mut self, sections: Vec<String>) {
        self.wanted = sections;
    }

    /// Reads a job file; `globals` are the options of the command line.
    pub(super) fn file(&mut self, path: &Path, globals: &[Entry]) {
        let text = self.host.read(path).unwrap_or_else(|error| {
            self.report.push(unreadable(path, &error));
            String::new()
        });
        self.text(path, &text, globals);
    }

    /// As [`Assembly::file`], of its text.
    pub(super) fn text(&mut self, path: &Path, text: &str, globals: &[Entry]) {
        let sections = read_sections(path, text, self.host, &mut self.report, &mut self.sources);
        let stem = match path.to_str() {
            Some("-") => Some("stdin".to_owned()),
            _ => path
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned()),
        };
        self.name = self.name.take().or(stem);
        let stonewall = self.files > 0;
        self.files += 1;
        self.sections(sections, globals, stonewall);
    }

    /// Adds the jobs of some sections. With `stonewall`, the first waits for all jobs before it.
    pub(super) fn sections(
        &mut self,
        sections: Vec<Section>,
        globals: &[Entry],
        mut stonewall: bool,
    ) {
        let mut base = Draft::new(self.host.cpus());
        base.verify.header = self.verify_header;
        apply(&mut base, globals, self.host, &mut self.report);
        for section in sections {
            if section.is_global() {
                self.global(&mut base, &section);
            } else if self.wanted.is_empty() || self.wanted.contains(&section.name) {
                self.met.push(section.name.clone());
                self.job(base.clone(), section, stonewall);
                stonewall = false;
            }
        }
        self.global_options.extend(base.job.options);
    }

    fn global(&mut self, base: &mut Draft, section: &Section) {
        if section.name != "global" {
            self.report.push(
                Diagnostic::warning(format!(
                    "`[{}]` is not a job: a name that begins with `global` holds defaults",
                    section.name
                ))
                .at(section.place.clone())
                .hint("write `[global]`, or rename the job"),
            );
        }
        apply(base, &section.entries, self.host, &mut self.report);
        // As in fio, each job is named after its own section.
        base.name = None;
        base.written.remove("name");
        base.job.options.remove("name");
    }

    fn job(&mut self, mut draft: Draft, section: Section, stonewall: bool) {
        let from_globals = draft.blocks.files.names.len();
        draft.job.inherited = draft.job.options.keys().cloned().collect();
        apply(&mut draft, &section.entries, self.host, &mut self.report);
        if from_globals > 0 && draft.blocks.files.names.len() > from_globals {
            let place = draft.place("filename").cloned();
            self.report.push(Diagnostic {
                place,
                ..Diagnostic::warning(
                    "`filename` adds to the names of the global section; the job uses them all",
                )
                .hint("name files in one of the two places")
            });
        }
        if self.overrides.iter().any(|entry| entry.key == "filename") {
            draft.blocks.files.names.clear();
        }
        let overrides = std::mem::take(&mut self.overrides);
        apply(&mut draft, &overrides, self.host, &mut self.report);
        self.overrides = overrides;

        draft.blocks.files.read_only = self.read_only;
        let mut job = finish(&mut draft, &section.name, section.place, &mut self.report);
        if section.by_option {
            let name = || section.name.clone();
            job.options.entry("name".to_owned()).or_insert_with(name);
        }
        let unmet = draft
            .unmet
            .iter()
            .filter(|(option, _)| draft.matters(option));
        self.report
            .fatal_warnings
            .extend(unmet.map(|(_, message)| message.clone()));
        traps::check(&draft, &job, &mut self.report);
        self.order(&draft, &mut job, stonewall || draft.stonewall);
        self.warn_of_namesake(&draft, &job);
        let rw = draft.place("rw").or(job.place.as_ref()).cloned();
        let trims = draft.blocks.access.trims || draft.trim.percent > 0;
        if self.read_only && (draft.blocks.access.writes || trims) {
            self.report.push(Diagnostic {
                place: rw.clone(),
                ..Diagnostic::error("the job writes or trims, and `--readonly` was given")
                    .hint("make it read, or leave `--readonly` out")
            });
        }
        if self.read_only && draft.blocks.files.unlink {
            let place = draft.place("unlink").or(job.place.as_ref()).cloned();
            self.report.push(Diagnostic {
                place,
                ..Diagnostic::error("the job removes its files, and `--readonly` was given")
                    .hint("remove `unlink=1`, or leave `--readonly` out")
            });
        }
        let verify = draft.blocks.verify.as_ref();
        if trims && verify.is_some_and(|verify| verify.only) {
            self.report.push(Diagnostic {
                place: rw,
                ..Diagnostic::error("`verify_only` cannot be combined with trims")
                    .hint("remove `trim` from `rw=`: only what was written is checked")
            });
        }
        self.check_steady(&draft, &job);
        *self.named.entry(job.name.clone()).or_default() += 1;
        self.jobs.push(job);
    }

    /// Sets when the job starts and its group.
    fn order(&mut self, draft: &Draft, job: &mut Job, stonewall: bool) {
        if (stonewall || draft.new_group) && self.jobs_in_group > 0 {
            self.group += 1;
            self.jobs_in_group = 0;
        }
        self.jobs_in_group += 1;
        job.reporting.group = self.group;
        job.after = match &draft.wait_for {
            _ if stonewall && !self.jobs.is_empty() => After::AllBefore,
            Some(name) => After::Job(name.clone()),
            None => After::Start,
        };
        if let Some(name) = &draft.wait_for {
            self.check_wait(draft, job, name);
        }
    }

    fn check_wait(&mut self, draft: &Draft, job: &Job, name: &str) {
        let before = self.named.get(name).copied().unwrap_or(0);
        let fault = match before {
            1 => return,
            _ if job.name == *name => {
                Diagnostic::error(format!("`{name}` waits for itself")).hint("name an earlier job")
            }
            0 => Diagnostic::error(format!("no earlier job is named `{name}`")).hint(
                match self.jobs.is_empty() {
                    true => "the first job has no earlier job to wait for".to_owned(),
                    false => format!("there are: {}", self.names()),
                },
            ),
            _ => Diagnostic::error(format!("{before} jobs are named `{name}`"))
                .hint("give the job to wait for a unique name"),
        };
        let place = draft.place("wait_for").cloned();
        self.report.push(Diagnostic { place, ..fault });
    }

    /// The jobs of a group that is reported as one become steady together, by one rule.
    fn check_steady(&mut self, draft: &Draft, job: &Job) {
        let fellow = |other: &&Job| {
            other.reporting.together
                && job.reporting.together
                && other.reporting.group == job.reporting.group
        };
        let other = self.jobs.iter().find(fellow);
        if other.is_some_and(|other| other.end.steady != job.end.steady) {
            let place = draft.place("steadystate").or(job.place.as_ref()).cloned();
            self.report.push(Diagnostic {
                place,
                ..Diagnostic::error("the jobs of a group differ in `steadystate`")
                    .hint("give them the same options, or remove `group_reporting`")
            });
        }
    }

    fn names(&self) -> String {
        const MOST: usize = 20;
        let names = self.jobs.iter().map(|job| job.name.as_str());
        let names: Vec<&str> = names.take(MOST).collect();
        match self.jobs.len() > MOST {
            true => format!("{}, …", names.join(", ")),
            false => names.join(", "),
        }
    }

    fn warn_of_namesake(&mut self, draft: &Draft, job: &Job) {
        // `name=` intentionally gives several jobs the same name.
        let twice = draft.name.is_none() && self.named.contains_key(&job.name);
        if !twice {
            return;
        }
        let message = match draft.blocks.files.names.is_empty() {
            true => format!("two jobs are named `{}`, and share their files", job.name),
            false => format!("two jobs are named `{}`", job.name),
        };
        self.report.push(Diagnostic {
            place: job.place.clone(),
            ..Diagnostic::warning(message).hint("give each a unique name")
        });
    }

    /// The result; its jobs are `None` if there are errors.
    pub(super) fn parsed(mut self) -> Parsed {
        for name in &self.wanted {
            if !self.met.contains(name) {
                self.report.push(
                    Diagnostic::error(format!("no section is named `{name}`"))
                        .hint("`--section` takes the name in the brackets"),
                );
            }
        }
        let errors = |report: &Report| {
            let all = report.diagnostics.iter();
            all.filter(|it| it.severity == Severity::Error).count()
        };
        let none_needed = self.report.runs_nothing && self.files == 0;
        if self.jobs.is_empty() && errors(&self.report) == 0 && !none_needed {
            self.report.push(
                Diagnostic::error("there is no job").hint(
                    "begin one with its name: `[randread]` in a file, `--name=` in a command",
                ),
            );
        }
        let errors = errors(&self.report);
        let well_formed = errors == self.report.refusals;
        // Messages about a global section are repeated for each job: keep the first.
        let mut seen = HashSet::new();
        let mut diagnostics = self.report.diagnostics;
        diagnostics.retain(|it| {
            let place = it.place.as_ref();
            let place = place.map(|at| (at.file.clone(), at.line, at.column));
            seen.insert((place, it.message.clone()))
        });
        sort_by_place(&mut diagnostics);
        // As in fio, `exitall` of one job is that of all.
        let exit_all = self.jobs.iter().any(|job| job.exit_all);
        self.jobs.iter_mut().for_each(|job| job.exit_all = exit_all);
        let workload = (errors == 0).then(|| {
            let first = || self.jobs.first().map(|job| job.name.clone());
            let name = self.name.or_else(first).unwrap_or_default();
            Workload {
                global_options: self.global_options,
                ..Workload::new(name, self.sources, self.jobs)
            }
        });
        Parsed {
            workload,
            diagnostics,
            well_formed,
        }
    }
}

/// Sorts by position in the text; messages without a location come last, and files keep their order.
fn sort_by_place(diagnostics: &mut [Diagnostic]) {
    let mut files: HashMap<PathBuf, usize> = HashMap::new();
    for place in diagnostics.iter().filter_map(|it| it.place.as_ref()) {
        if !files.contains_key(&place.file) {
            files.insert(place.file.clone(), files.len());
        }
    }
    diagnostics.sort_by_key(|it| match &it.place {
        Some(place) => {
            let file = files.get(&place.file).copied();
            (file.unwrap_or(usize::MAX), place.line, place.column)
        }
        None => (usize::MAX, 0, 0),
    });
}
