//! Reads an exported run and checks that it is complete and unchanged.

use std::io::{BufRead, Read};

use iodyno_model::{Frame, RunId, TelemetryBatch, Trial, TrialKey};
use xxhash_rust::xxh3::Xxh3;

use crate::amounts::{Amounts, check_time};
use crate::export::{EXPORT_FORMAT, EXPORT_VERSION, Footer, Header, Line, RunLine, hexadecimal};
use crate::{RunHandle, StoreError};

/// Maximum length of a line, bytes. A trial of 1000 clones with full histograms has 50 MB.
const MAX_LINE_LEN: u64 = 1 << 28;

/// The result of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportReport {
    /// The run, with its number in this store.
    pub run: RunHandle,
    /// Whether the run is new in this store.
    pub new_run: bool,
    /// Number of trials that were added.
    pub trials_added: u64,
    /// Number of trials that were stored already, and stay unchanged.
    pub trials_known: u64,
    /// Number of frames that were added.
    pub frames_added: u64,
}

impl ImportReport {
    /// Whether everything in the file was stored already.
    pub fn changed_nothing(&self) -> bool {
        !self.new_run && self.trials_added == 0
    }
}

/// Receives the content of a file while it is read. The content is valid only after the whole file was read.
pub(crate) trait Sink<E> {
    fn run(&mut self, id: RunId, run: RunLine) -> Result<(), E>;
    fn trial(&mut self, trial: Trial) -> Result<(), E>;
    fn frame(&mut self, frame: Frame) -> Result<(), E>;
    fn telemetry(&mut self, batch: TelemetryBatch) -> Result<(), E>;
}

/// Reads a file to its end. `Ok` means that the file is complete, consistent and unchanged.
pub(crate) fn read_export<E: From<StoreError>>(
    file: &mut dyn BufRead,
    sink: &mut dyn Sink<E>,
) -> Result<(), E> {
    let mut reader = LineReader {
        file,
        hash: Xxh3::new(),
        line: 0,
        text: Vec::new(),
    };
    let header = match reader.next()? {
        Line::Header(header) => header,
        _ => return Err(reader.bad("the file does not begin with a header").into()),
    };
    check_header(&reader, &header)?;
    let Line::Run(run) = reader.next()? else {
        return Err(reader.bad("a line `run` is expected here").into());
    };
    let mut order = Order {
        run: header.run,
        cells: check_plan(&reader, &run)?,
        trial: None,
        next_frame: 0,
        last_batch: None,
    };
    sink.run(header.run, *run)?;
    let mut amounts = Amounts::default();
    let (mut trials, mut frames, mut telemetry) = (0, 0, 0);
    let footer = loop {
        let before = hexadecimal(&reader.hash);
        let line = reader.next()?;
        if let Line::Trial(_) | Line::Frame(_) = line {
            let added = amounts.add(&reader.text, matches!(line, Line::Trial(_)));
            added.map_err(|why| reader.bad(why))?;
        }
        match line {
            Line::Trial(trial) => {
                order.trial(&trial).map_err(|why| reader.bad(why))?;
                sink.trial(*trial)?;
                trials += 1;
            }
            Line::Frame(frame) => {
                order.frame(&frame).map_err(|why| reader.bad(why))?;
                sink.frame(frame)?;
                frames += 1;
            }
            Line::Telemetry(batch) => {
                order.batch(&batch).map_err(|why| reader.bad(why))?;
                sink.telemetry(batch)?;
                telemetry += 1;
            }
            Line::Footer(footer) => {
                break (
                    footer,
                    Footer {
                        trials,
                        frames,
                        telemetry,
                        xxh3: before,
                    },
                );
            }
            Line::Header(_) | Line::Run(_) => {
                return Err(reader.bad("a second header").into());
            }
        }
    };
    if footer.0 != footer.1 {
        return Err(reader
            .bad("the file was changed: its footer does not fit what is before it")
            .into());
    }
    match reader.at_end()? {
        true => Ok(()),
        false => Err(reader.bad("there is more after the footer").into()),
    }
}

fn check_header(reader: &LineReader<'_>, header: &Header) -> Result<(), StoreError> {
    if header.format != EXPORT_FORMAT {
        return Err(reader.bad(format!(
            "the format is `{}`, not `{EXPORT_FORMAT}`",
            header.format
        )));
    }
    if header.version > EXPORT_VERSION {
        return Err(StoreError::NewerExport {
            found: header.version,
            known: EXPORT_VERSION,
        });
    }
    Ok(())
}

