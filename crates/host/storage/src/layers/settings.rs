//! Settings of the kernel: their files, and their values now.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use iodyno_host::Roots;
use iodyno_model::Diagnostic;

use crate::journal::Journal;

use super::action::Action;
use super::host::Host;

/// The file of a sysctl setting.
pub(super) fn sysctl_path(roots: &Roots, name: &str) -> PathBuf {
    // As sysctl(8): a name with slashes may contain dots, as those of network interfaces do.
    let path = match name.contains('/') {
        true => name.to_owned(),
        false => name.replace('.', "/"),
    };
    roots.proc.join("sys").join(path)
}

/// The value of a setting now. For a file with a line for each device, the rest of the device's line; without a line,
/// the value that removes the limit.
pub(crate) fn current(host: &dyn Host, path: &Path, device: Option<&str>) -> io::Result<String> {
    let text = host.read(path)?;
    let Some(device) = device else {
        // Of several choices, the current one is in brackets.
        let chosen = text
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'));
        return Ok(chosen
            .map_or(text.as_str(), |(chosen, _)| chosen)
            .to_owned());
    };
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(device)?.strip_prefix(' '));
    let none = match path.ends_with("io.max") {
        true => "rbps=max wbps=max riops=max wiops=max",
        false => "0",
    };
    Ok(line.unwrap_or(none).to_owned())
}

/// Whether two texts of a setting mean the same: the kernel separates numbers with tabs.
pub(super) fn same_value(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

/// Reads the settings of the host back that were made for a target.
///
/// # Errors
/// One has another value.
pub(super) fn settings_in_force(host: &dyn Host, journal: &Journal) -> Result<(), Diagnostic> {
    // Of several steps with the same file, the last one counts.
    let mut wanted: BTreeMap<&Path, &str> = BTreeMap::new();
    for step in journal.steps.iter().filter(|step| !step.undone) {
        if let Action::Setting {
            path,
            device: None,
            value,
            ..
        } = &step.action
        {
            // As it was read back when it was written; journals of earlier versions do not have it.
            let kept = step.result.as_deref().filter(|kept| !kept.is_empty());
            wanted.insert(path, kept.unwrap_or(value));
        }
    }
    for (path, value) in wanted {
        let shown = path.display();
        let now = current(host, path, None)
            .map_err(|error| Diagnostic::error(format!("cannot read `{shown}`: {error}")))?;
        if !same_value(&now, value) {
            let message = format!("the setting `{shown}` is `{now}` by now, not `{value}`");
            let hint = "another program on this host changes it: end it, or leave the setting out";
            return Err(Diagnostic::error(message).hint(hint));
        }
    }
    Ok(())
}
