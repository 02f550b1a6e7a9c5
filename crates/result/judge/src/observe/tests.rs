use std::collections::BTreeMap;

use iodyno_model::{
    Configuration, CpuUse, Direction, EndedBy, Fact, FactClass, Figure, Finding, FindingKind,
    ImportedPoint, ImportedTrial, Kind, MadeTarget, Metric, Observation, Outcome, SourceLine,
    StackLayer, Step, StepTime, Target, Trial, TrialKey, Unit, Weight, Withheld, Workload,
};
use iodyno_units::Nanos;

use super::{JOB, observe, observe_imported, observe_jobs};
use crate::testing;
use Direction::{Read, Sync};

fn configuration() -> Configuration {
    Configuration::new("ext4", Target::Path("/mnt/e".into()))
}

fn observed(workload: &Workload, trial: &Trial) -> Observation {
    let key = TrialKey {
        round: 3,
        ..trial.key
    };
    observe("run 7", &configuration(), workload, key, trial)
}

fn changed(change: impl FnOnce(&mut Workload, &mut Trial)) -> Observation {
    let (mut workload, mut trial) = testing::four_clones();
    change(&mut workload, &mut trial);
    observed(&workload, &trial)
}

fn value(observation: &Observation, metric: &str) -> f64 {
    let figure = observation.figure(metric);
    figure
        .unwrap_or_else(|| panic!("no {metric} among {:?}", observation.figures))
        .value
}

fn fact<'a>(observation: &'a Observation, name: &str) -> Option<&'a str> {
    let found = observation.facts.iter().find(|fact| fact.name == name);
    found.map(|fact| fact.value.as_str())
}

fn primary(observation: &Observation) -> &str {
    observation
        .primary
        .as_ref()
        .map_or("", |metric| &metric.name)
}

#[test]
fn axes_families_and_layers_of_a_made_target_are_observed() {
    let (mut workload, mut trial) = testing::four_clones();
    workload.family = Some("mixed".to_owned());
    let axis = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    workload.dimensions = axis("rw", "as the user calls it");
    let provision = serde_json::json!({"layers": [
        {"kind": "zfs", "layout": [{"redundancy": "mirror", "devices": 2}], "pool": {},
         "properties": {"compression": "off"}, "volume": 8_u64 << 30, "origin": "new"},
        {"kind": "throttle", "read_iops": 0, "write_iops": 500, "read_bandwidth": 1 << 20, "write_bandwidth": 0},
        {"kind": "delay", "read_ns": 2_000_000, "write_ns": 0},
        {"kind": "loop", "direct": true, "sector": 4096},
        {"kind": "file", "size": (1 << 30) + 4096, "count": 2, "allocate": true},
        {"kind": "directory", "path": "/data"},
    ]});
    let provision = serde_json::from_value(provision).unwrap();
    let configuration = Configuration {
        dimensions: axis("pool", "mirror"),
        ..Configuration::new("zfs", Target::Made(Box::new(provision)))
    };
    trial.parts[0].environment.made = Some(MadeTarget {
        instance: 3,
        ..MadeTarget::default()
    });
    let found = observe("run 7", &configuration, &workload, trial.key, &trial);
    let dimension = |name| found.dimension(name);
    assert_eq!(
        ["family", "rw", "pool", "instance"].map(dimension),
        ["mixed", "as the user calls it", "mirror", "3"]
    );
    for (name, expected) in [
        (
            "layers",
            "zfs on throttle on delay on loop on file on directory",
        ),
        ("zfs.properties.compression", "off"),
        ("zfs.volume", "8 GiB"),
        ("throttle.read_iops", "no limit"),
        ("throttle.write_iops", "500"),
        ("throttle.read_bandwidth", "1 MiB/s"),
        ("delay.read", "2.00 ms"),
        ("loop.direct", "true"),
        ("loop.sector", "4096"),
        ("file.count", "2"),
        // Rounded, it would be the fact of 1 GiB.
        ("file.size", "1073745920 B"),
    ] {
        assert_eq!(fact(&found, name), Some(expected), "{name}");
    }
    assert!(found.facts.iter().all(|fact| fact.value != "/data"));
}

