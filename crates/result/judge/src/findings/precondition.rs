//! Reports storage that was preconditioned and did not become steady: its rates may still change in the trial.

use iodyno_model::{Finding, FindingKind, MadeTarget, Weight};

use super::{Evidence, finding, remedied};

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let parts = evidence.trial.parts.iter();
    let mut made = parts.filter_map(|part| part.environment.made.as_ref());
    made.find_map(unsteady).into_iter().collect()
}

fn unsteady(made: &MadeTarget) -> Option<Finding> {
    let fact = |name: &str| made.facts.get(name).map(String::as_str);
    if fact("precondition.steady") != Some("no") {
        return None;
    }
    let rounds = fact("precondition.rounds").unwrap_or("its rounds");
    let rates = fact("precondition.iops").filter(|rates| !rates.is_empty());
    let last = rates.map_or(String::new(), |rates| format!(" (the last ones: {rates})"));
    let text = format!(
        "the storage was not steady after {rounds} of preconditioning{last}: its rates may still change"
    );
    Some(remedied(
        finding(
            FindingKind::NotPreconditioned,
            Weight::Warning,
            text,
            "the last five rounds differ by more than 20 % of their mean, or rise or fall by more than 10 %".to_owned(),
        ),
        "set `precondition` to a longer time",
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn only_preconditioning_that_did_not_become_steady_is_reported() {
        let found = |steady: Option<&str>| {
            let mut facts: BTreeMap<String, String> = BTreeMap::new();
            if let Some(steady) = steady {
                facts.insert("precondition.steady".to_owned(), steady.to_owned());
                facts.insert(
                    "precondition.rounds".to_owned(),
                    "20 rounds of 3s".to_owned(),
                );
                facts.insert("precondition.iops".to_owned(), "900, 400".to_owned());
            }
            unsteady(&MadeTarget {
                facts,
                ..MadeTarget::default()
            })
        };
        assert_eq!((found(None), found(Some("yes"))), (None, None));
        let found = found(Some("no")).unwrap();
        assert_eq!(found.weight, Weight::Warning);
        assert!(
            found
                .text
                .contains("20 rounds of 3s of preconditioning (the last ones: 900, 400)")
        );
    }
}
