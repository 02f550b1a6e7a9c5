//! Chooses the file of the next op.

use iodyno_model::{BlockSizes, Blocks, Distribution, FileService, Order};
use rand::{Rng, RngExt};

use super::blocks::BlockDraw;

/// Ranks per file if a law draws the file: fio's resolution.
const RANKS: u64 = 1024;

/// The file whose turn it is. Which rule applies is decided once.
#[derive(Debug)]
pub(super) struct FileTurn {
    rule: Rule,
    /// Number of ops on a file before the next one is chosen.
    ops: u32,
    current: u32,
    /// Ops left before the next file is chosen.
    left: u32,
    /// Bytes issued in the current file since it was chosen.
    done: u64,
}

#[derive(Debug)]
enum Rule {
    RoundRobin,
    Random,
    Sequential,
    /// Drawn by a law: the rank, and the offset added to it.
    Law(BlockDraw, u64),
    /// Some of the files at a time.
    Open(OpenFiles),
}

/// Files that are used up in a pass are left until all are, and only some of the files are used at a time.
#[derive(Debug)]
struct OpenFiles {
    /// Files in use, in the order in which they were first used.
    open: Vec<u32>,
    /// Place in `open` of the current file.
    place: usize,
    /// Files that have not been used in this pass; the next one last.
    unopened: Vec<u32>,
    /// Bytes issued in each file in this pass.
    done: Vec<u64>,
    /// Maximum number of files in use.
    most: usize,
    /// Files are used up by as many bytes as their region has.
    finite: bool,
    service: FileService,
}

impl FileTurn {
    /// The files of a job with regions of these lengths in bytes.
    pub(super) fn new(
        blocks: &Blocks,
        lengths: impl Iterator<Item = u64> + Clone,
        random: &mut impl Rng,
    ) -> FileTurn {
        let rule = &blocks.files;
        let count = lengths.clone().count();
        let most = match rule.open {
            0 => count,
            open => count.min(open as usize),
        };
        let unequal = lengths.clone().min() != lengths.clone().max();
        // With several ops a turn, one file can be done while others are not.
        let uneven = unequal || rule.service == FileService::Random || rule.service_ops > 1;
        let finite = covers(blocks);
        let rule = match rule.service {
            FileService::Zipf(theta) => law(Distribution::Zipf(theta), count, random),
            FileService::Pareto(power) => law(Distribution::Pareto(power), count, random),
            FileService::Normal(deviation) => law(Distribution::Normal(deviation), count, random),
            service if count > 1 && (most < count || (finite && uneven)) => {
                let mut files = OpenFiles {
                    open: Vec::with_capacity(most),
                    place: 0,
                    unopened: Vec::with_capacity(count),
                    done: vec![0; count],
                    most,
                    finite,
                    service,
                };
                files.begin_pass(random);
                Rule::Open(files)
            }
            FileService::RoundRobin => Rule::RoundRobin,
            FileService::Random => Rule::Random,
            FileService::Sequential => Rule::Sequential,
        };
        let ops = blocks.files.service_ops.max(1);
        FileTurn {
            // A law draws the first file, too.
            left: if matches!(rule, Rule::Law(..)) {
                0
            } else {
                ops
            },
            rule,
            ops,
            current: 0,
            done: 0,
        }
    }

    /// The file of the next op, among `count` files: one whose region fits `length` bytes. `region` is the length of a
    /// file's region.
    pub(super) fn next(
        &mut self,
        count: u32,
        length: u64,
        region: impl Fn(u32) -> u64,
        random: &mut impl Rng,
    ) -> u32 {
        if let Rule::Open(files) = &mut self.rule {
            let (turn, ops) = (&mut self.left, self.ops);
            self.current = files.next((turn, ops), length, region, random);
            return self.current;
        }
        for _ in 0..count {
            match &mut self.rule {
                Rule::RoundRobin if self.left == 0 => {
                    self.current = (self.current + 1) % count;
                    self.left = self.ops;
                }
                Rule::Random if self.left == 0 => {
                    self.current = random.random_range(0..count);
                    self.left = self.ops;
                }
                Rule::Law(draw, first) if self.left == 0 => {
                    let rank = draw.next(random) + *first;
                    self.current = (rank / RANKS) as u32 % count;
                    self.left = self.ops;
                }
                Rule::Sequential if self.done + length > region(self.current) => {
                    self.current = (self.current + 1) % count;
                    self.done = 0;
                }
                _ => {}
            }
            self.left = self.left.saturating_sub(1);
            if length <= region(self.current) {
                break;
            }
            self.left = 0;
            self.done = u64::MAX / 2;
        }
        self.done = self.done.saturating_add(length);
        self.current
    }
}

