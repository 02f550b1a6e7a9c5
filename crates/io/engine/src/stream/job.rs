//! The op stream of one clone of a job.

use iodyno_model::{Blocks, Direction, EndedBy, Flow, Job, MissedOps, ThinkTime, Verify};
use iodyno_sys::{Op, OpKind, Slot};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;

use super::files::FileTurn;
use super::hazards::Hazards;
use super::mix::{Choice, Mix};
use super::region::Region;
use super::zoned::{DeviceZones, ZoneOrder, ZoneTurn, reset};
use super::{CloneStream, Issue, Next, OpStream, sizes};
use crate::flow::SharedFlow;

/// How long a clone that is ahead in its flow waits before it checks again, ns, unless the job sets a time. A busy
/// wait would take CPU time from the clones that it waits for.
const FLOW_PAUSE_NS: u64 = 10_000;
/// A budget that is never used up.
const ENDLESS: u64 = u64::MAX / 2;

/// The op stream of one clone. All random choices follow from one seed.
#[derive(Debug)]
pub struct JobStream {
    blocks: Blocks,
    flow_rule: Option<Flow>,
    random: Xoshiro256PlusPlus,
    regions: Vec<Region>,
    mix: Mix,
    start: u64,
    /// Bytes issued and counted; those of the ramp, too, as in fio.
    issued_bytes: u64,
    /// Ops issued and counted since the measured time began.
    issued_ops: u64,
    /// Bytes and ops after which the stream ends; ops: [`ENDLESS`] during the ramp.
    byte_budget: u64,
    op_budget: u64,
    /// Bytes of a pass and of all passes, if written data are verified after each.
    verified_passes: Option<(u64, u64)>,
    /// Op budget of the measured time.
    most_ops: u64,
    /// Whether the last op is whole even if it exceeds the budget.
    exceeds: bool,
    /// Passes that can begin, if a pass ends before the budget is used up.
    passes_left: u64,
    /// Maximum length of an op, bytes: the shortest region in whole blocks.
    longest: u64,
    files: FileTurn,
    syncs: SyncTurn,
    think: Option<ThinkTurn>,
    flow: Option<FlowTurn>,
    /// Trimmed blocks that are still to be written (`trimwrite`).
    trimmed: Vec<Op>,
    trims_in_flight: Vec<Option<Op>>,
    hazards: Option<Hazards>,
    /// `Some` on zoned devices.
    zone_order: Option<ZoneOrder>,
    /// Smallest block, bytes.
    least: u64,
    /// Whether ops need only pacing, mixing and drawing, so that all other checks can be skipped.
    plain: bool,
    checks_reads: bool,
    /// Whether blocks are read and verified instead of written (`verify_only`).
    only_checks: bool,
}

#[derive(Debug, Default)]
struct SyncTurn {
    writes: u64,
    pending: Option<Op>,
    /// Start and end of the data written to each file since its last sync; empty in jobs without syncs.
    ranges: Vec<Option<(u64, u64)>>,
    /// The files with such writes, in the order of the first of them.
    waiting: VecDeque<u32>,
}

impl SyncTurn {
    /// For this number of files.
    fn new(files: usize) -> SyncTurn {
        SyncTurn {
            ranges: vec![None; files],
            waiting: VecDeque::with_capacity(files),
            ..SyncTurn::default()
        }
    }
}

#[derive(Debug)]
struct ThinkTurn {
    rule: ThinkTime,
    /// Number of ops issued since the last pause.
    ops: u32,
    in_flight: u32,
    /// End of the last pause.
    since: u64,
    until: Option<(u64, u64)>,
}

impl ThinkTurn {
    fn new(rule: ThinkTime) -> ThinkTurn {
        ThinkTurn {
            rule,
            ops: 0,
            in_flight: 0,
            since: 0,
            until: None,
        }
    }

    fn due(&self, now: u64) -> bool {
        let io_time = self.rule.io_time.0;
        self.ops >= self.rule.every_ops.max(1)
            || (io_time > 0 && now >= self.since.saturating_add(io_time))
    }
}

/// A clone's membership in its flow; dropping it leaves the flow.
#[derive(Debug)]
struct FlowTurn {
    shared: Arc<SharedFlow>,
    rule: Flow,
    ops: u64,
}

