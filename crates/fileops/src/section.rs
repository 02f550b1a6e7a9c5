//! Parses a table of a text, key by key.

use std::ops::Range;
use std::str::FromStr;

use iodyno_model::closest;
use iodyno_units::{Bytes, Nanos};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::report::Report;

/// Maximum size, bytes: larger than the largest existing files, and small enough that sums do not overflow.
pub(super) const LARGEST: u64 = 1 << 50;

/// A parsed value with its location.
#[derive(Debug, Clone)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) at: Range<usize>,
}

/// A table.
#[derive(Debug)]
pub(super) struct Section<'d, 'i> {
    table: &'d DeTable<'i>,
    /// Its location, for missing keys.
    pub(super) at: Range<usize>,
    /// Its name in messages: `the file`, `a step`.
    pub(super) title: &'static str,
}

impl<'d, 'i> Section<'d, 'i> {
    pub(super) fn new(
        table: &'d DeTable<'i>,
        at: Range<usize>,
        title: &'static str,
    ) -> Section<'d, 'i> {
        Section { table, at, title }
    }

    /// Reports unknown keys, with suggestions.
    pub(super) fn refuse_unknown(&self, known: &[&str], report: &mut Report<'_>) {
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let hint = match closest(&name.replace('_', "-"), known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("{} may have {}", self.title, listed(known)),
            };
            report.error(key.span(), format!("unknown key `{name}`"), hint);
        }
    }

    /// The location of a key.
    pub(super) fn key(&self, name: &str) -> Option<Range<usize>> {
        self.table.get_key_value(name).map(|(key, _)| key.span())
    }

    /// Reports a missing key, with an example.
    pub(super) fn miss(&self, name: &str, example: &str, report: &mut Report<'_>) {
        if !report.broken && !self.table.contains_key(name) {
            let message = format!("{} lacks `{name}`", self.title);
            report.error(
                self.at.clone(),
                message,
                format!("add `{name} = {example}`"),
            );
        }
    }

    fn value(&self, name: &str) -> Option<&'d Spanned<DeValue<'i>>> {
        self.table.get(name)
    }

    /// The tables of an array of tables, `[[name]]`.
    pub(super) fn tables(
        &self,
        name: &str,
        title: &'static str,
        report: &mut Report<'_>,
    ) -> Vec<Section<'d, 'i>> {
        let Some(value) = self.value(name) else {
            return Vec::new();
        };
        let hint = format!("begin each with a line `[[{name}]]`");
        let Some(array) = value.get_ref().as_array() else {
            report.error(value.span(), wrong(name, "tables", value), hint);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for item in array {
            match item.get_ref().as_table() {
                Some(table) => sections.push(Section::new(table, item.span(), title)),
                None => report.error(item.span(), wrong(name, "tables", item), hint.clone()),
            }
        }
        sections
    }

    /// A string.
    pub(super) fn text(&self, name: &str, report: &mut Report<'_>) -> Option<Located<String>> {
        let value = self.value(name)?;
        match value.get_ref().as_str() {
            Some(text) => Some(Located {
                value: text.to_owned(),
                at: value.span(),
            }),
            None => {
                report.error(
                    value.span(),
                    wrong(name, "a string", value),
                    "put it between quotes",
                );
                None
            }
        }
    }

    /// One of several words.
    pub(super) fn word<T: Copy>(
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
        let hint = match closest(&found.value, names()) {
            Some(near) => format!("did you mean `\"{near}\"`?"),
            None => format!("it is one of {}", listed(&names().collect::<Vec<_>>())),
        };
        let message = format!("`{name}` cannot be {:?}", found.value);
        report.error(found.at, message, hint);
        None
    }

    /// `true` or `false`.
    pub(super) fn switch(&self, name: &str, report: &mut Report<'_>) -> Option<bool> {
        let value = self.value(name)?;
        let read = value.get_ref().as_bool();
        if read.is_none() {
            let message = wrong(name, "`true` or `false`", value);
            report.error(value.span(), message, "write it without quotes");
        }
        read
    }

    /// An integer within limits.
    pub(super) fn count(
        &self,
        name: &str,
        limits: (u64, u64),
        report: &mut Report<'_>,
    ) -> Option<Located<u64>> {
        let value = self.value(name)?;
        let Some(read) = integer(value.get_ref()) else {
            let message = wrong(name, "a whole number", value);
            report.error(value.span(), message, "write it without quotes and unit");
            return None;
        };
        let within = read
            .ok()
            .filter(|number| (limits.0..=limits.1).contains(number));
        if within.is_none() {
            let message = format!("`{name}` is out of range");
            let hint = format!("it is from {} to {}", limits.0, limits.1);
            report.error(value.span(), message, hint);
        }
        within.map(|value_read| Located {
            value: value_read,
            at: value.span(),
        })
    }

    /// A number of bytes, at least `least`: a string with a unit, or an integer.
    pub(super) fn size(&self, name: &str, least: u64, report: &mut Report<'_>) -> Option<u64> {
        let value = self.value(name)?;
        if integer(value.get_ref()).is_some() {
            let found = self.count(name, (least, LARGEST), report)?;
            return Some(found.value);
        }
        let bytes: Bytes = self.with_unit(name, "a size", "\"2MiB\"", report)?;
        if (least..=LARGEST).contains(&bytes.0) {
            return Some(bytes.0);
        }
        let message = format!("`{name}` is out of range");
        let hint = format!("it is from {least} bytes to {}", Bytes(LARGEST));
        report.error(value.span(), message, hint);
        None
    }

    /// A time with a unit.
    pub(super) fn time(&self, name: &str, report: &mut Report<'_>) -> Option<Nanos> {
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
        let Some(text) = value.get_ref().as_str() else {
            let message = wrong(name, &format!("{what} with its unit"), value);
            report.error(value.span(), message, format!("such as `{example}`"));
            return None;
        };
        match text.parse() {
            Ok(read) => Some(read),
            Err(error) => {
                report.plain_error(value.span(), format!("`{name}`: {error}"));
                None
            }
        }
    }

    /// A positive number, with or without a fraction.
    pub(super) fn positive(&self, name: &str, report: &mut Report<'_>) -> Option<Located<f64>> {
        let value = self.value(name)?;
        let read = match value.get_ref() {
            DeValue::Float(float) => float.as_str().parse::<f64>().ok(),
            other => integer(other).and_then(|whole| whole.ok().map(|whole| whole as f64)),
        };
        let positive = read.filter(|number| number.is_finite() && *number > 0.0);
        if positive.is_none() {
            let message = wrong(name, "a number above 0", value);
            report.error(value.span(), message, "such as `100` or `0.5`");
        }
        positive.map(|number| Located {
            value: number,
            at: value.span(),
        })
    }
}

/// The value as an integer, if it is one; `Err` if it is negative or too large.
fn integer(value: &DeValue<'_>) -> Option<Result<u64, ()>> {
    let integer = value.as_integer()?;
    Some(u64::from_str_radix(integer.as_str(), integer.radix()).map_err(|_| ()))
}

fn wrong(name: &str, expected: &str, value: &Spanned<DeValue<'_>>) -> String {
    let found = match value.get_ref() {
        DeValue::String(text) => format!("the string {text:?}"),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(value) => format!("`{value}`"),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    };
    format!("`{name}` is {expected}, not {found}")
}

/// `` `a`, `b` and `c` ``.
pub(super) fn listed(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
    }
}
