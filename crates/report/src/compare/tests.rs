use super::samples::two_file_systems;
use super::*;

#[test]
fn every_kind_of_verdict_is_counted_once() {
    let counts = summary_counts(&two_file_systems(), "zfs");
    assert_eq!(
        counts.to_string(),
        "1 faster, 1 slower, 1 equivalent, 2 undecided, 1 not comparable, 1 without data"
    );
    assert_eq!(counts.all(), 7);
}
