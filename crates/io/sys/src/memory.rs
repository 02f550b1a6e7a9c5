//! Memory for counters and for I/O buffers.

use crate::result::checked;
use iodyno_model::MemoryPolicy;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Makes the C library return freed buffers of at least 128 KiB to the kernel. By default, it keeps them after some
/// frees, even if its memory is locked.
pub fn return_large_buffers() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a parameter of the allocator, which is safe at any time.
    let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10) };
}

/// Counters set to zero. Their pages are only allocated when first written.
pub fn zeroed_counters(count: usize) -> Box<[AtomicU64]> {
    // SAFETY: an AtomicU64 of all zero bits is the valid value 0.
    unsafe { Box::new_zeroed_slice(count).assume_init() }
}

/// Plain numbers without padding: every bit pattern is a valid value.
///
/// # Safety
/// Both are true of the type.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: integers.
unsafe impl Plain for u8 {}
// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: no padding is between the elements of an array.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Kind of pages of an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// Ordinary pages.
    Ordinary,
    /// Huge pages reserved by the host.
    Huge,
    /// Transparent huge pages: ordinary pages that the kernel may merge, as requested by madvise.
    Transparent,
}

/// One mapping divided into equal slots: one buffer per op in flight.
///
/// A slot is either idle and belongs to the owner of the arena, or busy and belongs to the kernel. Borrowing the bytes
/// of a busy slot panics. A sink is an extra buffer that is never borrowed: reads whose data are unused all go there,
/// so that it stays in the CPU's caches.
#[derive(Debug)]
pub struct Arena {
    start: NonNull<u8>,
    length: usize,
    stride: usize,
    slot_bytes: usize,
    shift: usize,
    busy: Box<[bool]>,
    busy_count: u32,
    pages: Pages,
    sink: bool,
    /// The memory that contains it, if shared with another process.
    shared: Option<Arc<SharedMemory>>,
}

// SAFETY: the arena owns its mapping; nothing else in this process points into it.
unsafe impl Send for Arena {}

const PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;

impl Arena {
    /// Creates `slots` buffers of `slot_bytes` each. Each starts `shift` bytes (less than a page) after a
    /// page boundary. Uses huge pages if requested and available.
    ///
    /// # Errors
    /// ENOMEM if there is not enough memory, EINVAL if the sizes overflow.
    pub fn new(slots: u32, slot_bytes: usize, shift: usize, huge: bool) -> io::Result<Arena> {
        Arena::create(slots, slot_bytes, shift, huge, Extra::None)
    }

