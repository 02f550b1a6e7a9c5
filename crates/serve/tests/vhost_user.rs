//! The front for virtual machine monitors, with a client that takes the place of one: it keeps the record of requests in flight, and
//! connects again after the server was killed.
#![allow(clippy::print_stderr, reason = "tells why a test is skipped")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use iodyno_mirror::PolicyKind;
use iodyno_mirror::core::Settings;
use iodyno_serve::format;
use iodyno_serve::front::{Front, Listener, Service};
use iodyno_serve::inflight::InFlightRecord;
use iodyno_serve::legs::{self, Purpose};
use iodyno_serve::nbd::Export;
use iodyno_serve::queue::{self, Task};
use iodyno_serve::vhost_user;
use iodyno_serve::virtio_blk::Disk;
use iodyno_sys::counting::{CountingAllocator, count_this_thread, counted_allocations};
use vhost::vhost_user::message::{
    VhostUserInflight, VhostUserProtocolFeatures, VhostUserVirtioFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const LENGTH: u64 = 16 << 20;
const MEMORY: u64 = 1 << 20;
/// Descriptors of the ring; each request has three.
const DESCRIPTORS: u16 = 32;
const TABLE: u64 = 0;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
const HEADERS: u64 = 0x4000;
const STATUSES: u64 = 0x5000;
const DATA: u64 = 0x10000;
const BYTES: u32 = 4096;
const IN: u32 = 0;
const OUT: u32 = 1;
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves a mirror of two files at a socket during `work`. `None`: there is no io_uring here.
fn served<T>(work: impl FnOnce(&Path) -> T) -> Option<T> {
    served_with(|socket, _, _| work(socket))
}

/// The same, with the mirror and its disk.
fn served_with<T>(work: impl FnOnce(&Path, &queue::Handle, Disk) -> T) -> Option<T> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let paths = ["a", "b"].map(|name| folder.path().join(name));
    for path in &paths {
        File::create(path).unwrap().set_len(LENGTH).unwrap();
    }
    let made = format::create(&paths, &paths, true).map(drop);
    let legs = match made.and_then(|()| legs::open(&paths, Purpose::Use)) {
        Ok(legs) => legs,
        Err(refused) => {
            eprintln!("SKIPPED: no legs here: {:?}", refused.faults);
            return None;
        }
    };
    let found = legs::assemble(&legs, false).unwrap();
    let open = legs::descriptors(&found.assembly, &legs).unwrap();
    let export = Export {
        length: found.assembly.geometry.length,
        unit: found.assembly.geometry.unit,
        rotational: false,
        trims: true,
    };
    let disk = Disk::new(export, found.assembly.mirror);
    let mirror = found.mirror(Settings::default());
    let (handle, inbox) = queue::channel(2).unwrap();
    let settings = queue::Settings {
        policy: PolicyKind::RoundRobin,
        leg_timeout_ns: u64::MAX,
        resync_rate: 1 << 30,
        seed: 1,
    };
    // Names of sockets are short.
    let sockets = tempfile::tempdir().unwrap();
    let socket = sockets.path().join("socket");
    let listener = Listener::unix(&socket).unwrap();
    std::thread::scope(|scope| {
        let stop = Stop(handle.clone());
        let server = scope
            .spawn(move || queue::run(mirror, open, settings, Task::Serve, inbox, &mut |_, _| ()));
        let front = Front::start(listener, Service::VhostUser(disk), handle.clone()).unwrap();
        let result = work(&socket, &handle, disk);
        drop(handle);
        drop(stop);
        let ended = server.join().unwrap();
        front.stop();
        match ended {
            Ok(()) => Some(result),
            Err(error) => {
                eprintln!("SKIPPED: no io_uring here: {error}");
                None
            }
        }
    })
}

struct Stop(queue::Handle);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The memory of a guest with one ring.
struct Memory(File);

impl Memory {
    fn new() -> Memory {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = File::from(rustix::fs::memfd_create("guest", flags).unwrap());
        file.set_len(MEMORY).unwrap();
        Memory(file)
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.0.write_all_at(bytes, at).unwrap();
    }

