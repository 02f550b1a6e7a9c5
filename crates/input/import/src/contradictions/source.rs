//! What a text gives for the statements in it: results and tables, and the headings above them.

use iodyno_model::{ImportedTable, ImportedTrial, Kind, Metric};

use super::super::context::Context;
use super::super::lines::Lines;

/// What a check needs of a result.
pub(crate) struct Checked {
    pub(super) line: u32,
    pub(super) configuration: String,
    pub(super) workload: String,
    pub(super) form: String,
    pub(super) ops: Option<f64>,
    /// The time of a fixed amount of work, ns.
    pub(super) completion: Option<f64>,
    /// The facts `bs` and `jobs`.
    pub(super) facts: Vec<(String, String)>,
}

impl Checked {
    pub(crate) fn of(trial: &ImportedTrial) -> Checked {
        let figure = |name: &str| {
            let mut figures = trial.figures.iter();
            figures.find(|it| it.metric.name == name).map(|it| it.value)
        };
        let facts = trial.facts.iter();
        let facts = facts.filter(|fact| ["bs", "jobs"].contains(&fact.name.as_str()));
        Checked {
            line: trial.at.line,
            configuration: trial.configuration.clone(),
            workload: trial.workload.to_lowercase(),
            form: trial.form.clone(),
            ops: figure("ops"),
            completion: figure(Metric::COMPLETION).filter(|_| trial.kind == Kind::Finite),
            facts: facts
                .map(|it| (it.name.clone(), it.value.clone()))
                .collect(),
        }
    }
}

/// A text with what was read from it.
pub(crate) struct Source<'t> {
    pub(crate) lines: &'t Lines<'t>,
    pub(crate) results: Vec<Checked>,
    pub(crate) tables: &'t [ImportedTable],
}

impl Source<'_> {
    /// Whether a line is below the nearest heading of another one, at any depth.
    pub(super) fn is_below(&self, line: u32, heading: Option<u32>) -> bool {
        let context = self.lines.context(line);
        heading.is_none_or(|heading| context.headings.iter().any(|it| it.line == heading))
    }
}

/// The line of the narrowest heading that is not a list item.
pub(super) fn section(context: &Context<'_>) -> Option<u32> {
    context.nearest(|it| it.is_section()).map(|it| it.line)
}
