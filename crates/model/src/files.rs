//! The files of a job.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A size: absolute, or a share of what it is a part of (bound on the node that runs).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Percent of the file, device or free space, 0–100.
    Percent(f64),
}

/// Which file the next op goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileService {
    /// Each in turn.
    #[default]
    RoundRobin,
    /// One after the other.
    Sequential,
    /// Drawn uniformly.
    Random,
}

/// How space is reserved before a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fallocate {
    /// Not at all.
    None,
    /// fallocate(2), mode 0, where the file system has it.
    #[default]
    Native,
    /// posix_fallocate.
    Posix,
    /// fallocate(2) with KEEP_SIZE.
    KeepSize,
    /// ftruncate.
    Truncate,
}

/// The files of a job: which, where, how made and how opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Files {
    /// Folders the files lie in, dealt out to clones in turn; empty: the current folder.
    pub directories: Vec<PathBuf>,
    /// Named files or devices, shared by all clones. Empty: named by `format`.
    pub names: Vec<PathBuf>,
    /// `$jobname.$jobnum.$filenum` by default.
    pub format: String,
    /// Files a clone has, where they are not named.
    pub count: u32,
    /// The files' length, where it is not `size / count`; drawn uniformly between both.
    pub size: Option<(Amount, Amount)>,
    /// Which file is next.
    pub service: FileService,
    /// Ops on a file before the next one's turn; at least 1.
    pub service_ops: u32,
    /// Space reservation.
    pub fallocate: Fallocate,
    /// Files are written out before a job that writes to them, too.
    pub overwrite: bool,
    /// Files are made when first opened, inside the measurement.
    pub create_on_open: bool,
    /// Files are laid out and the job ends.
    pub create_only: bool,
    /// Missing files may be made.
    pub allow_create: bool,
    /// Nothing is created, extended, written or removed (`--readonly`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// fsync of what was laid out, before the jobs begin.
    pub fsync_on_layout: bool,
    /// Cached pages are dropped once, when the job begins.
    pub invalidate: bool,
    /// fsync before close.
    pub fsync_on_close: bool,
    /// Removed after the trial.
    pub unlink: bool,
    /// The kernel is told sequential or random (posix_fadvise).
    pub advise: bool,
}

impl Default for Files {
    fn default() -> Self {
        Files {
            directories: Vec::new(),
            names: Vec::new(),
            format: "$jobname.$jobnum.$filenum".to_owned(),
            count: 1,
            size: None,
            service: FileService::RoundRobin,
            service_ops: 1,
            fallocate: Fallocate::Native,
            overwrite: false,
            create_on_open: false,
            create_only: false,
            allow_create: true,
            read_only: false,
            fsync_on_layout: true,
            invalidate: true,
            fsync_on_close: false,
            unlink: false,
            advise: true,
        }
    }
}
