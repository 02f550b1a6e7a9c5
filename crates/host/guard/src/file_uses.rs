//! Users of a regular file, also those that nothing in /proc and /sys shows.

use std::os::fd::{AsFd, OwnedFd};

use iodyno_host::Roots;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use crate::open::Pinned;
use crate::refusal::{Hold, Reason};
use crate::survey::Survey;

/// How the host uses a file. With `legs`, processes of this program do not count.
pub(crate) fn of(roots: &Roots, survey: &Survey, file: &Pinned, legs: bool) -> Vec<Reason> {
    let path = &file.resolved;
    let identities = survey.identities(file.file, path);
    let mut reasons = without_processes(roots, survey, file);
    reasons.extend(survey.processes_of(roots, &identities, path, legs));
    if reasons.is_empty() {
        reasons.extend(unseen(roots, survey, file, legs));
    }
    reasons
}

/// As [`of`], without processes.
pub(crate) fn without_processes(roots: &Roots, survey: &Survey, file: &Pinned) -> Vec<Reason> {
    let path = &file.resolved;
    let identities = survey.identities(file.file, path);
    let mut reasons = survey.file(&identities, path);
    reasons.extend(survey.elsewhere(roots, file));
    reasons.extend(survey.in_upper(path));
    reasons
}

/// A user that cannot be seen, such as a process of another PID namespace: it has the file open for writing, or locked
/// the file or the node of a device.
pub(crate) fn unseen(roots: &Roots, survey: &Survey, file: &Pinned, legs: bool) -> Option<Reason> {
    let descriptor = file.open(OFlags::RDONLY | OFlags::NONBLOCK).ok()?;
    let written = || {
        let known = survey.has_user(file.file) || !grants_leases(&descriptor);
        !known && iodyno_sys::host::is_open_for_writing(descriptor.as_fd()) == Some(true)
    };
    let (hold, process) = match written() {
        true => (Hold::Open, None),
        false => (Hold::Locked, lock(roots, survey, file, &descriptor, legs)?),
    };
    let name = file.resolved.file_name().unwrap_or_default();
    Some(Reason::OpenedBy {
        device: name.to_string_lossy().into_owned(),
        process,
        command: "not visible here".to_owned(),
        hold,
    })
}

/// The process, if it is known, that locked a file and is not a listed one. A lock of flock(2) is found by an attempt,
/// unless one is listed that may be iodyno's own. A mirror locks its legs itself.
fn lock(
    roots: &Roots,
    survey: &Survey,
    file: &Pinned,
    descriptor: &OwnedFd,
    legs: bool,
) -> Option<Option<u32>> {
    let attempt = || rustix::fs::flock(descriptor, FlockOperation::NonBlockingLockExclusive);
    let process = match iodyno_sys::host::file_lock(descriptor.as_fd()) {
        Ok(Some(process)) => u32::try_from(process).ok().filter(|process| *process > 0),
        _ if legs || survey.is_locked(file.file) => return None,
        _ if attempt() == Err(Errno::WOULDBLOCK) => None,
        _ => return None,
    };
    (!survey.is_own_lock(roots, file, process)).then_some(process)
}

/// Whether a refused lease means that the file is open for writing. NFS and SMB also refuse one if the server did not
/// delegate the file.
fn grants_leases(file: &OwnedFd) -> bool {
    const REMOTE: [u32; 3] = [0x6969, 0xff53_4d42, 0xfe53_4d42];
    rustix::fs::fstatfs(file).is_ok_and(|found| !REMOTE.contains(&(found.f_type as u32)))
}
