//! Suggestions for names that are not known.

/// The one of `names` that `word` is probably a misspelling of; upper and lower case in `word` are alike.
///
/// A name is near enough if at most a third of the letters of the longer of the two differ.
pub fn closest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
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
}
