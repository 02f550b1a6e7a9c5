//! Logs, reports, placement of threads.

use crate::case::{Case, Look, case};
use crate::looks::{RATES, joined};
use crate::strace::Call;

#[rustfmt::skip]
pub(crate) const CASES: &[Case] = &[
    case("write_bw_log", LOGS, "ioengine=sim sim_latency=constant:1ms bs=4k size=8k", &[("", ""), ("write_bw_log=x", "x_bw.1.log: 1,4096,0,4096,0 2,4096,0,4096,0;")]),
    case("write_iops_log", LOGS, "ioengine=sim sim_latency=constant:1ms bs=4k size=8k", &[("", ""), ("write_iops_log=x", "x_iops.1.log: 1,1,0,4096,0 2,1,0,4096,0;")]),
    case("write_lat_log", LOGS, "ioengine=sim sim_latency=constant:1ms bs=4k size=8k", &[("", ""), ("write_lat_log=x", "x_clat.1.log: 1,1000000,0,4096,0 2,1000000,0,4096,0; x_lat.1.log: ; x_slat.1.log: ;")]),
    case("disable_lat", LOGS, "ioengine=sim sim_latency=constant:1ms bs=4k size=4k write_lat_log=x", &[("", "x_clat.1.log: 1,1000000,0,4096,0; x_lat.1.log: ; x_slat.1.log: ;"), ("disable_lat=1", "x_clat.1.log: 1,1000000,0,4096,0; x_slat.1.log: ;")]),
    case("disable_clat", LOGS, "ioengine=sim sim_latency=constant:1ms bs=4k size=4k write_lat_log=x", &[("", "x_clat.1.log: 1,1000000,0,4096,0; x_lat.1.log: ; x_slat.1.log: ;"), ("disable_clat=1", "x_lat.1.log: ; x_slat.1.log: ;")]),
    case("disable_slat", LOGS, "ioengine=sim sim_latency=constant:1ms bs=4k size=4k write_lat_log=x", &[("", "x_clat.1.log: 1,1000000,0,4096,0; x_lat.1.log: ; x_slat.1.log: ;"), ("disable_slat=1", "x_clat.1.log: 1,1000000,0,4096,0; x_lat.1.log: ;")]),
    case("gtod_reduce", LOGS, "ioengine=sim sim_latency=constant:1ms bs=4k size=4k write_lat_log=x", &[("", "x_clat.1.log: 1,1000000,0,4096,0; x_lat.1.log: ; x_slat.1.log: ;"), ("gtod_reduce=1", "")]),
    case("write_hist_log", LOGS, "ioengine=sim sim_latency=constant:1ms bs=4k size=8k log_hist_msec=1", &[("", ""), ("write_hist_log=x", "x_clat_hist.1.log: 1856 bins 1856 bins;")]),
    case("log_avg_msec", LOGS, "ioengine=sim sim_latency=constant:1ms bs=4k size=16k write_bw_log=x", &[("", "x_bw.1.log: 1,4096,0,4096,0 2,4096,0,4096,0 3,4096,0,4096,0 4,4096,0,4096,0;"), ("log_avg_msec=2", "x_bw.1.log: 2,2000,0,0,0 4,4000,0,0,0;")]),
    case("log_window_value", LOGS, "ioengine=sim sim_latency=constant:1ms sim_faults=stall:2ms:4ms bs=4k size=32k write_lat_log=x log_avg_msec=8", &[("", "x_clat.1.log: 8,3500000,0,0,0 13,1000000,0,0,0; x_lat.1.log: ; x_slat.1.log: ;"), ("log_window_value=max", "x_clat.1.log: 8,6000000,0,0,0 13,1000447,0,0,0; x_lat.1.log: ; x_slat.1.log: ;"), ("log_window_value=both", "x_clat.1.log: 8,3500000,6000000,0,0,0 13,1000000,1000447,0,0,0; x_lat.1.log: ; x_slat.1.log: ;")]),
    case("log_offset", LOGS, "ioengine=sim sim_latency=constant:1ms bs=4k size=8k write_bw_log=x", &[("", "x_bw.1.log: 1,4096,0,4096,0 2,4096,0,4096,0;"), ("log_offset=1", "x_bw.1.log: 1,4096,0,4096,0,0 2,4096,0,4096,4096,0;")]),
    case("log_hist_msec", LOGS, "ioengine=sim sim_latency=constant:1ms bs=4k size=16k write_hist_log=x", &[("log_hist_msec=1", "x_clat_hist.1.log: 1856 bins 1856 bins 1856 bins 1856 bins;"), ("log_hist_msec=2", "x_clat_hist.1.log: 1856 bins 1856 bins 1856 bins;")]),
    case("log_hist_coarseness", LOGS, "ioengine=sim sim_latency=constant:1ms bs=4k size=4k write_hist_log=x log_hist_msec=1", &[("", "x_clat_hist.1.log: 1856 bins;"), ("log_hist_coarseness=6", "x_clat_hist.1.log: 2,0,4096,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0;")]),
    case("log_prio", LOGS, "ioengine=sim sim_latency=constant:1ms bs=4k size=8k write_bw_log=x prioclass=2 prio=3", &[("", "x_bw.1.log: 1,4096,0,4096,0 2,4096,0,4096,0;"), ("log_prio=1", "x_bw.1.log: 1,4096,0,4096,0x4003 2,4096,0,4096,0x4003;")]),
    case("log_issue_time", LOGS, "ioengine=sim sim_latency=constant:1ms bs=4k size=8k write_lat_log=x log_offset=1", &[("", "x_clat.1.log: 1,1000000,0,4096,0,0 2,1000000,0,4096,4096,0; x_lat.1.log: ; x_slat.1.log: ;"), ("log_issue_time=1", "x_clat.1.log: 1,1000000,0,4096,0,0,0 2,1000000,0,4096,4096,0,1000000; x_lat.1.log: ; x_slat.1.log: ;")]),
    case("per_job_logs", LOGS, "ioengine=sim sim_latency=constant:1ms bs=4k size=4k numjobs=2 write_bw_log=x", &[("", "x_bw.1.log: 1,4096,0,4096,0; x_bw.2.log: 1,4096,0,4096,0;"), ("per_job_logs=0", "x_bw.log: 1,4096,0,4096,0 1,4096,0,4096,0;")]),
    case("log_alternate_epoch", EPOCH, "ioengine=sim sim_latency=constant:1ms bs=4k size=8k write_bw_log=x", &[("", "since the start"), ("log_alternate_epoch=1", "since 1970"), ("log_unix_epoch=1", "since 1970")]),
    case("log_alternate_epoch_clock_id", EPOCH, "ioengine=sim sim_latency=constant:1ms bs=4k size=8k write_bw_log=x log_alternate_epoch=1", &[("", "since 1970"), ("log_alternate_epoch_clock_id=1", "since the host booted")]),
    case("log_store_compressed", LOGS, "ioengine=sim sim_latency=constant:1ms bs=4k size=8k write_bw_log=x", &[("", "x_bw.1.log: 1,4096,0,4096,0 2,4096,0,4096,0;"), ("log_store_compressed=1", "x_bw.1.log.fz: compressed;")]),
    case("percentile_list", PERCENTILES, "ioengine=sim sim_latency=constant:1ms bs=4k size=8k", &[("", "clat: 1.000000,10.000000,20.000000,30.000000,40.000000,5.000000,50.000000,60.000000,70.000000,80.000000,90.000000,95.000000,99.000000,99.500000,99.900000,99.950000,99.990000"), ("percentile_list=10:99.5", "clat: 10.000000,99.500000")]),
    case("clat_percentiles", PERCENTILES, "ioengine=sim sim_latency=constant:1ms bs=4k size=8k percentile_list=50", &[("", "clat: 50.000000"), ("clat_percentiles=0", "")]),
    case("lat_percentiles", PERCENTILES, "ioengine=sim sim_latency=constant:1ms bs=4k size=8k percentile_list=50", &[("", "clat: 50.000000"), ("lat_percentiles=1", "clat: 50.000000 lat: 50.000000")]),
    case("slat_percentiles", PERCENTILES, "ioengine=libaio bs=4k size=8k percentile_list=50", &[("", "clat: 50.000000"), ("slat_percentiles=1", "slat: 50.000000 clat: 50.000000")]),
    case("significant_figures", RATES, "ioengine=sim sim_latency=constant:300us bs=4k size=40k output-format=normal", &[("", "IOPS=3333, BW=13.0MiB/s"), ("significant_figures=2", "IOPS=3k, BW=13MiB/s"), ("significant_figures=7", "IOPS=3333, BW=13333.3KiB/s")]),
    case("stats", Look::output("output", |run| run.value("/jobs").as_array().map_or(0, Vec::len).to_string()), "ioengine=sim size=4k", &[("name=a name=b", "2"), ("name=a name=b stats=0", "1")]),
    case("unified_rw_reporting", KINDS, "ioengine=sim bs=4k size=64k rw=randrw", &[("", "read write"), ("unified_rw_reporting=mixed", "mixed"), ("unified_rw_reporting=both", "read write mixed")]),
    case("cpus_allowed", PLACE, "rw=write bs=4k size=8k", &[("", ""), ("cpus_allowed=1", "affinity(1)"), ("cpus_allowed=0-1", "affinity(0 1)")]).unless(one_cpu),
    case("cpumask", PLACE, "rw=write bs=4k size=8k", &[("", ""), ("cpumask=1", "affinity(0)"), ("cpumask=3", "affinity(0 1)")]).unless(one_cpu),
    case("cpus_allowed_policy", PLACE, "rw=write bs=4k size=8k numjobs=2 stonewall cpus_allowed=0-1", &[("", "affinity(0 1) affinity(0 1)"), ("cpus_allowed_policy=split", "affinity(0) affinity(1)")]).unless(one_cpu),
    case("numa_cpu_nodes", NODE, "rw=write bs=4k size=8k", &[("", "anywhere"), ("numa_cpu_nodes=0", "node 0"), ("numa_cpu_nodes=all", "anywhere")]).unless(no_nodes),
    case("numa_mem_policy", PLACE, "rw=write bs=4k size=8k", &[("", ""), ("numa_mem_policy=local", ""), ("numa_mem_policy=bind:0", "mbind(MPOL_BIND)"), ("numa_mem_policy=interleave:0", "mbind(MPOL_INTERLEAVE)"), ("numa_mem_policy=prefer:0", "mbind(MPOL_PREFERRED)")]).unless(no_nodes),
    case("nice", PLACE, "rw=write bs=4k size=8k", &[("", ""), ("nice=5", "setpriority(PRIO_PROCESS,0,5)")]),
    case("prio", PLACE, "rw=write bs=4k size=8k", &[("", ""), ("prio=3", "ioprio_set(IOPRIO_WHO_PROCESS,0,IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 3))"), ("prio=3 prioclass=2", "ioprio_set(IOPRIO_WHO_PROCESS,0,IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 3))")]),
    case("prioclass", PLACE, "rw=write bs=4k size=8k", &[("", ""), ("prioclass=3", "ioprio_set(IOPRIO_WHO_PROCESS,0,IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0))"), ("prioclass=2", "ioprio_set(IOPRIO_WHO_PROCESS,0,IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 0))")]),
    case("priohint", PLACE, "rw=write bs=4k size=8k prio=3 prioclass=2", &[("", "ioprio_set(IOPRIO_WHO_PROCESS,0,IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 3))"), ("priohint=1", "ioprio_set(IOPRIO_WHO_PROCESS,0,IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 11))")]),
    case("cmdprio_percentage", PRIORITIES, "rw=read bs=4k size=16k ioengine=libaio", &[("", "4096: 4096: 4096: 4096:"), ("cmdprio_percentage=100", "4096:RT0 4096:RT0 4096:RT0 4096:RT0")]),
    case("cmdprio_bssplit", PRIORITIES, "rw=read bsrange=4k-8k size=32k ioengine=libaio", &[("", "4096: 4096: 4096: 4096: 4096: 8192: 4096:"), ("cmdprio_bssplit=8k/100", "4096: 4096: 4096: 4096: 4096: 8192:RT0 4096:")]),
    case("cmdprio_class", PRIORITIES, "rw=read bs=4k size=8k ioengine=libaio cmdprio_percentage=100", &[("", "4096:RT0 4096:RT0"), ("cmdprio_class=2", "4096:BE0 4096:BE0")]),
    case("cmdprio", PRIORITIES, "rw=read bs=4k size=8k ioengine=libaio cmdprio_percentage=100", &[("", "4096:RT0 4096:RT0"), ("cmdprio=5", "4096:RT5 4096:RT5")]),
    case("cmdprio_hint", PRIORITIES, "rw=read bs=4k size=8k ioengine=libaio cmdprio_percentage=100", &[("", "4096:RT0 4096:RT0"), ("cmdprio_hint=1", "4096:RT8 4096:RT8")]),
];

