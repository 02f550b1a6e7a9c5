//! Builds a job from a draft: combines the options and checks them against each other.

use iodyno_model::{
    Amount, Arrival, BlockPattern, BlockSizes, Checksum, Content, Direction, Distribution,
    EngineKind, Fallocate, HeaderFormat, IoPriority, Job, MixSequence, Order, Pattern,
    PerDirection, Place, PriorityShare, ThinkTime, Verify, VerifyTrim, Work, WriteZones,
};
use iodyno_options::Problem;
use iodyno_units::{Bytes, Nanos};

use super::apply::say;
use super::draft::{Draft, Suffix, ZoneMode};
use super::file_engines;
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
    finish_engine(draft, report);
    finish_submission(draft, report);
    finish_priorities(draft, report);
    finish_access(draft);
    finish_precondition(draft, report);
    finish_ftruncate(draft, report);
    finish_extent(draft, report);
    finish_end(draft, report);
    finish_filling(draft, report);
    finish_replay(draft, report);
    finish_cpu_load(draft, report);
    finish_pacing(draft, report);
    draft.job.buffers.content = content(draft);
    finish_verify(draft, report);
    finish_buffers(draft);
    finish_logs(draft, report);
    draft.job.placement.io_priority = io_priority(draft);
    draft.job.reporting.decimal = draft.kb_base == 1000;
    let work = match draft.file_engine {
        Some(engine) => file_engines::work(draft, engine, report),
        None => Work::Blocks(draft.blocks.clone()),
    };
    Job {
        work,
        ..draft.job.clone()
    }
}

/// Adds an error at the location of `option`.
fn contradiction(report: &mut Report, draft: &Draft, option: &str, message: &str, hint: &str) {
    let place = draft.place(option).cloned().or(draft.job.place.clone());
    say(report, Problem::error(message).hint(hint), place);
}

/// The export of an engine that has one.
fn finish_export(draft: &Draft, report: &mut Report, kind: EngineKind) {
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
    match &draft.export {
        None if draft.failed.contains("uri") => {}
        None => {
            let message = format!("the engine `{name}` needs the URI of an export");
            contradiction(report, draft, "ioengine", &message, hint);
        }
        Some(uri) if uri.engine() != kind => {
            let message = format!("the engine `{name}` cannot use `{uri}`");
            contradiction(report, draft, "uri", &message, hint);
        }
        Some(_) => {}
    }
    if kind.has_share() && draft.blocks.files.pre_read {
        let message = "files of a share are not read into a cache of the guest";
        let hint = "remove `pre_read`; a job with `stonewall` after it can read them first";
        contradiction(report, draft, "pre_read", message, hint);
    }
    if draft.has("read_iolog") {
        contradiction(
            report,
            draft,
            "read_iolog",
            &format!("traces cannot be replayed on the engine `{name}`"),
            "attach the export as a block device, and use another engine",
        );
    }
}

fn finish_engine(draft: &mut Draft, report: &mut Report) {
    let depth = draft.depth;
    let engine = &mut draft.blocks.engine;
    engine.depth = if engine.kind.synchronous() { 1 } else { depth };
    engine.depth_low = engine.depth_low.min(engine.depth);
    engine.batch_submit = engine.batch_submit.min(engine.depth);
    engine.batch_complete_min = engine.batch_complete_min.min(engine.depth);
    if engine.batch_complete_max > 0 {
        engine.batch_complete_max = engine.batch_complete_max.max(engine.batch_complete_min);
    }
    engine.sim = (engine.kind == EngineKind::Sim).then(|| draft.sim.clone());
    let kind = engine.kind;
    engine.export = draft.export.clone().filter(|_| kind.has_export());
    if kind.has_export() {
        finish_export(draft, report, kind);
    }
    if draft.blocks.engine.kind == EngineKind::IoUringCmd {
        finish_commands(draft, report);
    }
    let writes = draft.blocks.access.writes;
    let engine = &mut draft.blocks.engine;
    engine.atomic &= writes;
    let atomic = matches!(
        engine.kind,
        EngineKind::IoUring | EngineKind::Libaio | EngineKind::Pvsync2
    );
    if engine.atomic && !atomic && !draft.failed.contains("ioengine") {
        contradiction(
            report,
            draft,
            "atomic",
            "this engine does not support atomic writes",
            "use `ioengine=pvsync2`, `libaio` or `io_uring`",
        );
    }
    let engine = &draft.blocks.engine;
    if engine.kind == EngineKind::Mmap && draft.blocks.files.create_on_open {
        contradiction(
            report,
            draft,
            "create_on_open",
            "a mapped file cannot grow",
            "leave it out, or use another engine",
        );
    }
    let engine = &draft.blocks.engine;
    let polls = engine.kind.has_ring() || engine.kind == EngineKind::Pvsync2;
    if engine.hipri && polls && !engine.direct && !report.runs_nothing {
        contradiction(
            report,
            draft,
            "hipri",
            "polling for completions needs direct I/O",
            "add `direct=1`, or leave `hipri` out",
        );
    }
}

