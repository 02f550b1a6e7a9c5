//! The style of text: colour, width, characters.

use std::borrow::Cow;

use iodyno_model::ordered::distinct;
use iodyno_model::printable::steers;
use unicode_width::UnicodeWidthStr;

pub(crate) use iodyno_model::printable::on_one_line as sanitize;

/// The sequences that [`Style::paint`] writes.
const COLORS: [&str; 7] = [
    "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m",
];

/// Any text in a form that is safe for a terminal, a pipe or a file. Characters that steer a terminal or change the
/// order of text become `?`, except newlines, tabs and, with `color`, the sequences of this crate.
///
/// Reports sanitize names when they compute their width. This function is applied to all output, so that no text is
/// missed.
pub fn safe_text(text: &str, color: bool) -> Cow<'_, str> {
    let unsafe_here = |character| steers(character) && !matches!(character, '\n' | '\t');
    if !text.chars().any(unsafe_here) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let painted = COLORS.iter().find(|color| rest.starts_with(**color));
        let taken = match painted.filter(|_| color) {
            Some(sequence) => {
                safe.push_str(sequence);
                sequence.len()
            }
            None => {
                safe.push(if unsafe_here(character) {
                    '?'
                } else {
                    character
                });
                character.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    Cow::Owned(safe)
}

/// The capabilities of the terminal. The caller reads the environment (`NO_COLOR`, the terminal's width, the locale).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Escape sequences for colour.
    pub color: bool,
    /// Columns; longer texts are wrapped or cut. At least 40 are assumed.
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

/// A colour or weight of text.
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

    /// The text; without `unicode`, converted to ASCII.
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

    pub(crate) fn maybe_paint(&self, paint: Option<Paint>, text: &str) -> String {
        paint.map_or_else(|| text.to_owned(), |paint| self.paint(paint, text))
    }

    /// Lines of one colour, each with a newline, wrapped as by [`Style::wrap`]. The text can contain anything. Lines
    /// after the first begin with `indent` spaces.
    pub(crate) fn paragraph(
        &self,
        text: &str,
        indent: usize,
        paint: impl Into<Option<Paint>>,
    ) -> String {
        // Conversion to ASCII comes first, because it can make the text longer.
        let wrapped = self.wrap(&self.plain(&sanitize(text)), indent);
        let paint = paint.into();
        let lines = wrapped.lines();
        lines
            .map(|line| self.maybe_paint(paint, line) + "\n")
            .collect()
    }

    /// Remarks: a paragraph for each.
    pub(crate) fn warnings<'t>(&self, texts: impl IntoIterator<Item = &'t String>) -> String {
        let texts = texts.into_iter();
        let each = texts.map(|text| self.paragraph(&format!("! {text}"), 2, Paint::Yellow));
        each.collect()
    }

    /// Wraps at the width, but never between a number and its unit; lines after the first begin with `indent`
    /// spaces. A word or a command in backticks that is longer than a line stays whole, so that it can be copied.
    pub(crate) fn wrap(&self, text: &str, indent: usize) -> String {
        wrapped(text, indent, self.columns(), false)
    }
}

/// [`Style::wrap`] at any width. With `break_words`, long words are broken and no line is longer than the width.
pub(crate) fn wrapped(text: &str, indent: usize, columns: usize, break_words: bool) -> String {
    let spaces = " ".repeat(indent);
    let options = textwrap::Options::new(columns)
        .subsequent_indent(&spaces)
        .break_words(break_words)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(&glued(text, !break_words), options).replace(GLUE, " ")
}

/// A blank at which lines are not broken. It is a character for private use, which texts do not contain.
const GLUE: char = '\u{e000}';

