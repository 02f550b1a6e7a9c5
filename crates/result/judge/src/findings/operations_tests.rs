use iodyno_model::{
    Action, Content, CycleStep, Direction, EndedBy, ErrorCount, Finding, FindingKind, Outcome,
    SharedMode, StackLayer, Step, Trial, VerifyResult, Weight, Workload,
};

use crate::testing::operations as made;
use FindingKind::*;
use Weight::{Invalid, Note, Warning};

/// Exactly these are found, and the text of the first one contains all `words`.
fn check(
    name: &str,
    mut made: (Workload, Trial),
    change: impl FnOnce(&mut Workload, &mut Trial),
    expected: &[(FindingKind, Weight)],
    words: &[&str],
) -> Vec<Finding> {
    change(&mut made.0, &mut made.1);
    let found = super::findings(&made.0, &made.1);
    let kinds: Vec<(FindingKind, Weight)> = found
        .iter()
        .map(|finding| (finding.kind, finding.weight))
        .collect();
    assert_eq!(kinds, expected, "{name}: {found:#?}");
    for word in words {
        assert!(
            found[0].text.contains(word),
            "{name}: no `{word}` in {:?}",
            found[0]
        );
    }
    found
}

fn mount(trial: &mut Trial, file_system: &str) {
    let Some(StackLayer::Mount(mount)) = trial.parts[0].environment.targets[0].stack.first_mut()
    else {
        unreachable!("the test trial has a mount");
    };
    mount.file_system = file_system.to_owned();
}

/// 20 000 syncs; enough for its tails.
fn write_sync() -> (Workload, Trial) {
    let (workload, mut trial) = made::write_sync_trial();
    for result in &mut trial.parts[0].clones[0].directions {
        let mean = result.service.mean_ns() as u64 * 600 / 20_000;
        result.service = made::all_equal(20_000, mean);
        result.ops = 20_000;
    }
    (workload, trial)
}

/// A delete with a constant rate.
fn even_delete() -> (Workload, Trial) {
    let (workload, mut trial) = made::delete_trial(10_000_000);
    trial.frames.truncate(12);
    (workload, trial)
}

#[test]
fn regular_file_operations_have_no_findings() {
    check("create", made::create_empty_trial(), |_, _| {}, &[], &[]);
    check("write", write_sync(), |_, _| {}, &[], &[]);
    check("delete", even_delete(), |_, _| {}, &[], &[]);
    check(
        "files of the sets are known, and the sets fit into memory",
        even_delete(),
        |_, trial| {
            trial.parts[0].clones[0].region_bytes = 2 << 30;
            trial.parts[0].files = vec![iodyno_model::FileState {
                path: "/mnt/e/x/files.1".to_owned(),
                length: 2 << 20,
                unwritten: Some(2 << 20),
                ..Default::default()
            }];
        },
        &[],
        &[],
    );
    check(
        "untimed steps below the resolution",
        made::create_empty_trial(),
        |_, trial| {
            let clone = &mut trial.parts[0].clones[0];
            clone.stamp_window_ns = (500, 3_000);
        },
        &[],
        &[],
    );
}

#[test]
fn a_drain_that_was_given_up_is_not_a_missing_feature() {
    let given_up = "the drain was given up after 60 s".to_owned();
    let found = check(
        "restless",
        even_delete(),
        |_, trial| trial.parts[0].clones[0].engine.fallbacks = vec![given_up],
        &[(Fallback, Note)],
        &["not done as requested: the drain was given up"],
    );
    assert!(!found[0].text.contains("next best"), "{found:?}");
}

#[test]
fn too_short_or_too_few_ops_are_reported_only_for_the_op() {
    check(
        "short",
        made::create_empty_trial(),
        |_, trial| trial.parts[0].clones[0].stamp_window_ns = (50_000, 200_000),
        &[(ResolutionLimited, Note)],
        &["op all percentiles are upper limits"],
    );
    check(
        "few",
        made::write_sync_trial(),
        |_, _| {},
        &[(TooShort, Note)],
        &["op (600 ops)"],
    );
}

