//! JSON documents within a text.

use std::borrow::Cow;
use std::ops::Range;

use serde::de::DeserializeOwned;

use crate::lines::Lines;

/// Lines that are not JSON and that fio can write within its JSON output.
const NOTES: [&str; 4] = ["fio:", "note:", "verify:", "client <"];

/// How often a text may be parsed without success. Each brace that does not begin a document costs an attempt, and a
/// crafted text could have one in every line.
const PASSES: usize = 4;

/// A text whose documents can be parsed from any line on.
pub(super) struct Joined<'l> {
    /// The text of `lines`, copied only if something in it had to be replaced by as many bytes.
    text: Cow<'l, str>,
    lines: &'l Lines<'l>,
    /// Bytes that may still be parsed without success.
    budget: usize,
}

/// The result of parsing at a line.
pub(super) enum Attempt<T> {
    /// Consecutive documents, and the lines that they cover.
    Read(Vec<T>, Range<u32>),
    /// No document, or a truncated one.
    Broken(String),
}

impl<'l> Joined<'l> {
    pub(super) fn of(lines: &'l Lines<'_>) -> Joined<'l> {
        let mut text = Cow::Borrowed(lines.text());
        // Older versions divide by zero, which JSON cannot represent. The replacements have the same length.
        for (number, null) in [
            (": -nan", ": null"),
            (": nan", ":null"),
            (": -inf", ": null"),
            (": inf", ":null"),
        ] {
            if text.contains(number) {
                text = Cow::Owned(text.replace(number, null));
            }
        }
        let budget = PASSES * text.len();
        Joined {
            text,
            lines,
            budget,
        }
    }

    /// Parses the document that begins at a line, skipping notes that fio wrote into it.
    pub(super) fn document<T: DeserializeOwned>(&mut self, line: u32) -> Attempt<T> {
        let mut start = self.lines.start(line);
        let mut values = Vec::new();
        loop {
            if self.budget == 0 {
                return Attempt::Broken("too many braces without a document".to_owned());
            }
            let mut stream =
                serde_json::Deserializer::from_str(&self.text[start..]).into_iter::<T>();
            let error = match stream.next() {
                Some(Ok(value)) => {
                    let end = start + stream.byte_offset();
                    let last = self.lines.line_of(end);
                    values.push(value);
                    let next = self.lines.start(last + 1);
                    if self.text[end..next].trim_start().starts_with('{') {
                        start = end;
                        continue;
                    }
                    return Attempt::Read(values, line..last + 1);
                }
                Some(Err(error)) => error,
                None => return Attempt::Broken("nothing follows".to_owned()),
            };
            if !values.is_empty() {
                return Attempt::Read(values, line..self.lines.line_of(start) + 1);
            }
            let at = line + error.line().max(1) as u32 - 1;
            let at = at.min(self.lines.count());
            let begin = self.lines.start(at);
            self.budget = self
                .budget
                .saturating_sub(begin + error.column() - start.min(begin));
            let end = begin + self.lines.get(at).len();
            let noted = self.text[begin..end].trim_start();
            if !NOTES.iter().any(|note| noted.starts_with(note)) {
                return Attempt::Broken(format!("line {at}: {}", reason(&error)));
            }
            self.text
                .to_mut()
                .replace_range(begin..end, &" ".repeat(end - begin));
        }
    }
}

/// The reason for the error, without the position within the parsed piece.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}
