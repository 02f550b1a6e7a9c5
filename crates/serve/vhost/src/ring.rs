//! A ring of a client: its addresses, its events, and the requests in flight.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use vhost::vhost_user::{Error, Result};
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{GuestAddress, GuestMemoryMmap};

use crate::chain::DescriptorTable;
use crate::in_flight_record::InFlightRecord;

/// The maximum number of descriptors of a ring.
pub const MAX_DESCRIPTORS: u16 = 1024;

/// A ring of a client.
#[derive(Debug)]
pub struct Ring {
    pub(crate) queue: Queue,
    kick: Option<Arc<File>>,
    pub(crate) call: Option<Arc<File>>,
    pub(crate) error: Option<File>,
    /// Whether the client has set the addresses.
    pub(crate) placed: bool,
    pub(crate) enabled: bool,
    pub(crate) broken: bool,
    /// Requests in flight, by the head of their chain, and their number.
    in_flight: Box<[bool]>,
    count: usize,
    /// Whether chains were returned since the last notification of the client.
    answered: bool,
}

impl Ring {
    /// A stopped ring.
    pub fn new() -> io::Result<Ring> {
        Ok(Ring {
            queue: Queue::new(MAX_DESCRIPTORS).map_err(io::Error::other)?,
            kick: None,
            call: None,
            error: None,
            placed: false,
            enabled: false,
            broken: false,
            in_flight: vec![false; MAX_DESCRIPTORS.into()].into(),
            count: 0,
            answered: false,
        })
    }

    // ---- For the messages of a front end ----

    /// Sets the number of its descriptors.
    pub(crate) fn resize(&mut self, size: u16) -> Result<()> {
        match self.count {
            0 => (self.queue.try_set_size(size)).map_err(|_| Error::InvalidParam),
            _ => Err(Error::InvalidOperation("the ring is in use")),
        }
    }

    /// Sets the addresses of its table and of the available and the used ring. A broken ring works again.
    pub(crate) fn place(
        &mut self,
        memory: &GuestMemoryMmap,
        [table, available, used]: [GuestAddress; 3],
    ) -> Result<()> {
        let queue = &mut self.queue;
        let placed = (queue.try_set_desc_table_address(table))
            .and_then(|()| queue.try_set_avail_ring_address(available))
            .and_then(|()| queue.try_set_used_ring_address(used))
            .and_then(|()| queue.used_idx(memory, Ordering::Relaxed));
        let used = placed.map_err(|_| Error::InvalidParam)?;
        queue.set_next_used(used.0);
        (self.placed, self.broken) = (true, false);
        Ok(())
    }

    /// Resets the ring after its stop. Returns the index at which it continues.
    pub(crate) fn disconnect(&mut self, memory: &GuestMemoryMmap) -> u16 {
        // A device may notify the client when a batch ends. By then the event is gone.
        signal(self.event(memory));
        (self.kick, self.call) = (None, None);
        self.queue.next_avail()
    }

    // ---- For devices ----

    /// Starts the ring, or continues with another event.
    pub fn start(&mut self, kick: File) {
        self.kick = Some(Arc::new(kick));
        self.queue.set_ready(true);
    }

    /// Stops taking requests.
    pub fn stop(&mut self) {
        self.queue.set_ready(false);
    }

    /// Whether the ring is started.
    pub fn is_started(&self) -> bool {
        self.queue.ready()
    }

    /// Whether the ring takes requests.
    pub fn runs(&self) -> bool {
        self.placed && self.enabled && self.kick.is_some() && self.queue.ready() && !self.broken
    }

    /// The event by which the client announces requests.
    pub fn kick(&self) -> Option<&Arc<File>> {
        self.kick.as_ref()
    }

    /// Its descriptors.
    pub fn table(&self) -> DescriptorTable {
        DescriptorTable {
            start: GuestAddress(self.queue.desc_table()),
            size: self.queue.size(),
        }
    }

    /// The address of the used ring, in which the client finds completed requests.
    pub fn used_ring(&self) -> GuestAddress {
        GuestAddress(self.queue.used_ring())
    }

    /// The index of the next entry of the used ring.
    pub fn next_used(&self) -> u16 {
        self.queue.next_used()
    }