impl FlowTurn {
    fn weight(&self) -> u64 {
        self.rule.weight.max(1).into()
    }

    /// When to ask again, if the clone is ahead of its share.
    fn stall(&self, now: u64) -> Option<Next> {
        if self.shared.allows(self.weight(), self.ops) {
            return None;
        }
        let pause = match self.rule.pause.0 {
            0 => FLOW_PAUSE_NS,
            pause => pause,
        };
        Some(Next::WaitUntil(now + pause))
    }

    fn issued(&mut self) {
        self.shared.issued();
        self.ops += 1;
    }
}

impl Drop for FlowTurn {
    fn drop(&mut self) {
        self.shared.leave(self.weight(), self.ops);
    }
}

/// Bytes of a pass and of all passes, if written data are verified after each.
fn verified_passes(blocks: &Blocks, byte_budget: u64) -> Option<(u64, u64)> {
    let passes = blocks.passes;
    let verified = |verify: &Verify| verify.do_verify && !verify.only && verify.backlog == 0;
    (passes.loops > 1
        && !passes.time_based
        && passes.io_size.is_none()
        && blocks.access.writes
        && blocks.verify.as_ref().is_some_and(verified))
    .then_some((byte_budget / passes.loops, byte_budget))
}

impl JobStream {
    /// The stream of a clone whose files have these regions, each (base, length).
    pub fn new(
        job: &Job,
        blocks: &Blocks,
        regions: &[(u64, u64)],
        byte_budget: u64,
        seed: u64,
    ) -> JobStream {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let access = &blocks.access;
        let least = access.min_block().max(1);
        let shortest = regions.iter().map(|(_, length)| *length).min();
        let shortest = shortest.unwrap_or(u64::MAX).max(least);
        let passes = blocks.passes;
        let verified_passes = verified_passes(blocks, byte_budget);
        let bytes = match (passes.time_based, verified_passes) {
            (true, _) => ENDLESS,
            (false, Some((pass, _))) => pass,
            (false, None) => byte_budget,
        };
        let most_ops = job.end.ops.unwrap_or(ENDLESS);
        let lengths = regions.iter().map(|(_, length)| *length);
        let regions: Vec<Region> = regions
            .iter()
            .map(|region| {
                let zones = (&blocks.extent, blocks.passes.time_based);
                Region::new(access, zones, *region, &mut random)
            })
            .collect();
        let files = FileTurn::new(blocks, lengths, &mut random);
        let depth = blocks.engine.depth;
        let changes = access.writes || access.trims;
        let ordered = access.serialize_overlap && depth > 1 && changes;
        let hazards = (blocks.verify.is_some() || ordered)
            .then(|| Hazards::new(blocks.verify.as_ref(), depth));
        let writes_after_trims = access.trims && access.writes;
        let sync = &blocks.sync;
        let syncs = sync.fsync_every > 0 || sync.fdatasync_every > 0 || sync.range.is_some();
        let count = regions.len();
        let rewritten = if writes_after_trims {
            depth as usize
        } else {
            0
        };
        let plain = hazards.is_none()
            && !writes_after_trims
            && job.pacing.think.is_none()
            && job.pacing.flow.is_none()
            && !syncs;
        JobStream {
            random,
            regions,
            plain,
            least,
            longest: shortest - shortest % least,
            mix: Mix::new(access, &job.pacing),
            start: 0,
            issued_bytes: 0,
            issued_ops: 0,
            byte_budget: bytes,
            exceeds: blocks.exceeds_bytes(),
            passes_left: match blocks.passes.io_size {
                Some(_) => ENDLESS,
                None => blocks.passes.loops.saturating_sub(1),
            },
            op_budget: most_ops,
            verified_passes,
            most_ops,
            files,
            syncs: SyncTurn::new(if syncs { count } else { 0 }),
            think: job.pacing.think.map(ThinkTurn::new),
            flow: None,
            trimmed: Vec::with_capacity(rewritten),
            trims_in_flight: vec![None; rewritten],
            hazards,
            zone_order: None,
            checks_reads: blocks.verify.is_some() && !access.writes,
            only_checks: blocks.verify.as_ref().is_some_and(|verify| verify.only),
            flow_rule: job.pacing.flow,
            blocks: blocks.clone(),
        }
    }

