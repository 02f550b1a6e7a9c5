//! The options of the files and of what is done to them.

use iodyno_model::SharedMode;
use iodyno_options::{Fault, Unit::*, one_of};

use super::{OptionSpec, honoured};
use crate::draft::{Draft, IoMode};
use crate::value::{count, number, size, switch};

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

#[rustfmt::skip]
pub(super) const OPTIONS: &[OptionSpec] = &[
    honoured("file-num", Count, "Files, `test_file.0` and on, in the current folder.",
        |draft, text| count(text, 1..=MOST).map(|value| draft.file_num = value as u32)).default("128"),
    honoured("file-block-size", Bytes, "Bytes of a request.",
        |draft, text| size(text).map(|value| draft.block = value)).default("16384"),
    honoured("file-total-size", Bytes, "Bytes of all files together; each has the file-num-th part of it.",
        |draft, text| size(text).map(|value| draft.total = value)).default("2G"),
    honoured("file-test-mode", Words(MODE_NAMES), "What `run` does: writes new files, rewrites, or reads them in order; reads, writes, or both, at random.",
        |draft, text| one_of(text, &MODES).map(|value| draft.mode = Some(value))),
    honoured("file-io-mode", Words(&["sync", "async", "mmap"]), "pread and pwrite; Linux AIO with file-async-backlog requests of a thread in flight; mapped files.",
        |draft, text| one_of(text, &IO_MODES).map(|value| draft.io_mode = value)).default("sync"),
    honoured("file-async-backlog", Count, "Requests of one thread in flight, with `--file-io-mode=async`.",
        |draft, text| count(text, 1..=65536).map(|value| draft.backlog = value as u32)).default("128"),
    honoured("file-extra-flags", SomeOf(&["sync", "dsync", "direct"]), "How files are opened besides: O_SYNC, O_DSYNC, O_DIRECT; `directio` is `direct`.",
        file_extra_flags),
    honoured("file-fsync-freq", Count, "All files are synced after so many requests; 0: never.",
        |draft, text| count(text, 0..=MOST).map(|value| draft.fsync_freq = value as u32)).default("100"),
    honoured("file-fsync-all", Switch, "The file is synced after each write; turns file-fsync-freq and file-fsync-end off.",
        |draft, text| switch(text).map(|value| draft.fsync_all = value)).default("off"),
    honoured("file-fsync-end", Switch, "All files are synced at the end of a run that writes.",
        |draft, text| switch(text).map(|value| draft.fsync_end = value)).default("on"),
    honoured("file-fsync-mode", Words(&["fsync", "fdatasync"]), "How files are synced.", file_fsync_mode).default("fsync"),
    honoured("file-merged-requests", Count, "Blocks of one request, where requests follow one another; 0: one.",
        |draft, text| count(text, 0..=MOST).map(|value| draft.merged_requests = value as u32)).default("0"),
    honoured("file-rw-ratio", Number, "Reads to a write, in `rndrw`.",
        |draft, text| number(text).map(|value| draft.ratio = value)).default("1.5"),
    honoured("validate", Switch, "Each block written ends in a checksum and its offset, and each block read is held against them; for `prepare` as well as for `run`.",
        |draft, text| switch(text).map(|value| draft.validate = value)).default("off"),
];

fn file_extra_flags(draft: &mut Draft, text: &str) -> Result<(), Fault> {
    (draft.sync, draft.dsync, draft.direct) = (false, false, false);
    for flag in text.split(',').filter(|flag| !flag.is_empty()) {
        match one_of(flag, &FLAGS)? {
            Flag::Sync => draft.sync = true,
            Flag::Dsync => draft.dsync = true,
            Flag::Direct => draft.direct = true,
        }
    }
    Ok(())
}

fn file_fsync_mode(draft: &mut Draft, text: &str) -> Result<(), Fault> {
    let words = [("fsync", false), ("fdatasync", true)];
    one_of(text, &words).map(|value| draft.data_only = value)
}
