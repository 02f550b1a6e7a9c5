//! The additional lines of iodyno's own sysbench output: each kind of event, and remarks.

use iodyno_model::{Figure, ImportedTrial, Metric};

use super::super::lines::Lines;
use crate::number::number;

/// The second one is that of older versions.
const HEADINGS: [&str; 2] = ["By kind of op (ms):", "Each kind apart (ms):"];
/// The kinds, with their names in the table and in metrics.
const KINDS: [&str; 3] = ["read", "write", "sync"];
/// The columns after the rate, ms.
const COLUMNS: [&str; 5] = ["mean", "p50", "p95", "p99", "max"];
/// Blank lines that may precede the table.
const GAP: u32 = 2;

/// The table and the lines below it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Apart {
    /// (kind, times in ms): since an event was due, if that is printed.
    kinds: Vec<(&'static str, [f64; 5])>,
    remarks: Vec<String>,
}

impl Apart {
    /// Parses from a line on; also returns the line after the last one. `None` if there is no such table.
    pub(super) fn read(lines: &Lines<'_>, from: u32) -> Option<(Apart, u32)> {
        let heading = (from..from.saturating_add(GAP + 1))
            .find(|&line| !lines.get(line).trim().is_empty())
            .filter(|&line| HEADINGS.contains(&lines.get(line).trim()))?;
        let mut apart = Apart::default();
        let mut end = heading + 1;
        for (number, text) in lines.range(heading + 1..lines.count() + 1) {
            let text = text.trim();
            if text.is_empty() || text.starts_with("```") {
                break;
            }
            if !text.starts_with("per second") && !apart.row(text) {
                apart.remarks.push(text.to_owned());
            }
            end = number + 1;
        }
        Some((apart, end))
    }

    /// Takes a row of the table; `false` if the line is not a row.
    fn row(&mut self, text: &str) -> bool {
        if let Some(times) = text.strip_prefix("since due").and_then(times) {
            // Response latency is used for kinds whose events had a due time.
            if let Some((_, row)) = self.kinds.last_mut() {
                *row = times;
            }
            return true;
        }
        let Some((name, rest)) = text.split_once(char::is_whitespace) else {
            return false;
        };
        let kind = KINDS.into_iter().find(|kind| *kind == name);
        let rest = rest.trim_start().split_once(char::is_whitespace);
        match (kind, rest.and_then(|(_, rest)| times(rest))) {
            (Some(kind), Some(times)) => {
                self.kinds.push((kind, times));
                true
            }
            _ => false,
        }
    }

    /// Adds its figures, which have three digits, and its remarks.
    pub(super) fn fill(&self, trial: &mut ImportedTrial) {
        for (kind, times) in &self.kinds {
            for (column, ms) in COLUMNS.iter().zip(times) {
                if *ms > 0.0 {
                    trial.figures.push(Figure {
                        metric: Metric::time(format!("{kind}.{column}")),
                        value: (ms * 1e6).round(),
                        derived: None,
                    });
                }
            }
        }
        trial.remarks.extend(self.remarks.iter().cloned());
    }
}

/// Parses five times.
fn times(text: &str) -> Option<[f64; 5]> {
    let words: Option<Vec<f64>> = text.split_whitespace().map(number).collect();
    words?.try_into().ok()
}