    /// The same on zoned devices, whose regions begin at these offsets.
    pub(crate) fn on_zones(mut self, zones: &DeviceZones, regions: &[(u64, u64)]) -> JobStream {
        for (region, written) in self.regions.iter_mut().zip(&zones.written) {
            region.contains(written);
        }
        let bases = regions.iter().map(|(base, _)| *base).collect();
        let order = ZoneOrder::new(zones, bases, self.blocks.engine.depth);
        self.zone_order = Some(order);
        self.plain = false;
        self
    }

    #[inline]
    fn used_up(&self) -> Option<EndedBy> {
        if self.issued_ops >= self.op_budget {
            return Some(EndedBy::Count);
        }
        let least = if self.exceeds { 1 } else { self.least };
        (self.issued_bytes + least > self.byte_budget).then_some(EndedBy::Size)
    }

    /// Pauses if a pause is due. A pause begins when no op is in flight.
    fn pause(&mut self, now: u64) -> Option<Next> {
        let think = self.think.as_mut()?;
        if think.until.is_none() && think.due(now) {
            if think.in_flight > 0 {
                return Some(Next::WaitForCompletion);
            }
            think.ops = 0;
            let end = now + think.rule.pause.0;
            think.until = Some((now + think.rule.spin.0.min(think.rule.pause.0), end));
        }
        let (spin, end) = think.until?;
        if now < spin {
            return Some(Next::SpinUntil(spin));
        }
        if now < end {
            return Some(Next::WaitUntil(end));
        }
        (think.until, think.since) = (None, end);
        None
    }

    /// The sync is of the file with writes that has waited longest for one. In fio, a sync takes a turn of the files;
    /// here, syncs do not change which blocks are written.
    fn sync(&mut self) -> Option<Issue> {
        let mut op = self.syncs.pending.take()?;
        op.file = self.syncs.waiting.pop_front().unwrap_or(op.file);
        let range = self.syncs.ranges[op.file as usize].take();
        if let (OpKind::SyncRange(_), Some((first, last))) = (op.kind, range) {
            op.offset = first;
            // The call takes 0 for all up to the end of the file.
            op.length = u32::try_from(last - first).unwrap_or(0);
        }
        Some(Issue::counted(op, Direction::Sync))
    }

    /// As in fio, a write is followed by one sync at most: fsync takes precedence over fdatasync, and that over
    /// sync_file_range.
    fn wrote(&mut self, op: &Op) {
        let policy = &self.blocks.sync;
        let syncs = &mut self.syncs;
        syncs.writes += 1;
        let due = |every: u32| every > 0 && syncs.writes.is_multiple_of(every.into());
        let whole = |kind| Op {
            kind,
            offset: 0,
            length: 0,
            skip: 0,
            ..*op
        };
        let Some(range) = syncs.ranges.get_mut(op.file as usize) else {
            return;
        };
        if range.is_none() {
            syncs.waiting.push_back(op.file);
        }
        let end = op.offset + u64::from(op.length);
        let (first, last) = range.unwrap_or((op.offset, end));
        *range = Some((first.min(op.offset), last.max(end)));
        syncs.pending = match policy.range {
            _ if due(policy.fsync_every) => Some(whole(OpKind::Fsync)),
            _ if due(policy.fdatasync_every) => Some(whole(OpKind::Fdatasync)),
            Some(rule) if due(rule.every) => Some(whole(OpKind::SyncRange(rule.flags))),
            _ => None,
        };
    }

    /// The file of the next op: one whose region fits `length` bytes.
    #[inline]
    fn file(&mut self, length: u64) -> u32 {
        match self.regions.len() {
            1 => 0,
            count => {
                let regions = &self.regions;
                let region = |file: u32| regions[file as usize].length();
                self.files
                    .next(count as u32, length, region, &mut self.random)
            }
        }
    }

