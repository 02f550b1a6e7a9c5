//! Any text as the output of `zpool iostat -v`: no panic, and no report has two rows of one name.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let all = iodyno_telemetry::pool_reports(text, false);
    let kept = iodyno_telemetry::pool_reports(text, true);
    assert!(
        kept.len() < all.len().max(1),
        "the first counts from the boot on"
    );
    for report in &all {
        assert!(!report.rows.is_empty());
        let names: HashSet<&str> = report.rows.iter().map(|row| row.path.as_str()).collect();
        assert_eq!(names.len(), report.rows.len());
    }
});
