//! Options of the engine: how ops reach the kernel.

use iodyno_model::{EngineKind, SimClock, closest};

use crate::draft::Draft;
use crate::engines::{self, Availability};
use crate::option::{OptionSpec, Unit};
use crate::value::{Fault, Value};

/// Depths beyond this are slips of the keyboard.
const DEEPEST: u32 = 1 << 20;

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::honoured(
        "ioengine",
        Unit::Words(&[
            "psync", "sync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio", "mmap", "null",
            "sim",
        ]),
        "How ops reach the kernel.",
        engine,
    )
    .default("psync"),
    OptionSpec::honoured(
        "iodepth",
        Unit::Count,
        "Ops in flight at most; synchronous engines keep to 1.",
        |draft, value| {
            draft.depth = value.count(1, DEEPEST)?;
            Ok(())
        },
    )
    .default("1"),
    OptionSpec::honoured(
        "iodepth_batch",
        Unit::Count,
        "Submits at most so many at once; without it one, or, with io_uring, all while none is in \
         flight.",
        |draft, value| {
            draft.job.engine.batch_submit = value.count(0, DEEPEST)?;
            Ok(())
        },
    )
    .alias(&["iodepth_batch_submit"]),
    OptionSpec::honoured(
        "iodepth_batch_complete_min",
        Unit::Count,
        "Waits for at least so many completions at once.",
        |draft, value| {
            let least = value.count(0, DEEPEST)?;
            if least == 0 {
                value.remark(
                    Fault::note("at least one completion is always waited for")
                        .hint("write 1: asking without waiting only burns CPU"),
                );
            }
            draft.job.engine.batch_complete_min = least.max(1);
            Ok(())
        },
    )
    .alias(&["iodepth_batch_complete"])
    .default("1"),
    OptionSpec::honoured(
        "iodepth_batch_complete_max",
        Unit::Count,
        "Takes at most so many completions at once; without it all there are.",
        |draft, value| {
            draft.job.engine.batch_complete_max = value.count(0, DEEPEST)?;
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "iodepth_low",
        Unit::Count,
        "Fills up again only when so few are in flight.",
        |draft, value| {
            draft.job.engine.depth_low = value.count(0, DEEPEST)?;
            Ok(())
        },
    ),
    OptionSpec::ignored(
        "io_submit_mode",
        Unit::Words(&["inline", "offload"]),
        "Submits from a thread of its own.",
        "late submissions show in the response latency, which is counted from the intended instant",
    ),
    OptionSpec::refused(
        "serialize_overlap",
        Unit::Boolean,
        "Ops on the same blocks wait for each other.",
        "ops in flight may overlap",
        "the random map, which lets each block be met once a pass",
    )
    .neutral(&["0"]),
    OptionSpec::honoured(
        "direct",
        Unit::Boolean,
        "O_DIRECT: past the page cache.",
        |draft, value| {
            draft.job.engine.direct = value.boolean()?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "buffered",
        Unit::Boolean,
        "The reverse of `direct`.",
        |draft, value| {
            draft.job.engine.direct = !value.boolean()?;
            Ok(())
        },
    )
    .default("1"),
    OptionSpec::honoured(
        "atomic",
        Unit::Boolean,
        "Each write is stored whole or not at all (RWF_ATOMIC; pvsync2, libaio, io_uring).",
        |draft, value| {
            draft.job.engine.atomic = value.boolean()?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "sync",
        Unit::Words(&["none", "sync", "dsync", "0", "1"]),
        "O_SYNC or O_DSYNC: each write is durable when it completes.",
        |draft, value| {
            let (sync, dsync) = value.choice(&[
                ("none", (false, false)),
                ("0", (false, false)),
                ("sync", (true, false)),
                ("1", (true, false)),
                ("dsync", (false, true)),
            ])?;
            (draft.job.engine.o_sync, draft.job.engine.o_dsync) = (sync, dsync);
            Ok(())
        },
    )
    .default("none"),
    OptionSpec::honoured(
        "hipri",
        Unit::Boolean,
        "Polls for completions (io_uring: IOPOLL; pvsync2: RWF_HIPRI).",
        |draft, value| {
            draft.job.engine.hipri = value.boolean()?;
            Ok(())
        },
    ),
    OptionSpec::refused(
        "hipri_percentage",
        Unit::Percent,
        "Share of ops that poll.",
        "either all ops of a job poll or none",
        "`hipri=1`",
    )
    .neutral(&["100"]),
    OptionSpec::honoured(
        "sqthread_poll",
        Unit::Boolean,
        "io_uring: a kernel thread submits (SQPOLL).",
        |draft, value| {
            draft.job.engine.sqthread_poll = value.boolean()?;
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "sqthread_poll_cpu",
        Unit::Count,
        "io_uring: the CPU of that thread.",
        |draft, value| {
            let limit = draft.cpus.max(1) - 1;
            draft.job.engine.sqthread_poll_cpu = Some(value.count(0, limit)?);
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "fixedbufs",
        Unit::Boolean,
        "io_uring: registers the buffers; done without it where the kernel can.",
        |draft, value| {
            draft.job.engine.fixed_buffers = Some(value.boolean()?);
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "registerfiles",
        Unit::Boolean,
        "io_uring: registers the files; done without it where the kernel can.",
        |draft, value| {
            draft.job.engine.registered_files = Some(value.boolean()?);
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "force_async",
        Unit::Count,
        "io_uring: ops are not attempted inline first; all of them (1) or none (0).",
        |draft, value| {
            let every = value.count(0, u32::MAX)?;
            if every > 1 {
                return Err(Fault::refusal("either all ops are forced or none")
                    .hint("write `force_async=1`"));
            }
            draft.job.engine.force_async = every == 1;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "nowait",
        Unit::Boolean,
        "Ops that would block fail instead (RWF_NOWAIT).",
        |draft, value| {
            draft.job.engine.nowait = value.boolean()?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::ignored(
        "nonvectored",
        Unit::Count,
        "io_uring: READ in place of READV.",
        "ops are never vectored",
    ),
    OptionSpec::ignored(
        "libaio_vectored",
        Unit::Boolean,
        "libaio: PREADV in place of PREAD.",
        "ops are never vectored",
    ),
    OptionSpec::ignored(
        "userspace_reap",
        Unit::Boolean,
        "libaio: reads the ring without a system call.",
        "completions are reaped by one call for all there are",
    ),
    OptionSpec::refused(
        "uncached",
        Unit::Count,
        "Drops pages after use (RWF_DONTCACHE).",
        "uncached buffered I/O is not here",
        "`direct=1`",
    )
    .neutral(&["0"]),
    OptionSpec::refused(
        "readfua",
        Unit::Boolean,
        "Reads with forced unit access.",
        "the flag needs passthrough commands",
        "`direct=1`",
    )
    .neutral(&["0"]),
    OptionSpec::refused(
        "writefua",
        Unit::Boolean,
        "Writes with forced unit access.",
        "the flag needs passthrough commands",
        "`direct=1` with `sync=dsync`",
    )
    .neutral(&["0"]),
    OptionSpec::refused(
        "thp",
        Unit::Count,
        "mmap: transparent huge pages.",
        "the mapping's pages are the kernel's choice",
        "leaving it out",
    )
    .neutral(&["0"]),
    OptionSpec::honoured(
        "sim_latency",
        Unit::Text,
        "sim: `constant:100us`, `exponential:100us` or `lognormal:100us:0.5` (median, σ).",
        |draft, value| {
            draft.sim.law = engines::law(value)?;
            Ok(())
        },
    )
    .default("constant:100us"),
    OptionSpec::honoured(
        "sim_servers",
        Unit::Count,
        "sim: ops served at once; 0 without limit.",
        |draft, value| {
            draft.sim.servers = value.count(0, u32::MAX)?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "sim_faults",
        Unit::Text,
        "sim: `eio:100` and `short:50` every so many ops, `stall:2s:1s` from when for how long.",
        |draft, value| {
            draft.sim.faults = engines::faults(value)?;
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "sim_clock",
        Unit::Words(&["virtual", "real"]),
        "sim: `virtual` runs as fast as the host computes, unless a job of the file uses another engine or asks for `real`, which takes the time it says.",
        |draft, value| {
            draft.sim.clock =
                value.choice(&[("virtual", SimClock::Virtual), ("real", SimClock::Real)])?;
            Ok(())
        },
    )
    .default("virtual"),
];

fn engine(draft: &mut Draft, value: &Value) -> Result<(), Fault> {
    let name = value.text.split(':').next().unwrap_or_default().trim();
    let found = engines::ENGINES.iter().find(|engine| engine.name == name);
    match found.map(|engine| engine.availability) {
        Some(Availability::Here(kind)) => {
            if let EngineKind::Pvsync2 = kind
                && name == "pvsync"
            {
                value.remark(
                    Fault::note("pvsync is run as pvsync2, which adds only flags")
                        .hint("write `ioengine=pvsync2` to say so"),
                );
            }
            draft.job.engine.kind = kind;
            Ok(())
        }
        Some(Availability::Not { why, instead }) => {
            Err(Fault::refusal(format!("the engine `{name}` is not here: {why}")).hint(instead))
        }
        None => {
            let names = engines::ENGINES.iter().map(|engine| engine.name);
            Err(Fault::error(format!("there is no engine `{name}`")).hint(
                match closest(name, names) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "use psync, libaio, io_uring, posixaio or mmap".to_owned(),
                },
            ))
        }
    }
}
