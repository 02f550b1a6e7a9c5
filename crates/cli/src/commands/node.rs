//! `iodyno node`: the child process that runs one part of a trial.

use std::io::{stdin, stdout};
use std::path::Path;
use std::process::ExitCode;

use iodyno_guest::BOOT_LIMIT;
use iodyno_guest::port::{self, NodeExit};

use crate::args::NodeArgs;
use crate::screen;

/// The exit code if the connection to a guest is lost: that of ssh.
const LOST: u8 = 255;
/// The exit code for a signal is its number and this, as in a shell.
const SIGNAL: i32 = 128;

/// Runs the node's side of the runner's protocol on standard input and output, or connects these to a node in a guest.
pub(crate) fn node(args: &NodeArgs) -> ExitCode {
    ExitCode::from(match &args.guest {
        None => iodyno_runner::serve(),
        Some(socket) => in_guest(socket),
    })
}

fn in_guest(socket: &Path) -> u8 {
    match port::relay(socket, BOOT_LIMIT, stdin(), stdout()) {
        Ok(NodeExit::Code(code)) => code as u8,
        Ok(NodeExit::Signal(signal)) => (SIGNAL + signal) as u8,
        Err(error) => {
            screen::write_err(&format!("{error}\n"));
            LOST
        }
    }
}
