//! Statistics of a server: per opcode, the number of requests and their waiting and service times; and the sizes of
//! batches.
//!
//! Threads count with relaxed atomics. Histograms of times have four buckets per power of two, so a quantile is exact
//! to 25 %.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::policy::{Estimates, Policy};
use crate::request::opcode;

const OPCODES: usize = 64;
/// Four per power of two up to 2^40 ns, which is 18 minutes.
const BUCKETS: usize = 160;
/// Powers of two of batch sizes.
const SIZES: usize = 12;

/// A histogram of times.
#[derive(Debug)]
struct Times {
    buckets: [AtomicU64; BUCKETS],
    total_ns: AtomicU64,
    most_ns: AtomicU64,
}

impl Times {
    fn new() -> Times {
        Times {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            total_ns: AtomicU64::new(0),
            most_ns: AtomicU64::new(0),
        }
    }

    fn record(&self, ns: u64) {
        self.buckets[bucket(ns)].fetch_add(1, Ordering::Relaxed);
        self.total_ns.fetch_add(ns, Ordering::Relaxed);
        self.most_ns.fetch_max(ns, Ordering::Relaxed);
    }

    fn seen(&self) -> TimesReport {
        let counts: Vec<u64> = (self.buckets.iter())
            .map(|bucket| bucket.load(Ordering::Relaxed))
            .collect();
        let count: u64 = counts.iter().sum();
        let most_ns = self.most_ns.load(Ordering::Relaxed);
        let quantile = |share: f64| {
            let wanted = (share * count as f64).ceil().max(1.0) as u64;
            let mut below = 0;
            let at = counts.iter().position(|found| {
                below += found;
                below >= wanted
            });
            at.map_or(0, |at| upper(at).min(most_ns))
        };
        let total_ns = self.total_ns.load(Ordering::Relaxed);
        TimesReport {
            total_ns,
            mean_ns: total_ns.checked_div(count).unwrap_or(0),
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            max_ns: most_ns,
        }
    }
}

/// The bucket of a time.
fn bucket(ns: u64) -> usize {
    if ns < 4 {
        return ns as usize;
    }
    let power = ns.ilog2() as usize;
    (4 * (power - 1) + (ns >> (power - 2) & 3) as usize).min(BUCKETS - 1)
}

/// The largest time of a bucket.
fn upper(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let power = bucket / 4 + 1;
    ((bucket as u64 % 4 + 5) << (power - 2)) - 1
}

#[derive(Debug)]
struct OfOpcode {
    failed: AtomicU64,
    inline: AtomicU64,
    transferred: AtomicU64,
    count: AtomicU64,
    bytes: AtomicU64,
    queueing: Times,
    service: Times,
}

/// The transport of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// The rings of a virtual machine monitor.
    VhostUser,
    /// `/dev/fuse`.
    Device,
    /// FUSE over io_uring.
    #[serde(rename = "io_uring")]
    IoUring,
}

/// The statistics of a server since its start.
#[derive(Debug)]
pub struct Stats {
    opcodes: Vec<OfOpcode>,
    batches: [AtomicU64; SIZES],
    batched: AtomicU64,
    substitutes: AtomicU64,
}

/// An executed request.
#[derive(Debug, Clone, Copy)]
pub struct Worked {
    /// Its opcode.
    pub opcode: u32,
    /// In the thread of its queue.
    pub inline: bool,
    /// By the kernel, while that thread continued.
    pub transferred: bool,
    /// It ended with an error that is not part of normal operation: neither `ENOENT` nor a missing feature counts.
    pub failed: bool,
    /// Bytes of data that were read or written.
    pub bytes: u64,
    /// From when it was taken from its queue until work on it began, ns.
    pub queueing_ns: u64,
    /// From then until its reply, ns.
    pub service_ns: u64,
}

impl Default for Stats {
    fn default() -> Stats {
        let of_opcode = || OfOpcode {
            failed: AtomicU64::new(0),
            inline: AtomicU64::new(0),
            transferred: AtomicU64::new(0),
            count: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            queueing: Times::new(),
            service: Times::new(),
        };
        Stats {
            opcodes: (0..OPCODES).map(|_| of_opcode()).collect(),
            batches: [const { AtomicU64::new(0) }; SIZES],
            batched: AtomicU64::new(0),
            substitutes: AtomicU64::new(0),
        }
    }
}

impl Stats {
    /// Counts a request.
    pub fn worked(&self, worked: Worked) {
        let of = &self.opcodes[(worked.opcode as usize).min(OPCODES - 1)];
        of.count.fetch_add(1, Ordering::Relaxed);
        of.failed.fetch_add(worked.failed.into(), Ordering::Relaxed);
        of.inline.fetch_add(worked.inline.into(), Ordering::Relaxed);
        of.transferred
            .fetch_add(worked.transferred.into(), Ordering::Relaxed);
        of.bytes.fetch_add(worked.bytes, Ordering::Relaxed);
        of.queueing.record(worked.queueing_ns);
        of.service.record(worked.service_ns);
    }

    /// Counts a batch of this many requests.
    pub fn batch(&self, size: usize) {
        let at = (size.max(1).ilog2() as usize).min(SIZES - 1);
        self.batches[at].fetch_add(1, Ordering::Relaxed);
        self.batched.fetch_add(size as u64, Ordering::Relaxed);
    }

