//! File operations on real file systems: everything is counted, and only content that existed before remains.

use std::fs;
use std::path::Path;

use iodyno_model::{Action, Direction, Step};

use crate::stage::{LONG_MS, watched};
use crate::workloads::{
    creates, deletes, files, formatted, has, job, names, newest, ops, plan, stats, timed,
};

crate::tests![
    on_ext4,
    on_xfs,
    on_btrfs,
    clones_share_the_files_of_a_set_in_one_folder_or_in_their_own,
    set_up_is_reported_in_bytes_or_in_files_if_they_are_empty,
];

fn on_ext4() {
    everything(256, &["mkfs.ext4", "-q"]);
}

fn on_xfs() {
    everything(512, &["mkfs.xfs", "-q"]);
}

fn on_btrfs() {
    everything(512, &["mkfs.btrfs", "-q"]);
}

fn everything(mib: u64, make: &[&str]) {
    let Some(disk) = formatted(mib, make) else {
        return;
    };
    let mounted = disk.mount();
    let folder = mounted.path().join("bench");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("theirs"), "stays").unwrap();
    on_folder(&folder);
    assert_eq!(names(&folder), ["theirs".to_owned()].into());
    assert_eq!(fs::read_to_string(folder.join("theirs")).unwrap(), "stays");
}

fn on_folder(folder: &Path) {
    let mut deleting = deletes(40, 1 << 20);
    deleting.work.file_operations_mut().unwrap().drain = true;
    let told = watched(&plan(folder, vec![deleting]), |_, _| {});
    let part = told.completed();
    assert_eq!(ops(part, Direction::Op), 40);
    assert_eq!(ops(part, Direction::Unlink), 40);
    for step in [Step::LayOut, Step::Measure, Step::Drain, Step::TearDown] {
        assert!(has(part, step), "{step:?}: {:?}", part.steps);
    }
    let framed: u64 = told
        .frames
        .iter()
        .map(|frame| frame.ops(Direction::Op))
        .sum();
    assert_eq!(framed, 40);
    assert_eq!(part.files[0].length, 40 << 20);
    assert!(part.files[0].laid_out);

    let told = watched(&plan(folder, vec![creates(Some(50), LONG_MS)]), |_, _| {});
    let part = told.completed();
    let found = [Direction::Op, Direction::Create, Direction::SyncFolder].map(|d| ops(part, d));
    assert_eq!(found, [50; 3]);
    assert!(!has(part, Step::LayOut) && has(part, Step::TearDown));

    let cycle = [
        Action::Create,
        Action::Write { bytes: 100_000 },
        Action::Sync,
        Action::Close,
        Action::Rename { of: newest() },
        Action::Stat { of: newest() },
        Action::Mkdir,
        Action::Readdir,
        Action::Statfs,
        Action::Rmdir,
        Action::Unlink {
            of: iodyno_model::Subject::Current,
        },
    ];
    let mut all = job(vec![files(10, 0)], cycle.map(timed).to_vec());
    all.end.ops = Some(30);
    let told = watched(&plan(folder, vec![all]), |_, _| {});
    let part = told.completed();
    assert_eq!(ops(part, Direction::Op), 30);
    let clone = &part.clones[0];
    assert_eq!(
        clone.direction(Direction::Write).unwrap().bytes,
        30 * 100_000
    );
    assert_eq!(clone.directions.len(), 12, "{:?}", clone.directions);
}

fn clones_share_the_files_of_a_set_in_one_folder_or_in_their_own() {
    for own_folders in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut deleting = deletes(50, 4096);
        deleting.clones = 3;
        deleting.work.file_operations_mut().unwrap().own_folders = own_folders;
        let mut stating = stats(5, LONG_MS);
        stating.end.ops = Some(200);
        let plan = plan(folder.path(), vec![deleting, stating]);
        let told = watched(&plan, |_, _| {});
        let part = told.completed();
        assert_eq!(ops(part, Direction::Unlink), 50);
        let each = part.clones.iter().map(|clone| {
            let unlinked = clone.direction(Direction::Unlink);
            unlinked.map_or(0, |result| result.ops)
        });
        assert_eq!(each.collect::<Vec<u64>>(), [17, 17, 16, 0]);
        assert_eq!(part.clones[3].direction(Direction::Stat).unwrap().ops, 200);
        let region: u64 = part.clones[..3]
            .iter()
            .map(|clone| clone.region_bytes)
            .sum();
        assert_eq!(region, 50 * 4096);
        assert_eq!(names(folder.path()).len(), 0);
    }
}

fn set_up_is_reported_in_bytes_or_in_files_if_they_are_empty() {
    for (size, total) in [(1000, 60_000), (0, 60)] {
        let folder = tempfile::tempdir().unwrap();
        let told = watched(&plan(folder.path(), vec![deletes(60, size)]), |_, _| {});
        let part = told.completed();
        assert_eq!(ops(part, Direction::Op), 60);
        let of = |step| told.progress.iter().filter(move |told| told.0 == step);
        assert_eq!(
            of(Step::LayOut).next_back(),
            Some(&(Step::LayOut, total, total))
        );
        let last = of(Step::TearDown).next_back().unwrap();
        // Only the job's folder remains.
        assert_eq!((last.1, last.2), (1, 1));
    }
}
