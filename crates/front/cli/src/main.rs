//! The program `iodyno`: flags, progress, exit codes.
//!
//! Only this crate prints or exits. Data go to standard output, everything else to standard error.

mod args;
mod bandwidth_log;
mod begun;
mod capacity;
mod commands;
mod configurations;
mod context;
mod duration;
mod exit;
mod experiment;
mod experiment_file;
mod failed_io;
mod failure;
mod fit;
mod interleaved;
mod logging;
mod measure;
mod nodes;
mod notify;
mod observations;
mod plan_flags;
mod plan_view;
mod progress;
mod rounds;
mod schedule;
mod screen;
mod selection;
mod servers;
mod shell_commands;
mod signals;
mod targets;
mod terminal;
mod trials;
mod vm_nodes;
mod workloads;

use std::process::ExitCode;

use iodyno_report::safe_text;

use crate::args::Command;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::Terminal;

fn main() -> ExitCode {
    if iodyno_storage::guest::init::is_init(std::env::args_os().next().as_deref()) {
        return iodyno_storage::guest::init::run();
    }
    signals::block();
    if let Some(argument) = args::not_utf8() {
        screen::write_err(&format!(
            "error: the argument {argument:?} is not UTF-8\nhint: give the file or folder a name in UTF-8, or use a link to it\n"
        ));
        return Exit::BadInput.into();
    }
    let cli = match args::parse(args::with_command(std::env::args_os())) {
        Ok(cli) => cli,
        Err(mut error) => {
            args::suggest(&mut error);
            // The message repeats the arguments, which may come from a script.
            let mut message = error.to_string();
            let resumes = message.contains("--resume");
            if error.kind() == clap::error::ErrorKind::ArgumentConflict && resumes {
                message +=
                    "\nA resumed run keeps its settings: leave the flag out, or start a new run.\n";
            } else if safe_text(&message, false) == message {
                // The reader may have closed the pipe.
                let _ = error.print();
                return match error.use_stderr() {
                    true => Exit::BadInput.into(),
                    false => ExitCode::SUCCESS,
                };
            }
            screen::write_err(&message);
            return Exit::BadInput.into();
        }
    };
    let process = if matches!(cli.command, Command::Node(_)) {
        "node"
    } else {
        "iodyno"
    };
    let logs = logging::start(cli.verbose, process);
    let mut terminal = Terminal::find(cli.color);
    // A line that is redrawn in place would be interrupted by the log.
    terminal.redraws &= !logs.as_ref().is_ok_and(|logs| *logs);
    screen::allow_colors(&terminal);
    let context = Context::new(terminal, cli.store, cli.verbose);
    if let Err(failure) = logs {
        return report(Err(failure), &context).into();
    }
    let ended = match &cli.command {
        Command::Run(args) => commands::run(args, &context),
        Command::Fio(args) => return commands::fio(args, &context),
        Command::Fs(args) => commands::fs(args, &context),
        Command::Fileio(args) => return commands::fileio(args, &context),
        Command::List(args) => commands::list(args, &context),
        Command::Show(args) => commands::show(args, &context),
        Command::Compare(args) => commands::compare(args, &context),
        Command::Explain(args) => commands::explain(args, &context),
        Command::Name(args) => commands::name(args, &context),
        Command::Delete(args) => commands::delete(args, &context),
        Command::History(args) => commands::history(args, &context),
        #[cfg(feature = "charts")]
        Command::Report(args) => commands::report(args, &context),
        #[cfg(feature = "charts")]
        Command::Plot(args) => commands::plot(args, &context),
        Command::Export(args) => commands::export(args, &context),
        Command::Import(args) => commands::import(args, &context),
        Command::Experiments(args) => commands::experiments(args, &context),
        Command::Check(args) => commands::check(args, &context),
        Command::Doctor(args) => commands::doctor(args, &context),
        Command::Clean(args) => commands::clean(args, &context),
        Command::Mirror(args) => commands::mirror(args, &context),
        Command::Serve(args) => commands::serve(args, &context),
        Command::Watch(args) => commands::watch(args, &context),
        Command::Schema => commands::schema(),
        Command::Man(args) => commands::man(args),
        Command::Completions(args) => commands::completions(args),
        Command::Node(args) => return commands::node(args),
    };
    report(ended, &context).into()
}

/// Prints the errors of a failed command and returns the exit code.
fn report(ended: Result<Exit, Failure>, context: &Context) -> Exit {
    ended.unwrap_or_else(|failure| {
        context.tell(&failure.faults);
        failure.exit
    })
}