#[test]
fn a_trial_has_dimensions() {
    let found = changed(|_, _| {});
    let dimensions: Vec<(&str, &str)> = found
        .dimensions
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        dimensions,
        [
            ("bs", "4k"),
            ("configuration", "ext4"),
            ("depth", "16"),
            ("direct", "1"),
            ("engine", "libaio"),
            ("jobs", "4"),
            ("mode", "randrw"),
            ("run", "run 7"),
            ("rw", "randrw"),
            ("threads", "4"),
            ("workload", "randrw"),
        ]
    );
    assert_eq!(
        (found.round, found.again, found.source),
        (Some(3), false, None)
    );
    let two = changed(|workload, _| {
        let mut other = testing::reader("b");
        other.work.blocks_mut().unwrap().engine.depth = 1;
        workload.jobs.push(other);
        workload.again = true;
    });
    let told = |name| two.dimension(name);
    assert_eq!(
        (told("rw"), told("depth"), told("engine"), told("jobs")),
        ("", "", "libaio", "5"),
        "only values that all jobs have in common"
    );
    assert_eq!((told("mode"), told("threads")), ("", "5"));
    assert_eq!(fact(&two, "rw"), Some("randrw and randread"));
    assert!(two.again);
}

#[test]
fn each_job_can_be_an_observation_with_its_own_figures() {
    let (mut workload, mut trial) = testing::four_clones();
    let mut other = testing::reader("other");
    other.name.clone_from(&workload.jobs[0].name);
    workload.jobs.push(other);
    let mut clone = trial.parts[0].clones[0].clone();
    clone.job = 1;
    clone
        .directions
        .retain(|result| result.direction == Direction::Read);
    trial.parts[0].clones.push(clone);
    let all = observed(&workload, &trial);
    let each = observe_jobs("run 7", &configuration(), &workload, trial.key, &trial);
    let name = workload.jobs[0].name.clone();
    let names: Vec<&str> = each.iter().map(|o| o.dimension(JOB)).collect();
    assert_eq!(names, [name.clone(), format!("{name} (job 2)")]);
    assert_eq!(all.dimension(JOB), "");
    // Four clones and one: the sum is that of the trial, and only the first job writes.
    assert_eq!(
        value(&each[0], "read.iops"),
        4.0 * value(&each[1], "read.iops")
    );
    let sum = value(&each[0], "read.iops") + value(&each[1], "read.iops");
    assert_eq!(sum, value(&all, "read.iops"));
    assert_eq!(value(&each[0], "write.iops"), value(&all, "write.iops"));
    assert!(each[1].figure("write.iops").is_none());
    assert_eq!(
        (each[0].dimension("mode"), each[1].dimension("mode")),
        ("randrw", "randread")
    );
    assert_eq!(
        (each[0].dimension("threads"), each[1].dimension("threads")),
        ("4", "1")
    );
}

