//! Removes terminal control sequences, carriage returns and byte order marks.

use std::borrow::Cow;

/// A text as a terminal would show it, and the first and last byte of each of its lines: without escape sequences,
/// with only the last state of a line overwritten after a carriage return. Tabs are kept. Lines are without trailing
/// blanks. The text is copied only if it differs.
pub(super) fn clean(text: &str) -> (Cow<'_, str>, Vec<(u32, u32)>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let ends_lines = if text.contains('\n') { '\n' } else { '\r' };
    let text = text.strip_suffix(ends_lines).unwrap_or(text);
    if text.is_empty() {
        return (Cow::Borrowed(text), Vec::new());
    }
    let is_clean = |line: &str| {
        !line
            .trim_end()
            .contains(|c: char| c.is_control() && c != '\t')
    };
    let as_it_is = ends_lines == '\n' && text.split('\n').all(is_clean);
    let mut spans = Vec::with_capacity(text.matches(ends_lines).count() + 1);
    if as_it_is {
        let mut start = 0;
        for line in text.split('\n') {
            spans.push((place(start), place(start + line.trim_end().len())));
            start += line.len() + 1;
        }
        return (Cow::Borrowed(text), spans);
    }
    let mut cleaned = String::with_capacity(text.len());
    for line in text.split(ends_lines).map(clean_line) {
        let start = cleaned.len();
        cleaned += &line;
        spans.push((place(start), place(cleaned.len())));
        cleaned.push('\n');
    }
    (Cow::Owned(cleaned), spans)
}

/// A place in a text, which is smaller than 4 GiB.
fn place(byte: usize) -> u32 {
    u32::try_from(byte).expect("a text smaller than 4 GiB")
}

fn clean_line(line: &str) -> Cow<'_, str> {
    let shown = line
        .rsplit('\r')
        .find(|part| !part.trim().is_empty())
        .unwrap_or("");
    if shown.contains(|c: char| c.is_control() && c != '\t') {
        Cow::Owned(without_escapes(shown).trim_end().to_owned())
    } else {
        Cow::Borrowed(shown.trim_end())
    }
}

/// Removes ECMA-48 control sequences, operating system commands and single control characters.
fn without_escapes(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => match rest.next() {
                Some('[') => while rest.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
                Some(']') => {
                    while let Some(c) = rest.next() {
                        if c == '\u{7}' || (c == '\u{1b}' && rest.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                _ => {}
            },
            '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_a_terminal_would_show() {
        for (text, lines) in [
            ("", vec![]),
            ("\n", vec![]),
            ("a\r\nb\r\n", vec!["a", "b"]),
            ("a\n\nb", vec!["a", "", "b"]),
            ("1 %\r50 %\r100 %\r\nend", vec!["100 %", "end"]),
            ("a\rb\r", vec!["a", "b"]),
            ("\u{feff}read", vec!["read"]),
            ("\u{1b}[1;32mread\u{1b}[0m: 5", vec!["read: 5"]),
            ("\u{1b}]0;title\u{7}x\u{1b}(y", vec!["xy"]),
            ("\u{1b}]0;title\u{1b}\\x", vec!["x"]),
            ("tail  \t\n\tindented", vec!["tail", "\tindented"]),
            ("\u{1b}[", vec![""]),
        ] {
            let (cleaned, spans) = clean(text);
            let found: Vec<&str> = spans
                .iter()
                .map(|&(start, end)| &cleaned[start as usize..end as usize])
                .collect();
            assert_eq!(found, lines, "{text:?}");
        }
    }
}
