//! Workloads of a plan.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Configuration, Job, Metric, Search, Stopping};

/// Which trials use the files that a trial laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilePolicy {
    /// As the jobs name them.
    #[default]
    Own,
    /// The workloads of a family use the same files, which the first of them on a target lays out.
    Shared,
    /// A snapshot of the target, taken after its files were laid out, is rolled back before each trial.
    Rollback,
}

/// The source text of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The file, or `<command line>`.
    pub name: String,
    /// Its text, as read.
    pub text: String,
}

/// The work done on a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Its name: the file name without its extension.
    pub name: String,
    /// Its sources.
    pub sources: Vec<Source>,
    /// The jobs, in file order.
    pub jobs: Vec<Job>,
    /// The options of fio's global sections as written (name → value).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub global_options: BTreeMap<String, String>,
    /// As [`Configuration::again`], if workloads are compared.
    #[serde(default)]
    pub again: bool,
    /// The primary metric of its trials, fixed when the run was planned. `None`: each trial's own data select one, as
    /// for reads and writes at offsets, and for file operations in plans of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// The workloads with this name have one verdict together: the geometric mean of their ratios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Names of the configurations on which it runs; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// Names of the nodes on which it runs; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Further dimensions of its trials: the values of the axes of a matrix.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dimensions: BTreeMap<String, String>,
    /// It takes part in this number of rounds, the first ones; `None`: in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Rules to stop its trials early, in addition to those of the plan.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub stopping: Stopping,
    /// Which trials share files.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub files: FilePolicy,
    /// Its load is searched: each trial has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
}

impl Workload {
    /// A workload that runs on all configurations and in all rounds.
    pub fn new(name: impl Into<String>, sources: Vec<Source>, jobs: Vec<Job>) -> Workload {
        Workload {
            name: name.into(),
            sources,
            jobs,
            global_options: BTreeMap::new(),
            again: false,
            metric: None,
            family: None,
            only: Vec::new(),
            nodes: Vec::new(),
            dimensions: BTreeMap::new(),
            rounds: None,
            stopping: Stopping::default(),
            files: FilePolicy::default(),
            search: None,
        }
    }

    /// The workload at a load of its search; unchanged if it has none.
    pub fn at(&self, load: Option<f64>) -> Cow<'_, Workload> {
        let Some((search, load)) = self.search.as_ref().zip(load) else {
            return Cow::Borrowed(self);
        };
        let mut workload = self.clone();
        for job in &mut workload.jobs {
            search.set(job, load);
        }
        Cow::Owned(workload)
    }

    /// Whether it has trials on a configuration. The repeated baseline runs what the baseline runs.
    pub fn runs_on(&self, configuration: &Configuration, configurations: &[Configuration]) -> bool {
        let named = |name: &str| self.only.iter().any(|only| only == name);
        // Others may have the target of the baseline.
        let repeats = || {
            let mut others = configurations.iter().filter(|other| !other.again);
            let name = |other: &Configuration| format!("{} (again)", other.name);
            others.any(|other| name(other) == configuration.name && named(&other.name))
        };
        self.only.is_empty() || named(&configuration.name) || (configuration.again && repeats())
    }

    /// Whether a job issues ops of this name: `read`. Whether it syncs depends on several options, and is not known.
    /// The events of sysbench's test are counted as `op` too.
    pub fn issues(&self, op: &str) -> bool {
        let mut works = self.jobs.iter().map(|job| &job.work);
        if op == crate::Direction::Op.name()
            && works.any(|work| matches!(work, crate::Work::SharedFiles(_)))
        {
            return true;
        }
        let mut issued = self.jobs.iter().flat_map(|job| match &job.work {
            crate::Work::FileOperations(operations) => operations.directions(),
            work => work.moves(),
        });
        issued.any(|direction| direction.name() == op)
    }

    /// The metrics that its jobs read from the output of commands.
    pub fn output_metrics(&self) -> impl Iterator<Item = &Metric> {
        let commands = self.jobs.iter().filter_map(|job| job.work.command());
        commands.flat_map(|command| command.metrics.iter().map(|it| &it.metric))
    }

    /// Whether all of its jobs are commands.
    pub fn only_commands(&self) -> bool {
        !self.jobs.is_empty() && self.jobs.iter().all(|job| job.work.command().is_some())
    }

    /// Whether each trial runs each of its commands once, and nothing else.
    pub fn runs_once(&self) -> bool {
        self.only_commands() && self.jobs.iter().all(|job| job.end.ops == Some(1))
    }

    /// Whether any of its jobs uses a simulated device: its figures are not those of real storage.
    pub fn simulated(&self) -> bool {
        let mut engines = self.jobs.iter().filter_map(|job| job.work.engine());
        engines.any(|engine| engine.kind == crate::EngineKind::Sim)
    }

    /// Whether its trials run in virtual time: every job uses a simulated device with a virtual clock.
    pub fn in_virtual_time(&self) -> bool {
        !self.jobs.is_empty() && self.jobs.iter().all(|job| job.work.in_virtual_time())
    }
}
