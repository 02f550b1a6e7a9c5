use std::collections::{BTreeMap, BTreeSet};

use iodyno_model::{
    Access, Action, Amount, Arrival, BlockPattern, Blocks, Buffers, Checksum, Content, CycleStep,
    Direction, DirectionRate, Distribution, Engine, EngineKind, ErrorPolicy, Extent, FileAdvice,
    FileSet, Flow, IoPriority, Job, JobEnd, Kind, LatencyTarget, MemoryPolicy, MixSequence,
    Operations, Pacing, Passes, Pattern, PerDirection, Placement, Precondition, PriorityShare,
    RangeSync, Replay, SharedFiles, SharedMode, SimFault, SimLaw, SimOptions, SteadyMetric,
    SteadyRule, SyncPolicy, ThinkTime, Trial, Verify, VerifyTrim, Work, Workload, WriteZones,
};
use iodyno_units::Nanos;
use serde_json::{Value, json};

use super::{default_option, options};
use crate::testing;

/// Paths below which no field affects the work, or whose values another fact takes from the trial itself.
const NOT_FACTS: [&str; 13] = [
    "name",
    "description",
    "place",
    "inherited",
    "logs",
    "reporting",
    "options",
    "work.blocks.files.directories",
    "work.blocks.files.format",
    "work.blocks.replay.redirect",
    "work.blocks.replay.traces",
    // The resulting size is a fact of the trial.
    "work.blocks.extent.size",
    "work.file_operations.about",
];

/// Fields that no single option sets.
const WITHOUT_OPTION: [&str; 2] = ["access.center", "engine.submit_apart"];

/// A job with a value in every optional field.
fn full(work: Work) -> Job {
    let rate = DirectionRate {
        bytes_per_s: 0,
        iops: 1000.0,
        least_bytes_per_s: 10,
        least_iops: 5.0,
    };
    Job {
        clones: 2,
        work,
        end: JobEnd {
            runtime: Some(Nanos::from_secs(20)),
            ops: Some(1000),
            ..JobEnd::default()
        },
        pacing: Pacing {
            rates: PerDirection::all(rate),
            arrival: Arrival::Poisson,
            think: Some(ThinkTime {
                pause: Nanos(5000),
                spin: Nanos(100),
                every_ops: 3,
                io_time: Nanos(9),
            }),
            latency_target: Some(LatencyTarget {
                limit: Nanos(1000),
                window: Nanos(2000),
                percent: 99.0,
                endless: false,
            }),
            flow: Some(Flow {
                id: 1,
                weight: 2,
                pause: Nanos(7),
            }),
            ..Pacing::default()
        },
        buffers: Buffers {
            content: Content::Compressible {
                percent: 50,
                chunk: 512,
                pattern: Some(Pattern(vec![1, 2])),
            },
            ..Buffers::default()
        },
        errors: ErrorPolicy {
            max_latency: PerDirection::all(Nanos(1000)),
            ..ErrorPolicy::default()
        },
        exec_prerun: Some("true".to_owned()),
        exec_postrun: Some("true".to_owned()),
        placement: Placement {
            cpus: vec![1],
            numa_memory_policy: MemoryPolicy::Interleave,
            io_priority: Some((2, 3)),
            io_hint: 1,
            ..Placement::default()
        },
        ..Job::default()
    }
}

fn engine() -> Engine {
    Engine {
        sim: Some(SimOptions {
            law: SimLaw::Constant(5),
            faults: vec![SimFault::Short { every: 9 }],
            ..SimOptions::default()
        }),
        export: "nbd://host/disk".parse().ok(),
        fixed_buffers: Some(true),
        registered_files: Some(true),
        sqthread_poll_cpu: Some(1),
        submit_apart: true,
        ..Engine::new(EngineKind::Libaio, 16)
    }
}

fn blocks(access: Access) -> Job {
    full(Work::Blocks(Blocks {
        engine: engine(),
        access: Access {
            distribution: PerDirection::all(Distribution::Zipf(1.2)),
            sequence: Some(MixSequence::Every(8)),
            seed: Some(3),
            center: Some(0.5),
            precondition: Some(Precondition {
                over_provisioning: 0.1,
                regions: 10,
                cache: 0,
            }),
            serialize_overlap: true,
            ..access
        },
        files: iodyno_model::Files {
            names: vec!["a".into()],
            size: Some((Amount::Bytes(4096), Amount::Bytes(8192))),
            advice: Some(FileAdvice::Random),
            ..iodyno_model::Files::default()
        },
        extent: Extent {
            offset: Amount::Percent(5.0),
            write_zones: Some(WriteZones {
                size: 1,
                capacity: 2,
                max_open: 3,
                read_beyond: false,
            }),
            ..Extent::default()
        },
        passes: Passes {
            io_size: Some(Amount::Bytes(1_000_001)),
            ..Passes::default()
        },
        verify: Some(Verify {
            checksum: Checksum::Pattern(Pattern(vec![7])),
            pattern: Some(BlockPattern {
                bytes: Pattern(vec![7]),
                offsets: Vec::new(),
                interval: 0,
            }),
            trim: Some(VerifyTrim {
                percent: 1,
                backlog: 1,
                batch: 1,
                check_zero: true,
            }),
            ..Verify::default()
        }),
        sync: SyncPolicy {
            range: Some(RangeSync { every: 1, flags: 2 }),
            ..SyncPolicy::default()
        },
        priorities: vec![PriorityShare {
            direction: Direction::Read,
            block: Some(4096),
            percent: 5,
            priority: IoPriority {
                class: 1,
                level: 2,
                hint: 3,
            },
        }],
        replay: Some(Replay::default()),
    }))
}

