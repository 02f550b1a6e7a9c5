//! Whether data may be written. See *Epoch* in the module above.

use super::Mirror;
use super::interface::Errno;
use super::tasks::{Purpose, Work};

impl Mirror {
    /// Whether a task may write data. If not, it continues in [`Self::opened`].
    pub(super) fn may_write(&mut self, task: u32) -> bool {
        if !self.epoch.open {
            self.epoch.waiting.push(task);
        }
        self.epoch.open
    }

    /// Continues tasks that waited for the epoch.
    pub(super) fn opened(&mut self) {
        self.epoch.open = true;
        for task in std::mem::take(&mut self.epoch.waiting) {
            match self.task(task).work {
                // The log may lack its bits even if it had them before: a leg may have come online.
                Work::Write { request, .. } => self.write_log(task, request),
                Work::Copy { .. } => self.copy_write(task),
                Work::Scrub { .. } => self.scrub_repair(task),
                _ => unreachable!("only these write data"),
            }
        }
    }

    /// The epoch could not be opened: nothing is written.
    pub(super) fn not_opened(&mut self, error: Errno) {
        for task in std::mem::take(&mut self.epoch.waiting) {
            match self.task(task).work {
                Work::Write { request, .. } => self.write_fails(task, request, error),
                Work::Copy { .. } => self.copy_abandoned(task),
                Work::Scrub { .. } => self.scrub_next(task),
                _ => unreachable!("only these write data"),
            }
        }
    }

    /// Records again if something was written since the last tick. Otherwise closes the epoch.
    pub(super) fn epoch_tick(&mut self) {
        if !self.settings.epochs || self.stopping {
            return;
        }
        if !self.epoch.open {
            // A copy that was made before the tick may have the generations of a record that opens it now.
            self.epoch.due |= !self.epoch.waiting.is_empty();
            return;
        }
        let dirty = std::mem::take(&mut self.epoch.dirty) || self.epoch.in_flight > 0;
        if dirty {
            self.epoch.due = true;
        } else if !self.epoch.closing {
            self.epoch.closing = true;
            self.flush(Purpose::Close, self.online());
        }
    }
}
