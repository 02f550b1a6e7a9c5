//! Any bytes as a trace, with any options of a replay: no panic, bounded, and every op lies within its file.
#![no_main]

use iodyno_model::{Direction, Replay};
use iodyno_engine::trace::{Limits, read};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits {
    ops: 64,
    read_only: false,
};

fuzz_target!(|input: (u8, u16, &[u8])| {
    let (choice, number, bytes) = input;
    let replay = Replay {
        no_stall: choice & 1 != 0,
        time_percent: u32::from(number).max(1),
        scale: u64::from(number >> 8).max(1),
        align: if choice & 2 != 0 { 1 << (number & 63) } else { 0 },
        skip: match choice & 4 != 0 {
            true => vec![Direction::ALL[usize::from(choice >> 6)]],
            false => Vec::new(),
        },
        ..Replay::default()
    };
    // Most random bytes are neither: the first choice is what is read as which.
    let head: &[u8] = match choice >> 3 & 3 {
        0 => b"fio version 2 iolog\na add\n",
        1 => b"fio version 3 iolog\n0 a add\n",
        2 => b"\x07tae",
        _ => b"",
    };
    let all = [head, bytes].concat();
    let Ok(trace) = read(all.as_slice(), &replay, LIMITS) else {
        return;
    };
    assert!(trace.ops.len() <= LIMITS.ops);
    for op in &trace.ops {
        let file = &trace.files[op.file()];
        let end = op.offset.checked_add(op.length.into()).expect("no overflow");
        assert!(end <= file.end && file.end <= i64::MAX as u64);
        assert!(!replay.skip.contains(&op.kind().direction()));
        assert!(!replay.no_stall || op.due_ns().is_none());
    }
});
