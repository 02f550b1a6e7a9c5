//! `iodyno export`: writes a run to a file.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};

use iodyno_store::{Store, StoreError};
use iodyno_target::new_output;

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
            Err(StoreError::ExportWrite(error)) if error.kind() == ErrorKind::BrokenPipe => {
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

/// Writes a new file, accessible to its user only, under a temporary name in the same folder, and renames it when it is
/// complete and synced.
pub(super) fn write_file<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<T, StoreError>,
) -> Result<T, Failure> {
    let create = |error: io::Error| Failure::file("create", path, &error);
    if fs::symlink_metadata(path).is_ok() {
        return Err(create(rustix::io::Errno::EXIST.into()));
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.unfinished", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    let file = new_output(&unfinished, 0o600).map_err(create)?;
    let mut file = BufWriter::new(file);
    let written = write(&mut file).and_then(|report| {
        file.flush()
            .and_then(|()| file.get_ref().sync_all())
            .and_then(|()| name(&unfinished, path))
            .map_err(StoreError::ExportWrite)?;
        Ok(report)
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&unfinished);
        match error {
            StoreError::ExportWrite(error) => Failure::file("write", path, &error),
            other => other.into(),
        }
    })
}

/// Renames a file, unless the name exists by now, and syncs the folder.
fn name(unfinished: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(unfinished, path) {
        Ok(()) => fs::remove_file(unfinished)?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
        // Not every file system has hard links.
        Err(_) => fs::rename(unfinished, path)?,
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
