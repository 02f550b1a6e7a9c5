//! Diagnostics of a text, with their locations.

use std::ops::Range;
use std::path::PathBuf;

use iodyno_model::{Diagnostic, Place, Severity};

/// The errors of a text. Ranges are byte ranges of the text.
#[derive(Debug)]
pub struct Report<'t> {
    source: &'t str,
    text: &'t str,
    diagnostics: Vec<Diagnostic>,
    /// Ranges whose value is unknown: that was reported.
    unknown: Vec<Range<usize>>,
    /// Whether the text is not valid TOML: keys that seem to be missing may be in the invalid part.
    pub broken: bool,
}

impl<'t> Report<'t> {
    /// No errors so far. `source` is the name of the text in messages.
    pub fn new(source: &'t str, text: &'t str) -> Report<'t> {
        Report {
            source,
            text,
            diagnostics: Vec::new(),
            unknown: Vec::new(),
            broken: false,
        }
    }

    /// Adds an error at a range.
    pub fn error(&mut self, at: Range<usize>, message: impl Into<String>, hint: impl Into<String>) {
        let hint: String = hint.into();
        self.push(at, message, Some(&hint));
    }

    /// Adds an error that needs no hint.
    pub fn plain_error(&mut self, at: Range<usize>, message: impl Into<String>) {
        self.push(at, message, None);
    }

    /// Adds an error with an optional hint.
    pub fn push(&mut self, at: Range<usize>, message: impl Into<String>, hint: Option<&str>) {
        self.add(
            at,
            Diagnostic {
                hint: hint.map(str::to_owned),
                ..Diagnostic::error(message)
            },
        );
    }

    /// Leaves out further errors that begin in a range, because they follow from one that was reported.
    pub fn reported(&mut self, at: Range<usize>) {
        self.unknown.push(at);
    }

    /// Adds a diagnostic at a range. The same one at the same place is added once, and what is not valid TOML has no
    /// other error.
    pub fn add(&mut self, at: Range<usize>, diagnostic: Diagnostic) {
        if self
            .unknown
            .iter()
            .any(|unknown| unknown.contains(&at.start))
        {
            return;
        }
        let diagnostic = diagnostic.at(self.place(at));
        let start = |it: &Diagnostic| it.place.as_ref().map(|place| (place.line, place.column));
        let mut same_place = self
            .diagnostics
            .iter()
            .filter(|other| start(other) == start(&diagnostic));
        if !same_place.any(|other| other.message == diagnostic.message || self.broken) {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Adds a diagnostic of another file that the text names; it keeps its place there. The same one is added once.
    pub fn add_foreign(&mut self, diagnostic: Diagnostic) {
        if !self.diagnostics.contains(&diagnostic) {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Number of errors so far.
    pub fn errors(&self) -> usize {
        let all = self.diagnostics.iter();
        all.filter(|it| it.severity == Severity::Error).count()
    }

    /// All diagnostics, in the order of the text; those of other files follow.
    pub fn into_diagnostics(mut self) -> Vec<Diagnostic> {
        let source = PathBuf::from(self.source);
        self.diagnostics.sort_by_cached_key(|it| {
            let place = it.place.as_ref()?;
            let other = (place.file != source).then(|| place.file.clone());
            Some((other, place.line, place.column))
        });
        self.diagnostics
    }

    /// The line in which a range begins; covers at least one character and does not extend into the next
    /// line.
    pub fn place(&self, at: Range<usize>) -> Place {
        // A byte order mark is not part of the first line.
        let first = self.text.len() - self.text.trim_start_matches('\u{feff}').len();
        let start = floor(self.text, at.start).max(first);
        let line_start = self.text[..start].rfind('\n').map_or(first, |end| end + 1);
        let line = self.text[line_start..].lines().next().unwrap_or_default();
        let end = floor(self.text, at.end.max(start)).min(line_start + line.len());
        let characters = line.chars().count().max(1);
        let before = self.text[line_start..start].chars().count();
        let column = (before + 1).min(characters);
        let covered = self.text.get(start..end).unwrap_or("").chars().count();
        Place {
            file: PathBuf::from(self.source),
            line: self.text[..line_start].matches('\n').count() as u32 + 1,
            column: column as u32,
            length: covered.clamp(1, characters + 1 - column) as u32,
            text: line.to_owned(),
        }
    }
}

/// The nearest index at or before `index` that is a character boundary.
fn floor(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_count_characters_and_stay_within_the_line() {
        let check = |text: &str, at: Range<usize>, expected: (u32, u32, u32, &str)| {
            let place = Report::new("x.toml", text).place(at);
            let found = (place.line, place.column, place.length, place.text.as_str());
            assert_eq!(found, expected, "{text:?}");
        };
        check("", 0..0, (1, 1, 1, ""));
        check("ab = 1\ncd = 2\n", 7..9, (2, 1, 2, "cd = 2"));
        check("ab = 1\r\ncd = 2", 5..14, (1, 6, 1, "ab = 1"));
        check("é = 'é'", 5..7, (1, 5, 1, "é = 'é'"));
        check("a = 1\n", 6..6, (2, 1, 1, ""));
        check("a = 1\n", 5..6, (1, 5, 1, "a = 1"));
        check("é", 1..9, (1, 1, 1, "é"));
        check("\u{feff}ab = 1", 0..0, (1, 1, 1, "ab = 1"));
        check("\u{feff}ab = 1", 8..9, (1, 6, 1, "ab = 1"));
    }
}
