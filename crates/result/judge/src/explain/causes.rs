//! Candidate causes: facts and series that differ and act on a part that changed in this direction.
//!
//! That both differ does not show that one is the reason of the other. Facts that by themselves state what was changed
//! come first, then what was measured, then facts that may have changed anything.

use iodyno_model::ordered::distinct;
use iodyno_model::{Cause, Difference, FactClass, Quantity, Question};

use super::MIN_SHARE;
use super::acts::{ABOVE, Acts, CPU, DEVICE, FLIGHT, LAYERS, SERVER, STORAGE, SYNC, TIME, WAIT};
use super::series::Series;
use crate::compare::{Cell, class_is_axis};

/// Causes of a comparison, at most.
const MAX_CAUSES: usize = 3;

/// Facts by name and what they act on, in the order of candidates. Options of layers begin with the kind of the layer.
const FACTS: &[(&[&str], Acts)] = &[
    (&["depth"], FLIGHT | DEVICE | LAYERS | ABOVE),
    (&["jobs", "threads", "rate"], FLIGHT | TIME),
    (&["sync", "fsync", "fdatasync"], STORAGE),
    (&["direct", "bs", "rw", "random_distribution"], TIME),
    (&["cpus_allowed"], CPU | WAIT | ABOVE | FLIGHT),
    (&["engine"], FLIGHT | CPU | WAIT | ABOVE),
    (&["file system", "layers", "simulated target"], TIME),
    (&["throttle", "delay"], STORAGE),
    (&["stack"], TIME),
    (&["device"], DEVICE | LAYERS | SYNC),
    (&["scheduler", "nr_requests"], STORAGE),
    (&["max_sectors_kb"], DEVICE | LAYERS | ABOVE),
    (&["read_ahead_kb"], DEVICE | LAYERS | ABOVE | CPU),
    (&["write cache"], DEVICE | SYNC),
    (&["memory"], DEVICE | LAYERS | ABOVE | CPU),
    (&["cpus"], CPU | WAIT | ABOVE | SERVER),
    (&["norandommap"], TIME),
];

/// What a fact acts on, whether it may have changed anything, and its place among the others.
fn known(fact: &Difference) -> (Acts, bool, usize) {
    let kind = kind(&fact.name);
    let named = |name: &str| FACTS.iter().position(|(names, _)| names.contains(&name));
    if let Some(place) = named(&fact.name).or_else(|| named(kind)) {
        return (FACTS[place].1, false, place);
    }
    // They can have changed anything, or are consequences of the measured work.
    let opaque = matches!(
        kind,
        "setup" | "env" | "fullness" | "settled" | "iodyno" | "requests traced"
    );
    match fact.class {
        FactClass::Ending => (0, true, 0),
        FactClass::Target | FactClass::Workload if !opaque => (TIME, false, FACTS.len()),
        _ => (TIME, true, 0),
    }
}

/// The layer of an option, such as `zfs` of `zfs.properties.compression`; of other facts, the name.
fn kind(name: &str) -> &str {
    name.split_once('.').map_or(name, |(kind, _)| kind)
}

/// Facts that follow from others that differ: they do not state anything of their own.
fn follows(fact: &Difference, all: &[Difference]) -> bool {
    let name = fact.name.as_str();
    let differs = |name: &str| all.iter().any(|it| it.name == name);
    let is_stack = matches!(name, "stack" | "device" | "scheduler" | "write cache");
    let is_queue = name.ends_with("_kb") || matches!(name, "nr_requests" | "rotational");
    // What a mount option sets is among the options of the file system.
    let of_mount = name.strip_suffix(" options");
    let system = all.iter().find(|it| it.name == "file system");
    let of_system = system.is_some_and(|system| {
        let (one, other) = &system.values;
        let own = name.trim_start_matches("fuse.");
        let begins =
            |it: &String| !it.is_empty() && own.starts_with(it.trim_start_matches("fuse."));
        begins(one) || begins(other) || ["mount options", "layers", "stack"].contains(&name)
    });
    of_system
        || of_mount.is_some_and(|kind| differs(&format!("{kind}.mount")))
        || differs("layers") && (is_stack || is_queue)
}

