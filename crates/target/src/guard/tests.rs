//! How often the guard looks at how the host uses files.

use std::fs;

use super::*;
use crate::fake::FakeHost;

/// As many files as one likes cost a look each half second: a look at the whole host for each would take the most part
/// of the time in which thousands are admitted.
#[test]
fn that_a_file_is_not_used_is_known_for_half_a_second_and_that_it_is_for_no_time_at_all() {
    const HEAD: &str = "Filename Type Size Used Priority\n";
    let host = FakeHost::new();
    let path = host.path("swapfile");
    fs::write(&path, "").unwrap();
    let swapped = format!("{HEAD}{} file 1024 0 -2\n", path.display());
    let uses = [Reason::SwapFile { path: path.clone() }];
    let file = Pinned::path(&path).unwrap().file;
    let guard = Guard::new(host.roots.clone());
    let begin = Instant::now();
    let at = |ms: u64| guard.file_uses_at(file, begin + Duration::from_millis(ms));
    assert_eq!(at(0), []);
    host.write("proc/swaps", &swapped);
    // The host is not asked.
    for ms in 0..500 {
        assert_eq!(at(ms), [], "{ms}");
    }
    assert_eq!(at(500), uses);
    // It is asked again each time, and what it says then is good for as long again.
    host.write("proc/swaps", HEAD);
    assert_eq!(at(501), []);
    host.write("proc/swaps", &swapped);
    assert_eq!(at(1000), []);
    assert_eq!(at(1001), uses);
}
