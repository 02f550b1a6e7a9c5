//! Options of the content of writes, and of verification.

use iodyno_model::{Checksum, HeaderFormat, LoadState, Memory};
use iodyno_options::{Problem, Unit::*, differs, ignored, refused};

use crate::draft::Draft;
use crate::options::{OptionSpec, honoured};
use crate::pattern::pattern;
use crate::value::Value;

#[rustfmt::skip]
pub(super) const OPTIONS: &[OptionSpec] = &[
    honoured("zero_buffers", Boolean, "Writes contain zeroes.",
        |draft, value| value.boolean().map(|it| draft.zero_buffers = it)),
    honoured("refill_buffers", Boolean, "Each write contains new random bytes.",
        |draft, value| value.boolean().map(|it| draft.job.buffers.refill = it)).sets(&["buffers.refill"]),
    honoured("scramble_buffers", Boolean, "Changes a word in each 512 bytes of a random block that is written, so that no two sectors are equal.",
        |draft, value| value.boolean().map(|it| draft.job.buffers.scramble = it)).default("1").sets(&["buffers.scramble"]),
    honoured("buffer_pattern", Forms(&["0xdeadbeef", "\"text\"", "17", "'file'"]), "Writes contain this pattern, repeated.",
        |draft, value| read_pattern(value).map(|it| draft.buffer_pattern = Some(it))),
    honoured("buffer_compress_percentage", Percent, "Compressible percentage of each chunk.",
        |draft, value| value.count(0, 100).map(|it| draft.compress_percent = it)),
    honoured("buffer_compress_chunk", Bytes, "Length of a chunk; 0: the block.",
        |draft, value| value.bytes().map(|it| draft.compress_chunk = it)).default("512"),
    honoured("dedupe_percentage", Percent, "Percentage of writes that repeat an earlier block.",
        |draft, value| value.count(0, 100).map(|it| draft.job.buffers.dedupe_percent = it)),
    differs("dedupe_mode", Words(&["repeat", "working_set"]), "Which blocks are repeated.", "earlier blocks of the same clone are repeated").default("repeat").neutral(&["repeat"]),
    differs("dedupe_global", Boolean, "Repeats blocks of other jobs, too.", "each clone repeats its own blocks").default("0").neutral(&["0"]),
    ignored("dedupe_working_set_percentage", Percent, "Size of the set of repeated blocks.", "it only modifies `dedupe_mode=working_set`, which is ignored"),
    honoured("mem", Words(&["malloc", "mmap", "mmapshared", "shm", "mmaphuge", "shmhuge"]), "Whether buffers use ordinary or huge pages.",
        mem).alias(&["iomem"]).default("malloc").sets(&["buffers.memory"]),
    honoured("iomem_align", Bytes, "Offset of a buffer from the start of a page.",
        |draft, value| value.count_of(value.single()?, 0, 1 << 30).map(|it| draft.job.buffers.align = it)).alias(&["mem_align"]).default("0").sets(&["buffers.align"]),
    ignored("hugepage-size", Bytes, "Size of huge pages.", "the host's default size is used"),
    refused("lockmem", Bytes, "Locks memory to reduce the cache.", "the host's memory is not locked", "use a memory limit, such as `systemd-run -p MemoryMax=`").neutral(&["0"]),
    ignored("gpu_dev_id", Count, "The accelerator whose memory is used.", "it only modifies `mem=cudamalloc`, which is refused"),
    honoured("verify", Words(&["crc32c", "xxhash", "md5", "crc7", "crc16", "crc32", "crc64", "sha1", "sha256", "sha512", "sha3-224", "sha3-256", "sha3-384", "sha3-512", "meta", "pattern", "pattern_hdr", "null", "0"]), "Checksum of each block. Headers of iodyno (see `verify_header`) have xxhash64 in place of all but crc32c and meta.",
        verify).sets(&["verify"]),
    honoured("verify_header", Words(&["iodyno", "fio", "fio-3.40"]), "Format of the blocks' headers: that of iodyno, of fio since 3.41, or of fio up to 3.40. Default: `fio` in `iodyno fio`, `iodyno` elsewhere.",
        |draft, value| value.choice(&[
            ("iodyno", HeaderFormat::Iodyno),
            ("fio", HeaderFormat::Fio),
            ("fio-3.40", HeaderFormat::Fio340),
        ]).map(|it| draft.verify.header = it)),
    honoured("do_verify", Boolean, "Whether a job that writes reads its data back and checks them.",
        |draft, value| value.boolean().map(|it| draft.verify.do_verify = it)).default("1"),
    honoured("verify_only", Boolean, "Only checks what an earlier run wrote.",
        |draft, value| value.boolean().map(|it| draft.verify.only = it)),
    honoured("verify_pattern", Forms(&["0xdeadbeef", "\"text\"", "17", "'file'", "%o"]), "Pattern of the blocks; `%o` stands for the block's offset (8 bytes).",
        |draft, value| {
            let read = pattern(value.string()?, true, &|name| value.content_of(name));
            read.map(|it| draft.verify_pattern = Some(it)).map_err(faulty)
        }),
    honoured("verify_interval", Bytes, "Bytes covered by each header; default: the block. In `iodyno fio`, reduced as fio does where it does not divide all blocks.",
        |draft, value| value.count_of(value.single()?, 0, 1 << 30).map(|it| draft.verify.interval = it)),
    honoured("verify_backlog", Count, "Number of blocks written before each check; default: check at the end.",
        |draft, value| value.bytes().map(|it| draft.verify.backlog = it)),
    honoured("verify_backlog_batch", Count, "Number of blocks checked at a time.",
        |draft, value| value.bytes().map(|it| draft.verify.backlog_batch = it)),
    honoured("verify_fatal", Boolean, "Ends the job at the first bad block, also with `continue_on_error=verify`.",
        |draft, value| value.boolean().map(|it| draft.verify.fatal = it)).default("0"),
    honoured("verify_dump", Boolean, "Writes bad blocks to `FILE.OFFSET.received` in the current folder (at most 64 per clone), and a known pattern beside them to `FILE.OFFSET.expected`.",
        |draft, value| value.boolean().map(|it| draft.verify.dump = it)).default("0"),
    honoured("verify_offset", Bytes, "Offset of a header of fio in the block.",
        |draft, value| value.count_of(value.single()?, 0, 1 << 30).map(|it| draft.verify.header_offset = it)),
    honoured("verify_pattern_interval", Bytes, "Restarts the pattern after this number of bytes, with the offset there.",
        |draft, value| value.count_of(value.single()?, 0, 1 << 30).map(|it| draft.verify_pattern_interval = it)),
    ignored("verify_async", Count, "Threads that check.", "the clone that read a block checks it"),
    ignored("verify_async_cpus", Numbers, "CPUs of those threads.", "the clone that read a block checks it"),
    ignored("verify_policy", Words(&["completed", "fsynced"]), "Which writes are checked.", "completed writes are checked"),
    ignored("verifysort", Boolean, "Checks in the order of offsets.", "the order does not affect the result"),
    ignored("verifysort_nr", Count, "Checks in the order of offsets, in parts.", "the order does not affect the result"),
    ignored("experimental_verify", Boolean, "Repeats the offsets instead of storing them.", "offsets are always repeated from the seed"),
    honoured("verify_state_load", Boolean, "A job that only checks expects the last recorded write of each block; by default if there is a record. 1: the record is required. 0: it is not used.",
        |draft, value| value.boolean().map(|it| draft.verify.load_state = match it {
            true => LoadState::Required,
            false => LoadState::Never,
        })),
    honoured("verify_state_save", Boolean, "Records the last write of each block in the state folder of iodyno (`docs/verification.md`), for a later `verify_only=1`.",
        |draft, value| value.boolean().map(|it| draft.verify.save_state = it)).default("1"),
    honoured("verify_write_sequence", Boolean, "Checks the sequence number; 0 where clones write the same blocks.",
        |draft, value| value.boolean().map(|it| draft.verify.check_sequence = it)).default("1"),
    honoured("verify_header_seed", Boolean, "Checks the seed; 0 where another run may have written the blocks.",
        |draft, value| value.boolean().map(|it| draft.verify.check_seed = it)).default("1"),
    honoured("trim_percentage", Percent, "Percentage of the written blocks of a verifying job that are trimmed, if `trim_backlog` is set.",
        |draft, value| value.count(0, 100).map(|it| draft.trim.percent = it)).default("0"),
    honoured("trim_verify_zero", Boolean, "Whether trimmed blocks are read back and must be zero; otherwise they are not checked.",
        |draft, value| value.boolean().map(|it| draft.trim.check_zero = it)).default("1"),
    honoured("trim_backlog", Count, "Number of blocks written before some are trimmed.",
        |draft, value| value.count(0, u32::MAX).map(|it| draft.trim.backlog = it)).default("0"),
    honoured("trim_backlog_batch", Count, "Number of blocks trimmed at a time; default: `trim_backlog`.",
        |draft, value| value.count(0, u32::MAX).map(|it| draft.trim.batch = it)).default("0"),
];

