//! The folders in which iodyno keeps track of what it does on a host.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::roots::Roots;

/// The folders in which iodyno keeps track of the storage that it makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFolders {
    /// The journals.
    pub journals: PathBuf,
    /// Mount points, one folder for each token.
    pub mounts: PathBuf,
}

impl StateFolders {
    /// `/var/lib/iodyno` and `/run/iodyno` for root, otherwise folders in the user's state folder. `lookup` reads an
    /// environment variable. `None` if it is not known where the user's state folder is.
    pub fn new(
        roots: &Roots,
        is_root: bool,
        lookup: impl Fn(&str) -> Option<OsString>,
    ) -> Option<StateFolders> {
        if is_root {
            return Some(StateFolders {
                journals: roots.root.join("var/lib/iodyno/journal"),
                mounts: roots.root.join("run/iodyno"),
            });
        }
        let state = state_folder_of(lookup)?;
        Some(StateFolders {
            journals: state.join("journal"),
            mounts: state.join("mounts"),
        })
    }

    /// The folders of this process's user on this host.
    pub fn of_this_user() -> Option<StateFolders> {
        let is_root = rustix::process::geteuid().is_root();
        StateFolders::new(&Roots::host(), is_root, |name| std::env::var_os(name))
    }
}

/// The folder of the sockets by which this user's servers of mirrors are managed; it may not exist. The path of a
/// socket is limited in length, so that a long `XDG_RUNTIME_DIR` is not used.
pub fn socket_folder() -> PathBuf {
    let user = rustix::process::geteuid();
    let runtime = || std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match user.is_root() {
        true => PathBuf::from("/run/iodyno"),
        false => match runtime().filter(|path| path.is_absolute() && path.as_os_str().len() < 50) {
            Some(path) => path.join("iodyno"),
            None => PathBuf::from(format!("/tmp/iodyno-{}", user.as_raw())),
        },
    }
}

/// The beginning and the end of the name of a socket by which the server of a mirror is managed; its UUID is between
/// them.
const SOCKET: (&str, &str) = ("mirror-", ".sock");

/// The name of the socket by which the server of a mirror is managed.
pub fn socket_name(mirror: &str) -> String {
    let (begin, end) = SOCKET;
    format!("{begin}{mirror}{end}")
}

/// The mirror whose server is managed by a socket with this name.
pub fn mirror_of_socket(name: &str) -> Option<&str> {
    name.strip_prefix(SOCKET.0)?.strip_suffix(SOCKET.1)
}

/// The folder of this user's state: `iodyno` in `$XDG_STATE_HOME`, or in `~/.local/state`. `None` if neither `HOME` nor
/// that variable contains an absolute path.
pub fn state_folder() -> Option<PathBuf> {
    state_folder_of(|name| std::env::var_os(name))
}

/// The folder of the records of devices that iodyno wrote, in [`state_folder`].
pub fn device_records() -> Option<PathBuf> {
    Some(state_folder()?.join("devices"))
}

fn state_folder_of(lookup: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| {
        let path = lookup(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    folder("XDG_STATE_HOME")
        .or_else(|| folder("HOME").map(|home| home.join(".local/state")))
        .map(|base| base.join("iodyno"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_folder_is_absolute_or_absent() {
        let check = |variables: &[(&str, &str)], expected: Option<&str>| {
            let found = state_folder_of(|name| {
                let found = variables.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| OsString::from(value))
            });
            assert_eq!(found, expected.map(PathBuf::from), "{variables:?}");
        };
        let home = ("HOME", "/home/ada");
        let at_home = Some("/home/ada/.local/state/iodyno");
        check(&[("XDG_STATE_HOME", "/s"), home], Some("/s/iodyno"));
        check(&[("XDG_STATE_HOME", "s"), home], at_home);
        check(&[home], at_home);
        check(&[("HOME", "")], None);
        check(&[], None);
    }
}
