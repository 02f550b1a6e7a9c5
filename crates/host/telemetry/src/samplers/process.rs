//! Processes that the user named, processes that serve the jobs' targets, and their descendants: the servers under
//! test, whose resource use is reported.
//!
//! Searching for names costs more than reading the processes found, so it runs about once per second; processes that
//! were already examined are examined again every ten seconds, because exec(2) may have replaced their program.
//!
//! A server is attributed its own I/O ([`super::process_tree`]): the I/O of a named child is not attributed to its
//! parent again when the child exits. The I/O of a child with another name is attributed to its parent completely
//! when it exits, because it was not attributed before. The kernel keeps the CPU time of children separate.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use iodyno_host::counters::NS_A_TICK;
use iodyno_host::{ProcessStat, Roots};
use iodyno_model::{MirrorLayer, PROCESS, SeriesColumn, SeriesKind, SeriesRow};

use super::mirror::Mirror;
use super::process_tree::ProcessTree;
use super::processes::Processes;
use crate::sampler::{Read, Readings, Sampler};
use crate::scope::{ProcessName, Scope};

/// Time between searches for names; slightly less than the usual second between samples.
const SEARCH_EVERY: Duration = Duration::from_millis(900);
/// Number of searches in which a new process is examined: it may be about to call exec(2).
const YOUNG: u8 = 3;
/// Time between examinations of all processes.
const EXAMINE_ALL_EVERY: Duration = Duration::from_secs(10);
/// In the order of [`PROCESS`].
type Values = [Option<u64>; 10];

/// A process with a requested name.
struct MatchedProcess {
    pid: u32,
    /// Index of its name; servers come after all names.
    name: usize,
    row: String,
    /// Where it reports the data sent to legs, if it serves a mirror.
    mirror: Option<Mirror>,
    /// It started since the previous search: all its counts are since its start.
    newborn: bool,
    /// Its I/O cannot be read, which was reported in a gap.
    unreadable: bool,
    /// The last reading, and whether its I/O could be read; `None`: it has exited.
    now: Option<(ProcessStat, bool)>,
}

impl MatchedProcess {
    fn legs(&self) -> Option<[u64; 2]> {
        self.mirror.as_ref()?.counts()
    }
}

/// Named processes.
pub(crate) struct Process {
    processes: Processes,
    /// System calls that read and wrote, and bytes of storage.
    tree: ProcessTree<4>,
    names: Vec<ProcessName>,
    servers: Vec<u32>,
    page_size: u64,
    /// How often each process was examined.
    examined: HashMap<u32, u8>,
    found: Vec<MatchedProcess>,
    searched: Option<Instant>,
    /// When all processes were last examined, or the first search.
    examined_all: Option<Instant>,
    /// The names that no process has, which was reported in a gap.
    absent: Vec<bool>,
    missed: Vec<String>,
}

impl Process {
    /// `None`: there are neither names nor servers.
    pub(crate) fn open(roots: &Roots, scope: &Scope, page_size: u64) -> Option<Process> {
        let Scope {
            processes: names,
            servers,
            ..
        } = scope;
        (!names.is_empty() || !servers.is_empty()).then(|| Process {
            processes: Processes::new(roots.proc.clone()),
            tree: ProcessTree::new(),
            names: names.clone(),
            servers: servers.clone(),
            page_size,
            examined: HashMap::new(),
            found: Vec::new(),
            searched: None,
            examined_all: None,
            absent: vec![false; names.len()],
            missed: Vec::new(),
        })
    }

