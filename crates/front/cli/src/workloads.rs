//! Reads workloads: job files, and file-operation workloads by name or from TOML.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use iodyno_experiment::READY_MADE;
use iodyno_experiment::fileops::{self as operations, Described, Overrides};
use iodyno_fio::{Host, NAMED_JOBS, NamedJob, SystemHost, parse_files};
use iodyno_model::printable::shell_path;
use iodyno_model::{Diagnostic, Workload, closest};

use crate::failure::reason;

/// `--set [WORKLOAD.]KEY=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The workload that it changes; `None`: all.
    workload: Option<String>,
    key: String,
    value: String,
}

impl Setting {
    /// Whether it changes a workload with this name, from this file.
    fn changes(&self, file: &Path, name: &str) -> bool {
        let Some(workload) = self.workload.as_deref() else {
            return true;
        };
        let stem = file.file_stem().and_then(|stem| stem.to_str());
        workload == name || Some(workload) == stem || Path::new(workload) == file
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (key, value) = (&self.key, &self.value);
        match &self.workload {
            Some(workload) => write!(f, "--set {workload}.{key}={value}"),
            None => write!(f, "--set {key}={value}"),
        }
    }
}

/// Whether the second of two settings would replace the first. `files=SET=N` is an option for each set.
fn same(first: &Setting, second: &Setting) -> bool {
    let set = |setting: &Setting| setting.value.split_once('=').map(|(set, _)| set.to_owned());
    first.workload == second.workload
        && set(first) == set(second)
        && iodyno_fio::replaces(&first.key, &second.key)
}

/// Parses `[WORKLOAD.]KEY=VALUE` texts; returns them and errors. An option given twice, under any of its names, is an
/// error.
pub(crate) fn settings(texts: &[String]) -> (Vec<Setting>, Vec<Diagnostic>) {
    let mut settings: Vec<Setting> = Vec::new();
    let mut faults = Vec::new();
    for text in texts {
        let parsed = text.split_once('=').and_then(|(key, value)| {
            let (workload, key) = match key.trim().rsplit_once('.') {
                Some((workload, key)) => (Some(workload.to_owned()), key),
                None => (None, key.trim()),
            };
            let complete = !key.is_empty() && workload.as_deref() != Some("");
            complete.then(|| Setting {
                workload,
                key: key.to_owned(),
                value: value.trim().to_owned(),
            })
        });
        match parsed {
            Some(setting) => match settings.iter().find(|earlier| same(earlier, &setting)) {
                Some(earlier) => faults.push(
                    Diagnostic::error(format!(
                        "`--set {}={}` and `--set {text}` set the same option",
                        earlier.key, earlier.value
                    ))
                    .hint("give one of them; to compare both, do a run with each, and name both runs in `iodyno compare`"),
                ),
                None => settings.push(setting),
            },
            None => faults.push(
                Diagnostic::error(format!("`--set {text}` has no key and value"))
                    .hint("write `--set KEY=VALUE`, such as `--set runtime=10s`, or `--set WORKLOAD.KEY=VALUE`"),
            ),
        }
    }
    (settings, faults)
}

/// Adds options of all workloads that no setting changes.
pub(crate) fn set_where_absent(settings: &mut Vec<Setting>, options: Vec<(&str, String)>) {
    for (key, value) in options {
        if !settings
            .iter()
            .any(|own| iodyno_fio::replaces(&own.key, key))
        {
            settings.push(Setting {
                workload: None,
                key: key.to_owned(),
                value,
            });
        }
    }
}

/// A workload, or the file operations that it is made from.
enum Found {
    Workload(Box<Workload>),
    /// An index of the suite.
    Described(usize),
}

