use super::*;
use crate::resolve::resolved::FileKind;
use crate::samples::{job, plan};
use iodyno_model::{
    Amount, BlockSizes, Blocks, Direction, Engine, EngineKind, MixSequence, Order, Passes,
    PerDirection, Target, Verify,
};
use std::collections::HashMap;

const MIB: u64 = 1 << 20;

/// A node with a few files in /t, 1000 MiB free, and nothing else.
struct Fake(HashMap<&'static str, PathKind>);

impl Fake {
    fn new() -> Fake {
        Fake(HashMap::from([
            ("/t", PathKind::Folder),
            ("/t/old", PathKind::File(8 * MIB)),
            ("/t/empty", PathKind::File(0)),
            ("/dev/d", PathKind::Device(100 * MIB)),
            ("/dev/null", PathKind::Null),
            ("/t/pipe", PathKind::Other("is a pipe".to_owned())),
        ]))
    }
}

impl Probe for Fake {
    fn look(&self, path: &Path) -> PathKind {
        match self.0.get(path.to_str().unwrap()) {
            Some(found) => found.clone(),
            None if path.parent() == Some(Path::new("/t")) => PathKind::Missing,
            None => PathKind::NoFolder(path.parent().unwrap().to_owned()),
        }
    }

    fn is_link(&self, path: &Path) -> bool {
        path.ends_with("link")
    }

    fn free(&self, _: &Path) -> Option<u64> {
        Some(1000 * MIB)
    }
}

fn named(name: &str) -> Job {
    let mut job = job("j");
    let names = name.split(':').map(PathBuf::from);
    job.work.blocks_mut().unwrap().files.names = names.collect();
    job
}

fn sized(name: &str, size: Option<Amount>) -> Job {
    let mut job = named(name);
    job.work.blocks_mut().unwrap().extent.size = size;
    job
}

fn bind(job: Job) -> Result<Resolved, Vec<Diagnostic>> {
    resolve(&plan("/t", vec![job]), &Fake::new())
}

/// (base, length) of each file of each clone, and the first clone's budget.
fn check(job: Job, regions: &[&[(u64, u64)]], budget: u64) {
    let resolved = bind(job.clone()).unwrap_or_else(|faults| panic!("{job:?}: {faults:?}"));
    let found: Vec<Vec<(u64, u64)>> = resolved
        .clones
        .iter()
        .map(|clone| clone.files.iter().map(|f| (f.base, f.length)).collect())
        .collect();
    assert_eq!(found, regions, "{job:?}");
    assert_eq!(resolved.clones[0].byte_budget, budget, "{job:?}");
}

const fn bytes(value: u64) -> Option<Amount> {
    Some(Amount::Bytes(value))
}

const fn percent(value: f64) -> Option<Amount> {
    Some(Amount::Percent(value))
}

#[test]
fn sizes_are_bound_by_the_rules_of_fio() {
    check(sized("new", bytes(4 * MIB)), &[&[(0, 4 * MIB)]], 4 * MIB);
    check(sized("old", None), &[&[(0, 8 * MIB)]], 8 * MIB);
    check(sized("old", bytes(MIB)), &[&[(0, MIB)]], MIB);
    check(sized("old", bytes(16 * MIB)), &[&[(0, 16 * MIB)]], 16 * MIB);
    check(sized("old", percent(25.0)), &[&[(0, 2 * MIB)]], 2 * MIB);
    check(sized("/dev/d", None), &[&[(0, 100 * MIB)]], 100 * MIB);
    check(
        sized("/dev/d", percent(50.0)),
        &[&[(0, 50 * MIB)]],
        50 * MIB,
    );
    check(sized("/dev/null", bytes(MIB)), &[&[(0, MIB)]], MIB);
    // A device cannot grow.
    check(
        sized("/dev/d", bytes(200 * MIB)),
        &[&[(0, 100 * MIB)]],
        100 * MIB,
    );
    // Named files share the size, in bytes; a pass accesses whole blocks.
    check(
        sized("a:b", bytes(3 * 4096)),
        &[&[(0, 6144), (0, 6144)]],
        2 * 4096,
    );
    check(
        sized("a:b:c", bytes(3 * MIB)),
        &[&[(0, MIB), (0, MIB), (0, MIB)]],
        3 * MIB,
    );
}

#[test]
fn a_sequence_with_gaps_ends_before_a_part_of_a_block() {
    let mut job = sized("new", bytes(17 * MIB));
    let blocks = job.work.blocks_mut().unwrap();
    blocks.access.order = Order::Sequential;
    blocks.access.block_sizes = PerDirection::all(BlockSizes::Fixed(MIB));
    let all: &[&[(u64, u64)]] = &[&[(0, 17 * MIB)]];
    for (gap, budget) in [
        // Blocks at 0, 1.5, …, 15 MiB; the next one would be at 16.5 MiB.
        (512 << 10, 11),
        // At 0, 2, …, 16 MiB: the last one ends with the file.
        (MIB as i64, 9),
        // At 0, 5, 10, 15 MiB.
        (4 * MIB as i64, 17),
        (-(MIB as i64), 17),
    ] {
        let mut job = job.clone();
        let blocks = job.work.blocks_mut().unwrap();
        blocks.access.sequence = Some(MixSequence::Skip(gap));
        check(job.clone(), all, budget * MIB);
        job.work.blocks_mut().unwrap().passes.loops = 2;
        check(job.clone(), all, 2 * budget * MIB);
    }
    // If the region is a part of the file, a gap beyond its end ends the pass.
    let mut part = sized("old", bytes(7 * MIB));
    let blocks = part.work.blocks_mut().unwrap();
    blocks.access.block_sizes = PerDirection::all(BlockSizes::Fixed(MIB));
    blocks.access.sequence = Some(MixSequence::Skip(3 * MIB as i64));
    check(part, &[&[(0, 7 * MIB)]], 2 * MIB);
}

#[test]
fn a_job_that_only_verifies_reads_each_block_once() {
    let mut job = sized("old", bytes(MIB));
    let blocks = job.work.blocks_mut().unwrap();
    blocks.access = crate::samples::access(&[Direction::Write]);
    blocks.access.order = Order::Sequential;
    blocks.passes.io_size = bytes(2 * MIB);
    blocks.verify = Some(Verify::default());
    let all: &[&[(u64, u64)]] = &[&[(0, MIB)]];
    check(job.clone(), all, 2 * MIB);
    let verify = job.work.blocks_mut().unwrap().verify.as_mut();
    verify.unwrap().only = true;
    check(job, all, MIB);
}

#[test]
fn a_job_that_fills_its_storage_gets_more_than_fits() {
    for (name, length) in [
        ("new", 1125 * MIB),
        ("old", 1133 * MIB),
        ("/dev/d", 100 * MIB),
    ] {
        let mut job = sized(name, None);
        job.end.until_full = true;
        check(job, &[&[(0, length)]], length);
    }
    let mut job = sized("new", percent(10.0));
    job.end.until_full = true;
    check(job, &[&[(0, 100 * MIB)]], 100 * MIB);
    let mut job = sized("new", bytes(MIB));
    job.end.until_full = true;
    check(job, &[&[(0, MIB)]], MIB);
}

#[test]
fn offset_increment_sets_the_start_of_each_clone() {
    let mut job = sized("shared", bytes(MIB));
    job.clones = 3;
    check(job.clone(), &[&[(0, MIB)], &[(0, MIB)], &[(0, MIB)]], MIB);
    job.work.blocks_mut().unwrap().extent.offset = Amount::Bytes(4096);
    job.work.blocks_mut().unwrap().extent.offset_increment = Amount::Bytes(MIB);
    check(
        job.clone(),
        &[
            &[(4096, MIB)],
            &[(4096 + MIB, MIB)],
            &[(4096 + 2 * MIB, MIB)],
        ],
        MIB,
    );
    let mut job = sized("/dev/d", None);
    job.clones = 2;
    job.work.blocks_mut().unwrap().extent.offset_increment = Amount::Percent(50.0);
    check(
        job,
        &[&[(0, 100 * MIB)], &[(50 * MIB, 50 * MIB)]],
        100 * MIB,
    );
    // For a new file: its length without an offset.
    let mut job = sized("new", bytes(MIB));
    job.clones = 2;
    job.work.blocks_mut().unwrap().extent.offset_increment = Amount::Percent(50.0);
    check(job, &[&[(0, MIB)], &[(MIB / 2, MIB)]], MIB);
    // Percentages are aligned upwards.
    let mut job = sized("/dev/d", None);
    job.work.blocks_mut().unwrap().extent.offset = Amount::Percent(33.33);
    job.work.blocks_mut().unwrap().extent.offset_align = MIB;
    check(job, &[&[(34 * MIB, 66 * MIB)]], 66 * MIB);
}

#[test]
fn the_budget_is_io_size_and_loops() {
    let passes = |io_size, loops| Passes {
        io_size,
        loops,
        ..Passes::default()
    };
    for (passes, budget) in [
        (passes(None, 1), 8 * MIB),
        (passes(None, 3), 24 * MIB),
        (passes(bytes(MIB), 1), MIB),
        (passes(bytes(64 * MIB), 2), 64 * MIB),
        (passes(bytes(5 * MIB), 2), 10 * MIB),
        (passes(percent(50.0), 1), 4 * MIB),
        (passes(None, u64::MAX), u64::MAX),
    ] {
        let mut job = sized("old", None);
        job.work.blocks_mut().unwrap().passes = passes;
        check(job, &[&[(0, 8 * MIB)]], budget);
    }
}

#[test]
fn the_last_op_is_whole_where_the_number_of_bytes_is_not_the_end_of_the_region() {
    const KIB: u64 = 1024;
    let budget = |change: fn(&mut Blocks), io_size: Option<u64>, loops| {
        let mut job = sized("new", bytes(64 * KIB));
        let blocks = job.work.blocks_mut().unwrap();
        blocks.access.block_sizes = PerDirection::all(BlockSizes::Fixed(7 * KIB));
        blocks.passes.io_size = io_size.map(Amount::Bytes);
        blocks.passes.loops = loops;
        change(blocks);
        bind(job).unwrap().clones[0].byte_budget / KIB
    };
    let reads = |_: &mut Blocks| {};
    let writes = |blocks: &mut Blocks| {
        (blocks.access.reads, blocks.access.writes) = (false, true);
    };
    let without_map = |blocks: &mut Blocks| {
        (blocks.access.order, blocks.access.random_map) = (Order::Random, false);
    };
    // A pass has nine blocks, 63 KiB.
    assert_eq!(budget(reads, None, 1), 63);
    assert_eq!(budget(reads, None, 3), 189);
    assert_eq!(budget(without_map, None, 1), 64);
    assert_eq!(budget(without_map, None, 3), 192);
    assert_eq!(budget(reads, Some(30 * KIB), 1), 30);
    assert_eq!(budget(reads, Some(30 * KIB), 3), 90);
    // Less than a block is left at the end of the second pass.
    assert_eq!(budget(reads, Some(128 * KIB), 1), 126);
    assert_eq!(budget(writes, Some(128 * KIB), 1), 126);
    assert_eq!(budget(reads, Some(133 * KIB), 1), 133);
    // At least two passes, and then until less than a block is left.
    assert_eq!(budget(reads, Some(300 * KIB), 2), 315);
    assert_eq!(budget(writes, Some(321 * KIB), 2), 315);
    assert_eq!(budget(reads, Some(10 * KIB), 2), 20);
    // Without a map, a pass of reads has ten blocks, and a write has no passes.
    assert_eq!(budget(without_map, Some(142 * KIB), 1), 140);
    assert_eq!(
        budget(
            |blocks| {
                (blocks.access.reads, blocks.access.writes) = (false, true);
                (blocks.access.order, blocks.access.random_map) = (Order::Random, false);
            },
            Some(142 * KIB),
            1
        ),
        142
    );
}

#[test]
fn filesize_overrides_the_share_and_is_reduced_to_whole_blocks() {
    let with = |low, high| {
        let mut job = sized("old:new", bytes(MIB));
        job.work.blocks_mut().unwrap().files.size = Some((Amount::Bytes(low), Amount::Bytes(high)));
        job
    };
    check(with(MIB, MIB), &[&[(0, MIB), (0, MIB)]], MIB);
    let kept = bind(with(MIB, 9 * MIB)).unwrap();
    assert_eq!(kept.clones[0].files[0].length, 8 * MIB);
    let resolved = bind(with(2 * MIB, 4 * MIB)).unwrap();
    for file in &resolved.clones[0].files {
        assert!((2 * MIB..=4 * MIB).contains(&file.length));
        assert_eq!(file.length % 4096, 0);
    }
}

#[test]
fn size_in_percent_is_a_share_of_filesize() {
    let with = |name, size, filesize| {
        let mut job = sized(name, size);
        let filesize = Amount::Bytes(filesize);
        job.work.blocks_mut().unwrap().files.size = Some((filesize, filesize));
        job
    };
    check(
        with("new", percent(50.0), 4 * MIB),
        &[&[(0, 2 * MIB)]],
        2 * MIB,
    );
    check(
        with("new", percent(100.0), 4 * MIB),
        &[&[(0, 4 * MIB)]],
        4 * MIB,
    );
    check(
        with("old", percent(50.0), 8 * MIB),
        &[&[(0, 4 * MIB)]],
        4 * MIB,
    );
    let halves: &[(u64, u64)] = &[(0, 2 * MIB), (0, 2 * MIB)];
    check(with("a:b", percent(50.0), 4 * MIB), &[halves], 4 * MIB);
    // Up to the end of the file, if less than the share remains after the offset.
    let mut job = with("new", percent(75.0), 4 * MIB);
    job.work.blocks_mut().unwrap().extent.offset = Amount::Bytes(2 * MIB);
    check(job, &[&[(2 * MIB, 2 * MIB)]], 2 * MIB);
}

#[test]
fn an_appending_job_begins_at_the_end_of_its_files() {
    let append = |name| {
        let mut job = sized(name, bytes(2 * MIB));
        job.work.blocks_mut().unwrap().files.append = true;
        job
    };
    check(append("old"), &[&[(8 * MIB, 2 * MIB)]], 2 * MIB);
    check(append("new"), &[&[(0, 2 * MIB)]], 2 * MIB);
    check(append("/dev/d"), &[&[(0, 2 * MIB)]], 2 * MIB);
}

#[test]
fn existing_files_need_no_size() {
    let mut job = job("old");
    job.work.blocks_mut().unwrap().extent.size = None;
    job.work.blocks_mut().unwrap().files.format = "$jobname".to_owned();
    check(job.clone(), &[&[(0, 8 * MIB)]], 8 * MIB);
    job.name = "new".to_owned();
    let message = &bind(job).unwrap_err()[0].message;
    assert!(message.contains("its size is unknown"), "{message}");
}

#[test]
fn a_file_that_is_named_twice_is_one_file_that_is_processed_twice() {
    check(sized("a:a", bytes(2 * MIB)), &[&[(0, MIB)]], 2 * MIB);
    check(sized("old:old", None), &[&[(0, 8 * MIB)]], 16 * MIB);
    check(
        sized("a:b:a", bytes(3 * MIB)),
        &[&[(0, MIB), (0, MIB)]],
        3 * MIB,
    );
}

#[test]
fn every_error_is_reported_with_its_job() {
    for (job, words) in [
        (sized("new", None), "its size is unknown"),
        (sized("empty", None), "its size is unknown"),
        (
            sized("new", percent(20.0)),
            "`size` is a percentage, and `/t/new`",
        ),
        (
            sized("empty", percent(20.0)),
            "`size` is a percentage, and `/t/empty`",
        ),
        (
            sized("/no/where", bytes(MIB)),
            "the folder `/no` does not exist",
        ),
        (sized("pipe", bytes(MIB)), "`/t/pipe` is a pipe"),
        (sized("/t", bytes(MIB)), "is a folder"),
        (sized("new", bytes(100)), "less than a block of 4 KiB"),
        (sized("a:b:c", bytes(8192)), "less than a block of 4 KiB"),
        (
            sized("new", bytes(u64::MAX)),
            "longer than the largest possible file",
        ),
    ] {
        let faults = bind(job).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        let message = &faults[0].message;
        assert!(
            message.contains(words) && message.contains("job `j`"),
            "{message}"
        );
        assert!(faults[0].hint.is_some());
    }
    let mut beyond = sized("old", None);
    beyond.work.blocks_mut().unwrap().extent.offset = Amount::Bytes(9 * MIB);
    assert!(
        bind(beyond).unwrap_err()[0]
            .message
            .contains("begins at 9 MiB")
    );
    let mut forbidden = sized("new", bytes(MIB));
    forbidden.work.blocks_mut().unwrap().files.allow_create = false;
    assert!(
        bind(forbidden).unwrap_err()[0]
            .message
            .contains("does not exist")
    );
    for (name, size, words) in [
        (
            "new",
            MIB,
            "does not exist, and `--readonly` creates nothing",
        ),
        (
            "old",
            9 * MIB,
            "has 8 MiB, the job needs 9 MiB, and `--readonly` extends nothing",
        ),
    ] {
        let mut only_read = sized(name, bytes(size));
        only_read.work.blocks_mut().unwrap().files.read_only = true;
        let message = &bind(only_read).unwrap_err()[0].message;
        assert!(message.contains(words), "{message}");
    }
    let mut checks = sized("old", bytes(9 * MIB));
    checks.work.blocks_mut().unwrap().verify = Some(Verify {
        only: true,
        ..Verify::default()
    });
    let message = &bind(checks).unwrap_err()[0].message;
    assert!(
        message.contains("`verify_only` extends nothing"),
        "{message}"
    );
    let mut waits = sized("old", None);
    waits.after = After::Job("j".into());
    let words = &bind(waits).unwrap_err()[0].message;
    assert!(words.contains("waits for a job `j`"), "{words}");
    let both = plan(
        "/t",
        vec![sized("pipe:/no/where", None), sized("new", None)],
    );
    assert_eq!(resolve(&both, &Fake::new()).unwrap_err().len(), 3);
}

#[test]
fn a_job_that_only_reads_finds_what_earlier_jobs_create_or_extend() {
    let check = |name: &str, size| {
        let mut job = sized(name, size);
        job.work.blocks_mut().unwrap().verify = Some(Verify {
            only: true,
            ..Verify::default()
        });
        job
    };
    let bind = |jobs| resolve(&plan("/t", jobs), &Fake::new());
    for (name, size, length) in [
        ("new", bytes(2 * MIB), 2 * MIB),
        ("new", None, 2 * MIB),
        ("new", percent(50.0), MIB),
        ("empty", bytes(2 * MIB), 2 * MIB),
        ("old", None, 8 * MIB),
    ] {
        let jobs = vec![sized(name, bytes(2 * MIB)), check(name, size)];
        let clone = &bind(jobs).unwrap().clones[1];
        assert_eq!(clone.files[0].length, length, "{name} {size:?}");
    }
    let fails = |jobs: [Job; 2], words: &str| {
        let message = &bind(jobs.to_vec()).unwrap_err()[0].message;
        assert!(message.contains(words), "{message}");
    };
    let write = || sized("new", bytes(2 * MIB));
    let nothing = "does not exist, and `verify_only` creates nothing";
    fails([check("new", bytes(MIB)), write()], nothing);
    fails(
        [sized("other", bytes(MIB)), check("new", bytes(MIB))],
        nothing,
    );
    fails(
        [write(), check("new", bytes(3 * MIB))],
        "has 2 MiB, the job needs 3 MiB",
    );
}

#[test]
fn an_error_of_all_clones_is_reported_once() {
    let mut job = sized("pipe", bytes(MIB));
    job.clones = 64;
    assert_eq!(bind(job).unwrap_err().len(), 1);
}

#[test]
fn engines_without_files_need_only_a_size() {
    let mut job = sized("new", bytes(MIB));
    job.work.blocks_mut().unwrap().engine = Engine::new(EngineKind::Null, 4);
    job.work.blocks_mut().unwrap().files.names.clear();
    check(job.clone(), &[&[(0, MIB)]], MIB);
    // Whole blocks of each, like for real files.
    job.work.blocks_mut().unwrap().files.count = 3;
    let thirds = [(0, MIB / 3); 3];
    check(job.clone(), &[&thirds], 255 * 4096);
    job.work.blocks_mut().unwrap().extent.size = None;
    assert!(bind(job).unwrap_err()[0].message.contains("size"));
}

#[test]
fn a_target_replaces_the_files_of_a_job() {
    let mut plan = plan("/t", vec![sized("a:b", bytes(MIB))]);
    plan.configuration.target = Target::Path("/dev/d".into());
    let resolved = resolve(&plan, &Fake::new()).unwrap();
    let files = &resolved.clones[0].files;
    assert_eq!(
        (files.len(), files[0].length, files[0].kind),
        (1, MIB, FileKind::Device)
    );
    assert!(resolved.notes[0].contains("is used in place of its 2 files"));
}

#[test]
fn a_missing_target_is_not_created() {
    for path in ["/gone", "/gone/too"] {
        let mut plan = plan("/t", vec![sized("a", bytes(MIB))]);
        plan.configuration.target = Target::Path(path.into());
        let faults = resolve(&plan, &Fake::new()).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].message.contains(path), "{faults:?}");
    }
}

