//! What the servers of mirrors and of folders have in common: signals, and the errors of sockets.

use std::io;

use iodyno_model::Diagnostic;

use crate::exit::Exit;
use crate::failure::{Failure, reason};
use crate::notify::Manager;
use crate::signals::{self, Caught, Watch};

/// An action that failed.
pub(super) fn cannot(what: &str, error: &io::Error) -> Diagnostic {
    Diagnostic::error(format!("cannot {what}: {}", reason(error)))
}

/// A socket that cannot be bound.
pub(super) fn cannot_listen(name: &str, error: &io::Error) -> Diagnostic {
    let fault = cannot(&format!("listen on `{name}`"), error);
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            fault.hint("another server listens there, or a file has that name: choose another one")
        }
        io::ErrorKind::NotFound => fault.hint("make its folder first"),
        _ => fault,
    }
}

/// The failure of a server that had started.
pub(super) fn failed(fault: Diagnostic) -> Failure {
    Failure {
        exit: Exit::WorkloadFailed,
        faults: vec![fault],
    }
}

/// Stops a server at each request of a signal. If the user insists, calls `abandon` and leaves the process.
pub(super) fn watch(
    manager: &Manager,
    stop: impl Fn() + Send + 'static,
    abandon: impl Fn() + Send + 'static,
) -> Result<Watch, Diagnostic> {
    let manager = manager.clone();
    signals::watch(move |caught| match caught {
        Caught::Stop(_) => {
            manager.stopping();
            stop();
        }
        Caught::Exit => {
            abandon();
            Exit::leave()
        }
        Caught::Status => {}
    })
    .map_err(|error| cannot("watch for signals", &error))
}
