//! Failed ops and failed verification of a trial as diagnostics: file, offset, length and reason.

use iodyno_model::{
    BadBlock, CloneResult, Diagnostic, Direction, ErrorCount, Outcome, Trial, VerifyResult,
    Workload, errno_name,
};

/// The largest number of lines in a diagnostic; others are counted.
const MAX_LINES: usize = 10;
/// EILSEQ: the errno under which reads of bad blocks are counted.
const VERIFY_ERRNO: i32 = 84;

/// The most jobs whose first failures are named; the others are counted.
const MAX_NAMED_JOBS: usize = 3;
/// The largest number of diagnostics of one trial.
const MAX_JOBS: usize = 20;

/// One diagnostic for each job with failed ops.
pub(crate) fn failed_ops(workload: &Workload, trial: &Trial) -> Vec<Diagnostic> {
    by_job(workload, trial, |job, clones, named| {
        ops(job, clones, trial, named)
    })
}

/// One diagnostic for each job with bad blocks; `named`: including the first of them.
pub(crate) fn failed_blocks(workload: &Workload, trial: &Trial, named: bool) -> Vec<Diagnostic> {
    by_job(workload, trial, |job, clones, few| {
        blocks(job, clones, named && few)
    })
}

/// One diagnostic for each job that did not check all blocks.
pub(crate) fn unchecked_blocks(workload: &Workload, trial: &Trial) -> Vec<Diagnostic> {
    by_job(workload, trial, |job, clones, _| {
        let results = clones.iter().filter_map(|clone| clone.verify.as_ref());
        let blocks: u64 = results.map(|result| result.unchecked).sum();
        (blocks > 0).then(|| {
            Diagnostic::warning(format!(
                "job `{job}`: {} not checked: the last write failed, was not made, or was a trim",
                counted(blocks, "block was", "blocks were")
            ))
        })
    })
}

/// The reason why a trial failed, unless failed ops or bad blocks explain it: a limit such as `max_latency` or
/// `rate_iops_min`, or stuck storage.
pub(crate) fn other_failure(workload: &Workload, trial: &Trial) -> Option<Diagnostic> {
    let Outcome::Failed(reason) = &trial.outcome else {
        return None;
    };
    let explained = [
        failed_ops(workload, trial),
        failed_blocks(workload, trial, false),
    ]
    .iter()
    .any(|diagnostics| !diagnostics.is_empty());
    let fault = |name: &str| reason.contains(&format!("job `{name}`: cannot "));
    let more = workload.jobs.iter().any(|job| fault(&job.name));
    (more || !explained).then(|| Diagnostic::error(reason.clone()))
}

/// `tell` creates the diagnostic of a job, with its first failures if the flag is set.
fn by_job(
    workload: &Workload,
    trial: &Trial,
    tell: impl Fn(&str, &[&CloneResult], bool) -> Option<Diagnostic>,
) -> Vec<Diagnostic> {
    let clones: Vec<&CloneResult> = trial.parts.iter().flat_map(|part| &part.clones).collect();
    let mut diagnostics = Vec::new();
    let mut beyond = 0;
    for (index, job) in workload.jobs.iter().enumerate() {
        let own = clones.iter().filter(|clone| clone.job as usize == index);
        let own: Vec<&CloneResult> = own.copied().collect();
        match tell(&job.name, &own, diagnostics.len() < MAX_NAMED_JOBS) {
            Some(_) if diagnostics.len() == MAX_JOBS => beyond += 1,
            diagnostic => diagnostics.extend(diagnostic),
        }
    }
    if beyond > 0 {
        let text = format!("the same of {}", counted(beyond, "more job", "more jobs"));
        diagnostics.push(Diagnostic::error(text));
    }
    diagnostics
}

fn ops(job: &str, clones: &[&CloneResult], trial: &Trial, named: bool) -> Option<Diagnostic> {
    let checked = |error: &&ErrorCount| error.errno != VERIFY_ERRNO;
    let errors = clones.iter().flat_map(|clone| &clone.errors);
    let errors: Vec<&ErrorCount> = errors.filter(checked).collect();
    let failed: u64 = errors.iter().map(|error| error.count).sum();
    if failed == 0 {
        return None;
    }
    let mut text = format!(
        "job `{job}`: {}",
        counted(failed, "op failed", "ops failed")
    );
    if named {
        let lines = errors.iter().take(MAX_LINES).map(|error| one_kind(error));
        let beyond = errors.len().saturating_sub(MAX_LINES) as u64;
        let more = ["more kind of error", "more kinds of errors"];
        text = with_lines(text, lines.collect(), beyond, more);
    }
    // A trial whose jobs continue after errors completes.
    Some(match trial.outcome {
        Outcome::Completed => Diagnostic::warning(text),
        _ => Diagnostic::error(text),
    })
}

/// The failed ops of one direction and errno of a clone.
fn one_kind(error: &ErrorCount) -> String {
    let (errno, direction) = (errno_name(error.errno), error.direction.name());
    let reason = std::io::Error::from_raw_os_error(error.errno).to_string();
    let reason = reason
        .split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned();
    let at = match (error.direction, error.first_length) {
        // Syncs and file operations have no offset.
        (Direction::Read | Direction::Write | Direction::Trim, 0) => {
            format!(" at offset {}", error.first_offset)
        }
        (Direction::Read | Direction::Write | Direction::Trim, length) => {
            format!(" at offset {}, {length} bytes", error.first_offset)
        }
        _ => String::new(),
    };
    let more = match error.count {
        1 => String::new(),
        count => format!("; {} more with this error", count - 1),
    };
    format!(
        "{direction} of `{}`{at}: {errno} ({reason}){more}",
        error.first_file
    )
}

fn blocks(job: &str, clones: &[&CloneResult], named: bool) -> Option<Diagnostic> {
    let results: Vec<&VerifyResult> = clones
        .iter()
        .filter_map(|clone| clone.verify.as_ref())
        .collect();
    let bad: u64 = results.iter().map(|result| result.bad()).sum();
    if bad == 0 {
        return None;
    }
    let checked: u64 = results.iter().map(|result| result.checked).sum();
    let text = format!(
        "job `{job}`: verification failed: {bad} of {} differ from what was written",
        counted(checked.max(bad), "block", "blocks")
    );
    if !named {
        return Some(Diagnostic::error(text));
    }
    let lines: Vec<String> = results
        .iter()
        .flat_map(|result| &result.bad_blocks)
        .take(MAX_LINES)
        .map(one_block)
        .collect();
    let beyond = bad.saturating_sub(lines.len() as u64);
    let text = with_lines(text, lines, beyond, ["more block", "more blocks"]);
    let hint = VerifyResult::remedy(results).unwrap_or_else(|| {
        "check the storage, and whether another process writes to these files; `verify_dump=1` writes bad blocks to files"
            .to_owned()
    });
    Some(Diagnostic::error(text).hint(hint))
}

fn one_block(block: &BadBlock) -> String {
    let BadBlock {
        file,
        offset,
        length,
        found,
        fitting: _,
    } = block;
    format!("`{file}` at offset {offset}, {length} bytes: found {found}")
}

fn with_lines(text: String, mut lines: Vec<String>, beyond: u64, more: [&str; 2]) -> String {
    lines.insert(0, text);
    lines.extend((beyond > 0).then(|| format!("and {}", counted(beyond, more[0], more[1]))));
    lines.join("\n")
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