    /// The same, with a sink for all reads.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn with_sink(slots: u32, slot_bytes: usize, shift: usize, huge: bool) -> io::Result<Arena> {
        Arena::create(slots, slot_bytes, shift, huge, Extra::Sink)
    }

    /// The same in a part of memory shared with another process, with `tail` additional bytes after the slots.
    ///
    /// # Errors
    /// Those of [`Self::new`]. ENOMEM also if the memory has no such part left.
    pub fn within(
        memory: &Arc<SharedMemory>,
        slots: u32,
        slot_bytes: usize,
        shift: usize,
        tail: usize,
    ) -> io::Result<Arena> {
        Arena::create(slots, slot_bytes, shift, false, Extra::Within(memory, tail))
    }

    fn create(
        slots: u32,
        slot_bytes: usize,
        shift: usize,
        huge: bool,
        extra: Extra<'_>,
    ) -> io::Result<Arena> {
        let overflow = || io::Error::from_raw_os_error(libc::EINVAL);
        let shift = shift % PAGE;
        let stride = slot_bytes
            .max(1)
            .checked_add(shift)
            .and_then(|bytes| bytes.checked_next_multiple_of(PAGE))
            .ok_or_else(overflow)?;
        let more = match extra {
            Extra::None => 0,
            Extra::Sink => stride,
            Extra::Within(_, tail) => tail,
        };
        let length = stride
            .checked_mul(slots.max(1) as usize)
            .and_then(|bytes| bytes.checked_add(more)?.checked_next_multiple_of(PAGE))
            .ok_or_else(overflow)?;
        let shared = match extra {
            Extra::Within(memory, _) => Some(Arc::clone(memory)),
            Extra::None | Extra::Sink => None,
        };
        let (start, length, pages) = match huge.then(|| Self::map_huge(length)).flatten() {
            Some((start, length)) => (start, length, Pages::Huge),
            None => {
                let start = match &shared {
                    Some(memory) => memory.take(length)?,
                    None => map(length, 0, None)?,
                };
                // SAFETY: the range was just mapped; madvise changes no contents.
                let merged = huge
                    && unsafe { libc::madvise(start.as_ptr().cast(), length, libc::MADV_HUGEPAGE) }
                        == 0;
                (
                    start,
                    length,
                    if merged {
                        Pages::Transparent
                    } else {
                        Pages::Ordinary
                    },
                )
            }
        };
        let busy = vec![false; slots.max(1) as usize].into_boxed_slice();
        Ok(Arena {
            start,
            length,
            stride,
            slot_bytes,
            shift,
            busy,
            busy_count: 0,
            pages,
            sink: matches!(extra, Extra::Sink),
            shared,
        })
    }

    /// Whether it is part of this memory.
    pub(crate) fn is_part_of(&self, memory: &Arc<SharedMemory>) -> bool {
        (self.shared.as_ref()).is_some_and(|shared| Arc::ptr_eq(shared, memory))
    }

    /// Bytes after the slots.
    pub(crate) fn tail_length(&self) -> usize {
        self.length - self.stride * self.busy.len()
    }

    /// The address of a value after the slots.
    ///
    /// # Panics
    /// If it is outside of memory shared with another process, or misaligned.
    fn in_tail<T: Plain>(&self, at: usize) -> *mut T {
        let whole = at.checked_add(size_of::<T>());
        let within = whole.is_some_and(|end| end <= self.tail_length());
        let aligned = at.is_multiple_of(align_of::<T>());
        assert!(
            self.shared.is_some() && within && aligned,
            "it is behind the slots"
        );
        // SAFETY: within the mapping, checked above; the slots end at a page boundary.
        unsafe {
            self.start
                .add(self.stride * self.busy.len() + at)
                .cast()
                .as_ptr()
        }
    }

    /// The address at offset `at` after the slots, for the other process.
    pub(crate) fn tail_address(&self, at: usize) -> u64 {
        self.in_tail::<u8>(at).expose_provenance() as u64
    }

    /// Writes a value after the slots, which the other process may access.
    pub(crate) fn put<T: Plain>(&self, at: usize, value: T) {
        // SAFETY: in the mapping and aligned; no reference to these bytes exists.
        unsafe { self.in_tail::<T>(at).write_volatile(value) }
    }

    /// Reads a value after the slots, which the other process may have written.
    pub(crate) fn get<T: Plain>(&self, at: usize) -> T {
        // SAFETY: as in `put`; all bits are a value.
        unsafe { self.in_tail::<T>(at).read_volatile() }
    }

    fn map_huge(length: usize) -> Option<(NonNull<u8>, usize)> {
        let length = length.checked_next_multiple_of(HUGE_PAGE)?;
        Some((map(length, libc::MAP_HUGETLB, None).ok()?, length))
    }

    /// Number of slots.
    pub fn slots(&self) -> u32 {
        self.busy.len() as u32
    }

    /// Length of a slot, bytes.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// The kind of its pages.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// Number of busy slots.
    pub fn busy_count(&self) -> u32 {
        self.busy_count
    }

    /// The bytes of an idle slot.
    ///
    /// # Panics
    /// If the slot is busy or does not exist.
    #[inline]
    pub fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        assert!(!self.busy[slot as usize], "slot {slot} is in flight");
        // SAFETY: the slot is within the mapping (checked by the index above) and is not in use by the
        // kernel; `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(slot), self.slot_bytes) }
    }

    /// The bytes of an idle slot.
    ///
    /// # Panics
    /// If the slot is busy or does not exist.
    #[inline]
    pub(crate) fn slot(&self, slot: u32) -> &[u8] {
        assert!(!self.busy[slot as usize], "slot {slot} is in flight");
        // SAFETY: as in `slot_mut`; `self` is borrowed, so no exclusive reference exists.
        unsafe { std::slice::from_raw_parts(self.pointer(slot), self.slot_bytes) }
    }

    /// Lends `length` bytes of an idle slot, starting at `skip`, to the kernel. Returns their address.
    ///
    /// # Panics
    /// If the slot is busy, or the range is not within it.
    #[inline]
    pub(crate) fn lend(&mut self, slot: u32, skip: u32, length: u32) -> *mut u8 {
        self.lend_buffer(slot, slot, skip, length)
    }

    /// Like [`Self::lend`], for a read: the slot is busy, and the bytes are those of the sink, if any.
    #[inline]
    pub(crate) fn lend_for_read(&mut self, slot: u32, skip: u32, length: u32) -> *mut u8 {
        let buffer = match self.sink {
            true => self.slots(),
            false => slot,
        };
        self.lend_buffer(slot, buffer, skip, length)
    }

    #[inline]
    fn lend_buffer(&mut self, slot: u32, buffer: u32, skip: u32, length: u32) -> *mut u8 {
        assert!(!self.busy[slot as usize], "slot {slot} is in flight");
        assert!(
            skip as usize + length as usize <= self.slot_bytes,
            "op exceeds its buffer"
        );
        self.busy[slot as usize] = true;
        self.busy_count += 1;
        // SAFETY: within the buffer, checked above.
        unsafe { self.pointer(buffer).add(skip as usize) }
    }

    /// Takes a slot back from the kernel.
    ///
    /// # Safety
    /// The kernel no longer accesses its bytes.
    ///
    /// # Panics
    /// If it was not lent: the kernel completed an op that was not submitted.
    #[inline]
    pub(crate) unsafe fn take_back(&mut self, slot: u32) {
        assert!(self.busy[slot as usize], "slot {slot} completed twice");
        self.busy[slot as usize] = false;
        self.busy_count -= 1;
    }

    #[inline]
    fn pointer(&self, slot: u32) -> *mut u8 {
        // SAFETY: the caller has checked a slot by its index into `busy`, and the mapping holds the sink as well.
        unsafe {
            self.start
                .as_ptr()
                .add(slot as usize * self.stride + self.shift)
        }
    }

    /// The whole mapping, for registration with a ring.
    pub(crate) fn whole(&self) -> libc::iovec {
        libc::iovec {
            iov_base: self.start.as_ptr().cast(),
            iov_len: self.length,
        }
    }

    /// Allocates its (untouched) pages on NUMA nodes.
    ///
    /// # Errors
    /// EINVAL for a node that does not exist, ENOSYS without NUMA.
    pub fn bind_to_nodes(&self, nodes: &[u32], policy: MemoryPolicy) -> io::Result<()> {
        let mode = match policy {
            MemoryPolicy::Prefer => libc::MPOL_PREFERRED,
            MemoryPolicy::Bind => libc::MPOL_BIND,
            MemoryPolicy::Interleave => libc::MPOL_INTERLEAVE,
        };
        let mut mask = [0u64; 16];
        for node in nodes {
            let word = mask
                .get_mut(*node as usize / 64)
                .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
            *word |= 1 << (node % 64);
        }
        // SAFETY: the range is ours; the mask outlives the call and has the given length.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.start.as_ptr(),
                self.length,
                mode,
                mask.as_ptr(),
                mask.len() * 64,
                0,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// What follows the slots of an arena.
enum Extra<'a> {
    None,
    Sink,
    Within(&'a Arc<SharedMemory>, usize),
}

/// Memory shared with another process as a whole, and allocated in parts. Untouched pages use no memory.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<u8>,
    length: usize,
    file: OwnedFd,
    /// Bytes allocated so far, from the start.
    taken: AtomicUsize,
}

