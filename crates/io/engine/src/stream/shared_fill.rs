//! Extends files to their full length, each from its end, with one op at a time per file.
//!
//! With one op at a time, an interruption (including `kill -9`) leaves no hole in a file: everything before its end was
//! written, and the next run continues there. Several ops in flight fill several files.

use iodyno_sys::Slot;

use crate::shared_files::{Place, SharedFilesState};

/// The files that one clone is filling.
#[derive(Debug)]
pub(super) struct Filling {
    /// Files without an op in flight, and their current lengths.
    idle: Vec<(u32, u64)>,
    /// For each slot: the file, and its length after the op.
    busy: Box<[Option<(u32, u64)>]>,
}

impl Filling {
    pub(super) fn new(depth: usize) -> Filling {
        Filling {
            idle: Vec::with_capacity(depth),
            busy: vec![None; depth].into_boxed_slice(),
        }
    }

    /// The next piece: of a file that was begun, otherwise of a new file.
    pub(super) fn next(&mut self, state: &SharedFilesState, slot: Slot) -> Option<Place> {
        let (file, offset) = self.idle.pop().or_else(|| state.next_to_fill())?;
        let length = state.geometry().length_at(offset);
        self.busy[slot as usize] = Some((file, offset + u64::from(length)));
        Some(Place {
            number: 0,
            file,
            offset,
            length,
        })
    }

    /// Records that the piece of a slot was written. A file whose write failed is not filled further.
    pub(super) fn written(&mut self, state: &SharedFilesState, slot: Slot, succeeded: bool) {
        if let Some((file, end)) = self.busy[slot as usize].take()
            && succeeded
            && end < state.geometry().file_size()
        {
            self.idle.push((file, end));
        }
    }
}
