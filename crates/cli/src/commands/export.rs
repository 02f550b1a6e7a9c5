//! `iodyno export`: writes a run to a file.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write, stdout};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use iodyno_model::{TrialState, Workload};
use iodyno_report::parquet::{self, Block, ParquetError, ParquetFile};
use iodyno_store::{Run, SqliteStore, Store, StoreError};
use iodyno_target::new_output;

use crate::args::{ExportArgs, ExportFormat};
use crate::commands::series::each_series;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::observations::{observations, run_name};
use crate::trials::{Series, load};
use iodyno_units::counted;

/// Writes a run to a new file, or to standard output.
pub(crate) fn export(args: &ExportArgs, context: &Context) -> Result<Exit, Failure> {
    let store = context.store_to_read()?;
    let run = store.find(&args.run)?;
    if let (ExportFormat::Parquet, Some(folder)) = (args.format, &args.output) {
        return parquet(&store.run(run)?, folder, &store, context);
    }
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

/// Writes the tables of a run to a new folder, under a temporary name until they are complete.
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
    let mut unfinished = folder.as_os_str().to_owned();
    unfinished.push(format!(".{}.unfinished", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&unfinished)
        .map_err(create)?;
    let written = tables(run, &unfinished, store).and_then(|()| {
        // An empty folder of this name, made meanwhile, would be replaced: its owner loses nothing.
        let named = fs::rename(&unfinished, folder);
        named.map_err(|error| Failure::file("write", folder, &error))
    });
    if let Err(failure) = written {
        let _ = fs::remove_dir_all(&unfinished);
        return Err(failure);
    }
    context.note(&format!(
        "{} with {} written to {}",
        run_name(run),
        counted(run.trials.len() as u64, "trial"),
        folder.display()
    ));
    Ok(Exit::Fine)
}

fn tables(run: &Run, folder: &Path, store: &SqliteStore) -> Result<(), Failure> {
    let failed = |error: ParquetError| {
        let error = io::Error::other(error.to_string());
        Failure::file("write", folder, &error)
    };
    let begin = |name: &str, first: Block| {
        let path = folder.join(name);
        let file = new_output(&path, 0o600);
        let file = file.map_err(|error| Failure::file("create", &path, &error))?;
        ParquetFile::new(file, first).map_err(failed)
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
    samples.close().map_err(failed)
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
