//! The thread of a mirror, on files: it allocates nothing for a request, as counted by the allocator, and its legs can
//! take the time of simulated disks.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use iodyno_mirror::PolicyKind;
use iodyno_mirror::core::{Access, Settings};
use iodyno_serve::format;
use iodyno_serve::legs::{self, Leg, Purpose};
use iodyno_serve::queue::{self, AdminRequest, Handle, Reply, ReplyTo, Request, Task};
use iodyno_sim::Disk;
use iodyno_sys::counting::{CountingAllocator, count_this_thread, counted_allocations};
use iodyno_testing::{Loop, skip};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const LENGTH: u64 = 16 << 20;
const DEPTH: usize = 16;
const COUNT: u64 = 4_000;
const PATIENCE: Duration = Duration::from_secs(60);

fn opened(paths: &[PathBuf]) -> Option<Vec<Leg>> {
    let made = format::create(paths, paths, true).map(drop);
    let legs = made.and_then(|()| legs::open(paths, Purpose::Use));
    legs.map_err(|refused| skip(format!("no legs here: {:?}", refused.faults)))
        .ok()
}

/// Serves a mirror of two files during `work`, as [`served`].
fn served_files<T>(delay: Option<&str>, work: impl FnOnce(&Handle) -> Option<T>) -> Option<T> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let paths = ["a", "b"].map(|name| folder.path().join(name));
    served(&paths, delay, work)
}

/// Serves a mirror of these files or devices during `work`, which returns `None` if there was no reply. Missing files
/// are made. `None`: it cannot be served here.
fn served<T>(
    paths: &[PathBuf],
    delay: Option<&str>,
    work: impl FnOnce(&Handle) -> Option<T>,
) -> Option<T> {
    for path in paths.iter().filter(|path| !path.exists()) {
        File::create(path).unwrap().set_len(LENGTH).unwrap();
    }
    let legs = opened(paths)?;
    let found = legs::assemble(&legs, false).unwrap();
    let mut open = legs::descriptors(&found.assembly, &legs).unwrap();
    for leg in &mut open {
        leg.delay = delay.map(|disk| Box::new(Disk::of(&disk.parse().unwrap(), 1)));
    }
    let mirror = found.mirror(Settings::default());
    let (handle, inbox) = queue::channel(4).unwrap();
    let settings = queue::Settings {
        policy: PolicyKind::Adaptive,
        leg_timeout_ns: u64::MAX,
        resync_rate: 1 << 30,
        seed: 1,
    };
    std::thread::scope(|scope| {
        let server = scope.spawn(move || {
            count_this_thread();
            queue::run(mirror, open, settings, Task::Serve, inbox, &mut |_, _| ())
        });
        let result = work(&handle);
        handle.stop();
        match server.join().unwrap() {
            Ok(()) => Some(result.expect("a reply")),
            Err(error) => {
                skip(format!("no io_uring here: {error}"));
                None
            }
        }
    })
}

/// Writes, reads with another length, and some flushes, `DEPTH` at a time.
fn requests(
    handle: &Handle,
    reply: &ReplyTo,
    replies: &Receiver<Reply>,
    spare: &mut Vec<Vec<u8>>,
) -> Option<()> {
    for number in 0..COUNT + DEPTH as u64 {
        if number >= DEPTH as u64 {
            let ended = replies.recv_timeout(PATIENCE).ok()?;
            assert_eq!(ended.errno, 0);
            spare.push(match ended.data.is_empty() {
                true => ended.spare,
                false => ended.data,
            });
        }
        if number >= COUNT {
            continue;
        }
        let mut payload = spare.pop().expect("a buffer");
        let (access, length) = match number % 50 {
            0 => (Access::Flush, 0),
            one if one % 2 == 0 => (Access::Read, 8192),
            one => (Access::Write { fua: one % 5 == 0 }, 4096),
        };
        payload.resize(length as usize, number as u8);
        let offset = match access {
            Access::Flush => 0,
            _ => number * 7919 % 1000 * 8192,
        };
        handle.request(request(access, offset, length, payload, reply));
    }
    Some(())
}

fn request(access: Access, offset: u64, length: u32, payload: Vec<u8>, reply: &ReplyTo) -> Request {
    Request {
        access,
        offset,
        length,
        payload,
        holes: false,
        cookie: offset,
        reply: reply.clone(),
        queue: 0,
        failed: None,
    }
}

#[test]
fn thousands_of_requests_allocate_nothing_in_the_thread_of_the_mirror() {
    let counted = served_files(None, |handle| {
        let (reply, replies) = ReplyTo::new(DEPTH);
        let mut spare: Vec<_> = (0..DEPTH).map(|_| Vec::with_capacity(8192)).collect();
        // All regions are marked in the log, and all lists have their length.
        requests(handle, &reply, &replies, &mut spare)?;
        let before = counted_allocations();
        requests(handle, &reply, &replies, &mut spare)?;
        Some((before, counted_allocations() - before))
    });
    let Some((before, during)) = counted else {
        return;
    };
    assert!(before > 0, "the thread is counted");
    // The log of regions that are cleaned meanwhile has its own memory. On a slow host, that happens more often.
    let most = COUNT / 2;
    assert!(during <= most, "{during} allocations for {COUNT} requests");
}

