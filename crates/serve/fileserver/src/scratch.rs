//! Private memory in which the crate `virtiofsd` executes requests. The crate takes descriptor chains, so each thread
//! has a ring with one chain, and requests are copied there. No client can change them there.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use vhost_user_backend::bitmap::BitmapMmapRegion;
use virtio_queue::desc::split::Descriptor;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use virtiofsd::descriptor_utils::{Reader, Writer};
use virtiofsd::filesystem::FileSystem;
use virtiofsd::server::Server;
use vm_memory::{Bytes, GuestAddress, GuestMemory, GuestMemoryMmap};

use crate::buffers::Buffers;
use crate::request::{MAX_DATA, MAX_OTHER, REPLY_HEADER};

/// Addresses of the parts of the ring, the message and the reply.
const TABLE: u64 = 0x1000;
const AVAILABLE: u64 = TABLE + 0x100;
const USED: u64 = TABLE + 0x200;
const MESSAGE: u64 = TABLE + 0x1000;
const REPLY: u64 = MESSAGE + MAX_OTHER as u64;
/// The longest reply: that of a list of a folder.
const MAX_REPLY: usize = MAX_DATA as usize + REPLY_HEADER;
/// Flags of descriptors.
const NEXT: u16 = 1;
const WRITTEN: u16 = 2;

thread_local! {
    static SCRATCH: RefCell<Option<Scratch>> = const { RefCell::new(None) };
}

struct Scratch {
    memory: GuestMemoryMmap<BitmapMmapRegion>,
    queue: Queue,
}

impl Scratch {
    fn new() -> Option<Scratch> {
        let length = (REPLY - TABLE) as usize + MAX_REPLY;
        // Pages are used only when something is written to them.
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(TABLE), length)]).ok()?;
        let mut queue = Queue::new(2).ok()?;
        queue.try_set_desc_table_address(GuestAddress(TABLE)).ok()?;
        queue
            .try_set_avail_ring_address(GuestAddress(AVAILABLE))
            .ok()?;
        queue.try_set_used_ring_address(GuestAddress(USED)).ok()?;
        queue.set_ready(true);
        // One chain, which begins with the first descriptor.
        (memory.store(1u16, GuestAddress(AVAILABLE + 2), Ordering::Relaxed)).ok()?;
        Some(Scratch { memory, queue })
    }

    fn carry_out<F: FileSystem + Sync>(
        &mut self,
        server: &Server<F>,
        message: &[u8],
        room: usize,
    ) -> Result<usize, Errno> {
        let memory = &self.memory;
        let place =
            |result: Result<(), _>| result.map_err(|_: vm_memory::GuestMemoryError| Errno::NOMEM);
        place(memory.write_slice(message, GuestAddress(MESSAGE)))?;
        let length = message.len() as u32;
        let descriptors = [
            Descriptor::new(MESSAGE, length, NEXT, 1),
            Descriptor::new(REPLY, room.min(MAX_REPLY) as u32, WRITTEN, 0),
        ];
        place(memory.write_obj(descriptors[0], GuestAddress(TABLE)))?;
        place(memory.write_obj(descriptors[1], GuestAddress(TABLE + 16)))?;
        self.queue.set_next_avail(0);
        let chain = self.queue.iter(memory).ok().and_then(|mut it| it.next());
        let chain = chain.ok_or(Errno::NOMEM)?;
        let reader = Reader::new(memory, chain.clone()).map_err(|_| Errno::NOMEM)?;
        let writer = Writer::new(memory, chain).map_err(|_| Errno::NOMEM)?;
        // A message that the crate cannot read.
        (server.handle_message(reader, writer, None::<&mut ()>)).map_err(|_| Errno::INVAL)
    }
}

/// Executes a message. Copies its reply, of at most `room` bytes, to `reply`. Returns its length.
///
/// # Errors
/// The message could not be executed and has no reply.
pub(crate) fn carry_out<'a, F: FileSystem + Sync>(
    server: &Server<F>,
    message: &[u8],
    room: usize,
    reply: impl FnOnce() -> Option<Buffers<'a>>,
) -> Result<u32, Errno> {
    // A panic in the crate is caught further up: then the memory is gone, and allocated again.
    let scratch = SCRATCH.take().or_else(Scratch::new);
    let mut scratch = scratch.ok_or(Errno::NOMEM)?;
    let written = scratch.carry_out(server, message, room);
    let copied = written.and_then(|length| {
        let mut done = 0;
        if length > 0 {
            for part in reply().ok_or(Errno::INVAL)? {
                let count = part.len().min(length - done);
                let from = (scratch.memory)
                    .get_slice(GuestAddress(REPLY + done as u64), count)
                    .map_err(|_| Errno::NOMEM)?;
                from.copy_to_volatile_slice(part);
                done += count;
            }
        }
        Ok(done as u32)
    });
    SCRATCH.set(Some(scratch));
    copied
}
