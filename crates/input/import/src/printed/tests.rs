use iodyno_model::{Imported, Kind};

use crate::{Options, Text, read};

const IOR: &str = include_str!("../../tests/data/ior.txt");
const MDTEST: &str = include_str!("../../tests/data/mdtest.txt");
const PGBENCH: &str = include_str!("../../tests/data/pgbench.txt");
const ELBENCHO: &str = include_str!("../../tests/data/elbencho.txt");

fn import(text: &str) -> Imported {
    let source = "ext4.txt";
    read(&[Text { source, text }], &Options::default())
}

/// Each trial as `workload metric=value …`.
fn rows(imported: &Imported) -> Vec<String> {
    let rows = imported.trials.iter().map(|trial| {
        let figures = trial.figures.iter();
        let figures = figures.map(|figure| format!(" {}={}", figure.metric.name, figure.value));
        trial.workload.clone() + &figures.collect::<String>()
    });
    rows.collect()
}

fn nothing_is_unread(imported: &Imported) {
    assert!(imported.unread.is_empty(), "{:#?}", imported.unread);
}

#[test]
fn reads_each_repetition_of_ior() {
    let imported = import(IOR);
    nothing_is_unread(&imported);
    let rows = rows(&imported);
    assert_eq!(rows.len(), 6);
    let mib = |value: f64| value * 1_048_576.0;
    assert_eq!(
        rows[0],
        format!(
            "write bandwidth={} iops=47777 op.mean=42000 completion=2827000",
            mib(2829.93)
        )
    );
    assert!(rows[5].starts_with(&format!("read bandwidth={} iops=48029 ", mib(2992.99))));
    let first = imported.trials.iter().next().unwrap();
    assert_eq!(first.configuration, "ext4");
    let facts: Vec<(&str, &str)> = first
        .facts
        .iter()
        .map(|fact| (fact.name.as_str(), fact.value.as_str()))
        .collect();
    for expected in [
        ("program", "IOR 4.1.0+dev"),
        ("bs", "65536 bytes"),
        ("jobs", "2"),
    ] {
        assert!(facts.contains(&expected), "{facts:?}");
    }
}

#[test]
fn lists_a_row_of_ior_that_it_does_not_understand() {
    let broken = IOR.replacen("13133      213298 ", "13133      ", 1);
    let imported = import(&broken);
    assert_eq!(rows(&imported).len(), 5);
    assert_eq!(imported.unread.len(), 1);
    assert!(imported.unread[0].text.starts_with("read      13133"));
}

#[test]
fn reads_the_means_of_mdtest() {
    let imported = import(MDTEST);
    nothing_is_unread(&imported);
    let rows = rows(&imported);
    assert_eq!(rows.len(), 10);
    assert_eq!(rows[0], "directory creation iops=9379.732");
    assert_eq!(rows[4], "file creation iops=7320.098");
    let trial = imported.trials.iter().nth(4).unwrap();
    assert_eq!(
        trial.remarks,
        ["the mean of 3 iterations with a standard deviation of 40 %"]
    );
    assert!(
        trial
            .facts
            .iter()
            .any(|fact| fact.value == "mdtest 4.1.0+dev")
    );
}

#[test]
fn reads_pgbench_with_its_progress() {
    let imported = import(PGBENCH);
    let rows = rows(&imported);
    assert_eq!(
        rows,
        ["builtin: TPC-B (sort of) op.mean=6709000 op.stddev=7928000 tps=595.473351"]
    );
    let trial = imported.trials.iter().next().unwrap();
    assert_eq!(trial.primary.as_deref(), Some("tps"));
    assert_eq!(trial.kind, Kind::Timed);
    let rates: Vec<f64> = trial.series.iter().map(|point| point.rate).collect();
    assert_eq!(rates, [432.0, 806.0, 463.0, 675.1]);
    assert!(
        trial
            .facts
            .iter()
            .any(|fact| (fact.name.as_str(), fact.value.as_str()) == ("jobs", "4"))
    );
}

#[test]
fn reads_the_column_of_the_last_worker_of_elbencho() {
    let imported = import(ELBENCHO);
    nothing_is_unread(&imported);
    assert_eq!(
        rows(&imported),
        [
            "mkdirs completion=2000000 dirs=1321",
            &format!(
                "write completion=62500000000 files=791 iops=12656 bandwidth={} op.min=41000 op.mean=3250000 \
                 op.max=1100000000 op.p50=128000 op.p75=181000 op.p99=724000 op.p99.9=8192000",
                791.0 * 1_048_576.0
            ),
            "rmfiles completion=38000000 files=26315",
        ]
    );
}

#[test]
fn metrics_of_elbenchos_live_csv_are_no_configurations() {
    let text = "ISO Date,Label,Phase,RuntimeMS,Rank,MixType,Done%,DoneBytes,MiB/s,IOPS,Entries,Entries/s,Active,CPU,\n\
                20261128T101010,,WRITE,2000,Total,,10,1048576,512,131072,1,0,4,12,\n\
                20261128T101012,,WRITE,4000,Total,,20,2097152,513,131073,1,0,4,12,\n";
    let imported = import(text);
    assert!(rows(&imported).is_empty(), "{:?}", rows(&imported));
    assert_eq!(imported.unread.len(), 1);
    assert!(imported.unread[0].why.contains("live CSV"));
}
