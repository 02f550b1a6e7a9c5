//! What processes did themselves, without what their children had done before they ended.
//!
//! When a process waits for a child that has ended, the kernel adds all that the child ever did to the parent's counts in
//! /proc/PID/io: a shell whose `dd` ends jumps by gigabytes that were written long ago, and that
//! were told of once already. So each process's last counts and parent are remembered; when it is
//! gone, they are taken off what its ancestors grew by, the nearest first. What is left of an ancestor's growth is what it did
//! itself, and what its children did since they were last looked at.
//!
//! Nobody tells who waited for whom. Where nobody did (a parent that ignores its children's ends), an ancestor that did as
//! much itself in the same look is told of with less.

use std::array;
use std::collections::{HashMap, HashSet};

/// More generations than that are a circle of process ids that were used again.
const GENERATIONS: usize = 64;

/// A process.
struct Member<const N: usize> {
    parent: u32,
    /// As the kernel has them.
    counts: [u64; N],
    /// Of these, what children had done.
    inherited: [u64; N],
    /// What it did itself since the look before.
    grown: [u64; N],
    /// The look that it was last seen in.
    look: u64,
}

/// What a process that is gone had done, as far as no ancestor is known to have it.
struct Legacy<const N: usize> {
    /// The ancestors that were still there, the nearest first.
    heirs: Vec<u32>,
    counts: [u64; N],
    /// The look that it was missed in.
    look: u64,
}

/// Processes with `N` counts each, from look to look.
pub(super) struct Family<const N: usize> {
    members: HashMap<u32, Member<N>>,
    legacies: Vec<Legacy<N>>,
    look: u64,
}

impl<const N: usize> Family<N> {
    pub(super) fn new() -> Family<N> {
        Family {
            members: HashMap::new(),
            legacies: Vec::new(),
            look: 0,
        }
    }

    /// A look begins: everybody who is there is to be seen or met in it.
    pub(super) fn begin(&mut self) {
        self.look += 1;
    }

    /// It was there in the look before.
    pub(super) fn knows(&self, pid: u32) -> bool {
        self.members.contains_key(&pid)
    }

    /// A known one is still there, with these counts. `false`: they went back, so that it is another process of that number, which is
    /// to be met.
    pub(super) fn saw(&mut self, pid: u32, counts: [u64; N]) -> bool {
        let Some(member) = self.members.get_mut(&pid) else {
            return false;
        };
        let grown = array::from_fn(|at| counts[at].checked_sub(member.counts[at]));
        if grown.contains(&None) {
            return false;
        }
        member.grown = grown.map(Option::unwrap_or_default);
        (member.counts, member.look) = (counts, self.look);
        true
    }

    /// A known one is still there, and does not tell its counts.
    pub(super) fn stays(&mut self, pid: u32) {
        if let Some(member) = self.members.get_mut(&pid) {
            (member.grown, member.look) = ([0; N], self.look);
        }
    }

    /// One that was not there in the look before; `since`: the counts from which it is told of.
    pub(super) fn meet(&mut self, pid: u32, parent: u32, counts: [u64; N], since: [u64; N]) {
        let member = Member {
            parent,
            counts,
            inherited: [0; N],
            grown: array::from_fn(|at| counts[at].saturating_sub(since[at])),
            look: self.look,
        };
        if let Some(before) = self.members.insert(pid, member) {
            let heirs = self.living_from(before.parent);
            self.leave(heirs, before.counts);
        }
    }

    /// The look has ended: those who were not seen are gone, and their ancestors have their counts. `parent_of`: the parent of a process
    /// whose own is gone, if it is still there.
    pub(super) fn settle(&mut self, mut parent_of: impl FnMut(u32) -> Option<u32>) {
        let look = self.look;
        let gone: HashSet<u32> = self
            .members
            .iter()
            .filter(|(_, member)| member.look != look)
            .map(|(pid, _)| *pid)
            .collect();
        for pid in &gone {
            let member = &self.members[pid];
            let (heirs, counts) = (self.living_from(member.parent), member.counts);
            self.leave(heirs, counts);
        }
        for pid in &gone {
            self.members.remove(pid);
        }
        for (pid, member) in &mut self.members {
            if gone.contains(&member.parent) {
                member.parent = parent_of(*pid).unwrap_or_default();
            }
        }
        self.bequeath();
    }

