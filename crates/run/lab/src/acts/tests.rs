use std::collections::BTreeMap;
use std::path::Path;

use iodyno_model::{
    Direction, DiskBackend, DiskInterface, Engine, EngineKind, FileSystemKind, Logs, Place, Plan,
    PriorityShare, SimDevice, SimTarget, Source, ZfsLayer,
};
use serde_json::Value;

use super::*;
use crate::origin::compared;
use crate::permission::named_by;
use crate::testing::plan;

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn texts(name: &str) -> Vec<String> {
    vec![name.to_owned()]
}

fn map(name: &str) -> BTreeMap<String, String> {
    [(name.to_owned(), "1".to_owned())].into()
}

fn pinning() -> Pinning {
    Pinning {
        cpus: text("0"),
        numa: text("0"),
    }
}

fn server() -> FolderServer {
    FolderServer {
        command: "serve".to_owned(),
        pinning: pinning(),
    }
}

/// One of each kind that has texts.
fn layers() -> Vec<Layer> {
    vec![
        Layer::FileSystem {
            fs: FileSystemKind::Ext4,
            mkfs: texts("-F"),
            mount: texts("ro"),
        },
        Layer::Overlay {
            mount: texts("lowerdir=/etc"),
        },
        Layer::Nfs(NfsLayer {
            version: "4.2".to_owned(),
            sync: true,
            threads: 1,
            rsize: None,
            wsize: None,
            mount: texts("hard"),
        }),
        Layer::Fuse(server()),
        Layer::Virtiofs(server()),
        Layer::Vm(VmLayer {
            kernel: Some("/boot".into()),
            image: Some(Box::new(VmImage {
                path: "/i".into(),
                format: text("raw"),
                user: "root".to_owned(),
                key: Some("/k".into()),
                kernel: Some("/v".into()),
                initrd: Some("/n".into()),
                append: text("quiet"),
                program: Some("/p".into()),
            })),
            disks: vec![VmDisk {
                backend: DiskBackend::Below,
                interface: DiskInterface::VhostUserBlk,
                command: text("serve"),
                ..VmDisk::default()
            }],
            share: text("serve"),
            pinning: pinning(),
            names: texts("g"),
            ..VmLayer::default()
        }),
        Layer::Delay {
            read_ns: 1,
            write_ns: 1,
            disks: texts("hdd"),
            pinning: pinning(),
        },
        Layer::Mirror(MirrorLayer {
            policy: "round-robin".to_owned(),
            delay: texts("hdd"),
            queues: None,
            pinning: pinning(),
        }),
        Layer::Md(MdLayer {
            level: Default::default(),
            layout: text("n2"),
            chunk: None,
            bitmap: false,
            assume_clean: false,
        }),
        Layer::Dm(DmTarget::Crypt {
            cipher: "aes".to_owned(),
            key_bits: 256,
            sector: None,
        }),
        Layer::Zfs(ZfsLayer {
            layout: vec![VdevGroup {
                redundancy: text("mirror"),
                devices: 2,
            }],
            pool: map("altroot"),
            properties: map("mountpoint"),
            count: None,
            pinning: pinning(),
            ..ZfsLayer::default()
        }),
        Layer::Zram {
            size: 1,
            count: 1,
            algorithm: text("zstd"),
        },
        Layer::Device {
            paths: vec!["/dev/d".into()],
        },
        Layer::Directory { path: "/f".into() },
    ]
}

fn job(work: Work) -> Job {
    Job {
        name: "j".to_owned(),
        description: "d".to_owned(),
        work,
        placement: Placement {
            nice: -20,
            io_priority: Some((1, 0)),
            ..Placement::default()
        },
        logs: Logs {
            bandwidth: Some("/l/b".into()),
            iops: Some("/l/i".into()),
            latency: Some("/l/l".into()),
            histogram: Some("/l/h".into()),
            iolog: Some("/l/o".into()),
            ..Logs::default()
        },
        options: map("rw"),
        exec_prerun: text("a"),
        exec_postrun: text("b"),
        ..Job::default()
    }
}

