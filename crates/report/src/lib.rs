//! Trials and comparisons to text, JSON and others' formats.
//!
//! Everything here is a pure function from data to a string, which the caller prints. What figures mean is decided in `judge`.
//! Whatever a trial holds (no ops, no time, extreme numbers), the text keeps its layout and JSON stays valid.

mod clock;
pub mod compare;
mod course;
mod csv;
pub mod diagnostic;
mod digits;
pub mod doctor;
pub mod fio;
pub mod fsbench;
pub mod imported;
pub mod json;
pub mod live;
mod operations;
pub mod series;
mod spark;
mod style;
pub mod sysbench;
mod table;
pub mod text;
pub mod watch;

pub use style::{Style, safe_text};
