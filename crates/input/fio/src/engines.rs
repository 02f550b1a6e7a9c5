//! The engines by name: supported ones, and replacements for the others.

use iodyno_mirror::PolicyKind;
use iodyno_model::{EngineKind, SimDevice, SimFault, SimLaw, errno_named};
use iodyno_options::{Problem, Status};

use super::number::TimeUnit;
use super::value::Value;

/// An engine of fio.
#[derive(Debug, Clone, Copy)]
pub(super) struct EngineSpec {
    /// Its name.
    pub(super) name: &'static str,
    /// Description in one line.
    pub(super) text: &'static str,
    /// Whether it is supported.
    pub(super) status: Status<EngineUse>,
}

/// The implementation of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EngineUse {
    /// A backend.
    Backend(EngineKind),
    /// The loop of file operations.
    Files(FileEngine),
    /// No I/O: a load of the CPU.
    Cpu,
}

/// fio's engines that work on names. Each op is one file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileEngine {
    /// The engine's name.
    pub(super) name: &'static str,
    /// What an op does.
    pub(super) deed: FileDeed,
    /// Whether it works on folders.
    pub(super) folders: bool,
}

/// What an op of a file engine does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileDeed {
    /// Creates one.
    Create,
    /// Calls stat on an existing one.
    Stat,
    /// Removes an existing one.
    Delete,
}

const fn here(name: &'static str, kind: EngineKind, text: &'static str) -> EngineSpec {
    let status = Status::Honoured(EngineUse::Backend(kind));
    EngineSpec { name, text, status }
}

const fn files(
    name: &'static str,
    deed: FileDeed,
    folders: bool,
    text: &'static str,
) -> EngineSpec {
    let file = FileEngine {
        name,
        deed,
        folders,
    };
    let status = Status::Honoured(EngineUse::Files(file));
    EngineSpec { name, text, status }
}

const fn not(
    name: &'static str,
    text: &'static str,
    why: &'static str,
    instead: &'static str,
) -> EngineSpec {
    let status = Status::Refused { why, instead };
    EngineSpec { name, text, status }
}

const BLOCK: &str = "mount it or attach it as a block device, and use io_uring or libaio on that";
const NOT_STORAGE: &str = "no storage is involved";
const NETWORK: &str = "it speaks to a server by itself";
const PASSTHROUGH: &str = "it sends commands past the block layer";
const ON_BLOCK_DEVICE: &str = "use io_uring on the block device, such as /dev/nvme0n1";
const ACCELERATOR: &str = "it moves data to an accelerator's memory";

