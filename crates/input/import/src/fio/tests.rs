//! Real output of fio: complete files of versions 3.33 and 3.42, and extracts from older ones.

#[path = "../../tests/common/mod.rs"]
mod common;

use iodyno_model::{FactClass, ImportedTrial, Kind};

use self::common::Read;
use crate::{Options, Text, read};

const ALL_FORMATS: &str = include_str!("../../tests/data/fio-3.33-all-formats.txt");
const STATUS: &str = include_str!("../../tests/data/fio-3.33-status-interval.txt");
const CLONES: &str = include_str!("../../tests/data/fio-3.33-clones.json");
const TERSE: &str = include_str!("../../tests/data/fio-3.42-terse-4-5.txt");

fn import(text: &str) -> Read {
    let source = "out/ext4.json";
    read(&[Text { source, text }], &Options::default()).into()
}

fn figure(trial: &ImportedTrial, name: &str) -> Option<f64> {
    let figure = trial
        .figures
        .iter()
        .find(|figure| figure.metric.name == name);
    figure.map(|figure| figure.value)
}

/// The values in these tests are exact to their last digit; computed ones to 10⁻⁶.
fn check(trial: &ImportedTrial, expected: &[(&str, f64)]) {
    for (name, expected) in expected {
        let value = figure(trial, name).unwrap_or(f64::NAN);
        assert!(
            (value - expected).abs() <= expected.abs() * 1e-6,
            "{} {name}: {value}, not {expected}",
            trial.workload
        );
    }
}

fn places(imported: &Read) -> Vec<(&str, u32)> {
    let places = |trial: &'_ ImportedTrial| trial.at.line;
    imported
        .trials
        .iter()
        .map(|trial| (trial.form.as_str(), places(trial)))
        .collect()
}

#[test]
fn a_run_in_all_formats_counts_once_and_its_json_is_used() {
    let imported = import(ALL_FORMATS);
    assert_eq!(places(&imported), [("fio json", 26), ("fio json", 288)]);
    assert_eq!(imported.unread, []);
    let [mixed, synced] = imported.trials.as_slice() else {
        panic!("two trials");
    };
    check(
        mixed,
        &[
            ("iops", 41023.976024 + 13757.242757),
            ("read.iops", 41023.976024),
            ("write.bandwidth", 56349666.0),
            ("write.mean", 119145.107835),
            ("write.p99", 175104.0),
            ("write.max", 42239758.0),
            ("cpu_per_op", 0.16 * 2000e6 / (41065.0 + 13771.0)),
        ],
    );
    check(
        synced,
        &[
            ("iops", 1078.921079),
            ("sync.mean", 3664845.133333),
            ("sync.iops", 270.0 / 1.001),
        ],
    );
    for also in [
        "present as fio terse, line 7",
        "present as fio output, line 566",
    ] {
        assert!(
            mixed.remarks.iter().any(|remark| remark.contains(also)),
            "{also}"
        );
    }
    assert_eq!(
        (mixed.configuration.as_str(), mixed.kind),
        ("ext4", Kind::Timed)
    );
    assert_eq!(mixed.primary.as_deref(), Some("iops"));
}

#[test]
fn a_rate_whose_carry_fio_lost_does_not_make_a_second_result() {
    // fio 3.21 printed 71971 as 71.0k.
    let text = ALL_FORMATS.replace("IOPS=13.8k", "IOPS=13.0k");
    assert_ne!(text, ALL_FORMATS);
    assert_eq!(places(&import(&text)), places(&import(ALL_FORMATS)));
    // Another result of the same duration stays one.
    let other = text.replace("BW=53.7MiB/s", "BW=50.7MiB/s");
    assert_ne!(other, text);
    assert_eq!(import(&other).trials.len(), 3);
}

