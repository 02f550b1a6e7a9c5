//! A draft of a job: the values of its options, before they are combined.

use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::{
    Amount, BlockPattern, Blocks, Distribution, ExportUri, Flow, IoPriority, Job, LatencyTarget,
    Pacing, Pattern, PerDirection, Place, Precondition, Replay, SimOptions, SteadyRule, ThinkTime,
    Verify, VerifyTrim, WriteZones,
};

use iodyno_units::Nanos;

use super::engines::FileEngine;

/// The last occurrence of an option.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) place: Place,
    pub(super) value: String,
}

/// The colon suffix of `rw=`, which can be parsed only when the order is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Suffix {
    Every(u32),
    Skip(i64),
}

/// Sets an amount in a draft.
pub(super) type SetAmount = fn(&mut Draft, Amount);

/// How a region is divided into zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ZoneMode {
    None,
    Strided,
    /// Each is written from its start to its end.
    Written,
}

/// Shares of blocks: size in bytes, percentage, and priority unless it is that of all.
type PriorityShares = Vec<(u64, u32, Option<IoPriority>)>;

/// Options of ops with a priority of their own.
#[derive(Debug, Clone, Default)]
pub(super) struct OpPriorities {
    pub(super) percent: PerDirection<u32>,
    pub(super) split: PerDirection<PriorityShares>,
    /// 0: not given.
    pub(super) class: PerDirection<u8>,
    pub(super) level: PerDirection<u8>,
    pub(super) hint: PerDirection<u16>,
}

/// The options of a section; a job starts as a copy of the global section.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    /// Settings that need no other option, without the work.
    pub(super) job: Job,
    /// Settings of the work that need no other option.
    pub(super) blocks: Blocks,
    /// `name=`, which takes precedence over the section's name.
    pub(super) name: Option<String>,
    /// By canonical name.
    pub(super) written: BTreeMap<&'static str, Written>,
    /// Options with invalid values.
    pub(super) failed: BTreeSet<&'static str>,
    pub(super) kb_base: u64,
    pub(super) depth: u32,
    pub(super) stonewall: bool,
    pub(super) new_group: bool,
    pub(super) wait_for: Option<String>,
    pub(super) suffix: Option<Suffix>,
    pub(super) bs: PerDirection<u64>,
    pub(super) bs_range: PerDirection<Option<(u64, u64)>>,
    pub(super) bs_split: PerDirection<Option<Vec<(u64, f64)>>>,
    pub(super) bs_unaligned: bool,
    pub(super) no_random_map: bool,
    /// Its random generator repeats no block, also without a map.
    pub(super) without_repeats: bool,
    pub(super) preconditions: bool,
    pub(super) precondition: Precondition,
    pub(super) distribution: PerDirection<Distribution>,
    pub(super) sequence_stride: bool,
    pub(super) zero_buffers: bool,
    pub(super) buffer_pattern: Option<Pattern>,
    pub(super) compress_percent: u32,
    pub(super) compress_chunk: u64,
    /// Whether `verify=` named a method.
    pub(super) verify_on: bool,
    pub(super) verify: Verify,
    pub(super) verify_pattern: Option<BlockPattern>,
    pub(super) verify_pattern_interval: u64,
    /// Nothing is trimmed if its percentage or its backlog is 0.
    pub(super) trim: VerifyTrim,
    pub(super) think: ThinkTime,
    /// There is no search if its limit is 0.
    pub(super) latency_target: LatencyTarget,
    /// There is no flow if its weight is 0.
    pub(super) flow: Flow,
    /// There is no end by steadiness if its window is 0.
    pub(super) steady: SteadyRule,
    pub(super) zone_mode: Option<ZoneMode>,
    /// The zones of [`ZoneMode::Written`], but for their size.
    pub(super) zones: WriteZones,
    /// Options that were given in zones: how many, and what sets them in bytes.
    pub(super) in_zones: BTreeMap<&'static str, (u64, SetAmount)>,
    /// Options without effect although they matter, with the message.
    pub(super) unmet: BTreeMap<&'static str, String>,
    /// `disable_slat=0` was given.
    pub(super) measure_submission: bool,
    /// Whether times in logs are those of `log_clock`.
    pub(super) log_epoch: bool,
    /// Number of a clock of the kernel.
    pub(super) log_clock: u32,
    pub(super) io_class: Option<u8>,
    pub(super) io_level: Option<u8>,
    pub(super) op_priorities: OpPriorities,
    pub(super) sim: SimOptions,
    /// The export of the engines `nbd` and `vhost-user-blk`.
    pub(super) export: Option<ExportUri>,
    /// The engine is cpuio.
    pub(super) cpu_load: bool,
    /// Percent of the time; 0: not given.
    pub(super) cpu_percent: u32,
    pub(super) cpu_chunk: Nanos,
    /// An engine of file operations, in place of that of `blocks`.
    pub(super) file_engine: Option<FileEngine>,
    /// There is no replay without a trace.
    pub(super) replay: Replay,
    /// Number of CPUs of the host, the limit of `cpus_allowed`.
    pub(super) cpus: u32,
}

impl Draft {
    /// Every option at its default.
    pub(super) fn new(cpus: u32) -> Draft {
        Draft {
            job: default_job(),
            kb_base: 1024,
            depth: 1,
            bs: PerDirection::all(4096),
            precondition: Precondition {
                over_provisioning: 0.15,
                regions: 100,
                cache: 0,
            },
            compress_chunk: 512,
            trim: VerifyTrim {
                check_zero: true,
                ..VerifyTrim::default()
            },
            think: ThinkTime {
                every_ops: 1,
                ..ThinkTime::default()
            },
            latency_target: LatencyTarget {
                percent: 100.0,
                ..LatencyTarget::default()
            },
            steady: SteadyRule {
                slope: true,
                limit: 0.01,
                percent: true,
                interval: Nanos::SECOND,
                ..SteadyRule::default()
            },
            cpu_chunk: Nanos::from_millis(50),
            cpus,
            ..Draft::default()
        }
    }

    /// Whether the option was written, in this section or a global one, even with an invalid value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.written.contains_key(name) || self.failed.contains(name)
    }

    /// The option that was written; `otherwise` if it is not the first one.
    pub(super) fn given_of(&self, first: &'static str, otherwise: &'static str) -> &'static str {
        match self.has(first) {
            true => first,
            false => otherwise,
        }
    }

    /// Whether an option without effect would have one in this job.
    pub(super) fn matters(&self, option: &str) -> bool {
        let writes = self.blocks.access.writes;
        match option {
            "dedupe_mode" | "dedupe_global" => writes && self.job.buffers.dedupe_percent > 0,
            "write_hint" => writes,
            "cpumode" | "exit_on_io_done" => self.cpu_load,
            "zone_reset_threshold" | "zone_reset_frequency" | "write_zone_remainder" => {
                writes && self.zone_mode == Some(ZoneMode::Written)
            }
            _ => true,
        }
    }

    /// Whether all directions use the uniform distribution.
    pub(super) fn uniform(&self) -> bool {
        self.distribution == PerDirection::all(Distribution::Uniform)
    }

    /// Where the option was written.
    pub(super) fn place(&self, name: &str) -> Option<&Place> {
        self.written.get(name).map(|written| &written.place)
    }
}

/// A job without any options.
fn default_job() -> Job {
    Job {
        pacing: Pacing {
            check_every: Nanos::SECOND,
            ..Pacing::default()
        },
        ..Job::default()
    }
}
