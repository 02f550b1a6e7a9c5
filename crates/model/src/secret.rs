//! Masks secrets in text that is stored: passwords, tokens and keys in command lines, environments and URLs.
//!
//! A rule looks at the name before a value, at the user part of a URL, or at the form of a known kind of key. Text without such a
//! name or form is not changed.

use std::borrow::Cow;

use serde_json::Value;

/// What replaces a secret.
pub const MASK: &str = "*****";

/// Endings of names whose values are secrets, in lower case, without `_` and `-`.
const NAMES: [&str; 11] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "credentials",
    AUTHORIZATION,
];

/// Its value has several words.
const AUTHORIZATION: &str = "authorization";

/// Beginnings of keys of known services, and the least number of letters and digits that follow.
const KEYS: [(&str, usize); 8] = [
    ("AKIA", 16),
    ("ASIA", 16),
    ("ghp_", 30),
    ("gho_", 30),
    ("ghs_", 30),
    ("github_pat_", 30),
    ("glpat-", 20),
    ("xoxb-", 20),
];

/// Text without its secrets.
pub fn masked(text: &str) -> Cow<'_, str> {
    let mut spans = values(text);
    spans.extend(of_urls(text));
    spans.extend(known_keys(text));
    spans.retain(|(start, end)| start < end && &text[*start..*end] != MASK);
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    spans.sort_unstable();
    let (mut result, mut at) = (String::with_capacity(text.len()), 0);
    for (start, end) in spans {
        if end <= at {
            continue;
        }
        if start >= at {
            result.push_str(&text[at..start]);
            result.push_str(MASK);
        }
        at = end;
    }
    result.push_str(&text[at..]);
    Cow::Owned(result)
}

/// The words of a command line without secrets. A word such as `--password` masks the next one.
pub fn masked_words(words: &[String]) -> Vec<String> {
    let mut follows = false;
    let masked_word = |word: &String| {
        let hidden = std::mem::replace(&mut follows, word.starts_with('-') && is_secret(word));
        match hidden && !word.starts_with('-') {
            true => MASK.to_owned(),
            false => masked(word).into_owned(),
        }
    };
    words.iter().map(masked_word).collect()
}

/// Masks every text of a document. The value of a member with a secret's name is masked completely, and lists of words are command
/// lines.
pub fn mask(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(other) = masked(text) {
                *text = other;
            }
        }
        Value::Array(values) => {
            let words: Option<Vec<String>> = values
                .iter()
                .map(|value| value.as_str().map(str::to_owned))
                .collect();
            match words {
                Some(words) => {
                    let words = masked_words(&words).into_iter();
                    *values = words.map(Value::String).collect();
                }
                None => values.iter_mut().for_each(mask),
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(text) if is_secret(name) && !text.is_empty() => {
                        MASK.clone_into(text);
                    }
                    other => mask(other),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-".contains(&byte)
}

/// Whether a name is that of a secret: `password`, `--db-password`, `AWS_SECRET_ACCESS_KEY`.
fn is_secret(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|c| !"_-".contains(*c))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let last = name.rsplit(['_', '-']).next().unwrap_or_default();
    ["pass", "pwd"]
        .iter()
        .any(|known| last.eq_ignore_ascii_case(known))
        || NAMES.iter().any(|known| plain.ends_with(known))
}

/// The values after `NAME=`, `NAME:` and `--NAME `.
fn values(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
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
        // JSON has a quote between a name and its colon.
        let quoted = usize::from(matches!(bytes.get(at), Some(b'"' | b'\'')));
        let blanks = |from: usize| bytes[from..].iter().take_while(|b| **b == b' ').count();
        let after = at + quoted;
        let sign = after + blanks(after);
        let value = match bytes.get(sign) {
            Some(b'=' | b':') => sign + 1 + blanks(sign + 1),
            _ if name.starts_with('-') && quoted == 0 && sign > after => sign,
            _ => continue,
        };
        let words = name.to_ascii_lowercase().ends_with(AUTHORIZATION);
        let (start, end) = value_at(text, value, words);
        found.push((start, end));
        at = end.max(at);
    }
    found
}

