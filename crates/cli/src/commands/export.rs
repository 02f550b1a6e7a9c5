//! `iodyno export`: writes a run to a file.

use std::fs::{self, File};
use std::io::{BufWriter, Write, stdout};
use std::path::Path;

use iodyno_store::{Store, StoreError};

use crate::args::ExportArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use iodyno_units::counted;

/// Writes a run to a new file, or to standard output.
pub(crate) fn export(args: &ExportArgs, context: &Context) -> Result<Exit, Failure> {
    let store = context.store_to_read()?;
    let run = store.find(&args.run)?;
    let Some(path) = &args.output else {
        let mut out = BufWriter::new(stdout().lock());
        let written = iodyno_store::export(&store, run, &mut out);
        return match written.and_then(|_| out.flush().map_err(StoreError::ExportWrite)) {
            // A reader that closes the pipe early is not an error.
            Err(StoreError::ExportWrite(error))
                if error.kind() == std::io::ErrorKind::BrokenPipe =>
            {
                Ok(Exit::Fine)
            }
            Err(StoreError::ExportWrite(error)) => Err(Failure::output(&error)),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(Exit::Fine),
        };
    };
    let report = write_file(path, |file| iodyno_store::export(&store, run, file))?;
    context.note(&format!(
        "run {} with {} written to {}",
        args.run,
        counted(report.trials, "trial"),
        path.display()
    ));
    Ok(Exit::Fine)
}

/// Writes a new file, and removes it if that fails.
fn write_file<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<T, StoreError>,
) -> Result<T, Failure> {
    let file = File::create_new(path).map_err(|error| Failure::file("create", path, &error))?;
    let mut file = BufWriter::new(file);
    let written = write(&mut file).and_then(|report| {
        file.flush()
            .and_then(|()| file.get_ref().sync_all())
            .map_err(StoreError::ExportWrite)?;
        Ok(report)
    });
    written.map_err(|error| {
        let _ = fs::remove_file(path);
        match error {
            StoreError::ExportWrite(error) => Failure::file("write", path, &error),
            other => other.into(),
        }
    })
}
