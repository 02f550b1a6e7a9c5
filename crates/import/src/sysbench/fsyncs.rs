//! The number of fsyncs, with an explanation.

use super::preamble::Preamble;
use super::result::Result;

/// sysbench's own default, for an output that does not tell.
const DEFAULT_EVERY: f64 = 100.0;
/// Within this share, a printed rate is explained by a computed one.
const EXPLAINED: f64 = 0.005;

/// What the printed fsyncs a second follow from, in words; `None` where there are none, or nothing is known
/// that they could follow from.
pub(super) fn explained(
    preamble: &Preamble,
    result: &Result,
    threads: Option<u32>,
) -> Option<String> {
    let (reads, writes) = (result.reads?, result.writes?);
    let printed = result.fsyncs.filter(|rate| *rate > 0.0)?;
    let explains = |computed: f64| (printed / computed - 1.0).abs() <= EXPLAINED;
    if preamble.fsync_each_write {
        return explains(writes).then(|| {
            format!("{printed} fsyncs/s: one after each write, as file-fsync-all has it")
        });
    }
    let files = f64::from(preamble.files?);
    let every = match preamble.fsync_every {
        None if !preamble.told_fsync => Some(DEFAULT_EVERY),
        told => told,
    };
    let periodic = every.map_or(0.0, |every| (reads + writes) / every * files);
    // Each thread syncs all files at its end.
    let closing = match (result.total_time, threads) {
        (Some(time), Some(threads)) if time > 0.0 => f64::from(threads) * files / time,
        _ => 0.0,
    };
    Some(match every {
        Some(every) if explains(periodic) || explains(periodic + closing) => {
            let told = if preamble.told_fsync {
                ""
            } else {
                " (sysbench's default)"
            };
            format!(
                "{printed} fsyncs/s are explained by fsync-freq={every}{told} × {files} files: every {every} \
                 requests, reads too, bring {files} fsyncs, which makes {periodic:.1}/s"
            )
        }
        None if explains(closing) => format!(
            "{printed} fsyncs/s are those at the end alone: each thread syncs each of the {files} files"
        ),
        _ => format!(
            "{printed} fsyncs/s do not follow from what is known of fsync-freq: {:.1}/s would",
            periodic + closing
        ),
    })
}
