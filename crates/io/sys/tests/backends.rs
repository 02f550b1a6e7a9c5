//! Tests of every backend through the trait, on a file and on a loop device.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use iodyno_model::errno::{EBADF, ECANCELED, EFAULT, EINTR, EINVAL, EIO, ENOSPC, EOPNOTSUPP};
use iodyno_model::{Engine, EngineKind};
use iodyno_sys::memory::Arena;
use iodyno_sys::{
    AioBackend, Backend, BackendError, Clock, Completion, Completions, File, MappedFiles,
    MonotonicClock, NullBackend, Op, OpKind, PosixAioBackend, Psync, Pvsync2, SeekSync, Slot,
    SyncBackend, SyncCalls, SystemCalls, UringBackend,
};
use iodyno_testing::{Loop, run, skip};
use tempfile::TempDir;

const BLOCK: u32 = 4096;
const DEPTH: u32 = 8;
/// Longer than any op takes, ns: the test of an op that hangs fails.
const WATCHDOG_NS: u64 = 120_000_000_000;

/// A backend with one file.
struct Subject {
    name: &'static str,
    backend: Box<dyn Backend>,
    completions: Completions,
}

impl Subject {
    fn new(name: &'static str, backend: Box<dyn Backend>) -> Subject {
        let completions = Completions::with_capacity(DEPTH);
        Subject {
            name,
            backend,
            completions,
        }
    }

    /// Executes the ops. Returns their completions, by slot.
    fn run(&mut self, ops: &[(Slot, Op)]) -> Vec<Completion> {
        let begun = MonotonicClock.now();
        let (mut prepared, mut done) = (0, Vec::new());
        while done.len() < ops.len() {
            while self.backend.room() > 0 && prepared < ops.len() {
                let (slot, op) = ops[prepared];
                self.backend.prep(slot, &op);
                prepared += 1;
            }
            self.turn((prepared - done.len()) as u32, DEPTH, begun + WATCHDOG_NS);
            done.extend_from_slice(&self.completions.list);
            let now = MonotonicClock.now();
            assert!(now < begun + WATCHDOG_NS, "{} hangs", self.name);
        }
        let ended = MonotonicClock.now();
        for one in &done {
            let stamps = [begun, one.submitted, one.completed, ended];
            assert!(stamps.is_sorted(), "{}: {stamps:?}", self.name);
        }
        done.sort_unstable_by_key(|completion| completion.slot);
        let found: Vec<Slot> = done.iter().map(|completion| completion.slot).collect();
        let mut expected: Vec<Slot> = ops.iter().map(|(slot, _)| *slot).collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "{}: completed slots", self.name);
        done
    }

    fn results(&mut self, ops: &[(Slot, Op)]) -> Vec<i32> {
        self.run(ops).iter().map(|one| one.result).collect()
    }

    fn turn(&mut self, min: u32, max: u32, deadline: u64) {
        self.backend
            .turn(min, max, Some(deadline), &mut self.completions)
            .unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }
}

/// An op on the block of this number.
fn op(kind: OpKind, block: u64) -> Op {
    let synced = matches!(kind, OpKind::Fsync | OpKind::Fdatasync);
    Op::new(
        kind,
        0,
        block * u64::from(BLOCK),
        if synced { 0 } else { BLOCK },
    )
}

fn arena() -> Arena {
    Arena::new(DEPTH, BLOCK as usize, 0, false).unwrap()
}

fn boxed<B: Backend + 'static>(backend: B) -> Box<dyn Backend> {
    Box::new(backend)
}

fn synchronous<S: SyncCalls + 'static>(calls: S, file: File) -> Box<dyn Backend> {
    let files = vec![file];
    boxed(SyncBackend::new(SystemCalls { calls, files }, arena()))
}