/// Measures the submission latency if it is requested.
fn finish_submission(draft: &mut Draft, report: &mut Report) {
    let logs = &draft.job.logs;
    let percentiles = draft.job.reporting.percentiles_of.submission;
    let logged = logs.latency.is_some() && !logs.left_out.submission;
    let engine = &mut draft.blocks.engine;
    engine.submit_apart =
        engine.kind.has_ring() && (percentiles || logged || draft.measure_submission);
    let failed = draft.failed.contains("ioengine");
    if percentiles && !draft.blocks.engine.submits_apart() && !failed && draft.file_engine.is_none()
    {
        let name = draft.blocks.engine.kind.name();
        let message = format!(
            "`slat_percentiles` has no effect: `{name}` does not submit ops by a call of its own"
        );
        let hint = "leave it out, or use `ioengine=io_uring`, `libaio` or `posixaio`";
        let place = draft.place("slat_percentiles").cloned();
        say(report, Problem::warning(message).hint(hint), place);
    }
}

/// NVMe commands bypass the page cache and take no flags of files; their namespaces have no ranges to sync and no zones
/// here.
fn finish_commands(draft: &mut Draft, report: &mut Report) {
    draft.blocks.engine.direct = true;
    let zones = draft.zone_mode == Some(ZoneMode::Written);
    let refused = [
        (
            "sync",
            draft.blocks.engine.o_sync || draft.blocks.engine.o_dsync,
            "use `fsync=` or `fdatasync=`, which become flushes",
        ),
        (
            "sync_file_range",
            draft.has("sync_file_range"),
            "use `fsync=` or `fdatasync=`, which become flushes",
        ),
        (
            "zonemode",
            zones,
            "use `ioengine=io_uring` on the block device",
        ),
        (
            "read_iolog",
            draft.has("read_iolog"),
            "use `ioengine=io_uring` on the block device",
        ),
    ];
    for (option, given, hint) in refused {
        if given && !draft.failed.contains(option) {
            let message = format!("the engine `io_uring_cmd` does not support `{option}`");
            contradiction(report, draft, option, &message, hint);
        }
    }
}

/// Ops with a priority of their own, of the directions that the job has.
fn finish_priorities(draft: &mut Draft, report: &mut Report) {
    let given = draft.op_priorities.clone();
    let mut shares = Vec::new();
    let (mut percent, mut split) = (false, false);
    for direction in [Direction::Read, Direction::Write] {
        let of = |list: &PerDirection<u32>| list.get(direction).copied().unwrap_or(0);
        let class = given.class.get(direction).copied().unwrap_or(0);
        let priority = IoPriority {
            class: match class {
                0 => IoPriority::REAL_TIME,
                class => class,
            },
            level: given.level.get(direction).copied().unwrap_or(0),
            hint: given.hint.get(direction).copied().unwrap_or(0),
        };
        let share = |block, percent, priority| PriorityShare {
            direction,
            block,
            percent,
            priority,
        };
        let by_size = given.split.get(direction).into_iter().flatten();
        let by_size = by_size
            .map(|(block, percent, own)| share(Some(*block), *percent, own.unwrap_or(priority)));
        let all = [share(None, of(&given.percent), priority)];
        let before = shares.len();
        shares.extend(by_size.filter(|share| share.percent > 0));
        split |= shares.len() > before;
        let before = shares.len();
        shares.extend(all.into_iter().filter(|share| share.percent > 0));
        percent |= shares.len() > before;
    }
    if shares.is_empty() {
        return;
    }
    let option = match split {
        true => "cmdprio_bssplit",
        false => "cmdprio_percentage",
    };
    if split && percent {
        contradiction(
            report,
            draft,
            option,
            "`cmdprio_percentage` and `cmdprio_bssplit` exclude each other",
            "leave one of them out",
        );
    }
    let kind = draft.blocks.engine.kind;
    let supported = matches!(
        kind,
        EngineKind::Libaio | EngineKind::IoUring | EngineKind::Sim
    );
    if !supported && !draft.failed.contains("ioengine") {
        let message = format!("`{option}` has no effect with the engine `{}`", kind.name());
        let fault = Problem::unmet(message).hint("use `ioengine=libaio` or `io_uring`");
        say(report, fault, draft.place(option).cloned());
        return;
    }
    let issued = |share: &PriorityShare| match share.direction {
        Direction::Read => draft.blocks.access.reads,
        _ => draft.blocks.access.writes,
    };
    shares.retain(issued);
    draft.blocks.priorities = shares;
}

