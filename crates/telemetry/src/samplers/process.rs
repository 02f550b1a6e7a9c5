//! Processes that the user named: servers under test, which are charged with what they use.
//!
//! Looking for names costs more than reading what was found: it is done about once a second, and of processes that
//! were looked at before only now and then, as a program may be exchanged by exec(2).
//!
//! A server's process is charged with its own I/O ([`super::family`]): what a named child did is not its parent's again when
//! the child has ended. What a child of another name did is its parent's once it has ended, all of it, as nothing was told of it
//! before. CPU time the kernel keeps apart.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use iodyno_model::{PROCESS, SeriesColumn, SeriesKind, SeriesRow};
use iodyno_target::Roots;
use iodyno_target::counters::NS_A_TICK;

use super::family::Family;
use super::processes::{Processes, Stat};
use crate::sampler::{Read, Readings, Sampler};

/// From one look for names to the next; a little less than the second that most samples are apart.
const LOOK: Duration = Duration::from_millis(900);
/// A new process is looked at in so many looks: it may be about to become another program.
const YOUNG: u8 = 3;
/// From one look at all processes to the next.
const LOOK_AT_ALL: Duration = Duration::from_secs(10);
/// In the order of [`PROCESS`].
type Values = [Option<u64>; 8];

/// A process of a wanted name.
struct Found {
    pid: u32,
    /// Of the names.
    name: usize,
    row: String,
    /// It came into being since the look before: all its counts are of that time.
    newborn: bool,
    /// Its I/O is not told; that has been said.
    closed: bool,
    /// As it was read last, and whether its I/O was told; `None`: it has ended.
    now: Option<(Stat, bool)>,
}

/// Named processes.
pub(crate) struct Process {
    processes: Processes,
    /// System calls that read and wrote, and bytes of the storage.
    family: Family<4>,
    names: Vec<String>,
    page_size: u64,
    /// How often each process was looked at.
    looks: HashMap<u32, u8>,
    found: Vec<Found>,
    looked: Option<Instant>,
    /// When all processes were looked at, or the first time any were.
    looked_at_all: Option<Instant>,
    /// Names that nobody has, and that it was said of.
    nobody: Vec<bool>,
    missed: Vec<String>,
}

impl Process {
    /// `None`: nobody is named.
    pub(crate) fn open(roots: &Roots, names: &[String], page_size: u64) -> Option<Process> {
        (!names.is_empty()).then(|| Process {
            processes: Processes::new(roots.proc.clone()),
            family: Family::new(),
            names: names.to_vec(),
            page_size,
            looks: HashMap::new(),
            found: Vec::new(),
            looked: None,
            looked_at_all: None,
            nobody: vec![false; names.len()],
            missed: Vec::new(),
        })
    }

    /// Looks for processes of these names, if it is time to.
    fn look(&mut self, now: Instant) -> Result<(), String> {
        if self.looked.is_some_and(|looked| now < looked + LOOK) {
            return Ok(());
        }
        let all = self.processes.all()?;
        let first = self.looked.replace(now).is_none();
        let since = *self.looked_at_all.get_or_insert(now);
        let everything = now >= since + LOOK_AT_ALL;
        if everything {
            self.looked_at_all = Some(now);
        }
        let mut looks = HashMap::with_capacity(all.len());
        for pid in all {
            let before = self.looks.get(&pid).copied();
            let times = before.unwrap_or(0);
            looks.insert(pid, (times + 1).min(YOUNG));
            let known = self.found.iter().any(|found| found.pid == pid);
            if known || (times >= YOUNG && !everything) {
                continue;
            }
            if let Some(name) = self.processes.is_called(pid, &self.names) {
                self.found.push(Found {
                    pid,
                    name,
                    row: format!("{}[{pid}]", self.names[name]),
                    newborn: before.is_none() && !first,
                    closed: false,
                    now: None,
                });
            }
        }
        self.looks = looks;
        self.found.sort_by_key(|found| (found.name, found.pid));
        Ok(())
    }

    /// Asks all that were found; those that have ended are found no more.
    fn ask(&mut self) {
        let Process {
            processes,
            family,
            found,
            missed,
            ..
        } = self;
        family.begin();
        found.retain_mut(|found| {
            let Some(stat) = processes.stat(found.pid) else {
                return false;
            };
            if stat.ended {
                // Its parent has yet to wait for it.
                found.now = None;
                family.stays(found.pid);
                return true;
            }
            let io = processes.io(found.pid);
            found.now = Some((stat, io.is_ok()));
            match io {
                Ok(io) => {
                    let counts = [io.reads, io.writes, io.read_bytes, io.written_bytes];
                    if !family.saw(found.pid, counts) {
                        let since = if found.newborn { [0; 4] } else { counts };
                        family.meet(found.pid, stat.parent, counts, since);
                    }
                }
                Err(error) => {
                    family.stays(found.pid);
                    if !std::mem::replace(&mut found.closed, true) {
                        missed.push(closed(&found.row, &error));
                    }
                }
            }
            true
        });
        family.settle(|pid| processes.stat(pid).map(|stat| stat.parent));
    }

    /// As [`Sampler::read`], at an instant.
    fn read_at(&mut self, now: Instant, into: &mut Readings) -> Result<Read, String> {
        self.look(now)?;
        self.ask();
        let mut fill = into.fill(PROCESS);
        for found in &self.found {
            let Some((stat, tells)) = found.now else {
                continue;
            };
            let io = self.family.own(found.pid).filter(|_| tells);
            let row = found.row.as_str();
            fill.row(
                |there| there.name == row,
                || SeriesRow::new(row),
                values(&stat, io, self.page_size),
            );
        }
        fill.done();
        self.miss();
        Ok(Read::Fresh)
    }

    /// Says of each name that nobody has, once.
    fn miss(&mut self) {
        for (place, name) in self.names.iter().enumerate() {
            let mut found = self.found.iter();
            let nobody = !found.any(|found| found.name == place && found.now.is_some());
            if nobody && !self.nobody[place] {
                self.missed.push(format!("no process is called `{name}`"));
            }
            self.nobody[place] = nobody;
        }
    }
}

impl Sampler for Process {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Process
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        self.read_at(Instant::now(), into)
    }

    fn missed(&mut self) -> Vec<String> {
        std::mem::take(&mut self.missed)
    }

    fn began_at(&self, row: &SeriesRow, _column: &SeriesColumn) -> Option<u64> {
        let mut all = self.found.iter();
        all.any(|found| found.newborn && found.row == row.name)
            .then_some(0)
    }
}

/// What it used.
fn values(stat: &Stat, io: Option<[u64; 4]>, page_size: u64) -> Values {
    let [reads, writes, read_bytes, written_bytes] =
        io.map_or([None; 4], |counts| counts.map(Some));
    [
        Some(stat.user.saturating_mul(NS_A_TICK)),
        Some(stat.system.saturating_mul(NS_A_TICK)),
        Some(stat.threads),
        Some(stat.memory.saturating_mul(page_size)),
        reads,
        writes,
        read_bytes,
        written_bytes,
    ]
}

fn closed(row: &str, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => "; run as root to see it",
        _ => "",
    };
    format!("I/O of {row} cannot be read: {error}{remedy}")
}

#[cfg(test)]
mod tests;
