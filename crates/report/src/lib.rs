//! Trials and comparisons to text, JSON and others' formats.
//!
//! Draws and never decides: what a figure is worth comes with it, from `judge`. Everything here is a
//! pure function from data to a string; whoever calls prints it. Whatever a trial holds (no ops, no
//! time, numbers beyond reason), the text keeps its shape and JSON stays valid.

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

pub use style::Style;
