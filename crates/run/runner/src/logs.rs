//! Log files in fio's formats: `PREFIX_bw.N.log` and similar names, where N is the number of the clone in the trial,
//! from 1; or `PREFIX_bw.log`, to which all clones append whole lines. Compressed ones end in `.fz`.
//!
//! A line is `time (ms), value, direction, block size[, offset], priority[, issue time]`: bandwidth in KiB/s, latencies
//! in ns, directions 0 to 2, size 0 if the line is for a window. A line of a histogram is `time, direction, block size,
//! count of each bin…`. Times count from the start of the clone's measured time, or are those of another clock. A write
//! error ends the log and is reported as a note; the trial continues.

pub(crate) mod compression;
mod file;
pub(crate) mod iolog;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iodyno_engine::{OpLog, OpRecord};
use iodyno_model::{Direction, FIO_BINS, Histogram, IoPriority, Logs};

use crate::logs::file::{LogFile, close_all};
use crate::logs::iolog::Iolog;
use crate::node::counter_delta::CounterDelta;

/// Number of ops that can be queued before the worker has to wait.
const QUEUE: usize = 16_384;

/// The origin of the times in a log.
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

/// The optional columns of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Columns {
    offset: bool,
    /// The priority as a number of 16 bits; otherwise whether it is real time.
    priority: bool,
    issue_time: bool,
}

/// A line of a log of values.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    time_ms: u64,
    direction: u8,
    bytes: u32,
    offset: u64,
    /// The kernel's number of the priority.
    priority: u16,
}

impl Entry {
    fn write(&self, to: &mut LogFile, columns: Columns, values: &[u64], issued_ns: u64) {
        to.add(|line| {
            write!(line, "{}", self.time_ms)?;
            for value in values {
                write!(line, ", {value}")?;
            }
            write!(line, ", {}, {}", self.direction, self.bytes)?;
            if columns.offset {
                write!(line, ", {}", self.offset)?;
            }
            match columns.priority {
                true => write!(line, ", 0x{:04x}", self.priority)?,
                false => {
                    let real_time = self.priority >> 13 == u16::from(IoPriority::REAL_TIME);
                    write!(line, ", {}", u8::from(real_time))?
                }
            }
            if columns.issue_time {
                write!(line, ", {issued_ns}")?;
            }
            writeln!(line)
        });
    }
}

/// The logs of values. The three latency logs are total, completion and submission.
#[derive(Debug, Default)]
struct ValueFiles {
    bandwidth: Option<LogFile>,
    iops: Option<LogFile>,
    latency: [Option<LogFile>; 3],
}

impl ValueFiles {
    fn close(self) -> Option<String> {
        let rates = self.bandwidth.into_iter().chain(self.iops);
        close_all(rates.chain(self.latency.into_iter().flatten()))
    }
}

/// The logs of one clone that its job requests.
#[derive(Debug, Default)]
pub(crate) struct CloneLogs {
    /// Logs of windows.
    pub(crate) windows: Vec<WindowLog>,
    /// Log of each op.
    pub(crate) ops: Option<OpsLog>,
    /// Record of each op as an iolog.
    pub(crate) iolog: Option<Iolog>,
}

/// The number of files of these logs for one clone.
pub(crate) fn files(logs: &Logs) -> usize {
    let prefixes = [&logs.bandwidth, &logs.iops, &logs.histogram];
    prefixes.into_iter().flatten().count()
        + 3 * usize::from(logs.latency.is_some())
        + usize::from(logs.iolog.is_some())
}

/// Creates the log files of the clone of this number (from 1), whose thread has this I/O priority.
/// Relative prefixes are below `folder`; times count from `epoch`.
///
/// # Errors
/// The file that could not be created, and the reason.
pub(crate) fn create(
    logs: &Logs,
    priority: IoPriority,
    folder: &Path,
    number: usize,
    epoch: Epoch,
) -> Result<CloneLogs, String> {
    let file = |prefix: &Path, kind: &str| {
        let mut name = folder.join(prefix).into_os_string();
        match logs.shared {
            true => name.push(format!("_{kind}.log")),
            false => name.push(format!("_{kind}.{number}.log")),
        }
        if logs.compressed {
            name.push(".fz");
        }
        LogFile::create(PathBuf::from(name), logs.shared, logs.compressed)
    };
    let optional = |prefix: &Option<PathBuf>, kind: &str| {
        let prefix = prefix.as_deref();
        prefix.map(|prefix| file(prefix, kind)).transpose()
    };
    let left_out = logs.left_out;
    let wanted = |left_out: bool| logs.latency.clone().filter(|_| !left_out);
    let latency = [
        optional(&wanted(left_out.total), "lat")?,
        optional(&wanted(left_out.completion), "clat")?,
        optional(&wanted(left_out.submission), "slat")?,
    ];
    let values = ValueFiles {
        bandwidth: optional(&logs.bandwidth, "bw")?,
        iops: optional(&logs.iops, "iops")?,
        latency,
    };
    let histograms = optional(&logs.histogram, "clat_hist")?;
    let columns = Columns {
        offset: logs.offset,
        priority: logs.priority,
        issue_time: logs.issue_time,
    };
    let window = |every_ms: u64, to| WindowLog {
        window_ns: every_ms * 1_000_000,
        next: None,
        since: 0,
        epoch,
        to,
        lanes: Default::default(),
    };
    let mut made = CloneLogs::default();
    let any = logs.bandwidth.is_some() || logs.iops.is_some() || logs.latency.is_some();
    if any && logs.window_ms == 0 {
        made.ops = Some(OpsLog {
            queue: Arc::new(OpLog::new(QUEUE)),
            files: values,
            columns,
            priority: priority.value(),
            epoch,
        });
    } else if any {
        let to = WindowFiles::Values {
            files: Box::new(values),
            columns,
            mean: logs.both_values || !logs.max_value,
            largest: logs.both_values || logs.max_value,
        };
        made.windows.push(window(logs.window_ms, to));
    }
    if let Some(file) = histograms.filter(|_| logs.histogram_ms > 0) {
        let coarseness = logs.coarseness;
        let to = WindowFiles::Histograms { file, coarseness };
        made.windows.push(window(logs.histogram_ms, to));
    }
    Ok(made)
}

