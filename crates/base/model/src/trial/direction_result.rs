//! Results of a clone in one direction.

use serde::{Deserialize, Serialize};

use crate::{Direction, Histogram, PriorityResult};

/// Mean and extremes of a windowed rate (fio's bw and iops samples, every 500 ms).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SampleStats {
    /// Number of samples.
    pub samples: u64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the sample.
    pub stddev: f64,
}

impl SampleStats {
    /// Adds the values of a clone that ran at the same time: rates of a group are sums (fio's rule).
    pub fn add(&mut self, other: &SampleStats) {
        self.samples += other.samples;
        self.min += other.min;
        self.max += other.max;
        self.mean += other.mean;
        // The clones' rates are assumed to be independent: variances add up.
        self.stddev = self.stddev.hypot(other.stddev);
    }
}

/// Computes [`SampleStats`] from single samples, in one pass (Welford 1962).
#[derive(Debug, Clone, Copy, Default)]
pub struct RunningStats {
    stats: SampleStats,
    /// Sum of squared deviations from the mean.
    squares: f64,
}

impl RunningStats {
    /// Adds a sample.
    pub fn add(&mut self, value: f64) {
        let stats = &mut self.stats;
        (stats.min, stats.max) = match stats.samples {
            0 => (value, value),
            _ => (stats.min.min(value), stats.max.max(value)),
        };
        stats.samples += 1;
        let deviation = value - stats.mean;
        stats.mean += deviation / stats.samples as f64;
        self.squares += deviation * (value - stats.mean);
    }

    /// Number of samples.
    pub fn samples(&self) -> u64 {
        self.stats.samples
    }

    /// The statistics of the samples so far; the standard deviation of a single one is 0.
    pub fn stats(&self) -> SampleStats {
        SampleStats {
            stddev: match self.stats.samples {
                0 | 1 => 0.0,
                samples => (self.squares / (samples - 1) as f64).sqrt(),
            },
            ..self.stats
        }
    }
}

/// Results of one clone in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectionResult {
    /// Direction.
    pub direction: Direction,
    /// Number of ops completed in the measured time, without failed ones.
    pub ops: u64,
    /// Bytes transferred in the measured time.
    pub bytes: u64,
    /// Ops that moved less than requested and were continued.
    pub short: u64,
    /// Measured time, ns.
    pub runtime_ns: u64,
    /// Duration of submission calls, ns; only if submission is a separate call.
    pub submission: Option<Histogram>,
    /// From the end of the submission call to completion, ns; only if submission is a separate call.
    #[serde(default)]
    pub completion: Option<Histogram>,
    /// Service latency: submitted → completed, ns.
    pub service: Histogram,
    /// Response latency: intended → completed, ns; if a rate was requested.
    pub response: Option<Histogram>,
    /// Latencies by priority, if ops have priorities of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub priorities: Vec<PriorityResult>,
    /// Bytes/s.
    pub bandwidth: SampleStats,
    /// Ops/s.
    pub iops: SampleStats,
}

impl DirectionResult {
    /// The result of a direction without ops.
    pub fn empty(direction: Direction) -> DirectionResult {
        DirectionResult {
            direction,
            ops: 0,
            bytes: 0,
            short: 0,
            runtime_ns: 0,
            submission: None,
            completion: None,
            service: Histogram::default(),
            response: None,
            priorities: Vec::new(),
            bandwidth: SampleStats::default(),
            iops: SampleStats::default(),
        }
    }

    /// fio's completion latency: without the submission call if that is a separate call.
    pub fn after_submission(&self) -> &Histogram {
        self.completion.as_ref().unwrap_or(&self.service)
    }

    /// Adds a clone that ran at the same time: counts and distributions add up, the runtime is the longest
    /// (fio's rule for groups).
    pub fn add(&mut self, other: &DirectionResult) {
        let merge = |into: &mut Option<Histogram>, from: &Option<Histogram>| {
            if let Some(from) = from {
                into.get_or_insert_default().merge(from);
            }
        };
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.short += other.short;
        self.runtime_ns = self.runtime_ns.max(other.runtime_ns);
        merge(&mut self.submission, &other.submission);
        merge(&mut self.completion, &other.completion);
        self.service.merge(&other.service);
        merge(&mut self.response, &other.response);
        for result in &other.priorities {
            let mut own = self.priorities.iter_mut();
            match own.find(|own| own.priority == result.priority) {
                Some(own) => own.latency.merge(&result.latency),
                None => self.priorities.push(result.clone()),
            }
        }
        self.bandwidth.add(&other.bandwidth);
        self.iops.add(&other.iops);
    }
}
