//! `iodyno node`: the child process that runs one part of a trial.

use std::io::{stdin, stdout};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::ExitCode;

use iodyno_storage::guest::port::{self, NodeExit};
use iodyno_storage::guest::{ANSWER_LIMIT, Machine, ssh};

use crate::args::NodeArgs;
use crate::screen;

/// The exit code if the connection to a guest is lost: that of ssh.
const LOST: u8 = 255;
/// Lines of the console of a guest that was lost.
const CONSOLE_LINES: usize = 3;
/// The exit code for a signal is this plus its number, as in a shell.
const SIGNAL: i32 = 128;

/// Runs the node's side of the runner's protocol on standard input and output, connects these to a node in a guest, or
/// has fio do the I/O.
pub(crate) fn node(args: &NodeArgs) -> ExitCode {
    ExitCode::from(match (&args.guest, &args.fio) {
        (Some(socket), _) => in_guest(socket),
        (None, Some(host)) => iodyno_runner::serve_fio(host, &args.shell),
        (None, None) => iodyno_runner::serve(),
    })
}

fn in_guest(socket: &Path) -> u8 {
    if ssh::is_socket(socket) {
        // Returns only if it cannot be started.
        let error = ssh::node(socket).exec();
        screen::write_err(&format!("cannot start {}: {error}\n", ssh::SSH));
        return LOST;
    }
    match port::relay(socket, ANSWER_LIMIT, stdin(), stdout()) {
        Ok(NodeExit::Code(code)) => code as u8,
        Ok(NodeExit::Signal(signal)) => (SIGNAL + signal) as u8,
        Err(error) => {
            let folder = socket.parent().unwrap_or(socket);
            // The parent keeps the last lines.
            let mut output: Vec<String> = Machine::last_words(folder);
            output.drain(..output.len().saturating_sub(CONSOLE_LINES));
            output.insert(0, error.to_string());
            screen::write_err(&format!("{}\n", output.join("\n")));
            LOST
        }
    }
}
