//! The geometry of requests: files of equal length, divided into pieces that never cross a file's end.

use iodyno_model::SharedFiles;

/// A piece of a file, and its number among the pieces of all files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) number: u64,
    pub(crate) file: u32,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

/// All files divided into pieces of one length; the last piece of each file may be shorter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Geometry {
    files: u32,
    file_size: u64,
    piece: u64,
    per_file: u64,
}

impl Geometry {
    /// Pieces are requests of a sequential mode, or blocks of a random one.
    pub(crate) fn of(rule: &SharedFiles, files: u32) -> Geometry {
        let piece = rule.request();
        Geometry {
            files,
            file_size: rule.file_size,
            piece,
            per_file: rule.file_size.div_ceil(piece).max(1),
        }
    }

    pub(crate) fn files(&self) -> u32 {
        self.files
    }

    pub(crate) fn file_size(&self) -> u64 {
        self.file_size
    }

    /// Number of pieces of all files.
    pub(crate) fn pieces(&self) -> u64 {
        self.per_file * u64::from(self.files)
    }

    /// The piece with this number, which is below [`Geometry::pieces`].
    #[inline]
    pub(crate) fn place(&self, number: u64) -> Place {
        let offset = number % self.per_file * self.piece;
        Place {
            number,
            file: (number / self.per_file) as u32,
            offset,
            length: self.length_at(offset),
        }
    }

    /// The length of a request at an offset of a file: to the next multiple of a piece, or to the end.
    #[inline]
    pub(crate) fn length_at(&self, offset: u64) -> u32 {
        let to_next = self.piece - offset % self.piece;
        to_next.min(self.file_size.saturating_sub(offset)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shared_rule;

    #[test]
    fn pieces_follow_one_another_and_end_with_their_file() {
        // Length of a file, block, merged, files → (offset, length) of one file's pieces.
        for (file_size, block, merged, expected) in [
            (16, 4, 0, vec![(0, 4), (4, 4), (8, 4), (12, 4)]),
            (18, 4, 0, vec![(0, 4), (4, 4), (8, 4), (12, 4), (16, 2)]),
            (18, 4, 8, vec![(0, 8), (8, 8), (16, 2)]),
            (3, 4, 0, vec![(0, 3)]),
            (4, 4, 64, vec![(0, 4)]),
        ] {
            let rule = SharedFiles {
                merged,
                ..shared_rule(iodyno_model::SharedMode::SequentialRead, file_size, block)
            };
            let geometry = Geometry::of(&rule, 3);
            assert_eq!(geometry.pieces(), 3 * expected.len() as u64);
            for number in 0..geometry.pieces() {
                let place = geometry.place(number);
                let (file, within) = (
                    number / expected.len() as u64,
                    number as usize % expected.len(),
                );
                assert_eq!(u64::from(place.file), file, "{rule:?}");
                let found = (place.offset, u64::from(place.length));
                assert_eq!(found, expected[within], "{rule:?}");
            }
        }
    }

    #[test]
    fn random_requests_are_never_merged() {
        let rule = SharedFiles {
            merged: 64,
            ..shared_rule(iodyno_model::SharedMode::RandomRead, 64, 4)
        };
        assert_eq!(Geometry::of(&rule, 1).pieces(), 16);
    }
}
