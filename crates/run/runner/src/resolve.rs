//! Binds percentages, lengths and names on this node: which bytes of which files each clone works on.
//!
//! Pure except for its calls of a [`Probe`]. All faults of all jobs are reported at once.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use iodyno_model::{
    After, Blocks, BoundPlan, Diagnostic, EngineKind, ExportUri, Job, Operations, Target, Work,
};

use crate::exports;
use crate::faults::{self, fault};
use crate::probe::{PathKind, Probe};
use crate::scheduler;
use crate::seeds;
use crate::shares;

mod naming;
mod operations;
mod regions;
mod replay;
mod shared_files;

use naming::Base;
pub use naming::{made_up_name, placed_names};
use regions::of;
use replay::Traces;
pub(crate) use replay::{FileUse, ResolvedReplay};
pub(crate) use shared_files::PREPARE;

/// The kind of a clone's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file, existing or to be created.
    Regular,
    /// A block device, or an export of an NBD server.
    Device,
    /// `/dev/null`, `/dev/zero`, `/dev/full`, and the targets of engines without files.
    Null,
}

/// A file or device of one clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedFile {
    /// Its path; absolute, unless the plan's folder is relative.
    pub path: PathBuf,
    /// Its length before the trial, bytes; `None` if it does not exist. A job that only reads files sees those that
    /// earlier jobs create or extend as they leave them.
    pub existing: Option<u64>,
    /// Its kind.
    pub kind: FileKind,
    /// Where the clone's region begins, bytes.
    pub base: u64,
    /// The region's length, bytes; at least one block.
    pub length: u64,
}

impl ResolvedFile {
    /// The minimum length of the file that contains the whole region, bytes.
    pub fn end(&self) -> u64 {
        self.base + self.length
    }
}

/// The resolved files and sizes of one clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedClone {
    /// Index of the job in the workload.
    pub job: u32,
    /// Number of the clone, from 0.
    pub clone: u32,
    /// At least one. Engines without files have one whose path has no meaning. Empty for file operations.
    pub files: Vec<ResolvedFile>,
    /// Bytes of all regions.
    pub region_bytes: u64,
    /// Bytes after which the job ends, unless it is time-based.
    pub byte_budget: u64,
    /// The seed of all random numbers of this clone.
    pub seed: u64,
    /// The trace that it replays, if any.
    pub replay: Option<ResolvedReplay>,
}

/// A plan with all names and sizes bound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resolved {
    /// All clones of all jobs, by job and clone.
    pub clones: Vec<ResolvedClone>,
    /// Facts for the user that are not faults.
    pub notes: Vec<String>,
}

/// The folder of a plan's file operations: the target, or the `directory` of the jobs in it.
pub(crate) fn operations_folder(plan: &BoundPlan) -> PathBuf {
    let mut jobs = plan.workload.jobs.iter();
    let own = jobs.find_map(|job| job_folder(job.work.file_operations()?));
    let target = plan.configuration.target.path();
    let base = match &plan.configuration.target {
        Target::AsWritten { .. } => Base::Written(target),
        Target::Path(_) | Target::Made(_) | Target::Simulated(_) => Base::Below(target),
    };
    own.map_or_else(|| target.to_owned(), |own| naming::folder(base, own))
}

/// The `directory` of a job of one of fio's file engines.
fn job_folder(operations: &Operations) -> Option<&Path> {
    operations.fio.as_ref()?.folder.as_deref()
}

