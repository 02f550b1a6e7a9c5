//! Times of block requests, as histograms counted in the kernel: no event per request leaves the kernel.
//!
//! Two programs are attached to the tracepoints `block_rq_issue` and `block_rq_complete`. The first records when a
//! request was passed to its driver. The second computes two times, and counts them by device, direction and size:
//!
//! - *queue time*: from the creation of the request to its issue. It excludes the time in which the submitter waited
//!   for a free tag.
//! - *device time*: from the issue to the completion: driver, bus and device.
//!
//! All requests of a device are counted, from any submitter. Devices without requests (zram, device-mapper) have no
//! such tracepoints, and count nothing.
//!
//! The instructions assembled in `issue` and `complete` are licensed `MIT OR GPL-2.0`: the kernel lets only programs
//! with a GPL-compatible licence read its structures.

use std::io;

use super::assembler::{Alu, Assembler, Helper, If, Label, Reg, Size};
use super::btf::{Btf, BtfError};
use super::{Attached, LoadError, Map, MapKind};
use Reg::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use Size::{Eight, Four};
use iodyno_model::BLOCK_BINS as BINS;
use thiserror::Error;

/// The most devices that can be traced at once.
pub const MAX_DEVICES: usize = 8;
/// Hardware queues of a device, and requests in flight in each: others are not seen.
const QUEUES_BITS: i32 = 8;
const TAGS_BITS: i32 = 10;

/// A word of the value of a device and direction: sums of queue and device times, then both histograms.
const QUEUE_SUM: i16 = 0;
const DEVICE_SUM: i16 = 1;
const QUEUE_BINS: i16 = 2;
const DEVICE_BINS: i16 = 2 + BINS as i16;
const WORDS: usize = 2 + 2 * BINS;

/// The description of the kernel's types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It discards or writes zeros.
    Trim,
    /// It flushes the device's cache.
    Flush,
}

impl Direction {
    /// All, in the order of the programs' numbers.
    pub const ALL: [Direction; 4] = [
        Direction::Read,
        Direction::Write,
        Direction::Trim,
        Direction::Flush,
    ];

    /// The kernel's numbers of its operations (`enum req_op`).
    fn operations(self) -> &'static [u32] {
        match self {
            Direction::Read => &[0],
            Direction::Write => &[1],
            Direction::Flush => &[2],
            // Discard, secure erase, write zeros.
            Direction::Trim => &[3, 5, 9],
        }
    }
}

/// Times since tracing began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// Their sum, ns.
    pub sum_ns: u64,
    /// How many were in each bin: see [`iodyno_model::block_bin_from`].
    pub bins: [u64; BINS],
}

/// The requests of a device in one direction, since tracing began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requests {
    /// Times from creation to issue.
    pub queue: Stage,
    /// Times from issue to completion.
    pub device: Stage,
}

/// Why block devices cannot be traced.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The kernel does not describe its types.
    #[error(
        "this kernel cannot trace block devices: {TYPES}: {0} (it was built without CONFIG_DEBUG_INFO_BTF)"
    )]
    NoTypes(io::Error),
    /// It describes them differently.
    #[error("this kernel cannot trace block devices: {0}")]
    Types(#[from] BtfError),
    /// Without CAP_BPF.
    #[error(
        "tracing block devices needs the capabilities CAP_BPF and CAP_PERFMON: {0} (run as root, or: sudo setcap cap_bpf,cap_perfmon+ep on the program)"
    )]
    NotPermitted(io::Error),
    /// The kernel refused a program.
    #[error("the kernel refused the program that traces block devices: {0}: {1}")]
    Refused(io::Error, String),
    /// Another failure.
    #[error("block devices cannot be traced: {0}")]
    Failed(io::Error),
    /// There are too many devices.
    #[error("{0} block devices cannot be traced at once; at most {MAX_DEVICES} can")]
    TooMany(usize),
}

impl TraceError {
    /// The error of a call that needs a permission.
    fn of(error: io::Error) -> TraceError {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => TraceError::NotPermitted(error),
            _ => TraceError::Failed(error),
        }
    }
}

impl From<LoadError> for TraceError {
    fn from(error: LoadError) -> TraceError {
        match error {
            LoadError::Refused(error, log) if !log.is_empty() => TraceError::Refused(error, log),
            LoadError::Refused(error, _) | LoadError::NotAttached(error) => TraceError::of(error),
        }
    }
}

/// A block device's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// The major number of its driver.
    pub major: u32,
    /// Among the driver's.
    pub minor: u32,
}

