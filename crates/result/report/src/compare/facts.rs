//! The facts of trials as a table: those shared by all sides of a comparison, and the differences.

use std::collections::BTreeSet;

use iodyno_model::Observation;

use crate::table::{Column, Markup, Table};
use iodyno_model::ordered::distinct;

/// Values of a fact that are named, at most.
const NAMED: usize = 3;

/// The facts of these trials by their value in a dimension: first those in which sides differ. Trials of one side can
/// differ, too; the values are then listed. A table with a row for each fact and a column for each side.
pub fn facts(dimension: &str, trials: &[Observation], markup: Markup) -> String {
    let trials = || trials.iter().filter(|trial| !trial.again);
    let sides = distinct(trials().map(|trial| trial.dimension(dimension)));
    let facts = trials().flat_map(|trial| &trial.facts);
    let names = distinct(facts.map(|fact| fact.name.as_str()));
    let values = |name: &str, side: &str| -> String {
        let own = trials().filter(|trial| trial.dimension(dimension) == side);
        let facts = own.flat_map(|trial| &trial.facts);
        let facts = facts.filter(|fact| fact.name == name);
        let values: BTreeSet<&str> = facts.map(|fact| fact.value.as_str()).collect();
        let named: Vec<&str> = values.iter().take(NAMED).copied().collect();
        match values.len() {
            0..=NAMED => named.join("; "),
            all => format!("{}; {} more", named.join("; "), all - NAMED),
        }
    };
    let rows = names.iter().map(|name| {
        let each: Vec<String> = sides.iter().map(|side| values(name, side)).collect();
        let differs = each.iter().any(|value| Some(value) != each.first());
        (differs, *name, each)
    });
    let (differing, same): (Vec<_>, Vec<_>) = rows.partition(|(differs, ..)| *differs);
    let heads = std::iter::once("").chain(sides.iter().copied());
    let mut table = Table::new(heads.map(Column::left));
    for (_, name, values) in differing.into_iter().chain(same) {
        let name = std::iter::once(name.to_owned());
        table.row(name.chain(values));
    }
    table.markup(markup)
}
