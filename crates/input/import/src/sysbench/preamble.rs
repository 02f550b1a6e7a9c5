//! The part of sysbench's output before the figures: settings and progress lines.

use iodyno_units::Bytes;

/// The settings that are printed.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Preamble {
    pub(super) version: Option<String>,
    /// The output is from iodyno.
    pub(super) ours: bool,
    pub(super) threads: Option<u32>,
    pub(super) rate: Option<f64>,
    pub(super) open_flags: Option<String>,
    pub(super) files: Option<u32>,
    pub(super) file_bytes: Option<u64>,
    pub(super) total_bytes: Option<u64>,
    pub(super) block_bytes: Option<u64>,
    /// The requested number of events; 0: no limit.
    pub(super) requests: Option<u64>,
    /// Reads per write, if reads and writes are mixed.
    pub(super) ratio: Option<f64>,
    /// The number of requests between two fsyncs of all files.
    pub(super) fsync_every: Option<f64>,
    pub(super) fsync_at_end: bool,
    pub(super) fsync_each_write: bool,
    /// The options were printed, so options that are not among them are not in force.
    pub(super) has_fsync: bool,
    pub(super) io_mode: Option<String>,
    /// `rndrw`, `seqwr`.
    pub(super) mode: Option<String>,
    /// The value of an option of the command line, ns.
    pub(super) time_ns: Option<u64>,
    pub(super) progress: Vec<Progress>,
}

/// A progress line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Progress {
    /// Seconds since the start.
    pub(super) at: f64,
    /// MiB read and written per second.
    pub(super) read: f64,
    pub(super) written: f64,
    pub(super) fsyncs: f64,
}

/// Whether a line is the first of a run's output.
pub(super) fn begins(text: &str) -> bool {
    (text.starts_with("sysbench ") && text.contains("(using ")) || is_run_command(text)
}

/// A command line of `run`, not of `prepare`.
pub(crate) fn is_run_command(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let command = is_called(&words, "sysbench") || is_called(&words, "iodyno");
    command && words.contains(&"run") && words.iter().any(|word| word.contains("fileio"))
}

/// The options of a `prepare` command that a result can contradict.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct PrepareOptions {
    pub(crate) threads: Option<u32>,
    pub(crate) mode: Option<String>,
    pub(crate) block_bytes: Option<u64>,
}

/// The options of a line, if it is a `prepare` command of sysbench's fileio test.
pub(crate) fn prepare_options(text: &str) -> Option<PrepareOptions> {
    if !text.contains("sysbench") || !text.contains("prepare") {
        return None;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_fileio = words.iter().any(|word| word.contains("fileio"));
    if !is_called(&words, "sysbench") || !is_fileio || !words.contains(&"prepare") {
        return None;
    }
    let mut options = PrepareOptions::default();
    for (name, value) in options_of(&words) {
        match name {
            "threads" | "num-threads" => options.threads = value.parse().ok(),
            "file-test-mode" => options.mode = Some(value.to_owned()),
            "file-block-size" => options.block_bytes = bytes(value),
            _ => {}
        }
    }
    Some(options)
}

/// `--name=value` of a command line.
fn options_of<'t>(words: &[&'t str]) -> impl Iterator<Item = (&'t str, &'t str)> {
    let words = words.iter().map(|word| word.trim_start_matches('-'));
    words.filter_map(|word| word.split_once('='))
}

fn is_called(words: &[&str], program: &str) -> bool {
    let names = words.iter().filter_map(|word| word.rsplit('/').next());
    names.into_iter().any(|name| name == program)
}

/// Whether a line is part of sysbench's output.
pub(super) fn belongs(text: &str) -> bool {
    const WHOLE: [&str; 4] = [
        "Initializing worker threads...",
        "Threads started!",
        "Running the test with following options:",
        "Latency histogram (values are in milliseconds)",
    ];
    let mut probe = Preamble::default();
    WHOLE.contains(&text) || text.starts_with("Initializing random number") || probe.line(text)
}

/// Whether a line can be within sysbench's output although it is not part of it: blank, a fence, a row of a
/// histogram.
pub(super) fn may_stand_between(text: &str) -> bool {
    text.is_empty()
        || text.starts_with("```")
        || text.contains(" |")
        || text.contains("distribution")
}

/// Whether a line can appear any number of times.
pub(super) fn is_progress(text: &str) -> bool {
    text.starts_with('[') || text.contains(" |")
}

