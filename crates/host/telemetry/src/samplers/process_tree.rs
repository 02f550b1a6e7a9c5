//! The I/O that processes did themselves, without that of their exited children.
//!
//! When a process waits for an exited child, the kernel adds the child's totals to the parent's counts in
//! /proc/PID/io: the counts of a shell whose `dd` exits increase by gigabytes that were written long ago and already
//! attributed to `dd`. So the last counts and the parent of each process are remembered. When a process has exited,
//! its counts are subtracted from the growth of its ancestors, the nearest first. The remaining growth of an ancestor
//! is its own I/O, and that of its children since their last scan.
//!
//! The kernel does not say which process waited for which. If none did (a parent can ignore SIGCHLD), too little is
//! attributed to an ancestor that did as much I/O itself in the same scan.

use std::array;
use std::collections::{HashMap, HashSet};

/// Longest chain of ancestors: a longer one is a cycle of reused process ids.
const MAX_GENERATIONS: usize = 64;

/// A process.
struct Entry<const N: usize> {
    parent: u32,
    /// As the kernel reports them.
    counts: [u64; N],
    /// The part of them that is I/O of exited children.
    from_children: [u64; N],
    /// What the process did itself since the previous scan.
    growth: [u64; N],
    /// The last scan that saw it.
    scan: u64,
}

/// I/O of an exited process that was not yet found in the counts of an ancestor.
struct ExitedChildIo<const N: usize> {
    /// The ancestors that were still running, the nearest first.
    ancestors: Vec<u32>,
    counts: [u64; N],
    /// The first scan without the process.
    scan: u64,
}

/// Processes with `N` counts each, from scan to scan.
pub(super) struct ProcessTree<const N: usize> {
    entries: HashMap<u32, Entry<N>>,
    exited: Vec<ExitedChildIo<N>>,
    scan: u64,
}

impl<const N: usize> ProcessTree<N> {
    pub(super) fn new() -> ProcessTree<N> {
        ProcessTree {
            entries: HashMap::new(),
            exited: Vec::new(),
            scan: 0,
        }
    }

    /// Begins a scan: the caller passes each running process to [`update`](Self::update), [`insert`](Self::insert) or
    /// [`keep`](Self::keep).
    pub(super) fn begin_scan(&mut self) {
        self.scan += 1;
    }

    /// Whether the process existed in the previous scan.
    pub(super) fn contains(&self, pid: u32) -> bool {
        self.entries.contains_key(&pid)
    }

    /// Updates the counts of a known process. `false`: it is unknown, or its counts decreased because another process
    /// reuses the id; the caller then inserts it.
    pub(super) fn update(&mut self, pid: u32, counts: [u64; N]) -> bool {
        let Some(entry) = self.entries.get_mut(&pid) else {
            return false;
        };
        let growth = array::from_fn(|at| counts[at].checked_sub(entry.counts[at]));
        if growth.contains(&None) {
            return false;
        }
        entry.growth = growth.map(Option::unwrap_or_default);
        (entry.counts, entry.scan) = (counts, self.scan);
        true
    }

    /// Keeps a known process whose counts cannot be read.
    pub(super) fn keep(&mut self, pid: u32) {
        if let Some(entry) = self.entries.get_mut(&pid) {
            (entry.growth, entry.scan) = ([0; N], self.scan);
        }
    }

    /// Adds a process that did not exist in the previous scan. Its growth counts from `since`.
    pub(super) fn insert(&mut self, pid: u32, parent: u32, counts: [u64; N], since: [u64; N]) {
        let entry = Entry {
            parent,
            counts,
            from_children: [0; N],
            growth: array::from_fn(|at| counts[at].saturating_sub(since[at])),
            scan: self.scan,
        };
        if let Some(before) = self.entries.insert(pid, entry) {
            let ancestors = self.running_from(before.parent);
            self.add_exited(ancestors, before.counts);
        }
    }

