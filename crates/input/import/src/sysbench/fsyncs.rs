//! The number of fsyncs, with an explanation.

use super::preamble::Preamble;
use super::result::Result;

/// sysbench's own default, for output without the option.
const DEFAULT_EVERY: f64 = 100.0;
/// A computed rate explains a printed one if the relative difference is at most this.
const EXPLAINED: f64 = 0.005;

/// The explanation of the printed rate of fsyncs; `None` if there are none, or if no setting is known that could
/// explain them.
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
        None if !preamble.has_fsync => Some(DEFAULT_EVERY),
        known => known,
    };
    let periodic = every.map_or(0.0, |every| (reads + writes) / every * files);
    // Each thread syncs all files at its end.
    let closing = match (result.total_time, threads) {
        (Some(time), Some(threads)) if time > 0.0 => f64::from(threads) * files / time,
        _ => 0.0,
    };
    Some(match every {
        Some(every) if explains(periodic) || explains(periodic + closing) => {
            let mode = if preamble.has_fsync {
                ""
            } else {
                " (sysbench's default)"
            };
            format!(
                "{printed} fsyncs/s are explained by fsync-freq={every}{mode} × {files} files: every {every} \
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