    /// The number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.count
    }

    /// Whether the request whose chain begins with this descriptor is in flight.
    pub fn is_in_flight(&self, head: u16) -> bool {
        self.in_flight.get(usize::from(head)) == Some(&true)
    }

    /// Marks the ring as broken: the client broke the rules.
    pub fn give_up(&mut self) {
        self.broken = true;
        signal(self.error.as_ref());
    }

    /// Takes the next request, and returns the head of its chain. `None`: there is none, or the client broke the rules.
    pub fn take(&mut self, memory: &GuestMemoryMmap) -> Option<u16> {
        let head = match self.queue.iter(memory) {
            Ok(mut chains) => chains.next()?.head_index(),
            Err(_) => {
                self.give_up();
                return None;
            }
        };
        self.claim(head).then_some(head)
    }

    /// Marks the request whose chain begins with this descriptor as in flight. `false`: the client broke the rules.
    pub fn claim(&mut self, head: u16) -> bool {
        let size = self.queue.size();
        match self.in_flight.get_mut(usize::from(head)) {
            Some(in_flight) if head < size && !*in_flight => {
                *in_flight = true;
                self.count += 1;
                true
            }
            // The head is in flight already, or outside the table.
            _ => {
                self.give_up();
                false
            }
        }
    }

    /// Starts with the requests that a previous server recorded as in flight, and returns the heads of their chains.
    /// The client knows only about completed requests. `None`: the ring was started before.
    pub fn take_over(&mut self, number: u16, record: &mut InFlightRecord) -> Option<Vec<u16>> {
        if !self.placed || self.count > 0 {
            return None;
        }
        let used = self.queue.next_used();
        let left = record.left(number, used);
        if !left.is_empty() {
            // The previous server had taken each of them from the ring.
            let next = used.wrapping_add(left.len() as u16);
            self.queue.set_next_avail(next);
        }
        Some(left)
    }

    /// Marks the ring as broken by a request in flight.
    pub fn refuse(&mut self, head: u16) {
        self.end(head);
        self.give_up();
    }

    /// Returns the chain of a request in flight to the client. Returns whether the client can see it.
    pub fn answer(&mut self, memory: &GuestMemoryMmap, head: u16, written: u32) -> bool {
        self.end(head);
        if self.broken {
            return false;
        }
        let added = self.queue.add_used(memory, head, written).is_ok();
        match added {
            true => self.answered = true,
            false => self.give_up(),
        }
        added
    }

    fn end(&mut self, head: u16) {
        self.in_flight[usize::from(head)] = false;
        self.count -= 1;
    }

    /// The event that notifies the client of answered requests, if the client needs a notification now.
    pub fn event(&mut self, memory: &GuestMemoryMmap) -> Option<&Arc<File>> {
        if self.broken || !self.placed || !std::mem::take(&mut self.answered) {
            return None;
        }
        match self.queue.needs_notification(memory) {
            Ok(true) => self.call.as_ref(),
            Ok(false) => None,
            Err(_) => {
                self.give_up();
                None
            }
        }
    }

    /// Disables notifications of requests by the client.
    pub fn disable_notification(&mut self, memory: &GuestMemoryMmap) {
        // A client may notify even so.
        let _ = self.queue.disable_notification(memory);
    }

    /// Enables notifications of requests by the client. Returns whether requests are waiting already.
    pub fn enable_notification(&mut self, memory: &GuestMemoryMmap) -> bool {
        let more = self.queue.enable_notification(memory);
        more.unwrap_or_else(|_| {
            self.give_up();
            false
        })
    }

    /// Whether requests are waiting.
    pub fn has_more(&self, memory: &GuestMemoryMmap) -> bool {
        let available = self.queue.avail_idx(memory, Ordering::Acquire);
        available.is_ok_and(|index| index.0 != self.queue.next_avail())
    }
}

/// Makes an event of a client nonblocking, so that the client cannot block this thread.
pub(crate) fn event(file: Option<File>) -> Result<Option<File>> {
    let Some(file) = file else {
        return Ok(None);
    };
    fcntl_getfl(&file)
        .and_then(|flags| fcntl_setfl(&file, flags | OFlags::NONBLOCK))
        .map_err(|error| Error::ReqHandlerError(error.into()))?;
    Ok(Some(file))
}

