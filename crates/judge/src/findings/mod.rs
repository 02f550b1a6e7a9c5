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
mod latency;
#[cfg(test)]
mod operations_tests;
mod pace;
mod syncs;
#[cfg(test)]
mod tests;

use iodyno_model::{CloneResult, Finding, FindingKind, Job, Summary, Trial, Weight, Workload};

pub(crate) use host::FAST_SOURCES;

use crate::work;

/// What the families look at.
pub(crate) struct Evidence<'a> {
    workload: &'a Workload,
    trial: &'a Trial,
    summary: Summary,
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
            .filter(|(_, job)| !job.engine.kind.without_files())
    }

    /// The trial has nothing but file operations.
    fn only_operations(&self) -> bool {
        work::all_operations(self.workload)
    }

    /// The trial has nothing but shared files.
    fn only_shared(&self) -> bool {
        work::all_shared(self.workload)
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
    };
    let families = [
        ending::findings,
        cache::findings,
        cap::findings,
        content::findings,
        client::findings,
        host::findings,
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
