//! The record of requests in flight, in memory that the client keeps (INFLIGHT_SHMFD of vhost-user, split rings). A
//! server that replaces a killed one reads it, and carries out these requests again.
//!
//! Source: "Inflight I/O tracking" of QEMU's "Vhost-user Protocol". The memory has a region for each queue: a header,
//! and an entry for each descriptor that may begin a chain.
//!
//! # Invariants
//!
//! - The entry of a request is marked before any work on it, and unmarked after the client can see its end. The index
//!   of the used ring shows which requests ended between the last two steps.
//! - The content of the memory is not trusted: the client may write anything there.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering};

use rustix::fs::MemfdFlags;
use vm_memory::{AtomicInteger, MmapRegion, VolatileMemory};

use crate::memory::map_file;

/// Bytes of the header of a region, and of an entry.
const HEADER: usize = 16;
const ENTRY: usize = 16;
/// Regions begin at multiples of it, bytes.
const ALIGNMENT: usize = 64;
const VERSION: u16 = 1;
/// Offsets of the fields of a header, bytes.
const H_VERSION: usize = 8;
const H_DESCRIPTORS: usize = 10;
const H_LAST: usize = 12;
const H_USED: usize = 14;
/// Offsets of the fields of an entry, bytes.
const E_IN_FLIGHT: usize = 0;
const E_NEXT: usize = 6;
const E_COUNTER: usize = 8;

/// The record; see the module. Clones share the memory, and serve threads with different queues.
#[derive(Debug, Clone)]
pub struct InFlightRecord {
    map: Arc<MmapRegion>,
    queues: u16,
    descriptors: u16,
    /// Requests that were recorded so far.
    counter: u64,
}

impl InFlightRecord {
    /// A new record for this number of queues and of descriptors of each, with its file and its length in bytes.
    ///
    /// # Errors
    /// Those of memfd_create(2), ftruncate(2) and mmap(2).
    pub fn create(queues: u16, descriptors: u16) -> io::Result<(InFlightRecord, File, u64)> {
        let length = (usize::from(queues) * region_bytes(descriptors)) as u64;
        let file = rustix::fs::memfd_create("iodyno-in-flight", MemfdFlags::CLOEXEC)?;
        let file = File::from(file);
        file.set_len(length)?;
        let record = InFlightRecord::open(file.try_clone()?, 0, length, queues, descriptors)?;
        Ok((record, file, length))
    }

