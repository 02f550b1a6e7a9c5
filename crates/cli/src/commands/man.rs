//! `iodyno man`: manual pages from the command line's own definitions.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use clap_mangen::Man;

use crate::args::{Cli, ManArgs};
use crate::exit::Exit;
use crate::failure::{Failure, counted};
use crate::screen::{write_err, write_out};

/// Prints the program's page, or writes a page for each command into a folder.
pub(crate) fn man(args: &ManArgs) -> Result<Exit, Failure> {
    let mut program = Cli::command();
    program.build();
    match &args.folder {
        None => write_out(page(program))?,
        Some(folder) => {
            let count = write_pages(folder, program)?;
            write_err(&format!(
                "{} written to {}\n",
                counted(count, "page"),
                folder.display()
            ));
        }
    }
    Ok(Exit::Fine)
}

fn write_pages(folder: &Path, program: clap::Command) -> Result<usize, Failure> {
    fs::create_dir_all(folder).map_err(|error| Failure::file("make", folder, &error))?;
    let commands: Vec<clap::Command> = program
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
        .map(|command| {
            let name = format!("iodyno-{}", command.get_name());
            command.clone().name(name.clone()).display_name(name)
        })
        .chain([program.clone()])
        .collect();
    let count = commands.len();
    for command in commands {
        let file = folder.join(format!("{}.1", command.get_name()));
        fs::write(&file, page(command)).map_err(|error| Failure::file("write", &file, &error))?;
    }
    Ok(count)
}

fn page(command: clap::Command) -> Vec<u8> {
    let mut page = Vec::new();
    Man::new(command)
        .render(&mut page)
        .expect("memory takes every write");
    page
}
