//! The host live: one picture of the latest stretch of time, for a terminal or as a line of JSON.

mod history;
mod json;
mod screen;

use iodyno_model::{FigureTable, SeriesRow};

pub use history::History;
pub use json::json;
pub use screen::screen;

/// A picture of the host.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchView<'a> {
    /// The host's name.
    pub host: &'a str,
    /// Its kernel's version.
    pub kernel: &'a str,
    /// Wall clock at the end of the stretch, ms since 1970.
    pub unix_ms: u64,
    /// Of the wall clock, seconds east of Greenwich.
    pub utc_offset_s: i32,
    /// From one picture to the next, ns.
    pub every_ns: u64,
    /// The figures of the latest stretch, a table a series. Remarks are of this stretch alone.
    pub tables: &'a [FigureTable],
    /// Sources of interrupts with the devices that they serve, as the latest shape has them.
    pub sources: &'a [SeriesRow],
    /// The figures of stretches before, this one included.
    pub history: &'a History,
}