#[test]
fn all_clones_and_directions_give_one_figure_per_metric() {
    let found = changed(|_, _| {});
    assert_eq!(found.kind, Kind::Timed);
    assert_eq!(value(&found, "iops"), 4.0 * (692_000.0 + 230_500.0) / 20.0);
    assert_eq!(value(&found, "bandwidth"), 4096.0 * value(&found, "iops"));
    assert_eq!(value(&found, "read.iops"), 138_400.0);
    assert_eq!(
        value(&found, "write.bandwidth"),
        4.0 * 230_500.0 / 20.0 * 4096.0
    );
    assert_eq!(value(&found, "cpu_per_op"), 24e9 / (4.0 * 922_500.0));
    let merged = testing::latencies(692_000, 318_000);
    assert_eq!(value(&found, "read.p99"), merged.percentile_ns(99.0) as f64);
    assert_eq!(
        value(&found, "read.p99.9"),
        merged.percentile_ns(99.9) as f64
    );
    assert_eq!(
        value(&found, "write.p50"),
        testing::latencies(230_500, 325_000).percentile_ns(50.0) as f64
    );
    assert_eq!(value(&found, "read.max"), merged.max_ns() as f64);
    assert_eq!(value(&found, "read.mean"), merged.mean_ns());
    // Requested by the job, as fio's default list is.
    assert_eq!(
        value(&found, "read.p99.95"),
        merged.percentile_ns(99.95) as f64
    );
    assert!(
        found.figure("completion").is_none(),
        "work with a fixed duration has none"
    );
    assert!(found.withheld.is_empty(), "{:?}", found.withheld);
    let mut names: Vec<&str> = found
        .figures
        .iter()
        .map(|f| f.metric.name.as_str())
        .collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "one value a metric");
}

#[test]
fn frames_need_no_histograms() {
    let (workload, mut trial) = testing::four_clones();
    let whole = observed(&workload, &trial);
    for frame in &mut trial.frames {
        for direction in frame.jobs.iter_mut().flat_map(|job| &mut job.directions) {
            direction.service = Default::default();
        }
    }
    assert_eq!(observed(&workload, &trial), whole);
}

#[test]
fn the_primary_metric_depends_on_the_kind_of_work() {
    assert_eq!(primary(&changed(|_, _| {})), "iops");
    let large = changed(|_, trial| {
        for result in trial.parts[0]
            .clones
            .iter_mut()
            .flat_map(|clone| &mut clone.directions)
        {
            result.bytes = result.ops * 65_536;
        }
    });
    assert_eq!(primary(&large), "bandwidth");
    let paced = |ops: u64| {
        changed(move |workload, trial| {
            *workload = testing::workload("w", vec![testing::reader("a")]);
            workload.jobs[0].pacing.rates.read.iops = 1000.0;
            let mut reads = testing::direction(Read, ops, 318_000);
            reads.response = Some(testing::latencies(ops, 400_000));
            trial.parts = vec![testing::part(vec![testing::clone(0, 0, vec![reads])])];
        })
    };
    let enough = paced(20_000);
    assert_eq!(primary(&enough), "read.p99");
    let intended = testing::latencies(20_000, 400_000);
    assert_eq!(
        value(&enough, "read.p99"),
        intended.percentile_ns(99.0) as f64
    );
    assert_eq!(
        value(&enough, "read.mean"),
        intended.mean_ns(),
        "of response latency, too"
    );
    assert_eq!(primary(&paced(900)), "read.mean");
    let half_paced = changed(|workload, _| {
        workload.jobs.push(testing::reader("free"));
        workload.jobs[0].pacing.rates.read.iops = 1000.0;
    });
    assert_eq!(primary(&half_paced), "iops");
    let done = changed(|_, trial| end(trial, &[EndedBy::Size]));
    assert_eq!(primary(&done), "completion");
}

fn end(trial: &mut Trial, by: &[EndedBy]) {
    let clones = trial.parts[0].clones.iter_mut();
    clones
        .zip(by.iter().cycle())
        .for_each(|(clone, by)| clone.ended = *by);
}

#[test]
fn the_kind_follows_from_the_ends_of_the_clones() {
    use EndedBy::*;
    let kind = |by: &[EndedBy]| changed(|_, trial| end(trial, by));
    for (by, expected, words) in [
        (&[Runtime][..], Kind::Timed, "runtime"),
        (&[Size], Kind::Finite, "size"),
        (&[Count, Size], Kind::Finite, "number of ops and size"),
        (&[Runtime, Size], Kind::Unknown, "runtime and size"),
        (&[Size, ExitAll], Kind::Finite, "another job's end and size"),
        (
            &[Runtime, ExitAll],
            Kind::Timed,
            "another job's end and runtime",
        ),
        // Planned with a runtime.
        (&[Interruption], Kind::Timed, "interruption"),
    ] {
        let found = kind(by);
        assert_eq!(found.kind, expected, "{by:?}");
        assert_eq!(fact(&found, "ended by"), Some(words), "{by:?}");
    }
    let unplanned = changed(|workload, trial| {
        workload.jobs[0].end = Default::default();
        end(trial, &[Interruption]);
    });
    assert_eq!(unplanned.kind, Kind::Finite);
}

