//! Detects that a process under test had no CPU time left and so limited the figure.

use std::collections::BTreeMap;

use iodyno_model::{Finding, FindingKind, SeriesKind, Weight};

use super::{Evidence, during, finding, remedied};
use crate::series::View;

/// A process is saturated at this percentage of the CPU time that its threads can use; the same limit as for a
/// worker.
const SATURATED_PERCENT: f64 = 95.0;

/// … and up to this percentage of a core it is still one thread, because of the precision of sampling.
const ONE_CORE_PERCENT: f64 = 105.0;

/// The limit is reached in this fraction of the samples.
const SAMPLES: f64 = 0.9;

/// The number of samples of one process, and of those in which it was saturated.
#[derive(Default)]
struct Process {
    samples: u32,
    by_threads: u32,
    one_core: u32,
    cores: f64,
    threads: u64,
}

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let mut processes: BTreeMap<&str, Process> = BTreeMap::new();
    for (shape, sample) in evidence.telemetry.of(SeriesKind::Process) {
        for view in View::of(shape, sample) {
            processes.entry(view.subject()).or_default().add(&view);
        }
    }
    let found = processes.iter().filter_map(|(name, process)| {
        let found = process.judged(name)?;
        let spans_ns = evidence.spans_ns(SeriesKind::Process, |shape, sample| {
            let mut alone = Process::default();
            let own = View::of(shape, sample).filter(|view| view.subject() == *name);
            own.for_each(|view| alone.add(&view));
            alone.by_threads + alone.one_core > 0
        });
        Some(during(found, spans_ns))
    });
    found.collect()
}

impl Process {
    fn add(&mut self, view: &View) {
        let percent = || Some(view.percent_of_span("user")? + view.percent_of_span("system")?);
        let Some(percent) = percent() else {
            return;
        };
        let threads = view.count("threads").unwrap_or(0);
        self.samples += 1;
        self.cores += percent / 100.0;
        self.threads = self.threads.max(threads);
        let of_all = SATURATED_PERCENT * threads as f64;
        self.by_threads += u32::from(threads > 0 && percent >= of_all);
        self.one_core += u32::from((SATURATED_PERCENT..=ONE_CORE_PERCENT).contains(&percent));
    }

    /// Threads are not sampled separately: a process that uses exactly one core can have one busy thread, or several
    /// that add up to one core.
    fn judged(&self, name: &str) -> Option<Finding> {
        if self.samples < super::MIN_SAMPLES {
            return None;
        }
        let most = |count: u32| f64::from(count) >= SAMPLES * f64::from(self.samples);
        let cores = self.cores / f64::from(self.samples);
        let threads = self.threads;
        let (weight, text) = match (most(self.by_threads), most(self.one_core)) {
            (true, _) => (
                Weight::Warning,
                format!(
                    "{name} used {cores:.2} cores, all that its {threads} thread{} can use: it limited the rate, not the storage below it",
                    if threads == 1 { "" } else { "s" }
                ),
            ),
            (false, true) => (
                Weight::Note,
                format!(
                    "{name} used {cores:.2} cores all the time, as one busy thread of its {threads} would: this thread may have limited the rate"
                ),
            ),
            (false, false) => return None,
        };
        Some(remedied(
            finding(
                FindingKind::ServerSaturated,
                weight,
                text,
                format!(
                    "CPU time of a named process ≥ {SATURATED_PERCENT} % of a core for each of its threads in ≥ {:.0} % of the samples; a note at \
                     {SATURATED_PERCENT} to {ONE_CORE_PERCENT} % of one core",
                    SAMPLES * 100.0
                ),
            ),
            "give the server more threads, or find the busy thread: top -H -p PID",
        ))
    }
}
