//! The input of readers: cleaned lines with their numbers, references and context.

use std::borrow::Cow;
use std::ops::Range;

use iodyno_model::{ImportedTrial, Kind, SourceLine};

use super::clean::clean_lines;
use super::context::{Context, Headings};

/// The lines of one source, numbered from 1.
pub(crate) struct Lines<'a> {
    source: &'a str,
    lines: Vec<Cow<'a, str>>,
    headings: Headings,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(source: &'a str, text: &'a str) -> Lines<'a> {
        let lines = clean_lines(text);
        let headings = Headings::of(&lines);
        Lines {
            source,
            lines,
            headings,
        }
    }

    /// The number of lines.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.lines.len()).unwrap_or(u32::MAX)
    }

    /// A line by its number; an empty text if there is none.
    pub(crate) fn get(&self, number: u32) -> &str {
        (number as usize)
            .checked_sub(1)
            .and_then(|index| self.lines.get(index))
            .map_or("", AsRef::as_ref)
    }

    /// All lines with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        (1..).zip(self.lines.iter().map(AsRef::as_ref))
    }

    /// A range of lines with their numbers, without those beyond the end.
    pub(crate) fn range(&self, numbers: Range<u32>) -> impl Iterator<Item = (u32, &str)> {
        (numbers.start.max(1)..numbers.end.min(self.count() + 1))
            .map(|number| (number, self.get(number)))
    }

    /// A reference to a line.
    pub(crate) fn at(&self, line: u32) -> SourceLine {
        SourceLine {
            source: self.source.to_owned(),
            line,
        }
    }

    /// The context of a line: headings in force, and the prose directly above.
    pub(crate) fn context(&self, line: u32) -> Context<'_> {
        self.headings.context(line)
    }

    /// A trial without figures that begins at a line.
    pub(crate) fn trial(&self, form: &str, line: u32) -> ImportedTrial {
        ImportedTrial {
            configuration: String::new(),
            workload: String::new(),
            dimensions: Default::default(),
            form: form.to_owned(),
            at: self.at(line),
            kind: Kind::Unknown,
            primary: None,
            figures: Vec::new(),
            withheld: Vec::new(),
            series: Vec::new(),
            facts: Vec::new(),
            options_complete: false,
            remarks: Vec::new(),
            unusable: None,
        }
    }
}
