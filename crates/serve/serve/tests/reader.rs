//! Queues that read from legs on their own threads, on files.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use iodyno_mirror::PolicyKind;
use iodyno_mirror::core::{Access, Notice, Settings};
use iodyno_mirror::superblock::DATA;
use iodyno_serve::format;
use iodyno_serve::legs::{self, Purpose};
use iodyno_serve::queue::{self, AdminRequest, Handle, Reply, ReplyTo, Request, Status, Task};
use iodyno_serve::reader::{Outcome, Reader};
use iodyno_sys::counting::{CountingAllocator, count_this_thread, counted_allocations};
use iodyno_testing::skip;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const LENGTH: u64 = 16 << 20;
const BLOCK: u32 = 4096;
const BLOCKS: u64 = 256;
const PATIENCE: Duration = Duration::from_secs(60);

struct Served<'a> {
    handle: &'a Handle,
    legs: &'a [PathBuf],
    notices: &'a Mutex<Vec<Notice>>,
}

/// Serves a mirror of these files, with this number of queues, during `work`. `None`: io_uring is unavailable.
fn served<T>(legs: usize, queues: u32, work: impl FnOnce(&Served<'_>) -> T) -> Option<T> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let paths: Vec<PathBuf> = (0..legs)
        .map(|leg| folder.path().join(leg.to_string()))
        .collect();
    for path in &paths {
        File::create(path).unwrap().set_len(LENGTH).unwrap();
    }
    let made = format::create(&paths, &paths, true).map(drop);
    let open = made.and_then(|()| legs::open(&paths, Purpose::Use));
    let legs = match open {
        Ok(legs) => legs,
        Err(refused) => {
            skip(format!("no legs here: {:?}", refused.faults));
            return None;
        }
    };
    let found = legs::assemble(&legs, false).unwrap();
    let open = legs::descriptors(&found.assembly, &legs).unwrap();
    let mirror = found.mirror(Settings::default());
    let (handle, inbox) = queue::channel(queues).unwrap();
    let settings = queue::Settings {
        policy: PolicyKind::RoundRobin,
        leg_timeout_ns: u64::MAX,
        resync_rate: 1 << 30,
        seed: 1,
    };
    let notices = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let mut notice = |notice: Notice, _: &[String]| notices.lock().unwrap().push(notice);
        let server = scope
            .spawn(move || queue::run(mirror, open, settings, Task::Serve, inbox, &mut notice));
        // Also if the test fails.
        let stop = Stop(handle.clone());
        let result = status(&handle).map(|_| {
            work(&Served {
                handle: &handle,
                legs: &paths,
                notices: &notices,
            })
        });
        drop(stop);
        match server.join().unwrap() {
            Ok(()) => Some(result.expect("a state")),
            Err(error) => {
                skip(format!("no io_uring here: {error}"));
                None
            }
        }
    })
}

struct Stop(Handle);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The state of a started mirror.
fn status(handle: &Handle) -> Option<Status> {
    let (reply, status) = std::sync::mpsc::channel();
    handle.manage(AdminRequest::Status(reply));
    status.recv_timeout(PATIENCE).ok()
}

/// A thread of a queue: it writes by the mirror, and reads itself.
struct Client {
    handle: Handle,
    reader: Reader,
    reply: ReplyTo,
    replies: Receiver<Reply>,
}

impl Client {
    fn new(handle: &Handle) -> Client {
        let reader = Reader::new(handle, 0).unwrap();
        let (reply, replies) = ReplyTo::new(64);
        Client {
            handle: handle.clone(),
            reader,
            reply,
            replies,
        }
    }

    fn send(
        &self,
        access: Access,
        block: u64,
        payload: Vec<u8>,
        failed: Option<(usize, i32)>,
    ) -> Reply {
        self.handle.request(Request {
            access,
            offset: block * u64::from(BLOCK),
            length: if access == Access::Flush { 0 } else { BLOCK },
            payload,
            holes: false,
            cookie: block,
            reply: self.reply.clone(),
            queue: self.reader.queue(),
            failed,
        });
        self.replies.recv_timeout(PATIENCE).expect("a reply")
    }

