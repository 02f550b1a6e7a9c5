//! Checks options against each other: sizes, flags and modes that do not fit, and warnings.

use iodyno_model::{Diagnostic, SharedMode};
use iodyno_units::Bytes;

use super::Action;
use super::command_line::Parsed;
use super::draft::{Draft, IoMode, Law};

/// Minimum alignment of offsets and lengths with O_DIRECT, bytes.
const SECTOR: u64 = 512;
/// Maximum length of a request, bytes: well below the limit of one system call.
const LARGEST: u64 = 1 << 30;
/// A checksum of 4 bytes and an offset of 8.
const SEAL: u64 = 12;

/// Checks the options against each other, for a command that needs a job.
pub(super) fn check(parsed: &mut Parsed<'_>, action: Action) {
    let draft = parsed.draft.clone();
    // A default that replaces an invalid value must not cause further errors.
    let sized = parsed.are_valid(&["file-num", "file-total-size", "file-block-size"]);
    if sized && sizes(parsed, &draft) {
        alignment(parsed, &draft);
        seals(parsed, &draft);
    }
    match action {
        Action::Prepare => preparing(parsed, &draft),
        _ => {
            flags(parsed, &draft);
            running(parsed, &draft);
        }
    }
}

/// Checks that files and blocks are not empty and fit together.
fn sizes(parsed: &mut Parsed<'_>, draft: &Draft) -> bool {
    let mut sound = true;
    for (option, value) in [
        ("file-total-size", draft.total),
        ("file-block-size", draft.block),
    ] {
        if value == 0 {
            sound = false;
            let message = format!("`--{option}` is 0");
            parsed.about(option, Diagnostic::error(message).hint("give a size"));
        }
    }
    if draft.block > LARGEST {
        sound = false;
        let (block, most) = (Bytes(draft.block), Bytes(LARGEST));
        let message = format!("a block of {block} is longer than a request may be, {most}");
        parsed.about("file-block-size", Diagnostic::error(message));
    }
    let (files, each) = (u64::from(draft.file_num), draft.file_size());
    if sound && draft.block > each {
        sound = false;
        let message = format!(
            "{files} files of {} together have {} each, which is less than a block of {}",
            Bytes(draft.total),
            Bytes(each),
            Bytes(draft.block)
        );
        let least = files.saturating_mul(draft.block);
        let hint =
            format!("use `--file-total-size={least}` or more, fewer files or smaller blocks");
        let option = match parsed.draft.has("file-total-size") {
            true => "file-total-size",
            false => "file-block-size",
        };
        parsed.about(option, Diagnostic::error(message).hint(hint));
    }
    let rest = draft.total % files.max(1);
    if sound && rest > 0 {
        let message = format!(
            "{} bytes do not divide into {files} files: each has {each}, and {rest} are left out",
            draft.total
        );
        parsed.about("file-total-size", Diagnostic::note(message));
    }
    sound
}

/// O_DIRECT needs whole sectors, also at the end of a file.
fn alignment(parsed: &mut Parsed<'_>, draft: &Draft) {
    if !draft.direct {
        return;
    }
    if !draft.block.is_multiple_of(SECTOR) {
        let message = format!(
            "`direct` needs whole sectors of {SECTOR} bytes; a block has {} bytes",
            draft.block
        );
        let hint = format!(
            "use `--file-block-size={}`",
            draft.block.next_multiple_of(SECTOR)
        );
        parsed.about("file-block-size", Diagnostic::error(message).hint(hint));
    } else if !draft.file_size().is_multiple_of(SECTOR) {
        let (files, each) = (u64::from(draft.file_num), draft.file_size());
        let message = format!(
            "`direct` needs whole sectors of {SECTOR} bytes; each of {files} files has {each} bytes"
        );
        let whole = (each - each % draft.block).saturating_mul(files);
        let hint = format!("use `--file-total-size={whole}`: whole blocks in each file");
        parsed.about("file-total-size", Diagnostic::error(message).hint(hint));
    }
}

/// Checksum and offset need space at the end of each block. The last block of a file may lack them.
fn seals(parsed: &mut Parsed<'_>, draft: &Draft) {
    if draft.validate && draft.block <= SEAL {
        let message = format!(
            "a block has {} bytes, and `--validate` needs {SEAL} for a checksum and an offset",
            draft.block
        );
        let hint = "use larger blocks";
        parsed.about("validate", Diagnostic::error(message).hint(hint));
    }
}

