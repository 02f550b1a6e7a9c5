//! From a clone's spec to a backend at work: the kind is matched once, here.

use std::path::Path;

use iodyno_model::{
    Amount, Distribution, Engine, EngineKind, Job, Memory, Order, Placement, SharedFiles,
};
use iodyno_sys::memory::{Arena, Pages};
use iodyno_sys::{
    AioBackend, File, LawDevice, MappedFiles, MonotonicClock, NullBackend, PosixAioBackend, Psync,
    Pvsync2, SeekSync, SimBackend, SyncBackend, SyncCalls, SystemCalls, UringBackend, thread,
};
use iodyno_units::Bytes;

use crate::checks::Checks;
use crate::content::Filler;
use crate::driver::Parts;
use crate::numa;
use crate::shared::CloneShared;
use crate::shared_files::{TRAILER, Trailers};
use crate::spec::{CloneOutcome, CloneSpec, Simulated, WorkerError};
use crate::stream::{CloneStream, JobStream, SharedStream};
use crate::verify::{HEADER, Verifier};
use crate::worker::{Bound, work};

/// Keeps the seeds of offsets and contents apart.
const CONTENT: u64 = 0x9e37_79b9_7f4a_7c15;
/// What storage that deduplicates compares at the least, bytes.
const PAGE: usize = 4096;
/// What marks the blocks of jobs with repeatable offsets: other runs of them can check these.
const REPEATABLE: u64 = 0x69_6f_64_79_6e_6f;

/// Makes the backend and does the work; see [`crate::run`].
pub(crate) fn run(mut spec: CloneSpec, shared: &CloneShared) -> Result<CloneOutcome, WorkerError> {
    let job = spec.job.clone();
    check_zones(&spec)?;
    let mut notes = place(&job.placement, spec.clone);
    thread::exact_timers();
    let arena = arena(&spec, &mut notes)?;
    let engine = &job.engine;
    let verifier = verifier(&spec)?;
    let regions: Vec<(u64, u64)> = spec
        .files
        .iter()
        .map(|file| (file.base, file.length))
        .collect();
    let parts = Parts {
        job: job.clone(),
        shared,
        names: spec.files.iter().map(|file| file.name.clone()).collect(),
        filler: filler(&job, spec.seed ^ CONTENT),
        verifier,
        log: spec.log.clone(),
    };
    let files = if engine.kind.without_files() {
        Vec::new()
    } else {
        files(&mut spec)?
    };
    let storage = Storage {
        files,
        regions,
        arena,
        simulated: spec.simulated.take(),
    };
    if let Some(rule) = &job.shared_files {
        let Some(part) = &spec.shared_files else {
            return Err(WorkerError {
                what: "walk shared files".to_owned(),
                cause: "the clones were not told of one another".to_owned(),
                hint: None,
            });
        };
        let stream = SharedStream::new(&job, rule, part.state(), spec.seed);
        let bound = Bound {
            spec,
            stream,
            notes,
        };
        return on_backend(engine, storage, bound, parts);
    }
    let stream = JobStream::new(job.clone(), &storage.regions, spec.byte_budget, spec.seed);
    let bound = Bound {
        spec,
        stream,
        notes,
    };
    on_backend(engine, storage, bound, parts)
}

/// What a backend is made of.
struct Storage {
    files: Vec<File>,
    /// (base, length) of each file.
    regions: Vec<(u64, u64)>,
    arena: Arena,
    simulated: Option<Simulated>,
}

/// Makes the backend, and has the clone work on it.
fn on_backend<S: CloneStream>(
    engine: &Engine,
    storage: Storage,
    bound: Bound<S>,
    parts: Parts<'_>,
) -> Result<CloneOutcome, WorkerError> {
    let Storage {
        files,
        regions,
        arena,
        simulated,
    } = storage;
    let access = &bound.spec.job.access;
    let writable = access.writes || access.trims;
    let clock = MonotonicClock;
    Ok(match engine.kind {
        EngineKind::Psync => work(synchronous(Psync, files, arena), clock, bound, parts),
        EngineKind::Sync => work(synchronous(SeekSync, files, arena), clock, bound, parts),
        EngineKind::Pvsync2 => {
            let calls = Pvsync2::new(engine);
            work(synchronous(calls, files, arena), clock, bound, parts)
        }
        EngineKind::Libaio => {
            let backend = AioBackend::new(files, arena, engine)?;
            work(backend, clock, bound, parts)
        }
        EngineKind::IoUring => work(
            UringBackend::new(files, arena, engine)?,
            clock,
            bound,
            parts,
        ),
        EngineKind::Posixaio => work(PosixAioBackend::new(files, arena), clock, bound, parts),
        EngineKind::Mmap => {
            let files = files
                .into_iter()
                .zip(regions)
                .map(|(file, (base, length))| (file, base, length));
            let mapped = MappedFiles::new(files.collect(), writable)?;
            work(SyncBackend::new(mapped, arena), clock, bound, parts)
        }
        EngineKind::Null => work(NullBackend::new(arena, clock), clock, bound, parts),
        EngineKind::Sim => {
            let Some(Simulated { seed, clock }) = simulated else {
                return Err(WorkerError {
                    what: "simulate a device".to_owned(),
                    cause: "it was not given a seed".to_owned(),
                    hint: None,
                });
            };
            let options = engine.sim.clone().unwrap_or_default();
            let device = LawDevice::new(options, seed, arena.slots())?;
            match clock {
                Some(clock) => work(
                    SimBackend::new(arena, clock.clone(), device),
                    clock,
                    bound,
                    parts,
                ),
                None => {
                    let clock = MonotonicClock;
                    work(SimBackend::new(arena, clock, device), clock, bound, parts)
                }
            }
        }
    })
}

