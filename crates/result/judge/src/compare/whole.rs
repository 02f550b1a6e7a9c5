//! Remarks and facts of a comparison as a whole.

use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::{
    CandidateResult, Comparison, Difference, EngineKind, Observation, Pairing, Question, Verdict,
};

use super::cells::Built;
use super::grouping::Table;
use super::metrics::Role;

/// The comparison of these rows, without the claims.
pub(super) fn comparison(
    name: &str,
    question: &Question,
    table: &Table,
    built: Vec<Built>,
) -> Comparison {
    let floor = floor(&built);
    let (same, differs) = facts(&built);
    let unknown: BTreeSet<&String> = built
        .iter()
        .flat_map(|built| &built.facts)
        .flat_map(|facts| &facts.unknown)
        .collect();
    let mut notes = table.notes.clone();
    notes.extend(extended(question));
    notes.extend(imported(table));
    notes.extend(simulated(table));
    notes.extend(instances(table, question));
    notes.extend(floor_rows(&built, question, floor));
    let cells = || built.iter().flat_map(|built| &built.row.cells);
    let with_data = || cells().filter(|cell| !without_data(cell));
    let primaries = built
        .iter()
        .filter(|built| built.role == Role::Primary)
        .flat_map(|built| &built.row.cells)
        .filter(|cell| cell.p.is_some())
        .count();
    Comparison {
        name: name.to_owned(),
        question: question.clone(),
        columns: table.columns.clone(),
        rounds: cells().map(|cell| cell.n).max().unwrap_or(0),
        paired: with_data().next().is_some()
            && with_data().all(|cell| cell.pairing == Pairing::Paired),
        primaries: u32::try_from(primaries).unwrap_or(u32::MAX),
        floor,
        unknown: unknown.into_iter().cloned().collect(),
        same,
        differs,
        claims: Vec::new(),
        searches: Vec::new(),
        notes,
        rows: built.into_iter().map(|built| built.row).collect(),
    }
}

fn without_data(cell: &CandidateResult) -> bool {
    matches!(cell.by_numbers, Verdict::NoData { .. })
}

fn floor(built: &[Built]) -> Option<f64> {
    built
        .iter()
        .filter_map(|built| built.row.floor)
        .reduce(f64::max)
}

/// Names of the facts that are equal for any two sides that have them, and of those in which any two sides differ.
fn facts(built: &[Built]) -> (Vec<String>, Vec<Difference>) {
    let mut same: BTreeSet<&String> = BTreeSet::new();
    let mut differing: BTreeMap<&String, (Difference, Vec<&String>)> = BTreeMap::new();
    for facts in built.iter().flat_map(|built| &built.facts) {
        same.extend(&facts.same);
        for difference in &facts.differing {
            let (known, candidates) = differing
                .entry(&difference.name)
                .or_insert_with(|| (difference.clone(), Vec::new()));
            known.axis &= difference.axis;
            if !candidates.contains(&&difference.values.1) {
                candidates.push(&difference.values.1);
            }
        }
    }
    same.retain(|name| !differing.contains_key(*name));
    let same = same.into_iter().cloned().collect();
    let differs = differing
        .into_values()
        .map(|(mut difference, candidates)| {
            let candidates: Vec<String> = candidates.into_iter().cloned().collect();
            difference.values.1 = candidates.join(" / ");
            difference
        })
        .collect();
    (same, differs)
}

/// A remark if the verdict was visible before the run was extended.
fn extended(question: &Question) -> Option<String> {
    let looks = question.looks.filter(|looks| *looks > 0)?;
    let times = match looks {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        looks => format!("{looks} times"),
    };
    let alpha = |alpha: f64| {
        let text = iodyno_units::significant(alpha).to_string();
        text.trim_end_matches('0').to_owned()
    };
    Some(format!(
        "extended {} after the verdict could be seen: this verdict uses α = {}, so that all verdicts together use at most {}",
        times,
        alpha(question.alpha_at_look()),
        alpha(question.alpha)
    ))
}

/// A remark on what rounds do not repeat: each configuration is one file system or device, unless it was made anew for
/// them.
fn instances(table: &Table, question: &Question) -> Option<String> {
    let trials = || table.rows.iter().flat_map(|row| row.trials());
    let has_target = |o: &Observation| o.facts.iter().any(|fact| fact.name == "file system");
    let on_targets = trials().any(|o| o.round.is_some_and(|round| round > 0) && has_target(o));
    let columns = 0..table.columns.len();
    let anew = columns.into_iter().all(|column| {
        let of_column = || table.rows.iter().flat_map(|row| &row.columns[column]);
        // The trials of a configuration that could not be made tell nothing about its targets.
        let made = of_column().any(|o| has_target(o));
        !made || super::grouping::values(of_column().copied(), Observation::INSTANCE).len() > 1
    });
    (question.columns == Observation::CONFIGURATION && on_targets && !anew).then(|| {
        "not repeated: each configuration is one instance of its target; the variation between \
         instances with the same configuration is not part of the intervals"
            .to_owned()
    })
}

/// Conclusions that imported trials do not support.
fn imported(table: &Table) -> Option<String> {
    let trials = || table.rows.iter().flat_map(|row| row.trials());
    let of_others = trials()
        .filter(|o: &&Observation| o.source.is_some())
        .count();
    if of_others == 0 {
        return None;
    }
    let all = trials().count();
    let which = match of_others == all {
        true => "the trials were imported".to_owned(),
        false => format!("{of_others} of {all} trials were imported"),
    };
    Some(format!(
        "{which}: compared without pairing; in what order they were made, and on what host and \
         devices where the source does not tell, cannot be checked"
    ))
}

/// Which columns have simulated results.
fn simulated(table: &Table) -> Option<String> {
    let is_simulated = |o: &Observation| {
        let engine = o.dimensions.get("engine");
        engine.is_some_and(|engine| engine == EngineKind::Sim.name())
    };
    let trials = || table.rows.iter().flat_map(|row| row.trials());
    if !trials().any(is_simulated) {
        return None;
    }
    if trials().all(is_simulated) {
        return Some(
            "all results are simulated: they are those of models, not of storage".to_owned(),
        );
    }
    let columns = (0..table.columns.len()).filter(|column| {
        let mut trials = table.rows.iter().flat_map(|row| &row.columns[*column]);
        trials.any(|o| is_simulated(o))
    });
    let names: Vec<String> = columns
        .map(|column| format!("`{}`", table.columns[column]))
        .collect();
    Some(format!(
        "simulated and real results are compared: {} has results of models, not of storage",
        names.join(", ")
    ))
}

fn floor_rows(built: &[Built], question: &Question, floor: Option<f64>) -> Option<String> {
    let rows = built.iter().filter(|built| built.role == Role::Floor);
    if rows.count() == 0 {
        return None;
    }
    let names: Vec<String> = question
        .floor
        .iter()
        .map(|(dimension, value)| format!("{dimension} {value}"))
        .collect();
    let size = floor.map_or(String::new(), |floor| {
        format!(" of {}", iodyno_units::percent(floor))
    });
    Some(format!(
        "floor rows ({}): no difference is expected there, they give the noise floor{size} and are no \
         primaries",
        iodyno_units::list(&names)
    ))
}
