//! How often the guard surveys how the host uses files.

use std::fs;

use super::*;
use crate::fake::FakeHost;

/// The host is surveyed at most once per half second, whatever the number of files: a survey for each file would
/// dominate the time to admit thousands.
#[test]
fn an_unused_file_is_cached_for_half_a_second_and_a_used_file_is_not_cached() {
    const HEAD: &str = "Filename Type Size Used Priority\n";
    let host = FakeHost::new();
    let path = host.path("swapfile");
    fs::write(&path, "").unwrap();
    let swapped = format!("{HEAD}{} file 1024 0 -2\n", path.display());
    let uses = [Reason::SwapFile { path: path.clone() }];
    let file = Pinned::path(&path).unwrap();
    let guard = Guard::new(host.roots.clone());
    let begin = Instant::now();
    let at = |ms: u64| guard.file_uses_at(&file, begin + Duration::from_millis(ms));
    assert_eq!(at(0), []);
    host.write("proc/swaps", &swapped);
    // The cached survey is used.
    for ms in 0..500 {
        assert_eq!(at(ms), [], "{ms}");
    }
    assert_eq!(at(500), uses);
    // The host is surveyed each time, and the result is valid for another half second.
    host.write("proc/swaps", HEAD);
    assert_eq!(at(501), []);
    host.write("proc/swaps", &swapped);
    assert_eq!(at(1000), []);
    assert_eq!(at(1001), uses);
}
