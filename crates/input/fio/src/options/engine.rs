//! Options of the engine: how ops reach the kernel.

use iodyno_model::EngineKind::{
    self, IoUring, IoUringCmd, Libaio, Nbd, Pvsync2, Sim, VhostUserBlk, Virtiofs,
};
use iodyno_model::{SimClock, closest};
use iodyno_options::{Problem, Status, Unit::*, differs, ignored, refused};

use crate::draft::Draft;
use crate::engines;
use crate::engines::EngineUse;
use crate::number::TimeUnit;
use crate::options::{OptionSpec, honoured, only};
use crate::value::Value;

/// Maximum depth; a larger value is assumed to be a typing error.
const DEEPEST: u32 = 1 << 20;

#[rustfmt::skip]
pub(super) const OPTIONS: &[OptionSpec] = &[
    honoured("ioengine", Words(&["psync", "sync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio", "mmap", "nbd", "vhost-user-blk", "virtiofs", "null", "sim"]), "I/O engine.",
        engine).default("psync").sets(&["engine.kind"]),
    honoured("iodepth", Count, "Maximum number of ops in flight; synchronous engines use 1.",
        |draft, value| value.count(1, DEEPEST).map(|it| draft.depth = it)).default("1"),
    honoured("iodepth_batch", Count, "Maximum number of ops submitted at once; default: one, or with io_uring the number in flight, or all if none is in flight.",
        |draft, value| value.count(0, DEEPEST).map(|it| draft.blocks.engine.batch_submit = it)).alias(&["iodepth_batch_submit"]).sets(&["engine.batch_submit"]),
    honoured("iodepth_batch_complete_min", Count, "Minimum number of completions to wait for at once.",
        iodepth_batch_complete_min).alias(&["iodepth_batch_complete"]).default("1").sets(&["engine.batch_complete_min"]),
    honoured("iodepth_batch_complete_max", Count, "Maximum number of completions reaped at once; default: all available.",
        |draft, value| value.count(0, DEEPEST).map(|it| draft.blocks.engine.batch_complete_max = it)).sets(&["engine.batch_complete_max"]),
    honoured("iodepth_low", Count, "Number of ops in flight at which the queue is refilled.",
        |draft, value| value.count(0, DEEPEST).map(|it| draft.blocks.engine.depth_low = it)).sets(&["engine.depth_low"]),
    ignored("io_submit_mode", Words(&["inline", "offload"]), "Submits from a separate thread.", "late submissions are part of the response latency, which is measured from the intended start"),
    honoured("serialize_overlap", Boolean, "An op that overlaps one in flight of the same clone waits for it, if the job writes or trims.",
        |draft, value| value.boolean().map(|it| draft.blocks.access.serialize_overlap = it)).default("0").sets(&["access.serialize_overlap"]),
    honoured("direct", Boolean, "O_DIRECT: bypasses the page cache.",
        |draft, value| value.boolean().map(|it| draft.blocks.engine.direct = it)).default("0"),
    honoured("buffered", Boolean, "The opposite of `direct`.",
        |draft, value| value.boolean().map(|it| draft.blocks.engine.direct = !it)).default("1"),
    honoured("atomic", Boolean, "Each write is stored completely or not at all (RWF_ATOMIC; pvsync2, libaio, io_uring).",
        |draft, value| value.boolean().map(|it| draft.blocks.engine.atomic = it)).default("0").sets(&["engine.atomic"]),
    honoured("sync", Words(&["none", "sync", "dsync", "0", "1"]), "O_SYNC or O_DSYNC: each write is durable when it completes.",
        sync).default("none"),
    only(&[IoUring, IoUringCmd, Pvsync2], "hipri", Boolean, "Polls for completions (io_uring: IOPOLL; pvsync2: RWF_HIPRI).",
        |draft, value| value.boolean().map(|it| draft.blocks.engine.hipri = it)).sets(&["engine.hipri"]),
    refused("hipri_percentage", Percent, "Percentage of ops that poll.", "polling applies to all ops of a job or to none", "use `hipri=1`").neutral(&["100"]),
    only(&[IoUring, IoUringCmd], "sqthread_poll", Boolean, "io_uring: a kernel thread submits (SQPOLL).",
        |draft, value| value.boolean().map(|it| draft.blocks.engine.sqthread_poll = it)).sets(&["engine.sqthread_poll"]),
    only(&[IoUring, IoUringCmd], "sqthread_poll_cpu", Count, "io_uring: the CPU of that thread.", sqthread_poll_cpu).sets(&["engine.sqthread_poll_cpu"]),
    only(&[IoUring, IoUringCmd], "fixedbufs", Boolean, "io_uring: registers the buffers; by default if the kernel supports it.",
        |draft, value| value.boolean().map(|it| draft.blocks.engine.fixed_buffers = Some(it))).sets(&["engine.fixed_buffers"]),
    only(&[IoUring], "registerfiles", Boolean, "io_uring: registers the files; by default if the kernel supports it.",
        |draft, value| value.boolean().map(|it| draft.blocks.engine.registered_files = Some(it))).sets(&["engine.registered_files"]),
    only(&[IoUring], "force_async", Count, "io_uring: one op in this number is not attempted inline first; 1: all of them, 0: none.",
        force_async).default("0").sets(&["engine.force_async", "engine.force_async_every"]),
    only(&[IoUring, Libaio, Pvsync2], "nowait", Boolean, "Ops that would block fail instead (RWF_NOWAIT).",
        |draft, value| value.boolean().map(|it| draft.blocks.engine.nowait = it)).default("0").sets(&["engine.nowait"]),
    ignored("nonvectored", Count, "io_uring: READ instead of READV.", "ops are never vectored"),
    ignored("libaio_vectored", Boolean, "libaio: PREADV instead of PREAD.", "ops are never vectored"),
    ignored("userspace_reap", Boolean, "libaio: reads the ring without a system call.", "one call reaps all available completions"),
    refused("uncached", Count, "Drops pages after use (RWF_DONTCACHE).", "uncached buffered I/O is not supported", "use `direct=1`").neutral(&["0"]),
    refused("readfua", Boolean, "Reads with forced unit access.", "the flag needs passthrough commands", "use `direct=1`").neutral(&["0"]),
    refused("writefua", Boolean, "Writes with forced unit access.", "the flag needs passthrough commands", "use `direct=1` with `sync=dsync`").neutral(&["0"]),
    refused("thp", Count, "mmap: transparent huge pages.", "the kernel chooses the pages of a mapping", "leave it out").neutral(&["0"]),
    honoured("cpuload", Percent, "cpuio: share of the time in which the CPU is busy.",
        |draft, value| value.count(1, u32::MAX).map(|it| draft.cpu_percent = it.min(100))),
    honoured("cpuchunks", Microseconds, "cpuio: busy time between two pauses.",
        |draft, value| value.time(TimeUnit::Microseconds).map(|it| draft.cpu_chunk = it)).default("50000"),
    differs("cpumode", Words(&["noop", "qsort"]), "cpuio: what keeps the CPU busy.", "the CPU spins in every mode").neutral(&["noop"]),
    differs("exit_on_io_done", Boolean, "cpuio: ends with the last job that does I/O.", "a job of cpuio ends after its `runtime`").neutral(&["0"]),
    only(&[IoUringCmd], "cmd_type", Words(&["nvme"]), "io_uring_cmd: the kind of commands.", cmd_type).default("nvme"),
    only(&[Nbd, VhostUserBlk, Virtiofs], "uri", Text, "nbd: the export: `nbd+unix:///NAME?socket=PATH` or `nbd://HOST:PORT/NAME`; vhost-user-blk: `vhost-user-blk:///SOCKET`; virtiofs: `virtiofs:///SOCKET`.", uri).sets(&["engine.nbd"]),
    only(&[Sim], "sim_device", Forms(&["law", "hdd", "flash", "mirror:adaptive:hdd+hdd*2"]), "sim: a device with the service times of `sim_latency`; or a model of a rotating or solid-state disk, or of a mirror with a read policy, which all clones use. `*2`: a disk that needs twice the time.",
        |draft, value| engines::device(value).map(|it| draft.sim.device = it)).default("law").sets(&["engine.sim.device"]),
    only(&[Sim], "sim_latency", Forms(&["constant:100us", "exponential:100us", "lognormal:100us:0.5"]), "sim: service time: constant, exponential with a mean, or log-normal with a median and σ.",
        |draft, value| engines::law(value).map(|it| draft.sim.law = it)).default("constant:100us").sets(&["engine.sim.law"]),
    only(&[Sim], "sim_servers", Count, "sim: number of ops served at the same time; 0: no limit.",
        |draft, value| value.count(0, u32::MAX).map(|it| draft.sim.servers = it)).default("0").sets(&["engine.sim.servers"]),
    only(&[Sim], "sim_faults", Forms(&["eio:100", "short:50", "stall:2s:1s"]), "sim: every 100th op fails with EIO; every 50th is short; none completes for 1 s from 2 s on. Separated by commas.",
        |draft, value| engines::faults(value).map(|it| draft.sim.faults = it)).sets(&["engine.sim.faults"]),
    only(&[Sim], "sim_clock", Words(&["virtual", "real"]), "sim: `virtual` runs as fast as the host computes, unless a job of the file uses another engine or asks for `real`, which takes the time it says.",
        |draft, value| value.choice(&[("virtual", SimClock::Virtual), ("real", SimClock::Real)]).map(|it| draft.sim.clock = it)).default("virtual").sets(&["engine.sim.clock"]),
];

