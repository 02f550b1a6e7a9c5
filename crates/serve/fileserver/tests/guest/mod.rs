//! A scripted guest: a vhost-user front end with rings in its own memory, which sends requests to a virtio-fs server.

#![allow(dead_code, reason = "each program of tests uses a part")]

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use iodyno_fileserver::request::opcode::{CREATE, INIT, LOOKUP, OPEN, READ, WRITE};
use iodyno_fileserver::{FileServer, vhost_user};
use rustix::fs::{MemfdFlags, OFlags};
use rustix::io::Errno;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserHeaderFlag,
    VhostUserProtocolFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::EventFd;

/// No wait of these tests takes longer on any host.
pub(crate) const END: Duration = Duration::from_secs(60);
/// Where the memory of the guest begins, and where the front end says that it has it.
pub(crate) const BASE: u64 = 0x1_0000;
pub(crate) const USER: u64 = 0x7000_0000_0000;
pub(crate) const MEMORY: u64 = 32 << 20;
/// Descriptors of a ring, and the memory of each of its requests.
pub(crate) const SIZE: u16 = 64;
pub(crate) const EACH: u16 = 8;
/// Where the parts of a ring are.
pub(crate) const AVAILABLE: u64 = 0x2000;
pub(crate) const USED: u64 = 0x3000;
pub(crate) const SLOTS: u64 = 0x5000;
pub(crate) const SLOT: u64 = 128 << 10;
pub(crate) const PAGE: u64 = 4096;
pub(crate) const ROOT: u64 = 1;
pub(crate) const FEATURES: u64 = 1 << 32 | 1 << 30 | 1 << 29 | 1 << 28;

/// A ring of the guest. Request `n` has the descriptors from 8 `n` on.
pub(crate) struct Ring {
    pub(crate) start: u64,
    /// Where it was stopped.
    pub(crate) base: u16,
    pub(crate) available: u16,
    pub(crate) used: u16,
    pub(crate) kick: EventFd,
    pub(crate) called: Receiver<()>,
    /// Requests that are not in use.
    pub(crate) free: VecDeque<u16>,
}

pub(crate) struct Guest {
    pub(crate) front: Frontend,
    pub(crate) socket: UnixStream,
    pub(crate) memory: GuestMemoryMmap,
    pub(crate) file: File,
    pub(crate) rings: Vec<Ring>,
    pub(crate) next: u64,
    /// Stops its server.
    pub(crate) stopping: Arc<AtomicBool>,
    pub(crate) server: Option<JoinHandle<std::io::Result<()>>>,
    /// The notes to the user of its server about its state.
    pub(crate) notes: Arc<Mutex<Vec<String>>>,
}

impl Guest {
    /// A guest with two rings, whose file system is mounted.
    pub(crate) fn of(server: &Arc<FileServer>) -> Guest {
        let mut guest = Guest::unmounted(server);
        guest.initialise();
        guest
    }

    /// The same without its file system.
    pub(crate) fn unmounted(server: &Arc<FileServer>) -> Guest {
        let mut guest = Guest::with(server);
        guest.start();
        guest
    }

    /// A guest of a server, with two rings that do not run.
    pub(crate) fn with(server: &Arc<FileServer>) -> Guest {
        let stopping = Arc::<AtomicBool>::default();
        let (stream, server, notes) = served(server, Arc::clone(&stopping));
        let mut guest = Guest::at(stream);
        (guest.server, guest.notes, guest.stopping) = (Some(server), notes, stopping);
        guest
    }

