//! Where the host's view of itself is read.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders in which the kernel shows the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// procfs.
    pub proc: PathBuf,
    /// sysfs.
    pub sys: PathBuf,
    /// Device nodes.
    pub dev: PathBuf,
    /// Everything else (`etc/os-release`, `run/…`).
    pub root: PathBuf,
}

impl Roots {
    /// This host.
    pub fn host() -> Roots {
        Roots::below(Path::new("/"))
    }

    /// A host laid out below a folder.
    pub fn below(root: &Path) -> Roots {
        Roots {
            proc: root.join("proc"),
            sys: root.join("sys"),
            dev: root.join("dev"),
            root: root.to_owned(),
        }
    }
}

/// The text of a small file without the white space around it; `None` if it cannot be read.
pub(crate) fn text(path: impl AsRef<Path>) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The names in a folder, sorted; none if it cannot be read.
pub(crate) fn names(folder: impl AsRef<Path>) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}
