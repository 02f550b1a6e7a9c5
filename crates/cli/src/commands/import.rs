//! `iodyno import`: takes in an exported run, or what other tools printed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, stdin};
use std::path::{Path, PathBuf};

use iodyno_import::{ColumnMap, LabelPattern, Options, Text, read};
use iodyno_model::{Diagnostic, Plan, RunState};
use iodyno_store::{EXPORT_FORMAT, Store};

use crate::args::ImportArgs;
use crate::commands::run::command_line;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::screen::write_out;
use iodyno_units::counted;

/// Of a file's beginning, so much is looked at to tell an exported run.
const HEAD: usize = 256;

/// Results are text of people and tools; no write-up is larger, and a disk image is.
const LARGEST: u64 = 1 << 30;

/// Reads the files: exported runs one by one, all others together as one run.
pub(crate) fn import(args: &ImportArgs, context: &Context) -> Result<Exit, Failure> {
    let options = options(args)?;
    let mut faults = Vec::new();
    let mut exported = Vec::new();
    let mut others = Vec::new();
    for path in &args.files {
        match open(path) {
            // Opened again when its turn comes: there may be more files than may be open at once.
            Ok(input) if is_export(&input.head) && input.path != Path::new("-") => {
                exported.push(Err(path))
            }
            Ok(input) if is_export(&input.head) => exported.push(Ok(input)),
            Ok(input) => match whole(input) {
                Ok(text) => others.push(text),
                Err(fault) => faults.push(fault),
            },
            Err(error) => faults.extend(Failure::file("read", path, &error).faults),
        }
    }
    if !faults.is_empty() {
        return Err(Failure::input(faults));
    }
    if args.dry_run && !exported.is_empty() {
        return Err(Failure::one(
            Diagnostic::error("`--dry-run` reads others' output, not exported runs")
                .hint("an exported run keeps its id: importing it twice changes nothing"),
        ));
    }
    for input in exported {
        let input = input
            .or_else(|path| open(path).map_err(|error| Failure::file("read", path, &error)))?;
        take_in(input, context)?;
    }
    match others.is_empty() {
        true => Ok(Exit::Fine),
        false => results(&others, &options, args, context),
    }
}

/// A file that is open, and its beginning.
struct Input {
    path: PathBuf,
    head: Vec<u8>,
    rest: Box<dyn BufRead>,
}

fn open(path: &Path) -> io::Result<Input> {
    let mut rest: Box<dyn BufRead> = match path == Path::new("-") {
        true => Box::new(stdin().lock()),
        false => Box::new(BufReader::new(File::open(path)?)),
    };
    let mut head = Vec::new();
    rest.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    Ok(Input {
        path: path.to_path_buf(),
        head,
        rest,
    })
}

fn is_export(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    text.lines()
        .next()
        .is_some_and(|line| line.contains(EXPORT_FORMAT))
}

/// A file's text. Bytes that are no UTF-8 are no reason to lose the rest.
fn whole(mut input: Input) -> Result<(String, String), Diagnostic> {
    let name = match input.path == Path::new("-") {
        true => "standard input".to_owned(),
        false => input.path.display().to_string(),
    };
    let mut bytes = input.head;
    let read = input.rest.by_ref().take(LARGEST).read_to_end(&mut bytes);
    let why = match read {
        Err(error) => crate::failure::reason(&error),
        Ok(_) if bytes.len() as u64 > LARGEST => "larger than 1 GiB: it is no text".to_owned(),
        Ok(_) if bytes.iter().take(8192).any(|byte| *byte == 0) => "it is no text".to_owned(),
        Ok(_) => return Ok((name, String::from_utf8_lossy(&bytes).into_owned())),
    };
    Err(Diagnostic::error(format!("cannot read `{name}`: {why}")))
}

/// An exported run.
fn take_in(input: Input, context: &Context) -> Result<(), Failure> {
    let store = context.store()?;
    let mut file = io::Cursor::new(input.head).chain(input.rest);
    let report = store.import(&mut file)?;
    let alias = report.run.alias;
    context.note(&match report.changed_nothing() {
        true => format!("run {alias} was stored already; nothing changed"),
        false => format!(
            "run {alias}: {} taken in, {} known before",
            counted(report.trials_added, "trial"),
            report.trials_known
        ),
    });
    Ok(())
}

fn options(args: &ImportArgs) -> Result<Options, Failure> {
    let mut faults = Vec::new();
    let mut options = Options::default();
    match args
        .label
        .as_deref()
        .map(str::parse::<LabelPattern>)
        .transpose()
    {
        Ok(label) => options.label = label,
        Err(errors) => faults.extend(errors.0.iter().map(fault)),
    }
    match args
        .table
        .as_deref()
        .map(str::parse::<ColumnMap>)
        .transpose()
    {
        Ok(table) => options.table = table,
        Err(errors) => faults.extend(errors.faults.iter().map(fault)),
    }
    match faults.is_empty() {
        true => Ok(options),
        false => Err(Failure::input(faults)),
    }
}

fn fault(error: &impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(error.to_string())
}

/// Others' output: read, told, and stored as a run of its own.
fn results(
    files: &[(String, String)],
    options: &Options,
    args: &ImportArgs,
    context: &Context,
) -> Result<Exit, Failure> {
    let texts: Vec<Text<'_>> = files
        .iter()
        .map(|(source, text)| Text { source, text })
        .collect();
    if let Some(label) = &options.label {
        let paths: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        label
            .labels(paths)
            .map_err(|errors| Failure::input(errors.0.iter().map(fault).collect()))?;
    }
    let imported = read(&texts, options);
    if imported.trials.is_empty() && imported.tables.is_empty() {
        let mut faults: Vec<Diagnostic> = imported.unread.iter().map(unread).collect();
        faults.push(
            Diagnostic::error(format!(
                "no result was found in {}: nothing was imported",
                names(files)
            ))
            .hint("for a plain table, say what its parts are with `--table MAP`"),
        );
        return Err(Failure::input(faults));
    }
    write_out(match args.json {
        true => context.json(&imported),
        false => iodyno_report::imported::text(&imported, context.style_out()),
    })?;
    if args.dry_run {
        return Ok(Exit::Fine);
    }
    let store = context.store()?;
    let comparable = imported.trials.len() > 1;
    let plan = Plan {
        command: command_line(),
        rounds: 0,
        imported: Some(imported),
        ..Plan::new(
            args.name.clone().unwrap_or_else(|| name_of(files)),
            Vec::new(),
            Vec::new(),
        )
    };
    let now = context.now_unix_ms();
    let handle = store.begin_run(&plan, now)?;
    store.finish_run(handle.id, RunState::Completed, now)?;
    let next = match comparable {
        true => format!("compare {}", handle.alias),
        false => format!("show {}", handle.alias),
    };
    let stored = format!(
        "run {} stored in {}.  Next: iodyno {next}\n",
        handle.alias,
        store.path().display()
    );
    match args.json {
        true => context.note(&stored),
        false => write_out(stored)?,
    }
    Ok(Exit::Fine)
}

fn unread(unread: &iodyno_model::Unread) -> Diagnostic {
    Diagnostic::warning(format!(
        "{} line {}: {}: {}",
        unread.at.source,
        unread.at.line,
        unread.why,
        unread.text.trim()
    ))
}

fn names(files: &[(String, String)]) -> String {
    let names: Vec<String> = files.iter().map(|(name, _)| format!("`{name}`")).collect();
    names.join(", ")
}

/// The first file's name without folders and ending.
fn name_of(files: &[(String, String)]) -> String {
    let first = files.first().map_or("", |(name, _)| name);
    let stem = Path::new(first).file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}