/// Adds one to an event, if there is one. This fails only if its counter is full; the other side wakes up then too.
pub fn signal(event: Option<impl AsFd>) {
    if let Some(event) = event {
        let _ = rustix::io::write(event, &1u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};
    use vm_memory::Bytes;

    use super::*;

    const AVAILABLE: u64 = 0x8000;
    const USED: u64 = 0xa000;
    const HEADS: [u16; 3] = [3, 5, 3];

    fn event() -> Arc<File> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Arc::new(File::from(eventfd(0, flags).unwrap()))
    }

    /// The value of an event, which is reset.
    fn count(event: &File) -> u64 {
        let mut bytes = [0; 8];
        rustix::io::read(event, &mut bytes).map_or(0, |_| u64::from_ne_bytes(bytes))
    }

    /// A ring that runs, with the requests of these heads, its memory, and its events for answers and errors.
    fn running(heads: &[u16]) -> (Ring, GuestMemoryMmap, [Arc<File>; 2]) {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 1 << 16)]).unwrap();
        let available = [&[0, heads.len() as u16], heads].concat();
        for (word, at) in available.iter().zip((AVAILABLE..).step_by(2)) {
            memory.write_obj(*word, GuestAddress(at)).unwrap();
        }
        let mut ring = Ring::new().unwrap();
        ring.resize(16).unwrap();
        let places = [0, AVAILABLE, USED].map(GuestAddress);
        ring.place(&memory, places).unwrap();
        ring.enabled = true;
        let events = [event(), event()];
        ring.call = Some(Arc::clone(&events[0]));
        ring.error = Some(events[1].try_clone().unwrap());
        ring.start(event().try_clone().unwrap());
        assert!(ring.runs());
        (ring, memory, events)
    }

    fn used(memory: &GuestMemoryMmap) -> u16 {
        memory.read_obj(GuestAddress(USED + 2)).unwrap()
    }

    #[test]
    fn a_client_learns_of_the_last_answers_of_a_ring_that_it_stops() {
        let (mut ring, memory, [call, _]) = running(&HEADS[..1]);
        assert_eq!(ring.take(&memory), Some(3));
        // The thread of the ring would notify the client when its batch ends.
        assert!(ring.answer(&memory, 3, 16));
        ring.stop();
        assert_eq!(ring.disconnect(&memory), 1);
        assert_eq!((used(&memory), count(&call)), (1, 1));
        // Once.
        assert!(ring.event(&memory).is_none());
        ring.disconnect(&memory);
        assert_eq!(count(&call), 0);
    }

    #[test]
    fn a_request_that_is_in_flight_or_not_in_the_table_breaks_its_ring() {
        for heads in [&HEADS[..], &[3, 5, 16], &[3, 5, 1024], &[3, 5, u16::MAX]] {
            let (mut ring, memory, [_, error]) = running(heads);
            assert_eq!(ring.take(&memory), Some(3));
            assert_eq!(ring.take(&memory), Some(5));
            assert!(ring.runs() && count(&error) == 0);
            assert_eq!(ring.take(&memory), None, "{heads:?}");
            assert!(!ring.runs());
            assert_eq!((count(&error), ring.in_flight()), (1, 2));
        }
    }

    #[test]
    fn a_broken_ring_is_drained_and_not_used_any_more() {
        let (mut ring, memory, [call, error]) = running(&HEADS[..2]);
        assert_eq!(ring.take(&memory), Some(3));
        assert_eq!(ring.take(&memory), Some(5));
        ring.refuse(5);
        assert_eq!((count(&error), ring.in_flight()), (1, 1));
        assert!(!ring.answer(&memory, 3, 16));
        assert!(ring.event(&memory).is_none());
        assert_eq!((used(&memory), count(&call), ring.in_flight()), (0, 0, 0));
        // Until it gets addresses again.
        let places = [0, AVAILABLE, USED].map(GuestAddress);
        ring.place(&memory, places).unwrap();
        assert!(ring.runs());
    }

    #[test]
    fn an_index_that_is_ahead_of_its_ring_breaks_it() {
        let (mut ring, memory, [_, error]) = running(&[]);
        assert_eq!(ring.take(&memory), None);
        assert!(ring.runs() && !ring.has_more(&memory));
        (memory.write_obj(17u16, GuestAddress(AVAILABLE + 2))).unwrap();
        assert_eq!(ring.take(&memory), None);
        assert_eq!((ring.runs(), count(&error)), (false, 1));
    }

    #[test]
    fn a_ring_is_not_resized_while_it_has_requests_in_flight() {
        let (mut ring, memory, _) = running(&HEADS[..1]);
        assert_eq!(ring.take(&memory), Some(3));
        assert!(ring.resize(32).is_err());
        ring.answer(&memory, 3, 0);
        ring.resize(32).unwrap();
        assert!(ring.resize(33).is_err());
        assert!(ring.resize(2 * MAX_DESCRIPTORS).is_err());
    }
}
