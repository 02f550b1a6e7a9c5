//! Creates the backend for a clone's spec and runs the clone: the kind of engine is matched here only.

mod zones;

use std::sync::Arc;

use iodyno_model::{
    Amount, Blocks, Distribution, EngineKind, FileAdvice, Job, Memory, Order, SharedFiles, Verify,
};
use iodyno_sys::memory::{Arena, Pages, SharedMemory};
use iodyno_sys::vhost_user::Service;
use iodyno_sys::{
    AioBackend, Device, File, LawDevice, MappedFiles, MonotonicClock, NbdBackend, NullBackend,
    NvmeBackend, PosixAioBackend, Psync, Pvsync2, SeekSync, SimBackend, SpaceCalls, SyncBackend,
    SyncCalls, SystemCalls, UringBackend, VhostUserBackend, VirtualClock, thread,
};
use iodyno_units::Bytes;

use crate::checks::Checks;
use crate::content::Filler;
use crate::driven_clone::{Bound, work};
use crate::driver::Parts;
use crate::outcome::{CloneOutcome, WorkerError};
use crate::placement::place;
use crate::priorities::Priorities;
use crate::shared::CloneShared;
use crate::shared_files::{TRAILER, Trailers};
use crate::spec::{BlocksPart, ClonePart, CloneSpec, Simulated};
use crate::stream::{CloneStream, JobStream, ReplayStream, SharedStream};
use crate::verify::{Verifier, Writer, shortest_unit, verified_unit};

/// Makes the seeds of contents different from those of offsets.
const CONTENT: u64 = 0x9e37_79b9_7f4a_7c15;
/// The identity in the blocks of jobs with repeatable offsets, so that other runs can verify them.
const REPEATABLE: u64 = 0x69_6f_64_79_6e_6f;

/// Creates the backend of a job on blocks and runs the clone; see [`crate::run`].
pub(crate) fn blocks(
    spec: CloneSpec,
    blocks: &Blocks,
    shared: &CloneShared,
) -> Result<CloneOutcome, WorkerError> {
    let job = Arc::clone(&spec.job);
    check_zones(&spec, blocks)?;
    check_sequence(&spec, blocks)?;
    let zones = zones::of_devices(&spec, blocks)?;
    let on_devices = zones.as_ref().map(|zones| {
        let mut blocks = blocks.clone();
        blocks.extent.write_zones = Some(zones.rule);
        blocks
    });
    let blocks = on_devices.as_ref().unwrap_or(blocks);
    check_precondition(&spec, blocks)?;
    let access = &blocks.access;
    let (replay, iolog) = match &spec.part {
        ClonePart::Blocks(part) => (part.replay.clone(), part.iolog.clone()),
        _ => (None, None),
    };
    let parts = Parts {
        engine: blocks.engine.clone(),
        writes: match &replay {
            Some(replay) => replay.trace.files.iter().any(|file| file.writes),
            None => access.writes,
        },
        // As in fio, the first bad block ends the job.
        bad_block_fails: !job.errors.continue_verify
            || blocks.verify.as_ref().is_some_and(|verify| verify.fatal),
        cached: match blocks.files.invalidate && !blocks.engine.direct {
            true => spec
                .files
                .iter()
                .map(|file| (file.base, file.length))
                .collect(),
            false => Vec::new(),
        },
        shared,
        names: names(&spec),
        filler: Filler::new(&job.buffers, spec.seed ^ CONTENT),
        priorities: Priorities::of(&job, spec.seed),
        verifier: verifier(&spec, blocks)?,
        log: spec.log.clone(),
        iolog,
        job: Arc::clone(&job),
    };
    let changes = (access.writes || access.trims) && blocks.read_only_by().is_none();
    if let Some(replay) = replay {
        let longest = replay.trace.longest_transfer;
        let mut files = replay.trace.files.iter();
        let changes = files.any(|file| file.writes || file.trims);
        return on_backend(spec, parts, longest, changes, |_, _| {
            ReplayStream::new(replay, job.end.ops)
        });
    }
    on_backend(spec, parts, access.max_block(), changes, |spec, regions| {
        let stream = JobStream::new(&job, blocks, regions, spec.byte_budget, spec.seed);
        match &zones {
            Some(zones) => stream.on_zones(zones, regions),
            None => stream,
        }
    })
}

