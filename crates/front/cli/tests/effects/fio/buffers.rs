//! Buffers and verification.

use std::collections::BTreeSet;

use crate::case::{Case, Look, Through, case};
use crate::looks::{CALLS, FAULT, FILES, joined, kib};
use crate::run::Run;

#[rustfmt::skip]
pub(crate) const CASES: &[Case] = &[
    case("zero_buffers", CONTENT, "rw=write bs=4k size=16k", &[("", "0 % zero, 4 blocks, 32 sectors"), ("zero_buffers", "100 % zero, 1 blocks, 1 sectors")]),
    case("refill_buffers", CONTENT, "rw=write bs=4k size=16k scramble_buffers=0", &[("", "0 % zero, 1 blocks, 8 sectors"), ("refill_buffers", "0 % zero, 4 blocks, 32 sectors")]),
    case("scramble_buffers", CONTENT, "rw=write bs=4k size=16k", &[("", "0 % zero, 4 blocks, 32 sectors"), ("scramble_buffers=0", "0 % zero, 1 blocks, 8 sectors")]),
    case("buffer_pattern", BYTES, "rw=write bs=16 size=16 zero_buffers", &[("", "00000000000000000000000000000000"), ("buffer_pattern=0xdeadbeef", "deadbeefdeadbeefdeadbeefdeadbeef"), ("buffer_pattern=\"ab\"", "61626162616261626162616261626162"), ("buffer_pattern=17", "11111111111111111111111111111111"), ("buffer_pattern=\"a\"0x01", "61016101610161016101610161016101")]),
    case("buffer_compress_percentage", CONTENT, "rw=write bs=4k size=16k", &[("", "0 % zero, 4 blocks, 32 sectors"), ("buffer_compress_percentage=50", "50 % zero, 4 blocks, 32 sectors"), ("buffer_compress_percentage=75", "75 % zero, 4 blocks, 32 sectors"), ("buffer_compress_percentage=100", "100 % zero, 1 blocks, 1 sectors")]),
    case("buffer_compress_chunk", RUNS, "rw=write bs=4k size=4k buffer_compress_percentage=50", &[("", "256 zero:256 256 zero:256 256 zero:256 256 zero:256 256 zero:256 256 zero:256 256 zero:256 256 zero:256"), ("buffer_compress_chunk=1k", "512 zero:512 512 zero:512 512 zero:512 512 zero:512"), ("buffer_compress_chunk=0", "2048 zero:2048")]),
    case("dedupe_percentage", CONTENT, "rw=write bs=4k size=256k refill_buffers", &[("", "0 % zero, 64 blocks, 512 sectors"), ("dedupe_percentage=50", "0 % zero, 36 blocks, 288 sectors"), ("dedupe_percentage=100", "0 % zero, 1 blocks, 8 sectors")]),
    case("mem", PAGES, "rw=write bs=4k size=16k", &[("", "ordinary"), ("mem=malloc", "ordinary"), ("mem=mmap", "ordinary"), ("mem=mmaphuge", "huge"), ("mem=shmhuge", "huge")]).or_fails(),
    case("iomem_align", ADDRESSES, "rw=write bs=4k size=8k", &[("", "0 0"), ("iomem_align=512", "512 512"), ("mem_align=1k iodepth=2", "1024 1024")]),
    case("verify", HEADERS, "rw=write bs=4k size=8k", &[("zero_buffers", ""), ("verify=crc32c", "0k:1409+4k 4k:1409+4k"), ("verify=md5", "0k:641+4k 4k:641+4k"), ("verify=crc7", "0k:2177+4k 4k:2177+4k"), ("verify=crc16", "0k:1921+4k 4k:1921+4k"), ("verify=crc32", "0k:1153+4k 4k:1153+4k"), ("verify=crc64", "0k:897+4k 4k:897+4k"), ("verify=xxhash", "0k:3969+4k 4k:3969+4k"), ("verify=sha1", "0k:4225+4k 4k:4225+4k"), ("verify=sha256", "0k:2433+4k 4k:2433+4k"), ("verify=sha512", "0k:2689+4k 4k:2689+4k"), ("verify=sha3-224", "0k:2945+4k 4k:2945+4k"), ("verify=sha3-256", "0k:3201+4k 4k:3201+4k"), ("verify=sha3-384", "0k:3457+4k 4k:3457+4k"), ("verify=sha3-512", "0k:3713+4k 4k:3713+4k"), ("verify=meta", "0k:385+4k 4k:385+4k"), ("verify=pattern verify_pattern=0x00", ""), ("verify=pattern_hdr verify_pattern=0x00", "0k:4481+4k 4k:4481+4k"), ("verify=null", "")]),
    case("verify", CALLS, "rw=write bs=4k size=8k", &[("", "pwrite64(0k+4k) pwrite64(4k+4k)"), ("verify=crc32c", "pwrite64(0k+4k) pwrite64(4k+4k) pread64(0k+4k) pread64(4k+4k)")]),
    case("verify", CALLS, "rw=write:1k bs=4k size=16k", &[("", "pwrite64(0k+4k) pwrite64(5k+4k) pwrite64(10k+4k)"), ("verify=crc32c", "pwrite64(0k+4k) pwrite64(5k+4k) pwrite64(10k+4k) pread64(0k+4k) pread64(5k+4k) pread64(10k+4k)")]),
    case("verify", FAULT, "ioengine=null size=64k bs=4k rw=write:8", &[("", "0 "), ("verify=crc32c", "1 error: blocks that begin at multiples of 8 bytes cannot be verified")]),
    case("verify_header", MAGIC, "rw=write bs=4k size=4k verify=crc32c", &[("", "caac810500100000"), ("verify_header=fio", "caac810500100000"), ("verify_header=fio-3.40", "caac050000100000"), ("verify_header=iodyno", "696f64796e6f4232")]),
    case("do_verify", CALLS, "rw=write bs=4k size=8k verify=crc32c", &[("", "pwrite64(0k+4k) pwrite64(4k+4k) pread64(0k+4k) pread64(4k+4k)"), ("do_verify=1", "pwrite64(0k+4k) pwrite64(4k+4k) pread64(0k+4k) pread64(4k+4k)"), ("do_verify=0", "pwrite64(0k+4k) pwrite64(4k+4k)")]),
    case("verify_only", CALLS, "rw=write bs=4k size=8k verify=crc32c", &[("rw=write bs=4k size=8k verify=crc32c;", "pwrite64(0k+4k) pwrite64(4k+4k) pread64(0k+4k) pread64(4k+4k)"), ("rw=write bs=4k size=8k verify=crc32c; verify_only=1", "pread64(0k+4k) pread64(4k+4k)")]),
    case("verify_pattern", BYTES, "rw=write bs=16 size=32 verify=pattern", &[("verify_pattern=0x00", "0000000000000000000000000000000000000000000000000000000000000000"), ("verify_pattern=0xabcd", "abcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcd"), ("verify_pattern=%o", "0000000000000000000000000000000010000000000000001000000000000000")]),
    case("verify_interval", HEADERS, "rw=write bs=4k size=8k verify=crc32c zero_buffers", &[("", "0k:1409+4k 4k:1409+4k"), ("verify_interval=1k", "0k:1409+1k 1k:1409+1k 2k:1409+1k 3k:1409+1k 4k:1409+1k 5k:1409+1k 6k:1409+1k 7k:1409+1k")]),
    case("verify_backlog", CALLS, "rw=write bs=4k size=16k verify=crc32c", &[("", "pwrite64(0k+4k) pwrite64(4k+4k) pwrite64(8k+4k) pwrite64(12k+4k) pread64(0k+4k) pread64(4k+4k) pread64(8k+4k) pread64(12k+4k)"), ("verify_backlog=2", "pwrite64(0k+4k) pwrite64(4k+4k) pread64(0k+4k) pread64(4k+4k) pwrite64(8k+4k) pwrite64(12k+4k) pread64(8k+4k) pread64(12k+4k)"), ("verify_backlog=2 do_verify=0", "pwrite64(0k+4k) pwrite64(4k+4k) pwrite64(8k+4k) pwrite64(12k+4k)")]),
    case("verify_backlog_batch", CALLS, "rw=write bs=4k size=24k verify=crc32c verify_backlog=4", &[("", "pwrite64(0k+4k) pwrite64(4k+4k) pwrite64(8k+4k) pwrite64(12k+4k) pread64(0k+4k) pread64(4k+4k) pread64(8k+4k) pread64(12k+4k) pwrite64(16k+4k) pwrite64(20k+4k) pread64(16k+4k) pread64(20k+4k)"), ("verify_backlog_batch=1", "pwrite64(0k+4k) pwrite64(4k+4k) pwrite64(8k+4k) pwrite64(12k+4k) pread64(0k+4k) pwrite64(16k+4k) pread64(4k+4k) pwrite64(20k+4k) pread64(8k+4k) pread64(12k+4k) pread64(16k+4k) pread64(20k+4k)")]),
    case("verify_fatal", CALLS, "rw=write bs=4k size=16k verify=crc32c verify_only=1 continue_on_error=verify", &[("rw=write bs=4k size=16k verify=crc32c; rw=write bs=4k size=8k ;", "pread64(0k+4k) pread64(4k+4k) pread64(8k+4k) pread64(12k+4k)"), ("rw=write bs=4k size=16k verify=crc32c; rw=write bs=4k size=8k ; verify_fatal=1", "pread64(0k+4k)")]).or_fails(),
    case("verify_dump", FILES, "rw=write bs=4k size=16k verify=crc32c verify_only=1", &[("rw=write bs=4k size=16k verify=crc32c; rw=write bs=4k size=8k ;", "t.0.0:16k"), ("rw=write bs=4k size=16k verify=crc32c; rw=write bs=4k size=8k ; verify_dump=1", "t.0.0:16k t.0.0.0.received:4k")]),
    case("verify_offset", HEADERS, "rw=write bs=4k size=8k verify=crc32c zero_buffers", &[("", "0k:1409+4k 4k:1409+4k"), ("verify_offset=1k", "1k:1409+4k 5k:1409+4k")]),
    case("verify_pattern_interval", BYTES, "rw=write bs=32 size=32 verify=pattern verify_pattern=%o", &[("", "0000000000000000000000000000000000000000000000000000000000000000"), ("verify_pattern_interval=16", "0000000000000000000000000000000010000000000000001000000000000000")]),
    case("verify_state_save", STATES, "rw=write bs=4k size=8k verify=crc32c", &[("", "verify"), ("verify_state_save=0", "")]),
    case("verify_state_load", FAULT, "rw=write bs=4k size=8k verify=crc32c verify_only=1", &[
        ("rw=write bs=4k size=8k verify=crc32c randseed=1 verify_state_save=0; ", "0"), ("rw=write bs=4k size=8k verify=crc32c verify_state_save=0; verify_state_load=1", "1 error: job `t`: `verify_state_load`: there is no record of the last writes to `t.0.0`"), ("rw=write bs=4k size=8k verify=crc32c; rw=write bs=4k size=8k verify=crc32c verify_state_save=0 randseed=9; verify_state_load=0", "0")]),
    case("verify_write_sequence", FAULT, "rw=write bs=4k size=8k filename=f verify=crc32c verify_only=1 verify_header_seed=0", &[("rw=randwrite randseed=3 bs=4k size=8k filename=f verify=crc32c; cp f old; rw=write bs=4k size=8k filename=f verify=crc32c; cp old f;", "1 error: job `t`: verification failed: 1 of 1 block differ from what was written `f` at offset 0, 4096 bytes: found write 2 in place of 1"), ("rw=randwrite randseed=3 bs=4k size=8k filename=f verify=crc32c; cp f old; rw=write bs=4k size=8k filename=f verify=crc32c; cp old f; verify_write_sequence=0", "0")]),
    case("verify_header_seed", FAULT, "rw=write bs=4k size=8k filename=f verify=crc32c verify_only=1", &[("rw=write bs=4k size=8k filename=f verify=crc32c; cp f old; rw=write bs=4k size=8k filename=f verify=crc32c; cp old f;", "1 error: job `t`: verification failed: 1 of 1 block differ from what was written `f` at offset 0, 4096 bytes: found a block of another job or an earlier trial"), ("rw=write bs=4k size=8k filename=f verify=crc32c; cp f old; rw=write bs=4k size=8k filename=f verify=crc32c; cp old f; verify_header_seed=0", "0")]),
    case("trim_percentage", CALLS, "rw=write bs=4k size=16k verify=crc32c trim_backlog=2", &[("", "pwrite64(0k+4k) pwrite64(4k+4k) pwrite64(8k+4k) pwrite64(12k+4k) pread64(0k+4k) pread64(4k+4k) pread64(8k+4k) pread64(12k+4k)"), ("trim_percentage=100", "pwrite64(0k+4k) pwrite64(4k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,0k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,4k+4k) pwrite64(8k+4k) pwrite64(12k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,8k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,12k+4k) pread64(0k+4k) pread64(4k+4k) pread64(8k+4k) pread64(12k+4k)")]),
    case("trim_backlog", CALLS, "rw=write bs=4k size=16k verify=crc32c trim_percentage=100", &[("trim_backlog=1", "pwrite64(0k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,0k+4k) pwrite64(4k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,4k+4k) pwrite64(8k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,8k+4k) pwrite64(12k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,12k+4k) pread64(0k+4k) pread64(4k+4k) pread64(8k+4k) pread64(12k+4k)"), ("trim_backlog=2", "pwrite64(0k+4k) pwrite64(4k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,0k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,4k+4k) pwrite64(8k+4k) pwrite64(12k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,8k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,12k+4k) pread64(0k+4k) pread64(4k+4k) pread64(8k+4k) pread64(12k+4k)")]),
    case("trim_backlog_batch", CALLS, "rw=write bs=4k size=16k verify=crc32c trim_percentage=100 trim_backlog=2", &[("", "pwrite64(0k+4k) pwrite64(4k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,0k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,4k+4k) pwrite64(8k+4k) pwrite64(12k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,8k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,12k+4k) pread64(0k+4k) pread64(4k+4k) pread64(8k+4k) pread64(12k+4k)"), ("trim_backlog_batch=1", "pwrite64(0k+4k) pwrite64(4k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,0k+4k) pwrite64(8k+4k) pwrite64(12k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,4k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,8k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,12k+4k) pread64(0k+4k) pread64(4k+4k) pread64(8k+4k) pread64(12k+4k)")]),
    case("trim_verify_zero", CALLS, "rw=write bs=4k size=16k verify=crc32c trim_percentage=50 trim_backlog=2", &[("", "pwrite64(0k+4k) pwrite64(4k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,4k+4k) pwrite64(8k+4k) pwrite64(12k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,12k+4k) pread64(0k+4k) pread64(4k+4k) pread64(8k+4k) pread64(12k+4k)"), ("trim_verify_zero=0", "pwrite64(0k+4k) pwrite64(4k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,4k+4k) pwrite64(8k+4k) pwrite64(12k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,12k+4k) pread64(0k+4k) pread64(8k+4k)")]),
];

