//! What is known of one option: its documentation and its effect, in one entry.

use super::draft::Draft;
use super::value::{Fault, Value};

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Any text.
    Text,
    /// A file, folder or prefix of one; a missing value stands for the job's name.
    OptionalPath,
    /// Names apart by `:`.
    Paths,
    /// A whole number.
    Count,
    /// Numbers and ranges: `0-3,5`.
    List,
    /// A number with a fraction.
    Number,
    /// Bytes, with a suffix.
    Bytes,
    /// Bytes or a percentage.
    Amount,
    /// Percent.
    Percent,
    /// A time, in seconds where it has no suffix.
    Seconds,
    /// A time, in milliseconds where it has no suffix.
    Milliseconds,
    /// A time, in microseconds where it has no suffix.
    Microseconds,
    /// 0 or 1; 1 without a value.
    Boolean,
    /// One of these words.
    Words(&'static [&'static str]),
}

impl Unit {
    /// The word used in the documentation.
    pub fn describe(self) -> String {
        match self {
            Unit::Text => "a text".to_owned(),
            Unit::OptionalPath => "a path prefix".to_owned(),
            Unit::Paths => "paths, apart by `:`".to_owned(),
            Unit::Count => "a count".to_owned(),
            Unit::List => "numbers, such as `0-3,5`".to_owned(),
            Unit::Number => "a number".to_owned(),
            Unit::Bytes => "bytes, such as `4k`".to_owned(),
            Unit::Amount => "bytes or percent".to_owned(),
            Unit::Percent => "percent".to_owned(),
            Unit::Seconds => "a time (s)".to_owned(),
            Unit::Milliseconds => "a time (ms)".to_owned(),
            Unit::Microseconds => "a time (µs)".to_owned(),
            Unit::Boolean => "0 or 1".to_owned(),
            Unit::Words(words) => format!("one of {}", words.join(", ")),
        }
    }

    /// The option may stand without `=`.
    pub fn optional(self) -> bool {
        matches!(self, Unit::Boolean | Unit::OptionalPath)
    }
}

/// What becomes of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It has its effect.
    Honoured,
    /// It is taken and has no effect.
    Ignored {
        /// Why that is harmless.
        why: &'static str,
        /// The measurement may differ from fio's all the same.
        differs: bool,
    },
    /// A job that has it is not run.
    Refused {
        /// Why.
        why: &'static str,
        /// What to use.
        instead: &'static str,
    },
}

pub(super) type Setter = fn(&mut Draft, &Value) -> Result<(), Fault>;

/// An option of the language.
#[derive(Debug, Clone, Copy)]
pub struct OptionSpec {
    /// Its name.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// What its value is.
    pub unit: Unit,
    /// The value where none is given; empty: none.
    pub default: &'static str,
    /// One line for people.
    pub text: &'static str,
    /// What becomes of it.
    pub status: Status,
    /// Values that ask for nothing special, so that an ignored or refused option may have them.
    pub neutral: &'static [&'static str],
    pub(super) set: Setter,
}

fn nothing(_: &mut Draft, _: &Value) -> Result<(), Fault> {
    Ok(())
}

impl OptionSpec {
    const fn new(
        name: &'static str,
        unit: Unit,
        text: &'static str,
        status: Status,
        set: Setter,
    ) -> OptionSpec {
        OptionSpec {
            name,
            aliases: &[],
            unit,
            default: "",
            text,
            status,
            neutral: &[],
            set,
        }
    }

    pub(super) const fn honoured(
        name: &'static str,
        unit: Unit,
        text: &'static str,
        set: Setter,
    ) -> OptionSpec {
        OptionSpec::new(name, unit, text, Status::Honoured, set)
    }

    /// Has no effect here, and needs none.
    pub(super) const fn ignored(
        name: &'static str,
        unit: Unit,
        text: &'static str,
        why: &'static str,
    ) -> OptionSpec {
        let status = Status::Ignored {
            why,
            differs: false,
        };
        OptionSpec::new(name, unit, text, status, nothing)
    }

    /// Has no effect here, and the measurement may differ for it: a warning.
    pub(super) const fn differs(
        name: &'static str,
        unit: Unit,
        text: &'static str,
        why: &'static str,
    ) -> OptionSpec {
        let status = Status::Ignored { why, differs: true };
        OptionSpec::new(name, unit, text, status, nothing)
    }

    pub(super) const fn refused(
        name: &'static str,
        unit: Unit,
        text: &'static str,
        why: &'static str,
        instead: &'static str,
    ) -> OptionSpec {
        OptionSpec::new(name, unit, text, Status::Refused { why, instead }, nothing)
    }

    pub(super) const fn alias(self, aliases: &'static [&'static str]) -> OptionSpec {
        OptionSpec { aliases, ..self }
    }

    pub(super) const fn default(self, default: &'static str) -> OptionSpec {
        OptionSpec { default, ..self }
    }

    pub(super) const fn neutral(self, neutral: &'static [&'static str]) -> OptionSpec {
        OptionSpec { neutral, ..self }
    }

    /// All its names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}
