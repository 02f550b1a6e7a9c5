//! Jobs and groups.

use crate::case::{Case, Look, case};
use crate::looks::{FILES, JOBS, LENGTHS, RATES};

#[rustfmt::skip]
pub(crate) const CASES: &[Case] = &[
    case("name", JOBS, "ioengine=sim sim_latency=constant:1ms size=8k", &[("", "0/t 0..2 r2;"), ("name=other", "0/other 0..2 r2;")]),
    case("description", Look::output("output", |run| run.text("/jobs/0/desc")), "ioengine=sim size=8k", &[("", "null"), ("description=words", "words")]),
    case("numjobs", FILES, "rw=write size=8k", &[("", "t.0.0:8k"), ("numjobs=3", "t.0.0:8k t.1.0:8k t.2.0:8k")]),
    case("stonewall", JOBS, "ioengine=sim sim_latency=constant:1ms size=8k", &[("name=a name=b", "0/a 0..2 r2; 0/b 0..2 r2;"), ("name=a name=b stonewall", "0/a 0..2 r2; 1/b 2..4 r2;"), ("name=a name=b wait_for_previous name=c", "0/a 0..2 r2; 1/b 2..4 r2; 1/c 2..4 r2;")]),
    case("new_group", JOBS, "ioengine=sim sim_latency=constant:1ms size=8k", &[("name=a name=b", "0/a 0..2 r2; 0/b 0..2 r2;"), ("name=a name=b new_group", "0/a 0..2 r2; 1/b 0..2 r2;")]),
    case("wait_for", JOBS, "ioengine=sim sim_latency=constant:1ms size=8k", &[("name=a name=b name=c", "0/a 0..2 r2; 0/b 0..2 r2; 0/c 0..2 r2;"), ("name=a name=b wait_for=a name=c", "0/a 0..2 r2; 0/b 2..4 r2; 0/c 0..2 r2;")]),
    case("startdelay", JOBS, "ioengine=sim sim_latency=constant:1ms size=8k", &[("name=a name=b", "0/a 0..2 r2; 0/b 0..2 r2;"), ("name=a name=b startdelay=2", "0/a 0..2 r2; 0/b 2000..2002 r2;")]),
    case("exitall", JOBS, "ioengine=sim sim_latency=constant:1ms", &[("name=a size=8k name=b size=40k", "0/a 0..2 r2; 0/b 0..10 r10;"), ("name=a size=8k exitall name=b size=40k", "0/a 0..2 r2; 0/b 0..3 r3;")]),
    case("exit_what", JOBS, "ioengine=sim sim_latency=constant:1ms exitall", &[
        ("name=a size=8k name=b size=40k new_group name=c size=16k stonewall", "0/a 0..2 r2; 1/b 0..10 r10; 2/c 10..14 r4;"),
        ("exit_what=stonewall name=a size=8k name=b size=40k new_group name=c size=16k stonewall", "0/a 0..2 r2; 1/b 0..3 r3; 2/c 3..7 r4;"),
        ("exit_what=all name=a size=8k name=b size=40k new_group name=c size=16k stonewall", "0/a 0..2 r2; 1/b 0..3 r3; 2/c 0..0;")]),
    case("exitall_on_error", JOBS, "ioengine=sim sim_latency=constant:1ms", &[("name=a size=40k sim_faults=eio:3 name=b size=40k", "0/a 0..3 r2; 0/b 0..10 r10;"), ("exitall_on_error name=a size=40k sim_faults=eio:3 name=b size=40k", "0/a 0..3 r2; 0/b 0..4 r4;")]),
    case("group_reporting", JOBS, "ioengine=sim sim_latency=constant:1ms size=8k", &[("name=a name=b", "0/a 0..2 r2; 0/b 0..2 r2;"), ("group_reporting name=a name=b", "0/a 0..4 r4;")]),
    case("kb_base", LENGTHS, "ioengine=sim size=16k bs=4k", &[("", "r0k+4k r4k+4k r8k+4k r12k+4k"), ("kb_base=1000 bs=4k", "r0k+4000 r4000+4000 r8000+4000 r12000+4000")]),
    case("unit_base", RATES, "ioengine=sim sim_latency=constant:1ms size=8k output-format=normal", &[("", "IOPS=1000, BW=4000KiB/s"), ("unit_base=8", "IOPS=1000, BW=4000KiB/s"), ("unit_base=1", "IOPS=1000, BW=31.2Mibit/s")]),
    case("exec_prerun", FILES, "ioengine=null size=8k allow-exec", &[("", ""), ("exec_prerun=ls", "t.prerun.txt:13")]),
    case("exec_postrun", FILES, "ioengine=null size=8k allow-exec", &[("", ""), ("exec_postrun=ls", "t.postrun.txt:14")]),
    case("flow", JOBS, "ioengine=sim sim_latency=constant:1ms size=1m runtime=1 time_based", &[("name=a name=b", "0/a 0..1000 r1000; 0/b 0..1000 r1000;"), ("name=a flow=3 name=b flow=1", "0/a 0..1000 r1000; 0/b 0..1000 r334;")]),
    case("flow_id", JOBS, "ioengine=sim sim_latency=constant:1ms size=1m runtime=1 time_based", &[("name=a flow=3 name=b flow=1", "0/a 0..1000 r1000; 0/b 0..1000 r334;"), ("name=a flow=3 flow_id=1 name=b flow=1 flow_id=2", "0/a 0..1000 r1000; 0/b 0..1000 r1000;")]),
    case("flow_sleep", JOBS, "ioengine=sim sim_latency=constant:1ms size=1m runtime=1 time_based", &[("name=a flow=3 name=b flow=1", "0/a 0..1000 r1000; 0/b 0..1000 r334;"), ("flow_sleep=100ms name=a flow=3 name=b flow=1", "0/a 0..1000 r64; 0/b 0..1000 r20;")]),
];
