use iodyno_judge::testing::{self, operations as made};
use iodyno_model::{
    Direction, EndedBy, ErrorCount, Frame, Histogram, Needs, Step, StepTime, Trial, Workload,
};

use super::{ListRow, Live, benchmark_line, benchmark_units, closing, list, list_json, needs};
use crate::Style;
use crate::style::width;

fn close(workload: &Workload, trial: &Trial) -> String {
    let summary = iodyno_judge::summary(workload, trial);
    closing(workload, trial, &summary, Style::default())
}

fn frame(number: u32, latencies: &[u64]) -> Frame {
    let ops = latencies.len() as u64;
    let mut frame = made::frame(
        number,
        &[(Direction::Op, ops, 0), (Direction::Create, ops, 0)],
    );
    frame.jobs[0].directions[0].service = latencies.iter().copied().collect::<Histogram>();
    frame
}

#[test]
fn rows_are_aligned_with_their_heads_for_any_values() {
    let mut live = Live::new("create_empty_and_more");
    let mut text = String::new();
    for number in 0..21 {
        let latencies: Vec<u64> = match number {
            0 => (1..=1000).map(|it| it * 1_000_000).collect(),
            1 => vec![7, 412, 15_300],
            2 => Vec::new(),
            _ => vec![1_230_000; 644],
        };
        text += &live.frame(&frame(number, &latencies)).unwrap();
    }
    for line in text.lines() {
        assert_eq!(line.len(), 85, "{line}");
    }
    let heads = text.lines().filter(|line| line.starts_with("____optype"));
    assert_eq!(heads.count(), 2);
    let shown: Vec<&str> = text.lines().take(5).chain(text.lines().last()).collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn rates_refer_to_the_measured_time() {
    let mut live = Live::new("short");
    let mut ramp = frame(0, &[1000; 50]);
    ramp.step = Step::Ramp;
    assert_eq!(live.frame(&ramp), None);
    let first = live.frame(&frame(1, &[1000; 100])).unwrap();
    assert!(
        first.contains("       1s          100.0          100.0"),
        "{first}"
    );
    // 1.5 seconds long.
    let mut second = frame(2, &[1000; 300]);
    second.end_ns += 500_000_000;
    let second = live.frame(&second).unwrap();
    assert!(
        second.contains("     2.5s          200.0          160.0"),
        "{second}"
    );
    let mut tail = frame(4, &[1000; 3]);
    (tail.start_ns, tail.end_ns) = (3_500_000_000, 3_500_040_000);
    assert_eq!(live.frame(&tail), None, "a frame of 40 µs has no row");
}

#[test]
fn latencies_count_from_the_due_time_if_a_rate_was_requested() {
    let mut late = frame(0, &[1_000_000; 10]);
    late.jobs[0].directions[0].response = Some([50_000_000; 10].into_iter().collect());
    let row = Live::new("late").frame(&late).unwrap();
    assert!(
        row.ends_with("     50.0     50.0     50.0     50.0\n"),
        "{row}"
    );
}

#[test]
fn timed_work_ends_with_separate_rates_of_op_and_loop() {
    let (workload, trial) = made::write_sync_trial();
    insta::assert_snapshot!(close(&workload, &trial));
}

#[test]
fn finite_work_ends_with_set_up_completion_and_regimes() {
    let (workload, mut trial) = made::delete_trial(10_500_000_000);
    trial.parts[0].steps.push(StepTime {
        step: Step::TearDown,
        job: Some(0),
        start_ns: 25_000_000_000,
        span_ns: 212_000_000,
    });
    insta::assert_snapshot!(close(&workload, &trial));
}

#[test]
fn failures_are_named_and_an_empty_result_keeps_the_form() {
    let (workload, mut trial) = made::create_empty_trial();
    let clone = &mut trial.parts[0].clones[0];
    clone.ended = EndedBy::Error;
    clone.errors = vec![ErrorCount {
        direction: Direction::Create,
        errno: 28,
        count: 1,
        first_file: "/mnt/e/iodyno-1/f\x1b9".to_owned(),
        first_offset: 0,
        first_length: 0,
    }];
    let text = close(&workload, &trial);
    assert!(
        text.contains("errors   create ENOSPC × 1, first at /mnt/e/iodyno-1/f?9\n"),
        "{text}"
    );
    trial.parts.clear();
    trial.frames.clear();
    let text = close(&workload, &trial);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0].len(), lines[1].len());
    assert!(lines[1].starts_with("create_emp     0.0s              0            0.0        -"));
    assert_eq!(benchmark_line(&workload, &trial), "");
}

#[test]
fn a_line_has_an_integer_and_pairs_of_value_and_unit() {
    let check = |(workload, trial): (Workload, Trial), expected: &str| {
        let line = benchmark_line(&workload, &trial);
        assert_eq!(line, format!("{expected}\n"));
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(words[1].parse::<u64>().is_ok(), "{line}");
        for pair in words[2..].chunks(2) {
            assert!(pair[0].parse::<f64>().is_ok(), "{line}");
            let known = format!("Unit {} better=", pair[1]);
            assert!(benchmark_units().contains(&known), "{line}");
        }
    };
    check(
        made::create_empty_trial(),
        "Benchmarkfsbench/create_empty 20000 1000.000 ops/sec 990000.0 op-mean-ns 990000 op-p50-ns \
         990000 op-p95-ns 990000 op-p99-ns 990000 op-max-ns",
    );
    let (mut workload, mut trial) = made::delete_trial(10_500_000_000);
    // Without conversion, `-10` would be read as a number of processors.
    workload.name = "delete my-10".to_owned();
    let second = trial.parts[0].clones[0].clone();
    trial.parts[0].clones.push(second);
    check(
        (workload, trial),
        "Benchmarkfsbench/delete_my_10/threads=2 200000 14285.714 ops/sec 140000.0 op-mean-ns \
         140000 op-p50-ns 140000 op-p95-ns 140000 op-p99-ns 140000 op-max-ns 24500000000 completion-ns",
    );
}