#[test]
fn a_trimmed_range_is_a_hole_also_in_a_leg_that_is_a_device() {
    const RANGE: (u64, u32) = (1 << 20, 8 << 20);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let below = folder.path().join("below");
    File::create(&below).unwrap().set_len(LENGTH).unwrap();
    let Some(device) = Loop::on(&below) else {
        return;
    };
    let blocks = || below.metadata().unwrap().blocks();
    let found = served(
        &[device.path().into(), folder.path().join("a")],
        None,
        |handle| {
            let (reply, replies) = ReplyTo::new(1);
            let done = |access, payload: Vec<u8>, holes| {
                let request = request(access, RANGE.0, RANGE.1, payload, &reply);
                handle.request(Request { holes, ..request });
                replies.recv_timeout(PATIENCE).ok()
            };
            let write = Access::Write { fua: true };
            assert_eq!(done(write, vec![7; RANGE.1 as usize], false)?.errno, 0);
            let full = blocks();
            assert_eq!(done(write, Vec::new(), true)?.errno, 0);
            let read = done(Access::Read, Vec::new(), false)?;
            assert!(read.errno == 0 && read.data.iter().all(|byte| *byte == 0));
            Some((full, blocks()))
        },
    );
    let Some((full, trimmed)) = found else {
        return;
    };
    if !legs_make_zeros(device.as_ref()) {
        return skip("the file system does not support holes");
    }
    assert!(
        trimmed + (u64::from(RANGE.1) / 1024) < full,
        "{full} {trimmed}"
    );
}

#[test]
fn a_leg_that_was_truncated_is_dropped_and_not_filled_with_zeros_by_a_later_write() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let paths = ["a", "b"].map(|name| folder.path().join(name));
    let found = served(&paths, None, |handle| {
        let (reply, replies) = ReplyTo::new(1);
        let done = |access, offset, payload: Vec<u8>| {
            handle.request(request(access, offset, 4096, payload, &reply));
            replies.recv_timeout(PATIENCE).ok()
        };
        let write = Access::Write { fua: false };
        for block in 0..64 {
            assert_eq!(done(write, block * 4096, vec![7; 4096])?.errno, 0);
        }
        let short = File::options().write(true).open(&paths[1]).unwrap();
        short.set_len(1 << 20).unwrap();
        // Far beyond the new end.
        assert_eq!(done(write, 12 << 20, vec![8; 4096])?.errno, 0);
        for block in 0..64 {
            let read = done(Access::Read, block * 4096, Vec::new())?;
            assert!(read.errno == 0 && read.data.iter().all(|byte| *byte == 7));
        }
        let length = short.metadata().unwrap().len();
        let (ask, status) = channel();
        handle.manage(AdminRequest::Status(ask));
        Some((length, status.recv_timeout(PATIENCE).ok()?))
    });
    let Some((length, status)) = found else {
        return;
    };
    assert_eq!(length, 1 << 20, "nothing was written to it");
    let online: Vec<bool> = status.legs.iter().map(|leg| leg.online).collect();
    assert_eq!(online, [true, false]);
}

/// Whether the device has a command that makes zeros.
fn legs_make_zeros(device: &Path) -> bool {
    let name = device.file_name().unwrap().to_str().unwrap();
    let most = std::fs::read_to_string(format!("/sys/block/{name}/queue/write_zeroes_max_bytes"));
    most.is_ok_and(|bytes| bytes.trim() != "0")
}

#[test]
fn reads_of_delayed_legs_take_the_time_of_a_rotating_disk() {
    const READS: u64 = 20;
    let taken = served_files(Some("hdd*2"), |handle| {
        let (reply, replies) = ReplyTo::new(1);
        let begun = Instant::now();
        for number in 0..READS {
            let offset = number * 7919 % 3000 * 4096;
            handle.request(request(Access::Read, offset, 4096, Vec::new(), &reply));
            let ended = replies.recv_timeout(PATIENCE).ok()?;
            assert_eq!((ended.errno, ended.data.len()), (0, 4096));
        }
        Some(begun.elapsed())
    });
    // The disk turns once in 16 ms, and the angle of a read is random: half a turn on average.
    let least = Duration::from_millis(2 * READS);
    assert!(taken.is_none_or(|taken| taken >= least), "{taken:?}");
}

#[test]
fn a_request_that_the_mirror_does_not_accept_before_its_end_is_answered() {
    const ESHUTDOWN: i32 = 108;
    let (handle, inbox) = queue::channel(0).unwrap();
    let (reply, replies) = ReplyTo::new(2);
    // One before the end, one after it.
    handle.request(request(Access::Read, 0, 4096, vec![1; 4096], &reply));
    drop(inbox);
    handle.request(request(Access::Flush, 4096, 0, Vec::new(), &reply));
    drop(reply);
    let answers = replies.iter().map(|reply| {
        let (cookie, errno, length) = (reply.cookie, reply.errno, reply.length);
        (cookie, errno, length, reply.into_buffer().len())
    });
    let expected = [(0, ESHUTDOWN, 4096, 4096), (4096, ESHUTDOWN, 0, 0)];
    assert_eq!(answers.collect::<Vec<_>>(), expected);
}
