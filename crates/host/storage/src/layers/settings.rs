//! Settings of the kernel: their files, and their values now.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use iodyno_host::Roots;
use iodyno_model::Diagnostic;

use crate::journal::{Journal, Step};

use super::action::Action;
use super::host::Host;
use super::host_ops::HostOps;

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

/// Does or undoes an action. If it writes a setting of the host, the other settings of these steps keep their values: a
/// write of a limit of a queue resets the queue's read-ahead, for example.
///
/// # Errors
/// That of `act`, or two settings change each other; then the one of the action is in force.
pub(super) fn keeping_others<T>(
    ops: &mut HostOps<'_>,
    steps: &[Step],
    action: &Action,
    act: impl FnOnce(&mut HostOps<'_>) -> Result<T, Diagnostic>,
) -> Result<T, Diagnostic> {
    let Some(written) = setting_of_host(action) else {
        return act(ops);
    };
    let host = ops.host;
    let read = |path: &Path| current(host, path, None).ok();
    let others = steps
        .iter()
        .filter_map(|step| setting_of_host(&step.action));
    let others = others.filter(|path| *path != written);
    let others: BTreeMap<&Path, String> = others
        .filter_map(|path| Some((path, read(path)?)))
        .collect();
    let done = act(ops)?;
    let value = read(written);
    for (path, kept) in others {
        if read(path).is_none_or(|now| same_value(&now, &kept)) {
            continue;
        }
        ops.set(path, None, &kept)?;
        if let Some(value) = value
            .as_ref()
            .filter(|value| read(written).as_ref() != Some(value))
        {
            ops.set(written, None, value)?;
            let (one, other) = (written.display(), path.display());
            let message = format!("the settings `{one}` and `{other}` change each other");
            return Err(Diagnostic::error(message).hint("leave one of them out"));
        }
    }
    Ok(done)
}

/// The file of a setting that holds for the whole host.
fn setting_of_host(action: &Action) -> Option<&Path> {
    match action {
        Action::Setting {
            path, device: None, ..
        } => Some(path),
        _ => None,
    }
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
            let hint =
                "another setting or another program changes it: leave one out, or end the program";
            return Err(Diagnostic::error(message).hint(hint));
        }
    }
    Ok(())
}
