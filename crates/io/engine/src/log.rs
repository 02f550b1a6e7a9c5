//! A bounded queue of single ops, from a worker to the writer of the latency log.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use iodyno_model::Direction;

/// A log record of one op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpRecord {
    /// Completion, the engine clock's ns.
    pub at: u64,
    /// Duration of the submission call, ns; 0 if submission is not a separate call.
    pub submission: u64,
    /// Submitted → completed, ns.
    pub service: u64,
    /// Direction.
    pub direction: Direction,
    /// Whether it syncs the data only (fdatasync).
    pub data_only: bool,
    /// Requested length, bytes.
    pub bytes: u32,
    /// Index of its file in the clone.
    pub file: u32,
    /// Offset in its file.
    pub offset: u64,
    /// The kernel's number of its own I/O priority; 0: it has that of the job.
    pub priority: u16,
}

/// Single producer, single consumer. If the queue is full, the worker waits (and the waits are counted): a slow log is
/// better than an incomplete one.
#[derive(Debug)]
pub struct OpLog {
    records: Box<[[AtomicU64; 6]]>,
    head: AtomicUsize,
    tail: AtomicUsize,
    waits: AtomicU64,
}

impl OpLog {
    /// A queue for `capacity` ops.
    pub fn new(capacity: usize) -> OpLog {
        OpLog {
            records: (0..capacity.max(1)).map(|_| Default::default()).collect(),
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
            waits: AtomicU64::new(0),
        }
    }

    /// Producer: appends a record. While the queue is full it calls `wait`, which lets the consumer run; if `wait`
    /// returns true, the op is not logged.
    pub fn push(&self, record: OpRecord, wait: impl Fn() -> bool) {
        let head = self.head.load(Ordering::Relaxed);
        while head - self.tail.load(Ordering::Acquire) >= self.records.len() {
            self.waits.fetch_add(1, Ordering::Relaxed);
            if wait() {
                return;
            }
        }
        let place = &self.records[head % self.records.len()];
        let kind = u64::from(record.data_only) << 2 | record.direction as u64;
        let small = u64::from(record.bytes) << 8 | kind;
        for (word, value) in place.iter().zip([
            record.at,
            record.submission,
            record.service,
            small,
            record.offset,
            u64::from(record.priority) << 32 | u64::from(record.file),
        ]) {
            word.store(value, Ordering::Relaxed);
        }
        self.head.store(head + 1, Ordering::Release);
    }

    /// Consumer: removes the oldest record.
    pub fn pop(&self) -> Option<OpRecord> {
        let tail = self.tail.load(Ordering::Relaxed);
        if tail == self.head.load(Ordering::Acquire) {
            return None;
        }
        let place = &self.records[tail % self.records.len()];
        let [at, submission, service, small, offset, file] =
            std::array::from_fn(|i| place[i].load(Ordering::Relaxed));
        self.tail.store(tail + 1, Ordering::Release);
        Some(OpRecord {
            at,
            submission,
            service,
            direction: Direction::ALL[(small & 3) as usize],
            data_only: small & 4 != 0,
            bytes: (small >> 8) as u32,
            file: file as u32,
            offset,
            priority: (file >> 32) as u16,
        })
    }

    /// Number of times the worker found the queue full.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_between_two_threads() {
        let log = OpLog::new(16);
        let record = |n: u64| OpRecord {
            at: n,
            submission: 0,
            service: n * 3,
            direction: Direction::ALL[n as usize % 4],
            data_only: n.is_multiple_of(3),
            bytes: n as u32,
            file: u32::MAX - n as u32,
            offset: n << 12,
            priority: n as u16,
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let wait = || {
                    std::thread::yield_now();
                    false
                };
                (0..10_000).for_each(|n| log.push(record(n), wait));
            });
            let mut next = 0;
            while next < 10_000 {
                if let Some(found) = log.pop() {
                    assert_eq!(found, record(next));
                    next += 1;
                }
            }
        });
        assert_eq!(log.pop(), None);
    }
}