fn rows() -> Vec<ListRow> {
    let row = |name: &str, aliases: &[&str], about: &str, needs| ListRow {
        name: name.to_owned(),
        aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
        about: about.to_owned(),
        needs,
        clones: 1,
        ops: None,
    };
    let (mib, gib) = (1 << 20, 1 << 30);
    let create = Needs {
        files: 1,
        files_per_op: 1,
        ..Needs::default()
    };
    let delete = Needs {
        bytes: 20_000 * mib,
        files: 10_000,
        ..Needs::default()
    };
    let append = Needs {
        bytes: 4 * gib,
        files: 2,
        ..Needs::default()
    };
    vec![
        row(
            "create_empty",
            &[],
            "create an empty file and sync the folder; both timed",
            create,
        ),
        row(
            "delete_10k_2MB",
            &["delete_10k_2MiB"],
            "unlink each of 10k files of 2 MiB, newest first; the unlink timed",
            delete,
        ),
        row(
            "write_sync_10MB",
            &[],
            "append 10 MiB to a file and sync it, a new file at 2 GiB; the sync timed",
            append,
        ),
    ]
}

#[test]
fn workloads_are_listed_with_their_space() {
    let narrow = Style {
        width: 80,
        ..Style::default()
    };
    let text = list(&rows(), narrow);
    assert!(text.lines().all(|line| width(line) <= 80), "{text}");
    insta::assert_snapshot!(text);
    let wide = Style {
        width: 140,
        ..Style::default()
    };
    assert_eq!(list(&rows(), wide).lines().count(), 3);
    let colour = list(
        &rows(),
        Style {
            color: true,
            ..narrow
        },
    );
    assert!(
        colour.contains("\x1b[2malso delete_10k_2MiB\x1b[0m"),
        "{colour}"
    );
    assert_eq!(list(&[], narrow), "");
    let json: serde_json::Value = serde_json::from_str(&list_json(&rows())).unwrap();
    assert_eq!(json["workloads"][1]["needs_files"], 10_000);
}

#[test]
fn no_line_of_a_list_is_longer_than_the_terminal() {
    let mut all = rows();
    let needs = Needs {
        bytes: u64::MAX,
        files: 1_000_000_000,
        bytes_per_op: 123_456_789,
        files_per_op: 1,
        ..Needs::default()
    };
    all.push(ListRow {
        name: "größe_und_名前_of_a_workload".to_owned(),
        aliases: vec!["another_name_that_is_long".to_owned(); 3],
        about: "unlink each of 10k files of 2 MiB, newest first (here: files 300 × 1 MiB)"
            .to_owned(),
        needs,
        clones: 1,
        ops: None,
    });
    for columns in [40, 60, 80, 100] {
        let style = Style {
            width: columns,
            ..Style::default()
        };
        let text = list(&all, style);
        assert!(
            text.lines().all(|line| width(line) <= columns),
            "{columns}:\n{text}"
        );
        for row in &all {
            assert!(text.contains(&row.name), "{columns}:\n{text}");
        }
        assert!(text.contains("also delete_10k_2MiB"), "{columns}:\n{text}");
    }
}

#[test]
fn columns_hold_a_million_ops_a_second_and_an_op_of_an_hour() {
    let mut live = Live::new("名前_of_wide_letters");
    for latencies in [vec![3_600_000_000_000; 3], vec![400; 5_000_000]] {
        let row = live.frame(&frame(0, &latencies)).unwrap();
        let line = row.lines().last().unwrap();
        assert_eq!(width(line), 85, "{line}");
        assert_eq!(line.split_whitespace().count(), 8, "{line}");
    }
}

#[test]
fn needs_are_printed_as_space_and_files() {
    let check = |bytes, files, bytes_per_op, files_per_op, ops, expected: &str| {
        let of = Needs {
            bytes,
            files,
            bytes_per_op,
            files_per_op,
            ..Needs::default()
        };
        assert_eq!(needs(&of, ops), expected);
    };
    let mib = 1 << 20;
    let appends = Needs {
        bytes: 6 << 30,
        appended: 6 << 30,
        appended_per_op: 10 << 20,
        files: 3,
        ..Needs::default()
    };
    assert_eq!(needs(&appends, None), "up to 6 GiB, 3 files");
    assert_eq!(needs(&appends, Some(5)), "50 MiB, 3 files");
    check(0, 0, 0, 0, None, "-");
    check(20_000 * mib, 10_000, 0, 0, None, "19.5 GiB, 10 000 files");
    check(
        20_000 * mib,
        10_000,
        0,
        0,
        Some(9),
        "19.5 GiB, 10 000 files",
    );
    check(0, 1, 0, 1, None, "1 file a cycle");
    check(0, 1, 0, 1, Some(999), "1000 files");
    check(0, 1, 10 * mib, 0, None, "10 MiB a cycle");
    check(mib, 1, mib, 1, None, "1 MiB, 1 file a cycle");
    check(
        100 * mib,
        1000,
        mib,
        1,
        None,
        "100 MiB, 1000 files and 1 MiB, 1 file a cycle",
    );
}

#[test]
fn control_characters_in_a_name_are_escaped() {
    let row = Live::new("\x1b[2Jx\ny").frame(&frame(0, &[1])).unwrap();
    assert_eq!(row.lines().count(), 2);
    assert!(!row.contains('\x1b'));
    let (workload, trial) = testing::four_clones();
    // No op completed.
    assert!(close(&workload, &trial).contains("0.0s"));
}