fn mem(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    let (memory, after) = value.word(&[
        ("malloc", Some(Memory::Anonymous)),
        ("mmap", Some(Memory::Anonymous)),
        ("mmapshared", Some(Memory::Anonymous)),
        ("shm", Some(Memory::Anonymous)),
        ("mmaphuge", Some(Memory::Huge)),
        ("shmhuge", Some(Memory::Huge)),
        ("cudamalloc", None),
    ])?;
    if after.is_some() {
        return Err(Problem::refusal("buffers cannot lie in a file")
            .hint("leave out what follows the colon"));
    }
    draft.job.buffers.memory = memory.ok_or_else(|| {
        Problem::refusal("buffers cannot lie in an accelerator's memory")
            .hint("write `mem=malloc`, or `mem=mmaphuge` for huge pages")
    })?;
    Ok(())
}

fn read_pattern(value: &Value) -> Result<iodyno_model::Pattern, Problem> {
    let read = pattern(value.string()?, false, &|name| value.content_of(name));
    read.map(|read| read.bytes).map_err(faulty)
}

fn faulty((message, hint): (String, String)) -> Problem {
    Problem::error(message).hint(hint)
}

fn verify(draft: &mut Draft, value: &Value) -> Result<(), Problem> {
    // The pattern itself is given by `verify_pattern`, possibly later.
    let pattern = Checksum::Pattern(iodyno_model::Pattern(Vec::new()));
    let checksum = value
        .word(&[
            ("0", None),
            ("null", Some(&Checksum::Nothing)),
            ("crc32c", Some(&Checksum::Crc32c)),
            ("crc32c-intel", Some(&Checksum::Crc32c)),
            ("xxhash", Some(&Checksum::Xxhash32)),
            ("xxhash64", Some(&Checksum::Xxhash64)),
            ("meta", Some(&Checksum::HeaderOnly)),
            ("pattern", Some(&pattern)),
            ("pattern_hdr", Some(&Checksum::PatternWithHeader)),
            ("md5", Some(&Checksum::Md5)),
            ("crc64", Some(&Checksum::Crc64)),
            ("crc32", Some(&Checksum::Crc32)),
            ("crc16", Some(&Checksum::Crc16)),
            ("crc7", Some(&Checksum::Crc7)),
            ("sha1", Some(&Checksum::Sha1)),
            ("sha256", Some(&Checksum::Sha256)),
            ("sha512", Some(&Checksum::Sha512)),
            ("sha3-224", Some(&Checksum::Sha3_224)),
            ("sha3-256", Some(&Checksum::Sha3_256)),
            ("sha3-384", Some(&Checksum::Sha3_384)),
            ("sha3-512", Some(&Checksum::Sha3_512)),
        ])
        .map(|(checksum, _)| checksum.cloned())?;
    draft.verify_on = checksum.is_some();
    draft.verify.checksum = checksum.unwrap_or(Checksum::Crc32c);
    Ok(())
}