    /// Maps the record in a file. A record of zeros is new.
    ///
    /// # Errors
    /// The file is too short, or has another version or size; those of mmap(2).
    pub fn open(
        file: File,
        offset: u64,
        length: u64,
        queues: u16,
        descriptors: u16,
    ) -> io::Result<InFlightRecord> {
        let needed = usize::from(queues) * region_bytes(descriptors);
        if length < needed as u64 || needed == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let map = map_file(file, offset, needed)?;
        let record = InFlightRecord {
            map: Arc::new(map),
            queues,
            descriptors,
            counter: 0,
        };
        for queue in 0..queues {
            let found = (
                record.load::<AtomicU16>(queue, H_VERSION),
                record.load::<AtomicU16>(queue, H_DESCRIPTORS),
            );
            match found {
                (VERSION, number) if number == descriptors => {}
                (0, 0) => {
                    record.store::<AtomicU16>(queue, H_DESCRIPTORS, descriptors);
                    record.store::<AtomicU16>(queue, H_VERSION, VERSION);
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        Ok(record)
    }

    fn at<T: AtomicInteger>(&self, queue: u16, field: usize) -> &T {
        let start = usize::from(queue) * region_bytes(self.descriptors);
        let field = self.map.get_atomic_ref(start + field);
        field.expect("aligned and within the record")
    }

    fn load<T: AtomicInteger>(&self, queue: u16, field: usize) -> T::V {
        self.at::<T>(queue, field).load(Ordering::SeqCst)
    }

    fn store<T: AtomicInteger>(&self, queue: u16, field: usize, value: T::V) {
        self.at::<T>(queue, field).store(value, Ordering::SeqCst);
    }

    fn has(&self, queue: u16, head: u16) -> bool {
        queue < self.queues && head < self.descriptors
    }

    /// Records that a request begins.
    pub fn begins(&mut self, queue: u16, head: u16) {
        if self.has(queue, head) {
            self.counter += 1;
            self.store::<AtomicU64>(queue, entry(head) + E_COUNTER, self.counter);
            self.store::<AtomicU8>(queue, entry(head) + E_IN_FLIGHT, 1);
        }
    }

    /// Records that a request has ended. The client cannot see it yet.
    pub fn ends(&self, queue: u16, head: u16) {
        if self.has(queue, head) {
            let last = self.load::<AtomicU16>(queue, H_LAST);
            self.store::<AtomicU16>(queue, entry(head) + E_NEXT, last);
            self.store::<AtomicU16>(queue, H_LAST, head);
        }
    }

    /// Records that the client can see the end of a request, by this index of the used ring.
    pub fn ended(&self, queue: u16, head: u16, used: u16) {
        if self.has(queue, head) {
            self.store::<AtomicU8>(queue, entry(head) + E_IN_FLIGHT, 0);
            self.store::<AtomicU16>(queue, H_USED, used);
        }
    }

    /// The requests in flight of a queue whose used ring has this index, in order of arrival. The device must carry
    /// them out again.
    pub fn left(&mut self, queue: u16, used: u16) -> Vec<u16> {
        if queue >= self.queues {
            return Vec::new();
        }
        // The client can see the end of these, but their marks were not removed.
        let unmarked = used.wrapping_sub(self.load::<AtomicU16>(queue, H_USED));
        let mut head = self.load::<AtomicU16>(queue, H_LAST);
        for _ in 0..unmarked.min(self.descriptors) {
            if head >= self.descriptors {
                break;
            }
            self.store::<AtomicU8>(queue, entry(head) + E_IN_FLIGHT, 0);
            head = self.load::<AtomicU16>(queue, entry(head) + E_NEXT);
        }
        self.store::<AtomicU16>(queue, H_USED, used);
        let marked = |head: &u16| self.load::<AtomicU8>(queue, entry(*head) + E_IN_FLIGHT) != 0;
        let mut left: Vec<u16> = (0..self.descriptors).filter(marked).collect();
        left.sort_by_key(|head| self.load::<AtomicU64>(queue, entry(*head) + E_COUNTER));
        left
    }
}

fn region_bytes(descriptors: u16) -> usize {
    (HEADER + ENTRY * usize::from(descriptors)).next_multiple_of(ALIGNMENT)
}

fn entry(head: u16) -> usize {
    HEADER + ENTRY * usize::from(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUES: u16 = 2;
    const DESCRIPTORS: u16 = 8;

    fn again(file: &File, length: u64) -> InFlightRecord {
        let file = file.try_clone().unwrap();
        InFlightRecord::open(file, 0, length, QUEUES, DESCRIPTORS).unwrap()
    }

    #[test]
    fn requests_that_did_not_end_are_left_in_order_of_arrival() {
        let (mut record, file, length) = InFlightRecord::create(QUEUES, DESCRIPTORS).unwrap();
        for head in [5, 2, 7, 0, 3] {
            record.begins(1, head);
        }
        record.ends(1, 7);
        record.ended(1, 7, 1);
        drop(record);
        let mut record = again(&file, length);
        assert_eq!(record.left(1, 1), [5, 2, 0, 3]);
        assert!(record.left(0, 0).is_empty());
        // They arrive again, and then another one.
        for head in [5, 2, 0, 3, 7] {
            record.begins(1, head);
        }
        assert_eq!(again(&file, length).left(1, 1), [5, 2, 0, 3, 7]);
    }

    #[test]
    fn the_server_may_be_killed_between_any_two_steps() {
        // Requests 4 and 6 have begun, and 6 ends.
        for (steps, used, left) in [
            (0, 0, vec![4, 6]),
            (1, 0, vec![4, 6]),
            // The client can see it.
            (1, 1, vec![4]),
            (2, 1, vec![4]),
        ] {
            let (mut record, file, length) = InFlightRecord::create(QUEUES, DESCRIPTORS).unwrap();
            record.begins(0, 4);
            record.begins(0, 6);
            if steps > 0 {
                record.ends(0, 6);
            }
            if steps > 1 {
                record.ended(0, 6, used);
            }
            drop(record);
            assert_eq!(again(&file, length).left(0, used), left, "{steps} {used}");
            assert_eq!(again(&file, length).left(0, used), left, "killed once more");
        }
    }

    #[test]
    fn any_content_is_refused_or_has_an_end() {
        let (_, file, length) = InFlightRecord::create(QUEUES, DESCRIPTORS).unwrap();
        for number in 0..length / 2 {
            // Not the version and the number of descriptors.
            if ![4, 5].contains(&(number % (length / u64::from(QUEUES) / 2))) {
                let bytes = (number as u16).wrapping_mul(40503).to_le_bytes();
                std::os::unix::fs::FileExt::write_all_at(&file, &bytes, number * 2).unwrap();
            }
        }
        for used in 0..100 {
            let left = again(&file, length).left(1, used * 600);
            assert!(left.iter().all(|head| *head < DESCRIPTORS));
        }
        for (queues, descriptors) in [(QUEUES, 7), (QUEUES + 1, DESCRIPTORS), (0, DESCRIPTORS)] {
            let file = file.try_clone().unwrap();
            assert!(InFlightRecord::open(file, 0, length, queues, descriptors).is_err());
        }
        let file = file.try_clone().unwrap();
        assert!(InFlightRecord::open(file, 4096, length, QUEUES, DESCRIPTORS).is_err());
    }
}