#[test]
fn options_become_dimensions_and_facts() {
    let imported = import(ALL_FORMATS);
    let dimensions: Vec<String> = imported.trials[0]
        .dimensions
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(
        dimensions,
        [
            "bs=4k",
            "depth=4",
            "direct=0",
            "engine=libaio",
            "jobs=2",
            "rw=randrw"
        ]
    );
    let synced = &imported.trials[1];
    for (class, name, value) in [
        (FactClass::Program, "fio", "3.33"),
        (FactClass::Workload, "rw", "randwrite"),
        (FactClass::Workload, "sync", "fsync=4"),
        (FactClass::Workload, "rate", "none"),
        (FactClass::Workload, "content", "incompressible"),
        (FactClass::Ending, "ramp", "none"),
        (FactClass::Target, "filename", "file"),
        (FactClass::Ending, "duration", "1.00 s"),
        (FactClass::Ending, "ended by", "runtime"),
    ] {
        let mut facts = synced.facts.iter();
        assert!(
            facts.any(|f| (f.class, f.name.as_str(), f.value.as_str()) == (class, name, value)),
            "{name}"
        );
    }
    assert!(synced.options_complete);
    assert!(synced.facts.iter().all(|fact| fact.name != "fsync"));
    // Two clones of 16 MiB each, in total, as in an own trial.
    let size = imported.trials[0].facts.iter().find(|f| f.name == "size");
    assert_eq!(size.map(|fact| fact.value.as_str()), Some("16m"));
}

#[test]
fn a_percentile_with_few_ops_beyond_it_is_withheld() {
    let imported = import(ALL_FORMATS);
    let synced = &imported.trials[1];
    // Of 1080 writes, ten are beyond p99 and five beyond p99.5. Of 270 syncs, 2.7 are beyond p99.
    assert!(figure(synced, "write.p99").is_some());
    for metric in ["write.p99.5", "write.p99.9", "sync.p99"] {
        assert_eq!(figure(synced, metric), None, "{metric}");
        assert!(
            synced.withheld.iter().any(|w| w.metric == metric),
            "{metric}"
        );
    }
}

#[test]
fn the_last_of_several_interim_reports_counts_and_the_others_become_the_series() {
    let imported = import(STATUS);
    assert_eq!(imported.trials.len(), 1);
    let trial = &imported.trials[0];
    check(trial, &[("iops", 25440.186604)]);
    let rates: Vec<f64> = trial.series.iter().map(|point| point.rate).collect();
    let expected = [24634.0 / 0.892, 23176.0, 24927.0, 3609.0 / 0.109];
    assert_eq!(rates.len(), expected.len());
    for (rate, expected) in rates.iter().zip(expected) {
        assert!((rate - expected).abs() < 0.01, "{rate} {expected}");
    }
}

#[test]
fn two_runs_in_one_file_stay_separate() {
    let one = STATUS.rfind("\n{").unwrap();
    let last = &STATUS[one..];
    let later = last
        .replace("\"timestamp_ms\" : ", "\"timestamp_ms\" : 1")
        .replace("\"iops\" : 25440.186604", "\"iops\" : 25999.5");
    let imported = import(&format!("{last}\nsome words\n{later}"));
    assert_eq!(imported.trials.len(), 2);
    assert_eq!(imported.duplicates, []);
}

#[test]
fn clones_that_are_reported_separately_are_one_result() {
    let imported = import(CLONES);
    assert_eq!(imported.trials.len(), 1);
    let trial = &imported.trials[0];
    // The percentiles of the added bins, computed independently of this code.
    check(
        trial,
        &[
            ("iops", 15283.58209 + 19320.754717),
            ("bandwidth", 62601552.0 + 79137811.0),
            ("read.mean", (64200.643555 + 50626.084961) / 2.0),
            ("read.max", 25134416.0),
            ("read.p50", 15168.0),
            ("read.p90", 39680.0),
        ],
    );
    assert_eq!(trial.kind, Kind::Finite);
    assert_eq!(trial.primary.as_deref(), Some("completion"));
    assert!(trial.remarks[0].contains("not 2"), "{:?}", trial.remarks);
}

#[test]
fn percentiles_of_clones_without_bins_are_withheld() {
    let mut text = CLONES.to_owned();
    while let Some(start) = text.find("\"bins\" : {") {
        let end = start + text[start..].find('}').unwrap();
        text.replace_range(start..=end, "\"n\" : 0");
    }
    let trial = &import(&text).trials[0];
    assert_eq!(figure(trial, "read.p50"), None);
    assert!(
        trial.withheld.iter().any(|w| w.metric == "read.p99"),
        "{:?}",
        trial.withheld
    );
}