/// Every backend that this kernel supports, on the file that `open` opens, and on a mapping of its first
/// `mapped` bytes unless that is 0.
fn subjects(open: impl Fn() -> File, mapped: u64) -> Vec<Subject> {
    let engine = |kind| Engine::new(kind, DEPTH);
    let uring = |change: &dyn Fn(&mut Engine)| -> Result<Box<dyn Backend>, BackendError> {
        let mut engine = engine(EngineKind::IoUring);
        change(&mut engine);
        UringBackend::new(vec![open()], arena(), &engine).map(boxed)
    };
    let pvsync2 = Pvsync2::new(&engine(EngineKind::Pvsync2));
    let libaio = AioBackend::new(vec![open()], arena(), &engine(EngineKind::Libaio));
    let blocking_syncs = || {
        let backend = AioBackend::new(vec![open()], arena(), &engine(EngineKind::Libaio));
        backend.map(AioBackend::with_blocking_syncs)
    };
    let posixaio = PosixAioBackend::new(vec![open()], arena());
    let unregistered = |engine: &mut Engine| {
        engine.fixed_buffers = Some(false);
        engine.registered_files = Some(false);
    };
    let mut all = vec![
        ("psync", Ok(synchronous(Psync, open()))),
        ("sync", Ok(synchronous(SeekSync, open()))),
        ("pvsync2", Ok(synchronous(pvsync2, open()))),
        ("libaio", libaio.map(boxed)),
        ("libaio, blocking syncs", blocking_syncs().map(boxed)),
        ("posixaio", Ok(boxed(posixaio))),
        ("io_uring", uring(&|_| ())),
        ("io_uring, unregistered", uring(&unregistered)),
        ("io_uring, sqpoll", uring(&|one| one.sqthread_poll = true)),
        ("io_uring, async", uring(&|one| one.force_async = true)),
        (
            "io_uring, every third async",
            uring(&|one| (one.force_async, one.force_async_every) = (true, 3)),
        ),
    ];
    if mapped > 0 {
        let files = MappedFiles::new(vec![(open(), 0, mapped)], true);
        let backend = files.map(|files| boxed(SyncBackend::new(files, arena())));
        all.push(("mmap", backend));
    }
    let made = all.into_iter().filter_map(|(name, made)| match made {
        Ok(backend) => Some(Subject::new(name, backend)),
        Err(error) => {
            skip(format!("{name}: {error}: {}", error.source));
            None
        }
    });
    made.collect()
}

/// The backends that accept several ops at once.
fn queueing(all: Vec<Subject>) -> impl Iterator<Item = Subject> {
    all.into_iter().filter(|one| one.backend.room() > 1)
}

/// A file with these bytes, in its own folder.
fn file_of(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn open(path: &Path, write: bool, direct: bool) -> File {
    const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
    let mut options = OpenOptions::new();
    options.read(true).write(write);
    options.custom_flags(if direct { O_DIRECT } else { 0 });
    File {
        descriptor: options.open(path).unwrap().into(),
        device: path.starts_with("/dev"),
    }
}

fn sh(script: &str) -> Result<String, String> {
    run(&["sh", "-ec", script])
}

/// Writes blocks 1, 3 and 5 with different bytes, syncs, and reads them into other buffers.
fn writes_and_reads(subject: &mut Subject, pattern: u8) {
    let name = subject.name;
    let blocks = [(0, 1), (1, 3), (2, 5)];
    let byte = |slot: Slot| pattern + slot as u8 + 1;
    for (slot, _) in blocks {
        subject.backend.buffer(slot).fill(byte(slot));
    }
    let writes = blocks.map(|(slot, block)| (slot, op(OpKind::Write, block)));
    assert_eq!(subject.results(&writes), [BLOCK as i32; 3], "{name}");
    for sync in [OpKind::Fsync, OpKind::Fdatasync] {
        assert_eq!(subject.results(&[(7, op(sync, 0))]), [0], "{name}");
    }
    let reads = blocks.map(|(slot, block)| (slot + 4, op(OpKind::Read, block)));
    assert_eq!(subject.results(&reads), [BLOCK as i32; 3], "{name}");
    for (slot, _) in blocks {
        let read = &*subject.backend.buffer(slot + 4);
        assert!(read.iter().all(|found| *found == byte(slot)), "{name}");
    }
}

#[test]
fn written_blocks_are_read_back_and_holes_read_as_zeroes() {
    let (_folder, path) = file_of(&[1; 16 * BLOCK as usize]);
    let all = subjects(|| open(&path, true, false), 16 * u64::from(BLOCK));
    for (pattern, mut subject) in (1..).map(|number| number * 16).zip(all) {
        let name = subject.name;
        writes_and_reads(&mut subject, pattern);
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes[BLOCK as usize], pattern + 1, "{name}");
        let trimmed = subject.results(&[(0, op(OpKind::Trim, 3))]);
        if trimmed == [-EOPNOTSUPP] {
            skip("the file system does not support holes");
            continue;
        }
        assert_eq!(trimmed, [0], "{name}");
        let read = subject.results(&[(1, op(OpKind::Read, 3))]);
        assert_eq!(read, [BLOCK as i32], "{name}");
        let read = subject.backend.buffer(1);
        assert!(read.iter().all(|byte| *byte == 0), "{name}");
    }
}

