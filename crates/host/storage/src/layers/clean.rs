//! Finds targets whose process has died, and undoes them.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use iodyno_host::{Roots, boot_id, mirror_of_socket, users};
use iodyno_model::Diagnostic;
use serde::{Deserialize, Serialize};

use crate::journal::{Journal, JournalError};

use super::host_ops::cannot;
use super::maker::Maker;
use super::undo::{By, undo};

/// A target whose process has died.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Orphan {
    /// Its token.
    pub token: String,
    /// The configuration for which it was made.
    pub configuration: String,
    /// Why it is not in use any more.
    pub why: String,
    /// What was undone, or is to be undone, in this order.
    pub undone: Vec<String>,
    /// What remains.
    pub faults: Vec<Diagnostic>,
}

/// The result of a clean-up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cleaned {
    /// The targets that were found.
    pub orphans: Vec<Orphan>,
    /// Journals that could not be used.
    pub faults: Vec<Diagnostic>,
    /// Other users that have journals; only for root.
    #[serde(default)]
    pub others: Vec<OtherUser>,
    /// Sockets of mirrors whose server has ended, which were removed or are to be removed.
    #[serde(default)]
    pub sockets: Vec<PathBuf>,
}

/// A user with journals of its own: of storage in use, or of orphans that only this user's `clean` undoes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherUser {
    /// Its name.
    pub name: String,
    /// The folder of its journals.
    pub folder: PathBuf,
    /// The number of journals.
    pub journals: u64,
}

/// The users with journals in their home folders. Nothing that a user wrote is opened.
fn other_users(roots: &Roots) -> Vec<OtherUser> {
    let found = users(roots).into_iter().filter_map(|user| {
        let home = user.home.strip_prefix("/").ok()?;
        let folder = roots.root.join(home).join(".local/state/iodyno/journal");
        let journals = Journal::tokens(&folder).len() as u64;
        (user.uid != 0 && journals > 0).then_some(OtherUser {
            name: user.name,
            folder,
            journals,
        })
    });
    found.collect()
}

/// Removes the sockets in a folder by which mirrors were managed whose server has ended; with `dry_run`, only lists
/// them. A socket of another user, or that a process has bound, stays. Faults are added to those of the result.
pub(super) fn remove_sockets(folder: &Path, dry_run: bool, cleaned: &mut Cleaned) {
    let user = rustix::process::geteuid().as_raw();
    let Ok(entries) = std::fs::read_dir(folder) else {
        // Without the folder there are none.
        return;
    };
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let uuid = mirror_of_socket(&name)?;
            let plain = uuid.len() == 36 && uuid.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
            let about = entry.metadata().ok()?;
            let ours = plain && about.file_type().is_socket() && about.uid() == user;
            (ours && is_abandoned(&entry.path())).then(|| entry.path())
        })
        .collect();
    found.sort_unstable();
    for path in found {
        let removed = match dry_run {
            true => Ok(()),
            false => std::fs::remove_file(&path),
        };
        match removed {
            Ok(()) => cleaned.sockets.push(path),
            // Another process has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => cleaned
                .faults
                .push(cannot("remove the socket", &path, &error)),
        }
    }
}

/// Whether no process has a socket. One that is bound and does not listen yet refuses connections as well, but the
/// kernel lists it.
fn is_abandoned(socket: &Path) -> bool {
    let refused = UnixStream::connect(socket)
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    let bound = |list: String| {
        let named = |line: &str| line.split_once('/').map(|(_, path)| format!("/{path}"));
        let mut paths = list.lines().filter_map(named);
        paths.any(|path| Path::new(&path) == socket)
    };
    // Without the list it is not known.
    refused && std::fs::read_to_string("/proc/net/unix").is_ok_and(|list| !bound(list))
}

/// How long a process is waited for that undoes a target, or only keeps the lock of its parent until its own program
/// begins, and at which interval.
const UNDOING: u32 = 50;
const BEGINNING: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);

type Open = fn(&Path, &str) -> Result<Journal, JournalError>;

/// How often a journal is tried, and how it is opened.
fn opening(dry_run: bool) -> (u32, Open) {
    match dry_run {
        true => (BEGINNING, Journal::open_to_list),
        false => (UNDOING, Journal::open),
    }
}

