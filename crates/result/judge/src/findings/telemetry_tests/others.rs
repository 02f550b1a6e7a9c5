//! I/O of other processes.

use super::*;

/// vda read this number of MiB more than the jobs' 1.53 GiB.
fn excess(trial: &mut Trial, mib: u64) {
    part(trial).host.devices[0].bytes[0] += mib << 20;
}

#[test]
fn io_of_other_processes_is_named() {
    let others = |read_mib: u64| {
        let processes = recording().seconds(Others, 20, move |_| {
            vec![
                ("rsync[99]", vec![("read_bytes", read_mib * (1 << 20) / 20)]),
                ("updatedb[7]", vec![("read_bytes", 1 << 20)]),
            ]
        });
        let disks = processes.seconds(Disk, 20, |_| vec![("vda", vec![])]);
        disks.done()
    };
    let beside = |mib: u64, read_mib: u64| {
        move |_: &mut Workload, trial: &mut Trial| {
            excess(trial, mib);
            trial.telemetry = others(read_mib);
        }
    };
    check(
        "on the device",
        beside(400, 380),
        &[(OtherIo, Warning)],
        &[
            "rsync[99] read 380 MiB and updatedb[7] read 20 MiB",
            "the devices read 400 MiB more than the jobs' 1.53 GiB",
        ],
    );
    check("on another device", beside(0, 4000), &[], &[]);
    check(
        "by a server under test",
        |_, trial| {
            excess(trial, 400);
            part(trial).host.servers = vec![iodyno_model::ServerUse {
                read_bytes: Some(395 << 20),
                ..Default::default()
            }];
        },
        &[],
        &[],
    );
    check("little", beside(150, 150), &[], &[]);
    check(
        "half of it explained",
        beside(400, 180),
        &[(OtherIo, Warning)],
        &[],
    );
    check(
        "less: an unseen process",
        beside(400, 170),
        &[(OtherIo, Note)],
        &["no process was seen doing it"],
    );
    check(
        "read-ahead explains the excess",
        |workload, trial| {
            workload.jobs[0].work.blocks_mut().unwrap().engine.direct = false;
            part(trial).environment.memory.total = 1 << 30;
            excess(trial, 400);
        },
        &[],
        &[],
    );
    check(
        "so does a file system with maps",
        |_, trial| {
            mount(trial, "btrfs", "rw");
            excess(trial, 400);
        },
        &[],
        &[],
    );
    check(
        "written",
        |_, trial| {
            for clone in &mut part(trial).clones {
                clone
                    .directions
                    .push(testing::direction(Write, 100_000, 300_000));
            }
            part(trial).host.devices[0].bytes[1] = (819 << 20) + (300 << 20);
            trial.telemetry = seconds(Others, |_| {
                vec![("dd[5]", vec![("written_bytes", 15 << 20)])]
            });
        },
        &[(OtherIo, Warning)],
        &["dd[5] wrote 300 MiB"],
    );
    check("not sampled", |_, trial| excess(trial, 400), &[], &[]);
}
