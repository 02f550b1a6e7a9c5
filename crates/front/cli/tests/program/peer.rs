//! Combinations of options as published job files use them, beside an installed fio: the same ops and bytes of each
//! job, the same files, and the same exit code.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Home, skip};

/// Jobs whose ops do not depend on draws. Those with a pattern or zeros write the same bytes.
#[rustfmt::skip]
const JOBS: &[&str] = &[
    "ioengine=sync fadvise_hint=0 openfiles=1 group_reporting=1 create_serialize=0 allrandrepeat=1 \
     file_service_type=random rw=read nrfiles=4 filename_format=$jobname.$jobnum.$filenum filesize=64k bs=16k numjobs=2",
    "rw=write bs=4k size=64k nrfiles=4 openfiles=1 file_service_type=sequential fsync_on_close=1 create_on_open=1",
    "rw=write bs=4k size=64k nrfiles=4 file_service_type=roundrobin:2 end_fsync=1 fallocate=none",
    "rw=write bs=8k nrfiles=3 filename=x:y:z size=96k file_service_type=sequential openfiles=2",
    "rw=write bs=8k directory=p:q nrfiles=2 numjobs=3 size=32k",
    "rw=write bs=16k filename=f size=64k offset=64k offset_increment=128k numjobs=3 group_reporting=1",
    "rw=read bs=4k filename=f size=64k io_size=150000",
    "rw=write bs=4k filename=f size=64k io_size=32k loops=3",
    "rw=randread bs=4k filename=f size=64k io_size=160k loops=3",
    "rw=randwrite bs=4k filename=f size=64k number_ios=10 loops=3",
    "rw=read bs=4k filename=f filesize=1m zonemode=strided zonesize=16k zoneskip=48k zonerange=32k io_size=256k \
     offset=64k",
    "rw=write:4k bs=4k filename=f size=128k",
    "rw=randread:4 bs=4k filename=f size=128k number_ios=12",
    "rw=randread bs=4k,8k filename=f size=64k percentage_random=0",
    "rw=write bs=4k filename=f size=64k buffer_pattern=\"abcd\"-120xdeface",
    "rw=write bs=4k filename=f size=64k zero_buffers=1 refill_buffers=1 scramble_buffers=1",
    "rw=randwrite bs=4k filename=f size=64k verify=pattern verify_pattern=\"abc\"%o0xff verify_interval=512",
    "rw=write bs=5000 filename=f size=32k verify=pattern verify_pattern=0xab",
    "rw=write bs=4k filename=f size=256k verify=crc32c verify_backlog=16 verify_backlog_batch=4",
    "rw=write bs=4k filename=f size=64k verify=sha256 verify_fatal=1 number_ios=10 verify_offset=128",
    "rw=write bs=4k filename=f size=64k verify=crc32c loops=2",
    "rw=write:1k bs=4k filename=f size=64k verify=crc32c",
    "rw=write:1k bs=4k filename=f size=64k verify=md5 loops=2",
    "rw=write:512 bs=4k filename=f size=64k verify=crc32c verify_backlog=4",
    "rw=write bs=4k filename=f size=256k zonemode=strided zonesize=8k zoneskip=1k verify=crc32c",
    "rw=randwrite bs=4k filename=f size=64k fsync=8 ioengine=mmap",
    "rw=randwrite bs=4k filename=f size=256k ioengine=libaio iodepth=16 iodepth_batch_submit=8 \
     iodepth_batch_complete_min=4 iodepth_low=8 norandommap=1",
    "rw=trim bs=16k size=256k loops=2 numjobs=2 ioengine=null",
    "rw=read bs=4k size=1m rate_iops=2000 ramp_time=100ms number_ios=50 ioengine=null",
    "rw=read bs=4k filename=f size=64k create_only=1",
    "rw=write bs=4k filename=f size=64k unlink=1 loops=2",
    "rw=write bs=4k filename=f size=16k file_append=1",
];

