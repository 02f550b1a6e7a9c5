//! The driver side of a split virtqueue in memory shared with a device.
//!
//! Source: VIRTIO 1.2, section 2.7. A slot owns the descriptors from `slot × chain` on, so no free list is needed.
//!
//! # Order of accesses
//!
//! - Descriptors and the entry of the available ring are written before its index, which is stored with Release.
//! - The index of the used ring is loaded with Acquire, and its entries are read afterwards.
//! - Each side stores an index, and then checks whether the other side wants a notification; a SeqCst fence is in
//!   between. So either this side sees that the device wants a notification, or the device sees the new index, and vice
//!   versa.

use std::sync::atomic::{AtomicU16, Ordering, fence};

use crate::memory::Plain;

/// A descriptor: address, length in bytes, whether the device writes it.
pub(super) type Part = (u64, u32, bool);

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
/// The device requests no notifications.
const NO_NOTIFY: u16 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
struct Descriptor {
    address: u64,
    length: u32,
    flags: u16,
    next: u16,
}

// SAFETY: integers without padding between them.
unsafe impl Plain for Descriptor {}
// SAFETY: integers.
unsafe impl Plain for u16 {}

/// Addresses of the parts of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    /// Descriptors of the ring; a power of two.
    pub(super) size: u16,
    pub(super) table: u64,
    pub(super) available: u64,
    pub(super) used: u64,
    /// The tables of slots; 0: they have none.
    tables: u64,
    /// Slots, and the descriptors of each.
    slots: u32,
    chain: u16,
    /// Bytes of all.
    length: usize,
}

impl Places {
    /// Places for `slots` chains of at most `chain` descriptors, from address `start`, aligned to 64 bytes. `None`: too
    /// many for a ring of `most` descriptors.
    pub(super) fn new(
        start: u64,
        slots: u32,
        chain: u16,
        indirect: bool,
        most: u16,
    ) -> Option<Places> {
        let each = if indirect { 1 } else { u32::from(chain) };
        let size = slots
            .checked_mul(each)?
            .max(2)
            .checked_next_power_of_two()?;
        let size = u16::try_from(size).ok().filter(|size| *size <= most)?;
        let entries = u64::from(size);
        let table = start;
        let available = table + 16 * entries;
        let used = (available + 6 + 2 * entries).next_multiple_of(64);
        let tables = (used + 6 + 8 * entries).next_multiple_of(64);
        let own = match indirect {
            true => 16 * u64::from(chain) * u64::from(slots),
            false => 0,
        };
        Some(Places {
            size,
            table,
            available,
            used,
            tables: if indirect { tables } else { 0 },
            slots,
            chain,
            length: (tables + own - start) as usize,
        })
    }

    /// Bytes that it needs.
    pub(super) fn length(&self) -> usize {
        self.length
    }
}

/// A ring. Its memory stays mapped while this value is used, and only the device accesses it otherwise.
#[derive(Debug)]
pub(super) struct Ring {
    places: Places,
    events: bool,
    /// The index of the available ring, and its value when the device was last notified.
    next: u16,
    notified: u16,
    /// The index of the used ring up to which entries were taken.
    taken: u16,
}

impl Ring {
    /// A ring in zeroed memory. `events`: whether EVENT_IDX was negotiated.
    ///
    /// # Safety
    /// The addresses of `places` are those of memory of this process, for as long as the ring is used.
    pub(super) unsafe fn new(places: Places, events: bool) -> Ring {
        Ring {
            places,
            events,
            next: 0,
            notified: 0,
            taken: 0,
        }
    }

