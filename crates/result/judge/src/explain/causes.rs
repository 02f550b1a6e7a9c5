//! What may be behind a part of the ratio: facts that differ and series that differ, by what they act on.
//!
//! A fact is named only beside a measured quantity on which it acts, and as a candidate: that both differ does not show
//! that one is the reason of the other.

use iodyno_model::{Cause, Change, Contrast, Difference, FactClass, Observation};

use super::quantity::{Acts, Quantity, SERIES};
use Acts::{Amount, Bytes, Cpu, CpuWait, Parallel, Queue, Size, Syncs, Time, Waits};

/// Facts by name, and what they act on. Options of layers begin with the kind of the layer.
const FACTS: &[(&str, &[Acts])] = &[
    ("bs", &[Bytes, Size, Amount]),
    ("block", &[Bytes, Size]),
    ("rw", &[Amount, Size, Time]),
    ("size", &[Amount, Time]),
    ("file size", &[Amount, Time]),
    ("memory", &[Amount, Waits]),
    ("direct", &[Amount, Size, Cpu, Waits, Syncs]),
    ("open flags", &[Amount, Size, Cpu, Waits, Syncs]),
    ("content", &[Amount, Cpu]),
    ("depth", &[Parallel, Time]),
    ("jobs", &[Parallel, Time, CpuWait]),
    ("threads", &[Parallel, Time, CpuWait]),
    ("engine", &[Cpu, Parallel]),
    ("rate", &[Waits]),
    ("sync", &[Syncs, Waits, Amount]),
    ("fsync", &[Syncs, Amount]),
    ("fdatasync", &[Syncs, Amount]),
    ("end_fsync", &[Syncs]),
    ("cpus", &[Cpu, CpuWait]),
    ("cpus_allowed", &[Cpu, CpuWait]),
    ("cpu", &[Cpu]),
    ("governor", &[Cpu]),
    ("virtualisation", &[Cpu, Time, CpuWait]),
    ("kernel", &[Cpu, Waits]),
    ("iodyno", &[Cpu]),
    ("requests traced", &[Cpu]),
    ("settled", &[Amount]),
    ("fullness", &[]),
    ("throttle", &[Waits, Time]),
    ("delay", &[Time]),
    ("dm", &[Time, Waits]),
    ("md", &[Amount, Time]),
    ("loop", &[Amount, Size, Time]),
    ("zram", &[Time, Cpu]),
    ("mirror", &[Amount, Size, Time, Queue, Waits]),
    ("sim", &[Amount, Size, Time, Queue]),
    ("simulated target", &[Amount, Size, Time, Queue]),
    ("layers", &[Amount, Size, Time, Waits]),
    ("stack", &[Amount, Size, Time, Waits]),
    ("device", &[Time]),
    ("scheduler", &[Time, Size]),
    ("nr_requests", &[Time, Waits]),
    ("max_sectors_kb", &[Size]),
    ("read_ahead_kb", &[Amount, Size]),
    ("write cache", &[Time, Syncs]),
    ("setup", &[Amount, Time, Cpu, CpuWait, Waits]),
    ("env", &[Amount, Time, Cpu, CpuWait, Waits]),
];

/// What a fact acts on.
fn acts(fact: &Difference) -> &'static [Acts] {
    let kind = fact.name.split('.').next().unwrap_or_default();
    let named = |name: &str| FACTS.iter().find(|(known, _)| *known == name);
    if let Some((_, acts)) = named(&fact.name).or_else(|| named(kind)) {
        return acts;
    }
    if fact.name.starts_with("fsync") {
        return &[Syncs, Amount];
    }
    match fact.class {
        // File systems with their options.
        FactClass::Target => &[Amount, Size, Cpu, Waits, Syncs],
        FactClass::Host => &[Cpu, CpuWait],
        FactClass::Program => &[Cpu],
        FactClass::Workload => &[Amount],
        FactClass::Ending => &[],
    }
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

/// Whether the fact can be behind a change of the quantity.
pub(super) fn concerns(fact: &Difference, quantity: Quantity) -> bool {
    let own = acts(fact);
    quantity.changed_by().iter().any(|acts| own.contains(acts))
}

/// Series that can be behind a quantity, by name; a larger value makes ops slower.
const BEHIND: &[(&str, &[Acts])] = &[
    ("other_bytes", &[Time]),
    ("read_request_size", &[Size]),
    ("write_request_size", &[Size]),
    ("read_amplification", &[Amount, Waits]),
    ("write_amplification", &[Amount, Waits]),
    ("device_flushes", &[Syncs, Waits, Time]),
    ("io_limit", &[Waits, Time]),
    ("dirty_throttled", &[Waits]),
    ("reclaims", &[Waits, Cpu]),
    ("refaults", &[Amount]),
    ("memory_limit", &[Waits, Amount]),
    ("server_queueing", &[Waits]),
    ("server_service", &[Waits]),
    ("cpu_quota", &[Waits, CpuWait]),
    // Interrupts, and threads of the kernel that do the work of a device, need a CPU as well.
    ("other_cpus", &[CpuWait, Cpu, Time]),
    ("stolen_cpus", &[CpuWait, Cpu]),
    ("worker_switches", &[Cpu]),
    ("device_in_flight", &[Queue]),
    ("busiest_device", &[Queue]),
    ("moves", &[Time]),
];

/// The facts and series that differ and can be behind a term: attributes under test, then what was measured, then other
/// facts. `slower`: the term makes the candidate slower.
pub(super) fn behind(
    quantity: Quantity,
    slower: bool,
    differing: &[Difference],
    series: &[(Quantity, Contrast)],
) -> Vec<Cause> {
    let acts = quantity.changed_by();
    let measured = BEHIND.iter().filter_map(|(name, of)| {
        let named =
            |own: &Quantity| matches!(own, Quantity::Series(it) if SERIES[*it].name == *name);
        let (_, contrast) = series.iter().find(|(own, _)| named(own))?;
        let fits = contrast.differs
            && is_notable(contrast)
            && grows(contrast) == slower
            && of.iter().any(|it| acts.contains(it));
        fits.then(|| Cause::Series(contrast.clone()))
    });
    let facts = |axis: bool| {
        let own = differing.iter().filter(move |fact| fact.axis == axis);
        own.filter(|fact| concerns(fact, quantity)).map(cause)
    };
    facts(true).chain(measured).chain(facts(false)).collect()
}

pub(super) fn cause(fact: &Difference) -> Cause {
    Cause::Fact {
        name: fact.name.clone(),
        values: fact.values.clone(),
        axis: fact.axis,
    }
}

fn grows(contrast: &Contrast) -> bool {
    contrast.change.is_some_and(|change| match change {
        Change::Ratio(ratio) => ratio.value > 1.0,
        Change::Difference(difference) => difference.value > 0.0,
    })
}

/// A smaller ratio is not worth a line.
const MIN_RATIO: f64 = 1.05;

/// Whether the difference is large enough to be named.
pub(super) fn is_notable(contrast: &Contrast) -> bool {
    contrast.change.is_some_and(|change| match change {
        Change::Ratio(ratio) => ratio.value.max(ratio.value.recip()) >= MIN_RATIO,
        Change::Difference(difference) => difference.value != 0.0,
    })
}