#[test]
fn a_read_at_the_end_of_a_file_is_short_and_can_be_continued() {
    let mut bytes = vec![1; 6000];
    bytes[5000..].fill(2);
    let (_folder, path) = file_of(&bytes);
    for mut subject in subjects(|| open(&path, false, false), 0) {
        let name = subject.name;
        let results = subject.results(&[(0, op(OpKind::Read, 1)), (1, op(OpKind::Read, 2))]);
        assert_eq!(results, [6000 - 4096, 0], "{name}");
        subject.backend.buffer(2).fill(9);
        let rest = Op {
            offset: 5000,
            length: 500,
            skip: 3000,
            ..op(OpKind::Read, 0)
        };
        assert_eq!(subject.results(&[(2, rest)]), [500], "{name}");
        let read = &*subject.backend.buffer(2);
        for (range, byte) in [(0..3000, 9), (3000..3500, 2), (3500..4096, 9)] {
            let found = &read[range];
            assert!(found.iter().all(|found| *found == byte), "{name}");
        }
    }
}

#[test]
fn access_outside_of_a_mapping_or_without_permission_is_refused() {
    let (_folder, path) = file_of(&[1; 6000]);
    let files = vec![(open(&path, false, false), 0, 4096)];
    assert!(MappedFiles::new(files, true).is_err(), "opened for reading");
    let files = vec![(open(&path, false, false), 0, 4096)];
    let mapped = MappedFiles::new(files, false).unwrap();
    let mut subject = Subject::new("mmap", boxed(SyncBackend::new(mapped, arena())));
    let ops = [(0, op(OpKind::Read, 1)), (1, op(OpKind::Write, 0))];
    assert_eq!(subject.results(&ops), [-EFAULT; 2]);
}

#[test]
fn a_refused_op_completes_with_its_errno_and_the_others_are_executed() {
    let (_folder, path) = file_of(&[1; 8 * BLOCK as usize]);
    for mut subject in subjects(|| open(&path, false, false), 0) {
        // The file is open for reading only.
        let kinds = [OpKind::Read, OpKind::Write, OpKind::Read, OpKind::Write];
        let ops: Vec<(Slot, Op)> = (0..).zip(kinds.map(|kind| op(kind, 2))).collect();
        for _ in 0..3 {
            let expected = [BLOCK as i32, -EBADF, BLOCK as i32, -EBADF];
            assert_eq!(subject.results(&ops), expected, "{}", subject.name);
        }
    }
}

#[test]
fn the_kernel_is_given_the_priority_of_an_op() {
    let (_folder, path) = file_of(&[1; 8 * BLOCK as usize]);
    // Best effort, level 3; then a class that does not exist.
    let with = |class: u16| Op {
        priority: class << 13 | 3,
        ..op(OpKind::Read, 1)
    };
    for mut subject in subjects(|| open(&path, false, false), 0) {
        let name = subject.name;
        let known = subject.results(&[(0, with(2))]);
        assert_eq!(known, [BLOCK as i32], "{name}");
        if name.starts_with("libaio") || name.starts_with("io_uring") {
            assert_eq!(subject.results(&[(0, with(6))]), [-EINVAL], "{name}");
            let next = subject.results(&[(0, op(OpKind::Read, 1))]);
            assert_eq!(next, [BLOCK as i32], "{name}");
        }
    }
}

#[test]
fn an_io_error_is_a_completion_with_its_errno() {
    // Address 0 of this process is not mapped.
    for mut subject in subjects(|| open(Path::new("/proc/self/mem"), false, false), 0) {
        let expected = match subject.name {
            name if name.starts_with("libaio") => -EINVAL, // not supported for files of this kind
            _ => -EIO,
        };
        let found = subject.results(&[(3, op(OpKind::Read, 0))]);
        assert_eq!(found, [expected], "{}", subject.name);
    }
}

