//! The data that `--dry-run` prints about a plan, apart from its texts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use iodyno_fio::resolved_options;
use iodyno_model::{Configuration, Forecast, Job, Plan, Provision, Workload};
use iodyno_report::json::Schedule;
use iodyno_report::plan::PlanView;
use iodyno_runner::placed_names;

use crate::experiment::destroys;
use crate::rounds::{primary, sides};
use crate::targets::FoundPaths;

/// A plan with the compared sides, the metrics that decide, and all effective options of its jobs. `found`:
/// descriptions of the targets; `forecast`: `None` if unknown.
pub(crate) fn plan_view<'a>(
    plan: &'a Plan,
    found: &FoundPaths,
    forecast: Option<&'a Forecast>,
    schedule: Option<&'a Schedule>,
) -> PlanView<'a> {
    let destroyed = plan.destroy.iter().map(PathBuf::as_path);
    let compared = plan.workloads.iter().filter(|workload| !workload.again);
    let options = |workload: &Workload| {
        let jobs = workload.jobs.iter();
        jobs.map(|job| options(job, &plan.configurations, found))
            .collect()
    };
    PlanView {
        plan,
        forecast,
        schedule,
        sides: sides(plan, &plan.question.columns),
        metrics: compared
            .map(|workload| (workload.name.as_str(), metric(plan, workload)))
            .collect(),
        destroyed: destroyed.filter(|path| destroys(plan, path)).collect(),
        options: plan.workloads.iter().map(options).collect(),
    }
}

/// The metric that decides the comparison of a workload.
fn metric(plan: &Plan, workload: &Workload) -> String {
    match (primary(plan, workload), plan.question.metrics.first()) {
        (Some(own), _) => own.to_owned(),
        (_, Some(of_all)) => of_all.clone(),
        _ => iodyno_judge::expected_metrics(workload).join(" or "),
    }
}

/// All effective options of a job.
fn options(
    job: &Job,
    configurations: &[Configuration],
    found: &FoundPaths,
) -> BTreeMap<String, String> {
    let mut options = resolved_options(job);
    for (name, value) in paths(job, configurations, found) {
        match value.is_empty() {
            true => options.remove(name),
            false => options.insert(name.to_owned(), value),
        };
    }
    options.extend(client_engine(job, configurations).map(|it| ("ioengine".to_owned(), it)));
    options
}

/// The engine of a job that is a client of the servers of some configurations.
fn client_engine(job: &Job, configurations: &[Configuration]) -> Option<String> {
    let own = job.work.engine()?.kind.name();
    let of = |one: &Configuration| one.provision().and_then(Provision::client_engine);
    let mut clients = configurations.iter().filter_map(|it| Some((it, of(it)?)));
    let (first, engine) = clients.next()?;
    Some(match 1 + clients.count() == configurations.len() {
        true => engine.name().to_owned(),
        false => format!("{own} ({} on {})", engine.name(), first.name),
    })
}

/// The values of `directory` and `filename` that the targets change, with the configurations if these differ; an empty
/// value if none remains.
fn paths(
    job: &Job,
    configurations: &[Configuration],
    found: &FoundPaths,
) -> Vec<(&'static str, String)> {
    let Some(blocks) = job.work.blocks() else {
        return Vec::new();
    };
    let mut changed = Vec::new();
    for (option, own) in [
        ("directory", &blocks.files.directories),
        ("filename", &blocks.files.names),
    ] {
        let placed = configurations.iter().filter_map(|configuration| {
            let folder = |path: &Path| found.may_be_folder(path);
            let names = placed_names(&configuration.target, &blocks.files, folder)?;
            let names = match option {
                "directory" => names.directories,
                _ => names.files,
            };
            (names != *own).then(|| (configuration.name.as_str(), joined(&names)))
        });
        let placed: Vec<(&str, String)> = placed.collect();
        let Some((_, first)) = placed.first() else {
            continue;
        };
        let value = match placed.iter().all(|(_, names)| names == first) {
            true => first.clone(),
            false => {
                let each = placed
                    .iter()
                    .map(|(name, names)| format!("{names} on {name}"));
                each.collect::<Vec<String>>().join(", ")
            }
        };
        changed.push((option, value));
    }
    changed
}

/// Paths as in a job file.
fn joined(paths: &[PathBuf]) -> String {
    let paths = paths
        .iter()
        .map(|path| path.to_string_lossy().replace(':', r"\:"));
    paths.collect::<Vec<String>>().join(":")
}
