//! Who else did I/O: processes that are neither the harness's own, nor named, nor the kernel's.
//!
//! A process is told of with what it did itself ([`super::family`]), a child that came and went between two looks with its parent.
//! Programs that the harness started are its own. One that answers for a file system in user space serves [`FUSE`]: where such a file
//! system lies below the targets, its I/O may be the trial's.
//!
//! All processes have to be asked, so it is done no more often than costs a thousandth of a core, and in the beginning
//! sooner, so that a short trial learns of it, too. A process has a row from when it moved [`MUCH`] between two
//! looks until it ends.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use iodyno_model::{OTHERS, SeriesColumn, SeriesKind, SeriesRow};
use iodyno_target::Roots;

use super::family::Family;
use super::processes::{FUSE, Processes};
use crate::sampler::{Read, Readings, Sampler};
use crate::scope::Scope;
use crate::source::thread_cpu_ns;

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

/// What the pace goes by. Passed in, so that tests need neither wait nor use CPU time.
pub(crate) trait Meter: Send {
    /// Now.
    fn now(&mut self) -> Instant;

    /// CPU time that this thread has used so far.
    fn cpu(&mut self) -> Duration;
}

/// The host's own clocks.
pub(crate) struct HostMeter;

impl Meter for HostMeter {
    fn now(&mut self) -> Instant {
        Instant::now()
    }

    fn cpu(&mut self) -> Duration {
        Duration::from_nanos(thread_cpu_ns())
    }
}

/// A process with a row.
struct Shown {
    pid: u32,
    row: SeriesRow,
}

/// All the others.
pub(crate) struct Others<M> {
    meter: M,
    processes: Processes,
    own: Vec<u32>,
    named: Vec<String>,
    /// Those that may be looked into: bytes of the storage, read and written.
    open: Family<2>,
    /// The others, the kernel's and the harness's, with the look that each was last seen in.
    closed: HashMap<u32, u64>,
    shown: Vec<Shown>,
    /// Looks so far, and when the second was, from which counts begin.
    looks: u64,
    begun: Instant,
    looked: Instant,
    /// From the last look to the next, as far as its cost goes.
    pace: Duration,
    /// How many may not be looked into; `None`: it has been said.
    untold: Option<usize>,
}

impl<M: Meter> Others<M> {
    pub(crate) fn open(mut meter: M, roots: &Roots, scope: &Scope) -> Others<M> {
        let now = meter.now();
        Others {
            meter,
            processes: Processes::new(roots.proc.clone()),
            own: scope.own.clone(),
            named: scope.processes.clone(),
            open: Family::new(),
            closed: HashMap::new(),
            shown: Vec::new(),
            looks: 0,
            begun: now,
            looked: now,
            pace: LEAST,
            untold: Some(0),
        }
    }

    /// The first two looks are what counts begin from. Then it takes longer and longer, up to the pace.
    fn is_due(&self, now: Instant) -> bool {
        let since_begin = now.saturating_duration_since(self.begun);
        let wait = self.pace.min(since_begin / 2).max(LEAST);
        self.looks < 2 || now.saturating_duration_since(self.looked) >= wait
    }

    fn look(&mut self) -> Result<(), String> {
        let mut all = self.processes.all()?;
        // Parents before their children: what a child does between the two is then told of in the next look.
        all.sort_unstable();
        self.looks += 1;
        self.open.begin();
        for pid in all {
            if let Some(look) = self.closed.get_mut(&pid) {
                *look = self.looks;
            } else if !self.own.contains(&pid) {
                self.ask(pid);
            }
        }
        let look = self.looks;
        self.closed.retain(|_, seen| *seen == look);
        let processes = &mut self.processes;
        self.open
            .settle(|pid| processes.stat(pid).map(|stat| stat.parent));
        self.show();
        Ok(())
    }

