//! `run --server NAME=COMMAND`: several virtio-fs servers share a folder, and the jobs are their clients.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use iodyno_experiment::{Context as Reading, no_client, read};
use iodyno_fio::SystemHost;
use iodyno_model::{Configuration, Diagnostic, Layer, Target, Workload};

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
    let path = match named_paths(on, folder, &[]).as_slice() {
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
    let mut names = BTreeSet::new();
    for text in texts {
        match text.split_once('=') {
            Some((name, command))
                if !name.trim().is_empty()
                    && !command.trim().is_empty()
                    && !text.contains(char::is_control) =>
            {
                if !names.insert(name.trim()) {
                    let fault = format!("`--server {}` is given twice", name.trim());
                    faults.push(Diagnostic::error(fault).hint("give each server its own name"));
                }
                // The folder follows below: a target cannot have any path.
                experiment += &format!(
                    "[configuration.{}]\ntarget = \"virtiofs on .\"\nvirtiofs.server = {}\n",
                    quoted(name.trim()),
                    quoted(command.trim())
                );
            }
            _ => faults.push(
                Diagnostic::error(format!("`--server {text}` needs a name and a command")).hint(
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
    let without_place = |fault: Diagnostic| Diagnostic {
        place: None,
        message: format!("`--server`: {}", fault.message),
        ..fault
    };
    let experiment = read(&experiment, &reading)
        .map_err(|faults| faults.into_iter().map(without_place).collect::<Vec<_>>())?;
    let in_folder = |configuration: Configuration| match configuration.target {
        Target::Made(mut provision) => {
            if let Some(Layer::Directory { path: own }) = provision.layers.last_mut() {
                own.clone_from(&path);
            }
            let target = Target::Made(provision);
            Configuration {
                target,
                ..configuration
            }
        }
        _ => configuration,
    };
    Ok(experiment
        .configurations
        .into_iter()
        .map(in_folder)
        .collect())
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
