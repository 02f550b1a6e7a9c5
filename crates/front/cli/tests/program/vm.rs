//! Trials in virtual machines. Without qemu or a kernel for guests, they are skipped.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::harness::{Home, Running, iodyno, root, skip, words_of};

/// Whether a program is installed where iodyno looks for it.
fn has_program(name: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&paths);
    let more = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    folders
        .chain(more)
        .any(|folder| folder.join(name).is_file())
}

/// The folder with a kernel for guests.
fn kernel() -> Result<PathBuf, &'static str> {
    if !has_program("qemu-system-x86_64") {
        return Err("qemu-system-x86_64 is not installed");
    }
    let cache =
        iodyno_storage::guest::cache_folder(geteuid().is_root(), |name| std::env::var_os(name));
    let kernel = cache.unwrap_or_default().join("kernel");
    match kernel.join("boot").is_dir() {
        true => Ok(kernel),
        false => Err("there is no kernel for guests: run `make guest-kernel`"),
    }
}

/// An experiment with this number of virtual machines, and its images in the folder `images`. `job`: options of fio.
fn experiment(home: &Home, target: &str, guests: u32, kernel: &Path, job: &str) -> String {
    fs::create_dir(home.work().join("images")).unwrap();
    let text = format!(
        "rounds = 1\n[configuration.guests]\ntarget = \"{target} on file on ./images\"\n\
         file = {{ size = \"32MiB\", allocate = false }}\n\
         vm = {{ guests = {guests}, memory = \"512MiB\", accel = \"tcg\", kernel = \"{}\" }}\n[workload.w]\n\
         fio = {{ rw = \"randwrite\", bs = \"4k\", size = \"8m\", ioengine = \"posixaio\", iodepth = 4, {job} }}\n",
        kernel.display()
    );
    home.file("vm.toml", &text).display().to_string()
}

/// The processes whose command line contains these words.
fn processes(words: &[&str]) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines
        .filter(|line| words.iter().all(|word| line.contains(word)))
        .collect()
}

#[test]
fn a_file_system_is_made_and_measured_in_a_virtual_machine() {
    let kernel = match kernel() {
        Ok(kernel) => kernel,
        Err(why) => return skip(why),
    };
    let home = Home::new();
    let file = experiment(&home, "ext4 on vm", 1, &kernel, "number_ios = 100");
    home.iodyno(&["run", &file, "--seed", "1"]).succeeds();
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let trial = &shown["trials"][0];
    assert_eq!(trial["groups"][0]["rows"][0]["ops"], 100, "{trial}");
    let nodes = trial["nodes"].as_array().unwrap();
    let names: Vec<_> = nodes.iter().map(|node| &node["name"]).collect();
    assert_eq!(names, ["guest1", "host"]);
    assert_eq!(trial["sampled_nodes"][0]["name"], "host", "{trial}");
    let found = &nodes[0]["environment"];
    assert_eq!(
        (&found["virtualisation"], &found["host"]),
        (&"qemu".into(), &"guest1".into())
    );
    let mount = &found["targets"][0]["stack"][0];
    assert_eq!(mount["layer"], "mount", "{found}");
    let facts = &found["made"]["facts"];
    assert_eq!(facts["layers"], "ext4 on vm on file on directory");
    assert_eq!(facts["vm.acceleration"], "tcg");
    assert_eq!(facts["vm.kernel"], found["kernel"]);
    let commands = found["made"]["commands"].as_array().unwrap();
    let command = |words: &str| {
        let texts = commands.iter().filter_map(|run| run["command"].as_str());
        texts.filter(|text| text.starts_with(words)).count()
    };
    assert_eq!(
        (command("qemu-system-x86_64"), command("mkfs.ext4")),
        (1, 1)
    );
    let images = home.work().join("images");
    assert_eq!(fs::read_dir(&images).unwrap().count(), 0);
    assert_eq!(
        processes(&["qemu-system", images.to_str().unwrap()]),
        [""; 0]
    );
}