#[test]
fn completion_lasts_until_the_work_is_on_the_storage() {
    let done = |change: fn(&mut Trial)| {
        let found = changed(|_, trial| {
            end(trial, &[EndedBy::Size]);
            // The last clone starts late and works for 19 s.
            trial.parts[0].clones[3].start_ns = 500_000_000;
            trial.parts[0].clones[3].runtime_ns = 19_000_000_000;
            change(trial);
        });
        value(&found, "completion") / 1e9
    };
    // The drain of the steps ends at 20.0041 s.
    assert_eq!(done(|_| {}), 20.0041);
    let flushed = |trial: &mut Trial| {
        trial.parts[0].steps.push(StepTime {
            step: Step::EndFsync,
            job: Some(0),
            start_ns: 20_004_100_000,
            span_ns: 3_000_000_000,
        });
    };
    assert_eq!(done(flushed), 23.0041);
    let verified = |trial: &mut Trial| {
        trial.parts[0].steps.push(StepTime {
            step: Step::VerifyPass,
            job: Some(0),
            start_ns: 20_004_100_000,
            span_ns: 9_000_000_000,
        });
    };
    assert_eq!(
        done(verified),
        20.0041,
        "reading back is not part of the work"
    );
    let told = |trial: &mut Trial| trial.parts[0].clones[3].done_ns = Some(31_000_000_000);
    assert_eq!(done(told), 31.0);
    let late = |trial: &mut Trial| {
        for clone in &mut trial.parts[0].clones {
            clone.start_ns += 2_000_000_000;
        }
    };
    assert_eq!(
        done(late),
        20.0,
        "a delay before the first op is not part of it either"
    );
    let ramped = |trial: &mut Trial| {
        for clone in &mut trial.parts[0].clones {
            clone.start_ns += 2_000_000_000;
        }
        trial.parts[0].steps.push(StepTime {
            step: Step::Ramp,
            job: Some(0),
            start_ns: 0,
            span_ns: 2_000_000_000,
        });
    };
    assert_eq!(done(ramped), 22.0, "a ramp works, too");
}

#[test]
fn unsupported_figures_are_withheld() {
    let found = changed(|workload, trial| {
        workload.jobs[0].reporting.percentiles = vec![90.0, 99.99];
        trial.parts = vec![testing::part(vec![testing::clone(
            0,
            0,
            vec![
                testing::direction(Read, 9_999, 50_000),
                testing::direction(Sync, 20, 1_000_000),
            ],
        )])];
        trial.parts[0].clones[0].stamp_window_ns = (1000, 6000);
    });
    let withheld: Vec<&str> = found.withheld.iter().map(|w| w.metric.as_str()).collect();
    assert_eq!(
        withheld,
        [
            "read.p50",
            "read.p99.9",
            "read.p99.99",
            "sync.p90",
            "sync.p99",
            "sync.p99.9",
            "sync.p99.99"
        ]
    );
    assert!(withheld.iter().all(|metric| found.figure(metric).is_none()));
    let why = |metric: &str| {
        let of_it = found.withheld.iter().find(|w| w.metric == metric);
        of_it.map_or("", |withheld| withheld.why.as_str())
    };
    assert!(
        why("read.p50").contains("upper limit"),
        "{}",
        why("read.p50")
    );
    assert!(
        why("read.p99.9").starts_with("9999 ops, of which 10.0 lie beyond it"),
        "{}",
        why("read.p99.9")
    );
    assert!(
        why("sync.p99").starts_with("20 ops, of which 0.2 lie"),
        "{}",
        why("sync.p99")
    );
    assert!(value(&found, "read.p99") > 0.0);
    assert!(value(&found, "sync.iops") == 1.0);
    assert!(found.figure("sync.bandwidth").is_none());
    assert_eq!(
        value(&found, "iops"),
        9_999.0 / 20.0,
        "a sync moves nothing"
    );
}

