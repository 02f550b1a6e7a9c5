//! `clean`, and what remains after a failure.

use super::*;

#[test]
fn clean_undoes_a_target_that_was_interrupted_at_any_point() {
    for which in 0..KINDS {
        for at in 0..points(which) {
            let (world, before) = interrupted(which, at);
            let cleaned = world.maker().clean(false);
            world.finish_commands();
            assert_eq!(cleaned.faults, []);
            for orphan in &cleaned.orphans {
                assert_eq!(orphan.faults, [], "target {which} at {at}");
            }
            assert_eq!(world.state(), before, "target {which}, interrupted at {at}");
        }
    }
}

#[test]
fn a_clean_that_was_interrupted_at_any_point_is_completed_by_the_next() {
    for which in 0..KINDS {
        let made = points(which);
        for at in 0.. {
            let world = World::new();
            let before = world.state();
            make(&world, provisions(&world).remove(which)).unwrap();
            world.dies_at.set(Some(made + at));
            let clean = || world.maker().clean(false);
            let whole = catch_unwind(AssertUnwindSafe(clean)).is_ok();
            world.dies_at.set(None);
            clean();
            world.finish_commands();
            assert_eq!(world.state(), before, "target {which}, interrupted at {at}");
            if whole {
                break;
            }
        }
    }
}

#[test]
fn after_a_restart_only_files_are_left_to_undo() {
    for which in 0..KINDS {
        for at in 0..points(which) {
            let (world, before) = interrupted(which, at);
            let was_made = !world.made.borrow().is_empty();
            world.restart();
            let settings = world.host.path("proc/sys/vm/dirty_ratio");
            fs::write(&settings, "10\n").unwrap();
            world.maker().clean(false);
            // It is the setting of this boot, whoever made it.
            assert_eq!(fs::read_to_string(&settings).unwrap(), "10\n");
            fs::write(&settings, "20\n").unwrap();
            let mut expected = before;
            expected.insert(
                world.host.path("proc/sys/kernel/random/boot_id"),
                "two\n".to_owned(),
            );
            assert_eq!(
                world.state(),
                expected,
                "target {which} at {at}, {was_made}"
            );
        }
    }
}

#[test]
fn a_layer_that_cannot_be_undone_keeps_its_journal_and_what_is_below_it() {
    let world = World::new();
    let before = world.state();
    make(&world, provisions(&world).remove(0)).unwrap();
    *world.fails.borrow_mut() = Some("umount");
    let faults = world.maker().tear_down(TOKEN).faults;
    assert!(faults[0].message.contains("umount"), "{faults:?}");
    let hint = faults[0].hint.as_deref().unwrap_or_default();
    assert!(hint.contains("`fuser -vm "), "{hint}");
    assert!(
        world.host.path("sys/block/loop1").exists(),
        "it is below the mount"
    );
    *world.fails.borrow_mut() = None;
    let cleaned = world.maker().clean(false);
    let first = &cleaned.orphans[0];
    assert_eq!(
        (first.token.as_str(), first.why.as_str()),
        (TOKEN, "process 4711 has ended")
    );
    assert_eq!(world.state(), before);
}

#[test]
fn a_failure_is_not_repeated_because_its_path_contains_busy() {
    let world = World::new();
    let request = ProvisionRequest {
        token: "t-busy".to_owned(),
        ..request(provisions(&world).remove(0))
    };
    world.maker().provision(&request, DEAD).unwrap();
    *world.fails.borrow_mut() = Some("umount");
    world.cause.set("umount: not permitted");
    let faults = world.maker().tear_down("t-busy").faults;
    assert!(faults[0].message.contains("not permitted"), "{faults:?}");
    let hint = faults[0].hint.as_deref().unwrap_or_default();
    assert!(!hint.contains("fuser"), "{hint}");
    let commands = world.commands.borrow();
    let tried = commands.iter().filter(|it| it.starts_with("umount"));
    assert_eq!(tried.count(), 1);
}

