//! The files of a set that belong to a clone. Finds the next one, by age or randomly, in constant time.

use iodyno_model::PickOrder;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Marks the absence of a file.
const NONE: u32 = u32::MAX;

/// A clone's files of one set, identified by their number in its share, in order of creation.
///
/// A doubly linked list keeps the order of the remaining files. An additional dense array allows a random draw.
pub(super) struct SetFiles {
    older: Vec<u32>,
    newer: Vec<u32>,
    oldest: u32,
    newest: u32,
    left: Vec<u32>,
    /// The position of each file in `left`.
    place: Vec<u32>,
    /// 1 + the number in each file's new name; 0: it has its first name. Empty if no step renames files.
    renamed: Vec<u64>,
    cursors: Vec<Cursor>,
}

/// The position of a step that iterates over the set.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    order: PickOrder,
    at: u32,
}

impl SetFiles {
    /// A set with all of its `count` files.
    pub(super) fn new(count: u32, renames: bool) -> SetFiles {
        let last = count.checked_sub(1).unwrap_or(NONE);
        SetFiles {
            older: (0..count).map(|file| file.wrapping_sub(1)).collect(),
            newer: (1..count).chain((count > 0).then_some(NONE)).collect(),
            oldest: if count > 0 { 0 } else { NONE },
            newest: last,
            left: (0..count).collect(),
            place: (0..count).collect(),
            renamed: vec![0; if renames { count as usize } else { 0 }],
            cursors: Vec::new(),
        }
    }

    /// Adds a step that iterates in this order; returns its cursor.
    pub(super) fn add_cursor(&mut self, order: PickOrder) -> usize {
        let at = NONE;
        self.cursors.push(Cursor { order, at });
        self.cursors.len() - 1
    }

    /// Number of remaining files.
    #[inline]
    pub(super) fn left(&self) -> u32 {
        self.left.len() as u32
    }

    /// The next file in this order.
    #[inline]
    pub(super) fn next(&self, order: PickOrder, random: &mut Xoshiro256PlusPlus) -> Option<u32> {
        let file = match order {
            _ if self.left.is_empty() => NONE,
            PickOrder::Newest => self.newest,
            PickOrder::Oldest => self.oldest,
            PickOrder::Random => self.left[random.random_range(0..self.left.len())],
        };
        (file != NONE).then_some(file)
    }

    /// The next file of this cursor's iteration, which begins again after the last.
    #[inline]
    pub(super) fn round(&mut self, cursor: usize, random: &mut Xoshiro256PlusPlus) -> Option<u32> {
        let Cursor { order, at } = self.cursors[cursor];
        let file = match at {
            NONE => self.next(order, random)?,
            file => file,
        };
        self.cursors[cursor].at = self.following(order, file);
        Some(file)
    }

    #[inline]
    fn following(&self, order: PickOrder, file: u32) -> u32 {
        match order {
            PickOrder::Newest => self.older[file as usize],
            PickOrder::Oldest => self.newer[file as usize],
            PickOrder::Random => NONE,
        }
    }

    /// Removes a file. Cursors at this file move to the one after it.
    #[inline]
    pub(super) fn remove(&mut self, file: u32) {
        for index in 0..self.cursors.len() {
            let Cursor { order, at } = self.cursors[index];
            if at == file {
                self.cursors[index].at = self.following(order, file);
            }
        }
        let (older, newer) = (self.older[file as usize], self.newer[file as usize]);
        match older {
            NONE => self.oldest = newer,
            older => self.newer[older as usize] = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.older[newer as usize] = older,
        }
        let place = self.place[file as usize] as usize;
        self.left.swap_remove(place);
        if let Some(moved) = self.left.get(place) {
            self.place[*moved as usize] = place as u32;
        }
    }

    /// The number in a file's new name; `None`: it has its first name.
    #[inline]
    pub(super) fn renamed(&self, file: u32) -> Option<u64> {
        self.renamed.get(file as usize)?.checked_sub(1)
    }

