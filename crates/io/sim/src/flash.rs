//! A solid-state disk.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use iodyno_sys::{Device, DeviceEnd, Op, OpKind, Slot};
use slab::Slab;

use crate::SlowPeriod;

/// Parameters of a [`Flash`].
#[derive(Debug, Clone, PartialEq)]
pub struct FlashSettings {
    /// Number of channels.
    pub channels: u32,
    /// Number of dies on each channel.
    pub dies: u32,
    /// Length of a page, bytes.
    pub page: u64,
    /// Time in which a die reads a page (tR), ns.
    pub read_ns: f64,
    /// Time in which a die programs a page (tPROG), ns.
    pub program_ns: f64,
    /// Rate of a channel, bytes per second.
    pub channel_rate: f64,
    /// Rate of the link to the host, bytes per second.
    pub link_rate: f64,
    /// Time from the arrival of a command until its pages are read, ns.
    pub overhead_ns: f64,
    /// A write ends when it is in this buffer, bytes.
    pub buffer: u64,
}

impl Default for FlashSettings {
    /// An NVMe disk with TLC flash on PCIe 3.0 with four lanes.
    fn default() -> FlashSettings {
        FlashSettings {
            channels: 8,
            dies: 4,
            page: 16 << 10,
            read_ns: 60_000.0,
            program_ns: 600_000.0,
            channel_rate: 800e6,
            link_rate: 3.2e9,
            overhead_ns: 8_000.0,
            buffer: 32 << 20,
        }
    }
}

impl FlashSettings {
    /// The same disk with all times multiplied by `factor`.
    pub fn scaled(&self, factor: f64) -> FlashSettings {
        FlashSettings {
            read_ns: self.read_ns * factor,
            program_ns: self.program_ns * factor,
            channel_rate: self.channel_rate / factor,
            link_rate: self.link_rate / factor,
            overhead_ns: self.overhead_ns * factor,
            ..self.clone()
        }
    }
}

/// The part of a command that concerns one page.
#[derive(Debug, Clone, Copy)]
struct Part {
    command: u32,
    bytes: u64,
    program: bool,
}

/// A command with pages to read or program.
#[derive(Debug, Clone, Copy)]
struct Command {
    slot: Slot,
    op: Op,
    /// Parts that have not ended.
    parts: u32,
    factor: f64,
}

/// What happens at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The disk begins to work on a command.
    Begin(u32),
    /// A die has read or programmed its page.
    Die(u32),
    /// A channel has transferred a page.
    Channel(u32),
}

/// Work of a die or channel: the first part is in progress.
type WorkQueue = VecDeque<Part>;

/// A solid-state disk: consecutive pages lie on consecutive channels, then on their next dies. A die reads or programs
/// one page at a time and keeps a page that it has read until its channel has transferred it. Work is done in the order
/// of its arrival. Writes end when the buffer has room for them; their pages are programmed later. Reads are never
/// served from the buffer.
#[derive(Debug, Clone)]
pub struct Flash {
    settings: FlashSettings,
    slowing: Vec<SlowPeriod>,
    /// Earliest first; the number keeps the order of equal times.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    numbers: u64,
    commands: Slab<Command>,
    dies: Vec<WorkQueue>,
    /// Pages that wait for a channel: the die, and the part.
    channels: Vec<VecDeque<(u32, Part)>>,
    link_free: f64,
    /// Ends of commands, earliest first.
    ends: BinaryHeap<Reverse<(u64, u64, Slot, i32)>>,
    buffered: u64,
    /// Writes that wait for room in the buffer.
    stalled: VecDeque<u32>,
}

