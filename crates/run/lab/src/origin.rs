//! Whether two plans are the same apart from changes made by a run. Used for runs that this user began on this host,
//! and for an experiment that is given again.

use iodyno_model::printable::on_one_line;
use iodyno_model::{Plan, Run, TrialState, Workload};
use iodyno_secrets::mask;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The largest number of differences that an error lists.
const MOST: usize = 20;

/// A plan without texts for people and how often its verdict was seen.
fn without_texts(plan: &Plan) -> Plan {
    let mut plan = Plan {
        name: String::new(),
        command: Vec::new(),
        looks: Vec::new(),
        ..plan.clone()
    };
    plan.question.words = None;
    for program in plan.nodes.iter_mut().filter_map(|it| it.program.as_mut()) {
        // Its content is compared.
        program.path.clear();
    }
    for workload in &mut plan.workloads {
        workload.sources.clear();
        for job in &mut workload.jobs {
            job.place = None;
        }
    }
    plan
}

/// A plan without its numbers of rounds.
fn without_rounds(mut plan: Plan) -> Plan {
    plan.rounds = 0;
    plan.stopping.least_rounds = 0;
    for workload in &mut plan.workloads {
        workload.rounds = None;
    }
    plan
}

/// A stored plan with the given numbers of rounds of workloads that a rule of their own can have ended earlier.
fn with_ended_workloads(mut stored: Plan, given: &Plan) -> Plan {
    for (own, workload) in stored.workloads.iter_mut().zip(&given.workloads) {
        let planned = workload.rounds.unwrap_or(given.rounds);
        if is_ruled(workload) && own.rounds.is_some_and(|rounds| rounds <= planned) {
            own.rounds = workload.rounds;
        }
    }
    stored
}

/// Whether a rule of its own can end a workload before its last round.
fn is_ruled(workload: &Workload) -> bool {
    workload.search.is_some() || !workload.stopping.is_none()
}

/// Whether a run, or one of its workloads, has a result of the last one of so many rounds.
fn has_result(run: &Run, rounds: u32, workload: Option<usize>) -> bool {
    run.trials.iter().any(|trial| {
        let of = |workload| run.plan.place(trial.key.cell).1 == workload;
        trial.state == TrialState::Completed
            && trial.key.round.checked_add(1) == Some(rounds)
            && workload.is_none_or(of)
    })
}

/// The number of rounds of a run that continues with a given plan: that of its plan, unless a rule of the given one
/// can have ended it before.
pub(crate) fn rounds(given: &Plan, run: &Run) -> u32 {
    let stopping = &given.stopping;
    let ruled = stopping.width.is_some()
        || stopping.max_time_ns.is_some()
        || given.workloads.iter().any(is_ruled);
    match ruled && has_result(run, run.summary.rounds, None) {
        true => run.summary.rounds.min(run.plan.rounds),
        false => run.plan.rounds,
    }
}

fn document(plan: Plan) -> Value {
    serde_json::to_value(plan).unwrap_or_default()
}

