//! The results that a reader extracts from a text, with their lines.

use std::ops::Range;

use super::unread::why_unread;
use iodyno_model::{Claim, Contradiction, ImportedTable, ImportedTrial};

/// An extracted part of a text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Extract {
    /// Its lines, from 1; the end is exclusive. Readers that follow do not get these lines.
    pub(crate) lines: Range<u32>,
    /// Its content.
    pub(crate) what: ExtractContent,
}

/// Content of an extracted part.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ExtractContent {
    /// A result. If its configuration or workload is empty, it is filled in from the label or the source's name.
    Trial(Box<ImportedTrial>),
    /// A table of other figures.
    Table(Box<ImportedTable>),
    /// A row of a printed comparison.
    Claim(Box<Claim>),
    /// A result in a known format that could not be parsed, with the reason.
    Unread(String),
    /// A remark, reported once even if it applies to several results.
    Remark(String),
    /// Figures that exclude each other.
    Contradiction(Box<Contradiction>),
    /// A recognised part without figures: a heading, a progress line.
    Known,
}

impl Extract {
    pub(crate) fn trial(lines: Range<u32>, trial: ImportedTrial) -> Extract {
        Extract {
            lines,
            what: ExtractContent::Trial(Box::new(trial)),
        }
    }

    pub(crate) fn table(lines: Range<u32>, table: ImportedTable) -> Extract {
        Extract {
            lines,
            what: ExtractContent::Table(Box::new(table)),
        }
    }

    pub(crate) fn claim(lines: Range<u32>, claim: Claim) -> Extract {
        Extract {
            lines,
            what: ExtractContent::Claim(Box::new(claim)),
        }
    }

    pub(crate) fn unread(lines: Range<u32>, why: impl Into<String>) -> Extract {
        Extract {
            lines,
            what: ExtractContent::Unread(why.into()),
        }
    }

    /// A line within a result that is not part of it, if it looks like a result of its own.
    pub(crate) fn stray(line: u32, text: &str) -> Option<Extract> {
        why_unread(text).map(|why| Extract::unread(line..line + 1, why))
    }

    pub(crate) fn remark(text: impl Into<String>) -> Extract {
        Extract {
            lines: 0..0,
            what: ExtractContent::Remark(text.into()),
        }
    }

    pub(crate) fn contradiction(found: Contradiction) -> Extract {
        Extract {
            lines: 0..0,
            what: ExtractContent::Contradiction(Box::new(found)),
        }
    }

    pub(crate) fn known(lines: Range<u32>) -> Extract {
        Extract {
            lines,
            what: ExtractContent::Known,
        }
    }
}