/// Draws the number of a file by a law whose ranks are neighbours. As in fio, the first rank of Zipf's law and of
/// Pareto is at a random place.
fn law(law: Distribution, count: usize, random: &mut impl Rng) -> Rule {
    let ranks = count as u64 * RANKS;
    let first = match law {
        Distribution::Normal(_) => 0,
        _ => random.random_range(0..ranks),
    };
    Rule::Law(
        BlockDraw::new((&law, None), false, (ranks, 1), random).unscattered(),
        first,
    )
}

/// Whether ops with as many bytes as the region cover all of its blocks, after which another file is used. As in fio, a
/// random job that repeats its region until its time is over begins with the same file again.
fn covers(blocks: &Blocks) -> bool {
    let access = &blocks.access;
    let fixed = access.directions().all(|direction| {
        let sizes = access.block_sizes.get(direction);
        sizes.is_some_and(|sizes| matches!(sizes, BlockSizes::Fixed(_)))
    });
    match access.order {
        Order::Sequential => fixed,
        Order::Random => fixed && access.random_map && !blocks.passes.time_based,
    }
}

impl OpenFiles {
    fn begin_pass(&mut self, random: &mut impl Rng) {
        self.done.fill(0);
        self.unopened.extend((0..self.done.len() as u32).rev());
        self.open_more(random);
    }

    fn open_more(&mut self, random: &mut impl Rng) {
        while self.open.len() < self.most && !self.unopened.is_empty() {
            let place = match self.service {
                FileService::Random => random.random_range(0..self.unopened.len()),
                _ => self.unopened.len() - 1,
            };
            self.open.push(self.unopened.swap_remove(place));
        }
    }

