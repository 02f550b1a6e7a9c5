//! Sets of legs.

use crate::superblock::MAX_LEGS;

/// A set of legs, by their index in the mirror's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LegSet(u16);

impl LegSet {
    /// No leg.
    pub const NONE: LegSet = LegSet(0);

    /// One leg.
    pub fn one(leg: usize) -> LegSet {
        assert!(leg < MAX_LEGS, "no such leg");
        LegSet(1 << leg)
    }

    /// A bit for each leg, the lowest for leg 0.
    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    pub(crate) fn from_bits(bits: u16) -> LegSet {
        LegSet(bits)
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of legs.
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether a leg is in it.
    pub fn has(self, leg: usize) -> bool {
        leg < MAX_LEGS && self.0 & (1 << leg) != 0
    }

    /// Adds a leg.
    pub fn add(&mut self, leg: usize) {
        self.0 |= LegSet::one(leg).0;
    }

    /// Removes a leg.
    pub fn remove(&mut self, leg: usize) {
        self.0 &= !LegSet::one(leg).0;
    }

    /// Legs in both.
    pub fn and(self, other: LegSet) -> LegSet {
        LegSet(self.0 & other.0)
    }

    /// Legs of this set that are not in the other.
    pub fn without(self, other: LegSet) -> LegSet {
        LegSet(self.0 & !other.0)
    }

    /// The first leg.
    pub fn first(self) -> Option<usize> {
        (!self.is_empty()).then(|| self.0.trailing_zeros() as usize)
    }

    /// All legs, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..MAX_LEGS).filter(move |leg| self.has(*leg))
    }
}
