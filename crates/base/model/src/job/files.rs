//! The files of a job.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A size: absolute, or a percentage that the node resolves before the trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Percentage of the file, device or free space, 0–100.
    Percent(f64),
}

impl Amount {
    /// Its size in bytes, given the bytes that are the whole.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Amount::Bytes(bytes) => bytes,
            // Hundredths of a percent are exact in integers; f64 would round lengths beyond 2^53.
            Amount::Percent(percent) => {
                let hundredths = (percent.clamp(0.0, 100.0) * 100.0).round() as u128;
                (u128::from(whole) * hundredths / 10_000) as u64
            }
        }
    }
}

/// How the file of the next op is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileService {
    /// Each file in turn.
    #[default]
    RoundRobin,
    /// One file after the other.
    Sequential,
    /// Uniformly at random.
    Random,
    /// Zipf's law with this exponent; the first file is the most frequent.
    Zipf(f64),
    /// Pareto with this power (0 < h < 1); the first files are the most frequent.
    Pareto(f64),
    /// Normal around the middle file, with this deviation in percent of the number of files.
    Normal(f64),
}

/// How space is reserved before a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fallocate {
    /// Not at all.
    None,
    /// fallocate(2) with mode 0, if the file system supports it.
    #[default]
    Native,
    /// posix_fallocate.
    Posix,
    /// fallocate(2) with KEEP_SIZE.
    KeepSize,
    /// ftruncate.
    Truncate,
}

/// The files of a job: names, locations, layout and how they are opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Files {
    /// Folders of the files, assigned to clones in turn; empty: the current folder.
    pub directories: Vec<PathBuf>,
    /// Named files or devices, shared by all clones. Empty: names follow `format`.
    pub names: Vec<PathBuf>,
    /// Format of file names, by default `$jobname.$jobnum.$filenum`.
    pub format: String,
    /// Number of files per clone if they are not named.
    pub count: u32,
    /// File size if it is not `size / count`: drawn uniformly from this range.
    pub size: Option<(Amount, Amount)>,
    /// How the next file is chosen.
    pub service: FileService,
    /// Number of ops on a file before the next file is chosen; at least 1.
    pub service_ops: u32,
    /// Number of files in use at a time: the next one is used when one is done; 0: all.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub open: u32,
    /// How space is reserved.
    pub fallocate: Fallocate,
    /// Write existing files completely before a job that writes to them, too.
    pub overwrite: bool,
    /// New files are empty when the job starts.
    pub create_on_open: bool,
    /// Lay out the files, then end the job.
    pub create_only: bool,
    /// Whether missing files may be created.
    pub allow_create: bool,
    /// Never create, extend, write or remove anything (`--readonly`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// fsync laid-out files before the jobs start.
    pub fsync_on_layout: bool,
    /// Drop cached pages of the files before each pass over them.
    pub invalidate: bool,
    /// Read the files into the cache before the jobs start.
    #[serde(default)]
    pub pre_read: bool,
    /// The region of a regular file begins at the file's end.
    #[serde(default)]
    pub append: bool,
    /// fsync before each close.
    pub fsync_on_close: bool,
    /// Remove the files after the trial.
    pub unlink: bool,
    /// Tell the kernel the access pattern (posix_fadvise: sequential or random).
    pub advise: bool,
    /// With `advise`: this advice, whatever the access pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<FileAdvice>,
}

/// Advice of posix_fadvise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAdvice {
    /// POSIX_FADV_RANDOM.
    Random,
    /// POSIX_FADV_SEQUENTIAL.
    Sequential,
    /// POSIX_FADV_NOREUSE.
    NoReuse,
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
            open: 0,
            fallocate: Fallocate::Native,
            overwrite: false,
            create_on_open: false,
            create_only: false,
            allow_create: true,
            read_only: false,
            fsync_on_layout: true,
            invalidate: true,
            pre_read: false,
            append: false,
            fsync_on_close: false,
            unlink: false,
            advise: true,
            advice: None,
        }
    }
}
