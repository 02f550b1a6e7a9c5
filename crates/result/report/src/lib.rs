//! Formats trials and comparisons as text, JSON and formats of other tools.
//!
//! Everything here is a pure function from data to a string, which the caller prints. `judge` decides what figures
//! mean. For every trial (also without ops, without time or with extreme numbers), the text keeps its layout and JSON
//! is valid.

mod clock;
pub mod compare;
mod course;
mod csv;
pub mod diagnostic;
mod digits;
pub mod doctor;
pub mod experiments;
pub mod explain;
#[cfg(feature = "charts")]
pub mod figure;
pub mod fio;
pub mod fsbench;
pub mod imported;
pub mod json;
pub mod live;
mod operations;
pub mod parquet;
pub mod plan;
pub mod schedule;
pub mod series;
mod spark;
mod style;
pub mod sysbench;
mod table;
pub mod text;
pub mod watch;

pub use clock::minute;
pub use style::{Style, safe_text};
pub use table::Markup;
