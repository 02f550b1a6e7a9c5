//! Shared by the tests of the crate and of its interface.

use iodyno_model::{Imported, ImportedTrial};

/// What was read, with its trials as a list.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) trials: Vec<ImportedTrial>,
    pub(crate) rest: Imported,
}

impl std::ops::Deref for Read {
    type Target = Imported;

    fn deref(&self) -> &Imported {
        &self.rest
    }
}

impl From<Imported> for Read {
    fn from(rest: Imported) -> Read {
        Read {
            trials: rest.trials.iter().collect(),
            rest,
        }
    }
}