#[derive(Debug, Default)]
struct DirectionLog {
    ops: u64,
    bytes: u64,
    service: Window,
    submission: Window,
    completion: Window,
    /// Completion latencies, if they are logged as histograms.
    histogram: Histogram,
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

    fn mean(&self) -> u64 {
        match self.count {
            0 => 0,
            count => ((self.sum as f64 / count as f64) + 0.5) as u64,
        }
    }
}

/// A clone's log of windows.
#[derive(Debug)]
pub(crate) struct WindowLog {
    window_ns: u64,
    /// End of the window, ns of the clock; `None` before the first look.
    next: Option<u64>,
    /// Start of the window.
    since: u64,
    epoch: Epoch,
    to: WindowFiles,
    lanes: [DirectionLog; 3],
}

/// The files to which windows are written.
#[derive(Debug)]
enum WindowFiles {
    /// The mean, the largest value, or both.
    Values {
        files: Box<ValueFiles>,
        columns: Columns,
        mean: bool,
        largest: bool,
    },
    /// Each bin combines `2^coarseness` of fio's bins.
    Histograms { file: LogFile, coarseness: u32 },
}

impl WindowLog {
    /// When to call `tick` next.
    pub(crate) fn next(&self) -> Option<u64> {
        self.next
    }

    /// The first window begins at this instant.
    pub(crate) fn begin(&mut self, at: u64) {
        self.next = Some(at + self.window_ns);
    }

    pub(crate) fn count(&mut self, direction: Direction, gain: &CounterDelta) {
        let Some(lane) = self.lanes.get_mut(direction as usize) else {
            return;
        };
        lane.ops += gain.service.count();
        lane.bytes += gain.bytes;
        let completion = gain.completion.as_ref().unwrap_or(&gain.service);
        match self.to {
            WindowFiles::Histograms { .. } => lane.histogram.merge(completion),
            WindowFiles::Values { .. } => {
                lane.service.add(&gain.service);
                lane.completion.add(completion);
                if let Some(submission) = &gain.submission {
                    lane.submission.add(submission);
                }
            }
        }
    }

    /// Ends the window if it is over. `start`: start of the measured time; 0 before it.
    pub(crate) fn tick(&mut self, start: u64, now: u64) {
        let Some(next) = self.next else { return };
        if now < next {
            return;
        }
        if start == 0 {
            self.next = Some(now + self.window_ns);
            return;
        }
        // Windows are on a grid from the start; a missed one is part of the next.
        let windows = (now - start.min(now)) / self.window_ns;
        self.next = Some(start + (windows + 1) * self.window_ns);
        if windows > 0 {
            self.write(start, now, windows * self.window_ns);
        }
    }

    fn write(&mut self, start: u64, now: u64, stamp_ns: u64) {
        let span = now - self.since.max(start);
        self.since = now;
        let time_ms = self.epoch.ms(start) + stamp_ns / 1_000_000;
        for (direction, lane) in self.lanes.iter_mut().enumerate() {
            let lane = std::mem::take(lane);
            // As in fio, a window without ops of a direction has no line.
            if lane.ops == 0 {
                continue;
            }
            let mut entry = Entry {
                time_ms,
                direction: direction as u8,
                ..Entry::default()
            };
            match &mut self.to {
                WindowFiles::Values {
                    files,
                    columns,
                    mean,
                    largest,
                } => {
                    let write = |file: &mut LogFile, average: u64, most: u64| {
                        let values = [(*mean, average), (*largest, most)];
                        let values = values.iter().filter(|value| value.0).map(|value| value.1);
                        let values: Vec<u64> = values.collect();
                        entry.write(file, *columns, &values, 0);
                    };
                    let per_second = |count: u64| match span {
                        0 => 0,
                        span => (u128::from(count) * 1_000_000_000 / u128::from(span)) as u64,
                    };
                    if let Some(file) = &mut files.bandwidth {
                        let rate = per_second(lane.bytes) / 1024;
                        write(file, rate, rate);
                    }
                    if let Some(file) = &mut files.iops {
                        let rate = per_second(lane.ops);
                        write(file, rate, rate);
                    }
                    let windows = [&lane.service, &lane.completion, &lane.submission];
                    for (file, window) in files.latency.iter_mut().zip(windows) {
                        if let (Some(file), true) = (file, window.count > 0) {
                            write(file, window.mean(), window.max);
                        }
                    }
                }
                WindowFiles::Histograms { file, coarseness } => {
                    entry.bytes = (lane.bytes / lane.ops) as u32;
                    histogram_line(file, &entry, &lane.histogram, *coarseness);
                }
            }
        }
    }

