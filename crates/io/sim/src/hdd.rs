//! A rotating disk.

use std::collections::VecDeque;

use iodyno_sys::{Device, DeviceEnd, Op, OpKind, Slot};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::SlowPeriod;

/// Parameters of a [`Hdd`].
#[derive(Debug, Clone, PartialEq)]
pub struct HddSettings {
    /// Time of one rotation, ns: 60 s / rpm.
    pub rotation_ns: f64,
    /// Rate at which consecutive offsets pass the head, including changes of track, bytes per second.
    pub media_rate: f64,
    /// A seek takes the smaller of `near.0 + near.1 · √d` and `far.0 + far.1 · d`, ns for a distance of d GB (10⁹
    /// bytes).
    pub near: (f64, f64),
    /// See `near`.
    pub far: (f64, f64),
    /// Time from the arrival of a command until the disk can act on it, ns.
    pub overhead_ns: f64,
    /// A gap up to this length ahead of the head is passed without a seek, bytes.
    pub read_through: u64,
    /// After a read the disk reads on into its cache, up to this length, and keeps that much of the run, bytes.
    pub cache: u64,
    /// Number of commands among which the disk chooses the one with the shortest positioning time (NCQ).
    pub choices: u32,
}

impl Default for HddSettings {
    /// A disk of 7200 rpm of about 2012. Media rate, seek curve and overhead are fitted to a published measurement of
    /// ZFS's mirrors (see `benches/mirror-policies.rs`) and frozen: the benchmark's predictions depend on them.
    fn default() -> HddSettings {
        HddSettings {
            rotation_ns: 60e9 / 7200.0,
            media_rate: 130e6,
            near: (1.10e6, 0.55e6),
            far: (3.3e6, 0.0085e6),
            overhead_ns: 0.25e6,
            read_through: 256 << 10,
            cache: 8 << 20,
            choices: 10,
        }
    }
}

impl HddSettings {
    /// The same disk with all times multiplied by `factor`.
    pub fn scaled(&self, factor: f64) -> HddSettings {
        HddSettings {
            rotation_ns: self.rotation_ns * factor,
            media_rate: self.media_rate / factor,
            near: (self.near.0 * factor, self.near.1 * factor),
            far: (self.far.0 * factor, self.far.1 * factor),
            overhead_ns: self.overhead_ns * factor,
            ..self.clone()
        }
    }

    /// Time of a seek over `bytes`, ns.
    #[inline]
    pub fn seek_ns(&self, bytes: u64) -> f64 {
        let distance = bytes as f64 * 1e-9;
        let near = self.near.0 + self.near.1 * distance.sqrt();
        let far = self.far.0 + self.far.1 * distance;
        near.min(far)
    }
}

/// A command that has not started.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    slot: Slot,
    kind: OpKind,
    offset: u64,
    length: u32,
    /// When the disk can act on it, ns.
    ready: f64,
    /// Position of its first byte in a rotation, ns.
    angle: f64,
}

/// Where the data of a command come from or go to.
#[derive(Debug, Clone, Copy)]
enum Medium {
    /// The cache: the head is not concerned.
    Unused,
    /// The medium, where the head reads on.
    ReadOn,
    /// The medium, where the head has to go first.
    Positioned,
}

#[derive(Debug, Clone, Copy)]
struct Transfer {
    /// When the first byte can be transferred, ns.
    first: f64,
    /// When the last one has been, ns.
    end: f64,
    medium: Medium,
}

impl Transfer {
    fn new(first: f64, end: f64, medium: Medium) -> Transfer {
        Transfer { first, end, medium }
    }
}

/// A rotating disk. The angle of the disk and the position of the head are tracked; one command is served at a time,
/// the one with the shortest time to its first byte among those accepted.
///
/// Offsets pass the head at the media rate, at angles that follow from the offset: the skew between tracks is perfect.
/// After a read the head reads on into the cache, so that a later read of the same run waits only for the medium.
/// Writes are not cached.
#[derive(Debug, Clone)]
pub struct Hdd {
    settings: HddSettings,
    slowing: Vec<SlowPeriod>,
    byte_ns: f64,
    rotations_per_ns: f64,
    /// Angle of offset 0 at time 0, ns.
    angle: f64,
    waiting: VecDeque<Waiting>,
    serving: Option<DeviceEnd>,
    ended: VecDeque<DeviceEnd>,
    /// End of the last transfer: offset and time. While the disk reads on, the head is farther.
    head: (u64, f64),
    /// First byte of the run that is in the cache; `None` after a write.
    run: Option<u64>,
}

/// A head that is so close past a sector is at it: time is rounded to whole nanoseconds, ns.
const ROUNDING_NS: f64 = 2_000.0;

impl Hdd {
    /// Creates a disk whose angle at time 0 is determined by the seed.
    pub fn new(settings: &HddSettings, slowing: &[SlowPeriod], seed: u64) -> Hdd {
        let angle = Xoshiro256PlusPlus::seed_from_u64(seed).random::<f64>();
        Hdd {
            byte_ns: 1e9 / settings.media_rate,
            rotations_per_ns: 1.0 / settings.rotation_ns,
            angle: angle * settings.rotation_ns,
            waiting: VecDeque::with_capacity(64),
            serving: None,
            ended: VecDeque::with_capacity(64),
            head: (0, 0.0),
            run: None,
            slowing: slowing.to_vec(),
            settings: settings.clone(),
        }
    }

