//! The interface of a sampler: it reads the current values of counters and gauges.
//!
//! A sampler does not subtract and does not use time: [`crate::Collector`] keeps the previous readings, distinguishes
//! counts from gauges by the columns, and detects rows that appear and disappear.

use iodyno_model::{Reading, SeriesColumn, SeriesKind, SeriesRow, SeriesUnit};

/// Counters and gauges at an instant, with the same columns for each row. Reused from one reading to the next, to save
/// allocations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Readings {
    /// The subjects of the values; names are unique.
    pub(crate) rows: Vec<SeriesRow>,
    /// The columns. Those of most series never change; for interrupts they are the CPUs.
    pub(crate) columns: Vec<SeriesColumn>,
    /// Row by row, column by column; `None`: the host does not provide it. Counts are totals since an arbitrary
    /// start.
    pub(crate) values: Vec<Option<u64>>,
}

impl Readings {
    /// Starts new readings, row by row. Rows that did not change keep their memory.
    pub(crate) fn fill(
        &mut self,
        columns: &'static [(&'static str, SeriesUnit, Reading)],
    ) -> Fill<'_> {
        if self.columns.is_empty() {
            self.columns = SeriesColumn::of(columns);
        }
        self.refill()
    }

    /// As `fill`, with unchanged columns.
    pub(crate) fn refill(&mut self) -> Fill<'_> {
        self.values.clear();
        Fill {
            into: self,
            rows: 0,
        }
    }
}

/// Writes new readings.
pub(crate) struct Fill<'a> {
    into: &'a mut Readings,
    rows: usize,
}

impl Fill<'_> {
    /// Adds a row with a value for each column. `is` tests whether the existing row at this position is the same;
    /// otherwise `name` creates a new one.
    pub(crate) fn row(
        &mut self,
        is: impl FnOnce(&SeriesRow) -> bool,
        name: impl FnOnce() -> SeriesRow,
        values: impl IntoIterator<Item = Option<u64>>,
    ) {
        match self.into.rows.get_mut(self.rows) {
            Some(row) if is(row) => {}
            Some(row) => *row = name(),
            None => self.into.rows.push(name()),
        }
        self.rows += 1;
        self.into.values.extend(values);
    }

    /// The number of rows so far.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Removes rows beyond those that were added.
    pub(crate) fn done(self) {
        self.into.rows.truncate(self.rows);
    }
}

/// The outcome of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// There are new readings.
    Fresh,
    /// The readings were taken this many ns ago, and later ones may follow: read again.
    Earlier(u64),
    /// Nothing new yet: the sampler reads at longer intervals.
    Nothing,
}

/// The source of a series.
pub(crate) trait Sampler: Send {
    /// The series.
    fn kind(&self) -> SeriesKind;

    /// Reads the current values. `into` contains the previous readings of this sampler.
    ///
    /// # Errors
    /// The reason why nothing can be read now; a later call may succeed.
    fn read(&mut self, into: &mut Readings) -> Result<Read, String>;

    /// Other errors since the last call, as text, such as a process without read permission. Each is returned once.
    fn missed(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// The range of a count after which it wraps to 0, if that is not 2^64: interrupts and times of disks have 32 bits.
    fn wraps(&self, _column: usize) -> Option<u64> {
        None
    }

    /// By how much a count may decrease without having restarted: the kernel's idle times do so.
    fn slack(&self, _column: usize) -> u64 {
        0
    }

    /// The start value of the count of a new row or column: zero if it was created since the previous reading.
    /// `None`: unknown, so its first sample has no count. Valid only after a read.
    fn began_at(&self, _row: &SeriesRow, _column: &SeriesColumn) -> Option<u64> {
        None
    }

    /// CPU time that the sampler's own threads have used since the last call, ns.
    fn background_cpu_ns(&mut self) -> u64 {
        0
    }

    /// Stops its child process or thread.
    fn close(&mut self) {}
}
