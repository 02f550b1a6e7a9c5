use iodyno_model::{
    DiskOrigin, EngineKind, FolderServer, Layer, MirrorLayer, Outcome, Pinning, PlannedNode,
    Target, TrialState, VmDisk, VmLayer,
};

use super::*;
use crate::experiment::carry_out_with;
use crate::resume::resume_with;
use crate::schedule::order;
use crate::testing::{Act, FakeJudge, FakeNode, FakeStore, Meeting, lab, messages};
use crate::{RunEnd, StopReason};

/// A folder below, which several configurations can share.
fn provision(layers: Vec<Layer>) -> Provision {
    Provision {
        layers,
        fill: 0,
        precondition_ns: 0,
        sysctl: BTreeMap::new(),
        queue: BTreeMap::new(),
        env: BTreeMap::new(),
        setup: None,
        ready: None,
        teardown: None,
        sample: Vec::new(),
    }
}

fn on_folder() -> Provision {
    provision(vec![Layer::Directory {
        path: "/data".into(),
    }])
}

fn on_device(path: &str) -> Provision {
    provision(vec![Layer::Device {
        paths: vec![path.into()],
    }])
}

/// A plan whose targets are made.
fn plan(configurations: usize, workloads: usize, rounds: u32, fresh: Fresh) -> Plan {
    let mut plan = crate::testing::plan(configurations, workloads, rounds);
    for configuration in &mut plan.configurations {
        configuration.target = Target::Made(Box::new(on_folder()));
    }
    Plan { fresh, ..plan }
}

fn carry_out(plan: &Plan, store: &FakeStore, node: &FakeNode<'_>) -> (RunEnd, Vec<String>) {
    let stop = node.stop.clone();
    let mut words = Vec::new();
    let judge = FakeJudge::default();
    let end = carry_out_with(
        plan,
        &lab(store, node, &stop),
        &judge.dependencies(node),
        &mut |progress| words.extend(messages(&progress)),
    );
    (end.unwrap(), words)
}

/// The actions on storage if all trials complete.
fn storage(plan: &Plan) -> Vec<String> {
    let (store, node) = (FakeStore::default(), FakeNode::new(|_| Act::Complete));
    let (end, _) = carry_out(plan, &store, &node);
    assert_eq!(end.completed, end.planned);
    node.storage.into_inner()
}

/// The trials of a plan in their order, as the fake node logs them.
fn trials(plan: &Plan) -> Vec<String> {
    let rounds = (0..plan.rounds).flat_map(|round| order(plan, round));
    rounds
        .map(|cell| {
            let (configuration, workload) = plan.cell(cell);
            format!("trial {} on {}", workload.name, configuration.name)
        })
        .collect()
}

fn only_trials(storage: &[String]) -> Vec<String> {
    let trials = storage.iter().filter(|one| one.starts_with("trial"));
    trials.cloned().collect()
}

#[test]
fn a_target_is_made_for_each_round_and_undone_after_its_last_trial_there() {
    let plan = plan(2, 2, 3, Fresh::Round);
    let mut expected = Vec::new();
    for round in 0..3 {
        let order = order(&plan, round);
        for (place, cell) in order.iter().enumerate() {
            let (configuration, workload) = plan.cell(*cell);
            let name = &configuration.name;
            let of_it = |cells: &[u32]| cells.iter().any(|cell| plan.cell(*cell).0.name == *name);
            if !of_it(&order[..place]) {
                expected.push(format!("make {name}"));
            }
            expected.push(format!("trial {} on {name}", workload.name));
            if !of_it(&order[place + 1..]) {
                expected.push(format!("undo {name}"));
            }
        }
    }
    assert_eq!(storage(&plan), expected);
}

#[test]
fn a_target_is_made_for_each_trial() {
    let plan = plan(2, 2, 2, Fresh::Trial);
    let mut expected = Vec::new();
    for trial in trials(&plan) {
        let (_, name) = trial.rsplit_once(' ').unwrap();
        expected.push(format!("make {name}"));
        expected.push(trial.clone());
        expected.push(format!("undo {name}"));
    }
    assert_eq!(storage(&plan), expected);
}

#[test]
fn a_target_of_the_whole_experiment_is_undone_at_its_end_the_last_one_first() {
    let plan = plan(3, 1, 2, Fresh::Experiment);
    let done = storage(&plan);
    assert_eq!(only_trials(&done), trials(&plan));
    let made: Vec<&str> = done
        .iter()
        .filter_map(|one| one.strip_prefix("make "))
        .collect();
    let mut undone: Vec<&str> = done[done.len() - 3..]
        .iter()
        .filter_map(|one| one.strip_prefix("undo "))
        .collect();
    undone.reverse();
    assert_eq!((made.len(), made), (3, undone));
}

