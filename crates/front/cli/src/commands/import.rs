//! `iodyno import`: imports exported runs and the output of other tools.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, stdin};
use std::path::{Path, PathBuf};

use iodyno_import::{ColumnMap, LabelPattern, Options, Text, read};
use iodyno_model::{Diagnostic, Plan, RunState};
use iodyno_store::{EXPORT_FORMAT, Store};

use crate::args::ImportArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::observations::{name_fault, usable_name};
use crate::plan_flags::command_line;
use crate::screen::write_out;
use iodyno_units::counted;

/// Number of bytes at the start of a file that are searched for the header of an exported run.
const HEAD: usize = 256;

/// Larger files of other tools are refused, bytes: they are read into memory completely, and their results take several
/// times their size. Exported runs are read line by line and may have any size.
const LARGEST: u64 = 256 << 20;

/// Imports the files: each exported run separately, all others together as one run.
pub(crate) fn import(args: &ImportArgs, context: &Context) -> Result<Exit, Failure> {
    let options = options(args)?;
    let mut faults = Vec::new();
    let mut exported = Vec::new();
    let mut others = Vec::new();
    for path in &args.files {
        match open(path) {
            // Opened again later, because the number of files may exceed the limit of open files.
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
            Diagnostic::error("`--dry-run` does not support exported runs").hint(
                "leave it out: an exported run keeps its id, and importing it twice has no effect",
            ),
        ));
    }
    for input in exported {
        let input = input
            .or_else(|path| open(path).map_err(|error| Failure::file("read", path, &error)))?;
        import_run(input, context)?;
    }
    match others.is_empty() {
        true => Ok(Exit::Fine),
        false => results(others, &options, args, context),
    }
}

/// An open file and its first bytes.
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

/// Reads a text file; invalid UTF-8 is replaced.
fn whole(mut input: Input) -> Result<(String, String), Diagnostic> {
    let name = match input.path == Path::new("-") {
        true => "standard input".to_owned(),
        false => input.path.display().to_string(),
    };
    let mut bytes = input.head;
    let cannot = |why: &str| Diagnostic::error(format!("cannot read `{name}`: {why}"));
    // The first blocks are read separately, so that a file that is not text, such as `/dev/zero`, is refused early.
    for until in [8192, LARGEST + 1] {
        let more = until.saturating_sub(bytes.len() as u64);
        let read = input.rest.by_ref().take(more).read_to_end(&mut bytes);
        read.map_err(|error| cannot(&crate::failure::reason(&error)))?;
        if bytes.iter().take(8192).any(|byte| *byte == 0) {
            return Err(cannot("it is not a text file"));
        }
    }
    if bytes.len() as u64 > LARGEST {
        return Err(cannot("it is larger than 256 MiB")
            .hint("import its parts one by one; exported runs of iodyno can have any size"));
    }
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    Ok((name, text))
}

/// Imports an exported run.
fn import_run(input: Input, context: &Context) -> Result<(), Failure> {
    let store = context.store()?;
    let mut file = io::Cursor::new(input.head).chain(input.rest);
    let report = store.import(&mut file)?;
    let alias = report.run.alias;
    let name = store.run(report.run.id)?.plan.name;
    let usable = usable_name(name.clone());
    if usable != name {
        store.rename_run(report.run.id, &usable)?;
        let fault = name_fault(&name).map_or(String::new(), |fault| fault.message);
        context.note(&format!("{fault}; run {alias} is named `{usable}`"));
    }
    context.note(&match report.changed_nothing() {
        true => format!("run {alias} is already stored; nothing changed"),
        false => format!(
            "run {alias}: {} imported, {} already stored",
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

/// Imports the output of other tools as a new run.
fn results(
    files: Vec<(String, String)>,
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
    // The texts are no longer needed, and storing the results needs memory as well.
    let files: Vec<String> = files.into_iter().map(|(name, _)| name).collect();
    if imported.trials.is_empty() && imported.tables.is_empty() && imported.claims.is_empty() {
        let mut faults: Vec<Diagnostic> = imported.unread.iter().map(unread).collect();
        faults.push(
            Diagnostic::error(format!(
                "no result was found in {}: nothing was imported",
                names(&files)
            ))
            .hint("for a plain table, describe its columns and headings with `--table MAP`"),
        );
        return Err(Failure::input(faults));
    }
    write_out(match args.json {
        true => context.json(&imported),
        false => {
            let mut text = iodyno_report::imported::text(&imported, context.style_out());
            if imported.trials.is_empty() {
                let checks = iodyno_judge::check_claims(&imported.claims, &[]);
                text += &iodyno_report::compare::claims_text(&checks, context.style_out());
            }
            text
        }
    })?;
    if args.dry_run {
        return Ok(Exit::Fine);
    }
    if let Some(fault) = args.name.as_deref().and_then(name_fault) {
        return Err(Failure::one(fault));
    }
    let comparable = imported.trials.len() > 1;
    let plan = Plan {
        command: command_line(),
        rounds: 0,
        imported: Some(imported),
        ..Plan::new(
            args.name.clone().unwrap_or_else(|| name_of(&files)),
            Vec::new(),
            Vec::new(),
        )
    };
    if let Some(excess) = plan.excess(plan.rounds) {
        let fault = Diagnostic::error(format!("the results have {excess}: nothing was imported"));
        return Err(Failure::one(
            fault.hint("leave out columns that number or describe each row"),
        ));
    }
    let store = context.store()?;
    let now = context.now_unix_ms();
    let handle = store.begin_run(&plan, now)?;
    store.finish_run(handle.id, RunState::Completed, now)?;
    let next = match comparable {
        true => format!("compare {}", handle.alias),
        false => format!("show {}", handle.alias),
    };
    let place = store.path().unwrap_or(Path::new("memory")).display();
    let stored = format!(
        "run {} stored in {place}.  Next: iodyno {next}\n",
        handle.alias
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

fn names(files: &[String]) -> String {
    let names: Vec<String> = files.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// The first file's name without folders and extension.
fn name_of(files: &[String]) -> String {
    let first = files.first().map_or("", String::as_str);
    let stem = Path::new(first).file_stem().unwrap_or_default();
    usable_name(stem.to_string_lossy().into_owned())
}
