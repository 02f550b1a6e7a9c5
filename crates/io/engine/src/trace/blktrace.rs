//! The binary form of blktrace, version 7, as `blkparse -d FILE` writes it: records of 48 bytes, each followed by its
//! data. Ops are the records of queued requests; all others describe their further processing.
//!
//! The layout is that of `struct blk_io_trace` in the kernel's `include/uapi/linux/blktrace_api.h`.

use std::io::{self, BufRead, Read};

use super::{
    Builder, Elapsed, ParsedOp, Trace, TraceError, TracedKind, TracedName, at, unreadable,
};

const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const RECORD: usize = 48;
const SECTOR: u64 = 512;
const RECORDS: &str = "record";
/// `__BLK_TA_QUEUE`, in the lower half of the action.
const QUEUED: u32 = 1;

/// Categories (`BLK_TC_…`), in the upper half of the action.
mod category {
    pub(super) const WRITE: u32 = 1 << (16 + 1);
    pub(super) const FLUSH: u32 = 1 << (16 + 2);
    pub(super) const COMMAND: u32 = 1 << (16 + 9);
    pub(super) const NOTE: u32 = 1 << (16 + 10);
    pub(super) const DISCARD: u32 = 1 << (16 + 13);
}

/// The byte order of the host that wrote a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

/// The byte order of a trace that begins with these bytes; `None`: it is not one of blktrace.
pub(super) fn byte_order(head: &[u8]) -> Option<ByteOrder> {
    let head: [u8; 4] = head.try_into().ok()?;
    let ours = |magic: u32| magic & 0xffff_ff00 == MAGIC;
    match () {
        () if ours(u32::from_le_bytes(head)) => Some(ByteOrder::Little),
        () if ours(u32::from_be_bytes(head)) => Some(ByteOrder::Big),
        () => None,
    }
}

impl ByteOrder {
    fn u16(self, record: &[u8; RECORD], from: usize) -> u16 {
        let bytes = [record[from], record[from + 1]];
        match self {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        }
    }

    fn u32(self, record: &[u8; RECORD], from: usize) -> u32 {
        let bytes = std::array::from_fn(|index| record[from + index]);
        match self {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        }
    }

    fn u64(self, record: &[u8; RECORD], from: usize) -> u64 {
        let bytes = std::array::from_fn(|index| record[from + index]);
        match self {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        }
    }
}

pub(super) fn read(
    mut input: impl BufRead,
    order: ByteOrder,
    mut builder: Builder<'_>,
) -> Result<Trace, TraceError> {
    let mut elapsed = Elapsed::default();
    let (mut number, mut empty) = (0u64, 0u64);
    let mut record = [0; RECORD];
    while next(&mut input, &mut record, number + 1)? {
        number += 1;
        let magic = order.u32(&record, 0);
        if magic & 0xffff_ff00 != MAGIC {
            let what = "it does not begin with blktrace's magic number";
            return Err(at(
                RECORDS,
                number,
                what,
                "make the trace again with `blkparse -d`",
            ));
        }
        if magic & 0xff != VERSION {
            let what = format!("version {} is not supported", magic & 0xff);
            return Err(at(RECORDS, number, what, "use a trace of version 7"));
        }
        skip(&mut input, order.u16(&record, 46).into(), number)?;
        let action = order.u32(&record, 28);
        let has = |category: u32| action & category != 0;
        let ops = action & 0xffff == QUEUED && !has(category::NOTE) && !has(category::COMMAND);
        if !ops {
            continue;
        }
        let due_ns = Some(elapsed.at(order.u64(&record, 8)));
        let length = u64::from(order.u32(&record, 24));
        let device = order.u32(&record, 36);
        let fault = |(message, hint): (String, &'static str)| at(RECORDS, number, message, hint);
        let file = builder.name(TracedName::Device {
            major: device >> 20,
            minor: device & 0xf_ffff,
        });
        let file = file.map_err(fault)?;
        let offset = order.u64(&record, 16).checked_mul(SECTOR).ok_or_else(|| {
            let message = "its sector is beyond the end of any device".to_owned();
            fault((message, "make the trace again"))
        })?;
        // As in fio, if the start is aligned downwards, the length is aligned upwards.
        let length = match builder.replay.align {
            0 | 1 => length,
            align => length.next_multiple_of(align),
        };
        let mut add = |kind| {
            let op = ParsedOp {
                kind,
                file,
                offset,
                length,
                due_ns,
            };
            builder.add(&op, number).map_err(fault)
        };
        let (discard, flush) = (
            has(category::DISCARD),
            has(category::FLUSH) && !has(category::DISCARD),
        );
        if flush {
            add(TracedKind::Sync)?;
        }
        match (discard, has(category::WRITE)) {
            (_, _) if length == 0 => empty += u64::from(!flush),
            (true, _) => add(TracedKind::Trim)?,
            (false, true) => add(TracedKind::Write)?,
            (false, false) => add(TracedKind::Read)?,
        }
    }
    if empty > 0 {
        let note = format!("{empty} requests without data are left out");
        builder.trace.notes.push(note);
    }
    Ok(builder.finish(RECORDS))
}

/// The next record; `false` at the end.
fn next(input: &mut impl Read, record: &mut [u8; RECORD], number: u64) -> Result<bool, TraceError> {
    let mut filled = 0;
    while filled < RECORD {
        match input.read(&mut record[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(cut_off(number)),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(format!("{RECORDS} {number}: "), &error)),
        }
    }
    Ok(true)
}

/// Passes over a record's own data.
fn skip(input: &mut impl Read, length: u64, number: u64) -> Result<(), TraceError> {
    match io::copy(&mut input.take(length), &mut io::sink()) {
        Ok(skipped) if skipped == length => Ok(()),
        Ok(_) => Err(cut_off(number)),
        Err(error) => Err(unreadable(format!("{RECORDS} {number}: "), &error)),
    }
}

fn cut_off(number: u64) -> TraceError {
    let hint = "make the trace again with `blkparse -d`";
    at(RECORDS, number, "the trace ends within it", hint)
}