    /// A guest of the server at the other end of a stream, with two rings that do not run.
    pub(crate) fn at(stream: UnixStream) -> Guest {
        let file = File::from(rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(MEMORY).unwrap();
        let offset = FileOffset::new(file.try_clone().unwrap(), 0);
        let range = (GuestAddress(BASE), MEMORY as usize, Some(offset));
        let memory = GuestMemoryMmap::from_ranges_with_files([range]).unwrap();
        let rings = (0..2u64).map(|number| Ring {
            start: BASE + 0x1000 + number * (8 << 20),
            base: 0,
            available: 0,
            used: 0,
            kick: EventFd::new(0).unwrap(),
            called: channel().1,
            free: (0..SIZE).collect(),
        });
        let mut guest = Guest {
            front: Frontend::from_stream(stream.try_clone().unwrap(), 17),
            socket: stream,
            memory,
            file,
            rings: rings.collect(),
            next: 1,
            stopping: Arc::default(),
            server: None,
            notes: Arc::default(),
        };
        guest.agree();
        guest
    }

    /// Moves to another server. Its memory and rings stay unchanged, and the rings are stopped.
    pub(crate) fn moves_to(&mut self, server: &Arc<FileServer>) {
        self.stopping = Arc::default();
        let (stream, server, notes) = served(server, Arc::clone(&self.stopping));
        self.moves(stream);
        (self.server, self.notes) = (Some(server), notes);
    }

    /// The same with the server at the other end of a stream.
    pub(crate) fn moves(&mut self, stream: UnixStream) {
        self.front = Frontend::from_stream(stream.try_clone().unwrap(), 17);
        self.socket = stream;
        self.agree();
    }

    fn agree(&mut self) {
        let front = &mut self.front;
        front.set_owner().unwrap();
        assert_eq!(front.get_features().unwrap() & FEATURES, FEATURES);
        front.set_features(FEATURES).unwrap();
        let wanted = VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::LOG_SHMFD
            | VhostUserProtocolFeatures::DEVICE_STATE;
        assert!(front.get_protocol_features().unwrap().contains(wanted));
        front.set_protocol_features(wanted).unwrap();
        front.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        assert!(front.get_queue_num().unwrap() >= 2);
        self.share();
    }

    pub(crate) fn initialise(&mut self) {
        const CREATE_SUPP_GROUP: u32 = 1 << 2;
        let words = [7, 38, 1 << 17, u32::MAX, CREATE_SUPP_GROUP];
        let mut init: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        init.resize(64, 0);
        let agreed = self.asks(INIT, 0, &init, 64).unwrap();
        assert_eq!(agreed[20..24], (1u32 << 20).to_ne_bytes());
    }

    pub(crate) fn share(&mut self) {
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: BASE,
            memory_size: MEMORY,
            userspace_addr: USER,
            mmap_offset: 0,
            mmap_handle: self.file.as_raw_fd(),
        };
        self.front.set_mem_table(&[region]).unwrap();
    }

    /// Starts its rings where they were stopped.
    pub(crate) fn start(&mut self) {
        for (number, ring) in self.rings.iter_mut().enumerate() {
            let call = EventFd::new(0).unwrap();
            let user = |at: u64| USER + ring.start - BASE + at;
            let front = &mut self.front;
            front.set_vring_num(number, SIZE * EACH).unwrap();
            front.set_vring_base(number, ring.base).unwrap();
            let places = VringConfigData {
                queue_max_size: SIZE * EACH,
                queue_size: SIZE * EACH,
                flags: 0,
                desc_table_addr: user(0),
                avail_ring_addr: user(AVAILABLE),
                used_ring_addr: user(USED),
                log_addr: None,
            };
            front.set_vring_addr(number, &places).unwrap();
            front.set_vring_call(number, &call).unwrap();
            front.set_vring_kick(number, &ring.kick).unwrap();
            front.set_vring_enable(number, true).unwrap();
            ring.called = events(call);
        }
    }

    /// Stops its rings when no request is in flight.
    pub(crate) fn stop(&mut self) {
        for (number, ring) in self.rings.iter_mut().enumerate() {
            ring.base = self.front.get_vring_base(number).unwrap() as u16;
        }
    }

    /// Its state as its server writes it.
    pub(crate) fn saves(&mut self) -> vhost::Result<Vec<u8>> {
        let (mut reader, writer) = std::io::pipe().unwrap();
        self.transfers(VhostTransferStateDirection::SAVE, writer.into())?;
        let mut state = Vec::new();
        reader.read_to_end(&mut state).unwrap();
        self.front.check_device_state()?;
        Ok(state)
    }