/// The names and the first lines of the log files.
const LOGS: Look = Look::output("log files", |run| {
    let names = run.names().into_iter().filter(|name| name.starts_with('x'));
    joined(names.map(|name| {
        let bytes = run.file(&name);
        let text = String::from_utf8(bytes).unwrap_or_else(|_| "compressed".to_owned());
        let line = |line: &str| match line.len() > 200 {
            true => format!("{} bins", line.split(',').count() - 3),
            false => line.replace(' ', ""),
        };
        // Whether these have values is irrelevant to their cases.
        let others = name.starts_with("x_slat") || name.starts_with("x_lat.");
        let lines = if others { 0 } else { 4 };
        format!("{name}: {};", joined(text.lines().take(lines).map(line)))
    }))
});

/// Whether the first time in a log is of a clock since an epoch of it.
const EPOCH: Look = Look::output("log files", |run| {
    let text = String::from_utf8(run.file("x_bw.1.log")).unwrap();
    let first: u64 = text.split(',').next().unwrap().parse().unwrap();
    // The host has been up for less than 10 years, and the year is later than 2020.
    match first {
        0..1000 => "since the start".to_owned(),
        1000..315_360_000_000 => "since the host booted".to_owned(),
        315_360_000_000..1_577_836_800_000 => first.to_string(),
        _ => "since 1970".to_owned(),
    }
});

