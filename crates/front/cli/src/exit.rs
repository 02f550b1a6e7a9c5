//! The exit codes and their precedence.

use std::process::ExitCode;

use crate::args::FailOn;
use iodyno_model::{EndedBy, Finding, FindingKind, Outcome, Trial, errno};

/// The outcome of a command. Of several, the last in this order determines the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Success.
    Fine,
    /// The data do not answer the question.
    Inconclusive,
    /// A regression, a failed check, or a result that could not be stored.
    CheckFailed,
    /// A workload failed; its results so far are stored.
    WorkloadFailed,
    /// A target was refused; nothing was written.
    Refused,
    /// The command line or its input is invalid.
    BadInput,
    /// The user ended the run early; results so far are stored.
    Interrupted,
}

impl Exit {
    /// Exits the program even if a trial or a leg hangs, after two stop requests had no effect. Results are stored as
    /// they arrive, and acknowledged writes of a mirror are on its other legs.
    #[allow(clippy::exit)]
    pub(crate) fn leave() -> ! {
        std::process::exit(i32::from(Exit::Interrupted.code()))
    }

    /// The exit code.
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

    /// The exit code of verdicts under `--fail-on`. A regression takes precedence.
    pub(crate) fn of_verdict(regressed: bool, undecided: bool, fail_on: &[FailOn]) -> Exit {
        let fails = |on| fail_on.contains(&on);
        match () {
            () if regressed && fails(FailOn::Regression) => Exit::CheckFailed,
            () if undecided && fails(FailOn::Undecided) => Exit::Inconclusive,
            () => Exit::Fine,
        }
    }

    /// The exit code under `--bisect`, for git-bisect(1): 125 skips a commit, and more than 127 ends the search.
    pub(crate) fn bisect_code(self) -> u8 {
        match self {
            Exit::Fine | Exit::CheckFailed => self.code(),
            Exit::Inconclusive | Exit::Refused | Exit::WorkloadFailed => 125,
            Exit::BadInput => 128,
            Exit::Interrupted => 130,
        }
    }

    /// The exit code of `iodyno fio`: that of fio in the same situation, or 1 if fio has none.
    pub(crate) fn fio_code(self) -> u8 {
        match self {
            Exit::Fine => 0,
            Exit::Interrupted => 128,
            _ => 1,
        }
    }

    /// The exit code of a program named `sysbench`: 1 after any error.
    pub(crate) fn sysbench_code(self) -> u8 {
        match self {
            Exit::Fine | Exit::Interrupted => self.code(),
            _ => 1,
        }
    }

    /// The exit for a trial's outcome. `by_user`: whether the user interrupted the run; a trial whose node died is also
    /// interrupted, but that is a failure.
    pub(crate) fn of_trial(trial: &Trial, by_user: bool) -> Exit {
        match &trial.outcome {
            Outcome::Completed if trial.findings.iter().any(fails_a_check) => Exit::CheckFailed,
            Outcome::Completed => Exit::Fine,
            Outcome::Interrupted(_) if by_user => Exit::Interrupted,
            Outcome::Failed(_) if only_checks_failed(trial) => Exit::CheckFailed,
            Outcome::Interrupted(_) | Outcome::Failed(_) => Exit::WorkloadFailed,
            Outcome::Refused(_) => Exit::Refused,
        }
    }
}

/// Whether the trial failed only because of bad blocks.
fn only_checks_failed(trial: &Trial) -> bool {
    let clones = trial.parts.iter().flat_map(|part| &part.clones);
    let mut failed = clones.filter(|it| matches!(it.ended, EndedBy::Error | EndedBy::Stuck));
    trial.findings.iter().any(fails_a_check)
        && failed.all(|clone| {
            let bad = clone.verify.as_ref().is_some_and(|verify| verify.bad() > 0);
            bad && clone
                .errors
                .iter()
                .all(|error| error.errno == errno::EILSEQ)
        })
}

fn fails_a_check(finding: &Finding) -> bool {
    finding.kind == FindingKind::VerifyFailed
}

impl From<Exit> for ExitCode {
    /// By the flag `--bisect` of the command line, which may be invalid otherwise.
    fn from(exit: Exit) -> ExitCode {
        let bisects = std::env::args_os().any(|argument| argument == "--bisect");
        ExitCode::from(match bisects {
            true => exit.bisect_code(),
            false => exit.code(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_manual() {
        for (exit, code, fio, sysbench, bisect) in [
            (Exit::Fine, 0, 0, 0, 0),
            (Exit::Inconclusive, 5, 1, 1, 125),
            (Exit::CheckFailed, 1, 1, 1, 1),
            (Exit::BadInput, 2, 1, 1, 128),
            (Exit::Refused, 3, 1, 1, 125),
            (Exit::WorkloadFailed, 4, 1, 1, 125),
            (Exit::Interrupted, 130, 128, 130, 130),
        ] {
            let codes = (exit.code(), exit.fio_code(), exit.sysbench_code());
            assert_eq!(codes, (code, fio, sysbench), "{exit:?}");
            assert_eq!(exit.bisect_code(), bisect, "{exit:?}");
        }
    }

    #[test]
    fn an_interruption_by_the_user_takes_precedence_over_every_failure() {
        let all = [
            Exit::Fine,
            Exit::CheckFailed,
            Exit::WorkloadFailed,
            Exit::Refused,
        ];
        assert!(all.into_iter().all(|exit| exit < Exit::Interrupted));
    }
}