/// Creates the backend of a job on shared files and runs the clone; see [`crate::run`].
pub(crate) fn shared_files(
    spec: CloneSpec,
    rule: &SharedFiles,
    shared: &CloneShared,
) -> Result<CloneOutcome, WorkerError> {
    let job = Arc::clone(&spec.job);
    let ClonePart::SharedFiles(part) = &spec.part else {
        return Err(WorkerError::new(
            "use shared files",
            "the clones have no common state",
        ));
    };
    let state = Arc::clone(part.state());
    let parts = Parts {
        engine: rule.engine.clone(),
        writes: rule.mode.writes(),
        // Like sysbench.
        bad_block_fails: !job.errors.continue_verify,
        cached: Vec::new(),
        shared,
        names: names(&spec),
        filler: Filler::new(&job.buffers, spec.seed ^ CONTENT),
        priorities: Priorities::of(&job, spec.seed),
        verifier: trailers(rule, &spec)?,
        log: spec.log.clone(),
        iolog: None,
        job: Arc::clone(&job),
    };
    let request = rule.request().max(rule.block);
    on_backend(spec, parts, request, rule.mode.writes(), |spec, _| {
        SharedStream::new(&job, rule, &state, spec.seed)
    })
}

fn names(spec: &CloneSpec) -> Vec<String> {
    spec.files.iter().map(|file| file.name.clone()).collect()
}

/// What a backend needs, and the clone that runs on it.
struct Prepared<S> {
    bound: Bound<S>,
    arena: Arena,
    files: Vec<File>,
    /// The (base, length) of each file.
    regions: Vec<(u64, u64)>,
    writable: bool,
    service: Option<Service>,
    simulated: Option<Simulated>,
}

/// Creates the backend and runs the clone on it. `stream` is given the (base, length) of each file; `block` is the
/// longest op in bytes.
fn on_backend<S: CloneStream>(
    mut spec: CloneSpec,
    parts: Parts<'_>,
    block: u64,
    writable: bool,
    stream: impl FnOnce(&CloneSpec, &[(u64, u64)]) -> S,
) -> Result<CloneOutcome, WorkerError> {
    // In virtual time, neither CPUs nor priorities matter.
    let in_virtual_time = spec.simulated.as_ref().is_some_and(|it| it.clock.is_some());
    let mut notes = match in_virtual_time {
        true => Vec::new(),
        false => place(&spec.job.placement, spec.clone),
    };
    thread::exact_timers();
    // As in sysbench, the requests of a thread read into the same memory, unless the data are checked.
    let shared = spec.job.work.shared_files().is_some();
    let sink = shared && parts.verifier.is_none();
    let service = match &mut spec.part {
        ClonePart::Blocks(part) => part.service.take(),
        _ => None,
    };
    let kind = match (service.as_ref().and_then(Service::memory), sink) {
        (Some(memory), _) => ArenaKind::Within(memory),
        (None, true) => ArenaKind::Sink,
        (None, false) => ArenaKind::Plain,
    };
    let arena = arena(&spec.job, parts.engine.depth, block, kind, &mut notes)?;
    let regions: Vec<(u64, u64)> = spec
        .files
        .iter()
        .map(|file| (file.base, file.length))
        .collect();
    let files = match parts.engine.kind.without_storage() || service.is_some() {
        true => Vec::new(),
        false => files(&mut spec)?,
    };
    let prepared = Prepared {
        simulated: spec.simulated.take(),
        bound: Bound {
            stream: stream(&spec, &regions),
            spec,
            notes,
        },
        arena,
        files,
        regions,
        writable,
        service,
    };
    run_on(prepared, parts)
}