/// Only writes have an effect with ftruncate.
fn finish_ftruncate(draft: &Draft, report: &mut Report) {
    let access = &draft.blocks.access;
    let ftruncate =
        draft.blocks.engine.kind == EngineKind::Ftruncate && draft.file_engine.is_none();
    if ftruncate && (access.reads || access.trims) && !draft.failed.contains("rw") {
        let message = "the engine `ftruncate` supports only writes";
        contradiction(
            report,
            draft,
            "rw",
            message,
            "set `rw=write` or `rw=randwrite`",
        );
    }
}

fn finish_access(draft: &mut Draft) {
    let sizes = |bs: u64, range: Option<(u64, u64)>, split: &Option<Vec<(u64, f64)>>| match (
        split, range,
    ) {
        (Some(parts), _) if parts.len() == 1 => BlockSizes::Fixed(parts[0].0),
        (Some(parts), _) => BlockSizes::Split(parts.clone()),
        (None, Some((min, max))) if min == max => BlockSizes::Fixed(min),
        (None, Some((min, max))) => BlockSizes::Range {
            min,
            max,
            unaligned: draft.bs_unaligned,
        },
        (None, None) => BlockSizes::Fixed(bs),
    };
    let block_sizes = PerDirection {
        read: sizes(draft.bs.read, draft.bs_range.read, &draft.bs_split.read),
        write: sizes(draft.bs.write, draft.bs_range.write, &draft.bs_split.write),
        trim: sizes(draft.bs.trim, draft.bs_range.trim, &draft.bs_split.trim),
    };
    let uniform = uniform(draft);
    let laws = &mut draft.distribution;
    for law in [&mut laws.read, &mut laws.write, &mut laws.trim] {
        if let Distribution::Sequence { stride, .. } = law {
            *stride = draft.sequence_stride;
        }
    }
    let access = &mut draft.blocks.access;
    access.block_sizes = block_sizes;
    let random = access.order == Order::Random;
    if !random {
        access.block_align = PerDirection::all(0);
        access.percent_random = PerDirection::all(0);
    }
    access.distribution = draft.distribution.clone();
    // A separate alignment does not fit the grid of blocks of the map.
    let own_grid = access.directions().any(|direction| {
        let align = access.block_align.get(direction).copied().unwrap_or(0);
        let block = access.block_sizes.get(direction).map_or(0, BlockSizes::min);
        align != 0 && align != block
    });
    access.random_map =
        random && (!draft.no_random_map || draft.without_repeats) && !own_grid && uniform;
    access.sequence = match draft.suffix {
        Some(Suffix::Every(ops)) if ops > 1 => Some(MixSequence::Every(ops)),
        Some(Suffix::Skip(bytes)) if bytes != 0 => Some(MixSequence::Skip(bytes)),
        _ => None,
    };
}

