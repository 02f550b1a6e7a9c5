//! Patterns of `buffer_pattern` and `verify_pattern`: `0xdeadbeef`, `-10`, `"text"`, `'file'` for its content, or a
//! sequence of these; in `verify_pattern` also `%o`, the offset of the block.

use std::io;

use iodyno_model::{BlockPattern, Pattern};

/// Maximum length of a pattern, bytes.
const LIMIT: usize = 1 << 20;

/// Parses a pattern; with `%o` only if `offsets` is set. `content` reads a file. Fails with the error and the remedy.
pub(super) fn pattern(
    text: &str,
    offsets: bool,
    content: &dyn Fn(&str) -> io::Result<Vec<u8>>,
) -> Result<BlockPattern, (String, String)> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut places = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (part, after) = match first {
            '"' => {
                let (inside, after) = quoted(rest, '"')?;
                (inside.as_bytes().to_vec(), after)
            }
            '\'' => {
                let (name, after) = quoted(rest, '\'')?;
                let content = content(name).map_err(|error| {
                    (
                        format!("cannot read the pattern `{name}`: {error}"),
                        "name a regular file of at most 1 MiB".to_owned(),
                    )
                })?;
                if content.is_empty() {
                    return Err((
                        format!("the pattern `{name}` is empty"),
                        "name a file that contains the bytes of the pattern".to_owned(),
                    ));
                }
                (content, after)
            }
            '%' if offsets && rest.starts_with("%o") => {
                places.push(bytes.len() as u32);
                (vec![0; 8], &rest[2..])
            }
            '%' => {
                return Err((
                    format!("`{rest}` is not a part of this pattern"),
                    "`verify_pattern` has `%o` for the offset; there are no others".to_owned(),
                ));
            }
            _ => number(rest)?,
        };
        bytes.extend(part);
        if bytes.len() > LIMIT {
            return Err((
                "the pattern is longer than 1 MiB".to_owned(),
                "shorten it".to_owned(),
            ));
        }
        rest = after;
    }
    match bytes.is_empty() {
        true => Err(malformed(text)),
        false => Ok(BlockPattern {
            bytes: Pattern(bytes),
            offsets: places,
            interval: 0,
        }),
    }
}

fn malformed(text: &str) -> (String, String) {
    (
        format!("`{text}` is not a pattern"),
        "write hexadecimal bytes (`0xdeadbeef`), a decimal number, \"text\" in double quotes, or 'file' in single ones"
            .to_owned(),
    )
}

fn quoted(text: &str, quote: char) -> Result<(&str, &str), (String, String)> {
    match text[1..].split_once(quote) {
        Some((inside, after)) if !inside.is_empty() => Ok((inside, after)),
        _ => Err(malformed(text)),
    }
}

fn number(text: &str) -> Result<(Vec<u8>, &str), (String, String)> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    if let Some(body) = hexadecimal {
        let mut end = body
            .find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(body.len());
        // In `0xff0x14` the second 0 belongs to the next number.
        if body[end..].starts_with(['x', 'X']) && body[..end].ends_with('0') {
            end -= 1;
        }
        if end == 0 {
            return Err(malformed(text));
        }
        return Ok((hexadecimal_bytes(&body[..end]), &body[end..]));
    }
    let sign = usize::from(text.starts_with(['-', '+']));
    let mut end = text[sign..]
        .find(|c: char| !c.is_ascii_digit())
        .map_or(text.len(), |length| sign + length);
    if text[end..].starts_with(['x', 'X']) && text[..end].ends_with('0') && end > sign + 1 {
        end -= 1;
    }
    let value: i32 = text[..end].parse().map_err(|_| malformed(text))?;
    let mut bytes = value.to_le_bytes().to_vec();
    while bytes.len() > 1 && bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok((bytes, &text[end..]))
}

/// Two digits per byte, in the order written; an odd last digit is a separate byte.
fn hexadecimal_bytes(digits: &str) -> Vec<u8> {
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| {
            pair.iter().fold(0, |byte, digit| {
                byte * 16 + (*digit as char).to_digit(16).unwrap_or(0) as u8
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str, offsets: bool) -> Result<BlockPattern, (String, String)> {
        super::pattern(text, offsets, &|name| match name {
            "bytes" => Ok(vec![0xff, 0, 0x27]),
            "empty" => Ok(Vec::new()),
            "long" => Ok(vec![1; LIMIT + 1]),
            _ => Err(io::ErrorKind::NotFound.into()),
        })
    }

    #[test]
    fn reads_each_form_and_their_sequences() {
        for (text, bytes) in [
            ("\"abcd\"", b"abcd".as_slice()),
            ("-1024", &[0x00, 0xfc, 0xff, 0xff]),
            ("66", &[0x42]),
            ("0", &[0]),
            ("0xFF0X1", &[0xff, 0x01]),
            ("\"123\"0xFFeeCC", &[0x31, 0x32, 0x33, 0xff, 0xee, 0xcc]),
            ("-100xab\"1\"", &[0xf6, 0xff, 0xff, 0xff, 0xab, 0x31]),
            ("0xdeadbeef", &[0xde, 0xad, 0xbe, 0xef]),
            ("258", &[0x02, 0x01]),
            ("'bytes'", &[0xff, 0, 0x27]),
            ("1'bytes'\"a\"", &[1, 0xff, 0, 0x27, b'a']),
        ] {
            assert_eq!(pattern(text, false).unwrap().bytes.0, bytes, "{text}");
        }
        let offset = pattern("0xff%o\"ab\"%o", true).unwrap();
        assert_eq!((offset.bytes.0.len(), offset.offsets), (19, vec![1, 11]));
    }

    #[test]
    fn refuses_unreadable_files_offsets_and_garbage() {
        for text in [
            "",
            "''",
            "'file'",
            "'bytes",
            "'empty'",
            "'long'",
            "%o",
            "%x",
            "\"",
            "\"\"",
            "0x",
            "x",
            "99999999999",
            "--1",
            "1 2",
        ] {
            assert!(pattern(text, false).is_err(), "{text}");
        }
        for text in ["%", "%x", "%o%", "'file'"] {
            assert!(pattern(text, true).is_err(), "{text}");
        }
    }
}