/// Binds a plan to a node.
///
/// # Errors
/// Every fault of every job, with its place.
pub fn resolve(plan: &BoundPlan, probe: &dyn Probe) -> Result<Resolved, Vec<Diagnostic>> {
    let mut faults = Vec::new();
    let mut resolved = Resolved::default();
    let target = &plan.configuration.target;
    if let Target::Made(_) = target {
        let message = "the target of the trial was not made";
        return Err(vec![Diagnostic::error(message)]);
    }
    // The paths of such a trial have no meaning. A plan from elsewhere is not asked about them.
    let in_virtual_time = plan.workload.in_virtual_time();
    if let Target::Path(path) = target
        && !in_virtual_time
        && matches!(probe.look(path), PathKind::Missing | PathKind::NoFolder(_))
    {
        // If it were created as a file, the trial would measure the wrong file system, because the intended one is not
        // mounted.
        let message = format!("the target `{}` does not exist", path.display());
        return Err(vec![Diagnostic::error(message).hint(
            "mount it or create it again; iodyno never creates a target",
        )]);
    }
    if let Target::Simulated(_) = target {
        // A plan from elsewhere can combine both, and its jobs would use files that nobody named.
        let real = |job: &&Job| !matches!(job.work.engine(), Some(engine) if engine.kind == EngineKind::Sim);
        let faults: Vec<Diagnostic> = plan
            .workload
            .jobs
            .iter()
            .filter(real)
            .map(|job| {
                Diagnostic::error(format!(
                    "job `{}` is not simulated, and its target is",
                    job.name
                ))
                .hint("set `ioengine=sim`, or give it another target with `--on`")
            })
            .collect();
        if !faults.is_empty() {
            return Err(faults);
        }
    }
    let mut traces = Traces::default();
    let mut made = HashMap::new();
    let is_folder = |path: &Path| !in_virtual_time && probe.look(path) == PathKind::Folder;
    let base = Base::of(target, is_folder);
    for (index, job) in plan.workload.jobs.iter().enumerate() {
        let mut told: Vec<Diagnostic> = Vec::new();
        let export = exports::wanted(job).map(|(uri, wanted)| (uri, probe.export(uri, &wanted)));
        for clone in 0..job.clones.max(1) {
            let seed = seeds::clone(plan.seed, job, index as u32, clone);
            let bound = match &job.work {
                Work::Blocks(blocks) => {
                    let binding = Binding {
                        job,
                        blocks,
                        clone,
                        seed,
                        probe,
                        export: export.as_ref(),
                        made: &made,
                    };
                    let (index, notes) = (index as u32, &mut resolved.notes);
                    match &blocks.replay {
                        None => binding.bind(base, index, notes),
                        Some(replay) => traces
                            .of((index, clone), blocks, replay, base)
                            .map_err(|fault| vec![fault])
                            .and_then(|trace| {
                                binding.bind_replay(base, index, replay, trace, notes)
                            }),
                    }
                }
                Work::FileOperations(operations) => {
                    let place = (index as u32, clone);
                    Ok(operations::clone(job, operations, place, seed))
                }
                Work::SharedFiles(rule) => shared_files::bind(rule, base, probe).map(|files| {
                    let bytes = files.iter().map(|file| file.length).sum();
                    ResolvedClone {
                        job: index as u32,
                        clone,
                        files,
                        region_bytes: bytes,
                        byte_budget: bytes,
                        seed,
                        replay: None,
                    }
                }),
            };
            match bound {
                Ok(bound) => {
                    if (job.work.blocks()).is_some_and(|blocks| blocks.read_only_by().is_none()) {
                        for file in &bound.files {
                            let length = made.entry(file.path.clone()).or_default();
                            *length = file.end().max(*length);
                        }
                    }
                    resolved.clones.push(bound);
                }
                // A fault of all clones of a job is reported once.
                Err(faults) => {
                    for fault in faults {
                        if !told.contains(&fault) {
                            told.push(fault);
                        }
                    }
                }
            }
        }
        if let Work::FileOperations(operations) = &job.work {
            let folder = operations_folder(plan);
            told.extend(operations::faults(job, operations, &folder, probe));
            let mut others = plan
                .workload
                .jobs
                .iter()
                .filter_map(|job| job.work.file_operations());
            if others.any(|other| job_folder(other) != job_folder(operations)) {
                told.push(fault(
                    "all jobs of file engines must be in the same folder",
                    "set the same `directory=` in all of them, or run them one by one",
                ));
            }
        }
        if let After::Job(name) = &job.after
            && scheduler::named_before(&plan.workload.jobs, index, name).is_empty()
        {
            told.push(fault(
                format!("it waits for a job `{name}`, but no earlier job has that name"),
                "check the name in `wait_for=`; a job can only wait for an earlier one",
            ));
        }
        faults.extend(told.into_iter().map(|fault| faults::of_job(fault, job)));
    }
    resolved.notes.dedup();
    match faults.is_empty() {
        true => Ok(resolved),
        false => Err(faults),
    }
}

