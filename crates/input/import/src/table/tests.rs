//! Plain tables: those of two published write-ups, and forms that are often pasted.

use crate::unread::STATEMENT;
use iodyno_model::Imported;

use crate::{Options, Text, read};

const MIRRORS: &str = include_str!("../../tests/data/zfs-mirror-table.txt");
const VOLUMES: &str = include_str!("../../tests/data/falcon-zvol-tables.adoc");

fn import(text: &str, map: Option<&str>) -> Imported {
    let options = Options {
        table: map.map(|map| map.parse().unwrap()),
        ..Options::default()
    };
    let source = "notes.md";
    read(&[Text { source, text }], &options)
}

/// Each figure as `configuration | workload | further=… | metric value`.
fn rows(imported: &Imported) -> Vec<String> {
    let rows = imported.trials.iter().flat_map(|trial| {
        let further: Vec<String> = trial
            .dimensions
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let names = format!(
            "{} | {} | {}",
            trial.configuration,
            trial.workload,
            further.join(" ")
        );
        trial
            .figures
            .into_iter()
            .map(move |figure| format!("{names} | {} {}", figure.metric.name, figure.value))
    });
    rows.collect()
}

#[test]
fn a_table_with_groups_of_columns_gives_one_trial_per_number() {
    for map in [
        None,
        Some(
            "config=head1, workload=row+head2+head3, row=row, head2=head2, head3=head3, unit=head4",
        ),
    ] {
        let imported = import(MIRRORS, map);
        let rows = rows(&imported);
        assert_eq!(rows.len(), 32);
        assert_eq!(imported.trials.len(), 32);
        for expected in [
            "Pristine | 2 Striped, Sequential 1MB | head2=Sequential head3=1MB row=2 Striped | bandwidth 226000000",
            "Pristine | 2 Striped, Random 4KB | head2=Random head3=4KB row=2 Striped | iops 304",
            "With 1461 | 2 Striped, Random 1MB | head2=Random head3=1MB row=2 Striped | iops 11",
            "With 1461 | 2 2-Way Mirror, Sequential 4KB | head2=Sequential head3=4KB row=2 2-Way Mirror | bandwidth 448000000",
            "With 1461 | 2 4-Way Mirror, Random 1MB | head2=Random head3=1MB row=2 4-Way Mirror | iops 82",
            "Pristine | 2 4-Way Mirror, Random 4KB | head2=Random head3=4KB row=2 4-Way Mirror | iops 849",
        ] {
            assert!(
                rows.iter().any(|row| row == expected),
                "{expected}: {rows:#?}"
            );
        }
        let unread = imported.unread.iter();
        let unread: Vec<(u32, &str)> = unread.map(|it| (it.at.line, it.why.as_str())).collect();
        assert_eq!(unread, [(3, STATEMENT), (4, STATEMENT)]);
        assert_eq!(imported.trials.get(0).unwrap().at.line, 41);
        let told = imported.remarks.iter().any(|remark| {
            remark.contains("config=head1, workload=row+head2+head3, row=row, head2=head2, head3=head3, unit=head4")
        });
        assert_eq!(told, map.is_none());
    }
}

#[test]
fn tables_take_their_names_from_headings_and_machines_are_added() {
    for map in [
        None,
        Some("config=section, workload=caption, node=col1, value=col2"),
    ] {
        let imported = import(VOLUMES, map);
        let rows = rows(&imported);
        assert_eq!(rows.len(), 20, "{rows:#?}");
        for expected in [
            "Zvol | 4k block bandwidth | node=a | bandwidth 5008384",
            "Zvol | 4k block bandwidth | node=a+b+c+d | bandwidth 19996672",
            "Zvol | 512 block bandwidth | node=d | bandwidth 877568",
            "File | 4k block bandwidth | node=b | bandwidth 26004684.8",
            "File | 512 block bandwidth | node=a+b+c+d | bandwidth 13270016",
        ] {
            assert!(
                rows.iter().any(|row| row == expected),
                "{expected}: {rows:#?}"
            );
        }
        let sum = imported
            .trials
            .iter()
            .find(|t| t.dimensions["node"] == "a+b+c+d")
            .unwrap();
        assert_eq!(sum.primary, None, "its parts are compared already");
        assert!(
            sum.figures[0]
                .derived
                .as_deref()
                .unwrap()
                .contains("sum of node a, b, c, d")
        );
        assert!(
            sum.remarks
                .iter()
                .any(|r| r == "host load average: 7.12, 3.37, 2.19")
        );
        assert_eq!(imported.unread, []);
    }
}

