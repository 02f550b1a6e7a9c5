//! CPU time: one row for all CPUs, then one for each.

use iodyno_model::SeriesUnit::Percent;
use iodyno_model::{SeriesKind, Telemetry};

use super::view::{over, sum};
use super::{Drawn, Formula, View, columns, row};

/// The name of the row for all CPUs.
pub(crate) const ALL: &str = "all";

/// In percent of the counted time: the sum of ticks differs from the sample's span.
const CPU: &[Formula] = &[
    ("%user", Percent, |row| share(row, "user")),
    ("%system", Percent, |row| share(row, "system")),
    ("%iowait", Percent, |row| share(row, "iowait")),
    ("%irq", Percent, |row| share(row, "irq")),
    ("%steal", Percent, |row| share(row, "steal")),
    ("%idle", Percent, |row| share(row, "idle")),
    ("%nice", Percent, |row| share(row, "nice")),
    ("%soft", Percent, |row| share(row, "soft")),
    ("%guest", Percent, |row| share(row, "guest")),
];

/// The kinds of time that add up to all time. The other columns are parts of them.
pub(crate) const DISJOINT: [&str; 6] = ["user", "system", "idle", "iowait", "irq", "steal"];

pub(super) fn drawn(series: &Telemetry) -> Drawn {
    let rows = series.of(SeriesKind::Cpu).flat_map(|(shape, sample)| {
        let all = row(&View::all(shape, sample), ALL, CPU);
        let each = View::of(shape, sample).map(|view| row(&view, view.subject(), CPU));
        std::iter::once(all).chain(each)
    });
    (columns(CPU), rows.collect())
}

/// CPU time of one kind in percent of all counted time.
pub(crate) fn share(view: &View, column: &str) -> Option<f64> {
    let all = sum(DISJOINT.iter().filter_map(|column| view.count(column)));
    over(view.value(column)? * 100.0, all as f64)
}
