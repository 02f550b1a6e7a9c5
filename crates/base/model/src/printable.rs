//! Characters that steer a terminal, or change the order in which text is shown.
//!
//! Names come from job files, folders, hosts and files of others. Text for people is printed without these characters,
//! JSON with their escapes.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

/// Whether a character is a control character (C0, DEL, C1), a separator of lines or paragraphs, or overrides the
/// direction of text (Unicode Standard Annex 9: embeddings, overrides, isolates).
pub fn steers(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// Text that stays on its line: newlines and tabs become spaces, other characters that [`steers`] finds become `?`.
pub fn on_one_line(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\n' | '\t' => ' ',
            other if steers(other) => '?',
            other => other,
        })
        .collect()
}

/// A word of a command line, quoted for a shell.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_./=:@%+,-".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A path as a word of a command line.
pub fn shell_path(path: &Path) -> String {
    shell_word(&path.to_string_lossy())
}

/// A JSON document in which characters that [`steers`] finds are escaped. It means the same: JSON itself has no
/// characters beyond ASCII outside of strings, and serializers escape what is below a space.
pub fn json(document: &str) -> Cow<'_, str> {
    let escaped = |character: char| character > '~' && steers(character);
    if !document.chars().any(escaped) {
        return Cow::Borrowed(document);
    }
    let mut text = String::with_capacity(document.len() + 16);
    for character in document.chars() {
        match escaped(character) {
            // All of them are in the basic plane. Writing to a string cannot fail.
            true => _ = write!(text, "\\u{:04x}", u32::from(character)),
            false => text.push(character),
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEERING: [char; 11] = [
        '\u{7}', '\u{1b}', '\r', '\u{7f}', '\u{85}', '\u{9b}', '\u{2028}', '\u{202a}', '\u{202e}',
        '\u{2066}', '\u{2069}',
    ];

    #[test]
    fn paths_can_be_pasted_into_a_shell() {
        for (path, expected) in [
            ("/a/b-1.2_c", "/a/b-1.2_c"),
            ("/a b", "'/a b'"),
            ("/a'b", r"'/a'\''b'"),
            ("/$x", "'/$x'"),
            ("", "''"),
            ("--rw=randread", "--rw=randread"),
        ] {
            assert_eq!(shell_path(Path::new(path)), expected);
        }
    }

    #[test]
    fn what_steers_is_replaced_and_nothing_else() {
        for character in STEERING {
            assert_eq!(on_one_line(&format!("a{character}b")), "a?b");
        }
        assert_eq!(on_one_line("a\tb\nc"), "a b c");
        // Arabic, its marks of direction, and emoji joined by an invisible character are names like others.
        for name in ["µs ± 3", "قرص\u{200f}1", "👩\u{200d}💻", "~"] {
            assert_eq!(on_one_line(name), name);
        }
    }

    #[test]
    fn json_is_escaped_and_means_the_same() {
        for character in STEERING {
            let value = serde_json::json!({ "name": format!("a{character}b"), "µ": [1] });
            let document = value.to_string();
            let text = json(&document);
            assert!(!text.chars().any(steers), "{text:?}");
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&text).unwrap(),
                value
            );
        }
        assert!(matches!(
            json("{\n  \"µ\": \"قرص\u{200f}\"\n}"),
            Cow::Borrowed(_)
        ));
    }
}