#[test]
fn configurations_that_use_one_device_take_turns_whatever_the_plan_says() {
    let mut shared = plan(3, 1, 2, Fresh::Experiment);
    assert_eq!(fresh(&shared), Fresh::Experiment);
    for configuration in &mut shared.configurations[1..] {
        configuration.target = Target::Made(Box::new(on_device("/dev/sdx")));
    }
    assert_eq!(fresh(&shared), Fresh::Trial);
    let pairs: Vec<(&str, &str, &str)> = turns(&shared)
        .into_iter()
        .map(|(one, other, why)| (one.name.as_str(), other.name.as_str(), why))
        .collect();
    assert_eq!(pairs, [("c1", "c2", "both use one device")]);
    let each_trial = Plan {
        fresh: Fresh::Trial,
        ..shared.clone()
    };
    assert_eq!(storage(&shared), storage(&each_trial));
    let other = Target::Made(Box::new(on_device("/dev/sdy")));
    shared.configurations[2].target = other;
    assert_eq!(fresh(&shared), Fresh::Experiment);
    let vm = vec![Layer::Vm(VmLayer::default()), on_folder().layers.remove(0)];
    shared.configurations[0].target = Target::Made(Box::new(provision(vm)));
    assert_eq!((fresh(&shared), turns(&shared).len()), (Fresh::Trial, 2));
    let vm = VmLayer {
        side_by_side: true,
        ..VmLayer::default()
    };
    let vm = vec![Layer::Vm(vm), on_folder().layers.remove(0)];
    shared.configurations[0].target = Target::Made(Box::new(provision(vm)));
    assert_eq!(fresh(&shared), Fresh::Experiment);
}

#[test]
fn a_golden_disk_is_made_once_for_the_clones_of_all_trials_and_undone_last() {
    let mut plan = plan(1, 1, 2, Fresh::Trial);
    let clone = VmDisk {
        origin: DiskOrigin::Clone,
        ..VmDisk::default()
    };
    let vm = VmLayer {
        disks: vec![clone],
        ..VmLayer::default()
    };
    let vm = vec![Layer::Vm(vm), on_folder().layers.remove(0)];
    plan.configurations[0].target = Target::Made(Box::new(provision(vm)));
    let trial = ["make c0", "trial w0 on c0", "undo c0"];
    let golden = ["make c0 (golden disk)", "undo c0 (golden disk)"];
    let expected = [&golden[..1], &trial, &trial, &golden[1..]].concat();
    assert_eq!(storage(&plan), expected);
    let (store, mut node) = (FakeStore::default(), FakeNode::new(|_| Act::Complete));
    node.unmakeable = |name, tries| name == "c0 (golden disk)" && tries == 0;
    let (end, _) = carry_out(&plan, &store, &node);
    assert_eq!((end.completed, end.planned), (1, 2));
    assert_eq!(node.storage.into_inner()[..2], [golden[0], golden[0]]);
}

#[test]
fn a_kernel_setting_is_in_force_for_the_trials_of_its_configuration_only() {
    let set = |value: &str| {
        let setting = ("vm.dirty_ratio".to_owned(), value.to_owned());
        Target::Made(Box::new(Provision {
            sysctl: [setting].into(),
            ..on_folder()
        }))
    };
    // Against none, against another value, against the same value, and against existing storage.
    let existing = Target::Path("/mnt".into());
    for other in [
        plan(1, 1, 1, Fresh::Round).configurations[0].target.clone(),
        set("30"),
        set("10"),
        existing,
    ] {
        let mut plan = plan(2, 2, 1, Fresh::Round);
        plan.configurations[0].target = set("10");
        plan.configurations[1].target = other;
        let reasons: Vec<&str> = turns(&plan).into_iter().map(|it| it.2).collect();
        assert_eq!(reasons, ["`host.sysctl` acts on the whole host"]);
        assert_eq!(fresh(&plan), Fresh::Trial);
        let mut alive = BTreeSet::new();
        for done in storage(&plan) {
            match done.split_once(' ') {
                Some(("make", name)) => drop(alive.insert(name.to_owned())),
                Some(("undo", name)) => drop(alive.remove(name)),
                _ => {
                    let (_, name) = done.rsplit_once(' ').unwrap();
                    assert!(alive.iter().all(|one| one == name), "{alive:?}: {done}");
                }
            }
        }
        // On separate nodes, they do not conflict.
        plan.configurations[0].nodes = vec!["a".to_owned()];
        plan.configurations[1].nodes = vec!["b".to_owned()];
        assert_eq!(turns(&plan).len(), 0);
    }
}

