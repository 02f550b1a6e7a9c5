//! The front for virtual machine monitors, with a client that takes the place of one: it keeps the record of requests
//! in flight, and connects again after the server was killed.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iodyno_mirror::PolicyKind;
use iodyno_mirror::core::Settings;
use iodyno_serve::format;
use iodyno_serve::front::{Front, Listener, Service};
use iodyno_serve::legs::{self, Purpose};
use iodyno_serve::nbd::Export;
use iodyno_serve::queue::{self, Task};
use iodyno_serve::vhost_user;
use iodyno_serve::virtio_blk::Disk;
use iodyno_sys::counting::{CountingAllocator, count_this_thread, counted_allocations};
use iodyno_testing::skip;
use iodyno_vhost::InFlightRecord;
use vhost::vhost_user::message::{
    VhostUserInflight, VhostUserProtocolFeatures, VhostUserVirtioFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const LENGTH: u64 = 16 << 20;
/// Of each ring. The memory of a guest is longer.
const RING: u64 = 1 << 20;
const RINGS: u16 = 4;
const MEMORY: u64 = RING * RINGS as u64;
/// Descriptors of a ring; each request has three.
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

/// Serves a mirror of two files at a socket during `work`. `None`: io_uring is unavailable.
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
            skip(format!("no legs here: {:?}", refused.faults));
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
    // Of four rings, two share a thread.
    let (handle, inbox) = queue::channel(3).unwrap();
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
                skip(format!("no io_uring here: {error}"));
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

/// The part of a guest's memory that a ring has.
struct Memory {
    file: File,
    /// Its start, and the address of the guest.
    base: u64,
}

impl Memory {
    fn new() -> Memory {
        Memory::named("guest")
    }

    /// Its name is in the list of mappings.
    fn named(name: &str) -> Memory {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = File::from(rustix::fs::memfd_create(name, flags).unwrap());
        file.set_len(2 * MEMORY).unwrap();
        Memory { file, base: 0 }
    }

    /// The part of another ring of the same guest.
    fn of_ring(&self, number: u16) -> Memory {
        Memory {
            file: self.file.try_clone().unwrap(),
            base: u64::from(number) * RING,
        }
    }

    /// The region of the guest, of this length.
    fn region(&self, length: u64) -> VhostUserMemoryRegionInfo {
        VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: length,
            // The addresses of this client are those of the guest.
            userspace_addr: 0,
            mmap_offset: 0,
            mmap_handle: self.file.as_raw_fd(),
        }
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, self.base + at).unwrap();
    }

    fn read<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.file.read_exact_at(&mut bytes, self.base + at).unwrap();
        bytes
    }

    /// Writes the descriptors and the header of a request, with data that are all the same. Its chain begins with
    /// descriptor 3 × `number`.
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
            let mut bytes = (self.base + address).to_le_bytes().to_vec();
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

/// The events of a ring that runs.
struct Events {
    kick: EventFd,
    call: EventFd,
}

impl Events {
    /// Waits until this number of requests have ended.
    fn await_used(&self, memory: &Memory, used: u16) {
        let begun = Instant::now();
        while memory.used() != used {
            // The server signals each completion.
            while self.call.read().is_err() {
                assert!(begun.elapsed() < PATIENCE, "{} have ended", memory.used());
                std::thread::yield_now();
            }
        }
    }
}

/// A connection whose first ring runs.
struct Connection {
    frontend: Frontend,
    events: Events,
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
        let mut frontend = Frontend::from_stream(stream, RINGS.into());
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
            let wanted = VhostUserInflight::new(0, 0, RINGS, DESCRIPTORS);
            frontend.get_inflight_fd(&wanted).unwrap()
        });
        frontend
            .set_inflight_fd(&record.0, record.1.as_raw_fd())
            .unwrap();
        frontend.set_mem_table(&[memory.region(MEMORY)]).unwrap();
        let events = run_ring(&mut frontend, 0, memory);
        (Connection { frontend, events }, record)
    }

    /// Another ring runs.
    fn add(&mut self, number: u16, memory: &Memory) -> Events {
        run_ring(&mut self.frontend, number, memory)
    }

    /// Waits until the server has processed the earlier messages.
    fn barrier(&mut self) {
        assert!(self.frontend.get_queue_num().unwrap() > 0);
    }
}

