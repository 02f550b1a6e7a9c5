//! The system call filter, in a separate process for each kind: this program again, with one of its tests.

use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use iodyno_fileserver::seccomp::{Needs, Violation, restrict};

/// Names the kind of a process that restricts itself.
const KIND: &str = "IODYNO_TEST_FILTER";
/// The signal that kills it.
const SIGSYS: i32 = 31;

fn ended(kind: &str) -> ExitStatus {
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", "a_call_that_is_not_allowed_ends_the_process"]);
    test.env(KIND, kind).output().unwrap().status
}

#[test]
fn a_call_that_is_not_allowed_ends_the_process() {
    let violation = match std::env::var(KIND).as_deref() {
        Ok("kill") => Violation::Kill,
        Ok("trap") => Violation::Trap,
        Ok("log") => Violation::Log,
        _ => {
            assert_eq!(ended("kill").signal(), Some(SIGSYS));
            assert_eq!(ended("trap").signal(), Some(SIGSYS));
            assert!(ended("log").success());
            return;
        }
    };
    restrict(violation, Needs::default()).unwrap();
    // Files can be opened, and threads be started.
    File::open("/").unwrap();
    std::thread::spawn(|| File::open("/").unwrap())
        .join()
        .unwrap();
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    assert!(status.lines().any(|line| line == "Seccomp:\t2"));
    // Sockets cannot be made.
    let made = UnixDatagram::unbound();
    assert!(made.is_ok() && violation == Violation::Log);
}
