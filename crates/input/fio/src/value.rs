//! The value of an option, with parsers for every type.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

use iodyno_model::{Amount, PerDirection};
use iodyno_options::{Problem, one_of, switch};
use iodyno_units::Nanos;

use super::host::Host;
use super::number::{self, NumberError, TimeUnit};

/// A value as written, with variables substituted.
pub(super) struct Value<'a> {
    /// The text without surrounding spaces.
    pub(super) text: &'a str,
    /// Whether there was an `=`.
    pub(super) given: bool,
    /// 1024 or 1000.
    pub(super) kb_base: u64,
    /// Whether `$ncpus` or similar was substituted, so that arithmetic needs no parentheses.
    pub(super) computed: bool,
    /// Where files are read that a value names.
    pub(super) host: Option<&'a dyn Host>,
    /// Warnings and notes about a value that is accepted.
    pub(super) remarks: RefCell<Vec<Problem>>,
}

/// Up to three parts of a comma list.
pub(super) type Parts<T> = [Option<T>; 3];

impl<'a> Value<'a> {
    pub(super) fn new(text: &'a str, kb_base: u64) -> Value<'a> {
        Value {
            text,
            given: true,
            kb_base,
            computed: false,
            host: None,
            remarks: RefCell::default(),
        }
    }

    /// The content of a file.
    pub(super) fn content_of(&self, name: &str) -> io::Result<Vec<u8>> {
        let host = self.host.ok_or(io::ErrorKind::NotFound)?;
        host.read_bytes(Path::new(name))
    }

    /// All regular files below a folder.
    pub(super) fn files_below(&self, folder: &str) -> io::Result<Vec<PathBuf>> {
        let host = self.host.ok_or(io::ErrorKind::NotFound)?;
        host.files_below(Path::new(folder))
    }

    pub(super) fn remark(&self, fault: Problem) {
        self.remarks.borrow_mut().push(fault);
    }

    /// Adds the location of `token`, a part of the value, to `fault`.
    pub(super) fn at(&self, token: &str, fault: Problem) -> Problem {
        let start = (token.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        let inside = start
            .checked_add(token.len())
            .is_some_and(|end| end <= self.text.len());
        Problem {
            span: (inside && !token.is_empty()).then_some((start, token.len())),
            ..fault
        }
    }

    fn number_fault(&self, token: &str, error: &NumberError) -> Problem {
        let fault = Problem::error(error.to_string());
        let fault = match error.hint() {
            Some(hint) => fault.hint(hint),
            None => fault,
        };
        self.at(token, fault)
    }

    /// Parses a part of the value as a number of bytes.
    pub(super) fn bytes_of(&self, token: &str) -> Result<u64, Problem> {
        let token = token.trim();
        let arithmetic = self.computed && token.contains(['+', '-', '*', '/', '%', '^']);
        let read = match arithmetic && !token.starts_with('(') {
            true => number::size(&format!("({token})"), self.kb_base),
            false => number::size(self.before_operator(token), self.kb_base),
        }
        .map_err(|error| self.number_fault(token, &error))?;
        if read.reversed {
            let meant = token.trim_end_matches(['b', 'B']);
            let plain = meant.trim_end_matches(['i', 'I']);
            let hint = match self.kb_base {
                1000 => {
                    format!("write `{meant}B` for the power of 1024, `{plain}` for that of 1000")
                }
                _ => format!("write `{plain}` for the power of 1024"),
            };
            self.remark(
                self.at(
                    token,
                    Problem::warning(format!(
                        "`{token}` is {} bytes: suffixes with `i` are powers of 1000 here, the \
                     reverse of the standard",
                        read.bytes
                    ))
                    .hint(hint),
                ),
            );
        }
        Ok(read.bytes)
    }

    /// The number before an operator, as fio reads arithmetic without parentheses.
    fn before_operator<'t>(&self, token: &'t str) -> &'t str {
        let number = token.split(['+', '*', '/', '^']).next().unwrap_or(token);
        if number.is_empty() || number == token || token.starts_with('(') {
            return token;
        }
        self.remark(self.at(
            token,
            Problem::warning(format!("as in fio, `{token}` is `{number}`")).hint(format!(
                "write `{number}`, or `({token})` for the result of the arithmetic"
            )),
        ));
        number.trim_end()
    }