    /// Those that are there, or were when this was asked last.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.members.keys().copied()
    }

    /// What a process did itself since it began, or since the look in which another of its number was missed.
    pub(super) fn own(&self, pid: u32) -> Option<[u64; N]> {
        let member = self.members.get(&pid)?;
        Some(array::from_fn(|at| {
            member.counts[at] - member.inherited[at]
        }))
    }

    /// … and since the look before.
    pub(super) fn grown(&self, pid: u32) -> Option<[u64; N]> {
        Some(self.members.get(&pid)?.grown)
    }

    /// Of a process and its ancestors those that were seen in this look.
    fn living_from(&self, pid: u32) -> Vec<u32> {
        let mut living = Vec::new();
        let mut next = pid;
        for _ in 0..GENERATIONS {
            let Some(member) = self.members.get(&next) else {
                break;
            };
            if member.look == self.look {
                living.push(next);
            }
            next = member.parent;
        }
        living
    }

    fn leave(&mut self, heirs: Vec<u32>, counts: [u64; N]) {
        if counts != [0; N] {
            self.legacies.push(Legacy {
                heirs,
                counts,
                look: self.look,
            });
        }
    }

    /// Takes legacies off what their heirs grew by. One that is not found as a whole is looked for in the next look once more: its
    /// heir may have been looked at before it ended.
    fn bequeath(&mut self) {
        for legacy in &mut self.legacies {
            for heir in &legacy.heirs {
                let Some(member) = self.members.get_mut(heir) else {
                    continue;
                };
                for at in 0..N {
                    let taken = legacy.counts[at].min(member.grown[at]);
                    legacy.counts[at] -= taken;
                    member.grown[at] -= taken;
                    member.inherited[at] += taken;
                }
            }
        }
        let look = self.look;
        self.legacies
            .retain(|legacy| legacy.look == look && legacy.counts != [0; N]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INIT: u32 = 1;

    /// A family of which these are seen in a look, each with its parent and count.
    #[derive(Default)]
    struct Looks(Option<Family<1>>);

    impl Looks {
        fn look(&mut self, seen: &[(u32, u32, u64)]) {
            let first = self.0.is_none();
            let family = self.0.get_or_insert_with(Family::new);
            family.begin();
            for (pid, parent, count) in seen {
                if !family.saw(*pid, [*count]) {
                    let since = if first { *count } else { 0 };
                    family.meet(*pid, *parent, [*count], [since]);
                }
            }
            let parent_of = |pid| seen.iter().find(|one| one.0 == pid).map(|one| one.1);
            family.settle(parent_of);
        }

        fn grown(&self, pid: u32) -> u64 {
            self.0.as_ref().unwrap().grown(pid).unwrap()[0]
        }
    }

    #[test]
    fn a_parent_is_told_of_with_what_its_child_did_since_it_was_last_seen() {
        let mut looks = Looks::default();
        looks.look(&[(INIT, 0, 0), (10, INIT, 7), (11, 10, 1000)]);
        looks.look(&[(INIT, 0, 0), (10, INIT, 7), (11, 10, 1500)]);
        assert_eq!((looks.grown(10), looks.grown(11)), (0, 500));
        // The child did another 30, the parent 2, and then waited for it.
        looks.look(&[(INIT, 0, 0), (10, INIT, 7 + 1530 + 2)]);
        assert_eq!(looks.grown(10), 32);
        assert_eq!(looks.0.as_ref().unwrap().own(10), Some([39]));
        // The parent ends: all that is with its own parent now was told of before.
        looks.look(&[(INIT, 0, 1541)]);
        assert_eq!(looks.grown(INIT), 2);
    }

    #[test]
    fn whoever_waited_for_it_is_found() {
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
            let mut looks = Looks::default();
            looks.look(&[(INIT, 0, 0), (10, INIT, 0), (11, 10, 300), (12, 11, 600)]);
            looks.look(&last);
            assert_eq!((looks.grown(INIT), looks.grown(10)), expected, "{case}");
        }
    }

    #[test]
    fn an_orphan_has_its_new_parent_for_an_heir() {
        let mut looks = Looks::default();
        looks.look(&[(INIT, 0, 0), (10, INIT, 0), (11, 10, 300)]);
        looks.look(&[(INIT, 0, 0), (11, INIT, 300)]);
        looks.look(&[(INIT, 0, 310)]);
        assert_eq!(looks.grown(INIT), 10);
    }

    #[test]
    fn a_child_that_ends_between_its_parents_look_and_its_own_is_taken_off_in_the_next() {
        let mut looks = Looks::default();
        looks.look(&[(10, INIT, 0), (11, 10, 300)]);
        looks.look(&[(10, INIT, 0)]);
        looks.look(&[(10, INIT, 301)]);
        assert_eq!(looks.grown(10), 1);
        looks.look(&[(10, INIT, 601)]);
        assert_eq!(looks.grown(10), 300, "it is taken off once");
    }

    #[test]
    fn another_process_of_a_number_counts_from_zero_and_the_first_is_its_parents() {
        let mut looks = Looks::default();
        looks.look(&[(10, INIT, 0), (11, 10, 300)]);
        looks.look(&[(10, INIT, 302), (11, 10, 4)]);
        assert_eq!((looks.grown(10), looks.grown(11)), (2, 4));
    }

    proptest! {
        /// Of whoever works and ends in whatever order, with everybody waited for, no byte is told of twice.
        #[test]
        fn what_is_told_of_is_what_was_done(
            steps in prop::collection::vec((0usize..6, 0u64..100, any::<bool>(), any::<bool>()), 1..60)
        ) {
            // Each is the child of the one before; the first, init, never ends.
            let mut alive = vec![true; 6];
            let mut counts = [0u64; 6];
            let (mut done, mut told) = (0, 0);
            let parent = |alive: &[bool], who: usize| (0..who).rev().find(|one| alive[*one]);
            let mut looks = Looks::default();
            let look = |looks: &mut Looks, alive: &[bool], counts: &[u64; 6]| {
                let seen: Vec<(u32, u32, u64)> = (0..6)
                    .filter(|who| alive[*who])
                    .map(|who| {
                        let parent = parent(alive, who).map_or(0, |parent| parent as u32 + 1);
                        (who as u32 + 1, parent, counts[who])
                    })
                    .collect();
                looks.look(&seen);
                seen.iter().map(|one| looks.grown(one.0)).sum::<u64>()
            };
            look(&mut looks, &alive, &counts);
            for (who, more, ends, looked) in steps {
                if alive[who] {
                    counts[who] += more;
                    done += more;
                    if ends && who > 0 {
                        alive[who] = false;
                        counts[parent(&alive, who).unwrap()] += counts[who];
                    }
                }
                if looked {
                    told += look(&mut looks, &alive, &counts);
                }
            }
            told += look(&mut looks, &alive, &counts);
            prop_assert_eq!(told, done);
        }
    }
}