    fn read<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.read_exact_at(&mut bytes, at).unwrap();
        bytes
    }

    /// Writes the descriptors and the header of a request, with data that are all the same. Its chain begins with descriptor 3 × `number`.
    fn prepare(&self, number: u16, kind: u32, block: u64, data: u8) {
        let n = u64::from(number);
        let mut header = kind.to_le_bytes().to_vec();
        header.extend([0; 4]);
        header.extend((block * 8).to_le_bytes());
        self.write(HEADERS + 16 * n, &header);
        self.write(DATA + u64::from(BYTES) * n, &vec![data; BYTES as usize]);
        self.write(STATUSES + n, &[255]);
        let write = if kind == IN { 2 } else { 0 };
        for (place, (address, length, flags)) in (0u16..).zip([
            (HEADERS + 16 * n, 16, 1),
            (DATA + u64::from(BYTES) * n, BYTES, 1 | write),
            (STATUSES + n, 1, 2),
        ]) {
            let descriptor = 3 * number + place;
            let mut bytes = address.to_le_bytes().to_vec();
            bytes.extend(length.to_le_bytes());
            bytes.extend(u16::to_le_bytes(flags));
            bytes.extend((descriptor + 1).to_le_bytes());
            self.write(TABLE + 16 * u64::from(descriptor), &bytes);
        }
    }

    /// Makes requests available, after `before` others.
    fn offer(&self, before: u16, numbers: &[u16]) {
        for (place, number) in (before..).zip(numbers) {
            let at = AVAILABLE + 4 + 2 * u64::from(place % DESCRIPTORS);
            self.write(at, &(3 * number).to_le_bytes());
        }
        let index = before + numbers.len() as u16;
        self.write(AVAILABLE + 2, &index.to_le_bytes());
    }

    fn used(&self) -> u16 {
        u16::from_le_bytes(self.read(USED + 2))
    }

    /// The request that was the `place`-th to end.
    fn ended(&self, place: u16) -> u16 {
        let at = USED + 4 + 8 * u64::from(place % DESCRIPTORS);
        u32::from_le_bytes(self.read(at)) as u16 / 3
    }

    fn set_ended(&self, place: u16, number: u16) {
        let at = USED + 4 + 8 * u64::from(place % DESCRIPTORS);
        self.write(at, &u32::from(3 * number).to_le_bytes());
        self.write(USED + 2, &(place + 1).to_le_bytes());
    }

    fn status(&self, number: u16) -> u8 {
        self.read::<1>(STATUSES + u64::from(number))[0]
    }

    fn data(&self, number: u16) -> u8 {
        let data: [u8; BYTES as usize] = self.read(DATA + u64::from(BYTES) * u64::from(number));
        assert!(data.iter().all(|byte| *byte == data[0]));
        data[0]
    }
}

/// A connection whose ring runs.
struct Connection {
    frontend: Frontend,
    kick: EventFd,
    call: EventFd,
}

impl Connection {
    /// Connects, with a record of requests in flight if there is one. Returns the record.
    fn new(
        socket: &Path,
        memory: &Memory,
        record: Option<(VhostUserInflight, File)>,
    ) -> (Connection, (VhostUserInflight, File)) {
        Connection::of(UnixStream::connect(socket).unwrap(), memory, record)
    }

    fn of(
        stream: UnixStream,
        memory: &Memory,
        record: Option<(VhostUserInflight, File)>,
    ) -> (Connection, (VhostUserInflight, File)) {
        let mut frontend = Frontend::from_stream(stream, 1);
        frontend.set_owner().unwrap();
        let features = frontend.get_features().unwrap();
        let event_index = 1 << 29;
        let features = features & !event_index;
        assert!(features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() != 0);
        frontend.set_features(features).unwrap();
        let protocol = frontend.get_protocol_features().unwrap();
        assert!(protocol.contains(VhostUserProtocolFeatures::INFLIGHT_SHMFD));
        frontend.set_protocol_features(protocol).unwrap();
        let record = record.unwrap_or_else(|| {
            let wanted = VhostUserInflight::new(0, 0, 1, DESCRIPTORS);
            frontend.get_inflight_fd(&wanted).unwrap()
        });
        frontend
            .set_inflight_fd(&record.0, record.1.as_raw_fd())
            .unwrap();
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: MEMORY,
            // The addresses of this client are those of the guest.
            userspace_addr: 0,
            mmap_offset: 0,
            mmap_handle: memory.0.as_raw_fd(),
        };
        frontend.set_mem_table(&[region]).unwrap();
        let [kick, call] = [(); 2].map(|()| EventFd::new(EFD_NONBLOCK).unwrap());
        frontend.set_vring_num(0, DESCRIPTORS).unwrap();
        // What QEMU knows after the server has gone.
        frontend.set_vring_base(0, memory.used()).unwrap();
        let ring = VringConfigData {
            queue_max_size: DESCRIPTORS,
            queue_size: DESCRIPTORS,
            flags: 0,
            desc_table_addr: TABLE,
            used_ring_addr: USED,
            avail_ring_addr: AVAILABLE,
            log_addr: None,
        };
        frontend.set_vring_addr(0, &ring).unwrap();
        frontend.set_vring_call(0, &call).unwrap();
        frontend.set_vring_kick(0, &kick).unwrap();
        frontend.set_vring_enable(0, true).unwrap();
        let connection = Connection {
            frontend,
            kick,
            call,
        };
        (connection, record)
    }

    /// Waits until this number of requests have ended.
    fn await_used(&self, memory: &Memory, used: u16) {
        let begun = Instant::now();
        while memory.used() != used {
            // The server tells of each end.
            while self.call.read().is_err() {
                assert!(begun.elapsed() < PATIENCE, "{} have ended", memory.used());
                std::thread::yield_now();
            }
        }
    }
}

