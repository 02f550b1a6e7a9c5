//! Times of requests at block devices, from the kernel's histograms.

use std::collections::BTreeMap;

use iodyno_model::SeriesUnit::{Nanos, PerSecond};
use iodyno_model::{
    BLOCK_BINS, DeviceTimes, Direction, FigureColumn, SeriesKind, SeriesUnit, StageTimes,
    Telemetry, Trial, Workload, block_bin_from,
};

use super::view::over;
use super::{Drawn, FigureRow, View, measured};
use crate::summary;

/// The percentiles of the figures, with their names.
const PERCENTILES: [(&str, f64); 3] = [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9)];

/// Times of requests: their number, their sum, and how many were in each bin.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BlockTimes {
    sum_ns: u64,
    bins: [u64; BLOCK_BINS],
}

impl BlockTimes {
    /// None yet.
    fn none() -> BlockTimes {
        BlockTimes {
            sum_ns: 0,
            bins: [0; BLOCK_BINS],
        }
    }

    /// Adds those of a sample.
    fn add(&mut self, view: &View) {
        let mut values = view.values().map(|(_, value)| value.unwrap_or(0));
        self.sum_ns = self.sum_ns.saturating_add(values.next().unwrap_or(0));
        for (bin, count) in self.bins.iter_mut().zip(values) {
            *bin = bin.saturating_add(count);
        }
    }

    /// Their mean and percentiles; `None` without requests.
    fn times(&self) -> Option<StageTimes> {
        Some(StageTimes {
            mean_ns: self.mean_ns()?,
            p50_ns: self.percentile_ns(50.0)?,
            p99_ns: self.percentile_ns(99.0)?,
            p999_ns: self.percentile_ns(99.9)?,
        })
    }

    /// The number of requests.
    fn requests(&self) -> u64 {
        super::sum(self.bins)
    }

    /// The exact mean, ns; `None` without requests.
    fn mean_ns(&self) -> Option<f64> {
        over(self.sum_ns as f64, self.requests() as f64)
    }

    /// The time, ns, that this percentage of requests does not exceed: interpolated in its bin, which is at most a
    /// quarter wide. `None` without requests.
    fn percentile_ns(&self, percent: f64) -> Option<f64> {
        let rank = over(percent / 100.0 * self.requests() as f64, 1.0)?;
        let mut before = 0.0;
        for (bin, count) in self.bins.iter().enumerate() {
            let count = *count as f64;
            if count > 0.0 && before + count >= rank {
                let (from, to) = (block_bin_from(bin), block_bin_from(bin + 1));
                let share = ((rank - before) / count).clamp(0.0, 1.0);
                return Some(from as f64 + share * (to - from) as f64);
            }
            before += count;
        }
        None
    }
}

/// The times of requests at the devices of a trial of one node, in the measured time, by device and direction. `None`:
/// they were not traced.
pub fn device_times(workload: &Workload, trial: &Trial) -> Option<Vec<DeviceTimes>> {
    let telemetry = measured(trial);
    let mut span_ns: u64 = 0;
    let mut stages: BTreeMap<&str, BlockTimes> = BTreeMap::new();
    for (shape, sample) in telemetry.of(SeriesKind::Block) {
        span_ns = span_ns.saturating_add(sample.span_ns);
        for view in View::of(shape, sample) {
            let stage = stages
                .entry(view.subject())
                .or_insert_with(BlockTimes::none);
            stage.add(&view);
        }
    }
    let traced = trial.telemetry.kinds().contains(&SeriesKind::Block);
    let part = trial.parts.first()?;
    let rows = summary::node_rows(workload, part);
    let measured_ns = part.measured_until_ns().zip(part.measured_from_ns());
    let measured_ns = measured_ns.map_or(0, |(until, from)| until.saturating_sub(from));
    let of = |subject: &str, service: &BlockTimes| {
        let (device, direction) = subject.strip_suffix(" device")?.rsplit_once(' ')?;
        let jobs = match direction {
            "read" => Some(Direction::Read),
            "write" => Some(Direction::Write),
            "discard" => Some(Direction::Trim),
            _ => None,
        };
        let row = rows.iter().find(|row| Some(row.result.direction) == jobs);
        let row = row.map(|row| &row.result);
        let requests = service.requests();
        let rate = over(requests as f64, span_ns as f64);
        let ops = row.and_then(|row| over(row.ops as f64, measured_ns as f64));
        let queue = stages.get(format!("{device} {direction} queue").as_str());
        Some(DeviceTimes {
            device: device.to_owned(),
            direction: direction.to_owned(),
            requests,
            requests_per_op: rate.zip(ops).and_then(|(rate, ops)| over(rate, ops)),
            op_ns: row
                .filter(|row| !row.service.is_empty())
                .map(|row| row.service.mean_ns()),
            queue: queue.and_then(BlockTimes::times).unwrap_or_default(),
            service: service.times()?,
        })
    };
    let times = stages
        .iter()
        .filter_map(|(subject, stage)| of(subject, stage));
    traced.then(|| times.collect())
}

