//! `iodyno export`: writes a run to a file.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind, Write, stdout};
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use iodyno_guard::{name_output, new_output, unnamed_output};
use iodyno_host::Roots;
use iodyno_model::{Run, RunId, TrialState, Workload};
use iodyno_report::parquet::{self, Block, ParquetError, ParquetFile};
use iodyno_store::{OwnNames, SqliteStore, Store, StoreError};

use crate::args::{ExportArgs, ExportFormat};
use crate::commands::series::each_series;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::observations::observations;
use crate::trials::{Series, load};
use iodyno_units::counted;

/// Writes a run to a new file, or to standard output.
pub(crate) fn export(args: &ExportArgs, context: &Context) -> Result<Exit, Failure> {
    let store = context.store_to_read()?;
    let run = store.find(&args.run)?;
    let own = own_names();
    if let (ExportFormat::Parquet, Some(folder)) = (args.format, &args.output) {
        let named = store.run(run)?;
        if args.names {
            return parquet(&named, folder, &store, context);
        }
        let copy = without_names(&store, run, &own, folder)?;
        let mut run = copy.run(run)?;
        // It keeps the number that it has in the user's store.
        run.summary.alias = named.summary.alias;
        return parquet(&run, folder, &copy, context);
    }
    let write = |store: &dyn Store, run: RunId, out: &mut dyn Write| match args.names {
        true => iodyno_store::export(store, run, out),
        false => iodyno_store::export_without_names(store, run, &own, out),
    };
    let Some(path) = &args.output else {
        let mut out = BufWriter::new(stdout().lock());
        let written = write(&store, run, &mut out);
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
    let report = write_file(path, |file| write(&store, run, file))?;
    context.note(&format!(
        "run {} with {} written to {}",
        args.run,
        counted(report.trials, "trial"),
        path.display()
    ));
    Ok(Exit::Fine)
}

/// The names of this host. The secret is something only its users can know, and constant; without it, pseudonyms differ
/// between files.
fn own_names() -> OwnNames {
    let read = fs::read("/etc/machine-id").ok().filter(|id| id.len() >= 32);
    let host = fs::read_to_string("/proc/sys/kernel/hostname");
    let users = ["USER", "LOGNAME", "SUDO_USER"].map(|name| std::env::var(name).ok());
    let own = rustix::process::geteuid().as_raw();
    let mut known = iodyno_host::users(&Roots::host()).into_iter();
    let user = known.find(|user| user.uid == own).map(|user| user.name);
    let users = users.into_iter().flatten().chain(user);
    OwnNames {
        secret: read.unwrap_or_else(|| RunId::fresh().0.as_bytes().to_vec()),
        hosts: host.iter().map(|host| host.trim().to_owned()).collect(),
        users: users.collect(),
    }
}

/// A store with the content of an export without names. `folder`: that of the tables; next to it, the export is written
/// to an unnamed file.
fn without_names(
    store: &SqliteStore,
    run: RunId,
    own: &OwnNames,
    folder: &Path,
) -> Result<SqliteStore, Failure> {
    let failed = |error: io::Error| Failure::file("create", folder, &error);
    let between = NewFile::beside(folder).map_err(failed)?;
    let mut file = BufWriter::new(&between.file);
    iodyno_store::export_without_names(store, run, own, &mut file)?;
    file.flush().map_err(failed)?;
    let written = format!("/proc/self/fd/{}", between.file.as_raw_fd());
    let mut written = BufReader::new(File::open(written).map_err(failed)?);
    let copy = SqliteStore::temporary()?;
    copy.import(&mut written)?;
    Ok(copy)
}

/// Writes the tables of a run to a new folder, which gets its name once they are complete.
fn parquet(
    run: &Run,
    folder: &Path,
    store: &SqliteStore,
    context: &Context,
) -> Result<Exit, Failure> {
    let create = |error: io::Error| Failure::file("create", folder, &error);
    if fs::symlink_metadata(folder).is_ok() {
        return Err(create(rustix::io::Errno::EXIST.into()));
    }
    let tables = tables(run, folder, store)?;
    fs::DirBuilder::new()
        .mode(0o700)
        .create(folder)
        .map_err(create)?;
    for (name, table) in tables {
        let path = folder.join(name);
        let named = table.name(&path);
        named.map_err(|error| Failure::file("write", &path, &error))?;
    }
    context.note(&format!(
        "{} with {} written to {}",
        run.name(),
        counted(run.trials.len() as u64, "trial"),
        folder.display()
    ));
    Ok(Exit::Fine)
}

/// The tables, with their names in the folder.
fn tables(
    run: &Run,
    folder: &Path,
    store: &SqliteStore,
) -> Result<Vec<(&'static str, NewFile)>, Failure> {
    let failed = |error: ParquetError| {
        let error = io::Error::other(error.to_string());
        Failure::file("write", folder, &error)
    };
    let mut files = Vec::new();
    let mut begin = |name: &'static str, first: Block| {
        let path = folder.with_file_name(name);
        let created = NewFile::beside(&path).and_then(|file| Ok((file.file.try_clone()?, file)));
        let (writer, file) = created.map_err(|error| Failure::file("create", folder, &error))?;
        files.push((name, file));
        ParquetFile::new(writer, first).map_err(failed)
    };
    let observations = observations(store, run)?;
    let ended = (1..).zip(&run.trials);
    let ended = ended.filter(|(_, trial)| trial.state != TrialState::Running);
    let numbers: Vec<u32> = match run.plan.imported {
        Some(_) => (1..).take(observations.len()).collect(),
        None => ended.clone().map(|(number, _)| number).collect(),
    };
    let trials = begin("trials.parquet", parquet::trials(&observations, &numbers))?;
    trials.close().map_err(failed)?;
    // The columns, also of a run without trials.
    let workload = Workload::new("", Vec::new(), Vec::new());
    let mut seconds = begin(
        "seconds.parquet",
        parquet::seconds_of((0, 0, ""), &workload, &[]),
    )?;
    let mut samples = begin("samples.parquet", parquet::no_samples())?;
    for (number, stored) in ended {
        let trial = load(store, stored.key, Series::Whole)?;
        let (configuration, workload) = run.plan.cell(stored.key.cell);
        let place = (number, stored.key.round, configuration.name.as_str());
        let block = parquet::seconds_of(place, workload, &trial.frames);
        seconds.add(block).map_err(failed)?;
        each_series(store, run, (number, stored.key), |series| {
            let mut blocks = parquet::samples(series);
            blocks.try_for_each(|block| samples.add(block).map_err(failed))
        })?;
    }
    seconds.close().map_err(failed)?;
    samples.close().map_err(failed)?;
    Ok(files)
}

