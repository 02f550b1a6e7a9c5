//! `--on [NAME=]PATH`: the configurations of a plan.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use iodyno_lab::NamedTarget;
use iodyno_model::printable::shell_path;
use iodyno_model::{Configuration, Diagnostic, ExportUri, Observation, Target, url_scheme};

use crate::selection::allows;

/// The name of the only configuration of a run without `--on`.
const AS_WRITTEN: &str = "default";

/// The configurations of the `--on` flags. Without any, there is one that uses the jobs' own paths,
/// relative to `folder`. Relative paths are made absolute, since the trial runs in another process.
///
/// `error`: why a path does not exist.
///
/// # Errors
/// Every error of every flag.
pub(crate) fn configurations<'a>(
    on: &[OsString],
    folder: &Path,
    error: impl Fn(&Path) -> Option<&'a str>,
) -> Result<Vec<Configuration>, Vec<Diagnostic>> {
    if on.is_empty() {
        let target = Target::AsWritten {
            folder: folder.to_path_buf(),
        };
        return Ok(vec![Configuration::new(AS_WRITTEN, target)]);
    }
    let mut faults = Vec::new();
    let mut found: Vec<Configuration> = Vec::new();
    for text in on {
        let (name, path) = split(text, folder);
        let shown = text.display();
        if path.as_os_str().is_empty() {
            faults.push(
                Diagnostic::error(format!("`--on {shown}` has no path"))
                    .hint("write `--on NAME=PATH` or `--on PATH`"),
            );
            continue;
        }
        if let Some(scheme) = path.to_str().and_then(url_scheme) {
            let hint =
                "give a folder, file or device; for a file of this name, write `./` before it";
            let fault = format!("`--on {shown}`: `{scheme}://` is not a path");
            faults.push(Diagnostic::error(fault).hint(hint));
            continue;
        }
        let (given, path) = (path.clone(), folder.join(path));
        if let Some(error) = error(&path) {
            faults.push(
                Diagnostic::error(format!("`--on {shown}`: {error}"))
                    .hint("give an existing folder, file or device"),
            );
        }
        match name {
            None => faults.push(
                Diagnostic::error(format!("`--on {shown}` has no name"))
                    .hint(format!("write `--on NAME={}`", shell_path(&given))),
            ),
            Some(name) if found.iter().any(|other| other.name == name) => faults.push(
                Diagnostic::error(format!("two configurations are named `{name}`"))
                    .hint("give each its own name: `--on NAME=PATH`"),
            ),
            Some(name) => found.push(Configuration::new(name, Target::Path(path))),
        }
    }
    match faults.is_empty() {
        true => Ok(found),
        false => Err(faults),
    }
}

/// The paths of the `--on` flags that `--where` selects, absolute.
pub(crate) fn named_paths(on: &[OsString], folder: &Path, only: &[String]) -> Vec<PathBuf> {
    let split = on.iter().map(|text| split(text, folder));
    let selected = split.filter(|(name, _)| {
        let name = name.as_deref().unwrap_or_default();
        allows(only, Observation::CONFIGURATION, name)
    });
    selected.map(|(_, path)| folder.join(path)).collect()
}

/// The targets of the `--on` flags together with `--resume`, which name the run's targets again.
pub(crate) fn named_targets(on: &[OsString], folder: &Path) -> Vec<NamedTarget> {
    let target = |text: &OsString| {
        let (name, path) = split(text, folder);
        let uri = path.to_str().is_some_and(ExportUri::is_meant);
        NamedTarget {
            configuration: name.unwrap_or_default(),
            path: if uri { path } else { folder.join(path) },
        }
    };
    on.iter().map(target).collect()
}