/// The facts in which the sides of a cell differ. Those of targets that all trials of one side have and none of the other
/// are among them, such as the options of a layer that only one side has.
pub(super) fn facts(cell: &Cell, question: &Question) -> Vec<Difference> {
    let sides = [&cell.sides.0, &cell.sides.1];
    let all = sides.into_iter().flatten();
    let all = all.flat_map(|trial| &trial.observation.facts);
    let values = |name: &str| {
        sides.map(|side| -> Vec<&str> {
            let facts = side.iter().flat_map(|trial| &trial.observation.facts);
            let own = facts.filter(|fact| fact.name == name);
            own.map(|fact| fact.value.as_str()).collect()
        })
    };
    // An option that is not given, or has no effect, states nothing.
    let no_effect = ["none", "default", "no limit", "all"];
    let one_sided = |name: &String| {
        let [one, other] = values(name);
        let values = match (one.as_slice(), other.as_slice()) {
            ([], [value, ..]) if other.len() == sides[1].len() => ("none", *value),
            ([value, ..], []) if one.len() == sides[0].len() => (*value, "none"),
            _ => return None,
        };
        if no_effect.contains(&values.0) && no_effect.contains(&values.1) {
            return None;
        }
        // The configuration states its layers and their options; other facts follow from the storage.
        let option = name.contains('.') && !name.contains(' ');
        let stated = option || name == "layers" || name == "simulated target";
        Some(Difference {
            name: name.clone(),
            class: FactClass::Target,
            values: (values.0.to_owned(), values.1.to_owned()),
            axis: stated && class_is_axis(FactClass::Target, question),
        })
    };
    let names = all.filter(|fact| fact.class == FactClass::Target);
    let names = distinct(names.map(|fact| &fact.name)).into_iter();
    let own = cell.differing.iter().cloned();
    own.chain(names.filter_map(one_sided)).collect()
}

/// The candidates. `acts`: what changes the parts that changed; `slower`: they make the candidate slower.
pub(super) fn causes(
    acts: Acts,
    slower: bool,
    facts: &[Difference],
    series: &[(&Series, Quantity)],
) -> Vec<Cause> {
    let own = facts.iter().filter(|fact| !follows(fact, facts));
    let own = own.map(|fact| (known(fact), fact));
    let mut own: Vec<_> = own.filter(|((on, ..), _)| on & acts != 0).collect();
    own.sort_by_key(|((_, opaque, place), fact)| (*opaque, !fact.axis, *place));
    let of_rank = |opaque: bool| {
        let own = own.iter().filter(move |((_, it, _), _)| *it == opaque);
        own.map(|(_, fact)| Cause::Fact((*fact).clone()))
    };
    let measured = series.iter().filter(|(it, _)| it.acts & acts != 0);
    let measured = measured.filter_map(|(it, own)| {
        let (one, other) = own.sides;
        let by = own.difference.value;
        let large = by.abs() >= it.least.max(MIN_SHARE * one.abs().max(other.abs()));
        (own.differs() && large && (by > 0.0) == slower).then(|| Cause::Series(own.clone()))
    });
    let all = of_rank(false).chain(measured).chain(of_rank(true));
    all.take(MAX_CAUSES).collect()
}

/// Whether it is the same fact with the same values, or the same series.
pub(super) fn is_same(one: &Cause, other: &Cause) -> bool {
    match (one, other) {
        (Cause::Series(one), Cause::Series(other)) => one.name == other.name,
        (Cause::Fact(one), Cause::Fact(other)) => {
            (&one.name, &one.values) == (&other.name, &other.values)
        }
        _ => false,
    }
}
