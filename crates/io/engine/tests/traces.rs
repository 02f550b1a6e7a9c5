//! Traces as logs and tools write them: accepted ops, and refusals with their line.

use std::io::Read;

use iodyno_engine::trace::{Limits, Trace, TracedKind, TracedName, read};
use iodyno_model::{Direction, Replay};
use proptest::prelude::*;

const LIMITS: Limits = Limits {
    ops: 1000,
    read_only: false,
};

/// The replayed facts of an op: due (ns), file, kind, offset, length.
type Seen = (Option<u64>, usize, TracedKind, u64, u32);

fn seen(trace: &Trace) -> Vec<Seen> {
    let ops = trace.ops.iter();
    ops.map(|op| (op.due_ns(), op.file(), op.kind(), op.offset, op.length))
        .collect()
}

fn names(trace: &Trace) -> Vec<String> {
    let files = trace.files.iter();
    files
        .map(|file| match &file.name {
            TracedName::Path(path) => path.display().to_string(),
            TracedName::Device { major, minor } => format!("{major}:{minor}"),
        })
        .collect()
}

fn read_with(input: &[u8], change: impl FnOnce(&mut Replay)) -> Trace {
    let mut replay = Replay::default();
    change(&mut replay);
    read(input, &replay, LIMITS).unwrap()
}

fn fault(input: &[u8], limits: Limits) -> String {
    read(input, &Replay::default(), limits)
        .unwrap_err()
        .to_string()
}

const V3: &[u8] = b"fio version 3 iolog\n\
    0 /d/a add\n0 b c add\n1 /d/a open\n1 b c open\n\
    100 /d/a read 4096 4096\n\
    150 b c write 1 8192\n\
    120 /d/a sync 0 0\n\
    130 /d/a datasync 0 0\n\
    1130 b c trim 65536 131072\n\
    1200 /d/a close\n";

use TracedKind::{DataSync, Read as R, Sync, Trim, Write as W};

#[test]
fn a_log_of_version_3_keeps_order_and_times() {
    let trace = read_with(V3, |_| {});
    assert_eq!(names(&trace), ["/d/a", "b c"]);
    // A time that goes back counts as no time, and the next counts from there.
    assert_eq!(
        seen(&trace),
        [
            (Some(0), 0, R, 4096, 4096),
            (Some(50_000), 1, W, 1, 8192),
            (Some(50_000), 0, Sync, 0, 0),
            (Some(60_000), 0, DataSync, 0, 0),
            (Some(1_060_000), 1, Trim, 65536, 131_072),
        ]
    );
    assert_eq!(trace.longest_transfer, 8192);
    let ends: Vec<_> = trace.files.iter().map(|it| (it.end, it.end_at)).collect();
    assert_eq!(ends, [(8192, 6), (196_608, 10)]);
    let alignments: Vec<_> = trace.files.iter().map(|it| it.alignment()).collect();
    assert_eq!(alignments, [4096, 1]);
    let uses: Vec<_> = trace
        .files
        .iter()
        .map(|it| (it.reads, it.writes, it.trims))
        .collect();
    assert_eq!(uses, [(true, false, false), (false, true, true)]);
}

#[test]
fn options_change_times_offsets_and_kinds() {
    let due = |trace: &Trace| -> Vec<_> { trace.ops.iter().map(|op| op.due_ns()).collect() };
    let slow = read_with(V3, |replay| replay.time_percent = 50);
    assert_eq!(due(&slow)[4], Some(2_120_000));
    let fast = read_with(V3, |replay| replay.time_percent = 400);
    assert_eq!(due(&fast)[4], Some(265_000));
    let at_once = read_with(V3, |replay| replay.no_stall = true);
    assert_eq!(due(&at_once), [None; 5]);
    let scaled = read_with(V3, |replay| (replay.scale, replay.align) = (3, 4096));
    let offsets: Vec<_> = scaled.ops.iter().map(|op| op.offset).collect();
    assert_eq!(offsets, [0, 0, 0, 0, 20480]);
    // Omitted ops take none of the time of the others.
    let skipped = read_with(V3, |replay| {
        replay.skip = vec![Direction::Read, Direction::Sync];
    });
    let kinds: Vec<_> = skipped
        .ops
        .iter()
        .map(|op| (op.kind(), op.due_ns()))
        .collect();
    assert_eq!(kinds, [(W, Some(50_000)), (Trim, Some(1_060_000))]);
    assert_eq!(names(&skipped), ["b c"]);
    let read_only = Limits {
        read_only: true,
        ..LIMITS
    };
    let kept = read(V3, &Replay::default(), read_only).unwrap();
    assert_eq!(kept.ops.len(), 3);
    assert_eq!(
        kept.notes,
        ["2 writes and trims are left out, because files are only read"]
    );
}

