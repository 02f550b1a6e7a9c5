//! File operations: a loop that repeats the steps of a job's cycle.
//!
//! It shares only the recorder, the gate and the stop request with the driver of ops at offsets: its calls take paths
//! and folders, and each step waits for its calls to return. The clock is read directly before and after each call;
//! names are created and buffers filled before that. The time of an op, which is the sum of its timed steps, therefore
//! excludes the overhead of the harness; the time of the loop includes it.

mod clone;
mod command;
mod content;
mod cycles;
mod drain;
mod fault;
mod folder;
mod names;
mod output;
mod plan;
mod sets;
mod steps;

pub use crate::spec::OperationsPart;
pub(crate) use clone::run;
pub use command::misplaced;
pub use content::Contents;

/// The name of a file of a set: `NAME.000000042`.
pub fn file_name(set: &str, number: u64) -> String {
    format!("{set}.{number:09}")
}

/// The share of a clone in a set of `count` files: every `clones`-th, beginning with its own number.
pub fn share(count: u64, clone: u32, clones: u32) -> impl Iterator<Item = u64> {
    (u64::from(clone)..count).step_by(clones.max(1) as usize)
}

/// Number of files in a [`share`]. The cycles of a job are divided in the same way: if they do not divide evenly, the
/// first clones have one more each. Shares are fixed and not taken from a common counter, so that clones do not share a
/// cache line, each clone does the same in every trial, and its cycles match its files.
pub fn share_count(count: u64, clone: u32, clones: u32) -> u64 {
    let (clone, clones) = (u64::from(clone), u64::from(clones.max(1)));
    count / clones + u64::from(clone < count % clones)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_and_cover_everything() {
        for (count, clones) in [(0, 1), (1, 3), (10, 3), (12, 4), (1000, 7), (5, 1)] {
            let mut all: Vec<u64> = Vec::new();
            for clone in 0..clones {
                let own: Vec<u64> = share(count, clone, clones).collect();
                assert_eq!(own.len() as u64, share_count(count, clone, clones));
                all.extend(own);
            }
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<u64>>());
        }
    }
}
