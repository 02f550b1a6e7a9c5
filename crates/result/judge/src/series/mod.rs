//! Derives rates, shares and means from a stored series.
//!
//! A series contains counts and gauges as they were read. Well-known figures (`r_await`, `%util`, `r/s`) are
//! quotients of them, and all are computed here: one file per family, most of them a table of names and formulas. A
//! quotient with a denominator of 0 is unknown, never 0.

mod block;
mod cpu;
mod devices;
mod disk;
mod host;
mod interrupts;
mod measured;
mod processes;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
mod total;
mod view;
mod zfs;

use std::collections::BTreeMap;

use iodyno_model::{FigureColumn, FigureRow, FigureTable, SeriesKind, SeriesUnit, Telemetry};

pub use block::device_times;
pub(crate) use cpu::{DISJOINT, share};
pub use devices::device_use;
pub use interrupts::balance;
pub(crate) use interrupts::cpu_number;
pub use measured::measured;
pub(crate) use total::{Total, totals};
pub(crate) use view::{View, sum};

/// A figure: its name, its unit, and its formula.
pub(crate) type Formula = (&'static str, SeriesUnit, fn(&View) -> Option<f64>);

/// Formulas of figures: name, unit, and a method of [`View`] with the names of its columns.
macro_rules! formulas {
    ($($name:literal: $unit:ident = $formula:ident($($column:literal),*);)*) => {
        &[$(($name, $unit, |row| row.$formula($($column),*))),*]
    };
}
use formulas;

/// Columns and rows of a table.
type Drawn = (Vec<FigureColumn>, Vec<FigureRow>);

/// The figures of one series: one row for each subject in each sample.
///
/// Samples are merged to `every_ns` before figures are derived, so that a rate over 30 s covers all requests
/// and is not a mean of means. A series that was not sampled has columns and no rows. `remarks` state when and
/// why rows appear or disappear and samples are missing.
pub fn figures(telemetry: &Telemetry, kind: SeriesKind, every_ns: Option<u64>) -> FigureTable {
    let own = telemetry.only(kind);
    let remarks = remarks(&own);
    let series = match every_ns {
        Some(every) => own.thinned(every),
        None => own,
    };
    let (columns, rows) = match kind {
        SeriesKind::Cpu => cpu::drawn(&series),
        SeriesKind::Interrupts => interrupts::drawn(&series),
        SeriesKind::Load => each(&series, kind, host::LOAD),
        SeriesKind::Disk => each(&series, kind, disk::DISK),
        SeriesKind::Block => block::drawn(&series),
        SeriesKind::Pressure => each(&series, kind, host::PRESSURE),
        SeriesKind::Memory => each(&series, kind, host::MEMORY),
        SeriesKind::Reclaim => each(&series, kind, host::RECLAIM),
        SeriesKind::Network => each(&series, kind, host::NETWORK),
        SeriesKind::Pool => zfs::pools(&series),
        SeriesKind::Arc => each(&series, kind, zfs::ARC),
        SeriesKind::Cgroup => each(&series, kind, disk::CGROUP),
        SeriesKind::Process => each(&series, kind, processes::PROCESS),
        SeriesKind::Requests => processes::requests(&series),
        SeriesKind::Others => each(&series, kind, processes::OTHERS),
    };
    FigureTable {
        kind,
        columns,
        rows,
        remarks,
    }
}

/// A table with one row for each subject of each sample.
fn each(series: &Telemetry, kind: SeriesKind, formulas: &[Formula]) -> Drawn {
    let samples = series.of(kind);
    let rows = samples.flat_map(|(shape, sample)| {
        let views = View::of(shape, sample);
        views.map(|view| row(&view, view.subject(), formulas))
    });
    (columns(formulas), rows.collect())
}

fn columns(formulas: &[Formula]) -> Vec<FigureColumn> {
    let column = |(name, unit, _): &Formula| FigureColumn {
        name: (*name).to_owned(),
        unit: *unit,
    };
    formulas.iter().map(column).collect()
}

fn row(view: &View, subject: &str, formulas: &[Formula]) -> FigureRow {
    let value = |(_, _, formula): &Formula| formula(view).filter(|value| value.is_finite());
    FigureRow {
        at_ns: view.at_ns(),
        span_ns: view.span_ns(),
        subject: subject.to_owned(),
        values: formulas.iter().map(value).collect(),
    }
}

/// Subjects that appeared or disappeared, and gaps, in order of time.
fn remarks(series: &Telemetry) -> Vec<(i64, String)> {
    let mut first: BTreeMap<u32, i64> = BTreeMap::new();
    for sample in &series.samples {
        first.entry(sample.shape).or_insert(sample.at_ns);
    }
    let changes = series.shapes.iter().filter_map(|shape| {
        let because = shape.because.clone()?;
        Some((*first.get(&shape.number)?, because))
    });
    let gaps = series.gaps.iter();
    let gaps = gaps.map(|gap| (gap.at_ns, gap.reason.clone()));
    let mut remarks: Vec<(i64, String)> = changes.chain(gaps).collect();
    remarks.sort_by_key(|(at_ns, _)| *at_ns);
    remarks
}
