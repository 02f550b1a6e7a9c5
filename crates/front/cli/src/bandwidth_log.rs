//! fio's `--bandwidth-log`: the bandwidth of all jobs together, `PREFIX-read_bw.log` and its siblings for writes and
//! trims.
//!
//! A line is `time (ms), bandwidth (KiB/s), direction, 0, 0`. Each frame of the measurement has one per direction, even
//! for idle directions, as in fio.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use iodyno_guard::create_output;
use iodyno_model::{Diagnostic, Direction, Frame, Step};

use crate::exit::Exit;
use crate::failure::{Failure, reason};

const DIRECTIONS: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Trim];

/// The three log files.
#[derive(Debug)]
pub(crate) struct BandwidthLog {
    files: [(PathBuf, BufWriter<File>); 3],
}

impl BandwidthLog {
    /// Creates the files of this prefix.
    pub(crate) fn create(prefix: &Path) -> Result<BandwidthLog, Failure> {
        let create = |direction: Direction| {
            let mut path = prefix.as_os_str().to_owned();
            path.push(format!("-{}_bw.log", direction.name()));
            let path = PathBuf::from(path);
            match create_output(&path) {
                Ok(file) => Ok((path, BufWriter::new(file))),
                Err(error) => Err(failed("cannot create", &path, &error)),
            }
        };
        let [read, write, trim] = DIRECTIONS.map(create);
        Ok(BandwidthLog {
            files: [read?, write?, trim?],
        })
    }

    /// Adds the bytes of a frame.
    pub(crate) fn add(&mut self, frame: &Frame) -> Result<(), Failure> {
        if frame.step != Step::Measure || frame.span_ns() == 0 {
            return Ok(());
        }
        let time_ms = frame.end_ns / 1_000_000;
        for (direction, (path, file)) in DIRECTIONS.into_iter().zip(&mut self.files) {
            let per_s =
                u128::from(frame.bytes(direction)) * 1_000_000_000 / u128::from(frame.span_ns());
            writeln!(
                file,
                "{time_ms}, {}, {}, 0, 0",
                per_s / 1024,
                direction as u8
            )
            .map_err(|error| failed("cannot write", path, &error))?;
        }
        Ok(())
    }

    /// Writes the rest.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        for (path, file) in &mut self.files {
            file.flush()
                .map_err(|error| failed("cannot write", path, &error))?;
        }
        Ok(())
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Failure {
    let fault = format!("{what} the log `{}`: {}", path.display(), reason(error));
    Failure {
        exit: Exit::CheckFailed,
        faults: vec![Diagnostic::error(fault)],
    }
}
