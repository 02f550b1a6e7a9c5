//! Ops with their own priority, and their latencies.

use iodyno_model::{Direction, Job, PriorityShare, Work};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::counters::OpCounters;
use crate::stream::Issue;

/// Makes these draws different from those of offsets and contents.
const PRIORITY: u64 = 0xd1b5_4a32_d192_ed03;

/// Draws the priority of each op.
#[derive(Debug)]
pub(crate) struct Priorities {
    shares: Vec<PriorityShare>,
    /// The kernel's numbers of the priorities of reads and of writes; 0, that of the job, is the first.
    numbers: [Vec<u16>; 2],
    /// Whether total latencies are recorded.
    total: bool,
    random: Xoshiro256PlusPlus,
}

impl Priorities {
    /// `None` if all ops have the priority of the job.
    pub(crate) fn of(job: &Job, seed: u64) -> Option<Box<Priorities>> {
        let Work::Blocks(blocks) = &job.work else {
            return None;
        };
        let numbers = |direction| {
            let mut numbers: Vec<u16> = job
                .op_priorities(direction)
                .iter()
                .map(|priority| priority.value())
                .collect();
            numbers.iter_mut().take(1).for_each(|own| *own = 0);
            numbers
        };
        (!blocks.priorities.is_empty()).then(|| {
            Box::new(Priorities {
                shares: blocks.priorities.clone(),
                numbers: [numbers(Direction::Read), numbers(Direction::Write)],
                total: job.reporting.percentiles_of.total,
                random: Xoshiro256PlusPlus::seed_from_u64(seed ^ PRIORITY),
            })
        })
    }

    /// The kernel's number of the priority of the next op; 0: that of the job.
    pub(crate) fn draw(&mut self, issue: &Issue) -> u16 {
        let mut left = self.random.random_range(0..100u32);
        for share in &self.shares {
            let applies = share.direction == issue.direction
                && share
                    .block
                    .is_none_or(|block| block == u64::from(issue.op.length));
            if !applies {
                continue;
            }
            match left.checked_sub(share.percent) {
                Some(rest) => left = rest,
                None => return share.priority.value(),
            }
        }
        0
    }

    /// Records the latency of a counted op: submitted → completed, and the duration of its submission call, ns.
    pub(crate) fn record(
        &self,
        counters: &OpCounters,
        issue: &Issue,
        service: u64,
        submission: u64,
    ) {
        let Some(numbers) = self.numbers.get(issue.direction as usize) else {
            return;
        };
        let index = numbers.iter().position(|it| *it == issue.op.priority);
        let own = &counters.of(issue.direction).priorities;
        if let Some(latencies) = own.get(index.unwrap_or(0)) {
            latencies.record(match self.total {
                true => service,
                false => service.saturating_sub(submission),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_model::{Blocks, IoPriority};
    use iodyno_sys::{Op, OpKind};

    fn share(block: Option<u64>, percent: u32, class: u8) -> PriorityShare {
        PriorityShare {
            direction: Direction::Read,
            block,
            percent,
            priority: IoPriority {
                class,
                level: 0,
                hint: 0,
            },
        }
    }

    fn drawn(shares: Vec<PriorityShare>, direction: Direction, length: u32) -> [u32; 4] {
        let job = Job {
            work: Work::Blocks(Blocks {
                priorities: shares,
                ..Blocks::default()
            }),
            ..Job::default()
        };
        let issue = Issue::counted(Op::new(OpKind::Read, 0, 0, length), direction);
        let mut priorities = Priorities::of(&job, 7).unwrap();
        let mut counts = [0; 4];
        for _ in 0..10_000 {
            counts[usize::from(priorities.draw(&issue) >> 13)] += 1;
        }
        counts
    }

    fn near(found: [u32; 4], percent: [u32; 4]) {
        for (found, percent) in found.into_iter().zip(percent) {
            // Five standard deviations of a share of a half.
            assert!(found.abs_diff(percent * 100) < 250, "{found} {percent} %");
            assert_eq!(percent == 0, found == 0, "{found}");
        }
    }

    #[test]
    fn ops_get_priorities_by_their_shares() {
        let by_size = vec![
            share(Some(65536), 25, 1),
            share(Some(65536), 75, 3),
            share(Some(4096), 10, 2),
        ];
        near(
            drawn(vec![share(None, 30, 1)], Direction::Read, 4096),
            [70, 30, 0, 0],
        );
        near(
            drawn(vec![share(None, 30, 1)], Direction::Write, 4096),
            [100, 0, 0, 0],
        );
        near(
            drawn(by_size.clone(), Direction::Read, 65536),
            [0, 25, 0, 75],
        );
        near(
            drawn(by_size.clone(), Direction::Read, 4096),
            [90, 0, 10, 0],
        );
        near(drawn(by_size, Direction::Read, 8192), [100, 0, 0, 0]);
    }
}
