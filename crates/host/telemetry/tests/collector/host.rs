//! A simulated host whose counters are files that the tests write.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use iodyno_host::Roots;
use iodyno_model::{SeriesKind, SeriesShape, Telemetry};
use iodyno_telemetry::{Collector, Devices, Pools, Scope};

pub(crate) const SECOND: i64 = 1_000_000_000;

/// All files that the samplers tested here read, with regular content.
pub(crate) const FILES: [(&str, &str, SeriesKind); 8] = [
    (
        "stat",
        include_str!("../data/stat-6.18.txt"),
        SeriesKind::Cpu,
    ),
    (
        "interrupts",
        include_str!("../data/interrupts-6.18.txt"),
        SeriesKind::Interrupts,
    ),
    ("loadavg", "0.52 0.61 1.28 1/78 1809\n", SeriesKind::Load),
    (
        "diskstats",
        include_str!("../data/diskstats-6.18.txt"),
        SeriesKind::Disk,
    ),
    ("pressure/cpu", PRESSURE, SeriesKind::Pressure),
    ("pressure/io", PRESSURE, SeriesKind::Pressure),
    ("pressure/memory", PRESSURE, SeriesKind::Pressure),
    (
        "meminfo",
        include_str!("../data/meminfo-6.18.txt"),
        SeriesKind::Memory,
    ),
];

/// Read for two series.
pub(crate) const VMSTAT: &str = include_str!("../data/vmstat-6.18.txt");

const PRESSURE: &str = "some avg10=0.05 avg60=0.46 avg300=2.33 total=1583996741\n\
                        full avg10=0.05 avg60=0.43 avg300=2.14 total=795117059\n";

pub(crate) struct Host {
    folder: tempfile::TempDir,
}

impl Host {
    /// A host without any file.
    pub(crate) fn empty() -> Host {
        let folder = tempfile::tempdir().unwrap();
        for name in ["proc", "sys/class/block", "sys/block", "dev"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        Host { folder }
    }

    /// A host with all of them.
    pub(crate) fn whole() -> Host {
        let host = Host::empty();
        for (name, text, _) in FILES {
            host.proc(name, text);
        }
        host.proc("vmstat", VMSTAT);
        host
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn proc(&self, name: &str, text: &str) {
        self.write(&format!("proc/{name}"), text);
    }

    /// A block device in sysfs, below `sys/devices`.
    pub(crate) fn device(&self, place: &str) {
        let folder = self.path("sys/devices").join(place);
        fs::create_dir_all(&folder).unwrap();
        let name = folder.file_name().unwrap();
        symlink(&folder, self.path("sys/class/block").join(name)).unwrap();
        // Partitions are in the folders of their disks.
        if !folder.ancestors().nth(2).unwrap().ends_with("block") {
            symlink(&folder, self.path("sys/block").join(name)).unwrap();
        }
    }

    pub(crate) fn open(&self, devices: Devices) -> Collector {
        let scope = Scope {
            block_trace: false,
            every: Duration::from_secs(1),
            devices,
            pools: Pools::Named(Vec::new()),
            processes: Vec::new(),
            servers: Vec::new(),
            stats: Vec::new(),
            own: Vec::new(),
        };
        Collector::open(&Roots::below(self.folder.path()), &scope)
    }

    /// Opened for all devices; counts begin at 0.
    pub(crate) fn begin(&self) -> Collector {
        let mut collector = self.open(Devices::All);
        collector.begin(0);
        collector
    }
}

pub(crate) fn named(names: &[&str]) -> Devices {
    Devices::Named(names.iter().map(|name| (*name).to_owned()).collect())
}

/// The messages so far.
#[derive(Default)]
pub(crate) struct Received(pub(crate) Telemetry);

impl Received {
    /// Takes a sample, and returns new shapes and gaps.
    pub(crate) fn sample(&mut self, collector: &mut Collector, at_s: i64) -> Telemetry {
        let new = collector.sample(at_s * SECOND);
        self.0.extend(new.clone());
        for sample in &new.samples {
            let shape = self.0.shape(sample.shape).unwrap();
            let places = shape.subjects.len() * shape.columns.len();
            assert_eq!(sample.values.len(), places);
            assert!(sample.span_ns > 0);
        }
        new
    }

    /// The latest shape of a series.
    pub(crate) fn shape(&self, kind: SeriesKind) -> &SeriesShape {
        let mut shapes = self.0.shapes.iter().rev();
        shapes.find(|shape| shape.kind == kind).unwrap()
    }

    /// The rows of the latest shape.
    pub(crate) fn rows(&self, kind: SeriesKind) -> Vec<&str> {
        let rows = self.shape(kind).subjects.iter();
        rows.map(|row| row.name.as_str()).collect()
    }

    /// A value of the latest sample.
    pub(crate) fn value(&self, kind: SeriesKind, row: &str, column: &str) -> Option<u64> {
        let (shape, sample) = self.0.of(kind).last().unwrap();
        let row = shape
            .subjects
            .iter()
            .position(|subject| subject.name == row);
        let place = row.unwrap() * shape.columns.len() + shape.column(column).unwrap();
        sample.values[place]
    }

    /// All gaps of a series.
    pub(crate) fn gaps(&self, kind: SeriesKind) -> Vec<(i64, &str)> {
        let gaps = self.0.gaps.iter().filter(|gap| gap.kind == kind);
        gaps.map(|gap| (gap.at_ns / SECOND, gap.reason.as_str()))
            .collect()
    }
}
