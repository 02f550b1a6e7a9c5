//! The tables that close the shipped experiments show what their verdicts are about.

use std::path::Path;

use iodyno_experiment::{Context, Experiment, read};
use iodyno_fio::SystemHost;
use iodyno_model::{Job, Metric, Observation, Workload};

/// Whether a table by `shown` has the ratios of the metric `own`: blocks of one size have one bandwidth for each rate.
fn has_its_ratios(workload: &Workload, own: &str, shown: &str) -> bool {
    let rates = [Metric::IOPS, Metric::BANDWIDTH];
    let one_size = |job: &Job| {
        let blocks = job.work.as_blocks();
        let access = &blocks.access;
        job.work.file_operations().is_none() && access.min_block() == access.max_block()
    };
    shown == own
        || rates.contains(&own) && rates.contains(&shown) && workload.jobs.iter().all(one_size)
}

/// Whether trials of the workload have a value of the dimension, as far as the experiment gives it.
fn has(workload: &Workload, experiment: &Experiment, dimension: &str) -> bool {
    let configurations = experiment.configurations.iter();
    dimension == Observation::WORKLOAD
        || workload.dimensions.contains_key(dimension)
        || configurations
            .clone()
            .any(|it| it.dimensions.contains_key(dimension))
        || ["bs", "rw", "threads"].contains(&dimension)
}

#[test]
fn tables_show_the_metric_of_the_verdict() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../experiments");
    let mut wrong = Vec::new();
    let mut tables = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let given = ("folder".to_owned(), "/x".to_owned());
        let settings: Vec<_> = text
            .contains("${folder}")
            .then_some(given)
            .into_iter()
            .collect();
        let context = Context {
            source: &file.display().to_string(),
            folder: file.parent().unwrap(),
            settings: &settings,
            nodes: &[],
            host: &SystemHost,
        };
        let experiment = read(&text, &context).unwrap();
        let Some(table) = &experiment.table else {
            continue;
        };
        tables += 1;
        let Some(shown) = table.metrics.first() else {
            continue;
        };
        let of_table = |workload: &&Workload| {
            let mut rows = table.rows.iter();
            rows.all(|row| has(workload, &experiment, row))
        };
        for workload in experiment.workloads.iter().filter(of_table) {
            let own = match experiment.metrics.first() {
                Some(asked) => vec![asked.clone()],
                None => iodyno_judge::expected_metrics(workload),
            };
            if !own.iter().any(|own| has_its_ratios(workload, own, shown)) {
                let name = file.file_name().unwrap().display().to_string();
                wrong.push(format!("{name}: {}: {shown} for {own:?}", workload.name));
            }
        }
    }
    assert!(tables > 10, "{tables}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