#[test]
fn terse_lines_of_versions_3_to_5_are_read() {
    let version_3 = ALL_FORMATS.lines().nth(6).unwrap();
    let text = format!("{TERSE}{version_3}\n");
    let imported = import(&text);
    let names: Vec<&str> = imported
        .trials
        .iter()
        .map(|t| t.workload.as_str())
        .collect();
    assert_eq!(names, ["fifth", "fourth", "mixed"]);
    check(
        &imported.trials[0],
        &[("read.iops", 31030.0), ("bandwidth", 124121.0 * 1024.0)],
    );
    check(&imported.trials[1], &[("read.iops", 30117.0)]);
    check(
        &imported.trials[2],
        &[
            ("write.iops", 13757.0),
            ("write.p99", 175e3),
            ("write.mean", 119145.108),
            ("write.max", 42239e3),
        ],
    );
    let cut: String = version_3.split_inclusive(';').take(50).collect();
    let imported = import(&cut);
    assert_eq!((imported.trials.len(), imported.unread.len()), (0, 1));
}

#[test]
fn normal_output_alone_is_read() {
    let start = ALL_FORMATS.find("\nmixed: (groupid").unwrap();
    let imported = import(&ALL_FORMATS[start..]);
    assert_eq!(imported.trials.len(), 2);
    assert_eq!(imported.unread, []);
    let [mixed, synced] = imported.trials.as_slice() else {
        panic!("two trials");
    };
    // Issued ops ÷ runtime; otherwise the rounded rates with three digits.
    check(
        mixed,
        &[
            ("read.iops", 41065.0 / 1.001),
            ("write.iops", 13771.0 / 1.001),
            ("write.p99", 176e3),
            ("write.mean", 119.15e3),
        ],
    );
    check(
        synced,
        &[("sync.iops", 270.0 / 1.001), ("write.p50", 2089e3)],
    );
    assert_eq!(mixed.dimensions["jobs"], "2");
}

#[test]
fn extracts_of_other_versions_are_read() {
    for (text, expected) in [
        (
            "    read: IOPS=12.3k, BW=48.1MiB/s (50.4MB/s)(2887MiB/60001msec)\n",
            vec![("read.iops", 12_300.0), ("bandwidth", 48.1 * 1_048_576.0)],
        ),
        (
            "I ran\n  write: IOPS=250, BW=1000KiB/s (1024kB/s)(58.6MiB/60003msec); 0 zone resets\nhere\n",
            vec![("write.iops", 250.0), ("write.bandwidth", 1_024_000.0)],
        ),
        (
            "old: (groupid=0, jobs=4): err= 0: pid=7: Mon Jan  4 10:00:00 2016\n  \
             read : io=2887.2MB, bw=49274KB/s, iops=12318, runt= 60001msec\n    \
             clat (usec): min=4, max=9078 , avg=56.48, stdev=237.25\n     \
             lat (usec): min=5, max=9081 , avg=58.59, stdev=237.28\n",
            vec![
                ("read.iops", 12_318.0),
                ("bandwidth", 49_274.0 * 1024.0),
                ("read.mean", 58_590.0),
                ("read.max", 9_081_000.0),
            ],
        ),
        (
            "{\"fio version\":\"fio-2.2.10\",\"jobs\":[{\"jobname\":\"a\",\"groupid\":0,\"error\":0,\
             \"read\":{\"io_bytes\":4096,\"bw\":1024,\"iops\":256.5,\"runtime\":4000,\"total_ios\":1026,\
             \"clat\":{\"min\":1,\"max\":90,\"mean\":10.5,\"percentile\":{\"50.000000\":9,\"99.900000\":80,\"0.00\":0}},\
             \"lat\":{\"min\":2,\"max\":91,\"mean\":11.25}},\"usr_cpu\":1.0,\"sys_cpu\":2.0}]}",
            vec![
                ("read.iops", 256.5),
                ("bandwidth", 1_048_576.0),
                ("read.mean", 11_250.0),
                ("read.p50", 9_000.0),
                ("read.max", 91_000.0),
            ],
        ),
    ] {
        let imported = import(text);
        assert_eq!(imported.trials.len(), 1, "{text}");
        check(&imported.trials[0], &expected);
    }
}

/// A document with one job.
fn document(job: &str, iops: &str, error: u32) -> String {
    format!(
        "{{\n\"fio version\" : \"fio-3.33\",\n\"jobs\" : [\n{{\n\"jobname\" : \"{job}\",\n\"groupid\" : 0,\n\
         \"error\" : {error},\n\"job options\" : {{ \"rw\" : \"randread\", \"runtime\" : \"5\" }},\n\
         \"read\" : {{\n\"io_bytes\" : 40960000,\n\"io_kbytes\" : 40000,\n\"bw_bytes\" : 8192000,\n\
         \"iops\" : {iops},\n\"runtime\" : 5000,\n\"total_ios\" : 10000 }} }}\n]\n}}"
    )
}

