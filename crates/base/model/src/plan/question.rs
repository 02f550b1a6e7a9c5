//! The question that a comparison answers.

use serde::{Deserialize, Serialize};

use crate::{FactClass, Observation};

/// The question that a comparison answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Question {
    /// The question in the words of its author.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// The dimension that the columns compare.
    pub columns: String,
    /// Whether the columns were inferred from the trials and not asked for. Then only the targets of configurations
    /// are attributes under test; other facts are if `axis` names them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
    /// The class of the facts that the columns define: they are attributes under test. `None`: as the name of the
    /// columns says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defines: Option<FactClass>,
    /// The baseline: the value of that dimension that the others are compared with; `None`: the first.
    pub baseline: Option<String>,
    /// The dimensions that define the rows. Several workloads in one row are a family and share one primary
    /// comparison: the geometric mean of their ratios.
    pub rows: Vec<String>,
    /// The dimensions of the rows that tables print as columns, below each value of `columns`. They define rows as
    /// well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub across: Vec<String>,
    /// Filter: only trials with these (dimension, value) pairs. Several values of one dimension are
    /// alternatives.
    pub only: Vec<(String, String)>,
    /// Names of metrics: the first `primary_metrics` are primary, the others are exploratory. Empty: each row's own.
    pub metrics: Vec<String>,
    /// Number of primary metrics, at least 1.
    #[serde(skip_serializing_if = "is_one")]
    pub primary_metrics: usize,
    /// The primary metric of rows by a value: (dimension, value, metric). Other rows have those of `metrics`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metric_where: Vec<(String, String, String)>,
    /// Names of facts that are attributes under test, in addition to the columns.
    pub axis: Vec<String>,
    /// (dimension, value) of rows in which no difference is expected: their ratios are the noise floor.
    pub floor: Vec<(String, String)>,
    /// The margin: the smallest difference that matters, as a fraction (0.03).
    pub margin: f64,
    /// α: the probability of a false difference over all primary comparisons and all looks, for example 0.05.
    pub alpha: f64,
    /// How many looks at the verdict spent a part of α before this one; `None` where a run cannot be extended. Not
    /// stored: it follows from [`crate::Plan::looks`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub looks: Option<u32>,
}

impl Question {
    /// The default margin.
    pub const MARGIN: f64 = 0.03;
    /// The default α.
    pub const ALPHA: f64 = 0.05;
    /// The share of the remaining α that a look leaves for later ones.
    pub const KEPT: f64 = 0.2;

    /// The part of α that this look may spend: α·0.8·0.2ᵏ after k looks, so that all looks together spend at most α,
    /// however many there are. A run that is extended until its verdict pleases is then false in at most α of the cases
    /// (Bonferroni's inequality; alpha spending after Lan & DeMets, Biometrika 70, 1983). α itself where no run can be
    /// extended.
    pub fn alpha_at_look(&self) -> f64 {
        match self.looks {
            None => self.alpha,
            // What is left after a dozen looks can no longer matter; a power of hundreds would be 0.
            Some(looks) => self.alpha * (1.0 - Self::KEPT) * Self::KEPT.powi(looks.min(12) as i32),
        }
    }
}

fn is_one(number: &usize) -> bool {
    *number == 1
}

impl Default for Question {
    fn default() -> Question {
        Question {
            words: None,
            columns: Observation::CONFIGURATION.to_owned(),
            inferred: false,
            defines: None,
            baseline: None,
            rows: vec![Observation::WORKLOAD.to_owned()],
            across: Vec::new(),
            only: Vec::new(),
            metrics: Vec::new(),
            primary_metrics: 1,
            metric_where: Vec::new(),
            axis: Vec::new(),
            floor: Vec::new(),
            margin: Question::MARGIN,
            alpha: Question::ALPHA,
            looks: None,
        }
    }
}