/// Checks the plan; returns its number of cells, 0 for an imported run.
fn check_plan(reader: &LineReader<'_>, run: &RunLine) -> Result<u32, StoreError> {
    if run.plan.schema > iodyno_model::SCHEMA {
        let (found, known) = (run.plan.schema, iodyno_model::SCHEMA);
        let message =
            format!("the plan has schema {found}; this iodyno knows schemas up to {known}");
        return Err(reader.bad(message));
    }
    if let Some(excess) = run.plan.excess(run.rounds.unwrap_or(run.plan.rounds)) {
        return Err(reader.bad(format!("the plan has {excess}")));
    }
    let times = [Some(run.started_unix_ms), run.ended_unix_ms];
    let mut times = times.into_iter().flatten();
    times
        .try_for_each(check_time)
        .map_err(|why| reader.bad(why))?;
    match run.plan.cells() {
        0 if run.plan.imported.is_some() => Ok(0),
        0 => Err(reader.bad("the plan has no configuration or no workload")),
        cells => Ok(cells),
    }
}

/// The highest number of a round, an attempt and a target of a trial: a resumed run counts on from them.
const MAX_NUMBER: u32 = 10_000_000;

/// Checks the order of lines.
struct Order {
    run: RunId,
    cells: u32,
    trial: Option<TrialKey>,
    next_frame: u32,
    last_batch: Option<u32>,
}

impl Order {
    fn trial(&mut self, trial: &Trial) -> Result<(), String> {
        let key = trial.key;
        if key.run != self.run {
            return Err(format!("the trial belongs to run {}", key.run));
        }
        if key.cell >= self.cells {
            return Err(format!("the plan has no cell {}", key.cell));
        }
        let made = trial
            .parts
            .iter()
            .filter_map(|part| part.environment.made.as_ref());
        let instance = made.map(|made| made.instance).max().unwrap_or(0);
        for (what, number) in [
            ("round", key.round),
            ("attempt", key.attempt),
            ("target", instance),
        ] {
            if number > MAX_NUMBER {
                return Err(format!("{what} {number} of a trial, at most {MAX_NUMBER}"));
            }
        }
        if self.trial.is_some_and(|before| before >= key) {
            return Err("the trial is out of order".to_owned());
        }
        if !trial.frames.is_empty() {
            return Err("the trial's frames belong on lines of their own".to_owned());
        }
        if !trial.telemetry.is_empty() {
            return Err("the trial's telemetry belongs on lines of its own".to_owned());
        }
        self.trial = Some(key);
        self.next_frame = 0;
        self.last_batch = None;
        Ok(())
    }

    fn frame(&mut self, frame: &Frame) -> Result<(), String> {
        if self.trial.is_none() {
            return Err("a frame before any trial".to_owned());
        }
        if frame.number < self.next_frame {
            return Err(format!("frame {} is out of order", frame.number));
        }
        if frame.end_ns < frame.start_ns {
            return Err(format!("frame {} ends before it begins", frame.number));
        }
        self.next_frame = frame.number.saturating_add(1);
        Ok(())
    }

    fn batch(&mut self, batch: &TelemetryBatch) -> Result<(), String> {
        if self.trial.is_none() {
            return Err("telemetry before any trial".to_owned());
        }
        if self.last_batch.is_some_and(|last| batch.number <= last) {
            return Err(format!(
                "batch {} of telemetry is out of order",
                batch.number
            ));
        }
        self.last_batch = Some(batch.number);
        Ok(())
    }
}

struct LineReader<'a> {
    file: &'a mut dyn BufRead,
    hash: Xxh3,
    line: u64,
    text: Vec<u8>,
}

impl LineReader<'_> {
    fn next(&mut self) -> Result<Line, StoreError> {
        self.line += 1;
        self.text.clear();
        (&mut *self.file)
            .take(MAX_LINE_LEN)
            .read_until(b'\n', &mut self.text)
            .map_err(StoreError::ImportRead)?;
        if self.text.is_empty() {
            return Err(self.bad(match self.line {
                1 => "the file is empty",
                _ => "the file is cut off here: it has no footer",
            }));
        }
        if self.text.len() as u64 >= MAX_LINE_LEN {
            return Err(self.bad("the line is too long for an exported run"));
        }
        self.hash.update(&self.text);
        let cut_off = self.text.last() != Some(&b'\n');
        serde_json::from_slice(&self.text).map_err(|error| {
            self.bad(match (self.line, cut_off) {
                (1, _) => format!("this is not an exported run of iodyno ({error})"),
                (_, true) => "the file is cut off in this line".to_owned(),
                (_, false) => error.to_string(),
            })
        })
    }

    fn at_end(&mut self) -> Result<bool, StoreError> {
        Ok(self
            .file
            .fill_buf()
            .map_err(StoreError::ImportRead)?
            .is_empty())
    }

    fn bad(&self, why: impl Into<String>) -> StoreError {
        StoreError::BadExport {
            line: self.line,
            why: why.into(),
        }
    }
}
