//! Determines whether the process that began a run is still alive.
//!
//! Every process that executes runs has a number in the store's table `owners`. As long as it lives, it holds a lock
//! on the byte of that number in the file `STORE-owners`. The kernel releases the lock when the process ends, for
//! whatever reason. Reused process ids, reboots, zombies and the process ids of other containers do not matter. A
//! copy of a store has no locks: all of its runs have ended. The locks belong to the open file description, not to
//! the process, so closing another descriptor of the file does not release them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use crate::location::{companion, mode};

/// This process as an owner. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct Owner {
    /// Its number in the table `owners`.
    pub(crate) number: i64,
    /// `None` for a store in memory, which no other process can see.
    _lock: Option<File>,
}

/// The file whose bytes are locked.
pub(crate) fn lock_file(store: &Path) -> PathBuf {
    companion(store, "-owners")
}

impl Owner {
    /// Locks a number. Must be called before other processes can see the number. A symlink in the place of the file
    /// is an error, so that nothing is created elsewhere.
    pub(crate) fn acquire(store: &Path, number: i64) -> io::Result<Owner> {
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            // Processes that read the store test these locks.
            .mode(mode(store) | 0o444)
            .custom_flags(libc::O_NOFOLLOW)
            .open(lock_file(store))?;
        fcntl(&lock, FcntlArg::F_OFD_SETLK(&range(libc::F_WRLCK, number)))?;
        Ok(Owner {
            number,
            _lock: Some(lock),
        })
    }

    /// The owner of a store in memory.
    pub(crate) fn of_memory(number: i64) -> Owner {
        Owner {
            number,
            _lock: None,
        }
    }
}

/// Determines which owners are alive.
#[derive(Debug)]
pub(crate) enum Owners {
    /// The lock file.
    Locked(File),
    /// There is no lock file: none.
    None,
    /// All: of a store in memory.
    All,
}

impl Owners {
    /// Opens the lock file of a store.
    pub(crate) fn of(store: &Path) -> io::Result<Owners> {
        let mut lock = OpenOptions::new();
        lock.read(true).custom_flags(libc::O_NOFOLLOW);
        match lock.open(lock_file(store)) {
            Ok(file) => Ok(Owners::Locked(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Owners::None),
            Err(error) => Err(error),
        }
    }

    /// Whether the owner's process is alive; it may be this process.
    pub(crate) fn lives(&self, number: i64) -> io::Result<bool> {
        let file = match self {
            Owners::Locked(file) => file,
            Owners::None => return Ok(false),
            Owners::All => return Ok(true),
        };
        let mut found = range(libc::F_RDLCK, number);
        fcntl(file, FcntlArg::F_OFD_GETLK(&mut found))?;
        Ok(i32::from(found.l_type) != libc::F_UNLCK)
    }
}

fn range(kind: libc::c_int, number: i64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: number,
        l_len: 1,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_lives_until_it_is_dropped_and_others_are_not_confused_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("a.db");
        let lives = |number| Owners::of(&store).unwrap().lives(number).unwrap();
        assert!(!lives(1), "no lock file");
        let (first, second) = (
            Owner::acquire(&store, 1).unwrap(),
            Owner::acquire(&store, 2).unwrap(),
        );
        assert_eq!((lives(1), lives(2), lives(3)), (true, true, false));
        drop(first);
        assert_eq!((lives(1), lives(2)), (false, true));
        drop(second);
        assert!(!lives(2));
    }

    #[test]
    fn a_symlink_in_the_place_of_the_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (store, other) = (folder.path().join("a.db"), folder.path().join("other"));
        std::os::unix::fs::symlink(&other, lock_file(&store)).unwrap();
        let refused = |error: io::Error| assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
        refused(Owner::acquire(&store, 1).unwrap_err());
        assert!(!other.exists());
        File::create(&other).unwrap();
        refused(Owners::of(&store).unwrap_err());
    }

    #[test]
    fn a_number_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("a.db");
        let _first = Owner::acquire(&store, 7).unwrap();
        assert!(Owner::acquire(&store, 7).is_err());
    }
}
