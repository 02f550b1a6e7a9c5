//! Ops that an asynchronous interface of the kernel does not support. The calling thread executes them.

use crate::{Clock, Completions, File, MonotonicClock, Op, OpKind, Slot, file};

/// Executes at most `max` of the waiting ops, and starts none after the deadline except the first. The caller executes
/// the others in its next turn.
pub(crate) fn execute(
    waiting: &mut Vec<(Slot, Op)>,
    files: &[File],
    max: u32,
    deadline: Option<u64>,
    completions: &mut Completions,
) {
    let mut done = 0;
    for (slot, op) in waiting.iter().take(max as usize) {
        let submitted = MonotonicClock.now();
        if done > 0 && deadline.is_some_and(|deadline| submitted >= deadline) {
            break;
        }
        let file = &files[op.file as usize];
        let result = match op.kind {
            OpKind::Fsync => file::sync(&file.descriptor, false),
            OpKind::Fdatasync => file::sync(&file.descriptor, true),
            _ => file::on_range(file, op),
        };
        completions.push(*slot, result, submitted, MonotonicClock.now());
        completions.submitted += 1;
        done += 1;
    }
    waiting.drain(..done);
}
