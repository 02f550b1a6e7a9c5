//! Taking text apart, and guessing what was meant by a word.

/// Splits at the separators that are not within parentheses; a separator at the very start of a
/// part, such as a minus sign, does not count.
pub(super) fn split_outside<'a>(text: &'a str, separators: &[char]) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0i32);
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth <= 0 && separators.contains(&character) => {
                if index == start && character != ',' {
                    continue;
                }
                parts.push(&text[start..index]);
                start = index + character.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// The nearest of `names`, if it is near enough to be a slip of the fingers.
pub(crate) fn closest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let word = word.to_ascii_lowercase();
    if word.is_empty() || word.len() > 64 {
        return None;
    }
    names
        .map(|name| (strsim::damerau_levenshtein(&word, name), name))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, name)| *distance * 3 <= word.len().max(name.len()).max(3))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_word_that_was_meant() {
        let names = ["iodepth", "iodepth_batch", "ioengine"];
        assert_eq!(closest("iodpeth", names.into_iter()), Some("iodepth"));
        assert_eq!(closest("IODEPTH", names.into_iter()), Some("iodepth"));
        assert_eq!(closest("zzzzzz", names.into_iter()), None);
    }

    #[test]
    fn parts_keep_their_parentheses_and_signs() {
        assert_eq!(split_outside("4k-(8-2)", &['-']), ["4k", "(8-2)"]);
        assert_eq!(split_outside("-8k-4", &['-']), ["-8k", "4"]);
        assert_eq!(split_outside("a,,b", &[',']), ["a", "", "b"]);
    }
}