/// Reads the workloads of a command. `common` and the settings without a workload's name change all of them. File
/// operations are one suite: see [`operations::with_all`]. A workload with an error is left out.
pub(crate) fn read_all(
    files: &[PathBuf],
    settings: &[Setting],
    mut common: Overrides,
) -> (Vec<Workload>, Vec<Diagnostic>) {
    let mut faults: Vec<Diagnostic> = Vec::new();
    // An error in a setting occurs for every file; it is reported once.
    let mut report = |found: Vec<Diagnostic>| {
        for fault in found {
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
    };
    let (mut suite, mut suite_files, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for file in files {
        let job = named_job(file);
        if job.is_none() && is_described(file) {
            match described(file) {
                Ok(described) => {
                    all.push((file, Found::Described(suite.len())));
                    suite.push(described);
                    suite_files.push(file);
                }
                Err(found) => report(found),
            }
            continue;
        }
        let own = settings.iter().filter(|setting| setting.changes(file, ""));
        let own: Vec<(String, String)> = own
            .map(|setting| (setting.key.clone(), setting.value.clone()))
            .collect();
        let parsed = match (job, file.is_dir() || is_device(file)) {
            (Some(job), _) => job.parsed(&own),
            (None, true) => {
                report(vec![not_a_file(file)]);
                continue;
            }
            (None, false) => parse_files(std::slice::from_ref(file), &own, &SystemHost),
        };
        report(parsed.diagnostics);
        all.extend(
            parsed
                .workload
                .map(|found| (file, Found::Workload(Box::new(found)))),
        );
    }
    if !suite.is_empty() {
        let of_all = settings.iter().filter(|setting| setting.workload.is_none());
        report(override_with(&mut common, of_all));
    }
    // Those of commands alone have an error of their own.
    let settings = if files.is_empty() { &[] } else { settings };
    let names = suite_files.iter().zip(&suite);
    let unknown = settings.iter().filter(|setting| {
        let described = names
            .clone()
            .any(|(file, it)| setting.changes(file, &it.name));
        !described && !files.iter().any(|file| setting.changes(file, ""))
    });
    report(
        unknown
            .map(|setting| no_such_workload(setting, files))
            .collect(),
    );
    let (changed, warnings) = operations::with_all(&suite, &common);
    report(warnings);
    let mut changed: Vec<Option<Described>> = changed
        .into_iter()
        .zip(&suite_files)
        .map(|(found, file)| {
            let found = found.and_then(|described| {
                let mut own = Overrides::default();
                let named = settings.iter().filter(|setting| {
                    setting.workload.is_some() && setting.changes(file, &described.name)
                });
                let found = override_with(&mut own, named);
                match found.is_empty() {
                    true => described.with(&own),
                    false => Err(found),
                }
            });
            found.map_err(&mut report).ok()
        })
        .collect();
    let mut workloads: Vec<Workload> = Vec::new();
    for (file, found) in all {
        let workload = match found {
            Found::Workload(workload) => Some(*workload),
            Found::Described(index) => changed[index].take().map(|it| it.workload()),
        };
        workloads.extend(workload.map(|workload| named_apart(workload, file, &workloads)));
    }
    (workloads, faults)
}

/// The built-in job of reads or writes with this name. A file of this name takes precedence.
pub(crate) fn named_job(file: &Path) -> Option<&'static NamedJob> {
    NamedJob::named(file.to_str()?).filter(|_| !file.exists())
}

fn is_device(file: &Path) -> bool {
    let kind = file.metadata().map(|found| found.file_type());
    kind.is_ok_and(|kind| kind.is_block_device() || kind.is_char_device())
}

/// The error for a folder or device in place of a job file.
fn not_a_file(path: &Path) -> Diagnostic {
    let (what, path) = (
        if path.is_dir() { "folder" } else { "device" },
        shell_path(path),
    );
    Diagnostic::error(format!("`{path}` is a {what}, not a job file")).hint(format!(
        "`iodyno run disk --on {path}` measures it; `iodyno fs list` lists other workloads"
    ))
}

/// Names a workload by its path if another one has the same name.
fn named_apart(workload: Workload, file: &Path, others: &[Workload]) -> Workload {
    match others.iter().any(|other| other.name == workload.name) {
        true => Workload {
            name: file.display().to_string(),
            ..workload
        },
        false => workload,
    }
}

fn no_such_workload(setting: &Setting, files: &[PathBuf]) -> Diagnostic {
    let names: Vec<String> = files
        .iter()
        .filter_map(|file| Some(format!("`{}`", file.file_stem()?.to_str()?)))
        .collect();
    let workload = setting.workload.as_deref().unwrap_or_default();
    Diagnostic::error(format!("`{setting}`: unknown workload `{workload}`"))
        .hint(format!("the workloads are {}", names.join(", ")))
}

/// Reads a file-operation workload from a TOML file, or by its name.
pub(crate) fn described(file: &Path) -> Result<Described, Vec<Diagnostic>> {
    let shown = file.display().to_string();
    if is_toml(file) {
        return match SystemHost.read(file) {
            Ok(text) => operations::read(&shown, &text),
            Err(error) => {
                let message = format!("cannot read `{shown}`: {}", reason(&error));
                Err(vec![Diagnostic::error(message)])
            }
        };
    }
    operations::named(&shown).ok_or_else(|| {
        let jobs = NAMED_JOBS.iter().map(|job| job.name);
        let known = jobs.chain(READY_MADE.iter().map(|it| it.name));
        let near = operations::suggest(&shown).or(closest(&shown, known).map(str::to_owned));
        let lists = "`iodyno fs list` and `iodyno experiments` list the names";
        let hint = match near {
            Some(near) => format!("did you mean `{near}`? {lists}"),
            None => lists.to_owned(),
        };
        let message = match is_name(file) {
            true => format!("there is no file and no workload named `{shown}`"),
            false => format!("`{shown}` is not a file-operation workload"),
        };
        vec![Diagnostic::error(message).hint(format!("{hint}; your own workloads end in .toml"))]
    })
}

/// Whether this is a TOML file or, if no such file exists, may be the name of a workload.
pub(crate) fn is_described(file: &Path) -> bool {
    is_toml(file) || (is_name(file) && !file.exists())
}

fn is_toml(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "toml")
}