/// The value that begins here: in quotes, or up to a separator; `words`: to the end of the line.
fn value_at(text: &str, at: usize, words: bool) -> (usize, usize) {
    let bytes = text.as_bytes();
    let ends = |from: usize, end: &dyn Fn(u8) -> bool| {
        let length = bytes[from..].iter().position(|byte| end(*byte));
        length.map_or(bytes.len(), |length| from + length)
    };
    match bytes.get(at) {
        Some(quote @ (b'"' | b'\'')) => (at + 1, ends(at + 1, &|byte| byte == *quote)),
        Some(_) => (
            at,
            ends(at, &|byte| match words {
                true => b"\"'\n".contains(&byte),
                false => byte.is_ascii_whitespace() || b",;&|\"')}]>".contains(&byte),
            }),
        ),
        None => (at, at),
    }
}

/// The passwords of `scheme://user:password@host`.
fn of_urls(text: &str) -> Vec<(usize, usize)> {
    let found = text.match_indices("://").filter_map(|(at, mark)| {
        let start = at + mark.len();
        let rest = &text[start..];
        let length = rest.find(|c: char| c.is_whitespace() || "/?#\"'<>".contains(c));
        let authority = &rest[..length.unwrap_or(rest.len())];
        let user = &authority[..authority.rfind('@')?];
        let colon = user.find(':')?;
        Some((start + colon + 1, start + user.len()))
    });
    found.collect()
}

/// Keys of known services, wherever they are.
fn known_keys(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (begin, least) in KEYS {
        for (at, _) in text.match_indices(begin) {
            let body = at + begin.len();
            let length = text.as_bytes()[body..]
                .iter()
                .take_while(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte));
            let length = length.count();
            let apart = at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric();
            if apart && length >= least {
                found.push((at, body + length));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_masked_and_other_text_is_not() {
        for (text, expected) in [
            (
                "mount -o user=a,password=hunter2,ro x",
                "mount -o user=a,password=*****,ro x",
            ),
            (
                "tool --password hunter2 --fast",
                "tool --password ***** --fast",
            ),
            ("tool --db-password=hunter2", "tool --db-password=*****"),
            ("tool --api_key 'a b' c", "tool --api_key '*****' c"),
            ("PGPASSWORD=x psql", "PGPASSWORD=***** psql"),
            (
                "AWS_SECRET_ACCESS_KEY=abc/def aws s3",
                "AWS_SECRET_ACCESS_KEY=***** aws s3",
            ),
            ("AWS_SESSION_TOKEN: abc", "AWS_SESSION_TOKEN: *****"),
            ("id AKIAIOSFODNN7EXAMPLE here", "id ***** here"),
            (
                "push https://me:s3cr:et@host/x",
                "push https://me:*****@host/x",
            ),
            ("nbd://u:p@h?x", "nbd://u:*****@h?x"),
            (
                "{\"token\":\"abc\",\"n\":1}",
                "{\"token\":\"*****\",\"n\":1}",
            ),
            (
                "env = { PASSWORD = \"a b\" }",
                "env = { PASSWORD = \"*****\" }",
            ),
            ("https://h/?token=abc&x=1", "https://h/?token=*****&x=1"),
            (
                "git clone https://github_pat_11AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA@h/x",
                "git clone https://*****@h/x",
            ),
            ("key password = öffnen", "key password = *****"),
            (
                "curl -H 'Authorization: Bearer a.b' h",
                "curl -H 'Authorization: *****' h",
            ),
            ("PASS=x DB_PWD=y z", "PASS=***** DB_PWD=***** z"),
        ] {
            assert_eq!(masked(text), expected, "{text}");
            assert_eq!(masked(expected), expected, "{text}: again");
        }
        for text in [
            "iodyno run --on token-ring=/mnt/token",
            "passes=3 bypass tokens=4 compass",
            "http://host:80/x@y",
            "ssh://me@host:22",
            "rw=randread,bs=4k,bypass=1",
            "password",
            "",
            "AKIA",
        ] {
            assert_eq!(masked(text), text);
        }
    }

    #[test]
    fn documents_are_masked_by_names_and_by_words() {
        let mut document = json!({
            "env": { "PASSWORD": "x y", "HOME": "/root", "TOKEN": "" },
            "command": ["tool", "--password", "x", "--token=y", "-v"],
            "n": 1, "list": [{ "url": "a://b:c@d" }, 2],
        });
        mask(&mut document);
        assert_eq!(
            document,
            json!({
                "env": { "PASSWORD": MASK, "HOME": "/root", "TOKEN": "" },
                "command": ["tool", "--password", MASK, "--token=*****", "-v"],
                "n": 1, "list": [{ "url": "a://b:*****@d" }, 2],
            })
        );
    }
}
