//! Files are named, laid out, kept and removed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use iodyno_model::{Amount, Direction, EndedBy, Fallocate, Outcome, Step};
use iodyno_runner::{Event, TrialEnd};
use iodyno_testing::{Loop, Mounted};
use rustix::fs::FallocateFlags;

use crate::samples::{job, plan};
use crate::stage::{MIB, attempts, on_file, run, watched};

crate::tests![
    a_missing_file_is_laid_out_once_with_data_that_does_not_compress,
    a_short_file_keeps_its_content_and_a_long_one_is_not_truncated,
    a_writer_gets_space_and_no_data,
    clones_have_separate_files_distributed_over_folders,
    unlink_removes_after_the_trial,
    create_only_lays_out_and_ends,
    every_error_is_reported_and_nothing_is_created,
    a_layout_that_cannot_fit_is_refused_before_it_begins,
    an_interrupted_layout_leaves_no_incomplete_file,
    nothing_is_written_before_the_admitted_targets_are_known,
    the_disk_of_a_loop_device_is_refused,
    a_target_folder_contains_the_files_of_the_jobs,
    a_disk_that_fills_up_during_layout_leaves_no_files,
    a_blank_device_is_written_by_all_clones,
    a_device_behind_a_link_with_a_generated_name_is_refused,
];

const READ: &[Direction] = &[Direction::Read];
const WRITE: &[Direction] = &[Direction::Write];

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn a_missing_file_is_laid_out_once_with_data_that_does_not_compress() {
    let folder = tempfile::tempdir().unwrap();
    let mut shared = on_file("r", "f", READ, 8 * MIB);
    shared.clones = 3;
    let told = run(folder.path(), vec![shared.clone()]);
    let part = told.completed();
    assert_eq!(part.files.len(), 1);
    let file = &part.files[0];
    assert!(file.laid_out && file.length == 8 * MIB && !file.device);
    assert!(matches!(file.unwritten, Some(0) | None), "{file:?}");
    let layout = part
        .steps
        .iter()
        .find(|time| time.step == Step::LayOut)
        .unwrap();
    assert!(layout.start_ns < 0 && layout.job.is_none());
    assert_eq!(
        told.progress.last(),
        Some(&(Step::LayOut, 8 * MIB, 8 * MIB))
    );
    let data = fs::read(folder.path().join("f")).unwrap();
    let mut words: Vec<&[u8]> = data.chunks(8).collect();
    words.sort_unstable();
    words.dedup();
    assert!(words.len() > data.len() / 8 - 10, "words repeat");
    let again = run(folder.path(), vec![shared]);
    assert!(!again.completed().files[0].laid_out && again.progress.is_empty());
    assert_eq!(fs::read(folder.path().join("f")).unwrap(), data);
}

fn a_short_file_keeps_its_content_and_a_long_one_is_not_truncated() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("short"), b"existing content stays").unwrap();
    fs::write(at("long"), vec![7; 3 * MIB as usize]).unwrap();
    let jobs = vec![
        on_file("a", "short", READ, 2 * MIB),
        on_file("b", "long", READ, 2 * MIB),
        on_file("c", "long", WRITE, MIB),
    ];
    let told = run(folder.path(), jobs);
    let part = told.completed();
    assert!(part.files[0].laid_out && !part.files[1].laid_out);
    let short = fs::read(at("short")).unwrap();
    assert!(short.starts_with(b"existing content stays") && short.len() as u64 == 2 * MIB);
    assert_eq!(fs::metadata(at("long")).unwrap().len(), 3 * MIB);
}

fn a_writer_gets_space_and_no_data() {
    let folder = tempfile::tempdir().unwrap();
    for (fallocate, length) in [
        (Fallocate::None, 0),
        (Fallocate::KeepSize, 0),
        (Fallocate::Native, 4 * MIB),
        (Fallocate::Posix, 4 * MIB),
        (Fallocate::Truncate, 4 * MIB),
    ] {
        let mut job = on_file("w", &format!("{fallocate:?}"), WRITE, 4 * MIB);
        job.work.blocks_mut().unwrap().files.fallocate = fallocate;
        let told = run(folder.path(), vec![job]);
        let part = told.completed();
        assert_eq!(part.files[0].length, length, "{fallocate:?}");
        assert_eq!(
            part.clones[0].direction(Direction::Write).unwrap().bytes,
            4 * MIB
        );
        let after = fs::metadata(folder.path().join(format!("{fallocate:?}"))).unwrap();
        assert_eq!(after.len(), 4 * MIB);
    }
}