#[test]
fn pasted_forms_are_read() {
    for (text, map, expected) in [
        (
            "| test | ext4 | zfs |\n|---|--:|--:|\n| randread | 12.3k IOPS | 14k IOPS |\n| seq | 500 MB/s | n/a |\n",
            None,
            vec![
                "ext4 | randread |  | iops 12300",
                "zfs | randread |  | iops 14000",
                "ext4 | seq |  | bandwidth 500000000",
            ],
        ),
        (
            "| fs | read MiB/s | write IOPS | p99 (ms) |\n|-|-|-|-|\n| ext4 | 2 | 30 | 1.5 |\n| xfs | 3 | **40** | 1.25 |\n",
            None,
            vec![
                "ext4 | notes |  | read.bandwidth 2097152",
                "ext4 | notes |  | write.iops 30",
                "ext4 | notes |  | op.p99 1500000",
                "xfs | notes |  | read.bandwidth 3145728",
                "xfs | notes |  | write.iops 40",
                "xfs | notes |  | op.p99 1250000",
            ],
        ),
        (
            "config,job,loop,iops,depth\next4,\"rand, 4k\",1,1000,8\next4,\"rand, 4k\",2,1001,8\n",
            None,
            vec![
                "ext4 | rand, 4k | depth=8 | iops 1000",
                "ext4 | rand, 4k | depth=8 | iops 1001",
            ],
        ),
        (
            "fs\ttest\tMB/s\next4\tseq\t12\n",
            None,
            vec!["ext4 | seq |  | bandwidth 12000000"],
        ),
        (
            "setup    workload     KiB/s\nvirtio   rand read    100\n9p       rand read    50\n",
            None,
            vec![
                "virtio | rand read |  | bandwidth 102400",
                "9p | rand read |  | bandwidth 51200",
            ],
        ),
        (
            "a,b\nx,5\ny,6\n",
            Some("config=a, workload='w', unit='MB/s'"),
            vec![
                "x | w |  | bandwidth 5000000",
                "y | w |  | bandwidth 6000000",
            ],
        ),
        (
            "Throughput (MB/s)\n\n|      | one | two |\n|------|-----|-----|\n| seq  | 1   | 2   |\n",
            None,
            vec![
                "one | seq |  | bandwidth 1000000",
                "two | seq |  | bandwidth 2000000",
            ],
        ),
        (
            "NAME      WORKLOAD    Bandwidth    IOPS   \none       rand-read   88.0mb       22.5k  \ntwo       rand-read   90.0mb       23.0k\n\none       write       12.5mb       3.1k\none       mixed       0.5mb/1.5mb  1.5k/500\n",
            None,
            vec![
                "one | rand-read |  | bandwidth 92274688",
                "one | rand-read |  | iops 22500",
                "two | rand-read |  | bandwidth 94371840",
                "two | rand-read |  | iops 23000",
                "one | write |  | bandwidth 13107200",
                "one | write |  | iops 3100",
                "one | mixed |  | bandwidth 2097152",
                "one | mixed |  | iops 2000",
            ],
        ),
        (
            "## zvol\n\n[cols=2*]\n|===\n|Case |IOPS\n\n|a |1 |b |2\n|===\n",
            None,
            vec!["zvol | a |  | iops 1", "zvol | b |  | iops 2"],
        ),
    ] {
        let imported = import(text, map);
        assert_eq!(rows(&imported), expected, "{text}{:?}", imported.unread);
    }
}

#[test]
fn an_ambiguous_table_is_not_guessed() {
    for (text, map, why) in [
        (
            "| | read MB/s | write MB/s |\n|-|-|-|\n| a | 1 | 2 |\n",
            None,
            "its configurations are unknown",
        ),
        (
            "| t | x |\n|-|-|\n| a | 1 MB/s |\n",
            Some("config=head3"),
            "no `head3`",
        ),
        (
            "| t | x |\n|-|-|\n| a | 1 MB/s |\n",
            Some("config=fs"),
            "no column `fs`",
        ),
        (
            "| t | x |\n|-|-|\n| a | 1 MB/s |\n",
            Some("config=section"),
            "`config` requires a heading above the table",
        ),
    ] {
        let imported = import(text, map);
        assert!(imported.trials.is_empty(), "{text}");
        assert!(
            imported.unread.iter().any(|u| u.why.contains(why)),
            "{text}{:?}",
            imported.unread
        );
    }
    // Numbers without a unit, properties, shell pipelines.
    for text in [
        "| a | b |\n|-|-|\n| x | 1 |\n",
        "NAME    PROPERTY    VALUE\npool    copies      1\npool    volsize     20G\n",
        "$ cat interrupts | grep vif\n$ cat interrupts | wc -l\n",
    ] {
        assert!(import(text, None).trials.is_empty(), "{text}");
    }
}

