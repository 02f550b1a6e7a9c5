//! The op stream of one clone of a job on shared files, with the rules of sysbench fileio.
//!
//! The next op depends on all clones together ([`SharedFilesState`]) and, where reads and writes are mixed, on how
//! many of each this clone has issued. There are two differences from sysbench: a sync waits until the writes of this
//! clone have completed, and each file is divided from its start, so that a file of odd length is used completely and
//! not exceeded.

use std::num::NonZeroU64;
use std::sync::Arc;

use iodyno_model::{Direction, DirectionRate, EndedBy, Job, MissedOps, SharedFiles, SharedMode};
use iodyno_sys::{Op, OpKind, Slot};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::blocks::BlockDraw;
use super::pacing::Schedule;
use super::shared_fill::Filling;
use super::{CloneStream, Issue, Next, OpStream, end_sync};
use crate::shared_files::{Claim, Place, SharedFilesState, Turn};

/// Number of draws before the clone waits for a locked block.
const DRAWS: u32 = 8;
/// Wait before a block locked by another clone is tried again, ns.
const AT_WORK_NS: u64 = 20_000;

/// The source of requests.
#[derive(Debug)]
enum Source {
    /// The sequence shared by all clones.
    Sequence { writes: bool },
    /// Random blocks.
    Random(Box<Draws>),
    /// Extends each file from its current length to its full length.
    Filling(Filling),
}

#[derive(Debug)]
struct Draws {
    mode: SharedMode,
    ratio: f64,
    reads: BlockDraw,
    writes: BlockDraw,
    /// Requests of this clone.
    read: u64,
    written: u64,
}

impl Draws {
    /// sysbench's rule: read while (reads + 1) ÷ (writes + 1) is less than the ratio.
    #[inline]
    fn next_writes(&self) -> bool {
        match self.mode {
            SharedMode::RandomRead => false,
            SharedMode::RandomMix => {
                (self.read as f64 + 1.0) / (self.written as f64 + 1.0) >= self.ratio
            }
            _ => true,
        }
    }
}

/// An op in flight.
#[derive(Debug, Clone, Copy)]
struct Flying {
    kind: OpKind,
    file: u32,
    /// Number of the block that it locked.
    piece: u64,
}

/// The op stream of one clone. All random choices follow from one seed.
#[derive(Debug)]
pub struct SharedStream {
    state: Arc<SharedFilesState>,
    source: Source,
    random: Xoshiro256PlusPlus,
    schedule: Option<Schedule>,
    start: u64,
    /// Whether events count: the measured time has begun.
    measured: bool,
    sync: OpKind,
    fsync_all: bool,
    checks: bool,
    flying: Box<[Option<Flying>]>,
    /// Number of writes in flight.
    writing: u32,
    /// An op that waits for a block, or a sync that waits for writes.
    held: Option<(Issue, u64)>,
    /// Files that were written and are still to be synced (`fsync_all`).
    owed: Vec<u32>,
}

impl SharedStream {
    /// The stream of a clone of `job`, with the rules `rule`.
    pub fn new(
        job: &Job,
        rule: &SharedFiles,
        state: &Arc<SharedFilesState>,
        seed: u64,
    ) -> SharedStream {
        let depth = rule.engine.depth.max(1) as usize;
        let source = match rule.mode {
            SharedMode::Prepare => Source::Filling(Filling::new(depth)),
            mode if mode.random() => Source::Random(Box::new(draws(rule, state))),
            mode => Source::Sequence {
                writes: mode.writes(),
            },
        };
        let rate = DirectionRate {
            iops: job.pacing.ops_per_s,
            ..DirectionRate::default()
        };
        SharedStream {
            state: Arc::clone(state),
            source,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            schedule: Schedule::new(rate, job.pacing.arrival),
            start: 0,
            measured: false,
            sync: sync_kind(rule),
            fsync_all: rule.fsync_all && rule.mode != SharedMode::Prepare,
            checks: rule.validate,
            flying: vec![None; depth].into_boxed_slice(),
            writing: 0,
            held: None,
            owed: Vec::with_capacity(depth),
        }
    }

