//! Simulated series, defined by their relevant values.

use iodyno_model::{
    ARC, CGROUP, CPU, DISK, LOAD, MEMORY, NETWORK, OTHERS, POOL, PRESSURE, PROCESS, RECLAIM,
    REQUESTS, Reading, Sample, SeriesColumn, SeriesGap, SeriesKind, SeriesRow, SeriesShape,
    SeriesUnit, Telemetry,
};

/// Values by column.
pub type Named = Vec<(&'static str, u64)>;

/// A second, ns.
pub const SECOND: u64 = 1_000_000_000;

/// Series in progress.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    telemetry: Telemetry,
}

/// An empty recording.
pub fn recording() -> Recording {
    Recording::default()
}

impl Recording {
    /// `count` samples of a series, one per second from the end of the first second. `rows` creates the rows of the
    /// second with that number, from 0; values that it does not name are 0, or unknown for limits. Interrupts have
    /// the columns that are named.
    pub fn seconds(
        self,
        kind: SeriesKind,
        count: u32,
        rows: impl Fn(u32) -> Vec<(&'static str, Named)>,
    ) -> Recording {
        self.seconds_from(0, kind, count, rows)
    }

    /// The same with a separate shape, from a later second on.
    pub fn seconds_from(
        mut self,
        start: u32,
        kind: SeriesKind,
        count: u32,
        rows: impl Fn(u32) -> Vec<(&'static str, Named)>,
    ) -> Recording {
        let first = rows(start);
        let shape = SeriesShape {
            node: String::new(),
            kind,
            number: self.telemetry.shapes.len() as u32,
            subjects: first
                .iter()
                .map(|(name, _)| SeriesRow::new(*name))
                .collect(),
            columns: columns(kind, &first),
            because: None,
        };
        for second in start..start + count {
            let values = rows(second).into_iter().flat_map(|(_, named)| {
                let value = |column: &SeriesColumn| {
                    let found = named.iter().find(|(name, _)| *name == column.name);
                    let limit = column.name.ends_with("limit") && kind == SeriesKind::Cgroup;
                    found.map(|(_, value)| *value).or((!limit).then_some(0))
                };
                shape.columns.iter().map(value).collect::<Vec<_>>()
            });
            self.telemetry.samples.push(Sample {
                shape: shape.number,
                at_ns: (u64::from(second + 1) * SECOND) as i64,
                span_ns: SECOND,
                values: values.collect(),
            });
        }
        self.telemetry.shapes.push(shape);
        self
    }

    /// The reason why the last shape differs from the previous one.
    pub fn because(mut self, reason: &str) -> Recording {
        if let Some(shape) = self.telemetry.shapes.last_mut() {
            shape.because = Some(reason.to_owned());
        }
        self
    }

    /// The source of interrupts with that name serves the device.
    pub fn serving(mut self, source: &str, device: &str) -> Recording {
        let shapes = self.telemetry.shapes.iter_mut();
        for row in shapes.flat_map(|shape| &mut shape.subjects) {
            if row.name == source {
                row.serves = Some(device.to_owned());
            }
        }
        self
    }

    /// A gap from a second on.
    pub fn gap(mut self, second: u32, kind: SeriesKind, reason: &str) -> Recording {
        self.telemetry.gaps.push(SeriesGap {
            node: String::new(),
            kind,
            at_ns: (u64::from(second) * SECOND) as i64,
            reason: reason.to_owned(),
        });
        self
    }

    /// The series, samples in order of time.
    pub fn done(mut self) -> Telemetry {
        self.telemetry.samples.sort_by_key(|sample| sample.at_ns);
        self.telemetry
    }
}

fn columns(kind: SeriesKind, rows: &[(&'static str, Named)]) -> Vec<SeriesColumn> {
    let table = match kind {
        SeriesKind::Cpu => CPU,
        SeriesKind::Load => LOAD,
        SeriesKind::Disk => DISK,
        SeriesKind::Pressure => PRESSURE,
        SeriesKind::Memory => MEMORY,
        SeriesKind::Reclaim => RECLAIM,
        SeriesKind::Network => NETWORK,
        SeriesKind::Pool => POOL,
        SeriesKind::Arc => ARC,
        SeriesKind::Cgroup => CGROUP,
        SeriesKind::Process => PROCESS,
        SeriesKind::Requests => REQUESTS,
        SeriesKind::Others => OTHERS,
        SeriesKind::Block => return SeriesColumn::block(),
        SeriesKind::Interrupts => {
            let cpus = rows.first().map_or(&[][..], |(_, named)| named);
            let column = |(name, _): &(&str, u64)| SeriesColumn {
                name: (*name).to_owned(),
                unit: SeriesUnit::Number,
                reading: Reading::Count,
            };
            return cpus.iter().map(column).collect();
        }
    };
    SeriesColumn::of(table)
}

/// One second of a CPU in percent: user, system, idle, iowait, irq.
pub fn cpu_second(percent: [u64; 5]) -> Named {
    let share = |place: usize| percent[place] * (SECOND / 100);
    vec![
        ("user", share(0)),
        ("system", share(1)),
        ("idle", share(2)),
        ("iowait", share(3)),
        ("irq", share(4)),
    ]
}
