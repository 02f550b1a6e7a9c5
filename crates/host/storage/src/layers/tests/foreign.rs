//! What others have put beside, on or in place of a target is kept.

use super::*;

#[test]
fn a_compressed_device_of_another_program_is_kept() {
    let world = World::new();
    let before = world.state();
    // Another program makes a device between the intent and the action.
    let zram = || provisions(&world).remove(3);
    let block = world.host.path("sys/block");
    let taken = Cell::new(false);
    let tell = |what: &str| {
        if what.contains("/dev/zram0") && !taken.replace(true) {
            world.read(Path::new("hot_add")).unwrap();
        }
    };
    let maker = Maker {
        progress: &tell,
        ..world.maker()
    };
    maker.provision(&request(zram()), DEAD).unwrap();
    assert_eq!(names(&block), ["loop0", "zram0", "zram1", "zram2"]);
    assert_eq!(maker.tear_down(TOKEN).faults, []);
    assert_eq!(names(&block), ["loop0", "zram0"]);
    fs::remove_dir_all(block.join("zram0")).unwrap();
    assert_eq!(world.state(), before);
    // A target that was killed before it had a device does not remove that of the next one, which has the same number.
    let header = Header::new("t-0", "a", "one".to_owned(), DEAD, zram());
    let mut killed = Journal::begin(&maker.folders.journals, header, &world).unwrap();
    let intent = Action::Zram {
        number: 0,
        size: GIB,
        algorithm: None,
    };
    killed.intend(intent, &world).unwrap();
    drop(killed);
    make(&world, zram()).unwrap();
    assert_eq!(maker.tear_down("t-0").faults, []);
    assert_eq!(names(&block), ["loop0", "zram0", "zram1"]);
    maker.tear_down(TOKEN);
    assert_eq!(world.state(), before);
}

#[test]
fn mounts_loop_devices_and_files_of_others_are_kept_and_named() {
    let world = World::new();
    let before = world.state();
    make(&world, provisions(&world).remove(0)).unwrap();
    let clean = || {
        let cleaned = world.maker().clean(false);
        let faults = cleaned.orphans.into_iter().flat_map(|one| one.faults);
        faults.map(|fault| fault.message).collect::<Vec<_>>()
    };
    let point = world.host.path("run/iodyno/t-1/3").display().to_string();
    // On the mount of the target, by another type or the same one, and below it.
    for (theirs, kind) in [
        (point.clone(), "tmpfs"),
        (point.clone(), "ext4"),
        (format!("{point}/sub"), "tmpfs"),
    ] {
        fs::create_dir_all(&theirs).unwrap();
        world.host.mount("0:77", &theirs, kind, "theirs");
        let mounted = world.mountinfo();
        let faults = clean();
        assert!(faults[0].contains(&format!("`{theirs}`")), "{faults:?}");
        assert!(faults[0].contains(&format!("the {kind} ")), "{faults:?}");
        assert_eq!(world.mountinfo(), mounted);
        assert!(world.host.path("sys/block/loop1").exists());
        assert!(world.unmount(&theirs));
    }
    // In place of it, once that was unmounted.
    assert!(world.unmount(&point));
    world.host.mount("0:77", &point, "ext4", "/dev/loop1");
    assert!(clean()[0].contains(&point));
    assert!(world.unmount(&point));
    // Another loop device on the image, and a file beside it.
    let image = world.host.path("data/iodyno-t-1/disk0.img");
    let theirs = world.attach(&image);
    world.host.write("data/iodyno-t-1/mine", "precious");
    let faults = clean();
    assert!(
        faults[0].contains("did not make: `mine`") && !image.exists(),
        "{faults:?}"
    );
    assert!(Path::new(&theirs).exists() && !world.host.path("dev/loop1").exists());
    assert_eq!(journals(&world), ["t-1.jsonl"]);
    assert!(world.detach("loop2"));
    fs::remove_file(world.host.path("data/iodyno-t-1/mine")).unwrap();
    assert_eq!(clean(), Vec::<String>::new());
    assert_eq!(world.state(), before);
}

