//! A trial as a comparison sees it: own or imported, reduced to what can be compared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Behaviour, Figure, FindingKind, Metric, Weight, Withheld};

/// What a fact is a fact of; it decides whether a difference in it can explain a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactClass {
    /// What the configuration is: file system, mount options, devices and their settings.
    Target,
    /// The host: kernel, CPUs, memory, governor.
    Host,
    /// The program that measured, and its version.
    Program,
    /// What was done: pattern, block size, depth, engine.
    Workload,
    /// How long, and what ended it.
    Ending,
}

/// Something true of a trial that another trial may differ in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fact {
    /// What of.
    pub class: FactClass,
    /// A short name, the same in every trial: `kernel`, `mount options`, `duration`.
    pub name: String,
    /// Its value, in words.
    pub value: String,
}

/// Whether a trial had a time to fill or work to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Ended by its runtime: compared by its rate, and it should be steady.
    Timed,
    /// Ended when its work was done: compared by its completion, drain included.
    Finite,
    /// The source does not say.
    Unknown,
}

/// Something said against a trial's figures, as far as a comparison must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flag {
    /// What.
    pub kind: FindingKind,
    /// How much it weighs.
    pub weight: Weight,
    /// One sentence.
    pub text: String,
}

/// Where an imported trial stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceLine {
    /// The file, as given.
    pub source: String,
    /// From 1.
    pub line: u32,
}

/// A trial as a comparison sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// What it can be told apart by: `run`, `configuration` and `workload` always, and what else is
    /// known (`rw`, `bs`, `engine`, `depth`, `node`, fields of an import's label).
    pub dimensions: BTreeMap<String, String>,
    /// The round that it shares with others of its run; `None` where rounds mean nothing.
    pub round: Option<u32>,
    /// The baseline made once more, for the noise floor.
    pub again: bool,
    /// Why its figures do not count (it failed, was interrupted); `None` if they do.
    pub unusable: Option<String>,
    /// A time to fill, or work to do.
    pub kind: Kind,
    /// The metric this trial is best judged by.
    pub primary: Option<Metric>,
    /// One value a metric.
    pub figures: Vec<Figure>,
    /// Metrics that are kept back, with the reason.
    pub withheld: Vec<Withheld>,
    /// How it behaved in its time.
    pub behaviour: Behaviour,
    /// What others may differ in.
    pub facts: Vec<Fact>,
    /// What is said against it.
    pub flags: Vec<Flag>,
    /// Where it was read, if it was imported.
    pub source: Option<SourceLine>,
}

impl Observation {
    /// The name of the run dimension.
    pub const RUN: &'static str = "run";
    /// The name of the configuration dimension.
    pub const CONFIGURATION: &'static str = "configuration";
    /// The name of the workload dimension.
    pub const WORKLOAD: &'static str = "workload";

    /// Its place in a dimension; empty where it has none.
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