#[test]
fn nfs_arrays_and_mapped_devices_are_made_in_a_virtual_machine() {
    let kernel = match kernel() {
        Ok(kernel) => kernel,
        Err(why) => return skip(why),
    };
    for program in ["mdadm", "dmsetup", "cryptsetup", "mkfs.ext4", "ip"] {
        if !has_program(program) {
            return skip(format!("`{program}` is not installed"));
        }
    }
    let home = Home::new();
    let images = home.work().join("images");
    fs::create_dir(&images).unwrap();
    // All in one guest.
    let text = format!(
        "rounds = 1\n[configuration.guest]\nlayers = [\n\
         {{ kind = \"nfs\", threads = 2, wsize = \"64KiB\" }},\n\
         {{ kind = \"ext4\" }},\n\
         {{ kind = \"dm\", target = \"flakey\", up = \"1h\", down = \"1s\" }},\n\
         {{ kind = \"dm\", target = \"delay\", read = \"1ms\" }},\n\
         {{ kind = \"dm\", target = \"crypt\", sector = 4096 }},\n\
         {{ kind = \"md\", bitmap = true }},\n\
         {{ kind = \"dm\", target = \"log-writes\" }},\n\
         {{ kind = \"vm\", memory = \"512MiB\", accel = \"tcg\", kernel = \"{}\" }},\n\
         {{ kind = \"file\", size = \"32MiB\", allocate = false }},\n\
         {{ kind = \"directory\", path = \"{}\" }},\n]\n[workload.w]\n\
         fio = {{ rw = \"randwrite\", bs = \"4k\", size = \"4m\", number_ios = 100, end_fsync = 1 }}\n",
        kernel.display(),
        images.display()
    );
    let file = home.file("stack.toml", &text).display().to_string();
    home.iodyno(&["run", &file]).succeeds();
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let trial = &shown["trials"][0];
    assert_eq!(trial["groups"][0]["rows"][0]["ops"], 100, "{trial}");
    let found = &trial["nodes"][0]["environment"];
    let facts = &found["made"]["facts"];
    assert_eq!(
        facts["layers"],
        "nfs on ext4 on dm on dm on dm on md on dm on vm on file on directory"
    );
    let options = facts["nfs.options"].as_str().unwrap();
    assert!(
        options.contains("vers=4.2") && options.contains("wsize=65536"),
        "{options}"
    );
    let text = |name: &str| facts[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        (text("md.level"), text("md.members_equal")),
        (
            "raid1".to_owned(),
            "synchronised before the trials".to_owned()
        )
    );
    assert!(text("md.detail").contains("State : clean"), "{facts}");
    // From the bottom up.
    for (fact, words) in [
        ("dm.table", " log-writes "),
        ("dm2.table", " log-writes "),
        ("dm3.table", " crypt aes-xts-plain64 "),
        ("dm4.table", " delay "),
        ("dm5.table", " flakey "),
    ] {
        assert!(text(fact).contains(words), "{fact}: {facts}");
    }
    assert_eq!(fs::read_dir(&images).unwrap().count(), 0);
    assert_eq!(
        processes(&["qemu-system", images.to_str().unwrap()]),
        [""; 0]
    );
}

#[test]
fn a_volume_of_openzfs_is_made_in_a_virtual_machine() {
    let kernel = match kernel() {
        Ok(kernel) => kernel,
        Err(why) => return skip(why),
    };
    if !kernel.join("sbin/zpool").is_file() {
        return skip("there is no OpenZFS for guests: run `make guest-zfs`");
    }
    let home = Home::new();
    let job = "number_ios = 100, end_fsync = 1";
    let file = experiment(&home, "ext4 on zfs on vm", 1, &kernel, job);
    let text = fs::read_to_string(&file).unwrap();
    let volume =
        "zfs = { volume = \"64MiB\", volblocksize = \"4K\", compression = \"off\" }\nvm = {";
    let text = text.replace("vm = {", volume).replace("32MiB", "192MiB");
    home.file("vm.toml", &text.replace("512MiB", "768MiB"));
    home.iodyno(&["run", &file]).succeeds();
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let trial = &shown["trials"][0];
    assert_eq!(trial["groups"][0]["rows"][0]["ops"], 100, "{trial}");
    let facts = &trial["nodes"][0]["environment"]["made"]["facts"];
    assert_eq!(facts["layers"], "ext4 on zfs on vm on file on directory");
    assert_eq!(facts["zfs.implementation"], "kernel");
    let properties = facts["zfs.properties"].as_str().unwrap();
    assert!(properties.contains("volblocksize\t4K"), "{properties}");
}