/// The text with glue between numbers and their units, within numbers, and around `×`; with `commands` also between
/// backticks, so that a command can be copied.
fn glued(text: &str, commands: bool) -> String {
    let backticks = |text: &str| text.matches('`').count();
    let commands = commands && backticks(text).is_multiple_of(2);
    let mut glued = String::with_capacity(text.len());
    let mut before = "";
    let mut command = false;
    for (index, word) in text.split(' ').enumerate() {
        if index > 0 {
            glued.push(
                match (commands && command) || belong_together(before, word) {
                    true => GLUE,
                    false => ' ',
                },
            );
        }
        glued += word;
        command ^= !backticks(word).is_multiple_of(2);
        before = word;
    }
    glued
}

fn belong_together(before: &str, word: &str) -> bool {
    const UNITS: [&str; 20] = [
        "ns",
        "µs",
        "ms",
        "s",
        "min",
        "h",
        "B",
        "KiB",
        "MiB",
        "GiB",
        "TiB",
        "PiB",
        "MiB/s",
        "%",
        "IOPS",
        "IOPS/core",
        "ops",
        "ops/s",
        "files/s",
        "×",
    ];
    let unit = word.trim_end_matches([',', ';', ':', '.', ')', ']']);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    // `138.4k`, and `(31.2k` after a bracket.
    let amount = before.trim_start_matches(['(', '[', '<', '~', '≤', '+', '-']);
    let number = amount.trim_end_matches(['k', 'M', 'G']);
    let is_number =
        number.parse::<f64>().is_ok() && number.starts_with(|c: char| c.is_ascii_digit());
    let in_threes = digits(unit) && unit.len() == 3 && digits(amount) && amount.len() <= 3;
    // `12 min 34 s`.
    let goes_on = matches!(before, "min" | "h") && digits(unit) && unit.len() == 2;
    let times = before == "×" && !word.is_empty();
    (is_number && UNITS.contains(&unit)) || in_threes || goes_on || times
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

/// A name, without its middle if it is too long: both ends are needed to identify it.
pub(crate) fn shortened(name: &str, columns: usize, style: Style) -> String {
    if width(name) <= columns {
        return name.to_owned();
    }
    let between = if style.unicode { "…" } else { "~" };
    let room = columns.saturating_sub(1);
    let first = cut(name, room - room / 2);
    let reversed: String = name.chars().rev().collect();
    let last: String = cut(&reversed, room / 2).chars().rev().collect();
    cut(&format!("{first}{between}{last}"), columns)
}

/// Names, shortened to this width or as much more as they need to differ, if they differ: their ends are cut off, or
/// their middles.
pub(crate) fn shortened_apart(names: &[&str], columns: usize, style: Style) -> Vec<String> {
    let longest = names.iter().map(|name| width(name)).max().unwrap_or(0);
    for columns in columns..longest {
        for cut in [ended, shortened] {
            let cut: Vec<String> = names.iter().map(|name| cut(name, columns, style)).collect();
            if distinct(cut.iter()).len() == names.len() {
                return cut;
            }
        }
    }
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// As much of a text as fits, with a mark if it was cut.
pub(crate) fn ended(text: &str, columns: usize, style: Style) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mark = if style.unicode { "…" } else { ">" };
    cut(&(cut(text, columns.saturating_sub(1)) + mark), columns)
}

/// The lines without trailing spaces.
pub(crate) fn trimmed(lines: &str) -> String {
    lines
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

/// Width of the labels, columns.
const LABEL: usize = 11;

/// A label and a text, wrapped at the terminal's width.
pub(crate) fn line(label: &str, text: &str, style: Style) -> String {
    let room = style.width.max(40) - LABEL;
    let mut lines = vec![String::new()];
    for word in sanitize(text).split(' ') {
        let last = lines.last_mut().expect("there is one from the start");
        match last.chars().count() + 1 + word.chars().count() > room && !last.is_empty() {
            true => lines.push(word.to_owned()),
            false if last.is_empty() => last.push_str(word),
            false => {
                last.push(' ');
                last.push_str(word);
            }
        }
    }
    let indent = " ".repeat(LABEL);
    let label = sanitize(label);
    let label = match label.chars().count() >= LABEL {
        true => format!("{label}\n{indent}"),
        false => format!("{label:LABEL$}"),
    };
    label + &lines.join(&format!("\n{indent}")) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_contains_no_control_sequences_except_its_own_colors() {
        let style = Style {
            color: true,
            ..Style::default()
        };
        let paints = [
            Paint::Strong,
            Paint::Dim,
            Paint::Red,
            Paint::Yellow,
            Paint::Green,
            Paint::Cyan,
        ];
        for paint in paints {
            let painted = style.paint(paint, "µs");
            assert_eq!(safe_text(&painted, true), painted);
            assert!(!safe_text(&painted, false).contains('\x1b'));
        }
        let hostile = "a\x1b]0;title\x07\x1b[2J\x1b[31;5mb\u{202e}c\u{9b}d\r\n\te";
        for color in [true, false] {
            assert_eq!(
                safe_text(hostile, color),
                "a?]0;title??[2J?[31;5mb?c?d?\n\te"
            );
        }
        assert!(matches!(safe_text("a\tµ\n", false), Cow::Borrowed(_)));
    }

    #[test]
    fn lines_break_between_values_and_never_within_one() {
        for (text, pieces) in [
            ("drain 60.1 s", vec!["drain", "60.1 s"]),
            ("in 24.5 s, of", vec!["in", "24.5 s,", "of"]),
            ("12 min 34 s; torn", vec!["12 min 34 s;", "torn"]),
            (
                "100 000 files, 195 GiB",
                vec!["100 000", "files,", "195 GiB"],
            ),
            (
                "(31.2k files/s, 623 MiB/s)",
                vec!["(31.2k files/s,", "623 MiB/s)"],
            ),
            ("read 1.00 × job", vec!["read", "1.00 × job"]),
            (
                "2 × 4 GiB 1.53k IOPS/core",
                vec!["2 × 4 GiB", "1.53k IOPS/core"],
            ),
            ("97 % busy", vec!["97 %", "busy"]),
            (
                "steady from 2 s (range 6 %)",
                vec!["steady", "from", "2 s", "(range", "6 %)"],
            ),
            (
                "add `--destroy /a b` or `x`; see `y",
                vec!["add", "`--destroy", "/a", "b`", "or", "`x`;", "see", "`y"],
            ),
            (
                "add `--destroy /a b`, or `x`",
                vec!["add", "`--destroy /a b`,", "or", "`x`"],
            ),
            ("job 3 s1 k s x", vec!["job", "3", "s1", "k", "s", "x"]),
            (
                "two   blanks 5  s",
                vec!["two", "", "", "blanks", "5", "", "s"],
            ),
        ] {
            let glued = glued(text, true);
            let found: Vec<String> = glued
                .split(' ')
                .map(|piece| piece.replace(GLUE, " "))
                .collect();
            assert_eq!(found, pieces, "{text}");
        }
    }

    #[test]
    fn a_wrapped_line_keeps_its_text_and_its_width() {
        let style = Style {
            width: 40,
            ..Style::default()
        };
        let text = "steps    set-up 100 000 files, 195 GiB in 3.21 s (31.2k files/s)   drain 60.1 s   done";
        let wrapped = style.wrap(text, 9);
        assert!(wrapped.lines().all(|line| width(line) <= 40), "{wrapped}");
        let again: Vec<&str> = wrapped.split_whitespace().collect();
        assert_eq!(again, text.split_whitespace().collect::<Vec<_>>());
        for value in ["100 000", "195 GiB", "3.21 s", "60.1 s"] {
            assert!(wrapped.contains(value), "{wrapped}");
        }
    }

    #[test]
    fn lines_are_wrapped_under_their_text() {
        let style = Style {
            width: 40,
            ..Style::default()
        };
        assert_eq!(
            line("on", "one two three four five six seven", style),
            "on         one two three four five six\n           seven\n"
        );
        assert_eq!(
            line("  a-long-name", "x", style),
            "  a-long-name\n           x\n"
        );
    }
}
