//! A sampler with its state between samples.

use std::time::Instant;

use iodyno_model::{Reading, Sample, SamplerCost, SeriesGap, SeriesShape, Telemetry};
use rustix::time::{ClockId, clock_gettime};

use crate::delta::{Growth, growth};
use crate::layout::{Layout, listed};
use crate::sampler::{Read, Readings, Sampler};

/// The sampler of a series with its previous readings, its shape and its failure.
pub(crate) struct Source {
    sampler: Box<dyn Sampler>,
    now: Readings,
    /// The layout of `before`.
    layout: Layout,
    /// The previous readings; meaningless without `since`.
    before: Vec<Option<u64>>,
    /// When `before` was read.
    since: Option<i64>,
    /// The number of the shape that was sent for the layout.
    shape: Option<u32>,
    /// Changes since the last shape was sent, or since counts started.
    changes: Vec<String>,
    has_told: bool,
    /// The reason of the last failure, and whether a gap was sent for it.
    failing: Option<(String, bool)>,
    cost: SamplerCost,
}

impl Source {
    pub(crate) fn new(sampler: Box<dyn Sampler>) -> Source {
        let cost = SamplerCost {
            kind: sampler.kind(),
            samples: 0,
            cpu_ns: 0,
            wall_ns: 0,
            longest_ns: 0,
        };
        Source {
            sampler,
            now: Readings::default(),
            layout: Layout::default(),
            before: Vec::new(),
            since: None,
            shape: None,
            changes: Vec::new(),
            has_told: false,
            failing: None,
            cost,
        }
    }

    /// Reads the start values of counts.
    pub(crate) fn begin(&mut self, now_ns: Option<i64>) {
        self.since = None;
        let mut read = self.sampler.read(&mut self.now);
        // Readings from before the start do not count.
        while let Ok(Read::Earlier(_)) = read {
            read = self.sampler.read(&mut self.now);
        }
        match read {
            Ok(Read::Fresh) => {
                if self.failing.as_ref().is_some_and(|failing| !failing.1) {
                    self.failing = None;
                }
                self.follow();
                self.keep(now_ns);
                if !self.has_told {
                    self.changes.clear();
                }
            }
            Ok(Read::Nothing | Read::Earlier(_)) => {}
            Err(reason) => {
                self.failing.get_or_insert((reason, false));
            }
        }
    }

    /// Takes the available samples. `begun_ns` is when sampling started, `shapes` the number of shapes of all series so
    /// far.
    pub(crate) fn sample(
        &mut self,
        begun_ns: i64,
        now_ns: i64,
        shapes: &mut u32,
        into: &mut Telemetry,
    ) {
        let watch = CostTimer::start();
        loop {
            let read = self.sampler.read(&mut self.now);
            let missed = self.sampler.missed().into_iter();
            into.gaps
                .extend(missed.map(|reason| self.gap(now_ns, reason)));
            match read {
                Ok(Read::Earlier(ns)) => {
                    let at_ns = now_ns.saturating_sub_unsigned(ns);
                    self.fresh(begun_ns, at_ns, shapes, into);
                    continue;
                }
                Ok(Read::Fresh) => self.fresh(begun_ns, now_ns, shapes, into),
                Ok(Read::Nothing) => {}
                Err(reason) => {
                    self.failing.get_or_insert((reason, false));
                }
            }
            break;
        }
        if let Some((reason, reported @ false)) = &mut self.failing {
            *reported = true;
            tracing::debug!(series = self.cost.kind.name(), reason, "cannot sample");
            into.gaps.push(SeriesGap {
                node: String::new(),
                kind: self.cost.kind,
                at_ns: now_ns,
                reason: reason.clone(),
            });
        }
        watch.stop(&mut self.cost);
        self.cost.cpu_ns += self.sampler.background_cpu_ns();
    }

    /// Stops the sampler and returns its cost.
    pub(crate) fn close(mut self) -> SamplerCost {
        self.sampler.close();
        self.cost
    }

    fn fresh(&mut self, begun_ns: i64, now_ns: i64, shapes: &mut u32, into: &mut Telemetry) {
        let now_ns = now_ns.max(self.since.unwrap_or(begun_ns));
        if let Some((_, true)) = self.failing.take() {
            into.gaps
                .push(self.gap(now_ns, "readable again".to_owned()));
        }
        let had_rows = !self.layout.rows.is_empty();
        self.follow();
        if had_rows && self.layout.rows.is_empty() {
            let reason = self.changes.pop().unwrap_or_default();
            into.gaps.push(self.gap(now_ns, reason));
        }
        // Gauges need no previous reading; they are valid from the start.
        let gauges = || {
            let mut columns = self.layout.columns.iter();
            columns.all(|column| column.reading == Reading::Gauge)
        };
        let from = self.since.or_else(|| gauges().then_some(begun_ns));
        let span = from.map_or(0, |from| now_ns.saturating_sub(from));
        if span > 0 && !self.layout.rows.is_empty() {
            let shape = self.shape(now_ns, shapes, into);
            let values = self.values(now_ns, &mut into.gaps);
            into.samples.push(Sample {
                shape,
                at_ns: now_ns,
                span_ns: span.unsigned_abs(),
                values,
            });
        }
        self.keep(Some(now_ns));
    }

