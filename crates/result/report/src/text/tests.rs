use iodyno_judge::testing::{self, operations as made};
use iodyno_model::{
    After, Arrival, DeviceLayer, DeviceUse, Direction, EndedBy, Engine, EngineKind, ErrorCount,
    Finding, FindingKind, Outcome, ServerUse, SimClock, SimOptions, StackLayer, Step, StepTime,
    Trial, VerifyResult, Weight, Workload,
};

use super::{RunRow, list};
use crate::Style;
use crate::style::width;
use Direction::{Read, Sync, Write};

const WIDE: Style = Style {
    color: false,
    width: 100,
    unicode: true,
};

fn draw(workload: &Workload, trial: &Trial, style: Style) -> String {
    let summary = iodyno_judge::summary(workload, trial);
    let findings: Vec<Finding> = iodyno_judge::findings(workload, trial);
    super::trial(workload, trial, &summary, &findings, style)
}

#[test]
fn one_group_is_described_in_the_first_line() {
    let (workload, trial) = testing::four_clones();
    insta::assert_snapshot!(draw(&workload, &trial, WIDE));
}

#[test]
fn ascii_terminals_get_ascii() {
    let (workload, trial) = testing::four_clones();
    let text = draw(
        &workload,
        &trial,
        Style {
            unicode: false,
            ..WIDE
        },
    );
    assert!(text.is_ascii(), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn no_line_is_longer_than_the_terminal() {
    let (workload, trial) = paced();
    for columns in [40, 60, 72, 80, 120] {
        let text = draw(
            &workload,
            &trial,
            Style {
                width: columns,
                ..WIDE
            },
        );
        for line in text.lines() {
            assert!(width(line) <= columns, "{columns}: {line}");
        }
    }
    insta::assert_snapshot!(draw(&workload, &trial, Style { width: 60, ..WIDE }));
}

/// Two simultaneous jobs with few ops: one with a rate and a coarse timestamp window, one with syncs.
fn paced() -> (Workload, Trial) {
    let mut paced = testing::reader("latency");
    paced.pacing.rates.read.iops = 1000.0;
    paced.pacing.arrival = Arrival::Poisson;
    let mut log = testing::job("log");
    (
        log.work.blocks_mut().unwrap().access.reads,
        log.work.blocks_mut().unwrap().engine.direct,
        log.work.blocks_mut().unwrap().sync.fsync_every,
    ) = (false, false, 32);
    log.clones = 2;
    let mut reads = testing::direction(Read, 20_000, 60_000);
    reads.response = Some(testing::latencies(20_000, 75_000));
    let writer = |clone| {
        let writes = testing::direction(Write, 4_000, 24_000);
        testing::clone(
            1,
            clone,
            vec![writes, testing::direction(Sync, 125, 1_900_000)],
        )
    };
    let clones = vec![testing::clone(0, 0, vec![reads]), writer(0), writer(1)];
    let mut trial = testing::trial(vec![testing::part(clones)]);
    trial.parts[0].steps.push(StepTime {
        step: Step::EndFsync,
        job: Some(1),
        start_ns: 20_004_100_000,
        span_ns: 1_310_000_000,
    });
    (testing::workload("oltp", vec![paced, log]), trial)
}

#[test]
fn response_latency_is_first_if_a_rate_was_requested() {
    let (workload, trial) = paced();
    insta::assert_snapshot!(draw(&workload, &trial, WIDE));
}

#[test]
fn a_failed_trial_reports_the_failure_and_keeps_its_figures() {
    let mut first = testing::job("write");
    (
        first.work.blocks_mut().unwrap().access.reads,
        first.work.blocks_mut().unwrap().verify,
    ) = (false, Some(Default::default()));
    let mut second = testing::reader("read back");
    second.after = After::AllBefore;
    second.reporting.group = 1;
    let mut writer = testing::clone(0, 0, vec![testing::direction(Write, 50_000, 300_000)]);
    writer.ended = EndedBy::Error;
    writer.errors = vec![ErrorCount {
        direction: Write,
        errno: 28,
        count: 1,
        first_file: "/mnt/e/write.0.0".to_owned(),
        first_offset: 204_800_000,
        first_length: 0,
    }];
    writer.verify = Some(VerifyResult {
        checked: 50_000,
        corrupt: 1,
        first: Some("/mnt/e/write.0.0 at 8192".to_owned()),
        ..VerifyResult::default()
    });
    let mut never = testing::clone(1, 0, Vec::new());
    (never.ended, never.runtime_ns) = (EndedBy::NotStarted, 0);
    let mut trial = testing::trial(vec![testing::part(vec![writer, never])]);
    trial.outcome = Outcome::Failed("job `write`: ENOSPC".to_owned());
    trial.parts[0].notes = vec!["the cache could not be dropped: EPERM".to_owned()];
    let workload = testing::workload("fill", vec![first, second]);
    insta::assert_snapshot!(draw(&workload, &trial, WIDE));
}

#[test]
fn colours_mark_important_parts_and_do_not_change_the_text() {
    let (workload, mut trial) = paced();
    trial.parts[0].host.devices[0].bytes[0] = 0;
    let plain = draw(&workload, &trial, WIDE);
    let coloured = draw(
        &workload,
        &trial,
        Style {
            color: true,
            ..WIDE
        },
    );
    let red = coloured.lines().find(|line| line.starts_with("\x1b[31m!"));
    assert!(red.is_some(), "{coloured}");
    let mut stripped = coloured;
    for code in ["0", "1", "2", "31", "32", "33", "36"] {
        stripped = stripped.replace(&format!("\x1b[{code}m"), "");
    }
    assert_eq!(stripped, plain);
}

#[test]
fn an_empty_trial_is_reported() {
    let (workload, mut trial) = testing::four_clones();
    trial.parts.clear();
    trial.frames.clear();
    trial.outcome = Outcome::Refused("/dev/vda1 is mounted on /".to_owned());
    insta::assert_snapshot!(draw(&workload, &trial, WIDE));
}

#[test]
fn control_characters_in_names_are_escaped() {
    let (mut workload, mut trial) = testing::four_clones();
    workload.name = "\x1b[2Jrandrw\r".to_owned();
    trial.parts[0].environment.targets[0].stack = vec![StackLayer::Other("a\x07b".to_owned())];
    trial.parts[0].notes = vec!["line\nbreak \x1b]0;title".to_owned()];
    let text = draw(&workload, &trial, WIDE);
    let control = text.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(control, None, "{text:?}");
    assert!(text.contains("line break"));
}

#[test]
fn runs_are_listed_in_columns() {
    let run = |alias: &str, state: &str, name: &str, apart: &str| RunRow {
        alias: alias.to_owned(),
        started_unix_ms: 1_795_291_756_530,
        utc_offset_s: 3600,
        span_ns: 23_400_000_000,
        state: state.to_owned(),
        trials_done: 1,
        trials_planned: 1,
        name: name.to_owned(),
        apart: apart.to_owned(),
        headline: "read 138.4k IOPS p99 1.19 ms".to_owned(),
    };
    let mut long = run(
        "100",
        "interrupted",
        "zfs-vs-ext4",
        "--on ext4=/mnt/e bs=64k",
    );
    (long.trials_done, long.trials_planned) = (7, 20);
    long.headline = "x".repeat(200);
    let rows = [run("9", "completed", "größe", ""), long];
    insta::assert_snapshot!(list(&rows, WIDE));
    let whole = Style {
        width: usize::MAX,
        ..WIDE
    };
    let text = list(&rows, whole);
    assert!(text.contains(&"x".repeat(200)), "{text}");
    assert!(!list(&rows[..1], WIDE).contains("differs in"));
    assert_eq!(list(&[], WIDE), "");
    // Long names are cut: one line per run also on a terminal of 80 columns.
    let long = run(
        "7",
        "completed",
        &"long-name-".repeat(20),
        "--set bs=64k --set rw=randread",
    );
    let text = list(&[long, rows[0].clone()], Style { width: 80, ..WIDE });
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.lines().all(|line| width(line) <= 80), "{text}");
    // The distinguishing part is cut after their common name.
    let name = "a-name-for-all-runs-of-the-comparison";
    let apart = ["bs=4k rw=randread", "bs=64k rw=randwrite"];
    let text = list(
        &apart.map(|apart| run("7", "completed", name, apart)),
        Style { width: 80, ..WIDE },
    );
    assert!(apart.iter().all(|apart| text.contains(apart)), "{text}");
    assert!(text.contains("read 138.4k"), "{text}");
}

#[test]
fn file_operations_have_their_op_first_and_list_its_steps() {
    let (mut workload, mut trial) = made::create_empty_trial();
    workload.jobs[0].clones = 4;
    if let Some(operations) = workload.jobs[0].work.file_operations_mut() {
        operations.own_folders = true;
    }
    trial.workload = "create_empty".to_owned();
    insta::assert_snapshot!(draw(&workload, &trial, WIDE));
}

#[test]
fn untimed_steps_are_separate_and_only_writes_have_a_bandwidth() {
    let (workload, trial) = made::write_sync_trial();
    insta::assert_snapshot!(draw(&workload, &trial, WIDE));
}

#[test]
fn deletes_report_set_up_regimes_and_completion() {
    let (workload, trial) = made::delete_trial(10_500_000_000);
    insta::assert_snapshot!(draw(&workload, &trial, WIDE));
}

#[test]
fn shared_files_are_described_by_their_rules() {
    let (workload, trial) = made::fileio_trial();
    insta::assert_snapshot!(draw(&workload, &trial, WIDE));
}

#[test]
fn file_operations_keep_within_the_terminal() {
    for (workload, trial) in [
        made::create_empty_trial(),
        made::write_sync_trial(),
        made::delete_trial(1_000_000_000),
        made::fileio_trial(),
    ] {
        for columns in [60, 80, 120] {
            let style = Style {
                width: columns,
                unicode: false,
                ..WIDE
            };
            let text = draw(&workload, &trial, style);
            assert!(text.is_ascii(), "{text}");
            assert!(text.lines().all(|line| width(line) <= columns), "{text}");
        }
    }
}

/// A loop device on a file of the disk's file system, with a partition in between.
fn layered() -> (Workload, Trial) {
    let (workload, mut trial) = testing::four_clones();
    let part = &mut trial.parts[0];
    let vda = part.host.devices[0].clone();
    let device = |name: &str| DeviceLayer {
        name: name.to_owned(),
        ..DeviceLayer::default()
    };
    let stack = &mut part.environment.targets[0].stack;
    let disk = stack.pop().unwrap();
    stack.push(StackLayer::Loop {
        device: device("loop0"),
        file: "/data/disk.img".into(),
        direct: true,
    });
    stack.push(StackLayer::Partition(device("vda1")));
    stack.push(disk);
    let named = |name: &str, slower| DeviceUse {
        name: name.to_owned(),
        ticks_ms: vda.ticks_ms.map(|ms| ms * slower),
        queue_ms: vda.queue_ms * slower,
        ..vda.clone()
    };
    part.host.devices = vec![named("loop0", 12), named("vda1", 1), vda.clone()];
    (workload, trial)
}

#[test]
fn stacked_devices_have_one_line_each_and_servers_their_cpu_time() {
    let (workload, trial) = layered();
    let mut summary = iodyno_judge::summary(&workload, &trial);
    let server = |name: &str, processes, cores: u64| ServerUse {
        name: name.to_owned(),
        processes,
        user_ns: cores * 4_000_000_000,
        system_ns: cores * 15_000_000_000,
        threads: 9 * u64::from(processes),
        memory: 118 << 20,
        read_bytes: Some(11 << 30),
        written_bytes: (processes == 1).then_some(0),
        span_ns: 19_000_000_000,
        ..ServerUse::default()
    };
    summary.servers = vec![
        server("qemu-system-x86_64", 2, 1),
        server("virtiofsd", 1, 2),
    ];
    let draw = |style| super::trial(&workload, &trial, &summary, &[], style);
    let text = draw(WIDE);
    let lines: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("cpu"))
        .take_while(|line| !line.starts_with("steps"))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
    for columns in [40, 60, 80] {
        let text = draw(Style {
            width: columns,
            unicode: false,
            ..WIDE
        });
        assert!(text.is_ascii(), "{text}");
        assert!(text.lines().all(|line| width(line) <= columns), "{text}");
    }
}

