//! The interim verdict, for a line that is redrawn.

use iodyno_model::{CandidateResult, Comparison};

use super::figures::ratio;
use super::words::short;
use crate::style::{cut, sanitize, width};

/// The largest width of the line, columns.
const ROOM: usize = 100;

/// `provisional: io_uring 1.31× [1.22, 1.40] FASTER; …`: the verdict of each candidate if there is one primary row,
/// otherwise the number of verdicts of each kind. One line without a newline, at most 100 columns, without colour;
/// empty if nothing was compared yet. Contains characters beyond ASCII.
pub fn progress_line(comparison: &Comparison) -> String {
    let rows: Vec<_> = comparison
        .rows
        .iter()
        .filter(|row| !row.exploratory && !row.no_difference)
        .collect();
    let parts: Vec<String> = match rows.as_slice() {
        [] => Vec::new(),
        [row] => row.cells.iter().map(one).collect(),
        _ => comparison
            .columns
            .iter()
            .skip(1)
            .map(|candidate| {
                let counts = comparison.verdicts(Some(candidate));
                format!("{} {counts}", sanitize(candidate))
            })
            .collect(),
    };
    if parts.is_empty() {
        return String::new();
    }
    let line = format!("provisional: {}", parts.join("; "));
    match width(&line) <= ROOM {
        true => line,
        false => cut(&line, ROOM - 1) + "…",
    }
}

fn one(cell: &CandidateResult) -> String {
    let ratio = cell.ratio.as_ref().map(|it| ratio(it) + " ");
    format!(
        "{} {}{}",
        sanitize(&cell.side.column),
        ratio.unwrap_or_default(),
        short(&cell.verdict)
    )
}
