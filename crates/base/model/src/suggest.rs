//! Suggestions for unknown names.

/// The entry of `names` that `word` probably misspells, ignoring the case of `word`.
///
/// At most a third of the letters of the longer of the two may differ.
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
    fn finds_the_intended_word() {
        let names = ["iodepth", "iodepth_batch", "ioengine"];
        assert_eq!(closest("iodpeth", names.into_iter()), Some("iodepth"));
        assert_eq!(closest("IODEPTH", names.into_iter()), Some("iodepth"));
        assert_eq!(closest("zzzzzz", names.into_iter()), None);
    }
}
