//! A request of a guest, in its memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use iodyno_sys::TransferMemory;
use iodyno_vhost::{DescriptorTable, visit_chain};
use vm_memory::{Address, Bytes, GuestAddress, GuestMemory, GuestMemoryMmap};

use crate::buffers::Buffers;
use crate::folder::{Answered, MAX_PARTS, RequestBuffers};
use crate::request::{Head, WRITE_HEADER};
use crate::ring::SharedRing;
use crate::work::Request;

/// Descriptors of a request. The longest one has 1 MiB in pages of 4 KiB, and headers; the table of an indirect chain
/// has room for 65 535.
const MAX_LINKS: usize = 512;

/// A request in the memory of a client.
pub(crate) struct GuestRequest {
    ring: Arc<SharedRing>,
    memory: Arc<GuestMemoryMmap>,
    /// The head of its chain.
    index: u16,
    /// Buffers of the request, readable ones first.
    parts: Vec<(GuestAddress, usize)>,
    /// The number of readable buffers.
    readable: usize,
    head: Head,
    taken: Instant,
    pooled: bool,
}

impl GuestRequest {
    /// Returns the request whose chain begins with this descriptor. `None`: it violates the specification, or is too
    /// short to be answered.
    pub(crate) fn new(
        ring: Arc<SharedRing>,
        memory: Arc<GuestMemoryMmap>,
        table: DescriptorTable,
        index: u16,
        taken: Instant,
    ) -> Option<GuestRequest> {
        let mut beginning = [0; WRITE_HEADER];
        let (mut copied, mut read) = (0, 0);
        // Bytes.
        let (mut readable, mut writable) = (0, 0);
        let mut parts = Vec::with_capacity(4);
        visit_chain(&memory, table, index, |part| {
            let length = part.length as usize;
            if parts.len() == MAX_LINKS {
                return None;
            }
            parts.push((part.start, length));
            if part.writable {
                writable += length;
                return Some(());
            }
            let wanted = length.min(WRITE_HEADER - copied);
            let into = &mut beginning[copied..copied + wanted];
            memory.read_slice(into, part.start).ok()?;
            copied += wanted;
            readable += length;
            read += 1;
            Some(())
        })?;
        let head = Head::of(&beginning[..copied], readable, writable)?;
        Some(GuestRequest {
            ring,
            memory,
            index,
            parts,
            readable: read,
            head,
            taken,
            pooled: false,
        })
    }

    fn reply_parts(&self) -> &[(GuestAddress, usize)] {
        &self.parts[self.readable..]
    }

    fn buffers(&self, parts: &[(GuestAddress, usize)]) -> Option<Buffers<'_>> {
        let parts = parts.iter().filter(|(_, length)| *length > 0);
        let found = parts.map(|(start, length)| self.memory.get_slice(*start, *length).ok());
        found.collect()
    }
}

impl RequestBuffers for GuestRequest {
    fn request(&mut self) -> Option<Buffers<'_>> {
        self.buffers(&self.parts[..self.readable])
    }

    fn reply(&mut self) -> Option<Buffers<'_>> {
        self.buffers(self.reply_parts())
    }

    fn lend(&mut self, of_request: bool, from: usize, length: usize) -> Option<TransferMemory> {
        let (request, reply) = self.parts.split_at(self.readable);
        let parts = if of_request { request } else { reply };
        let (mut skipped, mut left) = (from, length);
        let mut ranges = Vec::with_capacity(parts.len());
        for (start, bytes) in parts {
            let before = skipped.min(*bytes);
            let within = (bytes - before).min(left);
            (skipped, left) = (skipped - before, left - within);
            if within > 0 {
                ranges.push((start.checked_add(before as u64)?, within));
            }
        }
        let whole = left == 0 && ranges.len() <= MAX_PARTS;
        whole.then(|| TransferMemory::Client(Arc::clone(&self.memory), ranges))
    }

    // The request still owns the parts, which are unchanged.
    fn give_back(&mut self, _memory: TransferMemory) {}
}

impl Request for GuestRequest {
    fn head(&self) -> &Head {
        &self.head
    }

    fn taken(&self) -> Instant {
        self.taken
    }

    fn handed_over(&mut self) {
        self.pooled = true;
        self.ring.pooled.fetch_add(1, Ordering::Relaxed);
    }

    fn answered(self, answered: Answered, notify: bool) {
        if self.pooled {
            self.ring.pooled.fetch_sub(1, Ordering::Relaxed);
        }
        let changed = match answered.failed {
            // Data may have been read before.
            true => usize::MAX,
            false => answered.written as usize,
        };
        let answer = (changed, answered.written);
        let reply = self.reply_parts();
        self.ring
            .answer(self.index, reply, self.pooled, answer, notify);
    }
}
