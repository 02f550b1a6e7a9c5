//! The figures that follow from a stored series: rates, shares, means.
//!
//! A series holds counts and gauges as they were read. What a reader knows by name (`r_await`, `%util`, `r/s`) is a quotient
//! of them, and every one is made here and nowhere else: a family a file, most of them a table of names and formulas.
//! A quotient without anything to divide by is unknown, and never 0.

mod cpu;
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

pub(crate) use cpu::share;
pub use interrupts::balance;
pub(crate) use interrupts::cpu_number;
pub use measured::measured;
pub(crate) use total::{Total, totals};
pub(crate) use view::{View, sum};

/// A figure: its name, what it is counted in, and how it follows from a row of a sample.
pub(crate) type Formula = (&'static str, SeriesUnit, fn(&View) -> Option<f64>);

/// Columns and rows of a table.
type Drawn = (Vec<FigureColumn>, Vec<FigureRow>);

/// The figures of one series, one row for each subject in each sample.
///
/// `every_ns` puts samples together before anything is derived, so that a rate over 30 s is that of all its
/// requests, and not a mean of means. A series that was not sampled has columns and no rows; where rows come and go,
/// and where samples are missing, `remarks` say when and why.
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
        SeriesKind::Pressure => each(&series, kind, host::PRESSURE),
        SeriesKind::Memory => each(&series, kind, host::MEMORY),
        SeriesKind::Reclaim => each(&series, kind, host::RECLAIM),
        SeriesKind::Pool => each(&series, kind, zfs::POOL),
        SeriesKind::Arc => each(&series, kind, zfs::ARC),
        SeriesKind::Cgroup => each(&series, kind, disk::CGROUP),
        SeriesKind::Process => each(&series, kind, processes::PROCESS),
        SeriesKind::Others => each(&series, kind, processes::OTHERS),
    };
    FigureTable {
        kind,
        columns,
        rows,
        remarks,
    }
}

/// A table with a row for each subject of each sample.
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

/// What came and went, and what is missing, in the order of time.
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
