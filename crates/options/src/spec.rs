//! One option: its documentation and its effect, in one entry.

use super::fault::Fault;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// No value.
    Nothing,
    /// Any text.
    Text,
    /// Any text, or no value.
    OptionalText,
    /// A file, folder or path prefix, or no value.
    OptionalPath,
    /// Paths separated by `:`.
    Paths,
    /// A whole number.
    Count,
    /// Whole numbers and ranges of them: `0-3,5`.
    Numbers,
    /// A number, with a fraction or without.
    Number,
    /// Bytes, with a suffix or without.
    Bytes,
    /// Bytes or a percentage.
    Amount,
    /// Percent.
    Percent,
    /// A time; seconds where it has no suffix.
    Seconds,
    /// A time; milliseconds where it has no suffix.
    Milliseconds,
    /// A time; microseconds where it has no suffix.
    Microseconds,
    /// 0 or 1; 1 without a value.
    Boolean,
    /// On or off; on without a value.
    Switch,
    /// One of these words.
    Words(&'static [&'static str]),
    /// Any of these words, separated by commas.
    SomeOf(&'static [&'static str]),
    /// A text of a form that these examples show.
    Forms(&'static [&'static str]),
}

impl Unit {
    /// The words used in documentation and hints.
    pub fn describe(self) -> String {
        let text = match self {
            Unit::Nothing => "no value",
            Unit::Text | Unit::OptionalText => "a text",
            Unit::OptionalPath => "a path prefix",
            Unit::Paths => "paths separated by `:`",
            Unit::Count => "a count",
            Unit::Numbers => "numbers, such as `0-3,5`",
            Unit::Number => "a number",
            Unit::Bytes => "bytes, such as `4k`",
            Unit::Amount => "bytes or percent",
            Unit::Percent => "percent",
            Unit::Seconds => "a time (s)",
            Unit::Milliseconds => "a time (ms)",
            Unit::Microseconds => "a time (µs)",
            Unit::Boolean => "0 or 1",
            Unit::Switch => "on or off",
            Unit::Words(words) => return format!("one of {}", words.join(", ")),
            Unit::SomeOf(words) => return format!("any of {}", words.join(", ")),
            Unit::Forms(forms) => {
                let forms: Vec<String> = forms.iter().map(|form| format!("`{form}`")).collect();
                return format!("a text such as {}", forms.join(" or "));
            }
        };
        text.to_owned()
    }

    /// Whether the option may stand without `=`.
    pub fn optional(self) -> bool {
        matches!(
            self,
            Unit::Nothing
                | Unit::OptionalText
                | Unit::OptionalPath
                | Unit::Boolean
                | Unit::Switch
                | Unit::SomeOf(_)
        )
    }
}

/// What becomes of an option, or of anything else that a language names. `T` is what an honoured one needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status<T> {
    /// It has its effect.
    Honoured(T),
    /// It is accepted and has no effect.
    Ignored {
        /// Why that is harmless.
        why: &'static str,
        /// The measurement may differ from the original program's all the same.
        differs: bool,
    },
    /// What has it is not run.
    Refused {
        /// Why.
        why: &'static str,
        /// What to do instead: an imperative sentence.
        instead: &'static str,
    },
}

impl<T> Status<T> {
    /// The words used in documentation.
    pub fn describe(&self) -> String {
        match self {
            Status::Honoured(_) => "honoured".to_owned(),
            Status::Ignored { why, .. } => format!("ignored: {why}"),
            Status::Refused { why, instead } => format!("refused: {why}; {instead}"),
        }
    }
}

/// An option of a language. `S` sets the value of an honoured one.
#[derive(Debug, Clone, Copy)]
pub struct OptionSpec<S> {
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
    pub status: Status<S>,
    /// Values that ask for nothing special: with one of these an ignored or refused option is accepted silently.
    pub neutral: &'static [&'static str],
}

/// An option that has no effect here and needs none.
pub const fn ignored<S: Copy>(
    name: &'static str,
    unit: Unit,
    text: &'static str,
    why: &'static str,
) -> OptionSpec<S> {
    let differs = false;
    OptionSpec::new(name, unit, text, Status::Ignored { why, differs })
}

/// An option that has no effect here, so that the measurement may differ: a warning.
pub const fn differs<S: Copy>(
    name: &'static str,
    unit: Unit,
    text: &'static str,
    why: &'static str,
) -> OptionSpec<S> {
    let differs = true;
    OptionSpec::new(name, unit, text, Status::Ignored { why, differs })
}

/// An option that is not supported: an error.
pub const fn refused<S: Copy>(
    name: &'static str,
    unit: Unit,
    text: &'static str,
    why: &'static str,
    instead: &'static str,
) -> OptionSpec<S> {
    OptionSpec::new(name, unit, text, Status::Refused { why, instead })
}

impl<S: Copy> OptionSpec<S> {
    /// An option with one name, without a default.
    pub const fn new(
        name: &'static str,
        unit: Unit,
        text: &'static str,
        status: Status<S>,
    ) -> OptionSpec<S> {
        OptionSpec {
            name,
            aliases: &[],
            unit,
            default: "",
            text,
            status,
            neutral: &[],
        }
    }

    /// With other names.
    pub const fn alias(self, aliases: &'static [&'static str]) -> OptionSpec<S> {
        OptionSpec { aliases, ..self }
    }

    /// With the value where none is given.
    pub const fn default(self, default: &'static str) -> OptionSpec<S> {
        OptionSpec { default, ..self }
    }

    /// With values that ask for nothing special.
    pub const fn neutral(self, neutral: &'static [&'static str]) -> OptionSpec<S> {
        OptionSpec { neutral, ..self }
    }

    /// All its names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<S> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Applies the option, written as `written`, with a value: an honoured one by `set`.
    ///
    /// # Errors
    /// What `set` says; a note or warning for an ignored option, and an error for a refused one, unless the
    /// value is neutral.
    pub fn apply(
        &self,
        written: &str,
        value: &str,
        set: impl FnOnce(S) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        match self.status {
            Status::Honoured(setter) => set(setter),
            _ if self.neutral.contains(&value) => Ok(()),
            Status::Ignored { why, differs } => {
                let message = format!("`{written}` is ignored: {why}");
                let fault = match differs {
                    true => Fault::warning(message),
                    false => Fault::note(message),
                };
                Err(fault.hint("leave it out"))
            }
            Status::Refused { why, instead } => {
                Err(Fault::refusal(format!("`{written}` is not supported: {why}")).hint(instead))
            }
        }
    }
}
