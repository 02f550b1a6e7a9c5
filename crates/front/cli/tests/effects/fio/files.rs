//! Options of files.

use crate::case::{Case, case};
use crate::looks::{ALL_CALLS, CALLS, FAULT, FILE_ORDER, FILES, LAYOUT, OFFSETS};

#[rustfmt::skip]
pub(crate) const CASES: &[Case] = &[
    case("fallocate", LAYOUT, "rw=write bs=4k size=16k", &[("", "create fadvise(SEQUENTIAL) fallocate(0,0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("fallocate=none", "create fadvise(SEQUENTIAL) fsync() fadvise(DONTNEED)"), ("fallocate=native", "create fadvise(SEQUENTIAL) fallocate(0,0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("fallocate=posix", "create fadvise(SEQUENTIAL) fallocate(0,0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("fallocate=keep", "create fadvise(SEQUENTIAL) fallocate(KEEP_SIZE,0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("fallocate=truncate", "create fadvise(SEQUENTIAL) ftruncate(16k) fsync() fsync() fadvise(DONTNEED)")]),
    case("fallocate", LAYOUT, "rw=read bs=4k size=16k", &[("", "create fadvise(SEQUENTIAL) fallocate(KEEP_SIZE,0k+16k) pwrite64(0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("fallocate=none", "create fadvise(SEQUENTIAL) pwrite64(0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("fallocate=native", "create fadvise(SEQUENTIAL) fallocate(KEEP_SIZE,0k+16k) pwrite64(0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("fallocate=posix", "create fadvise(SEQUENTIAL) fallocate(KEEP_SIZE,0k+16k) pwrite64(0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("fallocate=keep", "create fadvise(SEQUENTIAL) fallocate(KEEP_SIZE,0k+16k) pwrite64(0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("fallocate=truncate", "create fadvise(SEQUENTIAL) pwrite64(0k+16k) fsync() fsync() fadvise(DONTNEED)")]),
    case("fadvise_hint", LAYOUT, "bs=4k size=16k", &[("rw=write fadvise_hint=1", "create fadvise(SEQUENTIAL) fallocate(0,0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("rw=randwrite", "create fadvise(RANDOM) fallocate(0,0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("rw=randwrite fadvise_hint=0", "create fallocate(0,0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("rw=write fadvise_hint=random", "create fadvise(RANDOM) fallocate(0,0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("rw=write fadvise_hint=noreuse", "create fadvise(NOREUSE) fallocate(0,0k+16k) fsync() fsync() fadvise(DONTNEED)")]),
    case("invalidate", LAYOUT, "rw=write bs=4k size=16k", &[("", "create fadvise(SEQUENTIAL) fallocate(0,0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("invalidate=0", "create fadvise(SEQUENTIAL) fallocate(0,0k+16k) fsync()")]),
    case("create_fsync", LAYOUT, "rw=read bs=4k size=16k", &[("", "create fadvise(SEQUENTIAL) fallocate(KEEP_SIZE,0k+16k) pwrite64(0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("create_fsync=0", "create fadvise(SEQUENTIAL) fallocate(KEEP_SIZE,0k+16k) pwrite64(0k+16k) fsync() fadvise(DONTNEED)")]),
    case("overwrite", LAYOUT, "rw=write bs=4k size=16k", &[("", "create fadvise(SEQUENTIAL) fallocate(0,0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("overwrite=1", "create fadvise(SEQUENTIAL) fallocate(KEEP_SIZE,0k+16k) pwrite64(0k+16k) fsync() fsync() fadvise(DONTNEED)")]),
    case("create_on_open", LAYOUT, "rw=write bs=4k size=16k", &[("", "create fadvise(SEQUENTIAL) fallocate(0,0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("create_on_open=1", "create fadvise(SEQUENTIAL) fsync() fadvise(DONTNEED)")]),
    case("create_only", CALLS, "rw=read bs=4k size=16k", &[("", "pread64(0k+4k) pread64(4k+4k) pread64(8k+4k) pread64(12k+4k)"), ("create_only=1", "")]),
    case("fsync_on_close", ALL_CALLS, "rw=write bs=4k size=16k", &[("", "create fadvise(SEQUENTIAL) fallocate(0,0k+16k) fsync() fsync() fadvise(DONTNEED) pwrite64(0k+4k) pwrite64(4k+4k) pwrite64(8k+4k) pwrite64(12k+4k)"), ("fsync_on_close=1", "create fadvise(SEQUENTIAL) fallocate(0,0k+16k) fsync() fsync() fadvise(DONTNEED) pwrite64(0k+4k) pwrite64(4k+4k) pwrite64(8k+4k) pwrite64(12k+4k) fsync()")]),
    case("unlink", LAYOUT, "rw=write bs=4k size=16k", &[("", "create fadvise(SEQUENTIAL) fallocate(0,0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("unlink=1", "create fadvise(SEQUENTIAL) fallocate(0,0k+16k) fsync() fsync() fadvise(DONTNEED) unlink()")]),
    case("pre_read", LAYOUT, "rw=read bs=4k size=16k", &[("", "create fadvise(SEQUENTIAL) fallocate(KEEP_SIZE,0k+16k) pwrite64(0k+16k) fsync() fsync() fadvise(DONTNEED)"), ("pre_read=1", "create fadvise(SEQUENTIAL) fallocate(KEEP_SIZE,0k+16k) pwrite64(0k+16k) fsync() pread64(0k+1024k) pread64(16k+1024k)")]),
    case("filename", FILES, "rw=write size=16k", &[("", "t.0.0:16k"), ("filename=f", "f:16k"), ("filename=f:g", "f:8k g:8k")]),
    case("directory", FILES, "rw=write size=8k", &[("", "t.0.0:8k"), ("directory=d", "d/t.0.0:8k")]).after(folder),
    case("opendir", FILES, "rw=write size=8k", &[("directory=d rw=write size=8k;", "d/t.0.0:8k t.0.0:8k"), ("directory=d rw=write size=8k; opendir=d", "d/t.0.0:8k")]).after(folder),
    case("filename_format", FILES, "rw=write size=16k numjobs=2", &[("", "t.0.0:16k t.1.0:16k"), ("filename_format=x-$jobnum-$jobname-$filenum", "x-0-t-0:16k x-1-t-0:16k")]),
    case("nrfiles", FILES, "rw=write size=16k", &[("", "t.0.0:16k"), ("nrfiles=4", "t.0.0:4k t.0.1:4k t.0.2:4k t.0.3:4k")]),
    case("openfiles", FILE_ORDER, "ioengine=psync rw=write bs=4k size=32k nrfiles=4", &[("", "0 1 2 3 0 1 2 3"), ("openfiles=2", "0 1 0 1 2 3 2 3"), ("openfiles=1", "0 0 1 1 2 2 3 3")]),
    case("file_service_type", FILE_ORDER, "ioengine=psync rw=write bs=4k size=32k nrfiles=4", &[("", "0 1 2 3 0 1 2 3"), ("file_service_type=sequential", "0 0 1 1 2 2 3 3"), ("file_service_type=roundrobin:0", "0 1 2 3 0 1 2 3"), ("file_service_type=roundrobin:2", "0 0 1 1 2 2 3 3"), ("file_service_type=random", "3 3 1 1 2 0 2 0"), ("file_service_type=zipf:1.5", "0 0 0 0 0 0 0 0"), ("file_service_type=pareto:0.1", "0 0 0 0 0 0 0 0"), ("file_service_type=normal:5", "1 1 1 1 1 2 1 1")]),
    case("allow_file_create", FAULT, "rw=write size=8k", &[("", "0"), ("allow_file_create=0", "1 error: job `t`: `t.0.0` does not exist"), ("rw=write size=8k; allow_file_create=0", "0")]),
    case("filesize", FILES, "rw=write size=16k", &[("", "t.0.0:16k"), ("filesize=64k", "t.0.0:64k"), ("nrfiles=3 filesize=4k-64k", "t.0.0:12k t.0.1:60k t.0.2:44k")]),
    case("file_append", OFFSETS, "rw=write bs=4k size=8k", &[("rw=write size=16k;", "w0k+4k w4k+4k"), ("rw=write size=16k; file_append=1", "w16k+4k w20k+4k")]),
    case("fill_device", FAULT, "rw=write bs=4k size=8k filename=/dev/full", &[("", "1 error: job `t`: 1 op failed write of `/dev/full` at offset 0, 4096 bytes: ENOSPC (No space left on device)"), ("fill_device=1", "0")]),
];

fn folder(work: &std::path::Path) {
    std::fs::create_dir(work.join("d")).unwrap();
}
