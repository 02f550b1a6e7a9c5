//! The default location of the store.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::StoreError;

/// `$XDG_DATA_HOME/iodyno/iodyno.db`, or below `~/.local/share`. `lookup` reads an environment
/// variable. Relative and empty values count as unset, as the XDG base directory specification asks.
///
/// # Errors
/// [`StoreError::NoHome`] if neither `XDG_DATA_HOME` nor `HOME` is set.
pub fn default_path(lookup: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, StoreError> {
    let folder = |name| {
        lookup(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    folder("XDG_DATA_HOME")
        .or_else(|| folder("HOME").map(|home| home.join(".local/share")))
        .map(|data| data.join("iodyno").join("iodyno.db"))
        .ok_or(StoreError::NoHome)
}

/// Appends a suffix to the last component of a path, as SQLite names the files beside a database.
pub(crate) fn companion(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The permissions of files beside a store: those of the store, as SQLite does it.
pub(crate) fn mode(store: &Path) -> u32 {
    fs::metadata(store).map_or(0o600, |found| found.permissions().mode() & 0o666)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], expected: Option<&str>) {
        let found = default_path(|name| {
            let variable = variables.iter().find(|variable| variable.0 == name)?;
            Some(OsString::from(variable.1))
        });
        assert_eq!(
            found.ok().as_deref(),
            expected.map(Path::new),
            "{variables:?}"
        );
    }

    #[test]
    fn follows_the_xdg_base_directory_specification() {
        let home = ("HOME", "/home/ada");
        let at_home = Some("/home/ada/.local/share/iodyno/iodyno.db");
        check(
            &[("XDG_DATA_HOME", "/data"), home],
            Some("/data/iodyno/iodyno.db"),
        );
        check(
            &[("XDG_DATA_HOME", "/data")],
            Some("/data/iodyno/iodyno.db"),
        );
        check(&[home], at_home);
        check(&[("XDG_DATA_HOME", ""), home], at_home);
        check(&[("XDG_DATA_HOME", "data"), home], at_home);
        check(&[], None);
        check(&[("HOME", "")], None);
        check(&[("HOME", "ada")], None);
    }

    #[test]
    fn a_companion_lies_beside_the_store() {
        assert_eq!(
            companion(Path::new("/a/b.db"), "-owners"),
            Path::new("/a/b.db-owners")
        );
    }
}
