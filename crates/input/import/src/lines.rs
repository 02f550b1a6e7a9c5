//! The input of readers: cleaned lines with their numbers, references and context.

use std::borrow::Cow;
use std::ops::Range;

use iodyno_model::{ImportedTrial, Kind, SourceLine};

use super::clean::clean;
use super::context::{Context, Headings};

/// The lines of one source, numbered from 1.
pub(crate) struct Lines<'a> {
    source: &'a str,
    /// The cleaned text.
    text: Cow<'a, str>,
    /// The first byte of each line, and the one after its last. A text of short lines must not take several times its
    /// size.
    spans: Vec<(u32, u32)>,
    headings: Headings,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(source: &'a str, text: &'a str) -> Lines<'a> {
        let (text, spans) = clean(text);
        let headings = Headings::of(spans.iter().map(|&span| within(&text, span)));
        Lines {
            source,
            text,
            spans,
            headings,
        }
    }

    /// The cleaned text, with the lines in their order.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The place of the first byte of a line in the text; the end of the text if there is no such line.
    pub(crate) fn start(&self, number: u32) -> usize {
        let span = self.spans.get((number as usize).saturating_sub(1));
        span.map_or(self.text.len(), |span| span.0 as usize)
    }

    /// The number of lines that begin before a byte of the text.
    pub(crate) fn line_of(&self, byte: usize) -> u32 {
        self.spans.partition_point(|span| (span.0 as usize) < byte) as u32
    }

    /// The number of lines.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.spans.len()).unwrap_or(u32::MAX)
    }

    /// A line by its number; an empty text if there is none.
    pub(crate) fn get(&self, number: u32) -> &str {
        (number as usize)
            .checked_sub(1)
            .and_then(|index| self.spans.get(index))
            .map_or("", |&span| within(&self.text, span))
    }

    /// All lines with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        (1..).zip(self.spans.iter().map(|&span| within(&self.text, span)))
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

fn within(text: &str, (start, end): (u32, u32)) -> &str {
    &text[start as usize..end as usize]
}
