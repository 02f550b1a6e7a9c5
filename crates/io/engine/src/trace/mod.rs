//! Reads traces of ops: fio's iolog (versions 2 and 3), and the binary form of blktrace that `blkparse -d` writes.
//!
//! Pure: it reads from its input, opens nothing and uses no clock. A trace may come from anywhere: each fault names its
//! line or record, and memory is bounded by [`Limits`].

mod blktrace;
mod iolog;

use std::collections::HashMap;
use std::io::{self, BufRead, Read};
use std::path::PathBuf;

use iodyno_model::{Direction, Replay};

/// The longest read or write of a trace, bytes: it needs a buffer of its length.
pub const MAX_TRANSFER: u64 = 1 << 30;
/// The number of files that a trace may use.
const MAX_FILES: usize = 1 << 16;
/// Marks an op without its own time.
const AT_ONCE: u64 = u64::MAX;

/// The kind of an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TracedKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Deallocates the range.
    Trim,
    /// fsync.
    Sync,
    /// fdatasync.
    DataSync,
}

impl TracedKind {
    const ALL: [TracedKind; 5] = [
        TracedKind::Read,
        TracedKind::Write,
        TracedKind::Trim,
        TracedKind::Sync,
        TracedKind::DataSync,
    ];

    /// The direction under which it is counted.
    pub fn direction(self) -> Direction {
        match self {
            TracedKind::Read => Direction::Read,
            TracedKind::Write => Direction::Write,
            TracedKind::Trim => Direction::Trim,
            TracedKind::Sync | TracedKind::DataSync => Direction::Sync,
        }
    }

    /// Whether it has an offset and a length.
    pub fn ranged(self) -> bool {
        self.direction() != Direction::Sync
    }
}

/// An op of a trace, in 24 bytes: a trace has millions of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedOp {
    due_ns: u64,
    /// Offset in its file, bytes; 0 for syncs.
    pub offset: u64,
    /// Length, bytes; 0 for syncs.
    pub length: u32,
    /// The file in the upper 24 bits, the kind in the lower 8.
    place: u32,
}

impl TracedOp {
    /// When it is due, ns since the first op of the trace; `None`: as soon as possible after the op before it.
    pub fn due_ns(&self) -> Option<u64> {
        (self.due_ns != AT_ONCE).then_some(self.due_ns)
    }

    /// Index of its file in [`Trace::files`].
    pub fn file(&self) -> usize {
        (self.place >> 8) as usize
    }

    /// The kind.
    pub fn kind(&self) -> TracedKind {
        TracedKind::ALL[(self.place & 0xff) as usize]
    }
}

/// How a trace names a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TracedName {
    /// By its path.
    Path(PathBuf),
    /// A block device, by its number.
    Device {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
}

/// A file of a trace, and how its ops use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedFile {
    /// Its name.
    pub name: TracedName,
    /// It is read.
    pub reads: bool,
    /// It is written.
    pub writes: bool,
    /// Ranges of it are deallocated.
    pub trims: bool,
    /// The end of the range that lies farthest, bytes.
    pub end: u64,
    /// The line or record of that op.
    pub end_at: u64,
    /// All bits that are set in any offset or length: the lowest one is the alignment.
    bits: u64,
}

impl TracedFile {
    /// The largest power of two that divides all its offsets and lengths, bytes; 0 if all of them are 0.
    pub fn alignment(&self) -> u64 {
        self.bits & self.bits.wrapping_neg()
    }
}

/// A trace, ready for replay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// The files that its ops use, in order of their first use.
    pub files: Vec<TracedFile>,
    /// Its ops, in order.
    pub ops: Vec<TracedOp>,
    /// The longest read or write, bytes.
    pub longest_transfer: u64,
    /// How a place in it is called: `line`, or `record`.
    pub places: &'static str,
    /// Parts that were omitted or reinterpreted.
    pub notes: Vec<String>,
}

/// Bounds for a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The number of ops that may be kept, 24 bytes each.
    pub ops: usize,
    /// Leave out writes and trims.
    pub read_only: bool,
}

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[error("{place}{message}")]
pub struct TraceError {
    /// `line 5: `; empty if the fault has no place.
    place: String,
    message: String,
    /// The hint.
    pub hint: &'static str,
}

/// Reads a trace, and applies the options of the replay to it.
///
/// # Errors
/// The first fault, with its line or record; an error of the system; more than [`Limits`] permits.
pub fn read(input: impl BufRead, replay: &Replay, limits: Limits) -> Result<Trace, TraceError> {
    let mut input = input;
    let mut head = Vec::with_capacity(4);
    (&mut input)
        .take(4)
        .read_to_end(&mut head)
        .map_err(|error| unreadable(String::new(), &error))?;
    let order = blktrace::byte_order(&head);
    let whole = head.as_slice().chain(input);
    let builder = Builder::new(replay, limits);
    match order {
        Some(order) => blktrace::read(whole, order, builder),
        None => iolog::read(whole, builder),
    }
}

fn unreadable(place: String, error: &io::Error) -> TraceError {
    TraceError {
        place,
        message: format!("cannot be read: {error}"),
        hint: "check the file",
    }
}

/// A fault at a numbered place.
fn at(places: &str, number: u64, message: impl Into<String>, hint: &'static str) -> TraceError {
    TraceError {
        place: format!("{places} {number}: "),
        message: message.into(),
        hint,
    }
}

/// An op as it is in the trace.
struct ParsedOp {
    kind: TracedKind,
    file: usize,
    offset: u64,
    length: u64,
    /// Since the first op, ns, at the trace's own speed.
    due_ns: Option<u64>,
}