fn filler(job: &Job, seed: u64) -> Filler {
    let filler = Filler::new(&job.buffers, seed);
    match job.shared_files.is_some() {
        true => filler.differing_every(PAGE),
        false => filler,
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
            None => Err(WorkerError {
                what: format!("use `{}`", file.name),
                cause: "it was not opened".to_owned(),
                hint: None,
            }),
        })
        .collect()
}

fn arena(spec: &CloneSpec, notes: &mut Vec<String>) -> Result<Arena, WorkerError> {
    let job = &spec.job;
    let request = job.shared_files.as_ref().map_or(0, SharedFiles::request);
    let block = job.access.max_block().max(request).max(1);
    let depth = job.engine.depth.max(1);
    let huge = job.buffers.memory == Memory::Huge;
    let arena = Arena::new(depth, block as usize, job.buffers.align as usize, huge);
    let arena = arena.map_err(|error| WorkerError {
        what: format!("reserve {depth} buffers of {block} bytes"),
        cause: error.to_string(),
        hint: Some("lower `iodepth`, `bs` or `numjobs`".to_owned()),
    })?;
    if huge && arena.pages() != Pages::Huge {
        notes.push("buffers not in huge pages: none free (see `vm.nr_hugepages`)".to_owned());
    }
    let nodes = &job.placement.numa_memory_nodes;
    if !nodes.is_empty()
        && let Err(error) = arena.bind_to_nodes(nodes)
    {
        notes.push(format!(
            "buffers not bound to NUMA nodes {nodes:?}: {error}"
        ));
    }
    Ok(arena)
}

/// Puts the thread where the job wants it; what could not be done is a note.
pub(crate) fn place(placement: &Placement, clone: u32) -> Vec<String> {
    let mut notes = Vec::new();
    let mut cpus = placement.cpus.clone();
    if !placement.numa_cpu_nodes.is_empty() {
        match numa::cpus_of(Path::new(numa::NODES), &placement.numa_cpu_nodes) {
            Ok(found) => cpus = found,
            Err(error) => notes.push(format!("not pinned to its NUMA nodes: {error}")),
        }
    }
    let mut note = |what: &str, result: std::io::Result<()>| {
        if let Err(error) = result {
            notes.push(format!("{what}: {error}"));
        }
    };
    let own = cpus.get(clone as usize % cpus.len().max(1));
    match own {
        Some(cpu) if placement.split => {
            note(&format!("not pinned to CPU {cpu}"), thread::pin_to(&[*cpu]));
        }
        Some(_) => note("not pinned to its CPUs", thread::pin_to(&cpus)),
        None => {}
    }
    if placement.nice != 0 {
        note(
            &format!("nice {} not set", placement.nice),
            thread::set_nice(placement.nice),
        );
    }
    if let Some((class, level)) = placement.io_priority {
        note(
            "I/O priority not set",
            thread::set_io_priority(class, level),
        );
    }
    notes
}

/// Blocks with trailers, where shared files have them.
fn trailers(rule: &SharedFiles, spec: &CloneSpec) -> Result<Option<Checks>, WorkerError> {
    if !rule.validate {
        return Ok(None);
    }
    if rule.block <= TRAILER as u64 {
        return Err(WorkerError {
            what: format!("validate blocks of {} bytes", rule.block),
            cause: format!("a checksum and an offset take {TRAILER}"),
            hint: Some("make the blocks longer (`--file-block-size`)".to_owned()),
        });
    }
    let names = spec.files.iter().map(|file| file.name.clone()).collect();
    Ok(Some(Checks::Trailers(Trailers::new(rule.block, names))))
}

fn verifier(spec: &CloneSpec) -> Result<Option<Checks>, WorkerError> {
    let job = &spec.job;
    if let Some(rule) = &job.shared_files {
        return trailers(rule, spec);
    }
    let Some(rule) = job.verify.clone() else {
        return Ok(None);
    };
    let smallest = job.access.min_block();
    if smallest < HEADER as u64 {
        return Err(WorkerError {
            what: format!("verify blocks of {smallest} bytes"),
            cause: format!("a header takes {HEADER}"),
            hint: Some("use `bs=512` or more".to_owned()),
        });
    }
    let seed = match (job.access.seed, job.access.repeatable) {
        (Some(seed), _) => seed,
        (None, true) => REPEATABLE,
        (None, false) => spec.seed,
    };
    let files: Vec<(&str, u64, u64)> = spec
        .files
        .iter()
        .map(|file| (file.name.as_str(), file.base, file.length))
        .collect();
    let dumps = rule.dump;
    let mut verifier = Verifier::new(rule, seed, smallest, &files, job.engine.depth.max(1));
    if dumps {
        verifier.dump_to(&spec.dumps);
    }
    Ok(Some(Checks::Headers(verifier)))
}

/// Zones given in bytes must lie within each file: what is beyond could only be left out in silence.
fn check_zones(spec: &CloneSpec) -> Result<(), WorkerError> {
    let access = &spec.job.access;
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
            return Err(WorkerError {
                what: format!("divide `{}` into zones", file.name),
                cause: format!(
                    "they take {}, and its region has {}",
                    Bytes(whole),
                    Bytes(file.length)
                ),
                hint: Some("lower the zones of `zoned_abs`, or raise `size`".to_owned()),
            });
        }
    }
    Ok(())
}