#[test]
fn unknown_values_are_not_figures() {
    let found = changed(|_, trial| {
        for clone in &mut trial.parts[0].clones {
            clone.cpu = CpuUse::default();
        }
        trial.parts[0].host = Default::default();
    });
    assert!(found.figure("cpu_per_op").is_none());
    let nothing = changed(|_, trial| {
        trial.parts.clear();
        trial.frames.clear();
        trial.outcome = Outcome::Refused("/dev/vda is mounted".to_owned());
    });
    assert_eq!(nothing.figures, []);
    assert_eq!(
        nothing.unusable.as_deref(),
        Some("refused: /dev/vda is mounted")
    );
    assert_eq!(fact(&nothing, "kernel"), None);
    assert_eq!(fact(&nothing, "duration"), Some("20 s"));
}

fn flags(kind: FindingKind, weight: Weight) -> Finding {
    Finding {
        kind,
        weight,
        text: format!("{kind:?} at {weight:?}"),
        threshold: "some".to_owned(),
        remedy: None,
        spans_ns: Vec::new(),
    }
}

#[test]
fn findings_make_a_trial_flagged_or_unusable() {
    use FindingKind::*;
    use Weight::*;
    for (kind, weight, flagged, unusable) in [
        (ClientSaturated, Warning, true, false),
        (CacheServed, Warning, true, false),
        // A figure of a cache is kept, although it does not describe the device.
        (CacheServed, Invalid, true, false),
        (DeviceCapped, Warning, true, false),
        (SmallerThanMemory, Note, true, false),
        (Compressible, Note, true, false),
        (Unwritten, Warning, true, false),
        (Unwritten, Invalid, true, true),
        (Steal, Warning, true, false),
        (IoErrors, Warning, true, false),
        (IoErrors, Invalid, true, true),
        (VerifyFailed, Invalid, true, true),
        (RateMissed, Warning, true, false),
        (StoreOnTarget, Warning, true, false),
        (StoreOnTarget, Note, false, false),
        // These are represented elsewhere.
        (Unsteady, Note, false, false),
        (TooShort, Note, false, false),
        (ResolutionLimited, Note, false, false),
    ] {
        let found = changed(|_, trial| trial.findings = vec![flags(kind, weight)]);
        assert_eq!(!found.flags.is_empty(), flagged, "{kind:?} {weight:?}");
        let why = unusable.then(|| format!("{kind:?} at {weight:?}"));
        assert_eq!(found.unusable, why, "{kind:?} {weight:?}");
    }
    let cut = changed(|_, trial| trial.outcome = Outcome::Interrupted("SIGKILL".to_owned()));
    assert_eq!(cut.unusable.as_deref(), Some("interrupted: SIGKILL"));
    let failed = changed(|_, trial| trial.outcome = Outcome::Failed("ENOSPC".to_owned()));
    assert_eq!(failed.unusable.as_deref(), Some("failed: ENOSPC"));
}

