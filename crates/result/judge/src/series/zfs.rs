//! ZFS: pools with the headings of `zpool iostat`, and the ARC.

use iodyno_model::SeriesUnit::{Bytes, BytesPerSecond, PerSecond, Percent};
use iodyno_model::{FigureColumn, POOL as STORED, SeriesKind, Telemetry};

use super::{Drawn, Formula, View, each, formulas};

/// `zpool iostat` computes its rates itself.
const POOL: &[Formula] = formulas! {
    "alloc": Bytes = value("alloc");
    "free": Bytes = value("free");
    "read/s": PerSecond = value("reads");
    "write/s": PerSecond = value("writes");
    "read B/s": BytesPerSecond = value("read_bandwidth");
    "write B/s": BytesPerSecond = value("write_bandwidth");
};

/// The figures of every version of ZFS, then the waits and queues that this one reports, as they were read.
pub(super) fn pools(series: &Telemetry) -> Drawn {
    let kind = SeriesKind::Pool;
    let (mut columns, mut rows) = each(series, kind, POOL);
    let of_pools = |name| {
        let mut shapes = series.shapes.iter().filter(|shape| shape.kind == kind);
        shapes.any(|shape| shape.column(name).is_some())
    };
    let more = STORED[POOL.len()..]
        .iter()
        .filter(|column| of_pools(column.0));
    let more: Vec<(&str, _)> = more.map(|(name, unit, _)| (*name, *unit)).collect();
    columns.extend(more.iter().map(|(name, unit)| FigureColumn {
        name: (*name).to_owned(),
        unit: *unit,
    }));
    let views = series
        .of(kind)
        .flat_map(|(shape, sample)| View::of(shape, sample));
    for (row, view) in rows.iter_mut().zip(views) {
        row.values
            .extend(more.iter().map(|(name, _)| view.value(name)));
    }
    (columns, rows)
}

/// Lookups, and the share of hits.
pub(super) const ARC: &[Formula] = formulas! {
    "hits/s": PerSecond = per_second("hits");
    "misses/s": PerSecond = per_second("misses");
    "hit%": Percent = share("hits", "misses");
    "l2hits/s": PerSecond = per_second("l2_hits");
    "l2misses/s": PerSecond = per_second("l2_misses");
    "size": Bytes = value("size");
    "target": Bytes = value("target");
};
