//! Lets this host come to rest before a trial, and tells what its targets are.

use std::path::PathBuf;

use iodyno_model::{Settling, TargetInfo};
use iodyno_target::Roots;

pub use iodyno_target::settle::Unsettled;

use crate::Cancel;

/// Writes out what is dirty, drops caches and waits for the devices below `targets`, as far as it is asked for and
/// allowed. Ends within a moment once anything is wished of `cancel`.
pub fn settle(settling: &Settling, targets: &[PathBuf], cancel: &Cancel) -> Vec<Unsettled> {
    let cancelled = || cancel.is_cancelled();
    iodyno_target::settle::settle(&Roots::host(), settling, targets, &cancelled)
}

/// What lies below each of `targets` on this host now. Touches nothing.
pub fn describe(targets: &[PathBuf]) -> Vec<TargetInfo> {
    let roots = Roots::host();
    targets
        .iter()
        .map(|target| iodyno_target::stack::describe(target, &roots))
        .collect()
}
