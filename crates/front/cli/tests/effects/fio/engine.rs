//! Options of the engine.

use crate::case::{Case, Look, Through, case};
use crate::looks::{CALLS, FAULT, JOBS, OPEN_FLAGS, QUEUE, SLEEPS, TIMES, joined};

#[rustfmt::skip]
pub(crate) const CASES: &[Case] = &[
    case("sync", OPEN_FLAGS, "rw=randwrite bs=4k size=16k", &[
        ("", "O_RDWR"),
        ("sync=none", "O_RDWR"),
        ("sync=sync", "O_RDWR|O_SYNC"),
        ("sync=1", "O_RDWR|O_SYNC"),
        ("sync=dsync", "O_RDWR|O_DSYNC"),
        ("sync=1 direct=1", "O_RDWR|O_SYNC|O_DIRECT"),
        ("sync=dsync direct=1", "O_RDWR|O_DSYNC|O_DIRECT"),
        ("rw=write size=16k ; sync=1", "O_RDWR|O_SYNC"),
        ("rw=write size=16k ; sync=dsync", "O_RDWR|O_DSYNC"),
        ("rw=write size=16k ; sync=1 rw=read", "O_RDONLY|O_SYNC"),
    ]),
    case("sync", OPEN_FLAGS, "rw=randwrite bs=4k size=16k iodepth=2", &[
        ("ioengine=sync sync=none", "O_RDWR"),
        ("ioengine=sync sync=1", "O_RDWR|O_SYNC"),
        ("ioengine=sync sync=dsync", "O_RDWR|O_DSYNC"),
        ("ioengine=pvsync2 sync=1", "O_RDWR|O_SYNC"),
        ("ioengine=pvsync2 sync=dsync", "O_RDWR|O_DSYNC"),
        ("ioengine=libaio sync=1 direct=1", "O_RDWR|O_SYNC|O_DIRECT"),
        ("ioengine=libaio sync=dsync direct=1", "O_RDWR|O_DSYNC|O_DIRECT"),
        ("ioengine=io_uring sync=1", "O_RDWR|O_SYNC"),
        ("ioengine=io_uring sync=dsync", "O_RDWR|O_DSYNC"),
        ("ioengine=posixaio sync=1", "O_RDWR|O_SYNC"),
        ("ioengine=posixaio sync=dsync", "O_RDWR|O_DSYNC"),
        ("ioengine=mmap sync=1", "O_RDWR|O_SYNC"),
        ("numjobs=2 sync=dsync filename=f", "O_RDWR|O_DSYNC"),
        ("create_on_open=1 sync=dsync", "O_RDWR|O_DSYNC"),
    ]),
    case("direct", OPEN_FLAGS, "rw=write bs=4k size=16k", &[
        ("", "O_RDWR"),
        ("direct=0", "O_RDWR"),
        ("direct=1", "O_RDWR|O_DIRECT"),
        ("direct=1 ioengine=io_uring", "O_RDWR|O_DIRECT"),
        ("rw=write size=16k ; direct=1 rw=read", "O_RDONLY|O_DIRECT"),
    ]),
    case("buffered", OPEN_FLAGS, "rw=write bs=4k size=16k", &[
        ("", "O_RDWR"),
        ("buffered=1", "O_RDWR"),
        ("buffered=0", "O_RDWR|O_DIRECT"),
        ("direct=1 buffered=1", "O_RDWR"),
    ]),
    case("atomic", CALLS, "rw=write bs=4k size=8k ioengine=pvsync2 direct=1", &[("", "pwritev2(0k,0) pwritev2(4k,0)"), ("atomic=1", "pwritev2(0k,ATOMIC)")]).or_fails(),
    case("hipri", CALLS, "rw=read bs=4k size=8k ioengine=pvsync2 direct=1", &[("", "preadv2(0k,0) preadv2(4k,0)"), ("hipri=1", "preadv2(0k,HIPRI) preadv2(4k,HIPRI)")]).or_fails(),
    case("hipri", QUEUE, "rw=read bs=4k size=8k ioengine=io_uring direct=1", &[("", "setup() register(FILES) register(BUFFERS)"), ("hipri=1", "setup(IOPOLL) register(FILES) register(BUFFERS)")]).or_fails(),
    case("nowait", CALLS, "rw=read bs=4k size=8k ioengine=pvsync2 invalidate=0", &[("", "preadv2(0k,0) preadv2(4k,0)"), ("nowait=1", "preadv2(0k,NOWAIT) preadv2(4k,NOWAIT)")]),
    case("ioengine", CALLS, "rw=write bs=4k size=8k", &[("", "pwrite64(0k+4k) pwrite64(4k+4k)"), ("ioengine=psync", "pwrite64(0k+4k) pwrite64(4k+4k)"), ("ioengine=sync", "lseek(0,SEEK_SET) write(4k) lseek(4096,SEEK_SET) write(4k)"),("ioengine=pvsync", "pwritev2(0k,0) pwritev2(4k,0)"), ("ioengine=pvsync2", "pwritev2(0k,0) pwritev2(4k,0)"),("ioengine=vsync", "pwritev2(0k,0) pwritev2(4k,0)"),("ioengine=splice", "pwrite64(0k+4k) pwrite64(4k+4k)"),
       ("ioengine=posixaio", "pwrite64(0k+4k) pwrite64(4k+4k)"), ("ioengine=mmap", "mmap(8k)"), ("ioengine=null",""), ("ioengine=falloc", "fallocate(0,0k+4k) fallocate(0,4k+4k)"), ("ioengine=ftruncate", "ftruncate(0k) ftruncate(4k)"), ("ioengine=filecreate", "create"), ("ioengine=filestat", "create pwrite64(0k+8k) fsync() stat(\"files.000000000\")"), ("ioengine=filedelete", "create pwrite64(0k+8k) fsync() unlinkat(\"files.000000000\",0)"), ("ioengine=dircreate", "mkdirat(\"new~0.000000000\",0755)"), ("ioengine=dirstat", "mkdirat(\"files.000000000\",0700) stat(\"files.000000000\")"), ("ioengine=dirdelete", "mkdirat(\"files.000000000\",0700) unlinkat(\"files.000000000\",AT_REMOVEDIR)")]),
    case("ioengine", QUEUE, "rw=write bs=4k size=8k", &[("ioengine=libaio", "submit(1) reap(1..1) submit(1) reap(1..1)"), ("ioengine=io_uring", "setup() register(FILES) register(BUFFERS)")]),
    case("sqthread_poll", QUEUE, "rw=read bs=4k size=8k ioengine=io_uring direct=1", &[("", "setup() register(FILES) register(BUFFERS)"), ("sqthread_poll=1", "setup(SQPOLL) register(FILES) register(BUFFERS)")]),
    case("sqthread_poll_cpu", QUEUE, "rw=read bs=4k size=8k ioengine=io_uring direct=1 sqthread_poll=1", &[("", "setup(SQPOLL) register(FILES) register(BUFFERS)"), ("sqthread_poll_cpu=1", "setup(SQPOLL|SQ_AFF) on CPU 1 register(FILES) register(BUFFERS)")]),
    case("fixedbufs", QUEUE, "rw=read bs=4k size=8k ioengine=io_uring direct=1", &[("", "setup() register(FILES) register(BUFFERS)"), ("fixedbufs=0", "setup() register(FILES)"), ("fixedbufs=1", "setup() register(FILES) register(BUFFERS)")]),
    case("registerfiles", QUEUE, "rw=read bs=4k size=8k ioengine=io_uring direct=1", &[("", "setup() register(FILES) register(BUFFERS)"), ("registerfiles=0", "setup() register(BUFFERS)"), ("registerfiles=1", "setup() register(FILES) register(BUFFERS)")]),
    case("iodepth", QUEUE, "rw=read bs=4k size=16k ioengine=libaio", &[("", "submit(1) reap(1..1) submit(1) reap(1..1) submit(1) reap(1..1) submit(1) reap(1..1)"), ("iodepth=2", "submit(1) submit(1) reap(1..2) submit(1) submit(1) reap(1..2)")]),
    case("iodepth_batch", QUEUE, "rw=read bs=4k size=16k ioengine=libaio iodepth=4", &[("", "submit(1) submit(1) submit(1) submit(1) reap(1..4)"), ("iodepth_batch=2", "submit(2) submit(2) reap(1..4)")]),
    case("iodepth_batch_complete_min", QUEUE, "rw=read bs=4k size=16k ioengine=libaio iodepth=4", &[("", "submit(1) submit(1) submit(1) submit(1) reap(1..4)"), ("iodepth_batch_complete_min=2", "submit(1) submit(1) submit(1) submit(1) reap(2..4)")]),
    case("iodepth_batch_complete_max", QUEUE, "rw=read bs=4k size=16k ioengine=libaio iodepth=4", &[("", "submit(1) submit(1) submit(1) submit(1) reap(1..4)"), ("iodepth_batch_complete_max=2", "submit(1) submit(1) submit(1) submit(1) reap(1..2) reap(2..2)")]),
    case("iodepth_low", TIMES, "ioengine=sim bs=4k size=32k iodepth=4 sim_servers=1", &[("", "0 0 0 0 100 200 300 400"), ("iodepth_low=1", "0 0 0 0 300 300 300 600")]),
    case("serialize_overlap", TIMES, "ioengine=sim rw=randwrite norandommap bs=4k size=8k io_size=16k iodepth=4", &[("", "0 0 0 0"), ("serialize_overlap=1", "0 100 200 300")]),
    case("force_async", WORKERS, "ioengine=io_uring rw=read bs=4k size=16k invalidate=0 runtime=1 time_based", &[("", "none"), ("force_async=1", "workers")]),
    case("cpuload", SLEEPS, "ioengine=cpuio runtime=1 cpuchunks=20000", &[("cpuload=100", "none"), ("cpuload=50", "sleeps")]),
    case("cpuchunks", SLEEPS, "ioengine=cpuio runtime=1 cpuload=50", &[("cpuchunks=20000", "sleeps"), ("cpuchunks=5000000", "none")]),
    case("cmd_type", FAULT, "ioengine=null size=4k", &[("", "0"), ("cmd_type=nvme", "0"), ("cmd_type=scsi", "1 error: `cmd_type=scsi` is not supported")]),
    case("uri", CONNECTIONS, "ioengine=nbd rw=read size=4k", &[("uri=nbd+unix:///?socket=/one", "{sa_family=AF_UNIX, sun_path=\"/one\"}"), ("uri=nbd+unix:///?socket=/two", "{sa_family=AF_UNIX, sun_path=\"/two\"}")]).or_fails(),
    case("sim_device", SPEED, "ioengine=sim rw=randread bs=4k size=1g number_ios=1000", &[("", "mean 0.1 ms, median 0.1 ms"), ("sim_device=hdd", "a disk"), ("sim_device=flash", "flash"), ("sim_device=mirror:adaptive:hdd+hdd*2", "a disk")]),
    case("sim_latency", SPEED, "ioengine=sim bs=4k size=64k io_size=80m", &[("", "mean 0.1 ms, median 0.1 ms"), ("sim_latency=constant:1ms", "mean 1.0 ms, median 1.0 ms"), ("sim_latency=exponential:1ms", "mean 1.0 ms, median 0.7 ms"), ("sim_latency=lognormal:1ms:0.5", "mean 1.1 ms, median 1.0 ms")]),
    case("sim_servers", JOBS, "ioengine=sim sim_latency=constant:1ms bs=4k size=64k iodepth=8", &[("", "0/t 0..2 r16;"), ("sim_servers=2", "0/t 0..8 r16;")]),
    case("sim_faults", ERRORS, "ioengine=sim sim_latency=constant:1ms bs=4k size=40k continue_on_error=all", &[("", "10 ops, 0 errors, 0 short, 10 ms"), ("sim_faults=eio:5", "8 ops, 2 errors, 0 short, 10 ms"), ("sim_faults=short:5", "10 ops, 0 errors, 2 short, 12 ms"), ("sim_faults=stall:5ms:1s", "10 ops, 0 errors, 0 short, 1011 ms")]),
    case("sim_clock", SLEEPS, "ioengine=sim sim_latency=constant:20ms bs=4k size=24k", &[("", "none"), ("sim_clock=virtual", "none"), ("sim_clock=real", "sleeps")]),
];

