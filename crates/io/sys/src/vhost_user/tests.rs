//! The engine `virtiofs` on a scripted server in this process.

use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::{OpenFile, Service, Share, ShareFlags, VhostUserBackend};
use crate::memory::Arena;
use crate::{Backend, Clock, Completions, MonotonicClock, Op, OpKind};

const BLOCK: usize = 4096;
const BLOCKS: usize = 64;
/// A test that hangs ends after this time.
const LIMIT_NS: u64 = 60_000_000_000;

/// How a server misbehaves on each READ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    Unique,
    Length(u32),
    Error(i32),
    Unwritten,
    Twice,
    Head(u32),
    Closes,
}

/// A file of 64 blocks, `f`, which is node 2 of the share.
struct Server {
    socket: PathBuf,
    content: Arc<Mutex<Vec<u8>>>,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start(queues: u64, wrong: Wrong) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let content = Arc::new(Mutex::new(vec![0u8; BLOCKS * BLOCK]));
        let served = Arc::clone(&content);
        thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            serve(stream, queues, wrong, &served);
        });
        Server {
            socket,
            content,
            _folder: folder,
        }
    }

    fn share(&self) -> Arc<Share> {
        Arc::new(Share::new(&self.socket, Duration::from_secs(30)).unwrap())
    }
}

/// One queue as the device sees it.
#[derive(Default)]
struct Device {
    size: u64,
    table: u64,
    available: u64,
    used: u64,
    seen: u16,
    returned: u16,
    call: Option<OwnedFd>,
    /// From an address of the guest to the one of the server's mapping.
    shift: u64,
}

/// Maps the memory of the guest, and returns the difference of its addresses.
fn map(file: &OwnedFd, guest: u64, length: u64) -> u64 {
    // SAFETY: a fresh mapping; nothing existing is touched.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(start, libc::MAP_FAILED);
    (start.expose_provenance() as u64).wrapping_sub(guest)
}

fn get<T: Copy>(address: u64) -> T {
    // SAFETY: within the server's mapping of the memory, which is never unmapped.
    unsafe { std::ptr::with_exposed_provenance::<T>(address as usize).read_volatile() }
}

fn put(address: u64, bytes: &[u8]) {
    for (at, byte) in bytes.iter().enumerate() {
        let place = std::ptr::with_exposed_provenance_mut::<u8>(address as usize + at);
        // SAFETY: as in `get`.
        unsafe { place.write_volatile(*byte) };
    }
}

/// Answers the messages of the protocol until the connection ends.
fn serve(mut stream: UnixStream, queues: u64, wrong: Wrong, content: &Arc<Mutex<Vec<u8>>>) {
    let mut devices: Vec<Device> = (0..queues).map(|_| Device::default()).collect();
    loop {
        let mut header = [0u8; 12];
        let Some(file) = receive(&stream, &mut header) else {
            return;
        };
        let word =
            |bytes: &[u8], at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let mut payload = vec![0; word(&header, 8) as usize];
        stream.read_exact(&mut payload).unwrap();
        let long = |at: usize| u64::from_ne_bytes(payload[at..at + 8].try_into().unwrap());
        let reply = |number: u64| {
            let head = [word(&header, 0), 5, 8].map(u32::to_ne_bytes).concat();
            let bytes = [&head[..], &number.to_ne_bytes()].concat();
            std::io::Write::write_all(&mut &stream, &bytes).unwrap();
        };
        match word(&header, 0) {
            1 => reply(1 << 32 | 1 << 30 | 1 << 29 | 1 << 28),
            15 => reply(1),
            17 => reply(queues),
            5 => {
                let shift = map(&file.unwrap(), long(8), long(16));
                devices.iter_mut().for_each(|device| device.shift = shift);
            }
            8 => devices[word(&payload, 0) as usize].size = word(&payload, 4).into(),
            9 => {
                let device = &mut devices[word(&payload, 0) as usize];
                let here = |at: usize| long(at).wrapping_add(device.shift);
                (device.table, device.used, device.available) = (here(8), here(16), here(24));
            }
            12 => {
                let number = long(0) as usize;
                let device = std::mem::take(&mut devices[number]);
                let (kick, content) = (file.unwrap(), Arc::clone(content));
                let ours = stream.try_clone().unwrap();
                thread::spawn(move || device.run(&kick, &ours, wrong, &content));
            }
            13 => devices[long(0) as usize].call = file,
            _ => {}
        }
    }
}