    /// Draws the next op of the given direction. Whether there is one.
    #[inline(always)]
    fn draw(&mut self, direction: Direction, place: &mut Issue) -> bool {
        let drawn = match self.blocks.access.block_sizes.get(direction) {
            Some(sizes) => sizes::draw(sizes, &mut self.random),
            None => 0,
        };
        // The remaining budget is at least the smallest block: see `used_up`.
        let left = match self.exceeds {
            true => self.longest,
            false => (self.byte_budget - self.issued_bytes).min(self.longest),
        };
        let length = if drawn <= left {
            drawn
        } else {
            left - left % self.least
        };
        let file = self.file(length);
        let region = &mut self.regions[file as usize];
        let (mut offset, mut length) = region.next(direction, length, &mut self.random);
        if length == 0 && drawn > 0 {
            if self.passes_left == 0 || !region.begin_pass() {
                return false;
            }
            self.passes_left -= 1;
            (offset, length) = region.next(direction, drawn.min(left), &mut self.random);
        }
        let begins_pass = region.begins_pass();
        self.issued_bytes += length;
        self.issued_ops += 1;
        let (kind, checked) = match direction {
            Direction::Read => (OpKind::Read, self.checks_reads),
            Direction::Write if self.only_checks => (OpKind::Read, true),
            Direction::Write => (OpKind::Write, false),
            _ => (OpKind::Trim, false),
        };
        let due = self.mix.take(direction, length, &mut self.random);
        *place = Issue {
            op: Op::new(kind, file, offset, length as u32),
            direction: if checked { Direction::Read } else { direction },
            intended: due.and_then(|due| NonZeroU64::new(self.start.saturating_add(due))),
            checked,
            counted: true,
            begins_pass,
        };
        true
    }

    /// If no written data can be read, a job that also writes does so.
    #[cold]
    fn nothing_to_read(&mut self, slot: Slot, place: &mut Issue) -> Next {
        match self.blocks.access.writes && self.draw(Direction::Write, place) {
            true => self.issue(slot, place),
            false => Next::Done(EndedBy::Size),
        }
    }

    /// The next required op: the write after a trim, the trim of a verified block, or a verifying read. As in fio, such
    /// trims count towards a number of ops, and not towards a number of bytes.
    fn owed(&mut self) -> Option<Issue> {
        let (op, direction, checked) = if let Some(op) = self.trimmed.pop() {
            (
                Op {
                    kind: OpKind::Write,
                    ..op
                },
                Direction::Write,
                false,
            )
        } else {
            let ending = self.used_up().is_some();
            let hazards = self.hazards.as_mut()?;
            match hazards.next_trim(ending) {
                Some(op) => {
                    self.issued_ops += 1;
                    (op, Direction::Trim, false)
                }
                None => (hazards.next_check()?, Direction::Read, true),
            }
        };
        Some(Issue {
            checked,
            counted: !checked,
            ..Issue::counted(op, direction)
        })
    }

    /// Ops that take precedence over the mix: a held op, a sync, a required op, a pause.
    fn first(&mut self, now: u64, slot: Slot, place: &mut Issue) -> Option<Next> {
        if let Some(held) = self
            .hazards
            .as_mut()
            .and_then(|hazards| hazards.held.take())
        {
            *place = held;
            return Some(self.issue(slot, place));
        }
        if let Some(order) = &mut self.zone_order
            && let Some(held) = order.held.take()
        {
            *place = held;
            return Some(self.issue(slot, place));
        }
        // As in fio, no sync follows the last op.
        if self.used_up().is_none()
            && let Some(sync) = self.sync()
        {
            *place = sync;
            if let Some(think) = &mut self.think {
                think.in_flight += 1;
            }
            return Some(Next::Op);
        }
        if let Some(owed) = self.owed() {
            *place = owed;
            return Some(self.issue(slot, place));
        }
        match self.used_up() {
            None => self
                .pause(now)
                .or_else(|| self.flow.as_ref().and_then(|flow| flow.stall(now))),
            Some(_) => None,
        }
    }

    /// Queues the ops that follow from a completed op.
    fn follow(&mut self, slot: Slot, succeeded: bool) {
        if let Some(think) = &mut self.think {
            think.in_flight -= 1;
        }
        if let Some(hazards) = &mut self.hazards {
            hazards.completed(slot, succeeded);
        }
        if let Some(order) = &mut self.zone_order {
            order.completed(slot);
        }
        if let Some(trim) = self
            .trims_in_flight
            .get_mut(slot as usize)
            .and_then(Option::take)
            && succeeded
        {
            self.trimmed.push(trim);
        }
    }