/// A disk is preconditioned by random writes of one size at offsets that it draws itself.
fn finish_precondition(draft: &mut Draft, report: &mut Report) {
    if !draft.preconditions {
        return;
    }
    let access = &draft.blocks.access;
    let only_writes = access.writes && !access.reads && !access.trims;
    let sizes = &access.block_sizes.write;
    let align = access.block_align.write;
    let given = |option: &str, value: &str| {
        let written = draft.written.get(option);
        written.is_some_and(|written| written.value == value)
    };
    let zoned = draft.blocks.extent.write_zones.is_some() || draft.blocks.extent.zone_size > 0;
    let fault = match () {
        () if !only_writes || access.order != Order::Random => {
            Some(("`sprandom` needs random writes", "set `rw=randwrite`"))
        }
        () if draft.has("random_generator") && !draft.without_repeats => Some((
            "`sprandom` writes each block once before it repeats some",
            "leave `random_generator` out, or set it to lfsr",
        )),
        () if given("norandommap", "0") => Some((
            "`sprandom` repeats blocks, which a random map excludes",
            "leave `norandommap` out",
        )),
        () if !uniform(draft) || draft.suffix.is_some() || zoned => Some((
            "`sprandom` determines the offsets",
            "leave `random_distribution`, zones and the number after `rw=randwrite` out",
        )),
        () if sizes.min() != sizes.max() || (align != 0 && align != sizes.min()) => Some((
            "`sprandom` needs blocks of one size",
            "set one `bs`, and leave `blockalign` out",
        )),
        () => None,
    };
    if let Some((message, hint)) = fault {
        return contradiction(report, draft, "sprandom", message, hint);
    }
    let access = &mut draft.blocks.access;
    access.precondition = Some(draft.precondition);
    access.random_map = false;
    access.percent_random = PerDirection::all(100);
}

/// Whether all directions use the uniform distribution.
pub(super) fn uniform(draft: &Draft) -> bool {
    draft.distribution == PerDirection::all(Distribution::Uniform)
}

fn finish_extent(draft: &mut Draft, report: &mut Report) {
    let zoned = draft.blocks.extent.zone_size > 0;
    if draft.zone_mode == Some(ZoneMode::Written) {
        return finish_write_zones(draft, report);
    }
    if let Some(option) = draft.in_zones.keys().next().copied() {
        let message = "zones as a unit (`z`) need `zonemode=zbd`";
        contradiction(
            report,
            draft,
            option,
            message,
            "write the size in bytes, such as `256m`",
        );
    }
    match draft.zone_mode {
        Some(ZoneMode::None) if zoned => contradiction(
            report,
            draft,
            "zonesize",
            "`zonesize` contradicts `zonemode=none`",
            "write `zonemode=strided`, or leave `zonesize` out",
        ),
        Some(ZoneMode::Strided) if !zoned => contradiction(
            report,
            draft,
            "zonemode",
            "strided zones need a size",
            "add `zonesize=…`",
        ),
        _ => {}
    }
    let zoned = zoned && only_one_file_at_a_time(draft, report);
    let extent = &mut draft.blocks.extent;
    if !zoned {
        (extent.zone_size, extent.zone_range, extent.zone_skip) = (0, 0, 0);
    }
}

/// As in fio, strided zones have no effect with `openfiles` above 1.
fn only_one_file_at_a_time(draft: &Draft, report: &mut Report) -> bool {
    if draft.blocks.files.open <= 1 {
        return true;
    }
    let warning = Problem::warning("strided zones have no effect with `openfiles` above 1")
        .hint("set `openfiles=1`, or use a job for each file");
    say(report, warning, draft.place("zonesize").cloned());
    false
}

/// The zones of `zonemode=zbd`, and what was given in zones.
fn finish_write_zones(draft: &mut Draft, report: &mut Report) {
    const LEAST: u64 = 512;
    let extent = &mut draft.blocks.extent;
    let size = extent.zone_size;
    (extent.zone_size, extent.zone_range, extent.zone_skip) = (0, 0, 0);
    let mut zones = WriteZones {
        size,
        ..draft.zones
    };
    if zones.capacity == 0 {
        zones.capacity = size;
    }
    let largest = draft.blocks.access.max_block();
    let fault = match () {
        () if draft.failed.contains("zonesize") => None,
        () if draft.blocks.access.trims => {
            Some(("zonemode", "zones are not trimmed", "use reads and writes"))
        }
        // A zoned device has its own.
        () if size == 0 && draft.in_zones.is_empty() => None,
        () if size < LEAST => Some((
            "zonemode",
            "`zonemode=zbd` with sizes in zones needs the size of a zone, at least 512 bytes",
            "add `zonesize=…`",
        )),
        () if zones.capacity > size => Some((
            "zonecapacity",
            "`zonecapacity` is larger than `zonesize`",
            "lower it",
        )),
        () if largest > zones.capacity => Some((
            "zonesize",
            "a block is larger than a zone",
            "raise `zonesize`, or lower `bs`",
        )),
        () => None,
    };
    if let Some((option, message, hint)) = fault {
        return contradiction(report, draft, option, message, hint);
    }
    draft.blocks.extent.write_zones = Some(zones);
    draft.blocks.access.random_map = false;
    for (count, set) in std::mem::take(&mut draft.in_zones).into_values() {
        set(draft, Amount::Bytes(count.saturating_mul(size)));
    }
}