#[test]
fn data_that_did_not_reach_the_device_matter_if_they_are_measured() {
    let lost = |trial: &mut Trial| trial.parts[0].host.devices[0].bytes[1] /= 20;
    check(
        "synced, and not there",
        write_sync(),
        |_, trial| lost(trial),
        &[(CacheServed, Invalid)],
        &["0.05 ×"],
    );
    check(
        "written untimed, for another step",
        write_sync(),
        |workload, trial| {
            let operations = workload.jobs[0].work.file_operations_mut().unwrap();
            operations.cycle[1] = CycleStep {
                action: Action::Statfs,
                timed: true,
            };
            trial.parts[0].clones[0].directions[1].direction = Direction::Statfs;
            lost(trial);
        },
        &[],
        &[],
    );
    let unsynced = check(
        "timed and never synced",
        write_sync(),
        |workload, trial| {
            let operations = workload.jobs[0].work.file_operations_mut().unwrap();
            operations.cycle.truncate(1);
            operations.cycle[0].timed = true;
            lost(trial);
        },
        &[(CacheServed, Invalid)],
        &["never left it"],
    );
    let remedy = unsynced[0].remedy.as_deref().unwrap_or_default();
    assert!(
        remedy.contains("sync step") && !remedy.contains("direct=1"),
        "{remedy}"
    );
    check(
        "in memory anyway",
        made::create_empty_trial(),
        |_, trial| {
            mount(trial, "tmpfs");
            trial.parts[0].environment.targets[0].stack.truncate(1);
        },
        &[(CacheServed, Note)],
        &["tmpfs"],
    );
}

#[test]
fn a_core_kept_busy_by_the_file_system_is_not_a_client_limit() {
    check(
        "within calls",
        made::create_empty_trial(),
        |_, trial| trial.parts[0].clones[0].cpu.system_ns = 19_500_000_000,
        &[(ClientSaturated, Note)],
        &["the worker", "file system's CPU time"],
    );
    check(
        "between calls",
        made::create_empty_trial(),
        |_, trial| {
            let clone = &mut trial.parts[0].clones[0];
            clone.cpu.user_ns = 19_500_000_000;
            for result in &mut clone.directions {
                result.service = made::all_equal(20_000, 100_000);
            }
        },
        &[(ClientSaturated, Warning)],
        &["the client limited the figure"],
    );
}

#[test]
fn compressible_data_are_reported_if_data_are_written() {
    let zero = |workload: &mut Workload| workload.jobs[0].buffers.content = Content::Zero;
    check(
        "appended",
        write_sync(),
        |workload, _| zero(workload),
        &[(Compressible, Note)],
        &["zeroes"],
    );
    check(
        "in sets, on zfs",
        even_delete(),
        |workload, trial| {
            zero(workload);
            mount(trial, "zfs");
        },
        &[(Compressible, Warning)],
        &["zfs"],
    );
    check(
        "empty files have no data",
        made::create_empty_trial(),
        |workload, _| zero(workload),
        &[],
        &[],
    );
}

#[test]
fn regimes_of_finite_work_are_reported_with_rates_and_the_time() {
    let found = check(
        "delete",
        made::delete_trial(1_000_000_000),
        |_, _| {},
        &[(Unsteady, Note)],
        &[
            "two regimes: 4.00k/s until 13.0 s, then 48.0k/s",
            "250 µs, then 20.8 µs an op",
            "complete after 15.0 s",
        ],
    );
    assert!(!found[0].text.contains("one figure does not describe"));
    check(
        "a fixed duration is judged differently",
        made::delete_trial(1_000_000_000),
        |workload, trial| {
            workload.jobs[0].end.runtime = Some(iodyno_units::Nanos::from_secs(14));
            trial.parts[0].clones[0].ended = EndedBy::Runtime;
        },
        &[(Unsteady, Note)],
        &["one figure does not describe"],
    );
}

#[test]
fn a_drain_longer_than_the_ops_contains_part_of_their_cost() {
    let drained = |finite: bool, drain_ns: u64| {
        let made = match finite {
            true => even_delete(),
            false => made::create_empty_trial(),
        };
        move |expected: &[(FindingKind, Weight)], words: &[&str]| {
            check(
                "drain",
                made,
                |_, trial| {
                    let steps = trial.parts[0].steps.iter_mut();
                    for step in steps.filter(|step| step.step == Step::Drain) {
                        step.span_ns = drain_ns;
                    }
                },
                expected,
                words,
            )
        }
    };
    let found = drained(true, 40_000_000_000)(
        &[(Deferred, Note)],
        &[
            "the ops took 14.0 s",
            "40.0 s more",
            "the completion time includes it",
        ],
    );
    assert!(found[0].threshold.contains("1 ×"), "{found:?}");
    drained(false, 25_000_000_000)(&[(Deferred, Warning)], &["do not include it"]);
    drained(true, 13_000_000_000)(&[], &[]);
    drained(false, 19_000_000_000)(&[], &[]);
    check(
        "ops of milliseconds, and the sync that every trial has",
        even_delete(),
        |_, trial| {
            trial.frames.clear();
            let part = &mut trial.parts[0];
            part.clones[0].runtime_ns = 5_000_000;
        },
        &[],
        &[],
    );
}

