//! The table that closes an experiment.

use serde::{Deserialize, Serialize};

/// The unit of bandwidths in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BandwidthUnit {
    /// KiB/s, MiB/s or GiB/s, as the size requires.
    #[default]
    Scaled,
    /// MB/s: 10⁶ bytes per second.
    Decimal,
    /// MiB/s: 2²⁰ bytes per second.
    Binary,
}

/// A comparison in the layout of a published table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClosingTable {
    /// Its title; empty: that of the comparison.
    pub title: String,
    /// Dimensions that define the rows; empty: those of the run's question.
    pub rows: Vec<String>,
    /// The compared dimension, then the dimensions that are printed below each of its values; empty: as the question.
    pub columns: Vec<String>,
    /// Names of metrics: the first decides, the others are exploratory; empty: those of the question.
    pub metrics: Vec<String>,
    /// The unit of bandwidths.
    pub unit: BandwidthUnit,
    /// Decimal places of the values; `None`: significant digits.
    pub digits: Option<u32>,
    /// Whether the distance of each column from the best one of each cell follows it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub regret: bool,
}

impl ClosingTable {
    /// The names of the layouts of published write-ups, for any runs that have their dimensions.
    pub const LAYOUTS: [&'static str; 5] =
        ["seed-000", "seed-001", "seed-002", "seed-003", "seed-004"];

    /// The layout of a published write-up; `None` for another name.
    pub fn published(name: &str) -> Option<ClosingTable> {
        let (rows, columns, metrics, unit): (&[&str], &[&str], &[&str], BandwidthUnit) = match name
        {
            // sysbench fileio: modes by the number of threads.
            "seed-000" => (
                &["mode"],
                &["threads"],
                &["iops", "p95"],
                BandwidthUnit::Scaled,
            ),
            // Mirrors of a pool: MB/s and IO/s, below each version by access and block size.
            "seed-001" => (
                &["layout"],
                &["configuration", "rw", "bs"],
                &["bandwidth", "iops"],
                BandwidthUnit::Decimal,
            ),
            // Backings of a guest's disk: the bandwidth of each, by block size and cache.
            "seed-002" => (
                &["bs", "direct"],
                &["configuration"],
                &["bandwidth"],
                BandwidthUnit::Binary,
            ),
            // File operations: ops per second of each file system.
            "seed-003" => (
                &["workload"],
                &["configuration"],
                &[],
                BandwidthUnit::Scaled,
            ),
            // fio jobs on mounts: bandwidth and IOPS.
            "seed-004" => (
                &["workload"],
                &["configuration"],
                &["bandwidth", "iops"],
                BandwidthUnit::Binary,
            ),
            _ => return None,
        };
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Some(ClosingTable {
            title: String::new(),
            rows: texts(rows),
            columns: texts(columns),
            metrics: texts(metrics),
            unit,
            digits: None,
            regret: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_published_layout_has_rows_and_columns() {
        for name in ClosingTable::LAYOUTS {
            let table = ClosingTable::published(name).unwrap();
            assert!(
                !table.rows.is_empty() && !table.columns.is_empty(),
                "{name}"
            );
        }
        assert_eq!(ClosingTable::published("seed-005"), None);
    }
}