/// As in fio, a job without a `runtime` is not based on time.
fn finish_end(draft: &mut Draft, report: &mut Report) {
    let unread = draft.failed.contains("runtime") || draft.failed.contains("ioengine");
    if draft.blocks.passes.time_based && draft.job.end.runtime.is_none() && !unread {
        draft.blocks.passes.time_based = false;
        let fault = Problem::unmet("`time_based` has no effect without a `runtime`")
            .hint("add `runtime=30s`, or leave `time_based` out");
        let place = draft.place("time_based").cloned();
        say(report, fault, place.or(draft.job.place.clone()));
    }
    // As in fio, only the time ends a job that is based on it. The number of ops is that of a pass.
    if draft.blocks.passes.time_based {
        draft.job.end.ops = None;
    }
    let loops = draft.blocks.passes.loops.max(1);
    draft.job.end.ops = draft.job.end.ops.map(|ops| ops.saturating_mul(loops));
    finish_steady(draft, report);
}

/// fio's limits: checks are at least 1 s apart, and a window has several of them.
fn finish_steady(draft: &mut Draft, report: &mut Report) {
    let rule = draft.steady;
    if rule.window.0 == 0 {
        return;
    }
    if rule.interval < Nanos::SECOND {
        contradiction(
            report,
            draft,
            "steadystate_check_interval",
            "results are checked for steadiness at most once a second",
            "raise `steadystate_check_interval` to 1 s or more",
        );
    } else if rule.window <= rule.interval || !rule.window.0.is_multiple_of(rule.interval.0) {
        contradiction(
            report,
            draft,
            "steadystate_duration",
            "the window of steadiness is not a multiple of the time between checks",
            "make `steadystate_duration` 2, 3, … times `steadystate_check_interval`",
        );
    }
    draft.job.end.steady = Some(rule);
}

/// A job that runs until the storage is full must write, and no space is reserved for it.
fn finish_filling(draft: &mut Draft, report: &mut Report) {
    if !draft.job.end.until_full {
        return;
    }
    if !draft.blocks.access.writes && !draft.failed.contains("rw") {
        let fault = Problem::refusal("only a job that writes can fill a device")
            .hint("fill it with a separate job that writes the same `filename`");
        say(report, fault, draft.place("fill_device").cloned());
    }
    if !draft.has("fallocate") {
        draft.blocks.files.fallocate = Fallocate::None;
    }
}

