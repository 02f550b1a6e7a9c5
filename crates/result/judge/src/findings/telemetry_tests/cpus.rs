//! CPU time: of the host, of a server, stolen.

use super::*;

#[test]
fn all_cpus_busy_is_a_saturated_client() {
    let cpus = |cpu0: [u64; 5], cpu1: [u64; 5]| {
        seconds(Cpu, move |_| {
            vec![("CPU0", cpu_second(cpu0)), ("CPU1", cpu_second(cpu1))]
        })
    };
    let (full, left) = ([50, 45, 0, 0, 5], [50, 39, 10, 0, 1]);
    sampled(
        "all, most of it by others",
        cpus(full, full),
        &[(ClientSaturated, Note)],
        &[
            "all 2 CPUs were busy (100 %; the harness used 0.6",
            "other processes on this host",
        ],
    );
    check(
        "all, most of it by the harness",
        |_, trial| {
            part(trial).host.harness_user_ns = 15_100_000_000;
            trial.telemetry = cpus(full, full);
        },
        &[(ClientSaturated, Warning)],
        &["the harness used 1.21 cores): CPU time limited the figure"],
    );
    check(
        "all, most of it by a server under test",
        |_, trial| {
            part(trial).host.servers.push(iodyno_model::ServerUse {
                user_ns: 8_000_000_000,
                span_ns: 20_000_000_000,
                ..iodyno_model::ServerUse::default()
            });
            trial.telemetry = cpus(full, full);
        },
        &[(ClientSaturated, Warning)],
        &["servers under test 0.40"],
    );
    sampled(
        "95 % of them",
        cpus(full, left),
        &[(ClientSaturated, Note)],
        &[],
    );
    sampled("a little less", cpus(full, [50, 38, 11, 0, 1]), &[], &[]);
    sampled("one of two", cpus(full, [0, 0, 100, 0, 0]), &[], &[]);
    let waits = [10, 10, 0, 80, 0];
    sampled("waiting for I/O is no work", cpus(waits, waits), &[], &[]);
    let mostly = |busy: u32| {
        seconds(Cpu, move |second| {
            let cpu = if second < busy {
                full
            } else {
                [0, 0, 100, 0, 0]
            };
            vec![("CPU0", cpu_second(cpu))]
        })
    };
    sampled(
        "nine of ten seconds",
        mostly(18),
        &[(ClientSaturated, Warning)],
        &[],
    );
    sampled("fewer", mostly(17), &[], &[]);
    check(
        "a worker's own core is the more specific finding",
        |_, trial| {
            part(trial).clones[0].cpu.system_ns = 18_400_000_000;
            trial.telemetry = cpus(full, full);
        },
        &[(ClientSaturated, Warning)],
        &["1 of 2 workers"],
    );
}

pub(super) fn server(cpu_ns: u64, threads: u64) -> (&'static str, Named) {
    (
        "virtiofsd[812]",
        vec![
            ("user", cpu_ns / 4),
            ("system", cpu_ns / 4 * 3),
            ("threads", threads),
        ],
    )
}

#[test]
fn a_server_without_cpu_time_left_limited_the_figure() {
    let used = |cpu_ns: u64, threads: u64| seconds(Process, move |_| vec![server(cpu_ns, threads)]);
    let percent = SECOND / 100;
    sampled(
        "its only thread",
        used(96 * percent, 1),
        &[(ServerSaturated, Warning)],
        &["virtiofsd[812] used 0.96 cores, all that its 1 thread can"],
    );
    sampled(
        "both threads",
        used(191 * percent, 2),
        &[(ServerSaturated, Warning)],
        &["2 threads"],
    );
    sampled(
        "one core of many threads",
        used(100 * percent, 9),
        &[(ServerSaturated, Note)],
        &["as one busy thread of its 9 would"],
    );
    sampled("time left", used(94 * percent, 1), &[], &[]);
    sampled("more than a core of many", used(150 * percent, 9), &[], &[]);
    let sometimes = seconds(Process, |second| {
        vec![server(if second < 17 { SECOND } else { 0 }, 1)]
    });
    sampled("in fewer than nine of ten", sometimes, &[], &[]);
}

#[test]
fn steal_in_single_samples_is_noted_if_the_mean_is_small() {
    let stolen = |seconds_of: u32, percent: u64| {
        seconds(Cpu, move |second| {
            let mut cpu = cpu_second([20, 20, 60 - percent, 0, 0]);
            let taken = if second < seconds_of { percent } else { 0 };
            cpu.push(("steal", taken * SECOND / 100));
            vec![("CPU0", cpu_second([20, 20, 60, 0, 0])), ("CPU1", cpu)]
        })
    };
    sampled(
        "two seconds",
        stolen(2, 30),
        &[(Steal, Note)],
        &["2 of 20 samples", "30 % of CPU1"],
    );
    sampled("once", stolen(1, 30), &[], &[]);
    sampled("little", stolen(20, 9), &[], &[]);
    check(
        "the mean is already reported",
        |_, trial| {
            part(trial).host.steal_ns = 1_000_000_000;
            trial.telemetry = stolen(5, 30);
        },
        &[(Steal, Warning)],
        &["of all CPU time"],
    );
}

#[test]
fn one_tick_in_a_short_sample_is_not_enough() {
    // Ten samples per second. In every second one: one of its ten ticks.
    let often = |ticks: u64| {
        let mut telemetry = seconds(Cpu, |_| Vec::new());
        let stolen = seconds(Cpu, |_| vec![("CPU0", cpu_second([20, 20, 60, 0, 0]))]);
        telemetry.shapes = stolen.shapes;
        let steal = telemetry.shapes[0].column("steal").unwrap();
        telemetry.samples = (1..=200u64)
            .map(|tenth| {
                let mut sample = stolen.samples[0].clone();
                sample.at_ns = (tenth * SECOND / 10) as i64;
                sample.span_ns = SECOND / 10;
                let values = sample.values.iter_mut().flatten();
                values.for_each(|value| *value /= 10);
                sample.values[steal] = Some((tenth % 2) * ticks * SECOND / 100);
                sample
            })
            .collect();
        telemetry
    };
    sampled("one tick", often(1), &[], &[]);
    sampled("three", often(3), &[(Steal, Note)], &["20 of 20 samples"]);
}
