//! The processes for which something is kept, and the boot in which they run.

use serde::{Deserialize, Serialize};

use crate::roots::{Roots, text};

/// The process that uses a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot, so that a later process with this id is not mistaken for it.
    pub start: u64,
}

impl Owner {
    /// The process with this id; `None` if there is none.
    pub fn of(roots: &Roots, pid: u32) -> Option<Owner> {
        let stat = text(roots.proc.join(pid.to_string()).join("stat"))?;
        // The name of the program is in parentheses and may contain any character.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let exited = matches!(fields.first(), Some(&("Z" | "X")));
        let start = fields.get(19)?.parse().ok()?;
        (!exited).then_some(Owner { pid, start })
    }

    /// Whether it still runs.
    pub fn lives(&self, roots: &Roots) -> bool {
        Owner::of(roots, self.pid) == Some(*self)
    }
}

/// The id of the current boot.
pub fn boot_id(roots: &Roots) -> String {
    text(roots.proc.join("sys/kernel/random/boot_id")).unwrap_or_default()
}