#[test]
fn settings_of_queues_and_commands_keep_configurations_apart_that_may_share_them() {
    let with = |change: &dyn Fn(&mut Provision), mut one: Provision, other: Provision| {
        change(&mut one);
        let mut plan = plan(2, 1, 1, Fresh::Round);
        plan.configurations[0].target = Target::Made(Box::new(one));
        plan.configurations[1].target = Target::Made(Box::new(other));
        turns(&plan).len()
    };
    let queue = |it: &mut Provision| {
        it.queue.insert("scheduler".to_owned(), "none".to_owned());
    };
    let setup = |it: &mut Provision| it.setup = Some("mount /mnt".to_owned());
    let partitions = || (on_device("/dev/sdx1"), on_device("/dev/sdx2"));
    assert_eq!(with(&|_| (), partitions().0, partitions().1), 0);
    assert_eq!(with(&queue, partitions().0, partitions().1), 1);
    assert_eq!(with(&queue, partitions().0, on_folder()), 0);
    assert_eq!(with(&|_| (), on_folder(), on_folder()), 0);
    assert_eq!(with(&setup, on_folder(), on_folder()), 1);
    assert_eq!(with(&setup, partitions().0, on_folder()), 0);
}

#[test]
fn the_order_of_the_trials_does_not_depend_on_when_targets_are_made() {
    for fresh in [Fresh::Round, Fresh::Trial, Fresh::Experiment] {
        let plan = plan(3, 2, 3, fresh);
        assert_eq!(only_trials(&storage(&plan)), trials(&plan), "{fresh:?}");
    }
}

#[test]
fn a_target_that_cannot_be_made_is_a_failed_trial_with_its_reason() {
    let plan = plan(3, 1, 5, Fresh::Round);
    let (store, mut node) = (FakeStore::default(), FakeNode::new(|_| Act::Complete));
    node.unmakeable = |name, _| name == "c1";
    let (end, messages) = carry_out(&plan, &store, &node);
    assert_eq!((end.completed, end.stopped), (10, StopReason::AllRounds));
    let trials = store.trials.borrow();
    let failed: Vec<&Outcome> = trials
        .iter()
        .filter(|trial| trial.configuration == "c1")
        .map(|trial| &trial.outcome)
        .collect();
    // It is given up like any other cell.
    assert_eq!(failed.len(), 5);
    for outcome in &failed[..3] {
        assert_eq!(**outcome, Outcome::Failed("mkfs failed".to_owned()));
    }
    assert_eq!(end.given_up, 2);
    let given_up = messages.iter().filter(|text| text.contains("is given up"));
    assert_eq!(given_up.count(), 1);
}

#[test]
fn a_target_that_could_not_be_made_is_tried_again_for_the_next_trial() {
    let plan = plan(1, 1, 3, Fresh::Experiment);
    let (store, mut node) = (FakeStore::default(), FakeNode::new(|_| Act::Complete));
    node.unmakeable = |_, tried| tried == 0;
    let (end, _) = carry_out(&plan, &store, &node);
    assert_eq!((end.made, end.completed), (3, 2));
    assert_eq!(
        *node.storage.borrow(),
        [
            "make c0",
            "make c0",
            "trial w0 on c0",
            "trial w0 on c0",
            "undo c0"
        ]
    );
}

#[test]
fn the_time_for_targets_that_are_made_once_is_not_expected_again() {
    const SECOND: u64 = 1_000_000_000;
    // A round has two trials of a second, and makes two targets in 20 seconds if they are made for each.
    for (fresh, rounds) in [(Fresh::Experiment, 5), (Fresh::Round, 1)] {
        let mut plan = plan(2, 1, 9, fresh);
        plan.stopping.max_time_ns = Some(31 * SECOND);
        let store = FakeStore::default();
        let mut node = FakeNode::acting(&[], &store);
        node.making_ns = 10 * SECOND;
        let (end, _) = carry_out(&plan, &store, &node);
        assert_eq!(end.stopped, StopReason::MaxTime);
        assert_eq!((end.rounds, end.made), (rounds, 2 * rounds), "{fresh:?}");
    }
}

#[test]
fn a_target_whose_trial_failed_is_not_used_again() {
    let plan = plan(1, 1, 2, Fresh::Experiment);
    let store = FakeStore::default();
    let node = FakeNode::acting(&[Act::Die], &store);
    let (end, _) = carry_out(&plan, &store, &node);
    assert_eq!((end.made, end.completed), (2, 1));
    let once = ["make c0", "trial w0 on c0", "undo c0"];
    assert_eq!(*node.storage.borrow(), [once, once].concat());
}

