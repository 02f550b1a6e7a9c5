//! The option table. Adding an option is one entry in one of these files.

mod access;
mod buffers;
mod engine;
mod extent;
mod files;
mod foreign;
mod general;
mod pacing;
mod reporting;

use iodyno_model::closest;

use super::option::OptionSpec;

pub(super) use reporting::name_logs;

/// The options by topic, in the order of the documentation.
pub const TOPICS: &[(&str, &[OptionSpec])] = &[
    ("Jobs and groups", general::OPTIONS),
    ("Ops and offsets", access::OPTIONS),
    ("Engine", engine::OPTIONS),
    ("Files", files::OPTIONS),
    ("Region and end", extent::OPTIONS),
    ("Pacing, durability, errors", pacing::OPTIONS),
    ("Buffers and verification", buffers::OPTIONS),
    ("Logs, reports, placement of threads", reporting::OPTIONS),
    ("Replay, data placement, foreign engines", foreign::OPTIONS),
];

const COUNT: usize = {
    let (mut count, mut topic) = (0, 0);
    while topic < TOPICS.len() {
        count += TOPICS[topic].1.len();
        topic += 1;
    }
    count
};

static ALL: [OptionSpec; COUNT] = {
    let mut all = [general::OPTIONS[0]; COUNT];
    let (mut next, mut topic) = (0, 0);
    while topic < TOPICS.len() {
        let mut index = 0;
        while index < TOPICS[topic].1.len() {
            all[next] = TOPICS[topic].1[index];
            next += 1;
            index += 1;
        }
        topic += 1;
    }
    all
};

/// Every option of the language, by topic.
pub static OPTIONS: &[OptionSpec] = &ALL;

/// The option of this name or alias.
pub fn find(name: &str) -> Option<&'static OptionSpec> {
    OPTIONS
        .iter()
        .find(|option| option.names().any(|known| known == name))
}

/// The name that was most likely meant.
pub(super) fn suggestion(name: &str) -> Option<&'static str> {
    closest(name, OPTIONS.iter().flat_map(OptionSpec::names))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_stands_once() {
        let mut seen = BTreeSet::new();
        for name in OPTIONS.iter().flat_map(OptionSpec::names) {
            assert!(seen.insert(name), "{name} is there twice");
        }
        assert!(seen.len() > 300, "{}", seen.len());
    }

    #[test]
    fn a_default_is_a_value_the_option_takes() {
        for option in OPTIONS.iter().filter(|option| !option.default.is_empty()) {
            let mut draft = crate::draft::Draft::new(4);
            let value = crate::value::Value::new(option.default, 1024);
            assert_eq!((option.set)(&mut draft, &value), Ok(()), "{}", option.name);
        }
    }

    #[test]
    fn suggests_the_name_that_was_meant() {
        for (written, meant) in [
            ("iodpeth", "iodepth"),
            ("RW", "rw"),
            ("block_size", "blocksize"),
            ("groupreporting", "group_reporting"),
            ("number_of_jobs", ""),
        ] {
            assert_eq!(suggestion(written).unwrap_or(""), meant, "{written}");
        }
    }
}