/// All engines, supported ones first.
#[rustfmt::skip]
pub(super) const ENGINES: &[EngineSpec] = &[
    here("psync", EngineKind::Psync, "pread and pwrite; the default"),
    here("sync", EngineKind::Sync, "lseek, then read or write"),
    here("pvsync2", EngineKind::Pvsync2, "preadv2 and pwritev2"),
    here("pvsync", EngineKind::Pvsync2, "the same as pvsync2"),
    here("vsync", EngineKind::Pvsync2, "run as pvsync2, with a warning: fio merges adjacent ops into one call"),
    here("splice", EngineKind::Psync, "run as psync, with a warning: in fio, data passes through a pipe"),
    here("libaio", EngineKind::Libaio, "io_submit and io_getevents"),
    here("io_uring", EngineKind::IoUring, "io_uring"),
    here("io_uring_cmd", EngineKind::IoUringCmd, "NVMe commands through io_uring, past the block layer: `/dev/ng0n1`, or the block device of the namespace"),
    here("posixaio", EngineKind::Posixaio, "aio_read and aio_write of the C library"),
    here("mmap", EngineKind::Mmap, "copies to and from a mapped file"),
    here("nbd", EngineKind::Nbd, "requests to the NBD server of `uri`, by a connection of each clone"),
    here("vhost-user-blk", EngineKind::VhostUserBlk, "requests through shared memory to the vhost-user-blk server of `uri`, by a queue of each clone; iodyno's own"),
    here("virtiofs", EngineKind::Virtiofs, "requests through shared memory to the virtio-fs server of `uri`, on files of the folder that it shares; iodyno's own"),
    here("null", EngineKind::Null, "completes at once; measures the harness"),
    here("sim", EngineKind::Sim, "a simulated device with a known law; for tests"),
    here("falloc", EngineKind::Falloc, "fallocate: a write reserves space, a read reserves it beyond the end, a trim punches a hole"),
    here("ftruncate", EngineKind::Ftruncate, "ftruncate to the offset of each write"),
    EngineSpec { name: "cpuio", text: "no I/O: spins for `cpuload` percent of the time", status: Status::Honoured(EngineUse::Cpu) },
    files("filecreate", FileDeed::Create, false, "creates `nrfiles` files in the trial's own folder in `directory`"),
    files("filestat", FileDeed::Stat, false, "stat of `nrfiles` files, made before"),
    files("filedelete", FileDeed::Delete, false, "unlink of `nrfiles` files, made before"),
    files("dircreate", FileDeed::Create, true, "creates `nrfiles` folders"),
    files("dirstat", FileDeed::Stat, true, "stat of `nrfiles` folders, made before"),
    files("dirdelete", FileDeed::Delete, true, "rmdir of `nrfiles` folders, made before"),
    not("sg", "SCSI commands", PASSTHROUGH, "use psync or io_uring on the disk, such as /dev/sda"),
    not("xnvme", "NVMe commands", PASSTHROUGH, ON_BLOCK_DEVICE),
    not("libblkio", "the libblkio library", "it drives devices from user space", ON_BLOCK_DEVICE),
    not("spdk", "NVMe from user space", "it drives devices from user space", ON_BLOCK_DEVICE),
    not("libzbc", "zoned devices", "zoned devices are not supported", "use psync with `direct=1` and sequential writes"),
    not("mtd", "raw flash", "raw flash is not a block device", "use psync on its block device, such as /dev/mtdblock0"),
    not("libpmem", "persistent memory", "it copies and flushes from user space", "use mmap on a file on the DAX file system"),
    not("dev-dax", "persistent memory as a device", "it maps a character device", "use mmap on a file on the DAX file system"),
    not("nfs", "an NFS server", NETWORK, "mount it, and use psync or io_uring on a file there"),
    not("rbd", "a Ceph image", NETWORK, BLOCK),
    not("rados", "Ceph objects", NETWORK, BLOCK),
    not("gfapi", "GlusterFS", NETWORK, "mount it, and use psync on a file there"),
    not("gfapi_async", "GlusterFS", NETWORK, "mount it, and use io_uring on a file there"),
    not("libiscsi", "an iSCSI target", NETWORK, BLOCK),
    not("libhdfs", "Hadoop's file system", NETWORK, "mount it, and use psync on a file there"),
    not("dfs", "DAOS", NETWORK, "mount it with dfuse, and use psync on a file there"),
    not("http", "S3, Swift or WebDAV", NETWORK, "mount it, and use psync on a file there"),
    not("ime_psync", "DDN's IME", NETWORK, "mount it, and use psync on a file there"),
    not("ime_psyncv", "DDN's IME", NETWORK, "mount it, and use pvsync2 on a file there"),
    not("ime_aio", "DDN's IME", NETWORK, "mount it, and use libaio on a file there"),
    not("net", "sockets", NOT_STORAGE, "use a network benchmark"),
    not("netsplice", "sockets through a pipe", NOT_STORAGE, "use a network benchmark"),
    not("rdma", "remote memory", NOT_STORAGE, "use a network benchmark"),
    not("exec", "runs a program", "a job file must not run commands", "run the program beside iodyno"),
    not("page_fault", "touches memory", NOT_STORAGE, "use mmap on a file"),
    not("e4defrag", "exchanges extents", "it defragments files while others use them", "run e4defrag beside iodyno"),
    not("libcufile", "GPU memory", ACCELERATOR, "use io_uring with `direct=1`"),
    not("libhipfile", "GPU memory", ACCELERATOR, "use io_uring with `direct=1`"),
    not("external", "an engine from a shared object", "foreign code is not loaded", "use io_uring or psync"),
    not("cpp_null", "an engine from a shared object", "foreign code is not loaded", "use null"),
    not("windowsaio", "Windows", "it is for another system", "use io_uring"),
    not("solarisaio", "Solaris", "it is for another system", "use io_uring"),
];

