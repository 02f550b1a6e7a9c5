//! The two rings shared with the kernel, and the system calls on them, independent of buffers and files.

use crate::result::checked;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use iodyno_model::Engine;

use super::abi::{self, Cqe, GeteventsArg, Params, Sqe, Timespec, enter, feature, op, setup};
use crate::memory::{Arena, Plain};
use crate::{Clock, MonotonicClock, Slot};

/// The user data of entries that are not a slot's op: cancellations and timeouts.
const NOT_A_SLOT: u64 = u64::MAX;
/// Submission entries reserved for a cancellation and a timeout.
const RESERVED: u32 = 2;

/// A shared mapping, unmapped when dropped.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    fn new(descriptor: &OwnedFd, length: usize, offset: i64) -> io::Result<Mapping> {
        // SAFETY: a new mapping of the ring's own memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                descriptor.as_raw_fd(),
                offset,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Mapping { start, length })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn at<T>(&self, offset: u32) -> NonNull<T> {
        assert!(offset as usize + size_of::<T>() <= self.length);
        // SAFETY: within the mapping, checked above.
        unsafe { self.start.add(offset as usize).cast() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping; the rings that point into it are dropped with it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Submission and completion queue of one thread.
#[derive(Debug)]
pub(super) struct Rings {
    descriptor: OwnedFd,
    /// Argument of io_uring_enter: the descriptor, or the index of the registered ring.
    enter_fd: i32,
    enter_flags: u32,
    pub(super) flags: u32,
    features: u32,
    sq_mask: u32,
    sq_entries: u32,
    /// Binary logarithm of the entry size in units of the usual size: 1 with [`setup::SQE128`] and [`setup::CQE32`].
    big: u32,
    sq_head: NonNull<AtomicU32>,
    sq_tail: NonNull<AtomicU32>,
    sq_flags: NonNull<AtomicU32>,
    sqes: NonNull<Sqe>,
    local_tail: u32,
    cq_mask: u32,
    cq_head: NonNull<AtomicU32>,
    cq_tail: NonNull<AtomicU32>,
    cqes: NonNull<Cqe>,
    /// Times of timeout entries, by their position in the submission queue: the kernel reads them when it
    /// accepts the entry.
    timeouts: Box<[Timespec]>,
    _ring: Mapping,
    _sqes: Mapping,
}

impl Rings {
    /// Creates rings for this number of ops with the newest features of this kernel; unsupported ones are
    /// dropped, newest first.
    pub(super) fn new(slots: u32, engine: &Engine) -> io::Result<Rings> {
        Rings::create(slots, engine, 0)
    }

    /// As [`Self::new`], for entries with commands of a driver.
    pub(super) fn with_commands(slots: u32, engine: &Engine) -> io::Result<Rings> {
        Rings::create(slots, engine, setup::SQE128 | setup::CQE32)
    }

    fn create(slots: u32, engine: &Engine, flags: u32) -> io::Result<Rings> {
        let base = flags
            | setup::CLAMP
            | if engine.hipri { setup::IOPOLL } else { 0 }
            | match (engine.sqthread_poll, engine.sqthread_poll_cpu) {
                (false, _) => 0,
                (true, None) => setup::SQPOLL,
                (true, Some(_)) => setup::SQPOLL | setup::SQ_AFF,
            };
        // With SQPOLL the kernel thread runs the task work, which is not deferred to this thread.
        let single = setup::SINGLE_ISSUER | setup::NO_SQARRAY;
        let attempts = match engine.sqthread_poll {
            true => [single, setup::SINGLE_ISSUER, 0, 0],
            false => [
                single | setup::DEFER_TASKRUN,
                setup::SINGLE_ISSUER | setup::DEFER_TASKRUN,
                setup::COOP_TASKRUN,
                0,
            ],
        };
        let mut last = io::Error::from_raw_os_error(libc::EINVAL);
        for extra in attempts {
            let mut params = Params {
                flags: base | extra,
                sq_thread_cpu: engine.sqthread_poll_cpu.unwrap_or(0),
                sq_thread_idle: 1000,
                ..Params::default()
            };
            // SAFETY: the kernel fills `params`, which outlives the call.
            let descriptor = unsafe {
                libc::syscall(
                    libc::SYS_io_uring_setup,
                    slots.saturating_add(RESERVED),
                    &mut params,
                )
            };
            if descriptor >= 0 {
                // SAFETY: the kernel just created the descriptor; nothing else owns it.
                let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor as i32) };
                return Rings::map(descriptor, &params);
            }
            last = io::Error::last_os_error();
            if last.raw_os_error() != Some(libc::EINVAL) {
                break;
            }
        }
        Err(last)
    }

    fn map(descriptor: OwnedFd, params: &Params) -> io::Result<Rings> {
        if params.features & feature::SINGLE_MMAP == 0 {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel's io_uring is older than 5.4",
            ));
        }
        let array = match params.flags & setup::NO_SQARRAY {
            0 => params.sq_off.array as usize + params.sq_entries as usize * size_of::<u32>(),
            _ => 0,
        };
        let big = u32::from(params.flags & setup::SQE128 != 0);
        let completions =
            params.cq_off.cqes as usize + ((params.cq_entries as usize * size_of::<Cqe>()) << big);
        let ring = Mapping::new(&descriptor, array.max(completions), abi::OFF_SQ_RING)?;
        let sqes = Mapping::new(
            &descriptor,
            (params.sq_entries as usize * size_of::<Sqe>()) << big,
            abi::OFF_SQES,
        )?;
        if array > 0 {
            // Entry i of the array always names SQE i, so that SQEs are written in place.
            for index in 0..params.sq_entries {
                let entry = ring.at::<u32>(params.sq_off.array + index * 4);
                // SAFETY: within the array; the kernel reads it only when entered.
                unsafe { entry.write(index) };
            }
        }
        let mut rings = Rings {
            enter_fd: descriptor.as_raw_fd(),
            enter_flags: 0,
            flags: params.flags,
            features: params.features,
            sq_mask: params.sq_entries - 1,
            sq_entries: params.sq_entries,
            big,
            sq_head: ring.at(params.sq_off.head),
            sq_tail: ring.at(params.sq_off.tail),
            sq_flags: ring.at(params.sq_off.flags),
            sqes: sqes.at(0),
            local_tail: 0,
            cq_mask: params.cq_entries - 1,
            cq_head: ring.at(params.cq_off.head),
            cq_tail: ring.at(params.cq_off.tail),
            cqes: ring.at(params.cq_off.cqes),
            timeouts: vec![Timespec::default(); params.sq_entries as usize].into_boxed_slice(),
            _ring: ring,
            _sqes: sqes,
            descriptor,
        };
        rings.local_tail = rings.load(rings.sq_tail);
        rings.register_itself();
        Ok(rings)
    }

    fn load(&self, counter: NonNull<AtomicU32>) -> u32 {
        // SAFETY: points into the ring's mapping, which lives as long as `self`.
        unsafe { counter.as_ref() }.load(Ordering::Acquire)
    }

    fn store(&self, counter: NonNull<AtomicU32>, value: u32) {
        // SAFETY: as in `load`.
        unsafe { counter.as_ref() }.store(value, Ordering::Release);
    }

    /// Registers the ring's descriptor, which saves its look-up at each entry. Optional.
    fn register_itself(&mut self) {
        let mut update = abi::RsrcUpdate {
            offset: u32::MAX,
            data: self.descriptor.as_raw_fd() as u64,
            ..Default::default()
        };
        let argument = (&raw mut update).cast();
        // SAFETY: one update, which the kernel reads and writes during the call.
        let registered = unsafe { self.register(abi::register::RING_FDS, argument, 1) };
        if registered.is_ok_and(|n| n == 1) {
            self.enter_fd = update.offset as i32;
            self.enter_flags = enter::REGISTERED_RING;
        }
    }

    /// Calls io_uring_register(2).
    ///
    /// # Safety
    /// `argument` points to `count` elements of the type that `what` takes, and what these point to lives as long as
    /// the kernel uses it.
    unsafe fn register(
        &self,
        what: u32,
        argument: *mut libc::c_void,
        count: u32,
    ) -> io::Result<i64> {
        // SAFETY: as the caller guarantees.
        let result = unsafe {
            libc::syscall(
                libc::SYS_io_uring_register,
                self.descriptor.as_raw_fd(),
                what,
                argument,
                count,
            )
        };
        checked(result)
    }

    /// Whether a wait accepts a timeout argument (Linux 5.11). Without it, a timeout is a separate entry.
    fn has_extended_argument(&self) -> bool {
        self.features & feature::EXT_ARG != 0
    }

    #[cfg(test)]
    pub(super) fn without_extended_argument(&mut self) {
        self.features &= !feature::EXT_ARG;
    }

    /// Number of ops that can be written before the next kernel entry.
    #[inline]
    pub(super) fn room(&self) -> u32 {
        self.free().saturating_sub(RESERVED)
    }

    fn free(&self) -> u32 {
        self.sq_entries - self.pending()
    }

    /// Number of entries that the kernel has not accepted yet.
    #[inline]
    pub(super) fn pending(&self) -> u32 {
        self.local_tail.wrapping_sub(self.load(self.sq_head))
    }

    /// Returns the next entry, to be overwritten in place.
    ///
    /// # Safety
    /// The new op may access the memory that its entry points to, and its file stays open, until the completion was
    /// reaped.
    #[inline]
    pub(super) unsafe fn next(&mut self) -> &mut Sqe {
        assert!(self.free() > 0, "submission queue is full");
        let index = (self.local_tail & self.sq_mask) as usize;
        self.local_tail = self.local_tail.wrapping_add(1);
        // SAFETY: the index is masked; the entry is ours until the tail is published.
        unsafe { self.sqes.add(index << self.big).as_mut() }
    }

    /// Writes the next entry with a driver command in place of its last two words. For rings made by
    /// [`Self::with_commands`].
    ///
    /// # Safety
    /// Those of [`Self::next`], also for the memory that the command points to.
    #[inline]
    pub(super) unsafe fn write_with<T: Plain>(&mut self, head: Sqe, command: T) {
        const {
            assert!(size_of::<T>() <= abi::COMMAND_BYTES && align_of::<T>() <= 8);
        }
        assert!(self.big == 1, "entries have no room for commands");
        // SAFETY: the caller guarantees it. The entry has 128 bytes, and the command is within them and aligned,
        // checked above.
        unsafe {
            let entry = std::ptr::from_mut(self.next());
            entry.write(head);
            entry.byte_add(abi::COMMAND).cast::<T>().write(command);
        }
    }

    /// Registers files, whose index then replaces the descriptor. The kernel keeps them open.
    ///
    /// # Errors
    /// Those of io_uring_register(2).
    pub(super) fn register_files(&self, files: &[RawFd]) -> io::Result<()> {
        let mut words = files.to_vec();
        let (argument, count) = (words.as_mut_ptr().cast(), words.len() as u32);
        // SAFETY: as many descriptors, which the kernel reads during the call.
        unsafe { self.register(abi::register::FILES, argument, count) }.map(drop)
    }

    /// Replaces a registered file.
    ///
    /// # Errors
    /// Those of io_uring_register(2).
    pub(super) fn exchange_file(&self, index: u32, file: RawFd) -> io::Result<()> {
        let mut word = file;
        let mut update = abi::RsrcUpdate {
            offset: index,
            data: (&raw mut word) as u64,
            ..Default::default()
        };
        let argument = (&raw mut update).cast();
        // SAFETY: one update of one descriptor, which the kernel reads during the call.
        unsafe { self.register(abi::register::FILES_UPDATE, argument, 1) }.map(drop)
    }

    /// Makes the kernel signal an eventfd on completions.
    ///
    /// # Errors
    /// Those of io_uring_register(2).
    pub(super) fn register_eventfd(&self, eventfd: BorrowedFd<'_>) -> io::Result<()> {
        let mut word = eventfd.as_raw_fd();
        let argument = (&raw mut word).cast();
        // SAFETY: one descriptor, which the kernel reads during the call.
        unsafe { self.register(abi::register::EVENTFD, argument, 1) }.map(drop)
    }

    /// Limits the number of kernel worker threads for ops on files and devices (Linux 5.15).
    ///
    /// # Errors
    /// Those of io_uring_register(2).
    pub(super) fn register_workers(&self, most: u32) -> io::Result<()> {
        // The second one is for other files. 0: unchanged.
        let mut limits = [most, 0];
        let argument = limits.as_mut_ptr().cast();
        // SAFETY: two numbers, which the kernel reads and writes during the call.
        unsafe { self.register(abi::register::IOWQ_MAX_WORKERS, argument, 2) }.map(drop)
    }

    /// Registers the credentials of the calling thread. Returns their number.
    ///
    /// # Errors
    /// Those of io_uring_register(2).
    pub(super) fn register_credentials(&self) -> io::Result<u16> {
        // SAFETY: it has no argument.
        let number = unsafe { self.register(abi::register::PERSONALITY, std::ptr::null_mut(), 0) }?;
        Ok(number as u16)
    }

    /// Registers the buffers of the arena.
    ///
    /// # Errors
    /// The reason, for a person.
    pub(super) fn register_buffers(&self, arena: &Arena) -> Result<(), String> {
        const LARGEST: usize = 1 << 30;
        let mut whole = arena.whole();
        if whole.iov_len > LARGEST {
            return Err("buffers not registered: more than 1 GiB".to_owned());
        }
        let vector = (&raw mut whole).cast();
        // SAFETY: one vector, which the kernel reads during the call. It keeps the pages of the arena itself.
        match unsafe { self.register(abi::register::BUFFERS, vector, 1) } {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => {
                let cause = "locked-memory limit (raise `ulimit -l`)";
                Err(format!("buffers not registered: {cause}"))
            }
            Err(error) => Err(format!("buffers not registered: {error}")),
        }
    }

    /// Limits the next wait with a timeout entry, which completes after `ns` or together with `min` other completions.
    /// Its completion ends a wait for any number of completions.
    #[cold]
    fn write_timeout(&mut self, min: u32, ns: u64) {
        if self.free() == 0 {
            return;
        }
        let index = (self.local_tail & self.sq_mask) as usize;
        self.timeouts[index] = Timespec::of(ns);
        let address = &raw const self.timeouts[index];
        let entry = Sqe {
            opcode: op::TIMEOUT,
            off: min.into(),
            addr: address as u64,
            len: 1,
            user_data: NOT_A_SLOT,
            ..Sqe::default()
        };
        // SAFETY: the kernel reads the time when it accepts the entry; its place is not used again before.
        unsafe { *self.next() = entry };
    }

    /// Submits all written entries and waits for `min` completions or the timeout (ns), with one system
    /// call. An expired timeout and a signal are not errors.
    #[inline]
    pub(super) fn enter(&mut self, min: u32, timeout: Option<u64>) -> io::Result<()> {
        let bounded = timeout.filter(|_| min > 0);
        if let Some(ns) = bounded
            && !self.has_extended_argument()
        {
            self.write_timeout(min, ns);
        }
        self.store(self.sq_tail, self.local_tail);
        let mut flags = self.enter_flags | enter::GETEVENTS;
        let mut submit = self.pending();
        if self.flags & setup::SQPOLL != 0 {
            // The fence orders the store of the tail before the load of the flags.
            std::sync::atomic::fence(Ordering::SeqCst);
            let asleep = self.load(self.sq_flags) & abi::SQ_NEED_WAKEUP != 0;
            if !asleep && (min == 0 || self.ready() >= min) {
                return Ok(());
            }
            flags |= if asleep { enter::SQ_WAKEUP } else { 0 };
            submit = if asleep { submit } else { 0 };
        }
        let time = Timespec::of(bounded.unwrap_or(0));
        let mut argument = GeteventsArg {
            ts: (&raw const time) as u64,
            ..Default::default()
        };
        let (pointer, size) = match bounded {
            Some(_) if self.has_extended_argument() => {
                flags |= enter::EXT_ARG;
                let pointer = (&raw mut argument).cast::<libc::c_void>();
                (pointer, size_of::<GeteventsArg>())
            }
            _ => (std::ptr::null_mut(), 0),
        };
        // SAFETY: the arguments outlive the call; every SQE points to memory that its owner keeps
        // allocated.
        let result = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.enter_fd,
                submit,
                min,
                flags,
                pointer,
                size,
            )
        };
        if result >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // None of these is a failure: the next kernel entry submits the rest.
            Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
            _ => Err(error),
        }
    }

    /// Submits all written entries by a call that does not wait, and returns its duration, ns.
    pub(super) fn submit(&mut self, clock: MonotonicClock, entered: u64) -> io::Result<u64> {
        self.enter(0, None)?;
        Ok(clock.now() - entered)
    }

    /// Number of available completions.
    #[inline]
    pub(super) fn ready(&self) -> u32 {
        // SAFETY: as in `load`; the head is only written by this thread.
        let head = unsafe { self.cq_head.as_ref() }.load(Ordering::Relaxed);
        self.load(self.cq_tail).wrapping_sub(head)
    }

    /// Reaps up to `limit` completions, oldest first: slot and result (bytes, or −errno).
    #[inline]
    pub(super) fn reap(&mut self, limit: u32, mut each: impl FnMut(Slot, i32)) {
        // SAFETY: as in `ready`.
        let head = unsafe { self.cq_head.as_ref() }.load(Ordering::Relaxed);
        let count = self.load(self.cq_tail).wrapping_sub(head).min(limit);
        for index in 0..count {
            let place = (head.wrapping_add(index) & self.cq_mask) as usize;
            // SAFETY: the index is masked; the kernel has published the entry and does not change it until the head
            // moves.
            let cqe = unsafe { self.cqes.add(place << self.big).read() };
            if cqe.user_data != NOT_A_SLOT {
                each(cqe.user_data as Slot, cqe.res);
            }
        }
        self.store(self.cq_head, head.wrapping_add(count));
    }

    /// Requests cancellation of all ops in flight (Linux 5.19; on older kernels they run to their end). Cancelled ops
    /// complete with ECANCELED.
    pub(super) fn cancel_all(&mut self) {
        if self.free() == 0 {
            return;
        }
        let entry = Sqe {
            opcode: op::ASYNC_CANCEL,
            op_flags: abi::CANCEL_ALL | abi::CANCEL_ANY,
            user_data: NOT_A_SLOT,
            ..Sqe::default()
        };
        // SAFETY: it points to nothing.
        unsafe { *self.next() = entry };
        // A failing ring cannot cancel; the arena is then leaked instead of freed.
        let _ = self.enter(0, None);
    }
}
