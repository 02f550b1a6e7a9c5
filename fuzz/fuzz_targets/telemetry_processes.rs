//! Any texts as what procfs tells of a process and control groups of a group: no panic, and whatever is sampled fits its shape.
#![no_main]

mod common;

use std::fs;
use std::path::Path;
use std::time::Duration;

use iodyno_telemetry::{Devices, Pools, Scope};
use libfuzzer_sys::fuzz_target;

const FILES: [&str; 9] = [
    "proc/7/stat",
    "proc/7/io",
    "proc/7/cmdline",
    "proc/7/comm",
    "proc/spl/kstat/zfs/arcstats",
    "sys/fs/cgroup/a/io.stat",
    "sys/fs/cgroup/a/io.max",
    "proc/self/cgroup",
    "proc/self/mountinfo",
];

/// Files end at a bar; as many as are left out are as they were.
fn write(folder: &Path, texts: &mut dyn Iterator<Item = &[u8]>) -> bool {
    let mut any = false;
    for (name, text) in FILES.iter().zip(texts) {
        any = true;
        if text != b"=" {
            fs::write(folder.join(name), text).unwrap();
        }
    }
    any
}

fn lay_out(folder: &Path) {
    for name in [
        "proc/7",
        "proc/self",
        "proc/spl/kstat/zfs",
        "sys/fs/cgroup/a",
        "sys/dev/block",
    ] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    std::os::unix::fs::symlink("../sda", folder.join("sys/dev/block/8:0")).unwrap();
    let mount = "38 31 0:35 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    for (name, text) in [
        ("proc/self/mountinfo", mount),
        ("proc/self/cgroup", "0::/a\n"),
        ("sys/fs/cgroup/a/cgroup.type", "domain\n"),
        ("proc/7/comm", "server\n"),
        (
            "proc/7/stat",
            "7 (server) S 1 1 1 0 -1 4 0 0 0 0 1 1 0 0 20 0 3 0 1 1 25",
        ),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
}

fuzz_target!(|data: &[u8]| {
    let folder = tempfile::tempdir().unwrap();
    lay_out(folder.path());
    let mut texts = data.split(|byte| *byte == b'|');
    write(folder.path(), &mut texts);
    let scope = Scope {
        every: Duration::from_secs(1),
        devices: Devices::All,
        block_trace: false,
        // There is no `zpool` here, so that nothing is started.
        pools: Pools::All,
        processes: vec!["server".to_owned().into()],
        servers: Vec::new(),
        stats: Vec::new(),
        own: Vec::new(),
    };
    common::sampled(folder.path(), &scope, || write(folder.path(), &mut texts));
});
