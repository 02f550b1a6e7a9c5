//! Settings of the host and of queues.

use super::*;

#[test]
fn queue_settings_are_in_force_after_everything_above_was_made_and_are_read_back() {
    let world = World::new();
    let before = world.state();
    let provision = |value: &str| Provision {
        queue: [
            ("nr_requests", "32"),
            ("read_ahead_kb", value),
            ("scheduler", "kyber"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        sysctl: [("vm.dirty_ratio".to_owned(), "10".to_owned())].into(),
        ..provisions(&world).remove(0)
    };
    world.host.write("proc/sys/vm/dirty_ratio", "20\n");
    make(&world, provision("8")).unwrap();
    let at = |name: &str| format!("sys/block/loop1/queue/{name}");
    let read = |name: &str| fs::read_to_string(world.host.path(name)).unwrap();
    assert_eq!(read(&at("read_ahead_kb")), "8\n");
    assert_eq!(read(&at("nr_requests")), "32\n");
    let ready = || world.maker().change(TOKEN, StorageChange::Renew);
    ready().unwrap();
    for (name, other) in [
        (at("read_ahead_kb"), "128\n"),
        ("proc/sys/vm/dirty_ratio".to_owned(), "5\n"),
    ] {
        let kept = read(&name);
        world.host.write(&name, other);
        let fault = ready().unwrap_err().remove(0);
        let values = format!("` is `{}` by now, not `{}`", other.trim(), kept.trim());
        assert!(fault.message.contains(&values), "{fault:?}");
        world.host.write(&name, &kept);
    }
    ready().unwrap();
    world.maker().tear_down(TOKEN);
    assert_eq!(world.state(), before);
    // A value that the kernel does not keep.
    let fault = make(&world, provision("5")).unwrap_err().remove(0);
    assert!(fault.starts_with("the kernel keeps `4` in"), "{fault:?}");
    assert_eq!(world.state(), before);
}

/// Settings of a queue: name, value before, value wanted. The kernel resets the read-ahead when another is written.
const OF_QUEUE: [(&str, &str, &str); 3] = [
    ("add_random", "1", "0"),
    ("read_ahead_kb", "68", "64"),
    ("rotational", "0", "1"),
];

/// Makes a target with a loop device and these settings. Returns the values of [`OF_QUEUE`] before, with the target
/// after `meanwhile`, and after the target was removed. `None`: this host has no loop devices.
fn queue_values(wanted: &[&str], meanwhile: impl Fn(&Path)) -> Option<[[String; 3]; 3]> {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let attached = iodyno_testing::Loop::blank(&image, 1 << 20)?;
    let device = attached.path();
    let queue = Path::new("/sys/class/block")
        .join(device.trim_start_matches("/dev/"))
        .join("queue");
    let read = || OF_QUEUE.map(|(name, ..)| fs::read_to_string(queue.join(name)).unwrap());
    let [first, read_ahead, last] = OF_QUEUE;
    for (name, before, _) in [first, last, read_ahead] {
        fs::write(queue.join(name), before).unwrap();
    }
    let before = read();
    let host = ThisHost::new();
    let maker = Maker {
        host: &host,
        folders: StateFolders::new(&Roots::below(folder.path()), true, |_| None).unwrap(),
        records: Some(folder.path().to_owned()),
        stop: &|| false,
        progress: &|_| (),
    };
    let settings = OF_QUEUE.iter().filter(|(name, ..)| wanted.contains(name));
    let request = ProvisionRequest {
        destroy: vec![PathBuf::from(device)],
        ..request(Provision {
            queue: settings
                .map(|(name, _, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..plain(vec![Layer::Device {
                paths: vec![PathBuf::from(device)],
            }])
        })
    };
    let made = maker.provision(&request, DEAD);
    let during = read();
    meanwhile(&queue);
    let cleaned = maker.clean(false);
    let after = read();
    drop(attached);
    assert!(made.is_ok(), "{made:?}");
    assert!(cleaned.orphans[0].faults.is_empty(), "{cleaned:?}");
    assert_eq!(before, ["1\n", "68\n", "0\n"]);
    Some([before, during, after])
}

#[test]
fn queue_settings_that_the_kernel_changes_with_others_are_kept_and_restored() {
    for (wanted, expected) in [
        (
            &["add_random", "read_ahead_kb", "rotational"][..],
            ["0\n", "64\n", "1\n"],
        ),
        (&["rotational"], ["1\n", "68\n", "1\n"]),
    ] {
        let Some([before, during, after]) = queue_values(wanted, |_| ()) else {
            return;
        };
        assert_eq!(during, expected);
        assert_eq!(after, before, "{wanted:?}");
    }
}

#[test]
fn a_read_ahead_that_was_not_put_back_is_restored_by_clean() {
    // A process was killed after the kernel changed the read-ahead with the setting that it wrote.
    for wanted in [&["rotational"][..], &["read_ahead_kb", "rotational"]] {
        let killed = |queue: &Path| fs::write(queue.join("read_ahead_kb"), "128").unwrap();
        let Some([before, _, after]) = queue_values(wanted, killed) else {
            return;
        };
        assert_eq!(after, before, "{wanted:?}");
    }
}

#[test]
fn a_setting_that_somebody_else_changed_is_kept() {
    let world = World::new();
    make(&world, provisions(&world).remove(0)).unwrap();
    world.host.write("proc/sys/vm/dirty_ratio", "33\n");
    assert_eq!(world.maker().tear_down(TOKEN).faults, []);
    let now = fs::read_to_string(world.host.path("proc/sys/vm/dirty_ratio")).unwrap();
    assert_eq!(now, "33\n");
}
