//! Processes that the user named: servers under test, which are charged with what they use.
//!
//! Looking for names costs more than reading what was found: it is done about once a second, and of processes that
//! were looked at before only now and then, as a program may be exchanged by exec(2).

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use iodyno_model::{PROCESS, SeriesColumn, SeriesKind, SeriesRow};
use iodyno_target::Roots;
use iodyno_target::counters::NS_A_TICK;

use super::processes::Processes;
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
}

/// Named processes.
pub(crate) struct Process {
    processes: Processes,
    names: Vec<String>,
    page_size: u64,
    /// How often each process was looked at.
    looks: HashMap<u32, u8>,
    found: Vec<Found>,
    looked: Option<Instant>,
    looked_at_all: Instant,
    /// From one look to the next.
    pause: Duration,
    /// Names that nobody has, and that it was said of.
    nobody: Vec<bool>,
    missed: Vec<String>,
}

impl Process {
    /// `None`: nobody is named.
    pub(crate) fn open(roots: &Roots, names: &[String], page_size: u64) -> Option<Process> {
        (!names.is_empty()).then(|| Process {
            processes: Processes::new(roots.proc.clone()),
            names: names.to_vec(),
            page_size,
            looks: HashMap::new(),
            found: Vec::new(),
            looked: None,
            looked_at_all: Instant::now(),
            pause: LOOK,
            nobody: vec![false; names.len()],
            missed: Vec::new(),
        })
    }

    /// Looks for processes of these names, if it is time to.
    fn look(&mut self) -> Result<(), String> {
        let now = Instant::now();
        if self.looked.is_some_and(|looked| now < looked + self.pause) {
            return Ok(());
        }
        let all = self.processes.all()?;
        let first = self.looked.replace(now).is_none();
        let everything = now >= self.looked_at_all + LOOK_AT_ALL;
        if everything {
            self.looked_at_all = now;
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
                });
            }
        }
        self.looks = looks;
        self.found.sort_by_key(|found| (found.name, found.pid));
        Ok(())
    }

    /// Says of each name that nobody has, once.
    fn miss(&mut self) {
        for (place, name) in self.names.iter().enumerate() {
            let nobody = !self.found.iter().any(|found| found.name == place);
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
        self.look()?;
        let Process {
            processes,
            found,
            missed,
            page_size,
            ..
        } = self;
        let mut fill = into.fill(PROCESS);
        found.retain_mut(|found| match values(processes, found, *page_size, missed) {
            Some(values) => {
                let row = found.row.as_str();
                fill.row(|there| there.name == row, || SeriesRow::new(row), values);
                true
            }
            None => false,
        });
        fill.done();
        self.miss();
        Ok(Read::Fresh)
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

/// What it used; `None`: it has ended.
fn values(
    processes: &mut Processes,
    found: &mut Found,
    page_size: u64,
    missed: &mut Vec<String>,
) -> Option<Values> {
    let stat = processes.stat(found.pid).filter(|stat| !stat.ended)?;
    let io = match processes.io(found.pid) {
        Ok(io) => Some(io),
        Err(error) => {
            if !std::mem::replace(&mut found.closed, true) {
                missed.push(closed(&found.row, &error));
            }
            None
        }
    };
    Some([
        Some(stat.user.saturating_mul(NS_A_TICK)),
        Some(stat.system.saturating_mul(NS_A_TICK)),
        Some(stat.threads),
        Some(stat.memory.saturating_mul(page_size)),
        io.map(|io| io.reads),
        io.map(|io| io.writes),
        io.map(|io| io.read_bytes),
        io.map(|io| io.written_bytes),
    ])
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
