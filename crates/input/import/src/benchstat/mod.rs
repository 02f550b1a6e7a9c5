//! benchstat: its input (Go's benchmark format), and the tables that it and its predecessor print.

mod claims;
mod input;
mod units;

pub(super) use self::input::Keys;

use super::extract::Extract;
use super::lines::Lines;

/// Reads all results and all rows of printed comparisons.
pub(super) fn read<'l>(lines: &'l Lines<'_>) -> impl Iterator<Item = Extract> + 'l {
    input::read(lines).chain(claims::read(lines))
}

#[cfg(test)]
mod tests;