    pub(super) fn bytes(&self) -> Result<u64, Problem> {
        self.bytes_of(self.single()?)
    }

    /// Parses bytes or a percentage.
    pub(super) fn amount_of(&self, token: &str) -> Result<Amount, Problem> {
        let token = token.trim();
        if !token.ends_with('%') {
            return self.bytes_of(token).map(Amount::Bytes);
        }
        // As in fio, `100%%`, a remainder of string formatting, means `100%`.
        let percent = token.trim_end_matches('%');
        match percent.trim_end().parse::<u32>() {
            Ok(percent @ 0..=100) => Ok(Amount::Percent(f64::from(percent))),
            _ => Err(self.at(
                token,
                Problem::error(format!("`{token}` is not a whole percentage from 0 to 100")),
            )),
        }
    }

    pub(super) fn amount(&self) -> Result<Amount, Problem> {
        self.amount_of(self.single()?)
    }

    /// Parses an integer within `least..=most`.
    pub(super) fn count_of(&self, token: &str, least: u64, most: u64) -> Result<u64, Problem> {
        let number = self.bytes_of(token)?;
        match (least..=most).contains(&number) {
            true => Ok(number),
            false if most == u64::MAX || most == u64::from(u32::MAX) => Err(self.at(
                token.trim(),
                Problem::error(format!(
                    "{number} is out of range: at least {least}, below 2^32"
                )),
            )),
            false => Err(self.at(
                token.trim(),
                Problem::error(format!("{number} is out of range: {least} to {most}")),
            )),
        }
    }

    pub(super) fn count(&self, least: u32, most: u32) -> Result<u32, Problem> {
        self.count_of(self.single()?, u64::from(least), u64::from(most))
            .map(|number| number as u32)
    }

    pub(super) fn time_of(&self, token: &str, unit: TimeUnit) -> Result<Nanos, Problem> {
        let token = token.trim();
        number::time(self.before_operator(token), unit)
            .map_err(|error| self.number_fault(token, &error))
    }

    pub(super) fn time(&self, unit: TimeUnit) -> Result<Nanos, Problem> {
        self.time_of(self.single()?, unit)
    }

    /// 1 without a value; otherwise 0 or 1, or an equivalent word. As in fio, any other number is 1, and what follows a
    /// number does not count.
    pub(super) fn boolean(&self) -> Result<bool, Problem> {
        if !self.given {
            return Ok(true);
        }
        let digits = self.text.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 && !matches!(self.text, "0" | "1") {
            let on = self.text[..digits].bytes().any(|digit| digit != b'0');
            let message = format!("as in fio, `{}` is {}", self.text, u8::from(on));
            let hint = format!("write {}", u8::from(on));
            self.remark(Problem::warning(message).hint(hint));
            return Ok(on);
        }
        switch(self.text).ok_or_else(|| {
            Problem::error(format!("`{}` is neither 0 nor 1", self.text)).hint("write 0 or 1")
        })
    }

    pub(super) fn float_of(&self, token: &str) -> Result<f64, Problem> {
        let token = token.trim();
        let plain = token
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E'));
        match token.parse::<f64>() {
            Ok(number) if plain && number.is_finite() => Ok(number),
            _ => Err(self.at(token, Problem::error(format!("`{token}` is not a number")))),
        }
    }