impl Device {
    /// As one number of the kernel (`MKDEV`).
    fn number(self) -> u32 {
        self.major << 20 | self.minor & 0xF_FFFF
    }
}

/// Whole devices (not partitions) whose requests are counted until this is dropped.
#[derive(Debug)]
pub struct BlockTrace {
    counts: Map,
    // Dropped in this order: no request is noted that would not be counted.
    issue: Attached,
    complete: Attached,
    values: Vec<u64>,
}

impl BlockTrace {
    /// Finds out whether this process may trace, without tracing a device.
    ///
    /// # Errors
    /// As `begin`.
    pub fn probe() -> Result<(), TraceError> {
        // The kernel gives these numbers to no device.
        BlockTrace::begin(&[Device { major: 0, minor: 0 }]).map(drop)
    }

    /// Starts counting the requests of these devices, at least one.
    ///
    /// # Errors
    /// A missing permission; a kernel without the tracepoints; no devices, or too many.
    pub fn begin(devices: &[Device]) -> Result<BlockTrace, TraceError> {
        if devices.len() > MAX_DEVICES {
            return Err(TraceError::TooMany(devices.len()));
        }
        let btf = Btf::parse(&std::fs::read(TYPES).map_err(TraceError::NoTypes)?)?;
        let fields = Fields::of(&btf)?;
        let places = (devices.len() as u32) << (QUEUES_BITS + TAGS_BITS);
        let issued = Map::new(MapKind::Array, places, 8).map_err(TraceError::of)?;
        let keys = devices.len() * Direction::ALL.len();
        let counts = Map::new(MapKind::PerCpuArray, keys as u32, WORDS as u32 * 8);
        let counts = counts.map_err(TraceError::of)?;
        let licence = c"Dual MIT/GPL";
        let programs = (
            fields.complete(devices, &issued, &counts),
            fields.issue(devices, &issued),
        );
        let (Some(complete), Some(issue)) = programs else {
            return Err(TraceError::TooMany(devices.len()));
        };
        // In this order: each request that is noted is also counted.
        let done = btf.typedef("btf_trace_block_rq_complete")?;
        let complete = Attached::load("iodyno_complete", &complete, done, licence)?;
        let given = btf.typedef("btf_trace_block_rq_issue")?;
        let issue = Attached::load("iodyno_issue", &issue, given, licence)?;
        Ok(BlockTrace {
            counts,
            issue,
            complete,
            values: vec![0; WORDS],
        })
    }

    /// The requests of a device, by its index in the list, that completed since tracing started.
    ///
    /// # Errors
    /// Those of `bpf(2)`.
    pub fn read(&mut self, device: usize, direction: Direction) -> io::Result<Requests> {
        let key = device * Direction::ALL.len() + direction as usize;
        self.values.fill(0);
        self.counts.add_to(key as u32, &mut self.values)?;
        let stage = |sum: i16, bins: i16| {
            let mut stage = Stage {
                sum_ns: self.values[sum as usize],
                bins: [0; BINS],
            };
            stage
                .bins
                .copy_from_slice(&self.values[bins as usize..][..BINS]);
            stage
        };
        Ok(Requests {
            queue: stage(QUEUE_SUM, QUEUE_BINS),
            device: stage(DEVICE_SUM, DEVICE_BINS),
        })
    }

    /// Requests that were missed because one of our programs was running on their CPU.
    ///
    /// # Errors
    /// Those of `bpf(2)`.
    pub fn missed(&self) -> io::Result<u64> {
        Ok(self.issue.missed()? + self.complete.missed()?)
    }
}

/// Offsets of the fields that the programs read, bytes.
struct Fields {
    queue: i16,
    tag: i16,
    flags: i16,
    start: i16,
    hardware_queue: i16,
    disk: i16,
    queue_number: i16,
    major: i16,
    first_minor: i16,
}

/// Stack offsets: the key of an issued request, and the key of its counts.
const PLACE: i16 = -4;
const KEY: i16 = -8;

impl Fields {
    fn of(btf: &Btf) -> Result<Fields, BtfError> {
        Ok(Fields {
            queue: btf.offset("request", "q")?,
            tag: btf.offset("request", "tag")?,
            flags: btf.offset("request", "cmd_flags")?,
            start: btf.offset("request", "start_time_ns")?,
            hardware_queue: btf.offset("request", "mq_hctx")?,
            disk: btf.offset("request_queue", "disk")?,
            queue_number: btf.offset("blk_mq_hw_ctx", "queue_num")?,
            major: btf.offset("gendisk", "major")?,
            first_minor: btf.offset("gendisk", "first_minor")?,
        })
    }

