//! How a child process ended.

use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};

/// How a child process ended without sending a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Death {
    /// It was killed by this signal.
    Signal(i32),
    /// It exited with this code.
    Exit(i32),
    /// It could not be killed: it is blocked in the kernel by I/O that does not return.
    Stuck {
        /// Its process id.
        pid: u32,
    },
    /// It sent something that is not a message, and was killed.
    Garbled(String),
    /// It is on another host, and the connection to it was lost; with the cause.
    Lost(String),
}

impl Death {
    pub(crate) fn of(status: ExitStatus) -> Death {
        match status.signal() {
            Some(signal) => Death::Signal(signal),
            None => Death::Exit(status.code().unwrap_or(-1)),
        }
    }
}

/// Signals that end a node, and the most likely cause of each.
const SIGNALS: [(i32, &str, &str); 9] = [
    (
        4,
        "SIGILL",
        "an instruction that this CPU does not support?",
    ),
    (6, "SIGABRT", "aborted; see stderr"),
    (
        7,
        "SIGBUS",
        "a mapped file was cut short, its file system is full, or its device failed?",
    ),
    (9, "SIGKILL", "out of memory, or killed by hand?"),
    (11, "SIGSEGV", "a bug in iodyno: please report it"),
    (15, "SIGTERM", "killed by hand?"),
    (24, "SIGXCPU", "the CPU time limit (ulimit -t)"),
    (25, "SIGXFSZ", "the file size limit (ulimit -f)"),
    (31, "SIGSYS", "a seccomp filter forbids a system call"),
];

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Death::Signal(number) => match SIGNALS.iter().find(|entry| entry.0 == *number) {
                Some((_, name, cause)) => write!(f, "killed by {name} ({cause})"),
                None => write!(f, "killed by signal {number}"),
            },
            Death::Exit(code) => write!(f, "exited with code {code} before it sent a result"),
            Death::Stuck { pid } => write!(
                f,
                "process {pid} is blocked in the kernel by I/O that does not return and cannot be \
                 killed; it still runs"
            ),
            Death::Lost(what) => f.write_str(what),
            Death::Garbled(why) => write!(f, "broke the protocol ({why}) and was killed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_signal_and_its_likely_cause() {
        for (status, words) in [
            (7, "SIGBUS (a mapped file was cut short"),
            (9, "SIGKILL (out of memory"),
            (9 | 0x80, "SIGKILL"),
            (17, "signal 17"),
            (3 << 8, "code 3"),
        ] {
            let text = Death::of(ExitStatus::from_raw(status)).to_string();
            assert!(text.contains(words), "{text}");
        }
    }
}
