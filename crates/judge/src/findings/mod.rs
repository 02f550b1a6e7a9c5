//! What a trial's own data say against it.
//!
//! A family of findings a file. Every threshold is a named constant with its reason, and each
//! finding carries it in words: a reader may disagree with a threshold, but must be able to see it.

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
#[cfg(test)]
mod operations_tests;
mod others;
mod pace;
mod queue;
mod server;
mod syncs;
#[cfg(test)]
mod telemetry_tests;
#[cfg(test)]
mod tests;

use iodyno_model::{
    CloneResult, Finding, FindingKind, Job, SeriesKind, Summary, Telemetry, Trial, Weight, Workload,
};

pub(crate) use host::{FAST_SOURCES, STEAL_PERCENT};
pub(crate) use interrupts::on_one_cpu;

use crate::series::{measured, totals};
use crate::work;

/// Samples are put together to at least so long, ns: CPU time comes in ticks of 10 ms, and a tick is a tenth of a sample of 100 ms.
const LEAST_SPAN_NS: u64 = 1_000_000_000;

/// Fewer samples than this say nothing of a trial: one may be that of its very beginning, and one that of its end.
const LEAST_SAMPLES: u32 = 3;

/// What the families look at.
pub(crate) struct Evidence<'a> {
    workload: &'a Workload,
    trial: &'a Trial,
    summary: Summary,
    /// The series within the measured time, a second a sample at least.
    telemetry: Telemetry,
}

impl<'a> Evidence<'a> {
    fn clones(&self) -> impl Iterator<Item = &'a CloneResult> + use<'a> {
        self.trial.parts.iter().flat_map(|part| &part.clones)
    }

    fn job(&self, clone: &CloneResult) -> Option<&'a Job> {
        self.workload.jobs.get(clone.job as usize)
    }

    /// Clones of jobs that touch files, with their jobs.
    fn clones_on_files(&self) -> impl Iterator<Item = (&'a CloneResult, &'a Job)> {
        self.clones()
            .filter_map(|clone| Some((clone, self.job(clone)?)))
            .filter(|(_, job)| job.work.on_files())
    }

    /// The trial has nothing but file operations.
    fn only_operations(&self) -> bool {
        work::all_operations(self.workload)
    }

    /// The trial has nothing but shared files.
    fn only_shared(&self) -> bool {
        work::all_shared(self.workload)
    }

    /// There are samples enough of a series to judge by.
    fn sampled(&self, kind: SeriesKind) -> bool {
        let samples = self.telemetry.of(kind).take(LEAST_SAMPLES as usize);
        samples.count() as u32 == LEAST_SAMPLES
    }

    /// The jobs that touched files, once for each clone.
    fn jobs_that_ran(&self) -> impl Iterator<Item = &'a Job> {
        self.clones_on_files().map(|(_, job)| job)
    }

    /// Some job reads or writes by way of the page cache.
    fn uses_page_cache(&self) -> bool {
        self.jobs_that_ran().any(work::buffered)
    }

    /// For which share of the measured time some, and all, tasks waited for a resource, in percent.
    fn pressure_percent(&self, resource: &str) -> Option<(f64, f64)> {
        let totals = totals(&self.telemetry, SeriesKind::Pressure);
        let of = totals.iter().find(|total| total.subject == resource)?;
        let percent = |column| of.percent_of_span(column).min(100.0);
        Some((percent("some"), percent("full")))
    }

    /// How a group is called in a sentence: its jobs' names.
    fn names(&self, jobs: &[u32]) -> String {
        let mut names: Vec<&str> = Vec::new();
        for job in jobs {
            let name = self.workload.jobs.get(*job as usize);
            let name = name.map_or("?", |job| job.name.as_str());
            if !names.contains(&name) {
                names.push(name);
            }
        }
        list(&names)
    }
}

/// `a`, `a and b`, `a, b and 3 more`.
fn list(names: &[&str]) -> String {
    match names {
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
    }
}

/// With what to do about it.
fn remedied(finding: Finding, remedy: impl Into<String>) -> Finding {
    Finding {
        remedy: Some(remedy.into()),
        ..finding
    }
}

/// Everything found, the heaviest first. [`FindingKind::StoreOnTarget`] is not found here: only
/// whoever knows the store can tell.
pub fn findings(workload: &Workload, trial: &Trial) -> Vec<Finding> {
    let evidence = Evidence {
        workload,
        trial,
        summary: crate::summary(workload, trial),
        telemetry: measured(trial).thinned(LEAST_SPAN_NS),
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
        syncs::findings,
        latency::findings,
    ];
    let mut found: Vec<Finding> = families
        .iter()
        .flat_map(|family| family(&evidence))
        .collect();
    found.sort_by_key(|finding| std::cmp::Reverse(finding.weight));
    found
}
