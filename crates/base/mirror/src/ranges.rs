//! Exclusion of overlapping ranges, in the order of arrival.

/// Ranges that are in use or waited for. Ranges that do not overlap never wait for each other.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// In order of arrival.
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    owner: u32,
    start: u64,
    end: u64,
    held: bool,
}

impl Entry {
    fn overlaps(&self, other: &Entry) -> bool {
        self.start < other.end && other.start < self.end
    }
}

impl Ranges {
    /// Takes a range, or queues it behind all earlier overlapping ranges. Returns whether it is held now.
    pub(crate) fn take(&mut self, owner: u32, start: u64, length: u64) -> bool {
        let mut entry = Entry {
            owner,
            start,
            end: start + length,
            held: false,
        };
        entry.held = !self.entries.iter().any(|other| other.overlaps(&entry));
        self.entries.push(entry);
        entry.held
    }

    /// Releases the range of `owner`, and appends the owners of ranges that are now held to `next`.
    pub(crate) fn release(&mut self, owner: u32, next: &mut Vec<u32>) {
        let Some(at) = self.entries.iter().position(|entry| entry.owner == owner) else {
            return;
        };
        let released = self.entries.remove(at);
        for index in at..self.entries.len() {
            let entry = self.entries[index];
            let mut before = self.entries[..index].iter();
            if !entry.held && entry.overlaps(&released) && !before.any(|one| one.overlaps(&entry)) {
                self.entries[index].held = true;
                next.push(entry.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_overlapping_range_waits_and_a_later_one_does_not_overtake_it() {
        let mut ranges = Ranges::default();
        assert!(ranges.take(1, 0, 10));
        assert!(!ranges.take(2, 5, 10));
        assert!(!ranges.take(3, 12, 10), "behind 2");
        assert!(ranges.take(4, 30, 10));
        let mut next = Vec::new();
        ranges.release(1, &mut next);
        assert_eq!(next, [2]);
        ranges.release(2, &mut next);
        assert_eq!(next, [2, 3]);
    }

    proptest! {
        #[test]
        fn held_ranges_never_overlap_and_all_are_served(
            wanted in proptest::collection::vec((0u64..64, 1u64..16), 1..40), order: u64
        ) {
            let mut ranges = Ranges::default();
            let mut held = Vec::new();
            for (owner, (start, length)) in wanted.iter().enumerate() {
                if ranges.take(owner as u32, *start, *length) {
                    held.push(owner as u32);
                }
            }
            let mut served = 0;
            while !held.is_empty() {
                let spans = held.iter().map(|owner| wanted[*owner as usize]);
                let mut spans: Vec<_> = spans.collect();
                spans.sort_unstable();
                for pair in spans.windows(2) {
                    prop_assert!(pair[0].0 + pair[0].1 <= pair[1].0);
                }
                let owner = held.remove((order % held.len() as u64) as usize);
                served += 1;
                ranges.release(owner, &mut held);
            }
            prop_assert_eq!(served, wanted.len());
        }
    }
}
