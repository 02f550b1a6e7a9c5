//! A finding of a reader, with the lines it came from.

use std::ops::Range;

use iodyno_model::{Claim, ImportedTable, ImportedTrial};

/// Something understood.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    /// The lines it stands on, from 1, the end not included. Later readers do not get them.
    pub(crate) lines: Range<u32>,
    /// What it is.
    pub(crate) what: FoundWhat,
}

/// What a reader can find.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FoundWhat {
    /// A result. An empty configuration or workload is filled in from the label or the source's name.
    Trial(Box<ImportedTrial>),
    /// Numbers beside the results.
    Table(Box<ImportedTable>),
    /// A row of a printed comparison.
    Claim(Box<Claim>),
    /// A result in a form that this reader knows, which it still could not read, with the reason.
    Unread(String),
    /// Something to be said once, however many results it is true of.
    Remark(String),
    /// Understood and without a figure: a heading, a line of progress.
    Known,
}

impl Found {
    pub(crate) fn trial(lines: Range<u32>, trial: ImportedTrial) -> Found {
        Found {
            lines,
            what: FoundWhat::Trial(Box::new(trial)),
        }
    }

    pub(crate) fn table(lines: Range<u32>, table: ImportedTable) -> Found {
        Found {
            lines,
            what: FoundWhat::Table(Box::new(table)),
        }
    }

    pub(crate) fn claim(lines: Range<u32>, claim: Claim) -> Found {
        Found {
            lines,
            what: FoundWhat::Claim(Box::new(claim)),
        }
    }

    pub(crate) fn unread(lines: Range<u32>, why: impl Into<String>) -> Found {
        Found {
            lines,
            what: FoundWhat::Unread(why.into()),
        }
    }

    pub(crate) fn remark(text: impl Into<String>) -> Found {
        Found {
            lines: 0..0,
            what: FoundWhat::Remark(text.into()),
        }
    }

    pub(crate) fn known(lines: Range<u32>) -> Found {
        Found {
            lines,
            what: FoundWhat::Known,
        }
    }
}