// SAFETY: the value owns its mapping, and hands out each part once.
unsafe impl Send for SharedMemory {}
// SAFETY: the same; an atomic counts the allocated bytes.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Memory of `length` bytes, a multiple of a page.
    ///
    /// # Errors
    /// Those of memfd_create(2), ftruncate(2) and mmap(2).
    pub(crate) fn new(length: usize) -> io::Result<SharedMemory> {
        let file = memory_file(length)?;
        let start = map(length, libc::MAP_NORESERVE, Some(&file))?;
        Ok(SharedMemory {
            start,
            length,
            file,
            taken: AtomicUsize::new(0),
        })
    }

    /// The next `length` bytes, from a page boundary. They are zeros.
    pub(crate) fn take(&self, length: usize) -> io::Result<NonNull<u8>> {
        let full = || io::Error::from_raw_os_error(libc::ENOMEM);
        let length = length.checked_next_multiple_of(PAGE).ok_or_else(full)?;
        let next = |taken: usize| (taken.checked_add(length)).filter(|end| *end <= self.length);
        let relaxed = Ordering::Relaxed;
        let taken = self.taken.fetch_update(relaxed, relaxed, next);
        let taken = taken.map_err(|_| full())?;
        // SAFETY: within the mapping, checked above.
        Ok(unsafe { self.start.add(taken) })
    }

    /// The file, the address and the length of the mapping.
    pub(crate) fn mapping(&self) -> (&OwnedFd, u64, u64) {
        let start = self.start.as_ptr().expose_provenance();
        (&self.file, start as u64, self.length as u64)
    }
}

