//! A simulated host, for telemetry with known properties.

use iodyno_model::{
    CPU, DISK, LOAD, MEMORY, OTHERS, PRESSURE, RECLAIM, Reading, Sample, SeriesColumn, SeriesKind,
    SeriesRow, SeriesShape, SeriesUnit, Telemetry, TelemetryBatch,
};
use rand_distr::{Distribution, Exp, LogNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A simulated host: one of several disks under load, some interrupt sources active, CPU times in ticks of 10 ms,
/// memory in pages, times in µs or ms as the kernel reports them.
pub(super) struct Host {
    random: Xoshiro256PlusPlus,
    shapes: Vec<SeriesShape>,
    cpus: usize,
    sources: usize,
    free: i64,
    at_ns: i64,
}

impl Host {
    pub(super) fn new(cpus: usize, sources: usize) -> Host {
        let rows = |prefix: &str, count: usize| -> Vec<SeriesRow> {
            (0..count)
                .map(|place| SeriesRow::new(format!("{prefix}{place}")))
                .collect()
        };
        let on_cpu = |place| SeriesColumn {
            name: format!("CPU{place}"),
            unit: SeriesUnit::Number,
            reading: Reading::Count,
        };
        let whole = || vec![SeriesRow::default()];
        let resources = ["cpu", "io", "memory", "irq"].map(SeriesRow::new).to_vec();
        let series = [
            (SeriesKind::Cpu, rows("CPU", cpus), SeriesColumn::of(CPU)),
            (
                SeriesKind::Interrupts,
                rows("virtio0-req.", sources),
                (0..cpus).map(on_cpu).collect(),
            ),
            (SeriesKind::Load, whole(), SeriesColumn::of(LOAD)),
            (SeriesKind::Disk, rows("vd", 4), SeriesColumn::of(DISK)),
            (SeriesKind::Pressure, resources, SeriesColumn::of(PRESSURE)),
            (SeriesKind::Memory, whole(), SeriesColumn::of(MEMORY)),
            (SeriesKind::Reclaim, whole(), SeriesColumn::of(RECLAIM)),
            (
                SeriesKind::Others,
                rows("rsync[99]", 1),
                SeriesColumn::of(OTHERS),
            ),
        ];
        let shapes = series
            .into_iter()
            .enumerate()
            .map(|(number, (kind, subjects, columns))| SeriesShape {
                node: String::new(),
                kind,
                number: number as u32,
                subjects,
                columns,
                because: None,
            });
        Host {
            random: Xoshiro256PlusPlus::seed_from_u64(7),
            shapes: shapes.collect(),
            cpus,
            sources,
            free: 5_000_000,
            at_ns: 0,
        }
    }

    /// A random number within some percent of the given one.
    fn about(&mut self, mean: f64) -> u64 {
        LogNormal::new(mean.ln(), 0.05)
            .unwrap()
            .sample(&mut self.random) as u64
    }

    fn up_to(&mut self, most: u64) -> u64 {
        self.random.next_u64() % (most + 1)
    }

    /// The batch of a second.
    pub(super) fn second(&mut self, number: u32) -> TelemetryBatch {
        let late = (Exp::new(1.0).unwrap().sample(&mut self.random) * 60_000.0) as i64;
        let at_ns = i64::from(number + 1) * 1_000_000_000 + late;
        let span_ns = (at_ns - std::mem::replace(&mut self.at_ns, at_ns)) as u64;
        let values = [
            self.cpu(),
            self.interrupts(),
            self.load(),
            self.disks(),
            self.pressure(),
            self.memory(),
            self.reclaim(),
            vec![0, 4096 * self.up_to(1)],
        ];
        let sample = |(shape, values): (usize, Vec<u64>)| Sample {
            shape: shape as u32,
            at_ns,
            span_ns,
            values: values.into_iter().map(Some).collect(),
        };
        TelemetryBatch {
            number,
            telemetry: Telemetry {
                shapes: if number == 0 {
                    self.shapes.clone()
                } else {
                    Vec::new()
                },
                samples: values.into_iter().enumerate().map(sample).collect(),
                gaps: Vec::new(),
            },
        }
    }

    fn cpu(&mut self) -> Vec<u64> {
        let mut values = Vec::new();
        for _ in 0..self.cpus {
            let (user, system) = (self.up_to(8) + 12, self.up_to(20) + 30);
            let (iowait, irq) = (self.up_to(6) + 10, self.up_to(2));
            let idle = 100 - user - system - iowait - irq;
            let ticks = [
                user,
                system,
                idle,
                iowait,
                irq,
                u64::from(self.up_to(30) == 0),
                0,
                irq / 2,
                0,
            ];
            values.extend(ticks.map(|ticks| ticks * 10_000_000));
        }
        values
    }

    /// Interrupts: the timer on each CPU, some inter-processor interrupts, a queue of the disk on one CPU, and
    /// occasionally one in eight of the others.
    fn interrupts(&mut self) -> Vec<u64> {
        let mut values = Vec::new();
        for source in 0..self.sources {
            for cpu in 0..self.cpus {
                values.push(match source {
                    0 => self.about(900.0),
                    1 | 2 => self.about(2500.0),
                    _ if source % 8 == 3 && source / 8 % self.cpus == cpu => self.about(20_000.0),
                    _ if source % 8 == 5 => self.up_to(4) / 4 * self.up_to(3),
                    _ => 0,
                });
            }
        }
        values
    }

    fn load(&mut self) -> Vec<u64> {
        vec![
            180 + self.up_to(20),
            150 + self.up_to(3),
            120,
            1 + self.up_to(3),
            210 + self.up_to(1),
            self.up_to(2),
            self.about(40_000.0),
            self.up_to(3),
        ]
    }

    fn disks(&mut self) -> Vec<u64> {
        let (reads, writes) = (self.about(40_000.0), self.about(14_000.0));
        let (read_ms, write_ms) = (self.about(9000.0), self.about(4000.0));
        let mut busy = vec![
            reads,
            writes,
            0,
            0,
            0,
            self.up_to(9),
            0,
            reads * 4096,
            writes * 4096,
            0,
        ];
        let times = [
            read_ms,
            write_ms,
            0,
            0,
            990 + self.up_to(10),
            read_ms + write_ms,
        ];
        busy.extend(times.map(|ms| ms * 1_000_000));
        busy.push(self.up_to(16));
        busy.resize(4 * DISK.len(), 0);
        busy
    }

    fn pressure(&mut self) -> Vec<u64> {
        let (cpu, io) = (self.about(90_000.0), self.about(700_000.0));
        let all = [
            cpu,
            0,
            io,
            io / 2 + self.up_to(9000),
            0,
            0,
            0,
            self.up_to(50) / 50 * 12,
        ];
        all.map(|us| us * 1000).to_vec()
    }

    fn memory(&mut self) -> Vec<u64> {
        self.free += self.up_to(400) as i64 - 200;
        let free = self.free as u64;
        let (dirty, back) = (self.up_to(300), self.up_to(4) / 4 * self.up_to(50));
        let pages = [
            free,
            free + 900_000,
            700_000 + dirty,
            dirty,
            back,
            0,
            150_000,
            300_000,
        ];
        pages.map(|pages| pages * 4096).to_vec()
    }

    fn reclaim(&mut self) -> Vec<u64> {
        let mut values = vec![0; RECLAIM.len()];
        values[6] = self.up_to(40) / 40;
        values
    }
}
