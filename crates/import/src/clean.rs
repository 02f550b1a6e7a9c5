//! Removes terminal control sequences, carriage returns and byte order marks.

use std::borrow::Cow;

/// The lines of a text as a terminal would show them: without escape sequences, with only the last state of a line
/// overwritten after a carriage return, and without trailing blanks. Tabs are kept.
pub(super) fn clean_lines(text: &str) -> Vec<Cow<'_, str>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let ends_lines = if text.contains('\n') { '\n' } else { '\r' };
    let text = text.strip_suffix(ends_lines).unwrap_or(text);
    if text.is_empty() {
        return Vec::new();
    }
    text.split(ends_lines).map(clean_line).collect()
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
            assert_eq!(clean_lines(text), lines, "{text:?}");
        }
    }
}