    fn gap(&self, at_ns: i64, reason: String) -> SeriesGap {
        SeriesGap {
            node: String::new(),
            kind: self.cost.kind,
            at_ns,
            reason,
        }
    }

    /// Adopts the rows and columns of the new readings: rows that remain keep their counts, and the sampler
    /// determines the start values of new rows.
    fn follow(&mut self) {
        let now = &self.now;
        if self.layout.is_of(&now.rows, &now.columns) {
            return;
        }
        let later = Layout {
            rows: now.rows.clone(),
            columns: now.columns.clone(),
        };
        // The first layout is not a change.
        if self.has_told || !self.layout.rows.is_empty() {
            self.changes.push(self.layout.change_to(&later));
        }
        let before = self.layout.places();
        let values = later.each().map(|(row, column)| {
            let (row, column) = (&later.rows[row], &later.columns[column]);
            let names = (row.name.as_str(), column.name.as_str());
            match before.get(&names) {
                Some(place) => self.before.get(*place).copied().flatten(),
                None => self.sampler.began_at(row, column),
            }
        });
        self.before = values.collect();
        self.layout = later;
        self.shape = None;
    }

    /// The number of the layout's shape, which is sent first if necessary. Changes before the first shape are
    /// reported as a gap.
    fn shape(&mut self, now_ns: i64, shapes: &mut u32, into: &mut Telemetry) -> u32 {
        if let Some(number) = self.shape {
            return number;
        }
        let number = *shapes;
        *shapes += 1;
        let changes = (!self.changes.is_empty()).then(|| self.changes.join("; "));
        self.changes.clear();
        let because = if self.has_told {
            changes
        } else {
            into.gaps
                .extend(changes.map(|reason| self.gap(now_ns, reason)));
            None
        };
        into.shapes.push(SeriesShape {
            node: String::new(),
            kind: self.cost.kind,
            number,
            subjects: self.layout.rows.clone(),
            columns: self.layout.columns.clone(),
            because,
        });
        self.has_told = true;
        self.shape = Some(number);
        number
    }

    /// The values of the sample. A count that restarted has none; one gap names all of these.
    fn values(&mut self, now_ns: i64, gaps: &mut Vec<SeriesGap>) -> Vec<Option<u64>> {
        let Source {
            now,
            layout,
            sampler,
            ..
        } = self;
        let width = layout.columns.len();
        let mut restarts: Vec<usize> = Vec::new();
        let mut values = Vec::with_capacity(layout.rows.len() * width);
        for place in 0..layout.rows.len() * width {
            let value = now.values.get(place).copied().flatten();
            let column = place % width;
            values.push(match layout.columns[column].reading {
                Reading::Gauge => value,
                Reading::Count => self.before[place].zip(value).and_then(|(before, value)| {
                    match growth(before, value, sampler.wraps(column), sampler.slack(column)) {
                        Growth::By(grown) => Some(grown),
                        Growth::WithinSlack => {
                            now.values[place] = Some(before);
                            Some(0)
                        }
                        Growth::Restarted => {
                            restarts.push(place);
                            None
                        }
                    }
                }),
            });
        }
        if !restarts.is_empty() {
            gaps.push(SeriesGap {
                node: String::new(),
                kind: self.cost.kind,
                at_ns: now_ns,
                reason: restarted(layout, &restarts),
            });
        }
        values
    }

    /// Keeps the new readings for the next sample.
    fn keep(&mut self, at_ns: Option<i64>) {
        self.before.clone_from(&self.now.values);
        let places = self.layout.rows.len() * self.layout.columns.len();
        self.before.resize(places, None);
        self.since = at_ns;
    }
}

/// `counts decreased and restart from this sample: vda (reads, writes)`.
fn restarted(layout: &Layout, places: &[usize]) -> String {
    let width = layout.columns.len();
    let mut rows: Vec<String> = Vec::new();
    for group in places.chunk_by(|a, b| a / width == b / width) {
        let columns: Vec<String> = group
            .iter()
            .map(|place| layout.columns[place % width].name.clone())
            .collect();
        let row = &layout.rows[group[0] / width].name;
        let columns = listed(&columns);
        rows.push(if row.is_empty() {
            columns
        } else {
            format!("{row} ({columns})")
        });
    }
    format!(
        "counts decreased and restart from this sample: {}",
        listed(&rows)
    )
}