#[test]
fn guests_have_copies_in_datasets_of_one_pool() {
    let kernel = match kernel() {
        Ok(kernel) => kernel,
        Err(why) => return skip(why),
    };
    if !root() || !has_program("zpool") || !has_program("zfs-fuse") {
        return skip("there is no ZFS that root can use");
    }
    let home = Home::new();
    let file = experiment(&home, "vm on zfs", 2, &kernel, "number_ios = 100");
    let text = fs::read_to_string(&file).unwrap();
    let pool = "fill = \"16MiB\"\nzfs.origin = \"copy\"\nvm = {";
    fs::write(
        &file,
        text.replace("vm = {", pool).replace("32MiB", "256MiB"),
    )
    .unwrap();
    home.iodyno(&["run", &file]).succeeds();
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let trial = &shown["trials"][0];
    assert_eq!(trial["groups"][0]["rows"][0]["ops"], 200, "{trial}");
    let commands = trial["nodes"][0]["environment"]["made"]["commands"]
        .as_array()
        .unwrap();
    let texts = commands.iter().filter_map(|run| run["command"].as_str());
    let disks: Vec<&str> = texts
        .filter(|text| text.starts_with("qemu-system"))
        .map(|text| {
            text.split(",format=raw")
                .next()
                .unwrap()
                .rsplit("/copy")
                .next()
                .unwrap()
        })
        .collect();
    assert_eq!(disks, ["/disk0.img", "2/disk0.img"]);
}

#[test]
fn zoned_disks_are_measured_by_zones_in_parts_and_by_nvme_commands() {
    let kernel = match kernel() {
        Ok(kernel) => kernel,
        Err(why) => return skip(why),
    };
    let home = Home::new();
    let job = "number_ios = 40";
    let file = experiment(&home, "vm", 1, &kernel, job);
    let text = fs::read_to_string(&file).unwrap();
    let (storage, _) = text.split_once("[workload.w]").unwrap();
    let disk = "vm = { disk = { interface = \"nvme\", zone = \"4MiB\" },";
    let workloads = [
        "zbd]\nfio = { rw = \"randwrite\", bs = \"64k\", zonemode = \"zbd\", ioengine = \"libaio\", iodepth = 4,",
        "strided]\nfio = { rw = \"read\", bs = \"4k\", zonemode = \"strided\", zonesize = \"16k\", zoneskip = \"1m\",",
        "commands]\nfio = { rw = \"randread\", bs = \"4k\", ioengine = \"io_uring_cmd\", iodepth = 8,",
    ];
    let workloads = workloads.map(|text| format!("[workload.{text} direct = 1, {job} }}\n"));
    let text = storage.replace("vm = {", disk) + &workloads.concat();
    home.file("vm.toml", &text);
    home.iodyno(&["run", &file]).succeeds();
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let trials = shown["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 3, "{shown}");
    for trial in trials {
        assert_eq!(trial["groups"][0]["rows"][0]["ops"], 40, "{trial}");
        assert_eq!(trial["groups"][0]["rows"][0]["failed_ops"], 0, "{trial}");
    }
}

#[test]
fn too_little_memory_for_a_guest_is_reported_before_it_boots() {
    let kernel = match kernel() {
        Ok(kernel) => kernel,
        Err(why) => return skip(why),
    };
    let home = Home::new();
    let file = experiment(&home, "vm", 1, &kernel, "number_ios = 100");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("512MiB", "128MiB")).unwrap();
    home.iodyno(&["run", &file])
        .exits(4)
        .stderr_has("a guest with 128 MiB of memory has no space for its initramfs of")
        .stderr_has("set `vm.memory` to at least");
}

