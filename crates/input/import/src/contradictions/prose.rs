//! Sentences of prose, across the lines of a paragraph.

use super::super::context::opens_fence;
use super::super::lines::Lines;

/// A longer paragraph is not prose.
const MAX_WORDS: usize = 2000;

/// A word with its line.
pub(super) type Word<'t> = (u32, &'t str);

/// Calls `take` for each sentence outside of verbatim blocks, tables and lines that a reader understood.
pub(super) fn sentences<'t>(
    lines: &'t Lines<'_>,
    claimed: &[bool],
    mut take: impl FnMut(&[Word<'t>]),
) {
    let mut paragraph: Vec<Word<'t>> = Vec::new();
    let mut end = |paragraph: &mut Vec<Word<'t>>| {
        if paragraph.len() <= MAX_WORDS {
            let ends = |word: &Word| {
                word.1
                    .trim_end_matches(MARKS)
                    .ends_with(['.', '!', '?', ':'])
            };
            paragraph.split_inclusive(ends).for_each(&mut take);
        }
        paragraph.clear();
    };
    let mut fence: Option<&str> = None;
    let mut above = "";
    for (number, text) in lines.iter() {
        let over = std::mem::replace(&mut above, text);
        if let Some(mark) = fence {
            if text.trim_start().starts_with(mark) {
                fence = None;
            }
            continue;
        }
        fence = opens_fence(text, over);
        let is_claimed = claimed.get(number as usize).copied().unwrap_or(false);
        let trimmed = text.trim_start();
        let is_table = trimmed.starts_with(['|', '+']);
        if fence.is_some() || is_claimed || trimmed.is_empty() || is_table {
            end(&mut paragraph);
            continue;
        }
        let item = item(trimmed);
        if item.is_some() || trimmed.starts_with(['#', '=']) || trimmed.starts_with("**") {
            end(&mut paragraph);
        }
        if paragraph.len() <= MAX_WORDS {
            let words = item.unwrap_or(trimmed).split_whitespace();
            paragraph.extend(words.map(|word| (number, word)));
        }
    }
    end(&mut paragraph);
}

/// Marks around a word.
const MARKS: [char; 9] = ['(', ')', '[', ']', '"', '\'', '*', '`', '_'];

/// A word without the marks around it.
pub(super) fn bare(word: &str) -> &str {
    word.trim_matches(|c| MARKS.contains(&c) || matches!(c, ',' | ';' | ':' | '.' | '!' | '?'))
}

/// The words of a text without marks.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().map(bare)
}

/// The text of a list item.
fn item(line: &str) -> Option<&str> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = match digits {
        0 => line.strip_prefix(['-', '*'])?,
        1..=3 => line[digits..].strip_prefix(['.', ')'])?,
        _ => return None,
    };
    rest.strip_prefix(' ')
}
