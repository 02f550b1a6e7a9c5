//! Writes to standard error and standard output.
//!
//! Standard error may have a live line at its end, which is redrawn in place. Each redraw is a single write that ends
//! at the start of the line: the line does not flicker, the cursor remains visible, and the terminal remains usable if
//! the program is killed. Errors of standard error are ignored.

use std::io::{ErrorKind, Write, stderr, stdout};
use std::sync::{Mutex, OnceLock, PoisonError};

use iodyno_report::safe_text;

use crate::failure::Failure;
use crate::terminal::Terminal;

/// Whether standard output and standard error show colours.
static COLORS: OnceLock<(bool, bool)> = OnceLock::new();

/// Permits the colours of reports on streams that show them. Before this call, colours are removed.
pub(crate) fn allow_colors(terminal: &Terminal) {
    let _ = COLORS.set((terminal.colour_out, terminal.colour_err));
}

fn colors() -> (bool, bool) {
    COLORS.get().copied().unwrap_or_default()
}

/// Standard error with its live line.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    live: Mutex<String>,
    /// The current step, if it is not a measurement; empty while ops are measured.
    step: Mutex<String>,
}

impl Screen {
    /// Writes lines above the live line.
    pub(crate) fn note(&self, text: &str) {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let text = safe_text(text.trim_end_matches('\n'), colors().1);
        match live.is_empty() {
            true => write_raw(&format!("{text}\n")),
            false => write_raw(&format!("\r\x1b[K{text}\n{live}\r")),
        }
    }

    /// Sets the current step for [`Screen::note_step`]; empty: a measurement.
    pub(crate) fn set_step(&self, text: String) {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    /// Writes the current step. Returns `false` during a measurement.
    pub(crate) fn note_step(&self) -> bool {
        let step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        if !step.is_empty() {
            self.note(&step);
        }
        !step.is_empty()
    }

    /// Replaces the live line. `text` must fit on one line.
    pub(crate) fn live(&self, text: &str) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let text = safe_text(text, colors().1);
        if *live != text {
            write_raw(&format!("\r{text}\x1b[K\r"));
            *live = text.into_owned();
        }
    }

    /// Removes the live line.
    pub(crate) fn clear(&self) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if !live.is_empty() {
            write_raw("\r\x1b[K");
            live.clear();
        }
    }
}

/// Writes to standard error; errors are ignored.
pub(crate) fn write_err(text: &str) {
    write_raw(&safe_text(text, colors().1));
}

fn write_raw(text: &str) {
    let mut stderr = stderr().lock();
    let _ = stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush());
}

/// Writes text to standard output, without characters that steer a terminal; JSON already escapes them. A closed pipe
/// (`iodyno list | head`) is not an error.
pub(crate) fn write_out(text: impl AsRef<str>) -> Result<(), Failure> {
    write_on(text).map(|_| ())
}

/// The same for endless output: `false` once the pipe is closed.
pub(crate) fn write_on(text: impl AsRef<str>) -> Result<bool, Failure> {
    let text = safe_text(text.as_ref(), colors().0);
    let mut stdout = stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    match written.and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::output(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_is_known_until_a_measurement_begins() {
        let screen = Screen::default();
        assert!(!screen.note_step());
        screen.set_step("laying out 11 MiB of 1 GiB".to_owned());
        assert!(screen.note_step() && screen.note_step());
        screen.set_step(String::new());
        assert!(!screen.note_step());
    }
}
