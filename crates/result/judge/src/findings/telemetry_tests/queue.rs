//! Queues: full, above the device, longer than useful.

use super::*;

/// A second of a disk: read requests, ns of each, number in the queue.
fn disk(name: &'static str, reads: u64, each_ns: u64, queue_x10: u64) -> (&'static str, Named) {
    let named = vec![
        ("reads", reads),
        ("read_bytes", reads * 4096),
        ("read_time", reads * each_ns),
        ("busy_time", SECOND),
        ("queue_time", queue_x10 * SECOND / 10),
    ];
    (name, named)
}

fn nr_requests(trial: &mut Trial, name: &str, requests: &str) {
    let layers = &mut part(trial).environment.targets[0].stack;
    for layer in layers {
        match layer {
            StackLayer::Disk(device) | StackLayer::Loop { device, .. } if device.name == name => {
                device
                    .queue
                    .insert("nr_requests".to_owned(), requests.to_owned());
            }
            _ => {}
        }
    }
}

#[test]
fn a_queue_that_is_full_while_jobs_have_more_is_saturated() {
    let full = |requests: &'static str, queue_x10: u64, depth: u32| {
        move |_: &mut Workload, trial: &mut Trial| {
            nr_requests(trial, "vda", requests);
            part(trial)
                .clones
                .iter_mut()
                .for_each(|clone| clone.engine.depth = depth);
            trial.telemetry = seconds(Disk, move |_| vec![disk("vda", 21_000, 100_000, queue_x10)]);
        }
    };
    check(
        "full",
        full("64", 630, 64),
        &[(QueueSaturated, Warning)],
        &[
            "vda: 63 requests",
            "nr_requests 64",
            "128 in flight",
            "a read takes",
            "100 µs of it at vda",
        ],
    );
    for (name, requests, queue_x10, depth) in [
        ("as deep as the jobs", "64", 630, 32),
        ("one more than there are places", "127", 1270, 64),
        ("room is left", "64", 570, 64),
        ("several hardware queues", "64", 680, 64),
        ("not known", "", 630, 64),
        ("nonsense", "0", 0, 64),
    ] {
        check(name, full(requests, queue_x10, depth), &[], &[]);
    }
    check(
        "just full",
        full("64", 576, 64),
        &[(QueueSaturated, Warning)],
        &[],
    );
    check(
        "not in most seconds",
        |_, trial| {
            full("64", 0, 64)(&mut testing::workload("w", vec![]), trial);
            trial.telemetry = seconds(Disk, |second| {
                let queue = if second < 9 { 630 } else { 400 };
                vec![disk("vda", 21_000, 100_000, queue)]
            });
        },
        &[],
        &[],
    );
}

/// loop0 above vda.
fn loop_above(trial: &mut Trial) {
    let environment = &mut part(trial).environment;
    let mut device = environment.targets[0].stack[1].device().unwrap().clone();
    device.name = "loop0".to_owned();
    let layer = StackLayer::Loop {
        device,
        file: "/img".into(),
        direct: true,
    };
    environment.targets[0].stack.insert(1, layer);
}

#[test]
fn waiting_above_the_device_is_distinguished_from_its_service() {
    let layers = |above: (u64, u64), below: (u64, u64)| {
        move |_: &mut Workload, trial: &mut Trial| {
            loop_above(trial);
            trial.telemetry = seconds(Disk, move |_| {
                vec![
                    disk("loop0", above.0, above.1, 80),
                    disk("vda", below.0, below.1, 20),
                ]
            });
        }
    };
    check(
        "waits",
        layers((2_300, 4_200_000), (2_300, 900_000)),
        &[(QueueSaturated, Note)],
        &["reads take 4.20 ms at loop0 and 900 µs of it at vda: 79 % is waiting above vda"],
    );
    for (name, above, below) in [
        ("less than twice", (2_300, 1_790_000), (2_300, 900_000)),
        (
            "as short as processing time",
            (2_300, 150_000),
            (2_300, 60_000),
        ),
        ("split below", (2_300, 4_200_000), (4_000, 900_000)),
        ("few", (49, 4_200_000), (49, 900_000)),
    ] {
        check(name, layers(above, below), &[], &[]);
    }
    check(
        "a single layer",
        |_, trial| {
            trial.telemetry = seconds(Disk, |_| vec![disk("vda", 2_300, 4_200_000, 80)]);
        },
        &[],
        &[],
    );
}

#[test]
fn a_longer_queue_without_a_higher_rate_is_only_waiting() {
    let halves = |short: (u64, u64), long: (u64, u64)| {
        seconds(Disk, move |second| {
            let (reads, queue) = if second % 2 == 0 { short } else { long };
            vec![disk("vda", reads, 100_000, queue)]
        })
    };
    sampled(
        "no more",
        halves((20_000, 30), (20_500, 160)),
        &[(QueueSaturated, Note)],
        &["20000 requests/s with 3.0 of them in its queue and 20500/s with 16.0"],
    );
    sampled("more", halves((20_000, 30), (21_500, 160)), &[], &[]);
    sampled(
        "hardly longer",
        halves((21_000, 100), (21_000, 190)),
        &[],
        &[],
    );
    sampled(
        "short nevertheless",
        halves((21_000, 10), (21_000, 39)),
        &[],
        &[],
    );
    let mut idle = halves((20_000, 30), (20_500, 160));
    let busy = idle.shapes[0].column("busy_time").unwrap();
    idle.samples
        .iter_mut()
        .for_each(|sample| sample.values[busy] = Some(SECOND / 2));
    sampled("no queueing at a device that is half idle", idle, &[], &[]);
}