#[test]
fn a_stop_undoes_every_target() {
    for fresh in [Fresh::Round, Fresh::Experiment] {
        let plan = plan(3, 1, 2, fresh);
        let store = FakeStore::default();
        let acts = [Act::Complete, Act::Complete, Act::Complete, Act::Cancelled];
        let node = FakeNode::acting(&acts, &store);
        let (end, _) = carry_out(&plan, &store, &node);
        assert_eq!(end.stopped, StopReason::Cancelled);
        let storage = node.storage.borrow();
        let count = |what: &str| storage.iter().filter(|one| one.starts_with(what)).count();
        assert_eq!(count("make"), count("undo"), "{storage:?}");
        assert_eq!(count("trial"), 4);
    }
}

#[test]
fn what_could_not_be_undone_is_reported() {
    let plan = plan(1, 1, 1, Fresh::Round);
    let note = |fault: Diagnostic| {
        let (store, mut node) = (FakeStore::default(), FakeNode::new(|_| Act::Complete));
        node.undoing_fails = Some(fault);
        let (end, messages) = carry_out(&plan, &store, &node);
        assert_eq!(end.completed, 1);
        let trials = store.trials.borrow();
        let made = trials[0].parts[0].environment.made.clone().unwrap();
        let last = made
            .commands
            .last()
            .map(|run| (run.status, run.output.clone()));
        assert_eq!(last, Some((Some(1), "busy".to_owned())));
        let mut notes = messages
            .into_iter()
            .filter(|text| text.starts_with("note: ") || text.starts_with("not undone: "));
        notes.next().unwrap()
    };
    assert_eq!(
        note(Diagnostic::error("umount: busy")),
        "not undone: the storage of c0 is not undone completely: umount: busy; `iodyno clean` undoes the rest"
    );
    assert_eq!(
        note(Diagnostic::error("`/dev/loop1` is still attached").hint("end its users")),
        "not undone: the storage of c0 is not undone completely: `/dev/loop1` is still attached; end its users"
    );
    assert_eq!(
        note(Diagnostic::error(
            "`umount /x` failed\n  cause: /x: target is busy."
        )),
        "not undone: the storage of c0 is not undone completely: `umount /x` failed; cause: /x: target is busy; `iodyno clean` undoes the rest"
    );
    // Work that continues in the background is no fault.
    let later = Diagnostic::warning("process 7 continues to undo the storage, and then ends");
    assert_eq!(
        note(later.hint("if it is killed, `iodyno clean` undoes the rest")),
        "note: process 7 continues to undo the storage, and then ends; if it is killed, `iodyno clean` undoes the rest"
    );
}

#[test]
fn shared_files_are_laid_out_once_and_caches_are_emptied_before_each_trial() {
    let mut plan = plan(1, 3, 1, Fresh::Round);
    for workload in &mut plan.workloads[..2] {
        workload.files = FilePolicy::Shared;
        let blocks = workload.jobs[0].work.blocks_mut().unwrap();
        blocks.files.format = "data.$jobnum".to_owned();
    }
    plan.settling.drop_caches = true;
    let mut expected = vec!["make c0".to_owned()];
    let mut laid_out = false;
    for trial in trials(&plan) {
        if !trial.contains("w2") && !std::mem::replace(&mut laid_out, true) {
            let on = trial.strip_prefix("trial ").unwrap();
            expected.push(format!("lay out {on}"));
        }
        expected.extend(["empty caches of c0".to_owned(), trial]);
    }
    expected.push("undo c0".to_owned());
    assert_eq!(storage(&plan), expected);
}

