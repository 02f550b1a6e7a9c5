//! Words and values of a shell.

/// Text after its first blanks, and the line breaks that a shell leaves out.
pub(crate) fn without_blanks(text: &str) -> &str {
    let blank = |text: &str| match text.strip_prefix("\\\n") {
        Some(rest) => text.len() - rest.len(),
        None => usize::from(text.starts_with([' ', '\t'])),
    };
    let mut rest = text;
    while blank(rest) > 0 {
        rest = &rest[blank(rest)..];
    }
    rest
}

/// The value that begins here: in quotes, or up to a separator; `words`: to the end of the line. A value of several
/// parts, as a shell joins them, is one.
pub(crate) fn value_at(text: &str, at: usize, words: bool, quotes: &mut Quotes) -> (usize, usize) {
    let bytes = text.as_bytes();
    if words && !matches!(bytes.get(at), Some(b'"' | b'\'')) {
        let length = bytes[at..].iter().position(|byte| b"\"'\n".contains(byte));
        return (at, length.map_or(bytes.len(), |length| at + length));
    }
    if let Some(rest) = text[at..].strip_prefix("\\\"") {
        // A string of JSON in a string.
        let length = rest.find("\\\"").unwrap_or(rest.len());
        return (at + 2, at + 2 + length);
    }
    let end = word_end(text, at, b",;&|)}]>", quotes.open_at(text, at));
    match bytes.get(at) {
        // The quotes stay around a single part.
        Some(quote @ (b'"' | b'\'')) if quote_end(text, at) == end => {
            let closed = end > at + 1 && bytes[end - 1] == *quote;
            (at + 1, end - usize::from(closed))
        }
        _ => (at, end),
    }
}

/// The quotes of a text, for a shell, up to a place. Each place is read once: texts of others can be long.
#[derive(Default)]
pub(crate) struct Quotes {
    at: usize,
    open: Option<u8>,
    escaped: bool,
}

impl Quotes {
    /// The quote in which this place is. Places must ascend.
    fn open_at(&mut self, text: &str, at: usize) -> Option<u8> {
        for byte in text.as_bytes()[self.at..at].iter().copied() {
            match (byte, self.open) {
                _ if self.escaped => self.escaped = false,
                (b'\\', _) if self.open != Some(b'\'') => self.escaped = true,
                (b'"' | b'\'', None) => self.open = Some(byte),
                (quote, Some(opened)) if quote == opened => self.open = None,
                _ => {}
            }
        }
        self.at = at;
        self.open
    }
}

/// The end of a word of a shell that begins here: a blank or one of these outside of quotes, or the quote in which it
/// is.
pub(crate) fn word_end(text: &str, mut at: usize, separators: &[u8], outer: Option<u8>) -> usize {
    let bytes = text.as_bytes();
    while let Some(byte) = bytes.get(at) {
        at = match byte {
            quote if Some(*quote) == outer => break,
            b'"' | b'\'' => quote_end(text, at),
            b'\\' if at + 1 < bytes.len() => at + 2,
            byte if byte.is_ascii_whitespace() || separators.contains(byte) => break,
            _ => at + 1,
        };
    }
    // A backslash may be before a character of several bytes.
    (at..bytes.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(bytes.len())
}

/// The end of a part in quotes that begins here.
fn quote_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let (quote, mut end) = (bytes[at], at + 1);
    while let Some(byte) = bytes.get(end) {
        match byte {
            b'\\' if quote == b'"' => end += 2,
            byte if *byte == quote => return end + 1,
            _ => end += 1,
        }
    }
    bytes.len()
}
