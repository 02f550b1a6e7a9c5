//! Output of OpenZFS, its predecessors and zfs-fuse.

use proptest::prelude::*;

use super::*;

/// Recorded: `zpool iostat 30` on two pools.
const TWO: &str = include_str!("data/two-pools.txt");
/// Recorded: zfs-fuse 0.7, `zpool iostat -v 1` on a mirror of files with a log.
const FUSE: &str = include_str!("data/zfs-fuse.txt");
/// In the form of OpenZFS: `zpool iostat -v 1` with logs, cache and a second pool.
const OPEN: &str = include_str!("data/openzfs.txt");
/// In the form of OpenZFS: `zpool iostat -vpy 1`.
const EXACT: &str = include_str!("data/openzfs-exact.txt");

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

use super::pool_reports as reports;

/// In the form of OpenZFS 2.2: `zpool iostat -vlqpy 1`.
const WAITS: &str = include_str!("data/openzfs-waits.txt");

fn names(report: &PoolReport) -> Vec<&str> {
    report.rows.iter().map(|row| row.path.as_str()).collect()
}

/// The values of a row; panics if it does not have exactly six.
#[track_caller]
fn of(report: &PoolReport, path: &str) -> [Option<u64>; 6] {
    let row = report.rows.iter().find(|row| row.path == path);
    let row = row.unwrap_or_else(|| panic!("{path}: {report:?}"));
    row.values.clone().try_into().unwrap()
}

#[test]
fn reads_a_report_of_two_pools_and_drops_the_one_since_the_boot() {
    // Without -v there is only the first head: a report ends after a pause or, as here, when a pool appears again.
    let mut reader = Reader::new(true);
    let mut reports = Vec::new();
    for line in TWO.lines() {
        reader.line(line);
        if reader.may_be_complete() {
            reports.extend(reader.take());
        }
    }
    assert_eq!(reports.len(), 5);
    assert!(
        reports
            .iter()
            .all(|report| names(report) == ["backup", "zp0"])
    );
    let first = of(&reports[0], "backup");
    assert_eq!(first[0], Some(143 * GIB));
    assert_eq!(first[2..4], [Some(0), Some(6318)]);
    assert_eq!(first[4..], [Some(529), Some(759 * MIB)]);
}

#[test]
fn names_devices_by_their_path_in_the_pool() {
    let fuse = reports(FUSE, true);
    assert_eq!(fuse.len(), 2);
    let expected = [
        "tank",
        "tank/mirror",
        "tank/mirror/srv/a.img",
        "tank/mirror/srv/b.img",
        "tank/srv/c.img",
    ];
    assert_eq!(names(&fuse[0]), expected);
    let file = of(&fuse[0], "tank/mirror/srv/a.img");
    assert_eq!(
        file,
        [None, None, Some(0), Some(3850), Some(0), Some(47_500_493)]
    );
    assert_eq!(
        of(&fuse[1], "tank/srv/c.img")[..2],
        [Some(0), Some(250 * MIB)]
    );
    let open = reports(OPEN, true);
    assert_eq!(open.len(), 1);
    let expected = [
        "big",
        "big/mirror-0",
        "big/mirror-0/sda",
        "big/mirror-0/sdb",
        "big/mirror-1",
        "big/mirror-1/sdc",
        "big/mirror-1/replacing-1",
        "big/mirror-1/replacing-1/sdd",
        "big/mirror-1/replacing-1/sde",
        "big/special/nvme0n1p3",
        "big/logs/nvme0n1p1",
        "big/cache/gpt/nvme0n1p2",
        "my pool",
        "my pool/sda",
    ];
    assert_eq!(names(&open[0]), expected);
    assert_eq!(
        of(&open[0], "big/logs/nvme0n1p1")[..2],
        [Some(4 * KIB), Some(19_864_223_744)]
    );
    // More free space than the capacity: the value became negative.
    let below_zero = of(&open[0], "my pool/sda");
    assert_eq!(below_zero[..3], [Some(30_816_390_349), None, Some(12)]);
}