    fn write(&self, block: u64, value: u64) {
        let payload = value.to_le_bytes().repeat(BLOCK as usize / 8);
        let reply = self.send(Access::Write { fua: false }, block, payload, None);
        assert_eq!(reply.errno, 0);
    }

    /// Reads blocks concurrently, by the queue if allowed. Calls `each` with the block, the value in it, and whether
    /// the mirror had to read it because a leg failed.
    fn read(&mut self, blocks: &[u64], mut each: impl FnMut(u64, u64, bool)) {
        let mut open = 0;
        // A thread with reads in its ring waits only on the ring.
        let mut others = Vec::new();
        for block in blocks {
            match self.reader.read(*block, block * u64::from(BLOCK), BLOCK) {
                true => open += 1,
                false => others.push((*block, None)),
            }
        }
        while open > 0 {
            self.reader.turn(None).unwrap();
            while let Some(ended) = self.reader.ended() {
                open -= 1;
                match ended.outcome {
                    Outcome::Read { .. } => {
                        each(ended.cookie, value(self.reader.bytes(&ended)), false);
                    }
                    Outcome::HandedOver(failed) => others.push((ended.cookie, failed)),
                }
            }
        }
        for (block, failed) in others {
            let reply = self.send(Access::Read, block, Vec::new(), failed);
            assert_eq!(reply.errno, 0);
            each(block, value(&reply.data), failed.is_some());
        }
    }
}

/// The value that fills a block.
fn value(bytes: &[u8]) -> u64 {
    let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(
        bytes
            .chunks_exact(8)
            .all(|part| part == value.to_le_bytes()),
        "a torn block"
    );
    value
}

#[test]
fn queues_see_what_was_acknowledged_before_they_read() {
    served(3, 4, |served| {
        // The number of the last write of each block that was acknowledged. Each block has one writer.
        let acked: Vec<AtomicU64> = (0..BLOCKS).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (acked, handle) = (&acked, served.handle);
                scope.spawn(move || {
                    let mut client = Client::new(handle);
                    assert!(client.reader.queue() > 0);
                    for round in 1..400u64 {
                        let block = (round * 7919 + number) % (BLOCKS / 4) * 4 + number;
                        client.write(block, round);
                        acked[block as usize].store(round, Ordering::Release);
                        let blocks: Vec<u64> =
                            (0..16).map(|n| (round * 31 + n * n) % BLOCKS).collect();
                        let bounds: Vec<u64> = (blocks.iter())
                            .map(|block| acked[*block as usize].load(Ordering::Acquire))
                            .collect();
                        let check = |block: u64, value: u64, _: bool| {
                            let at = blocks.iter().position(|one| *one == block).unwrap();
                            assert!(value >= bounds[at], "block {block}: {value} {}", bounds[at]);
                        };
                        client.read(&blocks, check);
                    }
                });
            }
        });
        assert_eq!(*served.notices.lock().unwrap(), [Notice::Recorded]);
    });
}

#[test]
fn a_thread_without_a_queue_reads_by_the_mirror() {
    served(1, 1, |served| {
        let mut first = Client::new(served.handle);
        let mut second = Client::new(served.handle);
        assert_eq!((first.reader.queue(), second.reader.queue()), (1, 0));
        first.write(3, 7);
        // Its region was marked in the log by the write, and not by a difference.
        assert!(first.reader.read(0, 0, BLOCK) && !second.reader.read(0, 0, BLOCK));
        first.reader.turn(None).unwrap();
        while first.reader.is_busy() {
            first.reader.ended();
            first.reader.turn(None).unwrap();
        }
        first.reader.ended();
        second.read(&[3], |_, value, _| assert_eq!(value, 7));
        drop(first);
        assert_eq!(
            Client::new(served.handle).reader.queue(),
            1,
            "it is free again"
        );
        // Nothing that is not aligned, or outside of the mirror, or longer than a slot.
        for (offset, length) in [(1, BLOCK), (LENGTH, BLOCK), (0, 2 << 20)] {
            assert!(!second.reader.read(0, offset, length));
        }
    });
}