    /// Makes its server restore a state.
    pub(crate) fn loads(&mut self, state: &[u8]) -> vhost::Result<()> {
        let (reader, mut writer) = std::io::pipe().unwrap();
        self.transfers(VhostTransferStateDirection::LOAD, reader.into())?;
        // The server may not want all of it.
        let _ = writer.write_all(state);
        drop(writer);
        self.front.check_device_state()
    }

    pub(crate) fn transfers(
        &mut self,
        direction: VhostTransferStateDirection,
        pipe: OwnedFd,
    ) -> vhost::Result<()> {
        let stopped = VhostTransferStatePhase::STOPPED;
        let other = self.front.set_device_state_fd(direction, stopped, pipe)?;
        assert!(other.is_none());
        Ok(())
    }

    /// The notes to the user of its server, as one text.
    pub(crate) fn notes(&mut self) -> String {
        // The notes are stored before the next message is read.
        let _ = self.front.get_queue_num();
        std::mem::take(&mut *self.notes.lock().unwrap()).join("\n")
    }

    /// Starts a ring again where it stopped.
    pub(crate) fn restarts(&mut self, number: usize, base: u16) {
        let kick = self.rings[number].kick.try_clone().unwrap();
        let call = EventFd::new(0).unwrap();
        self.front.set_vring_base(number, base).unwrap();
        self.front.set_vring_call(number, &call).unwrap();
        self.rings[number].called = events(call);
        self.front.set_vring_kick(number, &kick).unwrap();
        self.front.set_vring_enable(number, true).unwrap();
    }

    /// How many replies the server has put into a ring.
    pub(crate) fn used(&self, ring: usize) -> u16 {
        let at = GuestAddress(self.rings[ring].start + USED + 2);
        self.memory.load(at, Ordering::Acquire).unwrap()
    }

    /// The address of a slot's request, followed by its reply.
    pub(crate) fn place(&self, ring: usize, slot: u16) -> u64 {
        self.rings[ring].start + SLOTS + u64::from(slot) * SLOT
    }

    /// A chain of parts: an address, a length, and whether the server writes it.
    pub(crate) fn offer(&mut self, ring: usize, slot: u16, parts: &[(u64, u32, bool)]) {
        let start = self.rings[ring].start;
        for (nth, (address, length, written)) in parts.iter().enumerate() {
            let index = slot * EACH + nth as u16;
            let last = nth + 1 == parts.len();
            let flags = u16::from(!last) | u16::from(*written) << 1;
            let mut bytes = address.to_le_bytes().to_vec();
            bytes.extend(length.to_le_bytes());
            bytes.extend(flags.to_le_bytes());
            bytes.extend((index + 1).to_le_bytes());
            self.write(start + u64::from(index) * 16, &bytes);
        }
        self.offer_head(ring, slot * EACH);
    }

