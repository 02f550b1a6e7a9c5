//! The lines of a table of file operations: heads, rows, closing lines.

use crate::number::{number, seconds};

/// A value with more decimals than this counts as exact.
const MAX_DECIMALS: usize = 12;

/// The kind of a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Line {
    /// The head of the rows of single seconds.
    SeriesHead(Vec<String>),
    /// The head of the single row at the end.
    ClosingHead(Vec<String>),
    /// `Running benchmark: NAME`.
    Running(String),
    /// `Description: …`.
    Description(String),
    /// `fsbench/NAME N X ops/sec`.
    Named(Named),
    /// `Benchmarkfsbench/NAME N X ops/sec …` with further figures after the rate.
    Full(Named),
    /// Any other line.
    Other,
}

/// The closing line of a benchmark.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Named {
    /// Its full name, without `fsbench/`.
    pub(super) name: String,
    /// Total ops.
    pub(super) ops: f64,
    /// Ops per second.
    pub(super) rate: f64,
    /// It has the form of a Go benchmark, with `Benchmark` in front.
    pub(super) prefixed: bool,
}

/// A row of a table: the truncated name, and one value per column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) optype: String,
    /// Seconds.
    pub(super) elapsed: f64,
    /// By the name of the column; columns with a dash are left out.
    values: Vec<(String, Printed)>,
}

impl Row {
    /// The value of a column: `ops/sec(cum)`.
    pub(super) fn get(&self, column: &str) -> Option<f64> {
        self.printed(column).map(|printed| printed.value)
    }

    /// The same value with its number of decimals.
    pub(super) fn printed(&self, column: &str) -> Option<Printed> {
        let mut values = self.values.iter();
        values
            .find(|(name, _)| name == column)
            .map(|&(_, printed)| printed)
    }
}

/// A number as printed in a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Printed {
    pub(super) value: f64,
    /// The number of decimals.
    pub(super) decimals: usize,
}

impl Printed {
    fn read(word: &str) -> Option<Printed> {
        let decimals = word.split_once('.').map_or(0, |(_, digits)| digits.len());
        // Further digits add no precision.
        let decimals = decimals.min(MAX_DECIMALS);
        number(word).map(|value| Printed { value, decimals })
    }

    /// The value of one unit of the last digit.
    pub(super) fn step(&self) -> f64 {
        1.0 / 10f64.powi(self.decimals as i32)
    }

    /// The largest rounding error.
    pub(super) fn rounding(&self) -> f64 {
        0.5 / 10f64.powi(self.decimals as i32)
    }

    /// The largest rounding error as a share of the value, which must be above zero.
    pub(super) fn unsure(&self) -> f64 {
        self.rounding() / self.value
    }
}

/// Classifies a line without its context.
pub(super) fn line(text: &str) -> Line {
    let text = text.trim();
    if let Some(columns) = head(text) {
        return if columns.iter().any(|column| column == "ops(total)") {
            Line::ClosingHead(columns)
        } else {
            Line::SeriesHead(columns)
        };
    }
    if let Some(name) = text.strip_prefix("Running benchmark:") {
        return Line::Running(name.trim().to_owned());
    }
    if let Some(words) = text.strip_prefix("Description:") {
        return Line::Description(words.trim().to_owned());
    }
    full(text).map_or_else(|| named(text).map_or(Line::Other, Line::Named), Line::Full)
}

/// The columns of a head: words separated and padded by underscores.
fn head(text: &str) -> Option<Vec<String>> {
    if !text.starts_with("__") || !text.contains("optype") {
        return None;
    }
    let columns: Vec<String> = text
        .split('_')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    (columns.len() > 2 && columns[0] == "optype" && columns[1] == "elapsed").then_some(columns)
}

/// Parses a row under a head; `None` if it does not fit.
pub(super) fn row(text: &str, columns: &[String]) -> Option<Row> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.len() != columns.len() || words.len() < 3 {
        return None;
    }
    // A second without ops has no latencies.
    let values = columns[2..].iter().zip(&words[2..]);
    let values = values
        .filter(|(_, word)| **word != "-")
        .map(|(column, word)| Some((column.clone(), Printed::read(word)?)))
        .collect::<Option<_>>()?;
    Some(Row {
        optype: words[0].to_owned(),
        elapsed: seconds(words[1])?,
        values,
    })
}

/// A benchmark line with more figures than the rate. Parameters in its name are left out.
fn full(text: &str) -> Option<Named> {
    let rest = text.strip_prefix("Benchmarkfsbench/")?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let [name, ops, rate, "ops/sec", _, _, ..] = words[..] else {
        return None;
    };
    let (name, _) = name.split_once('/').unwrap_or((name, ""));
    Some(Named {
        name: name.to_owned(),
        ops: number(ops)?,
        rate: number(rate)?,
        prefixed: true,
    })
}

fn named(text: &str) -> Option<Named> {
    let (prefixed, rest) = match text.strip_prefix("Benchmark") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let words: Vec<&str> = rest.strip_prefix("fsbench/")?.split_whitespace().collect();
    let [name, ops, rate, "ops/sec"] = words[..] else {
        return None;
    };
    // A name with parameters is a complete benchmark line, which another reader takes.
    if name.contains(['/', '=']) {
        return None;
    }
    Some(Named {
        name: name.to_owned(),
        ops: number(ops)?,
        rate: number(rate)?,
        prefixed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_heads_and_closing_lines_from_other_lines() {
        let series = "____optype__elapsed__ops/sec(inst)___ops/sec(cum)__p50(ms)_pMax(ms)";
        let closing = "____optype__elapsed_____ops(total)___ops/sec(cum)__avg(ms)";
        assert!(matches!(line(series), Line::SeriesHead(columns) if columns.len() == 6));
        assert!(matches!(line(closing), Line::ClosingHead(columns) if columns.len() == 5));
        for (text, name, prefixed) in [
            ("fsbench/a_b  10 5.5 ops/sec", "a_b", false),
            ("  Benchmarkfsbench/a_b 10 5.5 ops/sec", "a_b", true),
        ] {
            let expected = Named {
                name: name.to_owned(),
                ops: 10.0,
                rate: 5.5,
                prefixed,
            };
            assert_eq!(line(text), Line::Named(expected), "{text}");
        }
        for text in [
            "",
            "fsbench/a_b",
            "fsbench/a_b 10 5.5 ns/op",
            "fsbench/a_b 672 ± 5% 1117 ± 7%",
            "Benchmarkfsbench/a_b/config=x 10 5.5 ops/sec",
            "__optype",
        ] {
            assert_eq!(line(text), Line::Other, "{text}");
        }
    }
}