fn shared(mode: SharedMode) -> Job {
    let mut job = full(Work::SharedFiles(SharedFiles {
        lay_out: false,
        create_only: false,
        engine: engine(),
        count: 4,
        distribution: Distribution::Zipf(1.1),
        seed: Some(1),
        mode,
        file_size: 1 << 20,
        block: 4096,
        merged: 8192,
        read_write_ratio: 1.5,
        fsync_every: 100,
        fsync_all: false,
        fsync_end: false,
        data_only: false,
        validate: false,
    }));
    job.pacing.ops_per_s = 10.0;
    job
}

fn operations() -> Job {
    let mut job = full(Work::FileOperations(Operations {
        about: "about".to_owned(),
        sets: vec![FileSet {
            name: "a".to_owned(),
            count: 1_000_000,
            size: 1_000_001,
            fsync: false,
            folders: false,
        }],
        cycle: vec![
            CycleStep {
                action: Action::Create,
                timed: true,
            },
            CycleStep {
                action: Action::Write { bytes: 100_001 },
                timed: false,
            },
        ],
        own_folders: false,
        drain: false,
        writing: Default::default(),
        fio: None,
        command: None,
    }));
    job.pacing.ops_per_s = 10.0;
    job
}

/// The facts of a workload, for trials with a runtime and for finite ones.
fn facts(job: &Job, clones: &Trial) -> Vec<BTreeMap<String, String>> {
    let workload = testing::workload("w", vec![job.clone()]);
    [Kind::Timed, Kind::Finite]
        .map(|kind| {
            let facts = crate::observe::facts::facts(&workload, clones, kind);
            facts
                .into_iter()
                .map(|fact| (fact.name, fact.value))
                .collect()
        })
        .to_vec()
}

