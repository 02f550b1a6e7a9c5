//! Read policies: which leg of a mirror serves a read.

mod adaptive;
mod md_raid1;
mod openzfs;
mod pending;
mod simple;

use std::fmt;
use std::str::FromStr;

pub use adaptive::Adaptive;
pub use md_raid1::MdRaid1;
pub use openzfs::OpenZfs;
pub use pending::{LeastPending, PowerOfTwo};
pub use simple::{Modulo, RoundRobin};

/// A read that needs a leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    /// First byte, in the mirror.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// A policy's view of a leg. Offsets are those of the mirror, bytes; times are ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LegView {
    /// Whether this leg may serve the read: it is in sync, at least in this range.
    pub readable: bool,
    /// Whether its medium rotates.
    pub rotational: bool,
    /// Requests that were issued to the leg and have not ended. A command of several merged requests counts each.
    pub pending: u32,
    /// Their bytes.
    pub pending_bytes: u64,
    /// Requests that wait in the leg's queue.
    pub queued: u32,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Pending and queued requests that do not continue another one, so the leg has to move for each.
    pub moves: u32,
    /// Commands that were issued and have not ended.
    pub commands: u32,
    /// First byte of the command that was issued last.
    pub last_offset: u64,
    /// End of the command that was issued last.
    pub last_end: u64,
    /// End of the command that ended last.
    pub done_end: u64,
    /// Smoothed busy time of a command that does not continue the previous one, without its transfer.
    pub move_ns: f64,
    /// Smoothed busy time of transferring a byte.
    pub byte_ns: f64,
}

impl LegView {
    /// Requests of the leg that have not ended, issued or not.
    pub fn requests(&self) -> u32 {
        self.pending + self.queued
    }

    /// Bytes of these requests.
    pub fn bytes(&self) -> u64 {
        self.pending_bytes + self.queued_bytes
    }
}

impl Default for LegView {
    /// An idle leg in sync, on a rotating disk.
    fn default() -> LegView {
        LegView {
            readable: true,
            rotational: true,
            pending: 0,
            pending_bytes: 0,
            queued: 0,
            queued_bytes: 0,
            moves: 0,
            commands: 0,
            last_offset: 0,
            last_end: 0,
            done_end: 0,
            move_ns: 0.0,
            byte_ns: 0.0,
        }
    }
}

/// Chooses the leg that serves a read.
///
/// The choice depends only on the arguments, on earlier calls and on the seed. Policies do no I/O, read no clock and
/// do not allocate. A mirror calls `choose` once per read and sends the read to that leg.
pub trait ReadPolicy: fmt::Debug + Send {
    /// Its kind.
    fn kind(&self) -> PolicyKind;

    /// The index of a readable leg, at time `now` (ns, never decreasing); `None` if no leg is readable.
    fn choose(&mut self, request: &ReadRequest, legs: &[LegView], now: u64) -> Option<usize>;
}

/// The policies that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// [`Modulo`].
    Modulo,
    /// [`LeastPending`].
    LeastPending,
    /// [`OpenZfs`] with queues.
    OpenZfs,
    /// [`OpenZfs`] on legs whose queue is bypassed.
    OpenZfsNonrot,
    /// [`MdRaid1`].
    MdRaid1,
    /// [`RoundRobin`].
    RoundRobin,
    /// [`PowerOfTwo`].
    PowerOfTwo,
    /// [`Adaptive`].
    Adaptive,
}

impl PolicyKind {
    /// All policies, in the order of their declaration.
    pub const ALL: [PolicyKind; 8] = [
        PolicyKind::Modulo,
        PolicyKind::LeastPending,
        PolicyKind::OpenZfs,
        PolicyKind::OpenZfsNonrot,
        PolicyKind::MdRaid1,
        PolicyKind::RoundRobin,
        PolicyKind::PowerOfTwo,
        PolicyKind::Adaptive,
    ];

    /// The names of [`Self::ALL`].
    pub const NAMES: &'static [&'static str] = &[
        "modulo",
        "least-pending",
        "openzfs",
        "openzfs-nonrot",
        "md-raid1",
        "round-robin",
        "power-of-two",
        "adaptive",
    ];

    /// Its name on command lines.
    pub fn name(self) -> &'static str {
        PolicyKind::NAMES[self as usize]
    }

    /// The policy with its usual constants, for a mirror of `legs` legs with one queue. The seed matters only to
    /// policies that draw random numbers.
    pub fn build(self, legs: usize, seed: u64) -> Box<dyn ReadPolicy> {
        match self {
            PolicyKind::Modulo => Box::new(Modulo::default()),
            PolicyKind::LeastPending => Box::new(LeastPending::default()),
            PolicyKind::OpenZfs => Box::new(OpenZfs::default()),
            PolicyKind::OpenZfsNonrot => Box::new(OpenZfs::bypassed()),
            PolicyKind::MdRaid1 => Box::new(MdRaid1::new(legs)),
            PolicyKind::RoundRobin => Box::new(RoundRobin::default()),
            PolicyKind::PowerOfTwo => Box::new(PowerOfTwo::new(seed)),
            PolicyKind::Adaptive => Box::new(Adaptive::default()),
        }
    }

    /// A policy for each queue of a mirror. Those of [`Adaptive`] share their estimates of the legs.
    pub fn build_queues(self, queues: u32, legs: usize, seed: u64) -> Vec<Box<dyn ReadPolicy>> {
        let adaptive = Adaptive::default();
        let queue = |queue: u32| -> Box<dyn ReadPolicy> {
            match self {
                PolicyKind::Adaptive => Box::new(adaptive.clone()),
                other => other.build(legs, seed.wrapping_add(queue.into())),
            }
        };
        (0..queues.max(1)).map(queue).collect()
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A name that is not that of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPolicy(pub String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = PolicyKind::ALL.map(PolicyKind::name).join(", ");
        write!(
            formatter,
            "unknown read policy `{}`: the policies are {names}",
            self.0
        )
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<PolicyKind, UnknownPolicy> {
        PolicyKind::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

/// Indexes of the readable legs.
fn readable(legs: &[LegView]) -> impl Iterator<Item = usize> + '_ {
    (0..legs.len()).filter(|&leg| legs[leg].readable)
}

/// The readable leg with the smallest cost; the first of equals.
fn least<K: PartialOrd>(legs: &[LegView], mut cost: impl FnMut(usize) -> K) -> Option<usize> {
    let mut best: Option<(usize, K)> = None;
    for leg in readable(legs) {
        let cost = cost(leg);
        if best.as_ref().is_none_or(|(_, lowest)| cost < *lowest) {
            best = Some((leg, cost));
        }
    }
    best.map(|(leg, _)| leg)
}

/// The `number`-th of the readable legs for which `tied` holds, counted from 0 and modulo their number.
fn nth(legs: &[LegView], tied: impl Fn(usize) -> bool, number: u64) -> Option<usize> {
    let count = readable(legs).filter(|&leg| tied(leg)).count() as u64;
    let number = number.checked_rem(count)? as usize;
    readable(legs).filter(|&leg| tied(leg)).nth(number)
}

#[cfg(test)]
mod tests;
