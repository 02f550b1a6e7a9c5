//! One option: its documentation and its effect, in one entry.

use super::problem::Problem;

/// Type of a value.
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
    /// An integer.
    Count,
    /// Integers and ranges of integers: `0-3,5`.
    Numbers,
    /// A number, with or without a fraction.
    Number,
    /// Bytes, with or without a suffix.
    Bytes,
    /// Bytes or a percentage.
    Amount,
    /// Percent.
    Percent,
    /// A time; seconds if it has no suffix.
    Seconds,
    /// A time; milliseconds if it has no suffix.
    Milliseconds,
    /// A time; microseconds if it has no suffix.
    Microseconds,
    /// 0 or 1; 1 without a value.
    Boolean,
    /// On or off; on without a value.
    Switch,
    /// One of these words.
    Words(&'static [&'static str]),
    /// Any of these words, separated by commas.
    SomeOf(&'static [&'static str]),
    /// A text in one of the formats of these examples.
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

    /// Whether a value has a fixed form; otherwise it can be any text.
    pub fn has_fixed_form(self) -> bool {
        !matches!(
            self,
            Unit::Text | Unit::OptionalText | Unit::OptionalPath | Unit::Paths
        )
    }

    /// An option as it is written with a value, for hints: `runtime=SECONDS`.
    pub fn form(self, option: &str) -> String {
        let value = match self {
            Unit::Seconds => "SECONDS",
            Unit::Milliseconds => "MILLISECONDS",
            Unit::Microseconds => "MICROSECONDS",
            _ => return format!("`{option}=…` ({})", self.describe()),
        };
        format!("`{option}={value}`")
    }

    /// Whether the value may be omitted together with `=`.
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

/// How an option, or another named item of a language, is treated. `T` is the data of a supported one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status<T> {
    /// Supported.
    Honoured(T),
    /// Accepted without effect.
    Ignored {
        /// Why this does not change the result.
        why: &'static str,
        /// Whether the measurement may nevertheless differ from that of the original program.
        differs: bool,
    },
    /// Not supported: the job is not run.
    Refused {
        /// The reason.
        why: &'static str,
        /// The alternative: an imperative sentence.
        instead: &'static str,
    },
}

impl<T> Status<T> {
    /// Whether it is supported.
    pub fn is_honoured(&self) -> bool {
        matches!(self, Status::Honoured(_))
    }

    /// Whether it is accepted without effect.
    pub fn is_ignored(&self) -> bool {
        matches!(self, Status::Ignored { .. })
    }

    /// Whether it is not supported.
    pub fn is_refused(&self) -> bool {
        matches!(self, Status::Refused { .. })
    }

    /// Why it is not supported, and the alternative; empty for a supported one.
    pub fn reason(&self) -> String {
        match self {
            Status::Honoured(_) => String::new(),
            Status::Ignored { why, .. } => (*why).to_owned(),
            Status::Refused { why, instead } => format!("{why}; {instead}"),
        }
    }
}

/// An option of a language. `S` sets the value of a supported one.
#[derive(Debug, Clone, Copy)]
pub struct OptionSpec<S> {
    /// Its name.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// Type of its value.
    pub unit: Unit,
    /// The default value; empty: none.
    pub default: &'static str,
    /// Description in one line.
    pub text: &'static str,
    /// How it is treated.
    pub status: Status<S>,
    /// Values without effect: with one of these, an ignored or refused option is accepted silently.
    pub neutral: &'static [&'static str],
    /// The fields of a job that it sets: paths in the stored form, without the kind of work.
    pub fields: &'static [&'static str],
}

/// An option that has no effect here, which does not change the result.
pub const fn ignored<S: Copy>(
    name: &'static str,
    unit: Unit,
    text: &'static str,
    why: &'static str,
) -> OptionSpec<S> {
    let differs = false;
    OptionSpec::new(name, unit, text, Status::Ignored { why, differs })
}

/// An option that has no effect here, so that the measurement may differ: gives a warning.
pub const fn differs<S: Copy>(
    name: &'static str,
    unit: Unit,
    text: &'static str,
    why: &'static str,
) -> OptionSpec<S> {
    let differs = true;
    OptionSpec::new(name, unit, text, Status::Ignored { why, differs })
}

/// An option that is not supported: gives an error.
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
            fields: &[],
        }
    }

    /// Sets other names.
    pub const fn alias(self, aliases: &'static [&'static str]) -> OptionSpec<S> {
        OptionSpec { aliases, ..self }
    }

    /// Sets the default value.
    pub const fn default(self, default: &'static str) -> OptionSpec<S> {
        OptionSpec { default, ..self }
    }

    /// Sets the values without effect.
    pub const fn neutral(self, neutral: &'static [&'static str]) -> OptionSpec<S> {
        OptionSpec { neutral, ..self }
    }

    /// Sets the fields of a job.
    pub const fn sets(self, fields: &'static [&'static str]) -> OptionSpec<S> {
        OptionSpec { fields, ..self }
    }

    /// Whether it is supported.
    pub fn honoured(&self) -> bool {
        self.status.is_honoured()
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<S> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Applies the option, written as `written`, with a value; a supported one with `set`.
    ///
    /// # Errors
    /// The error of `set`; a note or warning for an ignored option, and an error for a refused one, unless
    /// the value is neutral.
    pub fn apply(
        &self,
        written: &str,
        value: &str,
        set: impl FnOnce(S) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        match self.status {
            Status::Honoured(setter) => set(setter),
            _ if self.neutral.contains(&value) => Ok(()),
            Status::Ignored { why, differs } => {
                let message = format!("`{written}` is ignored: {why}");
                let fault = match differs {
                    true => Problem::unmet(message),
                    false => Problem::note(message),
                };
                Err(fault.hint("leave it out"))
            }
            Status::Refused { why, instead } => {
                Err(Problem::refusal(format!("`{written}` is not supported: {why}")).hint(instead))
            }
        }
    }
}
