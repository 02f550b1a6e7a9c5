//! The option table. A new option is one row in one of these files.

mod access;
mod buffers;
mod engine;
mod extent;
mod files;
mod foreign;
mod general;
mod pacing;
mod replay;
mod reporting;

use iodyno_model::EngineKind;
use iodyno_options::{Problem, Status, Table, Unit};

use crate::draft::Draft;
use crate::value::Value;

pub(super) use reporting::name_logs;

/// Sets an option in the draft of a job.
pub(crate) type Setter = fn(&mut Draft, &Value) -> Result<(), Problem>;

/// What a supported option does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effect {
    /// Sets it.
    pub(crate) set: Setter,
    /// The engines for which it has an effect; empty: all.
    pub(crate) engines: &'static [EngineKind],
}

/// An option of fio.
pub(crate) type OptionSpec = iodyno_options::OptionSpec<Effect>;

/// Options that may be repeated: each occurrence adds to the earlier value.
pub(crate) const ADDING: &[&str] = &["filename", "opendir"];

/// The options by topic, in the order of the documentation.
pub(crate) static OPTIONS: Table<Effect> = Table {
    topics: &[
        ("Jobs and groups", general::OPTIONS),
        ("Ops and offsets", access::OPTIONS),
        ("Engine", engine::OPTIONS),
        ("Files", files::OPTIONS),
        ("Region and end", extent::OPTIONS),
        ("Pacing, durability, errors", pacing::OPTIONS),
        ("Buffers and verification", buffers::OPTIONS),
        ("Logs, reports, placement of threads", reporting::OPTIONS),
        ("Traces", replay::OPTIONS),
        ("Data placement, foreign engines", foreign::OPTIONS),
    ],
    dashes: "",
};

/// The names and aliases of all options.
pub fn option_names() -> impl Iterator<Item = &'static str> {
    OPTIONS.options().flat_map(OptionSpec::names)
}

/// The names of the supported options, without aliases.
pub fn honoured_options() -> impl Iterator<Item = &'static str> {
    OPTIONS.honoured()
}

/// Why an option has no effect; `None` if it has one, is refused, or is not an option.
pub fn ignored_option(name: &str) -> Option<&'static str> {
    OPTIONS.ignored(name)
}

/// The option that sets a field of a job: a path in the stored form, without the kind of work, such as
/// `extent.zone_size`.
pub fn option_of_field(path: &str) -> Option<&'static str> {
    let mut options = OPTIONS.options();
    let option = options.find(|option| option.fields.contains(&path))?;
    Some(option.name)
}

/// The fields of a job that an option sets.
pub fn fields_of_option(name: &str) -> &'static [&'static str] {
    let mut options = OPTIONS.options();
    let option = options.find(|option| option.name == name);
    option.map_or(&[], |option| option.fields)
}

/// Whether this is the name of an option whose value has a fixed form, such as a number, words, or a list of these: it
/// names no file, program or host.
pub fn has_fixed_form(name: &str) -> bool {
    OPTIONS
        .options()
        .any(|option| option.name == name && option.unit.has_fixed_form())
}

/// Whether setting `second` replaces what `first` has set: both are names of one option, whose values do not add up.
/// Names that are not options of fio count as the same with `-` or `_`.
pub fn replaces(first: &str, second: &str) -> bool {
    match (OPTIONS.find(first), OPTIONS.find(second)) {
        (Some(one), Some(other)) => one.name == other.name && !ADDING.contains(&one.name),
        (None, None) => first.replace('-', "_") == second.replace('-', "_"),
        _ => false,
    }
}

/// The options that only some engines have, with these engines.
pub(crate) fn engine_options() -> impl Iterator<Item = (&'static OptionSpec, &'static [EngineKind])>
{
    OPTIONS.options().filter_map(|option| match option.status {
        Status::Honoured(effect) if !effect.engines.is_empty() => Some((option, effect.engines)),
        _ => None,
    })
}

/// A supported option.
const fn honoured(name: &'static str, unit: Unit, text: &'static str, set: Setter) -> OptionSpec {
    only(&[], name, unit, text, set)
}

/// A supported option of these engines.
const fn only(
    engines: &'static [EngineKind],
    name: &'static str,
    unit: Unit,
    text: &'static str,
    set: Setter,
) -> OptionSpec {
    OptionSpec::new(name, unit, text, Status::Honoured(Effect { set, engines }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_is_unique() {
        let mut seen = BTreeSet::new();
        for name in OPTIONS.options().flat_map(OptionSpec::names) {
            assert!(seen.insert(name), "{name} is there twice");
        }
        assert!(seen.len() > 300, "{}", seen.len());
    }

    #[test]
    fn defaults_are_valid_values() {
        for option in OPTIONS.options() {
            let Status::Honoured(effect) = option.status else {
                continue;
            };
            if !option.default.is_empty() {
                let mut draft = Draft::new(4);
                let value = Value::new(option.default, 1024);
                assert_eq!((effect.set)(&mut draft, &value), Ok(()), "{}", option.name);
            }
        }
    }

    #[test]
    fn suggests_the_intended_name() {
        for (written, meant) in [
            ("iodpeth", "iodepth"),
            ("RW", "rw"),
            ("block_size", "blocksize"),
            ("groupreporting", "group_reporting"),
            ("number_of_jobs", ""),
        ] {
            assert_eq!(
                OPTIONS.suggestion(written).unwrap_or(""),
                meant,
                "{written}"
            );
        }
    }
}