#[test]
fn a_limit_is_found_with_few_large_ops_as_well() {
    let even = |bytes_per_s: u64, uneven: bool| {
        move |_: &mut Workload, trial: &mut Trial| {
            trial.frames = (0..20)
                .map(|second| {
                    let one_more = u64::from(second % 2);
                    let swing = if uneven { 3 * one_more } else { one_more };
                    made::frame(second, &[(Direction::Op, 25 + swing, 0)])
                })
                .collect();
            let device = &mut trial.parts[0].host.devices[0];
            device.bytes = [0, bytes_per_s * 20, 0];
            device.ios[1] = 45_000;
            (device.busy_ms, trial.parts[0].host.span_ns) = (19_800, 20_000_000_000);
            let write = &mut trial.parts[0].clones[0].directions[0];
            write.bytes = bytes_per_s * 20;
        }
    };
    check(
        "250 MB/s",
        write_sync(),
        even(250_000_000, false),
        &[(DeviceCapped, Warning)],
        &["vda", "250 MB/s"],
    );
    check("no limit", write_sync(), even(233_000_000, false), &[], &[]);
    check("scatters", write_sync(), even(250_000_000, true), &[], &[]);
}

#[test]
fn a_rate_requested_for_cycles_is_compared_with_cycles() {
    let paced = |rate: f64| {
        move |workload: &mut Workload, trial: &mut Trial| {
            workload.jobs[0].pacing.ops_per_s = rate;
            trial.frames.clear();
        }
    };
    check("kept", made::create_empty_trial(), paced(1003.0), &[], &[]);
    let missed = check(
        "missed",
        made::create_empty_trial(),
        paced(1250.0),
        &[(RateMissed, Warning)],
        &["1.25k ops/s requested, 1.00k ops/s achieved (-20.0 %)"],
    );
    let remedy = missed[0].remedy.as_deref().unwrap_or_default();
    assert!(remedy.contains("threads"), "{remedy}");
    check(
        "requests of two threads, without their fsyncs",
        made::fileio_trial(),
        |workload, _| {
            workload.jobs[0].work.engine_mut().unwrap().direct = true;
            workload.jobs[0].pacing.ops_per_s = 5000.0;
        },
        &[(RateMissed, Warning), (SyncsDominate, Note)],
        &["10.0k ops/s requested, 5.00k ops/s achieved"],
    );
}

#[test]
fn failed_steps_are_reported_with_a_remedy() {
    let fail = |direction, errno, count| {
        move |_: &mut Workload, trial: &mut Trial| {
            trial.parts[0].clones[0].errors = vec![ErrorCount {
                direction,
                errno,
                count,
                first_file: "/mnt/e/iodyno-1/new.7".to_owned(),
                first_offset: 0,
                first_length: 0,
            }];
            trial.outcome = Outcome::Failed("ENOSPC".to_owned());
        }
    };
    let full = check(
        "full",
        made::create_empty_trial(),
        fail(Direction::Create, 28, 1),
        &[(IoErrors, Warning)],
        &["1 op failed: 1 × ENOSPC on create (first: /mnt/e/iodyno-1/new.7)"],
    );
    let remedy = full[0].remedy.as_deref().unwrap_or_default();
    assert!(remedy.contains("inodes"), "{remedy}");
    // 60 000 steps were done, in 20 000 cycles: a cycle is not an additional attempt.
    check(
        "most",
        made::create_empty_trial(),
        fail(Direction::Create, 13, 60_001),
        &[(IoErrors, Invalid)],
        &["EACCES"],
    );
    check(
        "half",
        made::create_empty_trial(),
        fail(Direction::Create, 13, 59_000),
        &[(IoErrors, Warning)],
        &["EACCES"],
    );
    check(
        "interrupted in set-up",
        made::create_empty_trial(),
        |_, trial| {
            trial.outcome = Outcome::Interrupted("SIGINT".to_owned());
            trial.frames.clear();
            let clone = &mut trial.parts[0].clones[0];
            (clone.runtime_ns, clone.directions) = (0, Vec::new());
        },
        &[(Interrupted, Warning)],
        &["before anything was measured: SIGINT"],
    );
}

