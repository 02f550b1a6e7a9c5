//! benchstat: its input (Go's benchmark format), and the tables that it and its predecessor print.

mod claims;
mod input;
mod units;

pub(super) use self::input::Keys;

use super::extract::Extract;
use super::lines::Lines;

/// Reads all results and all rows of printed comparisons.
pub(super) fn read(lines: &Lines<'_>) -> Vec<Extract> {
    let mut found = input::read(lines);
    found.extend(claims::read(lines));
    found
}

#[cfg(test)]
mod tests;
