//! Whether the client, and not the storage, set the figure; and what it had to do without.

use iodyno_model::{EngineKind, Finding, FindingKind, Job, Weight};

use super::{Evidence, finding, list, remedied};

/// A worker that computes for this share of its time leaves no room for waiting on the storage:
/// a faster one would not raise the figure. 5 % are left for the scheduler and other threads.
const SATURATED_PERCENT: f64 = 95.0;

/// A worker measured for less than this is judged by noise: CPU time comes in scheduler ticks.
const LEAST_TIME_NS: u64 = 200_000_000;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    saturated(evidence)
        .into_iter()
        .chain(fallbacks(evidence))
        .collect()
}

fn saturated(evidence: &Evidence) -> Option<Finding> {
    let (mut workers, mut full, mut highest) = (0, 0, 0.0f64);
    let mut polls = true;
    for clone in evidence.clones() {
        let Some(job) = evidence.job(clone) else {
            continue;
        };
        // `null` measures the harness: a full core is what it is asked for.
        if job.engine.kind == EngineKind::Null || clone.runtime_ns < LEAST_TIME_NS {
            continue;
        }
        workers += 1;
        let busy =
            (clone.cpu.user_ns + clone.cpu.system_ns) as f64 * 100.0 / clone.runtime_ns as f64;
        if busy >= SATURATED_PERCENT {
            full += 1;
            highest = highest.max(busy);
            polls &= busy_by_design(job);
        }
    }
    if full == 0 {
        return None;
    }
    let found = |weight, text| {
        finding(
            FindingKind::ClientSaturated,
            weight,
            text,
            format!("CPU time of a worker ≥ {SATURATED_PERCENT} % of its measured time"),
        )
    };
    let who = match workers {
        1 => "the worker".to_owned(),
        _ => format!("{full} of {workers} workers"),
    };
    let text = format!("{who} used a whole core (up to {highest:.0} %)");
    Some(match polls {
        true => found(Weight::Note, format!("{text}, as polling does")),
        false => remedied(
            found(
                Weight::Warning,
                format!("{text}: the client set the figure, not the storage"),
            ),
            "raise numjobs, or take a cheaper engine (io_uring) or larger blocks",
        ),
    })
}

/// Polling and spinning keep a core busy whatever the storage does.
fn busy_by_design(job: &Job) -> bool {
    job.engine.hipri || job.pacing.think.is_some_and(|think| think.spin.0 > 0)
}

fn fallbacks(evidence: &Evidence) -> Option<Finding> {
    let mut missing: Vec<&str> = Vec::new();
    for fallback in evidence.clones().flat_map(|clone| &clone.engine.fallbacks) {
        if !missing.contains(&fallback.as_str()) {
            missing.push(fallback);
        }
    }
    (!missing.is_empty()).then(|| {
        finding(
            FindingKind::Fallback,
            Weight::Note,
            format!("not available, the next best was used: {}", list(&missing)),
            "any feature asked for or usual that the kernel or device does not have",
        )
    })
}