/// A ring begins to run.
fn run_ring(frontend: &mut Frontend, number: u16, memory: &Memory) -> Events {
    let index = usize::from(number);
    let [kick, call] = [(); 2].map(|()| EventFd::new(EFD_NONBLOCK).unwrap());
    frontend.set_vring_num(index, DESCRIPTORS).unwrap();
    // QEMU's knowledge after the server has gone.
    frontend.set_vring_base(index, memory.used()).unwrap();
    let ring = VringConfigData {
        queue_max_size: DESCRIPTORS,
        queue_size: DESCRIPTORS,
        flags: 0,
        desc_table_addr: memory.base + TABLE,
        used_ring_addr: memory.base + USED,
        avail_ring_addr: memory.base + AVAILABLE,
        log_addr: None,
    };
    frontend.set_vring_addr(index, &ring).unwrap();
    frontend.set_vring_call(index, &call).unwrap();
    frontend.set_vring_kick(index, &kick).unwrap();
    frontend.set_vring_enable(index, true).unwrap();
    Events { kick, call }
}

/// Lengths of the mappings of a guest's memory in this process, bytes.
fn mapped(name: &str) -> Vec<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let ours = maps.lines().filter(|line| line.contains(name));
    let length = |line: &str| {
        let range = line.split_whitespace().next().unwrap();
        let (from, to) = range.split_once('-').unwrap();
        let [from, to] = [from, to].map(|text| u64::from_str_radix(text, 16).unwrap());
        to - from
    };
    ours.map(length).collect()
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
        let (mut record, file, length) = InFlightRecord::create(RINGS, DESCRIPTORS).unwrap();
        for number in [3, 0, 1, 2, 5] {
            record.begins(0, 3 * number);
        }
        record.ends(0, 3 * 3);
        memory.set_ended(0, 3);
        let inflight = VhostUserInflight::new(length, 0, RINGS, DESCRIPTORS);
        let kept = (inflight, file.try_clone().unwrap());
        let (connection, _) = Connection::new(socket, &memory, Some(kept));
        connection.events.await_used(&memory, 6);
        let mut ended: Vec<u16> = (1..6).map(|place| memory.ended(place)).collect();
        ended.sort_unstable();
        assert_eq!(ended, [0, 1, 2, 4, 5]);
        for number in ended {
            assert_eq!(memory.status(number), 0, "{number}");
        }
        assert_eq!((memory.data(2), memory.status(3)), (0, 255));
        assert!(record.left(0, 6).is_empty());
        // The last write of the block counts; completed ones were not repeated.
        for (number, block, value) in [(0, 0, 12), (1, 2, 0), (2, 3, 14)] {
            memory.prepare(number, IN, block, 99);
            memory.offer(6 + number, &[number]);
            connection.events.kick.write(1).unwrap();
            connection.events.await_used(&memory, 7 + number);
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
                connection.events.kick.write(1).unwrap();
                connection.events.await_used(&memory, before + 1);
                assert_eq!(memory.status(number), 0);
                memory.prepare(number, IN, number.into(), 0);
                memory.offer(before + 1, &[number]);
                connection.events.kick.write(1).unwrap();
                connection.events.await_used(&memory, before + 2);
                assert_eq!(memory.data(number), (before + 1) as u8);
            }
            let told = (kept.0.mmap_size, kept.0.num_queues, kept.0.queue_size);
            assert_eq!((told.1, told.2), (RINGS, DESCRIPTORS));
            let file = kept.1.try_clone().unwrap();
            let mut own = InFlightRecord::open(file, 0, told.0, RINGS, DESCRIPTORS).unwrap();
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
            connection.events.kick.write(1).unwrap();
            assert!(connection.frontend.get_queue_num().unwrap() > 0);
            connection.events.await_used(&memory, (round + 1) * 10);
            assert!(all.iter().all(|number| memory.data(*number) == 0));
        }
    });
}

