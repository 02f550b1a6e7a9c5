//! `iodyno import`: takes an exported run into the store.

use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::path::Path;

use crate::args::ImportArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, counted};

/// Reads a file, or standard input.
pub(crate) fn import(args: &ImportArgs, context: &Context) -> Result<Exit, Failure> {
    let mut input: Box<dyn BufRead> = match args.file == Path::new("-") {
        true => Box::new(stdin().lock()),
        false => {
            let file = File::open(&args.file)
                .map_err(|error| Failure::file("read", &args.file, &error))?;
            Box::new(BufReader::new(file))
        }
    };
    let store = context.store()?;
    let report = store.import(&mut input)?;
    let alias = report.run.alias;
    context.note(&match report.changed_nothing() {
        true => format!("run {alias} was stored already; nothing changed"),
        false => format!(
            "run {alias}: {} taken in, {} known before",
            counted(report.trials_added as usize, "trial"),
            report.trials_known
        ),
    });
    Ok(Exit::Fine)
}
