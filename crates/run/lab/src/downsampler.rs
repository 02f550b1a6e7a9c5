//! Keeps the telemetry of a trial for the judge, in memory that does not grow with the length of the trial.
//!
//! The store has every sample. Here a long series is downsampled repeatedly to steps of twice the length: counts are
//! added, and gauges are averaged.

use std::collections::BTreeMap;

use iodyno_model::{Sample, SeriesGap, SeriesKind, SeriesShape, Telemetry};

/// Maximum number of samples of a series: steps are 1 s in a trial of half an hour, and 16 or 32 s in one of ten
/// hours.
const MAX_SAMPLES: usize = 2048;

/// Maximum number of values of a series, 64 MiB. Only the interrupts of a host with many CPUs reach it.
const MAX_VALUES: usize = 1 << 22;

/// Maximum number of gaps of a trial, over all series. Each gap is reported once, so a larger number indicates a
/// fault of the host.
const MAX_GAPS: usize = 1024;

/// The telemetry of one trial.
#[derive(Debug)]
pub(crate) struct Downsampler {
    /// Time between samples as they are taken, ns.
    every_ns: u64,
    /// By node and kind.
    series: BTreeMap<(String, SeriesKind), Series>,
    /// The series of each shape.
    kinds: BTreeMap<u32, (String, SeriesKind)>,
    gaps: Vec<SeriesGap>,
}

/// The samples of one series.
#[derive(Debug, Default)]
struct Series {
    telemetry: Telemetry,
    values: usize,
    /// Time between samples, ns; 0: as they were taken.
    step_ns: u64,
    /// Its shape changes so often that downsampling is not effective: no more samples are added.
    full: bool,
}

impl Downsampler {
    pub(crate) fn new(every_ns: u64) -> Downsampler {
        Downsampler {
            every_ns: every_ns.max(1),
            series: BTreeMap::new(),
            kinds: BTreeMap::new(),
            gaps: Vec::new(),
        }
    }

    /// Adds a batch that follows the previous ones.
    pub(crate) fn add(&mut self, batch: &Telemetry) {
        for shape in &batch.shapes {
            let of = (shape.node.clone(), shape.kind);
            let series = self.series.entry(of.clone()).or_default();
            if !series.full {
                self.kinds.insert(shape.number, of);
                series.telemetry.shapes.push(shape.clone());
            }
        }
        for sample in &batch.samples {
            let Some((of, series)) =
                (self.kinds.get(&sample.shape)).and_then(|of| Some((of, self.series.get_mut(of)?)))
            else {
                continue;
            };
            if let Some(gap) = series.add(sample, of.1, self.every_ns) {
                let node = of.0.clone();
                self.gaps.push(SeriesGap { node, ..gap });
            }
        }
        let room = MAX_GAPS.saturating_sub(self.gaps.len());
        self.gaps.extend(batch.gaps.iter().take(room).cloned());
    }

    /// Returns the telemetry in the order of shapes and of time.
    pub(crate) fn take(&mut self) -> Telemetry {
        let mut all = Telemetry {
            gaps: std::mem::take(&mut self.gaps),
            ..Telemetry::default()
        };
        for series in std::mem::take(&mut self.series).into_values() {
            all.extend(series.telemetry);
        }
        all.shapes.sort_by_key(|shape: &SeriesShape| shape.number);
        all.samples
            .sort_by_key(|sample| (sample.at_ns, sample.shape));
        all
    }
}

impl Series {
    /// Adds a sample; returns a gap if it is the first one that is omitted.
    fn add(&mut self, sample: &Sample, kind: SeriesKind, every_ns: u64) -> Option<SeriesGap> {
        if self.full {
            return None;
        }
        self.values += sample.values.len();
        self.telemetry.samples.push(sample.clone());
        if !self.is_long() {
            return None;
        }
        // Samples that were added since the last downsampling.
        self.downsample(self.step_ns.max(every_ns.saturating_mul(2)));
        if self.is_hardly_shorter() {
            self.downsample(self.step_ns.saturating_mul(2));
        }
        // Its samples have different shapes, so downsampling again would not help.
        self.full = self.is_hardly_shorter();
        self.full.then(|| SeriesGap {
node: String::new(),
            kind,
            at_ns: sample.at_ns,
            reason: format!(
                "the {} changed what they are of in almost every sample: findings look at those before",
                kind.name()
            ),
        })
    }

    fn downsample(&mut self, step_ns: u64) {
        self.step_ns = step_ns;
        self.telemetry = self.telemetry.thinned(step_ns);
        let samples = self.telemetry.samples.iter();
        self.values = samples.map(|sample| sample.values.len()).sum();
    }

    fn is_hardly_shorter(&self) -> bool {
        self.telemetry.samples.len() > MAX_SAMPLES / 4 * 3 || self.values > MAX_VALUES / 4 * 3
    }

    fn is_long(&self) -> bool {
        self.telemetry.samples.len() > MAX_SAMPLES || self.values > MAX_VALUES
    }
}