#[test]
fn settings_of_the_host_are_restored_although_a_teardown_fails() {
    let world = World::new();
    let before = world.state();
    make(&world, provisions(&world).remove(0)).unwrap();
    *world.fails.borrow_mut() = Some("/bin/sh -c unmake");
    let cleaned = world.maker().clean(false);
    let orphan = &cleaned.orphans[0];
    assert!(orphan.faults[0].message.contains("unmake"), "{orphan:?}");
    let hint = orphan.faults[0].hint.as_deref().unwrap_or_default();
    assert!(hint.contains("/t-1.jsonl`"), "{hint}");
    let done = |what: &str| orphan.undone.iter().any(|one| one.contains(what));
    assert!(done("vm/dirty_ratio") && !done("make"), "{orphan:?}");
    let setting = world.host.path("proc/sys/vm/dirty_ratio");
    assert_eq!(world.state()[&setting], before[&setting]);
    assert_eq!(journals(&world), ["t-1.jsonl"]);
    *world.fails.borrow_mut() = None;
    world.maker().clean(false);
    assert_eq!(world.state(), before);
}

#[test]
fn a_folder_is_kept_while_the_mounts_in_it_are_not_known() {
    let world = World::new();
    let before = world.state();
    let made = make(&world, plain(vec![directory(&world)])).unwrap();
    let mounts = world.mountinfo();
    world.host.write("proc/self/mountinfo", "");
    let faults = world.maker().tear_down(TOKEN).faults;
    assert!(faults[0].message.contains("table of mounts"), "{faults:?}");
    assert!(made.path.exists());
    world.host.write("proc/self/mountinfo", &mounts);
    assert_eq!(world.maker().tear_down(TOKEN).faults, []);
    assert_eq!(world.state(), before);
}

#[test]
fn clean_leaves_targets_alone_that_are_used_and_a_dry_run_leaves_all_alone() {
    let world = World::new();
    assert_eq!(world.living(4711), DEAD);
    make(&world, provisions(&world).remove(0)).unwrap();
    let used = world.state();
    assert_eq!(world.maker().clean(false).orphans, []);
    assert_eq!(world.state(), used);
    // Another process got its id.
    world.host.write(
        "proc/4711/stat",
        &format!("4711 (a b) S {} 6 0 0", "0 ".repeat(18).trim()),
    );
    let used = world.state();
    let listed = world.maker().clean(true).orphans;
    assert_eq!(world.state(), used);
    let root = world.host.roots.root.display().to_string();
    let listed: Vec<String> = listed[0]
        .undone
        .iter()
        .map(|what| what.replace(&root, ""))
        .collect();
    assert_eq!(
        listed,
        [
            "setting /sys/class/block/loop1/queue/scheduler",
            "mount of ext4 at /run/iodyno/t-1/3",
            "folder /run/iodyno/t-1/3",
            "folder /run/iodyno/t-1",
            "loop device on /data/iodyno-t-1/disk0.img",
            "image file /data/iodyno-t-1/disk0.img",
            "folder /data/iodyno-t-1",
            "result of `make`",
            "setting /proc/sys/vm/dirty_ratio",
        ]
    );
    let cleaned = world.maker().clean(false).orphans;
    assert_eq!(cleaned[0].undone.len(), listed.len());
    assert!(journals(&world).is_empty());
}

#[test]
fn clean_waits_for_a_process_that_still_undoes_a_target_and_names_it() {
    let (world, before) = interrupted(0, points(0) - 1);
    let folder = world.host.path("var/lib/iodyno/journal");
    let held = || Journal::open(&folder, TOKEN).unwrap();
    let journal = held();
    let metadata = journal.path.metadata().unwrap();
    use std::os::unix::fs::MetadataExt;
    let device = iodyno_host::block::DeviceNumber::of(metadata.dev());
    world.host.write(
        "proc/locks",
        &format!(
            "1: FLOCK  ADVISORY  WRITE 77 {:02x}:{:02x}:{} 0 EOF\n",
            device.major,
            device.minor,
            metadata.ino()
        ),
    );
    world.host.write("proc/77/comm", "iodyno\n");
    let cleaned = world.maker().clean(true);
    let said = &cleaned.faults[0].message;
    assert!(
        said.starts_with("process 77 (iodyno) still undoes the target `t-1`"),
        "{said}"
    );
    for name in ["proc/locks", "proc/77/comm"] {
        fs::remove_file(world.host.path(name)).unwrap();
    }
    fs::remove_dir(world.host.path("proc/77")).unwrap();
    // It ends without having undone everything.
    *world.worker.borrow_mut() = Some((journal, 2));
    let cleaned = world.maker().clean(false);
    assert_eq!(cleaned.faults, []);
    assert_eq!(cleaned.orphans.len(), 1);
    assert!(world.worker.borrow().is_none());
    assert_eq!(world.state(), before);
}

