//! Comparisons: which is better, by how much, how surely.
//!
//! Drawn from [`iodyno_model::Comparison`], which says all that is decided; nothing is decided here. One
//! [`sheet::Sheet`] holds what a person is told, in words and without form; the terminal's table, Markdown and
//! AsciiDoc are three drawings of it. CSV, JSON and benchstat's text are for programs and carry the numbers.
//!
//! What stays true: verdicts have the same words everywhere ([`verdict_words`]), no verdict is a bare `~`,
//! and a ratio above one always means that the candidate is the better one.

mod benchstat;
mod claims;
mod csv;
mod figures;
mod footnotes;
mod json;
mod markup;
mod progress;
mod repeats;
mod sheet;
mod text;
mod words;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub(crate) use benchstat::benchmark_name;
pub use benchstat::benchstat;
pub use csv::csv;
pub(crate) use figures::value;
pub use json::json;
pub(crate) use json::{Document, document};
pub use markup::{asciidoc, markdown};
pub use progress::progress_line;
pub use repeats::{Again, repeats};
pub use text::text;
pub use words::{Counts, summary_counts, verdict_words};
