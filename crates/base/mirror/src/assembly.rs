//! Decides from the superblocks of the given legs which of them make up the mirror, and in which state.
//!
//! The newest superblock is authoritative. Superblocks of one line are totally ordered, because a line has one mirror
//! at a time. Those of another line precede it only up to the fork. If two legs claim to be in sync, and neither
//! precedes the other, they were written independently: a split brain, in which no leg may be overwritten. An unwritten
//! line counts as the state from which it was forked.
//!
//! A leg in sync with a generation below [`Assembly::complete`] was restored from a copy. A write is issued only when
//! all legs have a newer generation than any earlier copy, and while writes are issued, a newer one follows every
//! second. After a crash, legs in sync may have different generations or logs. The older leg is then behind in the
//! marked regions ([`Assembly::with_logs`]), because a copy made shortly before the crash looks the same.
//!
//! The log describes what a leg lacks only if the leg is unchanged since it was last written. A missing leg is
//! therefore recorded as behind from the start: when it returns, all of it is copied. The same applies to a dropped leg
//! whose superblock is older than at the drop.

use uuid::Uuid;

use crate::intent::Bits;
use crate::superblock::{Fork, Geometry, LegState, MAX_FORKS, Member, Superblock};

/// Nothing of the leg counts.
const NOTHING: LegState = LegState::Behind { copied: 0 };

/// A leg of an assembled mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its UUID and state.
    pub member: Member,
    /// Index among the given legs; `None` if it is missing.
    pub given: Option<usize>,
}

/// A mirror that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembly {
    /// UUID of the mirror.
    pub mirror: Uuid,
    /// The generation of the newest superblock.
    pub generation: u64,
    /// The newest generation that all legs that got writes have.
    pub complete: u64,
    /// The line of its generations.
    pub line: u64,
    /// Earlier lines, oldest first.
    pub forks: Vec<Fork>,
    /// Nothing was written since the line was forked.
    pub unwritten: bool,
    /// The leg that is right where legs differ, as recorded.
    pub source: Option<Uuid>,
    /// Whether the superblocks of the given legs differ from this state.
    pub outdated: bool,
    /// Sizes.
    pub geometry: Geometry,
    /// All legs of its table, in order. At least one is given and in sync.
    pub parts: Vec<Part>,
}

/// Why legs cannot be assembled. Legs are named by their index among the given ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Legs of different mirrors.
    #[error("leg {leg} belongs to mirror {mirror}, the first leg to another one")]
    OtherMirror {
        /// Its index.
        leg: usize,
        /// UUID of its mirror.
        mirror: Uuid,
    },
    /// Two legs have the same UUID: one is a copy of the other, or the same storage.
    #[error(
        "legs {one} and {two} are the same leg: one is a copy of the other, or the same storage"
    )]
    Twice {
        /// Index of the first.
        one: usize,
        /// Index of the second.
        two: usize,
    },
    /// No longer in the table of the mirror.
    #[error("leg {leg} was removed from the mirror")]
    Removed {
        /// Its index.
        leg: usize,
    },
    /// Both were written while the other was missing.
    #[error("split brain: legs {one} and {two} were each written without the other")]
    SplitBrain {
        /// Index of the first.
        one: usize,
        /// Index of the second.
        two: usize,
    },
    /// In sync according to the table, but older than an update that reached all legs.
    #[error(
        "leg {leg} is older than the mirror (generation {own}, at least {least} is needed): it was restored from a copy"
    )]
    Old {
        /// Its index.
        leg: usize,
        /// Its generation.
        own: u64,
        /// The least that a leg in sync has.
        least: u64,
    },
    /// A leg in sync is missing.
    #[error("leg {uuid} is missing, and in sync")]
    Missing {
        /// Its UUID.
        uuid: Uuid,
    },
    /// No given leg is in sync.
    #[error("no leg that is in sync was given")]
    NoneInSync,
}

