//! Text to plans: the languages iodyno reads.
//!
//! A dialect turns text into `model` data with every default filled in, and says what is wrong with
//! the text, all of it at once. It does no I/O of its own: files and facts of the host are passed in.

pub mod fio;
pub mod operations;
pub mod results;
pub mod sysbench;