#[test]
fn a_log_of_version_2_waits_until_a_time_in_ms() {
    let text = b"fio version 2 iolog\n/a add\n/a open\n/a read 0 512\n/a wait 3 0\n/a wait 7 0\n\
        /a read 512 512\n/a read 1024 512\n/a close\n";
    let trace = read_with(text, |_| {});
    assert_eq!(
        seen(&trace),
        [
            (None, 0, R, 0, 512),
            (Some(7_000_000), 0, R, 512, 512),
            (None, 0, R, 1024, 512),
        ]
    );
    assert_eq!(trace.notes.len(), 1);
    let at_once = read_with(text, |replay| replay.no_stall = true);
    assert!(at_once.ops.iter().all(|op| op.due_ns().is_none()) && at_once.notes.is_empty());
}

#[test]
fn faults_name_their_line_and_reason() {
    let v3 = |line: &str| format!("fio version 3 iolog\n0 /a add\n{line}\n");
    let v2 = |line: &str| format!("fio version 2 iolog\n/a add\n{line}\n");
    let largest = u64::MAX;
    for (text, expected) in [
        (String::new(), "line 1: it is neither a log of fio"),
        (
            "0,4096,4096\n".to_owned(),
            "line 1: it is neither a log of fio",
        ),
        (
            "fio version 4 iolog\n".to_owned(),
            "line 1: it is neither a log of fio",
        ),
        (v3("5 /b read 0 1"), "line 3: its file was not added before"),
        (
            v3("x /a read 0 1"),
            "line 3: it does not begin with a time in µs",
        ),
        (
            v3("/a read 0 1"),
            "line 3: it does not begin with a time in µs",
        ),
        (
            v3("5 /a erase 0 1"),
            "line 3: `/a erase 0 1` is not an action of a log",
        ),
        (
            v3("5 /a wait 5 0"),
            "line 3: version 3 has times and no `wait`",
        ),
        (v3("5 /a read 0 0"), "line 3: its length is 0"),
        (
            v3("5 /a read 0 4294967295"),
            "line 3: its length is 4294967295, and at most 1073741824",
        ),
        (
            v3("5 /a trim 0 4294967296"),
            "line 3: its length is 4294967296, and at most 4294967295",
        ),
        (
            v3(&format!("5 /a read {largest} 1")),
            "line 3: offset 18446744073709551615 is beyond",
        ),
        (
            v3(&format!("5 /a write {} 1", i64::MAX)),
            "line 3: offset 9223372036854775807 is beyond",
        ),
        (v3(&format!("{largest} /a read 0 1")), ""),
        (
            v3(&format!("0 /a read 0 1\n{largest} /a read 0 1")),
            "line 4: its time is too large",
        ),
        (
            v2(&format!("/a wait {largest} 0")),
            "line 3: the wait is too long",
        ),
        (v3("fio version 3 iolog"), "line 3: another log begins here"),
        (
            v3(&"x".repeat(5000)),
            "line 3: it is longer than 4096 bytes",
        ),
        ("x".repeat(5000), "line 1: it is longer than 4096 bytes"),
    ] {
        if expected.is_empty() {
            // The first op begins the trace, whatever its time.
            assert!(read(text.as_bytes(), &Replay::default(), LIMITS).is_ok());
            continue;
        }
        let found = fault(text.as_bytes(), LIMITS);
        assert!(found.starts_with(expected), "{found}");
    }
    let few = Limits { ops: 4, ..LIMITS };
    assert_eq!(
        fault(V3, few),
        "line 10: more than 4 ops cannot be replayed"
    );
    let files: String = (0..=65536).map(|file| format!("/{file} add\n")).collect();
    let files = format!("fio version 2 iolog\n{files}");
    assert_eq!(
        fault(files.as_bytes(), LIMITS),
        "line 65538: a trace may use at most 65536 files"
    );
}

#[test]
fn an_endless_line_and_an_endless_log_end() {
    let endless = std::io::repeat(b'x');
    let limits = Limits { ops: 10, ..LIMITS };
    let replay = Replay::default();
    let found = read(std::io::BufReader::new(endless), &replay, limits);
    assert!(found.unwrap_err().to_string().contains("longer than 4096"));
    struct Log(Vec<u8>);
    impl Read for Log {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                self.0.extend(b"/a read 0 1\n");
            }
            let count = into.len().min(self.0.len());
            into[..count].copy_from_slice(&self.0[..count]);
            self.0.drain(..count);
            Ok(count)
        }
    }
    let log = Log(b"fio version 2 iolog\n/a add\n".to_vec());
    let found = read(std::io::BufReader::new(log), &replay, limits);
    assert_eq!(
        found.unwrap_err().to_string(),
        "line 13: more than 10 ops cannot be replayed"
    );
}