impl Preamble {
    /// Reads the lines before the figures.
    pub(super) fn read<'t>(lines: impl Iterator<Item = (u32, &'t str)>) -> Preamble {
        let mut preamble = Preamble::default();
        for (_, text) in lines {
            preamble.line(text.trim());
        }
        preamble
    }

    /// Takes a line; `false` if it is not a setting.
    fn line(&mut self, text: &str) -> bool {
        self.options(text) || self.sizes(text) || self.modes(text) || self.progress(text)
    }

    fn options(&mut self, text: &str) -> bool {
        if let Some(rest) = text.strip_prefix("sysbench ")
            && let Some((version, _)) = rest.split_once(" (using ")
        {
            self.version = Some(version.to_owned());
        } else if is_run_command(text) {
            self.command(text);
        } else if let Some(rest) = text.strip_prefix("Number of threads:") {
            self.threads = rest.trim().parse().ok();
        } else if let Some(rest) = text.strip_prefix("Target transaction rate:") {
            self.rate = rest.trim().trim_end_matches("/sec").parse().ok();
        } else if let Some(rest) = text.strip_prefix("Extra file open flags:") {
            self.open_flags = Some(rest.trim().to_owned());
        } else if let Some(rest) = text.strip_prefix("Number of IO requests:") {
            self.requests = rest.trim().parse().ok();
            self.has_fsync = true;
        } else if let Some(rest) =
            text.strip_prefix("Read/Write ratio for combined random IO test:")
        {
            self.ratio = rest.trim().parse().ok();
        } else if let Some(rest) = text.strip_prefix("Periodic FSYNC enabled, calling fsync() each")
        {
            self.fsync_every = rest.split_whitespace().next().and_then(|n| n.parse().ok());
            self.has_fsync = true;
        } else if text.starts_with("Calling fsync() at the end of test, Enabled") {
            (self.fsync_at_end, self.has_fsync) = (true, true);
        } else if text.starts_with("Calling fsync() after each write operation") {
            (self.fsync_each_write, self.has_fsync) = (true, true);
        } else {
            return text.starts_with("Report intermediate results every");
        }
        true
    }

    /// Takes the options of the run's command line; settings printed below it have precedence.
    fn command(&mut self, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        self.ours |= is_called(&words, "iodyno");
        for (name, value) in options_of(&words) {
            match name {
                "threads" | "num-threads" => self.threads = value.parse().ok(),
                "time" | "max-time" => {
                    let seconds = value.parse::<u32>().ok().filter(|seconds| *seconds > 0);
                    self.time_ns = seconds.map(|seconds| u64::from(seconds) * 1_000_000_000);
                }
                "file-test-mode" => self.mode = Some(value.to_owned()),
                "file-io-mode" => self.io_mode = Some(value.to_owned()),
                "file-fsync-freq" => {
                    self.fsync_every = value.parse().ok().filter(|every| *every > 0.0);
                    self.has_fsync = true;
                }
                _ => {}
            }
        }
    }

    /// `128 files, 8GiB each`, `1TiB total file size`, `Block size 16KiB`.
    fn sizes(&mut self, text: &str) -> bool {
        if let Some(rest) = text.strip_prefix("Block size ") {
            self.block_bytes = bytes(rest);
            return self.block_bytes.is_some();
        }
        if let Some(size) = text.strip_suffix(" total file size") {
            self.total_bytes = bytes(size);
            return self.total_bytes.is_some();
        }
        let each = text
            .strip_suffix(" each")
            .and_then(|rest| rest.split_once(" files, "));
        match each {
            Some((files, size)) => {
                self.files = files.parse().ok();
                self.file_bytes = bytes(size);
                self.files.is_some()
            }
            None => false,
        }
    }

    fn modes(&mut self, text: &str) -> bool {
        let io_mode = match text {
            "Using synchronous I/O mode" => Some("sync"),
            "Using asynchronous I/O mode" => Some("async"),
            "Using fast mmaped I/O mode" | "Using slow mmaped I/O mode" => Some("mmap"),
            _ => None,
        };
        let mode = match text {
            "Doing sequential write (creation) test" => Some("seqwr"),
            "Doing sequential rewrite test" => Some("seqrewr"),
            "Doing sequential read test" => Some("seqrd"),
            "Doing random read test" => Some("rndrd"),
            "Doing random write test" => Some("rndwr"),
            "Doing random r/w test" => Some("rndrw"),
            _ => None,
        };
        if let Some(io_mode) = io_mode {
            self.io_mode = Some(io_mode.to_owned());
        }
        if let Some(mode) = mode {
            self.mode = Some(mode.to_owned());
        }
        io_mode.is_some() || mode.is_some()
    }

    /// `[ 10s ] reads: 1.5 MiB/s writes: 1.0 MiB/s fsyncs: 3.2/s latency (ms,95%): 0.2`.
    fn progress(&mut self, text: &str) -> bool {
        let Some(progress) = progress(text) else {
            return false;
        };
        self.progress.push(progress);
        true
    }
}

fn progress(text: &str) -> Option<Progress> {
    let (at, rest) = text.strip_prefix('[')?.split_once(']')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let after = |name: &str| {
        let place = words.iter().position(|word| *word == name)?;
        let value = words.get(place + 1)?.trim_end_matches("/s");
        value.parse::<f64>().ok().filter(|value| value.is_finite())
    };
    Some(Progress {
        at: at.trim().strip_suffix('s')?.parse().ok()?,
        read: after("reads:")?,
        written: after("writes:")?,
        fsyncs: after("fsyncs:")?,
    })
}

/// Parses `16KiB`, `8GiB`; sysbench's old `16Kb`, `1024Mb` are powers of 1024 as well.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let text = match text.strip_suffix('b') {
        Some(old) if old.ends_with(['K', 'M', 'G', 'T']) => format!("{old}iB"),
        _ => text.to_owned(),
    };
    text.parse::<Bytes>().ok().map(|bytes| bytes.0)
}