/// The paths of all values that are not objects, or arrays of objects.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    let below = |key: &str| match path {
        "" => key.to_owned(),
        path => format!("{path}/{key}"),
    };
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                leaves(value, &below(key), found);
            }
        }
        Value::Array(values) if values.iter().any(Value::is_object) => {
            for (index, value) in values.iter().enumerate() {
                leaves(value, &below(&index.to_string()), found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

/// The job with another value at a path, if there is one of the field's type.
fn changed(job: &Job, path: &str) -> Option<Job> {
    let pointer = format!("/{path}");
    let stored = serde_json::to_value(job).unwrap();
    let old = stored.pointer(&pointer).unwrap().clone();
    let with = |value: Value| {
        let mut stored = stored.clone();
        *stored.pointer_mut(&pointer).unwrap() = value;
        serde_json::from_value::<Job>(stored)
    };
    let mut candidates = vec![
        json!(!old.as_bool().unwrap_or(false)),
        json!(old.as_u64().unwrap_or(0) + 1),
        json!(old.as_f64().unwrap_or(0.0) + 0.25),
        json!([3]),
        json!([1, 2]),
        json!(["b", "c"]),
        json!(["write"]),
        json!("nbd://host/other"),
        json!({"bytes": 12_345}),
        json!({"zipf": 1.5}),
        json!(SteadyRule {
            metric: SteadyMetric::Iops,
            slope: true,
            limit: 0.1,
            percent: true,
            window: Nanos::from_secs(60),
            ramp: Nanos(0),
            interval: Nanos::from_secs(1),
        }),
    ];
    // The message for an unknown variant of an enumeration lists all of them.
    if let Err(error) = with(json!("no such variant")) {
        let text = error.to_string();
        let variants = text.split('`').skip(3).step_by(2);
        candidates.extend(variants.map(|variant| json!(variant)));
    } else {
        candidates.push(json!("other text"));
    }
    candidates.into_iter().find_map(|candidate| {
        let job = with(candidate.clone()).ok()?;
        let stored = serde_json::to_value(&job).unwrap();
        (stored.pointer(&pointer) != Some(&old)).then_some(job)
    })
}

#[test]
fn every_field_of_a_job_is_a_fact_unless_it_is_listed() {
    let mixed = Access {
        writes: true,
        order: iodyno_model::Order::Random,
        ..Access::default()
    };
    let trims = Access {
        reads: false,
        trims: true,
        ..mixed.clone()
    };
    let mut uniform = blocks(mixed.clone());
    testing::blocks(&mut uniform).access.distribution = PerDirection::all(Distribution::Uniform);
    let bases = [
        uniform,
        blocks(mixed),
        blocks(trims),
        shared(SharedMode::RandomMix),
        shared(SharedMode::SequentialWrite),
        operations(),
    ];
    let (_, trial) = testing::four_clones();
    let mut forgotten: BTreeMap<String, bool> = BTreeMap::new();
    let mut without_option: BTreeSet<String> = BTreeSet::new();
    for base in &bases {
        let mut paths = Vec::new();
        leaves(&serde_json::to_value(base).unwrap(), "", &mut paths);
        assert!(paths.len() > 60, "{paths:?}");
        let before = facts(base, &trial);
        for path in paths {
            let dotted = path.replace('/', ".");
            let listed =
                |listed: &&str| dotted == *listed || dotted.starts_with(&format!("{listed}."));
            if NOT_FACTS.iter().any(listed) {
                continue;
            }
            let other = changed(base, &path);
            let other = other.unwrap_or_else(|| panic!("no other value for {dotted}"));
            // One base in which the field has an effect is sufficient.
            let missed = forgotten.entry(dotted).or_insert(true);
            let after = facts(&other, &trial);
            *missed &= after == before;
            let names = after.iter().flat_map(BTreeMap::keys);
            without_option.extend(names.filter(|name| name.contains('.')).cloned());
        }
    }
    let paths: Vec<&str> = without_option.iter().map(String::as_str).collect();
    assert_eq!(paths, WITHOUT_OPTION);
    let forgotten: Vec<&String> = forgotten
        .iter()
        .filter(|(_, missed)| **missed)
        .map(|(path, _)| path)
        .collect();
    assert!(forgotten.is_empty(), "no fact tells {forgotten:#?}");
}

fn options_of(jobs: Vec<Job>) -> BTreeMap<String, String> {
    options(&Workload::new("w", Vec::new(), jobs))
}

#[test]
fn options_have_the_names_and_values_of_fio() {
    let mut plain = Job {
        name: "plain".to_owned(),
        ..Job::default()
    };
    testing::blocks(&mut plain).access.order = iodyno_model::Order::Random;
    assert!(options_of(vec![plain.clone()]).is_empty());
    let mut job = testing::job("one");
    let of_blocks = testing::blocks(&mut job);
    of_blocks.access.distribution = PerDirection::all(Distribution::Zipf(1.2));
    of_blocks.access.read_percent = 50;
    of_blocks.passes.time_based = false;
    of_blocks.files.count = 4;
    of_blocks.extent.offset = Amount::Bytes(1 << 20);
    job.pacing.think = Some(ThinkTime {
        pause: Nanos(1_000_000),
        spin: Nanos(0),
        every_ops: 1,
        ..ThinkTime::default()
    });
    let expected = [
        ("nrfiles", "4", "1"),
        ("offset", "1 MiB", "0 B"),
        ("random_distribution", "zipf 1.2", "uniform"),
        ("thinktime", "every_ops 1, pause 0.001 s, spin 0 s", "none"),
    ];
    let found = options_of(vec![job.clone()]);
    let texts: Vec<(&str, &str, String)> = found
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str(), default_option(name)))
        .collect();
    let expected = expected.map(|(name, value, default)| (name, value, default.to_owned()));
    assert_eq!(texts, expected);
    // The map applies only to uniform random offsets.
    let mut other = testing::reader("other");
    testing::blocks(&mut other).access.random_map = false;
    assert_eq!(options_of(vec![other])["norandommap"], "1");
    assert_eq!(default_option("norandommap"), "0");
    // The values of different jobs are all listed.
    let found = options_of(vec![plain, job]);
    assert_eq!(found["nrfiles"], "1 and 4");
    assert_eq!(default_option("rwmixread"), "50");
    assert_eq!(default_option("cycle"), "none");
}

#[test]
fn options_without_effect_are_not_facts() {
    let mut job = testing::reader("reads");
    testing::blocks(&mut job).access.read_percent = 70;
    job.pacing.check_every = Nanos::SECOND;
    let found = options_of(vec![job]);
    assert!(!found.contains_key("rwmixread"), "{found:?}");
    assert!(!found.contains_key("rate_cycle"), "{found:?}");
}

/// Facts that differ between trials of two workloads of jobs.
fn differing(one: Vec<Job>, other: Vec<Job>) -> Vec<(String, Option<String>, Option<String>)> {
    let facts = |jobs: Vec<Job>| -> BTreeMap<String, String> {
        let clones = jobs.iter().enumerate().map(|(index, job)| {
            let size = match job.work.blocks().and_then(|blocks| blocks.extent.size) {
                Some(Amount::Bytes(bytes)) => bytes,
                _ => 1 << 30,
            };
            iodyno_model::CloneResult {
                region_bytes: size,
                ..testing::clone(index as u32, 0, Vec::new())
            }
        });
        let trial = testing::trial(vec![testing::part(clones.collect())]);
        let workload = testing::workload("w", jobs);
        let facts = crate::observe::facts::facts(&workload, &trial, Kind::Timed);
        facts
            .into_iter()
            .map(|fact| (fact.name, fact.value))
            .collect()
    };
    let (one, other) = (facts(one), facts(other));
    let names: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    names
        .into_iter()
        .map(|name| {
            (
                name.clone(),
                one.get(name).cloned(),
                other.get(name).cloned(),
            )
        })
        .filter(|(_, one, other)| one != other)
        .collect()
}

/// A reader, and a writer with a pause.
fn pair() -> [Job; 2] {
    let mut y = testing::reader("y");
    let access = &mut testing::blocks(&mut y).access;
    (access.reads, access.writes) = (false, true);
    y.pacing.think = Some(ThinkTime {
        pause: Nanos(10),
        spin: Nanos(0),
        every_ops: 1,
        ..ThinkTime::default()
    });
    let mut x = testing::reader("x");
    for job in [&mut x, &mut y] {
        job.clones = 1;
        job.end.runtime = Some(Nanos::from_secs(1));
    }
    [x, y]
}

#[test]
fn exchanging_a_value_between_two_jobs_is_a_difference() {
    type Change = fn(&mut Job);
    let cases: [(&str, &str, Change, Change); 5] = [
        ("jobs", "6 and 1", |job| job.clones = 6, |_| {}),
        (
            "number_ios",
            "9 and none",
            |job| job.end.ops = Some(9),
            |_| {},
        ),
        (
            "size",
            "16 MiB and 4 KiB",
            |job| testing::blocks(job).extent.size = Some(Amount::Bytes(16 << 20)),
            |job| testing::blocks(job).extent.size = Some(Amount::Bytes(4096)),
        ),
        (
            "loops",
            "3 and 1",
            |job| testing::blocks(job).passes.loops = 3,
            |_| {},
        ),
        (
            "sync",
            "end_fsync and none",
            |job| testing::blocks(job).sync.end_fsync = true,
            |_| {},
        ),
    ];
    for (name, text, to_one, to_other) in cases {
        let ([mut x, mut y], [mut u, mut v]) = (pair(), pair());
        to_one(&mut x);
        to_other(&mut y);
        to_other(&mut u);
        to_one(&mut v);
        let other = text.split(" and ").collect::<Vec<_>>();
        let other = format!("{} and {}", other[1], other[0]);
        let found = differing(vec![x, y], vec![u, v]);
        let expected = (name.to_owned(), Some(text.to_owned()), Some(other));
        assert_eq!(found, [expected]);
    }
    // With three jobs, equal values of two are not combined.
    let jobs = |sizes: [u64; 3]| {
        sizes.map(|size| {
            let [mut job, _] = pair();
            testing::blocks(&mut job).engine.depth = size as u32;
            job
        })
    };
    let found = differing(jobs([1, 2, 2]).into(), jobs([1, 2, 1]).into());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].1.as_deref(), Some("1 and 2 and 2"));
}

#[test]
fn jobs_that_use_the_same_files_differ_from_those_that_do_not() {
    let named = |folder: &str, files: [&str; 2]| {
        let mut jobs = pair();
        for (job, file) in jobs.iter_mut().zip(files) {
            let own = &mut testing::blocks(job).files;
            own.directories = vec![folder.into()];
            own.names = vec![file.into()];
        }
        Vec::from(jobs)
    };
    let shared = Some("1 file of jobs 1, 2".to_owned());
    let expected = [("shared files".to_owned(), shared, None)];
    let apart = || named("/a", ["f", "g"]);
    assert_eq!(differing(named("/a", ["f", "f"]), apart()), expected);
    assert_eq!(differing(named("/a", ["f", "/a/f"]), apart()), expected);
    // The location of the files does not count.
    assert_eq!(differing(named("/b", ["/b/h", "k"]), apart()), []);
    // Without names, the format decides.
    let formatted = |format: &str| {
        let mut jobs = pair();
        for job in &mut jobs {
            testing::blocks(job).files.format = format.to_owned();
        }
        Vec::from(jobs)
    };
    assert_eq!(
        differing(formatted("all.$filenum"), formatted("$jobname.$filenum")),
        expected
    );
}