    /// Loads the request that is the tracepoint's first argument: `R6` = the request, `R7` = the number of its device,
    /// and its place on the stack. Jumps to `out` if it is of another device.
    fn identify(&self, a: &mut Assembler, devices: &[Device], out: Label) {
        a.load(Eight, R6, R1, 0);
        a.load(Eight, R2, R6, self.queue);
        a.load(Eight, R2, R2, self.disk);
        a.load(Four, R3, R2, self.major);
        a.load(Four, R4, R2, self.first_minor);
        a.alu_number(Alu::ShiftLeft, R3, 20);
        a.alu(Alu::Or, R3, R4);
        let found = a.label();
        for (index, device) in devices.iter().enumerate() {
            a.alu_number(Alu::Move, R7, index as i32);
            a.jump_if(If::Equal, R3, device.number(), found);
        }
        a.jump(out);
        a.place(found);
        a.load(Eight, R4, R6, self.hardware_queue);
        a.load(Four, R4, R4, self.queue_number);
        a.jump_if(If::AtLeast, R4, 1 << QUEUES_BITS, out);
        a.load(Four, R3, R6, self.tag);
        a.jump_if(If::AtLeast, R3, 1 << TAGS_BITS, out);
        a.alu(Alu::Move, R5, R7);
        a.alu_number(Alu::ShiftLeft, R5, QUEUES_BITS);
        a.alu(Alu::Or, R5, R4);
        a.alu_number(Alu::ShiftLeft, R5, TAGS_BITS);
        a.alu(Alu::Or, R5, R3);
        a.store(Four, R10, PLACE, R5);
    }

    /// Notes when a request was issued.
    fn issue(&self, devices: &[Device], issued: &Map) -> Option<Vec<u64>> {
        let mut a = Assembler::default();
        let out = a.label();
        self.identify(&mut a, devices, out);
        a.call(Helper::Now);
        a.alu(Alu::Move, R8, R0);
        look_up(&mut a, issued, PLACE, out);
        a.store(Eight, R0, 0, R8);
        a.place(out);
        a.exit();
        a.assemble()
    }

    /// Counts the times of a request that was completed.
    fn complete(&self, devices: &[Device], issued: &Map, counts: &Map) -> Option<Vec<u64>> {
        let mut a = Assembler::default();
        let out = a.label();
        self.identify(&mut a, devices, out);
        // R9 = now.
        a.call(Helper::Now);
        a.alu(Alu::Move, R9, R0);
        // R8 = when it was issued. A request completes in parts; the first part counts.
        look_up(&mut a, issued, PLACE, out);
        a.load(Eight, R8, R0, 0);
        a.alu_number(Alu::Move, R1, 0);
        a.store(Eight, R0, 0, R1);
        a.jump_if_reg(If::Equal, R8, R1, out);
        a.jump_if_reg(If::Below, R9, R8, out);
        a.alu(Alu::Sub, R9, R8);
        // The key: device and direction.
        a.load(Four, R1, R6, self.flags);
        a.alu_number(Alu::And, R1, 0xFF);
        let known = a.label();
        a.alu_number(Alu::ShiftLeft, R7, 2);
        for direction in Direction::ALL {
            a.alu_number(Alu::Move, R2, direction as i32);
            for operation in direction.operations() {
                a.jump_if(If::Equal, R1, *operation, known);
            }
        }
        a.jump(out);
        a.place(known);
        a.alu(Alu::Or, R7, R2);
        a.store(Four, R10, KEY, R7);
        // R8 = its time in the queue; R6 = 1 if that is known.
        a.load(Eight, R1, R6, self.start);
        a.alu_number(Alu::Move, R6, 0);
        let unknown = a.label();
        a.jump_if_reg(If::Equal, R1, R6, unknown);
        a.jump_if_reg(If::Below, R8, R1, unknown);
        a.alu(Alu::Sub, R8, R1);
        a.alu_number(Alu::Move, R6, 1);
        a.place(unknown);
        look_up(&mut a, counts, KEY, out);
        count(&mut a, R9, DEVICE_SUM, DEVICE_BINS);
        a.jump_if(If::Equal, R6, 0, out);
        count(&mut a, R8, QUEUE_SUM, QUEUE_BINS);
        a.place(out);
        a.exit();
        a.assemble()
    }
}

/// `R0` = the address of the value in a map whose key is on the stack; jumps to `out` if it is missing.
fn look_up(a: &mut Assembler, map: &Map, key: i16, out: Label) {
    use std::os::fd::AsRawFd;
    a.alu(Alu::Move, R2, R10);
    a.alu_number(Alu::Add, R2, key.into());
    a.load_map(R1, map.fd.as_raw_fd());
    a.call(Helper::Lookup);
    a.jump_if_zero(R0, out);
}

