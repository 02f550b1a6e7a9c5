//! Models of disks, and of mirrors of such disks, in virtual time.
//!
//! [`Hdd`] is a rotating disk, [`Flash`] a solid-state one, and [`SimMirror`] a mirror: the read policies and queues of
//! `iodyno-mirror` above such disks. All implement [`iodyno_sys::Device`]: they get ops and the current time, and
//! decide when each op ends. [`SharedDevice`] gives a disk or mirror to the clones of a trial. Nothing here reads a
//! clock, and the same seed gives the same results on every host.

mod disk;
mod flash;
mod hdd;
mod mirror;
mod shared;
mod slow_period;
#[cfg(test)]
mod testing;
mod volume;

pub use disk::{Disk, DiskSettings};
pub use flash::{Flash, FlashSettings};
pub use hdd::{Hdd, HddSettings};
pub use mirror::SimMirror;
pub use shared::{SharedDevice, SimObserver};
pub use slow_period::SlowPeriod;
