use iodyno_model::Contradiction;
use proptest::prelude::*;

use super::quantity::count;
use crate::{Options, Text, read};

fn contradictions(text: &str) -> Vec<Contradiction> {
    let text = Text {
        source: "t.md",
        text,
    };
    read(&[text], &Options::default()).contradictions
}

/// (line, line of the figures) of each.
fn lines(text: &str) -> Vec<(u32, u32)> {
    let found = contradictions(text).into_iter();
    found.map(|it| (it.at.line, it.against.line)).collect()
}

/// The closing row of a timed test that creates files.
fn created(ops: u64) -> String {
    let head = "____optype__elapsed_____ops(total)___ops/sec(cum)__avg(ms)__p50(ms)__p95(ms)__p99(ms)_pMax(ms)";
    let rate = ops as f64 / 600.0;
    format!("```\n{head}\ncreate_emp   600.0s {ops} {rate:.1} 1.6 1.6 2.0 2.5 67.1\n```\n")
}

/// The closing rows of tests that delete 2000 files.
fn deleted(rates: &[f64]) -> String {
    let rows: Vec<String> = rates
        .iter()
        .map(|rate| format!("fsbench/delete_2k_1MB  2000 {rate} ops/sec\n"))
        .collect();
    rows.join("\n")
}

#[test]
fn a_count_in_prose_is_compared_with_the_ops_below_the_same_heading() {
    for (words, contradicted) in [
        ("Around ~360k files were created over 600 seconds.", true),
        ("About 390k files were created.", false),
        // One digit: 300k can be 350k, and 400k less than that.
        ("~300k files were created.", false),
        ("~400k files were created.", false),
        ("~200k files were created.", true),
        ("386438 files were created.", false),
        ("386439 files were created.", true),
        ("386,439 files were created in all.", true),
        ("360k empty files were created.", true),
        // Something else, or not a count of what was measured.
        ("360k files were deleted.", false),
        ("360k files were created outside the timer.", false),
        ("360k files were created per directory.", false),
        ("Create 360k files.", false),
        ("360k users were created.", false),
        ("If 360k files were created, it would take longer.", false),
        ("Between 360k files and 400k files were created.", false),
    ] {
        let text = format!(
            "# ext4\n{}\n- {words}\n\n# zfs\n{}",
            created(386_438),
            created(600_000)
        );
        let expected: &[(u32, u32)] = if contradicted { &[(7, 3)] } else { &[] };
        assert_eq!(lines(&text), expected, "{words}");
    }
}

#[test]
fn a_clause_that_names_a_configuration_is_about_its_results() {
    for (words, expected) in [
        (
            "Over 600 seconds, ext4 created ~390k files, and zfs created ~600k files.",
            vec![],
        ),
        (
            "Over 600 seconds, ext4 created ~600k files, and zfs created ~600k files.",
            vec![(15, 5)],
        ),
        (
            "Over 600 seconds, ext4 created ~390k files, and zfs created ~390k files.",
            vec![(15, 10)],
        ),
        // Which of both is not said.
        ("ext4 and zfs created ~390k files.", vec![]),
    ] {
        let text = format!(
            "# Test\n\n## ext4\n{}## zfs\n{}\n{words}\n",
            created(386_438),
            created(600_000)
        );
        let text = text.replace(&format!("\n{words}"), &format!("\n\n{words}"));
        assert_eq!(lines(&text), expected, "{text}");
    }
}

#[test]
fn a_limit_of_a_time_is_compared_with_each_trial() {
    for (words, contradicted) in [
        ("2000 files get deleted in under 3 seconds.", true),
        ("2000\nfiles get\ndeleted within 3 s.", true),
        ("The files were removed in less than 4 seconds.", false),
        ("The files were removed in more than 2 seconds.", false),
        ("The files were removed in at least 2500 ms.", true),
        ("9000 files get deleted in under 3 seconds.", false),
        ("Files get created in under 3 seconds.", false),
        ("2000 files get deleted in 3 seconds.", false),
    ] {
        let text = format!("# ext4\n{}\nSo:\n- {words}\n", deleted(&[1000.0, 500.0]));
        assert_eq!(!lines(&text).is_empty(), contradicted, "{words}");
    }
    let found = contradictions(&format!(
        "{}\n2000 files were deleted in under 3 seconds.",
        deleted(&[1000.0, 500.0])
    ));
    assert_eq!(found[0].shown, "longer in 1 of 2 trials: 4.00 s");
    assert_eq!(found[0].against.line, 3);
}

