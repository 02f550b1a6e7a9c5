//! NVMe commands through io_uring: the passthrough of `/dev/ngXnY`, past the kernel's block layer. See
//! `linux/nvme_ioctl.h`.
//!
//! Entries have twice the usual size, and the second half contains the command. Lengths and offsets are in blocks of
//! the namespace.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use iodyno_model::Engine;

use super::abi::{Sqe, op, setup};
use super::rings::Rings;
use super::slots::SlotRing;
use crate::blocking;
use crate::memory::{Arena, Plain};
use crate::result::status;
use crate::{Backend, BackendError, Capabilities, Completions, File, Op, OpKind, Slot};

const NVME_IOCTL_ID: libc::c_ulong = 0x4e40;
const NVME_IOCTL_ADMIN_CMD: libc::c_ulong = 0xc048_4e41;
const NVME_URING_CMD_IO: u64 = 0xc048_4e80;
/// The command uses a registered buffer (Linux 6.1).
const URING_CMD_FIXED: u32 = 1 << 0;

const FLUSH: u8 = 0x00;
const WRITE: u8 = 0x01;
const READ: u8 = 0x02;
const DATASET_MANAGEMENT: u8 = 0x09;
const IDENTIFY: u8 = 0x06;
/// Dataset management: the range is no longer needed.
const DEALLOCATE: u32 = 1 << 2;
/// The most blocks of one command.
const LONGEST: u64 = 1 << 16;

/// `struct nvme_uring_cmd`, which begins as `struct nvme_passthru_cmd`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Command {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    word_2: u32,
    word_3: u32,
    metadata: u64,
    address: u64,
    metadata_length: u32,
    length: u32,
    word_10: u32,
    word_11: u32,
    word_12: u32,
    word_13: u32,
    word_14: u32,
    word_15: u32,
    timeout_ms: u32,
    result: u32,
}

// SAFETY: integers without padding between them.
unsafe impl Plain for Command {}

/// Length of a range of dataset management, bytes.
const RANGE: usize = 16;

/// A namespace, as its controller describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Namespace {
    number: u32,
    /// Binary logarithm of the length of a block.
    shift: u32,
}

impl Namespace {
    fn of(device: impl AsFd) -> Result<Namespace, BackendError> {
        let descriptor = device.as_fd().as_raw_fd();
        // SAFETY: the call has no argument.
        let number = status(unsafe { libc::ioctl(descriptor, NVME_IOCTL_ID as _) });
        let failed = |number: i32| BackendError {
            what: "identify the NVMe namespace".to_owned(),
            source: io::Error::from_raw_os_error(-number),
            hint: Some("the engine `io_uring_cmd` needs an NVMe device, such as `/dev/ng0n1`"),
        };
        if number <= 0 {
            return Err(failed(if number == 0 { -libc::ENOTTY } else { number }));
        }
        let mut data = Box::new([0u8; 4096]);
        let mut command = Command {
            opcode: IDENTIFY,
            namespace: number as u32,
            address: data.as_mut_ptr() as u64,
            length: data.len() as u32,
            ..Command::default()
        };
        // SAFETY: the kernel writes the result into `command` and 4096 bytes into `data`; both outlive the call.
        let got =
            status(unsafe { libc::ioctl(descriptor, NVME_IOCTL_ADMIN_CMD as _, &raw mut command) });
        if got != 0 {
            return Err(failed(if got > 0 { -libc::EIO } else { got }));
        }
        Namespace::parse(number as u32, &data).map_err(|why| BackendError {
            what: "use the NVMe namespace".to_owned(),
            source: io::Error::new(io::ErrorKind::Unsupported, why),
            hint: Some("use `ioengine=io_uring` on its block device"),
        })
    }

    /// From the data structure "Identify Namespace" of the NVM command set.
    fn parse(number: u32, data: &[u8; 4096]) -> Result<Namespace, &'static str> {
        let format = usize::from(data[26] & 0xf) | usize::from(data[26] & 0x60) >> 1;
        let format = &data[128 + 4 * format..][..4];
        let shift = u32::from(format[2]);
        match (format[0] | format[1], shift) {
            (1.., _) => Err("its blocks have metadata"),
            (0, 9..=16) => Ok(Namespace { number, shift }),
            _ => Err("the length of its blocks is unknown"),
        }
    }

    /// Whether this length is that of one or more blocks.
    #[inline]
    fn is_whole(self, length: u32) -> bool {
        length > 0 && length.trailing_zeros() >= self.shift
    }

    /// The command of an op whose data are at this address.
    #[inline]
    fn command(self, op: &Op, address: u64) -> Command {
        let start = op.offset >> self.shift;
        let command = Command {
            namespace: self.number,
            address,
            ..Command::default()
        };
        let transfer = |opcode| Command {
            opcode,
            length: op.length,
            word_10: start as u32,
            word_11: (start >> 32) as u32,
            // The number of blocks, less one.
            word_12: (op.length >> self.shift).wrapping_sub(1),
            ..command
        };
        match op.kind {
            OpKind::Read => transfer(READ),
            OpKind::Write => transfer(WRITE),
            OpKind::Trim => Command {
                opcode: DATASET_MANAGEMENT,
                length: RANGE as u32,
                word_11: DEALLOCATE,
                ..command
            },
            OpKind::Fsync | OpKind::Fdatasync => Command {
                opcode: FLUSH,
                address: 0,
                ..command
            },
            OpKind::SyncRange(_) | OpKind::ResetZone => {
                unreachable!("carried out by a synchronous call")
            }
        }
    }
}

