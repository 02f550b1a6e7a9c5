//! Observations: trials, own or imported, reduced to what a comparison needs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Behaviour, Figure, FindingKind, Metric, Weight, Withheld};

/// The class of a fact; it decides whether a difference can explain a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactClass {
    /// The configuration: file system, mount options, devices and their settings.
    Target,
    /// The host: kernel, CPUs, memory, governor.
    Host,
    /// The measuring program and its version.
    Program,
    /// The workload: pattern, block size, depth, engine.
    Workload,
    /// Duration and end condition.
    Ending,
}

/// An attribute of a trial in which another trial may differ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fact {
    /// Its class.
    pub class: FactClass,
    /// A short name, the same in every trial: `kernel`, `mount options`, `duration`.
    pub name: String,
    /// Its value as text.
    pub value: String,
}

/// Whether a trial had a fixed duration or a fixed amount of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Ended by its runtime: compared by its rate, which should be steady.
    Timed,
    /// Ended when its work was done: compared by its completion time, including the drain.
    Finite,
    /// Unknown: the source does not state it.
    Unknown,
}

/// A finding as far as a comparison needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flag {
    /// Kind of finding.
    pub kind: FindingKind,
    /// Severity.
    pub weight: Weight,
    /// Description in one sentence.
    pub text: String,
}

/// Location of an imported trial in its source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceLine {
    /// The file, as given.
    pub source: String,
    /// Line number, from 1.
    pub line: u32,
}

/// A trial as a comparison sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Its dimensions and their values: always `run`, `configuration` and `workload`, and others that are known
    /// (`rw`, `bs`, `engine`, `depth`, `node`, fields of an import's label).
    pub dimensions: BTreeMap<String, String>,
    /// The round, shared with other trials of its run; `None` if rounds do not apply.
    pub round: Option<u32>,
    /// Wall clock at its start, ms since 1970; `None` if the source does not state it.
    pub started_unix_ms: Option<u64>,
    /// Whether it is a trial of the repeated baseline, for the noise floor.
    pub again: bool,
    /// Its load, if it is a trial of a search, which is not compared.
    pub probe: Option<f64>,
    /// Why its figures do not count (failed, interrupted); `None` if they count.
    pub unusable: Option<String>,
    /// Fixed duration or fixed amount of work.
    pub kind: Kind,
    /// Its primary metric.
    pub primary: Option<Metric>,
    /// One value per metric.
    pub figures: Vec<Figure>,
    /// Withheld metrics, with the reason.
    pub withheld: Vec<Withheld>,
    /// Its behaviour over time.
    pub behaviour: Behaviour,
    /// Attributes in which other trials may differ.
    pub facts: Vec<Fact>,
    /// Whether every option that is not at its default is a fact. True for own trials.
    pub options_complete: bool,
    /// Findings that a comparison must consider.
    pub flags: Vec<Flag>,
    /// Its location in the source if it was imported.
    pub source: Option<SourceLine>,
}

impl Observation {
    /// The name of the run dimension.
    pub const RUN: &'static str = "run";
    /// The name of the configuration dimension.
    pub const CONFIGURATION: &'static str = "configuration";
    /// The name of the workload dimension.
    pub const WORKLOAD: &'static str = "workload";
    /// The name of the dimension of the runs' names; present where several runs share one.
    pub const NAME: &'static str = "name";
    /// The name of the dimension of families: workloads with one verdict together.
    pub const FAMILY: &'static str = "family";
    /// The name of the dimension that numbers the targets that were made for a configuration.
    pub const INSTANCE: &'static str = "instance";

    /// Its value in a dimension; empty if it has none.
    pub fn dimension(&self, name: &str) -> &str {
        self.dimensions.get(name).map_or("", String::as_str)
    }

    /// The figure of a metric.
    pub fn figure(&self, metric: &str) -> Option<&Figure> {
        self.figures
            .iter()
            .find(|figure| figure.metric.name == metric)
    }
}
