//! Detects that most of the time of shared files is spent in the syncs that a rule requests.

use iodyno_model::{Direction, Finding, FindingKind, SharedFiles, Weight};
use iodyno_units::Rate;

use super::{Evidence, finding, remedied};
use crate::work;

/// From this percentage of the clones' time upwards, the figure mostly describes syncs.
const TIME_PERCENT: f64 = 50.0;

/// If the number of syncs is within this fraction of the number computed from the rule, the rule explains them. The
/// tolerance allows for syncs at the end of the trial and requests before the first write.
const FOLLOWS: f64 = 0.05;

pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let jobs = evidence.workload.jobs.iter().enumerate();
    jobs.filter_map(|(index, job)| dominated(evidence, index, job.work.shared_files()?))
        .collect()
}

/// Number of requests and syncs, and their durations in ns, over all clones of a job.
#[derive(Default)]
struct Did {
    requests: u64,
    syncs: u64,
    sync_ns: f64,
    all_ns: f64,
    seconds: f64,
}

fn did(evidence: &Evidence, index: usize) -> Did {
    let mut sum = Did::default();
    let mut runtime_ns = 0;
    for clone in evidence
        .clones()
        .filter(|clone| clone.job as usize == index)
    {
        runtime_ns = runtime_ns.max(clone.runtime_ns);
        for result in &clone.directions {
            let ns = result.service.sum_ns() as f64;
            sum.all_ns += ns;
            if result.direction == Direction::Sync {
                (sum.syncs, sum.sync_ns) = (sum.syncs + result.ops, sum.sync_ns + ns);
            } else if work::MOVING.contains(&result.direction) {
                sum.requests += result.ops;
            }
        }
    }
    sum.seconds = runtime_ns as f64 / 1e9;
    sum
}

fn dominated(evidence: &Evidence, index: usize, shared: &SharedFiles) -> Option<Finding> {
    let did = did(evidence, index);
    let percent = did.sync_ns * 100.0 / did.all_ns.max(1.0);
    if did.syncs == 0 || percent < TIME_PERCENT || did.seconds <= 0.0 {
        return None;
    }
    let rate = Rate(did.syncs as f64 / did.seconds);
    Some(remedied(
        finding(
            FindingKind::SyncsDominate,
            Weight::Note,
            format!(
                "{rate} syncs/s took {percent:.0} % of the time{}",
                rule(&did, shared)
            ),
            format!("syncs take ≥ {TIME_PERCENT} % of the time of all requests and syncs"),
        ),
        "set file-fsync-freq=0 to measure reads and writes alone",
    ))
}

/// The rule that explains this number of syncs, if any.
fn rule(did: &Did, shared: &SharedFiles) -> String {
    let near = |expected: f64| (did.syncs as f64 / expected - 1.0).abs() <= FOLLOWS;
    let files = f64::from(shared.count);
    if shared.fsync_all {
        return ": file-fsync-all asks for one after each write".to_owned();
    }
    let expected = match shared.fsync_every {
        0 => return String::new(),
        every => did.requests as f64 / f64::from(every) * files,
    };
    match expected > 0.0 && near(expected) {
        true => format!(
            ": they follow from file-fsync-freq={} × {} files, {} syncs after every {} requests",
            shared.fsync_every, shared.count, shared.count, shared.fsync_every
        ),
        false => String::new(),
    }
}