/// A row for each device, direction and stage with requests in a sample.
pub(super) fn drawn(series: &Telemetry) -> Drawn {
    let column = |name: &str, unit: SeriesUnit| FigureColumn {
        name: name.to_owned(),
        unit,
    };
    let mut columns = vec![column("requests/s", PerSecond), column("mean", Nanos)];
    columns.extend(PERCENTILES.map(|(name, _)| column(name, Nanos)));
    let mut rows = Vec::new();
    for (shape, sample) in series.of(SeriesKind::Block) {
        for view in View::of(shape, sample) {
            let mut times = BlockTimes::none();
            times.add(&view);
            let requests = times.requests();
            if requests == 0 {
                continue;
            }
            let each_second = over(requests as f64 * 1e9, view.span_ns() as f64);
            let percentiles = PERCENTILES.map(|(_, percent)| times.percentile_ns(percent));
            rows.push(FigureRow {
                at_ns: view.at_ns(),
                span_ns: view.span_ns(),
                subject: view.subject().to_owned(),
                values: [each_second, times.mean_ns()]
                    .into_iter()
                    .chain(percentiles)
                    .collect(),
            });
        }
    }
    (columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, telemetry::recording};

    #[test]
    fn an_op_that_is_one_request_is_split_and_others_are_not() {
        let reads = testing::direction(Direction::Read, 20_000, 80_000);
        let writes = testing::direction(Direction::Write, 20_000, 80_000);
        let (read_ns, workload) = (
            reads.service.mean_ns(),
            testing::workload("w", vec![testing::job("j")]),
        );
        let mut trial = testing::trial(vec![testing::part(vec![testing::clone(
            0,
            0,
            vec![reads, writes],
        )])]);
        assert_eq!(device_times(&workload, &trial), None, "not traced");
        let second = |_| {
            vec![
                ("vda read queue", vec![("sum", 1_000_000), ("1024", 1000)]),
                (
                    "vda read device",
                    vec![("sum", 60_000_000), ("57344", 1000)],
                ),
                ("vda write queue", vec![("sum", 3_000_000), ("1024", 3000)]),
                (
                    "vda write device",
                    vec![("sum", 90_000_000), ("28672", 3000)],
                ),
                ("vda flush queue", vec![]),
                ("vda flush device", vec![]),
            ]
        };
        trial.telemetry = recording().seconds(SeriesKind::Block, 20, second).done();
        let times = device_times(&workload, &trial).unwrap();
        let [read, write] = times.as_slice() else {
            panic!("{times:?}");
        };
        assert_eq!(
            (read.device.as_str(), read.direction.as_str()),
            ("vda", "read")
        );
        assert_eq!((read.requests, write.requests), (20_000, 60_000));
        assert!(
            (read.requests_per_op.unwrap() - 1.0).abs() < 0.01,
            "{read:?}"
        );
        assert_eq!(
            (read.queue.mean_ns, read.service.mean_ns),
            (1000.0, 60_000.0)
        );
        assert_eq!(read.above_ns(), Some(read_ns - 61_000.0));
        assert!(
            (write.requests_per_op.unwrap() - 3.0).abs() < 0.03,
            "{write:?}"
        );
        assert_eq!(write.above_ns(), None);
    }

    #[test]
    fn percentiles_are_within_the_bin_of_their_rank() {
        let mut times = BlockTimes::none();
        assert_eq!(times.percentile_ns(50.0), None);
        assert_eq!(times.mean_ns(), None);
        // 90 requests of 1024–1280 ns, 10 of 1–1.25 ms.
        times.bins[36] = 90;
        times.bins[76] = 10;
        times.sum_ns = 90 * 1100 + 10 * 1_100_000;
        assert_eq!(block_bin_from(36), 1024);
        assert_eq!(block_bin_from(76), 1 << 20);
        assert_eq!(times.requests(), 100);
        assert_eq!(times.mean_ns(), Some(110_990.0));
        let p50 = times.percentile_ns(50.0).unwrap();
        assert!((1024.0..=1280.0).contains(&p50), "{p50}");
        let p99 = times.percentile_ns(99.0).unwrap();
        assert!((1_048_576.0..=1_310_720.0).contains(&p99), "{p99}");
    }
}