#[test]
fn reads_exact_numbers() {
    let exact = reports(EXACT, false);
    assert_eq!(exact.len(), 2);
    assert_eq!(
        of(&exact[0], "tank"),
        [
            Some(1_234_567_168),
            Some(8_429_600_768),
            Some(3),
            Some(1207),
            Some(12_288),
            Some(98_566_144)
        ]
    );
    let disk = of(&exact[1], "tank/mirror-0/sdb");
    assert_eq!(
        disk,
        [None, None, Some(0), Some(611), Some(0), Some(49_283_072)]
    );
    assert_eq!(names(&exact[0]).len(), 6);
    assert_eq!(
        of(&exact[0], "tank/logs/sdc")[..2],
        [Some(0), Some(1_006_632_960)]
    );
}

#[test]
fn reads_the_waits_and_queues_of_each_version_by_its_head() {
    let waits = &reports(WAITS, false)[0];
    let value = |path: &str, column: &str| {
        let place = waits.columns.iter().position(|at| POOL[*at].0 == column);
        let row = waits.rows.iter().find(|row| row.path == path).unwrap();
        row.values[place.unwrap_or_else(|| panic!("no column {column}"))]
    };
    for (path, column, expected) in [
        ("tank", "write_bandwidth", Some(98_566_144)),
        ("tank", "total_wait_read", Some(412_003)),
        ("tank", "total_wait_write", Some(1_873_211)),
        ("tank/sda", "disk_wait_write", Some(803_112)),
        ("tank/sda", "asyncq_wait_write", Some(1_041_999)),
        ("tank/sda", "scrub_wait", None),
        ("tank", "rebuild_wait", None),
        ("tank", "syncq_read_pend", Some(0)),
        ("tank", "asyncq_write_pend", Some(37)),
        ("tank/sda", "asyncq_write_activ", Some(3)),
        ("tank", "rebuildq_write_activ", Some(9)),
    ] {
        assert_eq!(value(path, column), expected, "{column} of {path}");
    }
    assert_eq!(waits.columns, (0..POOL.len()).collect::<Vec<_>>());
    // A version with another group, and without those for rebuilding.
    let head = "capacity operations bandwidth total_wait other trim syncq_read\n\
                pool alloc free read write read write read write wait wait pend activ\n";
    let other = &reports(&format!("{head}tank 1 2 3 4 5 6 7 8 9 10 11 12\n"), false)[0];
    let columns: Vec<&str> = other.columns.iter().map(|at| POOL[*at].0).collect();
    let more = [
        "total_wait_read",
        "total_wait_write",
        "trim_wait",
        "syncq_read_pend",
        "syncq_read_activ",
    ];
    assert_eq!(columns[6..], more);
    let values = [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12].map(Some);
    assert_eq!(other.rows[0].values, values);
}

#[test]
fn the_leaves_of_a_pool_are_its_disks_and_files() {
    let leaves = |report: &PoolReport| -> Vec<(String, String)> {
        let leaves = report.leaves();
        leaves
            .map(|(pool, row)| (pool.to_owned(), row.name.clone()))
            .collect()
    };
    let expected = |all: &[(&str, &str)]| -> Vec<(String, String)> {
        all.iter()
            .map(|(pool, name)| ((*pool).to_owned(), (*name).to_owned()))
            .collect()
    };
    let fuse = [
        ("tank", "/srv/a.img"),
        ("tank", "/srv/b.img"),
        ("tank", "/srv/c.img"),
    ];
    assert_eq!(leaves(&reports(FUSE, true)[0]), expected(&fuse));
    let exact = [
        ("tank", "sda"),
        ("tank", "sdb"),
        ("tank", "sdc"),
        ("tank", "sdd"),
    ];
    assert_eq!(leaves(&reports(EXACT, false)[0]), expected(&exact));
}

#[test]
fn a_report_after_pools_appeared_or_disappeared_counts_since_boot() {
    let head = "pool alloc free read write read write\n----- -----\n";
    let row = |name: &str| format!("{name} 1G 2G 3 4 5K 6M\n");
    let (one, two) = (row("a"), format!("{}{}", row("a"), row("b")));
    let text = [&one, &one, &two, &two, &one, &one].map(|rows| format!("{head}{rows}"));
    let counts: Vec<usize> = reports(&text.concat(), true)
        .iter()
        .map(|r| r.rows.len())
        .collect();
    assert_eq!(counts, [1, 2, 1]);
    // The first report is never used; the others are missing afterwards.
    let mut reader = Reader::new(true);
    for line in text.concat().lines() {
        reader.line(line);
    }
    reader.take();
    assert_eq!((reader.take_omitted(), reader.take_omitted()), (2, 0));
    // A command that omits the first report omits this one as well.
    assert_eq!(reports(&text.concat(), false).len(), 6);
}

