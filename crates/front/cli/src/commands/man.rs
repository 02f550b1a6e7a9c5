//! `iodyno man`: generates manual pages from the command-line definitions.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use clap_mangen::Man;
use iodyno_guard::{among_devices, open_output};

use crate::args::{Cli, ManArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::screen::{write_err, write_out};
use iodyno_units::counted;

/// Prints the program's page, or writes a page for each command into a folder.
pub(crate) fn man(args: &ManArgs) -> Result<Exit, Failure> {
    let mut program = Cli::command();
    program.build();
    match &args.folder {
        None => write_out(String::from_utf8_lossy(&page(program)))?,
        Some(folder) => {
            let count = write_pages(folder, program)?;
            write_err(&format!(
                "{} written to {}\n",
                counted(count as u64, "page"),
                folder.display()
            ));
        }
    }
    Ok(Exit::Fine)
}

fn write_pages(folder: &Path, program: clap::Command) -> Result<usize, Failure> {
    if among_devices(&folder.join("iodyno.1")) {
        let error = io::Error::other("it is in a folder of device nodes");
        return Err(Failure::file("write pages to", folder, &error));
    }
    fs::create_dir_all(folder).map_err(|error| Failure::file("create", folder, &error))?;
    let mut commands = vec![program];
    let mut next = 0;
    while next < commands.len() {
        let below = subcommands(&commands[next]);
        commands.extend(below);
        next += 1;
    }
    let count = commands.len();
    for command in commands {
        let file = folder.join(format!("{}.1", command.get_name()));
        write_page(&file, &page(command)).map_err(|error| Failure::file("write", &file, &error))?;
    }
    Ok(count)
}

/// Overwrites an earlier page, but not a device, a disk image or the target of another user's symlink.
fn write_page(path: &Path, page: &[u8]) -> io::Result<()> {
    let mut file = open_output(path)?;
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(page)
}

/// The visible subcommands, each with its full name: `iodyno-fs-run`.
fn subcommands(command: &clap::Command) -> Vec<clap::Command> {
    let shown = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help");
    shown
        .map(|below| {
            let name = format!("{}-{}", command.get_name(), below.get_name());
            below.clone().name(name.clone()).display_name(name)
        })
        .collect()
}

fn page(command: clap::Command) -> Vec<u8> {
    let mut page = Vec::new();
    Man::new(command)
        .render(&mut page)
        .expect("writing to memory does not fail");
    page
}
