//! The comparison of a run's trials during the run.

use iodyno_model::{
    Comparison, Configuration, Observation, Plan, Question, Trial, TrialKey, Workload,
};
use iodyno_store::RunHandle;

use crate::schedule::baseline;

/// Compares trials and derives a verdict.
pub(crate) trait Judge {
    /// Reduces a trial to the data that a comparison needs.
    fn observe(
        &self,
        run: &str,
        of: (&Configuration, &Workload),
        key: TrialKey,
        trial: &Trial,
    ) -> Observation;

    /// The comparison; `None` if there is nothing to compare.
    fn compare(&self, name: &str, seen: &[Observation], question: &Question) -> Option<Comparison>;

    /// The relative width of the widest interval of a primary ratio, of one workload if given; `None` if one of them has no
    /// interval.
    fn widest(&self, comparison: &Comparison, of: Option<&Workload>) -> Option<f64>;
}

/// The judge of `iodyno_judge`.
pub(crate) struct DefaultJudge;

impl Judge for DefaultJudge {
    fn observe(
        &self,
        run: &str,
        (configuration, workload): (&Configuration, &Workload),
        key: TrialKey,
        trial: &Trial,
    ) -> Observation {
        iodyno_judge::observe(run, configuration, workload, key, trial)
    }

    fn compare(&self, name: &str, seen: &[Observation], question: &Question) -> Option<Comparison> {
        iodyno_judge::compare(name, seen, question, &[]).ok()
    }

    fn widest(&self, comparison: &Comparison, of: Option<&Workload>) -> Option<f64> {
        iodyno_judge::widest_interval(comparison, of)
    }
}

/// The observations of a run: one for each round and cell, from the latest attempt. Series and histograms are not
/// kept, so that 1000 trials take a few megabytes.
pub(crate) struct InterimComparison<'a> {
    plan: &'a Plan,
    judge: &'a dyn Judge,
    run: String,
    question: Question,
    /// Round and cell of each observation, ascending: in the order of the plan, independent of the order of the
    /// trials.
    places: Vec<(u32, u32)>,
    seen: Vec<Observation>,
}

impl<'a> InterimComparison<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        judge: &'a dyn Judge,
        run: RunHandle,
    ) -> InterimComparison<'a> {
        InterimComparison {
            plan,
            judge,
            run: format!("run {}", run.alias),
            question: Question {
                baseline: baseline(plan).map(str::to_owned),
                ..iodyno_judge::question_of(plan)
            },
            places: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// Adds a trial. A plan with one cell has nothing to compare.
    pub(crate) fn add(&mut self, trial: &Trial) {
        if self.plan.cells() < 2 {
            return;
        }
        let key = trial.key;
        let of = self.plan.cell(key.cell);
        let observation = self.judge.observe(&self.run, of, key, trial);
        let place = (key.round, key.cell);
        match self.places.binary_search(&place) {
            Ok(found) => self.seen[found] = observation,
            Err(free) => {
                self.places.insert(free, place);
                self.seen.insert(free, observation);
            }
        }
    }

    /// The comparison so far.
    pub(crate) fn comparison(&self) -> Option<Comparison> {
        match self.seen.is_empty() {
            true => None,
            false => self
                .judge
                .compare(&self.plan.name, &self.seen, &self.question),
        }
    }

    /// Whether the intervals of all primary ratios, or of those of one workload, are at most this wide, as a share of the ratio.
    pub(crate) fn narrow(
        &self,
        comparison: &Comparison,
        of: Option<&Workload>,
        width: f64,
    ) -> bool {
        self.judge
            .widest(comparison, of)
            .is_some_and(|widest| widest <= width)
    }
}

#[cfg(test)]
mod tests;
