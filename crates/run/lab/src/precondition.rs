//! Preconditioning: a new target is written until its rate is steady, so that a trial does not measure storage that has
//! never been full.
//!
//! After the Solid State Storage Performance Test Specification of SNIA (PTS): twice the capacity is written
//! sequentially in blocks of 128 KiB, then random blocks of 4 KiB are written in rounds until the last five are steady.
//! On a file system, the capacity is a file of [`FREE`] percent of the free space, which is removed at the end.

use std::collections::BTreeMap;
use std::path::PathBuf;

use iodyno_model::{
    Amount, BlockSizes, Blocks, Buffers, Configuration, Diagnostic, Direction, Engine, EngineKind,
    Job, JobEnd, Layer, Order, Part, PerDirection, Plan, Provision, Target, TrialKey, Work,
    Workload,
};
use iodyno_runner::{Node, StopFlag, TrialEnd, carry_out};
use iodyno_units::{Bytes, Nanos, Rate, counted};

use crate::LabNode;
use crate::schedule::bind;
use crate::target_event::{TargetEvent, Tell};

/// Share of the free space of a file system that is written, in percent: a full one behaves differently.
const FREE: f64 = 80.0;
/// Number of times that the capacity is written sequentially.
const PASSES: u64 = 2;
/// The length of a round in the PTS. A round is a twentieth of the time limit, and at most this long.
const ROUND: Nanos = Nanos::from_secs(60);
/// Number of rounds that must be steady.
const WINDOW: usize = 5;
/// The largest difference of two rounds of the window, as a share of their mean.
const RANGE: f64 = 0.2;
/// The largest rise or fall of the line through the window, as a share of its mean.
const SLOPE: f64 = 0.1;
/// The name of the file on a file system.
const FILE: &str = "iodyno-precondition";

/// The target to precondition.
pub(crate) struct Preconditioned<'a> {
    /// The files of the store, which it may not overwrite.
    pub(crate) protected: &'a [PathBuf],
    pub(crate) stop: &'a StopFlag,
    /// The node that writes.
    pub(crate) node: &'a dyn Node,
    /// The one that it belongs to, for messages.
    pub(crate) host: &'a LabNode<'a>,
    pub(crate) plan: &'a Plan,
    /// The trial before which it is done.
    pub(crate) key: TrialKey,
    /// The target.
    pub(crate) path: PathBuf,
}

impl Preconditioned<'_> {
    /// Preconditions the target for at most `limit`, and returns its resulting state.
    ///
    /// # Errors
    /// The target could not be written, or the lab was stopped.
    pub(crate) fn carry_out(
        &self,
        provision: &Provision,
        limit: Nanos,
        tell: &mut Tell<'_>,
    ) -> Result<BTreeMap<String, String>, Vec<Diagnostic>> {
        let (configuration, _) = self.plan.cell(self.key.cell);
        let job = Job {
            name: "precondition".to_owned(),
            work: Work::Blocks(blocks(provision)),
            buffers: Buffers {
                refill: true,
                ..Buffers::default()
            },
            ..Job::default()
        };
        let (place, _) = self.plan.place(self.key.cell);
        let mut progress = |step: &str| tell(TargetEvent::Step(place, self.host.prefix_text(step)));
        progress("preconditioning: writes twice the capacity");
        let (written, mut spent) = self.write(filling(job.clone(), limit))?;
        let round = Nanos((limit.0 / 20).min(ROUND.0));
        let mut rates: Vec<f64> = Vec::new();
        while spent.0 < limit.0 && !is_steady(&rates) {
            let number = rates.len() + 1;
            progress(&format!("preconditioning: round {number} of random writes"));
            let (done, span) = self.write(random(job.clone(), round, number as u64))?;
            rates.push(done.ops as f64 / (span.0.max(1) as f64 / 1e9));
            spent = Nanos(spent.0.saturating_add(span.0.max(1)));
        }
        if folder(provision) {
            self.write(removal(job))?;
        }
        let steady = is_steady(&rates);
        if !steady {
            let name = &configuration.name;
            tell(TargetEvent::Note(self.host.prefix_text(&format!(
                "{name} is not steady after {limit} of preconditioning"
            ))));
        }
        let window = rates.len().saturating_sub(WINDOW);
        let last: Vec<String> = rates[window..]
            .iter()
            .map(|rate| Rate(*rate).to_string())
            .collect();
        let rounds = counted(rates.len() as u64, "round");
        Ok(BTreeMap::from([
            (
                "precondition.written".to_owned(),
                Bytes(written.bytes).to_string(),
            ),
            (
                "precondition.rounds".to_owned(),
                format!("{rounds} of {round}"),
            ),
            ("precondition.iops".to_owned(), last.join(", ")),
            (
                "precondition.steady".to_owned(),
                if steady { "yes" } else { "no" }.to_owned(),
            ),
        ]))
    }

    /// Runs a job on the target. Returns the amount written and the time.
    fn write(&self, job: Job) -> Result<(WriteTotals, Nanos), Vec<Diagnostic>> {
        let mut bound = bind(self.plan, self.key);
        bound.workload = Workload::new("precondition", Vec::new(), vec![job]);
        bound.configuration =
            Configuration::new(&bound.configuration.name, Target::Path(self.path.clone()));
        bound.destroy.push(self.path.clone());
        bound.protected = self.protected.to_vec();
        let failed = |why: &str| vec![Diagnostic::error(format!("preconditioning: {why}"))];
        match carry_out(&bound, self.node, self.stop, &mut |_| {}) {
            _ if self.stop.is_set() => Err(failed("it was stopped")),
            Ok(TrialEnd::Done(part, outcome)) => match outcome.reason() {
                None => Ok(written(&part)),
                Some(why) => Err(failed(why)),
            },
            Ok(TrialEnd::Failed { outcome, .. }) => {
                Err(failed(outcome.reason().unwrap_or("it failed")))
            }
            Ok(TrialEnd::Refused(faults) | TrialEnd::Unprepared(faults)) => Err(faults),
            Err(error) => Err(failed(&error.to_string())),
        }
    }
}

