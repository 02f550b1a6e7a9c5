//! Whether there is room for a workload of file operations, said before anything is made.

use std::path::Path;

use iodyno_model::{Action, BoundPlan, Diagnostic, Needs, Operations};
use iodyno_target::Roots;
use iodyno_target::space::{self, Need, Shortage};
use iodyno_units::Bytes;

/// Data are given whole blocks.
const BLOCK: u64 = 4096;
/// What a file takes beside its data: inode, names, extents. btrfs keeps all of that twice, and takes the
/// most.
const EACH_FILE: u64 = 2048;
/// One byte for so many of data: checksums, maps of blocks.
const DATA_PER_BYTE: u64 = 256;
/// What a file system wants free to go on at all: its log, trees that split.
const ANYWAY: u64 = 4 << 20;

/// What all jobs together ask for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Bytes of data.
    data: u64,
    /// Files and folders.
    files: u64,
    /// The longest file, bytes.
    longest: u64,
    /// Bytes of data beyond `data` that appending may come to hold where nothing but time ends it.
    later: u64,
}

impl Wanted {
    /// Of the jobs that do file operations: the cycles they are given, or else the first.
    pub(super) fn of(plan: &BoundPlan) -> Wanted {
        // The trial's folder and its marker.
        let mut wanted = Wanted {
            files: 2,
            ..Wanted::default()
        };
        for job in &plan.workload.jobs {
            let Some(operations) = job.work.file_operations() else {
                continue;
            };
            let needs: Needs = operations.needs(job.clones);
            let (bytes, files) = needs.after(job.end.ops.unwrap_or(1));
            let folders = match operations.own_folders {
                true => u64::from(job.clones) + 1,
                false => 1,
            };
            if job.end.ops.is_none() {
                let later = needs.bytes.saturating_sub(bytes);
                wanted.later = wanted.later.saturating_add(later);
            }
            wanted.data = wanted.data.saturating_add(bytes);
            wanted.data = wanted.data.saturating_add(unused(operations, bytes, files));
            wanted.files = wanted.files.saturating_add(files).saturating_add(folders);
            wanted.longest = wanted.longest.max(longest(operations));
        }
        wanted
    }

    /// Bytes of data, files and folders, the longest file's bytes.
    #[cfg(test)]
    pub(super) fn figures(&self) -> (u64, u64, u64) {
        (self.data, self.files, self.longest)
    }

    /// What metadata may take, an estimate on the safe side.
    fn metadata(&self) -> u64 {
        let files = self.files.saturating_mul(EACH_FILE);
        (self.data / DATA_PER_BYTE)
            .saturating_add(files)
            .saturating_add(ANYWAY)
    }

    /// Said where what it holds in the end may be more than what is free, though it can begin.
    pub(super) fn outgrows(&self, folder: &Path, free: u64) -> Option<String> {
        let data = self.data.saturating_add(self.later);
        let most = Wanted { data, ..*self };
        let needed = data.saturating_add(most.metadata());
        (self.later > 0 && needed > free).then(|| {
            format!(
                "the workload may grow to {} in `{}`, but only {} are free: when the space is used up it fails, \
                 unless `--duration` or `--max-ops` ends it earlier",
                Bytes(needed),
                folder.display(),
                Bytes(free)
            )
        })
    }

    /// Everything that lacks in a folder.
    pub(super) fn lacks(&self, folder: &Path) -> Vec<Diagnostic> {
        let need = Need {
            folder: folder.to_owned(),
            bytes: self.data.saturating_add(self.metadata()),
            inodes: self.files,
            longest: self.longest,
        };
        let lacks = space::check(&Roots::host(), &[need]).into_iter();
        lacks.map(|lack| self.say(folder, &lack)).collect()
    }

    fn say(&self, folder: &Path, lack: &Shortage) -> Diagnostic {
        let shown = folder.display();
        let (message, hint) = match lack {
            Shortage::Bytes { needed, free, .. } => (
                format!(
                    "{} are needed in `{shown}`, {} are free\n  needed: {} of data in {} files and \
                     folders, and up to {} of metadata",
                    Bytes(*needed),
                    Bytes(*free),
                    Bytes(self.data),
                    self.files,
                    Bytes(self.metadata())
                ),
                "free space, or lower `--files`, `--file-size` or `--max-ops`",
            ),
            Shortage::Inodes { needed, free, .. } => (
                format!(
                    "{needed} files and folders are needed in `{shown}`, inodes for {free} are free"
                ),
                "lower `--files` or `--max-ops`, or make the file system with more inodes",
            ),
            Shortage::FileSize {
                needed,
                limit,
                whose,
                ..
            } => (
                format!(
                    "a file of {} in `{shown}` is longer than {whose} allows: {}",
                    Bytes(*needed),
                    Bytes(*limit)
                ),
                "lower `--file-size`",
            ),
            Shortage::Unknown { .. } => (
                lack.to_string(),
                "check the folder with `df`: its file system does not report free space",
            ),
        };
        Diagnostic::error(message).hint(hint)
    }
}

/// What the last blocks of files leave unused: as it is for those of sets, half a block for others.
fn unused(operations: &Operations, bytes: u64, files: u64) -> u64 {
    let (mut unused, mut others) = (0u64, files);
    let mut other_bytes = bytes;
    for set in &operations.sets {
        let each = set.size.next_multiple_of(BLOCK) - set.size;
        unused = unused.saturating_add(set.count.saturating_mul(each));
        others = others.saturating_sub(set.count);
        other_bytes = other_bytes.saturating_sub(set.count.saturating_mul(set.size));
    }
    match other_bytes {
        0 => unused,
        _ => unused.saturating_add(others.saturating_mul(BLOCK / 2)),
    }
}

/// The longest file that a set has or a cycle makes, bytes.
fn longest(operations: &Operations) -> u64 {
    let sets = operations.sets.iter().map(|set| set.size);
    let written = operations.cycle.iter().map(|step| match &step.action {
        Action::Write { bytes } | Action::Fallocate { bytes } => *bytes,
        Action::Truncate { length } => *length,
        _ => 0,
    });
    let written = written.fold(0, u64::saturating_add);
    let appended = operations.cycle.iter().map(|step| match &step.action {
        Action::Append { new_file_at, .. } => *new_file_at,
        _ => 0,
    });
    sets.chain([written]).chain(appended).max().unwrap_or(0)
}
