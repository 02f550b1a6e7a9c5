//! Units of figures.

/// The quantity of a unit, and the factor that converts it to the metric's unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Measure {
    /// Bytes per second.
    Bandwidth(f64),
    /// Ops per second.
    Rate(f64),
    /// Time, ns.
    Time(f64),
}

const KI: f64 = 1024.0;

/// Units, in lower case.
const UNITS: &[(&str, Measure)] = &[
    ("b/s", Measure::Bandwidth(1.0)),
    ("kb/s", Measure::Bandwidth(1e3)),
    ("mb/s", Measure::Bandwidth(1e6)),
    ("gb/s", Measure::Bandwidth(1e9)),
    ("kib/s", Measure::Bandwidth(KI)),
    ("mib/s", Measure::Bandwidth(KI * KI)),
    ("gib/s", Measure::Bandwidth(KI * KI * KI)),
    ("kbps", Measure::Bandwidth(1e3)),
    ("mbps", Measure::Bandwidth(1e6)),
    ("gbps", Measure::Bandwidth(1e9)),
    ("tb/s", Measure::Bandwidth(1e12)),
    ("tib/s", Measure::Bandwidth(KI * KI * KI * KI)),
    ("b/sec", Measure::Bandwidth(1.0)),
    ("kb/sec", Measure::Bandwidth(1e3)),
    ("mb/sec", Measure::Bandwidth(1e6)),
    ("gb/sec", Measure::Bandwidth(1e9)),
    ("kib/sec", Measure::Bandwidth(KI)),
    ("mib/sec", Measure::Bandwidth(KI * KI)),
    ("gib/sec", Measure::Bandwidth(KI * KI * KI)),
    ("bytes/s", Measure::Bandwidth(1.0)),
    ("bytes/sec", Measure::Bandwidth(1.0)),
    ("io/s", Measure::Rate(1.0)),
    ("iop/s", Measure::Rate(1.0)),
    ("iops", Measure::Rate(1.0)),
    ("kiops", Measure::Rate(1e3)),
    ("miops", Measure::Rate(1e6)),
    ("k iops", Measure::Rate(1e3)),
    ("op/s", Measure::Rate(1.0)),
    ("ops/s", Measure::Rate(1.0)),
    ("ops/sec", Measure::Rate(1.0)),
    ("kops/s", Measure::Rate(1e3)),
    ("/s", Measure::Rate(1.0)),
    ("files/s", Measure::Rate(1.0)),
    ("files/sec", Measure::Rate(1.0)),
    ("req/s", Measure::Rate(1.0)),
    ("requests/s", Measure::Rate(1.0)),
    ("requests/sec", Measure::Rate(1.0)),
    ("tps", Measure::Rate(1.0)),
    ("ns", Measure::Time(1.0)),
    ("nsec", Measure::Time(1.0)),
    ("nanoseconds", Measure::Time(1.0)),
    ("us", Measure::Time(1e3)),
    ("µs", Measure::Time(1e3)),
    ("μs", Measure::Time(1e3)),
    ("usec", Measure::Time(1e3)),
    ("usecs", Measure::Time(1e3)),
    ("microseconds", Measure::Time(1e3)),
    ("ms", Measure::Time(1e6)),
    ("msec", Measure::Time(1e6)),
    ("msecs", Measure::Time(1e6)),
    ("milliseconds", Measure::Time(1e6)),
    ("s", Measure::Time(1e9)),
    ("sec", Measure::Time(1e9)),
    ("secs", Measure::Time(1e9)),
    ("second", Measure::Time(1e9)),
    ("seconds", Measure::Time(1e9)),
];

/// The measure of a unit in lower case.
pub(crate) fn measure(lower: &str) -> Option<Measure> {
    let found = UNITS.iter().find(|(name, _)| *name == lower);
    found.map(|(_, measure)| *measure)
}