/// Bytes of zero, and different blocks of 4 KiB and of 512 bytes.
const CONTENT: Look = Look::output("bytes of the file", |run| {
    let bytes = run.file("t.0.0");
    let zeroes = bytes.iter().filter(|byte| **byte == 0).count() as u64;
    let different = |length| bytes.chunks(length).collect::<BTreeSet<_>>().len();
    // Random bytes are zero now and then.
    let share = (100 * zeroes + bytes.len() as u64 / 2) / bytes.len() as u64;
    format!(
        "{share} % zero, {} blocks, {} sectors",
        different(4096),
        different(512)
    )
});

/// The first 32 bytes.
const BYTES: Look = Look::output("bytes of the file", |run| {
    let bytes = run.file("t.0.0");
    bytes
        .iter()
        .take(32)
        .map(|byte| format!("{byte:02x}"))
        .collect()
});

/// Lengths of the parts of the file that are zero and are not.
const RUNS: Look = Look::output("bytes of the file", |run| {
    let bytes = run.file("t.0.0");
    let zero: Vec<bool> = bytes
        .chunks(128)
        .map(|part| part.iter().all(|byte| *byte == 0))
        .collect();
    let part =
        |part: &[bool]| format!("{}{}", if part[0] { "zero:" } else { "" }, part.len() * 128);
    joined(zero.chunk_by(|one, other| one == other).map(part))
});

