//! Counts other than latencies: failed ops by errno, depths and batches.

use iodyno_model::errno::{EILSEQ, EIO, ENODATA};
use iodyno_model::{DepthUse, Direction, ErrorCount, ErrorPolicy};
use iodyno_sys::Op;

/// Failed ops by direction and errno.
#[derive(Debug)]
pub(crate) struct ErrorCounts(Vec<ErrorCount>);

impl Default for ErrorCounts {
    /// Reserves space for more kinds of errors than usually occur.
    fn default() -> ErrorCounts {
        ErrorCounts(Vec::with_capacity(16))
    }
}

impl ErrorCounts {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn into_vec(self) -> Vec<ErrorCount> {
        self.0
    }

    pub(crate) fn count(&mut self, direction: Direction, errno: i32, op: &Op, file: &str) {
        let at = (op.offset, op.length.into());
        self.count_at(direction, errno, at, file);
    }

    /// Counts a failure at this offset, of this length in bytes.
    pub(crate) fn count_at(
        &mut self,
        direction: Direction,
        errno: i32,
        (offset, length): (u64, u64),
        file: &str,
    ) {
        let known = |error: &&mut ErrorCount| error.direction == direction && error.errno == errno;
        match self.0.iter_mut().find(known) {
            Some(error) => error.count += 1,
            None => self.0.push(ErrorCount {
                direction,
                errno,
                count: 1,
                first_file: file.to_owned(),
                first_offset: offset,
                first_length: length,
            }),
        }
    }
}

/// Applies a policy to a failed op: whether it counts, and whether the job continues. As in fio, a job continues only
/// after EIO and EILSEQ, a verification error. Other errors, such as ENOSPC, would repeat with every op. ENODATA is EIO
/// in fio: an empty read.
pub(crate) fn judge(policy: &ErrorPolicy, direction: Direction, errno: i32) -> (bool, bool) {
    let (ignored, continues) = match direction {
        Direction::Read => (&policy.ignore_read, policy.continue_read),
        _ => (&policy.ignore_write, policy.continue_write),
    };
    match errno {
        _ if ignored.contains(&errno) => (false, true),
        EIO | ENODATA => (true, continues),
        EILSEQ => (true, policy.continue_verify),
        _ => (true, false),
    }
}

/// Counts `ops` submitted while `in_flight` were in flight.
#[inline]
pub(crate) fn submitted(depth: &mut DepthUse, ops: u32, in_flight: u32) {
    let level = (in_flight.max(1).ilog2() as usize).min(6);
    depth.level[level] += u64::from(ops);
    depth.submit[batch(ops)] += 1;
    depth.turns += 1;
}

/// Counts a batch of completions.
#[inline]
pub(crate) fn completed(depth: &mut DepthUse, ops: usize) {
    depth.complete[batch(ops as u32)] += 1;
}

fn batch(ops: u32) -> usize {
    match ops {
        0 => 0,
        1..=4 => 1,
        5..=8 => 2,
        9..=16 => 3,
        17..=32 => 4,
        33..=64 => 5,
        _ => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_continues_only_after_errors_that_do_not_repeat() {
        let policy = ErrorPolicy {
            continue_read: true,
            continue_verify: true,
            ignore_write: vec![28],
            ..ErrorPolicy::default()
        };
        let (read, write) = (Direction::Read, Direction::Write);
        for (direction, errno, expected) in [
            (read, EIO, (true, true)),
            (read, ENODATA, (true, true)),
            (read, EILSEQ, (true, true)),
            (read, 28, (true, false)),
            (read, 22, (true, false)),
            (write, EIO, (true, false)),
            (write, EILSEQ, (true, true)),
            (write, 28, (false, true)),
            (write, 122, (true, false)),
        ] {
            let judged = judge(&policy, direction, errno);
            assert_eq!(judged, expected, "{direction:?} {errno}");
        }
        let strict = judge(&ErrorPolicy::default(), read, EIO);
        assert_eq!(strict, (true, false));
    }
}