    pub(crate) fn offer_head(&mut self, ring: usize, head: u16) {
        let (start, available) = (self.rings[ring].start, self.rings[ring].available);
        let entry = start + AVAILABLE + 4 + u64::from(available % (SIZE * EACH)) * 2;
        self.write(entry, &head.to_le_bytes());
        self.rings[ring].available = available.wrapping_add(1);
        let index = self.rings[ring].available;
        std::sync::atomic::fence(Ordering::SeqCst);
        (self.memory)
            .store(
                index,
                GuestAddress(start + AVAILABLE + 2),
                Ordering::Release,
            )
            .unwrap();
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(at)).unwrap();
    }

    pub(crate) fn read(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory
            .read_slice(&mut bytes, GuestAddress(at))
            .unwrap();
        bytes
    }

    /// Puts a request into the ring of requests, with this room for the data of its reply. Returns its slot.
    pub(crate) fn puts(&mut self, kind: u32, node: u64, body: &[u8], room: u32) -> u16 {
        self.puts_into(1, kind, node, body, room)
    }

    pub(crate) fn puts_into(
        &mut self,
        ring: usize,
        kind: u32,
        node: u64,
        body: &[u8],
        room: u32,
    ) -> u16 {
        let slot = self.rings[ring].free.pop_front().unwrap();
        let place = self.place(ring, slot);
        let bytes = message(kind, self.next, node, body);
        self.next += 1;
        let reply = place + SLOT / 2;
        // Headers and data are apart, as Linux has them, and data are aligned for direct I/O.
        let mut parts = Vec::new();
        for (start, from, to) in [
            (place, 0, 40),
            (place + 40, 40, 80),
            (place + PAGE, 80, usize::MAX),
        ] {
            let part = &bytes[from.min(bytes.len())..to.min(bytes.len())];
            if !part.is_empty() {
                self.write(start, part);
                parts.push((start, part.len() as u32, false));
            }
        }
        parts.push((reply, 16, true));
        if room > 0 {
            parts.push((reply + PAGE, room, true));
        }
        self.offer(ring, slot, &parts);
        slot
    }

    pub(crate) fn kick(&self, ring: usize) {
        self.rings[ring].kick.write(1).unwrap();
    }

    /// The slots and lengths of this many replies of a ring.
    pub(crate) fn waits(&mut self, ring: usize, count: usize) -> Vec<(u16, u32)> {
        let mut replies = Vec::new();
        loop {
            let start = self.rings[ring].start;
            let at = GuestAddress(start + USED + 2);
            let index: u16 = self.memory.load(at, Ordering::Acquire).unwrap();
            while self.rings[ring].used != index {
                let used = self.rings[ring].used;
                let entry = start + USED + 4 + u64::from(used % (SIZE * EACH)) * 8;
                let bytes = self.read(entry, 8);
                let head = u32::from_le_bytes(bytes[..4].try_into().unwrap());
                let length = u32::from_le_bytes(bytes[4..].try_into().unwrap());
                replies.push((head as u16 / EACH, length));
                self.rings[ring].used = used.wrapping_add(1);
            }
            assert!(replies.len() <= count);
            if replies.len() == count {
                return replies;
            }
            // Requests a notification for the next reply.
            let event = start + AVAILABLE + 4 + 2 * u64::from(SIZE * EACH);
            self.write(event, &self.rings[ring].used.to_le_bytes());
            std::sync::atomic::fence(Ordering::SeqCst);
            let now: u16 = self.memory.load(at, Ordering::Acquire).unwrap();
            if now == self.rings[ring].used {
                (self.rings[ring].called.recv_timeout(END)).expect("the server tells of replies");
            }
        }
    }

    /// The data of a reply, or its error.
    pub(crate) fn reply(&mut self, slot: u16, length: u32) -> Result<Vec<u8>, Errno> {
        self.reply_of(1, slot, length)
    }

    pub(crate) fn reply_of(
        &mut self,
        ring: usize,
        slot: u16,
        length: u32,
    ) -> Result<Vec<u8>, Errno> {
        let place = self.place(ring, slot) + SLOT / 2;
        let mut reply = self.read(place, 16);
        self.rings[ring].free.push_back(slot);
        assert!(length >= 16, "{length}");
        reply.extend(self.read(place + PAGE, length as usize - 16));
        assert_eq!(reply[..4], length.to_ne_bytes());
        match i32::from_ne_bytes(reply[4..8].try_into().unwrap()) {
            0 => Ok(reply[16..].to_vec()),
            error => Err(Errno::from_raw_os_error(-error)),
        }
    }

    pub(crate) fn asks(
        &mut self,
        kind: u32,
        node: u64,
        body: &[u8],
        room: u32,
    ) -> Result<Vec<u8>, Errno> {
        let slot = self.puts(kind, node, body, room);
        self.kick(1);
        let replies = self.waits(1, 1);
        assert_eq!(replies[0].0, slot);
        self.reply(slot, replies[0].1)
    }

    pub(crate) fn lookup(&mut self, folder: u64, name: &str) -> Result<u64, Errno> {
        let entry = self.asks(LOOKUP, folder, &[name.as_bytes(), b"\0"].concat(), 128)?;
        Ok(u64_at(&entry, 0))
    }

    /// Creates a file and returns its node and handle.
    pub(crate) fn create(&mut self, name: &str) -> Result<(u64, u64), Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE;
        let words = [flags.bits(), 0o100_644, 0, 0];
        let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        body.extend(name.as_bytes());
        body.push(0);
        let created = self.asks(CREATE, ROOT, &body, 144)?;
        Ok((u64_at(&created, 0), u64_at(&created, 128)))
    }

    /// Looks a file up and opens it. Returns its node and handle.
    pub(crate) fn open(&mut self, name: &str, flags: OFlags) -> Result<(u64, u64), Errno> {
        let node = self.lookup(ROOT, name)?;
        let opened = [flags.bits().to_ne_bytes(), [0; 4]].concat();
        let opened = self.asks(OPEN, node, &opened, 16)?;
        Ok((node, u64_at(&opened, 0)))
    }

    pub(crate) fn puts_write(
        &mut self,
        (node, handle): (u64, u64),
        offset: u64,
        data: &[u8],
    ) -> u16 {
        let mut body = io_body(handle, offset, data.len() as u32);
        body.extend(data);
        self.puts(WRITE, node, &body, 8)
    }

    pub(crate) fn puts_read(&mut self, (node, handle): (u64, u64), offset: u64, size: u32) -> u16 {
        self.puts(READ, node, &io_body(handle, offset, size), size)
    }

    /// Closes the connection without FUSE_DESTROY. The server of this guest ends as well.
    pub(crate) fn leaves(mut self) -> std::io::Result<()> {
        self.socket.shutdown(Shutdown::Both).unwrap();
        self.server.take().unwrap().join().unwrap()
    }
}