#[test]
fn a_turn_returns_at_most_the_requested_completions_and_starts_no_call_after_its_deadline() {
    let (_folder, path) = file_of(&[1; 8 * BLOCK as usize]);
    // In each backend, the calling thread executes some of these.
    let kinds = [
        OpKind::Read,
        OpKind::Fsync,
        OpKind::Trim,
        OpKind::SyncRange(1),
    ];
    for (kind, late) in kinds.map(|kind| [(kind, false), (kind, true)]).concat() {
        let null = NullBackend::new(arena(), MonotonicClock);
        let all = subjects(|| open(&path, true, false), 0);
        for mut subject in queueing(all).chain([Subject::new("null", boxed(null))]) {
            let name = subject.name;
            let calls = matches!(kind, OpKind::SyncRange(_)) && name != "null";
            for slot in 0..DEPTH {
                subject.backend.prep(slot, &op(kind, slot.into()));
            }
            let watchdog = MonotonicClock.now() + WATCHDOG_NS;
            let deadline = if late { 0 } else { watchdog };
            let most = if late && calls { 1 } else { 3 };
            let mut ended = 0;
            while ended < DEPTH {
                subject.turn((DEPTH - ended).min(3), 3, deadline);
                let count = subject.completions.list.len() as u32;
                assert!(count <= most, "{name}, {kind:?}: {count}");
                ended += count;
                assert!(MonotonicClock.now() < watchdog, "{name}, {kind:?} hangs");
            }
            assert_eq!(ended, DEPTH, "{name}, {kind:?}");
        }
    }
}

#[test]
fn blocking_syncs_of_libaio_complete_within_their_turn() {
    let (_folder, path) = file_of(&[1; 8 * BLOCK as usize]);
    let files = vec![open(&path, true, false)];
    let backend = match AioBackend::new(files, arena(), &Engine::new(EngineKind::Libaio, DEPTH)) {
        Ok(backend) => backend.with_blocking_syncs(),
        Err(error) => return skip(format!("libaio: {error}: {}", error.source)),
    };
    let mut subject = Subject::new("libaio", boxed(backend));
    let watchdog = MonotonicClock.now() + WATCHDOG_NS;
    for (slot, kind) in [OpKind::Fsync, OpKind::Fdatasync, OpKind::Fsync]
        .into_iter()
        .enumerate()
    {
        subject.backend.prep(slot as Slot, &op(kind, 0));
    }
    // Although the turn need not wait for any, and with one more than it may return.
    for expected in [2, 1] {
        subject.turn(0, 2, watchdog);
        let results = subject.completions.list.iter().map(|one| one.result);
        assert_eq!(results.collect::<Vec<i32>>(), vec![0; expected]);
    }
    assert_eq!(subject.backend.room(), DEPTH);
}

#[test]
fn cancelled_ops_complete_once_and_the_backend_stays_usable() {
    let (_folder, path) = file_of(&[1; 8 * BLOCK as usize]);
    for mut subject in subjects(|| open(&path, false, false), 0) {
        let name = subject.name;
        let slots: Vec<Slot> = (0..subject.backend.room().min(DEPTH)).collect();
        for slot in &slots {
            let read = op(OpKind::Read, (*slot).into());
            subject.backend.prep(*slot, &read);
        }
        let watchdog = MonotonicClock.now() + WATCHDOG_NS;
        subject.turn(0, DEPTH, watchdog);
        let mut seen = subject.completions.list.clone();
        subject.backend.cancel_all();
        while seen.len() < slots.len() {
            subject.turn((slots.len() - seen.len()) as u32, DEPTH, watchdog);
            seen.extend_from_slice(&subject.completions.list);
            assert!(MonotonicClock.now() < watchdog, "{name} hangs");
        }
        for one in &seen {
            let allowed = [BLOCK as i32, -ECANCELED, -EINTR];
            assert!(allowed.contains(&one.result), "{name}: {one:?}");
        }
        seen.sort_unstable_by_key(|one| one.slot);
        let found: Vec<Slot> = seen.iter().map(|one| one.slot).collect();
        assert_eq!(found, slots, "{name}");
        let again = subject.results(&[(0, op(OpKind::Read, 0))]);
        assert_eq!(again, [BLOCK as i32], "{name}");
    }
}

#[test]
fn requested_registered_buffers_and_files_are_features_or_fallbacks() {
    let (_folder, path) = file_of(&[1; BLOCK as usize]);
    for subject in subjects(|| open(&path, false, false), 0) {
        let capabilities = subject.backend.capabilities();
        let asked = subject.name.starts_with("io_uring") && !subject.name.ends_with("unregistered");
        for what in ["buffers", "files"] {
            let feature = format!("registered {what}");
            let fallback = format!("{what} not registered");
            let features = capabilities.features.iter();
            let has = features.filter(|text| **text == feature).count();
            let fallbacks = capabilities.fallbacks.iter();
            let has_not = fallbacks.filter(|text| text.starts_with(&fallback)).count();
            assert_eq!(has + has_not, usize::from(asked), "{capabilities:?}");
        }
    }
}