#[test]
fn a_loop_device_that_others_have_attached_in_place_of_that_of_iodyno_is_kept() {
    let world = World::new();
    make(&world, plain(vec![LOOP, image(1), directory(&world)])).unwrap();
    assert!(world.detach("loop1"));
    let image = world.host.path("data/iodyno-t-1/disk0.img");
    let theirs = world.attach(&image);
    assert!(theirs.ends_with("/loop1"), "{theirs}");
    let cleaned = world.maker().clean(false);
    assert_eq!(cleaned.orphans[0].faults, []);
    assert!(!image.exists() && Path::new(&theirs).exists());
}

#[test]
fn a_compressed_device_that_others_have_made_in_place_of_that_of_iodyno_is_kept() {
    let world = World::new();
    make(&world, provisions(&world).remove(3)).unwrap();
    let size = fs::read(world.host.path("sys/block/zram1/disksize")).unwrap();
    fs::remove_dir_all(world.host.path("sys/block/zram1")).unwrap();
    let control = world.host.path("sys/class/zram-control/hot_add");
    assert_eq!(Host::read(&world, &control).unwrap(), "1");
    fs::write(world.host.path("sys/block/zram1/disksize"), size).unwrap();
    let cleaned = world.maker().clean(false);
    assert_eq!(cleaned.orphans[0].faults, []);
    assert!(world.host.path("sys/block/zram1").exists());
    assert!(!world.host.path("sys/block/zram0").exists());
}

/// What others put over, below, beside and on what was made so far: mounts, a file, and loop devices, which can only be
/// read.
struct Theirs {
    points: Vec<String>,
    file: Option<PathBuf>,
    loops: Vec<String>,
}

impl Theirs {
    fn put(world: &World, below: &str) -> Theirs {
        let at = |folder: &str| {
            let entries = fs::read_dir(world.host.path(folder));
            let entries = entries.into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let folders = at("run/iodyno/t-1").into_iter();
        let points = folders.filter(|path| path.is_dir() && !path.ends_with("devices"));
        let points = points.map(|path| format!("{}{below}", path.display()));
        let points: Vec<String> = points.collect();
        for point in &points {
            fs::create_dir_all(point).unwrap();
            world.host.mount("0:77", point, "tmpfs", "theirs");
        }
        let images = at("data/iodyno-t-1");
        let loops = images.iter().map(|image| {
            let device = world.attach(image);
            let name = device.rsplit('/').next().unwrap().to_owned();
            world.host.write(&format!("sys/block/{name}/ro"), "1\n");
            name
        });
        let loops = loops.collect();
        let file = images.first().map(|image| image.with_file_name("mine"));
        if let Some(file) = &file {
            fs::write(file, "precious").unwrap();
        }
        Theirs {
            points,
            file,
            loops,
        }
    }

    fn assert_kept(&self, world: &World, place: &str) {
        let mounts = world.mountinfo();
        for point in &self.points {
            assert!(mounts.contains(&format!(" {point} ")), "{place}: {point}");
        }
        for name in &self.loops {
            let folder = world.host.path(&format!("sys/block/{name}"));
            assert!(folder.exists(), "{place}: {name}");
        }
        let text = self.file.as_ref().map(fs::read_to_string);
        assert!(
            text.is_none_or(|text| text.is_ok_and(|text| text == "precious")),
            "{place}"
        );
    }

    fn remove(self, world: &World, below: &str) {
        for point in &self.points {
            assert!(world.unmount(point));
            if !below.is_empty() {
                fs::remove_dir(point).unwrap();
            }
        }
        for name in &self.loops {
            assert!(world.detach(name));
        }
        self.file.map(fs::remove_file).transpose().unwrap();
    }
}

#[test]
fn what_others_have_put_on_a_target_is_kept_wherever_it_was_interrupted() {
    for which in 0..KINDS {
        for at in 0..points(which) {
            for (below, restart) in [("", false), ("/sub", false), ("", true)] {
                let (world, mut before) = interrupted(which, at);
                if restart {
                    world.restart();
                    let boot = world.host.path("proc/sys/kernel/random/boot_id");
                    before.insert(boot, "two\n".to_owned());
                }
                let place = format!("target {which} at {at}, {below:?}, {restart}");
                let theirs = Theirs::put(&world, below);
                world.maker().clean(false);
                theirs.assert_kept(&world, &place);
                theirs.remove(&world, below);
                let cleaned = world.maker().clean(false);
                world.finish_commands();
                for orphan in &cleaned.orphans {
                    assert_eq!(orphan.faults, [], "{place}");
                }
                assert_eq!(world.state(), before, "{place}");
            }
        }
    }
}
