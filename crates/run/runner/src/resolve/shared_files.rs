//! Binds jobs whose clones share one set of files, as in sysbench's fileio.
//!
//! A `prepare` creates the files. Other jobs use existing files, and all missing or short files are reported at once.
//! Only the sequential write empties or creates files. Symbolic links are refused.

use std::path::{Path, PathBuf};

use iodyno_model::{Diagnostic, EngineKind, SharedFiles, SharedMode};
use iodyno_units::Bytes;

use super::naming::{self, Base};
use crate::faults::fault;
use crate::probe::{PathKind, Probe};
use crate::resolve::resolved::{FileKind, ResolvedFile};

/// At most this many names appear in a message; the others are counted.
const NAMED: usize = 3;
/// Longest request, bytes: the maximum of one system call.
const LONGEST: u64 = 1 << 30;
/// The remedy if files are missing or have the wrong length.
pub(crate) const PREPARE: &str =
    "run `iodyno fileio … prepare` with the same --file-num and --file-total-size";

/// The files of every clone of a job, each from its start to `file_size`.
pub(super) fn bind(
    rule: &SharedFiles,
    base: Base<'_>,
    probe: &dyn Probe,
) -> Result<Vec<ResolvedFile>, Vec<Diagnostic>> {
    let mut faults = impossible(rule);
    if let Base::Only(path) = base {
        let (shown, count) = (path.display(), rule.count);
        let message =
            format!("{count} shared files cannot lie in `{shown}`, which is not a folder");
        faults.push(fault(message, "name a folder as its target"));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let paths = naming::shared(rule, base);
    let file = |path: PathBuf, existing, kind| ResolvedFile {
        path,
        existing,
        kind,
        base: 0,
        length: rule.file_size,
    };
    if rule.engine.kind.without_files() {
        let files = paths
            .into_iter()
            .map(|path| file(path, None, FileKind::Null));
        return Ok(files.collect());
    }
    let mut found = Look::default();
    let mut bound = Vec::with_capacity(paths.len());
    for path in paths {
        let existing = found.at(&path, rule, probe);
        bound.push(file(path, existing, FileKind::Regular));
    }
    match found.faults(rule, bound.len()) {
        faults if faults.is_empty() => Ok(bound),
        faults => Err(faults),
    }
}

/// Faults of the rule itself, independent of the storage.
fn impossible(rule: &SharedFiles) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    let mut add = |message: String, hint: &str| faults.push(fault(message, hint));
    if rule.block == 0 {
        add("its block size is 0".to_owned(), "raise --file-block-size");
    }
    if rule.file_size == 0 {
        let message = format!(
            "the total size leaves 0 bytes for each of {} files",
            rule.count
        );
        add(message, "raise --file-total-size, or lower --file-num");
    }
    if rule.file_size > i64::MAX as u64 {
        add(
            "its files would be longer than the largest possible file".to_owned(),
            "lower --file-total-size",
        );
    }
    if rule.request() > LONGEST {
        let message = format!(
            "its requests of {} are larger than the limit of {}",
            Bytes(rule.request()),
            Bytes(LONGEST)
        );
        add(message, "lower --file-block-size or --file-merged-requests");
    }
    if rule.merged > 0 && rule.block > 0 && !rule.merged.is_multiple_of(rule.block) {
        add(
            "its requests are not a whole number of blocks".to_owned(),
            "see --file-merged-requests",
        );
    }
    if rule.mode == SharedMode::Prepare && rule.engine.kind == EngineKind::Mmap {
        let message = "`--file-io-mode=mmap` cannot extend files".to_owned();
        add(message, "prepare them with another --file-io-mode");
    }
    faults
}

/// Files that are missing or cannot be used.
#[derive(Debug, Default)]
struct Look {
    /// The topmost folder that does not exist, and the one that holds the files.
    folder: Option<(PathBuf, PathBuf)>,
    missing: Vec<String>,
    short: Vec<String>,
    wrong: Vec<String>,
}

