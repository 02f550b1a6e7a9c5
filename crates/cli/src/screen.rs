//! Writes to standard error and standard output.
//!
//! Standard error may have a live line at its end, which is redrawn in place. Each redraw is a single
//! write that ends at the start of the line: there is no flicker, the cursor stays visible, and a kill
//! at any time leaves the terminal usable. Errors of standard error are ignored.

use std::io::{ErrorKind, Write, stderr, stdout};
use std::sync::{Mutex, PoisonError};

use crate::failure::Failure;

/// Standard error with its live line.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    live: Mutex<String>,
}

impl Screen {
    /// Writes lines above the live line.
    pub(crate) fn note(&self, text: &str) {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let text = text.trim_end_matches('\n');
        match live.is_empty() {
            true => write_err(&format!("{text}\n")),
            false => write_err(&format!("\r\x1b[K{text}\n{live}\r")),
        }
    }

    /// Replaces the live line. `text` must fit on one line.
    pub(crate) fn live(&self, text: &str) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if *live != text {
            write_err(&format!("\r{text}\x1b[K\r"));
            text.clone_into(&mut live);
        }
    }

    /// Removes the live line.
    pub(crate) fn clear(&self) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if !live.is_empty() {
            write_err("\r\x1b[K");
            live.clear();
        }
    }
}

/// Writes to standard error; errors are ignored.
pub(crate) fn write_err(text: &str) {
    let mut stderr = stderr().lock();
    let _ = stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush());
}

/// Writes data to standard output. A closed pipe (`iodyno list | head`) is not an error.
pub(crate) fn write_out(data: impl AsRef<[u8]>) -> Result<(), Failure> {
    write_on(data).map(|_| ())
}

/// The same for endless output: `false` once the pipe is closed.
pub(crate) fn write_on(data: impl AsRef<[u8]>) -> Result<bool, Failure> {
    let mut stdout = stdout().lock();
    let written = stdout.write_all(data.as_ref());
    match written.and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::output(&error)),
    }
}
