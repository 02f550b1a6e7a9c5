//! The settings that are printed before a run.

use iodyno_model::{Engine, EngineKind, Job, SharedFiles, SharedMode};
use iodyno_units::Nanos;

use super::shared;

/// The settings, from `Running the test with following options:` to `Threads started!`, and an empty line. Empty
/// for a job without shared files.
pub fn preamble(job: &Job, seed: Option<u64>, report_interval: Option<Nanos>) -> String {
    match shared(job) {
        Some(files) => {
            general(job, files, seed, report_interval)
                + &fileio(job, files)
                + "Initializing worker threads...\n\nThreads started!\n\n"
        }
        None => String::new(),
    }
}

fn general(
    job: &Job,
    files: &SharedFiles,
    seed: Option<u64>,
    report_interval: Option<Nanos>,
) -> String {
    let mut text = format!(
        "Running the test with following options:\nNumber of threads: {}\n",
        job.clones
    );
    if job.end.ramp.0 > 0 {
        text += &format!("Warmup time: {}s\n", job.end.ramp.secs().round());
    }
    if job.pacing.ops_per_s > 0.0 {
        let rate = job.pacing.ops_per_s * f64::from(job.clones);
        text += &format!("Target transaction rate: {rate:.0}/sec\n");
    }
    if let Some(every) = report_interval.filter(|every| every.0 > 0) {
        let seconds = every.secs();
        text += &format!("Report intermediate results every {seconds} second(s)\n");
    }
    if files.validate {
        text += "Validation checks: on.\n\n";
    }
    text += &match seed {
        Some(seed) => format!("Initializing random number generator from seed ({seed}).\n"),
        None => "Initializing random number generator from current time\n".to_owned(),
    };
    text + "\n\n"
}

fn fileio(job: &Job, files: &SharedFiles) -> String {
    let total = files.total_size();
    let mut text = format!(
        "{}{} files, {}B each\n{}B total file size\nBlock size {}B\n",
        open_flags(&files.engine),
        files.count,
        size(files.file_size),
        size(total),
        size(files.block),
    );
    if files.merged > 0 {
        let up_to = size(files.merged);
        text += &format!("Merging requests up to {up_to}B for sequential IO.\n");
    }
    if files.mode.random() {
        let requests = job.end.ops.unwrap_or(0);
        let ratio = files.read_write_ratio;
        text += &format!(
            "Number of IO requests: {requests}\n\
             Read/Write ratio for combined random IO test: {ratio:.2}\n"
        );
    }
    if files.fsync_every > 0 {
        let every = files.fsync_every;
        text += &format!("Periodic FSYNC enabled, calling fsync() each {every} requests.\n");
    }
    if files.fsync_end {
        text += "Calling fsync() at the end of test, Enabled.\n";
    }
    if files.fsync_all {
        text += "Calling fsync() after each write operation.\n";
    }
    text += &format!("Using {} I/O mode\n", io_mode(&files.engine.kind));
    if files.validate {
        text += "Using checksums validation.\n";
    }
    text + &format!("Doing {} test\n", test(files.mode))
}

/// `Extra file open flags: (none)` with a newline. `sync` and `dsync` are followed by a blank, as in sysbench.
pub(super) fn open_flags(engine: &Engine) -> String {
    let flags = [
        (engine.o_sync, "sync "),
        (engine.o_dsync, "dsync "),
        (engine.direct, "directio"),
    ];
    let set: String = flags
        .into_iter()
        .filter_map(|(set, word)| set.then_some(word))
        .collect();
    match set.is_empty() {
        true => "Extra file open flags: (none)\n".to_owned(),
        false => format!("Extra file open flags: {set}\n"),
    }
}

fn io_mode(kind: &EngineKind) -> &'static str {
    match kind {
        EngineKind::Mmap => "fast mmaped",
        EngineKind::Libaio => "asynchronous",
        _ => "synchronous",
    }
}

fn test(mode: SharedMode) -> &'static str {
    match mode {
        SharedMode::Prepare => "preparation",
        SharedMode::SequentialWrite => "sequential write (creation)",
        SharedMode::SequentialRewrite => "sequential rewrite",
        SharedMode::SequentialRead => "sequential read",
        SharedMode::RandomRead => "random read",
        SharedMode::RandomWrite => "random write",
        SharedMode::RandomMix => "random r/w",
    }
}

/// `16Ki`, `1.9531Mi`, `512`: five significant digits without trailing zeros.
fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "";
    for larger in ["Ki", "Mi", "Gi", "Ti"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    let whole = format!("{value:.0}").len();
    let text = format!("{value:.*}", 5usize.saturating_sub(whole));
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_five_digits_without_trailing_zeros() {
        for (bytes, text) in [
            (0, "0"),
            (512, "512"),
            (1000, "1000"),
            (16_384, "16Ki"),
            (16 << 20, "16Mi"),
            (8 << 30, "8Gi"),
            (1 << 40, "1Ti"),
            (2_000_000, "1.9073Mi"),
            (1_073_741_825, "1Gi"),
            (48_806_446, "46.545Mi"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }
}
