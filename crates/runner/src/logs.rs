//! Log files in fio's formats: `PREFIX_bw.N.log` and its siblings, N the number of the clone among
//! all of the trial, from 1.
//!
//! A line is `time (ms), value, direction, block size[, offset], priority`: bandwidth in KiB/s,
//! latencies in ns, directions 0 to 2, size 0 where the line stands for a window. Time begins with
//! the clone's measured time, or is that of another clock. A write error ends the log and is noted; it does not fail the trial.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iodyno_engine::OpLog;
use iodyno_model::{Direction, Histogram, Logs};
use iodyno_target::create_output;

use crate::gain::Gain;
use crate::iolog::Iolog;

/// fio's window of bandwidth and IOPS logs where none was given, ms.
const RATE_WINDOW_MS: u64 = 500;
/// Ops that may wait to be written before the worker has to wait.
const QUEUE: usize = 16_384;

/// A log file being written.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    to: BufWriter<File>,
    fault: Option<String>,
}

impl LogFile {
    fn create(prefix: &Path, kind: &str, number: usize) -> Result<LogFile, String> {
        let mut name = prefix.as_os_str().to_owned();
        name.push(format!("_{kind}.{number}.log"));
        LogFile::at(PathBuf::from(name))
    }

    /// Creates a log of this path.
    ///
    /// # Errors
    /// Why it cannot be created.
    pub(crate) fn at(path: PathBuf) -> Result<LogFile, String> {
        match create_output(&path) {
            Ok(file) => Ok(LogFile {
                path,
                to: BufWriter::with_capacity(1 << 14, file),
                fault: None,
            }),
            Err(error) => Err(format!(
                "cannot create the log `{}`: {error}",
                path.display()
            )),
        }
    }

    /// Appends a line.
    pub(crate) fn line(&mut self, line: std::fmt::Arguments<'_>) {
        if self.fault.is_none() {
            let written = self.to.write_fmt(line);
            self.note(written);
        }
    }

    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.fault.get_or_insert_with(|| {
                format!("the log `{}` is incomplete: {error}", self.path.display())
            });
        }
    }

    /// Flushes it. Returns why it is incomplete, if it is.
    pub(crate) fn close(mut self) -> Option<String> {
        if self.fault.is_none() {
            let written = self.to.flush();
            self.note(written);
        }
        // Dropping the buffer would try to write again.
        let (_file, _unwritten) = self.to.into_parts();
        self.fault
    }
}

fn faults(files: impl IntoIterator<Item = LogFile>) -> Option<String> {
    let faults: Vec<String> = files.into_iter().filter_map(LogFile::close).collect();
    (!faults.is_empty()).then(|| faults.join("; "))
}

/// What the times of a log count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Epoch {
    /// Ns to be added to an instant of the trial's clock; `None`: times begin with the measured time.
    offset_ns: Option<i128>,
}

impl Epoch {
    /// The epoch of a clock that reads `there` ns when the trial's clock reads `here` ns.
    pub(crate) fn of_clock(there: u64, here: u64) -> Epoch {
        Epoch {
            offset_ns: Some(i128::from(there) - i128::from(here)),
        }
    }

    /// Ms to be added to a time that counts from `start`, an instant of the trial's clock, ns.
    fn ms(self, start: u64) -> u64 {
        let ns = self
            .offset_ns
            .map_or(0, |offset| offset + i128::from(start));
        (ns.max(0) / 1_000_000) as u64
    }
}

/// The three latency logs: total, completion, submission. For windows the first two are the same.
#[derive(Debug)]
struct LatencyFiles([LogFile; 3]);

impl LatencyFiles {
    fn create(prefix: &Path, number: usize) -> Result<LatencyFiles, String> {
        Ok(LatencyFiles([
            LogFile::create(prefix, "lat", number)?,
            LogFile::create(prefix, "clat", number)?,
            LogFile::create(prefix, "slat", number)?,
        ]))
    }
}

/// The logs of one clone, as its job asks for them.
#[derive(Debug, Default)]
pub(crate) struct CloneLogs {
    /// Averages over windows.
    pub(crate) windows: Option<WindowLog>,
    /// Each op.
    pub(crate) ops: Option<OpsLog>,
    /// Each op as an iolog.
    pub(crate) iolog: Option<Iolog>,
}