    /// Searches for processes with these names, if a search is due.
    fn search(&mut self, now: Instant) -> Result<(), String> {
        if self
            .searched
            .is_some_and(|searched| now < searched + SEARCH_EVERY)
        {
            return Ok(());
        }
        let all = self.processes.all()?;
        let first = self.searched.replace(now).is_none();
        let since = *self.examined_all.get_or_insert(now);
        let everything = now >= since + EXAMINE_ALL_EVERY;
        if everything {
            self.examined_all = Some(now);
        }
        let mut examined = HashMap::with_capacity(all.len());
        for pid in all {
            let before = self.examined.get(&pid).copied();
            let times = before.unwrap_or(0);
            examined.insert(pid, (times + 1).min(YOUNG));
            let known = self.found.iter().any(|found| found.pid == pid);
            if known || (times >= YOUNG && !everything) {
                continue;
            }
            let named = self.processes.is_called(pid, &self.names);
            let place = named.or_else(|| {
                let server = self.processes.belongs(pid, &self.servers)?;
                Some(self.names.len() + server)
            });
            if let Some(place) = place {
                let name = match self.names.get(place) {
                    Some(named) => named.name.clone(),
                    None => self.processes.name(pid),
                };
                let mirror = (name == MirrorLayer::PROCESS)
                    .then(|| Mirror::of(&iodyno_host::socket_folder(), pid));
                self.found.push(MatchedProcess {
                    pid,
                    name: place,
                    mirror: mirror.flatten(),
                    row: format!("{name}[{pid}]"),
                    newborn: before.is_none() && !first,
                    unreadable: false,
                    now: None,
                });
            }
        }
        self.examined = examined;
        self.found.sort_by_key(|found| (found.name, found.pid));
        Ok(())
    }

    /// Reads all processes that were found, and drops those that exited.
    fn read_found(&mut self) {
        let Process {
            processes,
            tree,
            found,
            missed,
            ..
        } = self;
        tree.begin_scan();
        found.retain_mut(|found| {
            let Some(stat) = processes.stat(found.pid) else {
                return false;
            };
            if stat.has_ended() {
                // A zombie: its parent has not waited for it yet.
                found.now = None;
                tree.keep(found.pid);
                return true;
            }
            let io = processes.io(found.pid);
            found.now = Some((stat, io.is_ok()));
            match io {
                Ok(io) => {
                    let counts = [io.reads, io.writes, io.read_bytes, io.written_bytes];
                    if !tree.update(found.pid, counts) {
                        let since = if found.newborn { [0; 4] } else { counts };
                        tree.insert(found.pid, stat.parent, counts, since);
                    }
                }
                Err(error) => {
                    tree.keep(found.pid);
                    if !std::mem::replace(&mut found.unreadable, true) {
                        missed.push(unreadable(&found.row, &error));
                    }
                }
            }
            true
        });
        tree.end_scan(|pid| processes.stat(pid).map(|stat| stat.parent));
    }

    /// As [`Sampler::read`], at an instant.
    fn read_at(&mut self, now: Instant, into: &mut Readings) -> Result<Read, String> {
        self.search(now)?;
        self.read_found();
        let mut fill = into.fill(PROCESS);
        for found in &self.found {
            let Some((stat, readable)) = found.now else {
                continue;
            };
            let io = self.tree.own(found.pid).filter(|_| readable);
            let row = found.row.as_str();
            fill.row(
                |there| there.name == row,
                || SeriesRow::new(row),
                values(&stat, io, self.page_size, found.legs()),
            );
        }
        fill.done();
        self.report_absent();
        Ok(Read::Fresh)
    }

    /// Reports each name that no process has, once.
    fn report_absent(&mut self) {
        for (place, name) in self.names.iter().enumerate() {
            let mut found = self.found.iter();
            let absent = !found.any(|found| found.name == place && found.now.is_some());
            if absent && !self.absent[place] {
                self.missed
                    .push(format!("no process is called `{}`", name.name));
            }
            self.absent[place] = absent;
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

/// The values of a process, in the order of [`PROCESS`].
fn values(
    stat: &ProcessStat,
    io: Option<[u64; 4]>,
    page_size: u64,
    legs: Option<[u64; 2]>,
) -> Values {
    let [requests, commands] = legs.map_or([None; 2], |counts| counts.map(Some));
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
        requests,
        commands,
    ]
}

fn unreadable(row: &str, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => "; run as root to see it",
        _ => "",
    };
    format!("I/O of {row} cannot be read: {error}{remedy}")
}

#[cfg(test)]
mod tests;
