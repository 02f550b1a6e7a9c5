//! Memory: short, dirty, a cache.

use super::*;

#[test]
fn short_memory_is_reported() {
    let reclaim = |named: Named| seconds(Reclaim, move |_| vec![("", named.clone())]);
    sampled(
        "swap",
        reclaim(vec![("swapped_in", 3 << 20), ("swapped_out", 1 << 20)]),
        &[(MemoryPressure, Warning)],
        &["60 MiB were swapped in and 20 MiB out"],
    );
    sampled(
        "a page occasionally",
        reclaim(vec![("swapped_out", 1 << 19)]),
        &[],
        &[],
    );
    sampled(
        "allocations that reclaim",
        reclaim(vec![("stalls", 10), ("scanned_direct", 1 << 20)]),
        &[(MemoryPressure, Warning)],
        &["10 allocations per second", "20 MiB scanned"],
    );
    sampled("few of them", reclaim(vec![("stalls", 9)]), &[], &[]);
    let kswapd = || reclaim(vec![("scanned_kswapd", 11 << 20)]);
    sampled(
        "kswapd with direct jobs",
        kswapd(),
        &[(MemoryPressure, Note)],
        &["although no job uses the page cache"],
    );
    let note = found(|_, trial| trial.telemetry = kswapd());
    let advice = note[0].remedy.as_deref().unwrap_or_default();
    assert!(!advice.contains("direct=1"), "{advice}");
    sampled(
        "hardly",
        reclaim(vec![("scanned_kswapd", 9 << 20)]),
        &[],
        &[],
    );
    check(
        "kswapd with buffered jobs is normal",
        |workload, trial| {
            workload.jobs[0].work.blocks_mut().unwrap().engine.direct = false;
            part(trial).environment.memory.total = 1 << 30;
            trial.telemetry = kswapd();
        },
        &[],
        &[],
    );
    let with_pressure = recording()
        .seconds(Reclaim, 20, |_| vec![("", vec![("stalls", 100)])])
        .seconds(Pressure, 20, |_| {
            vec![("memory", vec![("some", SECOND / 8)])]
        });
    sampled(
        "with the kernel's own pressure figures",
        with_pressure.done(),
        &[(MemoryPressure, Warning)],
        &["waited for memory in 12.5 % of the time"],
    );
}

#[test]
fn writers_that_wait_for_writeback_are_throttled() {
    const MIB: u64 = 1 << 20;
    let writer = |direct: bool, above: u32, dirty: u64| {
        move |workload: &mut Workload, trial: &mut Trial| {
            workload.jobs[0].work.blocks_mut().unwrap().access.writes = true;
            workload.jobs[0].work.blocks_mut().unwrap().access.reads = false;
            workload.jobs[0].work.blocks_mut().unwrap().engine.direct = direct;
            for clone in &mut part(trial).clones {
                clone.directions = vec![testing::direction(Write, 200_000, 318_000)];
            }
            part(trial).host.devices[0].bytes.swap(0, 1);
            trial.telemetry = seconds(Memory, move |second| {
                let dirty = if second < above { dirty } else { 0 };
                let named = vec![
                    ("dirty", dirty - dirty / 4),
                    ("writeback", dirty / 4),
                    ("dirty_background", 200 * MIB),
                    ("dirty_limit", 400 * MIB),
                ];
                vec![("", named)]
            });
        }
    };
    check(
        "part of the time",
        writer(false, 8, 310 * MIB),
        &[(DirtyThrottled, Warning)],
        &[
            "in 40 % of the time",
            "up to 310 MiB",
            "above 300 MiB",
            "part memory's",
        ],
    );
    check(
        "throughout",
        writer(false, 18, 310 * MIB),
        &[(DirtyThrottled, Note)],
        &["the rate at which the storage takes"],
    );
    check("below the middle", writer(false, 20, 300 * MIB), &[], &[]);
    let early = found(writer(false, 8, 310 * MIB));
    assert_eq!(early[0].spans_ns, [(0, 8 * SECOND as i64)]);
    check(
        "just long enough",
        writer(false, 4, 310 * MIB),
        &[(DirtyThrottled, Warning)],
        &[],
    );
    check("a burst", writer(false, 3, 310 * MIB), &[], &[]);
    check(
        "dirty pages of other processes",
        writer(true, 20, 310 * MIB),
        &[],
        &[],
    );
}

#[test]
fn the_series_of_the_arc_is_used_if_there_are_no_counters() {
    let arc = |hits: u64, misses: u64| {
        seconds(Arc, move |_| {
            vec![("", vec![("hits", hits), ("misses", misses)])]
        })
    };
    let on_zfs = |telemetry: Telemetry| {
        move |_: &mut Workload, trial: &mut Trial| {
            mount(trial, "zfs", "rw");
            part(trial).environment.targets[0].stack.truncate(1);
            part(trial).host.devices = Vec::<DeviceUse>::new();
            part(trial).environment.memory.total = 1 << 30;
            trial.telemetry = telemetry;
        }
    };
    check(
        "hits",
        on_zfs(arc(950, 50)),
        &[(CacheServed, Weight::Invalid)],
        &["the ARC served 95 % of 20000"],
    );
    check("misses", on_zfs(arc(5, 950)), &[], &[]);
    check(
        "counted at both ends",
        |workload, trial| {
            on_zfs(arc(950, 50))(workload, trial);
            part(trial).host.arc_hits = Some((0, 20_000));
        },
        &[],
        &[],
    );
}
