//! ZFS: pools with the headings of `zpool iostat`, and the ARC.

use iodyno_model::SeriesUnit::{Bytes, BytesPerSecond, PerSecond, Percent};

use super::Formula;
use super::view::over;

/// `zpool iostat` computes its rates itself.
pub(super) const POOL: &[Formula] = &[
    ("alloc", Bytes, |row| row.value("alloc")),
    ("free", Bytes, |row| row.value("free")),
    ("read/s", PerSecond, |row| row.value("reads")),
    ("write/s", PerSecond, |row| row.value("writes")),
    ("read B/s", BytesPerSecond, |row| {
        row.value("read_bandwidth")
    }),
    ("write B/s", BytesPerSecond, |row| {
        row.value("write_bandwidth")
    }),
];

/// Lookups, and the share of hits.
pub(super) const ARC: &[Formula] = &[
    ("hits/s", PerSecond, |row| row.per_second("hits")),
    ("misses/s", PerSecond, |row| row.per_second("misses")),
    ("hit%", Percent, |row| {
        let (hits, misses) = (row.value("hits")?, row.value("misses")?);
        over(hits * 100.0, hits + misses)
    }),
    ("l2hits/s", PerSecond, |row| row.per_second("l2_hits")),
    ("l2misses/s", PerSecond, |row| row.per_second("l2_misses")),
    ("size", Bytes, |row| row.value("size")),
    ("target", Bytes, |row| row.value("target")),
];
