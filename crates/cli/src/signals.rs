//! Signals that end a run: the first ends it early, the second aborts it, the third exits at once.

use std::io;
use std::thread;

use iodyno_model::StopRequest;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// Signal handlers, removed when dropped.
#[derive(Debug)]
pub(crate) struct Watch(Handle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Calls `on_request` on a separate thread for each SIGINT, SIGTERM or SIGHUP: with the request to stop for the first two, and
/// with `None`, to exit at once, for each further one.
///
/// A signal that was ignored at the start of the program stays ignored, as under `nohup`.
pub(crate) fn watch(
    mut on_request: impl FnMut(Option<StopRequest>) + Send + 'static,
) -> io::Result<Watch> {
    let ignored = ignored_signals();
    let wanted = [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(|signal| ignored & (1 << (signal - 1)) == 0);
    let mut signals = Signals::new(wanted)?;
    let handle = signals.handle();
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut requests = [StopRequest::Finish, StopRequest::Abort].into_iter();
            for _ in signals.forever() {
                on_request(requests.next());
            }
        })?;
    Ok(Watch(handle))
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