impl Look {
    fn at(&mut self, path: &Path, rule: &SharedFiles, probe: &dyn Probe) -> Option<u64> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if probe.is_link(path) {
            self.wrong
                .push(format!("`{}` is a symbolic link", path.display()));
            return None;
        }
        let made = rule.mode.makes_files() || rule.lay_out;
        match probe.look(path) {
            PathKind::File(length) if length < rule.file_size && !made => {
                self.short.push(format!("{name} ({})", Bytes(length)));
            }
            PathKind::File(length) => return Some(length),
            PathKind::Missing if made => {}
            PathKind::Missing => self.missing.push(name.into_owned()),
            PathKind::NoFolder(missing) => {
                let whole = path.parent().unwrap_or(&missing).to_owned();
                self.folder = Some((missing, whole));
            }
            other => {
                let what = match other {
                    PathKind::Folder => "is a folder".to_owned(),
                    PathKind::Device(_) | PathKind::Namespace(_) => "is a device".to_owned(),
                    PathKind::Other(what) => what,
                    _ => "is not a regular file".to_owned(),
                };
                self.wrong.push(format!("`{}` {what}", path.display()));
            }
        }
        None
    }

    fn faults(self, rule: &SharedFiles, count: usize) -> Vec<Diagnostic> {
        let mut faults = Vec::new();
        if let Some((missing, whole)) = self.folder {
            faults.push(fault(
                format!("the folder `{}` does not exist", missing.display()),
                format!("create it: mkdir -p {}", whole.display()),
            ));
        }
        let share = |names: &[String]| format!("{}: {} of {count} files", few(names), names.len());
        if !self.missing.is_empty() {
            faults.push(fault(
                format!("{} are missing", share(&self.missing)),
                PREPARE,
            ));
        }
        if !self.short.is_empty() {
            let least = Bytes(rule.file_size);
            let message = format!("{} are shorter than {least}", share(&self.short));
            faults.push(fault(message, PREPARE));
        }
        let hint = "only regular files are used: remove it, or use another folder";
        faults.extend(self.wrong.into_iter().map(|message| fault(message, hint)));
        faults
    }
}