#[test]
fn documents_are_found_within_other_text() {
    let (a, b) = (document("a", "2000.5", 0), document("b", "3000", 0));
    for text in [
        format!("$ fio a.fio\nfio: warning, something\n{a}\nand then\n{b}\n"),
        format!("{a}{b}"),
        format!("[{a},\n{b}]"),
        format!("{{\"results\": {{\"one\": {a},\n\"two\": {b}}}}}"),
        format!("\u{feff}{}", format!("{a}\n{b}").replace('\n', "\r\n")),
        // A note of fio within the document, and a document that is only a brace.
        format!(
            "{{\nnothing\n{}\n{b}",
            a.replace("\"jobs\"", "fio: terminating on signal 2\n\"jobs\"")
        ),
    ] {
        let imported = import(&text);
        let figures: Vec<(&str, Option<f64>)> = imported
            .trials
            .iter()
            .map(|trial| (trial.workload.as_str(), figure(trial, "iops")))
            .collect();
        assert_eq!(
            figures,
            [("a", Some(2000.5)), ("b", Some(3000.0))],
            "{text}"
        );
    }
}

#[test]
fn a_truncated_document_is_reported_and_its_complete_jobs_are_read() {
    let whole = ALL_FORMATS.find("\"jobname\" : \"synced\"").unwrap();
    let start = ALL_FORMATS.find("\n{\n").unwrap();
    let imported = import(&ALL_FORMATS[start..whole]);
    let [trial] = imported.trials.as_slice() else {
        panic!("one trial: {imported:?}");
    };
    check(trial, &[("read.iops", 41023.976024)]);
    assert!(
        trial
            .remarks
            .iter()
            .any(|remark| remark.contains("broken off"))
    );
    assert!(
        imported.unread[0].why.contains("broken"),
        "{:?}",
        imported.unread
    );
    assert_eq!(imported.unread[0].at.line, 2);
}

#[test]
fn values_that_are_not_numbers_do_not_invalidate_a_document() {
    let imported = import(&document("a", "-nan", 0));
    let trial = &imported.trials[0];
    assert_eq!(
        (figure(trial, "iops"), figure(trial, "bandwidth")),
        (None, Some(8_192_000.0))
    );
}

#[test]
fn a_failed_or_idle_job_does_not_count() {
    let failed = &import(&document("a", "2000", 5)).trials[0];
    let why = failed.unusable.as_deref().unwrap_or_default();
    assert!(
        why.contains("error 5 (EIO)") || why.contains("error 5 EIO"),
        "{why}"
    );
    let idle = document("a", "0", 0)
        .replace("40960000", "0")
        .replace("10000", "0");
    let idle = &import(&idle).trials[0];
    assert!(idle.unusable.is_some());
    assert_eq!(idle.figures, []);
}

#[test]
fn hosts_of_a_server_are_distinguished() {
    let text =
        document("a", "2000", 0).replace("\"groupid\"", "\"hostname\" : \"n1\",\n\"groupid\"");
    let text = format!(
        "{text}\n{}",
        text.replace("n1", "n2").replace("2000", "2100")
    );
    let imported = import(&text.replace("\"jobs\"", "\"client_stats\""));
    let nodes: Vec<&str> = imported
        .trials
        .iter()
        .map(|t| t.dimensions["node"].as_str())
        .collect();
    assert_eq!(nodes, ["n1", "n2"]);
}

#[test]
fn counts_that_overflow_saturate() {
    let mut document: serde_json::Value = serde_json::from_str(CLONES).unwrap();
    for job in document["jobs"].as_array_mut().unwrap() {
        for name in ["read", "write"] {
            job[name]["total_ios"] = u64::MAX.into();
            for latency in ["clat_ns", "lat_ns"] {
                let bins = serde_json::json!({"100": u64::MAX, "200": u64::MAX});
                job[name][latency]["bins"] = bins;
            }
        }
    }
    let imported = import(&document.to_string());
    let figures = imported.trials.iter().flat_map(|trial| &trial.figures);
    let percentiles: Vec<f64> = figures
        .filter(|figure| figure.metric.name.contains(".p"))
        .map(|figure| figure.value)
        .collect();
    // Each bin contains half of all ops: all percentiles above the median are in the second bin.
    assert!(!percentiles.is_empty());
    assert!(
        percentiles.iter().all(|ns| (100.0..=200.0).contains(ns)),
        "{percentiles:?}"
    );
}