/// The trace determines the ops: options that would add or delay some contradict it.
fn finish_replay(draft: &mut Draft, report: &mut Report) {
    if draft.replay.traces.is_empty() {
        return;
    }
    let read_only = draft.blocks.files.read_only;
    let replay = draft.replay.clone();
    let access = &mut draft.blocks.access;
    let issued = |direction| !replay.skip.contains(&direction);
    access.reads = issued(Direction::Read);
    access.writes = issued(Direction::Write) && !read_only;
    access.trims = issued(Direction::Trim) && !read_only;
    draft.blocks.replay = Some(replay);
    const OTHERS: [&str; 13] = [
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
    for option in OTHERS
        .into_iter()
        .filter(|option| draft.written.contains_key(option))
    {
        let zero = draft.written[option].value == "0";
        if !zero {
            let message =
                format!("`{option}` does not apply to a replay: the trace determines the ops");
            contradiction(
                report,
                draft,
                option,
                &message,
                "leave it out; `replay_time_scale` changes the speed",
            );
        }
    }
    if draft.blocks.passes.time_based || draft.blocks.passes.loops > 1 {
        let option = if draft.has("loops") {
            "loops"
        } else {
            "time_based"
        };
        let warning = Problem::warning("a trace is replayed once, as by fio")
            .hint("use a job for each replay, with `stonewall`");
        say(report, warning, draft.place(option).cloned());
    }
    draft.blocks.passes.time_based = false;
    draft.blocks.passes.loops = 1;
}

/// A load of the CPU is an op without I/O, then a pause; as much of that is spent spinning as the load asks for.
fn finish_cpu_load(draft: &mut Draft, report: &mut Report) {
    if !draft.cpu_load {
        return;
    }
    if draft.cpu_percent == 0 && !draft.failed.contains("cpuload") {
        let message = "the engine `cpuio` needs a load";
        contradiction(report, draft, "ioengine", message, "add `cpuload=50`");
    }
    if draft.job.end.runtime.is_none() && !draft.failed.contains("runtime") {
        let message = "a job of the engine `cpuio` has no end";
        contradiction(report, draft, "ioengine", message, "add `runtime=10s`");
    }
    let spin = draft.cpu_chunk;
    draft.think = ThinkTime {
        pause: Nanos(spin.0.saturating_mul(100) / u64::from(draft.cpu_percent.max(1))),
        spin,
        every_ops: 1,
        io_time: Nanos(0),
    };
    draft.blocks.access.block_sizes = PerDirection::all(BlockSizes::Fixed(0));
    draft.blocks.passes.time_based = true;
    draft
        .blocks
        .extent
        .size
        .get_or_insert(Amount::Bytes(1 << 20));
}

fn finish_pacing(draft: &mut Draft, report: &mut Report) {
    let mut think = draft.think;
    think.spin = think.spin.min(think.pause);
    if think.io_time.0 > 0 && !draft.has("thinktime_blocks") {
        think.every_ops = u32::MAX;
    }
    let mut target = draft.latency_target;
    if target.window.0 == 0 {
        target.window = Nanos::SECOND;
    }
    draft.job.pacing.latency_target = (target.limit.0 > 0).then_some(target);
    draft.job.pacing.think = (think.pause.0 > 0).then_some(think);
    draft.job.pacing.flow = (draft.flow.weight > 0).then_some(draft.flow);
    let rates = draft.job.pacing.rates;
    let all = [rates.read, rates.write, rates.trim];
    if all.iter().any(|rate| rate.bytes_per_s > 0) && all.iter().any(|rate| rate.iops > 0.0) {
        contradiction(
            report,
            draft,
            "rate_iops",
            "`rate` and `rate_iops` exclude each other",
            "leave one of them out",
        );
    }
    let unreachable = all.iter().any(|rate| {
        (rate.bytes_per_s > 0 && rate.least_bytes_per_s > rate.bytes_per_s)
            || (rate.iops > 0.0 && rate.least_iops > rate.iops)
    });
    if unreachable {
        let option = if draft.has("rate_min") {
            "rate_min"
        } else {
            "rate_iops_min"
        };
        contradiction(
            report,
            draft,
            option,
            "the minimum rate is above the requested rate",
            "lower it",
        );
    }
    finish_rate_of_range(draft, report);
}

/// As in fio, `rate_iops` with `bsrange` is a rate of bytes: that of ops of the smallest block. Ops at random intervals
/// are counted.
fn finish_rate_of_range(draft: &mut Draft, report: &mut Report) {
    if draft.job.pacing.arrival == Arrival::Poisson {
        return;
    }
    let sizes = draft.blocks.access.block_sizes.clone();
    let rates = &mut draft.job.pacing.rates;
    let mut said = None;
    for (rate, sizes) in [
        (&mut rates.read, &sizes.read),
        (&mut rates.write, &sizes.write),
        (&mut rates.trim, &sizes.trim),
    ] {
        if let (BlockSizes::Range { min, .. }, true) = (sizes, rate.iops > 0.0) {
            let iops = std::mem::take(&mut rate.iops);
            rate.bytes_per_s = (iops * *min as f64) as u64;
            said.get_or_insert((iops, *min));
        }
    }
    if let Some((iops, least)) = said {
        let least = Bytes(least);
        let message = format!("as in fio, {iops} ops of {least} per second are a rate of bytes");
        let hint = "use `bssplit` for a number of ops, or `rate`";
        let place = draft.place("rate_iops").cloned();
        say(report, Problem::warning(message).hint(hint), place);
    }
}

/// The content of writes.
fn content(draft: &Draft) -> Content {
    let pattern = draft.buffer_pattern.clone();
    match (draft.compress_percent, pattern) {
        (0, Some(pattern)) => Content::Pattern(pattern),
        _ if draft.zero_buffers => Content::Zero,
        (0, None) => Content::Random,
        (100, None) => Content::Zero,
        (percent, pattern) => Content::Compressible {
            percent,
            chunk: draft.compress_chunk,
            pattern,
        },
    }
}

fn finish_buffers(draft: &mut Draft) {
    // Compressible, repeated or verified content must differ between writes.
    let buffers = &mut draft.job.buffers;
    let must = matches!(buffers.content, Content::Compressible { .. })
        || buffers.dedupe_percent > 0
        || draft.blocks.verify.is_some();
    if must && !draft.written.contains_key("refill_buffers") {
        buffers.refill = true;
    }
}

fn finish_logs(draft: &mut Draft, report: &mut Report) {
    let logs = &draft.job.logs;
    if logs.issue_time && !(logs.latency.is_some() && logs.offset) {
        contradiction(
            report,
            draft,
            "log_issue_time",
            "`log_issue_time` needs logs of latencies with offsets",
            "add `write_lat_log` and `log_offset=1`",
        );
    }
}

fn finish_verify(draft: &mut Draft, report: &mut Report) {
    let asked = draft.verify_on || (draft.verify_pattern.is_some() && !draft.has("verify"));
    let trim = verify_trim(draft, asked, report);
    if !asked {
        return;
    }
    let kind = draft.blocks.engine.kind;
    if kind == EngineKind::Sim || kind.without_data() {
        contradiction(
            report,
            draft,
            "verify",
            match kind {
                EngineKind::Sim => "a simulated device keeps no data that could be verified",
                _ => "this engine writes no data that could be verified",
            },
            "leave `verify` out, or use another engine",
        );
    }
    let mut verify = Verify {
        trim,
        ..draft.verify.clone()
    };
    if !draft.verify_on {
        verify.checksum = Checksum::Pattern(Pattern(Vec::new()));
    }
    finish_header(draft, &mut verify, report);
    let needs_pattern = matches!(
        verify.checksum,
        Checksum::Pattern(_) | Checksum::PatternWithHeader
    );
    match draft.verify_pattern.clone() {
        Some(pattern) => {
            let pattern = BlockPattern {
                interval: draft.verify_pattern_interval,
                ..pattern
            };
            match &mut verify.checksum {
                Checksum::Pattern(all) => *all = pattern.bytes.clone(),
                // After the header, blocks are filled with the pattern.
                _ => draft.job.buffers.content = Content::Pattern(pattern.bytes.clone()),
            }
            let simple = pattern.offsets.is_empty() && pattern.interval == 0;
            let checked = verify.header != HeaderFormat::Iodyno;
            verify.pattern = (checked || !simple).then_some(pattern);
        }
        None if needs_pattern && !draft.failed.contains("verify_pattern") => contradiction(
            report,
            draft,
            "verify",
            &format!(
                "`verify={}` needs a pattern",
                draft
                    .written
                    .get("verify")
                    .map_or("pattern", |it| &it.value)
            ),
            "add `verify_pattern=0xdeadbeef`",
        ),
        None => {}
    }
    check_interval(draft, &mut verify, report);
    if kind == EngineKind::Null && verify.checksum != Checksum::Nothing {
        let fault = Problem::note(
            "`ioengine=null` keeps no data: as in fio, blocks are read back and not checked",
        )
        .hint("leave `verify` out");
        say(report, fault, draft.place("verify").cloned());
        verify.checksum = Checksum::Nothing;
    }
    draft.blocks.verify = Some(verify);
}

/// What is trimmed of a job's written blocks. As in fio, nothing without `verify` or `trim_backlog`.
fn verify_trim(draft: &Draft, verifies: bool, report: &mut Report) -> Option<VerifyTrim> {
    let trim = draft.trim;
    if trim.percent == 0 {
        return None;
    }
    let missing = match (verifies, trim.backlog) {
        (false, _) => "verify",
        (true, 0) => "trim_backlog",
        (true, _) => {
            return Some(VerifyTrim {
                batch: match trim.batch {
                    0 => trim.backlog,
                    batch => batch,
                },
                ..trim
            });
        }
    };
    let message = format!("`trim_percentage` has no effect without `{missing}`");
    let fault = Problem::unmet(message).hint(format!("add `{missing}=…`"));
    say(report, fault, draft.place("trim_percentage").cloned());
    None
}

/// Makes the checksum and the header consistent.
fn finish_header(draft: &Draft, verify: &mut Verify, report: &mut Report) {
    if verify.checksum == Checksum::Xxhash64 {
        if verify.header != HeaderFormat::Iodyno && draft.has("verify_header") {
            contradiction(
                report,
                draft,
                "verify_header",
                "headers of fio have no xxhash64",
                "use `verify=xxhash`, or `verify_header=iodyno`",
            );
        }
        verify.header = HeaderFormat::Iodyno;
    }
    if verify.header == HeaderFormat::Iodyno {
        verify.checksum = match &verify.checksum {
            Checksum::PatternWithHeader | Checksum::Nothing => Checksum::HeaderOnly,
            Checksum::Xxhash32 => Checksum::Xxhash64,
            Checksum::Crc32c | Checksum::Xxhash64 | Checksum::HeaderOnly | Checksum::Pattern(_) => {
                verify.checksum.clone()
            }
            _ => {
                let name = draft.written.get("verify").map_or("", |it| &it.value);
                let fault = Problem::warning(format!(
                    "`{name}` is carried out as xxhash64: it finds the same faults and costs less CPU"
                ))
                .hint("write crc32c or xxhash to say so, or add `verify_header=fio`");
                say(report, fault, draft.place("verify").cloned());
                Checksum::Xxhash64
            }
        };
    }
    if !verify.checksum.has_header() {
        (verify.header, verify.header_offset) = (HeaderFormat::Iodyno, 0);
    }
    let length = verify.header_length();
    let fault = match (verify.header_offset, verify.header) {
        (0, _) => return,
        (_, HeaderFormat::Iodyno) => "the header of iodyno is at the start of the block".to_owned(),
        (offset, _) if offset < length => {
            format!("the moved header overlaps its old place: it has {length} bytes")
        }
        _ => return,
    };
    contradiction(
        report,
        draft,
        "verify_offset",
        &fault,
        "leave it out, or use `verify_header=fio` and an offset of at least the header's length",
    );
}

/// Checks that an interval divides each block and has space for its header.
fn check_interval(draft: &Draft, verify: &mut Verify, report: &mut Report) {
    let sizes = draft.blocks.access.verified_sizes();
    let unequal = sizes.min() != sizes.max();
    let divisor = sizes.divisor();
    let as_fio = draft.verify.header != HeaderFormat::Iodyno;
    verify.interval = match verify.interval {
        0 if unequal => divisor,
        interval if as_fio && interval > 0 => match interval.min(sizes.min()) {
            fits if divisor.is_multiple_of(fits) => fits,
            _ => divisor,
        },
        interval => interval.min(sizes.min()),
    };
    let interval = match verify.interval {
        0 => sizes.min(),
        interval => interval,
    };
    let smallest = verify.header_length() + verify.header_offset + 1;
    if interval < smallest || !divisor.is_multiple_of(interval) {
        let option = if draft.has("verify_interval") {
            "verify_interval"
        } else {
            "verify"
        };
        contradiction(
            report,
            draft,
            option,
            &format!("a block cannot be verified in parts of {interval} bytes"),
            &format!("a part holds at least {smallest} bytes and divides every block size"),
        );
    }
    let grid = draft.blocks.grid_of_writes(interval, []);
    if grid < interval.min(Verify::MIN_GRID) {
        let option = match draft.blocks.access.sequence {
            Some(MixSequence::Skip(_)) => "rw",
            _ => "verify",
        };
        let message = format!("blocks that begin at multiples of {grid} bytes cannot be verified");
        let hint = "choose an alignment, gap or zone of at least 512 bytes; in `rw=write:8`, 8 is a gap in bytes";
        contradiction(report, draft, option, &message, hint);
    }
}

/// Class and level; best effort if only the level or a hint was given.
fn io_priority(draft: &Draft) -> Option<(u8, u8)> {
    match (draft.io_class, draft.io_level) {
        (None, None) if draft.job.placement.io_hint == 0 => None,
        (class, level) => Some((class.unwrap_or(2), level.unwrap_or(0))),
    }
}