#[test]
fn a_product_in_prose_is_computed_again() {
    let result = deleted(&[1000.0]);
    for (words, contradicted) in [
        ("Note that 2000 2MB files is already 400GB of data.", true),
        (
            "Note that 2000 200MB files is already 400GB of data.",
            false,
        ),
        ("1000 1 MiB files are 1 GB.", false),
        ("10k 4KiB files make about 40 MB of data.", false),
        ("10k 4KiB files make 4 GB.", true),
        ("2000 2MB files are on a 400GB disk.", true),
        ("2000 2MB files were on a 400GB disk.", false),
    ] {
        let found = contradictions(&format!("{result}\n{words}"));
        assert_eq!(!found.is_empty(), contradicted, "{words}: {found:?}");
    }
    let found = contradictions(&format!("{result}\n2000 2MB files is already 400GB."));
    assert_eq!(found[0].shown, "2000 × 1.91 MiB is 3.73 GiB");
}

#[test]
fn a_size_of_virtual_disks_is_compared_with_listed_properties() {
    let text = |words: &str, listed: &str| {
        format!(
            "# A\n\n{words}\n\n```\n{listed}\n```\n\n# B\n\n```\np/b  volsize  100G  local\n```\n{}",
            deleted(&[1.0])
        )
    };
    let listed = "p/a  volsize      20G   local\np/a  volblocksize 4K -";
    for (words, listed, expected) in [
        (
            "- 100G virtual disks using `virtio-block`",
            listed,
            vec![(3, 6)],
        ),
        ("- 20G virtual disks", listed, vec![]),
        ("- 20 GiB zvols", listed, vec![]),
        ("- 21.5GB volumes", listed, vec![]),
        ("- a 1TB disk", listed, vec![]),
        ("- 100G virtual disks", "NAME USED\np/a 20G", vec![]),
        (
            "- 40G disk images",
            "virtual size: 20 GiB (21474836480 bytes)",
            vec![(3, 6)],
        ),
        (
            "- 40G disk images",
            "$ qemu-img create -f raw a.img 40G",
            vec![],
        ),
        ("- 40G zvols", "$ zfs create -V 20G p/a", vec![(3, 6)]),
    ] {
        assert_eq!(lines(&text(words, listed)), expected, "{words} {listed}");
    }
}

#[test]
fn a_description_of_the_set_up_is_about_the_sections_beside_it() {
    for (heading, expected) in [("## Setup", vec![(4, 8)]), ("## First test", vec![])] {
        let listed = "```\nvolsize 20G\n```";
        let text = format!(
            "# A\n{heading}\n\n100G zvols\n\n## Test\n{listed}\n{}",
            deleted(&[1.0])
        );
        assert_eq!(lines(&text), expected, "{heading}");
    }
}

const LISTING: &str = "       CPU0    CPU1\n 24:  999000  1000  xen-dyn-event blkif\n 25:  500000  500000  xen-dyn-event vif0\n";

#[test]
fn balanced_interrupts_are_judged_by_source() {
    let queues = "       CPU0    CPU1\n 24:  999000  0  PCI-MSI 1-edge nvme0q1\n 25:  0  999000  PCI-MSI 2-edge nvme0q2\n";
    let rare = LISTING.replace("999000  1000", "9990  10");
    for (words, listing, contradicted) in [
        ("This balance of irq is working fine.", LISTING, true),
        ("The interrupts are spread evenly.", LISTING, true),
        ("The interrupts are not spread evenly.", LISTING, false),
        ("Test for irq balance:", LISTING, false),
        ("The load is balanced well.", LISTING, false),
        ("The interrupts are spread evenly.", queues, false),
        ("The interrupts are spread evenly.", &rare, false),
    ] {
        let found = contradictions(&format!("{words}\n\n{listing}"));
        assert_eq!(
            !found.is_empty(),
            contradicted,
            "{words} {listing} {found:?}"
        );
    }
    let found = contradictions(&format!("The irqs are balanced.\n\n{LISTING}"));
    assert_eq!(
        found[0].shown,
        "since boot, one CPU received nearly all interrupts of 1 of 2 sources: 24 (blkif): 99.9 % on CPU0: 999 000 of 1 000 000"
    );
}

/// Figures of sysbench without its command.
fn sysbench(threads: f64, sum_ms: f64) -> String {
    let mean = 6000.0 / threads;
    format!(
        "File operations:\n    reads/s: 12\n    writes/s: 8\n    fsyncs/s: 0\n\nThroughput:\n    read, MiB/s: 0.1\n    written, MiB/s: 0.1\n\n\
         General statistics:\n    total time: 300.0s\n    total number of events: 6000\n\nLatency (ms):\n    min: 0.1\n    avg: 1.0\n    \
         max: 9.0\n    95th percentile: 2.0\n    sum: {sum_ms}\n\nThreads fairness:\n    events (avg/stddev): {mean:.4}/0.00\n    \
         execution time (avg/stddev): {:.4}/0.00\n",
        sum_ms / 1e3 / threads
    )
}