/// Whether threads of the kernel do requests of io_uring.
const WORKERS: Look = Look {
    seen: "threads of the kernel",
    through: Through::Threads,
    of: |run| {
        let workers = run.threads.iter().any(|name| name.starts_with("iou-wrk"));
        if workers { "workers" } else { "none" }.to_owned()
    },
};

/// Sockets to which it connects.
const CONNECTIONS: Look = Look::calls("system calls", |run| {
    let connects = run.calls.iter().filter(|call| call.name == "connect");
    joined(connects.map(|call| call.arguments[1].clone()))
});

/// The mean and the median of the latency, rounded so that draws do not matter.
const SPEED: Look = Look::output("virtual time", |run| {
    let of = |pointer: &str| run.value(pointer).as_f64().unwrap_or(0.0) / 1e6;
    let (mean, median) = (
        of("/jobs/0/read/clat_ns/mean"),
        of("/jobs/0/read/clat_ns/percentile/50.000000"),
    );
    match mean {
        3.0.. => "a disk".to_owned(),
        ..0.09 => "flash".to_owned(),
        _ => format!("mean {mean:.1} ms, median {median:.1} ms"),
    }
});

/// Ops that were done, errors that were counted, short ops, and when the job ended.
const ERRORS: Look = Look::output("errors", |run| {
    let number = |name: &str| run.text(&format!("/jobs/0/{name}"));
    format!(
        "{} ops, {} errors, {} short, {} ms",
        number("read/total_ios"),
        number("total_err"),
        number("read/short_ios"),
        number("job_runtime")
    )
});