    /// Counts a substitute thread for a queue whose thread a request blocked.
    pub fn substituted(&self) {
        self.substitutes.fetch_add(1, Ordering::Relaxed);
    }

    /// The statistics as JSON.
    #[must_use]
    pub fn json(
        &self,
        transport: Option<Transport>,
        policy: Policy,
        threads: u16,
        estimates: &Estimates,
    ) -> String {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let opcodes = self.opcodes.iter().enumerate();
        let opcodes = opcodes.filter(|(_, of)| load(&of.count) > 0);
        let opcodes = opcodes.map(|(number, of)| OpcodeReport {
            opcode: opcode::name(number as u32),
            number: number as u32,
            count: load(&of.count),
            failed: load(&of.failed),
            inline: load(&of.inline),
            transferred: load(&of.transferred),
            bytes: load(&of.bytes),
            queueing: of.queueing.seen(),
            service: of.service.seen(),
        });
        let opcodes: Vec<OpcodeReport> = opcodes.collect();
        let of_batches: u64 = self.batches.iter().map(load).sum();
        let batches = self.batches.iter().enumerate();
        let sizes = batches.filter(|(_, count)| load(count) > 0);
        let seen = StatsReport {
            schema: 1,
            transport,
            dispatch: policy.to_string(),
            threads,
            hand_off_ns: estimates.hand_off_ns(),
            requests: opcodes.iter().map(|of| of.count).sum(),
            inline: opcodes.iter().map(|of| of.inline).sum(),
            transferred: opcodes.iter().map(|of| of.transferred).sum(),
            substitutes: load(&self.substitutes),
            batches: BatchesReport {
                count: of_batches,
                mean: load(&self.batched) as f64 / of_batches.max(1) as f64,
                sizes: sizes
                    .map(|(power, count)| SizeReport {
                        from: 1 << power,
                        count: load(count),
                    })
                    .collect(),
            },
            opcodes,
        };
        serde_json::to_string_pretty(&seen).unwrap_or_default()
    }
}

#[derive(Debug, Serialize)]
struct StatsReport {
    schema: u32,
    transport: Option<Transport>,
    dispatch: String,
    threads: u16,
    hand_off_ns: u64,
    requests: u64,
    inline: u64,
    transferred: u64,
    substitutes: u64,
    batches: BatchesReport,
    opcodes: Vec<OpcodeReport>,
}

#[derive(Debug, Serialize)]
struct BatchesReport {
    count: u64,
    mean: f64,
    /// Batches of at least `from` requests and less than twice as many.
    sizes: Vec<SizeReport>,
}

#[derive(Debug, Serialize)]
struct SizeReport {
    from: u32,
    count: u64,
}

#[derive(Debug, Serialize)]
struct OpcodeReport {
    opcode: &'static str,
    number: u32,
    count: u64,
    failed: u64,
    inline: u64,
    transferred: u64,
    bytes: u64,
    queueing: TimesReport,
    service: TimesReport,
}

#[derive(Debug, Serialize)]
struct TimesReport {
    total_ns: u64,
    mean_ns: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_a_bucket_whose_largest_time_is_at_most_a_quarter_more() {
        let mut last = 0;
        for ns in (0..2000).chain((0..39).map(|power| (1u64 << power) + power)) {
            let bound = upper(bucket(ns));
            assert!(bound >= ns && bound <= ns + ns / 4, "{ns} {bound}");
            last = last.max(bucket(ns));
        }
        assert!(last < BUCKETS);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn what_is_counted_is_in_the_json() {
        let stats = Stats::default();
        for at in 0..100 {
            stats.worked(Worked {
                opcode: opcode::READ,
                inline: at % 4 == 0,
                transferred: at % 4 == 1,
                failed: at == 0,
                bytes: 4096,
                queueing_ns: 10,
                service_ns: 1000 * (at + 1),
            });
        }
        stats.batch(1);
        stats.batch(5);
        stats.substituted();
        let estimates = Estimates::new(12_345, 2);
        let text = stats.json(Some(Transport::IoUring), Policy::Pool(16), 16, &estimates);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["dispatch"], "pool:16");
        assert_eq!(json["transport"], "io_uring");
        assert_eq!(json["opcodes"][0]["service"]["total_ns"], 5_050_000);
        assert_eq!(json["hand_off_ns"], 12_345);
        assert_eq!(
            (&json["requests"], &json["inline"]),
            (&100.into(), &25.into())
        );
        assert_eq!(json["batches"]["mean"], 3.0);
        assert_eq!(json["substitutes"], 1);
        assert_eq!(json["batches"]["sizes"][1]["from"], 4);
        let read = &json["opcodes"][0];
        assert_eq!(read["opcode"], "READ");
        assert_eq!(
            (&read["failed"], &read["bytes"]),
            (&1.into(), &409_600.into())
        );
        assert_eq!(read["service"]["max_ns"], 100_000);
        let median = read["service"]["p50_ns"].as_u64().unwrap();
        assert!((50_000..62_500).contains(&median), "{median}");
        assert_eq!(read["queueing"]["mean_ns"], 10);
    }
}
