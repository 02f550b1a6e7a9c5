//! The texts of procfs that count: pure functions, which leave out what they cannot read.

use iodyno_model::DeviceUse;

/// CPU time of all CPUs since the boot, in hundredths of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTimes {
    /// In user mode, niced and guests' included.
    pub user: u64,
    /// In the kernel.
    pub system: u64,
    /// Doing nothing.
    pub idle: u64,
    /// Doing nothing while I/O was awaited.
    pub iowait: u64,
    /// In interrupts, soft ones included.
    pub irq: u64,
    /// Taken by the hypervisor.
    pub steal: u64,
}

/// The `cpu` line of /proc/stat; `None` if there is none.
pub fn cpu_times(text: &str) -> Option<CpuTimes> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    if fields.len() < 4 {
        return None;
    }
    let field = |index: usize| fields.get(index).copied().unwrap_or(0);
    // Guest time (fields 8 and 9) is in user and nice already.
    Some(CpuTimes {
        user: field(0).saturating_add(field(1)),
        system: field(2),
        idle: field(3),
        iowait: field(4),
        irq: field(5).saturating_add(field(6)),
        steal: field(7),
    })
}

/// A device's line of /proc/diskstats, without the three fields that name it, in their order there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskStats {
    fields: [u64; 17],
}

/// Every device of /proc/diskstats by kernel name, as sysfs writes it. Kernels before 4.18 have no
/// discards, before 5.5 no flushes: they count as zero.
pub fn disk_stats(text: &str) -> Vec<(String, DiskStats)> {
    text.lines().filter_map(disk_line).collect()
}

fn disk_line(line: &str) -> Option<(String, DiskStats)> {
    let mut words = line.split_whitespace().skip(2);
    let name = words.next()?.replace('/', "!");
    let mut stats = DiskStats::default();
    let mut read = 0;
    for (field, word) in stats.fields.iter_mut().zip(words) {
        *field = word.parse().ok()?;
        read += 1;
    }
    (read >= 11).then_some((name, stats))
}

impl DiskStats {
    /// Ops that were submitted and are not yet done.
    pub fn in_flight(&self) -> u64 {
        self.fields[8]
    }

    /// What the device did since an earlier reading.
    pub fn since(&self, earlier: &DiskStats, name: &str) -> DeviceUse {
        let grown = |index: usize| grown(earlier.fields[index], self.fields[index]);
        DeviceUse {
            name: name.to_owned(),
            ios: [grown(0), grown(4), grown(11), grown(15)],
            merges: [grown(1), grown(5), grown(12)],
            // In sectors of 512 bytes, whatever the device's are.
            bytes: [grown(2), grown(6), grown(13)].map(|sectors| sectors.saturating_mul(512)),
            ticks_ms: [grown(3), grown(7), grown(14), grown(16)],
            busy_ms: grown(9),
            queue_ms: grown(10),
        }
    }
}

/// The growth of a counter. Milliseconds are kept in 32 bits and wrap after 49 days, on 32-bit
/// kernels all counters do; one that is smaller without having been near the wrap has begun anew.
fn grown(earlier: u64, later: u64) -> u64 {
    const WRAP: u64 = 1 << 32;
    if later >= earlier {
        later - earlier
    } else if (WRAP / 2..WRAP).contains(&earlier) && later < WRAP / 2 {
        later + WRAP - earlier
    } else {
        later
    }
}

/// Hits and misses of /proc/spl/kstat/zfs/arcstats; `None` if it has none.
pub fn arc_hits(text: &str) -> Option<(u64, u64)> {
    let value = |name: &str| {
        text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next()? == name).then(|| words.nth(1)?.parse().ok())?
        })
    };
    Some((value("hits")?, value("misses")?))
}