#[test]
fn facts_have_texts_and_classes() {
    let found = changed(|workload, trial| {
        workload.jobs[0].work.blocks_mut().unwrap().sync.end_fsync = true;
        workload.jobs[0].end.ramp = Nanos::from_secs(5);
        let environment = &mut trial.parts[0].environment;
        environment.cpu.model = "EPYC 7B13".to_owned();
        environment.cpu.logical = 2;
        environment.cpu.governor.name = "performance".to_owned();
        environment.cpu.governor.boost = Some(false);
        environment.virtualisation = "kvm".to_owned();
        let Some(StackLayer::Disk(disk)) = environment.targets[0].stack.last_mut() else {
            unreachable!("the test trial has a disk");
        };
        disk.queue
            .insert("write_cache".to_owned(), "write back".to_owned());
        disk.queue
            .insert("dma_alignment".to_owned(), "3".to_owned());
    });
    let told: Vec<(FactClass, &str, &str)> = found
        .facts
        .iter()
        .map(|Fact { class, name, value }| (*class, name.as_str(), value.as_str()))
        .collect();
    use FactClass::{Ending, Host, Program, Target, Workload};
    assert_eq!(
        told,
        [
            (Target, "file system", "ext4"),
            (Target, "stack", "ext4 on disk"),
            (Target, "mount options", "relatime,rw"),
            (Target, "ext4 options", "none"),
            (Target, "fullness", "60 % to 66 %"),
            (Target, "device", "vda, 256 GiB"),
            (Target, "scheduler", "none"),
            (Target, "write cache", "write back"),
            (Host, "host", "bench"),
            (Host, "kernel", "6.18.0"),
            (Host, "cpu", "EPYC 7B13"),
            (Host, "cpus", "2"),
            (Host, "memory", "24 GiB"),
            (Host, "governor", "performance, no boost"),
            (Host, "virtualisation", "kvm"),
            (Program, "iodyno", "0.1.0"),
            (Workload, "rw", "randrw"),
            (Workload, "bs", "4k"),
            (Workload, "engine", "libaio"),
            (Workload, "depth", "16"),
            (Workload, "direct", "1"),
            (Workload, "jobs", "4"),
            (Workload, "size", "16 GiB"),
            (Workload, "sync", "end_fsync"),
            (Workload, "rate", "none"),
            (Workload, "content", "incompressible"),
            (Workload, "rwmixread", "75"),
            (Workload, "time_based", "1"),
            (Ending, "ended by", "runtime"),
            (Ending, "duration", "20 s"),
            (Ending, "ramp", "5 s"),
        ]
    );
    let finite = changed(|workload, trial| {
        workload.jobs[0].work.blocks_mut().unwrap().passes.loops = 2;
        end(trial, &[EndedBy::Size]);
    });
    assert_eq!(
        fact(&finite, "duration"),
        Some("2 × 4 GiB"),
        "the runtime had no effect"
    );
}

#[test]
fn names_that_differ_on_every_host_are_not_facts() {
    let looped = |number: u32| {
        changed(move |_, trial| {
            let stack = &mut trial.parts[0].environment.targets[0].stack;
            let (mut mount, disk) = (stack[0].clone(), stack[1].clone());
            let backing = stack[0].clone();
            if let StackLayer::Mount(mount) = &mut mount {
                mount.point = format!("/mnt/{number}").into();
                mount.source = format!("/dev/loop{number}");
                mount.options = "data=ordered,noatime,rw".to_owned();
            }
            let StackLayer::Disk(mut device) = disk.clone() else {
                unreachable!("the test trial has a disk");
            };
            device.name = format!("loop{number}");
            let file = format!("/images/{number}").into();
            let direct = true;
            *stack = vec![
                mount,
                StackLayer::Loop {
                    device,
                    file,
                    direct,
                },
                backing,
                disk,
            ];
        })
    };
    let (one, other) = (looped(0), looped(7));
    assert_eq!(one.facts, other.facts);
    assert_eq!(
        fact(&one, "stack"),
        Some("ext4 on loop (direct) on ext4 on disk")
    );
    assert_eq!(fact(&one, "device"), Some("vda, 256 GiB"));
    assert_eq!(fact(&one, "mount options"), Some("noatime,rw"));
    assert_eq!(fact(&one, "ext4 options"), Some("data=ordered"));
    let pool = |name: &str| {
        let what = format!("FUSE (fuse.zfs `{name}/data`)");
        let changed = changed(move |_, trial| {
            trial.parts[0].environment.targets[0].stack = vec![StackLayer::Other(what)];
        });
        fact(&changed, "stack").map(str::to_owned)
    };
    let own = pool("iodyno-0a1b2c3d4e5f");
    assert_eq!(own.as_deref(), Some("FUSE (fuse.zfs `iodyno-TOKEN/data`)"));
    assert_eq!(own, pool("iodyno-99112c3d4e5f"));
    assert_ne!(pool("iodyno-a"), pool("iodyno-b"), "the user's pools");
    let bare = changed(|_, trial| {
        trial.parts[0].environment.targets[0].stack.remove(0);
    });
    assert_eq!(fact(&bare, "file system"), Some("none (block device)"));
    assert_eq!(fact(&bare, "mount options"), None);
}

