//! Finds targets whose process has died, and undoes them.

use std::path::{Path, PathBuf};

use iodyno_model::Diagnostic;
use serde::{Deserialize, Serialize};

use crate::journal::{Journal, JournalError, boot_id};
use crate::roots::{Roots, text};

use super::action::By;
use super::{Maker, undo};

/// A target whose process has died.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Orphan {
    /// Its token.
    pub token: String,
    /// The configuration for which it was made.
    pub configuration: String,
    /// Why nobody uses it any more.
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

/// The users with journals in their home folders, according to /etc/passwd. Nothing that a user wrote is opened.
fn other_users(roots: &Roots) -> Vec<OtherUser> {
    let users = text(roots.root.join("etc/passwd")).unwrap_or_default();
    let found = users.lines().filter_map(|line| {
        // name:password:uid:gid:comment:home:shell
        let fields: Vec<&str> = line.split(':').collect();
        let (name, uid, home) = (fields.first()?, fields.get(2)?, fields.get(5)?);
        let home = Path::new(home).strip_prefix("/").ok()?;
        let folder = roots.root.join(home).join(".local/state/iodyno/journal");
        let journals = Journal::tokens(&folder).len() as u64;
        (*uid != "0" && journals > 0).then(|| OtherUser {
            name: (*name).to_owned(),
            folder,
            journals,
        })
    });
    found.collect()
}

impl Maker<'_> {
    /// Undoes all orphans. `told` gets each action that is being undone.
    pub(super) fn clean(&self, dry_run: bool, told: &mut dyn FnMut(&str)) -> Cleaned {
        let roots = self.host.roots();
        let mut cleaned = Cleaned {
            others: match self.host.is_root() {
                true => other_users(roots),
                false => Vec::new(),
            },
            ..Cleaned::default()
        };
        for token in Journal::tokens(&self.folders.journals) {
            let journal = match Journal::open(&self.folders.journals, &token) {
                Ok(journal) => journal,
                // It is being made or undone, or was undone meanwhile.
                Err(JournalError::Busy | JournalError::Missing) => continue,
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
            let mut hands = self.hands(&guard, &journal, &|| false);
            let by = By::Clean { same_boot };
            match dry_run {
                true => {
                    for (number, step) in journal.steps.iter().enumerate().rev() {
                        hands.mark = journal.mark(number);
                        let result = step.result.as_deref();
                        if !step.undone && hands.in_place(&step.action, result, by) {
                            orphan.undone.push(step.action.to_string());
                        }
                    }
                }
                false => {
                    let undone = undo(&mut hands, journal, by, told);
                    (orphan.undone, orphan.faults) = (undone.done, undone.faults);
                }
            }
            cleaned.orphans.push(orphan);
        }
        cleaned
    }
}