#[test]
fn guests_measure_at_once_and_are_ended_by_clean_after_a_kill() {
    let kernel = match kernel() {
        Ok(kernel) => kernel,
        Err(why) => return skip(why),
    };
    if !root() {
        return skip("the journal of this user is not a temporary one");
    }
    let home = Home::new();
    let job = "time_based = 1, runtime = \"1h\"";
    let file = experiment(&home, "vm", 2, &kernel, job);
    // The journal is in a separate mount namespace, so that other tests' storage is not touched.
    let script = "mkdir -p /var/lib/iodyno && mount -t tmpfs none /var/lib/iodyno || exit 9; \
                  \"$1\" run \"$2\" & until test -e kill; do sleep 0.1; done; kill -9 $!; wait $!; exec \"$1\" clean";
    let mut command = home.program(Path::new("unshare"));
    let program = iodyno();
    command.args(["--mount", "sh", "-c", script, "sh", program, &file]);
    let run = Running::of(command);
    run.wait_until_it_measures(&home);
    let images = home.work().join("images");
    let guests = || processes(&["qemu-system", images.to_str().unwrap()]);
    assert_eq!(guests().len(), 2);
    run.wait_for("a frame of each guest", || {
        let shown = home.iodyno(&["show", "last"]).stdout;
        let all = ["guest1", "guest2"]
            .iter()
            .all(|guest| shown.contains(guest));
        all.then_some(())
    });
    home.file("kill", "");
    let cleaned = run.done().succeeds();
    let server = "undone: server qemu-system-x86_64";
    assert_eq!(
        cleaned.stdout.matches(server).count(),
        2,
        "{}",
        cleaned.stdout
    );
    assert_eq!(guests(), [""; 0]);
    assert_eq!(fs::read_dir(&images).unwrap().count(), 0);
    let shown = home.iodyno(&["show", "last"]).succeeds();
    for guest in ["guest1", "guest2"] {
        assert!(shown.stdout.contains(guest), "{}", shown.stdout);
    }
}

#[test]
fn virtual_machines_are_the_nodes_of_a_run_and_measure_the_disk_that_is_named() {
    let kernel = match kernel() {
        Ok(kernel) => kernel,
        Err(why) => return skip(why),
    };
    let home = Home::new();
    fs::create_dir(home.work().join("images")).unwrap();
    home.file(
        "j.fio",
        "[j]\nrw=randwrite\nbs=4k\nsize=8m\nnumber_ios=100\n",
    );
    let at = format!(
        "vm:linux,disk=32MiB,folder=images,memory=512MiB,accel=tcg,kernel={}",
        kernel.display()
    );
    let nodes = ["left", "right"].map(|name| format!("{name}={at}"));
    home.iodyno(&[
        "run",
        "j.fio",
        "--node",
        &nodes[0],
        "--node",
        &nodes[1],
        "--on",
        "disk=/dev/vdb",
    ])
    .succeeds();
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let trial = &shown["trials"][0];
    assert_eq!(trial["groups"][0]["rows"][0]["ops"], 200, "{trial}");
    let nodes = trial["nodes"].as_array().unwrap();
    let names: Vec<_> = nodes.iter().map(|node| &node["name"]).collect();
    assert_eq!(names, ["left", "right", "host"]);
    let found = &nodes[1]["environment"];
    assert_eq!(found["host"], "right");
    let device = &found["targets"][0]["stack"][0]["device"];
    assert_eq!(
        (&device["name"], &device["size_bytes"]),
        (&"vdb".into(), &(32 << 20).into()),
        "{found}"
    );
    let images = home.work().join("images");
    assert_eq!(fs::read_dir(&images).unwrap().count(), 0);
    let left = processes(&["qemu-system", images.to_str().unwrap()]);
    assert_eq!(left, [""; 0]);
}