#[test]
fn a_trial_is_stored_with_how_its_target_was_made() {
    let plan = plan(1, 1, 2, Fresh::Round);
    let (store, node) = (FakeStore::default(), FakeNode::new(|_| Act::Complete));
    carry_out(&plan, &store, &node);
    let trials = store.trials.borrow();
    let made: Vec<&MadeTarget> = trials
        .iter()
        .filter_map(|trial| trial.parts[0].environment.made.as_ref())
        .collect();
    assert_eq!(
        made.iter().map(|made| made.instance).collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(made[0].facts["mkfs"], "1.0");
    let bound = node.bound.borrow();
    assert!(bound.iter().all(|bound| {
        let Target::Path(path) = &bound.configuration.target else {
            return false;
        };
        path.starts_with("/made") && bound.destroy.contains(path)
    }));
}

#[test]
fn a_trial_in_virtual_machines_has_a_part_of_each_and_one_of_their_sampled_host() {
    let mut plan = plan(1, 1, 1, Fresh::Round);
    plan.sampling.every_ns = 1;
    plan.sampling.processes = vec!["zfs-fuse".to_owned()];
    let (store, mut node) = (FakeStore::default(), FakeNode::new(|_| Act::Complete));
    node.guests = 2;
    carry_out(&plan, &store, &node);
    let trials = store.trials.borrow();
    let parts: Vec<(&str, bool, bool)> = (trials[0].parts.iter())
        .map(|part| {
            let made = part.environment.made.is_some();
            (part.node.as_str(), part.only_sampled(), made)
        })
        .collect();
    let expected = [
        ("guest1", false, true),
        ("guest2", false, true),
        ("host", true, false),
    ];
    assert_eq!(parts, expected);
    let bound = node.bound.borrow();
    // A path of the host: the storage below.
    assert_eq!(bound[2].configuration.target, Target::Path("/data".into()));
    let sampled: Vec<Vec<String>> = (bound.iter())
        .map(|bound| bound.sampling.processes.clone())
        .collect();
    let servers = ["zfs-fuse", VmLayer::PROCESS].map(str::to_owned);
    assert_eq!(sampled, [vec![], vec![], servers.to_vec()]);
    // Targets of another run do not count; those that the user named always do.
    let own: Vec<&String> = bound[2].sampling.made_for.keys().collect();
    assert_eq!(own, [VmLayer::PROCESS]);
}

#[test]
fn servers_of_a_configuration_are_sampled_in_its_trials_only() {
    let mut plan = plan(2, 1, 1, Fresh::Round);
    plan.sampling.processes = vec!["nfsd".to_owned()];
    let mut provision = on_folder();
    provision.sample = vec!["nfsd".to_owned(), "virtiofsd".to_owned()];
    let mirror = MirrorLayer {
        queues: None,
        policy: "modulo".to_owned(),
        delay: Vec::new(),
        pinning: Pinning::default(),
    };
    provision.layers.insert(0, Layer::Mirror(mirror));
    plan.configurations[1].target = Target::Made(Box::new(provision));
    let (store, node) = (FakeStore::default(), FakeNode::new(|_| Act::Complete));
    carry_out(&plan, &store, &node);
    for bound in &*node.bound.borrow() {
        let expected: &[&str] = match &*bound.configuration.name {
            "c1" => &["nfsd", "virtiofsd", MirrorLayer::PROCESS],
            _ => &["nfsd"],
        };
        assert_eq!(bound.sampling.processes, expected);
        // Mirrors of others are not servers of this trial.
        let own: Vec<&String> = bound.sampling.made_for.keys().collect();
        assert_eq!(
            own,
            &expected[1..]
                .iter()
                .filter(|it| **it == MirrorLayer::PROCESS)
                .collect::<Vec<_>>()[..]
        );
    }
}

#[test]
fn jobs_on_a_shared_folder_are_clients_of_a_server_that_is_started_anew_for_each_trial() {
    let plan = plan(1, 2, 1, Fresh::Round);
    let (store, mut node) = (FakeStore::default(), FakeNode::new(|_| Act::Complete));
    node.share = true;
    carry_out(&plan, &store, &node);
    for bound in &*node.bound.borrow() {
        let engine = bound.workload.jobs[0].work.engine().unwrap();
        assert_eq!(engine.kind, EngineKind::Virtiofs);
        let uri = engine.export.as_ref().map(ToString::to_string);
        assert_eq!(uri.as_deref(), Some("virtiofs:///made/share"));
        let planned = plan.workloads[0].jobs[0].work.engine().unwrap();
        assert_eq!(engine.depth, planned.depth);
    }
    let done = node.storage.borrow();
    let renewed = done.iter().filter(|it| it.starts_with("renew servers of"));
    assert_eq!(renewed.count(), 2, "{done:?}");
}

#[test]
fn settings_of_the_host_are_read_back_before_each_trial() {
    for (setting, expected) in [(None, 0), (Some("4"), 3)] {
        let mut plan = plan(1, 1, 3, Fresh::Experiment);
        let mut provision = on_folder();
        provision.queue = setting
            .map(|value| ("read_ahead_kb".to_owned(), value.to_owned()))
            .into_iter()
            .collect();
        plan.configurations[0].target = Target::Made(Box::new(provision));
        let (store, node) = (FakeStore::default(), FakeNode::new(|_| Act::Complete));
        carry_out(&plan, &store, &node);
        let done = node.storage.borrow();
        let compared = done.iter().filter(|it| it.starts_with("renew servers of"));
        assert_eq!(compared.count(), expected, "{done:?}");
    }
}

#[test]
fn the_server_of_a_mounted_folder_is_sampled_and_not_those_of_other_targets() {
    let mut plan = plan(2, 1, 1, Fresh::Round);
    let mut provision = on_folder();
    let server = FolderServer {
        command: "/opt/fsd {folder} {mount}".to_owned(),
        pinning: Pinning::default(),
    };
    provision.layers.insert(0, Layer::Fuse(server));
    plan.configurations[1].target = Target::Made(Box::new(provision));
    let (store, node) = (FakeStore::default(), FakeNode::new(|_| Act::Complete));
    carry_out(&plan, &store, &node);
    for bound in &*node.bound.borrow() {
        let sampled = bound.configuration.name == "c1";
        assert_eq!(
            bound.sampling.processes.contains(&"fsd".to_owned()),
            sampled
        );
        assert_eq!(bound.sampling.made_for.contains_key("fsd"), sampled);
    }
}

#[test]
fn workloads_of_a_family_use_the_same_files() {
    let mut plan = plan(1, 3, 1, Fresh::Round);
    for workload in &mut plan.workloads[..2] {
        (workload.files, workload.family) = (FilePolicy::Shared, Some("4k/read".to_owned()));
    }
    plan.workloads[2].files = FilePolicy::Shared;
    let formats: Vec<String> = (0..3)
        .map(|cell| {
            let key = TrialKey {
                cell,
                ..crate::testing::key()
            };
            let bound = bind(&plan, key);
            bound.workload.jobs[0]
                .work
                .blocks()
                .unwrap()
                .files
                .format
                .clone()
        })
        .collect();
    assert_eq!(
        formats,
        [
            "4k-read.$jobnum.$filenum",
            "4k-read.$jobnum.$filenum",
            "w2.$jobnum.$filenum"
        ]
    );
}

#[test]
fn a_target_is_rolled_back_to_the_files_of_its_workloads_before_each_trial() {
    let mut plan = plan(1, 3, 2, Fresh::Experiment);
    for workload in &mut plan.workloads[..2] {
        workload.files = FilePolicy::Rollback;
    }
    let mut expected = vec!["make c0".to_owned()];
    let mut snapshot = false;
    for trial in trials(&plan) {
        let rolls_back = !trial.contains("w2");
        if rolls_back && !snapshot {
            let made = ["lay out w0 on c0", "lay out w1 on c0", "snapshot c0"];
            expected.extend(made.map(str::to_owned));
            snapshot = true;
        }
        if rolls_back {
            expected.push("roll back c0".to_owned());
        }
        expected.push(trial);
    }
    expected.push("undo c0".to_owned());
    assert_eq!(storage(&plan), expected);
}

#[test]
fn each_configuration_is_checked_once_and_all_obstacles_are_reported() {
    let mut plan = plan(3, 1, 1, Fresh::Round);
    plan = crate::with_again(plan);
    plan.workloads[0].only = vec!["c0".to_owned(), "c2".to_owned()];
    let mut node = FakeNode::new(|_| Act::Complete);
    node.unmakeable = |_, _| true;
    let found = obstacles(&plan, &[LabNode::here(&node)], &[], &node.stop);
    let found: Vec<&str> = found.iter().map(|fault| fault.message.as_str()).collect();
    assert_eq!(found, ["no tool for c0", "no tool for c2"]);
    assert!(node.storage.borrow().is_empty());
}

/// Runs a plan until the run is killed in the trial after this many.
fn killed<'a>(plan: &Plan, store: &'a FakeStore, trials: usize) -> FakeNode<'a> {
    let mut acts = vec![Act::Complete; trials];
    acts.push(Act::Panic);
    let node = FakeNode::acting(&acts, store);
    let run = std::panic::AssertUnwindSafe(|| carry_out(plan, store, &node));
    assert!(std::panic::catch_unwind(run).is_err());
    node
}