/// Reads the header of a message, and the descriptor that comes with it.
fn receive(stream: &UnixStream, header: &mut [u8; 12]) -> Option<Option<OwnedFd>> {
    let mut part = libc::iovec {
        iov_base: header.as_mut_ptr().cast(),
        iov_len: header.len(),
    };
    let mut control = [0u64; 16];
    // SAFETY: zeros are a valid message without any parts.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the message and what it points to outlive the call.
    let received =
        unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_WAITALL) };
    if received != 12 {
        return None;
    }
    // SAFETY: the kernel filled the message; a descriptor in it is new and not owned elsewhere.
    let file = unsafe {
        let first = libc::CMSG_FIRSTHDR(&raw const message);
        match first.is_null() {
            true => None,
            false => {
                let place = libc::CMSG_DATA(first).cast::<libc::c_int>();
                Some(OwnedFd::from_raw_fd(place.read_unaligned()))
            }
        }
    };
    Some(file)
}

impl Device {
    fn run(mut self, kick: &OwnedFd, stream: &UnixStream, wrong: Wrong, content: &Mutex<Vec<u8>>) {
        loop {
            let watch = |fd: libc::c_int| libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            };
            // On the socket, only watch for its end: the other thread handles messages.
            let mut watched = [watch(kick.as_raw_fd()), watch(stream.as_raw_fd())];
            watched[1].events = 0;
            // The guest notifies of the next request.
            put(self.used + 4 + 8 * self.size, &self.seen.to_ne_bytes());
            fence(SeqCst);
            let more = get::<u16>(self.available + 2) != self.seen;
            // SAFETY: two descriptors that outlive the call.
            unsafe { libc::poll(watched.as_mut_ptr(), 2, if more { 0 } else { -1 }) };
            if watched[1].revents != 0 {
                return;
            }
            let mut count = [0u8; 8];
            // SAFETY: reads into our own memory. It does not block: the guest made it so.
            unsafe { libc::read(kick.as_raw_fd(), count.as_mut_ptr().cast(), 8) };
            while get::<u16>(self.available + 2) != self.seen {
                let entry = u64::from(self.seen) % self.size;
                let head: u16 = get(self.available + 4 + 2 * entry);
                self.seen = self.seen.wrapping_add(1);
                if !self.answer(head, stream, wrong, content) {
                    return;
                }
            }
        }
    }

    /// `false`: the server ends.
    fn answer(
        &mut self,
        head: u16,
        stream: &UnixStream,
        wrong: Wrong,
        content: &Mutex<Vec<u8>>,
    ) -> bool {
        // All chains are indirect.
        let (table, bytes): (u64, u32) = (
            get(self.table + 16 * u64::from(head)),
            get(self.table + 16 * u64::from(head) + 8),
        );
        let table = table.wrapping_add(self.shift);
        let mut input = Vec::new();
        let mut output = Vec::new();
        for at in 0..u64::from(bytes) / 16 {
            let (address, length): (u64, u32) = (get(table + 16 * at), get(table + 16 * at + 8));
            let address = address.wrapping_add(self.shift);
            match get::<u16>(table + 16 * at + 12) & 2 {
                0 => input.extend((0..u64::from(length)).map(|at| get::<u8>(address + at))),
                _ => output.push((address, length)),
            }
        }
        let word = |at: usize| u32::from_ne_bytes(input[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_ne_bytes(input[at..at + 8].try_into().unwrap());
        let mut content = content.lock().unwrap();
        let (mut error, mut data) = (0, Vec::new());
        let opcode = word(4);
        match opcode {
            // INIT: version 7, requests of up to 64 KiB.
            26 => {
                let mut words = [0u32; 16];
                (words[0], words[1], words[3]) = (7, 31, 1 << 22);
                (words[5], words[7]) = (64 << 10, 16);
                data.extend(words.into_iter().flat_map(u32::to_ne_bytes));
            }
            // LOOKUP
            1 if input[40..] == *b"f\0" => {
                data.resize(128, 0);
                data[0] = 2;
                data[48..56].copy_from_slice(&(content.len() as u64).to_ne_bytes());
                data[100..104].copy_from_slice(&0o100_644u32.to_ne_bytes());
            }
            1 => error = -libc::ENOENT,
            // OPEN
            14 => data.resize(16, 7),
            // READ
            15 => {
                let start = (long(48) as usize).min(content.len());
                let end = (start + word(56) as usize).min(content.len());
                data.extend(&content[start..end]);
            }
            // WRITE
            16 => {
                let (start, length) = (long(48) as usize, word(56) as usize);
                content[start..start + length].copy_from_slice(&input[80..]);
                data.extend((length as u64).to_ne_bytes());
            }
            // FSYNC, FLUSH, RELEASE
            20 | 25 | 18 => {}
            other => panic!("FUSE request {other}"),
        }
        drop(content);
        let wrong = if opcode == 15 { wrong } else { Wrong::Nothing };
        let mut length = 16 + data.len() as u32;
        let mut unique = long(8);
        let mut head = u32::from(head);
        match wrong {
            Wrong::Unique => unique += 2,
            Wrong::Length(given) => length = given,
            Wrong::Error(given) => error = given,
            Wrong::Head(given) => head = given,
            Wrong::Closes => {
                let _ = stream.shutdown(std::net::Shutdown::Both);
                return false;
            }
            Wrong::Nothing | Wrong::Unwritten | Wrong::Twice => {}
        }
        let mut reply = length.to_ne_bytes().to_vec();
        reply.extend(error.to_ne_bytes());
        reply.extend(unique.to_ne_bytes());
        reply.extend(data);
        let mut rest = &reply[..];
        for (address, room) in output {
            let (now, later) = rest.split_at(rest.len().min(room as usize));
            if wrong != Wrong::Unwritten {
                put(address, now);
            }
            rest = later;
        }
        let before = self.returned;
        for _ in 0..1 + u8::from(wrong == Wrong::Twice) {
            let entry = u64::from(self.returned) % self.size;
            put(self.used + 4 + 8 * entry, &head.to_ne_bytes());
            self.returned = self.returned.wrapping_add(1);
            fence(SeqCst);
            put(self.used + 2, &self.returned.to_ne_bytes());
        }
        fence(SeqCst);
        // Only the notification that the guest requested, see VIRTIO 1.2, 2.7.10.
        let wanted: u16 = get(self.available + 4 + 2 * self.size);
        let passed = self.returned.wrapping_sub(wanted).wrapping_sub(1);
        if passed < self.returned.wrapping_sub(before) {
            let call = self.call.as_ref().unwrap();
            // SAFETY: writes 8 bytes of ours.
            unsafe { libc::write(call.as_raw_fd(), (&raw const BELL).cast(), 8) };
        }
        true
    }
}

static BELL: u64 = 1;

fn open(share: &Arc<Share>) -> Arc<OpenFile> {
    let flags = ShareFlags {
        write: true,
        ..ShareFlags::default()
    };
    Arc::new(share.open(Path::new("/f"), flags).unwrap())
}

fn backend(file: &Arc<OpenFile>, slots: u32) -> VhostUserBackend {
    let service = Service::Files(vec![Arc::clone(file)]);
    let tail = VhostUserBackend::tail(slots);
    let arena = Arena::within(service.memory().unwrap(), slots, BLOCK, 0, tail).unwrap();
    VhostUserBackend::new(service, arena).unwrap()
}

fn op(kind: OpKind, block: usize) -> Op {
    Op::new(kind, 0, (block * BLOCK) as u64, BLOCK as u32)
}

/// Waits for `count` completions.
fn complete(backend: &mut VhostUserBackend, count: usize) -> Vec<(u32, i32)> {
    let mut completions = Completions::with_capacity(64);
    let mut all = Vec::new();
    let deadline = MonotonicClock.now() + LIMIT_NS;
    while all.len() < count {
        assert!(MonotonicClock.now() < deadline, "no completion in time");
        let left = (count - all.len()) as u32;
        backend
            .turn(left.min(1), left, Some(deadline), &mut completions)
            .unwrap();
        all.extend(completions.list.iter().map(|done| (done.slot, done.result)));
    }
    all
}

#[test]
fn clones_that_share_a_queue_get_their_own_replies() {
    let server = Server::start(2, Wrong::Nothing);
    let share = server.share();
    assert_eq!((share.queues(), share.longest()), (1, 64 << 10));
    let file = open(&share);
    thread::scope(|scope| {
        for user in 0..4usize {
            let mut backend = backend(&file, 4);
            scope.spawn(move || {
                // Its own blocks, each written with a number and read back.
                for round in 0..50usize {
                    let byte = (1 + user * 50 + round) as u8;
                    for slot in 0..4 {
                        backend.buffer(slot).fill(byte);
                        backend.prep(slot, &op(OpKind::Write, user * 16 + slot as usize));
                    }
                    let written = complete(&mut backend, 4);
                    assert!(written.iter().all(|(_, result)| *result == BLOCK as i32));
                    for slot in 0..4 {
                        backend.buffer(slot).fill(0);
                        backend.prep(slot, &op(OpKind::Read, user * 16 + slot as usize));
                    }
                    let read = complete(&mut backend, 4);
                    assert!(read.iter().all(|(_, result)| *result == BLOCK as i32));
                    for slot in 0..4 {
                        assert!(backend.buffer(slot).iter().all(|read| *read == byte));
                    }
                }
                backend.prep(0, &op(OpKind::Fsync, 0));
                assert_eq!(complete(&mut backend, 1), [(0, 0)]);
            });
        }
    });
    let content = server.content.lock().unwrap();
    assert_eq!(content[16 * BLOCK], 100);
}

#[test]
fn a_clone_that_does_nothing_more_keeps_no_reply_of_another() {
    let server = Server::start(2, Wrong::Nothing);
    let file = open(&server.share());
    let (mut first, mut second) = (backend(&file, 4), backend(&file, 4));
    for _ in 0..200 {
        thread::scope(|scope| {
            for backend in [&mut first, &mut second] {
                scope.spawn(|| {
                    // Both wait; the first to wake takes its own reply and returns.
                    backend.prep(0, &op(OpKind::Read, 1));
                    assert_eq!(complete(backend, 1), [(0, BLOCK as i32)]);
                });
            }
        });
    }
}

#[test]
fn a_queue_has_1024_requests_for_all_clones() {
    let server = Server::start(2, Wrong::Nothing);
    let file = open(&server.share());
    let whole = backend(&file, 1024);
    let service = Service::Files(vec![Arc::clone(&file)]);
    let tail = VhostUserBackend::tail(1);
    let arena = || Arena::within(service.memory().unwrap(), 1, BLOCK, 0, tail).unwrap();
    let full = VhostUserBackend::new(service.clone(), arena()).unwrap_err();
    assert!(full.source.to_string().contains("1024 requests"), "{full}");
    assert_eq!(full.hint, Some("lower `iodepth` or `numjobs`"));
    drop(whole);
    VhostUserBackend::new(service.clone(), arena()).unwrap();
}

#[test]
fn requests_of_a_clone_that_left_keep_their_slots_until_the_server_returns_them() {
    let server = Server::start(2, Wrong::Nothing);
    let file = open(&server.share());
    let mut first = backend(&file, 1000);
    let mut completions = Completions::with_capacity(4);
    let second = {
        // The server answers nothing meanwhile.
        let _held = server.content.lock().unwrap();
        for slot in 0..2 {
            first.prep(slot, &op(OpKind::Read, 0));
        }
        first.turn(0, 2, Some(0), &mut completions).unwrap();
        drop(first);
        let mut second = backend(&file, 24);
        second.prep(0, &op(OpKind::Read, 1));
        second.turn(0, 1, Some(0), &mut completions).unwrap();
        assert!(completions.list.is_empty());
        let none = VhostUserBackend::new(
            Service::Files(vec![Arc::clone(&file)]),
            Arena::within(
                file.share().memory(),
                1,
                BLOCK,
                0,
                VhostUserBackend::tail(1),
            )
            .unwrap(),
        );
        assert!(none.is_err());
        second
    };
    let mut second = second;
    assert_eq!(complete(&mut second, 1), [(0, BLOCK as i32)]);
    // Requests are answered in order: all slots of the first one have come back.
    let mut third = backend(&file, 1000);
    third.prep(0, &op(OpKind::Read, 0));
    assert_eq!(complete(&mut third, 1), [(0, BLOCK as i32)]);
}

#[test]
fn clones_are_spread_over_the_queues_of_a_server() {
    let server = Server::start(3, Wrong::Nothing);
    let share = server.share();
    assert_eq!(share.queues(), 2);
    let file = open(&share);
    let mut both = [backend(&file, 1024), backend(&file, 1024)];
    for backend in &mut both {
        backend.prep(0, &op(OpKind::Read, 1));
        assert_eq!(complete(backend, 1), [(0, BLOCK as i32)]);
    }
}

#[test]
fn the_end_of_a_file_is_a_short_read_and_an_errno_is_a_failed_op() {
    let server = Server::start(2, Wrong::Nothing);
    let share = server.share();
    let mut one = backend(&open(&share), 1);
    one.prep(0, &op(OpKind::Read, BLOCKS));
    assert_eq!(complete(&mut one, 1), [(0, 0)]);
    let missing = share.open(Path::new("/g"), ShareFlags::default());
    assert_eq!(missing.unwrap_err().kind(), std::io::ErrorKind::NotFound);
    let server = Server::start(2, Wrong::Error(-libc::EIO));
    let mut one = backend(&open(&server.share()), 1);
    one.prep(0, &op(OpKind::Read, 0));
    assert_eq!(complete(&mut one, 1), [(0, -libc::EIO)]);
}

#[test]
fn malformed_replies_and_the_end_of_the_server_are_errors() {
    for (wrong, said) in [
        (Wrong::Unique, "malformed"),
        (Wrong::Length(15), "malformed"),
        (Wrong::Length(17 + BLOCK as u32), "malformed"),
        (Wrong::Length(u32::MAX), "malformed"),
        (Wrong::Error(5), "malformed"),
        (Wrong::Error(i32::MIN), "malformed"),
        (Wrong::Unwritten, "malformed"),
        (Wrong::Twice, "not in flight"),
        (Wrong::Head(3), "not in flight"),
        (Wrong::Head(70_000), "not in flight"),
        (Wrong::Closes, "closed the connection"),
    ] {
        let server = Server::start(2, wrong);
        let file = open(&server.share());
        let mut one = backend(&file, 2);
        let mut completions = Completions::with_capacity(2);
        let deadline = Some(MonotonicClock.now() + LIMIT_NS);
        one.prep(0, &op(OpKind::Read, 0));
        // A request that is returned twice is noticed at the second time.
        let mut result = one.turn(1, 2, deadline, &mut completions);
        if result.is_ok() {
            one.prep(1, &op(OpKind::Read, 0));
            result = one.turn(1, 1, deadline, &mut completions);
        }
        let error = result.expect_err("an error");
        let text = error.source.to_string();
        assert!(text.contains(said), "{wrong:?}: {text}");
        assert!(error.what.contains("virtiofs://"), "{}", error.what);
    }
}

#[test]
fn a_request_that_is_cancelled_ends() {
    let server = Server::start(2, Wrong::Nothing);
    let mut one = backend(&open(&server.share()), 2);
    one.prep(0, &op(OpKind::Read, 0));
    one.cancel_all();
    assert_eq!(complete(&mut one, 1), [(0, -libc::ECANCELED)]);
}
