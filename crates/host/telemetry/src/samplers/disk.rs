//! Block devices, from /proc/diskstats.

use iodyno_host::Roots;
use iodyno_host::counters::{DiskStats, disk_lines};
use iodyno_model::{DISK, SeriesColumn, SeriesKind, SeriesRow};

use super::pool_devices::PoolDevices;
use crate::layout::listed;
use crate::sampler::{Fill, Read, Readings, Sampler};
use crate::scope::Devices;
use crate::text::Text;

const NS_A_MS: u64 = 1_000_000;

/// /proc/diskstats.
pub(crate) struct Disk {
    text: Text,
    choice: Choice,
    /// Devices below pools, which are added to the named ones when they become known.
    pools: PoolDevices,
    missed: Vec<String>,
    looked: bool,
}

/// Which devices are sampled, and the state needed for the others.
enum Choice {
    /// All devices with any I/O. The counts of a device start at zero when it appears with its first I/O; therefore
    /// the names of devices without I/O in the last two readings are kept.
    Busy { idle: String, idle_before: String },
    /// Devices with these names, with their current counters.
    Named(Vec<(SeriesRow, Option<DiskStats>)>),
}

impl Disk {
    pub(crate) fn open(roots: &Roots, devices: &Devices, pools: &PoolDevices) -> Disk {
        let choice = match devices {
            Devices::All => Choice::Busy {
                idle: String::new(),
                idle_before: String::new(),
            },
            Devices::Named(names) => {
                let named = names
                    .iter()
                    .map(|name| (SeriesRow::new(name.as_str()), None));
                Choice::Named(named.collect())
            }
        };
        Disk {
            text: Text::new(roots.proc.join("diskstats")),
            choice,
            pools: pools.clone(),
            missed: Vec::new(),
            looked: false,
        }
    }
}

impl Sampler for Disk {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Disk
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        let choice = &mut self.choice;
        if let Choice::Named(named) = choice {
            self.pools.each(|device, pool| add(named, device, pool));
        }
        self.text
            .read_by(|text| choice.read(text, into.fill(DISK)))?;
        if let (false, Choice::Named(named)) = (self.looked, &self.choice) {
            let absent = named.iter().filter(|(_, stats)| stats.is_none());
            let names: Vec<String> = absent.map(|(row, _)| row.name.clone()).collect();
            if !names.is_empty() {
                let reason = format!("/proc/diskstats does not have {}", listed(&names));
                self.missed.push(reason);
            }
        }
        self.looked = true;
        Ok(Read::Fresh)
    }

    fn missed(&mut self) -> Vec<String> {
        std::mem::take(&mut self.missed)
    }

    fn wraps(&self, column: usize) -> Option<u64> {
        DISK[column].0.ends_with("_time").then_some(NS_A_MS << 32)
    }

    fn began_at(&self, row: &SeriesRow, _: &SeriesColumn) -> Option<u64> {
        match &self.choice {
            Choice::Busy { idle_before, .. } => {
                let was_idle = idle_before.lines().any(|name| name == row.name);
                was_idle.then_some(0)
            }
            Choice::Named(_) => None,
        }
    }
}

impl Choice {
    fn read(&mut self, text: &str, mut fill: Fill<'_>) -> Result<(), String> {
        let unreadable = |name: &str| format!("the counters of {name} cannot be read");
        let mut lines = 0;
        match self {
            Choice::Busy { idle, idle_before } => {
                std::mem::swap(idle, idle_before);
                idle.clear();
                for (name, stats) in disk_lines(text) {
                    let stats = stats.ok_or_else(|| unreadable(&name))?;
                    lines += 1;
                    if stats.ios().iter().flatten().any(|ios| *ios > 0) {
                        fill_row(&mut fill, &name, None, &stats);
                    } else {
                        idle.push_str(&name);
                        idle.push('\n');
                    }
                }
            }
            Choice::Named(named) => {
                named.iter_mut().for_each(|(_, stats)| *stats = None);
                for (name, stats) in disk_lines(text) {
                    lines += 1;
                    if let Some(found) = named.iter_mut().find(|named| named.0.name == name) {
                        found.1 = Some(stats.ok_or_else(|| unreadable(&name))?);
                    }
                }
                for (row, stats) in named {
                    if let Some(stats) = stats {
                        fill_row(&mut fill, &row.name, row.serves.as_deref(), stats);
                    }
                }
            }
        }
        if lines == 0 {
            return Err("it has no devices".to_owned());
        }
        fill.done();
        Ok(())
    }
}

/// Adds a device of a pool, unless it is there already.
fn add(named: &mut Vec<(SeriesRow, Option<DiskStats>)>, device: &str, pool: &str) {
    if !named.iter().any(|(row, _)| row.name == device) {
        let row = SeriesRow {
            serves: Some(pool.to_owned()),
            ..SeriesRow::new(device)
        };
        named.push((row, None));
    }
}

fn fill_row(fill: &mut Fill<'_>, name: &str, serves: Option<&str>, stats: &DiskStats) {
    let ns = |ms: u64| Some(ms.saturating_mul(NS_A_MS));
    let times = stats.ticks_ms().map(|ms| ms.and_then(ns));
    let [busy, queue] = [stats.busy_ms(), stats.queue_ms()].map(ns);
    let counts = stats.ios().into_iter().chain(stats.merges());
    let values =
        counts
            .chain(stats.bytes())
            .chain(times)
            .chain([busy, queue, Some(stats.in_flight())]);
    let new = || SeriesRow {
        serves: serves.map(str::to_owned),
        ..SeriesRow::new(name)
    };
    let same = |row: &SeriesRow| row.name == name && row.serves.as_deref() == serves;
    fill.row(same, new, values);
}
