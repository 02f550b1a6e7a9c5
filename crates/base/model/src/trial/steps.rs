//! Steps of a trial.

use serde::{Deserialize, Serialize};

use crate::named::named;

named! {
    /// A step of a trial.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Step in ALL {
        /// Storage layers are created.
        Provision = "provision",
        /// Files are created and filled.
        LayOut = "lay out",
        /// I/O runs but is not counted.
        Ramp = "ramp",
        /// I/O runs and is counted.
        Measure = "measure",
        /// No new ops are submitted; ops in flight complete.
        Drain = "drain",
        /// fsync of all files.
        EndFsync = "end_fsync",
        /// Written data are read back.
        VerifyPass = "verify",
        /// Files and storage layers are removed.
        TearDown = "tear down",
    }
}

impl Step {
    /// The step that took most of a period that ends at `at_ns` on the trial's clock; of equals the later one. `None`:
    /// no step, as between layout and start.
    pub fn of_period(steps: &[StepTime], at_ns: i64, span_ns: u64) -> Option<Step> {
        let period = (at_ns.saturating_sub_unsigned(span_ns), at_ns);
        let shared = |time: &StepTime| {
            let end = time.start_ns.saturating_add_unsigned(time.span_ns);
            end.min(period.1)
                .saturating_sub(time.start_ns.max(period.0))
        };
        let longest = |step: &Step| {
            let of_step = steps.iter().filter(|time| time.step == *step);
            of_step.map(shared).max().unwrap_or(0)
        };
        let step = Step::ALL.into_iter().max_by_key(longest)?;
        (longest(&step) > 0).then_some(step)
    }
}

/// Duration of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepTime {
    /// The step.
    pub step: Step,
    /// The job it belongs to; `None`: the whole trial.
    pub job: Option<u32>,
    /// Start on the trial's clock, ns; negative before the start instant.
    pub start_ns: i64,
    /// Duration, ns; the longest of a job's clones.
    pub span_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_belongs_to_the_step_that_took_most_of_it() {
        let time = |step, start_ns, span_ns| StepTime {
            step,
            job: None,
            start_ns,
            span_ns,
        };
        let steps = [
            time(Step::LayOut, -100, 60),
            time(Step::Ramp, 0, 20),
            time(Step::Measure, 20, 70),
            time(Step::Measure, 20, 80),
            time(Step::Drain, 100, 5),
            time(Step::EndFsync, 105, 30),
        ];
        for (at_ns, span_ns, expected) in [
            (-50, 50, Some(Step::LayOut)),
            (-40, 20, Some(Step::LayOut)),
            (-10, 20, None),
            (0, 100, Some(Step::LayOut)),
            (10, 10, Some(Step::Ramp)),
            (40, 40, Some(Step::Measure)),
            (39, 39, Some(Step::Ramp)),
            (100, 5, Some(Step::Measure)),
            (120, 20, Some(Step::EndFsync)),
            (200, 10, None),
            (i64::MAX, u64::MAX, Some(Step::Measure)),
            (i64::MIN, 1, None),
        ] {
            let found = Step::of_period(&steps, at_ns, span_ns);
            assert_eq!(found, expected, "{at_ns} {span_ns}");
        }
    }
}
