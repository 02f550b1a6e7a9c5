//! Who else did I/O: processes that are neither the harness's own, nor named, nor the kernel's.
//!
//! All processes have to be asked, so it is done no more often than costs a thousandth of a core, and in the beginning
//! sooner, so that a short trial learns of it, too. A process has a row from when it moved [`MUCH`] between two
//! looks until it ends.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use iodyno_model::{OTHERS, SeriesColumn, SeriesKind, SeriesRow};
use iodyno_target::Roots;
use rustix::time::{ClockId, clock_gettime};

use super::processes::Processes;
use crate::sampler::{Read, Readings, Sampler};
use crate::scope::Scope;

/// Bytes of the storage that a process has to move to be told of.
const MUCH: u64 = 1 << 20;
/// So many at most are told of at a time: those that move most.
const ROWS: usize = 8;
/// From one look to the next, at least: a little less than the second that most samples are apart.
const LEAST: Duration = Duration::from_millis(900);
/// … and at most, as far as they cost little.
const MOST: Duration = Duration::from_secs(10);
/// A look may cost one in so many parts of the time to the next.
const SHARE: u32 = 1000;

/// A process as it was in the last two looks.
struct Other {
    /// Bytes of the storage, read and written.
    before: [u64; 2],
    now: [u64; 2],
    /// The look that it was last seen in.
    look: u64,
    /// Not to be asked again: it is the kernel's, or may not be looked into.
    closed: bool,
}

impl Other {
    fn moved(&self) -> u64 {
        let [read, written] = [0, 1].map(|at| self.now[at].saturating_sub(self.before[at]));
        read.saturating_add(written)
    }
}

/// A process with a row.
struct Shown {
    pid: u32,
    row: String,
}

/// All the others.
pub(crate) struct Others {
    processes: Processes,
    own: Vec<u32>,
    named: Vec<String>,
    all: HashMap<u32, Other>,
    shown: Vec<Shown>,
    /// Looks so far, and when the second was, from which counts begin.
    looks: u64,
    begun: Instant,
    looked: Instant,
    /// From the last look to the next, as far as its cost goes.
    pace: Duration,
    /// … and at least.
    least: Duration,
    /// Processes that may not be looked into; `None`: it has been said.
    closed: Option<usize>,
}

impl Others {
    pub(crate) fn open(roots: &Roots, scope: &Scope) -> Others {
        let now = Instant::now();
        Others {
            processes: Processes::new(roots.proc.clone()),
            own: scope.own.clone(),
            named: scope.processes.clone(),
            all: HashMap::new(),
            shown: Vec::new(),
            looks: 0,
            begun: now,
            looked: now,
            pace: LEAST,
            least: LEAST,
            closed: Some(0),
        }
    }

    /// The first two looks are what counts begin from. Then it takes longer and longer, up to the pace.
    fn is_due(&self, now: Instant) -> bool {
        let since_begin = now.saturating_duration_since(self.begun);
        let wait = self.pace.min(since_begin / 2).max(self.least);
        self.looks < 2 || now.saturating_duration_since(self.looked) >= wait
    }

    fn look(&mut self) -> Result<(), String> {
        self.looks += 1;
        for pid in self.processes.all()? {
            if !self.own.contains(&pid) {
                self.ask(pid);
            }
        }
        let look = self.looks;
        self.all.retain(|_, other| other.look == look);
        self.show();
        Ok(())
    }

    fn ask(&mut self, pid: u32) {
        let Some(other) = self.all.get_mut(&pid) else {
            return self.meet(pid);
        };
        other.look = self.looks;
        if other.closed {
            return;
        }
        if let Ok(io) = self.processes.io(pid) {
            let now = [io.read_bytes, io.written_bytes];
            let same = now[0] >= other.now[0] && now[1] >= other.now[1];
            // Another process of that number, which counts from zero.
            other.before = if same { other.now } else { [0; 2] };
            other.now = now;
        }
    }

    /// A process that was not there in the look before.
    fn meet(&mut self, pid: u32) {
        let mut other = Other {
            before: [0; 2],
            now: [0; 2],
            look: self.looks,
            closed: self.processes.stat(pid).is_none_or(|stat| stat.of_kernel),
        };
        if !other.closed {
            match self.processes.io(pid) {
                Ok(io) => {
                    other.now = [io.read_bytes, io.written_bytes];
                    if self.looks == 1 {
                        other.before = other.now;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    other.closed = true;
                    self.closed = self.closed.map(|closed| closed + 1);
                }
                // It has ended already.
                Err(_) => return,
            }
        }
        self.all.insert(pid, other);
    }

    /// Gives rows to those that moved much, and takes them from those that have ended or, where there are too many, rest.
    fn show(&mut self) {
        let all = &self.all;
        let moved = |pid: u32| all.get(&pid).map_or(0, Other::moved);
        let processes = &mut self.processes;
        self.shown.retain(|shown| all.contains_key(&shown.pid));
        let shown = |pid: u32, rows: &[Shown]| rows.iter().any(|shown| shown.pid == pid);
        let mut come: Vec<(u64, u32)> = all
            .iter()
            .filter(|(pid, other)| other.moved() >= MUCH && !shown(**pid, &self.shown))
            .map(|(pid, other)| (other.moved(), *pid))
            .collect();
        come.sort_unstable_by(|a, b| b.cmp(a));
        for (_, pid) in come.into_iter().take(ROWS) {
            // Asked only now: it may have become another program since it began.
            if processes.is_called(pid, &self.named).is_some() {
                continue;
            }
            let row = format!("{}[{pid}]", processes.name(pid));
            if self.shown.len() == ROWS {
                let rests = self.shown.iter().position(|shown| moved(shown.pid) < MUCH);
                let Some(place) = rests else {
                    return;
                };
                self.shown.remove(place);
            }
            self.shown.push(Shown { pid, row });
        }
    }
}

impl Sampler for Others {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Others
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        let now = Instant::now();
        if !self.is_due(now) {
            return Ok(Read::Nothing);
        }
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        self.look()?;
        let used = clock_gettime(ClockId::ThreadCPUTime) - cpu;
        let used = Duration::try_from(used).unwrap_or_default();
        self.pace = (used * SHARE).clamp(self.least, MOST);
        self.looked = now;
        if self.looks <= 2 {
            self.begun = now;
        }
        let mut fill = into.fill(OTHERS);
        for shown in &self.shown {
            let values = self.all.get(&shown.pid).map(|other| other.now.map(Some));
            let row = shown.row.as_str();
            fill.row(
                |there| there.name == row,
                || SeriesRow::new(row),
                values.unwrap_or_default(),
            );
        }
        fill.done();
        Ok(Read::Fresh)
    }

    fn missed(&mut self) -> Vec<String> {
        match self.closed {
            Some(closed) if closed > 0 => {
                self.closed = None;
                vec![untold(closed, rustix::process::geteuid().is_root())]
            }
            _ => Vec::new(),
        }
    }

    fn began_at(&self, row: &SeriesRow, column: &SeriesColumn) -> Option<u64> {
        let shown = self.shown.iter().find(|shown| shown.row == row.name)?;
        let place = OTHERS.iter().position(|known| known.0 == column.name)?;
        self.all.get(&shown.pid)?.before.get(place).copied()
    }
}

/// What is said of so many processes that may not be looked into.
fn untold(closed: usize, as_root: bool) -> String {
    let processes = if closed == 1 { "process" } else { "processes" };
    let remedy = if as_root {
        ""
    } else {
        ": run as root to see them"
    };
    format!("I/O of {closed} other {processes} cannot be read{remedy}")
}

#[cfg(test)]
mod tests;