    /// Records that a file was renamed.
    #[inline]
    pub(super) fn rename(&mut self, file: u32, number: u64) {
        self.renamed[file as usize] = number + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn random() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(11)
    }

    #[test]
    fn files_are_taken_by_age_until_none_is_left() {
        let check = |order, expected: &[u32]| {
            let mut files = SetFiles::new(4, false);
            let mut taken = Vec::new();
            while let Some(file) = files.next(order, &mut random()) {
                files.remove(file);
                taken.push(file);
            }
            assert_eq!(taken, expected);
            assert_eq!(files.left(), 0);
        };
        check(PickOrder::Newest, &[3, 2, 1, 0]);
        check(PickOrder::Oldest, &[0, 1, 2, 3]);
    }

    #[test]
    fn an_empty_set_has_no_next() {
        let mut files = SetFiles::new(0, true);
        for order in [PickOrder::Newest, PickOrder::Oldest, PickOrder::Random] {
            assert_eq!(files.next(order, &mut random()), None);
            let cursor = files.add_cursor(order);
            assert_eq!(files.round(cursor, &mut random()), None);
        }
    }

    #[test]
    fn random_removal_visits_each_file_once_in_different_orders() {
        let mut random = random();
        let mut orders = std::collections::HashSet::new();
        let mut first = [0u32; 10];
        for _ in 0..2000 {
            let mut files = SetFiles::new(10, false);
            let mut taken = Vec::new();
            while let Some(file) = files.next(PickOrder::Random, &mut random) {
                files.remove(file);
                taken.push(file);
            }
            first[taken[0] as usize] += 1;
            let mut sorted = taken.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..10).collect::<Vec<u32>>());
            orders.insert(taken);
        }
        assert!(orders.len() > 1900);
        assert!(
            first.iter().all(|count| (130..280).contains(count)),
            "{first:?}"
        );
    }

    #[test]
    fn iterations_begin_again_and_skip_removed_files() {
        let mut files = SetFiles::new(4, false);
        let up = files.add_cursor(PickOrder::Oldest);
        let down = files.add_cursor(PickOrder::Newest);
        let mut random = random();
        let mut turn = |files: &mut SetFiles, cursor| files.round(cursor, &mut random).unwrap();
        let ups: Vec<u32> = (0..5).map(|_| turn(&mut files, up)).collect();
        assert_eq!(ups, [0, 1, 2, 3, 0]);
        assert_eq!(turn(&mut files, down), 3);
        files.remove(1);
        files.remove(2);
        assert_eq!(turn(&mut files, up), 3);
        assert_eq!(turn(&mut files, down), 0);
        files.remove(0);
        assert_eq!((turn(&mut files, up), turn(&mut files, down)), (3, 3));
        files.remove(3);
        assert_eq!(files.left(), 0);
    }

    #[test]
    fn the_order_by_age_is_kept_for_any_removals() {
        let mut random = random();
        for round in 0..200 {
            let mut files = SetFiles::new(30, false);
            let mut left: Vec<u32> = (0..30).collect();
            while !left.is_empty() {
                let order = [PickOrder::Newest, PickOrder::Oldest, PickOrder::Random]
                    [random.random_range(0..3usize)];
                let file = files.next(order, &mut random).unwrap();
                match order {
                    PickOrder::Newest => assert_eq!(Some(&file), left.last(), "{round}"),
                    PickOrder::Oldest => assert_eq!(Some(&file), left.first(), "{round}"),
                    PickOrder::Random => assert!(left.contains(&file)),
                }
                files.remove(file);
                left.retain(|other| *other != file);
                assert_eq!(files.left() as usize, left.len());
            }
        }
    }

    #[test]
    fn a_renamed_file_keeps_its_place() {
        let mut files = SetFiles::new(3, true);
        files.rename(2, 0);
        assert_eq!((files.renamed(2), files.renamed(1)), (Some(0), None));
        assert_eq!(files.next(PickOrder::Newest, &mut random()), Some(2));
    }
}
