//! JSON documents within a text.

use std::ops::Range;

use serde_json::Value;

use crate::lines::Lines;

/// Lines that are not JSON and that fio can write within its JSON output.
const NOTES: [&str; 4] = ["fio:", "note:", "verify:", "client <"];

/// How often a text may be parsed without success. Each brace that does not begin a document costs an attempt, and a
/// crafted text could have one in every line.
const PASSES: usize = 4;

/// A text whose documents can be parsed from any line on.
pub(super) struct Joined {
    text: String,
    /// The first byte of each line.
    starts: Vec<usize>,
    /// Bytes that may still be parsed without success.
    budget: usize,
}

/// The result of parsing at a line.
pub(super) enum Attempt {
    /// Consecutive documents, and the lines that they cover.
    Read(Vec<Value>, Range<u32>),
    /// No document, or a truncated one.
    Broken(String),
}

impl Joined {
    pub(super) fn of(lines: &Lines<'_>) -> Joined {
        let mut text = String::new();
        let mut starts = Vec::new();
        for (_, line) in lines.iter() {
            starts.push(text.len());
            text.push_str(line);
            text.push('\n');
        }
        // Older versions divide by zero, which JSON cannot represent. The replacements have the same length.
        for (number, null) in [
            (": -nan", ": null"),
            (": nan", ":null"),
            (": -inf", ": null"),
            (": inf", ":null"),
        ] {
            if text.contains(number) {
                text = text.replace(number, null);
            }
        }
        let budget = PASSES * text.len();
        Joined {
            text,
            starts,
            budget,
        }
    }

    /// Parses the document that begins at a line, skipping notes that fio wrote into it.
    pub(super) fn document(&mut self, line: u32) -> Attempt {
        let mut start = self.starts[line as usize - 1];
        let mut values = Vec::new();
        loop {
            if self.budget == 0 {
                return Attempt::Broken("too many braces without a document".to_owned());
            }
            let mut stream =
                serde_json::Deserializer::from_str(&self.text[start..]).into_iter::<Value>();
            let error = match stream.next() {
                Some(Ok(value)) => {
                    let end = start + stream.byte_offset();
                    let last = self.starts.partition_point(|begin| *begin < end);
                    values.push(value);
                    let next = self.starts.get(last).copied().unwrap_or(self.text.len());
                    if self.text[end..next].trim_start().starts_with('{') {
                        start = end;
                        continue;
                    }
                    return Attempt::Read(values, line..last as u32 + 1);
                }
                Some(Err(error)) => error,
                None => return Attempt::Broken("nothing follows".to_owned()),
            };
            if !values.is_empty() {
                let last = self.starts.partition_point(|begin| *begin < start);
                return Attempt::Read(values, line..last as u32 + 1);
            }
            let at = line as usize - 1 + error.line().max(1) - 1;
            let at = at.min(self.starts.len() - 1);
            let begin = self.starts[at];
            self.budget = self
                .budget
                .saturating_sub(begin + error.column() - start.min(begin));
            let end = self
                .starts
                .get(at + 1)
                .map_or(self.text.len(), |next| next - 1);
            let noted = self.text[begin..end].trim_start();
            if !NOTES.iter().any(|note| noted.starts_with(note)) {
                return Attempt::Broken(format!("line {}: {}", at + 1, reason(&error)));
            }
            self.text
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