/// The reported percentiles of each latency.
const PERCENTILES: Look = Look::output("output", |run| {
    let of = |kind: &str| {
        let all = run.value(&format!("/jobs/0/read/{kind}_ns/percentile"));
        let names = all
            .as_object()
            .map(|all| all.keys().cloned().collect::<Vec<_>>());
        names.map(|names| format!("{kind}: {}", names.join(",")))
    };
    joined(["slat", "clat", "lat"].into_iter().filter_map(of))
});

/// The directions of a job in the output.
const KINDS: Look = Look::output("output", |run| {
    let kinds = ["read", "write", "mixed"];
    joined(
        kinds
            .into_iter()
            .filter(|kind| run.value(&format!("/jobs/0/{kind}/total_ios")).is_u64())
            .map(str::to_owned),
    )
});

/// The calls that place the threads that do the ops, thread by thread.
const PLACE: Look = Look::calls("system calls", |run| {
    let work = |call: &&Call| call.name == "pwrite64" && call.file.is_some();
    let threads: Vec<u32> = run
        .calls
        .iter()
        .filter(work)
        .map(|call| call.thread)
        .collect();
    let own = run
        .calls
        .iter()
        .filter(|call| threads.contains(&call.thread));
    let placed = [
        "ioprio_set",
        "setpriority",
        "sched_setaffinity",
        "set_mempolicy",
        "mbind",
    ];
    let mut placing: Vec<&Call> = own.filter(|call| placed.contains(&&*call.name)).collect();
    placing.sort_by_key(|call| call.thread);
    joined(placing.into_iter().map(|call| match &*call.name {
        "mbind" => format!("mbind({})", call.arguments[2]),
        "sched_setaffinity" => format!("affinity({})", joined(cpus(call))),
        name => format!("{name}({})", call.arguments.join(",")),
    }))
});