/// A new file that only its user can access. It gets its name once complete, so that a killed process leaves no file.
/// On file systems without unnamed files, it has a temporary name.
struct NewFile {
    file: File,
    temporary: Option<PathBuf>,
}

impl NewFile {
    /// In the folder of this path.
    fn beside(path: &Path) -> io::Result<NewFile> {
        if let Some(file) = unnamed_output(path, 0o600)? {
            let temporary = None;
            return Ok(NewFile { file, temporary });
        }
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.unfinished", std::process::id()));
        let temporary = PathBuf::from(name);
        Ok(NewFile {
            file: new_output(&temporary, 0o600)?,
            temporary: Some(temporary),
        })
    }

    /// Syncs the file, names it, unless the name exists by now, and syncs the folder.
    fn name(mut self, path: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        match self.temporary.take() {
            None => name_output(&self.file, path)?,
            Some(temporary) => rename(&temporary, path).inspect_err(|_| {
                let _ = fs::remove_file(&temporary);
            })?,
        }
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Renames a file, unless the name exists by now.
fn rename(unfinished: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(unfinished, path) {
        Ok(()) => fs::remove_file(unfinished),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error),
        // Some file systems do not support hard links.
        Err(_) => fs::rename(unfinished, path),
    }
}

/// Writes a new file, accessible to its user only, which gets its name when it is complete and synced.
pub(super) fn write_file<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<T, StoreError>,
) -> Result<T, Failure> {
    let create = |error: io::Error| Failure::file("create", path, &error);
    if fs::symlink_metadata(path).is_ok() {
        return Err(create(rustix::io::Errno::EXIST.into()));
    }
    let new = NewFile::beside(path).map_err(create)?;
    let mut file = BufWriter::new(new.file.try_clone().map_err(create)?);
    let written = write(&mut file).and_then(|report| {
        let named = file.flush().and_then(|()| new.name(path));
        named.map_err(StoreError::ExportWrite)?;
        Ok(report)
    });
    written.map_err(|error| match error {
        StoreError::ExportWrite(error) => Failure::file("write", path, &error),
        other => other.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_killed_while_it_writes_leaves_no_file() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let names = || fs::read_dir(folder.path()).unwrap().count();
        let path = folder.path().join("run");
        let mut new = NewFile::beside(&path).unwrap();
        if new.temporary.is_some() {
            return;
        }
        new.file.write_all(b"half").unwrap();
        assert_eq!(names(), 0);
        // A killed process does not run drop.
        std::mem::forget(new);
        assert_eq!(names(), 0);
        let mut new = NewFile::beside(&path).unwrap();
        new.file.write_all(b"whole").unwrap();
        new.name(&path).unwrap();
        assert_eq!((names(), fs::read(&path).unwrap()), (1, b"whole".to_vec()));
        // Nothing is overwritten, whenever the name appeared.
        let late = folder.path().join("late");
        let new = NewFile::beside(&late).unwrap();
        fs::write(&late, "other").unwrap();
        assert!(new.name(&late).is_err() && NewFile::beside(&late).is_err());
        assert_eq!(fs::read(&late).unwrap(), b"other");
    }
}
