//! The number of verdicts of each kind.

use serde::{Deserialize, Serialize};

use crate::{Comparison, Verdict};

/// The number of primary results with each verdict. Stored with a run when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VerdictCounts {
    /// FASTER.
    pub faster: u32,
    /// SLOWER.
    pub slower: u32,
    /// EQUIVALENT.
    pub equivalent: u32,
    /// DIFFERENT BUT SMALL.
    pub different_but_small: u32,
    /// Inconclusive, or too few to decide.
    pub undecided: u32,
    /// NOT COMPARABLE: the sides also differ in something else that can explain the result.
    pub not_comparable: u32,
    /// One side has no values.
    pub no_data: u32,
}

impl VerdictCounts {
    fn add(&mut self, verdict: &Verdict) {
        let count = match verdict {
            Verdict::Faster => &mut self.faster,
            Verdict::Slower => &mut self.slower,
            Verdict::Equivalent => &mut self.equivalent,
            Verdict::DifferentButSmall => &mut self.different_but_small,
            Verdict::Inconclusive { .. } | Verdict::CannotDecide { .. } => &mut self.undecided,
            Verdict::NotComparable { .. } => &mut self.not_comparable,
            Verdict::NoData { .. } => &mut self.no_data,
        };
        *count += 1;
    }

    /// The number of results.
    pub fn all(&self) -> u32 {
        let parts = self.parts();
        parts.iter().map(|(count, _)| count).sum()
    }

    /// Each number with its verdict in words.
    pub fn parts(&self) -> [(u32, &'static str); 7] {
        [
            (self.faster, "faster"),
            (self.slower, "slower"),
            (self.equivalent, "equivalent"),
            (self.different_but_small, "different but small"),
            (self.undecided, "undecided"),
            (self.not_comparable, "not comparable"),
            (self.no_data, "without data"),
        ]
    }
}

/// `1 faster, 2 slower, 1 equivalent`; kinds without results are omitted.
impl std::fmt::Display for VerdictCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = self.parts().into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        match parts.is_empty() {
            true => f.pad("nothing compared"),
            false => f.pad(&parts.join(", ")),
        }
    }
}

impl Comparison {
    /// The verdicts over the primary rows, of one candidate or of all. Rows that give the noise floor do not count.
    pub fn verdicts(&self, candidate: Option<&str>) -> VerdictCounts {
        let mut counts = VerdictCounts::default();
        let cells = self.primary_cells();
        for cell in cells.filter(|cell| candidate.is_none_or(|name| cell.side.column == name)) {
            counts.add(&cell.verdict);
        }
        counts
    }
}
