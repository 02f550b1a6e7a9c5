//! Any texts as the kernel's files, one sample after the other: no panic, and whatever is sampled fits its shape.
//! The files are real ones: `TMPDIR=/dev/shm` makes it fast.
#![no_main]

mod common;

use std::fs;
use std::path::Path;
use std::time::Duration;

use iodyno_telemetry::{Devices, Pools, Scope};
use libfuzzer_sys::fuzz_target;

const FILES: [&str; 8] = [
    "stat",
    "interrupts",
    "loadavg",
    "diskstats",
    "meminfo",
    "vmstat",
    "pressure/cpu",
    "pressure/irq",
];

/// Files end at a NUL; as many as are left out are as they were.
fn write(folder: &Path, texts: &mut dyn Iterator<Item = &[u8]>) -> bool {
    let mut any = false;
    for (name, text) in FILES.iter().zip(texts) {
        any = true;
        if text != b"=" {
            fs::write(folder.join("proc").join(name), text).unwrap();
        }
    }
    any
}

fuzz_target!(|data: &[u8]| {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("proc/pressure")).unwrap();
    let whole = "some avg10=0.0 avg60=0.0 avg300=0.0 total=5\n";
    for name in ["io", "memory"] {
        fs::write(folder.path().join("proc/pressure").join(name), whole).unwrap();
    }
    let mut texts = data.split(|byte| *byte == 0);
    write(folder.path(), &mut texts);
    let scope = Scope {
        every: Duration::from_secs(1),
        devices: Devices::All,
        block_trace: false,
        pools: Pools::Named(Vec::new()),
        processes: Vec::new(),
        servers: Vec::new(),
        stats: Vec::new(),
        own: Vec::new(),
    };
    let all = common::sampled(folder.path(), &scope, || write(folder.path(), &mut texts));
    for (number, shape) in all.shapes.iter().enumerate() {
        assert_eq!(shape.number as usize, number);
    }
});
