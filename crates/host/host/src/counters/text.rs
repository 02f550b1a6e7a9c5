//! Parsers of the counter files of procfs. They are pure functions and skip what they cannot parse.

use std::borrow::Cow;

use iodyno_model::DeviceUse;

/// CPU time of all CPUs since boot, in hundredths of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTimes {
    /// User mode, including nice and guests.
    pub user: u64,
    /// Kernel mode.
    pub system: u64,
    /// Idle.
    pub idle: u64,
    /// Idle while waiting for I/O.
    pub iowait: u64,
    /// Interrupts, including soft interrupts.
    pub irq: u64,
    /// Stolen by the hypervisor.
    pub steal: u64,
    /// The part of `user` with reduced priority.
    pub nice: u64,
    /// The part of `irq` in soft interrupts.
    pub soft: u64,
    /// The part of `user` in guests.
    pub guest: u64,
}

/// Parses the `cpu` line of /proc/stat; `None` if there is none.
pub fn cpu_times(text: &str) -> Option<CpuTimes> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    cpu_fields(line)
}

/// Times of each CPU in /proc/stat by its name; `None` if they cannot be parsed. Offline CPUs have no line.
pub fn times_by_cpu(text: &str) -> impl Iterator<Item = (&str, Option<CpuTimes>)> {
    text.lines()
        .filter_map(|line| line.strip_prefix("cpu")?.split_once(' '))
        .filter(|(number, _)| !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit()))
        .map(|(number, fields)| (number, cpu_fields(fields)))
}

fn cpu_fields(line: &str) -> Option<CpuTimes> {
    // Guest time (fields 8 and 9) is included in user and nice.
    let mut fields = [0u64; 10];
    let words = line.split_ascii_whitespace();
    let mut found = 0;
    for (field, word) in fields.iter_mut().zip(words) {
        let Ok(ticks) = word.parse() else { break };
        *field = ticks;
        found += 1;
    }
    (found >= 4).then(|| CpuTimes {
        user: fields[0].saturating_add(fields[1]),
        system: fields[2],
        idle: fields[3],
        iowait: fields[4],
        irq: fields[5].saturating_add(fields[6]),
        steal: fields[7],
        nice: fields[1],
        soft: fields[6],
        guest: fields[8].saturating_add(fields[9]),
    })
}

/// The counters of a line in /proc/diskstats, in their order, without the three fields that name the
/// device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskStats {
    fields: [u64; 17],
    /// Number of counters in the line.
    found: usize,
}

/// All devices in /proc/diskstats by kernel name as in sysfs. Kernels before 4.18 report no discards,
/// before 5.5 no flushes: these count as zero.
pub fn disk_stats(text: &str) -> Vec<(String, DiskStats)> {
    disk_lines(text)
        .filter_map(|(name, stats)| Some((name.into_owned(), stats?)))
        .collect()
}

/// All devices in /proc/diskstats by kernel name as in sysfs; `None` if the counters cannot be parsed.
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
        stats.found += 1;
    }
    (stats.found >= 11).then_some(stats)
}

impl DiskStats {
    /// Number of ops that were submitted and have not completed.
    pub fn in_flight(&self) -> u64 {
        self.fields[8]
    }

    /// Completed reads, writes, discards and flushes; `None`: the kernel does not count them.
    pub fn ios(&self) -> [Option<u64>; 4] {
        [0, 4, 11, 15].map(|index| self.field(index))
    }

    /// Merged reads, writes and discards.
    pub fn merges(&self) -> [Option<u64>; 3] {
        [1, 5, 12].map(|index| self.field(index))
    }

    /// Bytes read, written and discarded.
    pub fn bytes(&self) -> [Option<u64>; 3] {
        [2, 6, 13].map(|index| Some(in_bytes(self.field(index)?)))
    }

    /// Time of reads, writes, discards and flushes, in ms: sums over all ops, in 32 bits.
    pub fn ticks_ms(&self) -> [Option<u64>; 4] {
        [3, 7, 14, 16].map(|index| self.field(index))
    }

    /// Time with any op in flight, in ms, in 32 bits.
    pub fn busy_ms(&self) -> u64 {
        self.fields[9]
    }

    /// Time weighted by the number of ops in flight, in ms.
    pub fn queue_ms(&self) -> u64 {
        self.fields[10]
    }

    fn field(&self, index: usize) -> Option<u64> {
        (index < self.found).then(|| self.fields[index])
    }

    /// The increase since an earlier reading.
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

/// diskstats counts sectors of 512 bytes for every device.
fn in_bytes(sectors: u64) -> u64 {
    sectors.saturating_mul(512)
}

/// The increase of a counter. Milliseconds have 32 bits and wrap after 49 days; on 32-bit kernels all
/// counters wrap. A counter that is smaller than before without having been near its maximum was reset.
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

/// Bytes of the reads that a process sent to block devices, in its /proc/PID/io; `None` if it does not contain them.
pub(super) fn own_read(io: &str) -> Option<u64> {
    let mut lines = io.lines();
    let value = lines.find_map(|line| line.strip_prefix("read_bytes:"))?;
    value.trim().parse().ok()
}

/// Hits and misses in /proc/spl/kstat/zfs/arcstats; `None` if it does not contain them.
pub fn arc_hits(text: &str) -> Option<(u64, u64)> {
    let value = |name: &str| {
        text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next()? == name).then(|| words.nth(1)?.parse().ok())?
        })
    };
    Some((value("hits")?, value("misses")?))
}