    fn issue(&mut self, slot: Slot, issue: &mut Issue) -> Next {
        if let Some(order) = &mut self.zone_order {
            match order.turn(slot, &issue.op) {
                ZoneTurn::Now => {}
                ZoneTurn::Wait => {
                    order.held = Some(*issue);
                    return Next::WaitForCompletion;
                }
                ZoneTurn::After(op) => {
                    order.held = Some(std::mem::replace(issue, reset(op)));
                    if let Some(think) = &mut self.think {
                        think.in_flight += 1;
                    }
                    return Next::Op;
                }
            }
        }
        if let Some(hazards) = &mut self.hazards {
            if hazards.conflicts(&issue.op) {
                hazards.held = Some(*issue);
                return Next::WaitForCompletion;
            }
            hazards.issued(slot, &issue.op);
        }
        if let Some(think) = &mut self.think {
            think.in_flight += 1;
            think.ops += u32::from(issue.counted);
        }
        if issue.op.kind == OpKind::Trim
            && let Some(place) = self.trims_in_flight.get_mut(slot as usize)
        {
            *place = Some(issue.op);
        }
        if issue.op.kind == OpKind::Write {
            self.wrote(&issue.op);
        }
        Next::Op
    }
}

impl CloneStream for JobStream {
    fn begin(&mut self, start: u64) {
        self.start = start;
        self.think.iter_mut().for_each(|think| think.since = start);
        self.op_budget = ENDLESS;
    }

    fn measure(&mut self) {
        self.issued_ops = 0;
        self.op_budget = self.most_ops;
    }

    fn next_pass(&mut self) -> bool {
        match self.verified_passes {
            Some((pass, whole)) if self.byte_budget < whole => {
                self.byte_budget += pass;
                true
            }
            _ => false,
        }
    }

    fn join(&mut self, flow: &Arc<SharedFlow>) {
        if let Some(rule) = self.flow_rule {
            let turn = FlowTurn {
                shared: Arc::clone(flow),
                rule,
                ops: 0,
            };
            flow.join(turn.weight());
            self.flow = Some(turn);
        }
    }

    fn leave(&mut self) {
        self.flow = None;
    }

    fn missed(&self, until: u64) -> Vec<MissedOps> {
        let bytes = self.byte_budget.saturating_sub(self.issued_bytes);
        let ops = self.op_budget.saturating_sub(self.issued_ops);
        let most = ops.min(bytes / self.least.max(1));
        let missed = self.mix.missed(until.saturating_sub(self.start));
        missed
            .filter_map(|(direction, ops)| MissedOps::some(Some(direction), ops.min(most)))
            .collect()
    }
}

impl OpStream for JobStream {
    #[inline(always)]
    fn next(&mut self, now: u64, slot: Slot, place: &mut Issue) -> Next {
        if !self.plain
            && let Some(first) = self.first(now, slot, place)
        {
            return first;
        }
        if let Some(ended) = self.used_up() {
            let may_trim = self.hazards.as_ref().is_some_and(Hazards::may_trim);
            return match may_trim || self.trims_in_flight.iter().any(Option::is_some) {
                true => Next::WaitForCompletion,
                false => Next::Done(ended),
            };
        }
        let elapsed = now.saturating_sub(self.start);
        match self.mix.choose(elapsed, &mut self.random) {
            Choice::NotBefore(due) => Next::WaitUntil(self.start.saturating_add(due)),
            Choice::Issue(direction) => {
                if !self.draw(direction, place) {
                    return self.nothing_to_read(slot, place);
                }
                if self.plain {
                    return Next::Op;
                }
                if let Some(flow) = &mut self.flow {
                    flow.issued();
                }
                self.issue(slot, place)
            }
        }
    }

    #[inline]
    fn completed(&mut self, slot: Slot, succeeded: bool) {
        if !self.plain {
            self.follow(slot, succeeded);
        }
    }
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
