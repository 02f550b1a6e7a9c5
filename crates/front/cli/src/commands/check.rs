//! `iodyno check`: finds errors and common mistakes in job files and workloads.

use std::path::Path;

use iodyno_fio::{Parsed, SystemHost, Verdict, parse_files};
use iodyno_model::{Diagnostic, Severity};
use iodyno_report::diagnostic::{self, Checked};

use crate::args::CheckArgs;
use crate::capacity::too_large;
use crate::context::Context;
use crate::exit::Exit;
use crate::experiment_file;
use crate::failure::Failure;
use crate::screen::write_out;
use crate::workloads::{described, is_described};
use iodyno_units::counted;

/// Checks each file separately. The problems are the output of this command and are written to standard output.
pub(crate) fn check(args: &CheckArgs, context: &Context) -> Result<Exit, Failure> {
    let (settings, faults) = experiment_file::parameters(&args.settings);
    if !faults.is_empty() {
        return Err(Failure::input(faults));
    }
    let mut found: Vec<Diagnostic> = Vec::new();
    let mut experiments = 0;
    let mut files: Vec<Checked> = Vec::new();
    let (mut worst, mut jobs) = (Verdict::Runnable, 0);
    let mut refusals = String::new();
    for file in &args.files {
        let experiment = experiment_file::checked(file, &settings);
        experiments += usize::from(experiment.is_some());
        let read = match experiment {
            Some(read) => Some(read.map(|it| {
                let doubts = too_large(&it.nodes, &it.configurations, &it.workloads, &it.places);
                let warnings = it.warnings.into_iter().chain(doubts).collect();
                (it.workloads.len(), warnings)
            })),
            None => is_described(file).then(|| described(file).map(|_| (1, Vec::new()))),
        };
        if let Some(read) = read {
            let verdict = match read {
                Ok((workloads, warnings)) => {
                    jobs += workloads;
                    found.extend(warnings);
                    Verdict::Runnable
                }
                Err(faults) => {
                    found.extend(faults);
                    Verdict::Faulty
                }
            };
            worst = worst.max(verdict);
            files.push(Checked {
                file: file.display().to_string(),
                verdict: verdict.name(),
            });
            continue;
        }
        let parsed = parse_files(std::slice::from_ref(file), &[], &SystemHost);
        let verdict = parsed.verdict();
        worst = worst.max(verdict);
        if verdict == Verdict::Refused {
            refusals += &refusal(file, &parsed);
        }
        files.push(Checked {
            file: file.display().to_string(),
            verdict: verdict.name(),
        });
        jobs += parsed.workload.map_or(0, |workload| workload.jobs.len());
        found.extend(parsed.diagnostics);
    }
    if experiments == 0 && !settings.is_empty() {
        let message = "`--set` has no effect: no file is an experiment";
        found.push(Diagnostic::error(message).hint("leave it out"));
        worst = Verdict::Faulty;
    }
    let text = match args.json {
        true => diagnostic::json(&found, worst.name(), files),
        false => {
            let style = context.style_out();
            diagnostic::text(&found, style) + &diagnostic::lines(&refusals, style)
        }
    };
    write_out(text)?;
    if found.is_empty() && !args.json {
        context.note(&format!(
            "{} in {}: no problems found",
            counted(jobs as u64, "job"),
            counted(args.files.len() as u64, "file")
        ));
    }
    Ok(match worst {
        Verdict::Runnable => Exit::Fine,
        Verdict::Refused => Exit::CheckFailed,
        Verdict::Faulty => Exit::BadInput,
    })
}

/// One line with the reasons why a valid file cannot be run.
fn refusal(file: &Path, parsed: &Parsed) -> String {
    let errors = parsed.diagnostics.iter();
    let errors = errors.filter(|diagnostic| diagnostic.severity == Severity::Error);
    let reasons: Vec<String> = errors
        .map(|diagnostic| match &diagnostic.place {
            Some(place) => format!("{} (line {})", diagnostic.message, place.line),
            None => diagnostic.message.clone(),
        })
        .collect();
    format!(
        "{}: valid, but not supported by iodyno: {}\n",
        file.display(),
        reasons.join("; ")
    )
}
