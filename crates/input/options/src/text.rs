//! Parsers of values that several languages share.

use iodyno_model::closest;

use super::problem::Problem;

/// The value of a word.
///
/// # Errors
/// The text is not one of the words; the hint names the closest one, or all.
pub fn one_of<T: Copy>(text: &str, words: &[(&'static str, T)]) -> Result<T, Problem> {
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let fault = Problem::error(match text.is_empty() {
        true => "a value is missing".to_owned(),
        false => format!("`{text}` is not one of its values"),
    });
    let names = || words.iter().map(|(word, _)| *word);
    Err(fault.hint(match closest(text, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("write one of: {}", names().collect::<Vec<_>>().join(", ")),
    }))
}

/// As [`one_of`]; the error names the option.
///
/// # Errors
/// As [`one_of`].
pub fn value_of<T: Copy>(
    option: &str,
    text: &str,
    words: &[(&'static str, T)],
) -> Result<T, Problem> {
    one_of(text, words).map_err(|problem| match text.is_empty() {
        true => problem,
        false => Problem {
            message: format!("`{text}` is not a value of `{option}`"),
            ..problem
        },
    })
}

/// On or off, in any of their words; `None` for any other text.
pub fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Some(true),
        "off" | "false" | "no" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_gives_a_suggestion() {
        let words = [("sync", 1), ("async", 2), ("mmap", 3)];
        assert_eq!(one_of("mmap", &words), Ok(3));
        let near = one_of("asnyc", &words).unwrap_err();
        assert_eq!(near.hint.as_deref(), Some("did you mean `async`?"));
        let far = one_of("zzzzzzz", &words).unwrap_err();
        assert_eq!(far.hint.as_deref(), Some("write one of: sync, async, mmap"));
    }
}