/// Creates the log files of the clone of this number (from 1). Relative prefixes lie in `folder`; times count from `epoch`.
///
/// # Errors
/// The file that could not be created, and why.
pub(crate) fn create(
    logs: &Logs,
    folder: &Path,
    number: usize,
    epoch: Epoch,
) -> Result<CloneLogs, String> {
    let file = |prefix: &Option<PathBuf>, kind| match prefix {
        Some(prefix) => LogFile::create(&folder.join(prefix), kind, number).map(Some),
        None => Ok(None),
    };
    let latency = match &logs.latency {
        Some(prefix) => Some(LatencyFiles::create(&folder.join(prefix), number)?),
        None => None,
    };
    let (averaged, each) = match logs.window_ms {
        0 => (None, latency),
        _ => (latency, None),
    };
    let (bandwidth, iops) = (file(&logs.bandwidth, "bw")?, file(&logs.iops, "iops")?);
    let window_ms = match logs.window_ms {
        0 => RATE_WINDOW_MS,
        window => window,
    };
    let any = bandwidth.is_some() || iops.is_some() || averaged.is_some();
    Ok(CloneLogs {
        windows: any.then(|| WindowLog {
            window_ns: window_ms * 1_000_000,
            next: None,
            since: 0,
            max_value: logs.max_value,
            epoch,
            bandwidth,
            iops,
            latency: averaged,
            lanes: Default::default(),
        }),
        ops: each.map(|files| OpsLog {
            queue: Arc::new(OpLog::new(QUEUE)),
            files,
            offset: logs.offset,
            epoch,
        }),
        iolog: None,
    })
}

#[derive(Debug, Default)]
struct Lane {
    ops: u64,
    bytes: u64,
    service: Window,
    submission: Window,
}

/// Latencies of a window.
#[derive(Debug, Default)]
struct Window {
    count: u64,
    sum: u128,
    max: u64,
}

impl Window {
    fn add(&mut self, histogram: &Histogram) {
        self.count += histogram.count();
        self.sum += histogram.sum_ns();
        self.max = self.max.max(histogram.max_ns());
    }

    fn value(&self, max: bool) -> Option<u64> {
        let mean = |count| ((self.sum as f64 / count as f64) + 0.5) as u64;
        match (self.count, max) {
            (0, _) => None,
            (_, true) => Some(self.max),
            (count, false) => Some(mean(count)),
        }
    }
}

/// A clone's logs of windows.
#[derive(Debug)]
pub(crate) struct WindowLog {
    window_ns: u64,
    /// End of the window, ns of the clock; `None` before the first look.
    next: Option<u64>,
    /// Start of the window.
    since: u64,
    max_value: bool,
    epoch: Epoch,
    bandwidth: Option<LogFile>,
    iops: Option<LogFile>,
    latency: Option<LatencyFiles>,
    lanes: [Lane; 3],
}

impl WindowLog {
    /// When `tick` is to be called next.
    pub(crate) fn next(&self) -> Option<u64> {
        self.next
    }

    /// The first window begins at this instant.
    pub(crate) fn begin(&mut self, at: u64) {
        self.next = Some(at + self.window_ns);
    }

    pub(crate) fn count(&mut self, direction: Direction, gain: &Gain) {
        let Some(lane) = self.lanes.get_mut(direction as usize) else {
            return;
        };
        lane.ops += gain.service.count();
        lane.bytes += gain.bytes;
        lane.service.add(&gain.service);
        if let Some(submission) = &gain.submission {
            lane.submission.add(submission);
        }
    }

    /// Ends the window if it is over. `start`: of the measured time; 0 before it has begun.
    pub(crate) fn tick(&mut self, start: u64, now: u64) {
        let Some(next) = self.next else { return };
        if now < next {
            return;
        }
        if start == 0 {
            self.next = Some(now + self.window_ns);
            return;
        }
        // Windows lie on a grid from the start; a missed one is part of the next.
        let windows = (now - start.min(now)) / self.window_ns;
        self.next = Some(start + (windows + 1) * self.window_ns);
        if windows > 0 {
            self.write(start, now, windows * self.window_ns);
        }
    }