/// Jobs with draws: each verifies what it wrote.
const VERIFYING: &[&str] = &[
    "rw=randwrite bs=4k ba=512 filename=f size=64k verify=crc32c",
    "rw=randwrite bs=4k ba=1k filename=f size=64k verify=crc32c norandommap=1 verify_backlog=4",
    "rw=randrw bs=8k,12k filename=f size=240k verify=crc32c",
    "rw=rw bs=4k,6k filename=f size=240k verify=md5",
    "rw=randrw bsrange=4k-8k,6k-12k filename=f size=240k verify=crc32c",
    "rw=write:1k bsrange=4k-16k filename=f size=256k verify=crc32c",
];

/// The version of the installed fio; `None`: there is none.
pub(crate) fn version() -> Option<(u32, u32)> {
    let output = Command::new("fio").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut numbers = text.trim().strip_prefix("fio-")?.split(['.', '-']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Why jobs cannot be compared with fio's.
fn missing() -> Option<String> {
    match version() {
        Some(version) if version >= (3, 33) => None,
        Some((major, minor)) => Some(format!("fio {major}.{minor} is older than 3.33")),
        None => Some("fio is not installed".to_owned()),
    }
}

/// The exit code, the errors and the ops and bytes of each job, and the files with their lengths and, if `bytes`, their
/// content.
fn observed(program: &str, job: &str, bytes: bool) -> String {
    let home = Home::new();
    for folder in ["p", "q"] {
        std::fs::create_dir(home.work().join(folder)).unwrap();
    }
    let engine = match job.contains("ioengine=") {
        true => "",
        false => "ioengine=psync ",
    };
    let options = format!("name=a output-format=json {engine}{job}");
    let options = options
        .split_whitespace()
        .map(|option| format!("--{option}"));
    let mut command = match program {
        "fio" => home.program(Path::new("fio")),
        _ => home.command(&["fio", "--no-store", "-q"]),
    };
    let output = command.args(options).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let result: Value =
        serde_json::from_str(&text[text.find('{').unwrap_or(0)..]).unwrap_or_default();
    let mut seen = format!("exit code {:?};", output.status.code());
    for job in result["jobs"].as_array().into_iter().flatten() {
        seen += &format!(" {} error {}", job["jobname"], job["error"]);
        for kind in ["read", "write", "trim"] {
            let (ops, length) = (&job[kind]["total_ios"], &job[kind]["io_bytes"]);
            seen += &format!(" {kind} {ops} ops {length} bytes");
        }
        seen += &format!(" {} syncs;", job["sync"]["total_ios"]);
    }
    let mut files: Vec<_> = ["", "p", "q"]
        .into_iter()
        .flat_map(|folder| std::fs::read_dir(home.work().join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && path.extension().is_none_or(|end| end != "state"))
        .collect();
    files.sort();
    for path in files {
        let content = std::fs::read(&path).unwrap();
        let name = path.strip_prefix(home.work()).unwrap().display();
        seen += &format!(" {name} {} bytes", content.len());
        if bytes {
            seen += &format!(" {:x}", xxhash_rust::xxh3::xxh3_64(&content));
        }
    }
    seen
}

#[test]
fn combined_options_do_the_same_as_in_fio() {
    if let Some(why) = missing() {
        return skip(&why);
    }
    let mut wrong = String::new();
    for job in JOBS {
        let bytes = ["verify=pattern", "buffer_pattern=", "zero_buffers"];
        let bytes = bytes.iter().any(|option| job.contains(option));
        let [fio, own] = ["fio", "iodyno"].map(|program| observed(program, job, bytes));
        if fio != own {
            wrong += &format!("\n{job}\n  fio:    {fio}\n  iodyno: {own}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn blocks_at_any_offsets_are_verified_as_in_fio() {
    if let Some(why) = missing() {
        return skip(&why);
    }
    for job in VERIFYING {
        for program in ["fio", "iodyno"] {
            let seen = observed(program, job, false);
            assert!(
                seen.starts_with("exit code Some(0); \"a\" error 0 read "),
                "{program} {job}: {seen}"
            );
        }
    }
}
