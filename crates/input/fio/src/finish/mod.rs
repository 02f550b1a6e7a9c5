//! Builds a job from a draft: combines the options and checks them against each other.

mod access;
mod file_engines;
mod pacing;
mod verify;

use iodyno_model::{
    Amount, BlockSizes, Content, Direction, EngineKind, Fallocate, IoPriority, Job, PerDirection,
    Place, PriorityShare, ThinkTime, Work,
};
use iodyno_options::Problem;
use iodyno_units::Nanos;

use super::apply::say;
use super::draft::{Draft, OpPriorities, ZoneMode};
use super::options::name_logs;
use super::text::Report;

/// Builds the job of a section. Contradictions are added to `report`.
pub(super) fn finish(draft: &mut Draft, section: &str, place: Place, report: &mut Report) -> Job {
    let name = draft.name.clone().unwrap_or_else(|| section.to_owned());
    name_logs(draft, &name);
    draft.job.logs.epoch_clock = draft.log_epoch.then_some(draft.log_clock);
    draft.job.place = Some(place);
    // Files are named after the section, even if `name=` differs.
    if name != section {
        let format = draft.blocks.files.format.replace("$jobname", section);
        draft.blocks.files.format = format;
    }
    draft.job.name = name;
    if draft.blocks.files.pre_read {
        draft.blocks.files.invalidate = false;
    }
    Finish { draft, report }.job()
}

/// A draft whose options are being combined.
struct Finish<'a> {
    draft: &'a mut Draft,
    report: &'a mut Report,
}