#[test]
fn devices_with_the_same_name_stay_separate() {
    let text = "pool alloc free read write read write\n----- -----\n\
                tank 1G 2G 3 4 5K 6M\n\
                \u{20} mirror 1G 2G 3 4 5K 6M\n\
                \u{20} mirror 1G 2G 3 4 5K 6M\n\
                \u{20}   sda - - 3 4 5K 6M\n\
                logs - - - - - -\n\
                \u{20} sda - - 3 4 5K 6M\n";
    let expected = [
        "tank",
        "tank/mirror",
        "tank/mirror#2",
        "tank/mirror#2/sda",
        "tank/logs/sda",
    ];
    assert_eq!(names(&reports(text, false)[0]), expected);
}

#[test]
fn names_in_a_report_are_unique() {
    let row = |name: &str| format!("{name} 1 2 3 4 5 6\n");
    let rows = [
        "a",
        "a",
        "a#2",
        "a",
        "--- ---\na",
        "  /b",
        "a/b",
        "a#2#2",
        "a#2",
    ]
    .map(row);
    let report = &reports(&rows.concat(), false)[0];
    let mut all = names(report);
    assert_eq!(all[..4], ["a", "a#2", "a#2#2", "a#3"]);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), report.rows.len());
}

#[test]
fn reads_amounts_by_powers_of_1024() {
    for (word, value) in [
        ("-", Some(None)),
        ("0", Some(Some(0))),
        ("529", Some(Some(529))),
        ("14.8K", Some(Some(15_155))),
        ("1.60T", Some(Some(1_759_218_604_442))),
        ("9007199254740993", Some(Some(9_007_199_254_740_993))),
        ("18446744073709551615", Some(None)),
        ("16.0E", Some(None)),
        ("99999999999999999999999", Some(None)),
        ("", None),
        ("K", None),
        ("1k", None),
        ("-5", None),
        ("1.2.3", None),
        ("inf", None),
    ] {
        assert_eq!(amount(word), value, "{word}");
    }
}

#[test]
fn text_that_is_not_a_report_is_skipped() {
    for text in [
        "",
        "no pools available\n",
        "invalid option 'p'\nusage:\n\tiostat [-v] [-T d|u] [pool] ... [interval [count]]\n",
        "     capacity     operations    bandwidth\npool  alloc   free   read  write   read  write\n  -----  -----  -----\n\n",
        "1 2 3 4 5 6\n",
        "tank 1 2 3 4 5 x\n",
    ] {
        assert_eq!(reports(text, false), [], "{text}");
    }
    let endless = "a 1 2 3 4 5 6\n".repeat(ROWS + 5);
    assert_eq!(reports(&endless, false)[0].rows.len(), ROWS);
}

proptest! {
    #[test]
    fn does_not_panic_on_a_truncated_report(end in 0..OPEN.len(), since_boot: bool) {
        if let Some(cut) = OPEN.get(..end) {
            reports(cut, since_boot);
        }
    }

    #[test]
    fn does_not_panic_on_any_lines(
        words in "(pool alloc free read write read write\n)?([a-z0-9KMGE./é -]{0,30}\n){0,9}", since_boot: bool
    ) {
        for report in reports(&words, since_boot) {
            let mut names = names(&report);
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            prop_assert_eq!(names.len(), all, "no name twice");
        }
    }

    #[test]
    fn reads_printed_amounts(numbers in prop::collection::vec(1u64..1 << 60, 6)) {
        let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let text = format!("pool alloc free read write read write\n---\ntank  {}\n", words.join("  "));
        let report = &reports(&text, false)[0];
        prop_assert_eq!(of(report, "tank").to_vec(), numbers.into_iter().map(Some).collect::<Vec<_>>());
    }
}