#[test]
fn clean_removes_nothing_through_a_link_in_place_of_a_folder() {
    let world = World::new();
    make(&world, provisions(&world).remove(0)).unwrap();
    let (made, theirs) = (
        world.host.path("data/iodyno-t-1"),
        world.host.path("data/theirs"),
    );
    world.host.write("data/theirs/disk0.img", "precious");
    fs::rename(&made, world.host.path("data/moved")).unwrap();
    symlink(&theirs, &made).unwrap();
    let cleaned = world.maker().clean(false);
    let fault = &cleaned.orphans[0].faults[0];
    assert!(
        fault.message.contains("it is not what iodyno made"),
        "{fault:?}"
    );
    assert_eq!(
        fs::read_to_string(theirs.join("disk0.img")).unwrap(),
        "precious"
    );
    assert!(made.is_symlink());
    // Once the folder is back, everything is undone.
    fs::remove_file(&made).unwrap();
    fs::rename(world.host.path("data/moved"), &made).unwrap();
    let cleaned = world.maker().clean(false);
    assert_eq!(cleaned.orphans[0].faults, []);
    assert!(!made.exists() && journals(&world).is_empty());
}

#[test]
fn a_target_that_is_undone_while_its_journal_is_opened_is_missing() {
    let world = World::new();
    let folder = world.maker().folders.journals.clone();
    let header = Header::new("t-9", "a", "one".to_owned(), DEAD, plain(Vec::new()));
    let journal = Journal::begin(&folder, header, &world).unwrap();
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| {
            loop {
                match Journal::open(&folder, "t-9").map(drop) {
                    Err(JournalError::Busy) => std::thread::yield_now(),
                    other => return other,
                }
            }
        });
        journal.remove().unwrap();
        let opened = opened.join().unwrap();
        assert!(matches!(opened, Err(JournalError::Missing)));
    });
}

#[test]
fn root_is_told_of_the_journals_of_other_users() {
    let world = World::new();
    let users =
        "root:x:0:0::/root:/bin/sh\nada:x:1000:1000:Ada:/home/ada:/bin/sh\nbob:x:1001:1:::\n";
    world.host.write("etc/passwd", users);
    world
        .host
        .write("home/ada/.local/state/iodyno/journal/t-9.jsonl", "");
    world
        .host
        .write("root/.local/state/iodyno/journal/t-8.jsonl", "");
    let others = world.maker().clean(false).others;
    let shown: Vec<(&str, u64)> = others
        .iter()
        .map(|it| (it.name.as_str(), it.journals))
        .collect();
    assert_eq!(shown, [("ada", 1)]);
    assert!(
        world
            .host
            .path("home/ada/.local/state/iodyno/journal/t-9.jsonl")
            .exists()
    );
}

#[test]
fn the_last_line_of_a_journal_may_be_incomplete_and_other_versions_are_kept() {
    let world = World::new();
    let before = world.state();
    make(&world, provisions(&world).remove(0)).unwrap();
    let journal = world.host.path("var/lib/iodyno/journal/t-1.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, format!("{text}{{\"inte")).unwrap();
    assert_eq!(world.maker().tear_down(TOKEN).faults, []);
    assert_eq!(world.state(), before);
    fs::write(&journal, text.replace("\"schema\":1", "\"schema\":2")).unwrap();
    let faults = world.maker().clean(false).faults;
    assert!(faults[0].message.contains("cannot be parsed"), "{faults:?}");
    assert_eq!(journals(&world).len(), 1);
}