    /// The part of a rotation at `ns`, in ns.
    #[inline]
    fn within_rotation(&self, ns: f64) -> f64 {
        let rotations = (ns * self.rotations_per_ns) as i64 as f64;
        ns - rotations * self.settings.rotation_ns
    }

    /// How a read or write would go if it is started at `now`.
    #[inline]
    fn transfer(&self, now: f64, command: &Waiting) -> Transfer {
        let ready = now.max(command.ready);
        let to = command.offset + u64::from(command.length);
        let (mut position, at) = self.head;
        if let (Some(run), OpKind::Read) = (self.run, command.kind) {
            let ahead = ((ready - at) / self.byte_ns) as u64;
            let read_to = position + ahead.min(self.settings.cache);
            let kept = run.max(read_to.saturating_sub(self.settings.cache));
            let cached = (kept..=read_to).contains(&command.offset);
            if cached && to <= read_to {
                return Transfer::new(ready, ready, Medium::Unused);
            }
            if cached && ahead < self.settings.cache {
                let end = at + (to - position) as f64 * self.byte_ns;
                return Transfer::new(ready, end, Medium::ReadOn);
            }
            position = read_to;
        }
        let passes = command
            .offset
            .checked_sub(position)
            .is_some_and(|gap| gap <= self.settings.read_through);
        let arrival = match passes {
            true => ready,
            false => ready + self.settings.seek_ns(command.offset.abs_diff(position)),
        };
        let mut wait = command.angle - self.within_rotation(arrival);
        if wait < 0.0 {
            wait += self.settings.rotation_ns;
        }
        if wait > self.settings.rotation_ns - ROUNDING_NS {
            wait = 0.0;
        }
        let first = arrival + wait;
        let end = first + f64::from(command.length) * self.byte_ns;
        Transfer::new(first, end, Medium::Positioned)
    }

    /// Starts the command with the shortest positioning time, if the disk is idle.
    fn start(&mut self, now: f64) {
        if self.serving.is_some() {
            return;
        }
        let mut best: Option<(Transfer, usize)> = None;
        let choices = self.waiting.iter().take(self.settings.choices as usize);
        for (index, command) in choices.enumerate() {
            let transfer = match command.kind {
                OpKind::Read | OpKind::Write => self.transfer(now, command),
                // Nothing is cached that would have to be written.
                _ => Transfer::new(
                    now.max(command.ready),
                    now.max(command.ready),
                    Medium::Unused,
                ),
            };
            if best.is_none_or(|(best, _)| transfer.first < best.first) {
                best = Some((transfer, index));
            }
        }
        let Some((transfer, command)) =
            best.and_then(|(transfer, index)| Some((transfer, self.waiting.remove(index)?)))
        else {
            return;
        };
        let factor = SlowPeriod::factor_at(&self.slowing, now);
        let end = now + (transfer.end - now) * factor;
        let to = command.offset + u64::from(command.length);
        let read = command.kind == OpKind::Read;
        match transfer.medium {
            Medium::Unused => {}
            Medium::ReadOn => self.head = (to, end),
            Medium::Positioned => {
                (self.head, self.run) = ((to, end), read.then_some(command.offset));
            }
        }
        let transfers = command.kind.transfers();
        self.serving = Some(DeviceEnd {
            slot: command.slot,
            result: if transfers { command.length as i32 } else { 0 },
            at: end.round() as u64,
        });
    }
}

impl Device for Hdd {
    fn describe(&self) -> String {
        format!(
            "simulated rotating disk, {:.0} rpm, {:.0} MB/s",
            60e9 / self.settings.rotation_ns,
            self.settings.media_rate / 1e6
        )
    }

    fn submit(&mut self, now: u64, slot: Slot, op: &Op) {
        let angle = self.within_rotation(op.offset as f64 * self.byte_ns + self.angle);
        self.waiting.push_back(Waiting {
            slot,
            kind: op.kind,
            offset: op.offset,
            length: op.length,
            ready: now as f64 + self.settings.overhead_ns,
            angle,
        });
        self.start(now as f64);
    }

    fn next_end(&self) -> Option<u64> {
        let ended = self.ended.front().map(|end| end.at);
        ended.or(self.serving.map(|end| end.at))
    }

    fn take_ended(&mut self, now: u64) -> Option<DeviceEnd> {
        if let Some(end) = self.ended.pop_front() {
            return Some(end);
        }
        let end = self.serving.take_if(|end| end.at <= now)?;
        self.start(end.at as f64);
        Some(end)
    }

    fn cancel_all(&mut self, now: u64) {
        let cancelled = |slot| DeviceEnd {
            slot,
            result: -libc::ECANCELED,
            at: now,
        };
        let serving = self.serving.take();
        self.ended.extend(serving.map(|end| match end.at <= now {
            true => end,
            false => cancelled(end.slot),
        }));
        let waiting = self.waiting.drain(..).map(|one| cancelled(one.slot));
        self.ended.extend(waiting);
    }
}

#[cfg(test)]
mod tests;
