//! Comparisons: which configuration is better, by how much, and how certain that is.
//!
//! [`iodyno_model::Comparison`] contains all decisions; this module only formats them. One [`view::ViewModel`] contains
//! the texts for people, and the terminal's table, Markdown and AsciiDoc print it. CSV, JSON and benchstat's text are
//! for programs and contain the numbers; [`ci`] has the verdicts for systems of continuous integration.
//!
//! Invariants: a verdict has the same text in all formats ([`verdict_words`]), a verdict is never printed as `~`, and a
//! ratio above one always means that the candidate is better.

use std::collections::BTreeMap;

pub use iodyno_model::BandwidthUnit;

mod benchstat;
mod ci;
mod closing;
mod csv;
mod estimated;
mod facts;
mod figures;
mod footnotes;
mod history;
mod json;
mod limits;
mod markup;
mod pivot;
mod progress;
mod regret;
mod repeats;
mod searches;
mod statements;
mod text;
mod view;
mod words;

#[cfg(test)]
mod tests;

pub(crate) use benchstat::benchmark_name;
pub use benchstat::benchstat;
pub use ci::{annotations, junit};
pub(crate) use closing::ClosingView;
pub use closing::{closing_markup, closing_table};
pub use csv::csv;
pub(crate) use estimated::EstimatedView;
pub use facts::facts;
pub(crate) use figures::value;
pub use history::{change_words, drift_words, history, history_json, newest_words};
pub(crate) use json::Document;
pub use json::json;
pub use limits::limits;
pub use markup::markup;
pub use progress::progress_line;
pub use regret::{regret, regret_csv, regret_json, regret_markup};
pub use repeats::{Again, repeats};
pub(crate) use searches::AnswerView;
pub use searches::{
    bound_words, load_words, searches, searches_csv, searches_json, searches_markup,
};
pub use statements::{claims_text, statements};
pub(crate) use statements::{contradiction, place};
pub use text::text;
#[cfg(feature = "charts")]
pub(crate) use view::Tone;
pub(crate) use words::{
    better as metric_better, short as verdict_short, tag as verdict_tag, unit_name as metric_unit,
};
pub use words::{sentences, verdict_words};

/// How tables print a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ComparisonFormat {
    /// The unit of bandwidths.
    pub bandwidth: BandwidthUnit,
    /// Decimal places of values, in one unit; `None`: three significant digits, in the unit that the size requires.
    pub digits: Option<u32>,
    /// Whether to print the arithmetic mean with each median.
    pub mean: bool,
    /// Whether to print everything: each flag of each cell, remarks on the figures, and facts that are the same.
    pub verbose: bool,
    /// Headings that replace values of the compared dimension, such as the names of runs.
    pub headings: BTreeMap<String, String>,
}

impl ComparisonFormat {
    /// The mean, if requested and there are values.
    fn mean_of(&self, values: &[f64]) -> Option<f64> {
        (self.mean && !values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}
