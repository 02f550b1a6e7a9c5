//! Comparisons: which configuration is better, by how much, and how certain that is.
//!
//! [`iodyno_model::Comparison`] contains all decisions; this module only formats them. One [`view::ViewModel`] contains
//! the texts for people, and the terminal's table, Markdown and AsciiDoc print it. CSV, JSON and benchstat's text are
//! for programs and contain the numbers.
//!
//! Invariants: a verdict has the same text in all formats ([`verdict_words`]), a verdict is never printed as `~`, and a
//! ratio above one always means that the candidate is better.

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
