//! Region and end.

use crate::case::{Case, Look, case};
use crate::looks::{JOBS, LAST, OFFSETS, OPS, joined, kib};

#[rustfmt::skip]
pub(crate) const CASES: &[Case] = &[
    case("size", OPS, "ioengine=sim bs=4k", &[("size=4k", "r0k+4k"), ("size=12k", "r0k+4k r4k+4k r8k+4k"), ("size=14k", "r0k+4k r4k+4k r8k+4k")]),
    case("io_size", OPS, "ioengine=sim bs=4k size=16k", &[("", "r0k+4k r4k+4k r8k+4k r12k+4k"), ("io_size=8k", "r0k+4k r4k+4k"), ("io_size=0", "r0k+4k r4k+4k r8k+4k r12k+4k"), ("io_size=0%", "r0k+4k r4k+4k r8k+4k r12k+4k"), ("io_size=24k", "r0k+4k r4k+4k r8k+4k r12k+4k r0k+4k r4k+4k")]),
    case("offset", OFFSETS, "bs=4k rw=read", &[("size=16k", "r0k+4k r4k+4k r8k+4k r12k+4k"), ("size=16k offset=8k", "r8k+4k r12k+4k r16k+4k r20k+4k"), ("rw=write size=16k ; size=16k offset=50%", "r8k+4k r12k+4k r16k+4k r20k+4k")]),
    case("offset_align", OFFSETS, "bs=4k rw=read", &[("rw=write size=36k ; offset=50%", "r20k+4k r24k+4k r28k+4k r32k+4k"), ("rw=write size=36k ; offset=50% offset_align=8k", "r24k+4k r28k+4k r32k+4k")]),
    case("number_ios", OPS, "ioengine=sim bs=4k size=16k", &[("", "r0k+4k r4k+4k r8k+4k r12k+4k"), ("number_ios=2", "r0k+4k r4k+4k"), ("number_ios=6", "r0k+4k r4k+4k r8k+4k r12k+4k")]),
    case("loops", OPS, "ioengine=sim bs=4k size=8k", &[("", "r0k+4k r4k+4k"), ("loops=2", "r0k+4k r4k+4k r0k+4k r4k+4k")]),
    case("offset_increment", WRITTEN, "bs=4k size=8k filename=f rw=write numjobs=2", &[("", "0k 0k 4k 4k"), ("offset_increment=8k", "0k 12k 4k 8k")]),
    case("runtime", JOBS, "ioengine=sim sim_latency=constant:1ms size=1m", &[("", "0/t 0..256 r256;"), ("runtime=100ms", "0/t 0..100 r100;")]),
    case("time_based", JOBS, "ioengine=sim sim_latency=constant:1ms size=16k runtime=1", &[("", "0/t 0..4 r4;"), ("time_based=1", "0/t 0..1000 r1000;")]),
    case("ramp_time", LAST, "ioengine=sim sim_latency=constant:1ms size=16k runtime=1 time_based", &[("", "999"), ("ramp_time=2", "2999")]),
    case("zonemode", OFFSETS, "ioengine=sim rw=randwrite bs=4k size=32k", &[("zonemode=none", "w24k+4k w16k+4k w4k+4k w20k+4k w0k+4k w28k+4k w8k+4k w12k+4k"), ("zonemode=strided zonesize=8k zonerange=16k", "w0k+4k w4k+4k w28k+4k w24k+4k w4k+4k w0k+4k w24k+4k w28k+4k"), ("zonemode=zbd zonesize=8k", "w0k+4k w8k+4k w12k+4k w8k+4k w4k+4k w16k+4k w0k+4k w12k+4k")]),
    case("zonesize", OFFSETS, "ioengine=sim bs=4k size=64k zonemode=strided zonerange=16k io_size=24k", &[("zonesize=4k", "r0k+4k r16k+4k r32k+4k r48k+4k r0k+4k r16k+4k"), ("zonesize=8k", "r0k+4k r4k+4k r16k+4k r20k+4k r32k+4k r36k+4k")]),
    case("zonerange", OFFSETS, "ioengine=sim bs=4k size=64k zonemode=strided zonesize=4k io_size=16k", &[("", "r0k+4k r4k+4k r8k+4k r12k+4k"), ("zonerange=16k", "r0k+4k r16k+4k r32k+4k r48k+4k")]),
    case("zoneskip", OFFSETS, "ioengine=sim bs=4k size=64k zonemode=strided zonesize=4k io_size=16k", &[("", "r0k+4k r4k+4k r8k+4k r12k+4k"), ("zoneskip=4k", "r0k+4k r8k+4k r16k+4k r24k+4k")]),
    case("zonecapacity", OFFSETS, "ioengine=sim bs=4k size=32k rw=write zonemode=zbd zonesize=16k", &[("", "w0k+4k w4k+4k w8k+4k w12k+4k w16k+4k w20k+4k w24k+4k w28k+4k"), ("zonecapacity=8k", "w0k+4k w4k+4k w16k+4k w20k+4k w0k+4k w4k+4k w16k+4k w20k+4k")]),
    case("read_beyond_wp", OPS, "ioengine=sim bs=4k size=32k rw=read zonemode=zbd zonesize=16k", &[("", ""), ("read_beyond_wp=1", "r0k+4k r4k+4k r8k+4k r12k+4k r16k+4k r20k+4k r24k+4k r28k+4k")]),
    case("max_open_zones", OFFSETS, "ioengine=sim bs=4k size=64k rw=randwrite zonemode=zbd zonesize=16k", &[("", "w0k+4k w16k+4k w20k+4k w24k+4k w4k+4k w32k+4k w8k+4k w28k+4k w36k+4k w48k+4k w12k+4k w40k+4k w0k+4k w44k+4k w4k+4k w8k+4k"), ("max_open_zones=1", "w0k+4k w4k+4k w8k+4k w12k+4k w16k+4k w20k+4k w24k+4k w28k+4k w0k+4k w4k+4k w8k+4k w12k+4k w48k+4k w52k+4k w56k+4k w60k+4k")]),
    case("steadystate", JOBS, "ioengine=sim sim_latency=constant:1ms size=1m runtime=60 time_based", &[("", "0/t 0..60000 r60000;"), ("steadystate=iops:2% steadystate_duration=5", "0/t 0..5000 r5000;")]),
    case("steadystate_duration", JOBS, "ioengine=sim sim_latency=constant:1ms size=1m runtime=60 time_based steadystate=iops:2%", &[("", "0/t 0..60000 r60000;"), ("steadystate_duration=5", "0/t 0..5000 r5000;"), ("steadystate_duration=9", "0/t 0..9000 r9000;")]),
    case("steadystate_ramp_time", JOBS, "ioengine=sim sim_latency=constant:1ms size=1m runtime=60 time_based steadystate=iops:2% steadystate_duration=5", &[("", "0/t 0..5000 r5000;"), ("steadystate_ramp_time=4", "0/t 0..9000 r9000;")]),
    case("steadystate_check_interval", JOBS, "ioengine=sim sim_latency=constant:1ms size=1m runtime=60 time_based sim_faults=stall:500ms:400ms steadystate=iops:2% steadystate_duration=6", &[("", "0/t 0..7000 r6599;"), ("steadystate_check_interval=2", "0/t 0..8000 r7599;"), ("steadystate_check_interval=3", "0/t 0..9000 r8599;")]),
];

/// The offsets of the writes of all clones, sorted.
const WRITTEN: Look = Look::calls("system calls", |run| {
    let writes = run.calls.iter().filter(|call| call.name == "pwrite64");
    let mut offsets: Vec<String> = writes
        .map(|call| kib(call.arguments[3].parse().unwrap_or(0)))
        .collect();
    offsets.sort();
    joined(offsets)
});