impl Maker<'_> {
    /// The journal of a target on which another process works, once that has ended; `None` if the target is in use, or
    /// was undone. A process that makes or undoes a target for another one continues when that has died.
    ///
    /// # Errors
    /// It still works on it.
    fn after_worker(&self, token: &str, dry_run: bool) -> Result<Option<Journal>, Diagnostic> {
        let (roots, folder) = (self.host.roots(), &self.folders.journals);
        let Some((header, _)) = Journal::look(folder, token) else {
            // It has just begun.
            return Ok(None);
        };
        if header.boot == boot_id(roots) && header.owner.lives(roots) {
            return Ok(None);
        }
        let worker = Journal::worker(folder, token, roots);
        let (mut left, open) = opening(dry_run);
        loop {
            match open(folder, token) {
                Ok(journal) => return Ok(Some(journal)),
                Err(JournalError::Missing) => return Ok(None),
                Err(JournalError::Busy) if left > 0 => {
                    left -= 1;
                    self.host.sleep(PAUSE);
                }
                Err(JournalError::Busy) => break,
                Err(error) => {
                    let message = format!("cannot undo the target `{token}`: {error}");
                    return Err(Diagnostic::error(message));
                }
            }
        }
        let who = match worker {
            Some((process, command)) => format!("process {process} ({command})"),
            None => "another process".to_owned(),
        };
        let message = format!(
            "{who} still undoes the target `{token}` of process {}, which has ended",
            header.owner.pid
        );
        Err(Diagnostic::error(message).hint("run `iodyno clean` again when it has ended"))
    }

    /// Undoes all orphans. With `dry_run`, only lists them.
    pub(super) fn clean(&self, dry_run: bool) -> Cleaned {
        let roots = self.host.roots();
        let mut cleaned = Cleaned {
            others: match self.host.is_root() {
                true => other_users(roots),
                false => Vec::new(),
            },
            ..Cleaned::default()
        };
        for token in Journal::tokens(&self.folders.journals) {
            let (_, open) = opening(dry_run);
            let journal = match open(&self.folders.journals, &token) {
                Ok(journal) => journal,
                // It was undone meanwhile.
                Err(JournalError::Missing) => continue,
                Err(JournalError::Busy) => match self.after_worker(&token, dry_run) {
                    Ok(Some(journal)) => journal,
                    Ok(None) => continue,
                    Err(fault) => {
                        cleaned.faults.push(fault);
                        continue;
                    }
                },
                Err(error) => {
                    let message = format!("cannot undo the target `{token}`: {error}");
                    cleaned.faults.push(Diagnostic::error(message));
                    continue;
                }
            };
            let header = &journal.header;
            let same_boot = header.boot == boot_id(roots);
            if same_boot && header.owner.lives(roots) {
                continue;
            }
            let mut orphan = Orphan {
                configuration: header.configuration.clone(),
                why: match same_boot {
                    true => format!("process {} has ended", header.owner.pid),
                    false => "the host was restarted".to_owned(),
                },
                token,
                undone: Vec::new(),
                faults: Vec::new(),
            };
            let guard = self.guard(&[]);
            let mut ops = self.ops(&guard, &journal);
            let by = By::Clean { same_boot };
            match dry_run {
                true => {
                    for (number, step) in journal.steps.iter().enumerate().rev() {
                        ops.mark = journal.mark(number);
                        let result = step.result.as_deref();
                        if step.undone || !ops.in_place(&step.action, result, by) {
                            continue;
                        }
                        match ops.out_of_reach(&step.action) {
                            Some(fault) => orphan.faults.push(fault),
                            None => orphan.undone.push(step.action.to_string()),
                        }
                    }
                }
                false => {
                    let undone = undo(&mut ops, journal, by);
                    (orphan.undone, orphan.faults) = (undone.done, undone.faults);
                }
            }
            cleaned.orphans.push(orphan);
        }
        cleaned
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use iodyno_host::socket_name;

    use super::*;

    #[test]
    fn a_socket_of_a_mirror_without_a_server_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let name = |digit: &str| {
            at(&socket_name(&format!(
                "{digit}0000000-0000-4000-8000-000000000000"
            )))
        };
        let (left, served, file) = (name("1"), name("2"), name("3"));
        drop(UnixListener::bind(&left).unwrap());
        let server = UnixListener::bind(&served).unwrap();
        std::fs::write(&file, "").unwrap();
        for other in ["mirror-x.sock", "other.sock"] {
            drop(UnixListener::bind(at(other)).unwrap());
        }
        let removed = |dry_run| {
            let mut cleaned = Cleaned::default();
            remove_sockets(folder.path(), dry_run, &mut cleaned);
            assert_eq!(cleaned.faults, []);
            cleaned.sockets
        };
        assert_eq!(removed(true), std::slice::from_ref(&left));
        assert!(left.exists());
        assert_eq!(removed(false), std::slice::from_ref(&left));
        assert!(!left.exists() && served.exists() && file.exists());
        assert!(at("mirror-x.sock").exists() && at("other.sock").exists());
        drop(server);
        assert_eq!(removed(false), [served]);
        assert_eq!(removed(false), Vec::<PathBuf>::new());
    }
}
