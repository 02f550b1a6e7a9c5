//! Options of what writes carry, and of its verification.

use iodyno_model::{Checksum, Memory};

use crate::option::{OptionSpec, Unit};
use crate::pattern::pattern;
use crate::value::{Fault, Value};

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::honoured(
        "zero_buffers",
        Unit::Boolean,
        "Writes carry zeroes.",
        |draft, value| {
            draft.zero_buffers = value.boolean()?;
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "refill_buffers",
        Unit::Boolean,
        "Each write carries new random bytes.",
        |draft, value| {
            draft.job.buffers.refill = value.boolean()?;
            Ok(())
        },
    ),
    OptionSpec::ignored(
        "scramble_buffers",
        Unit::Boolean,
        "Changes buffers a little between writes.",
        "one word of each random block is always changed, so that no two are alike",
    )
    .neutral(&["1"]),
    OptionSpec::honoured(
        "buffer_pattern",
        Unit::Text,
        "Writes carry this, repeated: `0xdeadbeef`, `\"text\"`, a number.",
        |draft, value| {
            draft.buffer_pattern = Some(read_pattern(value)?);
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "buffer_compress_percentage",
        Unit::Percent,
        "Share of each chunk that is compressible.",
        |draft, value| {
            draft.compress_percent = value.count(0, 100)?;
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "buffer_compress_chunk",
        Unit::Bytes,
        "The chunk; 0: the block.",
        |draft, value| {
            draft.compress_chunk = value.bytes()?;
            Ok(())
        },
    )
    .default("512"),
    OptionSpec::honoured(
        "dedupe_percentage",
        Unit::Percent,
        "Share of writes that repeat an earlier block.",
        |draft, value| {
            draft.job.buffers.dedupe_percent = value.count(0, 100)?;
            Ok(())
        },
    ),
    OptionSpec::differs(
        "dedupe_mode",
        Unit::Words(&["repeat", "working_set"]),
        "Which blocks are repeated.",
        "earlier blocks of the same clone are repeated",
    )
    .default("repeat")
    .neutral(&["repeat"]),
    OptionSpec::differs(
        "dedupe_global",
        Unit::Boolean,
        "Blocks of other jobs are repeated, too.",
        "each clone repeats blocks of its own",
    )
    .default("0")
    .neutral(&["0"]),
    OptionSpec::ignored(
        "dedupe_working_set_percentage",
        Unit::Percent,
        "Size of the set that is repeated.",
        "it only says more about `dedupe_mode=working_set`, which is ignored",
    ),
    OptionSpec::honoured(
        "mem",
        Unit::Words(&["malloc", "mmap", "mmapshared", "shm", "mmaphuge", "shmhuge"]),
        "Whether buffers lie in ordinary or huge pages.",
        |draft, value| {
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
                return Err(Fault::refusal("buffers cannot lie in a file")
                    .hint("leave out what follows the colon"));
            }
            draft.job.buffers.memory = memory.ok_or_else(|| {
                Fault::refusal("buffers cannot lie in an accelerator's memory")
                    .hint("write `mem=malloc`, or `mem=mmaphuge` for huge pages")
            })?;
            Ok(())
        },
    )
    .alias(&["iomem"])
    .default("malloc"),
    OptionSpec::honoured(
        "iomem_align",
        Unit::Bytes,
        "Bytes into the page where a buffer begins.",
        |draft, value| {
            draft.job.buffers.align = value.count_of(value.single()?, 0, 1 << 30)?;
            Ok(())
        },
    )
    .alias(&["mem_align"])
    .default("0"),
    OptionSpec::ignored(
        "hugepage-size",
        Unit::Bytes,
        "Size of huge pages.",
        "the host's default size is used",
    ),
    OptionSpec::refused(
        "lockmem",
        Unit::Bytes,
        "Locks memory, so that less is left for the cache.",
        "the host's memory is left alone",
        "a memory limit, such as `systemd-run -p MemoryMax=`",
    )
    .neutral(&["0"]),
    OptionSpec::ignored(
        "gpu_dev_id",
        Unit::Count,
        "The accelerator whose memory is used.",
        "it only says more about `mem=cudamalloc`, which is refused",
    ),
    OptionSpec::honoured(
        "verify",
        Unit::Words(&["crc32c", "xxhash", "meta", "pattern", "0"]),
        "The check each block carries. Other checksums are carried out as xxhash64.",
        verify,
    ),
    OptionSpec::honoured(
        "do_verify",
        Unit::Boolean,
        "A job that writes reads back and checks.",
        |draft, value| {
            draft.verify.do_verify = value.boolean()?;
            Ok(())
        },
    )
    .default("1"),
    OptionSpec::honoured(
        "verify_only",
        Unit::Boolean,
        "Only checks what an earlier run wrote.",
        |draft, value| {
            draft.verify.only = value.boolean()?;
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "verify_pattern",
        Unit::Text,
        "The pattern that blocks hold.",
        |draft, value| {
            draft.verify_pattern = Some(read_pattern(value)?);
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "verify_interval",
        Unit::Bytes,
        "Bytes each header stands for; the block without it.",
        |draft, value| {
            draft.verify.interval = value.count_of(value.single()?, 0, 1 << 30)?;
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "verify_backlog",
        Unit::Count,
        "Checks after so many blocks written; at the end without it.",
        |draft, value| {
            draft.verify.backlog = value.bytes()?;
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "verify_backlog_batch",
        Unit::Count,
        "Checks so many blocks in a row.",
        |draft, value| {
            draft.verify.backlog_batch = value.bytes()?;
            Ok(())
        },
    ),
    OptionSpec::honoured(
        "verify_fatal",
        Unit::Boolean,
        "The first bad block ends the job.",
        |draft, value| {
            draft.verify.fatal = value.boolean()?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::honoured(
        "verify_dump",
        Unit::Boolean,
        "Writes bad blocks to `FILE.OFFSET.received` in the current folder (64 a clone at most), and a \
         known pattern beside them to `FILE.OFFSET.expected`.",
        |draft, value| {
            draft.verify.dump = value.boolean()?;
            Ok(())
        },
    )
    .default("0"),
    OptionSpec::refused(
        "verify_offset",
        Unit::Bytes,
        "Where in the block the header lies.",
        "the header lies at the start of the block",
        "leaving it out",
    )
    .neutral(&["0"]),
    OptionSpec::refused(
        "verify_pattern_interval",
        Unit::Boolean,
        "Begins the pattern anew at each interval.",
        "a pattern runs over the whole block",
        "leaving it out",
    )
    .neutral(&["0"]),
    OptionSpec::ignored(
        "verify_async",
        Unit::Count,
        "Threads that check.",
        "the clone that read a block checks it",
    ),
    OptionSpec::ignored(
        "verify_async_cpus",
        Unit::List,
        "CPUs of those threads.",
        "the clone that read a block checks it",
    ),
    OptionSpec::ignored(
        "verify_policy",
        Unit::Words(&["completed", "fsynced"]),
        "Which writes are checked.",
        "completed writes are checked",
    ),
    OptionSpec::ignored(
        "verifysort",
        Unit::Boolean,
        "Checks in the order of offsets.",
        "the order does not change what is checked",
    ),
    OptionSpec::ignored(
        "verifysort_nr",
        Unit::Count,
        "Checks in the order of offsets, in parts.",
        "the order does not change what is checked",
    ),
    OptionSpec::ignored(
        "experimental_verify",
        Unit::Boolean,
        "Repeats the offsets in place of remembering them.",
        "offsets are always repeated from the seed",
    ),
    OptionSpec::refused(
        "verify_state_load",
        Unit::Boolean,
        "Loads what an interrupted run had written.",
        "the state of a run is not kept apart from its blocks",
        "`verify_only=1`",
    )
    .neutral(&["0"]),
    OptionSpec::ignored(
        "verify_state_save",
        Unit::Boolean,
        "Keeps what an interrupted run had written.",
        "each block says itself which write it is",
    ),
    OptionSpec::honoured(
        "verify_write_sequence",
        Unit::Boolean,
        "Checks the sequence number; 0 where clones write the same blocks.",
        |draft, value| {
            draft.verify.check_sequence = value.boolean()?;
            Ok(())
        },
    )
    .default("1"),
    OptionSpec::honoured(
        "verify_header_seed",
        Unit::Boolean,
        "Checks the seed; 0 where another run may have written the blocks.",
        |draft, value| {
            draft.verify.check_seed = value.boolean()?;
            Ok(())
        },
    )
    .default("1"),
    OptionSpec::refused(
        "trim_percentage",
        Unit::Percent,
        "Trims a share of the verified blocks.",
        "verified blocks are not trimmed",
        "a job of its own with `rw=randtrim`",
    )
    .neutral(&["0"]),
    OptionSpec::ignored(
        "trim_verify_zero",
        Unit::Boolean,
        "Checks that trimmed blocks are zero.",
        "it only says more about `trim_percentage`, which is refused",
    ),
    OptionSpec::ignored(
        "trim_backlog",
        Unit::Count,
        "Trims after so many blocks.",
        "it only says more about `trim_percentage`, which is refused",
    ),
    OptionSpec::ignored(
        "trim_backlog_batch",
        Unit::Count,
        "Trims so many blocks in a row.",
        "it only says more about `trim_percentage`, which is refused",
    ),
];

fn read_pattern(value: &Value) -> Result<iodyno_model::Pattern, Fault> {
    pattern(value.string()?).map_err(|(message, hint)| Fault::error(message).hint(hint))
}

fn verify(draft: &mut crate::draft::Draft, value: &Value) -> Result<(), Fault> {
    #[derive(Clone, Copy, PartialEq)]
    enum Method {
        Off,
        Crc32c,
        Xxhash,
        Header,
        Pattern,
        Other,
    }
    let (method, _) = value.word(&[
        ("0", Method::Off),
        ("null", Method::Header),
        ("crc32c", Method::Crc32c),
        ("crc32c-intel", Method::Crc32c),
        ("xxhash", Method::Xxhash),
        ("xxhash64", Method::Xxhash),
        ("meta", Method::Header),
        ("pattern", Method::Pattern),
        ("pattern_hdr", Method::Header),
        ("md5", Method::Other),
        ("crc64", Method::Other),
        ("crc32", Method::Other),
        ("crc16", Method::Other),
        ("crc7", Method::Other),
        ("sha1", Method::Other),
        ("sha256", Method::Other),
        ("sha512", Method::Other),
        ("sha3-224", Method::Other),
        ("sha3-256", Method::Other),
        ("sha3-384", Method::Other),
        ("sha3-512", Method::Other),
    ])?;
    draft.verify_on = method != Method::Off;
    draft.verify.checksum = match method {
        Method::Off | Method::Crc32c => Checksum::Crc32c,
        Method::Xxhash | Method::Other => Checksum::Xxhash64,
        Method::Header => Checksum::HeaderOnly,
        // The pattern itself comes with `verify_pattern`, perhaps later.
        Method::Pattern => Checksum::Pattern(iodyno_model::Pattern(Vec::new())),
    };
    if method == Method::Other {
        value.remark(
            Fault::warning(format!(
                "`{}` is carried out as xxhash64: it finds the same faults and costs less CPU",
                value.text
            ))
            .hint("write crc32c or xxhash to say so"),
        );
    }
    Ok(())
}
