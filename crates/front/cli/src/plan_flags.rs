//! The parts of plans that all commands add: flags, the folder, the command line, a seed.

use std::path::{Path, PathBuf};

use iodyno_model::{Diagnostic, ExportUri, Plan, RunId, Severity, Workload};

use crate::args::{ExperimentArgs, RunArgs, with_command};
use crate::context::Context;
use crate::failure::Failure;
use crate::observations::{name_fault, usable_name};
use crate::rounds::with_rounds;

/// The paths of `--destroy`.
pub(crate) fn destroyed(args: &RunArgs, folder: &Path) -> Vec<PathBuf> {
    let paths = args.destroy.iter();
    paths.map(|path| destroyed_path(path, folder)).collect()
}

/// A path of `--destroy`, made absolute unless it is the URI of an export, which is normalized.
pub(crate) fn destroyed_path(path: &Path, folder: &Path) -> PathBuf {
    match path.to_str() {
        Some(text) if ExportUri::is_meant(text) => match text.parse::<ExportUri>() {
            Ok(uri) => uri.to_string().into(),
            Err(_) => path.to_owned(),
        },
        _ => folder.join(path),
    }
}

/// Applies the flags that `run` and `fs run` share. Prints warnings; fails if `faults` has an error.
pub(crate) fn finished(
    plan: Plan,
    mut faults: Vec<Diagnostic>,
    args: &ExperimentArgs,
    context: &Context,
) -> Result<Plan, Failure> {
    let name = args.name.as_deref().map(str::trim);
    faults.extend(name.and_then(name_fault));
    if faults.iter().any(|fault| fault.severity == Severity::Error) {
        return Err(Failure::input(faults));
    }
    if !args.quiet {
        faults.retain(|fault| fault.severity != Severity::Note);
        context.tell(&faults);
    }
    let plan = Plan {
        name: name.map_or_else(|| name_of(&plan.workloads), str::to_owned),
        command: command_line(),
        seed: args.seed.unwrap_or_else(fresh_seed),
        sampling: args.sampling.sampling(),
        stuck_after_ns: args.stuck_after.0,
        ..plan
    };
    with_rounds(plan, args).map_err(Failure::input)
}

fn name_of(workloads: &[Workload]) -> String {
    let names: Vec<&str> = workloads
        .iter()
        .map(|workload| workload.name.as_str())
        .collect();
    usable_name(names.join("+"))
}

/// The current folder.
pub(crate) fn working_folder() -> Result<PathBuf, Failure> {
    let folder =
        std::env::current_dir().map_err(|error| Failure::file("find", Path::new("."), &error))?;
    match folder.to_str() {
        Some(_) => Ok(folder),
        None => Err(Failure::one(
            Diagnostic::error(format!(
                "the path of the current folder, {folder:?}, is not UTF-8"
            ))
            .hint("change to a folder whose path is UTF-8"),
        )),
    }
}

/// The command line as given, or the equivalent one of `iodyno`.
pub(crate) fn command_line() -> Vec<String> {
    let arguments = with_command(std::env::args_os())
        .into_iter()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once("iodyno".to_owned())
        .chain(arguments)
        .collect()
}

/// A random seed, short enough to be typed.
pub(crate) fn fresh_seed() -> u64 {
    // The last bits of a UUIDv7 are random.
    u64::from(RunId::fresh().0.as_u128() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_short_and_differ() {
        let seeds: std::collections::BTreeSet<u64> = (0..100).map(|_| fresh_seed()).collect();
        assert!(seeds.len() > 90 && seeds.iter().all(|seed| *seed <= u64::from(u32::MAX)));
    }
}