/// The digest of a plan. `None` if it has secrets that are masked in stored plans: a stored one cannot be run.
pub fn fingerprint(plan: &Plan) -> Option<String> {
    let plan = Plan {
        seed: 0,
        ..without_rounds(without_texts(plan))
    };
    let value = document(plan);
    let mut stored = value.clone();
    mask(&mut stored);
    if stored != value || value.is_null() || has_mask(&value) {
        return None;
    }
    let digest = Sha256::digest(value.to_string().as_bytes());
    Some(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn has_mask(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(iodyno_secrets::MASK),
        Value::Array(values) => values.iter().any(has_mask),
        Value::Object(members) => members.values().any(has_mask),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A given plan, with the changes that the run itself has made to its stored plan. That a rule ended a workload counts
/// only with a result of its last round.
pub(crate) fn adopted(given: &Plan, run: &Run) -> Plan {
    let stored = &run.plan;
    let mut plan = Plan {
        name: stored.name.clone(),
        command: stored.command.clone(),
        rounds: stored.rounds,
        looks: stored.looks.clone(),
        seed: stored.seed,
        ..given.clone()
    };
    plan.stopping.least_rounds = stored.stopping.least_rounds;
    for (place, (own, stored)) in plan.workloads.iter_mut().zip(&stored.workloads).enumerate() {
        let earlier = |rounds: &u32| own.rounds.is_none_or(|most| *rounds < most);
        if is_ruled(own)
            && let Some(ended) = stored.rounds.filter(earlier)
            && has_result(run, ended, Some(place))
        {
            own.rounds = Some(ended);
        }
    }
    plan
}

/// A stored plan and a given one, without what may differ. `rounds`: whether the numbers of rounds are compared: not if
/// the user gives a number.
pub(crate) fn compared(stored: &Plan, given: &Plan, rounds: bool) -> [Value; 2] {
    let stored = with_ended_workloads(without_texts(stored), given);
    [stored, without_texts(given)].map(|plan| match rounds {
        true => document(plan),
        false => document(without_rounds(plan)),
    })
}

/// What differs between them, one line each. Secrets are compared by their masks.
pub(crate) fn differences(stored: &Plan, given: &Plan, rounds: bool) -> Vec<String> {
    let [mut one, mut other] = compared(stored, given, rounds);
    mask(&mut one);
    mask(&mut other);
    let mut found = Vec::new();
    differ("", &one, &other, &mut found);
    let more = found.len().saturating_sub(MOST);
    found.truncate(MOST);
    if more > 0 {
        found.push(format!("… and {more} more"));
    }
    found
}

fn differ(at: &str, stored: &Value, given: &Value, found: &mut Vec<String>) {
    let key = |name: &str| match at {
        "" => name.to_owned(),
        at => format!("{at}.{name}"),
    };
    match (stored, given) {
        (Value::Object(one), Value::Object(other)) => {
            let names = one
                .keys()
                .chain(other.keys().filter(|name| !one.contains_key(*name)));
            for name in names {
                let of = |members: &serde_json::Map<String, Value>| {
                    members.get(name).cloned().unwrap_or_default()
                };
                differ(&key(name), &of(one), &of(other), found);
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            for index in 0..one.len().max(other.len()) {
                let of = |values: &[Value]| values.get(index).cloned().unwrap_or_default();
                differ(&format!("{at}[{index}]"), &of(one), &of(other), found);
            }
        }
        (one, other) if one == other => {}
        (one, other) => found.push(format!(
            "{}: {} in the run, {} in the file",
            on_one_line(at),
            shown(one),
            shown(other)
        )),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        other => {
            let text = on_one_line(&other.to_string());
            match text.char_indices().nth(80) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use iodyno_model::{Configuration, Provision, Target};

    use super::*;
    use crate::testing::plan;

    #[test]
    fn what_a_run_changes_does_not_change_the_fingerprint() {
        let begun = plan(2, 1, 3);
        let mut now = Plan {
            name: "other".to_owned(),
            command: vec!["x".to_owned()],
            rounds: 9,
            looks: vec![3],
            ..begun.clone()
        };
        now.workloads[0].rounds = Some(2);
        assert!(fingerprint(&begun).is_some());
        assert_eq!(fingerprint(&now), fingerprint(&begun));
        now.workloads[0].jobs[0].clones += 1;
        assert_ne!(fingerprint(&now), fingerprint(&begun));
        assert_eq!(
            differences(&begun, &now, false),
            ["workloads[0].jobs[0].clones: 1 in the run, 2 in the file"]
        );
    }

    #[test]
    fn a_plan_with_secrets_has_no_fingerprint_and_is_compared_by_masks() {
        let with = |setup: &str| {
            let mut plan = plan(1, 1, 1);
            plan.configurations = vec![Configuration::new(
                "c",
                Target::Made(Box::new(Provision {
                    setup: Some(setup.to_owned()),
                    ..Provision::default()
                })),
            )];
            plan
        };
        let (given, stored) = (with("m password=x"), with("m password=*****"));
        assert_eq!((fingerprint(&given), fingerprint(&stored)), (None, None));
        assert_eq!(differences(&stored, &given, true), Vec::<String>::new());
        assert_eq!(
            differences(&with("n password=*****"), &given, true),
            [
                "configurations[0].target.made.setup: \"n password=*****\" in the run, \"m password=*****\" in the file"
            ]
        );
    }

    #[test]
    fn a_workload_can_have_ended_by_its_own_rule_only() {
        let given = plan(1, 2, 9);
        let mut stored = given.clone();
        stored.workloads[1].rounds = Some(4);
        assert_eq!(
            differences(&stored, &given, true),
            ["workloads[1].rounds: 4 in the run, nothing in the file"]
        );
        assert_eq!(differences(&stored, &given, false), Vec::<String>::new());
        let ruled = |plan: &Plan| {
            let mut plan = plan.clone();
            plan.workloads[1].stopping.width = Some(0.1);
            plan
        };
        assert_eq!(
            differences(&ruled(&stored), &ruled(&given), true),
            Vec::<String>::new()
        );
        stored.workloads[1].rounds = Some(10);
        assert_eq!(
            differences(&ruled(&stored), &ruled(&given), true),
            ["workloads[1].rounds: 10 in the run, nothing in the file"]
        );
    }
}