/// Resumes the run of a store.
fn resumed(store: &FakeStore, node: &FakeNode<'_>) -> RunEnd {
    let (stop, judge) = (node.stop.clone(), FakeJudge::default());
    let end = resume_with(
        store.id(),
        None,
        &crate::testing::own(store, store.id()),
        &lab(store, node, &stop),
        &judge.dependencies(node),
        &mut |_| {},
    );
    end.unwrap()
}

#[test]
fn a_killed_run_is_resumed_in_its_order_on_targets_that_are_made_anew() {
    for fresh in [Fresh::Round, Fresh::Trial, Fresh::Experiment] {
        for kill in 0..6 {
            let plan = plan(2, 2, 3, fresh);
            let store = FakeStore::default();
            let first = killed(&plan, &store, kill);
            let second = FakeNode::new(|_| Act::Complete);
            assert_eq!(resumed(&store, &second).completed, 12);
            let mut all = only_trials(&first.storage.borrow());
            all.pop();
            all.extend(only_trials(&second.storage.borrow()));
            assert_eq!(all, trials(&plan), "{fresh:?} {kill}");
            let storage = second.storage.borrow();
            let count = |what: &str| storage.iter().filter(|one| one.starts_with(what)).count();
            assert_eq!(count("make"), count("undo"));
        }
    }
}