/// A part of shared memory, for texts that both processes read and write.
#[derive(Debug)]
pub(crate) struct SharedPart {
    start: NonNull<u8>,
    length: usize,
    _memory: Arc<SharedMemory>,
}

// SAFETY: the part belongs to this value alone, which keeps the memory alive.
unsafe impl Send for SharedPart {}

impl SharedPart {
    /// A part of `length` bytes.
    ///
    /// # Errors
    /// ENOMEM if the memory has no such part left.
    pub(crate) fn new(memory: &Arc<SharedMemory>, length: usize) -> io::Result<SharedPart> {
        Ok(SharedPart {
            start: memory.take(length)?,
            length,
            _memory: Arc::clone(memory),
        })
    }

    /// The place of `length` bytes.
    ///
    /// # Panics
    /// If they are not within it.
    fn place(&self, at: usize, length: usize) -> *mut u8 {
        let end = at.checked_add(length);
        assert!(
            end.is_some_and(|end| end <= self.length),
            "it is within the part"
        );
        // SAFETY: within the part, checked above.
        unsafe { self.start.add(at).as_ptr() }
    }

    /// The address at offset `at`, for the other process.
    pub(crate) fn address(&self, at: usize) -> u64 {
        self.place(at, 0).expose_provenance() as u64
    }

