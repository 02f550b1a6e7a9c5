//! Locations from which the host's state is read.

use std::fs;
use std::path::{Path, PathBuf};

/// File system roots of the host's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// procfs.
    pub proc: PathBuf,
    /// sysfs.
    pub sys: PathBuf,
    /// Device nodes.
    pub dev: PathBuf,
    /// Root of other files (`etc/os-release`, `run/…`).
    pub root: PathBuf,
}

impl Roots {
    /// The roots of this host.
    pub fn host() -> Roots {
        Roots::below(Path::new("/"))
    }

    /// The roots of a host below a folder.
    pub fn below(root: &Path) -> Roots {
        Roots {
            proc: root.join("proc"),
            sys: root.join("sys"),
            dev: root.join("dev"),
            root: root.to_owned(),
        }
    }
}

/// The text of a small file, trimmed; `None` if it cannot be read.
pub fn text(path: impl AsRef<Path>) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The sorted names in a folder; empty if it cannot be read.
pub fn names(folder: impl AsRef<Path>) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}
