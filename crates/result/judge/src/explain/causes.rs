//! Candidate causes: facts and series that differ and act on a part that changed in this direction.
//!
//! That both differ does not show that one is the reason of the other. Facts that by themselves state what was changed
//! come first, then what was measured, then facts that may have changed anything.

use iodyno_model::{Cause, Difference, FactClass, Observation, Quantity};

use super::acts::{ABOVE, Acts, CPU, DEVICE, FLIGHT, LAYERS, SERVER, SYNC, TIME, WAIT};
use super::series::SERIES;

/// Causes of a comparison, at most.
const MAX_CAUSES: usize = 3;

/// A series that differs by a smaller share of its larger side is not a cause.
const MIN_SHARE: f64 = 0.1;

/// Facts by name and what they act on, in the order of candidates. Options of layers begin with the kind of the layer.
const FACTS: &[(&str, Acts)] = &[
    ("depth", FLIGHT | DEVICE | LAYERS | ABOVE),
    ("jobs", FLIGHT | TIME),
    ("threads", FLIGHT | TIME),
    ("rate", FLIGHT | TIME),
    ("sync", SYNC | DEVICE | LAYERS | ABOVE),
    ("fsync", SYNC | DEVICE | LAYERS | ABOVE),
    ("fdatasync", SYNC | DEVICE | LAYERS | ABOVE),
    ("direct", TIME),
    ("bs", TIME),
    ("rw", TIME),
    ("random_distribution", TIME),
    ("cpus_allowed", CPU | WAIT | ABOVE | FLIGHT),
    ("engine", FLIGHT | CPU | WAIT | ABOVE),
    ("file system", TIME),
    ("layers", TIME),
    ("simulated target", TIME),
    ("throttle", ABOVE | LAYERS | DEVICE | SYNC),
    ("delay", DEVICE | LAYERS | ABOVE | SYNC),
    ("stack", TIME),
    ("device", DEVICE | LAYERS | SYNC),
    ("scheduler", DEVICE | LAYERS | SYNC | ABOVE),
    ("nr_requests", DEVICE | LAYERS | SYNC | ABOVE),
    ("max_sectors_kb", DEVICE | LAYERS | ABOVE),
    ("read_ahead_kb", DEVICE | LAYERS | ABOVE | CPU),
    ("write cache", DEVICE | SYNC),
    ("memory", DEVICE | LAYERS | ABOVE | CPU),
    ("cpus", CPU | WAIT | ABOVE | SERVER),
    ("norandommap", TIME),
];

/// Facts that can have changed anything, or are consequences of the measured work.
const OPAQUE: &[&str] = &[
    "setup",
    "env",
    "fullness",
    "settled",
    "iodyno",
    "requests traced",
];

/// What a fact acts on, its rank and its place among those of its rank.
fn known(fact: &Difference) -> (Acts, usize, usize) {
    let kind = fact.name.split('.').next().unwrap_or_default();
    let position = |name: &str| FACTS.iter().position(|(known, _)| *known == name);
    let opaque = OPAQUE.contains(&kind);
    if let Some(place) = position(&fact.name).or_else(|| position(kind)) {
        return (FACTS[place].1, 0, place);
    }
    match fact.class {
        FactClass::Ending => (0, 2, 0),
        FactClass::Target | FactClass::Workload if !opaque => (TIME, 0, FACTS.len()),
        _ => (TIME, 2, 0),
    }
}

/// Facts that follow from others that differ: they do not state anything of their own.
fn follows(fact: &Difference, all: &[Difference]) -> bool {
    let differs = |name: &str| all.iter().any(|it| it.name == name);
    let system = all.iter().find(|it| it.name == "file system");
    let of_system = system.is_some_and(|system| {
        let (one, other) = &system.values;
        let begins = |kind: &String| !kind.is_empty() && fact.name.starts_with(kind.as_str());
        begins(one) || begins(other) || fact.name == "mount options"
    });
    let of_layers = [
        "stack",
        "device",
        "scheduler",
        "nr_requests",
        "max_sectors_kb",
        "read_ahead_kb",
        "write cache",
    ];
    // What a mount option sets is among the options of the file system.
    let kind = fact.name.strip_suffix(" options");
    let of_mount = kind.is_some_and(|kind| differs(&format!("{kind}.mount")));
    of_system
        || of_mount
        || system.is_some() && ["layers", "stack"].contains(&fact.name.as_str())
        || differs("layers") && of_layers.contains(&fact.name.as_str())
}

