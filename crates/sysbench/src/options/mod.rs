//! The table of options, by topic.

mod database;
mod files;
mod general;
mod random;

use iodyno_model::closest;

use super::option::OptionSpec;

/// All options in the order of the documentation, topic by topic.
pub const TOPICS: &[(&str, &[OptionSpec])] = &[
    ("Files and requests", files::OPTIONS),
    ("Run", general::OPTIONS),
    ("Report", general::REPORT),
    ("Random offsets", random::OPTIONS),
    ("Databases", database::OPTIONS),
];

/// All options.
pub fn options() -> impl Iterator<Item = &'static OptionSpec> {
    TOPICS.iter().flat_map(|(_, options)| options.iter())
}

/// The option of a name, where `_` and `-` are alike, and the name that was meant.
pub(super) fn find(name: &str) -> Option<(&'static OptionSpec, &'static str)> {
    let name = name.replace('_', "-");
    options().find_map(|option| {
        let known = option.names().find(|known| *known == name)?;
        Some((option, known))
    })
}

/// The nearest name to one that is not known.
pub(super) fn suggestion(name: &str) -> Option<&'static str> {
    let name = name.replace('_', "-");
    closest(&name, options().flat_map(OptionSpec::names))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_name_stands_twice_and_all_are_written_with_dashes() {
        let mut seen = BTreeSet::new();
        for name in options().flat_map(OptionSpec::names) {
            assert!(seen.insert(name), "{name}");
            assert!(!name.contains('_'), "{name}");
        }
    }
}
