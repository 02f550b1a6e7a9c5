//! Reads workloads: job files, and file-operation workloads by name or from TOML.

use std::path::Path;

use iodyno_fileops::{self as operations, Described, Overrides};
use iodyno_fio::{Host, SystemHost, parse_files};
use iodyno_model::{Diagnostic, Workload};
use iodyno_units::Nanos;

use crate::args::{Counted, Sized, size};
use crate::failure::reason;

/// Reads a workload of `run` with its options overridden by `settings`. There is no workload if one of the
/// diagnostics is an error.
pub(crate) fn read(
    file: &Path,
    settings: &[(String, String)],
) -> (Option<Workload>, Vec<Diagnostic>) {
    if is_described(file) {
        let found = described(file).and_then(|described| {
            let overrides = overrides(settings, file)?;
            described.with(&overrides)
        });
        return match found {
            Ok(described) => (Some(described.workload()), Vec::new()),
            Err(faults) => (None, faults),
        };
    }
    let parsed = parse_files(&[file.to_owned()], settings, &SystemHost);
    (parsed.workload, parsed.diagnostics)
}

/// Reads a file-operation workload from a TOML file, or by its name.
pub(crate) fn described(file: &Path) -> Result<Described, Vec<Diagnostic>> {
    let shown = file.display().to_string();
    if is_toml(file) {
        return match SystemHost.read(file) {
            Ok(text) => operations::read(&shown, &text),
            Err(error) => {
                let message = format!("cannot read `{shown}`: {}", reason(&error));
                Err(vec![Diagnostic::error(message)])
            }
        };
    }
    operations::named(&shown).ok_or_else(|| {
        let hint = match operations::suggest(&shown) {
            Some(near) => format!("did you mean `{near}`? `iodyno fs list` lists the names"),
            None => "`iodyno fs list` lists the names".to_owned(),
        };
        let message = match is_name(file) {
            true => format!("there is no file and no workload named `{shown}`"),
            false => format!("`{shown}` is not a file-operation workload"),
        };
        vec![Diagnostic::error(message).hint(format!("{hint}; your own workloads end in .toml"))]
    })
}

/// Whether this is a TOML file or, if no such file exists, may be the name of a workload.
pub(crate) fn is_described(file: &Path) -> bool {
    is_toml(file) || (is_name(file) && !file.exists())
}

fn is_toml(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "toml")
}

/// Whether this may be the name of a workload: it has no folder and no extension.
fn is_name(file: &Path) -> bool {
    file.components().count() == 1 && file.extension().is_none()
}

/// `--set` for file operations: the flags of `iodyno fs run`.
fn overrides(settings: &[(String, String)], file: &Path) -> Result<Overrides, Vec<Diagnostic>> {
    let mut overrides = Overrides::default();
    let mut faults = Vec::new();
    for (key, value) in settings {
        if let Err(why) = set(&mut overrides, &key.replace('_', "-"), value) {
            let what = format!("`--set {key}={value}`, for {}: {why}", file.display());
            faults.push(Diagnostic::error(what));
        }
    }
    match faults.is_empty() {
        true => Ok(overrides),
        false => Err(faults),
    }
}

fn set(overrides: &mut Overrides, key: &str, value: &str) -> Result<(), String> {
    fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
        value.parse().map_err(|_| "expected a number".to_owned())
    }
    let time = || value.parse::<Nanos>().map_err(|error| error.to_string());
    match key {
        "threads" => overrides.threads = Some(number(value)?),
        "files" => {
            let Counted { set, count } = value.parse()?;
            overrides.files.push((set, count));
        }
        "file-size" => {
            let Sized { set, bytes } = value.parse()?;
            overrides.file_size.push((set, bytes));
        }
        "new-file-at" => overrides.new_file_at = Some(size(value)?),
        "duration" => overrides.duration = Some(time()?),
        "ramp" => overrides.ramp = Some(time()?),
        "max-ops" => overrides.max_ops = Some(number(value)?),
        "rate" => overrides.rate = Some(number(value)?),
        _ => {
            return Err(
                "the options of file operations are threads, files, file-size, new-file-at, duration, ramp, \
                        max-ops and rate"
                    .to_owned(),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_workload_and_a_typing_error_suggests_the_nearest_name() {
        let (workload, faults) = read(Path::new("create_empty"), &[]);
        assert!(faults.is_empty(), "{faults:?}");
        assert!(workload.unwrap().jobs[0].work.file_operations().is_some());
        let (workload, faults) = read(Path::new("create_emtpy"), &[]);
        assert!(workload.is_none());
        let hint = faults[0].hint.as_deref().unwrap_or_default();
        assert!(hint.contains("create_empty"), "{hint}");
    }

    #[test]
    fn settings_are_the_flags_of_fs_run_and_every_fault_is_reported() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let settings = [pair("threads", "2"), pair("max_ops", "50")];
        let (workload, _) = read(Path::new("create_empty"), &settings);
        let job = &workload.unwrap().jobs[0];
        assert_eq!((job.clones, job.end.ops), (2, Some(50)));
        let wrong = [pair("bs", "4k"), pair("duration", "soon")];
        let (workload, faults) = read(Path::new("create_empty"), &wrong);
        assert!(workload.is_none());
        assert_eq!(faults.len(), 2, "{faults:?}");
    }
}