/// An io_uring that passes commands to NVMe namespaces.
#[derive(Debug)]
pub struct NvmeBackend {
    // Fields are dropped in this order: the ring before the memory that it may access.
    ring: SlotRing,
    arena: Arena,
    /// The ranges of trims, one for each slot.
    ranges: Arena,
    files: Vec<File>,
    namespaces: Vec<Namespace>,
    /// Flags of commands with data.
    data_flags: u32,
    /// What each slot's op transfers, and whether it is a trim.
    lengths: Box<[u32]>,
    trims: Box<[bool]>,
    /// Ops that are not commands: this thread executes them in a later turn.
    blocking: Vec<(Slot, Op)>,
}

impl NvmeBackend {
    /// Creates a ring for all slots of the arena. The files are the character devices of namespaces.
    ///
    /// # Errors
    /// The kernel lacks NVMe passthrough, or a file is not a namespace with blocks of 512 bytes to 64 KiB and no
    /// metadata.
    pub fn new(
        files: Vec<File>,
        arena: Arena,
        engine: &Engine,
    ) -> Result<NvmeBackend, BackendError> {
        let slots = arena.slots();
        let rings = Rings::with_commands(slots, engine).map_err(|source| BackendError {
            what: format!("create a {slots}-entry io_uring for NVMe commands"),
            hint: Some(
                "it needs Linux 5.19 or later; or use `ioengine=io_uring` on the block device",
            ),
            source,
        })?;
        let described = files.iter().map(|file| Namespace::of(&file.descriptor));
        let namespaces = described.collect::<Result<Vec<_>, _>>()?;
        let longest = namespaces.iter().map(|found| LONGEST << found.shift).min();
        if longest.is_some_and(|longest| arena.slot_bytes() as u64 > longest) {
            let source = io::Error::from_raw_os_error(libc::EINVAL);
            return Err(BackendError {
                hint: Some("lower `bs=`: a command has at most 65536 blocks"),
                ..BackendError::new("transfer such long blocks by one NVMe command", source)
            });
        }
        let ranges = Arena::new(slots, RANGE, 0, false)
            .map_err(|error| BackendError::new("reserve memory for ranges", error))?;
        let mut ring = SlotRing::new(rings, slots, engine.submits_apart());
        ring.feature("NVMe commands");
        let slots = slots as usize;
        let mut backend = NvmeBackend {
            data_flags: 0,
            lengths: vec![0; slots].into_boxed_slice(),
            trims: vec![false; slots].into_boxed_slice(),
            blocking: Vec::with_capacity(slots),
            ring,
            arena,
            ranges,
            files,
            namespaces,
        };
        if engine.fixed_buffers.unwrap_or(true) {
            backend.register_buffers();
        }
        Ok(backend)
    }

    fn register_buffers(&mut self) {
        // Kernels with one of these features have both.
        let result = match self.ring.rings.flags & setup::DEFER_TASKRUN {
            0 => Err("buffers not registered: Linux is older than 6.1".to_owned()),
            _ => self.ring.rings.register_buffers(&self.arena),
        };
        match result {
            Ok(()) => {
                self.data_flags = URING_CMD_FIXED;
                self.ring.feature("registered buffers");
            }
            Err(why) => self.ring.fallback(why),
        }
    }
}

impl Backend for NvmeBackend {
    fn capabilities(&self) -> Capabilities {
        self.ring.capabilities.clone()
    }

    #[inline]
    fn buffer(&mut self, slot: Slot) -> &mut [u8] {
        self.arena.slot_mut(slot)
    }

    #[inline]
    fn room(&self) -> u32 {
        self.ring.rings.room()
    }

