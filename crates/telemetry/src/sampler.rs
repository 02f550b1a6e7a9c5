//! What every sampler is: something that reads counters as they stand.
//!
//! A sampler never subtracts, and knows nothing of time: [`crate::Station`] keeps the readings before, tells
//! counts from gauges by the columns, and notices what came and went.

use iodyno_model::{Reading, SeriesColumn, SeriesKind, SeriesRow, SeriesUnit};

/// Counters and gauges at an instant, in the same columns for each row. Kept from one reading to the next, so that its
/// memory is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Readings {
    /// What they are of; no name twice.
    pub(crate) rows: Vec<SeriesRow>,
    /// The columns. Those of most series never change; of interrupts they are the CPUs.
    pub(crate) columns: Vec<SeriesColumn>,
    /// Row by row, column by column; `None`: the host does not tell. Of counts: since whenever they began.
    pub(crate) values: Vec<Option<u64>>,
}

impl Readings {
    /// Writes the readings anew, row by row. Rows that are as they were stay in their memory.
    pub(crate) fn fill(
        &mut self,
        columns: &'static [(&'static str, SeriesUnit, Reading)],
    ) -> Fill<'_> {
        if self.columns.is_empty() {
            self.columns = SeriesColumn::of(columns);
        }
        self.refill()
    }

    /// As `fill`, with the columns that there are.
    pub(crate) fn refill(&mut self) -> Fill<'_> {
        self.values.clear();
        Fill {
            into: self,
            rows: 0,
        }
    }
}

/// Readings that are being written anew.
pub(crate) struct Fill<'a> {
    into: &'a mut Readings,
    rows: usize,
}

impl Fill<'_> {
    /// The next row with its values, one for each column. `is` knows whether a row stands there already, `name` makes one.
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

    /// How many rows there are so far.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Those were all.
    pub(crate) fn done(self) {
        self.into.rows.truncate(self.rows);
    }
}

/// What a reading came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// There are new readings.
    Fresh,
    /// Nothing new yet: the sampler has its own, slower pace.
    Nothing,
}

/// A series' source. Opened by a function of its own, which says what is missing if there is nothing to read.
pub(crate) trait Sampler: Send {
    /// Of which series.
    fn kind(&self) -> SeriesKind;

    /// Reads the counters as they stand now. `into` holds what this sampler put there before.
    ///
    /// # Errors
    /// Why nothing can be read, in words: it may be possible again later.
    fn read(&mut self, into: &mut Readings) -> Result<Read, String>;

    /// What could not be read beside what was, in words, since this was asked last: a process that may not be
    /// looked into. Each is told once.
    fn missed(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// How far a count goes before it begins anew, beside 64 bits: interrupts and times of disks are kept in 32.
    fn wraps(&self, _column: usize) -> Option<u64> {
        None
    }

    /// By how much a count may go back without having begun anew: the kernel's accounts of idle CPUs do so.
    fn slack(&self, _column: usize) -> u64 {
        0
    }

    /// Where the count of a row or column began that was not in the reading before this one: zero where it came into
    /// being meanwhile. `None`: not known, so that its first sample has no count. Asked after a read only.
    fn began_at(&self, _row: &SeriesRow, _column: &SeriesColumn) -> Option<u64> {
        None
    }

    /// CPU time that threads of its own used for readings since this was asked last, ns.
    fn cpu_aside_ns(&mut self) -> u64 {
        0
    }

    /// Ends what it began: a child, a thread.
    fn close(&mut self) {}
}
