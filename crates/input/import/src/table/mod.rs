//! Plain tables: with bars, AsciiDoc's, with fields separated by commas or tabs, with columns separated by blanks.
//!
//! A [`ColumnMap`] assigns the parts of a table. Without one, the map is guessed if it is unambiguous: the table must
//! contain units and name the configurations. A remark states the guessed map, in the notation of `--table`.

mod apply;
mod asciidoc;
mod bars;
mod grid;
mod guess;
mod map;
mod separated;
#[cfg(test)]
mod tests;
mod unit;

use std::collections::BTreeMap;

pub use map::{ColumnMap, ColumnMapError};

use super::extract::{Extract, ExtractContent};
use super::lines::Lines;
use grid::Grid;

/// Reads all plain tables of a text.
pub(super) fn read(lines: &Lines<'_>, map: Option<&ColumnMap>) -> Vec<Extract> {
    let drawn = asciidoc::grids(lines).into_iter().chain(bars::grids(lines));
    let mut found = Vec::new();
    let mut guessed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut taken = vec![false; lines.count() as usize + 2];
    let mut fits = false;
    for grid in drawn.chain(separated::grids(lines)) {
        let at = grid.lines.start as usize..grid.lines.end as usize;
        if taken[at.clone()].iter().any(|taken| *taken) {
            continue;
        }
        let grid = grid.placed(lines);
        let (read, suggested) = table(&grid, map, lines);
        fits |= read
            .iter()
            .any(|found| matches!(found.what, ExtractContent::Trial(_)));
        taken[at].fill(!read.is_empty());
        found.extend(read);
        if let Some(map) = suggested {
            let places = guessed.entry(map.to_string()).or_default();
            places.push(grid.lines.start.to_string());
        }
    }
    if let Some(map) = map.filter(|_| !fits) {
        let source = lines.at(0).source;
        found.push(Extract::remark(format!(
            "{source}: no table in it fits the column map `{map}`"
        )));
    }
    found.extend(guessed.into_iter().map(|(map, places)| {
        Extract::remark(format!(
            "{}: as their form suggests, tables were read with `--table '{map}'`: line {}",
            lines.at(0).source,
            places.join(", ")
        ))
    }));
    found
}

/// The content of a table, and the map that was guessed for it.
fn table(
    grid: &Grid,
    map: Option<&ColumnMap>,
    lines: &Lines<'_>,
) -> (Vec<Extract>, Option<ColumnMap>) {
    let at = grid.lines.clone();
    let guessed = map.is_none();
    let map = match map {
        Some(map) => Ok(map.clone()),
        None => guess::guess(grid),
    };
    match map.and_then(|map| Ok((apply::trials(grid, &map, lines)?, map))) {
        Ok((applied, map)) => {
            let trials = applied.trials.into_iter();
            let trials = trials.map(|trial| Extract::trial(at.clone(), trial));
            let unread = applied.unread.into_iter();
            let unread = unread.map(|(line, why)| Extract::unread(line..line + 1, why));
            (trials.chain(unread).collect(), guessed.then_some(map))
        }
        // Prose in columns is not reported as an unread table.
        Err(_) if grid.loose || !has_units(grid) => (Vec::new(), None),
        Err(why) => {
            let why = format!("a table, but {why}; name its parts by a column map");
            (vec![Extract::unread(at, why)], None)
        }
    }
}

fn has_units(grid: &Grid) -> bool {
    let cells = || grid.rows.iter().flat_map(|row| &row.cells);
    let heads = grid.heads.iter().flatten();
    heads.into_iter().any(|head| unit::unit_in(head).is_some())
        || cells().any(|cell| matches!(unit::value(cell), Some((_, Some(_)))))
}
