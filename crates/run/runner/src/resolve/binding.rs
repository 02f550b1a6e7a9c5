//! Binds one clone of a job of block I/O to its files and their use.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use iodyno_model::{Blocks, Diagnostic, EngineKind, ExportUri, Job};

use super::naming::{self, Base};
use crate::faults::fault;
use crate::files::shares;
use crate::probe::{PathKind, Probe};
use crate::resolve::resolved::{FileKind, ResolvedClone, ResolvedFile};

/// An export of an NBD server with its length in bytes, or why it cannot be used.
pub(super) type Export<'a> = (&'a ExportUri, Result<u64, Vec<Diagnostic>>);

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
pub(super) struct Binding<'a> {
    pub(super) job: &'a Job,
    pub(super) blocks: &'a Blocks,
    pub(super) clone: u32,
    pub(super) seed: u64,
    pub(super) probe: &'a dyn Probe,
    /// The export that replaces files, and its length.
    pub(super) export: Option<&'a Export<'a>>,
    /// The files that earlier jobs create or extend, and their least lengths after that, bytes.
    pub(super) made: &'a HashMap<PathBuf, u64>,
}

impl Binding<'_> {
    pub(super) fn bind(
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
        let io_size = (self.blocks.passes.io_size).map(|amount| amount.of(whole));
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
        // Paths are those of the share, regardless of the target.
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

    pub(super) fn existing(
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
