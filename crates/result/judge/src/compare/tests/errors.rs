//! Questions that the trials cannot answer.

use iodyno_model::{FactClass, Question};

use super::{around, both};
use crate::compare::compare;
use crate::testing::observations::{each, fact, rounds};

fn trials() -> Vec<iodyno_model::Observation> {
    let trials = both(
        rounds("ext4", "randread", &around(1000.0)),
        rounds("zfs", "randread", &around(1000.0)),
    );
    each(trials, |o| {
        o.facts.push(fact(FactClass::Host, "kernel", "6.18"))
    })
}

#[test]
fn lists_every_error_of_a_question_with_the_existing_names() {
    let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
    let question = Question {
        columns: "configuratoin".to_owned(),
        rows: vec!["bs".to_owned()],
        only: vec![pair("workload", "randraed")],
        floor: vec![pair("workload", "striped")],
        metrics: vec!["iosp".to_owned()],
        axis: vec!["kernels".to_owned()],
        margin: -0.1,
        alpha: 1.5,
        ..Question::default()
    };
    let error = compare("", &trials(), &question, &[]).unwrap_err();
    let text = error.to_string();
    for line in [
        "no trial has a dimension `configuratoin`, asked for as columns; there are configuration, run, workload \
         (did you mean `configuration`?)",
        "no trial has a dimension `bs`, asked for as rows; there are configuration, run, workload",
        "no trial has workload `randraed`, asked for as a condition; there are randread (did you mean `randread`?)",
        "no trial has workload `striped`, asked for as noise floor; there are randread",
        "no trial has a metric `iosp`; there are iops (did you mean `iops`?)",
        "no trial has a fact `kernels`, asked for as axis; there are kernel (did you mean `kernel`?)",
        "alpha is 1.5: it has to be above 0 and below 1",
        "the margin is -0.1: it has to be a share of 0 or more: 0.03 for 3 %",
    ] {
        assert!(
            text.lines().any(|said| said == line),
            "{line}\nnot in\n{text}"
        );
    }
    assert_eq!(error.faults.len(), 8);
}

#[test]
fn suggests_other_dimensions_for_a_single_column() {
    let check = |question: Question, text: &str| {
        let error = compare("", &trials(), &question, &[]).unwrap_err();
        assert_eq!(error.to_string(), text);
    };
    check(
        Question {
            columns: "workload".to_owned(),
            rows: Vec::new(),
            ..Question::default()
        },
        "all trials have workload `randread`: there is nothing to compare it with; what could be \
         compared: configuration (ext4, zfs)",
    );
    check(
        Question {
            baseline: Some("xfs".to_owned()),
            ..Question::default()
        },
        "no trial has configuration `xfs`, asked for as the baseline; there are ext4, zfs (did you mean `zfs`?)",
    );
    let alone = rounds("a", "w", &around(1000.0));
    let error = compare("", &alone, &Question::default(), &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "all trials have configuration `a`: there is nothing to compare it with; add a second `--on`, or name two runs"
    );
    let error = compare("", &[], &Question::default(), &[]).unwrap_err();
    assert_eq!(error.to_string(), "there are no trials to compare");
}

#[test]
fn treats_several_values_of_a_dimension_as_alternatives() {
    let trials = ["ext4", "xfs", "zfs"]
        .map(|name| rounds(name, "job", &around(1000.0)))
        .concat();
    let only = |pairs: &[(&str, &str)]| Question {
        only: pairs
            .iter()
            .map(|(d, v)| ((*d).to_owned(), (*v).to_owned()))
            .collect(),
        ..Question::default()
    };
    let question = only(&[
        ("configuration", "ext4"),
        ("configuration", "zfs"),
        ("workload", "job"),
    ]);
    let comparison = compare("", &trials, &question, &[]).unwrap();
    assert_eq!(comparison.columns, ["ext4", "zfs"]);
    let contradiction = [
        trials,
        each(rounds("btrfs", "job", &around(1.0)), |o| {
            o.dimensions.insert("run".to_owned(), "2".to_owned());
        }),
    ]
    .concat();
    let question = only(&[("configuration", "btrfs"), ("run", "1")]);
    let error = compare("", &contradiction, &question, &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no trial is left where configuration=btrfs, run=1"
    );
}
