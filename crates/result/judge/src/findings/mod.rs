//! Findings: conditions in a trial's own data that limit what its figures mean.
//!
//! Each file contains one group of findings. Every threshold is a named constant with its reason, and each finding
//! states its threshold, so that readers can judge it.

mod cache;
mod cap;
mod client;
mod content;
mod deferred;
mod ending;
mod host;
mod interrupts;
mod latency;
mod memory;
mod nodes;
#[cfg(test)]
mod operations_tests;
mod others;
mod pace;
mod precondition;
mod queue;
mod server;
mod standstill;
mod syncs;
#[cfg(test)]
mod telemetry_tests;
#[cfg(test)]
mod tests;
mod virtual_machine;

use iodyno_model::{
    CloneResult, Finding, FindingKind, Job, Sample, SeriesKind, SeriesShape, Summary, Telemetry,
    Trial, Weight, Workload,
};

pub(crate) use cap::limit_used;
pub(crate) use host::{FAST_SOURCES, STEAL_PERCENT};
pub(crate) use interrupts::on_one_cpu;
pub(crate) use memory::dirty_samples;

use crate::observe::ByNode;
use crate::series::{measured, totals};
use crate::work;
use iodyno_model::ordered::distinct;

/// Samples are merged to at least this length, ns: CPU time is counted in ticks of 10 ms, and one tick is a
/// tenth of a sample of 100 ms.
const MIN_SPAN_NS: u64 = 1_000_000_000;

/// With fewer samples there is no conclusion: one can include the start of the trial, and one its end.
const MIN_SAMPLES: u32 = 3;

/// Input of the families.
pub(crate) struct Evidence<'a> {
    workload: &'a Workload,
    trial: &'a Trial,
    summary: Summary,
    /// The series within the measured time, with samples of at least one second.
    telemetry: Telemetry,
}

impl<'a> Evidence<'a> {
    fn clones(&self) -> impl Iterator<Item = &'a CloneResult> + use<'a> {
        self.trial.parts.iter().flat_map(|part| &part.clones)
    }

    fn job(&self, clone: &CloneResult) -> Option<&'a Job> {
        self.workload.jobs.get(clone.job as usize)
    }

    /// Clones of jobs that use files, with their jobs.
    fn clones_on_files(&self) -> impl Iterator<Item = (&'a CloneResult, &'a Job)> {
        self.clones()
            .filter_map(|clone| Some((clone, self.job(clone)?)))
            .filter(|(_, job)| job.work.on_files())
    }

    /// Whether all work of the trial is file operations.
    fn only_operations(&self) -> bool {
        work::all_operations(self.workload)
    }

    /// Whether all work of the trial is shared files.
    fn only_shared(&self) -> bool {
        work::all_shared(self.workload)
    }

    /// Whether a series has enough samples.
    fn sampled(&self, kind: SeriesKind) -> bool {
        let samples = self.telemetry.of(kind).take(MIN_SAMPLES as usize);
        samples.count() as u32 == MIN_SAMPLES
    }

    /// The time of the samples of a series in which a condition holds; successive samples are one span.
    fn spans_ns(
        &self,
        kind: SeriesKind,
        holds: impl Fn(&SeriesShape, &Sample) -> bool,
    ) -> Vec<(i64, i64)> {
        let mut spans: Vec<(i64, i64)> = Vec::new();
        for (shape, sample) in self.telemetry.of(kind) {
            if !holds(shape, sample) {
                continue;
            }
            let from = sample.at_ns - sample.span_ns as i64;
            match spans.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(sample.at_ns),
                _ => spans.push((from, sample.at_ns)),
            }
        }
        spans
    }

    /// The jobs that used files, once per clone.
    fn jobs_that_ran(&self) -> impl Iterator<Item = &'a Job> {
        self.clones_on_files().map(|(_, job)| job)
    }

    /// Whether any job reads or writes through the page cache.
    fn uses_page_cache(&self) -> bool {
        self.jobs_that_ran().any(work::buffered)
    }

    /// Percentage of the measured time in which some, and all, tasks waited for a resource.
    fn pressure_percent(&self, resource: &str) -> Option<(f64, f64)> {
        let totals = totals(&self.telemetry, SeriesKind::Pressure);
        let of = totals.iter().find(|total| total.subject == resource)?;
        let percent = |column| of.percent_of_span(column).min(100.0);
        Some((percent("some"), percent("full")))
    }

    /// The name of a group in a sentence: the names of its jobs.
    fn names(&self, jobs: &[u32]) -> String {
        let jobs = jobs.iter().map(|job| self.workload.jobs.get(*job as usize));
        list(&distinct(jobs.map(|job| job.map_or("?", |job| &job.name))))
    }
}

/// `a`, `a and b`, `a, b and 3 more`.
fn list(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [one, two] => format!("{one} and {two}"),
        [one, two, three] => format!("{one}, {two} and {three}"),
        [one, two, rest @ ..] => format!("{one}, {two} and {} more", rest.len()),
    }
}

fn finding(
    kind: FindingKind,
    weight: Weight,
    text: String,
    threshold: impl Into<String>,
) -> Finding {
    Finding {
        kind,
        weight,
        text,
        threshold: threshold.into(),
        remedy: None,
        spans_ns: Vec::new(),
    }
}

/// Adds the remedy.
fn remedied(finding: Finding, remedy: impl Into<String>) -> Finding {
    Finding {
        remedy: Some(remedy.into()),
        ..finding
    }
}

/// Adds when the condition held.
fn during(finding: Finding, spans_ns: Vec<(i64, i64)>) -> Finding {
    Finding {
        spans_ns,
        ..finding
    }
}

/// All findings of a trial, the most severe first. [`FindingKind::StoreOnTarget`] is not included: only the
/// caller knows where the store is.
pub fn findings(workload: &Workload, trial: &Trial) -> Vec<Finding> {
    let working = |place: &usize| !trial.parts[*place].only_sampled();
    let working: Vec<usize> = (0..trial.parts.len()).filter(working).collect();
    let mut found = match working.as_slice() {
        _ if trial.parts.len() < 2 => of_one_node(workload, trial),
        [] => of_one_node(workload, trial),
        [place] => of_one_node(workload, &ByNode::new(trial).part(*place)),
        places => {
            let by_node = ByNode::new(trial);
            let each = places.iter().map(|&place| {
                let own = by_node.part(place);
                (
                    trial.parts[place].node.as_str(),
                    of_one_node(workload, &own),
                )
            });
            let mut found = nodes::shared(each.collect());
            found.extend(nodes::findings(
                workload,
                trial,
                &crate::summary(workload, trial),
            ));
            found
        }
    };
    found.sort_by_key(|finding| std::cmp::Reverse(finding.weight));
    found
}

fn of_one_node(workload: &Workload, trial: &Trial) -> Vec<Finding> {
    let evidence = Evidence {
        workload,
        trial,
        summary: crate::summary(workload, trial),
        telemetry: measured(trial).thinned(MIN_SPAN_NS),
    };
    let families = [
        ending::findings,
        cache::findings,
        cap::findings,
        content::findings,
        client::findings,
        host::findings,
        memory::findings,
        interrupts::findings,
        queue::findings,
        others::findings,
        server::findings,
        pace::findings,
        deferred::findings,
        precondition::findings,
        standstill::findings,
        syncs::findings,
        virtual_machine::findings,
        latency::findings,
    ];
    families
        .iter()
        .flat_map(|family| family(&evidence))
        .collect()
}
