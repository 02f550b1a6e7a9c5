//! Checks free space for a workload of file operations before anything is created.

use std::path::Path;

use iodyno_host::Roots;
use iodyno_host::space::{self, Need, Shortage};
use iodyno_model::{Action, BoundPlan, Diagnostic, Needs, Operations};
use iodyno_units::Bytes;

/// Size of the blocks in which data are allocated, bytes.
const BLOCK: u64 = 4096;
/// Metadata of a file (inode, names, extents), bytes. btrfs stores them twice and needs the most.
const EACH_FILE: u64 = 2048;
/// One byte of metadata (checksums, block maps) for this many bytes of data.
const DATA_PER_BYTE: u64 = 256;
/// Bytes that a file system always needs: its log, tree splits.
const ANYWAY: u64 = 4 << 20;

/// Space that all jobs together need.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct RoomNeeded {
    /// Bytes of data.
    data: u64,
    /// Files and folders.
    files: u64,
    /// The longest file, bytes.
    longest: u64,
    /// Bytes of data in addition to `data` that appending can write if it is limited by time only.
    later: u64,
    /// Whether any job is not a command.
    known: bool,
}

impl RoomNeeded {
    /// The needs of all cycles of all jobs with file operations; of the first cycle if their number is not set.
    pub(super) fn of(plan: &BoundPlan) -> RoomNeeded {
        // The trial's folder and its marker.
        let mut needed = RoomNeeded {
            files: 2,
            ..RoomNeeded::default()
        };
        for job in &plan.workload.jobs {
            // The needs of a command are unknown.
            let operations = job.work.file_operations();
            let Some(operations) = operations.filter(|it| it.command.is_none()) else {
                continue;
            };
            needed.known = true;
            let needs: Needs = operations.needs(job.clones);
            let (bytes, files) = needs.after(job.end.ops.unwrap_or(1));
            let folders = match operations.own_folders {
                true => u64::from(job.clones) + 1,
                false => 1,
            };
            if job.end.ops.is_none() {
                let later = needs.bytes.saturating_sub(bytes);
                needed.later = needed.later.saturating_add(later);
            }
            needed.data = needed.data.saturating_add(bytes);
            needed.data = needed.data.saturating_add(unused(operations, bytes, files));
            needed.files = needed.files.saturating_add(files).saturating_add(folders);
            needed.longest = needed.longest.max(longest(operations));
        }
        needed
    }

    /// Bytes of data, number of files and folders, bytes of the longest file.
    #[cfg(test)]
    pub(super) fn figures(&self) -> (u64, u64, u64) {
        (self.data, self.files, self.longest)
    }

    /// An upper estimate of metadata, bytes.
    fn metadata(&self) -> u64 {
        let files = self.files.saturating_mul(EACH_FILE);
        (self.data / DATA_PER_BYTE)
            .saturating_add(files)
            .saturating_add(ANYWAY)
    }

    /// A note if the workload can begin but can grow beyond the `free` bytes.
    pub(super) fn outgrows(&self, folder: &Path, free: u64) -> Option<String> {
        let data = self.data.saturating_add(self.later);
        let most = RoomNeeded { data, ..*self };
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

    /// Every shortage of space or inodes in a folder.
    pub(super) fn shortages(&self, folder: &Path) -> Vec<Diagnostic> {
        if !self.known {
            return Vec::new();
        }
        let need = Need {
            folder: folder.to_owned(),
            bytes: self.data.saturating_add(self.metadata()),
            inodes: self.files,
            longest: self.longest,
        };
        let shortages = space::check(&Roots::host(), &[need]).into_iter();
        shortages.map(|one| self.describe(folder, &one)).collect()
    }

    fn describe(&self, folder: &Path, shortage: &Shortage) -> Diagnostic {
        let shown = folder.display();
        let (message, hint) = match shortage {
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
                shortage.to_string(),
                "check the folder with `df`: its file system does not report free space",
            ),
        };
        Diagnostic::error(message).hint(hint)
    }
}

/// Unused bytes in the last blocks of files: exact for files of sets, half a block for each other file.
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

/// The length of the longest file in a set or of a cycle, bytes.
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