/// rndrw on files larger than memory, without fsyncs.
fn unsynced() -> (Workload, Trial) {
    let (mut workload, mut trial) = made::fileio_trial();
    let shared = workload.jobs[0].work.shared_files_mut().unwrap();
    (shared.fsync_every, shared.fsync_end) = (0, false);
    trial.parts[0].environment.memory.total = 1 << 30;
    for clone in &mut trial.parts[0].clones {
        clone.directions.truncate(2);
    }
    (workload, trial)
}

#[test]
fn syncs_requested_by_a_rule_are_reported_if_they_dominate() {
    let large = |trial: &mut Trial| trial.parts[0].environment.memory.total = 1 << 30;
    check(
        "they follow",
        made::fileio_trial(),
        |_, trial| large(trial),
        &[(SyncsDominate, Note)],
        &[
            "6.40k syncs/s took 96 % of the time",
            "file-fsync-freq=100 × 128 files, 128 syncs after every 100 requests",
        ],
    );
    let found = check(
        "they do not",
        made::fileio_trial(),
        |workload, trial| {
            large(trial);
            workload.jobs[0].work.shared_files_mut().unwrap().count = 64;
        },
        &[(SyncsDominate, Note)],
        &[],
    );
    assert!(!found[0].text.contains("follow"), "{found:?}");
    check(
        "they are quick",
        made::fileio_trial(),
        |_, trial| {
            large(trial);
            for clone in &mut trial.parts[0].clones {
                clone.directions[2].service = made::all_equal(64_000, 1_000);
            }
        },
        &[],
        &[],
    );
    check("there are none", unsynced(), |_, _| {}, &[], &[]);
}

#[test]
fn buffered_shared_files_are_suspect_like_other_files() {
    let fits = check(
        "fits into memory",
        unsynced(),
        |_, trial| trial.parts[0].environment.memory.total = 8 << 30,
        &[(SmallerThanMemory, Note)],
        // Both threads share the 2 GiB.
        &["cached reads of 2 GiB fit into the host's 8 GiB"],
    );
    assert!(
        fits[0]
            .remedy
            .as_deref()
            .unwrap_or_default()
            .contains("file-extra-flags")
    );
    let mut served = unsynced();
    served.1.parts[0].host.devices[0].bytes[0] /= 100;
    let served = check(
        "read from memory",
        served,
        |_, _| {},
        &[(CacheServed, Invalid)],
        &["a cache served the rest"],
    );
    assert!(
        served[0]
            .remedy
            .as_deref()
            .unwrap_or_default()
            .contains("file-total-size")
    );
    check(
        "writes alone",
        unsynced(),
        |workload, trial| {
            let shared = workload.jobs[0].work.shared_files_mut().unwrap();
            shared.mode = SharedMode::RandomWrite;
            trial.parts[0].environment.memory.total = 8 << 30;
        },
        &[],
        &[],
    );
    check(
        "damaged blocks",
        unsynced(),
        |_, trial| {
            trial.parts[0].clones[0].verify = Some(VerifyResult {
                checked: 1000,
                corrupt: 1,
                ..VerifyResult::default()
            });
        },
        &[(VerifyFailed, Invalid)],
        &["1 of 1000 blocks"],
    );
    let sparse = |mode| {
        move |workload: &mut Workload, trial: &mut Trial| {
            workload.jobs[0].work.shared_files_mut().unwrap().mode = mode;
            trial.parts[0].files = vec![iodyno_model::FileState {
                path: "/mnt/e/test_file.0".to_owned(),
                length: 16 << 20,
                unwritten: Some(16 << 20),
                read: mode == SharedMode::RandomRead,
                ..Default::default()
            }];
        }
    };
    let found = check(
        "sparse files are read",
        unsynced(),
        sparse(SharedMode::RandomRead),
        &[(Unwritten, Invalid)],
        &["access no data"],
    );
    assert!(
        found[0]
            .remedy
            .as_deref()
            .unwrap_or_default()
            .contains("prepare")
    );
    check(
        "sparse files are written to",
        unsynced(),
        sparse(SharedMode::RandomWrite),
        &[(Unwritten, Note)],
        &["allocate"],
    );
    check(
        "files are made",
        unsynced(),
        sparse(SharedMode::SequentialWrite),
        &[],
        &[],
    );
}