#[cfg(test)]
mod tests {
    use iodyno_judge::testing::telemetry::{Recording, SECOND, recording};

    use super::*;

    /// A series of two disks; one of them reads 3 times per second with 5 in flight.
    fn disks(seconds: u32) -> Telemetry {
        let rows = |_| {
            vec![
                ("vda", vec![("reads", 3), ("in_flight", 5)]),
                ("vdb", Vec::new()),
            ]
        };
        recording().seconds(SeriesKind::Disk, seconds, rows).done()
    }

    /// Adds batches as a node sends them: one second each, shapes with their first sample.
    fn downsampled(all: &Telemetry) -> Telemetry {
        let mut downsampler = Downsampler::new(SECOND);
        let mut shapes = all.shapes.iter().peekable();
        for sample in &all.samples {
            let mut batch = Telemetry {
                samples: vec![sample.clone()],
                ..Telemetry::default()
            };
            while let Some(shape) = shapes.next_if(|shape| shape.number <= sample.shape) {
                batch.shapes.push(shape.clone());
            }
            downsampler.add(&batch);
        }
        downsampler.take()
    }

    #[test]
    fn a_short_trial_keeps_every_sample() {
        let all = disks(MAX_SAMPLES as u32);
        assert_eq!(downsampled(&all), all);
    }

    #[test]
    fn ten_hours_take_no_more_memory_than_one_and_keep_all_counts() {
        for seconds in [MAX_SAMPLES as u32 + 1, 3600, 36_000] {
            let coarse = downsampled(&disks(seconds));
            let kept = coarse.samples.len();
            assert!((MAX_SAMPLES / 2..=MAX_SAMPLES).contains(&kept), "{kept}");
            let reads: u64 = coarse
                .samples
                .iter()
                .map(|sample| sample.values[0].unwrap())
                .sum();
            assert_eq!(reads, 3 * u64::from(seconds));
            let span: u64 = coarse.samples.iter().map(|sample| sample.span_ns).sum();
            assert_eq!(span, u64::from(seconds) * SECOND);
            let in_flight = coarse.shapes[0].column("in_flight").unwrap();
            assert!(
                coarse
                    .samples
                    .iter()
                    .all(|sample| sample.values[in_flight] == Some(5))
            );
            assert!(coarse.samples.is_sorted_by_key(|sample| sample.at_ns));
        }
    }

    #[test]
    fn a_long_series_does_not_downsample_a_short_one() {
        let mut all = disks(3000);
        let reclaim = |_| vec![("", vec![("stalls", 1)])];
        let other = recording().seconds(SeriesKind::Reclaim, 10, reclaim).done();
        all.shapes.extend(
            other
                .shapes
                .into_iter()
                .map(|shape| SeriesShape { number: 1, ..shape }),
        );
        all.samples.extend(
            other
                .samples
                .into_iter()
                .map(|sample| Sample { shape: 1, ..sample }),
        );
        all.samples
            .sort_by_key(|sample| (sample.at_ns, sample.shape));
        let coarse = downsampled(&all);
        assert_eq!(coarse.of(SeriesKind::Reclaim).count(), 10);
        assert!(coarse.of(SeriesKind::Disk).count() <= MAX_SAMPLES);
    }

    #[test]
    fn the_values_of_a_host_of_many_cpus_are_bounded() {
        let mut all = disks(90);
        for sample in &mut all.samples {
            sample.values.resize(100_000, Some(0));
        }
        let coarse = downsampled(&all);
        let values: usize = coarse
            .samples
            .iter()
            .map(|sample| sample.values.len())
            .sum();
        assert!((MAX_VALUES / 3..=MAX_VALUES).contains(&values), "{values}");
    }

    #[test]
    fn a_series_whose_shape_always_changes_is_truncated_with_a_gap() {
        let mut series = Recording::default();
        for second in 0..2600 {
            let rows = |_| vec![("rsync[99]", vec![("read_bytes", 1)])];
            series = series.seconds_from(second, SeriesKind::Others, 1, rows);
        }
        let coarse = downsampled(&series.done());
        assert!(coarse.samples.len() <= MAX_SAMPLES + 1);
        assert!(coarse.shapes.len() <= MAX_SAMPLES + 1);
        let [gap] = &coarse.gaps[..] else {
            panic!("{:?}", coarse.gaps);
        };
        assert!(gap.reason.contains("others"), "{}", gap.reason);
        assert_eq!(gap.at_ns, coarse.samples.last().unwrap().at_ns);
    }

    #[test]
    fn gaps_are_kept_up_to_a_bound() {
        let gap = SeriesGap {
            node: String::new(),
            kind: SeriesKind::Pool,
            at_ns: 0,
            reason: "tank has gone".to_owned(),
        };
        let batch = Telemetry {
            gaps: vec![gap; 100],
            ..Telemetry::default()
        };
        let mut downsampler = Downsampler::new(SECOND);
        (0..20).for_each(|_| downsampler.add(&batch));
        assert_eq!(downsampler.take().gaps.len(), MAX_GAPS);
    }
}
