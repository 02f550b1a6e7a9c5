//! `iodyno completions`: generates shell completions from the command-line definitions.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::screen::write_out;

/// Prints the completion script of a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "iodyno", &mut script);
    write_out(String::from_utf8_lossy(&script))?;
    Ok(Exit::Fine)
}