type Served = (
    UnixStream,
    JoinHandle<std::io::Result<()>>,
    Arc<Mutex<Vec<String>>>,
);

/// A connection to a server in this process, and the notes to its user.
fn served(server: &Arc<FileServer>, stopping: Arc<AtomicBool>) -> Served {
    let (own, other) = UnixStream::pair().unwrap();
    let server = Arc::clone(server);
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&notes);
    let serve = move || {
        vhost_user::serve(other, &server, stopping, |note| {
            told.lock().unwrap().push(note)
        })
    };
    (own, thread::spawn(serve), notes)
}

/// The signals of an event, whose descriptor the server makes non-blocking. The thread ends with the test.
pub(crate) fn events(event: EventFd) -> Receiver<()> {
    let (events, received) = channel();
    thread::spawn(move || {
        let watched = Epoll::new().unwrap();
        let interest = EpollEvent::new(EventSet::IN, 0);
        let add = ControlOperation::Add;
        watched.ctl(add, event.as_raw_fd(), interest).unwrap();
        loop {
            let _ = watched.wait(-1, &mut [EpollEvent::default()]);
            if event.read().is_ok() && events.send(()).is_err() {
                return;
            }
        }
    });
    received
}

pub(crate) fn message(kind: u32, unique: u64, node: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = ((40 + body.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(unique.to_ne_bytes());
    bytes.extend(node.to_ne_bytes());
    bytes.resize(40, 0);
    bytes.extend(body);
    bytes
}

/// The arguments before the data of reads and writes.
pub(crate) fn io_body(handle: u64, offset: u64, size: u32) -> Vec<u8> {
    let mut body = handle.to_ne_bytes().to_vec();
    body.extend(offset.to_ne_bytes());
    body.extend(size.to_ne_bytes());
    body.resize(32, 0);
    body.extend((OFlags::RDWR | OFlags::CREATE).bits().to_ne_bytes());
    body.resize(40, 0);
    body
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

pub(crate) fn block(seed: u64) -> Vec<u8> {
    (0..4096u64)
        .map(|at| (at.wrapping_mul(seed + 7) >> 3) as u8 ^ seed as u8)
        .collect()
}