#[test]
fn what_a_queue_cannot_read_is_read_from_another_leg_and_a_short_leg_is_dropped() {
    served(2, 2, |served| {
        let mut client = Client::new(served.handle);
        for block in 0..BLOCKS {
            client.write(block, block + 1);
        }
        // The second leg ends within its data.
        let shortened = OpenOptions::new()
            .write(true)
            .open(&served.legs[1])
            .unwrap();
        shortened.set_len(DATA + 8 * u64::from(BLOCK)).unwrap();
        let blocks: Vec<u64> = (0..BLOCKS).collect();
        let mut failed = 0;
        client.read(&blocks, |block, value, repaired| {
            assert_eq!(value, block + 1);
            failed += u64::from(repaired);
        });
        assert!(failed > 0, "the policy takes turns");
        // It is not written to repair it, because that would make it longer again.
        let is_dropped = || {
            let notices = served.notices.lock().unwrap();
            notices
                .iter()
                .any(|notice| matches!(notice, Notice::Dropped { leg: 1, .. }))
        };
        while !is_dropped() {
            std::thread::yield_now();
        }
        client.read(&blocks, |block, value, _| assert_eq!(value, block + 1));
        let reply = client.send(Access::Flush, 0, Vec::new(), None);
        assert_eq!(reply.errno, 0);
        assert_eq!(status(served.handle).unwrap().legs[1].in_flight, 0);
    });
}

#[test]
fn the_file_of_a_removed_leg_is_closed_by_all_queues() {
    served(2, 2, |served| {
        let open = || open_files(&served.legs[1]);
        let before = open();
        let mut clients = [(); 2].map(|()| Client::new(served.handle));
        for client in &mut clients {
            client.write(0, 5);
            client.read(&[0, 1, 2, 3, 0], |block, value, _| {
                assert!(block != 0 || value == 5);
            });
        }
        assert_eq!(open(), before + 2, "both queues");
        // Those of the mirror and of the table of its queues are closed as well.
        let kept = before - 2;
        let uuid = status(served.handle).unwrap().legs[1].member.uuid;
        let (reply, answer) = std::sync::mpsc::channel();
        served.handle.manage(AdminRequest::Remove { uuid, reply });
        assert_eq!(answer.recv_timeout(PATIENCE), Ok(Ok(())));
        for client in &mut clients {
            // It was woken for this.
            while !client.reader.woken() {
                client.reader.turn(None).unwrap();
            }
            client.reader.turn(Some(0)).unwrap();
            client.read(&[0], |_, value, _| assert_eq!(value, 5));
        }
        // The thread of the mirror closes its own at its next look.
        while open() > kept {
            status(served.handle);
        }
    });
}

/// How many descriptors of this process are of a file.
fn open_files(path: &Path) -> usize {
    let path = path.canonicalize().unwrap();
    let all = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| *link == path).count()
}

#[test]
fn thousands_of_reads_allocate_nothing_in_the_thread_of_a_queue() {
    let during = served(2, 1, |served| {
        let mut client = Client::new(served.handle);
        let blocks: Vec<u64> = (0..16).map(|number| number * 37 % BLOCKS).collect();
        count_this_thread();
        let mut rounds = |count: u64| {
            let before = counted_allocations();
            for _ in 0..count {
                client.read(&blocks, |_, _, _| ());
            }
            counted_allocations() - before
        };
        rounds(20);
        rounds(200)
    });
    // A list may become longer than before.
    assert!(during.is_none_or(|during| during <= 20), "{during:?}");
}

#[test]
fn the_content_of_all_legs_is_the_same_at_the_end() {
    served(3, 2, |served| {
        let mut client = Client::new(served.handle);
        for block in 0..BLOCKS {
            client.write(block, block * 3 + 1);
        }
        client.read(&[1, 2, 3], |block, value, _| {
            assert_eq!(value, block * 3 + 1)
        });
        for leg in served.legs {
            let file = File::open(leg).unwrap();
            let mut bytes = vec![0; BLOCK as usize];
            for block in 0..BLOCKS {
                file.read_exact_at(&mut bytes, DATA + block * u64::from(BLOCK))
                    .unwrap();
                assert_eq!(value(&bytes), block * 3 + 1);
            }
        }
    });
}