/// Splits `NAME=PATH`; for a `PATH` alone, the name is its last component, relative to `folder`, or `home` for that
/// of a user. A text with a slash before the `=` is a path: `/mnt/a=b`.
fn split(text: &OsStr, folder: &Path) -> (Option<String>, PathBuf) {
    let bytes = text.as_bytes();
    let equals = bytes.iter().position(|byte| *byte == b'=');
    match equals {
        Some(at) if !bytes[..at].contains(&b'/') => {
            let name = String::from_utf8_lossy(&bytes[..at]).trim().to_owned();
            let path = PathBuf::from(OsStr::from_bytes(&bytes[at + 1..]));
            (Some(name).filter(|name| !name.is_empty()), path)
        }
        _ => {
            let path = PathBuf::from(text);
            let whole = folder.join(&path);
            // The name of a user would be in every result.
            let of_user = whole.parent() == Some(Path::new("/home"));
            let name = match whole.file_name() {
                Some(_) if of_user => Some("home".to_owned()),
                name => name.map(|name| name.to_string_lossy().into_owned()),
            };
            (name, path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(on: &[&str]) -> Result<Vec<(String, String)>, Vec<String>> {
        let on: Vec<OsString> = on.iter().map(OsString::from).collect();
        configurations(&on, Path::new("/here"), |_| None)
            .map(|found| {
                found
                    .into_iter()
                    .map(|configuration| {
                        let path = configuration.target.path().display().to_string();
                        (configuration.name, path)
                    })
                    .collect()
            })
            .map_err(|faults| faults.into_iter().map(|fault| fault.message).collect())
    }

    #[test]
    fn a_name_is_the_text_before_the_equals_sign_or_the_path_s_last_part() {
        for (text, name, path) in [
            ("ext4=/mnt/e", "ext4", "/mnt/e"),
            ("/mnt/e", "e", "/mnt/e"),
            ("/mnt/e/", "e", "/mnt/e/"),
            ("/mnt/a=b", "a=b", "/mnt/a=b"),
            ("./a=b", "a=b", "/here/./a=b"),
            ("x=a=b", "x", "/here/a=b"),
            ("data", "data", "/here/data"),
            ("disk=/dev/sdx", "disk", "/dev/sdx"),
            (".", "here", "/here/."),
            ("/home/ada", "home", "/home/ada"),
            ("/home//ada/.", "home", "/home//ada/."),
            ("/home/ada/x", "x", "/home/ada/x"),
            ("x=.", "x", "/here/."),
        ] {
            assert_eq!(
                check(&[text]),
                Ok(vec![(name.to_owned(), path.to_owned())]),
                "{text}"
            );
        }
        assert_eq!(
            check(&[]),
            Ok(vec![("default".to_owned(), "/here".to_owned())])
        );
    }

    #[test]
    fn reports_every_fault_at_once() {
        let faults = check(&["a=/x", "a=/y", "b=", "/", "=/z"]).unwrap_err();
        assert_eq!(
            faults,
            [
                "two configurations are named `a`",
                "`--on b=` has no path",
                "`--on /` has no name",
                "`--on =/z` has no name",
            ]
        );
    }

    #[test]
    fn the_hint_gives_a_nameless_path_its_name() {
        for (text, hint) in [
            ("/", "write `--on NAME=/`"),
            ("=/z", "write `--on NAME=/z`"),
            ("..", "write `--on NAME=..`"),
        ] {
            let on = [OsString::from(text)];
            let faults = configurations(&on, Path::new("/here"), |_| None).unwrap_err();
            assert_eq!(faults[0].hint.as_deref(), Some(hint), "{text}");
        }
    }

    #[test]
    fn a_path_with_an_error_is_reported_together_with_other_faults() {
        let error = |path: &Path| {
            path.starts_with("/does")
                .then_some("No such file or directory")
        };
        let twice = [OsString::from("x=/does/not/exist"), OsString::from("x=/")];
        let faults = configurations(&twice, Path::new("/"), error).unwrap_err();
        let messages: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "`--on x=/does/not/exist`: No such file or directory",
                "two configurations are named `x`",
            ]
        );
    }
}
