//! The output of `prepare`.

use iodyno_model::{Direction, SharedFiles, Step, Trial, Workload};
use iodyno_units::Nanos;

use super::preamble::open_flags;
use super::{Totals, clones, job, mib, shared};
use crate::operations::longest;

/// The output of prepare: sizes and open flags, a line for each file if its state is known, then `2147483648 bytes
/// written in 3.21 seconds (637.98 MiB/sec).` The time is that of the writes and the fsyncs. Ends with a newline; empty
/// for a workload without shared files.
pub fn prepared(workload: &Workload, trial: &Trial) -> String {
    let Some((job, files)) = job(workload).and_then(|job| Some((job, shared(job)?))) else {
        return String::new();
    };
    let totals = Totals::of(Some(job), trial);
    let written = totals.bytes[Direction::Write as usize];
    let total = files.total_size();
    let numbers = 0..files.count;
    // If some of the files existed, only the sum of bytes is known.
    let done = match written {
        0 => Some("Reusing existing file"),
        bytes if bytes >= total => Some("Creating file"),
        _ => None,
    };
    let mut text = format!(
        "{} files, {}Kb each, {}Mb total\nCreating files for the test...\n{}",
        files.count,
        files.file_size >> 10,
        total >> 20,
        open_flags(&files.engine)
    );
    if let Some(words) = done {
        text.extend(numbers.map(|number| format!("{words} {}\n", SharedFiles::file_name(number))));
    }
    text += &match written {
        0 => "No bytes written.\n".to_owned(),
        bytes => {
            let seconds = Nanos(span_ns(trial, &totals)).secs();
            let rate = mib(bytes as f64) / seconds.max(1e-9);
            format!("{bytes} bytes written in {seconds:.2} seconds ({rate:.2} MiB/sec).\n")
        }
    };
    text
}

/// Time until everything was written and, if the job requests it, synced, ns.
fn span_ns(trial: &Trial, totals: &Totals) -> u64 {
    let start = clones(trial).map(|clone| clone.start_ns).min().unwrap_or(0);
    let done = clones(trial).filter_map(|clone| clone.done_ns).max();
    let synced = totals.span_ns + longest(trial, Step::EndFsync).unwrap_or(0);
    done.map_or(0, |done| done.saturating_sub(start))
        .max(synced)
}
