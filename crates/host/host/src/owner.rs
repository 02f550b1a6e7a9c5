//! The processes for which something is kept, and the boot in which they run.

use serde::{Deserialize, Serialize};

use iodyno_sys::process::STEP_VARIABLE;

use crate::process_stat::ProcessStat;
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
        let stat = ProcessStat::of(roots, pid)?;
        (!stat.has_ended()).then_some(Owner {
            pid,
            start: stat.start,
        })
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

/// Whether a process with this environment (`/proc/PID/environ`) was started to make the storage with this token.
pub fn started_for(environment: &[u8], token: &str) -> bool {
    let start = format!("{STEP_VARIABLE}={token}/");
    environment
        .split(|byte| *byte == 0)
        .any(|one| one.starts_with(start.as_bytes()))
}