/// Runs the clone on a backend of the job's engine.
fn run_on<S: CloneStream>(
    prepared: Prepared<S>,
    parts: Parts<'_>,
) -> Result<CloneOutcome, WorkerError> {
    let Prepared {
        bound,
        arena,
        files,
        regions,
        writable,
        service,
        simulated,
    } = prepared;
    let engine = &parts.engine.clone();
    let clock = MonotonicClock;
    let not_connected = |what: &str| WorkerError::new(what, "it was not connected");
    Ok(match engine.kind {
        EngineKind::Psync => work(synchronous(Psync, files, arena), clock, bound, parts),
        EngineKind::Sync => work(synchronous(SeekSync, files, arena), clock, bound, parts),
        EngineKind::Pvsync2 => {
            let calls = Pvsync2::new(engine);
            work(synchronous(calls, files, arena), clock, bound, parts)
        }
        EngineKind::Libaio => {
            let backend = AioBackend::new(files, arena, engine)?;
            let shared = bound.spec.job.work.shared_files().is_some();
            // Like sysbench.
            let backend = match shared {
                true => backend.with_blocking_syncs(),
                false => backend,
            };
            work(backend, clock, bound, parts)
        }
        EngineKind::IoUring => {
            let backend = UringBackend::new(files, arena, engine)?;
            work(backend, clock, bound, parts)
        }
        EngineKind::IoUringCmd => {
            let backend = NvmeBackend::new(files, arena, engine)?;
            work(backend, clock, bound, parts)
        }
        EngineKind::Posixaio => work(PosixAioBackend::new(files, arena), clock, bound, parts),
        EngineKind::Mmap => {
            let mapped = mapped(files, &regions, writable, bound.spec.job.work.blocks())?;
            work(SyncBackend::new(mapped, arena), clock, bound, parts)
        }
        EngineKind::Falloc | EngineKind::Ftruncate => {
            let truncates = engine.kind == EngineKind::Ftruncate;
            let calls = SpaceCalls { truncates, files };
            work(SyncBackend::new(calls, arena), clock, bound, parts)
        }
        EngineKind::Nbd => {
            let name = parts.names.first().cloned().unwrap_or_default();
            let connection = files.into_iter().next();
            let connection =
                connection.ok_or_else(|| not_connected("use a network block device"))?;
            let backend = NbdBackend::new(connection.descriptor, &name, arena, engine);
            work(backend, clock, bound, parts)
        }
        EngineKind::VhostUserBlk | EngineKind::Virtiofs => {
            let service = service.ok_or_else(|| not_connected("use a server of vhost-user"))?;
            work(VhostUserBackend::new(service, arena)?, clock, bound, parts)
        }
        EngineKind::Null => work(NullBackend::new(arena, clock), clock, bound, parts),
        EngineKind::Sim => return simulated_device(simulated, arena, bound, parts),
    })
}

/// Maps the files into memory, with the advice of the job.
fn mapped(
    files: Vec<File>,
    regions: &[(u64, u64)],
    writable: bool,
    job: Option<&Blocks>,
) -> Result<MappedFiles, WorkerError> {
    let files = files.into_iter().zip(regions);
    let files = files.map(|(file, (base, length))| (file, *base, *length));
    let mapped = MappedFiles::new(files.collect(), writable)?;
    if let Some(blocks) = job.filter(|blocks| blocks.files.advise) {
        mapped.advise(match blocks.files.advice {
            Some(FileAdvice::Random) => true,
            Some(FileAdvice::Sequential) => false,
            Some(FileAdvice::NoReuse) | None => blocks.access.order == Order::Random,
        });
    }
    Ok(mapped)
}

fn simulated_device<S: CloneStream>(
    simulated: Option<Simulated>,
    arena: Arena,
    bound: Bound<S>,
    parts: Parts<'_>,
) -> Result<CloneOutcome, WorkerError> {
    let Some(Simulated {
        seed,
        device,
        clock,
    }) = simulated
    else {
        return Err(WorkerError::new(
            "simulate a device",
            "it was not given a seed",
        ));
    };
    Ok(match device {
        Some(device) => simulate(device, clock, arena, bound, parts),
        None => {
            let options = parts.engine.sim.clone().unwrap_or_default();
            let device = LawDevice::new(options, seed, arena.slots())?;
            simulate(device, clock, arena, bound, parts)
        }
    })
}

/// On a simulated device, in virtual time if there is a clock for it.
fn simulate<S: CloneStream>(
    device: impl Device,
    clock: Option<VirtualClock>,
    arena: Arena,
    bound: Bound<S>,
    parts: Parts<'_>,
) -> CloneOutcome {
    match clock {
        Some(clock) => {
            let backend = SimBackend::new(arena, clock.clone(), device);
            work(backend, clock, bound, parts)
        }
        None => {
            let clock = MonotonicClock;
            work(SimBackend::new(arena, clock, device), clock, bound, parts)
        }
    }
}