/// Assembles the mirror of these legs. With `degraded`, legs in sync may be missing, and the mirror forks a line with
/// this number, which must be new. All missing legs will be behind from the start.
///
/// # Errors
/// All faults; without legs, [`Fault::NoneInSync`].
pub fn assemble(given: &[Superblock], degraded: Option<u64>) -> Result<Assembly, Vec<Fault>> {
    let mut faults = identities(given);
    if !faults.is_empty() {
        return Err(faults);
    }
    let newest = newest(given)?;
    let mut assembly = Assembly {
        mirror: newest.mirror,
        generation: newest.generation,
        complete: newest.complete,
        line: newest.line,
        forks: newest.forks.clone(),
        unwritten: newest.unwritten,
        source: newest.source,
        outdated: false,
        geometry: newest.geometry,
        parts: (newest.members.iter())
            .map(|member| Part {
                member: *member,
                given: given.iter().position(|one| one.leg == member.uuid),
            })
            .collect(),
    };
    for (leg, superblock) in given.iter().enumerate() {
        match newest.state(superblock.leg) {
            None => faults.push(Fault::Removed { leg }),
            Some(LegState::InSync) if has(superblock, newest) < newest.complete => {
                faults.push(Fault::Old {
                    leg,
                    own: has(superblock, newest),
                    least: newest.complete,
                });
            }
            Some(_) => {}
        }
    }
    let mut forks = false;
    for part in &mut assembly.parts {
        let Some(own) = part.given.map(|leg| &given[leg]) else {
            if part.member.state == LegState::InSync {
                if degraded.is_none() {
                    let uuid = part.member.uuid;
                    faults.push(Fault::Missing { uuid });
                }
                forks = true;
            }
            part.member.state = NOTHING;
            continue;
        };
        let behind = part.member.state != LegState::InSync;
        // It was written by another line, or restored from a copy after it was dropped.
        if !own.precedes(newest) || (behind && has(own, newest) < part.member.seen) {
            part.member.state = NOTHING;
        }
        part.member.seen = has(own, newest);
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let in_sync = |part: &Part| part.member.state == LegState::InSync;
    if !assembly.parts.iter().any(in_sync) {
        return Err(vec![Fault::NoneInSync]);
    }
    if let Some(line) = degraded.filter(|_| forks) {
        assembly.fork(line);
    }
    let states = |members: &[Member]| -> Vec<(Uuid, LegState)> {
        (members.iter().map(|member| (member.uuid, member.state))).collect()
    };
    let assembled = states(&assembly.superblock(0).members);
    assembly.outdated = given.iter().any(|leg| {
        (leg.line, leg.generation) != (assembly.line, assembly.generation)
            || states(&leg.members) != assembled
    });
    Ok(assembly)
}

/// The generation whose data a leg has, relative to the authoritative superblock.
fn has(leg: &Superblock, newest: &Superblock) -> u64 {
    match leg.line == newest.line {
        true => leg.generation,
        false => leg.position().generation,
    }
}

/// Faults of legs that cannot belong together.
fn identities(given: &[Superblock]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (two, superblock) in given.iter().enumerate() {
        let same = |other: &Superblock| other.leg == superblock.leg;
        if superblock.mirror != given[0].mirror {
            let mirror = superblock.mirror;
            faults.push(Fault::OtherMirror { leg: two, mirror });
        } else if let Some(one) = given[..two].iter().position(same) {
            faults.push(Fault::Twice { one, two });
        }
    }
    faults
}

/// Whether `alone` was started without `other` and nothing was written, but `other` has more: `other` may have changed
/// since, and is unaware of the start.
fn contradicts(alone: &Superblock, other: &Superblock) -> bool {
    let unaware = alone.leaves_out(other) && !other.leaves_out(alone);
    alone.unwritten && unaware && !other.precedes(alone)
}

/// The authoritative superblock.
fn newest(given: &[Superblock]) -> Result<&Superblock, Vec<Fault>> {
    let claims: Vec<(usize, &Superblock)> = (given.iter().enumerate())
        .filter(|(_, leg)| leg.claims())
        .collect();
    let mut faults = Vec::new();
    for (at, (two, leg)) in claims.iter().enumerate() {
        let before = claims[..at].iter();
        let unrelated = |other: &Superblock| {
            (!leg.precedes(other) && !other.precedes(leg))
                || contradicts(leg, other)
                || contradicts(other, leg)
        };
        let split = before.filter(|(_, other)| unrelated(other));
        faults.extend(split.map(|(one, _)| Fault::SplitBrain {
            one: *one,
            two: *two,
        }));
    }
    let Some((_, mut newest)) = claims.first().copied() else {
        return Err(vec![Fault::NoneInSync]);
    };
    if !faults.is_empty() {
        return Err(faults);
    }
    // Those that do not claim to be in sync come last: they may lack another update of the same generation.
    let others = given.iter().filter(|leg| !leg.claims());
    for leg in claims.iter().map(|(_, leg)| *leg).chain(others) {
        if newest.is_older(leg) {
            newest = leg;
        }
    }
    Ok(newest)
}

impl Assembly {
    /// Applies the logs of the given legs: the highest write number of each, and whether any region is marked. The
    /// newest leg in sync has all data of marked regions. An older leg may have been restored from a copy, and is
    /// behind in these regions.
    ///
    /// # Errors
    /// The mirror was started without a leg, nothing was written, and the log of this leg is newer: split brain.
    pub fn with_logs(
        mut self,
        given: &[Superblock],
        writes: &[u64],
        marked: bool,
    ) -> Result<Assembly, Vec<Fault>> {
        let source = self.source;
        let age = |part: &Part, at: usize| {
            let chosen = source == Some(part.member.uuid);
            (chosen, part.member.seen, writes[at])
        };
        let legs = self.parts.iter();
        let legs = legs.filter_map(|part| Some((part.member.state, part.given?, part)));
        let in_sync = legs.clone().filter(|leg| leg.0 == LegState::InSync);
        let newest = in_sync.clone().map(|(_, at, part)| age(part, at)).max();
        let newest = newest.expect("a leg in sync is given");
        let left_out = legs.filter(|(state, at, _)| {
            self.unwritten
                && *state != LegState::InSync
                && given[*at].claims()
                && writes[*at] > newest.2
        });
        let split = left_out.flat_map(|(_, two, _)| {
            let ones = in_sync.clone().map(|(_, one, _)| one);
            ones.map(move |one| Fault::SplitBrain { one, two })
        });
        let split: Vec<Fault> = split.collect();
        if !split.is_empty() {
            return Err(split);
        }
        let copied = self.geometry.length;
        for part in &mut self.parts {
            let older = part.given.is_some_and(|at| age(part, at) < newest);
            if marked && older && part.member.state == LegState::InSync {
                part.member.state = LegState::Behind { copied };
                self.outdated = true;
            }
        }
        Ok(self)
    }

    /// Begins a new line. One on which nothing was written is not remembered.
    pub fn fork(&mut self, line: u64) {
        if !self.unwritten {
            if self.forks.len() == MAX_FORKS {
                self.forks.remove(0);
            }
            self.forks.push(Fork {
                line: self.line,
                generation: self.generation,
            });
        }
        (self.line, self.unwritten) = (line, true);
    }

    /// The superblock of one leg after an update to this state.
    pub fn superblock(&self, leg: usize) -> Superblock {
        Superblock {
            mirror: self.mirror,
            leg: self.parts[leg].member.uuid,
            generation: self.generation,
            complete: self.complete,
            line: self.line,
            forks: self.forks.clone(),
            unwritten: self.unwritten,
            source: self.source,
            geometry: self.geometry,
            members: self.parts.iter().map(|part| part.member).collect(),
        }
    }

    /// Number of blocks of the log.
    pub fn log_blocks(&self) -> u64 {
        self.geometry.regions().div_ceil(crate::intent::REGIONS)
    }

    /// A block of the log of one leg, and the number of the write that it is from; all bits of a block that cannot be
    /// read are set. Bits beyond the last region are ignored.
    pub fn decode_log(
        &self,
        block: Option<&[u8; crate::superblock::BLOCK]>,
        index: u64,
    ) -> (Bits, u64) {
        let (mut bits, write) = match block {
            Some(block) => Bits::decode(block, self.mirror, index),
            None => (Bits::all(), 0),
        };
        let regions = self.geometry.regions() - index * crate::intent::REGIONS;
        for region in regions.min(crate::intent::REGIONS)..crate::intent::REGIONS {
            bits.set(region as usize, false);
        }
        (bits, write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN: LegState = LegState::InSync;
    const OUT: LegState = LegState::Behind { copied: 4096 };

    fn uuid(leg: usize) -> Uuid {
        Uuid::from_u128(leg as u128 + 1)
    }

    /// A leg of line 1 with this generation that calls leg 0, 1, … so; `None`: not in its table.
    fn leg(own: usize, generation: u64, states: &[Option<LegState>]) -> Superblock {
        let members = states.iter().enumerate().filter_map(|(index, state)| {
            state.map(|state| Member {
                uuid: uuid(index),
                state,
                seen: 0,
            })
        });
        Superblock {
            mirror: Uuid::from_u128(99),
            leg: uuid(own),
            generation,
            complete: generation - 1,
            line: 1,
            forks: Vec::new(),
            unwritten: false,
            source: None,
            geometry: Geometry {
                length: 8192,
                region: 4096,
                unit: 512,
            },
            members: members.collect(),
        }
    }

    fn two(own: usize, generation: u64, states: [LegState; 2]) -> Superblock {
        leg(own, generation, &states.map(Some))
    }

    fn three(own: usize, generation: u64, states: [LegState; 3]) -> Superblock {
        leg(own, generation, &states.map(Some))
    }

    /// The leg on another line, which was forked after generation `at` of line 1.
    fn forked(mut leg: Superblock, line: u64, at: u64) -> Superblock {
        leg.line = line;
        leg.forks.push(Fork {
            line: 1,
            generation: at,
        });
        leg
    }

    /// States and given legs of the assembled mirror.
    fn check(
        given: &[Superblock],
        degraded: bool,
    ) -> Result<Vec<(LegState, Option<usize>)>, Vec<Fault>> {
        let assembly = assemble(given, degraded.then_some(100))?;
        let parts = assembly.parts.iter();
        Ok(parts.map(|part| (part.member.state, part.given)).collect())
    }

    #[test]
    fn all_legs_in_sync_are_assembled_in_the_order_of_the_table() {
        let given = [two(1, 5, [IN, IN]), two(0, 5, [IN, IN])];
        let parts = Ok(vec![(IN, Some(1)), (IN, Some(0))]);
        assert_eq!(check(&given, false), parts);
    }

    #[test]
    fn an_update_that_reached_only_one_leg_counts() {
        let given = [two(0, 6, [IN, OUT]), two(1, 5, [IN, IN])];
        let parts = Ok(vec![(IN, Some(0)), (OUT, Some(1))]);
        assert_eq!(check(&given, false), parts);
        let parts = Ok(vec![(IN, Some(1)), (OUT, Some(0))]);
        assert_eq!(check(&[given[1].clone(), given[0].clone()], false), parts);
        // Leg 1 is being copied to.
        let given = [three(0, 5, [IN, OUT, IN]), three(1, 6, [OUT, OUT, IN])];
        assert_eq!(check(&given, true), Err(vec![Fault::NoneInSync]));
    }

    #[test]
    fn a_leg_in_sync_may_be_missing_only_if_that_was_permitted() {
        let given = [two(1, 5, [IN, IN])];
        let fault = Fault::Missing { uuid: uuid(0) };
        assert_eq!(check(&given, false), Err(vec![fault]));
        assert_eq!(
            check(&given, true),
            Ok(vec![(NOTHING, None), (IN, Some(0))])
        );
        let assembly = assemble(&given, Some(100)).expect("permitted");
        let fork = Fork {
            line: 1,
            generation: 5,
        };
        assert_eq!((assembly.line, &assembly.forks[..]), (100, &[fork][..]));
        let behind = [two(0, 5, [IN, OUT])];
        let parts = Ok(vec![(IN, Some(0)), (NOTHING, None)]);
        assert_eq!(check(&behind, false), parts, "it was behind before");
        let assembly = assemble(&behind, Some(100)).expect("needs no permission");
        assert_eq!(assembly.line, 1, "nobody can start the other leg alone");
    }

    #[test]
    fn a_leg_that_was_left_out_returns_unless_it_was_written_meanwhile() {
        let alone = forked(two(1, 9, [OUT, IN]), 2, 5);
        for generation in [4, 5] {
            let given = [two(0, generation, [IN, IN]), alone.clone()];
            let parts = Ok(vec![(OUT, Some(0)), (IN, Some(1))]);
            assert_eq!(check(&given, false), parts);
        }
        let split = Err(vec![Fault::SplitBrain { one: 0, two: 1 }]);
        for other in [
            // It continued on the old line, or on another new one.
            two(0, 6, [IN, OUT]),
            forked(two(0, 6, [IN, OUT]), 3, 5),
            forked(two(0, 30, [IN, OUT]), 3, 5),
        ] {
            assert_eq!(check(&[other.clone(), alone.clone()], false), split);
            assert_eq!(check(&[other, alone.clone()], true), split);
        }
    }

    #[test]
    fn a_leg_that_was_copied_to_by_another_line_is_copied_again_completely() {
        let given = [
            forked(three(0, 9, [IN, OUT, OUT]), 2, 5),
            forked(three(2, 8, [OUT, IN, OUT]), 3, 5),
        ];
        let parts = vec![(IN, Some(0)), (NOTHING, None), (NOTHING, Some(1))];
        assert_eq!(check(&given, false), Ok(parts));
    }

    #[test]
    fn a_dropped_leg_from_an_old_copy_is_copied_completely() {
        let mut newest = two(0, 9, [IN, OUT]);
        newest.members[1].seen = 7;
        for (generation, state) in [(6, NOTHING), (7, OUT), (8, OUT)] {
            let given = [newest.clone(), two(1, generation, [IN, IN])];
            let parts = Ok(vec![(IN, Some(0)), (state, Some(1))]);
            assert_eq!(check(&given, false), parts, "{generation}");
        }
    }

    #[test]
    fn after_a_crash_an_older_leg_is_behind_in_the_marked_regions() {
        const MARKED: LegState = LegState::Behind { copied: 8192 };
        let check = |given: &[Superblock], writes: &[u64], marked| {
            let assembly = assemble(given, None).expect("legs in sync");
            let assembly = assembly.with_logs(given, writes, marked).expect("one line");
            let states = assembly.parts.iter().map(|part| part.member.state);
            (states.collect::<Vec<_>>(), assembly.outdated)
        };
        let mut legs = [two(0, 9, [IN, IN]), two(1, 9, [IN, IN])];
        assert_eq!(check(&legs, &[7, 7], true), (vec![IN, IN], false));
        assert_eq!(check(&legs, &[7, 8], true), (vec![MARKED, IN], true));
        assert_eq!(check(&legs, &[7, 8], false), (vec![IN, IN], false));
        legs[0].generation = 8;
        assert_eq!(check(&legs, &[7, 7], true), (vec![MARKED, IN], true));
        // One was chosen before.
        legs[1].source = Some(uuid(0));
        assert_eq!(check(&legs, &[7, 7], true), (vec![IN, MARKED], true));
    }

    #[test]
    fn a_leg_that_was_started_alone_without_a_write_does_not_win_over_a_newer_one() {
        let mut alone = forked(two(0, 8, [IN, OUT]), 2, 5);
        alone.unwritten = true;
        let split = Err(vec![Fault::SplitBrain { one: 0, two: 1 }]);
        // It crashed with the other one, which has a newer generation, or a newer log.
        let other = two(1, 6, [IN, IN]);
        assert_eq!(check(&[alone.clone(), other], false), split);
        let given = [alone.clone(), two(1, 5, [IN, IN])];
        for (writes, newer) in [([3, 3], false), ([4, 3], false), ([3, 4], true)] {
            let assembly = assemble(&given, None).expect("one line");
            let faults = assembly.with_logs(&given, &writes, true).map(drop);
            assert_eq!(faults.is_err(), newer, "{writes:?}");
        }
        // The other leg's superblock says that this one lacks data.
        let given = [alone, two(1, 6, [OUT, IN])];
        let parts = Ok(vec![(OUT, Some(0)), (IN, Some(1))]);
        assert_eq!(check(&given, false), parts);
    }

    #[test]
    fn of_two_starts_without_a_write_the_later_one_counts() {
        let mut before = forked(three(0, 7, [IN, IN, OUT]), 2, 5);
        let mut later = forked(three(1, 9, [OUT, IN, OUT]), 3, 5);
        (before.unwritten, later.unwritten) = (true, true);
        (before.complete, later.complete) = (5, 5);
        for given in [[before.clone(), later.clone()], [later, before]] {
            let assembly = assemble(&given, None).expect("one line");
            assert_eq!(assembly.line, 3);
        }
    }

    #[test]
    fn only_legs_that_are_in_sync_can_start_a_mirror() {
        let behind = [two(1, 6, [IN, OUT])];
        assert_eq!(check(&behind, true), Err(vec![Fault::NoneInSync]));
        assert_eq!(check(&[], true), Err(vec![Fault::NoneInSync]));
    }

    #[test]
    fn all_legs_that_cannot_belong_together_are_named() {
        let mut other = two(1, 5, [IN, IN]);
        other.mirror = Uuid::from_u128(98);
        let given = [two(0, 5, [IN, IN]), other, two(0, 5, [IN, IN])];
        let faults = [
            Fault::OtherMirror {
                leg: 1,
                mirror: Uuid::from_u128(98),
            },
            Fault::Twice { one: 0, two: 2 },
        ];
        assert_eq!(check(&given, true), Err(faults.to_vec()));
    }

    #[test]
    fn a_removed_leg_and_a_leg_from_a_copy_are_refused() {
        let given = [leg(0, 9, &[Some(IN), None]), two(1, 6, [IN, IN])];
        assert_eq!(check(&given, false), Err(vec![Fault::Removed { leg: 1 }]));
        let given = [two(0, 9, [IN, IN]), two(1, 7, [IN, IN])];
        let old = Fault::Old {
            leg: 1,
            own: 7,
            least: 8,
        };
        assert_eq!(check(&given, false), Err(vec![old]));
        let given = [two(0, 9, [IN, IN]), two(1, 8, [IN, IN])];
        assert!(check(&given, false).is_ok(), "an interrupted update");
    }
}
