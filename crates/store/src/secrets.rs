//! Masks secrets in what is stored, and removes names from what is exported.

use std::borrow::Cow;

use iodyno_model::secret::{mask, masked};
use iodyno_model::{Environment, Outcome, Plan, Trial};
use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

use crate::StoreError;

/// A record without its secrets.
pub(crate) fn without<T: Serialize + DeserializeOwned + Clone>(
    what: &'static str,
    record: &T,
) -> Result<T, StoreError> {
    let failed = |source| StoreError::NotStorable { what, source };
    let whole = serde_json::to_value(record).map_err(failed)?;
    let mut value = whole.clone();
    mask(&mut value);
    match value == whole {
        true => Ok(record.clone()),
        false => serde_json::from_value(value).map_err(failed),
    }
}

/// A plan without its secrets. Results of other tools are not executed, and can be large: such a plan stays as it is.
pub(crate) fn plan_without(plan: &Plan) -> Result<Cow<'_, Plan>, StoreError> {
    Ok(match plan.imported {
        Some(_) => Cow::Borrowed(plan),
        None => Cow::Owned(without("the plan", plan)?),
    })
}

/// Masks the texts of a trial in which commands and their output can be. Its figures have none, and can be large.
pub(crate) fn mask_trial(trial: &mut Trial) -> Result<(), StoreError> {
    let hide = |text: &mut String| {
        if let Cow::Owned(other) = masked(text) {
            *text = other;
        }
    };
    if let Outcome::Interrupted(why) | Outcome::Failed(why) | Outcome::Refused(why) =
        &mut trial.outcome
    {
        hide(why);
    }
    for part in &mut trial.parts {
        part.environment = without("the environment", &part.environment)?;
        part.notes.iter_mut().for_each(hide);
    }
    for finding in &mut trial.findings {
        hide(&mut finding.text);
    }
    Ok(())
}

/// A plan without the command line, and without the users and hosts of its nodes.
pub(crate) fn unnamed_plan(plan: Plan) -> Plan {
    let mut plan = Plan {
        command: Vec::new(),
        ..plan
    };
    for node in &mut plan.nodes {
        if let Some(rest) = node.at.strip_prefix("ssh://") {
            node.at = format!("ssh://{}", pseudonym(rest));
        }
    }
    plan
}

/// A trial without the names of hosts, which one digest for each replaces.
pub(crate) fn unnamed_trial(trial: Trial) -> Trial {
    let mut trial = trial;
    for part in &mut trial.parts {
        unname(&mut part.environment);
    }
    trial
}

fn unname(environment: &mut Environment) {
    if !environment.host.is_empty() {
        environment.host = pseudonym(&environment.host);
    }
}

/// Equal names have equal pseudonyms, so that trials of one host are still known as such. A pseudonym is its own.
fn pseudonym(name: &str) -> String {
    let (begin, digits) = name.split_at_checked(BEGIN.len()).unwrap_or_default();
    let known = begin == BEGIN
        && digits.len() == DIGITS
        && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    match known {
        true => name.to_owned(),
        false => {
            format!("{BEGIN}{:016x}", xxh3_64(name.as_bytes()))[..BEGIN.len() + DIGITS].to_owned()
        }
    }
}

const BEGIN: &str = "host-";
const DIGITS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pseudonym_is_the_same_for_the_same_name_and_stays() {
        let one = pseudonym("ada@db1");
        assert!(one.starts_with("host-") && one.len() == 13, "{one}");
        assert_eq!(one, pseudonym("ada@db1"));
        assert_ne!(one, pseudonym("ada@db2"));
        assert_eq!(pseudonym(&one), one);
    }
}