/// An export of an NBD server with its length in bytes, or why it cannot be used.
type Export<'a> = (&'a ExportUri, Result<u64, Vec<Diagnostic>>);

/// An export as a file whose length is fixed; the region is still empty.
fn exported(uri: &ExportUri, length: u64) -> ResolvedFile {
    ResolvedFile {
        path: PathBuf::from(uri.to_string()),
        existing: Some(length),
        kind: FileKind::Device,
        base: 0,
        length: 0,
    }
}

/// Binds one clone of a job of block I/O.
struct Binding<'a> {
    job: &'a Job,
    blocks: &'a Blocks,
    clone: u32,
    seed: u64,
    probe: &'a dyn Probe,
    /// The export that takes the place of files, and its length.
    export: Option<&'a Export<'a>>,
    /// The files that earlier jobs create or extend, and their least lengths after that, bytes.
    made: &'a HashMap<PathBuf, u64>,
}

impl Binding<'_> {
    fn bind(
        &self,
        base: Base<'_>,
        index: u32,
        notes: &mut Vec<String>,
    ) -> Result<ResolvedClone, Vec<Diagnostic>> {
        let files = match self.export {
            Some((uri, length)) => vec![exported(uri, length.clone()?)],
            None if self.blocks.engine.kind.has_share() => self.look(base, notes)?,
            None if self.blocks.engine.kind.without_files() => self.null_files(),
            None => self.look(base, notes)?,
        };
        let files = self.regions(files, notes).map_err(|fault| vec![fault])?;
        // A file that is named twice is one file that is processed twice.
        let whole: u64 = files.iter().map(|file| file.length).sum();
        let covered = files.iter().map(|file| {
            let whole_file = file.base == 0 && file.existing.unwrap_or(0) <= file.length;
            self.blocks.covered(file.length, whole_file)
        });
        let covered: u64 = covered.sum();
        let mut seen = HashSet::new();
        let once =
            |file: &ResolvedFile| file.kind == FileKind::Null || seen.insert(file.path.clone());
        let files: Vec<ResolvedFile> = files.into_iter().filter(once).collect();
        let region_bytes: u64 = files.iter().map(|file| file.length).sum();
        let io_size = (self.blocks.passes.io_size).map(|amount| of(amount, whole));
        Ok(ResolvedClone {
            job: index,
            clone: self.clone,
            files,
            region_bytes,
            byte_budget: self.blocks.bytes_to_process(io_size, whole, covered),
            seed: self.seed,
            replay: None,
        })
    }

    /// The files of an engine without files: as many as others would have; regions are still empty.
    fn null_files(&self) -> Vec<ResolvedFile> {
        let files = &self.blocks.files;
        let name = self.blocks.engine.kind.name();
        let count = files.names.len().max(files.count as usize).max(1);
        let path = |number| match count {
            1 => PathBuf::from(name),
            _ => PathBuf::from(format!("{name}.{number}")),
        };
        let null = |number| ResolvedFile {
            path: path(number),
            existing: None,
            kind: FileKind::Null,
            base: 0,
            length: 0,
        };
        (0..count).map(null).collect()
    }

    /// Finds the files; regions are still empty.
    fn look(
        &self,
        base: Base<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<ResolvedFile>, Vec<Diagnostic>> {
        let share = shares::of_engine(&self.blocks.engine);
        // Paths are those of the share, whatever the target is.
        let base = match share {
            Some(_) => Base::Written(Path::new("/")),
            None => base,
        };
        let special = |path: &Path| {
            if share.is_some() {
                return false;
            }
            let found = self.probe.look(path);
            matches!(found, PathKind::Device(_) | PathKind::Namespace(_))
        };
        let paths = naming::paths(
            &self.job.name,
            &self.blocks.files,
            self.clone,
            base,
            special,
        )
        .map_err(|path| {
            vec![fault(
                format!("several of its files would be `{}`", path.display()),
                "give files that are in different folders different names",
            )]
        })?;
        if let Base::Only(path) = base {
            let files = &self.blocks.files;
            let own = files.names.len().max(files.count as usize);
            if own > 1 {
                notes.push(format!(
                    "job `{}`: `{}` is used in place of its {own} files",
                    self.job.name,
                    path.display()
                ));
            }
        }
        let mut faults = Vec::new();
        let mut files = Vec::new();
        if let Some(uri) = share {
            let longest = self.probe.longest_request(uri).unwrap_or(u64::MAX);
            faults.extend(shares::too_long(
                uri,
                longest,
                self.blocks.access.max_block(),
            ));
        }
        let root = match share {
            Some(_) => None,
            None => naming::root(&self.blocks.files, self.clone, base),
        };
        for path in paths {
            let (path, found) = match share {
                Some(uri) => match self.probe.shared(uri, &path) {
                    Ok(found) => (iodyno_guard::share::name(uri, &path), found),
                    // It is the same for all files.
                    Err(fault) => return Err(vec![fault]),
                },
                None => {
                    let found = match (self.probe.look(&path), &root) {
                        // As in fio, the trial creates it.
                        (PathKind::NoFolder(missing), Some(root))
                            if missing != *root && missing.starts_with(root) =>
                        {
                            PathKind::Missing
                        }
                        (found, _) => found,
                    };
                    (path, found)
                }
            };
            match self.existing(&path, found) {
                Ok((existing, kind)) => files.push(ResolvedFile {
                    path,
                    existing,
                    kind,
                    base: 0,
                    length: 0,
                }),
                Err(fault) => faults.push(fault),
            }
        }
        match faults.is_empty() {
            true => Ok(files),
            false => Err(faults),
        }
    }

    fn existing(
        &self,
        path: &Path,
        found: PathKind,
    ) -> Result<(Option<u64>, FileKind), Diagnostic> {
        let shown = path.display();
        let read_only = self.blocks.read_only_by();
        let made = self.made.get(path).filter(|_| read_only.is_some());
        let of_nvme = matches!(found, PathKind::Device(_) | PathKind::Namespace(_));
        if self.blocks.engine.kind == EngineKind::IoUringCmd && !of_nvme {
            let message = format!("`{shown}` is not an NVMe device, which `io_uring_cmd` needs");
            return Err(fault(message, "name one, such as `/dev/ng0n1`"));
        }
        match found {
            PathKind::Namespace(length) if self.blocks.engine.kind == EngineKind::IoUringCmd => {
                Ok((Some(length), FileKind::Device))
            }
            PathKind::Namespace(_) => Err(fault(
                format!("`{shown}` is a character device for NVMe commands"),
                "set `ioengine=io_uring_cmd`, or name its block device, such as `/dev/nvme0n1`",
            )),
            PathKind::File(length) => {
                let length = made.map_or(length, |made| length.max(*made));
                Ok((Some(length), FileKind::Regular))
            }
            PathKind::Missing if made.is_some() => Ok((made.copied(), FileKind::Regular)),
            PathKind::Device(length) => Ok((Some(length), FileKind::Device)),
            PathKind::Null => Ok((None, FileKind::Null)),
            PathKind::Missing if let Some(option) = read_only => Err(fault(
                format!("`{shown}` does not exist, and `{option}` creates nothing"),
                format!("create it first, or remove `{option}`"),
            )),
            PathKind::Missing if self.blocks.files.allow_create => Ok((None, FileKind::Regular)),
            PathKind::Missing => Err(fault(
                format!("`{shown}` does not exist"),
                "create it, or remove `allow_file_create=0`",
            )),
            PathKind::NoFolder(folder) => Err(fault(
                format!(
                    "`{shown}`: the folder `{}` does not exist",
                    folder.display()
                ),
                format!(
                    "create it: mkdir -p {}",
                    path.parent().unwrap_or(&folder).display()
                ),
            )),
            PathKind::Folder => Err(fault(
                format!("`{shown}` is a folder"),
                "name a file in it, or give it as `directory=`",
            )),
            PathKind::Other(what) => Err(fault(
                format!("`{shown}` {what}"),
                "name a regular file or a block device",
            )),
        }
    }
}

#[cfg(test)]
mod tests;