    fn write(&mut self, start: u64, now: u64, stamp_ns: u64) {
        let span = now - self.since.max(start);
        self.since = now;
        let time = self.epoch.ms(start) + stamp_ns / 1_000_000;
        for (direction, lane) in self.lanes.iter_mut().enumerate() {
            let lane = std::mem::take(lane);
            let per_second = |count: u64| match span {
                0 => 0,
                span => (u128::from(count) * 1_000_000_000 / u128::from(span)) as u64,
            };
            // As in fio, a window in which a direction did nothing has no line.
            if lane.ops > 0 {
                if let Some(file) = &mut self.bandwidth {
                    let rate = per_second(lane.bytes) / 1024;
                    file.line(format_args!("{time}, {rate}, {direction}, 0, 0\n"));
                }
                if let Some(file) = &mut self.iops {
                    let rate = per_second(lane.ops);
                    file.line(format_args!("{time}, {rate}, {direction}, 0, 0\n"));
                }
            }
            if let Some(LatencyFiles([total, completion, submission])) = &mut self.latency {
                if let Some(value) = lane.service.value(self.max_value) {
                    total.line(format_args!("{time}, {value}, {direction}, 0, 0\n"));
                    completion.line(format_args!("{time}, {value}, {direction}, 0, 0\n"));
                }
                if let Some(value) = lane.submission.value(self.max_value) {
                    submission.line(format_args!("{time}, {value}, {direction}, 0, 0\n"));
                }
            }
        }
    }

    /// Writes the last window, unless it is too short for meaningful rates and not the only one. Returns what went wrong.
    pub(crate) fn close(mut self, start: u64, end: u64) -> Option<String> {
        let rest = end.saturating_sub(self.since.max(start));
        if start != 0 && rest > 0 && (rest > self.window_ns / 10 || self.since == 0) {
            self.write(start, end, end - start);
        }
        let latency = self.latency.map(|files| files.0);
        let files = self.bandwidth.into_iter().chain(self.iops);
        faults(files.chain(latency.into_iter().flatten()))
    }
}

/// A clone's logs of single ops.
#[derive(Debug)]
pub(crate) struct OpsLog {
    /// The worker's end.
    pub(crate) queue: Arc<OpLog>,
    files: LatencyFiles,
    offset: bool,
    epoch: Epoch,
}

impl OpsLog {
    /// Writes what the worker has logged, at most one queue's length, so that a fast worker cannot hold up the caller.
    /// `start` returns when its measured time began, 0 before; it is called for each op, since that time may begin
    /// while this runs.
    pub(crate) fn drain(&mut self, start: impl Fn() -> u64) {
        for _ in 0..QUEUE {
            let Some(op) = self.queue.pop() else { return };
            let start = start();
            let Some(since) = op.at.checked_sub(start).filter(|_| start != 0) else {
                continue;
            };
            if op.direction == Direction::Sync {
                continue;
            }
            let time = self.epoch.ms(start) + since / 1_000_000;
            let (direction, bytes) = (op.direction as u8, op.bytes);
            let LatencyFiles([total, completion, submission]) = &mut self.files;
            let write = |file: &mut LogFile, value: u64| match self.offset {
                true => file.line(format_args!(
                    "{time}, {value}, {direction}, {bytes}, {}, 0\n",
                    op.offset
                )),
                false => file.line(format_args!("{time}, {value}, {direction}, {bytes}, 0\n")),
            };
            write(total, op.service);
            write(completion, op.service.saturating_sub(op.submission));
            if op.submission > 0 {
                write(submission, op.submission);
            }
        }
    }

    /// Writes the rest. Returns what went wrong or affects the figures. A worker that waited for the log lost time in
    /// real time only.
    pub(crate) fn close(mut self, start: u64, in_virtual_time: bool) -> Option<String> {
        self.drain(|| start);
        let waits = self.queue.waits();
        let slowed = (waits > 0 && !in_virtual_time).then(|| {
            format!("logging each op delayed its worker {waits} times: the figures are too low")
        });
        let faults = faults(self.files.0);
        match (faults, slowed) {
            (Some(faults), Some(slowed)) => Some(format!("{faults}; {slowed}")),
            (faults, slowed) => faults.or(slowed),
        }
    }
}

#[cfg(test)]
mod tests;
