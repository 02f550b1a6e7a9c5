//! Masks secrets in text that is stored: passwords, tokens and keys in command lines, environments and URLs.
//!
//! A rule looks at the name before a value, at the user part of a URL, or at the form of a known kind of key. Text
//! without such a name or form is not changed.

mod keys;
mod names;
mod programs;
mod shell;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use serde_json::Value;

pub use names::is_secret;

use keys::{known_keys, of_urls, private_keys};
use names::{is_secret_value, values};
use programs::{CommandLine, MAX_QUOTES, of_programs};

/// What replaces a secret.
pub const MASK: &str = "*****";

/// Secrets that neither a name nor their form shows.
static VALUES: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// The smallest length of such a secret, bytes: shorter ones are also words and parts of words.
const MIN_LENGTH: usize = 6;

/// Masks these values, and those of earlier calls, in all later texts of this process.
pub fn mask_values(values: impl Iterator<Item = String>) {
    let long = values.filter(|value| value.len() >= MIN_LENGTH && value != MASK);
    let mut known = VALUES.write().unwrap_or_else(PoisonError::into_inner);
    known.extend(long);
}

fn known_values() -> RwLockReadGuard<'static, Vec<String>> {
    VALUES.read().unwrap_or_else(PoisonError::into_inner)
}

/// Text without its secrets.
pub fn masked(text: &str) -> Cow<'_, str> {
    match within_quotes(text) {
        Some(other) => Cow::Owned(masked_spans(&other).into_owned()),
        None => masked_spans(text),
    }
}

/// Text whose parts in single quotes are without secrets, if one of them contains a single quote, quoted for a shell.
/// The rules for words do not see the words inside.
fn within_quotes(text: &str) -> Option<String> {
    const QUOTE: &str = r"'\''";
    text.find(QUOTE)?;
    let (mut done, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('\'') {
        let (before, quoted) = rest.split_at(at + 1);
        done += before;
        let mut end = 0;
        let closing = loop {
            match quoted[end..].find('\'') {
                Some(next) if quoted[end + next..].starts_with(QUOTE) => end += next + QUOTE.len(),
                Some(next) => break end + next,
                None => break quoted.len(),
            }
        };
        let (inner, after) = quoted.split_at(closing);
        match masked(&inner.replace(QUOTE, "'")) {
            Cow::Borrowed(_) => done += inner,
            Cow::Owned(other) => done += &other.replace('\'', QUOTE),
        }
        let length = usize::from(!after.is_empty());
        done += &after[..length];
        rest = &after[length..];
    }
    Some(done + rest)
}

fn masked_spans(text: &str) -> Cow<'_, str> {
    let mut spans = values(text);
    spans.extend(of_urls(text));
    spans.extend(known_keys(text));
    spans.extend(private_keys(text));
    spans.extend(of_programs(text, MAX_QUOTES));
    for value in known_values().iter() {
        let found = text.match_indices(value.as_str());
        spans.extend(found.map(|(at, _)| (at, at + value.len())));
    }
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
    let mut command = CommandLine::default();
    let masked_word = |word: &String| {
        let hidden = std::mem::replace(&mut follows, word.starts_with('-') && is_secret(word));
        match command.secret_in(word) {
            _ if hidden && !word.starts_with('-') => MASK.to_owned(),
            Some(at) => format!("{}{MASK}", &word[..at]),
            None => masked(word).into_owned(),
        }
    };
    words.iter().map(masked_word).collect()
}

/// Masks every text of a document. The value of a member with a secret's name is masked completely, also in the form
/// `{"name": …, "value": …}`. Lists of words are command lines.
pub fn mask(value: &mut Value) {
    mask_texts(value, true);
}

/// [`mask`], except for texts that are completely one of the values of [`mask_values`].
pub fn mask_within(value: &mut Value) {
    mask_texts(value, false);
}

fn mask_texts(value: &mut Value, whole: bool) {
    match value {
        Value::String(text) if !whole && known_values().contains(text) => {}
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
                None => values.iter_mut().for_each(|value| mask_texts(value, whole)),
            }
        }
        Value::Object(members) => {
            let named = members.get("name").and_then(Value::as_str);
            let named = named.filter(|name| is_secret(name)).map(str::to_owned);
            for (name, value) in members {
                let secret = match name.as_str() {
                    "value" => named.as_deref(),
                    own => is_secret(own).then_some(own),
                };
                let hidden = |text: &str| secret.is_some_and(|name| is_secret_value(name, text));
                match value {
                    Value::String(text) if !text.is_empty() && hidden(text) => {
                        MASK.clone_into(text);
                    }
                    other => mask_texts(other, whole),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
