//! Free space on simulated file systems and on that of the temporary folder, and groups of needs.

use super::*;

/// Free space of a simulated host.
const ROOM: Room = Room {
    bytes: 1000,
    inodes: Some(50),
};

fn need(folder: &Path, bytes: u64) -> Need {
    Need {
        folder: folder.to_owned(),
        bytes,
        inodes: 1,
        longest: bytes,
    }
}

#[test]
fn files_that_fit_are_not_reported() {
    let folder = tempfile::tempdir().unwrap();
    let needs = [
        need(folder.path(), 4096),
        need(&folder.path().join("not/yet"), 4096),
    ];
    assert_eq!(check(&Roots::host(), &needs), []);
    assert_eq!(check(&Roots::host(), &[]), []);
}

#[test]
fn folders_of_one_file_system_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let check = |needs: &[Need]| check_by(|_| Ok(ROOM), &Roots::host(), needs);
    assert_eq!(check(&[need(&one, 600)]), []);
    assert_eq!(check(&[need(&one, 600), need(&two, 400)]), []);
    let lacks = check(&[need(&one, 600), need(&two, 401)]);
    let shortage = Shortage::Bytes {
        folders: vec![one, two],
        needed: 1001,
        free: 1000,
    };
    assert_eq!(lacks, [shortage]);
    assert!(lacks[0].to_string().contains("hint: "));
}

#[test]
fn too_many_files_lack_inodes_if_these_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let many = |inodes| Need {
        inodes,
        ..need(folder.path(), 0)
    };
    let check = |inodes, room: Room| check_by(|_| Ok(room), &Roots::host(), &[many(inodes)]);
    assert_eq!(check(50, ROOM), []);
    let lack = Shortage::Inodes {
        folders: vec![folder.path().to_owned()],
        needed: 51,
        free: 50,
    };
    assert_eq!(check(51, ROOM), [lack]);
    let uncounted = Room {
        inodes: None,
        ..ROOM
    };
    assert_eq!(check(51, uncounted), []);
    // This host may or may not count inodes; no host has this number of them.
    let counts = room(folder.path()).unwrap().inodes.is_some();
    let lacks = super::check(&Roots::host(), &[many(u64::MAX)]);
    let inodes = |lack: &Shortage| matches!(lack, Shortage::Inodes { .. });
    assert_eq!(lacks.iter().any(inodes), counts, "{lacks:?}");
}

#[test]
fn sums_do_not_overflow() {
    let folder = tempfile::tempdir().unwrap();
    let all = Need {
        inodes: u64::MAX,
        ..need(folder.path(), u64::MAX)
    };
    let lacks = check(&Roots::host(), &[all.clone(), all]);
    assert!(lacks.iter().any(|lack| matches!(
        lack,
        Shortage::Bytes {
            needed: u64::MAX,
            ..
        }
    )));
}

#[test]
fn a_file_longer_than_its_file_system_permits_is_reported() {
    let place = |file_system: &str| Place {
        file_system: file_system.to_owned(),
        groups: Vec::new(),
    };
    let long = need(Path::new("/boot"), 4 << 30);
    let lacks = too_long(&long, &place("vfat"));
    assert!(
        lacks[0]
            .to_string()
            .contains("the file system (vfat) allows"),
        "{lacks:?}"
    );
    assert_eq!(
        too_long(&need(Path::new("/boot"), (4 << 30) - 1), &place("vfat")),
        []
    );
    assert_eq!(too_long(&long, &place("ext4")), []);
}

#[test]
fn quotas_of_one_part_do_not_limit_its_pool() {
    let mut group = Group::default();
    for (bytes, room) in [(10, 5), (10, 40)] {
        let inodes = None;
        group.add(
            &need(Path::new("/p"), bytes),
            Room {
                bytes: room,
                inodes,
            },
        );
    }
    assert_eq!(group.lacks(), []);
}