    /// The actions that take precedence over a new request: a held op, a required sync or a wait; `None` without any.
    fn first(&mut self, now: u64, slot: Slot, place: &mut Issue) -> Option<Next> {
        if let Some(file) = self.owed.pop() {
            *place = sync(self.sync, file, None);
            return Some(self.issue(slot, place, u64::MAX));
        }
        let (issue, piece) = self.held?;
        let waits = match claim(issue.op.kind) {
            None => self.writing > 0,
            Some(kind) => !self.state.take(piece, kind),
        };
        if waits {
            return Some(self.wait(now));
        }
        self.held = None;
        *place = issue;
        Some(self.issue(slot, place, piece))
    }

    fn wait(&self, now: u64) -> Next {
        match self.flying.iter().any(Option::is_some) {
            true => Next::WaitForCompletion,
            false => Next::WaitUntil(now + AT_WORK_NS),
        }
    }

    /// The result after the last request. Writes in flight are still followed by their syncs.
    fn over(&self) -> Next {
        match self.fsync_all && self.writing > 0 {
            true => Next::WaitForCompletion,
            false => Next::Done(EndedBy::Count),
        }
    }

    #[inline]
    fn issue(&mut self, slot: Slot, issue: &Issue, piece: u64) -> Next {
        let op = &issue.op;
        self.writing += u32::from(op.kind == OpKind::Write);
        self.flying[slot as usize] = Some(Flying {
            kind: op.kind,
            file: op.file,
            piece,
        });
        Next::Op
    }

    /// The next request, with its block locked; `Err`: one whose block is locked by another op.
    #[inline]
    fn request(&mut self, writes: bool) -> Result<Place, Place> {
        let kind = if writes { Claim::Write } else { Claim::Read };
        let geometry = *self.state.geometry();
        let draws = match &mut self.source {
            Source::Random(draws) => draws,
            _ => {
                let place = geometry.place(self.state.next_in_sequence());
                return match self.state.take(place.number, kind) {
                    true => Ok(place),
                    false => Err(place),
                };
            }
        };
        *(if writes {
            &mut draws.written
        } else {
            &mut draws.read
        }) += 1;
        let law = if writes {
            &mut draws.writes
        } else {
            &mut draws.reads
        };
        let mut number = 0;
        for _ in 0..DRAWS {
            number = law.next(&mut self.random);
            if self.state.take(number, kind) {
                return Ok(geometry.place(number));
            }
        }
        Err(geometry.place(number))
    }

    fn fill(&mut self, slot: Slot, place: &mut Issue) -> Next {
        let Source::Filling(filling) = &mut self.source else {
            return Next::Done(EndedBy::Size);
        };
        match filling.next(&self.state, slot) {
            Some(piece) => {
                *place = transfer(&piece, true, None, false);
                self.issue(slot, place, u64::MAX)
            }
            // Files of other slots may need more writes after that op has completed.
            None if self.writing > 0 => Next::WaitForCompletion,
            None => Next::Done(EndedBy::Size),
        }
    }
}

/// The kind of sync to use for files.
pub(crate) fn sync_kind(rule: &SharedFiles) -> OpKind {
    // A newly created file must persist, with its length.
    match rule.data_only && rule.mode != SharedMode::Prepare {
        true => OpKind::Fdatasync,
        false => OpKind::Fsync,
    }
}

fn draws(rule: &SharedFiles, state: &SharedFilesState) -> Draws {
    let draw = || {
        // Hot blocks are at the same places for all clones, and for reads and writes.
        let mut scatter = Xoshiro256PlusPlus::seed_from_u64(state.scatter);
        let blocks = (state.geometry().pieces(), rule.block.max(1));
        BlockDraw::new((&rule.distribution, None), false, blocks, &mut scatter)
    };
    Draws {
        mode: rule.mode,
        ratio: rule.read_write_ratio,
        reads: draw(),
        writes: draw(),
        read: 0,
        written: 0,
    }
}