/// Facts of targets that all trials of one side have and none of the other: the options of a layer that only one side
/// has.
pub(super) fn one_sided(baseline: &[&Observation], candidate: &[&Observation]) -> Vec<Difference> {
    let all = |name: &str, side: &[&Observation]| -> Option<String> {
        let value = |trial: &&Observation| {
            let mut facts = trial.facts.iter();
            let fact = facts.find(|fact| fact.name == name)?;
            Some(fact.value.clone())
        };
        let values: Option<Vec<String>> = side.iter().map(value).collect();
        values?.into_iter().next()
    };
    let none = |name: &str, side: &[&Observation]| {
        let mut facts = side.iter().flat_map(|trial| &trial.facts);
        !facts.any(|fact| fact.name == name)
    };
    let mut found: Vec<Difference> = Vec::new();
    let facts = baseline
        .iter()
        .chain(candidate)
        .flat_map(|trial| &trial.facts);
    for fact in facts.filter(|fact| fact.class == FactClass::Target) {
        let name = fact.name.as_str();
        let absent = || "none".to_owned();
        let values = match (none(name, baseline), none(name, candidate)) {
            (true, false) => all(name, candidate).map(|value| (absent(), value)),
            (false, true) => all(name, baseline).map(|value| (value, absent())),
            _ => None,
        };
        // An option that is not given, or has no effect, tells nothing.
        let telling = |values: &(String, String)| {
            let empty = ["none", "default", "no limit", "all"];
            ![&values.0, &values.1]
                .iter()
                .all(|it| empty.contains(&it.as_str()))
        };
        if let Some(values) = values.filter(telling)
            && found.iter().all(|known| known.name != fact.name)
        {
            found.push(Difference {
                name: fact.name.clone(),
                class: fact.class,
                values,
                axis: true,
            });
        }
    }
    found
}

/// The candidates. `acts`: what changes the parts that changed; `slower`: they make the candidate slower.
pub(super) fn causes(
    acts: Acts,
    slower: bool,
    facts: &[Difference],
    series: &[Quantity],
) -> Vec<Cause> {
    let own = facts.iter().filter(|fact| !follows(fact, facts));
    let mut own: Vec<(&Difference, (Acts, usize, usize))> =
        own.map(|fact| (fact, known(fact))).collect();
    own.retain(|(_, (on, ..))| on & acts != 0);
    own.sort_by_key(|(fact, (_, rank, place))| (*rank, !fact.axis, *place));
    let measured = SERIES.iter().filter(|it| it.acts & acts != 0);
    let measured = measured.filter_map(|it| {
        let quantity = series.iter().find(|own| own.name == it.name)?;
        let (one, other) = quantity.sides;
        let by = quantity.difference.value;
        let large = by.abs() >= it.least.max(MIN_SHARE * one.abs().max(other.abs()));
        (quantity.differs() && large && (by > 0.0) == slower)
            .then(|| Cause::Series(quantity.clone()))
    });
    let of_rank = |opaque: bool| {
        let own = own
            .iter()
            .filter(move |(_, (_, rank, _))| (*rank == 2) == opaque);
        own.map(|(fact, _)| cause(fact))
    };
    let mut found: Vec<Cause> = Vec::new();
    for cause in of_rank(false).chain(measured).chain(of_rank(true)) {
        if found.len() < MAX_CAUSES && !found.iter().any(|it| is_same(it, &cause)) {
            found.push(cause);
        }
    }
    found
}

/// Whether it is the same fact with the same values, or the same series.
pub(super) fn is_same(one: &Cause, other: &Cause) -> bool {
    match (one, other) {
        (Cause::Series(one), Cause::Series(other)) => one.name == other.name,
        (
            Cause::Fact { name, values, .. },
            Cause::Fact {
                name: other,
                values: theirs,
                ..
            },
        ) => name == other && values == theirs,
        _ => false,
    }
}

fn cause(fact: &Difference) -> Cause {
    Cause::Fact {
        name: fact.name.clone(),
        values: fact.values.clone(),
        axis: fact.axis,
    }
}
