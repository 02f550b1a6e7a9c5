//! `run --server NAME=COMMAND`: one folder, shared by several virtio-fs servers whose clients the jobs are.

use std::ffi::OsString;
use std::path::Path;

use iodyno_experiment::{Context as Reading, no_client, read};
use iodyno_fio::SystemHost;
use iodyno_model::{Configuration, Diagnostic, Workload};

use crate::configurations::named_paths;

/// A configuration for each server, in a new folder within that of `--on`.
///
/// # Errors
/// Every error of every flag.
pub(crate) fn servers(
    texts: &[String],
    on: &[OsString],
    folder: &Path,
) -> Result<Vec<Configuration>, Vec<Diagnostic>> {
    let path = match named_paths(on, folder).as_slice() {
        [] => folder.to_owned(),
        [path] => path.clone(),
        _ => {
            let fault =
                Diagnostic::error("`--server` shares one folder, and there are several `--on`");
            return Err(vec![fault.hint("name one folder: `--on PATH`")]);
        }
    };
    let mut experiment = String::from("[workload.any]\nfio = { rw = \"read\", size = \"1m\" }\n");
    let mut faults = Vec::new();
    for text in texts {
        match text.split_once('=') {
            Some((name, command)) if !name.trim().is_empty() && !command.trim().is_empty() => {
                let target = format!("virtiofs on {}", path.display());
                experiment += &format!(
                    "[configuration.{}]\ntarget = {}\nvirtiofs.server = {}\n",
                    quoted(name.trim()),
                    quoted(&target),
                    quoted(command.trim())
                );
            }
            _ => faults.push(
                Diagnostic::error(format!("`--server {text}` has no name and command")).hint(
                    "write `--server NAME='COMMAND --socket-path={socket} --shared-dir={folder}'`",
                ),
            ),
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let reading = Reading {
        source: "--server",
        folder,
        settings: &[],
        nodes: &[],
        host: &SystemHost,
    };
    let experiment = read(&experiment, &reading);
    let without_place = |fault: Diagnostic| Diagnostic {
        place: None,
        message: format!("`--server`: {}", fault.message),
        ..fault
    };
    experiment
        .map(|it| it.configurations)
        .map_err(|faults| faults.into_iter().map(without_place).collect())
}

/// A string of TOML whose text is taken as it is. Strings of JSON are strings of TOML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text.replace("${", "$${")).to_string()
}

/// The errors of jobs that cannot be clients of a virtio-fs server.
pub(crate) fn no_clients(
    workloads: &[Workload],
    configurations: &[Configuration],
) -> Vec<Diagnostic> {
    let mut configurations = configurations.iter().filter_map(Configuration::provision);
    let Some(engine) = configurations.find_map(|it| it.client_engine()) else {
        return Vec::new();
    };
    let each = workloads.iter().filter_map(|workload| {
        let mut jobs = workload.jobs.iter();
        let (why, hint) = jobs.find_map(|job| no_client(job, engine))?;
        let message = format!("`{}` cannot use `--server`: {why}", workload.name);
        Some(Diagnostic::error(message).hint(hint))
    });
    each.collect()
}