/// Warns of open flags that have no effect with the I/O mode.
fn flags(parsed: &mut Parsed<'_>, draft: &Draft) {
    let flags = [
        ("direct", draft.direct),
        ("sync", draft.sync),
        ("dsync", draft.dsync),
    ];
    let flag = flags.into_iter().find(|(_, given)| *given);
    if let (IoMode::Mmap, Some((flag, _))) = (draft.io_mode, flag) {
        let message = format!(
            "`{flag}` does not apply to a mapped file, whose I/O goes through the page cache"
        );
        let hint = "leave the flag out, or use `--file-io-mode=sync`";
        parsed.about("file-extra-flags", Diagnostic::error(message).hint(hint));
    }
    // Flags that were given, also empty ones, are meant.
    let chosen = draft.has("file-extra-flags");
    if draft.io_mode == IoMode::Async && !draft.direct && !chosen {
        let message =
            "the kernel does buffered asynchronous requests one at a time, within submission";
        let hint = "add `--file-extra-flags=direct`; if buffered requests are meant, `--file-extra-flags=`";
        parsed.about("file-io-mode", Diagnostic::warning(message).hint(hint));
    }
    if draft.has("file-async-backlog") && draft.io_mode != IoMode::Async {
        let message = "`--file-async-backlog` has no effect without `--file-io-mode=async`";
        parsed.about("file-async-backlog", Diagnostic::note(message));
    }
}

fn preparing(parsed: &mut Parsed<'_>, draft: &Draft) {
    if draft.threads > 1 {
        let message =
            "files are prepared by one thread, as sysbench does, whatever `--threads` says";
        parsed.about("threads", Diagnostic::note(message));
    }
}

fn running(parsed: &mut Parsed<'_>, draft: &Draft) {
    let Some(mode) = draft.mode else {
        // An invalid mode was already reported.
        if parsed.are_valid(&["file-test-mode"]) {
            let missing = Diagnostic::error("`run` needs `--file-test-mode`")
                .hint("one of seqwr, seqrewr, seqrd, rndrd, rndwr, rndrw");
            parsed.diagnostics.push(missing);
        }
        return;
    };
    distribution(parsed, draft, mode);
    if draft.has("file-rw-ratio") && mode != SharedMode::RandomMix {
        let message = format!("`--file-rw-ratio` has no effect on `{}`", mode.name());
        parsed.about("file-rw-ratio", Diagnostic::note(message));
    }
    if draft.merged_requests > 1 {
        merging(parsed, draft, mode);
    }
    if draft.fsync_all {
        let off = [
            ("file-fsync-freq", draft.fsync_freq > 0),
            ("file-fsync-end", draft.fsync_end),
        ];
        for (option, on) in off {
            if on && draft.has(option) {
                let message = format!("`--file-fsync-all` turns `--{option}` off");
                parsed.about(option, Diagnostic::note(message));
            }
        }
    }
    if draft.time.0 == 0 && draft.events == 0 {
        let endless = Diagnostic::warning("neither `--time` nor `--events` ends the run")
            .hint("it runs until Ctrl-C");
        parsed.about("time", endless);
    }
}

fn distribution(parsed: &mut Parsed<'_>, draft: &Draft, mode: SharedMode) {
    if !draft.has("rand-type") || draft.law == Law::Uniform {
        return;
    }
    if !mode.random() {
        let message = format!("`--rand-type` has no effect on `{}`", mode.name());
        parsed.about("rand-type", Diagnostic::note(message));
        return;
    }
    let message =
        "`--rand-type` takes effect here; sysbench's fileio ignores it and draws uniformly";
    let hint = "leave it out to compare with sysbench's figures";
    parsed.about("rand-type", Diagnostic::warning(message).hint(hint));
}

fn merging(parsed: &mut Parsed<'_>, draft: &Draft, mode: SharedMode) {
    if mode.random() {
        let message = format!(
            "`--file-merged-requests` has no effect on `{}`",
            mode.name()
        );
        parsed.about("file-merged-requests", Diagnostic::note(message));
    } else if draft.merged(u64::from(draft.merged_requests)) > LARGEST {
        let message = format!(
            "{} blocks of {} are longer than a request may be, {}",
            draft.merged_requests,
            Bytes(draft.block),
            Bytes(LARGEST)
        );
        parsed.about("file-merged-requests", Diagnostic::error(message));
    }
}
