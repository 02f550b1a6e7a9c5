//! The host's counters over the measured time.

use iodyno_host::Roots;
use iodyno_host::counters::{self, Snapshot};
use iodyno_model::{HostUse, TargetInfo};

/// The host's counters at the start and the end of the measured time.
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

    /// Call this when the measured time begins.
    pub(crate) fn begin(&mut self) {
        self.before = Snapshot::take(&self.roots, &self.devices);
        self.after = None;
    }

    /// `measuring`: whether any clone is measured now. The use after the measured time is not counted.
    pub(crate) fn look(&mut self, measuring: bool) {
        if measuring {
            self.after = None;
        } else if self.after.is_none() {
            self.after = Some(Snapshot::take(&self.roots, &self.devices));
        }
    }

    /// The use of the host over the measured time.
    pub(crate) fn used(&mut self) -> HostUse {
        let after = self.after.take();
        let after = after.unwrap_or_else(|| Snapshot::take(&self.roots, &self.devices));
        let mut used = after.since(&self.before);
        if let Some(peak) = peak_memory(&std::fs::read_to_string(OWN_STATUS).unwrap_or_default()) {
            used.harness_memory = peak;
        }
        used
    }
}

const OWN_STATUS: &str = "/proc/self/status";

/// The peak resident memory of this program, bytes. getrusage(2) may return that of the process that started this one,
/// because the kernel keeps it across exec(2).
fn peak_memory(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_peak_memory_of_this_process() {
        let status = "Name:\tx\nVmPeak:\t  999 kB\nVmHWM:\t    9624 kB\nVmRSS:\t 9 kB\n";
        assert_eq!(peak_memory(status), Some(9624 * 1024));
        assert_eq!(peak_memory("VmHWM:\t many kB\n"), None);
        assert_eq!(peak_memory(""), None);
    }
}
