//! Trials of file operations as a table of seconds, a closing row, and lines that benchstat reads.
//!
//! The layout is that of published file-operation benchmarks: names cut to ten letters, one row per second, a head
//! every twenty rows. Times have three significant digits, down to a nanosecond, and fit the same columns.

mod benchmark;
mod closing;
mod list;
mod live;
mod opening;
#[cfg(test)]
mod tests;

pub use benchmark::{benchmark_line, benchmark_units};
pub use closing::closing;
pub use list::{ListRow, list, list_json, needs};
pub use live::Live;
pub use opening::opening;

use crate::style::{cut, left, sanitize};

/// Width of a name, columns; longer names are cut.
const NAME: usize = 10;

/// The name in a row, in this number of columns.
fn optype(name: &str) -> String {
    left(&cut(&sanitize(name), NAME), NAME)
}
