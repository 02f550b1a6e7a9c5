//! Tables drawn with bars: Markdown, boxes of `+---+`, and bars around several columns.

use super::grid::{Grid, MAX_COLUMNS, Row};
use super::unit::value;
use crate::lines::Lines;

/// The text between two bars, and the position of its first character.
#[derive(Debug, Clone)]
struct Piece {
    start: usize,
    text: String,
}

impl Piece {
    fn words(&self) -> Vec<(usize, &str)> {
        let mut words = Vec::new();
        let mut at = None;
        for (column, (index, c)) in (self.start..).zip(self.text.char_indices()) {
            match (c.is_whitespace(), at) {
                (false, None) => at = Some((column, index)),
                (true, Some((start, from))) => {
                    words.push((start, &self.text[from..index]));
                    at = None;
                }
                _ => {}
            }
        }
        words.extend(at.map(|(start, from)| (start, &self.text[from..])));
        words
    }
}

/// All tables with bars.
pub(super) fn grids(lines: &Lines<'_>) -> Vec<Grid> {
    let mut grids = Vec::new();
    let mut first = None;
    let is_part = |text: &str| {
        let text = text.trim();
        text != "|===" && (text.contains('|') || is_rule(text))
    };
    for (number, text) in lines.iter().chain([(lines.count() + 1, "")]) {
        match (is_part(text), first) {
            (true, None) => first = Some(number),
            (false, Some(start)) => {
                grids.extend(grid(lines, start, number));
                first = None;
            }
            _ => {}
        }
    }
    grids
}

/// Whether a line is only a rule: `|---|:--:|`, `|-|-|`, `+----+----+`, `-----+----`; not `| - | - |`, which is a row
/// of missing values.
fn is_rule(text: &str) -> bool {
    let text = text.trim();
    let strokes = text.matches(['-', '=']).count();
    text.chars()
        .all(|c| matches!(c, '-' | '=' | '+' | '|' | ':' | ' '))
        && text.contains(['+', '|'])
        && (strokes >= 3 || (strokes > 0 && !text.contains(' ')))
}

fn grid(lines: &Lines<'_>, start: u32, end: u32) -> Option<Grid> {
    let mut rows: Vec<(u32, Vec<Piece>)> = Vec::new();
    let mut above_rule = None;
    for (number, text) in lines.range(start..end) {
        match is_rule(text) {
            false => rows.push((number, pieces(text))),
            true if above_rule.is_none() && !rows.is_empty() => above_rule = Some(rows.len()),
            true => {}
        }
    }
    // Bars at both ends are the frame; a bar only at the beginning of every row does not begin a column.
    let blank = |piece: Option<&Piece>| piece.is_some_and(|piece| piece.text.trim().is_empty());
    if rows.iter().all(|(_, pieces)| blank(pieces.first())) {
        rows.iter_mut()
            .for_each(|(_, pieces)| drop(pieces.remove(0)));
    }
    if rows.iter().all(|(_, pieces)| blank(pieces.last())) {
        rows.iter_mut().for_each(|(_, pieces)| drop(pieces.pop()));
    }
    let width = rows.first()?.1.len();
    if !(2..=MAX_COLUMNS).contains(&width) || rows.iter().any(|(_, pieces)| pieces.len() != width) {
        return None;
    }
    let is_head = |(_, pieces): &&(u32, Vec<Piece>)| {
        pieces[1..].iter().all(|piece| value(&piece.text).is_none())
    };
    let heads = above_rule.unwrap_or_else(|| rows.iter().take_while(is_head).count());
    let (head, body) = rows.split_at(heads);
    if head.is_empty() || body.is_empty() {
        return None;
    }
    let mut grid = Grid {
        form: "table",
        lines: start..end,
        rows: body
            .iter()
            .map(|(line, _)| Row {
                line: *line,
                cells: Vec::new(),
            })
            .collect(),
        ..Grid::default()
    };
    for column in 0..width {
        let cells: Vec<&Piece> = body.iter().map(|(_, pieces)| &pieces[column]).collect();
        let over: Vec<&Piece> = head.iter().map(|(_, pieces)| &pieces[column]).collect();
        add(&mut grid, &over, &cells)?;
    }
    Some(grid)
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut start = 0;
    text.split('|')
        .map(|part| {
            let piece = Piece {
                start,
                text: part.to_owned(),
            };
            start += part.chars().count() + 1;
            piece
        })
        .collect()
}

/// Adds the text between two bars: one column, or several if each of its rows has the same number of numbers.
fn add(grid: &mut Grid, over: &[&Piece], cells: &[&Piece]) -> Option<()> {
    let words: Vec<Vec<(usize, &str)>> = cells.iter().map(|piece| piece.words()).collect();
    let count = words.first().map_or(0, Vec::len);
    let apart = words.iter().all(|words| {
        words.len() == count && words.iter().all(|(_, word)| word.parse::<f64>().is_ok())
    });
    if !apart || !(2..=MAX_COLUMNS).contains(&count) {
        grid.heads
            .push(over.iter().map(|piece| clean(&piece.text)).collect());
        for (row, cell) in grid.rows.iter_mut().zip(cells) {
            row.cells.push(clean(&cell.text));
        }
        return Some(());
    }
    // The start of each column: the leftmost of its numbers and of its heading.
    let mut begins = vec![usize::MAX; count];
    let over_words: Vec<Vec<(usize, &str)>> = over.iter().map(|piece| piece.words()).collect();
    for words in words
        .iter()
        .chain(&over_words)
        .filter(|words| words.len() == count)
    {
        for (begin, (start, _)) in begins.iter_mut().zip(words) {
            *begin = (*begin).min(*start);
        }
    }
    let heads: Vec<Vec<String>> = over
        .iter()
        .map(|piece| spread(piece, &begins))
        .collect::<Option<_>>()?;
    for column in 0..count {
        grid.heads
            .push(heads.iter().map(|level| level[column].clone()).collect());
        for (row, words) in grid.rows.iter_mut().zip(&words) {
            row.cells.push(words[column].1.to_owned());
        }
    }
    Some(())
}

/// The heading of each column: its own, or the one that begins at or before it.
fn spread(piece: &Piece, begins: &[usize]) -> Option<Vec<String>> {
    let words = piece.words();
    if words.len() == begins.len() {
        return Some(words.iter().map(|(_, word)| clean(word)).collect());
    }
    // Words separated by single blanks are one heading.
    let mut phrases: Vec<(usize, String)> = Vec::new();
    let mut end = 0;
    for (start, word) in words {
        match phrases.last_mut() {
            Some((_, phrase)) if start <= end + 1 => {
                phrase.push(' ');
                phrase.push_str(word);
            }
            _ => phrases.push((start, word.to_owned())),
        }
        end = start + word.chars().count();
    }
    if phrases.len() <= 1 {
        let text = phrases
            .pop()
            .map(|(_, text)| clean(&text))
            .unwrap_or_default();
        return Some(vec![text; begins.len()]);
    }
    let of = |begin: &usize| {
        let (_, text) = phrases.iter().rev().find(|(start, _)| start <= begin)?;
        Some(clean(text))
    };
    let heads: Vec<String> = begins.iter().map(of).collect::<Option<_>>()?;
    let all_used = phrases.iter().all(|(_, text)| heads.contains(&clean(text)));
    all_used.then_some(heads)
}

/// A cell's text without surrounding blanks and marks of emphasis.
fn clean(text: &str) -> String {
    text.trim().trim_matches(['*', '`']).trim().to_owned()
}
