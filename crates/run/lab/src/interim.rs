//! The comparison of a run's trials during the run.

use std::collections::BTreeMap;

use iodyno_judge::Probe;
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

    /// The comparison; `None` if nothing can be compared.
    fn compare(&self, name: &str, seen: &[Observation], question: &Question) -> Option<Comparison>;

    /// The relative width of the widest interval of a primary ratio, of one workload if given; `None` if any interval
    /// is missing.
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
    /// The trials of searches by cell and round.
    probes: BTreeMap<u32, BTreeMap<u32, Probe>>,
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
                ..iodyno_judge::without_searches(&iodyno_judge::question_of(plan), [plan])
            },
            places: Vec::new(),
            seen: Vec::new(),
            probes: BTreeMap::new(),
        }
    }

    /// Adds a trial. A plan with one cell has nothing to compare.
    pub(crate) fn add(&mut self, trial: &Trial) {
        let key = trial.key;
        let of = self.plan.cell(key.cell);
        if let Some(search) = &of.1.search {
            let observation = self.judge.observe(&self.run, of, key, trial);
            if let Some(probe) = Probe::of(search, of.1, &observation) {
                let cell = self.probes.entry(key.cell).or_default();
                cell.insert(key.round, probe);
            }
            return;
        }
        if self.plan.cells() < 2 {
            return;
        }
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

    /// The load of the next trial of a cell; `None` unless it is searched.
    pub(crate) fn next_load(&self, cell: u32) -> Option<f64> {
        let search = self.plan.cell(cell).1.search.as_ref()?;
        Some(iodyno_judge::next_load(search, &self.probes_of(cell)))
    }

    /// Whether the search of a cell has its answer.
    pub(crate) fn is_found(&self, cell: u32) -> bool {
        let (configuration, workload) = self.plan.cell(cell);
        let names = (configuration.name.as_str(), workload.name.as_str());
        let probes = self.probes_of(cell);
        let search = workload.search.as_ref();
        search.is_some_and(|search| iodyno_judge::search_answer(names, search, &probes).complete)
    }

    /// In the order of rounds.
    fn probes_of(&self, cell: u32) -> Vec<Probe> {
        let probes = self.probes.get(&cell).into_iter();
        probes.flat_map(|rounds| rounds.values().cloned()).collect()
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

    /// Whether the intervals of all primary ratios, or of one workload's, are at most this wide, as a share of the
    /// ratio.
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