const NORMAL_STATUS: &str = include_str!("../../tests/data/fio-3.33-status-interval-normal.txt");
const TERSE_STATUS: &str = include_str!("../../tests/data/fio-3.33-status-interval-terse.txt");

#[test]
fn the_last_report_of_a_run_counts_in_every_format() {
    for (text, form) in [(NORMAL_STATUS, "fio output"), (TERSE_STATUS, "fio terse")] {
        let imported = import(text);
        let [trial] = imported.trials.as_slice() else {
            panic!("{form}: {:?}", places(&imported));
        };
        assert_eq!((trial.form.as_str(), trial.series.len()), (form, 4));
        let last = trial.series.last().unwrap();
        assert_eq!(last.end_ns, 3_001_000_000, "{form}");
        for point in &trial.series {
            assert!((800.0..1200.0).contains(&point.rate), "{form} {point:?}");
        }
        let told = |remark: &String| remark.contains("last of 4 reports of one run");
        assert!(trial.remarks.iter().any(told), "{form}");
        assert_eq!(imported.unread, [], "{form}");
        assert_eq!(imported.duplicates, [], "{form}");
    }
}

#[test]
fn repeated_runs_of_one_job_are_not_reports_of_one_run() {
    // In a container, the process number is 7 in every run.
    let again = |text: &str, day: &str| {
        let text = text.replace("pid=28109", "pid=7");
        text.replace("Nov 22", day)
    };
    let whole = format!(
        "{}{}",
        again(NORMAL_STATUS, "Nov 22"),
        again(NORMAL_STATUS, "Nov 23").replace("3001msec", "3004msec")
    );
    assert_eq!(import(&whole).trials.len(), 2);
    // Only the results, without fio's first lines.
    let (_, results) = again(NORMAL_STATUS, "Nov 22")
        .split_once("process\n")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let last = results.rfind("t: (groupid").unwrap();
    let tomorrow = results[last..]
        .replace("Nov 22", "Nov 23")
        .replace("3001msec", "3003msec");
    assert_eq!(
        import(&format!("{}{tomorrow}", &results[last..]))
            .trials
            .len(),
        2
    );
    // Terse lines with similar runtimes.
    let line = TERSE_STATUS.lines().last().unwrap();
    let longer = line.replace(";12004;4000;1000;3001;", ";12040;4001;1000;3009;");
    assert_ne!(line, longer);
    let imported = import(&format!("{line}\n{longer}\n"));
    assert_eq!(imported.trials.len(), 2);
}

#[test]
fn the_same_report_twice_is_a_copy() {
    let one = CLONES.trim_end();
    for between in ["\n", "", "\n\nand once more:\n"] {
        let imported = import(&format!("{one}{between}{one}\n"));
        let alone = import(one).trials;
        assert_eq!(imported.trials.len(), alone.len(), "{between:?}");
        assert_eq!(imported.duplicates.len(), alone.len(), "{between:?}");
        for (trial, alone) in imported.trials.iter().zip(&alone) {
            assert_eq!(trial.figures, alone.figures, "{between:?}");
            assert_eq!(trial.remarks, alone.remarks, "{between:?}");
        }
    }
    let imported = import(&format!("{NORMAL_STATUS}{NORMAL_STATUS}"));
    assert_eq!((imported.trials.len(), imported.duplicates.len()), (1, 1));
    let duplicate = &imported.duplicates[0];
    assert!(duplicate.again.line > duplicate.first.line);
}

#[test]
fn invalid_values_are_reported_with_their_line() {
    let mut document: serde_json::Value = serde_json::from_str(CLONES).unwrap();
    document["jobs"].as_array_mut().unwrap().truncate(1);
    document["jobs"][0]["read"]["iops"] = "abc".into();
    document["jobs"][0]["read"]["clat_ns"]["percentile"]["99.000000"] = (-5).into();
    document["jobs"][0]["read"]["lat_ns"]["mean"] = serde_json::Value::Null;
    let text = serde_json::to_string_pretty(&document).unwrap();
    let imported = import(&text);
    let told: Vec<(&str, &str)> = imported
        .unread
        .iter()
        .map(|unread| (unread.text.as_str(), unread.why.as_str()))
        .collect();
    assert_eq!(told.len(), 2, "{told:?}");
    for (line, why) in [
        (
            "\"iops\": \"abc\"",
            "`iops` of read is \"abc\", no number of at least 0",
        ),
        (
            "\"99.000000\": -5",
            "`99.000000` of read is -5, no number of at least 0",
        ),
    ] {
        assert!(
            told.iter()
                .any(|(text, told)| text.starts_with(line) && told.contains(why)),
            "{why}: {told:?}"
        );
    }
    let trial = &imported.trials[0];
    assert_eq!(figure(trial, "read.iops"), None);
    assert_eq!(figure(trial, "read.p99"), None);
    assert!(figure(trial, "read.bandwidth").is_some());
}

