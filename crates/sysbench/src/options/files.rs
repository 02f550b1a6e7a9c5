//! The options of the files and of what is done to them.

use iodyno_model::SharedMode;

use crate::draft::IoMode;
use crate::option::{OptionSpec, Unit};
use crate::value::{count, number, size, switch, word};

const MODES: [(&str, SharedMode); 6] = [
    ("seqwr", SharedMode::SequentialWrite),
    ("seqrewr", SharedMode::SequentialRewrite),
    ("seqrd", SharedMode::SequentialRead),
    ("rndrd", SharedMode::RandomRead),
    ("rndwr", SharedMode::RandomWrite),
    ("rndrw", SharedMode::RandomMix),
];

const MODE_NAMES: &[&str] = &["seqwr", "seqrewr", "seqrd", "rndrd", "rndwr", "rndrw"];

/// The last two are what release 0.4 called `mmap`.
const IO_MODES: [(&str, IoMode); 5] = [
    ("sync", IoMode::Sync),
    ("async", IoMode::Async),
    ("mmap", IoMode::Mmap),
    ("fastmmap", IoMode::Mmap),
    ("slowmmap", IoMode::Mmap),
];

#[derive(Clone, Copy)]
enum Flag {
    Sync,
    Dsync,
    Direct,
}

const FLAGS: [(&str, Flag); 4] = [
    ("sync", Flag::Sync),
    ("dsync", Flag::Dsync),
    ("direct", Flag::Direct),
    ("directio", Flag::Direct),
];

const MOST: u64 = i32::MAX as u64;

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::honoured(
        "file-num",
        Unit::Count,
        "128",
        "Files, `test_file.0` and on, in the current folder.",
        |draft, text| count(text, 1..=MOST).map(|value| draft.file_num = value as u32),
    ),
    OptionSpec::honoured(
        "file-block-size",
        Unit::Size,
        "16384",
        "Bytes of a request.",
        |draft, text| size(text).map(|value| draft.block = value),
    ),
    OptionSpec::honoured(
        "file-total-size",
        Unit::Size,
        "2G",
        "Bytes of all files together; each has the file-num-th part of it.",
        |draft, text| size(text).map(|value| draft.total = value),
    ),
    OptionSpec::honoured(
        "file-test-mode",
        Unit::Words(MODE_NAMES),
        "",
        "What `run` does: writes new files, rewrites, or reads them in order; reads, writes, or both, at random.",
        |draft, text| word(text, &MODES).map(|value| draft.mode = Some(value)),
    ),
    OptionSpec::honoured(
        "file-io-mode",
        Unit::Words(&["sync", "async", "mmap"]),
        "sync",
        "pread and pwrite; Linux AIO with file-async-backlog requests of a thread in flight; mapped files.",
        |draft, text| word(text, &IO_MODES).map(|value| draft.io_mode = value),
    ),
    OptionSpec::honoured(
        "file-async-backlog",
        Unit::Count,
        "128",
        "Requests of one thread in flight, with `--file-io-mode=async`.",
        |draft, text| count(text, 1..=65536).map(|value| draft.backlog = value as u32),
    ),
    OptionSpec::honoured(
        "file-extra-flags",
        Unit::List(&["sync", "dsync", "direct"]),
        "",
        "How files are opened besides: O_SYNC, O_DSYNC, O_DIRECT; `directio` is `direct`.",
        |draft, text| {
            (draft.sync, draft.dsync, draft.direct) = (false, false, false);
            for flag in text.split(',').filter(|flag| !flag.is_empty()) {
                match word(flag, &FLAGS)? {
                    Flag::Sync => draft.sync = true,
                    Flag::Dsync => draft.dsync = true,
                    Flag::Direct => draft.direct = true,
                }
            }
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "file-fsync-freq",
        Unit::Count,
        "100",
        "All files are synced after so many requests; 0: never.",
        |draft, text| count(text, 0..=MOST).map(|value| draft.fsync_freq = value as u32),
    ),
    OptionSpec::honoured(
        "file-fsync-all",
        Unit::Switch,
        "off",
        "The file is synced after each write; turns file-fsync-freq and file-fsync-end off.",
        |draft, text| switch(text).map(|value| draft.fsync_all = value),
    ),
    OptionSpec::honoured(
        "file-fsync-end",
        Unit::Switch,
        "on",
        "All files are synced at the end of a run that writes.",
        |draft, text| switch(text).map(|value| draft.fsync_end = value),
    ),
    OptionSpec::honoured(
        "file-fsync-mode",
        Unit::Words(&["fsync", "fdatasync"]),
        "fsync",
        "How files are synced.",
        |draft, text| {
            let words = [("fsync", false), ("fdatasync", true)];
            word(text, &words).map(|value| draft.data_only = value)
        },
    ),
    OptionSpec::honoured(
        "file-merged-requests",
        Unit::Count,
        "0",
        "Blocks of one request, where requests follow one another; 0: one.",
        |draft, text| count(text, 0..=MOST).map(|value| draft.merged_requests = value as u32),
    ),
    OptionSpec::honoured(
        "file-rw-ratio",
        Unit::Number,
        "1.5",
        "Reads to a write, in `rndrw`.",
        |draft, text| number(text).map(|value| draft.ratio = value),
    ),
    OptionSpec::honoured(
        "validate",
        Unit::Switch,
        "off",
        "Each block written ends in a checksum and its offset, and each block read is held against them; for \
         `prepare` as well as for `run`.",
        |draft, text| switch(text).map(|value| draft.validate = value),
    ),
];
