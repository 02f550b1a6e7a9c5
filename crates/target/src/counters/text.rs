//! The texts of procfs that count: pure functions, which leave out what they cannot read.

use std::borrow::Cow;

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
    cpu_fields(line)
}

/// The times of each CPU of /proc/stat by its number; `None` where they cannot be read. CPUs that are offline are not there.
pub fn times_by_cpu(text: &str) -> impl Iterator<Item = (&str, Option<CpuTimes>)> {
    text.lines()
        .filter_map(|line| line.strip_prefix("cpu")?.split_once(' '))
        .filter(|(number, _)| !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit()))
        .map(|(number, fields)| (number, cpu_fields(fields)))
}

fn cpu_fields(line: &str) -> Option<CpuTimes> {
    // Guest time (fields 8 and 9) is in user and nice already.
    let mut fields = [0u64; 8];
    let words = line.split_ascii_whitespace();
    let mut told = 0;
    for (field, word) in fields.iter_mut().zip(words) {
        let Ok(ticks) = word.parse() else { break };
        *field = ticks;
        told += 1;
    }
    (told >= 4).then(|| CpuTimes {
        user: fields[0].saturating_add(fields[1]),
        system: fields[2],
        idle: fields[3],
        iowait: fields[4],
        irq: fields[5].saturating_add(fields[6]),
        steal: fields[7],
    })
}

/// A device's line of /proc/diskstats, without the three fields that name it, in their order there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskStats {
    fields: [u64; 17],
    /// How many of them the kernel tells.
    told: usize,
}

/// Every device of /proc/diskstats by kernel name, as sysfs writes it. Kernels before 4.18 have no
/// discards, before 5.5 no flushes: they count as zero.
pub fn disk_stats(text: &str) -> Vec<(String, DiskStats)> {
    disk_lines(text)
        .filter_map(|(name, stats)| Some((name.into_owned(), stats?)))
        .collect()
}

/// Every device of /proc/diskstats by kernel name, as sysfs writes it; `None` where its counters cannot be read.
pub fn disk_lines(text: &str) -> impl Iterator<Item = (Cow<'_, str>, Option<DiskStats>)> {
    text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(2);
        let name = words.next()?;
        let name = if name.contains('/') {
            Cow::Owned(name.replace('/', "!"))
        } else {
            Cow::Borrowed(name)
        };
        Some((name, disk_fields(words)))
    })
}

fn disk_fields<'a>(words: impl Iterator<Item = &'a str>) -> Option<DiskStats> {
    let mut stats = DiskStats::default();
    for (field, word) in stats.fields.iter_mut().zip(words) {
        *field = word.parse().ok()?;
        stats.told += 1;
    }
    (stats.told >= 11).then_some(stats)
}

impl DiskStats {
    /// Ops that were submitted and are not yet done.
    pub fn in_flight(&self) -> u64 {
        self.fields[8]
    }

    /// Reads, writes, discards and flushes that are done; `None`: the kernel does not count them.
    pub fn ios(&self) -> [Option<u64>; 4] {
        [0, 4, 11, 15].map(|index| self.field(index))
    }

    /// Reads, writes and discards that were merged into another.
    pub fn merges(&self) -> [Option<u64>; 3] {
        [1, 5, 12].map(|index| self.field(index))
    }

    /// Bytes read, written and discarded.
    pub fn bytes(&self) -> [Option<u64>; 3] {
        [2, 6, 13].map(|index| Some(in_bytes(self.field(index)?)))
    }

    /// Time that reads, writes, discards and flushes took, in ms: all of them together, kept in 32 bits.
    pub fn ticks_ms(&self) -> [Option<u64>; 4] {
        [3, 7, 14, 16].map(|index| self.field(index))
    }

    /// Time with any op in flight, in ms, kept in 32 bits.
    pub fn busy_ms(&self) -> u64 {
        self.fields[9]
    }

    /// That with each op counted.
    pub fn queue_ms(&self) -> u64 {
        self.fields[10]
    }

    fn field(&self, index: usize) -> Option<u64> {
        (index < self.told).then(|| self.fields[index])
    }

    /// What the device did since an earlier reading.
    pub fn since(&self, earlier: &DiskStats, name: &str) -> DeviceUse {
        let grown = |index: usize| grown(earlier.fields[index], self.fields[index]);
        DeviceUse {
            name: name.to_owned(),
            ios: [grown(0), grown(4), grown(11), grown(15)],
            merges: [grown(1), grown(5), grown(12)],
            bytes: [grown(2), grown(6), grown(13)].map(in_bytes),
            ticks_ms: [grown(3), grown(7), grown(14), grown(16)],
            busy_ms: grown(9),
            queue_ms: grown(10),
        }
    }
}

/// Sectors are of 512 bytes here, whatever the device's are.
fn in_bytes(sectors: u64) -> u64 {
    sectors.saturating_mul(512)
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