/// Collects the ops of a trace.
struct Builder<'a> {
    replay: &'a Replay,
    limits: Limits,
    trace: Trace,
    /// Every name that was met, with its index in the trace's files once an op uses it.
    names: Vec<(TracedName, Option<usize>)>,
    known: HashMap<TracedName, usize>,
    skipped_changes: u64,
}

impl<'a> Builder<'a> {
    fn new(replay: &'a Replay, limits: Limits) -> Builder<'a> {
        Builder {
            replay,
            limits,
            trace: Trace::default(),
            names: Vec::new(),
            known: HashMap::new(),
            skipped_changes: 0,
        }
    }

    /// The number of a name; a new one if it was not met before.
    fn name(&mut self, name: TracedName) -> Result<usize, (String, &'static str)> {
        if let Some(number) = self.known.get(&name) {
            return Ok(*number);
        }
        if self.names.len() == MAX_FILES {
            let message = format!("a trace may use at most {MAX_FILES} files");
            return Err((message, "split the trace"));
        }
        self.known.insert(name.clone(), self.names.len());
        self.names.push((name, None));
        Ok(self.names.len() - 1)
    }

    /// Adds an op, unless it is excluded.
    fn add(&mut self, op: &ParsedOp, place: u64) -> Result<(), (String, &'static str)> {
        if self.replay.skip.contains(&op.kind.direction()) {
            return Ok(());
        }
        if self.limits.read_only && matches!(op.kind, TracedKind::Write | TracedKind::Trim) {
            self.skipped_changes += 1;
            return Ok(());
        }
        let (offset, length) = match op.kind.ranged() {
            true => self.range(op)?,
            false => (0, 0),
        };
        if self.trace.ops.len() >= self.limits.ops {
            let message = format!("more than {} ops cannot be replayed", self.limits.ops);
            return Err((
                message,
                "split the trace, or leave out ops with `replay_skip`",
            ));
        }
        let due_ns = match op.due_ns {
            Some(due) if !self.replay.no_stall => scaled(due, self.replay.time_percent)
                .ok_or_else(|| ("it is due too late".to_owned(), "raise `replay_time_scale`"))?,
            _ => AT_ONCE,
        };
        let file = self.used(op.file);
        let used = &mut self.trace.files[file];
        match op.kind {
            TracedKind::Read => used.reads = true,
            TracedKind::Write => used.writes = true,
            TracedKind::Trim => used.trims = true,
            TracedKind::Sync | TracedKind::DataSync => {}
        }
        used.bits |= offset | u64::from(length);
        let end = offset + u64::from(length);
        if end > used.end {
            (used.end, used.end_at) = (end, place);
        }
        if op.kind != TracedKind::Trim {
            let longest = &mut self.trace.longest_transfer;
            *longest = (*longest).max(length.into());
        }
        self.trace.ops.push(TracedOp {
            due_ns,
            offset,
            length,
            place: (file as u32) << 8 | op.kind as u32,
        });
        Ok(())
    }

    /// The range of an op, scaled and aligned.
    fn range(&self, op: &ParsedOp) -> Result<(u64, u32), (String, &'static str)> {
        const HINT: &str = "correct the trace";
        let longest = match op.kind {
            TracedKind::Trim => u32::MAX.into(),
            _ => MAX_TRANSFER,
        };
        if op.length == 0 {
            return Err(("its length is 0".to_owned(), HINT));
        }
        if op.length > longest {
            let message = format!(
                "its length is {}, and at most {longest} is possible",
                op.length
            );
            return Err((message, HINT));
        }
        let mut offset = op.offset / self.replay.scale.max(1);
        if self.replay.align > 1 {
            offset -= offset % self.replay.align;
        }
        match offset.checked_add(op.length) {
            Some(end) if end <= i64::MAX as u64 => Ok((offset, op.length as u32)),
            _ => {
                let message = format!("offset {offset} is beyond the end of any file");
                Err((message, HINT))
            }
        }
    }

    /// Index of a name in the trace's files.
    fn used(&mut self, name: usize) -> usize {
        let (name, used) = &mut self.names[name];
        *used.get_or_insert_with(|| {
            self.trace.files.push(TracedFile {
                name: name.clone(),
                reads: false,
                writes: false,
                trims: false,
                end: 0,
                end_at: 0,
                bits: 0,
            });
            self.trace.files.len() - 1
        })
    }

    fn finish(mut self, places: &'static str) -> Trace {
        self.trace.places = places;
        if self.skipped_changes > 0 {
            self.trace.notes.push(format!(
                "{} writes and trims are left out, because files are only read",
                self.skipped_changes
            ));
        }
        self.trace.ops.shrink_to_fit();
        self.trace
    }
}

/// A time at `percent` of the trace's speed, ns. `None`: beyond 292 years.
fn scaled(due_ns: u64, percent: u32) -> Option<u64> {
    let due = u128::from(due_ns) * 100 / u128::from(percent.max(1));
    u64::try_from(due).ok().filter(|due| *due < i64::MAX as u64)
}

/// Times of a trace as time since its first op. As in fio, a time before the one preceding it counts as the same time,
/// and the next one counts from there.
#[derive(Debug, Default)]
struct Elapsed {
    last: Option<u64>,
    sum: u64,
}

impl Elapsed {
    /// The time since the first one, in the same unit.
    fn at(&mut self, time: u64) -> u64 {
        let step = self.last.map_or(0, |last| time.saturating_sub(last));
        self.last = Some(time);
        self.sum = self.sum.saturating_add(step);
        self.sum
    }
}