#[test]
fn a_resumed_run_numbers_its_targets_after_those_of_its_earlier_sessions() {
    let plan = plan(1, 2, 3, Fresh::Round);
    let store = FakeStore::default();
    killed(&plan, &store, 4);
    let second = FakeNode::new(|_| Act::Complete);
    assert_eq!(resumed(&store, &second).completed, 6);
    let trials = store.trials.borrow();
    let instances: BTreeSet<(u32, u32)> = trials
        .iter()
        .filter_map(|trial| {
            let made = trial.parts.first()?.environment.made.as_ref()?;
            Some((trial.key.round, made.instance))
        })
        .collect();
    let expected = [(0, 1), (1, 2), (2, 3)];
    assert_eq!(instances, BTreeSet::from(expected));
}

#[test]
fn states_are_counted_for_trials_without_a_target() {
    let plan = plan(1, 1, 1, Fresh::Round);
    let (store, mut node) = (FakeStore::default(), FakeNode::new(|_| Act::Complete));
    node.unmakeable = |_, _| true;
    let (end, _) = carry_out(&plan, &store, &node);
    assert_eq!((end.made, end.completed), (1, 0));
    assert_eq!(end.state.name(), "failed");
    let trials = store.trials.borrow();
    assert_eq!(trials[0].outcome.state(), TrialState::Failed);
}

#[test]
fn a_new_target_is_preconditioned_until_its_rate_is_steady() {
    let mut plan = plan(1, 1, 1, Fresh::Experiment);
    let mut provision = provision(vec![Layer::Tmpfs { size: 1 << 30 }]);
    provision.precondition_ns = 1_000_000_000_000;
    plan.configurations[0].target = Target::Made(Box::new(provision));
    let (store, mut node) = (FakeStore::default(), FakeNode::new(|_| Act::Complete));
    node.writes = Some(|bound| {
        let blocks = bound.workload.jobs[0].work.blocks().unwrap();
        // The rates of the rounds: 3000, 2000, then 1000 per second.
        match (blocks.access.seed, blocks.files.unlink) {
            (Some(number), _) => 4000 - 1000 * number.min(3),
            _ => 0,
        }
    });
    let (end, _) = carry_out(&plan, &store, &node);
    assert_eq!(end.completed, 1);
    let bound = node.bound.borrow();
    let jobs: Vec<String> = bound
        .iter()
        .map(|bound| {
            let job = &bound.workload.jobs[0];
            let blocks = job.work.blocks().unwrap();
            format!("{} {}", bound.workload.name, blocks.access.pattern())
        })
        .collect();
    let mut expected = vec!["precondition write"];
    // Two falling rounds and five equal ones.
    expected.extend(["precondition randwrite"; 7]);
    expected.extend(["precondition write", "w0 randread"]);
    assert_eq!(jobs, expected);
    // On a file system, a share of its free space.
    let filled = bound[0].workload.jobs[0].work.blocks().unwrap();
    let share = iodyno_model::Amount::Percent(80.0);
    assert_eq!(filled.files.size, Some((share, share)));
    let trials = store.trials.borrow();
    let made = trials[0].parts[0].environment.made.as_ref().unwrap();
    let fact = |name: &str| made.facts[&format!("precondition.{name}")].as_str();
    assert_eq!(
        (fact("steady"), fact("rounds")),
        ("yes", "7 rounds of 50.0 s")
    );
}

#[test]
fn pools_whose_server_runs_on_other_cpus_take_turns() {
    let mut plan = plan(2, 1, 1, Fresh::Round);
    let pool = |cpus: Option<&str>| {
        let pinning = Pinning {
            cpus: cpus.map(str::to_owned),
            numa: None,
        };
        let zfs = iodyno_model::ZfsLayer {
            layout: Vec::new(),
            pool: BTreeMap::new(),
            properties: BTreeMap::new(),
            volume: None,
            origin: iodyno_model::ZfsOrigin::New,
            count: None,
            pinning,
        };
        Target::Made(Box::new(provision(vec![Layer::Zfs(zfs)])))
    };
    for (cpus, expected) in [(None, Fresh::Round), (Some("1"), Fresh::Trial)] {
        plan.configurations[0].target = pool(None);
        plan.configurations[1].target = pool(cpus);
        assert_eq!(fresh(&plan), expected, "{cpus:?}");
    }
}

