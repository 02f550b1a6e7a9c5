//! Threads that read and write files on ZFS, above striped mirrors.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use iodyno_sys::{Device, Op, OpKind};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use slab::Slab;

/// What a thread does with its file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Access {
    /// Reads to the end of the file, then from its begin, in blocks of this many bytes. See
    /// [`ReadersSettings::together`].
    Sequential(u64),
    /// Reads blocks of this many bytes at random places. Each is a multiple of the block, or lies in one record.
    Random(u64),
    /// Reads single records at random places, and overwrites some instead: this share of the ops.
    Mixed {
        /// Share of the writes, 0–1.
        writes: f64,
    },
}

/// Where the files lie on the mirrors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One file after the other, as if written one at a time.
    Contiguous,
    /// The stripe units of all files alternate, as if written at the same time.
    Interleaved,
}

/// Parameters of [`Readers`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReadersSettings {
    /// Number of threads; thread t reads file t mod `files`.
    pub(crate) threads: u32,
    /// Number of files.
    pub(crate) files: u32,
    /// Length of a file, bytes.
    pub(crate) file: u64,
    /// Where they lie.
    pub(crate) layout: Layout,
    /// What the threads do.
    pub(crate) access: Access,
    /// Whether sequential threads start at the begin of their files, or at random places.
    pub(crate) together: bool,
    /// Share of the random ops that go to the hot part of the files; the others go anywhere. 0: all are uniform.
    pub(crate) skew: f64,
    /// The hot part of a file is the first of this many equal parts.
    pub(crate) parts: u64,
    /// Length of a record, the unit of all transfers, bytes.
    pub(crate) record: u64,
    /// Bytes that lie on one mirror before the next one follows.
    pub(crate) stripe: u64,
    /// Furthest that the file system reads ahead of a sequential reader, bytes; 0: it does not. It reads ahead 2^(k − 1)
    /// records after the k-th consecutive record (k ≥ 2), as ZFS's `dmu_zfetch` did in 2013.
    pub(crate) prefetch: u64,
    /// Time that a thread needs to submit a request, ns.
    pub(crate) submission_ns: u64,
}

impl Default for ReadersSettings {
    fn default() -> ReadersSettings {
        ReadersSettings {
            threads: 16,
            files: 16,
            file: 16_000_000_000 / (1 << 20) * (1 << 20),
            layout: Layout::Contiguous,
            access: Access::Sequential(1 << 20),
            together: false,
            skew: 0.0,
            parts: 10,
            record: 128 << 10,
            stripe: 512 << 10,
            prefetch: 16 << 20,
            submission_ns: 20_000,
        }
    }
}

/// What the threads did in the measured time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Ops that ended.
    pub(crate) ops: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Requests to the mirrors that were submitted or ended, since the begin.
    pub(crate) events: u64,
    /// Measured time, s.
    pub(crate) seconds: f64,
    /// Longest time that an op took, ns.
    pub(crate) longest_ns: u64,
}

impl Outcome {
    /// MB (10⁶ bytes) per second.
    pub(crate) fn megabytes(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.seconds
    }

    /// Ops per second.
    pub(crate) fn rate(&self) -> f64 {
        self.ops as f64 / self.seconds
    }
}

/// Number of records whose arrival a thread remembers: more than it reads ahead.
const REMEMBERED: u64 = 1024;

#[derive(Debug, Clone)]
struct Thread {
    file: u64,
    random: Xoshiro256PlusPlus,
    /// Distinguishes the requests of this series of consecutive records from earlier ones.
    series: u64,
    /// Records of the op in progress: the first and the one after the last.
    op: (u64, u64),
    began: u64,
    write: bool,
    /// Next record that the op accesses.
    next: u64,
    /// Consecutive records accessed so far.
    length: u32,
    /// Next record to submit, and the one up to which records are submitted.
    submit: (u64, u64),
    /// Identity of the record that arrived last in each place.
    arrived: Vec<u64>,
    waits: bool,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    thread: u32,
    identity: u64,
    record: u64,
}