#[test]
fn nvme_commands_reach_virtual_disks_that_are_clones_of_a_golden_disk_filled_once() {
    let kernel = match kernel() {
        Ok(kernel) => kernel,
        Err(why) => return skip(why),
    };
    let img = Path::new("/usr/bin/qemu-img");
    if !img.exists() {
        return skip("qemu-img (qemu-utils) is not installed");
    }
    let home = Home::new();
    let file = experiment(
        &home,
        "vm",
        1,
        &kernel,
        "rw = \"randrw\", number_ios = 50, fsync = 8",
    );
    let text = fs::read_to_string(&file).unwrap();
    let golden = "fill = \"16MiB\"\nvm = { disk.origin = \"clone\", disk.interface = \"nvme\",";
    let text = text
        .replace("rounds = 1", "rounds = 2")
        .replace("vm = {", golden)
        .replace("posixaio", "io_uring_cmd");
    let text = text.replace("rw = \"randwrite\", ", "");
    home.file("vm.toml", &text);
    home.iodyno(&["run", &file]).succeeds();
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let images = home.work().join("images");
    let trials = shown["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2);
    let backing: Vec<String> = trials
        .iter()
        .map(|trial| {
            let rows = trial["groups"][0]["rows"].as_array().unwrap().iter();
            let rows = rows.filter(|row| row["direction"] != "sync");
            let ops: u64 = rows.map(|row| row["ops"].as_u64().unwrap()).sum();
            assert_eq!(ops, 50, "{trial}");
            let made = &trial["nodes"][0]["environment"]["made"];
            let file = &made["facts"]["vm.file"];
            assert!(file.as_str().unwrap().contains("overlay"), "{made}");
            let commands = made["commands"].as_array().unwrap().iter();
            let mut commands = commands.filter_map(|run| run["command"].as_str());
            let create = commands.find(|it| it.starts_with("qemu-img create"));
            let words = words_of(create.unwrap());
            let (from, to) = (&words[6], &words[9]);
            assert_ne!(Path::new(from).parent(), Path::new(to).parent());
            from.clone()
        })
        .collect();
    assert_eq!(backing[0], backing[1]);
    assert!(Path::new(&backing[0]).starts_with(&images));
    assert_eq!(fs::read_dir(&images).unwrap().count(), 0);
}

/// The experiment of [`experiment`] with this instead of its target and its `vm` settings.
fn with(file: &str, target: &str, settings: &str) {
    let text = fs::read_to_string(file).unwrap();
    let old = text.split('"').nth(1).unwrap();
    let text = text.replacen(old, target, 1);
    fs::write(
        file,
        text.replace("vm = {", &format!("vm = {{ {settings},")),
    )
    .unwrap();
}

#[test]
fn a_folder_that_a_server_shares_is_measured_in_virtual_machines() {
    let kernel = match kernel() {
        Ok(kernel) => kernel,
        Err(why) => return skip(why),
    };
    let server = ["/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd"];
    let Some(server) = server.into_iter().find(|path| Path::new(path).exists()) else {
        return skip("virtiofsd (qemu-system-common) is not installed");
    };
    if !root() {
        return skip("virtiofsd needs root");
    }
    let command = match server {
        "/usr/lib/qemu/virtiofsd" => "--socket-path={socket} -o source={folder} -o sandbox=chroot",
        _ => "--socket-path={socket} --shared-dir={folder} --sandbox=chroot",
    };
    measures_a_share(&kernel, &format!("{server} {command}"), "number_ios = 100");
}

#[cfg(feature = "fileserver")]
#[test]
fn a_folder_that_iodyno_serves_holds_what_virtual_machines_write() {
    match kernel() {
        Ok(kernel) => {
            let server = "iodyno serve fs {folder} --socket {socket}";
            let job = "number_ios = 100, verify = \"crc32c\", end_fsync = 1";
            measures_a_share(&kernel, server, job);
        }
        Err(why) => skip(why),
    }
}

/// Two guests run a job on folders that a server shares.
fn measures_a_share(kernel: &Path, server: &str, job: &str) {
    let home = Home::new();
    let file = experiment(&home, "vm", 2, kernel, job);
    with(
        &file,
        "vm on directory on ./images",
        &format!("share = \"{server}\""),
    );
    let text = fs::read_to_string(&file).unwrap();
    let text: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("file ="))
        .collect();
    fs::write(&file, text.join("\n")).unwrap();
    home.iodyno(&["run", &file]).succeeds();
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let trial = &shown["trials"][0];
    let rows = trial["groups"][0]["rows"].as_array().unwrap();
    let written = rows.iter().find(|row| row["direction"] == "write");
    assert_eq!(written.unwrap()["ops"], 200, "{trial}");
    let found = &trial["nodes"][0]["environment"];
    let mount = &found["targets"][0]["stack"][0];
    assert_eq!(
        (&mount["layer"], &mount["file_system"]),
        (&"mount".into(), &"virtiofs".into()),
        "{found}"
    );
    let images = home.work().join("images");
    assert_eq!(fs::read_dir(&images).unwrap().count(), 0);
    let program = server.split_whitespace().next().unwrap();
    assert_eq!(processes(&[program, images.to_str().unwrap()]), [""; 0]);
}