#[test]
fn the_options_of_a_prepare_command_are_compared_with_a_result_without_its_command() {
    let prepare = "sysbench fileio --threads=16 --file-test-mode=rndrd prepare";
    let text = format!("{prepare}\n\n{}", sysbench(1.0, 292_000.0));
    let found = contradictions(&text);
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].shown,
        "the result has 1 thread, mode rndrw: it was not measured with the options of this command"
    );
    let fitting = "sysbench fileio --threads=16 --file-test-mode=rndrw prepare";
    let text = format!("{fitting}\n\n{}", sysbench(16.0, 4_700_000.0));
    assert_eq!(contradictions(&text), []);
    // Files can be prepared by other threads.
    let run = "sysbench fileio --threads=1 --file-test-mode=rndrw run";
    let text = format!("{prepare}\n\n{run}\n\n{}", sysbench(1.0, 292_000.0));
    assert_eq!(contradictions(&text), []);
}

#[test]
fn a_printed_number_of_threads_is_compared_with_events_and_latencies() {
    for (threads, contradicted) in [(1.0, true), (4.0, false), (16.0, true)] {
        let text = format!(
            "Running the test with following options:\nNumber of threads: 4\n\n{}",
            sysbench(threads, threads * 292_000.0)
        );
        let found = contradictions(&text);
        assert_eq!(!found.is_empty(), contradicted, "{threads}: {found:?}");
    }
}

/// Checks that a count with this number of digits can be rounded from `ops`, and that one that differs by more cannot.
fn check_rounded(ops: u64, digits: u32) {
    let power = 10_u64.pow((ops.ilog10() + 1).saturating_sub(digits));
    let rounded = (ops + power / 2) / power * power;
    let (thousands, millions) = (rounded as f64 / 1e3, rounded as f64 / 1e6);
    for words in [
        format!("{rounded}"),
        format!("~{rounded}"),
        format!("{thousands}k"),
        format!("{millions}M"),
    ] {
        let text = format!(
            "# a\n{}\nIn all, {words} files were created.\n",
            created(ops)
        );
        assert_eq!(contradictions(&text), [], "{words}");
    }
    let zeros = |number: u64| {
        let digits = number.to_string();
        digits.len() - digits.trim_end_matches('0').len()
    };
    let wrong = rounded + 3 * 10_u64.pow(zeros(rounded) as u32);
    if zeros(wrong) == zeros(rounded) {
        let text = format!(
            "# a\n{}\nIn all, {wrong} files were created.\n",
            created(ops)
        );
        assert_eq!(contradictions(&text).len(), 1, "{wrong}");
    }
}

#[test]
fn half_a_unit_of_a_rounded_count_is_exact() {
    check_rounded(2_096_045, 6);
}

proptest! {
    #[test]
    fn a_rounded_count_contradicts_nothing_that_it_is_rounded_from(ops in 10_u64..100_000_000, digits in 1_u32..9) {
        check_rounded(ops, digits);
    }

    #[test]
    fn any_word_is_a_number_or_none(word in "[~0-9kM.,]{0,12}") {
        if let Some(count) = count(&word, "") {
            prop_assert!(count.value.is_finite() && count.value > 0.0);
            prop_assert!(count.can_be_in(&(count.value..=count.value)));
        }
    }

    #[test]
    fn any_prose_with_results_is_read(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "~360k", "2000", "2MB", "200", "MB", "files", "were", "created", "deleted", "in", "under", "3", "seconds", "is", "400GB",
                "ext4", "and", ",", ".", ":", "\n", "- ", "\n\n", "block", "size", "16k", "queue", "depth", "for", "run", "interrupts", "balanced",
                "é", "##", "`", "virtual", "disks", "volsize", "20G", "sysbench", "fileio", "prepare", "--threads=3", "|", "----",
            ]),
            0..60,
        ),
    ) {
        let text = format!("## ext4\n{}{}\n{}{LISTING}", created(5000), words.join(" "), deleted(&[7.0]));
        let count = text.lines().count() as u32;
        for found in contradictions(&text) {
            prop_assert!((1..=count).contains(&found.at.line) && (1..=count).contains(&found.against.line));
            prop_assert!(!found.statement.is_empty() && !found.shown.is_empty());
        }
    }
}