#[test]
fn one_device_below_the_target_has_no_list_of_layers() {
    let (workload, mut trial) = layered();
    trial.parts[0].host.devices.remove(0);
    let text = draw(&workload, &trial, WIDE);
    assert!(!text.contains("layers"), "{text}");
}

#[test]
fn notes_are_on_one_line_unless_they_are_shown_with_their_thresholds() {
    let (workload, trial) = testing::four_clones();
    let summary = iodyno_judge::summary(&workload, &trial);
    let finding = |kind: FindingKind, weight: Weight| Finding {
        kind,
        weight,
        text: format!("{kind:?}: 61.2 requests"),
        threshold: "twice as many as the device works on at a time".to_owned(),
        remedy: Some("lower iodepth".to_owned()),
        spans_ns: Vec::new(),
    };
    let findings = [
        finding(FindingKind::QueueSaturated, Weight::Warning),
        finding(FindingKind::TooShort, Weight::Note),
        finding(FindingKind::Unwritten, Weight::Note),
        finding(FindingKind::TooShort, Weight::Note),
    ];
    let end = |text: &str| -> Vec<String> {
        let lines = text.lines().skip_while(|line| !line.starts_with('!'));
        lines.map(str::to_owned).collect()
    };
    let threshold = "  threshold: twice as many as the device works on at a time";
    assert_eq!(
        end(&super::trial_in_full(
            &workload, &trial, &summary, &findings, WIDE
        )),
        [
            "! QueueSaturated: 61.2 requests → lower iodepth",
            threshold,
            "! TooShort: 61.2 requests → lower iodepth",
            threshold,
            "! Unwritten: 61.2 requests → lower iodepth",
            threshold,
            "! TooShort: 61.2 requests → lower iodepth",
            threshold,
        ]
    );
    assert_eq!(
        end(&super::trial(&workload, &trial, &summary, &findings, WIDE)),
        [
            "! QueueSaturated: 61.2 requests → lower iodepth",
            "notes: too few ops for the tail, extents never written before (details: iodyno show)",
        ]
    );
    for columns in [40, 60] {
        let style = Style {
            width: columns,
            unicode: false,
            ..WIDE
        };
        let text = super::trial_in_full(&workload, &trial, &summary, &findings, style);
        assert!(text.is_ascii(), "{text}");
        assert!(text.lines().all(|line| width(line) <= columns), "{text}");
    }
}