/// Where headers of fio are: offset, kind of checksum, and the length that they cover.
const HEADERS: Look = Look::output("bytes of the file", |run| {
    let bytes = run.file("t.0.0");
    let header = |(part, index): (&[u8], u64)| {
        let word = |at: usize| u16::from_le_bytes([part[at], part[at + 1]]);
        (word(0) == 0xacca)
            .then(|| format!("{}:{}+{}", kib(index * 512), word(2), kib(word(4).into())))
    };
    joined(bytes.chunks(512).zip(0..).filter_map(header))
});

/// The first bytes of the block.
const MAGIC: Look = Look::output("bytes of the file", |run| {
    let bytes = run.file("t.0.0");
    bytes
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
});

/// Whether buffers are huge pages.
const PAGES: Look = Look::calls("system calls", |run| {
    let huge = |call: &crate::strace::Call| {
        call.name == "mmap" && call.arguments.iter().any(|it| it.contains("MAP_HUGETLB"))
    };
    if run.calls.iter().any(huge) {
        "huge"
    } else {
        "ordinary"
    }
    .to_owned()
});

/// Where in a page the buffers begin.
const ADDRESSES: Look = Look {
    seen: "addresses of the buffers",
    through: Through::Addresses,
    of: |run| {
        let hex =
            |text: &String| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(0);
        let blocks = run
            .calls
            .iter()
            .filter(|call| call.name == "pwrite64" && hex(&call.arguments[2]) == 4096);
        joined(blocks.map(|call| (hex(&call.arguments[1]) % 4096).to_string()))
    },
};

/// The records of the written data.
const STATES: Look = Look::output("files", |run: &Run| {
    let folder = run.work().join("../.local/state/iodyno");
    let names = |folder| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<String> = names(folder)
        .map(|it| it.file_name().to_string_lossy().into_owned())
        .collect();
    all.sort();
    joined(all)
});