#[test]
fn requests_that_a_killed_server_left_are_carried_out_once_and_in_order() {
    served(|socket| {
        let memory = Memory::new();
        // The server had taken five of six requests. One has ended, but its mark was not removed.
        memory.prepare(0, OUT, 0, 10);
        memory.prepare(1, OUT, 0, 11);
        memory.prepare(2, IN, 5, 99);
        memory.prepare(3, OUT, 2, 13);
        memory.prepare(4, OUT, 3, 14);
        memory.prepare(5, OUT, 0, 12);
        memory.offer(0, &[3, 0, 1, 2, 5, 4]);
        let (mut record, file, length) = InFlightRecord::create(1, DESCRIPTORS).unwrap();
        for number in [3, 0, 1, 2, 5] {
            record.begins(0, 3 * number);
        }
        record.ends(0, 3 * 3);
        memory.set_ended(0, 3);
        let inflight = VhostUserInflight::new(length, 0, 1, DESCRIPTORS);
        let kept = (inflight, file.try_clone().unwrap());
        let (connection, _) = Connection::new(socket, &memory, Some(kept));
        connection.await_used(&memory, 6);
        let mut ended: Vec<u16> = (1..6).map(|place| memory.ended(place)).collect();
        ended.sort_unstable();
        assert_eq!(ended, [0, 1, 2, 4, 5]);
        for number in ended {
            assert_eq!(memory.status(number), 0, "{number}");
        }
        assert_eq!((memory.data(2), memory.status(3)), (0, 255));
        assert!(record.left(0, 6).is_empty());
        // The last write of the block counts; what had ended was not done again.
        for (number, block, value) in [(0, 0, 12), (1, 2, 0), (2, 3, 14)] {
            memory.prepare(number, IN, block, 99);
            memory.offer(6 + number, &[number]);
            connection.kick.write(1).unwrap();
            connection.await_used(&memory, 7 + number);
            assert_eq!(
                (memory.status(number), memory.data(number)),
                (0, value),
                "{block}"
            );
        }
    });
}

#[test]
fn a_client_that_connects_again_goes_on_with_its_ring() {
    served(|socket| {
        let memory = Memory::new();
        let mut record = None;
        for life in 0..3u16 {
            let (connection, kept) = Connection::new(socket, &memory, record.take());
            for number in 0..10u16 {
                let before = life * 20 + number * 2;
                memory.prepare(number, OUT, number.into(), (before + 1) as u8);
                memory.offer(before, &[number]);
                connection.kick.write(1).unwrap();
                connection.await_used(&memory, before + 1);
                assert_eq!(memory.status(number), 0);
                memory.prepare(number, IN, number.into(), 0);
                memory.offer(before + 1, &[number]);
                connection.kick.write(1).unwrap();
                connection.await_used(&memory, before + 2);
                assert_eq!(memory.data(number), (before + 1) as u8);
            }
            let told = (kept.0.mmap_size, kept.0.num_queues, kept.0.queue_size);
            assert_eq!((told.1, told.2), (1, DESCRIPTORS));
            let file = kept.1.try_clone().unwrap();
            let mut own = InFlightRecord::open(file, 0, told.0, 1, DESCRIPTORS).unwrap();
            assert!(own.left(0, memory.used()).is_empty());
            record = Some(kept);
        }
    });
}

#[test]
fn rings_go_on_although_messages_come_while_reads_are_in_flight() {
    served(|socket| {
        let memory = Memory::new();
        let (mut connection, _) = Connection::new(socket, &memory, None);
        let all: Vec<u16> = (0..10).collect();
        for round in 0..100 {
            for number in &all {
                memory.prepare(*number, IN, u64::from(*number) * 7, 99);
            }
            memory.offer(round * 10, &all);
            connection.kick.write(1).unwrap();
            assert!(connection.frontend.get_queue_num().unwrap() > 0);
            connection.await_used(&memory, (round + 1) * 10);
            assert!(all.iter().all(|number| memory.data(*number) == 0));
        }
    });
}

#[test]
fn thousands_of_requests_allocate_nothing_in_the_thread_of_a_client() {
    let counted = served_with(|_, handle, disk| {
        let (own, client) = UnixStream::pair().unwrap();
        let stopping = Arc::new(AtomicBool::new(false));
        let handle = handle.clone();
        let server = std::thread::spawn(move || {
            count_this_thread();
            vhost_user::serve(own, disk, handle, stopping)
        });
        let memory = Memory::new();
        let (connection, _) = Connection::of(client, &memory, None);
        let all: Vec<u16> = (0..10).collect();
        let rounds = |from: u16, to: u16| {
            for round in from..to {
                for number in &all {
                    let kind = if (number + round) % 3 == 0 { OUT } else { IN };
                    memory.prepare(*number, kind, u64::from(*number) * 7, 99);
                }
                memory.offer(round * 10, &all);
                connection.kick.write(1).unwrap();
                connection.await_used(&memory, (round + 1) * 10);
            }
        };
        // All lists have their length, and all regions are marked in the log.
        rounds(0, 50);
        let before = counted_allocations();
        rounds(50, 350);
        let during = counted_allocations() - before;
        drop(connection);
        // Its client has gone.
        let _ = server.join().unwrap();
        (before, during)
    });
    let Some((before, during)) = counted else {
        return;
    };
    assert!(before > 0, "the thread is counted");
    // A list may become longer than before.
    assert!(during <= 20, "{during} allocations for 3000 requests");
}