    fn next(
        &mut self,
        (left, ops): (&mut u32, u32),
        length: u64,
        region: impl Fn(u32) -> u64,
        random: &mut impl Rng,
    ) -> u32 {
        // A fresh pass has a file that fits, unless none does.
        let mut patience = 2 * self.done.len() + 1;
        loop {
            if *left == 0 {
                match self.service {
                    FileService::Sequential => {}
                    FileService::Random => self.place = random.random_range(0..self.open.len()),
                    _ => self.place = (self.place + 1) % self.open.len(),
                }
                *left = ops;
            }
            let file = self.open[self.place];
            let done = &mut self.done[file as usize];
            let used_up = self.finite && *done + length > region(file);
            patience -= 1;
            if !used_up || patience == 0 {
                *done += length;
                *left -= 1;
                return file;
            }
            self.open.remove(self.place);
            self.open_more(random);
            if self.open.is_empty() {
                self.begin_pass(random);
            }
            self.place %= self.open.len();
            *left = ops;
            if let FileService::Random = self.service {
                *left = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    const BLOCK: u64 = 4096;

    /// The files of the first ops of a job with these lengths in blocks.
    fn files(lengths: &[u64], ops: usize, set: impl FnOnce(&mut Blocks)) -> Vec<u32> {
        let mut blocks = Blocks::default();
        set(&mut blocks);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let lengths: Vec<u64> = lengths.iter().map(|blocks| blocks * BLOCK).collect();
        let mut turn = FileTurn::new(&blocks, lengths.iter().copied(), &mut random);
        let count = lengths.len() as u32;
        let region = |file: u32| lengths[file as usize];
        (0..ops)
            .map(|_| turn.next(count, BLOCK, region, &mut random))
            .collect()
    }

    fn counts(files: &[u32], count: usize) -> Vec<usize> {
        let of = |file| files.iter().filter(|other| **other == file).count();
        (0..count as u32).map(of).collect()
    }

    #[test]
    fn files_take_turns() {
        assert_eq!(files(&[9, 9, 9], 7, |_| ()), [0, 1, 2, 0, 1, 2, 0]);
        let pairs = files(&[9, 9], 6, |blocks| blocks.files.service_ops = 2);
        assert_eq!(pairs, [0, 0, 1, 1, 0, 0]);
        // Four blocks a file: the turns do not divide them.
        let triples = files(&[4, 4], 8, |blocks| blocks.files.service_ops = 3);
        assert_eq!(triples, [0, 0, 0, 1, 1, 1, 0, 1]);
        let whole = files(&[2, 2], 6, |blocks| {
            blocks.files.service = FileService::Sequential;
        });
        assert_eq!(whole, [0, 0, 1, 1, 0, 0]);
    }

    #[test]
    fn files_of_different_lengths_are_covered_once_each() {
        let found = files(&[1, 3, 2], 8, |_| ());
        assert_eq!(found, [0, 1, 2, 1, 2, 1, 0, 1]);
        for seed_ops in [6, 12] {
            let found = files(&[1, 3, 2], seed_ops, |blocks| {
                blocks.files.service = FileService::Random;
            });
            let passes = seed_ops / 6;
            assert_eq!(counts(&found, 3), [passes, 3 * passes, 2 * passes]);
        }
    }

    #[test]
    fn at_most_openfiles_files_are_in_use() {
        let two = |blocks: &mut Blocks| blocks.files.open = 2;
        // 0 and 1 end together, then 2 and 3 are opened; the last file is used alone.
        assert_eq!(
            files(&[2, 2, 2, 2, 2], 11, two),
            [0, 1, 0, 1, 2, 3, 2, 3, 4, 4, 0]
        );
        assert_eq!(files(&[1, 3, 2], 6, two), [0, 1, 1, 2, 1, 2]);
        let one = files(&[2, 2, 2], 7, |blocks| blocks.files.open = 1);
        assert_eq!(one, [0, 0, 1, 1, 2, 2, 0]);
        let random = files(&[50; 20], 1000, |blocks| {
            blocks.files.open = 3;
            blocks.files.service = FileService::Random;
        });
        assert_eq!(counts(&random, 20), [50; 20]);
        let mut unfinished: Vec<u32> = Vec::new();
        let mut seen = [0; 20];
        for file in random {
            if seen[file as usize] == 0 {
                unfinished.push(file);
            }
            seen[file as usize] += 1;
            unfinished.retain(|file| seen[*file as usize] < 50);
            assert!(unfinished.len() <= 3, "{unfinished:?}");
        }
    }

    #[test]
    fn files_that_are_never_used_up_stay_open() {
        for (map, time_based) in [(false, false), (true, true)] {
            let found = files(&[2; 5], 100, |blocks| {
                blocks.files.open = 2;
                blocks.access.order = Order::Random;
                (blocks.access.random_map, blocks.passes.time_based) = (map, time_based);
            });
            assert_eq!(counts(&found, 5), [50, 50, 0, 0, 0]);
        }
        let found = files(&[2; 5], 100, |blocks| {
            blocks.files.open = 2;
            blocks.passes.time_based = true;
        });
        assert_eq!(counts(&found, 5), [20; 5]);
    }

    #[test]
    fn a_law_prefers_some_files() {
        let of = |service| {
            let found = files(&[9; 10], 20_000, |blocks| blocks.files.service = service);
            counts(&found, 10)
        };
        // Two neighbours have the first rank's file and the next.
        let most = |counts: &[usize]| {
            let pairs = (0..10).map(|file| counts[file] + counts[(file + 1) % 10]);
            pairs.max().unwrap()
        };
        let zipf = most(&of(FileService::Zipf(1.2)));
        assert!((13_000..19_000).contains(&zipf), "{zipf}");
        // A fifth of the files gets four fifths of the ops, if its ranks begin with a file; a tenth gets 64 %.
        let pareto = most(&of(FileService::Pareto(0.2)));
        assert!((12_800..16_200).contains(&pareto), "{pareto}");
        let normal = of(FileService::Normal(10.0));
        let middle = normal[4..6].iter().sum::<usize>();
        // Within one deviation.
        assert!((13_300..14_000).contains(&middle), "{normal:?}");
    }
}