    #[inline]
    fn prep(&mut self, slot: Slot, op: &Op) {
        if op.kind.blocks() {
            return self.blocking.push((slot, *op));
        }
        let (file, index) = (op.file as usize, slot as usize);
        let namespace = self.namespaces[file];
        // The device would transfer more than the buffer has.
        assert!(
            !op.kind.transfers() || namespace.is_whole(op.length),
            "an op of {} bytes does not consist of whole blocks",
            op.length
        );
        let address = self.arena.lend(slot, op.skip, op.transfer_length()) as u64;
        self.lengths[index] = op.transfer_length();
        self.trims[index] = op.kind == OpKind::Trim;
        let address = match op.kind {
            OpKind::Trim => {
                let range = self.ranges.slot_mut(slot);
                // Without attributes: the number of blocks, and the first one.
                range[4..8].copy_from_slice(&(op.length >> namespace.shift).to_le_bytes());
                range[8..].copy_from_slice(&(op.offset >> namespace.shift).to_le_bytes());
                self.ranges.lend(slot, 0, RANGE as u32) as u64
            }
            _ => address,
        };
        let command = namespace.command(op, address);
        let head = Sqe {
            opcode: op::URING_CMD,
            fd: self.files[file].descriptor.as_raw_fd(),
            off: NVME_URING_CMD_IO,
            op_flags: match op.kind.transfers() {
                true => self.data_flags,
                false => 0,
            },
            user_data: slot.into(),
            ..Sqe::default()
        };
        // SAFETY: buffer and range are lent until the completion was reaped, and the arenas are leaked if it never is.
        // The device transfers as many bytes as the command says, checked above. The file is owned here until the
        // kernel has accepted the entry.
        unsafe { self.ring.rings.write_with(head, command) };
        self.ring.prepared(slot);
    }

    #[inline]
    fn turn(
        &mut self,
        min: u32,
        max: u32,
        deadline: Option<u64>,
        completions: &mut Completions,
    ) -> Result<(), BackendError> {
        completions.clear();
        if !self.blocking.is_empty() {
            blocking::execute(&mut self.blocking, &self.files, max, deadline, completions);
        }
        let (arena, ranges) = (&mut self.arena, &mut self.ranges);
        let (lengths, trims) = (&self.lengths, &self.trims);
        self.ring
            .turn(min, max, deadline, completions, |slot, status| {
                let index = slot as usize;
                // SAFETY: its op has ended.
                unsafe { arena.take_back(slot) };
                if trims[index] {
                    // SAFETY: the same.
                    unsafe { ranges.take_back(slot) };
                }
                match status {
                    0 => lengths[index] as i32,
                    // The status of the controller.
                    1.. => -libc::EIO,
                    errno => errno,
                }
            })
    }

    fn cancel_all(&mut self) {
        self.ring.rings.cancel_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The description of a namespace whose format number 1 has blocks of 2^`shift` bytes with this metadata.
    fn described(shift: u8, metadata: u16) -> [u8; 4096] {
        let mut data = [0u8; 4096];
        data[26] = 1;
        data[128 + 2] = 9;
        data[132..134].copy_from_slice(&metadata.to_le_bytes());
        data[134] = shift;
        data
    }

    #[test]
    fn the_length_of_blocks_is_that_of_the_format_in_use() {
        let found = Namespace::parse(1, &described(12, 0)).unwrap();
        assert_eq!((found.number, found.shift), (1, 12));
        let refused = Namespace::parse(1, &described(12, 8)).unwrap_err();
        assert!(refused.contains("metadata"));
        Namespace::parse(1, &described(0, 0)).unwrap_err();
    }

    #[test]
    fn only_whole_blocks_are_transferred() {
        let namespace = Namespace {
            number: 1,
            shift: 12,
        };
        for (length, whole) in [
            (0, false),
            (512, false),
            (4096, true),
            (4608, false),
            (12288, true),
        ] {
            assert_eq!(namespace.is_whole(length), whole, "{length}");
        }
    }

    #[test]
    fn an_op_becomes_a_command_in_blocks_of_the_namespace() {
        let namespace = Namespace {
            number: 3,
            shift: 9,
        };
        assert_eq!(size_of::<Command>(), 72);
        let op = Op::new(OpKind::Write, 0, 5 << 41, 4096);
        let write = namespace.command(&op, 77);
        assert_eq!((write.opcode, write.namespace), (WRITE, 3));
        assert_eq!((write.address, write.length), (77, 4096));
        assert_eq!((write.word_10, write.word_11, write.word_12), (0, 5, 7));
        let kind = OpKind::Trim;
        let trim = namespace.command(&Op { kind, ..op }, 99);
        assert_eq!((trim.opcode, trim.length), (DATASET_MANAGEMENT, 16));
        assert_eq!(
            (trim.address, trim.word_10, trim.word_11),
            (99, 0, DEALLOCATE)
        );
        let kind = OpKind::Fdatasync;
        let flush = namespace.command(
            &Op {
                kind,
                length: 0,
                ..op
            },
            99,
        );
        assert_eq!((flush.opcode, flush.length, flush.address), (FLUSH, 0, 0));
    }

    #[test]
    fn a_file_that_is_no_namespace_is_refused_with_a_remedy() {
        let file = File {
            descriptor: std::fs::File::open("/dev/null").unwrap().into(),
            device: true,
        };
        let arena = Arena::new(1, 4096, 0, false).unwrap();
        let engine = Engine::new(iodyno_model::EngineKind::IoUringCmd, 1);
        let error = NvmeBackend::new(vec![file], arena, &engine).unwrap_err();
        assert!(error.hint.is_some(), "{error}");
    }
}
