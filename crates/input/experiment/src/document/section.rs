//! Reads a table of a text, key by key.

use std::ops::Range;
use std::str::FromStr;

use crate::document::report::Report;
use crate::document::tree::{Node, Table, Value};
use iodyno_model::closest;
use iodyno_units::{Bytes, Nanos, list};

/// Maximum size, bytes: larger than the largest existing files, and small enough that sums do not overflow.
pub const LARGEST: u64 = 1 << 50;

/// A value that was read, with its location.
#[derive(Debug, Clone)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Its bytes in the text.
    pub at: Range<usize>,
}

/// A table.
#[derive(Debug, Clone)]
pub struct Section<'d> {
    table: &'d Table,
    /// Its location, for missing keys.
    pub at: Range<usize>,
    /// Its name in messages: `the file`, `a step`.
    pub title: &'static str,
    /// The table's own key, which is part of the names of its keys in messages: `file` for `file.size`. Empty: it is
    /// not.
    pub within: &'static str,
}

impl<'d> Section<'d> {
    /// A table with its location and its name in messages.
    pub fn new(table: &'d Table, at: Range<usize>, title: &'static str) -> Section<'d> {
        Section {
            table,
            at,
            title,
            within: "",
        }
    }

    /// The name of a key in messages.
    pub fn full(&self, name: &str) -> String {
        match self.within {
            "" => name.to_owned(),
            within => format!("{within}.{name}"),
        }
    }

    /// Reports unknown keys, with suggestions.
    pub fn refuse_unknown(&self, known: &[&str], report: &mut Report<'_>) {
        for entry in &self.table.entries {
            let name = entry.key.as_str();
            if known.contains(&name) {
                continue;
            }
            let near = closest(&name.replace('_', "-"), known.iter().copied());
            // `config` for `configuration`, `workloads` for `workload`.
            let mut longer = known.iter().copied().filter(|known| {
                let shorter = known.len().min(name.len());
                shorter > 3 && known.get(..shorter) == name.get(..shorter)
            });
            let hint = match near.or_else(|| longer.next()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("{} may have {}", self.title, listed(known)),
            };
            report.error(entry.key_at.clone(), format!("unknown key `{name}`"), hint);
        }
    }

    /// The location of a key.
    pub fn key(&self, name: &str) -> Option<Range<usize>> {
        self.table.entry(name).map(|entry| entry.key_at.clone())
    }

    /// Reports a missing key, with an example.
    pub fn miss(&self, name: &str, example: &str, report: &mut Report<'_>) {
        if !report.broken && self.table.get(name).is_none() {
            let message = format!("{} lacks `{name}`", self.title);
            report.error(
                self.at.clone(),
                message,
                format!("add `{name} = {example}`"),
            );
        }
    }

    /// The value of a key.
    pub fn value(&self, name: &str) -> Option<&'d Node> {
        self.table.get(name)
    }

    /// The tables of an array of tables, `[[name]]`.
    pub fn tables(
        &self,
        name: &str,
        title: &'static str,
        report: &mut Report<'_>,
    ) -> Vec<Section<'d>> {
        let Some(value) = self.value(name) else {
            return Vec::new();
        };
        let hint = format!("begin each with a line `[[{name}]]`");
        let Some(array) = value.as_list() else {
            report.error(value.at.clone(), wrong(name, "tables", value), hint);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for item in array {
            match item.as_table() {
                Some(table) => sections.push(Section::new(table, item.at.clone(), title)),
                None => report.error(item.at.clone(), wrong(name, "tables", item), hint.clone()),
            }
        }
        sections
    }

    /// A string.
    pub fn text(&self, name: &str, report: &mut Report<'_>) -> Option<Located<String>> {
        let value = self.value(name)?;
        match value.as_text() {
            Some(text) => Some(Located {
                value: text.to_owned(),
                at: value.at.clone(),
            }),
            None => {
                report.error(
                    value.at.clone(),
                    wrong(&self.full(name), "a string", value),
                    "put it between quotes",
                );
                None
            }
        }
    }

    /// One of several words.
    pub fn word<T: Copy>(
        &self,
        name: &str,
        words: &[(&'static str, T)],
        report: &mut Report<'_>,
    ) -> Option<Located<T>> {
        let found = self.text(name, report)?;
        let known = words.iter().find(|(word, _)| *word == found.value);
        if let Some((_, value)) = known {
            return Some(Located {
                value: *value,
                at: found.at,
            });
        }
        let names = || words.iter().map(|(word, _)| *word);
        // A name with another number is not suggested: `raid5` does not mean `raid1`.
        let numbered = |word: &str| {
            word.trim_end_matches(|c: char| c.is_ascii_digit())
                .to_owned()
        };
        let hint = match closest(&found.value, names()) {
            Some(near) if numbered(near) == near || numbered(near) != numbered(&found.value) => {
                format!("did you mean `\"{near}\"`?")
            }
            _ => format!("it is one of {}", listed(&names().collect::<Vec<_>>())),
        };
        let message = format!("`{}` cannot be {:?}", self.full(name), found.value);
        report.error(found.at, message, hint);
        None
    }

    /// `true` or `false`.
    pub fn switch(&self, name: &str, report: &mut Report<'_>) -> Option<bool> {
        let value = self.value(name)?;
        let read = match value.value {
            Value::Switch(on) => Some(on),
            _ => None,
        };
        if read.is_none() {
            let message = wrong(&self.full(name), "`true` or `false`", value);
            report.error(value.at.clone(), message, "write it without quotes");
        }
        read
    }

    /// An integer within limits.
    pub fn count(
        &self,
        name: &str,
        limits: (u64, u64),
        report: &mut Report<'_>,
    ) -> Option<Located<u64>> {
        let value = self.value(name)?;
        let Some(read) = integer(&value.value) else {
            let message = wrong(&self.full(name), "a whole number", value);
            let text = value.as_text().map(str::trim);
            let hint = match (&value.value, text.map(str::parse::<u64>)) {
                (Value::Float(number), _) if number.is_finite() && *number >= 0.0 => {
                    format!("write it without a fraction: `{}`", number.ceil())
                }
                (_, Some(Ok(number))) => format!("write it without quotes: `{number}`"),
                _ => "write it without quotes and unit".to_owned(),
            };
            report.error(value.at.clone(), message, hint);
            return None;
        };
        let within = read
            .ok()
            .filter(|number| (limits.0..=limits.1).contains(number));
        if within.is_none() {
            let message = format!("`{}` is out of range", self.full(name));
            let hint = format!("it is from {} to {}", limits.0, limits.1);
            report.error(value.at.clone(), message, hint);
        }
        within.map(|value_read| Located {
            value: value_read,
            at: value.at.clone(),
        })
    }

    /// A number of bytes, at least `least`: a string with a unit, or an integer.
    pub fn size(&self, name: &str, least: u64, report: &mut Report<'_>) -> Option<u64> {
        let value = self.value(name)?;
        if let Some(text) = value.as_text()
            && !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit())
        {
            let message = format!("`{}` lacks its unit", self.full(name));
            let hint = format!("write `\"{text}MiB\"`, or `{text}` without quotes for bytes");
            report.error(value.at.clone(), message, hint);
            return None;
        }
        let bytes = match integer(&value.value) {
            Some(bytes) => bytes.ok(),
            None => {
                let bytes: Bytes = self.with_unit(name, "a size", "\"2MiB\"", report)?;
                Some(bytes.0)
            }
        };
        if let Some(bytes) = bytes.filter(|bytes| (least..=LARGEST).contains(bytes)) {
            return Some(bytes);
        }
        let message = format!("`{}` is out of range", self.full(name));
        let hint = format!("it is from {} to {}", Bytes(least), Bytes(LARGEST));
        report.error(value.at.clone(), message, hint);
        None
    }

    /// A time with a unit.
    pub fn time(&self, name: &str, report: &mut Report<'_>) -> Option<Nanos> {
        self.with_unit(name, "a time", "\"10s\"", report)
    }

    /// A string with a unit.
    fn with_unit<T: FromStr>(
        &self,
        name: &str,
        what: &str,
        example: &str,
        report: &mut Report<'_>,
    ) -> Option<T>
    where
        T::Err: std::fmt::Display,
    {
        let value = self.value(name)?;
        let Some(text) = value.as_text() else {
            let message = wrong(&self.full(name), &format!("{what} with its unit"), value);
            report.error(value.at.clone(), message, format!("such as `{example}`"));
            return None;
        };
        match text.parse() {
            Ok(read) => Some(read),
            Err(error) => {
                report.plain_error(value.at.clone(), format!("`{}`: {error}", self.full(name)));
                None
            }
        }
    }

    /// A positive number, with or without a fraction.
    pub fn positive(&self, name: &str, report: &mut Report<'_>) -> Option<Located<f64>> {
        let value = self.value(name)?;
        let read = match &value.value {
            Value::Float(float) => Some(*float),
            other => integer(other).and_then(|whole| whole.ok().map(|whole| whole as f64)),
        };
        let positive = read.filter(|number| number.is_finite() && *number > 0.0);
        if positive.is_none() {
            let message = wrong(&self.full(name), "a number above 0", value);
            report.error(value.at.clone(), message, "such as `100` or `0.5`");
        }
        positive.map(|number| Located {
            value: number,
            at: value.at.clone(),
        })
    }
}

/// The value as an integer, if it is one; `Err` if it is negative or too large.
fn integer(value: &Value) -> Option<Result<u64, ()>> {
    match value {
        Value::Integer(number) => Some(u64::try_from(*number).map_err(|_| ())),
        _ => None,
    }
}

/// The message for a value of the wrong type: `` `a` is a size, not an array``.
pub fn wrong(name: &str, expected: &str, value: &Node) -> String {
    format!("`{name}` is {expected}, not {}", value.value.in_words())
}

/// What to write in place of an unknown name: the closest known one, or one of all, after `list`: `the axes are`.
pub fn instead(name: &str, known: &[&str], list: &str) -> String {
    match closest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("{list} {}", listed(known)),
    }
}

/// `` `a`, `b` and `c` ``.
pub fn listed(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.is_empty() {
        true => "nothing".to_owned(),
        false => list(&quoted),
    }
}
