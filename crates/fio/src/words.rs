//! Splits text at separators outside parentheses.

/// Splits at the separators that are not within parentheses; a separator at the very start of a
/// part, such as a minus sign, does not count.
pub(crate) fn split_outside<'a>(text: &'a str, separators: &[char]) -> Vec<&'a str> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_their_parentheses_and_signs() {
        assert_eq!(split_outside("4k-(8-2)", &['-']), ["4k", "(8-2)"]);
        assert_eq!(split_outside("-8k-4", &['-']), ["-8k", "4"]);
        assert_eq!(split_outside("a,,b", &[',']), ["a", "", "b"]);
    }
}
