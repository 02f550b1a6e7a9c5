//! Signals. Of the signals that end a run, the first ends it early, the second aborts it, and the third exits
//! immediately. SIGUSR1 prints the state of a run, as with fio.

use std::io;
use std::thread;

use iodyno_model::StopRequest;
use nix::sys::signal::{SigSet, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::{Handle, Signals};

/// Signal handlers, removed when dropped.
#[derive(Debug)]
pub(crate) struct Watch(Handle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The meaning of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caught {
    /// The first and the second SIGINT, SIGTERM or SIGHUP: stop.
    Stop(StopRequest),
    /// Each further one: exit immediately.
    Exit,
    /// SIGUSR1: print the state.
    Status,
}

/// Blocks SIGUSR1 in this thread, its later threads and its child processes, so that it neither ends a process nor
/// interrupts a call; [`watch`] receives it. Also blocks SIGXFSZ: a write beyond the file size limit (`ulimit -f`) then
/// fails with an error that is reported. Call this before any thread starts.
pub(crate) fn block() {
    let mut set = status();
    set.add(Signal::SIGXFSZ);
    // It fails only for an invalid signal.
    let _ = set.thread_block();
}

fn status() -> SigSet {
    let mut set = SigSet::empty();
    set.add(Signal::SIGUSR1);
    set
}

/// Calls `on_signal` on a separate thread for each SIGINT, SIGTERM, SIGHUP or SIGUSR1.
///
/// A SIGHUP that was ignored at the start of the program remains ignored, as with `nohup`. The others are caught even
/// then, as in fio: a shell that runs a script starts its background jobs with SIGINT ignored.
pub(crate) fn watch(mut on_signal: impl FnMut(Caught) + Send + 'static) -> io::Result<Watch> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1])?;
    if ignored_signals() & (1 << (SIGHUP - 1)) == 0 {
        signals.add_signal(SIGHUP)?;
    }
    let handle = signals.handle();
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let _ = status().thread_unblock();
            let mut requests = [StopRequest::Finish, StopRequest::Abort].into_iter();
            for signal in signals.forever() {
                on_signal(match signal {
                    SIGUSR1 => Caught::Status,
                    _ => requests.next().map_or(Caught::Exit, Caught::Stop),
                });
            }
        })?;
    Ok(Watch(handle))
}

/// The signal of a system call that a filter forbids.
#[cfg(feature = "fileserver")]
pub(crate) const FILTERED: i32 = signal_hook::consts::SIGSYS;

/// The name of a signal.
#[cfg(feature = "fileserver")]
pub(crate) fn name(signal: i32) -> String {
    Signal::try_from(signal).map_or(format!("signal {signal}"), |known| known.to_string())
}

/// The mask of ignored signals; empty if /proc is not mounted.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_in(&status)
}

fn ignored_in(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_mask_of_ignored_signals() {
        for (status, mask) in [
            (
                "Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n",
                0x1001,
            ),
            ("Name:\tx\n", 0),
            ("SigIgn:\tgarbage\n", 0),
        ] {
            assert_eq!(ignored_in(status), mask);
        }
    }
}