fn synchronous<S: SyncCalls>(
    calls: S,
    files: Vec<File>,
    arena: Arena,
) -> SyncBackend<SystemCalls<S>> {
    SyncBackend::new(SystemCalls { calls, files }, arena)
}

fn files(spec: &mut CloneSpec) -> Result<Vec<File>, WorkerError> {
    spec.files
        .iter_mut()
        .map(|file| match file.descriptor.take() {
            Some(descriptor) => Ok(File {
                descriptor,
                device: file.device,
            }),
            None => Err(WorkerError::new(
                format!("use `{}`", file.name),
                "it was not opened",
            )),
        })
        .collect()
}

/// Special properties of a clone's buffers.
enum ArenaKind<'a> {
    Plain,
    /// All reads go to one of them.
    Sink,
    /// In memory that a server accesses as well.
    Within(&'a Arc<SharedMemory>),
}

fn arena(
    job: &Job,
    depth: u32,
    block: u64,
    kind: ArenaKind<'_>,
    notes: &mut Vec<String>,
) -> Result<Arena, WorkerError> {
    let (depth, block) = (depth.max(1), block.max(1));
    let huge = job.buffers.memory == Memory::Huge;
    let (bytes, align) = (block as usize, job.buffers.align as usize);
    let arena = match kind {
        ArenaKind::Sink => Arena::with_sink(depth, bytes, align, huge),
        ArenaKind::Plain => Arena::new(depth, bytes, align, huge),
        ArenaKind::Within(memory) => {
            let tail = VhostUserBackend::tail(depth);
            Arena::within(memory, depth, bytes, align, tail)
        }
    };
    let arena = arena.map_err(|error| {
        WorkerError::new(format!("reserve {depth} buffers of {block} bytes"), error)
            .hint("lower `iodepth`, `bs` or `numjobs`")
    })?;
    if huge && arena.pages() != Pages::Huge {
        notes.push("buffers not in huge pages: none free (see `vm.nr_hugepages`)".to_owned());
    }
    let nodes = &job.placement.numa_memory_nodes;
    if !nodes.is_empty()
        && let Err(error) = arena.bind_to_nodes(nodes, job.placement.numa_memory_policy)
    {
        notes.push(format!(
            "buffers not bound to NUMA nodes {nodes:?}: {error}"
        ));
    }
    Ok(arena)
}

/// The checks of blocks with trailers, if shared files have them.
fn trailers(rule: &SharedFiles, spec: &CloneSpec) -> Result<Option<Checks>, WorkerError> {
    if !rule.validate {
        return Ok(None);
    }
    if rule.block <= TRAILER as u64 {
        return Err(WorkerError::new(
            format!("validate blocks of {} bytes", rule.block),
            format!("a checksum and an offset take {TRAILER}"),
        )
        .hint("make the blocks longer (`--file-block-size`)"));
    }
    let names = spec.files.iter().map(|file| file.name.clone()).collect();
    Ok(Some(Checks::Trailers(Trailers::new(rule.block, names))))
}

fn verifier(spec: &CloneSpec, blocks: &Blocks) -> Result<Option<Checks>, WorkerError> {
    let Some(rule) = blocks.verify.clone() else {
        return Ok(None);
    };
    let access = &blocks.access;
    let seed = match (access.seed, access.repeatable) {
        (Some(seed), _) => seed,
        (None, true) => REPEATABLE,
        (None, false) => spec.seed,
    };
    let files: Vec<(&str, u64, u64)> = spec
        .files
        .iter()
        .map(|file| (file.name.as_str(), file.base, file.length))
        .collect();
    let none = BlocksPart::default();
    let part = match &spec.part {
        ClonePart::Blocks(part) => part,
        _ => &none,
    };
    let dumps = rule.dump;
    let in_between = rule.backlog > 0 || blocks.passes.loops > 1;
    let writer = Writer {
        seed,
        trial: part.trial,
        clone: spec.clone,
    };
    let parts = verified_parts(&rule, blocks, files.iter().map(|(_, _, length)| *length))?;
    let mut verifier = Verifier::new(rule, writer, parts, &files, blocks.engine.depth.max(1));
    if dumps {
        verifier.dump_to(&spec.output);
    }
    if in_between {
        verifier.note_checks();
    }
    verifier.expect_recorded(&part.recorded);
    Ok(Some(Checks::Headers(Box::new(verifier))))
}

