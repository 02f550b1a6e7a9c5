//! What is known of one option: its documentation and its effect, in one entry.

use super::draft::Draft;
use super::value::Fault;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A whole number.
    Count,
    /// A number, with a fraction or without.
    Number,
    /// Bytes, with a suffix in powers of 1024.
    Size,
    /// Seconds.
    Seconds,
    /// Percent.
    Percent,
    /// On or off; on without a value.
    Switch,
    /// One of these words.
    Words(&'static [&'static str]),
    /// Some of these words, apart by commas.
    List(&'static [&'static str]),
    /// Any text, or none.
    Text,
}

impl Unit {
    /// The words used in the documentation.
    pub fn describe(self) -> String {
        match self {
            Unit::Count => "a count".to_owned(),
            Unit::Number => "a number".to_owned(),
            Unit::Size => "bytes, such as `16K`".to_owned(),
            Unit::Seconds => "seconds".to_owned(),
            Unit::Percent => "percent".to_owned(),
            Unit::Switch => "on or off".to_owned(),
            Unit::Words(words) => format!("one of {}", words.join(", ")),
            Unit::List(words) => format!("some of {}", words.join(", ")),
            Unit::Text => "a text".to_owned(),
        }
    }

    /// The option may stand without `=`, or with nothing after it.
    pub fn optional(self) -> bool {
        matches!(self, Unit::Switch | Unit::List(_) | Unit::Text)
    }

    /// How help shows the value.
    pub(super) fn placeholder(self) -> &'static str {
        match self {
            Unit::Count | Unit::Number | Unit::Percent => "=N",
            Unit::Size => "=SIZE",
            Unit::Seconds => "=SECONDS",
            Unit::Switch => "[=on|off]",
            Unit::Words(_) => "=WORD",
            Unit::List(_) => "=[WORD,...]",
            Unit::Text => "=TEXT",
        }
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
    },
    /// A command that has it is not carried out.
    Refused {
        /// Why.
        why: &'static str,
        /// What to do.
        instead: &'static str,
    },
}

pub(super) type Setter = fn(&mut Draft, &str) -> Result<(), Fault>;

/// An option of the language.
#[derive(Debug, Clone, Copy)]
pub struct OptionSpec {
    /// Its name, with `-` where it has several words.
    pub name: &'static str,
    /// What earlier releases called it.
    pub old_names: &'static [&'static str],
    /// What its value is.
    pub unit: Unit,
    /// The value where none is given; empty: none.
    pub default: &'static str,
    /// One line for people.
    pub text: &'static str,
    /// What becomes of it.
    pub status: Status,
    pub(super) set: Setter,
}

fn nothing(_: &mut Draft, _: &str) -> Result<(), Fault> {
    Ok(())
}

impl OptionSpec {
    pub(super) const fn honoured(
        name: &'static str,
        unit: Unit,
        default: &'static str,
        text: &'static str,
        set: Setter,
    ) -> OptionSpec {
        OptionSpec {
            name,
            old_names: &[],
            unit,
            default,
            text,
            status: Status::Honoured,
            set,
        }
    }

    pub(super) const fn ignored(
        name: &'static str,
        unit: Unit,
        default: &'static str,
        text: &'static str,
        why: &'static str,
    ) -> OptionSpec {
        OptionSpec {
            status: Status::Ignored { why },
            ..OptionSpec::honoured(name, unit, default, text, nothing)
        }
    }

    pub(super) const fn refused(
        name: &'static str,
        unit: Unit,
        text: &'static str,
        why: &'static str,
        instead: &'static str,
    ) -> OptionSpec {
        OptionSpec {
            status: Status::Refused { why, instead },
            ..OptionSpec::honoured(name, unit, "", text, nothing)
        }
    }

    pub(super) const fn once(self, old_names: &'static [&'static str]) -> OptionSpec {
        OptionSpec { old_names, ..self }
    }

    /// All its names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.old_names.iter().copied())
    }
}