/// A plan with a text in every place that can have one.
fn all() -> Plan {
    let provision = Provision {
        layers: layers(),
        sysctl: map("vm.dirty_ratio"),
        queue: map("scheduler"),
        env: map("LD_PRELOAD"),
        setup: text("s"),
        ready: text("r"),
        teardown: text("t"),
        sample: texts("qemu"),
        ..Provision::default()
    };
    let device = SimDevice::Mirror {
        policy: "round-robin".to_owned(),
        legs: vec!["hdd".parse().unwrap(); 2],
    };
    let mut made = Configuration::new("made", Target::Made(Box::new(provision)));
    made.dimensions = map("axis");
    made.nodes = texts("n");
    let folder = "/w".into();
    let exported = Engine {
        export: "nbd://h/x".parse().ok(),
        ..Engine::new(EngineKind::Nbd, 1)
    };
    let named = Files {
        names: vec!["/n".into()],
        ..Files::default()
    };
    let folders = Files {
        directories: vec!["/d".into()],
        ..Files::default()
    };
    let formatted = Files {
        format: "/a/$jobname".to_owned(),
        ..Files::default()
    };
    let of = |files| {
        job(Work::Blocks(Blocks {
            files,
            replay: Some(Replay {
                traces: vec!["/t".into()],
                redirect: Some("/r".into()),
                ..Replay::default()
            }),
            verify: Some(Verify {
                dump: true,
                ..Verify::default()
            }),
            priorities: vec![PriorityShare {
                direction: Direction::Read,
                block: None,
                percent: 1,
                priority: IoPriority {
                    class: 1,
                    level: 2,
                    hint: 0,
                },
            }],
            ..Blocks::default()
        }))
    };
    let operations = serde_json::json!({
        "about": "a", "own_folders": false, "drain": false,
        "sets": [{ "name": "s", "count": 1, "size": 1, "fsync": false }], "cycle": [],
        "fio": { "engine": "filestat", "folder": "/o", "direction": "write", "bytes": 0 },
    });
    let operations: Operations = serde_json::from_value(operations).unwrap();
    let jobs = vec![
        of(named),
        of(folders),
        of(formatted),
        job(Work::Blocks(Blocks {
            engine: exported,
            ..Blocks::default()
        })),
        job(Work::FileOperations(operations)),
    ];
    let mut workload = Workload::new("w", Vec::new(), jobs);
    workload.sources = vec![Source {
        name: "w.fio".to_owned(),
        text: "[j]".to_owned(),
    }];
    workload.global_options = map("bs");
    workload.family = text("f");
    workload.only = texts("made");
    workload.nodes = texts("n");
    workload.dimensions = map("axis");
    Plan {
        about: text("about"),
        command: texts("iodyno"),
        nodes: vec![PlannedNode::new("n", "ssh://h")],
        sampling: Sampling {
            processes: texts("nfsd"),
            made_for: map("qemu"),
            stats: vec!["/run/stats".into()],
            block_trace: true,
            ..Sampling::default()
        },
        settling: Settling {
            drop_caches: true,
            idle_ns: 0,
        },
        configurations: vec![
            made,
            Configuration::new("path", Target::Path("/p".into())),
            Configuration::new("written", Target::AsWritten { folder }),
            Configuration::new("sim", Target::Simulated(Box::new(SimTarget::new(device)))),
        ],
        workloads: vec![workload],
        ..plan(0, 0, 1)
    }
}

/// Texts without effect on a host: names, texts for people, compared values, and simulated disks. A set's name is a
/// word, which each node checks.
const HARMLESS: [&str; 26] = [
    "name",
    "about",
    "command",
    "question.columns",
    "question.rows",
    "sampling.processes",
    "sampling.made_for.qemu",
    "configurations.name",
    "configurations.dimensions.axis",
    "configurations.nodes",
    "configurations.target.made.sample",
    "workloads.name",
    "workloads.sources.name",
    "workloads.sources.text",
    "workloads.global_options.bs",
    "workloads.family",
    "workloads.only",
    "workloads.nodes",
    "workloads.dimensions.axis",
    "workloads.jobs.name",
    "workloads.jobs.description",
    "workloads.jobs.options.rw",
    "workloads.jobs.work.file_operations.about",
    "workloads.jobs.work.file_operations.sets.name",
    "workloads.jobs.work.file_operations.fio.engine",
    "workloads.jobs.work.blocks.files.format",
];

/// Each value of a document with its keys, without places in lists, and the way to it.
fn leaves(value: &Value, key: &str, way: &str, found: &mut Vec<(String, String)>) {
    let join = |name: &str| match key {
        "" => name.to_owned(),
        key => format!("{key}.{name}"),
    };
    match value {
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                leaves(value, key, &format!("{way}/{index}"), found);
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                leaves(value, &join(name), &format!("{way}/{name}"), found);
            }
        }
        Value::Null => {}
        Value::String(_) | Value::Bool(_) | Value::Number(_) => {
            found.push((key.to_owned(), way.to_owned()));
        }
    }
}