impl Flash {
    /// Creates an empty disk.
    pub fn new(settings: &FlashSettings, slowing: &[SlowPeriod]) -> Flash {
        let dies = settings.channels * settings.dies;
        Flash {
            slowing: slowing.to_vec(),
            events: BinaryHeap::with_capacity(256),
            numbers: 0,
            commands: Slab::with_capacity(64),
            dies: vec![WorkQueue::with_capacity(16); dies as usize],
            channels: vec![VecDeque::with_capacity(16); settings.channels as usize],
            link_free: 0.0,
            ends: BinaryHeap::with_capacity(64),
            buffered: 0,
            stalled: VecDeque::new(),
            settings: settings.clone(),
        }
    }

    fn schedule(&mut self, at: f64, event: Event) {
        self.numbers += 1;
        self.events
            .push(Reverse((at.round() as u64, self.numbers, event)));
    }

    fn end(&mut self, at: f64, slot: Slot, result: i32) {
        self.numbers += 1;
        self.ends
            .push(Reverse((at.round() as u64, self.numbers, slot, result)));
    }

    /// Does what happens until `now`.
    fn advance(&mut self, now: u64) {
        while let Some(&Reverse((at, _, event))) = self.events.peek() {
            if at > now {
                return;
            }
            self.events.pop();
            let at = at as f64;
            match event {
                Event::Begin(command) => self.begin(at, command),
                Event::Die(die) => self.die_done(at, die),
                Event::Channel(channel) => self.channel_done(at, channel),
            }
        }
    }

    fn begin(&mut self, now: f64, number: u32) {
        let Command { slot, op, .. } = self.commands[number as usize];
        match op.kind {
            OpKind::Read => self.spread(now, number, false),
            OpKind::Write => {
                self.stalled.push_back(number);
                self.accept_writes(now);
            }
            _ => {
                self.commands.remove(number as usize);
                self.end(now, slot, 0);
            }
        }
    }

    /// Ends the writes for which the buffer has room, and begins to program them. A write that is larger than the
    /// buffer is accepted when the buffer is empty.
    fn accept_writes(&mut self, now: f64) {
        while let Some(&number) = self.stalled.front() {
            let Command {
                slot, op, factor, ..
            } = self.commands[number as usize];
            let length = u64::from(op.length);
            if self.buffered > 0 && self.buffered + length > self.settings.buffer {
                return;
            }
            self.stalled.pop_front();
            self.buffered += length;
            let end = self.transfer(now, length, factor);
            self.end(end, slot, op.length as i32);
            self.spread(now, number, true);
        }
    }

    /// Gives the pages of a command to their dies.
    fn spread(&mut self, now: f64, number: u32, program: bool) {
        let Op { offset, length, .. } = self.commands[number as usize].op;
        let (mut offset, end) = (offset, offset + u64::from(length));
        let mut parts = 0;
        while offset < end {
            let page = offset / self.settings.page;
            let next = ((page + 1) * self.settings.page).min(end);
            let die = (page % self.dies.len() as u64) as u32;
            parts += 1;
            self.dies[die as usize].push_back(Part {
                command: number,
                bytes: next - offset,
                program,
            });
            if self.dies[die as usize].len() == 1 {
                self.start_die(now, die);
            }
            offset = next;
        }
        self.commands[number as usize].parts = parts;
        if parts == 0 {
            self.finish(now, number);
        }
    }

    fn start_die(&mut self, now: f64, die: u32) {
        if let Some(part) = self.dies[die as usize].front() {
            let time = match part.program {
                true => self.settings.program_ns,
                false => self.settings.read_ns,
            };
            let factor = self.commands[part.command as usize].factor;
            self.schedule(now + time * factor, Event::Die(die));
        }
    }

    fn die_done(&mut self, now: f64, die: u32) {
        let Some(&part) = self.dies[die as usize].front() else {
            return;
        };
        if part.program {
            self.buffered -= part.bytes;
            self.next_on_die(now, die);
            self.part_done(now, part.command);
            self.accept_writes(now);
            return;
        }
        let channel = die % self.settings.channels;
        self.channels[channel as usize].push_back((die, part));
        if self.channels[channel as usize].len() == 1 {
            self.start_channel(now, channel);
        }
    }