#[test]
fn unreadable_columns_and_cells_are_listed() {
    for (text, map, expected, unread) in [
        (
            "| fs | MB/s | IOPS | latency (us) |\n|-|-|-|-|\n| a | 1 | 20 | 5 |\n| b | n/a | 30 | abc |\n",
            None,
            vec![
                "a | notes |  | bandwidth 1000000",
                "a | notes |  | iops 20",
                "a | notes |  | op.mean 5000",
                "b | notes |  | iops 30",
            ],
            vec![(4, "`n/a` under `MB/s`"), (4, "`abc` under `latency (us)`")],
        ),
        (
            "| fs | MB/s | p99 (ms) |\n|-|-|-|\n| a | 1 | x |\n",
            None,
            vec!["a | notes |  | bandwidth 1000000"],
            vec![(3, "no number under `p99 (ms)`")],
        ),
        (
            "| fs | depth | MB/s | p99 latency |\n|-|-|-|-|\n| a | 8 | 1 | 5 |\n",
            None,
            vec!["a | notes | depth=8 | bandwidth 1000000"],
            vec![(3, "under `p99 latency` have no unit")],
        ),
        (
            "fs,MB/s,IOPS\na,1,20\nb,oops,30\nc,3,-\n",
            None,
            vec![
                "a | notes |  | bandwidth 1000000",
                "a | notes |  | iops 20",
                "b | notes |  | iops 30",
                "c | notes |  | bandwidth 3000000",
            ],
            vec![(3, "`oops` under `MB/s`")],
        ),
        (
            "| fs | run | depth | MB/s |\n|-|-|-|-|\n| a | 1 | 8 | 5 |\n",
            Some("config=fs"),
            vec!["a | notes |  | bandwidth 5000000"],
            vec![(3, "under `depth` have no unit")],
        ),
        (
            "| fs | round | MB/s | IOPS | note |\n|-|-|-|-|-|\n| a | 1 | 5 | 20 | x |\n",
            Some("config=fs, value=col3"),
            vec!["a | notes |  | bandwidth 5000000"],
            vec![(3, "`value=` leaves out the numbers under `IOPS`")],
        ),
        (
            "| metric | ext4 | zfs |\n|-|-|-|\n| latency p99 (µs) | 5 | 6 |\n| latency (ms) | 1 | 2 |\n",
            None,
            vec![
                "ext4 | notes | metric=latency p99 (µs) | op.p99 5000",
                "zfs | notes | metric=latency p99 (µs) | op.p99 6000",
                "ext4 | notes | metric=latency (ms) | op.mean 1000000",
                "zfs | notes | metric=latency (ms) | op.mean 2000000",
            ],
            vec![],
        ),
    ] {
        let imported = import(text, map);
        assert_eq!(rows(&imported), expected, "{text}");
        let found: Vec<u32> = imported.unread.iter().map(|it| it.at.line).collect();
        let lines: Vec<u32> = unread.iter().map(|it| it.0).collect();
        assert_eq!(found, lines, "{text}{:?}", imported.unread);
        for (found, (_, why)) in imported.unread.iter().zip(unread) {
            assert!(found.why.contains(why), "{text}{found:?}");
        }
    }
}

#[test]
fn a_map_that_fits_no_table_is_reported() {
    let table = "| fs | MB/s |\n|-|-|\n| a | 1 |\n";
    for (text, map, told) in [
        (table, "config=fs", false),
        (table, "config=host", true),
        ("nothing of the kind\n", "config=fs", true),
    ] {
        let imported = import(text, Some(map));
        let words = "no table in it fits the column map";
        let found = imported.remarks.iter().any(|it| it.contains(words));
        assert_eq!(found, told, "{text}{map}");
    }
}

#[test]
fn a_column_with_a_unit_is_no_dimension() {
    let text = "## ext4\n\n| test | IOPS | p99 (msec) | Gb/s | max (minutes) |\n|---|---|---|---|---|\n\
                | randread | 100 | 2.5 | 3 | 4 |\n| randwrite | 50 | 5 | 1 | 7 |\n";
    let imported = import(text, None);
    let rows = rows(&imported);
    assert_eq!(
        rows[..2],
        [
            "ext4 | randread |  | iops 100",
            "ext4 | randread |  | op.p99 2500000"
        ],
        "{rows:?}"
    );
    let unread: Vec<&str> = imported.unread.iter().map(|it| it.why.as_str()).collect();
    assert_eq!(
        unread,
        [
            "`Gb/s` over `Gb/s` can be bits or bytes; name the unit in a column map",
            "the numbers under `max (minutes)` have no unit"
        ]
    );
}