#[test]
fn what_a_killed_server_left_in_each_ring_is_carried_out_by_the_thread_of_the_ring() {
    served(|socket| {
        let memory = Memory::new();
        let rings: Vec<Memory> = (0..RINGS).map(|number| memory.of_ring(number)).collect();
        let (mut record, file, length) = InFlightRecord::create(RINGS, DESCRIPTORS).unwrap();
        // Each ring has its own block, which is written twice.
        for (number, ring) in (0u16..).zip(&rings) {
            ring.prepare(0, OUT, number.into(), 100 + number as u8);
            ring.prepare(1, OUT, number.into(), 200 + number as u8);
            ring.offer(0, &[0, 1]);
            record.begins(number, 0);
            record.begins(number, 3);
        }
        let inflight = VhostUserInflight::new(length, 0, RINGS, DESCRIPTORS);
        let kept = (inflight, file.try_clone().unwrap());
        let (mut connection, _) = Connection::new(socket, &rings[0], Some(kept));
        let others = (1..RINGS).map(|number| connection.add(number, &rings[usize::from(number)]));
        let others: Vec<Events> = others.collect();
        let events: Vec<&Events> = std::iter::once(&connection.events).chain(&others).collect();
        for (number, ring) in rings.iter().enumerate() {
            events[number].await_used(ring, 2);
            ring.prepare(2, IN, number as u64, 0);
            ring.offer(2, &[2]);
            events[number].kick.write(1).unwrap();
            events[number].await_used(ring, 3);
            assert_eq!((ring.status(2), ring.data(2)), (0, 200 + number as u8));
            assert!(record.left(number as u16, 3).is_empty());
        }
    });
}

/// A guest that writes and reads its own blocks through a ring until stopped. Returns the number of requests.
fn load(ring: &Memory, events: &Events, number: u16, stop: &AtomicBool) -> u16 {
    let mut offered = 0u16;
    let mut value = 0u8;
    while !stop.load(Ordering::Relaxed) {
        value = value.wrapping_add(1);
        for kind in [OUT, IN] {
            let all: Vec<u16> = (0..5).collect();
            for place in &all {
                let block = u64::from(number) * 100 + u64::from(*place);
                ring.prepare(*place, kind, block, if kind == OUT { value } else { 0 });
            }
            ring.offer(offered, &all);
            offered = offered.wrapping_add(5);
            events.kick.write(1).unwrap();
            events.await_used(ring, offered);
            for place in &all {
                assert_eq!((ring.status(*place), ring.data(*place)), (0, value));
            }
        }
    }
    offered
}

#[test]
fn rings_are_drained_before_they_stop_and_before_memory_is_unmapped() {
    served(|socket| {
        let name = "guest-drained";
        let memory = Memory::named(name);
        let rings: Vec<Memory> = (0..RINGS).map(|number| memory.of_ring(number)).collect();
        let (mut connection, kept) = Connection::new(socket, &rings[0], None);
        let mut record = {
            let file = kept.1.try_clone().unwrap();
            InFlightRecord::open(file, 0, kept.0.mmap_size, RINGS, DESCRIPTORS).unwrap()
        };
        let others = (1..RINGS).map(|number| connection.add(number, &rings[usize::from(number)]));
        let others: Vec<Events> = others.collect();
        let stop = AtomicBool::new(false);
        let first = Events {
            kick: connection.events.kick.try_clone().unwrap(),
            call: connection.events.call.try_clone().unwrap(),
        };
        let all: Vec<&Events> = std::iter::once(&first).chain(&others).collect();
        std::thread::scope(|scope| {
            let stop = Halt(&stop);
            for (number, (ring, events)) in (0u16..).zip(rings.iter().zip(&all)) {
                let stop = stop.0;
                scope.spawn(move || load(ring, events, number, stop));
            }
            for round in 0..40u64 {
                // All memory is exchanged.
                let length = MEMORY * (1 + round % 2);
                let table = [memory.region(length)];
                connection.frontend.set_mem_table(&table).unwrap();
                connection.barrier();
                assert_eq!(mapped(name), [length], "{round}");
                // A part of it comes and goes.
                let more = VhostUserMemoryRegionInfo {
                    guest_phys_addr: 1 << 40,
                    userspace_addr: 1 << 40,
                    ..memory.region(RING)
                };
                connection.frontend.add_mem_region(&more).unwrap();
                connection.barrier();
                assert_eq!(mapped(name).len(), 2, "{round}");
                connection.frontend.remove_mem_region(&more).unwrap();
                connection.barrier();
                assert_eq!(mapped(name), [length], "{round}");
                // A ring stops, and continues.
                let number = (round % u64::from(RINGS)) as u16;
                let index = usize::from(number);
                let base = connection.frontend.get_vring_base(index).unwrap() as u16;
                assert_eq!(base, rings[index].used(), "all that were taken have ended");
                assert!(record.left(number, base).is_empty());
                let frontend = &mut connection.frontend;
                frontend.set_vring_base(index, base).unwrap();
                frontend.set_vring_call(index, &all[index].call).unwrap();
                frontend.set_vring_kick(index, &all[index].kick).unwrap();
                connection.barrier();
            }
        });
    });
}

