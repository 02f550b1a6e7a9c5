//! Each engine on a real file, for each direction, and its name in the result.

use crate::harness::Home;

#[test]
fn every_engine_does_all_ops_and_is_named_in_the_result() {
    for engine in [
        "psync", "sync", "pvsync2", "libaio", "io_uring", "posixaio", "mmap", "null",
    ] {
        let home = Home::new();
        home.file(
            "job.fio",
            &format!("[t]\nioengine={engine}\nrw=randrw\nbs=4k\nsize=4m\niodepth=8\nend_fsync=1\n"),
        );
        home.iodyno(&["run", "job.fio", "-q"]).succeeds();
        let result = home
            .iodyno(&["show", "last", "--format", "fio-json"])
            .succeeds()
            .json();
        let job = &result["jobs"][0];
        let total = |direction: &str| job[direction]["total_ios"].as_u64().unwrap();
        assert_eq!(total("read") + total("write"), 1024, "{engine}: {job}");
        assert!(total("read") > 300 && total("write") > 300, "{engine}");
        assert_eq!(job["job options"]["ioengine"], engine);
        assert_eq!(job["error"], 0, "{engine}");
        assert!(
            job["read"]["clat_ns"]["N"].as_u64().unwrap() > 0,
            "{engine}"
        );
        if engine != "null" {
            let file = home.work().join("t.0.0");
            assert_eq!(file.metadata().unwrap().len(), 4 << 20, "{engine}");
        }
    }
}

#[test]
fn the_contents_of_all_buffers_are_written_in_turn() {
    let home = Home::new();
    home.file(
        "job.fio",
        "[t]\nioengine=libaio\nrw=write\nbs=4k\nsize=256k\niodepth=4\nscramble_buffers=0\n",
    );
    home.iodyno(&["run", "job.fio", "-q"]).succeeds();
    let file = std::fs::read(home.work().join("t.0.0")).unwrap();
    let blocks: Vec<&[u8]> = file.chunks(4096).collect();
    for (number, window) in blocks.windows(4).enumerate() {
        let mut different = window.to_vec();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 4, "from block {number}");
    }
}

#[test]
fn a_simulation_with_a_seed_reproduces_its_distribution() {
    let home = Home::new();
    home.file(
        "job.fio",
        "[t]\nioengine=sim\nrw=randread\nbs=4k\nsize=64m\nruntime=1\ntime_based\niodepth=1\n",
    );
    home.iodyno(&["run", "job.fio", "-q"]).succeeds();
    let result = home
        .iodyno(&["show", "last", "--format", "fio-json"])
        .succeeds()
        .json();
    let read = &result["jobs"][0]["read"];
    // By default the device takes 100 µs, and the job runs in virtual time.
    assert_eq!(read["clat_ns"]["mean"], 100_000.0);
    assert_eq!(read["total_ios"], 10_000);
}

#[test]
fn verification_reads_the_written_data() {
    let home = Home::new();
    home.file(
        "job.fio",
        "[t]\nrw=randwrite\nbs=4k\nsize=4m\nverify=crc32c\n",
    );
    home.iodyno(&["run", "job.fio"])
        .succeeds()
        .prints("1024 blocks checked, 0 bad");
    // A block from another offset of the file is intact, but wrong.
    let file = home.work().join("t.0.0");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.copy_within(4096..8192, 40_960);
    std::fs::write(&file, bytes).unwrap();
    home.file("again.fio", "[t]\nrw=randread\nbs=4k\nsize=4m\nverify=crc32c\nverify_fatal=0\ncontinue_on_error=verify\n");
    let done = home.iodyno(&["run", "again.fio"]);
    done.exits(1).prints("1 bad");
    // The same if a bad block ends the job.
    home.file(
        "fatal.fio",
        "[t]\nrw=randread\nbs=4k\nsize=4m\nverify=crc32c\nverify_fatal=1\n",
    );
    home.iodyno(&["run", "fatal.fio"]).exits(1).prints("1 bad");
}

#[test]
fn a_file_that_a_job_names_is_laid_out_once_and_reused() {
    let home = Home::new();
    home.file("job.fio", "[t]\nrw=read\nbs=64k\nsize=8m\nfilename=data\n");
    home.iodyno(&["run", "job.fio", "-q"]).succeeds();
    let made = home
        .work()
        .join("data")
        .metadata()
        .unwrap()
        .modified()
        .unwrap();
    home.iodyno(&["run", "job.fio", "-q"]).succeeds();
    assert_eq!(
        home.work()
            .join("data")
            .metadata()
            .unwrap()
            .modified()
            .unwrap(),
        made
    );
}

#[test]
fn two_configurations_and_two_workloads_are_four_trials() {
    let home = Home::new();
    std::fs::create_dir(home.work().join("a")).unwrap();
    std::fs::create_dir(home.work().join("b")).unwrap();
    home.file("r.fio", "[t]\nrw=read\nbs=64k\nsize=1m\n");
    home.file("w.fio", "[t]\nrw=write\nbs=64k\nsize=1m\n");
    let done = home
        .iodyno(&[
            "run",
            "r.fio",
            "w.fio",
            "--on",
            "one=a",
            "--on",
            "b",
            "--rounds",
            "1",
            "--no-settle",
        ])
        .succeeds();
    for cell in ["r  on one", "w  on one", "r  on b", "w  on b"] {
        assert!(done.stdout.contains(cell), "{cell}: {}", done.stdout);
    }
    let list = home.iodyno(&["list", "--json"]).succeeds().json();
    assert_eq!(
        (
            &list["runs"][0]["trials_planned"],
            &list["runs"][0]["trials_completed"]
        ),
        (&4.into(), &4.into())
    );
    for folder in ["a", "b"] {
        assert!(home.work().join(folder).join("t.0.0").exists());
    }
}
