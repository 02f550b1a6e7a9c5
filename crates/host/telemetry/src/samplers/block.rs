//! Times of requests at block devices, which programs in the kernel count (`sys::bpf`).

use iodyno_host::Roots;
use iodyno_model::{SeriesColumn, SeriesKind, SeriesRow};
use iodyno_sys::bpf::block::{BlockTrace, Device, Direction, Requests, TraceError};

use crate::layout::listed;
use crate::sampler::{Fill, Read, Readings, Sampler};
use crate::scope::Devices;

/// Refuses a trace that this process may not make.
///
/// # Errors
/// The reason: a missing capability, or a kernel without the means.
pub fn may_trace_block() -> Result<(), TraceError> {
    BlockTrace::probe()
}

/// The whole devices of the scope, with their counts in the kernel.
pub(crate) struct Block {
    names: Vec<String>,
    /// `None`: no device can be traced.
    trace: Option<BlockTrace>,
    missed_requests: Vec<String>,
    missed: u64,
}

/// The name of a direction in the rows of the series.
fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "read",
        Direction::Write => "write",
        Direction::Trim => "discard",
        Direction::Flush => "flush",
    }
}

impl Block {
    /// `None` if all devices of the host are sampled: then the relevant ones are unknown.
    pub(crate) fn open(roots: &Roots, devices: &Devices) -> Option<Block> {
        let Devices::Named(named) = devices else {
            return None;
        };
        let mut block = Block {
            names: Vec::new(),
            trace: None,
            missed_requests: Vec::new(),
            missed: 0,
        };
        let mut numbers = Vec::new();
        let mut without = Vec::new();
        for name in named {
            let Some((whole, number)) = whole_device(roots, name) else {
                without.push(name.clone());
                continue;
            };
            if !block.names.contains(&whole) {
                block.names.push(whole);
                numbers.push(number);
            }
        }
        if !without.is_empty() {
            block.missed_requests.push(format!(
                "{}: n/a, because the driver takes no requests from a queue of the kernel",
                listed(&without)
            ));
        }
        if !numbers.is_empty() {
            match BlockTrace::begin(&numbers) {
                Ok(trace) => block.trace = Some(trace),
                Err(error) => block.missed_requests.push(error.to_string()),
            }
        }
        Some(block)
    }
}

/// The whole device of a device or partition, if its driver takes requests from queues (`mq` in sysfs).
fn whole_device(roots: &Roots, name: &str) -> Option<(String, Device)> {
    let mut folder = std::fs::canonicalize(roots.sys.join("class/block").join(name)).ok()?;
    if folder.join("partition").exists() {
        folder.pop();
    }
    if !folder.join("mq").is_dir() {
        return None;
    }
    let text = std::fs::read_to_string(folder.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    let device = Device {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
    };
    Some((folder.file_name()?.to_str()?.to_owned(), device))
}

impl Sampler for Block {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Block
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        if into.columns.is_empty() {
            into.columns = SeriesColumn::block();
        }
        let mut fill = into.refill();
        if let Some(trace) = &mut self.trace {
            for (at, name) in self.names.iter().enumerate() {
                for direction in Direction::ALL {
                    let read = trace.read(at, direction);
                    let read = read.map_err(|error| format!("the counts of {name}: {error}"))?;
                    rows(&mut fill, name, word(direction), &read);
                }
            }
            let missed = trace.missed().unwrap_or(self.missed);
            if missed > self.missed {
                let more = missed - self.missed;
                self.missed_requests
                    .push(format!("{more} requests were not counted"));
                self.missed = missed;
            }
        }
        fill.done();
        Ok(Read::Fresh)
    }

    fn missed(&mut self) -> Vec<String> {
        std::mem::take(&mut self.missed_requests)
    }

    fn began_at(&self, _: &SeriesRow, _: &SeriesColumn) -> Option<u64> {
        Some(0)
    }

    fn close(&mut self) {
        self.trace = None;
    }
}

/// The rows of a device in one direction: both stages.
fn rows(fill: &mut Fill<'_>, device: &str, direction: &str, requests: &Requests) {
    for (stage, name) in [(&requests.queue, "queue"), (&requests.device, "device")] {
        let mut words = [device, direction, name].into_iter();
        let same = |row: &SeriesRow| row.name.split(' ').all(|word| words.next() == Some(word));
        let new = || SeriesRow {
            serves: Some(device.to_owned()),
            ..SeriesRow::new(format!("{device} {direction} {name}"))
        };
        let bins = stage.bins.iter().copied();
        fill.row(
            same,
            new,
            std::iter::once(stage.sum_ns).chain(bins).map(Some),
        );
    }
}