fn iodepth_batch_complete_min(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let least = value.count(0, DEEPEST)?;
    if least == 0 {
        value.remark(
            Problem::note("at least one completion is always waited for")
                .hint("write 1: asking without waiting only burns CPU"),
        );
    }
    draft.blocks.engine.batch_complete_min = least.max(1);
    Ok(())
}

fn sync(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let (sync, dsync) = value.choice(&[
        ("none", (false, false)),
        ("0", (false, false)),
        ("sync", (true, false)),
        ("1", (true, false)),
        ("dsync", (false, true)),
    ])?;
    (draft.blocks.engine.o_sync, draft.blocks.engine.o_dsync) = (sync, dsync);
    Ok(())
}

fn cmd_type(_draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    match value.string()?.trim() {
        "nvme" => Ok(()),
        other => Err(
            Problem::refusal(format!("`cmd_type={other}` is not supported"))
                .hint("`nvme` is; for SCSI disks, use `ioengine=io_uring` on the block device"),
        ),
    }
}

fn uri(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let uri = value.string()?.parse().map_err(|message: String| {
        Problem::error(message).hint(
            "write `nbd+unix:///NAME?socket=PATH`, `nbd://HOST:PORT/NAME` (the name may be empty), `vhost-user-blk:///SOCKET` or `virtiofs:///SOCKET`",
        )
    })?;
    draft.export = Some(uri);
    Ok(())
}