    /// Ends a scan: processes that it did not see have exited, and their counts are subtracted from their ancestors'
    /// growth. `parent_of`: the new parent of a process whose parent exited, if the process still runs.
    pub(super) fn end_scan(&mut self, mut parent_of: impl FnMut(u32) -> Option<u32>) {
        let scan = self.scan;
        let gone: HashSet<u32> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.scan != scan)
            .map(|(pid, _)| *pid)
            .collect();
        for pid in &gone {
            let entry = &self.entries[pid];
            let (ancestors, counts) = (self.running_from(entry.parent), entry.counts);
            self.add_exited(ancestors, counts);
        }
        for pid in &gone {
            self.entries.remove(pid);
        }
        for (pid, entry) in &mut self.entries {
            if gone.contains(&entry.parent) {
                entry.parent = parent_of(*pid).unwrap_or_default();
            }
        }
        self.subtract_exited();
    }

    /// The processes of the last scan.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.entries.keys().copied()
    }

    /// What a process did itself since it started, or since the scan that found its id reused.
    pub(super) fn own(&self, pid: u32) -> Option<[u64; N]> {
        let entry = self.entries.get(&pid)?;
        Some(array::from_fn(|at| {
            entry.counts[at] - entry.from_children[at]
        }))
    }

    /// What a process did itself since the previous scan.
    pub(super) fn growth(&self, pid: u32) -> Option<[u64; N]> {
        Some(self.entries.get(&pid)?.growth)
    }

    /// A process and its ancestors seen by this scan.
    fn running_from(&self, pid: u32) -> Vec<u32> {
        let mut running = Vec::new();
        let mut next = pid;
        for _ in 0..MAX_GENERATIONS {
            let Some(entry) = self.entries.get(&next) else {
                break;
            };
            if entry.scan == self.scan {
                running.push(next);
            }
            next = entry.parent;
        }
        running
    }

    fn add_exited(&mut self, ancestors: Vec<u32>, counts: [u64; N]) {
        if counts != [0; N] {
            self.exited.push(ExitedChildIo {
                ancestors,
                counts,
                scan: self.scan,
            });
        }
    }

    /// Subtracts the I/O of exited processes from the growth of their ancestors. If it is not found completely, the
    /// rest is tried again in the next scan: the ancestor may have been read before it waited for the child.
    fn subtract_exited(&mut self) {
        for exited in &mut self.exited {
            for ancestor in &exited.ancestors {
                let Some(entry) = self.entries.get_mut(ancestor) else {
                    continue;
                };
                for at in 0..N {
                    let taken = exited.counts[at].min(entry.growth[at]);
                    exited.counts[at] -= taken;
                    entry.growth[at] -= taken;
                    entry.from_children[at] += taken;
                }
            }
        }
        let scan = self.scan;
        self.exited
            .retain(|exited| exited.scan == scan && exited.counts != [0; N]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INIT: u32 = 1;

    /// A simulated tree: each process with its parent and count.
    #[derive(Default)]
    struct Scans(Option<ProcessTree<1>>);

    impl Scans {
        fn scan(&mut self, seen: &[(u32, u32, u64)]) {
            let first = self.0.is_none();
            let tree = self.0.get_or_insert_with(ProcessTree::new);
            tree.begin_scan();
            for (pid, parent, count) in seen {
                if !tree.update(*pid, [*count]) {
                    let since = if first { *count } else { 0 };
                    tree.insert(*pid, *parent, [*count], [since]);
                }
            }
            let parent_of = |pid| seen.iter().find(|one| one.0 == pid).map(|one| one.1);
            tree.end_scan(parent_of);
        }

        fn growth(&self, pid: u32) -> u64 {
            self.0.as_ref().unwrap().growth(pid).unwrap()[0]
        }
    }

    #[test]
    fn a_parent_is_attributed_the_io_of_its_child_since_the_last_scan() {
        let mut scans = Scans::default();
        scans.scan(&[(INIT, 0, 0), (10, INIT, 7), (11, 10, 1000)]);
        scans.scan(&[(INIT, 0, 0), (10, INIT, 7), (11, 10, 1500)]);
        assert_eq!((scans.growth(10), scans.growth(11)), (0, 500));
        // The child did another 30, the parent 2. Then the parent waited for the child.
        scans.scan(&[(INIT, 0, 0), (10, INIT, 7 + 1530 + 2)]);
        assert_eq!(scans.growth(10), 32);
        assert_eq!(scans.0.as_ref().unwrap().own(10), Some([39]));
        // The parent exits: its counts in its own parent were attributed before.
        scans.scan(&[(INIT, 0, 1541)]);
        assert_eq!(scans.growth(INIT), 2);
    }

    #[test]
    fn the_ancestor_that_waited_for_it_is_found() {
        for (case, last, expected) in [
            (
                "parent and child ended, and the grandparent has both",
                vec![(INIT, 0, 5), (10, INIT, 900)],
                (5, 0),
            ),
            (
                "the parent ended first, and init has the child",
                vec![(INIT, 0, 605), (10, INIT, 300)],
                (5, 0),
            ),
            ("nobody waited", vec![(INIT, 0, 0), (10, INIT, 0)], (0, 0)),
        ] {
            let mut scans = Scans::default();
            scans.scan(&[(INIT, 0, 0), (10, INIT, 0), (11, 10, 300), (12, 11, 600)]);
            scans.scan(&last);
            assert_eq!((scans.growth(INIT), scans.growth(10)), expected, "{case}");
        }
    }

    #[test]
    fn the_counts_of_an_orphan_go_to_its_new_parent() {
        let mut scans = Scans::default();
        scans.scan(&[(INIT, 0, 0), (10, INIT, 0), (11, 10, 300)]);
        scans.scan(&[(INIT, 0, 0), (11, INIT, 300)]);
        scans.scan(&[(INIT, 0, 310)]);
        assert_eq!(scans.growth(INIT), 10);
    }

    #[test]
    fn a_child_that_exits_between_its_parents_reading_and_its_own_is_subtracted_in_the_next_scan() {
        let mut scans = Scans::default();
        scans.scan(&[(10, INIT, 0), (11, 10, 300)]);
        scans.scan(&[(10, INIT, 0)]);
        scans.scan(&[(10, INIT, 301)]);
        assert_eq!(scans.growth(10), 1);
        scans.scan(&[(10, INIT, 601)]);
        assert_eq!(scans.growth(10), 300, "it is subtracted once");
    }

    #[test]
    fn a_process_with_a_reused_id_counts_from_zero() {
        let mut scans = Scans::default();
        scans.scan(&[(10, INIT, 0), (11, 10, 300)]);
        scans.scan(&[(10, INIT, 302), (11, 10, 4)]);
        assert_eq!((scans.growth(10), scans.growth(11)), (2, 4));
    }

    proptest! {
        /// For any order of I/O and exits: if every process is waited for, each byte is attributed once.
        #[test]
        fn all_io_is_attributed_once(
            steps in prop::collection::vec((0usize..6, 0u64..100, any::<bool>(), any::<bool>()), 1..60)
        ) {
            // Each is the child of the previous one; the first, init, never exits.
            let mut alive = vec![true; 6];
            let mut counts = [0u64; 6];
            let (mut done, mut attributed) = (0, 0);
            let parent = |alive: &[bool], who: usize| (0..who).rev().find(|one| alive[*one]);
            let mut scans = Scans::default();
            let scan = |scans: &mut Scans, alive: &[bool], counts: &[u64; 6]| {
                let seen: Vec<(u32, u32, u64)> = (0..6)
                    .filter(|who| alive[*who])
                    .map(|who| {
                        let parent = parent(alive, who).map_or(0, |parent| parent as u32 + 1);
                        (who as u32 + 1, parent, counts[who])
                    })
                    .collect();
                scans.scan(&seen);
                seen.iter().map(|one| scans.growth(one.0)).sum::<u64>()
            };
            scan(&mut scans, &alive, &counts);
            for (who, more, ends, scanned) in steps {
                if alive[who] {
                    counts[who] += more;
                    done += more;
                    if ends && who > 0 {
                        alive[who] = false;
                        counts[parent(&alive, who).unwrap()] += counts[who];
                    }
                }
                if scanned {
                    attributed += scan(&mut scans, &alive, &counts);
                }
            }
            attributed += scan(&mut scans, &alive, &counts);
            prop_assert_eq!(attributed, done);
        }
    }
}