/// The amount written by a job.
#[derive(Debug, Clone, Copy, Default)]
struct WriteTotals {
    ops: u64,
    bytes: u64,
}

fn written(part: &Part) -> (WriteTotals, Nanos) {
    let mut sum = WriteTotals::default();
    let directions = part.clones.iter().flat_map(|clone| &clone.directions);
    for direction in directions.filter(|it| it.direction == Direction::Write) {
        sum.ops += direction.ops;
        sum.bytes += direction.bytes;
    }
    let spans = part.clones.iter().map(|clone| clone.runtime_ns);
    (sum, Nanos(spans.max().unwrap_or(0)))
}

/// Whether the trials' files are in a folder.
fn folder(provision: &Provision) -> bool {
    match provision
        .layers
        .iter()
        .find(|layer| !matches!(layer, Layer::Throttle(_)))
    {
        Some(Layer::Zfs(zfs)) => zfs.gives_folder(),
        Some(layer) => matches!(
            layer,
            Layer::Directory { .. }
                | Layer::Tmpfs { .. }
                | Layer::FileSystem { .. }
                | Layer::Overlay { .. }
                | Layer::Nfs(_)
                | Layer::Virtiofs(_)
                | Layer::Fuse(_)
        ),
        None => true,
    }
}

/// Direct writes where the top layer has them.
fn blocks(provision: &Provision) -> Blocks {
    let buffered = |layer: &Layer| matches!(layer, Layer::Zfs(_) | Layer::Tmpfs { .. });
    let direct = !provision.layers.first().is_some_and(buffered);
    let mut blocks = Blocks {
        engine: Engine {
            direct,
            ..match direct {
                true => Engine::new(EngineKind::Libaio, 32),
                false => Engine::new(EngineKind::Psync, 1),
            }
        },
        ..Blocks::default()
    };
    (blocks.access.reads, blocks.access.writes) = (false, true);
    if folder(provision) {
        blocks.files.names = vec![FILE.into()];
    }
    blocks
}

/// Writes the capacity, several times.
fn filling(mut job: Job, limit: Nanos) -> Job {
    if let Some(blocks) = job.work.blocks_mut() {
        blocks.access.block_sizes = PerDirection::all(BlockSizes::Fixed(128 << 10));
        blocks.passes.loops = PASSES;
        if !blocks.files.names.is_empty() {
            // Of the free space, because the file does not exist yet.
            blocks.files.size = Some((Amount::Percent(FREE), Amount::Percent(FREE)));
        }
    }
    job.end = JobEnd {
        runtime: Some(limit),
        ..JobEnd::default()
    };
    job
}

/// Writes at random offsets, which differ from round to round.
fn random(mut job: Job, span: Nanos, number: u64) -> Job {
    if let Some(blocks) = job.work.blocks_mut() {
        blocks.access.order = Order::Random;
        blocks.access.random_map = false;
        blocks.access.seed = Some(number);
        blocks.passes.time_based = true;
    }
    job.end = JobEnd {
        runtime: Some(span),
        ..JobEnd::default()
    };
    job
}

/// Removes the file: a job of one op that unlinks it.
fn removal(mut job: Job) -> Job {
    if let Some(blocks) = job.work.blocks_mut() {
        blocks.files.unlink = true;
    }
    job.end = JobEnd {
        ops: Some(1),
        ..JobEnd::default()
    };
    job
}

/// The steady state of the PTS, over the last five rounds: the difference of the largest and the smallest rate is at
/// most 20 % of their mean. The least-squares line rises or falls by at most 10 % of the mean.
fn is_steady(rates: &[f64]) -> bool {
    let Some(window) = rates.last_chunk::<WINDOW>() else {
        return false;
    };
    let mean = window.iter().sum::<f64>() / WINDOW as f64;
    let largest = window.iter().copied().fold(f64::MIN, f64::max);
    let smallest = window.iter().copied().fold(f64::MAX, f64::min);
    let middle = (WINDOW as f64 - 1.0) / 2.0;
    let xs = || (0..WINDOW).map(|x| x as f64 - middle);
    let products: f64 = xs().zip(window).map(|(x, y)| x * (y - mean)).sum();
    let slope = products / xs().map(|x| x * x).sum::<f64>();
    let line = slope.abs() * (WINDOW as f64 - 1.0);
    mean > 0.0 && largest - smallest <= RANGE * mean && line <= SLOPE * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_rounds_are_steady_within_the_limits_of_the_specification() {
        let steady = |rates: &[f64]| is_steady(rates);
        assert!(!steady(&[100.0; 4]));
        assert!(steady(&[100.0; 5]));
        assert!(!steady(&[0.0; 5]));
        // Only the last five count.
        assert!(steady(&[900.0, 500.0, 100.0, 101.0, 99.0, 100.0, 100.0]));
        // The range is at most 20 % of the mean.
        assert!(steady(&[90.0, 110.0, 100.0, 110.0, 90.0]));
        assert!(!steady(&[89.0, 111.0, 100.0, 111.0, 89.0]));
        // The line rises by 10 %, and by 12 %.
        assert!(steady(&[95.0, 97.5, 100.0, 102.5, 105.0]));
        assert!(!steady(&[94.0, 97.0, 100.0, 103.0, 106.0]));
    }
}
