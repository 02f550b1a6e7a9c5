//! Comparisons: which configuration is better, by how much, and how certain that is.
//!
//! Everything is decided in [`iodyno_model::Comparison`]; nothing is decided here. One [`view::ViewModel`] holds the texts
//! for people; the terminal's table, Markdown and AsciiDoc print it. CSV, JSON and benchstat's text are for programs and
//! carry the numbers.
//!
//! Invariants: verdicts have the same words everywhere ([`verdict_words`]), no verdict is a bare `~`, and a ratio above one
//! always means that the candidate is the better one.

mod benchstat;
mod claims;
mod csv;
mod figures;
mod footnotes;
mod json;
mod markup;
mod progress;
mod repeats;
mod text;
mod view;
mod words;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub(crate) use benchstat::benchmark_name;
pub use benchstat::benchstat;
pub use csv::csv;
pub(crate) use figures::value;
pub(crate) use json::Document;
pub use json::json;
pub use markup::{asciidoc, markdown};
pub use progress::progress_line;
pub use repeats::{Again, repeats};
pub use text::{claims, text};
pub use words::{Counts, summary_counts, verdict_words};