#[test]
fn reads_sizes_and_grouped_numbers_of_normal_output() {
    let text = "job: (g=0): rw=randread, bs=(R) 16.0KiB-16.0KiB, (W) 16.0KiB-16.0KiB, ioengine=libaio, iodepth=32\n\
                job: (groupid=0, jobs=1): err= 0: pid=100: Sun Nov 22 00:39:49 2026\n\
                \u{20} read: IOPS=1,234, BW=19.3MiB/s (20.2MB/s)(1157MiB/60001msec)\n\
                \u{20}    clat (usec): min=10, max=2,000, avg=1,150.50, stdev=10.1\n";
    let texts = [crate::Text {
        source: "a.txt",
        text,
    }];
    let imported = Read::from(crate::read(&texts, &crate::Options::default()));
    let trial = &imported.trials[0];
    assert_eq!(trial.dimensions["bs"], "16k");
    let value = |name: &str| {
        let mut figures = trial.figures.iter();
        figures.find(|it| it.metric.name == name).map(|it| it.value)
    };
    assert_eq!(value("iops"), Some(1234.0));
    assert_eq!(value("read.mean"), Some(1_150_500.0));
    assert_eq!(value("read.max"), Some(2e6));
}

#[test]
fn a_sum_without_the_lines_of_its_jobs_is_listed() {
    let job = "j: (groupid=0, jobs=1): err= 0: pid=1: Sun Nov 22 00:39:49 2026\n\
               \x20 read: IOPS=100, BW=100MiB/s (105MB/s)(1GiB/10000msec)\n";
    let sums = "\nRun status group 0 (all jobs):\n\
                \x20  READ: bw=100MiB/s (105MB/s), 100MiB/s-100MiB/s (105MB/s-105MB/s), io=1GiB, run=10000-10000msec\n\
                \x20 WRITE: bw=251MiB/s (263MB/s), 251MiB/s-251MiB/s (263MB/s-263MB/s), io=1GiB, run=10000-10000msec\n";
    let source = "fio.txt";
    // Pasted lines are indented less than the sums.
    for text in [
        format!("{job}{sums}"),
        format!("{}{}", job.split_once('\n').unwrap().1, sums.trim_start()),
    ] {
        let imported = crate::read(
            &[crate::Text {
                source,
                text: &text,
            }],
            &crate::Options::default(),
        );
        assert_eq!(imported.trials.len(), 1);
        let unread: Vec<&str> = imported.unread.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(unread.len(), 1, "{unread:?}");
        assert!(unread[0].starts_with("WRITE: bw=251MiB/s"), "{unread:?}");
    }
}

#[test]
fn a_percentile_in_the_last_bin_is_withheld_if_latencies_are_longer() {
    let text = |max: &str| {
        format!(
            "j: (groupid=0, jobs=1): err= 0: pid=1: Sun Nov 22 00:39:49 2026\n\
             \x20 read: IOPS=100, BW=100MiB/s (105MB/s)(100GiB/1000000msec)\n\
             \x20   clat (msec): min=1, max={max}, avg=16000.50, stdev=2.00\n\
             \x20   clat percentiles (msec):\n\
             \x20    | 10.00th=[  100], 50.00th=[17113], 99.00th=[17113]\n"
        )
    };
    let source = "fio.txt";
    for (max, withheld) in [("80000", 2), ("17150", 0)] {
        let text = text(max);
        let imported = crate::read(
            &[crate::Text {
                source,
                text: &text,
            }],
            &crate::Options::default(),
        );
        let trial = imported.trials.iter().next().unwrap();
        assert_eq!(trial.withheld.len(), withheld, "{max}: {trial:?}");
        let kept = trial
            .figures
            .iter()
            .filter(|it| it.metric.name.starts_with("read.p"))
            .count();
        assert_eq!(kept, 2 - withheld, "{max}");
    }
}