#[test]
fn remarks_on_ascii_terminals_are_ascii() {
    let (workload, mut trial) = paced();
    trial.parts[0].notes = vec!["10 µs ≥ 9 µs → slow".to_owned()];
    trial.outcome = Outcome::Failed("job `write`: 1 × ENOSPC…".to_owned());
    let findings = iodyno_judge::findings(&workload, &trial);
    let text = super::remarks(
        &trial,
        &findings,
        Style {
            unicode: false,
            ..WIDE
        },
    );
    assert!(text.is_ascii() && text.contains("-> slow"), "{text}");
    assert!(super::remarks(&trial, &findings, WIDE).contains("→ slow"));
}

#[test]
fn a_simulation_names_its_clock() {
    let (mut workload, trial) = testing::four_clones();
    let header = |workload: &Workload| {
        let text = draw(workload, &trial, Style { width: 200, ..WIDE });
        text.lines().next().unwrap_or_default().to_owned()
    };
    assert!(!header(&workload).contains("time"));
    fn engine(workload: &mut Workload) -> &mut Engine {
        let engine = workload.jobs[0].work.engine_mut();
        engine.expect("blocks have an engine")
    }
    engine(&mut workload).kind = EngineKind::Sim;
    assert!(header(&workload).ends_with("simulated in virtual time"));
    engine(&mut workload).sim = Some(SimOptions {
        clock: SimClock::Real,
        ..SimOptions::default()
    });
    assert!(header(&workload).ends_with("simulated in real time"));
}