/// The length of verified units and the grid of writes ([`Blocks::grid_of_writes`]), bytes, for regions of these
/// lengths.
fn verified_parts(
    rule: &Verify,
    blocks: &Blocks,
    regions: impl Iterator<Item = u64>,
) -> Result<(u64, u64), WorkerError> {
    let smallest = blocks.access.verified_sizes().min();
    let least = shortest_unit(rule);
    if smallest < least {
        return Err(WorkerError::new(
            format!("verify blocks of {smallest} bytes"),
            format!("at least {least} are needed for their headers"),
        )
        .hint("use `bs=512` or more"));
    }
    let unit = verified_unit(rule, smallest);
    let grid = blocks.grid_of_writes(unit, regions);
    match grid < unit.min(Verify::MIN_GRID) {
        true => Err(WorkerError::new(
            "verify the job's blocks",
            format!("they begin at multiples of {grid} bytes"),
        )
        .hint("make `size` a multiple of the block size")),
        false => Ok((unit, grid)),
    }
}

/// Zones given in bytes must be within each file: zones beyond it could not be used.
fn check_zones(spec: &CloneSpec, blocks: &Blocks) -> Result<(), WorkerError> {
    let access = &blocks.access;
    for direction in access
        .directions()
        .filter(|_| access.order == Order::Random)
    {
        let Some(Distribution::Zoned(zones)) = access.distribution.get(direction) else {
            continue;
        };
        let bytes = zones.iter().map(|(_, length)| match length {
            Amount::Bytes(bytes) => *bytes,
            Amount::Percent(_) => 0,
        });
        let whole = bytes.fold(0u64, u64::saturating_add);
        if let Some(file) = spec.files.iter().find(|file| file.length < whole) {
            return Err(WorkerError::new(
                format!("divide `{}` into zones", file.name),
                format!(
                    "they take {}, and its region has {}",
                    Bytes(whole),
                    Bytes(file.length)
                ),
            )
            .hint("lower the zones of `zoned_abs`, or raise `size`"));
        }
    }
    Ok(())
}

/// A disk is preconditioned as a whole, in regions that its cache does not hold.
fn check_precondition(spec: &CloneSpec, blocks: &Blocks) -> Result<(), WorkerError> {
    let Some(rule) = blocks.access.precondition else {
        return Ok(());
    };
    let block = blocks.access.max_block();
    let [file] = spec.files.as_slice() else {
        return Err(WorkerError::new(
            "use `sprandom` on several files",
            "it is the state of one disk",
        )
        .hint("set `nrfiles=1`, and use a job for each disk"));
    };
    let region = rule.physical_bytes(file.length, block) / u64::from(rule.regions.max(1));
    if region < rule.cache.max(block) {
        return Err(WorkerError::new(
            format!("divide `{}` into {} regions", file.name, rule.regions),
            format!(
                "each has {}, less than {}",
                Bytes(region),
                match rule.cache > block {
                    true => format!("`spr_cs` ({})", Bytes(rule.cache)),
                    false => format!("a block ({})", Bytes(block)),
                }
            ),
        )
        .hint("lower `spr_num_regions` or `spr_cs`"));
    }
    Ok(())
}

/// A list of blocks must be within each file.
fn check_sequence(spec: &CloneSpec, blocks: &Blocks) -> Result<(), WorkerError> {
    let access = &blocks.access;
    for direction in access
        .directions()
        .filter(|_| access.order == Order::Random)
    {
        let Some(Distribution::Sequence { blocks, .. }) = access.distribution.get(direction) else {
            continue;
        };
        let sizes = access.block_sizes.get(direction);
        let unit = sizes.map_or(1, |sizes| sizes.min()).max(1);
        let last = blocks.iter().max().copied().unwrap_or(0);
        if let Some(file) = spec.files.iter().find(|file| last >= file.length / unit) {
            return Err(WorkerError::new(
                format!("access block {last} of `{}`", file.name),
                format!("its region has {} blocks", file.length / unit),
            )
            .hint("lower the numbers of `random_distribution=sequence:`, or raise `size`"));
        }
    }
    Ok(())
}