fn clones_have_separate_files_distributed_over_folders() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    fs::create_dir(folder.path().join("b")).unwrap();
    let mut job = job("j");
    job.clones = 3;
    job.work.blocks_mut().unwrap().files.directories = vec!["a".into(), "b".into()];
    job.work.blocks_mut().unwrap().files.count = 2;
    job.work.blocks_mut().unwrap().extent.size = Some(Amount::Bytes(MIB));
    let told = run(folder.path(), vec![job]);
    assert_eq!(told.completed().files.len(), 6);
    let a = ["j.0.0", "j.0.1", "j.2.0", "j.2.1"];
    assert_eq!(names(&folder.path().join("a")), a);
    assert_eq!(names(&folder.path().join("b")), ["j.1.0", "j.1.1"]);
    let length = |name: &str| fs::metadata(folder.path().join(name)).unwrap().len();
    assert_eq!(length("a/j.0.0"), MIB / 2);
}

fn unlink_removes_after_the_trial() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = on_file("w", "f", WRITE, MIB);
    job.work.blocks_mut().unwrap().files.unlink = true;
    let told = run(folder.path(), vec![job]);
    let part = told.completed();
    assert!(part.steps.iter().any(|time| time.step == Step::TearDown));
    assert!(names(folder.path()).is_empty());
}

fn create_only_lays_out_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = on_file("c", "f", READ, MIB);
    job.work.blocks_mut().unwrap().files.create_only = true;
    let told = run(folder.path(), vec![job]);
    let part = told.completed();
    assert!(part.files[0].laid_out);
    assert_eq!(part.clones[0].ended, EndedBy::Size);
    assert!(part.clones[0].directions.is_empty());
    assert_eq!(fs::metadata(folder.path().join("f")).unwrap().len(), MIB);
}

fn every_error_is_reported_and_nothing_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = on_file("l", "new", WRITE, MIB);
    log.logs.latency = Some("nowhere/x".into());
    let jobs = vec![
        on_file("a", "/missing/f", WRITE, MIB),
        on_file("b", "new", WRITE, 100),
        on_file("c", "also-new", WRITE, MIB),
    ];
    let told = run(folder.path(), jobs);
    let TrialEnd::Unprepared(faults) = &told.end else {
        panic!("{:?}", told.end);
    };
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].message.contains("missing") && faults[1].message.contains("100 B"));
    let told = run(folder.path(), vec![log]);
    let TrialEnd::Unprepared(faults) = &told.end else {
        panic!("{:?}", told.end);
    };
    assert!(
        faults[0].message.contains("nowhere/x_lat.1.log"),
        "{faults:?}"
    );
    assert!(names(folder.path()).is_empty());
}

fn a_layout_that_cannot_fit_is_refused_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let told = run(folder.path(), vec![on_file("r", "f", READ, 1 << 50)]);
    let TrialEnd::Refused(faults) = &told.end else {
        panic!("{:?}", told.end);
    };
    assert!(faults[0].message.contains("more are needed"), "{faults:?}");
    assert!(names(folder.path()).is_empty());
}

fn nothing_is_written_before_the_admitted_targets_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = vec![on_file("a", "f", READ, MIB)];
    let mut told = Vec::new();
    let _ = watched(&plan(folder.path(), jobs), |event, stop| {
        if let Event::Admitted { targets } = event {
            let length = fs::metadata(folder.path().join("f")).unwrap().len();
            told.push((targets.len(), length));
            stop.finish();
        }
    });
    assert_eq!(told, [(1, 0)]);
    assert!(names(folder.path()).is_empty());
}

fn an_interrupted_layout_leaves_no_incomplete_file() {
    attempts(|| {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("old"), b"old").unwrap();
        let jobs = vec![
            on_file("a", "old", READ, 1 << 30),
            on_file("b", "new", READ, 1 << 30),
        ];
        let told = watched(&plan(folder.path(), jobs), |event, stop| {
            if matches!(event, Event::Progress { .. }) {
                stop.finish();
            }
        });
        // A complete file is kept.
        if fs::metadata(at("old")).unwrap().len() == 1 << 30 {
            return None;
        }
        let TrialEnd::Failed { outcome, death } = &told.end else {
            panic!("{:?}", told.end);
        };
        assert!(matches!(outcome, Outcome::Interrupted(_)) && death.is_none());
        assert_eq!(names(folder.path()), ["old"]);
        assert_eq!(fs::read(at("old")).unwrap(), b"old");
        Some(())
    });
}

