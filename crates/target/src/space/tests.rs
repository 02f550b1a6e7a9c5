//! Room on the file system of the temporary folder, and groups of needs.

use super::*;

fn need(folder: &Path, bytes: u64) -> Need {
    Need {
        folder: folder.to_owned(),
        bytes,
        inodes: 1,
        longest: bytes,
    }
}

#[test]
fn what_fits_lacks_nothing() {
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
    let free = room(folder.path()).unwrap().bytes;
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let half = free / 2 + free / 4;
    assert_eq!(check(&Roots::host(), &[need(&one, half)]), []);
    let lacks = check(&Roots::host(), &[need(&one, half), need(&two, half)]);
    let [
        Shortage::Bytes {
            folders,
            needed,
            free: left,
        },
    ] = &lacks[..]
    else {
        panic!("{lacks:?}")
    };
    assert_eq!((folders, *needed), (&vec![one, two], 2 * half));
    assert!(*left < 2 * half);
    assert!(lacks[0].to_string().contains("hint: "));
}

#[test]
fn too_many_files_lack_inodes_where_they_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let Some(free) = room(folder.path()).unwrap().inodes else {
        return;
    };
    let many = Need {
        inodes: free + 1_000_000,
        ..need(folder.path(), 0)
    };
    let lacks = check(&Roots::host(), &[many]);
    assert!(matches!(&lacks[..], [Shortage::Inodes { .. }]), "{lacks:?}");
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
fn a_file_longer_than_its_file_system_allows_is_told() {
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
fn quotas_of_one_part_do_not_hide_the_room_of_its_pool() {
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