impl Finish<'_> {
    fn job(mut self) -> Job {
        self.engine();
        self.submission();
        self.priorities();
        self.access();
        self.precondition();
        self.ftruncate();
        self.extent();
        self.end();
        self.filling();
        self.replay();
        self.cpu_load();
        self.pacing();
        self.draft.job.buffers.content = self.content();
        self.verify();
        self.buffers();
        self.logs();
        self.draft.job.placement.io_priority = self.io_priority();
        self.draft.job.reporting.decimal = self.draft.kb_base == 1000;
        let work = match self.draft.file_engine {
            Some(engine) => self.file_operations(engine),
            None => Work::Blocks(self.draft.blocks.clone()),
        };
        Job {
            work,
            ..self.draft.job.clone()
        }
    }

    /// Adds a problem at the location of `option`, or of the job.
    fn say(&mut self, option: &str, problem: Problem) {
        let place = self.draft.place(option).or(self.draft.job.place.as_ref());
        say(self.report, problem, place.cloned());
    }

    /// Adds an error at the location of `option`.
    fn contradiction(&mut self, option: &str, message: impl Into<String>, hint: &str) {
        self.say(option, Problem::error(message).hint(hint));
    }

    /// Refuses options that would change the ops of `what`, unless they are 0.
    fn refuse(&mut self, options: &[&str], what: &str, hint: &str) {
        for option in options {
            let written = self.draft.written.get(option);
            if written.is_some_and(|written| written.value != "0") {
                self.contradiction(option, format!("`{option}` does not apply to {what}"), hint);
            }
        }
    }

    fn engine(&mut self) {
        let depth = self.draft.depth;
        let engine = &mut self.draft.blocks.engine;
        engine.depth = if engine.kind.synchronous() { 1 } else { depth };
        engine.depth_low = engine.depth_low.min(engine.depth);
        engine.batch_submit = engine.batch_submit.min(engine.depth);
        engine.batch_complete_min = engine.batch_complete_min.min(engine.depth);
        if engine.batch_complete_max > 0 {
            engine.batch_complete_max = engine.batch_complete_max.max(engine.batch_complete_min);
        }
        engine.sim = (engine.kind == EngineKind::Sim).then(|| self.draft.sim.clone());
        let kind = engine.kind;
        engine.export = self.draft.export.clone().filter(|_| kind.has_export());
        if kind.has_export() {
            self.export(kind);
        }
        if self.draft.blocks.engine.kind == EngineKind::IoUringCmd {
            self.commands();
        }
        let writes = self.draft.blocks.access.writes;
        let engine = &mut self.draft.blocks.engine;
        engine.atomic &= writes;
        let atomic = matches!(
            engine.kind,
            EngineKind::IoUring | EngineKind::Libaio | EngineKind::Pvsync2
        );
        if engine.atomic && !atomic && !self.draft.failed.contains("ioengine") {
            self.contradiction(
                "atomic",
                "this engine does not support atomic writes",
                "use `ioengine=pvsync2`, `libaio` or `io_uring`",
            );
        }
        let engine = &self.draft.blocks.engine;
        if engine.kind == EngineKind::Mmap && self.draft.blocks.files.create_on_open {
            self.contradiction(
                "create_on_open",
                "a mapped file cannot grow",
                "leave it out, or use another engine",
            );
        }
        let engine = &self.draft.blocks.engine;
        let polls = engine.kind.has_ring() || engine.kind == EngineKind::Pvsync2;
        if engine.hipri && polls && !engine.direct && !self.report.runs_nothing {
            self.contradiction(
                "hipri",
                "polling for completions needs direct I/O",
                "add `direct=1`, or leave `hipri` out",
            );
        }
    }

    /// The export of an engine that has one.
    fn export(&mut self, kind: EngineKind) {
        let name = kind.name();
        let hint = match kind {
            EngineKind::VhostUserBlk => "write `uri=vhost-user-blk:///SOCKET`",
            EngineKind::Virtiofs => {
                "write `uri=virtiofs:///SOCKET`; on the layer `virtiofs` of an experiment, use `psync` or `libaio`"
            }
            _ => {
                "write `uri=nbd+unix:///NAME?socket=PATH` or `uri=nbd://HOST:PORT/NAME`; the name may be empty"
            }
        };
        match &self.draft.export {
            None if self.draft.failed.contains("uri") => {}
            None => {
                let message = format!("the engine `{name}` needs the URI of an export");
                self.contradiction("ioengine", message, hint);
            }
            Some(uri) if uri.engine() != kind => {
                let message = format!("the engine `{name}` cannot use `{uri}`");
                self.contradiction("uri", message, hint);
            }
            Some(_) => {}
        }
        if kind.has_share() && self.draft.blocks.files.pre_read {
            let message = "files of a share are not read into a cache of the guest";
            let hint = "remove `pre_read`; a job with `stonewall` after it can read them first";
            self.contradiction("pre_read", message, hint);
        }
        if self.draft.has("read_iolog") {
            self.contradiction(
                "read_iolog",
                format!("traces cannot be replayed on the engine `{name}`"),
                "attach the export as a block device, and use another engine",
            );
        }
    }

    /// NVMe commands bypass the page cache and take no flags of files; their namespaces have no ranges to sync and no
    /// zones here.
    fn commands(&mut self) {
        self.draft.blocks.engine.direct = true;
        let zones = self.draft.zone_mode == Some(ZoneMode::Written);
        let syncs = self.draft.blocks.engine.o_sync || self.draft.blocks.engine.o_dsync;
        let ranges = self.draft.has("sync_file_range");
        let flush = "use `fsync=` or `fdatasync=`, which become flushes";
        let other = "use `ioengine=io_uring` on the block device";
        let refused = [
            ("sync", syncs, flush),
            ("sync_file_range", ranges, flush),
            ("zonemode", zones, other),
            ("read_iolog", self.draft.has("read_iolog"), other),
        ];
        for (option, given, hint) in refused {
            if given && !self.draft.failed.contains(option) {
                let message = format!("the engine `io_uring_cmd` does not support `{option}`");
                self.contradiction(option, message, hint);
            }
        }
    }

    /// Measures the submission latency if it is requested.
    fn submission(&mut self) {
        let logs = &self.draft.job.logs;
        let percentiles = self.draft.job.reporting.percentiles_of.submission;
        let logged = logs.latency.is_some() && !logs.left_out.submission;
        let engine = &mut self.draft.blocks.engine;
        engine.submit_apart =
            engine.kind.has_ring() && (percentiles || logged || self.draft.measure_submission);
        let failed = self.draft.failed.contains("ioengine");
        if percentiles
            && !self.draft.blocks.engine.submits_apart()
            && !failed
            && self.draft.file_engine.is_none()
        {
            let name = self.draft.blocks.engine.kind.name();
            let message = format!(
                "`slat_percentiles` has no effect: `{name}` does not submit ops by a call of its own"
            );
            let hint = "leave it out, or use `ioengine=io_uring`, `libaio` or `posixaio`";
            self.say("slat_percentiles", Problem::warning(message).hint(hint));
        }
    }

    /// Ops with a priority of their own, of the directions that the job has.
    fn priorities(&mut self) {
        let [mut shares, by_size] = priority_shares(&self.draft.op_priorities);
        let option = match by_size.is_empty() {
            true => "cmdprio_percentage",
            false => "cmdprio_bssplit",
        };
        if !shares.is_empty() && !by_size.is_empty() {
            self.contradiction(
                option,
                "`cmdprio_percentage` and `cmdprio_bssplit` exclude each other",
                "leave one of them out",
            );
        }
        shares.extend(by_size);
        if shares.is_empty() {
            return;
        }
        let kind = self.draft.blocks.engine.kind;
        let supported = matches!(
            kind,
            EngineKind::Libaio | EngineKind::IoUring | EngineKind::Sim
        );
        if !supported && !self.draft.failed.contains("ioengine") {
            let message = format!("`{option}` has no effect with the engine `{}`", kind.name());
            let fault = Problem::unmet(message).hint("use `ioengine=libaio` or `io_uring`");
            self.say(option, fault);
            return;
        }
        let access = &self.draft.blocks.access;
        shares.retain(|share| match share.direction {
            Direction::Read => access.reads,
            _ => access.writes,
        });
        self.draft.blocks.priorities = shares;
    }

    /// Only writes have an effect with ftruncate.
    fn ftruncate(&mut self) {
        let access = &self.draft.blocks.access;
        let ftruncate = self.draft.blocks.engine.kind == EngineKind::Ftruncate
            && self.draft.file_engine.is_none();
        if ftruncate && (access.reads || access.trims) && !self.draft.failed.contains("rw") {
            let message = "the engine `ftruncate` supports only writes";
            self.contradiction("rw", message, "set `rw=write` or `rw=randwrite`");
        }
    }

    /// As in fio, a job without a `runtime` is not based on time.
    fn end(&mut self) {
        let unread =
            self.draft.failed.contains("runtime") || self.draft.failed.contains("ioengine");
        if self.draft.blocks.passes.time_based && self.draft.job.end.runtime.is_none() && !unread {
            self.draft.blocks.passes.time_based = false;
            let fault = Problem::unmet("`time_based` has no effect without a `runtime`")
                .hint("add `runtime=30s`, or leave `time_based` out");
            self.say("time_based", fault);
        }
        // As in fio, only the time ends a job that is based on it. The number of ops is that of a pass.
        if self.draft.blocks.passes.time_based {
            self.draft.job.end.ops = None;
        }
        let loops = self.draft.blocks.passes.loops.max(1);
        self.draft.job.end.ops = self.draft.job.end.ops.map(|ops| ops.saturating_mul(loops));
        self.steady();
    }

    /// fio's limits: checks are at least 1 s apart, and a window has several of them.
    fn steady(&mut self) {
        let rule = self.draft.steady;
        if rule.window.0 == 0 {
            return;
        }
        if rule.interval < Nanos::SECOND {
            self.contradiction(
                "steadystate_check_interval",
                "results are checked for steadiness at most once a second",
                "raise `steadystate_check_interval` to 1 s or more",
            );
        } else if rule.window <= rule.interval || !rule.window.0.is_multiple_of(rule.interval.0) {
            self.contradiction(
                "steadystate_duration",
                "the window of steadiness is not a multiple of the time between checks",
                "make `steadystate_duration` 2, 3, … times `steadystate_check_interval`",
            );
        }
        self.draft.job.end.steady = Some(rule);
    }

    /// A job that runs until the storage is full must write, and no space is reserved for it.
    fn filling(&mut self) {
        if !self.draft.job.end.until_full {
            return;
        }
        if !self.draft.blocks.access.writes && !self.draft.failed.contains("rw") {
            let fault = Problem::refusal("only a job that writes can fill a device")
                .hint("fill it with a separate job that writes the same `filename`");
            self.say("fill_device", fault);
        }
        if !self.draft.has("fallocate") {
            self.draft.blocks.files.fallocate = Fallocate::None;
        }
    }

    /// The trace determines the ops: options that would add or delay some contradict it.
    fn replay(&mut self) {
        if self.draft.replay.traces.is_empty() {
            return;
        }
        let read_only = self.draft.blocks.files.read_only;
        let replay = self.draft.replay.clone();
        let access = &mut self.draft.blocks.access;
        let issued = |direction| !replay.skip.contains(&direction);
        access.reads = issued(Direction::Read);
        access.writes = issued(Direction::Write) && !read_only;
        access.trims = issued(Direction::Trim) && !read_only;
        self.draft.blocks.replay = Some(replay);
        let others = [
            "rate",
            "rate_iops",
            "rate_min",
            "rate_iops_min",
            "thinktime",
            "flow",
            "fsync",
            "fdatasync",
            "sync_file_range",
            "verify",
            "verify_pattern",
            "zonesize",
            "fill_device",
        ];
        let hint = "leave it out; `replay_time_scale` changes the speed";
        self.refuse(&others, "a replay: the trace determines the ops", hint);
        if self.draft.blocks.passes.time_based || self.draft.blocks.passes.loops > 1 {
            let option = self.draft.given_of("loops", "time_based");
            let warning = Problem::warning("a trace is replayed once, as by fio")
                .hint("use a job for each replay, with `stonewall`");
            self.say(option, warning);
        }
        self.draft.blocks.passes.time_based = false;
        self.draft.blocks.passes.loops = 1;
    }

    /// A load of the CPU is an op without I/O, then a pause; as much of that is spent spinning as the load asks for.
    fn cpu_load(&mut self) {
        if !self.draft.cpu_load {
            return;
        }
        if self.draft.cpu_percent == 0 && !self.draft.failed.contains("cpuload") {
            let message = "the engine `cpuio` needs a load";
            self.contradiction("ioengine", message, "add `cpuload=50`");
        }
        if self.draft.job.end.runtime.is_none() && !self.draft.failed.contains("runtime") {
            let message = "a job of the engine `cpuio` has no end";
            self.contradiction("ioengine", message, "add `runtime=10s`");
        }
        let spin = self.draft.cpu_chunk;
        self.draft.think = ThinkTime {
            pause: Nanos(spin.0.saturating_mul(100) / u64::from(self.draft.cpu_percent.max(1))),
            spin,
            every_ops: 1,
            io_time: Nanos(0),
        };
        self.draft.blocks.access.block_sizes = PerDirection::all(BlockSizes::Fixed(0));
        self.draft.blocks.passes.time_based = true;
        self.draft
            .blocks
            .extent
            .size
            .get_or_insert(Amount::Bytes(1 << 20));
    }

    /// The content of writes.
    fn content(&self) -> Content {
        let pattern = self.draft.buffer_pattern.clone();
        match (self.draft.compress_percent, pattern) {
            (0, Some(pattern)) => Content::Pattern(pattern),
            _ if self.draft.zero_buffers => Content::Zero,
            (0, None) => Content::Random,
            (100, None) => Content::Zero,
            (percent, pattern) => Content::Compressible {
                percent,
                chunk: self.draft.compress_chunk,
                pattern,
            },
        }
    }

    fn buffers(&mut self) {
        // Compressible, repeated or verified content must differ between writes.
        let buffers = &mut self.draft.job.buffers;
        let must = matches!(buffers.content, Content::Compressible { .. })
            || buffers.dedupe_percent > 0
            || self.draft.blocks.verify.is_some();
        if must && !self.draft.written.contains_key("refill_buffers") {
            buffers.refill = true;
        }
    }

    fn logs(&mut self) {
        let logs = &self.draft.job.logs;
        if logs.issue_time && !(logs.latency.is_some() && logs.offset) {
            self.contradiction(
                "log_issue_time",
                "`log_issue_time` needs logs of latencies with offsets",
                "add `write_lat_log` and `log_offset=1`",
            );
        }
    }

    /// Class and level; best effort if only the level or a hint was given.
    fn io_priority(&self) -> Option<(u8, u8)> {
        match (self.draft.io_class, self.draft.io_level) {
            (None, None) if self.draft.job.placement.io_hint == 0 => None,
            (class, level) => Some((class.unwrap_or(2), level.unwrap_or(0))),
        }
    }
}

/// The shares of all ops of a direction, and those of ops of one size.
fn priority_shares(given: &OpPriorities) -> [Vec<PriorityShare>; 2] {
    let (mut all, mut by_size) = (Vec::new(), Vec::new());
    for direction in [Direction::Read, Direction::Write] {
        let class = given.class.get(direction).copied().unwrap_or(0);
        let priority = IoPriority {
            class: match class {
                0 => IoPriority::REAL_TIME,
                class => class,
            },
            level: given.level.get(direction).copied().unwrap_or(0),
            hint: given.hint.get(direction).copied().unwrap_or(0),
        };
        let share = |block, percent, priority| {
            (percent > 0).then_some(PriorityShare {
                direction,
                block,
                percent,
                priority,
            })
        };
        let percent = given.percent.get(direction).copied().unwrap_or(0);
        all.extend(share(None, percent, priority));
        let split = given.split.get(direction).into_iter().flatten();
        by_size.extend(split.filter_map(|(block, percent, own)| {
            share(Some(*block), *percent, own.unwrap_or(priority))
        }));
    }
    [all, by_size]
}