/// The CPUs that a call allows.
fn cpus(call: &Call) -> Vec<String> {
    let words = call.arguments[2].split(|letter: char| !letter.is_ascii_digit());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Whether the threads that do the ops are placed on the CPUs of the first NUMA node.
const NODE: Look = Look::calls("system calls", |run| {
    let call = run
        .calls
        .iter()
        .filter(|call| call.name == "sched_setaffinity" && !cpus(call).is_empty());
    let list =
        std::fs::read_to_string("/sys/devices/system/node/node0/cpulist").unwrap_or_default();
    let range = |range: &str| -> Vec<u32> {
        let ends: Vec<u32> = range
            .split('-')
            .filter_map(|end| end.trim().parse().ok())
            .collect();
        (ends[0]..=ends[ends.len() - 1]).collect()
    };
    let node: Vec<String> = list
        .split(',')
        .flat_map(range)
        .map(|cpu| cpu.to_string())
        .collect();
    if call.map(cpus).any(|cpus| cpus == node) {
        "node 0"
    } else {
        "anywhere"
    }
    .to_owned()
});

fn one_cpu() -> Option<&'static str> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    (cpus < 2).then_some("the host has one CPU")
}

fn no_nodes() -> Option<&'static str> {
    let node = std::path::Path::new("/sys/devices/system/node/node0");
    (!node.exists()).then_some("the kernel has no NUMA nodes")
}

/// The priorities of the requests of libaio.
const PRIORITIES: Look = Look::calls("system calls", |run| {
    let submits = run.calls.iter().filter(|call| call.name == "io_submit");
    joined(submits.map(|call| {
        let request = &call.arguments[2];
        let part = |name: &str, end: &[char]| {
            let (_, part) = request.split_once(name)?;
            part.split(end).next()
        };
        let length = part("aio_nbytes=", &[',', '}']).unwrap_or_default();
        let priority = part("aio_reqprio=", &[')', '}']).unwrap_or_default();
        format!(
            "{length}:{}",
            priority
                .replace("IOPRIO_PRIO_VALUE(IOPRIO_CLASS_", "")
                .replace(", ", "")
        )
    }))
});