/// Whether this may be the name of a workload: it has no folder and no extension.
fn is_name(file: &Path) -> bool {
    file.components().count() == 1 && file.extension().is_none()
}

/// Adds settings to the changes of file operations; returns the errors.
fn override_with<'a>(
    overrides: &mut Overrides,
    settings: impl Iterator<Item = &'a Setting>,
) -> Vec<Diagnostic> {
    settings
        .filter_map(|setting| {
            let key = setting.key.replace('_', "-");
            let why = overrides.set(&key, &setting.value).err()?;
            Some(Diagnostic::error(format!(
                "`{setting}`, for file operations: {why}"
            )))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_with(files: &[&str], sets: &[&str]) -> (Vec<Workload>, Vec<Diagnostic>) {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        let sets: Vec<String> = sets.iter().map(|text| (*text).to_owned()).collect();
        let (settings, faults) = settings(&sets);
        assert!(faults.is_empty(), "{faults:?}");
        read_all(&files, &settings, Overrides::default())
    }

    fn count(workload: &Workload) -> u64 {
        workload.jobs[0].work.file_operations().unwrap().sets[0].count
    }

    fn messages(faults: &[Diagnostic]) -> Vec<&str> {
        faults.iter().map(|fault| fault.message.as_str()).collect()
    }

    #[test]
    fn settings_are_pairs_and_other_texts_are_errors() {
        let texts = [
            "bs=4k",
            " rw = read ",
            "filename=a=b",
            "a.b.files=x=1",
            "rw",
            "=x",
            "",
            "a.=1",
            ".b=1",
        ];
        let (settings, faults) = settings(&texts.map(str::to_owned));
        let shown: Vec<String> = settings.iter().map(Setting::to_string).collect();
        assert_eq!(
            shown,
            [
                "--set bs=4k",
                "--set rw=read",
                "--set filename=a=b",
                "--set a.b.files=x=1"
            ]
        );
        assert_eq!(settings[3].workload.as_deref(), Some("a.b"));
        assert_eq!(faults.len(), 5);
    }

    #[test]
    fn a_name_is_a_workload_and_a_typing_error_suggests_the_nearest_name() {
        let (workloads, faults) = read_with(&["create_empty"], &[]);
        assert!(faults.is_empty(), "{faults:?}");
        assert!(workloads[0].jobs[0].work.file_operations().is_some());
        let (workloads, faults) = read_with(&["create_emtpy"], &[]);
        assert!(workloads.is_empty());
        let hint = faults[0].hint.as_deref().unwrap_or_default();
        assert!(hint.contains("create_empty"), "{hint}");
    }

    #[test]
    fn settings_are_the_flags_of_fs_run_and_every_fault_is_reported() {
        let (workloads, _) = read_with(&["create_empty"], &["threads=2", "max_ops=50"]);
        let job = &workloads[0].jobs[0];
        assert_eq!((job.clones, job.end.ops), (2, Some(50)));
        let (_, faults) = read_with(&["create_empty"], &["bs=4k", "duration=soon", "drain=2"]);
        assert_eq!(faults.len(), 3, "{faults:?}");
    }

    #[test]
    fn a_setting_with_a_name_changes_that_workload_alone() {
        let files = ["delete_10k_2MB", "delete_100k_2MB", "create_empty"];
        let sets = [
            "files=50",
            "delete_10k_2MB.files=7",
            "create_empty.threads=3",
        ];
        let (workloads, faults) = read_with(&files, &sets);
        assert_eq!(messages(&faults), Vec::<&str>::new());
        assert_eq!((count(&workloads[0]), count(&workloads[1])), (7, 50));
        assert_eq!(
            (workloads[0].jobs[0].clones, workloads[2].jobs[0].clones),
            (1, 3)
        );
        // Under an alias, as given.
        let (workloads, faults) = read_with(&["delete_10k_2MiB"], &["delete_10k_2MiB.files=7"]);
        assert_eq!((count(&workloads[0]), messages(&faults)), (7, vec![]));
        let (_, faults) = read_with(&files, &["delete.files=7"]);
        assert_eq!(
            messages(&faults),
            ["`--set delete.files=7`: unknown workload `delete`"]
        );
    }

    #[test]
    fn the_layout_of_the_original_can_be_requested() {
        let (workloads, faults) = read_with(&["delete_10k_2MB"], &["setup=original"]);
        assert!(faults.is_empty(), "{faults:?}");
        let operations = workloads[0].jobs[0].work.file_operations().unwrap();
        assert_eq!(operations.writing_in_words(), "1 KiB a write, 1 thread");
        let (workloads, _) = read_with(&["delete_10k_2MB"], &["chunk=64k", "setup-threads=2"]);
        let operations = workloads[0].jobs[0].work.file_operations().unwrap();
        assert_eq!(operations.writing_in_words(), "64 KiB a write, 2 threads");
        let (_, faults) = read_with(&["delete_10k_2MB"], &["chunk=3k", "setup-threads=0"]);
        assert_eq!(faults.len(), 2, "{faults:?}");
    }
}