/// Counts a time in the value at `R0`.
fn count(a: &mut Assembler, time: Reg, sum: i16, bins: i16) {
    a.load(Eight, R1, R0, sum * 8);
    a.alu(Alu::Add, R1, time);
    a.store(Eight, R0, sum * 8, R1);
    // R2 = floor(log2(time)), for times from 8 ns on.
    let bin = a.label();
    a.alu(Alu::Move, R1, time);
    let small = a.label();
    a.alu_number(Alu::Move, R3, 8);
    a.jump_if_reg(If::Below, R1, R3, small);
    a.alu_number(Alu::Move, R2, 0);
    for bits in [32, 16, 8, 4, 2, 1] {
        let below = a.label();
        // Whether anything is left above these bits.
        a.alu(Alu::Move, R3, R1);
        a.alu_number(Alu::ShiftRight, R3, bits);
        a.jump_if_zero(R3, below);
        a.alu(Alu::Move, R1, R3);
        a.alu_number(Alu::Add, R2, bits);
        a.place(below);
    }
    // R1 = 4 × (log2 − 1) + the next two bits: see `block_bin_from`.
    a.alu(Alu::Move, R1, time);
    a.alu(Alu::Move, R3, R2);
    a.alu_number(Alu::Sub, R3, 2);
    a.alu(Alu::ShiftRight, R1, R3);
    a.alu_number(Alu::And, R1, 3);
    a.alu_number(Alu::Sub, R2, 1);
    a.alu_number(Alu::ShiftLeft, R2, 2);
    a.alu(Alu::Add, R1, R2);
    a.place(small);
    a.jump_if(If::Below, R1, BINS as u32, bin);
    a.alu_number(Alu::Move, R1, BINS as i32 - 1);
    a.place(bin);
    a.alu_number(Alu::And, R1, BINS as i32 - 1);
    a.alu_number(Alu::ShiftLeft, R1, 3);
    a.alu(Alu::Move, R2, R0);
    a.alu(Alu::Add, R2, R1);
    a.load(Eight, R3, R2, bins * 8);
    a.alu_number(Alu::Add, R3, 1);
    a.store(Eight, R2, bins * 8, R3);
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

    use iodyno_model::block_bin_from;
    use iodyno_testing::{Loop, skip};

    use super::*;

    #[test]
    fn every_write_to_a_device_is_counted_with_its_times() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("image");
        let Some(device) = Loop::blank(&file, 1 << 20) else {
            return;
        };
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(&device)
            .unwrap();
        let number = opened.metadata().unwrap().rdev();
        let of = Device {
            major: libc::major(number),
            minor: libc::minor(number),
        };
        let other = Device {
            major: 4095,
            minor: 1,
        };
        let mut trace = match BlockTrace::begin(&[other, of]) {
            Ok(trace) => trace,
            Err(error @ (TraceError::NotPermitted(_) | TraceError::NoTypes(_))) => {
                return skip(error);
            }
            Err(error) => panic!("{error}"),
        };
        #[repr(align(4096))]
        struct Page([u8; 4096]);
        let page = Page([7; 4096]);
        let begun = std::time::Instant::now();
        for at in 0..200 {
            opened.write_all_at(&page.0, at * 4096).unwrap();
        }
        let took = begun.elapsed().as_nanos() as u64;
        opened.sync_all().unwrap();
        assert_eq!(trace.missed().unwrap(), 0);
        let writes = trace.read(1, Direction::Write).unwrap();
        assert_eq!(writes.device.bins.iter().sum::<u64>(), 200);
        assert_eq!(writes.queue.bins.iter().sum::<u64>(), 200);
        assert!(writes.device.sum_ns > 0);
        assert!(writes.device.sum_ns + writes.queue.sum_ns <= took);
        let within = writes.device.bins.iter().enumerate();
        let least: u64 = within.map(|(bin, count)| block_bin_from(bin) * count).sum();
        assert!(least <= writes.device.sum_ns, "{least}");
        // Each is shorter than the beginning of the next bin.
        let within = writes.device.bins.iter().enumerate();
        let most: u64 = within
            .map(|(bin, count)| block_bin_from(bin + 1) * count)
            .sum();
        assert!(most > writes.device.sum_ns, "{most}");
        let none = trace.read(0, Direction::Write).unwrap();
        assert_eq!(none.device.sum_ns, 0);
        assert!(
            trace.read(2, Direction::Write).is_err(),
            "there are two devices"
        );
    }
}
