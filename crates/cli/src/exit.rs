//! The few exit codes, and which of several wins.

use std::process::ExitCode;

use iodyno_model::{Finding, FindingKind, Outcome, Trial};

/// What the program ends with. A later one wins over an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// All is well.
    Fine,
    /// The data do not decide what was asked.
    Inconclusive,
    /// A regression, a check that failed, or a result could not be stored.
    CheckFailed,
    /// A workload failed; what it measured is stored.
    WorkloadFailed,
    /// A target was refused; nothing was touched.
    Refused,
    /// The command or its input cannot be carried out.
    BadInput,
    /// The user ended it early; what it measured is stored.
    Interrupted,
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Fine => 0,
            Exit::Inconclusive => 5,
            Exit::CheckFailed => 1,
            Exit::BadInput => 2,
            Exit::Refused => 3,
            Exit::WorkloadFailed => 4,
            Exit::Interrupted => 130,
        }
    }

    /// The number of `iodyno fio`: what fio ends with in the same case. Where fio has no case of
    /// its own, it is an error like any other.
    pub(crate) fn fio_code(self) -> u8 {
        match self {
            Exit::Fine => 0,
            Exit::Interrupted => 128,
            _ => 1,
        }
    }

    /// What a trial's outcome means. `by_user` says whether the user interrupted the run: a node
    /// that died is interrupted, too, and that is a failure.
    pub(crate) fn of_trial(trial: &Trial, by_user: bool) -> Exit {
        match &trial.outcome {
            Outcome::Completed if trial.findings.iter().any(fails_a_check) => Exit::CheckFailed,
            Outcome::Completed => Exit::Fine,
            Outcome::Interrupted(_) if by_user => Exit::Interrupted,
            Outcome::Interrupted(_) | Outcome::Failed(_) => Exit::WorkloadFailed,
            Outcome::Refused(_) => Exit::Refused,
        }
    }
}

fn fails_a_check(finding: &Finding) -> bool {
    finding.kind == FindingKind::VerifyFailed
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_manual() {
        for (exit, code, fio) in [
            (Exit::Fine, 0, 0),
            (Exit::Inconclusive, 5, 1),
            (Exit::CheckFailed, 1, 1),
            (Exit::BadInput, 2, 1),
            (Exit::Refused, 3, 1),
            (Exit::WorkloadFailed, 4, 1),
            (Exit::Interrupted, 130, 128),
        ] {
            assert_eq!((exit.code(), exit.fio_code()), (code, fio), "{exit:?}");
        }
    }

    #[test]
    fn the_user_s_interruption_wins_over_every_failure() {
        let all = [
            Exit::Fine,
            Exit::CheckFailed,
            Exit::WorkloadFailed,
            Exit::Refused,
        ];
        assert!(all.into_iter().all(|exit| exit < Exit::Interrupted));
    }
}