#[test]
fn storage_that_is_made_anew_has_the_same_facts() {
    let made = |kind: &str, token: &str, number: u32| {
        let options = format!(
            "rw,lowerdir=/run/iodyno/{token}/1/lower:/mnt/a\\:b/iodyno-{token}/lower,size=137438953472"
        );
        let name = format!("zram{number}");
        changed(move |_, trial| {
            let stack = &mut trial.parts[0].environment.targets[0].stack;
            for layer in stack.iter_mut() {
                match layer {
                    StackLayer::Mount(mount) => {
                        mount.file_system = kind.to_owned();
                        mount.options = options.clone();
                    }
                    StackLayer::Disk(device) => device.name = name.clone(),
                    _ => {}
                }
            }
        })
    };
    for kind in ["overlay", "fuse.fuse-overlayfs", "virtiofs"] {
        let one = made(kind, "0a1b2c3d4e5f", 0);
        assert_eq!(one.facts, made(kind, "99112c3d4e5f", 3).facts);
        assert_eq!(
            fact(&one, &format!("{kind} options")),
            Some(
                "lowerdir=/run/iodyno/TOKEN/1/lower:/mnt/a\\:b/iodyno-TOKEN/lower,size=137438953472"
            )
        );
        // What the user configured is compared.
        assert_ne!(one.facts, made("ext4", "0a1b2c3d4e5f", 0).facts);
    }
}

#[test]
fn fullness_includes_the_files_of_the_trial_itself() {
    let of = |free: u64, own: u64| {
        let found = changed(move |_, trial| {
            let part = &mut trial.parts[0];
            for layer in &mut part.environment.targets[0].stack {
                if let StackLayer::Mount(mount) = layer {
                    (mount.total, mount.free) = (1000, free);
                }
            }
            part.clones.truncate(1);
            part.clones[0].region_bytes = own;
        });
        fact(&found, "fullness").map(str::to_owned)
    };
    assert_eq!(of(660, 60).as_deref(), Some("34 % to 40 %"));
    assert_eq!(of(600, 1).as_deref(), Some("40 %"));
    assert_eq!(of(600, 700).as_deref(), Some("40 % to 100 %"));
}

fn imported() -> ImportedTrial {
    ImportedTrial {
        configuration: "zfs".to_owned(),
        workload: "delete_100k_2MB".to_owned(),
        dimensions: [
            ("node".to_owned(), "a".to_owned()),
            ("run".to_owned(), "2".to_owned()),
        ]
        .into(),
        form: "fsbench table".to_owned(),
        unusable: None,
        at: SourceLine {
            source: "results.txt".to_owned(),
            line: 178,
        },
        kind: Kind::Finite,
        primary: Some("completion".to_owned()),
        figures: vec![Figure {
            metric: Metric::time("completion"),
            value: 55.1e9,
            derived: None,
        }],
        withheld: vec![Withheld {
            metric: "p99".to_owned(),
            why: "printed to a tenth of a millisecond".to_owned(),
        }],
        series: (0..60)
            .map(|second| ImportedPoint {
                start_ns: second * 1_000_000_000,
                end_ns: (second + 1) * 1_000_000_000,
                rate: if (20..31).contains(&second) {
                    1630.0
                } else {
                    1840.0
                },
            })
            .collect(),
        options_complete: true,
        facts: vec![Fact {
            class: FactClass::Program,
            name: "fsbench".to_owned(),
            value: "1".to_owned(),
        }],
        remarks: Vec::new(),
    }
}