/// `test_file.3, test_file.4, test_file.9 …`
fn few(names: &[String]) -> String {
    let more = if names.len() > NAMED { " …" } else { "" };
    let first = &names[..names.len().min(NAMED)];
    format!("{}{more}", first.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::resolve;
    use crate::resolve::resolved::Resolved;
    use crate::samples::{job, plan};
    use iodyno_model::{Distribution, Engine, Job, Target, Work};

    const MIB: u64 = 1 << 20;

    /// A folder `/t` with files of these names and lengths, among other things.
    struct Fake(Vec<(&'static str, PathKind)>);

    impl Probe for Fake {
        fn look(&self, path: &Path) -> PathKind {
            if path == Path::new("/t") {
                return PathKind::Folder;
            }
            if path == Path::new("/f") {
                return PathKind::File(5);
            }
            if !path.starts_with("/t") {
                return PathKind::NoFolder("/gone".into());
            }
            let known = |(name, _): &&(&str, PathKind)| path.ends_with(name);
            let found = self.0.iter().find(known);
            found.map_or(PathKind::Missing, |(_, found)| found.clone())
        }

        fn is_link(&self, path: &Path) -> bool {
            path.ends_with("test_file.2") && matches!(self.look(path), PathKind::File(77))
        }

        fn free(&self, _: &Path) -> Option<u64> {
            Some(1000 * MIB)
        }
    }

    fn rule(mode: SharedMode) -> SharedFiles {
        SharedFiles {
            lay_out: false,
            create_only: false,
            engine: Engine::new(EngineKind::Psync, 1),
            count: 1,
            distribution: Distribution::Uniform,
            seed: None,
            mode,
            file_size: 4 * MIB,
            block: 16 << 10,
            merged: 0,
            read_write_ratio: 1.5,
            fsync_every: 100,
            fsync_all: false,
            fsync_end: true,
            data_only: false,
            validate: false,
        }
    }

    fn sharing(rule: SharedFiles, count: u32, clones: u32) -> Job {
        Job {
            clones,
            work: Work::SharedFiles(SharedFiles { count, ..rule }),
            ..job("fileio")
        }
    }

    fn bound(job: Job, there: &[(&'static str, PathKind)]) -> Result<Resolved, String> {
        let message = |faults: Vec<Diagnostic>| {
            let texts = faults.into_iter().map(|fault| {
                let hint = fault.hint.unwrap_or_default();
                format!("{} [{hint}]", fault.message)
            });
            texts.collect::<Vec<_>>().join("\n")
        };
        resolve(&plan("/t", vec![job]), &Fake(there.to_vec())).map_err(message)
    }

    fn whole(count: usize) -> Vec<(&'static str, PathKind)> {
        const NAMES: [&str; 4] = ["test_file.0", "test_file.1", "test_file.2", "test_file.3"];
        let names = NAMES[..count].iter();
        names.map(|name| (*name, PathKind::File(4 * MIB))).collect()
    }

    #[test]
    fn all_clones_work_on_the_same_files_from_start_to_end() {
        let mut there = whole(4);
        // A longer file is used up to the length of the others.
        there[3].1 = PathKind::File(9 * MIB);
        let resolved = bound(sharing(rule(SharedMode::RandomMix), 4, 3), &there).unwrap();
        assert_eq!(resolved.clones.len(), 3);
        for clone in &resolved.clones {
            assert_eq!(clone.files, resolved.clones[0].files);
            let paths: Vec<_> = clone.files.iter().map(|file| file.path.clone()).collect();
            let expected = (0..4).map(|number| PathBuf::from(format!("/t/./test_file.{number}")));
            assert!(paths.iter().cloned().eq(expected), "{paths:?}");
            assert!(
                clone
                    .files
                    .iter()
                    .all(|f| (f.base, f.length) == (0, 4 * MIB))
            );
            assert_eq!(clone.region_bytes, 16 * MIB);
        }
    }

    #[test]
    fn all_faults_of_the_files_are_reported_together_and_once() {
        let mut there = whole(3);
        there[1].1 = PathKind::File(MIB);
        there[2].1 = PathKind::Folder;
        let message = bound(sharing(rule(SharedMode::RandomRead), 9, 4), &there).unwrap_err();
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines.len(), 3, "{message}");
        let missing = "test_file.3, test_file.4, test_file.5 …: 6 of 9 files are missing";
        assert!(
            lines[0].contains(missing) && lines[0].contains("prepare"),
            "{message}"
        );
        let short = "test_file.1 (1 MiB): 1 of 9 files are shorter than 4 MiB";
        assert!(
            lines[1].contains(short) && lines[1].contains("--file-num"),
            "{message}"
        );
        assert!(lines[2].contains("test_file.2` is a folder"), "{message}");
    }

    #[test]
    fn missing_and_short_files_are_laid_out_on_request() {
        let mut there = whole(2);
        there[1].1 = PathKind::File(7);
        let rule = SharedFiles {
            lay_out: true,
            ..rule(SharedMode::RandomRead)
        };
        let resolved = bound(sharing(rule, 3, 1), &there).unwrap();
        let files = resolved.clones[0].files.iter();
        let existing: Vec<Option<u64>> = files.map(|file| file.existing).collect();
        assert_eq!(existing, [Some(4 * MIB), Some(7), None]);
    }

    #[test]
    fn a_job_that_creates_files_needs_none_and_refuses_other_types() {
        for mode in [SharedMode::Prepare, SharedMode::SequentialWrite] {
            let mut there = whole(2);
            there[1].1 = PathKind::File(7);
            let resolved = bound(sharing(rule(mode), 4, 1), &there).unwrap();
            let existing: Vec<_> = resolved.clones[0]
                .files
                .iter()
                .map(|f| f.existing)
                .collect();
            assert_eq!(existing, [Some(4 * MIB), Some(7), None, None]);
            for (found, word) in [
                (PathKind::File(77), "is a symbolic link"),
                (PathKind::Device(4 * MIB), "is a device"),
                (PathKind::Null, "is not a regular file"),
                (PathKind::Other("is a pipe".to_owned()), "is a pipe"),
            ] {
                let there = [("test_file.2", found)];
                let message = bound(sharing(rule(mode), 4, 1), &there).unwrap_err();
                assert!(
                    message.contains(&format!("test_file.2` {word}")),
                    "{message}"
                );
            }
        }
    }

    #[test]
    fn impossible_rules_are_refused() {
        let check = |change: &dyn Fn(&mut SharedFiles), word: &str| {
            let mut job = sharing(rule(SharedMode::Prepare), 4, 1);
            change(job.work.shared_files_mut().unwrap());
            let message = bound(job, &[]).unwrap_err();
            assert!(message.contains(word), "{message}");
        };
        check(&|rule| rule.block = 0, "block size is 0");
        check(&|rule| rule.file_size = 0, "--file-total-size");
        check(
            &|rule| rule.file_size = u64::MAX,
            "longer than the largest possible file",
        );
        check(&|rule| rule.merged = 1 << 31, "limit of 1 GiB");
        check(&|rule| rule.merged = 24 << 10, "whole number of blocks");
        check(
            &|rule| rule.engine = Engine::new(EngineKind::Mmap, 1),
            "cannot extend files",
        );
        let job = sharing(rule(SharedMode::Prepare), 4, 1);
        let mut on_a_file = plan("/t", vec![job]);
        on_a_file.configuration.target = Target::Path("/f".into());
        let message = resolve(&on_a_file, &Fake(Vec::new())).unwrap_err();
        assert!(message[0].message.contains("not a folder"), "{message:?}");
    }

    #[test]
    fn an_engine_without_files_has_the_requested_number_of_names() {
        let mut job = sharing(rule(SharedMode::RandomMix), 4, 1);
        *job.work.engine_mut().unwrap() = Engine::new(EngineKind::Null, 1);
        assert_eq!(bound(job, &[]).unwrap().clones[0].files.len(), 4);
    }
}