/// Measures wall-clock and CPU time of a reading.
struct CostTimer {
    wall: Instant,
    cpu_ns: u64,
}

impl CostTimer {
    fn start() -> CostTimer {
        CostTimer {
            wall: Instant::now(),
            cpu_ns: thread_cpu_ns(),
        }
    }

    fn stop(self, cost: &mut SamplerCost) {
        let wall_ns = u64::try_from(self.wall.elapsed().as_nanos()).unwrap_or(u64::MAX);
        cost.samples += 1;
        cost.cpu_ns += thread_cpu_ns().saturating_sub(self.cpu_ns);
        cost.wall_ns += wall_ns;
        cost.longest_ns = cost.longest_ns.max(wall_ns);
    }
}

/// CPU time of the calling thread, ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Sender};
    use std::time::Duration;

    use iodyno_model::{LOAD, MEMORY, SeriesKind, SeriesRow};

    use super::*;

    /// A sampler that uses time and CPU time, and reports how much each reading used.
    struct Busy(Sender<(Duration, u64)>);

    impl Sampler for Busy {
        fn kind(&self) -> SeriesKind {
            SeriesKind::Load
        }

        fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
            let (wall, cpu_ns) = (Instant::now(), thread_cpu_ns());
            // As much as the clock can resolve.
            while thread_cpu_ns() == cpu_ns {}
            let mut fill = into.fill(LOAD);
            fill.row(|_| true, SeriesRow::default, [Some(1); LOAD.len()]);
            fill.done();
            let used_ns = thread_cpu_ns() - cpu_ns;
            self.0.send((wall.elapsed(), used_ns)).unwrap();
            Ok(Read::Fresh)
        }

        fn background_cpu_ns(&mut self) -> u64 {
            1_000_000_000_000
        }
    }

    #[test]
    fn the_cost_of_a_source_is_that_of_its_samples() {
        let (tell, reported) = mpsc::channel();
        let mut source = Source::new(Box::new(Busy(tell)));
        source.begin(Some(0));
        reported.recv().unwrap();
        let begun = (Instant::now(), thread_cpu_ns());
        for at_ns in 1..4 {
            source.sample(0, at_ns, &mut 0, &mut Telemetry::default());
        }
        let most = (begun.0.elapsed(), thread_cpu_ns() - begun.1);
        let cost = source.close();
        let least: Vec<(Duration, u64)> = reported.iter().collect();
        assert_eq!((cost.samples, least.len()), (3, 3));
        let wall_ns = |wall: Duration| wall.as_nanos() as u64;
        let least_ns: u64 = least.iter().map(|one| wall_ns(one.0)).sum();
        assert!((least_ns..=wall_ns(most.0)).contains(&cost.wall_ns));
        let longest = least.iter().map(|one| wall_ns(one.0)).max().unwrap();
        assert!((longest..=cost.wall_ns).contains(&cost.longest_ns));
        // Includes the time of the background thread.
        let least_ns: u64 = least.iter().map(|one| one.1).sum();
        let cpu_ns = cost.cpu_ns - 3_000_000_000_000;
        assert!((least_ns..=most.1).contains(&cpu_ns));
    }

    /// Readings of earlier times, with their ages, and at last none.
    struct Late(Vec<(u64, u64)>);

    impl Sampler for Late {
        fn kind(&self) -> SeriesKind {
            SeriesKind::Pool
        }

        fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
            if self.0.is_empty() {
                return Ok(Read::Nothing);
            }
            let (age_ns, value) = self.0.remove(0);
            let mut fill = into.fill(MEMORY);
            fill.row(|_| true, SeriesRow::default, [Some(value); MEMORY.len()]);
            fill.done();
            Ok(Read::Earlier(age_ns))
        }
    }

    #[test]
    fn each_earlier_reading_is_a_sample_at_its_own_time() {
        // Two from before the start, one of them found only later.
        let mut source = Source::new(Box::new(Late(vec![(7, 1)])));
        source.begin(Some(100));
        let readings = vec![(60, 2), (45, 615), (20, 12), (1, 7)];
        source.sampler = Box::new(Late(readings));
        let mut telemetry = Telemetry::default();
        source.sample(100, 150, &mut 0, &mut telemetry);
        let samples = telemetry.samples.iter();
        let samples: Vec<(i64, u64, Option<u64>)> = samples
            .map(|sample| (sample.at_ns, sample.span_ns, sample.values[0]))
            .collect();
        let expected = [(105, 5, Some(615)), (130, 25, Some(12)), (149, 19, Some(7))];
        assert_eq!(samples, expected);
        source.sample(100, 160, &mut 0, &mut telemetry);
        assert_eq!(telemetry.samples.len(), 3);
    }
}