#[test]
fn disks_that_a_daemon_serves_are_measured_and_lost_flushes_are_found() {
    let kernel = match kernel() {
        Ok(kernel) => kernel,
        Err(why) => return skip(why),
    };
    if !has_program("qemu-storage-daemon") {
        return skip("qemu-storage-daemon (qemu-utils) is not installed");
    }
    let home = Home::new();
    let file = experiment(&home, "vm", 1, &kernel, "number_ios = 100");
    let server = "qemu-storage-daemon --blockdev driver=file,node-name=d,filename={file} \
                  --export type=vhost-user-blk,id=e,node-name=d,addr.type=unix,addr.path={socket},writable=on";
    with(
        &file,
        "ext4 on md on vm on file on ./images",
        &format!("disk = {{ interface = \"vhost-user-blk\", command = \"{server}\" }}"),
    );
    home.iodyno(&["run", &file]).succeeds();
    let shown = home.iodyno(&["show", "last", "--json"]).succeeds().json();
    let trial = &shown["trials"][0];
    assert_eq!(trial["groups"][0]["rows"][0]["ops"], 100, "{trial}");
    let findings = trial["findings"].as_array().unwrap();
    let lost = findings
        .iter()
        .filter(|finding| finding["kind"] == "flushes_lost");
    assert_eq!(lost.count(), 1, "{trial}");
    let images = home.work().join("images");
    assert_eq!(fs::read_dir(&images).unwrap().count(), 0);
    assert_eq!(
        processes(&["qemu-storage-daemon", images.to_str().unwrap()]),
        [""; 0]
    );
}

#[test]
fn virtual_machines_that_cannot_be_nodes_are_told_all_at_once() {
    let home = Home::new();
    home.file("j.fio", "[j]\nrw=read\nsize=8m\n");
    let run = |flags: &[&str]| home.iodyno(&[&["run", "j.fio"], flags].concat()).exits(2);
    run(&["--node", "a=vm:bsd,cpus=x"])
        .stderr_has("`bsd` is not a kind of virtual machine")
        .stderr_has("`cpus=x` is not a number from 1 to 255");
    let nodes = ["--node", "a=vm:linux,folder=.", "--node", "b=local"];
    run(&[&nodes[..], &["--on", "d=/tmp"]].concat())
        .stderr_has("`--node b=local` is not a virtual machine")
        .stderr_has("`--on d=/tmp` is not a disk of the virtual machines");
    run(&["--node", "a=vm:linux,folder=."]).stderr_has("no disk of the virtual machines is named");
    home.file(
        "x.toml",
        "[node.a]\nat = \"vm:linux\"\n[workload.w]\nfio = \"j.fio\"\n",
    );
    home.iodyno(&["run", "x.toml"])
        .exits(2)
        .stderr_has("`vm:linux` cannot be a node of an experiment");
}

#[test]
fn a_trial_in_a_guest_whose_clock_is_too_fast_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let kernel = match kernel() {
        Ok(kernel) => kernel,
        Err(why) => return skip(why),
    };
    let home = Home::new();
    let job = "runtime = 1, time_based = 1";
    let file = experiment(&home, "vm", 1, &kernel, job);
    // The guest's kernel gets half the rate of its time stamp counter.
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{path}:/usr/sbin:/sbin:/usr/bin:/bin");
    let mark = home.work().join("halved");
    let script = format!(
        "#!/bin/bash\nexport PATH='{path}'\nwords=()\nfor word in \"$@\"; do\n\
         if [[ $word =~ tsc_early_khz=([0-9]+) ]]; then\n\
         word=${{word/${{BASH_REMATCH[0]}}/tsc_early_khz=$((BASH_REMATCH[1] / 2))}}\ntouch '{}'\nfi\n\
         words+=(\"$word\")\ndone\nexec qemu-system-x86_64 \"${{words[@]}}\"\n",
        mark.display()
    );
    let bin = home.work().join("bin");
    fs::create_dir(&bin).unwrap();
    let qemu = bin.join("qemu-system-x86_64");
    fs::write(&qemu, script).unwrap();
    fs::set_permissions(&qemu, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = home.command(&["run", &file]);
    command.env("PATH", format!("{}:{path}", bin.display()));
    let done = Running::of(command).done();
    if !mark.exists() {
        return skip("the time stamp counter of this host cannot be used");
    }
    done.stderr_has("times the rate of this host's");
    let shown = home.iodyno(&["show", "last", "--json"]).json();
    let outcome = shown["trials"][0]["outcome"].to_string();
    assert!(outcome.contains("its clock runs at"), "{outcome}");
}