#[test]
fn missing_folders_of_relative_names_are_created_but_not_the_jobs_own_folder() {
    let found = bind(sized("no/where", bytes(MIB))).unwrap();
    let file = &found.clones[0].files[0];
    assert_eq!(
        (file.path.as_path(), file.existing),
        (Path::new("/t/no/where"), None)
    );
    let mut job = sized("where", bytes(MIB));
    job.work.blocks_mut().unwrap().files.directories = vec!["no".into()];
    let faults = bind(job).unwrap_err();
    assert!(
        faults[0]
            .message
            .contains("the folder `/t/no` does not exist"),
        "{faults:?}"
    );
}

/// Nothing of the host is looked at.
struct Blind;
impl Probe for Blind {
    fn look(&self, path: &Path) -> PathKind {
        panic!("{}", path.display())
    }
    fn is_link(&self, path: &Path) -> bool {
        panic!("{}", path.display())
    }
    fn free(&self, path: &Path) -> Option<u64> {
        panic!("{}", path.display())
    }
}

#[test]
fn paths_of_a_trial_in_virtual_time_are_not_looked_at() {
    let mut virtual_job = named("/etc/x");
    let blocks = virtual_job.work.blocks_mut().unwrap();
    blocks.engine.kind = EngineKind::Sim;
    blocks.extent.size = bytes(MIB);
    for target in [
        Target::Path("/nowhere/disk".into()),
        Target::AsWritten {
            folder: "/nowhere".into(),
        },
    ] {
        let mut plan = plan("/", vec![virtual_job.clone()]);
        plan.configuration.target = target;
        let found = resolve(&plan, &Blind).unwrap();
        assert_eq!(found.clones[0].files[0].path, Path::new("sim"));
    }
}

#[test]
fn a_simulated_target_refuses_engines_of_the_host() {
    let mut real = job("real");
    real.work.blocks_mut().unwrap().files.names = vec!["/etc/x".into()];
    let mut plan = plan("/", vec![real]);
    let target = iodyno_model::SimTarget::new("hdd".parse().unwrap());
    plan.configuration.target = Target::Simulated(Box::new(target));
    let faults = resolve(&plan, &Blind).unwrap_err();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].message.contains("job `real` is not simulated"));
    assert!(faults[0].hint.is_some());
}
