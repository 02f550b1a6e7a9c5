//! Names whose values are secrets.

use crate::shell::{Quotes, value_at, without_blanks};

/// Endings of names whose values are secrets, in lower case, without `_` and `-`.
#[rustfmt::skip]
const NAMES: [&str; 26] = [
    "password", "passwd", "passphrase", "passcode", "sshpass", "secret", "secretkey", "token", "apikey",
    "accesskey", "privatekey", "accountkey", "authkey", "encryptionkey", "masterkey", "signingkey",
    "sharedkey", "storagekey", "sessionkey", "customerkey", "s3key", "passkey", "deploykey", "bearer",
    "cookie", AUTHORIZATION,
];

/// Last words of names whose values are secrets: `DB_PW`, but not `author` or `design`.
#[rustfmt::skip]
const WORDS: [&str; 12] = [
    "pass", "pwd", "pw", "bindpw", "askpass", "userpass", "sig", "signature", "auth", "oauth", "creds", "psk",
];

/// Parts of names whose values are secrets: `SECRET_KEY_BASE`.
const PARTS: [&str; 5] = ["password", "passwd", "passphrase", "secret", "credential"];

/// Endings of names with such parts whose values are not: the path of a file with a key is not the key.
const NOT_SECRET: [&str; 4] = ["file", "path", "dir", "length"];

/// Its value has several words.
const AUTHORIZATION: &str = "authorization";

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-".contains(&byte)
}

/// Whether a name is that of a secret: `password`, `--db-password`, `AWS_SECRET_ACCESS_KEY`.
pub fn is_secret(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|c| !"_-".contains(*c))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let last = name.rsplit(['_', '-']).next().unwrap_or_default();
    WORDS.iter().any(|known| last.eq_ignore_ascii_case(known))
        || NAMES.iter().any(|known| plain.ends_with(known))
        || PARTS.iter().any(|known| plain.contains(known))
            && !NOT_SECRET.iter().any(|known| plain.ends_with(known))
}

/// Whether the value of a secret's name is one: `PWD` is also the working folder of a shell.
pub(crate) fn is_secret_value(name: &str, value: &str) -> bool {
    name != "PWD" || !value.starts_with('/')
}

/// The values after `NAME=`, `NAME:` and `--NAME `.
pub(crate) fn values(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    let mut quotes = Quotes::default();
    while at < bytes.len() {
        if !is_name(bytes[at]) {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() && is_name(bytes[at]) {
            at += 1;
        }
        let name = &text[start..at];
        if !is_secret(name) {
            continue;
        }
        // JSON has a quote between a name and its colon, with a backslash if it is in a string.
        let escaped = usize::from(text[at..].starts_with("\\\""));
        let quoted = escaped + usize::from(matches!(bytes.get(at + escaped), Some(b'"' | b'\'')));
        let blanks = |from: usize| text.len() - from - without_blanks(&text[from..]).len();
        let after = at + quoted;
        let sign = after + blanks(after);
        let value = match bytes.get(sign) {
            Some(b'=' | b':') => sign + 1 + blanks(sign + 1),
            _ if name.starts_with('-') && quoted == 0 && sign > after => sign,
            _ => continue,
        };
        let words = name.to_ascii_lowercase().ends_with(AUTHORIZATION);
        let flag = name.starts_with('-') && value == sign;
        if flag && text[value..].starts_with('-') {
            continue;
        }
        let (start, end) = value_at(text, value, words, &mut quotes);
        let end = with_scheme(text, start, end, &mut quotes);
        // `UID=sa;PWD=…` is an address of a database.
        let of_address = text[..at - name.len()].ends_with(';');
        if of_address || is_secret_value(name, &text[start..]) {
            found.push((start, end));
        }
        at = end.max(at);
    }
    found
}

/// The end of a value, with the word after it if the value is a scheme of HTTP: `Bearer TOKEN`.
fn with_scheme(text: &str, start: usize, end: usize, quotes: &mut Quotes) -> usize {
    let schemes = ["bearer", "basic", "token"].iter();
    let mut schemes = schemes.filter(|scheme| text[start..end].eq_ignore_ascii_case(scheme));
    match (schemes.next(), text[end..].strip_prefix(' ')) {
        (Some(_), Some(_)) => value_at(text, end + 1, false, quotes).1,
        _ => end,
    }
}
