//! Sums of extents, and files with holes on this host.

use std::fs::File;
use std::os::unix::fs::FileExt;

use iodyno_sys::host::Extent;
use proptest::prelude::*;

use super::*;

fn extent(offset: u64, length: u64, unwritten: bool) -> Extent {
    Extent {
        offset,
        length,
        unwritten,
    }
}

#[test]
fn extents_are_summed_up_to_the_length() {
    for (extents, length, holes, reserved) in [
        (vec![], 0, 0, 0),
        (vec![], 100, 100, 0),
        (vec![extent(0, 100, false)], 100, 0, 0),
        (vec![extent(0, 128, false)], 100, 0, 0),
        (
            vec![extent(10, 20, false), extent(50, 10, true)],
            100,
            70,
            10,
        ),
        (vec![extent(90, 20, true)], 100, 90, 10),
        (vec![extent(200, 20, true)], 100, 100, 0),
        (vec![extent(0, 60, false), extent(40, 60, true)], 100, 0, 40),
    ] {
        assert_eq!(
            sum(&extents, length),
            Unwritten { holes, reserved },
            "{extents:?}"
        );
    }
}

proptest! {
    #[test]
    fn at_most_the_length_of_the_file_is_unwritten(
        extents in prop::collection::vec((any::<u64>(), any::<u64>(), any::<bool>()), 0..20),
        length in any::<u64>(),
    ) {
        let extents: Vec<Extent> = extents.into_iter().map(|(o, l, u)| extent(o, l, u)).collect();
        let found = sum(&extents, length);
        prop_assert!(u128::from(found.holes) + u128::from(found.reserved) <= u128::from(length));
    }
}

#[test]
fn unwritten_parts_are_distinguished_from_written_ones() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    let Some(sparse) = unwritten(&file).unwrap() else {
        return;
    };
    assert_eq!(sparse.bytes(), 1 << 20);
    file.write_all_at(&[7; 256 << 10], 512 << 10).unwrap();
    let part = unwritten(&file).unwrap().unwrap();
    assert_eq!(part.bytes(), 768 << 10);
    file.write_all_at(&vec![7; 1 << 20], 0).unwrap();
    assert_eq!(unwritten(&file).unwrap(), Some(Unwritten::default()));
}

#[test]
fn reserved_space_counts_as_unwritten() {
    let file = tempfile::tempfile().unwrap();
    let reserve = rustix::fs::FallocateFlags::empty();
    if rustix::fs::fallocate(&file, reserve, 0, 1 << 20).is_err() {
        return;
    }
    let found = unwritten(&file).unwrap();
    assert_eq!(found.map(Unwritten::bytes), Some(1 << 20));
}

#[test]
fn a_file_of_many_extents_is_read_to_its_end() {
    let file = tempfile::tempfile().unwrap();
    let blocks = 1500;
    file.set_len(blocks * 8192).unwrap();
    for block in 0..blocks {
        file.write_all_at(&[1; 4096], block * 8192).unwrap();
    }
    let found = unwritten(&file).unwrap().unwrap();
    assert_eq!(found.bytes(), blocks * 4096);
}

#[test]
fn holes_are_found_by_seeking_too() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    file.write_all_at(&[7; 64 << 10], 512 << 10).unwrap();
    file.sync_all().unwrap();
    let found = by_seeking(file.as_fd(), 1 << 20, 64 << 10).unwrap();
    assert_eq!(found.map(|found| found.holes), Some((1 << 20) - (64 << 10)));
    // No holes are reported in a file with too few blocks: the file system does not support holes.
    file.write_all_at(&vec![7; 1 << 20], 0).unwrap();
    assert_eq!(by_seeking(file.as_fd(), 1 << 20, 4096).unwrap(), None);
    assert_eq!(
        by_seeking(file.as_fd(), 1 << 20, 1 << 20).unwrap(),
        Some(Unwritten::default())
    );
}

#[test]
fn only_regular_files_have_extents() {
    for path in ["/dev/null", "/"] {
        assert_eq!(unwritten(File::open(path).unwrap()).unwrap(), None);
    }
}