    fn next_on_die(&mut self, now: f64, die: u32) {
        self.dies[die as usize].pop_front();
        self.start_die(now, die);
    }

    fn start_channel(&mut self, now: f64, channel: u32) {
        if let Some((_, part)) = self.channels[channel as usize].front() {
            let factor = self.commands[part.command as usize].factor;
            let time = part.bytes as f64 * 1e9 / self.settings.channel_rate * factor;
            self.schedule(now + time, Event::Channel(channel));
        }
    }

    fn channel_done(&mut self, now: f64, channel: u32) {
        let Some((die, part)) = self.channels[channel as usize].pop_front() else {
            return;
        };
        self.start_channel(now, channel);
        self.next_on_die(now, die);
        self.part_done(now, part.command);
    }

    fn part_done(&mut self, now: f64, number: u32) {
        self.commands[number as usize].parts -= 1;
        if self.commands[number as usize].parts == 0 {
            self.finish(now, number);
        }
    }

    /// All pages of a command are done.
    fn finish(&mut self, now: f64, number: u32) {
        let Command {
            slot, op, factor, ..
        } = self.commands.remove(number as usize);
        if op.kind == OpKind::Read {
            let end = self.transfer(now, u64::from(op.length), factor);
            self.end(end, slot, op.length as i32);
        }
    }

    /// When the link has transferred these bytes.
    fn transfer(&mut self, now: f64, bytes: u64, factor: f64) -> f64 {
        let begin = self.link_free.max(now);
        self.link_free = begin + bytes as f64 * 1e9 / self.settings.link_rate * factor;
        self.link_free
    }
}

impl Device for Flash {
    fn describe(&self) -> String {
        let FlashSettings { channels, dies, .. } = self.settings;
        format!("simulated solid-state disk, {channels} channels with {dies} dies each")
    }

    fn submit(&mut self, now: u64, slot: Slot, op: &Op) {
        self.advance(now);
        let factor = SlowPeriod::factor_at(&self.slowing, now as f64);
        let command = Command {
            slot,
            op: *op,
            parts: 0,
            factor,
        };
        let number = self.commands.insert(command) as u32;
        let at = now as f64 + self.settings.overhead_ns * factor;
        self.schedule(at, Event::Begin(number));
    }

    fn next_end(&self) -> Option<u64> {
        let event = self.events.peek().map(|Reverse((at, ..))| *at);
        let end = self.ends.peek().map(|Reverse((at, ..))| *at);
        match (event, end) {
            (Some(event), Some(end)) => Some(event.min(end)),
            (event, end) => event.or(end),
        }
    }

    fn take_ended(&mut self, now: u64) -> Option<DeviceEnd> {
        self.advance(now);
        let &Reverse((at, _, slot, result)) = self.ends.peek()?;
        if at > now {
            return None;
        }
        self.ends.pop();
        Some(DeviceEnd { slot, result, at })
    }

    fn cancel_all(&mut self, now: u64) {
        self.advance(now);
        let mut slots: Vec<Slot> = Vec::new();
        let ended: Vec<_> = self.ends.drain().collect();
        for Reverse(end) in ended {
            match end.0 <= now {
                true => self.ends.push(Reverse(end)),
                false => slots.push(end.2),
            }
        }
        // Commands whose end is not decided: reads, and writes that wait for the buffer.
        let accepted = |it: &Command| it.op.kind == OpKind::Write && it.parts > 0;
        let commands = self.commands.drain();
        slots.extend(commands.filter(|it| !accepted(it)).map(|it| it.slot));
        for slot in slots {
            self.end(now as f64, slot, -libc::ECANCELED);
        }
        self.events.clear();
        self.stalled.clear();
        self.dies.iter_mut().for_each(VecDeque::clear);
        self.channels.iter_mut().for_each(VecDeque::clear);
        (self.buffered, self.link_free) = (0, now as f64);
    }
}

#[cfg(test)]
mod tests;
