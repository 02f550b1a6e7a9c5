//! Traces.

use std::path::Path;

use crate::case::{Case, Look, case};
use crate::looks::{CALLS, FILES, OPS, TIMES};

#[rustfmt::skip]
pub(crate) const CASES: &[Case] = &[
    case("write_iolog", RECORDED, "rw=randwrite bs=4k size=16k", &[("", "no record"), ("write_iolog=x", "the record is what the calls are")]),
    case("read_iolog", CALLS, "rw=write bs=4k size=8k filename=f", &[("", "pwrite64(0k+4k) pwrite64(4k+4k)"), ("read_iolog=trace", "pwrite64(0k+4k) pwrite64(12k+4k) pread64(0k+4k) fallocate(KEEP_SIZE|PUNCH_HOLE,12k+4k)")]).after(trace),
    case("replay_no_stall", TIMES, "ioengine=sim read_iolog=trace filename=f", &[("", "0 10000 20000 30000"), ("replay_no_stall=1", "0 100 200 300")]).after(trace),
    case("replay_time_scale", TIMES, "ioengine=sim read_iolog=trace filename=f", &[("", "0 10000 20000 30000"), ("replay_time_scale=50", "0 20000 40000 60000")]).after(trace),
    case("replay_redirect", FILES, "read_iolog=trace filename=f", &[("", "f:16k trace:137"), ("replay_redirect=g", "g:16k trace:137")]).after(trace),
    case("replay_scale", OPS, "ioengine=sim read_iolog=trace filename=f", &[("", "w0k+4k w12k+4k r0k+4k t12k+4k"), ("replay_scale=2", "w0k+4k w6k+4k r0k+4k t6k+4k")]).after(trace),
    case("replay_align", OPS, "ioengine=sim read_iolog=trace filename=f", &[("", "w0k+4k w12k+4k r0k+4k t12k+4k"), ("replay_align=8k", "w0k+4k w8k+4k r0k+4k t8k+4k")]).after(trace),
    case("replay_skip", OPS, "ioengine=sim read_iolog=trace filename=f", &[("", "w0k+4k w12k+4k r0k+4k t12k+4k"), ("replay_skip=write", "r0k+4k t12k+4k"), ("replay_skip=read,trim", "w0k+4k w12k+4k")]).after(trace),
];

/// A trace of ops that are 10 ms apart.
fn trace(work: &Path) {
    let text = "fio version 3 iolog\n0 f add\n0 f open\n0 f write 0 4096\n10000 f write 12288 4096\n20000 f read 0 4096\n30000 f trim 12288 4096\n40000 f close\n";
    std::fs::write(work.join("trace"), text).unwrap();
}

/// Whether the record has the offsets and lengths of the system calls, in their order.
const RECORDED: Look = Look::calls("system calls", |run| {
    if !run.names().contains(&"x".to_owned()) {
        return "no record".to_owned();
    }
    let mut ops = run.recorded("x");
    ops.retain(|op| op.action == "write");
    let ops: Vec<String> = ops
        .iter()
        .map(|op| format!("{}+{}", op.offset, op.length))
        .collect();
    let calls = run
        .calls
        .iter()
        .filter(|call| call.name == "pwrite64" && call.file.as_deref() == Some("t.0.0"));
    let calls: Vec<String> = calls
        .map(|call| format!("{}+{}", call.arguments[3], call.arguments[2]))
        .collect();
    match ops == calls && ops.len() == 4 {
        true => "the record is what the calls are".to_owned(),
        false => format!("{ops:?} {calls:?}"),
    }
});
