//! `iodyno check`: every fault and trap of job files.

use iodyno_dialects::fio::{SystemHost, parse_files};
use iodyno_model::{Diagnostic, Severity};

use crate::args::CheckArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, counted};
use crate::screen::write_out;

/// Reads each file on its own; what is found is the data that this command prints.
pub(crate) fn check(args: &CheckArgs, context: &Context) -> Result<Exit, Failure> {
    let mut found: Vec<Diagnostic> = Vec::new();
    let mut jobs = 0;
    for file in &args.files {
        let parsed = parse_files(std::slice::from_ref(file), &[], &SystemHost);
        jobs += parsed.workload.map_or(0, |workload| workload.jobs.len());
        found.extend(parsed.diagnostics);
    }
    let text = match args.json {
        true => iodyno_report::diagnostic::json(&found),
        false => iodyno_report::diagnostic::text(&found, context.style_out()),
    };
    write_out(text)?;
    let errors = found
        .iter()
        .filter(|fault| fault.severity == Severity::Error)
        .count();
    if found.is_empty() && !args.json {
        context.note(&format!(
            "{} in {}: nothing to object to",
            counted(jobs, "job"),
            counted(args.files.len(), "file")
        ));
    }
    Ok(if errors > 0 {
        Exit::BadInput
    } else {
        Exit::Fine
    })
}