/// Threads that read files through ZFS's records, striping and prefetch, each with one op at a time.
#[derive(Debug)]
pub(crate) struct Readers<D> {
    settings: ReadersSettings,
    mirrors: Vec<D>,
    threads: Vec<Thread>,
    /// When threads run next.
    runs: BinaryHeap<Reverse<(u64, u32)>>,
    requests: Slab<Request>,
    measured: Outcome,
    measure_from: u64,
}

impl<D: Device> Readers<D> {
    /// Threads above these mirrors, which must be idle at time 0.
    pub(crate) fn new(settings: ReadersSettings, mirrors: Vec<D>, seed: u64) -> Readers<D> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let thread = |number: u32| {
            let random = Xoshiro256PlusPlus::seed_from_u64(random.random());
            Thread {
                file: u64::from(number % settings.files),
                random,
                series: 0,
                op: (0, 0),
                began: 0,
                write: false,
                next: 0,
                length: 0,
                submit: (0, 0),
                arrived: vec![u64::MAX; REMEMBERED as usize],
                waits: false,
            }
        };
        let threads: Vec<Thread> = (0..settings.threads).map(thread).collect();
        let mut readers = Readers {
            runs: (0..settings.threads).map(|one| Reverse((0, one))).collect(),
            threads,
            requests: Slab::with_capacity(4096),
            measured: Outcome::default(),
            measure_from: 0,
            settings,
            mirrors,
        };
        for number in 0..readers.threads.len() {
            let records = readers.records();
            let together = readers.settings.together;
            let thread = &mut readers.threads[number];
            let random = thread.random.random_range(0..records);
            let first = if together { 0 } else { random };
            thread.op = (first, first);
            readers.next_op(number as u32, 0);
        }
        readers
    }

    /// The mirrors.
    pub(crate) fn mirrors(&self) -> &[D] {
        &self.mirrors
    }

    /// Runs until `warm_up_s`, then measures for `measure_s`, both in virtual seconds.
    pub(crate) fn run(&mut self, warm_up_s: f64, measure_s: f64) -> Outcome {
        self.measure_from = (warm_up_s * 1e9) as u64;
        let until = self.measure_from + (measure_s * 1e9) as u64;
        loop {
            let run = self.runs.peek().map(|Reverse((at, thread))| (*at, *thread));
            let ends = self.mirrors.iter().enumerate();
            let end = ends
                .filter_map(|(mirror, device)| Some((device.next_end()?, mirror)))
                .min();
            match (run, end) {
                (run, Some((at, mirror))) if run.is_none_or(|(run, _)| at <= run) => {
                    if at >= until {
                        break;
                    }
                    while let Some(ended) = self.mirrors[mirror].take_ended(at) {
                        self.request_ended(ended.slot, ended.at);
                    }
                }
                (Some((at, thread)), _) => {
                    if at >= until {
                        break;
                    }
                    self.runs.pop();
                    self.run_thread(thread, at);
                }
                (None, _) => break,
            }
        }
        self.measured.seconds = measure_s;
        self.measured
    }

    fn records(&self) -> u64 {
        self.settings.file / self.settings.record
    }

    fn request_ended(&mut self, slot: u32, now: u64) {
        self.measured.events += 1;
        let Request {
            thread: number,
            identity,
            record,
        } = self.requests.remove(slot as usize);
        let thread = &mut self.threads[number as usize];
        if identity >> 40 != thread.series {
            return;
        }
        thread.arrived[(record % REMEMBERED) as usize] = identity;
        if thread.waits && self.op_done(number) {
            self.threads[number as usize].waits = false;
            self.runs.push(Reverse((now, number)));
        }
    }

    fn op_done(&self, number: u32) -> bool {
        let thread = &self.threads[number as usize];
        (thread.op.0..thread.op.1).all(|record| {
            let place = (record % REMEMBERED) as usize;
            thread.arrived[place] == thread.series << 40 | record
        })
    }

    /// A thread runs until it has submitted a request or waits.
    fn run_thread(&mut self, number: u32, now: u64) {
        loop {
            let thread = &mut self.threads[number as usize];
            if thread.submit.0 < thread.submit.1 {
                let record = thread.submit.0;
                thread.submit.0 += 1;
                self.submit(number, record, now);
                let next = now + self.settings.submission_ns;
                return self.runs.push(Reverse((next, number)));
            }
            if thread.next < thread.op.1 {
                self.access(number);
                continue;
            }
            if !self.op_done(number) {
                self.threads[number as usize].waits = true;
                return;
            }
            self.count(number, now);
            self.next_op(number, now);
        }
    }

    /// The op's next record is accessed: it and what is read ahead have to be submitted, unless they already were.
    fn access(&mut self, number: u32) {
        let records = self.records();
        let furthest = self.settings.prefetch / self.settings.record;
        let thread = &mut self.threads[number as usize];
        thread.next += 1;
        thread.length = (thread.length + 1).min(32);
        let ahead = match thread.length {
            1 => 0,
            length => 1 << (length - 1),
        };
        let ahead = if thread.write { 0 } else { furthest.min(ahead) };
        let to = (thread.next + ahead).min(records.max(thread.op.1));
        thread.submit.1 = thread.submit.1.max(to);
    }

    fn count(&mut self, number: u32, now: u64) {
        let thread = &self.threads[number as usize];
        if now < self.measure_from {
            return;
        }
        let records = (thread.op.1 - thread.op.0) * self.settings.record;
        self.measured.ops += 1;
        self.measured.bytes += match self.settings.access {
            Access::Random(block) => block,
            _ => records,
        };
        self.measured.longest_ns = self.measured.longest_ns.max(now - thread.began);
    }

    /// Begins the thread's next op.
    fn next_op(&mut self, number: u32, now: u64) {
        let records = self.records();
        let record = self.settings.record;
        let thread = &mut self.threads[number as usize];
        let jump = match self.settings.access {
            Access::Sequential(block) => {
                let length = block.div_ceil(record);
                let first = thread.op.1;
                let wraps = first + length > records;
                let first = if wraps { 0 } else { first };
                thread.op = (first, first + length);
                wraps || now == 0
            }
            Access::Random(block) => {
                let length = block.div_ceil(record);
                let places = records / length;
                let hot = thread.random.random::<f64>() < self.settings.skew;
                let places = if hot {
                    places / self.settings.parts
                } else {
                    places
                };
                let first = thread.random.random_range(0..places.max(1)) * length;
                thread.op = (first, first + length);
                true
            }
            Access::Mixed { writes } => {
                let hot = thread.random.random::<f64>() < self.settings.skew;
                let places = if hot {
                    records / self.settings.parts
                } else {
                    records
                };
                let first = thread.random.random_range(0..places.max(1));
                thread.op = (first, first + 1);
                thread.write = thread.random.random::<f64>() < writes;
                true
            }
        };
        if jump {
            thread.series += 1;
            thread.length = 0;
            thread.submit = (thread.op.0, thread.op.0);
        }
        thread.next = thread.op.0;
        thread.began = now;
    }

    fn submit(&mut self, number: u32, record: u64, now: u64) {
        self.measured.events += 1;
        let thread = &self.threads[number as usize];
        let request = Request {
            thread: number,
            identity: thread.series << 40 | record,
            record,
        };
        let slot = self.requests.insert(request) as u32;
        let (mirror, offset) = self.place(thread.file, record);
        let op = Op {
            kind: if thread.write {
                OpKind::Write
            } else {
                OpKind::Read
            },
            // The queue of a mirror.
            file: number,
            offset,
            length: self.settings.record as u32,
            skip: 0,
            priority: 0,
        };
        self.mirrors[mirror].submit(now, slot, &op);
    }

    /// Mirror and offset of a record of a file.
    pub(crate) fn place(&self, file: u64, record: u64) -> (usize, u64) {
        let ReadersSettings {
            stripe,
            record: length,
            files,
            layout,
            ..
        } = self.settings;
        let mirrors = self.mirrors.len() as u64;
        let byte = record * length;
        let (unit, within) = (byte / stripe, byte % stripe);
        let row = unit / mirrors;
        let units = (self.settings.file / stripe).div_ceil(mirrors);
        let row = match layout {
            Layout::Contiguous => file * units + row,
            Layout::Interleaved => row * u64::from(files) + file,
        };
        let mirror = (unit + file) % mirrors;
        (mirror as usize, row * stripe + within)
    }
}