    /// Writes bytes.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        let place = self.place(at, bytes.len());
        // SAFETY: within the part, to which no references exist. The other process may change bytes concurrently; all
        // values are valid.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) }
    }

    /// Reads bytes.
    pub(crate) fn read(&self, at: usize, length: usize) -> Vec<u8> {
        let place = self.place(at, length);
        let mut bytes = vec![0; length];
        // SAFETY: as in `write`.
        unsafe { std::ptr::copy_nonoverlapping(place, bytes.as_mut_ptr(), length) }
        bytes
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: our own mapping of that length; each part holds a reference to this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// A file in memory, for sharing it.
fn memory_file(length: usize) -> io::Result<OwnedFd> {
    // SAFETY: the name ends with a zero.
    let file = unsafe { libc::memfd_create(c"iodyno".as_ptr(), libc::MFD_CLOEXEC) };
    checked(file)?;
    // SAFETY: the descriptor is new and not owned elsewhere.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    // SAFETY: changes the length of our own file.
    match unsafe { libc::ftruncate(file.as_raw_fd(), length as libc::off_t) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Maps new memory; that of `file`, if there is one.
fn map(length: usize, flags: libc::c_int, file: Option<&OwnedFd>) -> io::Result<NonNull<u8>> {
    let kind = match file {
        Some(_) => libc::MAP_SHARED,
        None => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    };
    // SAFETY: a fresh mapping; nothing existing is touched.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            kind | flags,
            file.map_or(-1, AsRawFd::as_raw_fd),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

impl Drop for Arena {
    fn drop(&mut self) {
        // Leak memory that the kernel may still write to. Shared memory is freed as a whole: the other process writes
        // to its own mapping of it.
        if self.busy_count == 0 && self.shared.is_none() {
            // SAFETY: our own mapping of that length, to which no borrow exists.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_do_not_overlap_and_are_aligned() {
        let mut arena = Arena::new(4, 5000, 512, false).unwrap();
        for slot in 0..4 {
            arena.slot_mut(slot).fill(slot as u8 + 1);
        }
        for slot in 0..4 {
            let bytes = arena.slot_mut(slot);
            assert!(bytes.len() == 5000 && bytes.iter().all(|byte| *byte == slot as u8 + 1));
            assert_eq!(bytes.as_ptr() as usize % 4096, 512);
        }
    }

    #[test]
    fn a_sink_is_beside_all_slots_and_used_by_all_reads() {
        let mut arena = Arena::with_sink(2, 4096, 0, false).unwrap();
        let slots = [0, 1].map(|slot| arena.slot_mut(slot).as_ptr() as usize);
        let sink = arena.lend_for_read(0, 0, 4096) as usize;
        assert_eq!(arena.lend_for_read(1, 512, 8) as usize, sink + 512);
        assert!(slots.iter().all(|slot| slot.abs_diff(sink) >= 4096));
        assert_eq!(arena.busy_count(), 2);
        // SAFETY: the kernel never got it.
        unsafe { arena.take_back(1) };
        assert_eq!(arena.lend(1, 0, 4096) as usize, slots[1]);
        // SAFETY: the kernel never got it.
        unsafe { arena.take_back(1) };
        // SAFETY: the kernel never got it.
        unsafe { arena.take_back(0) };
        let mut arena = Arena::new(2, 4096, 0, false).unwrap();
        let own = arena.slot_mut(1).as_ptr() as usize;
        assert_eq!(arena.lend_for_read(1, 0, 4096) as usize, own);
        // SAFETY: the kernel never got it.
        unsafe { arena.take_back(1) };
    }

    #[test]
    #[should_panic(expected = "in flight")]
    fn a_lent_slot_is_inaccessible() {
        let mut arena = Arena::new(2, 4096, 0, false).unwrap();
        arena.lend(1, 0, 4096);
        arena.slot_mut(1);
    }

    #[test]
    #[should_panic(expected = "exceeds its buffer")]
    fn an_op_larger_than_its_slot_is_refused() {
        Arena::new(2, 4096, 0, false).unwrap().lend(0, 1, 4096);
    }

    #[test]
    fn parts_of_shared_memory_do_not_overlap_and_end() {
        let memory = Arc::new(SharedMemory::new(16 * PAGE).unwrap());
        let first = Arena::within(&memory, 2, 4096, 0, 100).unwrap();
        let second = Arena::within(&memory, 2, 4096, 0, 100).unwrap();
        assert!(first.is_part_of(&memory) && second.is_part_of(&memory));
        let distance = second.tail_address(0) - first.tail_address(0);
        assert_eq!(distance, 3 * PAGE as u64);
        assert!(Arena::within(&memory, 10, 4096, 0, 1).is_err());
        let other = Arc::new(SharedMemory::new(PAGE).unwrap());
        assert!(!first.is_part_of(&other));
        assert!(!Arena::new(1, 1, 0, false).unwrap().is_part_of(&memory));
        let part = SharedPart::new(&memory, 100).unwrap();
        part.write(90, b"0123456789");
        assert_eq!(part.read(88, 12), b"\0\x000123456789");
    }

    /// Whether it panics.
    fn refused<T>(work: impl FnOnce() -> T + std::panic::UnwindSafe) -> bool {
        std::panic::catch_unwind(work).is_err()
    }

    #[test]
    fn values_behind_the_slots_are_within_them_and_aligned() {
        let memory = Arc::new(SharedMemory::new(16 * PAGE).unwrap());
        let arena = Arena::within(&memory, 2, 4096, 0, 100).unwrap();
        arena.put(8, [1u32, 2]);
        assert_eq!((arena.get::<u32>(12), arena.get::<u8>(8)), (2, 1));
        // The tail has whole pages.
        let end = arena.tail_length();
        assert_eq!(end, PAGE);
        arena.put(end - 8, 7u64);
        for at in [end - 7, end - 4, end, usize::MAX - 3] {
            let arena = std::panic::AssertUnwindSafe(&arena);
            assert!(refused(move || arena.put(at, 7u64)), "{at}");
        }
        let arena = std::panic::AssertUnwindSafe(&arena);
        assert!(refused(move || arena.get::<u64>(4)));
        // Unshared memory has no such values.
        let own = std::panic::AssertUnwindSafe(Arena::with_sink(1, 4096, 0, false).unwrap());
        assert!(refused(move || own.get::<u8>(0)));
        let part = SharedPart::new(&memory, PAGE).unwrap();
        for (at, length) in [(PAGE - 1, 2), (PAGE, 1), (usize::MAX, 2)] {
            let part = std::panic::AssertUnwindSafe(&part);
            assert!(refused(move || part.read(at, length)), "{at}");
        }
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(Arena::new(u32::MAX, usize::MAX / 2, 0, false).is_err());
    }
}