#[test]
fn a_device_is_read_written_and_discarded_and_misaligned_direct_io_is_refused() {
    const BLOCKS: u32 = 64;
    let (_folder, path) = file_of(&[1; (BLOCKS * BLOCK) as usize]);
    let Some(device) = Loop::on(&path) else {
        return;
    };
    // As the guard does.
    const O_EXCL: i32 = rustix::fs::OFlags::EXCL.bits() as i32;
    let mut exclusive = OpenOptions::new();
    let _held = exclusive
        .read(true)
        .custom_flags(O_EXCL)
        .open(&device)
        .unwrap();
    for direct in [true, false] {
        let opened = || open(device.as_ref(), true, direct);
        for mut subject in subjects(opened, (BLOCKS * BLOCK).into()) {
            let name = subject.name;
            writes_and_reads(&mut subject, 80);
            // A buffered write leaves a dirty page.
            let written = subject.results(&[(0, op(OpKind::Write, 3))]);
            assert_eq!(written, [BLOCK as i32], "{name}");
            let discarded = subject.results(&[(0, op(OpKind::Trim, 3))]);
            let supported = discarded == [0] || discarded == [-EOPNOTSUPP];
            assert!(supported, "{name}: {discarded:?}");
            if name == "mmap" {
                continue;
            }
            let end = u64::from(BLOCKS);
            let beyond = [(0, op(OpKind::Read, end)), (1, op(OpKind::Write, end))];
            assert_eq!(subject.results(&beyond), [0, -ENOSPC], "{name}");
            if direct {
                let mut misaligned = [(0, op(OpKind::Read, 0)), (1, op(OpKind::Read, 0))];
                misaligned[0].1.offset = 100;
                misaligned[1].1.length = 100;
                assert_eq!(subject.results(&misaligned), [-EINVAL; 2], "{name}");
            }
        }
    }
}

/// A loop device on a file in a file system that can be frozen, so that writes to the device hang. Thawed,
/// unmounted and detached when dropped.
struct StallingDevice {
    device: Option<Loop>,
    folder: TempDir,
}

impl StallingDevice {
    /// `None` with a message if the host does not permit it.
    fn new() -> Option<StallingDevice> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = sh(&format!(
            "cd '{}'; truncate -s 32M below; mkfs.ext4 -q below; mkdir at; mount -o loop below at; \
             dd if=/dev/zero of=at/data bs=1M count=4 conv=fsync status=none",
            folder.path().display()
        ));
        let device = None;
        let mut stalling = StallingDevice { device, folder };
        if let Err(why) = mounted {
            skip(why);
            return None;
        }
        stalling.device = Loop::on(&stalling.folder.path().join("at/data"));
        stalling.device.is_some().then_some(stalling)
    }

    fn stall(&self, yes: bool) -> Result<String, String> {
        let how = if yes { "--freeze" } else { "--unfreeze" };
        sh(&format!(
            "fsfreeze {how} '{}/at'",
            self.folder.path().display()
        ))
    }
}

impl Drop for StallingDevice {
    fn drop(&mut self) {
        let _ = self.stall(false);
        self.device = None;
        // The kernel may close a ring's files later: a lazy unmount waits for that.
        let _ = sh(&format!(
            "umount --lazy '{}/at'",
            self.folder.path().display()
        ));
    }
}

#[test]
fn a_wait_for_a_stalled_device_ends_at_its_deadline() {
    let Some(stalling) = StallingDevice::new() else {
        return;
    };
    let device = stalling.device.as_ref().unwrap();
    for mut subject in queueing(subjects(|| open(device.as_ref(), true, true), 0)) {
        let name = subject.name;
        stalling.stall(true).unwrap();
        for slot in 0..2 {
            subject.backend.prep(slot, &op(OpKind::Write, slot.into()));
        }
        for _ in 0..3 {
            let deadline = MonotonicClock.now() + 2_000_000;
            while MonotonicClock.now() < deadline {
                subject.turn(1, DEPTH, deadline);
                assert_eq!(subject.completions.list, [], "{name}");
            }
        }
        stalling.stall(false).unwrap();
        let watchdog = MonotonicClock.now() + WATCHDOG_NS;
        let mut ended = 0;
        while ended < 2 {
            subject.turn(2 - ended, DEPTH, watchdog);
            for one in &subject.completions.list {
                assert_eq!(one.result, BLOCK as i32, "{name}");
                ended += 1;
            }
            assert!(MonotonicClock.now() < watchdog, "{name} hangs");
        }
    }
}
