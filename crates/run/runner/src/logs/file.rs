//! A log file that is written line by line.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use iodyno_guard::{append_output, create_output};

use crate::logs::compression::Compressed;

/// The destination of a log's lines, many at a time.
#[derive(Debug)]
enum Sink {
    Plain(File),
    Compressed(Compressed<File>),
}

impl Write for Sink {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Plain(file) => file.write(lines),
            Sink::Compressed(file) => file.write(lines),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A log file that is being written.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    to: BufWriter<Sink>,
    line: Vec<u8>,
    fault: Option<String>,
}

impl LogFile {
    /// Creates a log of this path.
    ///
    /// # Errors
    /// The reason why it cannot be created.
    pub(crate) fn at(path: PathBuf) -> Result<LogFile, String> {
        LogFile::create(path, false, false)
    }

    pub(crate) fn create(path: PathBuf, shared: bool, compressed: bool) -> Result<LogFile, String> {
        let opened = match shared {
            true => append_output(&path),
            false => create_output(&path),
        };
        match opened {
            Ok(file) => {
                let (capacity, sink) = match compressed {
                    false => (1 << 14, Sink::Plain(file)),
                    true => (1 << 17, Sink::Compressed(Compressed(file))),
                };
                Ok(LogFile::new(path, BufWriter::with_capacity(capacity, sink)))
            }
            Err(error) => Err(format!(
                "cannot create the log `{}`: {error}",
                path.display()
            )),
        }
    }

    fn new(path: PathBuf, to: BufWriter<Sink>) -> LogFile {
        LogFile {
            path,
            to,
            line: Vec::new(),
            fault: None,
        }
    }

    /// Appends a line.
    pub(crate) fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.add(|to| to.write_fmt(line));
    }

    /// Appends a line, which `write` formats. Each line is written to the file as a whole, so that clones can share the
    /// file.
    pub(crate) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) {
        if self.fault.is_some() {
            return;
        }
        self.line.clear();
        let written = write(&mut self.line).and_then(|()| self.to.write_all(&self.line));
        self.note(written);
    }

    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.fault.get_or_insert_with(|| {
                format!("the log `{}` is incomplete: {error}", self.path.display())
            });
        }
    }

    /// Flushes it. Returns the reason if it is incomplete.
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

/// Closes these files. Returns the reasons why some are incomplete.
pub(crate) fn close_all(files: impl IntoIterator<Item = LogFile>) -> Option<String> {
    let faults: Vec<String> = files.into_iter().filter_map(LogFile::close).collect();
    (!faults.is_empty()).then(|| faults.join("; "))
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn a_full_disk_is_a_note() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut file = LogFile::new(
            "a.log".into(),
            BufWriter::with_capacity(16, Sink::Plain(full)),
        );
        for _ in 0..100 {
            file.line(format_args!("12345678\n"));
        }
        let fault = file.close().unwrap();
        assert!(
            fault.contains("`a.log` is incomplete: No space left"),
            "{fault}"
        );
    }
}
