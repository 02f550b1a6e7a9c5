//! Processes that carry a mark in their environment, so that they are found after the process that started them died.

use std::fs;
use std::time::Duration;

use iodyno_sys::process::STEP_VARIABLE;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::roots::{Roots, names};

/// How often, 1 ms apart, the environment of a process is read that seems to have none.
const REPLACING: u32 = 20;

/// The ids of the running processes whose mark, the value of [`STEP_VARIABLE`], is accepted by `wanted`. Children
/// inherit the mark. Processes of other users are visible to root only.
pub fn marked(roots: &Roots, wanted: &dyn Fn(&str) -> bool) -> Vec<u32> {
    let all = names(&roots.proc).into_iter();
    let processes = all.filter_map(|name| name.parse().ok());
    processes
        .filter(|pid| has_mark(roots, *pid, wanted))
        .collect()
}

/// Sends a signal to a process, if it still has such a mark.
pub fn signal_marked(roots: &Roots, pid: u32, wanted: &dyn Fn(&str) -> bool, signal: Signal) {
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return;
    };
    // The descriptor keeps the process id from being used again between the check and the signal.
    if let Ok(opened) = pidfd_open(raw, PidfdFlags::empty())
        && has_mark(roots, pid, wanted)
    {
        let _ = pidfd_send_signal(opened, signal);
    }
}

/// The environment of an exited process reads as empty, and so, for a moment, does that of a process that calls
/// execve(2), such as `taskset`.
fn has_mark(roots: &Roots, pid: u32, wanted: &dyn Fn(&str) -> bool) -> bool {
    let folder = roots.proc.join(pid.to_string());
    let read = || fs::read(folder.join("environ")).unwrap_or_default();
    let mut environment = read();
    for _ in 0..REPLACING {
        if !environment.is_empty() || folder.join("exe").read_link().is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
        environment = read();
    }
    let mut variables = environment.split(|byte| *byte == 0);
    variables.any(|one| {
        let value = std::str::from_utf8(one).ok();
        let value = value.and_then(|it| it.strip_prefix(STEP_VARIABLE)?.strip_prefix('='));
        value.is_some_and(wanted)
    })
}