#[test]
fn imported_trials_are_observed_in_the_same_way() {
    let trial = imported();
    let found = observe_imported("run 9", &trial);
    let place = ["run", "configuration", "workload", "node"].map(|name| found.dimension(name));
    assert_eq!(place, ["run 9", "zfs", "delete_100k_2MB", "a"]);
    assert_eq!(
        (found.round, found.again, &found.unusable),
        (None, false, &None)
    );
    assert_eq!((found.kind, primary(&found)), (Kind::Finite, "completion"));
    assert_eq!(
        (&found.figures, &found.withheld),
        (&trial.figures, &trial.withheld)
    );
    assert_eq!(
        (&found.facts, found.source.as_ref()),
        (&trial.facts, Some(&trial.at))
    );
    let borders: Vec<u64> = found
        .behaviour
        .regimes
        .iter()
        .map(|regime| regime.end_ns / 1_000_000_000)
        .collect();
    assert_eq!(borders, [20, 31, 60]);
    assert_eq!(found.flags, []);
    let unknown = observe_imported(
        "run 9",
        &ImportedTrial {
            primary: Some("iops".to_owned()),
            unusable: Some("cut off".to_owned()),
            series: Vec::new(),
            ..imported()
        },
    );
    assert_eq!(unknown.primary, None, "a metric without a figure");
    let kept_back = observe_imported(
        "run 9",
        &ImportedTrial {
            primary: Some("op.mean".to_owned()),
            withheld: vec![Withheld {
                metric: "op.mean".to_owned(),
                why: "below 0.05 ms".to_owned(),
            }],
            ..imported()
        },
    );
    assert_eq!(kept_back.primary, Some(Metric::time("op.mean")));
    assert_eq!(unknown.behaviour, Default::default());
    assert_eq!(unknown.unusable.as_deref(), Some("cut off"));
}

#[test]
fn consecutive_jobs_are_not_one_behaviour() {
    let found = changed(|_, trial| trial.parts[0].clones[3].start_ns = 10_000_000_000);
    assert_eq!(found.behaviour, Default::default());
    assert_ne!(changed(|_, _| {}).behaviour, Default::default());
}

#[test]
fn units_determine_which_direction_is_better() {
    let found = changed(|_, trial| end(trial, &[EndedBy::Size]));
    for figure in &found.figures {
        let time = figure.metric.unit == Unit::Nanos;
        let lower = figure.metric.better == iodyno_model::Better::Lower;
        assert_eq!(time, lower, "{figure:?}");
    }
    assert_eq!(found.primary, Some(Metric::time("completion")));
}

#[test]
fn resource_use_of_processes_under_test_is_given_per_op() {
    let server = |name: &str, cpu_ns: u64| iodyno_model::ServerUse {
        name: name.to_owned(),
        user_ns: cpu_ns / 4,
        system_ns: cpu_ns / 4 * 3,
        span_ns: 16_000_000_000,
        ..iodyno_model::ServerUse::default()
    };
    let found = changed(|_, trial| {
        trial.parts[0].host.servers = vec![
            server("qemu", 8_000_000_000),
            server("virtiofsd", 16_000_000_000),
        ];
    });
    assert_eq!(value(&found, "server_cores"), 1.5);
    // The same use in the 4 s without samples.
    assert_eq!(value(&found, "server_cpu_per_op"), 30e9 / (4.0 * 922_500.0));
    let metric = &found.figure("server_cores").unwrap().metric;
    assert_eq!(metric.better, iodyno_model::Better::Lower);
    let without = changed(|_, _| {});
    assert!(without.figure("server_cores").is_none());
    assert!(without.figure("server_cpu_per_op").is_none());
}