/// A record of blktrace.
#[derive(Debug, Clone, Copy)]
struct Record {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    device: u32,
    data: u16,
}

const QUEUE: u32 = 1 | 1 << 16 << 4;
const READ: u32 = 1 << 16;
const WRITE: u32 = 2 << 16;
const FLUSH: u32 = 4 << 16;
const COMPLETE: u32 = 8 | 1 << 16 << 7;
const COMMAND: u32 = 1 << 16 << 9;
const NOTE: u32 = 1 << 16 << 10;
const DISCARD: u32 = 1 << 16 << 13;

impl Record {
    fn new(time: u64, action: u32, sector: u64, bytes: u32) -> Record {
        Record {
            time,
            sector,
            bytes,
            action,
            device: 8 << 20 | 16,
            data: 0,
        }
    }

    fn bytes(self, big: bool) -> Vec<u8> {
        let mut all = Vec::new();
        let mut put = |little: &[u8]| {
            let mut bytes = little.to_vec();
            if big {
                bytes.reverse();
            }
            all.extend(bytes);
        };
        put(&0x6561_7407u32.to_le_bytes());
        put(&1u32.to_le_bytes());
        put(&self.time.to_le_bytes());
        put(&self.sector.to_le_bytes());
        put(&self.bytes.to_le_bytes());
        put(&self.action.to_le_bytes());
        put(&77u32.to_le_bytes());
        put(&self.device.to_le_bytes());
        put(&0u32.to_le_bytes());
        put(&0u16.to_le_bytes());
        put(&self.data.to_le_bytes());
        all.extend(vec![0xaa; self.data.into()]);
        all
    }
}

fn records(records: &[Record], big: bool) -> Vec<u8> {
    records
        .iter()
        .flat_map(|record| record.bytes(big))
        .collect()
}

#[test]
fn of_blktrace_the_queued_requests_are_replayed_in_both_byte_orders() {
    let other = Record {
        device: 259 << 20 | 3,
        data: 12,
        ..Record::new(5000, QUEUE | WRITE, 8, 8192)
    };
    let all = [
        Record {
            data: 16,
            ..Record::new(0, NOTE, 0, 0)
        },
        Record::new(1000, QUEUE | READ, 100, 4096),
        Record::new(1500, COMPLETE | READ, 100, 4096),
        other,
        Record::new(4000, QUEUE | WRITE | FLUSH, 0, 0),
        Record::new(4500, QUEUE | WRITE | FLUSH, 16, 512),
        Record::new(6500, QUEUE | WRITE | DISCARD, 32, 1 << 31),
        Record::new(6600, QUEUE | COMMAND | READ, 0, 512),
        Record::new(6700, QUEUE | READ, 0, 0),
    ];
    for big in [false, true] {
        let trace = read_with(&records(&all, big), |_| {});
        assert_eq!(names(&trace), ["8:16", "259:3"]);
        assert_eq!(
            seen(&trace),
            [
                (Some(0), 0, R, 51200, 4096),
                (Some(4000), 1, W, 4096, 8192),
                (Some(4000), 0, Sync, 0, 0),
                (Some(4500), 0, Sync, 0, 0),
                (Some(4500), 0, W, 8192, 512),
                (Some(6500), 0, Trim, 16384, 1 << 31),
            ]
        );
        assert_eq!(trace.notes, ["1 requests without data are left out"]);
        assert_eq!((trace.longest_transfer, trace.places), (8192, "record"));
    }
    let aligned = read_with(&records(&all[..2], false), |replay| replay.align = 8192);
    assert_eq!(seen(&aligned), [(Some(0), 0, R, 49152, 8192)]);
}

#[test]
fn faults_of_blktrace_name_their_record() {
    let good = Record::new(0, QUEUE | READ, 0, 512);
    let changed = |at: usize, byte: u8| {
        let mut all = records(&[good, good], false);
        all[48 + at] = byte;
        all
    };
    let far = Record::new(0, QUEUE | READ, u64::MAX / 4, 512);
    let long = Record::new(0, QUEUE | READ, 0, u32::MAX);
    let cut = |length: usize| records(&[Record { data: 9, ..good }; 2], false)[..length].to_vec();
    for (bytes, expected) in [
        (
            changed(1, 0),
            "record 2: it does not begin with blktrace's magic number",
        ),
        (changed(0, 6), "record 2: version 6 is not supported"),
        (
            records(&[far], false),
            "record 1: its sector is beyond the end of any device",
        ),
        (
            records(&[long], true),
            "record 1: its length is 4294967295, and at most 1073741824",
        ),
        (cut(50), "record 1: the trace ends within it"),
        (cut(58), "record 2: the trace ends within it"),
        (cut(110), "record 2: the trace ends within it"),
    ] {
        let found = fault(&bytes, LIMITS);
        assert!(found.starts_with(expected), "{found}");
    }
}

