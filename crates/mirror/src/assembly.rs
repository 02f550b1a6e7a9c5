//! Decides from the superblocks of the given legs which of them make up the mirror, and in which state.
//!
//! A leg that was left out is behind: the others recorded that durably before they acknowledged anything that it lacks. So the
//! word of a leg that calls itself in sync counts, unless another such leg calls it behind. If each calls the other behind,
//! both were written without the other, and neither may be overwritten: split brain.

use uuid::Uuid;

use crate::intent::Bits;
use crate::superblock::{Geometry, LegState, Member, Superblock};

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
    /// Of the newest superblock.
    pub generation: u64,
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
    /// Not in the table of the mirror any more.
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
    /// In sync according to the table, but older than an interrupted update can explain.
    #[error(
        "leg {leg} is older than the mirror (generation {own} of {newest}): it was restored from a copy"
    )]
    Old {
        /// Its index.
        leg: usize,
        /// Its generation.
        own: u64,
        /// The mirror's.
        newest: u64,
    },
    /// A leg in sync is not given.
    #[error("leg {uuid} is missing, and in sync")]
    Missing {
        /// Its UUID.
        uuid: Uuid,
    },
    /// No given leg is in sync.
    #[error("no leg that is in sync was given")]
    NoneInSync,
}

/// Assembles the mirror of these legs. With `degraded`, legs in sync may be missing: they will be behind.
///
/// # Errors
/// All faults; without legs, [`Fault::NoneInSync`].
pub fn assemble(given: &[Superblock], degraded: bool) -> Result<Assembly, Vec<Fault>> {
    let mut faults = identities(given);
    if !faults.is_empty() {
        return Err(faults);
    }
    let newest = newest(given)?;
    let mut parts: Vec<Part> = (newest.members.iter())
        .map(|member| Part {
            member: *member,
            given: given.iter().position(|one| one.leg == member.uuid),
        })
        .collect();
    for (leg, superblock) in given.iter().enumerate() {
        let in_sync = match newest.state(superblock.leg) {
            None => {
                faults.push(Fault::Removed { leg });
                continue;
            }
            Some(state) => state == LegState::InSync,
        };
        // An update is complete on all legs before the next one begins.
        if in_sync && superblock.generation.saturating_add(1) < newest.generation {
            faults.push(Fault::Old {
                leg,
                own: superblock.generation,
                newest: newest.generation,
            });
        }
    }
    for part in &mut parts {
        if part.given.is_none() && part.member.state == LegState::InSync {
            if !degraded {
                let uuid = part.member.uuid;
                faults.push(Fault::Missing { uuid });
            }
            part.member.state = LegState::Behind {
                copied: newest.geometry.length,
            };
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let in_sync = |part: &Part| part.member.state == LegState::InSync;
    if !parts.iter().any(in_sync) {
        return Err(vec![Fault::NoneInSync]);
    }
    Ok(Assembly {
        mirror: newest.mirror,
        generation: newest.generation,
        geometry: newest.geometry,
        parts,
    })
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

/// The superblock whose table counts.
fn newest(given: &[Superblock]) -> Result<&Superblock, Vec<Fault>> {
    let claims = |leg: &Superblock| leg.state(leg.leg) == Some(LegState::InSync);
    // A leg that was removed is behind as well.
    let excludes =
        |one: &Superblock, two: &Superblock| one.state(two.leg) != Some(LegState::InSync);
    let mut faults = Vec::new();
    let mut newest: Option<&Superblock> = None;
    for (two, leg) in given.iter().enumerate().filter(|(_, leg)| claims(leg)) {
        let others = given.iter().enumerate().filter(|(_, other)| claims(other));
        let mut current = true;
        for (one, other) in others.filter(|(_, other)| excludes(other, leg)) {
            current = false;
            if one < two && excludes(leg, other) {
                faults.push(Fault::SplitBrain { one, two });
            }
        }
        if current && newest.is_none_or(|newest| newest.generation < leg.generation) {
            newest = Some(leg);
        }
    }
    match newest {
        _ if !faults.is_empty() => Err(faults),
        Some(newest) => Ok(newest),
        None => Err(vec![Fault::NoneInSync]),
    }
}

impl Assembly {
    /// The superblock of one leg after an update to this state.
    pub fn superblock(&self, leg: usize) -> Superblock {
        Superblock {
            mirror: self.mirror,
            leg: self.parts[leg].member.uuid,
            generation: self.generation,
            geometry: self.geometry,
            members: self.parts.iter().map(|part| part.member).collect(),
        }
    }

    /// Number of blocks of the log.
    pub fn log_blocks(&self) -> u64 {
        self.geometry.regions().div_ceil(crate::intent::REGIONS)
    }

    /// A block of the log of one leg; all bits of a block that cannot be read are set. Bits beyond the last region are ignored.
    pub fn decode_log(&self, block: Option<&[u8; crate::superblock::BLOCK]>, index: u64) -> Bits {
        let mut bits = match block {
            Some(block) => Bits::decode(block, self.mirror, index),
            None => Bits::all(),
        };
        let regions = self.geometry.regions() - index * crate::intent::REGIONS;
        for region in regions.min(crate::intent::REGIONS)..crate::intent::REGIONS {
            bits.set(region as usize, false);
        }
        bits
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

    /// A leg with this generation that calls leg 0, 1, … so; `None`: not in its table.
    fn leg(own: usize, generation: u64, states: &[Option<LegState>]) -> Superblock {
        let members = states.iter().enumerate().filter_map(|(index, state)| {
            state.map(|state| Member {
                uuid: uuid(index),
                state,
            })
        });
        Superblock {
            mirror: Uuid::from_u128(99),
            leg: uuid(own),
            generation,
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

    /// States and given legs of the assembled mirror.
    fn check(
        given: &[Superblock],
        degraded: bool,
    ) -> Result<Vec<(LegState, Option<usize>)>, Vec<Fault>> {
        let assembly = assemble(given, degraded)?;
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
    }

    #[test]
    fn a_leg_in_sync_may_be_missing_only_if_that_was_permitted() {
        let given = [two(1, 5, [IN, IN])];
        let fault = Fault::Missing { uuid: uuid(0) };
        assert_eq!(check(&given, false), Err(vec![fault]));
        let all = LegState::Behind { copied: 8192 };
        assert_eq!(check(&given, true), Ok(vec![(all, None), (IN, Some(0))]));
        let behind = [two(0, 5, [IN, OUT])];
        let parts = Ok(vec![(IN, Some(0)), (OUT, None)]);
        assert_eq!(check(&behind, false), parts, "it was missing before");
    }

    #[test]
    fn legs_that_call_each_other_behind_are_refused_as_split_brain() {
        let given = [two(0, 9, [IN, OUT]), two(1, 6, [OUT, IN])];
        let split = Err(vec![Fault::SplitBrain { one: 0, two: 1 }]);
        assert_eq!(check(&given, false), split);
        assert_eq!(check(&given, true), split);
        let removed = [leg(0, 9, &[Some(IN), None]), two(1, 6, [OUT, IN])];
        assert_eq!(check(&removed, true), split, "removed is behind");
        let given = [
            three(0, 7, [IN, OUT, OUT]),
            three(1, 7, [OUT, IN, IN]),
            three(2, 7, [OUT, IN, IN]),
        ];
        let split = [(0, 1), (0, 2)].map(|(one, two)| Fault::SplitBrain { one, two });
        assert_eq!(check(&given, false), Err(split.to_vec()));
    }

    #[test]
    fn who_is_called_behind_does_not_decide_even_with_the_same_generation() {
        // Leg 1 was cut off when it had just dropped leg 0; legs 0 and 2 continued without it.
        let given = [three(1, 6, [OUT, IN, IN]), three(2, 6, [IN, OUT, IN])];
        let missing = Fault::Missing { uuid: uuid(0) };
        assert_eq!(check(&given, false), Err(vec![missing]));
        let all = LegState::Behind { copied: 8192 };
        let parts = vec![(all, None), (OUT, Some(0)), (IN, Some(1))];
        assert_eq!(check(&given, true), Ok(parts));
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
            newest: 9,
        };
        assert_eq!(check(&given, false), Err(vec![old]));
        let given = [two(0, 9, [IN, IN]), two(1, 8, [IN, IN])];
        assert!(check(&given, false).is_ok(), "an interrupted update");
    }
}