fn the_disk_of_a_loop_device_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::write(&disk, vec![0; MIB as usize]).unwrap();
    let Some(attached) = Loop::on(&disk) else {
        return;
    };
    let told = run(folder.path(), vec![on_file("w", "disk", WRITE, MIB)]);
    drop(attached);
    let TrialEnd::Refused(faults) = &told.end else {
        panic!("{:?}", told.end);
    };
    assert!(
        faults[0].message.contains("is the disk of loop"),
        "{faults:?}"
    );
    assert!(faults[0].hint.is_some());
    assert!(fs::read(&disk).unwrap().iter().all(|byte| *byte == 0));
}

fn a_blank_device_is_written_by_all_clones() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::write(&disk, vec![0; 16 * MIB as usize]).unwrap();
    let Some(attached) = Loop::on(&disk) else {
        return;
    };
    let mut job = on_file("w", attached.path(), WRITE, MIB);
    job.clones = 3;
    job.work.blocks_mut().unwrap().extent.size = None;
    job.work.blocks_mut().unwrap().extent.offset_increment = Amount::Percent(25.0);
    job.work.blocks_mut().unwrap().engine.direct = true;
    let told = run(folder.path(), vec![job]);
    let part = told.completed();
    let regions: Vec<u64> = part.clones.iter().map(|c| c.region_bytes / MIB).collect();
    assert_eq!(regions, [16, 12, 8]);
    assert_eq!(part.files.len(), 1);
    assert!(part.files[0].device && part.files[0].length == 16 * MIB);
    let written: u64 = part.host.devices[0].bytes[1];
    assert!(written >= 36 * MIB, "{:?}", part.host.devices);
}

fn a_device_behind_a_link_with_a_generated_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::write(&disk, vec![0; MIB as usize]).unwrap();
    let Some(attached) = Loop::on(&disk) else {
        return;
    };
    std::os::unix::fs::symlink(attached.path(), folder.path().join("w.0.0")).unwrap();
    let mut job = on_file("w", "", WRITE, MIB);
    job.work.blocks_mut().unwrap().files.names.clear();
    let told = run(folder.path(), vec![job]);
    drop(attached);
    let TrialEnd::Refused(faults) = &told.end else {
        panic!("{:?}", told.end);
    };
    assert!(
        faults[0].message.contains("that the user did not name"),
        "{faults:?}"
    );
    assert!(fs::read(&disk).unwrap().iter().all(|byte| *byte == 0));
}

fn a_disk_that_fills_up_during_layout_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mounted) = Mounted::tmpfs(folder.path(), "size=768m") else {
        return;
    };
    let jobs = ["a", "b"].map(|name| {
        let mut job = on_file(name, name, READ, 350 * MIB);
        job.work.blocks_mut().unwrap().files.fallocate = Fallocate::None;
        job
    });
    attempts(|| {
        // The free space that would remain is taken in one step, and not returned.
        let (mut other, mut taken) = (None, false);
        let told = watched(&plan(folder.path(), jobs.to_vec()), |event, _| {
            if other.is_none()
                && matches!(event, Event::Progress { done, total, .. } if done < total)
            {
                let file = fs::File::create(folder.path().join("other")).unwrap();
                taken = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 100 * MIB).is_ok();
                other = Some(file);
            }
        });
        if !taken {
            for name in names(folder.path()) {
                fs::remove_file(folder.path().join(name)).unwrap();
            }
            return None;
        }
        let TrialEnd::Unprepared(faults) = &told.end else {
            panic!("{:?}", told.end);
        };
        assert!(faults[0].message.contains("cannot lay out"), "{faults:?}");
        assert!(faults[0].message.contains("No space left"), "{faults:?}");
        assert!(faults[0].hint.as_ref().unwrap().contains("free space"));
        assert_eq!(names(folder.path()), ["other"]);
        Some(())
    });
    drop(mounted);
}

fn a_target_folder_contains_the_files_of_the_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let mut trial = plan("/", vec![on_file("w", "/somewhere/f", WRITE, MIB)]);
    trial.configuration.target = iodyno_model::Target::Path(folder.path().to_owned());
    let told = watched(&trial, |_, _| {});
    assert_eq!(told.completed().files.len(), 1);
    assert_eq!(names(folder.path()), ["f"]);
    assert_eq!(fs::metadata(folder.path().join("f")).unwrap().size(), MIB);
}
