//! Searches for the highest load that keeps a bound.

use iodyno_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::named::named;

use crate::{Direction, Job, Work};

/// A search: each trial of a workload has another load, chosen by the results of the trials before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// What is varied.
    pub axis: SearchAxis,
    /// What the load has to keep.
    pub until: Bound,
}

named! {
    /// The load that a search varies, by the names of fio's options.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum SearchAxis in ALL {
        /// Requested ops per second of each clone, in each direction that it uses.
        Rate = "rate_iops",
        /// Ops in flight of each clone.
        Depth = "iodepth",
        /// Number of clones of each job.
        Clones = "numjobs",
    }
}

/// A bound that a metric of a trial keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The metric: `read.p99`, or `p99` for that of every direction.
    pub metric: String,
    /// Whether values below the limit keep it; otherwise values above it.
    pub below: bool,
    /// The limit in the metric's unit: ns for times.
    pub limit: f64,
}

impl Bound {
    /// Reads `p99 < 2ms`, `read.mean <= 500us`, `iops > 10k`.
    ///
    /// # Errors
    /// What is wrong, in one sentence.
    pub fn parse(text: &str) -> Result<Bound, String> {
        let wrong = || format!("`{text}` is not a bound: write `p99 < 2ms` or `iops > 10000`");
        let at = text.find(['<', '>']).ok_or_else(wrong)?;
        let (metric, rest) = text.split_at(at);
        let below = rest.starts_with('<');
        let limit = rest[1..].trim_start_matches('=').trim();
        let metric = metric.trim();
        if metric.is_empty() || metric.contains(char::is_whitespace) {
            return Err(wrong());
        }
        let rate = ["iops", "bandwidth"]
            .iter()
            .any(|rate| metric.ends_with(rate));
        let value = match rate {
            true => number(limit),
            false => limit.parse::<Nanos>().ok().map(|time| time.0 as f64),
        };
        let limit = value.filter(|value| *value > 0.0).ok_or_else(|| {
            let expected = match rate {
                true => "a number, such as `10000` or `10k`",
                false => "a time with its unit, such as `2ms`",
            };
            format!("`{limit}` is not a limit of {metric}: write {expected}")
        })?;
        Ok(Bound {
            metric: metric.to_owned(),
            below,
            limit,
        })
    }

    /// The percentile that its metric is: 99 for `p99` and `read.p99`.
    pub fn percentile(&self) -> Option<f64> {
        let (_, figure) = self.metric.split_once('.').unwrap_or(("", &self.metric));
        let figure = match figure.starts_with('p') {
            true => figure,
            false => &self.metric,
        };
        figure.strip_prefix('p')?.parse().ok()
    }

    /// Whether a value keeps it.
    pub fn keeps(&self, value: f64) -> bool {
        match self.below {
            true => value <= self.limit,
            false => value >= self.limit,
        }
    }
}

/// A number, with `k`, `m` or `g` for powers of 1000.
fn number(text: &str) -> Option<f64> {
    let suffixes = [("k", 1e3), ("m", 1e6), ("g", 1e9), ("", 1.0)];
    let lower = text.to_ascii_lowercase();
    let (digits, factor) = suffixes
        .iter()
        .find_map(|(suffix, factor)| Some((lower.strip_suffix(suffix)?, factor)))?;
    let value = digits.trim().parse::<f64>().ok()? * factor;
    value.is_finite().then_some(value)
}

impl Search {
    /// The largest depth and number of clones.
    pub const LARGEST: f64 = 1024.0;
    /// The largest number of trials of a search in a cell.
    pub const MAX_TRIALS: u32 = 60;
    /// A percentile is withheld if fewer ops of a trial lie beyond it.
    pub const OPS_BEYOND: u32 = 10;

    /// The number of ops that a trial needs for the bounded metric; `None` if it is not a percentile.
    pub fn ops_needed(&self) -> Option<u64> {
        let (_, figure) = self.until.metric.rsplit_once('.').unwrap_or_default();
        let figure = match figure {
            // `p99.9` has a dot of its own.
            _ if self.until.metric.starts_with('p') => self.until.metric.as_str(),
            _ => self
                .until
                .metric
                .find(".p")
                .map_or(figure, |at| &self.until.metric[at + 1..]),
        };
        let percent: f64 = figure.strip_prefix('p')?.parse().ok()?;
        let beyond = 1.0 - percent / 100.0;
        (beyond > 0.0).then(|| (f64::from(Search::OPS_BEYOND) / beyond).round() as u64)
    }