    fn index(&self, address: u64) -> &AtomicU16 {
        // SAFETY: by the contract of `new`, within the ring; aligned, because the parts of the ring are; the device
        // accesses it in units of this size as well.
        unsafe { AtomicU16::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize)) }
    }

    /// Writes to the ring, or to the table of a slot.
    ///
    /// # Safety
    /// The address is valid for such a value, and aligned. The device does not read it before it is available.
    unsafe fn put<T: Plain>(address: u64, value: T) {
        // SAFETY: as the caller guarantees.
        unsafe {
            std::ptr::with_exposed_provenance_mut::<T>(address as usize).write_volatile(value)
        }
    }

    /// Makes a chain of a slot available, without a notification.
    ///
    /// # Safety
    /// The parts are memory of this process that the device shares. They have no other use until the device returns the
    /// chain.
    ///
    /// # Panics
    /// If the slot does not exist, or the chain is too long.
    pub(super) unsafe fn push(&mut self, slot: u32, parts: &[Part]) {
        let places = &self.places;
        assert!(
            slot < places.slots && parts.len() <= usize::from(places.chain),
            "it fits in its slot"
        );
        let direct = places.tables == 0;
        let first = if direct {
            slot as u16 * places.chain
        } else {
            0
        };
        let table = match direct {
            true => places.table + 16 * u64::from(first),
            false => places.tables + 16 * u64::from(places.chain) * u64::from(slot),
        };
        for (at, (address, length, writes)) in parts.iter().enumerate() {
            let last = at + 1 == parts.len();
            let flags = if *writes { WRITE } else { 0 } | if last { 0 } else { NEXT };
            let descriptor = Descriptor {
                address: *address,
                length: *length,
                flags,
                next: if last { 0 } else { first + at as u16 + 1 },
            };
            // SAFETY: within the table of the slot, checked above, whose chain is not available.
            unsafe { Ring::put(table + 16 * at as u64, descriptor) };
        }
        let head = match direct {
            true => first,
            false => {
                let descriptor = Descriptor {
                    address: table,
                    length: 16 * parts.len() as u32,
                    flags: INDIRECT,
                    next: 0,
                };
                // SAFETY: a descriptor of the ring, because there are as many as slots.
                unsafe { Ring::put(places.table + 16 * u64::from(slot), descriptor) };
                slot as u16
            }
        };
        let entry = u64::from(self.next % places.size);
        // SAFETY: an entry of the available ring.
        unsafe { Ring::put(places.available + 4 + 2 * entry, head) };
        self.next = self.next.wrapping_add(1);
        self.index(self.places.available + 2)
            .store(self.next, Ordering::Release);
    }

    /// Whether the device must be notified of chains pushed since the last call.
    pub(super) fn notifies(&mut self) -> bool {
        let (old, new) = (self.notified, self.next);
        if old == new {
            return false;
        }
        self.notified = new;
        fence(Ordering::SeqCst);
        let places = &self.places;
        match self.events {
            true => {
                let event = places.used + 4 + 8 * u64::from(places.size);
                let event = self.index(event).load(Ordering::Relaxed);
                // It is between them, modulo 2^16.
                new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
            }
            false => self.index(places.used).load(Ordering::Relaxed) & NO_NOTIFY == 0,
        }
    }

    /// The next slot that the device has returned. `Err`: a number outside this ring.
    pub(super) fn pop(&mut self) -> Option<Result<u32, u32>> {
        let places = &self.places;
        let used = self.index(places.used + 2).load(Ordering::Acquire);
        if used == self.taken {
            return None;
        }
        let entry = places.used + 4 + 8 * u64::from(self.taken % places.size);
        // SAFETY: by the contract of `new`, within the ring; the device has written it before the index that was
        // loaded.
        let head =
            unsafe { std::ptr::with_exposed_provenance::<u32>(entry as usize).read_volatile() };
        self.taken = self.taken.wrapping_add(1);
        let (slot, rest) = match places.tables {
            0 => (
                head / u32::from(places.chain),
                head % u32::from(places.chain),
            ),
            _ => (head, 0),
        };
        Some(if rest == 0 { Ok(slot) } else { Err(head) })
    }

    /// Requests a notification after `count` more chains. `false`: some were already returned.
    pub(super) fn await_used(&mut self, count: u16) -> bool {
        let places = &self.places;
        // Without events, the device notifies of each.
        if self.events {
            let event = self.taken.wrapping_add(count.max(1) - 1);
            self.index(places.available + 4 + 2 * u64::from(places.size))
                .store(event, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
        self.index(places.used + 2).load(Ordering::Acquire) == self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The device's side, written from the specification.
    struct Device {
        places: Places,
        seen: u16,
        used: u16,
    }

    fn at<T: Copy>(address: u64) -> T {
        // SAFETY: the tests' own memory.
        unsafe { std::ptr::with_exposed_provenance::<T>(address as usize).read_volatile() }
    }

    fn put<T: Plain>(address: u64, value: T) {
        // SAFETY: the tests' own memory.
        unsafe { Ring::put(address, value) };
    }

    fn push(ring: &mut Ring, slot: u32, parts: &[Part]) {
        // SAFETY: the tests' device looks at no part.
        unsafe { ring.push(slot, parts) };
    }

    impl Device {
        fn available(&mut self) -> Option<(u16, Vec<Part>)> {
            let index: u16 = at(self.places.available + 2);
            if index == self.seen {
                return None;
            }
            let entry = u64::from(self.seen % self.places.size);
            let head: u16 = at(self.places.available + 4 + 2 * entry);
            self.seen = self.seen.wrapping_add(1);
            let (mut table, mut next) = (self.places.table, head);
            let mut parts = Vec::new();
            loop {
                let descriptor: Descriptor = at(table + 16 * u64::from(next));
                if descriptor.flags & INDIRECT != 0 {
                    (table, next) = (descriptor.address, 0);
                    continue;
                }
                let writes = descriptor.flags & WRITE != 0;
                parts.push((descriptor.address, descriptor.length, writes));
                if descriptor.flags & NEXT == 0 {
                    return Some((head, parts));
                }
                next = descriptor.next;
            }
        }

        fn give_back(&mut self, head: u16) {
            let entry = self.places.used + 4 + 8 * u64::from(self.used % self.places.size);
            put(entry, u32::from(head));
            self.used = self.used.wrapping_add(1);
            put(self.places.used + 2, self.used);
        }
    }

    /// Memory, a ring in it, and its device.
    fn pair(slots: u32, chain: u16, indirect: bool, events: bool) -> (Box<[u128]>, Ring, Device) {
        let length = Places::new(64, slots, chain, indirect, 1024)
            .unwrap()
            .length();
        let mut memory = vec![0u128; length.div_ceil(16) + 4].into_boxed_slice();
        let start = (memory.as_mut_ptr().expose_provenance() as u64).next_multiple_of(64);
        let places = Places::new(start, slots, chain, indirect, 1024).unwrap();
        // SAFETY: the memory is returned and outlives the ring.
        let ring = unsafe { Ring::new(places, events) };
        let device = Device {
            places,
            seen: 0,
            used: 0,
        };
        (memory, ring, device)
    }

    #[test]
    fn chains_arrive_as_they_were_pushed_and_slots_come_back_in_any_order() {
        for indirect in [false, true] {
            let (_memory, mut ring, mut device) = pair(3, 4, indirect, true);
            // More often than the indices count.
            for round in 0..70_000u64 {
                let parts = [(round, 16, false), (round + 1, 512, true), (9, 1, true)];
                for slot in 0..3 {
                    push(&mut ring, slot, &parts[..1 + slot as usize]);
                }
                let got: Vec<_> = (0..3).map(|_| device.available().unwrap()).collect();
                assert!(device.available().is_none());
                for (slot, (_, arrived)) in got.iter().enumerate() {
                    assert_eq!(arrived, &parts[..1 + slot]);
                }
                for slot in [1, 2, 0] {
                    device.give_back(got[slot].0);
                }
                let back: Vec<_> = std::iter::from_fn(|| ring.pop()).collect();
                assert_eq!(back, [Ok(1), Ok(2), Ok(0)]);
            }
        }
    }

    #[test]
    fn notifications_are_sent_where_the_device_wants_them() {
        let (_memory, mut ring, device) = pair(8, 3, true, true);
        let event = device.places.used + 4 + 8 * u64::from(device.places.size);
        assert!(!ring.notifies());
        push(&mut ring, 0, &[(1, 1, true)]);
        // At first it wants a notification for entry 0.
        assert!(ring.notifies());
        push(&mut ring, 1, &[(1, 1, true)]);
        assert!(!ring.notifies());
        put(event, 3u16);
        push(&mut ring, 2, &[(1, 1, true)]);
        assert!(!ring.notifies());
        push(&mut ring, 3, &[(1, 1, true)]);
        push(&mut ring, 4, &[(1, 1, true)]);
        assert!(ring.notifies());
        let (_memory, mut ring, device) = pair(8, 3, true, false);
        push(&mut ring, 0, &[(1, 1, true)]);
        assert!(ring.notifies());
        put(device.places.used, NO_NOTIFY);
        push(&mut ring, 1, &[(1, 1, true)]);
        assert!(!ring.notifies());
    }

    #[test]
    fn what_was_given_back_meanwhile_is_not_waited_for() {
        let (_memory, mut ring, mut device) = pair(4, 3, true, true);
        push(&mut ring, 0, &[(1, 1, true)]);
        push(&mut ring, 1, &[(1, 1, true)]);
        assert!(ring.await_used(2));
        let event = device.places.available + 4 + 2 * u64::from(device.places.size);
        assert_eq!(at::<u16>(event), 1);
        let (head, _) = device.available().unwrap();
        device.give_back(head);
        assert!(!ring.await_used(1));
        assert_eq!(ring.pop(), Some(Ok(0)));
        assert!(ring.await_used(1));
    }

    #[test]
    fn a_chain_that_the_device_invents_is_an_error() {
        let (_memory, mut ring, mut device) = pair(4, 3, false, true);
        device.give_back(4);
        assert_eq!(ring.pop(), Some(Err(4)));
        device.give_back(9);
        assert_eq!(ring.pop(), Some(Ok(3)));
    }

    #[test]
    fn what_does_not_fit_in_its_slot_is_not_written() {
        for indirect in [false, true] {
            for (slot, length) in [(0, 3), (2, 1), (u32::MAX, 1)] {
                let (_memory, mut ring, _device) = pair(2, 2, indirect, true);
                let parts = [(1, 1, true); 3];
                let pushed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    push(&mut ring, slot, &parts[..length]);
                }));
                assert!(pushed.is_err(), "{indirect} {slot} {length}");
            }
        }
    }

    #[test]
    fn rings_that_are_too_long_are_refused() {
        assert!(Places::new(64, 1024, 3, true, 1024).is_some());
        assert!(Places::new(64, 1025, 3, true, 1024).is_none());
        assert!(Places::new(64, 342, 3, false, 1024).is_none());
        assert!(Places::new(64, u32::MAX, 3, false, 1024).is_none());
        assert_eq!(Places::new(64, 1, 3, true, 1024).unwrap().size, 2);
    }
}
