//! The host's counters around the measured time.

use iodyno_model::{HostUse, TargetInfo};
use iodyno_target::Roots;
use iodyno_target::counters::{self, Snapshot};

/// What the host had counted before, and when nothing was measured any more.
#[derive(Debug)]
pub(crate) struct HostWatch {
    roots: Roots,
    devices: Vec<String>,
    before: Snapshot,
    after: Option<Snapshot>,
}

impl HostWatch {
    /// Watches the devices below these targets.
    pub(crate) fn new(targets: &[TargetInfo]) -> HostWatch {
        let roots = Roots::host();
        let devices = counters::devices(targets);
        HostWatch {
            before: Snapshot::take(&roots, &devices),
            after: None,
            roots,
            devices,
        }
    }

    /// The measured time begins.
    pub(crate) fn begin(&mut self) {
        self.before = Snapshot::take(&self.roots, &self.devices);
        self.after = None;
    }

    /// Something is measured now, or nothing any more: what comes then is not counted.
    pub(crate) fn look(&mut self, measuring: bool) {
        if measuring {
            self.after = None;
        } else if self.after.is_none() {
            self.after = Some(Snapshot::take(&self.roots, &self.devices));
        }
    }

    /// What it used over the measured time.
    pub(crate) fn used(&mut self) -> HostUse {
        let after = self.after.take();
        let after = after.unwrap_or_else(|| Snapshot::take(&self.roots, &self.devices));
        after.since(&self.before)
    }
}
