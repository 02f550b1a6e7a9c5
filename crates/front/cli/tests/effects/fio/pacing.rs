//! Pacing, durability, errors.

use crate::case::{Case, Look, case};
use crate::looks::{CALLS, FAULT, JOBS, SLEEPS, TIMES};

#[rustfmt::skip]
pub(crate) const CASES: &[Case] = &[
    case("fsync", CALLS, "rw=write bs=4k size=20k", &[("", "pwrite64(0k+4k) pwrite64(4k+4k) pwrite64(8k+4k) pwrite64(12k+4k) pwrite64(16k+4k)"), ("fsync=2", "pwrite64(0k+4k) pwrite64(4k+4k) fsync() pwrite64(8k+4k) pwrite64(12k+4k) fsync() pwrite64(16k+4k)"), ("fsync=2 ioengine=mmap", "mmap(20k) fsync() fsync()"), ("fsync=2 ioengine=posixaio", "pwrite64(0k+4k) pwrite64(4k+4k) fsync() pwrite64(8k+4k) pwrite64(12k+4k) fsync() pwrite64(16k+4k)")]),
    case("fdatasync", CALLS, "rw=write bs=4k size=20k", &[("", "pwrite64(0k+4k) pwrite64(4k+4k) pwrite64(8k+4k) pwrite64(12k+4k) pwrite64(16k+4k)"), ("fdatasync=2", "pwrite64(0k+4k) pwrite64(4k+4k) fdatasync() pwrite64(8k+4k) pwrite64(12k+4k) fdatasync() pwrite64(16k+4k)"), ("fdatasync=2 fsync=3", "pwrite64(0k+4k) pwrite64(4k+4k) fdatasync() pwrite64(8k+4k) fsync() pwrite64(12k+4k) fdatasync() pwrite64(16k+4k)"), ("fdatasync=2 ioengine=mmap", "mmap(20k)")]),
    case("end_fsync", CALLS, "rw=write bs=4k size=8k", &[("", "pwrite64(0k+4k) pwrite64(4k+4k)"), ("end_fsync=1", "pwrite64(0k+4k) pwrite64(4k+4k) fsync()"), ("rw=read end_fsync=1", "pread64(0k+4k) pread64(4k+4k)")]),
    case("sync_file_range", CALLS, "rw=write bs=4k size=20k", &[("", "pwrite64(0k+4k) pwrite64(4k+4k) pwrite64(8k+4k) pwrite64(12k+4k) pwrite64(16k+4k)"), ("sync_file_range=write:2", "pwrite64(0k+4k) pwrite64(4k+4k) sync_file_range(0k+8k,WRITE) pwrite64(8k+4k) pwrite64(12k+4k) sync_file_range(8k+8k,WRITE) pwrite64(16k+4k)"), ("sync_file_range=wait_before,write,wait_after:2", "pwrite64(0k+4k) pwrite64(4k+4k) sync_file_range(0k+8k,WAIT_BEFORE|WRITE|WAIT_AFTER) pwrite64(8k+4k) pwrite64(12k+4k) sync_file_range(8k+8k,WAIT_BEFORE|WRITE|WAIT_AFTER) pwrite64(16k+4k)")]),
    case("rate", TIMES, "ioengine=sim bs=4k size=20k", &[("", "0 100 200 300 400"), ("rate=4m", "0 976 1953 2929 3906"), ("rw=write rate=1m,4m", "0 976 1953 2929 3906")]),
    case("rate_iops", TIMES, "ioengine=sim bs=4k size=20k", &[("", "0 100 200 300 400"), ("rate_iops=1000", "0 1000 2000 3000 4000"), ("rw=write rate_iops=10,500", "0 2000 4000 6000 8000"), ("rate_iops=1000 bsrange=4k-16k size=28k", "0 1000 3000 5000"), ("rate_iops=1000 bssplit=4k/50:8k/50 size=28k", "0 1000 2000 3000 4000 5000")]),
    case("rate_process", TIMES, "ioengine=sim bs=4k size=20k rate_iops=1000", &[("", "0 1000 2000 3000 4000"), ("rate_process=poisson", "0 225 2350 2834 2980")]),
    case("rate_min", FAULT, "ioengine=sim sim_latency=constant:1ms bs=4k size=1m runtime=10 time_based", &[("", "0"), ("rate_min=3m", "0"), ("rate_min=5m", "1 error: job `t`: cannot keep to `rate_min`: reads came to 3.91 MiB/s over 1.00 s, and 5 MiB/s is the least; lower `rate_min`, or make `rate_cycle` longer")]),
    case("rate_iops_min", FAULT, "ioengine=sim sim_latency=constant:1ms bs=4k size=1m runtime=10 time_based", &[("", "0"), ("rate_iops_min=999", "0"), ("rate_iops_min=1001", "1 error: job `t`: cannot keep to `rate_iops_min`: reads came to 1000.0/s over 1.00 s, and 1001/s is the least; lower `rate_iops_min`, or make `rate_cycle` longer")]),
    case("rate_cycle", JOBS, "ioengine=sim sim_latency=constant:1ms bs=4k size=1m runtime=20 time_based rate_iops_min=2000", &[("", "0/t 0..3000 r3000;"), ("rate_cycle=5000", "0/t 0..7000 r7000;")]),
    case("thinktime", TIMES, "ioengine=sim bs=4k size=20k", &[("", "0 100 200 300 400"), ("thinktime=1000", "0 1100 2200 3300 4400")]),
    case("thinktime_blocks", TIMES, "ioengine=sim bs=4k size=20k thinktime=1000", &[("", "0 1100 2200 3300 4400"), ("thinktime_blocks=0", "0 1100 2200 3300 4400"), ("thinktime_blocks=2", "0 100 1200 1300 2400")]),
    case("thinktime_iotime", TIMES, "ioengine=sim bs=4k size=24k thinktime=1000 thinktime_blocks=100", &[("", "0 100 200 300 400 500"), ("thinktime_iotime=200us", "0 100 1200 1300 2400 2500")]),
    case("max_latency", FAULT, "ioengine=sim sim_latency=constant:1ms bs=4k size=20k", &[("", "0"), ("max_latency=2ms", "0"), ("max_latency=500us", "1 error: job `t`: 1 op failed read of `sim` at offset 0, 4096 bytes: ETIMEDOUT (Connection timed out) error: job `t`: cannot keep to `max_latency`: a read took 1.00 ms, and at most 500 µs was allowed; raise `max_latency`, or leave it out 2 errors")]),
    case("latency_target", JOBS, "ioengine=sim sim_servers=4 sim_latency=constant:1ms rw=randread bs=4k size=1m iodepth=64 runtime=60 time_based", &[("", "0/t 0..60015 r240060;"), ("latency_target=2ms", "0/t 0..5014 r15056;")]),
    case("latency_window", JOBS, "ioengine=sim sim_servers=4 sim_latency=constant:1ms rw=randread bs=4k size=1m iodepth=64 runtime=60 time_based latency_target=2ms", &[("", "0/t 0..5014 r15056;"), ("latency_window=100ms", "0/t 0..514 r1556;")]),
    case("latency_percentile", FAULT, "ioengine=sim sim_servers=4 sim_latency=constant:1ms sim_faults=stall:100ms:10ms rw=randread bs=4k size=1m iodepth=64 runtime=60 time_based latency_target=2ms", &[("", "1 error: job `t`: cannot keep to `latency_target`: an op at a depth of 1 took more than 2.00 ms; raise `latency_target`, or lower `latency_percentile`"), ("latency_percentile=99", "0")]),
    case("thinktime_spin", SLEEPS, "rw=write bs=4k size=24k thinktime=50000", &[("", "sleeps"), ("thinktime_spin=50000", "none")]),
    case("latency_run", JOBS, "ioengine=sim sim_servers=4 sim_latency=constant:1ms rw=randread bs=4k size=1m iodepth=64 runtime=60 time_based latency_target=2ms", &[("", "0/t 0..5014 r15056;"), ("latency_run=1", "0/t 0..60001 r235004;")]),
    case("continue_on_error", ERRORS, "ioengine=sim sim_latency=constant:1ms bs=4k size=40k", &[("sim_faults=eio:3", "2 ops, null errors, error 5, exit code 1"), ("sim_faults=eio:3 continue_on_error=read", "7 ops, 3 errors, error 5, exit code 0"), ("sim_faults=eio:3 continue_on_error=write", "2 ops, 1 errors, error 5, exit code 1"), ("sim_faults=eio:3 continue_on_error=all", "7 ops, 3 errors, error 5, exit code 0")]),
    case("ignore_error", ERRORS, "ioengine=sim sim_latency=constant:1ms bs=4k size=40k sim_faults=eio:3", &[("", "2 ops, null errors, error 5, exit code 1"), ("ignore_error=EIO", "7 ops, null errors, error 0, exit code 0"), ("ignore_error=ENOSPC", "2 ops, null errors, error 5, exit code 1"), ("ignore_error=,EIO", "2 ops, null errors, error 5, exit code 1")]),
];

/// The ops that were done, the errors that were counted, and the exit code.
const ERRORS: Look = Look::output("errors", |run| {
    let number = |name: &str| run.text(&format!("/jobs/0/{name}"));
    format!(
        "{} ops, {} errors, error {}, exit code {}",
        number("read/total_ios"),
        number("total_err"),
        number("error"),
        run.done.code
    )
});