fn claim(kind: OpKind) -> Option<Claim> {
    match kind {
        OpKind::Read => Some(Claim::Read),
        OpKind::Write => Some(Claim::Write),
        _ => None,
    }
}

fn sync(kind: OpKind, file: u32, intended: Option<NonZeroU64>) -> Issue {
    Issue {
        intended,
        counted: true,
        ..end_sync(kind, file)
    }
}

#[inline]
fn transfer(place: &Place, writes: bool, intended: Option<NonZeroU64>, checks: bool) -> Issue {
    let (kind, direction) = match writes {
        true => (OpKind::Write, Direction::Write),
        false => (OpKind::Read, Direction::Read),
    };
    let op = Op::new(kind, place.file, place.offset, place.length);
    Issue {
        intended,
        checked: checks && !writes,
        ..Issue::counted(op, direction)
    }
}

impl CloneStream for SharedStream {
    fn begin(&mut self, start: u64) {
        self.start = start;
    }

    fn measure(&mut self) {
        self.measured = true;
    }

    fn missed(&self, until: u64) -> Vec<MissedOps> {
        let schedule = self.schedule.as_ref();
        let ops = schedule.map_or(0, |it| it.missed(until.saturating_sub(self.start)));
        MissedOps::some(None, ops).into_iter().collect()
    }
}

impl OpStream for SharedStream {
    #[inline]
    fn next(&mut self, now: u64, slot: Slot, place: &mut Issue) -> Next {
        if (self.held.is_some() || !self.owed.is_empty())
            && let Some(next) = self.first(now, slot, place)
        {
            return next;
        }
        let writes = match &self.source {
            Source::Filling(_) => return self.fill(slot, place),
            Source::Sequence { writes } => *writes,
            Source::Random(draws) => draws.next_writes(),
        };
        if self.measured && self.state.over() {
            return self.over();
        }
        if let Some(schedule) = &self.schedule {
            let due = self.start + schedule.due();
            if now < due {
                return Next::WaitUntil(due);
            }
        }
        if self.measured && !self.state.event() {
            return self.over();
        }
        let intended = self
            .schedule
            .as_mut()
            .and_then(|schedule| NonZeroU64::new(self.start + schedule.take(0, &mut self.random)));
        if let Turn::Sync(file) = self.state.turn(writes) {
            let issue = sync(self.sync, file, intended);
            if self.writing > 0 {
                self.held = Some((issue, u64::MAX));
                return Next::WaitForCompletion;
            }
            *place = issue;
            return self.issue(slot, place, u64::MAX);
        }
        match self.request(writes) {
            Ok(request) => {
                *place = transfer(&request, writes, intended, self.checks);
                self.issue(slot, place, request.number)
            }
            Err(request) => {
                let issue = transfer(&request, writes, intended, self.checks);
                self.held = Some((issue, request.number));
                self.wait(now)
            }
        }
    }

    #[inline]
    fn completed(&mut self, slot: Slot, succeeded: bool) {
        let Some(flying) = self.flying[slot as usize].take() else {
            return;
        };
        if flying.kind == OpKind::Write {
            self.writing -= 1;
            if let Source::Filling(filling) = &mut self.source {
                return filling.written(&self.state, slot, succeeded);
            }
            if self.fsync_all && succeeded {
                self.owed.push(flying.file);
            }
        }
        if let Some(kind) = claim(flying.kind) {
            self.state.give_back(flying.piece, kind);
        }
    }
}

impl Drop for SharedStream {
    /// Unlocks the blocks of ops that never completed: other clones must not wait for them forever.
    fn drop(&mut self) {
        let filling = matches!(self.source, Source::Filling(_));
        for flying in self.flying.iter().flatten().filter(|_| !filling) {
            if let Some(kind) = claim(flying.kind) {
                self.state.give_back(flying.piece, kind);
            }
        }
    }
}

#[cfg(test)]
#[path = "shared_tests.rs"]
mod tests;