/// What carries out an engine of fio; `None`: it is not supported, or works on names.
pub fn backend(name: &str) -> Option<EngineKind> {
    match ENGINES.iter().find(|engine| engine.name == name)?.status {
        Status::Honoured(EngineUse::Backend(kind)) => Some(kind),
        Status::Honoured(EngineUse::Cpu) => Some(EngineKind::Null),
        _ => None,
    }
}

/// `law`, `hdd`, `flash`, `mirror:adaptive:hdd+hdd*2`.
pub(super) fn device(value: &Value) -> Result<SimDevice, Problem> {
    let device = value.string()?.parse().map_err(|message: String| {
        Problem::error(message).hint("write `law`, `hdd`, `flash`, or `mirror:POLICY:hdd+hdd`")
    })?;
    if let SimDevice::Mirror { policy, .. } = &device {
        let token = value.text.split(':').nth(1).unwrap_or_default().trim();
        policy
            .parse::<PolicyKind>()
            .map_err(|error| value.at(token, Problem::error(error.to_string())))?;
    }
    Ok(device)
}

/// `constant:100us`, `exponential:100us`, `lognormal:100us:0.5`.
pub(super) fn law(value: &Value) -> Result<SimLaw, Problem> {
    let parts: Vec<&str> = value.string()?.split(':').map(str::trim).collect();
    let time = |token: &str| {
        value
            .time_of(token, TimeUnit::Microseconds)
            .map(|time| time.0)
    };
    match parts[..] {
        ["constant", service] => Ok(SimLaw::Constant(time(service)?)),
        ["exponential", mean] => Ok(SimLaw::Exponential(time(mean)?)),
        ["lognormal", median, sigma] => {
            let read = value.float_of(sigma)?;
            if !(0.0..=10.0).contains(&read) {
                return Err(value.at(sigma, Problem::error("σ is out of range: 0 to 10")));
            }
            Ok(SimLaw::LogNormal {
                median_ns: time(median)?,
                sigma: read,
            })
        }
        _ => Err(Problem::error(format!("`{}` is not a law", value.text))
            .hint("write `constant:100us`, `exponential:100us` or `lognormal:100us:0.5`")),
    }
}

/// `eio:100,short:50,stall:2s:1s`.
pub(super) fn faults(value: &Value) -> Result<Vec<SimFault>, Problem> {
    let every = |token: &str| value.count_of(token, 1, u64::MAX);
    let time = |token: &str| {
        value
            .time_of(token, TimeUnit::Microseconds)
            .map(|time| time.0)
    };
    value
        .string()?
        .split(',')
        .map(|part| {
            let words: Vec<&str> = part.split(':').map(str::trim).collect();
            match words[..] {
                ["short", ops] => Ok(SimFault::Short { every: every(ops)? }),
                ["stall", from, length] => Ok(SimFault::Stall {
                    from_ns: time(from)?,
                    for_ns: time(length)?,
                }),
                [name, ops] => match errno_named(&name.to_ascii_uppercase()) {
                    Some(errno) => Ok(SimFault::Errno {
                        every: every(ops)?,
                        errno,
                    }),
                    None => Err(value.at(
                        name,
                        Problem::error(format!("`{name}` is not a fault"))
                            .hint("write `eio:100`, `short:50` or `stall:2s:1s`"),
                    )),
                },
                _ => Err(value.at(
                    part,
                    Problem::error(format!("`{part}` is not a fault"))
                        .hint("write `eio:100`, `short:50` or `stall:2s:1s`"),
                )),
            }
        })
        .collect()
}
