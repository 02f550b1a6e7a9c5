//! Explains the number of fsyncs.

use iodyno_model::{Job, Trial};
use iodyno_units::significant;

use super::{Totals, shared};

/// The largest relative difference at which the computed number explains the counted one.
const EXPLAINED: f64 = 0.01;

/// `13330 syncs a second follow from file-fsync-freq=100 × 128 files: (6248 + 4166) / 100 × 128`; `None` without
/// fsyncs, or if the counters do not agree.
pub fn explanation(job: &Job, trial: &Trial) -> Option<String> {
    let files = shared(job)?;
    let totals = Totals::of(Some(job), trial);
    let [reads, writes, syncs] = totals.ops;
    if syncs == 0 || totals.span_ns == 0 {
        return None;
    }
    let rate = |count: u64| whole(totals.per_second(count));
    let all = u64::from(files.count);
    if files.fsync_all {
        // A thread that was stopped between a write and its fsync has one fsync less.
        let explained = syncs.abs_diff(writes) <= u64::from(job.clones);
        return explained.then(|| {
            format!(
                "{} syncs a second: one after each write, by file-fsync-all",
                rate(syncs)
            )
        });
    }
    if files.fsync_every == 0 {
        let closing = files.fsync_end && syncs <= all * u64::from(job.clones);
        return closing.then(|| format!("{syncs} syncs are those at the end, of {all} files"));
    }
    let every = u64::from(files.fsync_every);
    let computed = (reads + writes) as f64 / every as f64 * all as f64;
    // The last round of fsyncs can be incomplete or missing.
    let allowed = (syncs as f64 * EXPLAINED).max(all as f64);
    let explained = (syncs as f64 - computed).abs() <= allowed && reads + writes >= every;
    explained.then(|| {
        let requests = match (reads, writes) {
            (0, writes) => rate(writes),
            (reads, writes) => format!("({} + {})", rate(reads), rate(writes)),
        };
        let exact = (syncs as f64 - computed).abs() <= syncs as f64 * EXPLAINED;
        let rest = match exact {
            true => "",
            false => ", and the last round of syncs is incomplete",
        };
        format!(
            "{} syncs a second follow from file-fsync-freq={every} × {all} files: {requests} / {every} × {all}{rest}",
            rate(syncs)
        )
    })
}

/// The rate, without decimals if it has at least three digits.
fn whole(rate: f64) -> String {
    significant(rate).to_string()
}