/// Stops the load, even when a check has failed.
struct Halt<'a>(&'a AtomicBool);

impl Drop for Halt<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_client_that_leaves_with_requests_in_flight_leaves_no_memory_mapped() {
    served_with(|socket, handle, disk| {
        let name = "guest-left";
        for round in 0..20 {
            let (own, client) = UnixStream::pair().unwrap();
            let handle = handle.clone();
            let stopping = Arc::new(AtomicBool::new(false));
            let server = std::thread::spawn(move || vhost_user::serve(own, disk, handle, stopping));
            let memory = Memory::named(name);
            let rings: Vec<Memory> = (0..RINGS).map(|number| memory.of_ring(number)).collect();
            let (mut connection, _) = Connection::of(client, &rings[0], None);
            let others =
                (1..RINGS).map(|number| connection.add(number, &rings[usize::from(number)]));
            let others: Vec<Events> = others.collect();
            connection.barrier();
            assert_eq!(mapped(name), [MEMORY], "{round}");
            let all = std::iter::once(&connection.events).chain(&others);
            for (ring, events) in rings.iter().zip(all) {
                for place in 0..10 {
                    let kind = if place % 2 == 0 { IN } else { OUT };
                    ring.prepare(place, kind, place.into(), 1);
                }
                ring.offer(0, &(0..10).collect::<Vec<_>>());
                events.kick.write(1).unwrap();
            }
            drop(connection);
            // Its client has gone.
            let _ = server.join().unwrap();
            assert_eq!(mapped(name), [0; 0], "{round}");
        }
        // Its queues are free again, and the mirror continues.
        let memory = Memory::new();
        let (connection, _) = Connection::new(socket, &memory, None);
        memory.prepare(0, IN, 50, 99);
        memory.offer(0, &[0]);
        connection.events.kick.write(1).unwrap();
        connection.events.await_used(&memory, 1);
        assert_eq!((memory.status(0), memory.data(0)), (0, 0));
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
                connection.events.kick.write(1).unwrap();
                connection.events.await_used(&memory, (round + 1) * 10);
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

#[test]
fn a_reset_device_keeps_no_features() {
    served(|socket| {
        let memory = Memory::new();
        let (mut client, _) = Connection::new(socket, &memory, None);
        let features = client.frontend.get_features().unwrap();
        assert!(features & (1 << 29) != 0, "the event index");
        client.frontend.set_features(features).unwrap();
        client.frontend.reset_owner().unwrap();
        client.frontend.set_owner().unwrap();
        let region = memory.region(MEMORY);
        client.frontend.set_mem_table(&[region]).unwrap();
        // With the event index, this would request no event before the thousandth completion.
        let used_event = AVAILABLE + 4 + 2 * u64::from(DESCRIPTORS);
        memory.write(used_event, &1000u16.to_le_bytes());
        let events = client.add(0, &memory);
        // Otherwise the ring of the first life may take the request as well.
        client.barrier();
        memory.prepare(0, OUT, 0, 7);
        memory.offer(0, &[0]);
        events.kick.write(1).unwrap();
        let begun = Instant::now();
        while events.call.read().is_err() {
            assert!(begun.elapsed() < PATIENCE, "{} have ended", memory.used());
            std::thread::yield_now();
        }
        assert_eq!((memory.used(), memory.status(0)), (1, 0));
    });
}