    /// Sets the load of a job, rounded to a value that the axis can have. A rate of 0 is none.
    pub(crate) fn set(&self, job: &mut Job, load: f64) {
        let whole = load.round().max(1.0).min(f64::from(u32::MAX)) as u32;
        match (self.axis, &mut job.work) {
            (SearchAxis::Clones, _) => job.clones = whole,
            (SearchAxis::Depth, Work::Blocks(blocks)) => blocks.engine.depth = whole,
            (SearchAxis::Depth, _) => {}
            (SearchAxis::Rate, Work::Blocks(_)) => {
                let moves = job.work.moves();
                let rates = &mut job.pacing.rates;
                for (direction, rate) in [
                    (Direction::Read, &mut rates.read),
                    (Direction::Write, &mut rates.write),
                    (Direction::Trim, &mut rates.trim),
                ] {
                    if moves.contains(&direction) {
                        rate.bytes_per_s = 0;
                        rate.iops = load;
                    }
                }
            }
            (SearchAxis::Rate, _) => job.pacing.ops_per_s = load,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;

    #[test]
    fn a_percentile_needs_ten_ops_beyond_it() {
        for (until, ops) in [
            ("p99 < 2ms", Some(1_000)),
            ("read.p99 < 2ms", Some(1_000)),
            ("p99.9 < 2ms", Some(10_000)),
            ("write.p99.99 < 2ms", Some(100_000)),
            ("p50 < 2ms", Some(20)),
            ("mean < 2ms", None),
            ("read.mean < 2ms", None),
            ("iops > 10k", None),
        ] {
            let search = Search {
                axis: SearchAxis::Rate,
                until: Bound::parse(until).unwrap(),
            };
            assert_eq!(search.ops_needed(), ops, "{until}");
        }
    }

    #[test]
    fn a_bound_has_a_metric_a_sign_and_a_limit() {
        let bound = |metric: &str, below, limit| {
            Ok(Bound {
                metric: metric.to_owned(),
                below,
                limit,
            })
        };
        for (text, expected) in [
            ("p99 < 2ms", bound("p99", true, 2e6)),
            ("read.p99.9<=500us", bound("read.p99.9", true, 5e5)),
            ("iops > 10k", bound("iops", false, 1e4)),
            ("op.mean < 1.5s", bound("op.mean", true, 1.5e9)),
        ] {
            assert_eq!(Bound::parse(text), expected, "{text}");
        }
        for text in [
            "",
            "p99",
            "< 2ms",
            "p99 < ",
            "p99 < fast",
            "p99 < 2",
            "p99 < 0s",
            "iops > 2ms",
            "iops > -2",
            "a b < 2ms",
        ] {
            assert!(Bound::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_percentile_of_a_bound_is_known() {
        for (text, expected) in [
            ("p98 < 2ms", Some(98.0)),
            ("p99.9 < 2ms", Some(99.9)),
            ("read.p99.9 < 2ms", Some(99.9)),
            ("op.mean < 2ms", None),
            ("iops > 3", None),
        ] {
            assert_eq!(Bound::parse(text).unwrap().percentile(), expected, "{text}");
        }
    }

    #[test]
    fn a_bound_is_kept_on_one_side_of_its_limit() {
        let below = Bound::parse("p99 < 2ms").unwrap();
        assert!(below.keeps(2e6) && !below.keeps(2.1e6));
        let above = Bound::parse("iops > 100").unwrap();
        assert!(above.keeps(100.0) && !above.keeps(99.0));
    }

    #[test]
    fn each_axis_is_set_in_every_job() {
        for axis in SearchAxis::ALL {
            let name = axis.name();
            assert_eq!((axis.name(), SearchAxis::named(name)), (name, Some(axis)));
            let mut workload = Workload::new("w", Vec::new(), vec![Job::default(); 2]);
            assert_eq!(*workload.at(Some(7.4)), workload);
            workload.search = Some(Search {
                axis,
                until: Bound::parse("p99 < 2ms").unwrap(),
            });
            assert_eq!(*workload.at(None), workload);
            for job in &workload.at(Some(7.4)).jobs {
                let found = match axis {
                    SearchAxis::Rate => job.pacing.rates.read.iops,
                    SearchAxis::Depth => f64::from(job.work.blocks().unwrap().engine.depth),
                    SearchAxis::Clones => f64::from(job.clones),
                };
                let expected = match axis {
                    SearchAxis::Rate => 7.4,
                    _ => 7.0,
                };
                assert_eq!(found, expected, "{name}");
            }
        }
    }
}