#[test]
fn every_text_of_a_plan_acts_or_is_known_to_be_harmless() {
    let plan = all();
    let of = |plan: &Plan| (acts(plan), named_by(plan, Path::new("/here")));
    let (before, document) = (of(&plan), serde_json::to_value(&plan).unwrap());
    serde_json::from_value::<Plan>(document.clone()).unwrap();
    let mut found = Vec::new();
    leaves(&document, "", "", &mut found);
    let (mut examined, mut silent) = (0, Vec::new());
    for (key, way) in &found {
        let mut other = document.clone();
        let leaf = other.pointer_mut(way).unwrap();
        let Some(text) = leaf.as_str() else {
            continue;
        };
        *leaf = Value::String(format!("{text}x"));
        // A word of a fixed set.
        let Ok(changed) = serde_json::from_value::<Plan>(other) else {
            continue;
        };
        examined += 1;
        if of(&changed) == before && !HARMLESS.contains(&key.as_str()) {
            silent.push(way);
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
    assert!(examined > 90, "{examined}");
    for key in HARMLESS.iter().filter(|key| !key.starts_with("question")) {
        assert!(
            found.iter().any(|(one, _)| one == key),
            "`{key}` is not in the plan"
        );
    }
}

#[test]
fn commands_settings_and_paths_are_listed_by_their_keys() {
    let listed: Vec<String> = acts(&all())
        .iter()
        .map(|act| format!("{} {act}", act.kind.word()))
        .collect();
    for expected in [
        "runs node.n=ssh://h",
        "uses sampling.stats=/run/stats",
        "sets made.host.sysctl.\"vm.dirty_ratio\"=1",
        "sets made.host.queue.scheduler=1",
        "sets made.env.LD_PRELOAD=1",
        "runs made.setup=s",
        "runs made.ready=r",
        "runs made.teardown=t",
        "runs made.fuse.server=serve",
        "runs made.virtiofs.server=serve",
        "runs made.vm.disk.command=serve",
        "runs made.vm.share=serve",
        "uses made.vm.image=/i",
        "uses made.vm.kernel=/boot",
        "sets made.overlay.mount=lowerdir=/etc",
        "sets made.zfs.mountpoint=1",
        "uses job.w.j.read_iolog=/t",
        "uses job.w.j.replay_redirect=/r",
        "sets settle=drop_caches",
        "runs trace=block",
        "runs job.w.j.exec_prerun=a",
        "runs job.w.j.exec_postrun=b",
        "sets job.w.j.nice=-20",
        "sets job.w.j.prio=1/0/0",
        "sets job.w.j.cmdprio=1/2/0",
    ] {
        assert!(
            listed.iter().any(|one| one == expected),
            "{expected}: {listed:#?}"
        );
    }
    let made = listed
        .iter()
        .find(|one| one.starts_with("runs made.target="));
    assert!(made.is_some_and(|made| made.contains("ext4 on overlay on nfs")));
    // A plan on existing storage does nothing else.
    assert_eq!(acts(&plan(2, 2, 1)), []);
}

#[test]
fn the_paths_below_made_storage_are_named_whatever_the_jobs_use() {
    let mut plan = all();
    let sim = Engine::new(EngineKind::Sim, 1);
    plan.workloads[0].jobs = vec![job(Work::Blocks(Blocks {
        engine: sim,
        ..Blocks::default()
    }))];
    let named = named_by(&plan, Path::new("/here"));
    for path in ["/f", "/dev/d"] {
        assert!(
            named.iter().any(|one| one.path == Path::new(path)),
            "{path}: {named:?}"
        );
    }
}

#[test]
fn a_node_with_fio_gets_no_option_that_is_not_listed() {
    let mut plan = all();
    let listed = |plan: &Plan| {
        let acts = acts(plan);
        let mut acts = acts.iter().filter(|act| act.key == "job.w.j.fio");
        acts.next().map(Act::to_string)
    };
    assert_eq!(listed(&plan), None);
    for at in ["local?fio", "ssh://h?fio", " local?fio "] {
        plan.nodes = vec![PlannedNode::new("n", at)];
        assert_eq!(listed(&plan).as_deref(), Some("job.w.j.fio=rw=1"), "{at}");
    }
    let options = &mut plan.workloads[0].jobs[0].options;
    options.insert("exec_postrun ".to_owned(), "a b".to_owned());
    options.insert("a b".to_owned(), "'".to_owned());
    let expected = r"job.w.j.fio='a b='\''' 'exec_postrun =a b' rw=1";
    assert_eq!(listed(&plan).as_deref(), Some(expected));
}

#[test]
fn no_two_acts_have_the_same_text() {
    let mut plan = all();
    let provision = |env: [&str; 2], setup: &str| {
        let env = [(env[0].to_owned(), env[1].to_owned())].into();
        Target::Made(Box::new(Provision {
            env,
            setup: text(setup),
            ..Provision::default()
        }))
    };
    plan.configurations = [
        ("c", ["N.setup", "x"], "x"),
        ("c.env.N", ["A=B", "C"], "x"),
        ("c.env", ["A", "B=C"], "x"),
        ("\"c\"", ["\"", "x"], "x"),
        ("job.w", ["j", "x"], "x"),
        ("job", ["nice", "-20"], "x"),
        ("node", ["n", "-20"], "local"),
        ("node.n", ["n", "-20"], "local"),
        ("", ["n", "x"], "x"),
        (".", ["n", "x"], "x"),
        ("settle", ["n", "x"], "x"),
    ]
    .map(|(name, env, setup)| Configuration::new(name, provision(env, setup)))
    .into();
    let layer = ZfsLayer {
        layout: vec![VdevGroup {
            redundancy: text("1"),
            devices: 2,
        }],
        pool: map("cpus"),
        properties: ["layout", "cpus", "pool.cpus"]
            .map(|name| (name.to_owned(), "1".to_owned()))
            .into(),
        count: None,
        pinning: Pinning {
            cpus: text("1"),
            numa: None,
        },
        ..ZfsLayer::default()
    };
    let Target::Made(zfs) = &mut plan.configurations[0].target else {
        panic!("it is made");
    };
    zfs.layers = vec![Layer::Zfs(layer)];
    plan.nodes = ["n", "n.setup", "env.n"]
        .map(|name| PlannedNode::new(name, "local"))
        .into();
    plan.workloads[0].name = "w.j".to_owned();
    let mut other = plan.workloads[0].clone();
    other.name = "w".to_owned();
    other
        .jobs
        .iter_mut()
        .for_each(|job| job.name = "j.j".to_owned());
    plan.workloads.push(other);
    let acts = acts(&plan);
    let texts: std::collections::HashSet<String> = acts.iter().map(Act::to_string).collect();
    assert_eq!(texts.len(), acts.len(), "{acts:#?}");
    assert!(texts.contains(r#""c.env.N".setup=x"#) && texts.contains(r#"c.env."N.setup"=x"#));
}

#[test]
fn the_target_is_named_also_for_jobs_without_files() {
    let without = |engine| Job {
        // The output of commands goes to the folder.
        exec_prerun: None,
        exec_postrun: None,
        ..job(Work::Blocks(Blocks {
            engine,
            ..Blocks::default()
        }))
    };
    let real_time = Engine {
        sim: Some(iodyno_model::SimOptions {
            clock: iodyno_model::SimClock::Real,
            ..Default::default()
        }),
        ..Engine::new(EngineKind::Sim, 1)
    };
    let virtual_time = without(Engine::new(EngineKind::Sim, 1));
    let named = |jobs: Vec<Job>| {
        let mut plan = all();
        plan.workloads = vec![Workload::new("w", Vec::new(), jobs)];
        let named = named_by(&plan, Path::new("/here"));
        ["/p", "/w"].map(|path| named.iter().any(|one| one.path == Path::new(path)))
    };
    for engine in [
        Engine::new(EngineKind::Null, 1),
        Engine::new(EngineKind::Nbd, 1),
        real_time,
    ] {
        assert_eq!(named(vec![without(engine.clone())]), [true; 2]);
        let mixed = vec![virtual_time.clone(), without(engine)];
        assert_eq!(named(mixed), [true; 2]);
    }
    assert_eq!(named(vec![virtual_time]), [false; 2]);
    // Without jobs, the host is sampled.
    assert_eq!(named(Vec::new()), [true, false]);
}

/// What a given experiment need not have in common with the run.
const UNLIKE: [&str; 10] = [
    "name",
    "command",
    "looks",
    "workloads.sources.name",
    "workloads.sources.text",
    "workloads.jobs.place.file",
    "workloads.jobs.place.line",
    "workloads.jobs.place.column",
    "workloads.jobs.place.length",
    "workloads.jobs.place.text",
];

#[test]
fn every_value_of_a_plan_is_that_of_the_given_experiment() {
    let mut plan = Plan {
        looks: vec![3],
        ..all()
    };
    plan.workloads[0].rounds = Some(3);
    plan.workloads[0].jobs[0].place = Some(Place {
        file: "w.fio".into(),
        line: 1,
        column: 1,
        length: 1,
        text: "[j]".to_owned(),
    });
    let document = serde_json::to_value(&plan).unwrap();
    let mut found = Vec::new();
    leaves(&document, "", "", &mut found);
    let (mut examined, mut silent) = (0, std::collections::BTreeSet::new());
    for (key, way) in &found {
        let mut other = document.clone();
        let leaf = other.pointer_mut(way).unwrap();
        *leaf = match &*leaf {
            Value::String(text) => Value::String(format!("{text}x")),
            Value::Bool(is) => Value::Bool(!is),
            number => Value::from(number.as_f64().unwrap() as u64 + 1),
        };
        let Ok(changed) = serde_json::from_value::<Plan>(other) else {
            continue;
        };
        if changed == plan {
            continue;
        }
        examined += 1;
        let [one, given] = compared(&changed, &plan, true);
        if one == given {
            silent.insert(key.as_str());
        }
    }
    assert_eq!(silent, UNLIKE.into_iter().collect());
    assert!(examined > 300, "{examined}");
}