    /// One of the words, and the text after a colon.
    pub(super) fn word<T: Copy>(
        &self,
        words: &[(&'static str, T)],
    ) -> Result<(T, Option<&'a str>), Problem> {
        let (word, after) = match self.text.split_once(':') {
            Some((word, after)) => (word.trim(), Some(after.trim())),
            None => (self.text, None),
        };
        match one_of(word, words) {
            Ok(value) => Ok((value, after)),
            Err(fault) => Err(self.at(word, fault)),
        }
    }

    /// Exactly one of the words.
    pub(super) fn choice<T: Copy>(&self, words: &[(&'static str, T)]) -> Result<T, Problem> {
        match self.word(words)? {
            (value, None) => Ok(value),
            (_, Some(after)) => Err(self.at(
                after,
                Problem::error(format!("`:{after}` has no meaning here")),
            )),
        }
    }

    /// Any non-empty text.
    pub(super) fn string(&self) -> Result<&'a str, Problem> {
        match self.text.is_empty() {
            true => Err(Problem::error("a value is missing")),
            false => Ok(self.text),
        }
    }

    /// The value, which must not be a list.
    pub(super) fn single(&self) -> Result<&'a str, Problem> {
        let text = self.string()?;
        let parts = split_outside(text, &[',']);
        match parts.len() {
            1 => Ok(text),
            _ => Err(self.at(
                &text[parts[0].len()..],
                Problem::error("expected one value, not a list")
                    .hint(format!("write `{}` alone", parts[0])),
            )),
        }
    }

    /// Parses a range, `4k-16k` or `4k:16k`, in either order; a single value is both limits.
    pub(super) fn range_of<T: PartialOrd>(
        &self,
        token: &'a str,
        read: impl Fn(&str) -> Result<T, Problem>,
    ) -> Result<(T, T), Problem> {
        let parts = split_outside(token, &['-', ':']);
        match parts[..] {
            [only] => Ok((read(only)?, read(only)?)),
            [low, high] => {
                let (low, high) = (read(low)?, read(high)?);
                Ok(if low <= high {
                    (low, high)
                } else {
                    (high, low)
                })
            }
            _ => Err(self.at(token, Problem::error(format!("`{token}` is not a range")))),
        }
    }

    /// A comma-separated list for read, write, trim; any part may be empty.
    pub(super) fn parts<T>(
        &self,
        read: impl Fn(&'a str) -> Result<T, Problem>,
    ) -> Result<Parts<T>, Problem> {
        let text = self.string()?;
        let pieces = split_outside(text, &[',']);
        if pieces.len() > 3 {
            return Err(self.at(
                pieces[3],
                Problem::error("a list has at most three values: read, write, trim"),
            ));
        }
        let mut parts = [None, None, None];
        for (part, piece) in parts.iter_mut().zip(&pieces) {
            if !piece.trim().is_empty() {
                *part = Some(read(piece)?);
            }
        }
        if parts.iter().all(Option::is_none) {
            return Err(Problem::error("a value is missing"));
        }
        Ok(parts)
    }

    /// Applies a comma-separated list to existing values: one value applies to all three directions, a
    /// second one to writes and trims. After a trailing comma (`8k,`) the others are unchanged.
    pub(super) fn spread<T: Clone>(
        &self,
        onto: &mut PerDirection<T>,
        read: impl Fn(&'a str) -> Result<T, Problem>,
    ) -> Result<(), Problem> {
        let lone_comma = self.text.trim_end().ends_with(',');
        match self.parts(read)? {
            [Some(all), None, None] if !lone_comma => *onto = PerDirection::all(all),
            [first, Some(second), None] if !lone_comma => {
                if let Some(first) = first {
                    onto.read = first;
                }
                onto.write = second.clone();
                onto.trim = second;
            }
            [first, second, third] => {
                for (slot, value) in [
                    (&mut onto.read, first),
                    (&mut onto.write, second),
                    (&mut onto.trim, third),
                ] {
                    if let Some(value) = value {
                        *slot = value;
                    }
                }
            }
        }
        Ok(())
    }

    /// Names separated by colons; `\:` is a colon within a name.
    pub(super) fn names(&self) -> Result<Vec<String>, Problem> {
        let mut names = vec![String::new()];
        let mut characters = self.string()?.chars().peekable();
        while let Some(character) = characters.next() {
            match (character, characters.peek()) {
                ('\\', Some(':')) => {
                    characters.next();
                    push(&mut names, ':');
                }
                (':', _) => names.push(String::new()),
                _ => push(&mut names, character),
            }
        }
        names.retain(|name| !name.is_empty());
        match names.is_empty() {
            true => Err(Problem::error("a name is missing")),
            false => Ok(names),
        }
    }

    /// Parses a list of numbers such as `0-3,5`, each less than `limit`.
    pub(super) fn number_list(&self, list: &str, limit: u32) -> Result<Vec<u32>, Problem> {
        let mut numbers = std::collections::BTreeSet::new();
        for part in list.split(',') {
            let part = part.trim();
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let read = |token: &str| match token.trim().parse::<u32>() {
                Ok(number) if number < limit => Ok(number),
                _ => Err(self.at(
                    part,
                    Problem::error(format!("`{part}` is not a number below {limit}"))
                        .hint("write numbers and ranges, such as `0-3,5`"),
                )),
            };
            numbers.extend(read(first)?..=read(last)?);
        }
        match numbers.is_empty() {
            true => Err(Problem::error(format!("`{list}` names nothing"))
                .hint("write the smaller number first, such as `0-3`")),
            false => Ok(numbers.into_iter().collect()),
        }
    }
}

fn push(names: &mut [String], character: char) {
    if let Some(last) = names.last_mut() {
        last.push(character);
    }
}

/// Splits at separators outside of parentheses; a separator at the start of a part, such as a minus sign,
/// is not a separator.
pub(crate) fn split_outside<'a>(text: &'a str, separators: &[char]) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0i32);
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth <= 0 && separators.contains(&character) => {
                if index == start && character != ',' {
                    continue;
                }
                parts.push(&text[start..index]);
                start = index + character.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_list_fills_the_directions_as_fio_does() {
        for (text, expected) in [
            ("8", [8, 8, 8]),
            ("8,", [8, 2, 3]),
            ("8,9", [8, 9, 9]),
            (",9", [1, 9, 9]),
            ("8,9,10", [8, 9, 10]),
            (",,10", [1, 2, 10]),
            ("8,9,", [8, 9, 3]),
        ] {
            let value = Value::new(text, 1024);
            let mut onto = PerDirection {
                read: 1,
                write: 2,
                trim: 3,
            };
            value
                .spread(&mut onto, |token| value.bytes_of(token))
                .unwrap();
            assert_eq!([onto.read, onto.write, onto.trim], expected, "{text}");
        }
        for text in ["", ",", ",,", "1,2,3,4", "1,x"] {
            let value = Value::new(text, 1024);
            assert!(
                value.parts(|token| value.bytes_of(token)).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn names_are_separated_by_colons_unless_escaped() {
        for (text, names) in [
            ("a", vec!["a"]),
            ("a:b", vec!["a", "b"]),
            (r"/dev/disk/pci-0000\:00", vec!["/dev/disk/pci-0000:00"]),
            (r"a\:b:c", vec!["a:b", "c"]),
            ("a::b:", vec!["a", "b"]),
            (r"a\b", vec![r"a\b"]),
        ] {
            assert_eq!(Value::new(text, 1024).names().unwrap(), names, "{text}");
        }
        assert!(Value::new(":", 1024).names().is_err());
    }

    #[test]
    fn errors_point_at_the_invalid_part() {
        let value = Value::new("4k, 8x,16k", 1024);
        let fault = value.parts(|token| value.bytes_of(token)).unwrap_err();
        assert_eq!(fault.span, Some((4, 2)));
    }

    #[test]
    fn lists_of_numbers_may_contain_ranges() {
        let value = Value::new("0-2,5, 7", 1024);
        assert_eq!(value.number_list(value.text, 64).unwrap(), [0, 1, 2, 5, 7]);
        for text in ["", "a", "3-1", "0-99", "1,,2", "-1"] {
            assert!(
                Value::new(text, 1024).number_list(text, 64).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn parts_keep_their_parentheses_and_signs() {
        assert_eq!(split_outside("4k-(8-2)", &['-']), ["4k", "(8-2)"]);
        assert_eq!(split_outside("-8k-4", &['-']), ["-8k", "4"]);
        assert_eq!(split_outside("a,,b", &[',']), ["a", "", "b"]);
    }
}
