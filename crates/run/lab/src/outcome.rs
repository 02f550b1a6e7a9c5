//! The outcome of a trial from those of its nodes.

use iodyno_model::{Diagnostic, Outcome};

/// An outcome with other words for its reason.
pub(crate) fn with_reason(outcome: Outcome, words: impl Fn(&str) -> String) -> Outcome {
    match outcome {
        Outcome::Completed => Outcome::Completed,
        Outcome::Interrupted(why) => Outcome::Interrupted(words(&why)),
        Outcome::Failed(why) => Outcome::Failed(words(&why)),
        Outcome::Refused(why) => Outcome::Refused(words(&why)),
    }
}

/// The outcome of a trial from those of its nodes: the worst one. Nodes that did not start because another one failed
/// are interrupted, and are then not mentioned.
pub(crate) fn worst(outcomes: Vec<Outcome>) -> Outcome {
    let rank = |outcome: &Outcome| match outcome {
        Outcome::Completed => 0,
        Outcome::Interrupted(_) => 1,
        Outcome::Failed(_) => 2,
        Outcome::Refused(_) => 3,
    };
    let Some(worst) = outcomes.iter().max_by_key(|outcome| rank(outcome)).cloned() else {
        return Outcome::Completed;
    };
    let same = outcomes
        .iter()
        .filter(|outcome| rank(outcome) == rank(&worst));
    let why: Vec<&str> = same.filter_map(Outcome::reason).collect();
    with_reason(worst, |_| why.join("; "))
}

/// All messages on one line.
pub(crate) fn reasons(faults: &[Diagnostic]) -> String {
    let lines = faults.iter().flat_map(|fault| fault.message.lines());
    lines.map(str::trim).collect::<Vec<_>>().join("; ")
}
