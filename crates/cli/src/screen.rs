//! Standard error and standard output, the only places where the program writes.
//!
//! Standard error may carry one live line at its end, redrawn in place. Each redraw is a single
//! write that returns to the line's start, so that nothing flickers, the cursor is never hidden,
//! and a kill at any instant leaves the terminal usable. Nobody reading is never an error there.

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

/// Writes to standard error; there is nobody to tell if that fails.
pub(crate) fn write_err(text: &str) {
    let mut stderr = stderr().lock();
    let _ = stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush());
}

/// Writes data to standard output. A reader that has gone (`iodyno list | head`) has had enough:
/// that is no error.
pub(crate) fn write_out(data: impl AsRef<[u8]>) -> Result<(), Failure> {
    write_on(data).map(|_| ())
}

/// The same, for what has no end of its own: `false` once nobody reads any more.
pub(crate) fn write_on(data: impl AsRef<[u8]>) -> Result<bool, Failure> {
    let mut stdout = stdout().lock();
    let written = stdout.write_all(data.as_ref());
    match written.and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::output(&error)),
    }
}
