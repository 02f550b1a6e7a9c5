//! The policy of OpenZFS.

use super::{LegView, PolicyKind, ReadPolicy, ReadRequest, nth, readable};

/// The leg with the lowest load: its pending requests plus an increment for the distance from the last request issued
/// to it. Ties are broken by (offset >> 21) mod their number.
///
/// Source: `vdev_mirror_load` and `vdev_mirror_child_select` in OpenZFS's `vdev_mirror.c`, with its tunables.
#[derive(Debug, Clone)]
pub struct OpenZfs {
    /// `zfs_vdev_mirror_rotating_inc`: the request continues the last one.
    pub rotating: u32,
    /// `zfs_vdev_mirror_rotating_seek_inc`: farther than `near`. Half of it applies within `near`.
    pub rotating_seek: u32,
    /// `zfs_vdev_mirror_rotating_seek_offset`, bytes.
    pub near: u64,
    /// `zfs_vdev_mirror_non_rotating_inc`: the request continues the last one.
    pub non_rotating: u32,
    /// `zfs_vdev_mirror_non_rotating_seek_inc`: it does not.
    pub non_rotating_seek: u32,
    /// Binary logarithm of the bytes that stay on one of several legs with equal load: `vdev_mirror_shift`.
    pub shift: u32,
    /// The queue of the legs is bypassed: neither pending requests nor the last offset are known, so all legs have
    /// equal load. Since 2026 this is the default of OpenZFS on block devices that do not rotate.
    pub bypassed: bool,
}

impl Default for OpenZfs {
    fn default() -> OpenZfs {
        OpenZfs {
            rotating: 0,
            rotating_seek: 5,
            near: 1 << 20,
            non_rotating: 0,
            non_rotating_seek: 1,
            shift: 21,
            bypassed: false,
        }
    }
}

impl OpenZfs {
    /// The policy on legs whose queue is bypassed.
    pub fn bypassed() -> OpenZfs {
        OpenZfs {
            bypassed: true,
            ..OpenZfs::default()
        }
    }

    fn load(&self, request: &ReadRequest, leg: &LegView) -> u32 {
        if self.bypassed {
            return 0;
        }
        let continues = leg.last_end == request.offset;
        let increment = match (leg.rotational, continues) {
            (false, true) => self.non_rotating,
            (false, false) => self.non_rotating_seek,
            (true, true) => self.rotating,
            (true, false) if leg.last_end.abs_diff(request.offset) < self.near => {
                self.rotating_seek / 2
            }
            (true, false) => self.rotating_seek,
        };
        leg.pending.saturating_add(increment)
    }
}

impl ReadPolicy for OpenZfs {
    fn kind(&self) -> PolicyKind {
        match self.bypassed {
            true => PolicyKind::OpenZfsNonrot,
            false => PolicyKind::OpenZfs,
        }
    }

    fn choose(&mut self, request: &ReadRequest, legs: &[LegView], _: u64) -> Option<usize> {
        let load = |leg: usize| self.load(request, &legs[leg]);
        let lowest = readable(legs).map(load).min()?;
        nth(
            legs,
            |leg| load(leg) == lowest,
            request.offset >> self.shift,
        )
    }
}