/// Properties of every trace.
fn check(trace: &Trace, limits: Limits) {
    assert!(trace.ops.len() <= limits.ops);
    for op in &trace.ops {
        let file = &trace.files[op.file()];
        let end = op.offset + u64::from(op.length);
        assert!(end <= file.end && file.end <= i64::MAX as u64);
        assert_eq!(op.kind().ranged(), op.length > 0);
        let aligned = file.alignment();
        assert!(
            aligned == 0
                || (op.offset.is_multiple_of(aligned)
                    && u64::from(op.length).is_multiple_of(aligned))
        );
        if matches!(op.kind(), R | W) {
            assert!(u64::from(op.length) <= trace.longest_transfer);
        }
        if let Some(due) = op.due_ns() {
            assert!(due < i64::MAX as u64);
        }
    }
}

fn kinds() -> impl Strategy<Value = TracedKind> {
    prop::sample::select(vec![R, W, Trim, Sync, DataSync])
}

proptest! {
    #[test]
    fn a_log_that_is_written_is_read_back(
        ops in prop::collection::vec((0u64..1000, 0usize..3, kinds(), 0u64..1 << 40, 1u32..1 << 20), 1..50)
    ) {
        let files = ["/tmp/a", "b", "with space"];
        let mut text = "fio version 3 iolog\n".to_owned();
        for file in files {
            text += &format!("0 {file} add\n0 {file} open\n");
        }
        let mut time = 5;
        let (mut order, mut expected) = (Vec::new(), Vec::new());
        for (step, file, kind, offset, length) in ops {
            time += step;
            let first = *expected.first().map_or(&time, |(first, _)| first);
            let (offset, length) = if kind.ranged() { (offset, length) } else { (0, 0) };
            let word = match kind {
                R => "read",
                W => "write",
                Trim => "trim",
                Sync => "sync",
                DataSync => "datasync",
            };
            text += &format!("{time} {} {word} {offset} {length}\n", files[file]);
            if !order.contains(&file) {
                order.push(file);
            }
            let number = order.iter().position(|it| *it == file).unwrap();
            let due = (time - first) * 1000;
            expected.push((first, (Some(due), number, kind, offset, length)));
        }
        let trace = read(text.as_bytes(), &Replay::default(), LIMITS).unwrap();
        let expected: Vec<Seen> = expected.into_iter().map(|(_, op)| op).collect();
        prop_assert_eq!(seen(&trace), expected);
        check(&trace, LIMITS);
    }

    #[test]
    fn no_text_and_no_bytes_break_the_readers(
        head in prop::sample::select(vec![
            &b"fio version 2 iolog\na add\n"[..], b"fio version 3 iolog\n0 a add\n", b"\x07tae", b"eat\x07", b"",
        ]),
        rest in prop::collection::vec(any::<u8>(), 0..400),
        words in prop::collection::vec("[0-9]{1,20} |a |read |write |trim |wait |open |\n", 0..60),
        scale in 1u64..10,
        align in prop::sample::select(vec![0u64, 1, 4096, 1 << 63]),
        percent in 1u32..1000,
    ) {
        let replay = Replay { scale, align, time_percent: percent, ..Replay::default() };
        let limits = Limits { ops: 20, read_only: false };
        for tail in [rest, words.concat().into_bytes()] {
            let bytes = [head, &tail].concat();
            if let Ok(trace) = read(bytes.as_slice(), &replay, limits) {
                check(&trace, limits);
            }
        }
    }

    #[test]
    fn a_changed_record_is_read_or_refused(
        flips in prop::collection::vec((0usize..48 * 4, any::<u8>()), 1..6),
        length in 0usize..=48 * 4,
    ) {
        let mut bytes = records(&[
            Record::new(10, QUEUE | READ, 0, 512),
            Record::new(20, QUEUE | WRITE, 8, 4096),
            Record::new(30, QUEUE | WRITE | FLUSH, 8, 4096),
            Record::new(40, QUEUE | WRITE | DISCARD, 64, 1 << 20),
        ], false);
        for (at, byte) in flips {
            bytes[at] ^= byte;
        }
        bytes.truncate(length);
        if let Ok(trace) = read(bytes.as_slice(), &Replay::default(), LIMITS) {
            check(&trace, LIMITS);
        }
    }
}