fn sqthread_poll_cpu(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let limit = draft.cpus.max(1) - 1;
    draft.blocks.engine.sqthread_poll_cpu = Some(value.count(0, limit)?);
    Ok(())
}

fn force_async(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let every = value.count(0, u32::MAX)?;
    let engine = &mut draft.blocks.engine;
    engine.force_async = every > 0;
    engine.force_async_every = every.max(1);
    Ok(())
}

fn engine(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let name = match value.text.split(':').next().unwrap_or_default().trim() {
        "aio" | "linuxaio" => "libaio",
        // As in fio, what follows does not count.
        name if name.starts_with("aio") || name.starts_with("linuxaio") => {
            let message = format!("as in fio, the engine `{name}` is `libaio`");
            value.remark(Problem::note(message).hint("write `ioengine=libaio`"));
            "libaio"
        }
        name => name,
    };
    let found = engines::ENGINES.iter().find(|engine| engine.name == name);
    match found.map(|engine| engine.status) {
        Some(Status::Honoured(EngineUse::Files(engine))) => {
            draft.file_engine = Some(engine);
            draft.cpu_load = false;
            Ok(())
        }
        Some(Status::Honoured(EngineUse::Cpu)) => {
            draft.blocks.engine.kind = EngineKind::Null;
            (draft.file_engine, draft.cpu_load) = (None, true);
            Ok(())
        }
        Some(Status::Honoured(EngineUse::Backend(kind))) => {
            let message = match name {
                "pvsync" => Some(Problem::note(
                    "pvsync is run as pvsync2, which adds only flags",
                )),
                "vsync" => Some(Problem::warning(
                    "vsync is run as pvsync2: adjacent ops are not merged into one call",
                )),
                "splice" => Some(Problem::warning(
                    "splice is run as psync: data does not pass through a pipe",
                )),
                _ => None,
            };
            if let Some(message) = message {
                value.remark(message.hint(format!("write `ioengine={}` to say so", kind.name())));
            }
            draft.blocks.engine.kind = kind;
            (draft.file_engine, draft.cpu_load) = (None, false);
            Ok(())
        }
        Some(Status::Refused { why, instead }) => Err(Problem::refusal(format!(
            "the engine `{name}` is not supported: {why}"
        ))
        .hint(instead)),
        Some(Status::Ignored { .. }) | None => {
            let names = engines::ENGINES.iter().map(|engine| engine.name);
            Err(Problem::error(format!("unknown engine `{name}`")).hint(
                match closest(name, names) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "use psync, libaio, io_uring, posixaio or mmap".to_owned(),
                },
            ))
        }
    }
}