    fn ask(&mut self, pid: u32) {
        let known = self.open.knows(pid);
        match self.processes.io(pid) {
            Ok(io) => {
                let counts = [io.read_bytes, io.written_bytes];
                if !(known && self.open.saw(pid, counts)) {
                    self.meet(pid, counts);
                }
            }
            // It has become another's by exec(2).
            Err(_) if known && self.processes.stat(pid).is_some() => self.open.stays(pid),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.closed.insert(pid, self.looks);
                let of_kernel = self.processes.stat(pid).is_none_or(|stat| stat.of_kernel);
                self.untold = self.untold.map(|untold| untold + usize::from(!of_kernel));
            }
            // It has ended already.
            Err(_) => {}
        }
    }

    /// A process that was not there in the look before.
    fn meet(&mut self, pid: u32, counts: [u64; 2]) {
        let Some(stat) = self.processes.stat(pid) else {
            return;
        };
        if stat.of_kernel || self.own.contains(&stat.parent) {
            self.closed.insert(pid, self.looks);
            return;
        }
        // What it did before the first look counts for nothing.
        let since = if self.looks == 1 { counts } else { [0; 2] };
        self.open.meet(pid, stat.parent, counts, since);
    }

    /// Gives rows to those that moved much, and takes them from those that have ended or, where there are too many, rest.
    fn show(&mut self) {
        let open = &self.open;
        let moved = |pid: u32| {
            let grown = open.grown(pid).unwrap_or_default();
            grown[0].saturating_add(grown[1])
        };
        let processes = &mut self.processes;
        self.shown.retain(|shown| open.knows(shown.pid));
        let shown = |pid: u32, rows: &[Shown]| rows.iter().any(|shown| shown.pid == pid);
        let mut come: Vec<(u64, u32)> = open
            .pids()
            .map(|pid| (moved(pid), pid))
            .filter(|(moved, pid)| *moved >= MUCH && !shown(*pid, &self.shown))
            .collect();
        come.sort_unstable_by(|a, b| b.cmp(a));
        for (_, pid) in come.into_iter().take(ROWS) {
            // Asked only now: it may have become another program since it began.
            if processes.is_called(pid, &self.named).is_some() {
                continue;
            }
            let mut row = SeriesRow::new(format!("{}[{pid}]", processes.name(pid)));
            // A plugin of a server's may be its child.
            let parent = processes.stat(pid).map(|stat| stat.parent);
            let mut both = [Some(pid), parent].into_iter().flatten();
            if both.any(|pid| processes.holds_fuse(pid)) {
                row.serves = Some(FUSE.to_owned());
            }
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

impl<M: Meter> Sampler for Others<M> {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Others
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        let now = self.meter.now();
        if !self.is_due(now) {
            return Ok(Read::Nothing);
        }
        let cpu = self.meter.cpu();
        self.look()?;
        let used = self.meter.cpu().saturating_sub(cpu);
        self.pace = (used * SHARE).clamp(LEAST, MOST);
        self.looked = now;
        if self.looks <= 2 {
            self.begun = now;
        }
        let mut fill = into.fill(OTHERS);
        for shown in &self.shown {
            let values = self.open.own(shown.pid).map(|own| own.map(Some));
            fill.row(
                |there| *there == shown.row,
                || shown.row.clone(),
                values.unwrap_or_default(),
            );
        }
        fill.done();
        Ok(Read::Fresh)
    }

    fn missed(&mut self) -> Vec<String> {
        let as_root = rustix::process::geteuid().is_root();
        let told = self
            .untold
            .and_then(|closed| untold(closed, self.open.pids().count(), as_root));
        if told.is_some() {
            self.untold = None;
        }
        told.into_iter().collect()
    }

    fn began_at(&self, row: &SeriesRow, column: &SeriesColumn) -> Option<u64> {
        let shown = self.shown.iter().find(|shown| shown.row.name == row.name)?;
        let place = OTHERS.iter().position(|known| known.0 == column.name)?;
        let (own, grown) = (self.open.own(shown.pid)?, self.open.grown(shown.pid)?);
        own.get(place)?.checked_sub(*grown.get(place)?)
    }
}

/// What is said of processes that may not be looked into, beside so many that may. Root may look into all but some few of a
/// system's own: of these it is only said where they are the greater part.
fn untold(closed: usize, open: usize, as_root: bool) -> Option<String> {
    if closed == 0 || (as_root && closed <= open) {
        return None;
    }
    let processes = if closed == 1 { "process" } else { "processes" };
    let remedy = if as_root {
        ""
    } else {
        ": run as root to see them"
    };
    Some(format!(
        "I/O of {closed} other {processes} cannot be read{remedy}"
    ))
}

#[cfg(test)]
mod tests;
