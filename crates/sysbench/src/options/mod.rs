//! The table of options, by topic.

mod database;
mod files;
mod general;
mod random;

use iodyno_options::{Fault, Status, Table, Unit};

use crate::draft::Draft;

/// Sets an option in the draft of a job.
pub(crate) type Setter = fn(&mut Draft, &str) -> Result<(), Fault>;

/// An option of sysbench's. Its aliases are the names that earlier releases had for it.
pub(crate) type OptionSpec = iodyno_options::OptionSpec<Setter>;

/// The options by topic, in the order of the documentation.
pub(crate) static OPTIONS: Table<Setter> = Table {
    topics: &[
        ("Files and requests", files::OPTIONS),
        ("Run", general::OPTIONS),
        ("Report", general::REPORT),
        ("Random offsets", random::OPTIONS),
        ("Databases", database::OPTIONS),
    ],
    dashes: "--",
};

/// The names and aliases of all options.
pub fn option_names() -> impl Iterator<Item = &'static str> {
    OPTIONS.options().flat_map(OptionSpec::names)
}

/// An option that has its effect.
const fn honoured(name: &'static str, unit: Unit, text: &'static str, set: Setter) -> OptionSpec {
    OptionSpec::new(name, unit, text, Status::Honoured(set))
}

/// A name as the table has it: `_` and `-` are alike.
pub(super) fn dashed(name: &str) -> String {
    name.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_name_stands_twice_and_all_are_written_with_dashes() {
        let mut seen = BTreeSet::new();
        for name in OPTIONS.options().flat_map(OptionSpec::names) {
            assert!(seen.insert(name), "{name}");
            assert!(!name.contains('_'), "{name}");
        }
    }
}