#[test]
fn each_node_makes_the_targets_of_its_own_trials() {
    let mut plan = Plan {
        nodes: vec![
            PlannedNode::new("a", "ssh://a"),
            PlannedNode::new("b", "ssh://b"),
        ],
        ..plan(2, 2, 2, Fresh::Round)
    };
    plan.configurations[1].nodes = vec!["b".to_owned()];
    plan.workloads[1].nodes = vec!["b".to_owned()];
    let store = FakeStore::default();
    let (one, other) = (
        FakeNode::new(|_| Act::Complete),
        FakeNode::new(|_| Act::Complete),
    );
    let stop = StopFlag::new();
    let named = |name: &str, node| LabNode {
        name: name.to_owned(),
        ..LabNode::here(node)
    };
    let lab = Lab {
        nodes: vec![named("a", &one), named("b", &other)],
        ..lab(&store, &one, &stop)
    };
    let judge = FakeJudge::default();
    let end = carry_out_with(&plan, &lab, &judge.dependencies(&one), &mut |_| ()).unwrap();
    assert_eq!((end.completed, end.planned), (8, 8));
    let round = ["make c0", "trial w0 on c0", "undo c0"];
    assert_eq!(*one.storage.borrow(), [round, round].concat());
    let done = other.storage.borrow();
    let count = |what: &str| done.iter().filter(|one| one.starts_with(what)).count();
    assert_eq!(
        (count("make"), count("trial"), count("undo")),
        (4, 8, 4),
        "{done:?}"
    );
    // Each part describes its own node's target, and has its path.
    let trials = store.trials.borrow();
    let both = trials.iter().find(|trial| trial.parts.len() == 2).unwrap();
    for part in &both.parts {
        assert_eq!(part.environment.made.as_ref().unwrap().instance, 1);
    }
    let path = |node: &FakeNode<'_>| node.bound.borrow()[0].configuration.target.clone();
    assert_ne!(path(&one), path(&other));
}

#[test]
fn nodes_make_and_undo_their_targets_at_the_same_time() {
    let plan = Plan {
        nodes: vec![
            PlannedNode::new("a", "ssh://a"),
            PlannedNode::new("b", "ssh://b"),
        ],
        ..plan(1, 1, 2, Fresh::Round)
    };
    let (store, meeting) = (FakeStore::default(), Meeting::default());
    let node = || {
        let mut node = FakeNode::new(|_| Act::Complete);
        node.meeting = Some(&meeting);
        node
    };
    let (one, other, stop) = (node(), node(), StopFlag::new());
    let named = |name: &str, node| LabNode {
        name: name.to_owned(),
        ..LabNode::here(node)
    };
    let lab = Lab {
        nodes: vec![named("a", &one), named("b", &other)],
        ..lab(&store, &one, &stop)
    };
    let (judge, mut steps) = (FakeJudge::default(), Vec::new());
    let end = carry_out_with(&plan, &lab, &judge.dependencies(&one), &mut |progress| {
        if let Progress::Storage { step, .. } = progress {
            steps.push(step.to_owned());
        }
    });
    assert_eq!(end.unwrap().completed, 2);
    let made = |name: &str| {
        let step = format!("node `{name}`: mkfs");
        steps.iter().filter(|one| **one == step).count()
    };
    assert_eq!((made("a"), made("b")), (2, 2), "{steps:?}");
}

#[test]
fn what_cannot_be_made_on_a_node_is_told_with_its_name_and_undone_on_the_others() {
    let plan = Plan {
        nodes: vec![
            PlannedNode::new("a", "ssh://a"),
            PlannedNode::new("b", "ssh://b"),
        ],
        ..plan(1, 1, 1, Fresh::Experiment)
    };
    let store = FakeStore::default();
    let one = FakeNode::new(|_| Act::Complete);
    let mut other = FakeNode::new(|_| Act::Complete);
    other.unmakeable = |_, _| true;
    let stop = StopFlag::new();
    let named = |name: &str, node| LabNode {
        name: name.to_owned(),
        ..LabNode::here(node)
    };
    let lab = Lab {
        nodes: vec![named("a", &one), named("b", &other)],
        ..lab(&store, &one, &stop)
    };
    let faults = obstacles(&plan, &lab.nodes, &[], &stop);
    assert_eq!(faults[0].message, "node `b`: no tool for c0");
    let judge = FakeJudge::default();
    carry_out_with(&plan, &lab, &judge.dependencies(&one), &mut |_| ()).unwrap();
    let trials = store.trials.borrow();
    assert_eq!(
        trials[0].outcome,
        Outcome::Failed("node `b`: mkfs failed".to_owned())
    );
    assert_eq!(*one.storage.borrow(), ["make c0", "undo c0"]);
    assert_eq!(*other.storage.borrow(), ["make c0"]);
}

#[test]
fn configurations_on_other_nodes_do_not_take_turns() {
    let mut plan = plan(2, 1, 1, Fresh::Experiment);
    for configuration in &mut plan.configurations {
        configuration.target = Target::Made(Box::new(on_device("/dev/sdx")));
    }
    assert_eq!(turns(&plan).len(), 1);
    plan.configurations[0].nodes = vec!["a".to_owned()];
    assert_eq!(turns(&plan).len(), 1);
    plan.configurations[1].nodes = vec!["b".to_owned()];
    assert!(turns(&plan).is_empty());
}
