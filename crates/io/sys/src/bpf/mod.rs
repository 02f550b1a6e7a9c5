//! Our own BPF programs in the kernel: maps, loading, attaching to tracepoints.
//!
//! Only `bpf(2)` is used: no library and no compiler. A map and a program exist until their descriptors are closed, so
//! nothing stays in the kernel when this process ends.

mod assembler;
pub mod block;
pub mod btf;

use crate::result::checked;
use std::ffi::CStr;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The commands of `bpf(2)` that are used, with the kernel's numbers.
#[derive(Debug, Clone, Copy)]
#[repr(i32)]
enum Command {
    MapCreate = 0,
    MapLookup = 1,
    ProgramLoad = 5,
    Information = 15,
    TracepointOpen = 17,
}

/// `BPF_PROG_TYPE_TRACING`, and how it is attached: `BPF_TRACE_RAW_TP`.
const TRACING: u32 = 26;
const RAW_TRACEPOINT: u32 = 23;
/// The most text of the kernel's verifier that is kept.
const LOG: usize = 64 * 1024;

/// The kinds of maps that are used, with the kernel's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum MapKind {
    Array = 2,
    PerCpuArray = 6,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapLookup {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    network_device: u32,
    attach_kind: u32,
    btf: u32,
    function_info_bytes: u32,
    function_info: u64,
    function_infos: u32,
    line_info_bytes: u32,
    line_info: u64,
    line_infos: u32,
    attach_type: u32,
}

#[repr(C)]
#[derive(Default)]
struct TracepointOpen {
    name: u64,
    program: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct Information {
    of: u32,
    bytes: u32,
    information: u64,
}

/// `bpf(2)`.
///
/// # Safety
/// `T` is the structure of the command, and all addresses in it are valid for what the command reads and writes.
unsafe fn bpf<T>(command: Command, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: as the caller guarantees; the structure outlives the call.
    let got = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as i32,
            std::ptr::from_mut(attributes),
            size_of::<T>(),
        )
    };
    checked(got).map(|got| got as i32)
}

/// As `bpf`, for commands that return a new descriptor.
///
/// # Safety
/// As `bpf`.
unsafe fn bpf_fd<T>(command: Command, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: as the caller guarantees; the descriptor is new and not owned elsewhere.
    unsafe { bpf(command, attributes).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// Values that programs and this process share, by number.
#[derive(Debug)]
struct Map {
    fd: OwnedFd,
    value_bytes: usize,
    /// How many values one lookup returns: one for each possible CPU, or one.
    copies: usize,
}

impl Map {
    /// Makes a map of zeros. `value_bytes` is a multiple of 8.
    fn new(kind: MapKind, entries: u32, value_bytes: u32) -> io::Result<Map> {
        // The kernel returns whole words.
        assert!(value_bytes.is_multiple_of(8), "values consist of words");
        let mut attributes = MapCreate {
            kind: kind as u32,
            key_bytes: 4,
            value_bytes,
            entries,
        };
        // SAFETY: the structure has no addresses.
        let fd = unsafe { bpf_fd(Command::MapCreate, &mut attributes)? };
        let copies = match kind {
            MapKind::Array => 1,
            MapKind::PerCpuArray => possible_cpus()?,
        };
        Ok(Map {
            fd,
            value_bytes: value_bytes as usize,
            copies,
        })
    }

    /// Adds the values of all CPUs to the words of `into`, which has the length of a value.
    fn add_to(&self, key: u32, into: &mut [u64]) -> io::Result<()> {
        let words = self.value_bytes / 8;
        let mut values = vec![0u64; words * self.copies];
        let mut attributes = MapLookup {
            map: self.fd.as_raw_fd() as u32,
            key: std::ptr::from_ref(&key) as u64,
            value: values.as_mut_ptr() as u64,
            ..MapLookup::default()
        };
        // SAFETY: the kernel reads a key of 4 bytes, and writes one value for each possible CPU, for which there is
        // room.
        unsafe { bpf(Command::MapLookup, &mut attributes)? };
        for value in values.chunks_exact(words) {
            into.iter_mut()
                .zip(value)
                .for_each(|(sum, word)| *sum += word);
        }
        Ok(())
    }
}

/// The number of CPUs that this host may have: `0-3` in `/sys` is 4.
fn possible_cpus() -> io::Result<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = text.trim().rsplit([',', '-']).next();
    let last: usize = last
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| io::Error::other("/sys/devices/system/cpu/possible has no number"))?;
    Ok(last + 1)
}

/// A program that runs at a tracepoint, until it is dropped.
#[derive(Debug)]
struct Attached {
    program: OwnedFd,
    _link: OwnedFd,
}

/// Why a program could not be loaded.
#[derive(Debug)]
enum LoadError {
    /// The kernel refused to load it, with the last line of its verifier.
    Refused(io::Error, String),
    /// It could not be attached.
    NotAttached(io::Error),
}

impl Attached {
    /// Loads a program and attaches it to a tracepoint, given as the id of the type `btf_trace_…`.
    fn load(
        name: &str,
        code: &[u64],
        tracepoint: u32,
        licence: &CStr,
    ) -> Result<Attached, LoadError> {
        let mut log = vec![0u8; LOG];
        let mut attributes = ProgramLoad {
            kind: TRACING,
            instructions: code.len() as u32,
            code: code.as_ptr() as u64,
            licence: licence.as_ptr() as u64,
            log_level: 1,
            log_bytes: LOG as u32,
            log: log.as_mut_ptr() as u64,
            attach_kind: RAW_TRACEPOINT,
            attach_type: tracepoint,
            ..ProgramLoad::default()
        };
        // The last byte stays 0.
        let named = name.as_bytes().iter().take(15);
        attributes
            .name
            .iter_mut()
            .zip(named)
            .for_each(|(to, from)| *to = *from);
        // SAFETY: code, licence, log outlive the call, and their lengths are those in the structure.
        let loaded = unsafe { bpf_fd(Command::ProgramLoad, &mut attributes) };
        let program = loaded.map_err(|error| {
            let text = String::from_utf8_lossy(&log);
            let lines = text.trim_end_matches('\0').lines();
            let mut messages = lines.filter(|line| !line.starts_with("processed "));
            LoadError::Refused(error, messages.next_back().unwrap_or_default().to_owned())
        })?;
        let mut attributes = TracepointOpen {
            program: program.as_raw_fd() as u32,
            ..TracepointOpen::default()
        };
        // SAFETY: without a name, the structure has no addresses.
        let link = unsafe { bpf_fd(Command::TracepointOpen, &mut attributes) };
        Ok(Attached {
            program,
            _link: link.map_err(LoadError::NotAttached)?,
        })
    }

    /// How often a run was skipped because the program interrupted itself.
    fn missed(&self) -> io::Result<u64> {
        // struct bpf_prog_info; `recursion_misses` is the 27th word (Linux 5.12).
        let mut words = [0u64; 29];
        let mut attributes = Information {
            of: self.program.as_raw_fd() as u32,
            bytes: size_of_val(&words) as u32,
            information: words.as_mut_ptr() as u64,
        };
        // SAFETY: the kernel reads and writes at most this many bytes; zeros ask for no further addresses.
        unsafe { bpf(Command::Information, &mut attributes)? };
        Ok(words[26])
    }
}
