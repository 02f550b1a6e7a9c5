//! How text is drawn: colour, width, characters.

use unicode_width::UnicodeWidthStr;

/// What the reader's terminal can show. Nothing here is asked of the environment: whoever calls
/// knows of `NO_COLOR`, the terminal's width and its locale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Escape sequences for colour.
    pub color: bool,
    /// Columns; texts longer than that are wrapped or cut. At least 40 are assumed.
    pub width: usize,
    /// Characters beyond ASCII: `µs`, block elements.
    pub unicode: bool,
}

impl Default for Style {
    /// For files and pipes: no colour, 100 columns.
    fn default() -> Self {
        Style {
            color: false,
            width: 100,
            unicode: true,
        }
    }
}

/// What a piece of text is, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Strong,
    Dim,
    Red,
    Yellow,
    Green,
    Cyan,
}

impl Style {
    pub(crate) fn columns(&self) -> usize {
        self.width.max(40)
    }

    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        let code = match paint {
            _ if !self.color || text.is_empty() => return text.to_owned(),
            Paint::Strong => 1,
            Paint::Dim => 2,
            Paint::Red => 31,
            Paint::Green => 32,
            Paint::Yellow => 33,
            Paint::Cyan => 36,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// The text itself, or without what ASCII cannot show.
    pub(crate) fn plain(&self, text: &str) -> String {
        match self.unicode {
            true => text.to_owned(),
            false => text
                .replace("‥", "..")
                .replace('µ', "u")
                .replace('×', "x")
                .replace('≥', ">=")
                .replace('≤', "<=")
                .replace('÷', "/")
                .replace('√', "sqrt")
                .replace(['−', '–'], "-")
                .replace('·', "|")
                .replace('…', "...")
                .replace('±', "+-")
                .replace('→', "->"),
        }
    }

    /// Wraps at the width; lines after the first begin with `indent` spaces.
    pub(crate) fn wrap(&self, text: &str, indent: usize) -> String {
        let spaces = " ".repeat(indent);
        let options = textwrap::Options::new(self.columns())
            .subsequent_indent(&spaces)
            .break_words(false)
            .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        textwrap::fill(text, options)
    }
}

/// Columns that a text (without escape sequences) takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// `text` with spaces before it up to `columns`.
pub(crate) fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// `text` with spaces after it up to `columns`.
pub(crate) fn left(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// As much of `text` as fits into `columns`.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    let mut cut = String::new();
    let mut used = 0;
    for character in text.chars() {
        used += unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
        if used > columns {
            break;
        }
        cut.push(character);
    }
    cut
}

/// Lines without the spaces at their ends.
pub(crate) fn trimmed(lines: &str) -> String {
    lines
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

/// Names come from job files and folders: what would steer the terminal is made visible instead.
pub(crate) fn harmless(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\n' | '\t' => ' ',
            character if character.is_control() => '?',
            character => character,
        })
        .collect()
}
