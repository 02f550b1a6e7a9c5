//! Policies that do not look at load.

use super::{LegView, PolicyKind, ReadPolicy, ReadRequest, readable};

/// The leg follows from the offset: leg (offset >> 21) mod n, or the next readable one. The rule of ZFS before
/// "Improve N-way mirror performance" (2013): `vdev_mirror_shift` = 21.
#[derive(Debug, Clone)]
pub struct Modulo {
    /// Binary logarithm of the bytes that stay on one leg.
    pub shift: u32,
}

impl Default for Modulo {
    fn default() -> Modulo {
        Modulo { shift: 21 }
    }
}

impl ReadPolicy for Modulo {
    fn kind(&self) -> PolicyKind {
        PolicyKind::Modulo
    }

    fn choose(&mut self, request: &ReadRequest, legs: &[LegView], _: u64) -> Option<usize> {
        let count = legs.len();
        let first = (request.offset >> self.shift).checked_rem(count as u64)? as usize;
        (0..count)
            .map(|step| (first + step) % count)
            .find(|&leg| legs[leg].readable)
    }
}

/// The legs take turns, request by request.
#[derive(Debug, Clone, Default)]
pub struct RoundRobin {
    last: usize,
}

impl ReadPolicy for RoundRobin {
    fn kind(&self) -> PolicyKind {
        PolicyKind::RoundRobin
    }

    fn choose(&mut self, _: &ReadRequest, legs: &[LegView], _: u64) -> Option<usize> {
        let leg = readable(legs)
            .find(|&leg| leg > self.last)
            .or_else(|| readable(legs).next())?;
        self.last = leg;
        Some(leg)
    }
}