    /// Writes the last window. A window that is too short for meaningful rates is omitted, unless it is the only one.
    /// Returns the reason if the log is incomplete.
    pub(crate) fn close(mut self, start: u64, end: u64) -> Option<String> {
        let rest = end.saturating_sub(self.since.max(start));
        let histograms = matches!(self.to, WindowFiles::Histograms { .. });
        if start != 0 && histograms {
            // The rest, including ops that completed at the end of the previous window. The time must differ from that
            // of the previous line, because fio's tools would drop it otherwise.
            let end = end.max(self.since + 1);
            self.write(start, end, (end - start).next_multiple_of(1_000_000));
        } else if start != 0 && rest > 0 && (rest > self.window_ns / 10 || self.since == 0) {
            self.write(start, end, end - start);
        }
        match self.to {
            WindowFiles::Values { files, .. } => files.close(),
            WindowFiles::Histograms { file, .. } => close_all([file]),
        }
    }
}

fn histogram_line(file: &mut LogFile, entry: &Entry, histogram: &Histogram, coarseness: u32) {
    let mut counts = vec![0; FIO_BINS >> coarseness];
    let last = counts.len() - 1;
    for (bin, count) in histogram.fio_bins() {
        counts[(bin >> coarseness).min(last)] += count;
    }
    file.add(|line| {
        write!(
            line,
            "{}, {}, {}",
            entry.time_ms, entry.direction, entry.bytes
        )?;
        counts
            .iter()
            .try_for_each(|count| write!(line, ", {count}"))?;
        writeln!(line)
    });
}

/// A clone's logs of single ops.
#[derive(Debug)]
pub(crate) struct OpsLog {
    /// The queue's end in the worker.
    pub(crate) queue: Arc<OpLog>,
    files: ValueFiles,
    columns: Columns,
    /// The kernel's number of the job's priority.
    priority: u16,
    epoch: Epoch,
}

impl OpsLog {
    /// Writes the ops that the worker has logged, at most one queue's length, so that a fast worker cannot block the
    /// caller. `start` returns the start of its measured time, or 0 before it; it is called for each op, because the
    /// measured time can begin meanwhile.
    pub(crate) fn drain(&mut self, start: impl Fn() -> u64) {
        for _ in 0..QUEUE {
            let Some(op) = self.queue.pop() else { return };
            let start = start();
            if op.at >= start && start != 0 && op.direction != Direction::Sync {
                self.write(&op, start);
            }
        }
    }

    fn write(&mut self, op: &OpRecord, start: u64) {
        let since = op.at - start;
        let entry = Entry {
            time_ms: self.epoch.ms(start) + since / 1_000_000,
            direction: op.direction as u8,
            bytes: op.bytes,
            offset: op.offset,
            priority: match op.priority {
                0 => self.priority,
                own => own,
            },
        };
        let completion = op.service.saturating_sub(op.submission);
        let issued = since.saturating_sub(completion);
        let columns = self.columns;
        if let Some(file) = &mut self.files.bandwidth {
            // fio's rate of a single op, in units of 1000 bytes/s.
            let rate = (u64::from(op.bytes) * 1_000_000).checked_div(completion);
            entry.write(file, columns, &[rate.unwrap_or(0)], 0);
        }
        if let Some(file) = &mut self.files.iops {
            entry.write(file, columns, &[1], 0);
        }
        let [total, complete, submission] = &mut self.files.latency;
        let values = [
            (total, Some(op.service), 0),
            (complete, Some(completion), issued),
            (submission, Some(op.submission).filter(|ns| *ns > 0), issued),
        ];
        for (file, value, issued) in values {
            if let (Some(file), Some(value)) = (file, value) {
                entry.write(file, columns, &[value], issued);
            }
        }
    }

    /// Writes the remaining ops. Returns a note on errors and on effects on the figures. Waiting for the log costs a
    /// worker time in real time only.
    pub(crate) fn close(mut self, start: u64, in_virtual_time: bool) -> Option<String> {
        self.drain(|| start);
        let waits = self.queue.waits();
        let slowed = (waits > 0 && !in_virtual_time).then(|| {
            format!("logging each op delayed its worker {waits} times: the figures are too low")
        });
        match (self.files.close(), slowed) {
            (Some(faults), Some(slowed)) => Some(format!("{faults}; {slowed}")),
            (faults, slowed) => faults.or(slowed),
        }
    }
}

#[cfg(test)]
mod tests;
