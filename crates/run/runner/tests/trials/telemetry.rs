//! Telemetry is on the trial's clock and complete, and no sampler remains after the trial.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use iodyno_model::{BoundPlan, Direction, SeriesKind, Step, Telemetry, TelemetryBatch};
use iodyno_runner::{Death, Event, TrialEnd};

use crate::ends::{child, kill};
use crate::samples::plan;
use crate::stage::{LONG_MS, MIB, on_file, simulated, timed, wait_until, watched};

crate::tests![
    samples_of_every_series_come_with_the_trial,
    nothing_is_sampled_if_sampling_is_off,
    a_trial_shorter_than_a_sample_has_one,
    a_layout_is_sampled_before_the_start,
    telemetry_of_a_killed_node_is_kept,
    a_withdrawn_trial_has_no_samples,
];

const MS: u64 = 1_000_000;

fn sampled(folder: &Path, every_ms: u64, job: iodyno_model::Job) -> BoundPlan {
    let mut plan = plan(folder, vec![job]);
    plan.sampling.every_ns = every_ms * MS;
    plan
}

fn together(batches: &[TelemetryBatch]) -> Telemetry {
    let mut all = Telemetry::default();
    for (number, batch) in batches.iter().enumerate() {
        assert_eq!(batch.number as usize, number);
        all.extend(batch.telemetry.clone());
    }
    all
}

/// The samples since the start.
fn since_start(mut telemetry: Telemetry) -> Telemetry {
    let in_trial = |sample: &iodyno_model::Sample| sample.at_ns >= sample.span_ns as i64;
    telemetry.samples.retain(in_trial);
    telemetry
}

/// Ends of a series' samples, ms.
fn instants(telemetry: &Telemetry, kind: SeriesKind) -> Vec<u64> {
    let samples = telemetry.of(kind).map(|(_, sample)| sample.at_ns);
    samples.map(|at| u64::try_from(at).unwrap() / MS).collect()
}

/// Sum of a row's column, if every sample has a value.
fn sum(telemetry: &Telemetry, kind: SeriesKind, row: &str, column: &str) -> u64 {
    let of = telemetry.of(kind).map(|(shape, sample)| {
        let row = shape
            .subjects
            .iter()
            .position(|subject| subject.name == row)?;
        sample.values[row * shape.columns.len() + shape.column(column)?]
    });
    of.map(|value| value.unwrap_or_else(|| panic!("{kind:?} {row} {column}")))
        .sum()
}

/// Direct writes.
fn writes(ms: u64) -> iodyno_model::Job {
    let mut job = timed(on_file("w", "f", &[Direction::Write], 16 * MIB), ms);
    job.work.blocks_mut().unwrap().engine.direct = true;
    job
}

fn samples_of_every_series_come_with_the_trial() {
    // Not below /tmp, which can be in memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut plan = sampled(folder.path(), 100, writes(1500));
    let name = format!("server-{}", std::process::id());
    let server = Command::new("sleep").arg0(&name).arg("60").spawn();
    let mut server = server.unwrap();
    plan.sampling.processes = vec!["nobody-is-called-so".to_owned(), name.clone()];
    plan.frame_ns = 200 * MS;
    let told = watched(&plan, |_, _| {});
    let row = format!("{name}[{}]", server.id());
    server.kill().unwrap();
    server.wait().unwrap();
    let part = told.completed();
    let telemetry = since_start(together(&told.telemetry));
    for kind in [
        SeriesKind::Cpu,
        SeriesKind::Load,
        SeriesKind::Memory,
        SeriesKind::Interrupts,
    ] {
        let all: Vec<(i64, i64)> = telemetry
            .of(kind)
            .map(|(_, sample)| (sample.at_ns, i64::try_from(sample.span_ns).unwrap()))
            .collect();
        let (first, last) = (all[0], all[all.len() - 1].0);
        // The last sample is after the end; of the others there is at most one for each instant of the grid.
        assert!(first.0 >= 100 * MS as i64 && last >= 1500 * MS as i64);
        assert!(all.len() as i64 <= last / (100 * MS as i64) + 1, "{all:?}");
        // Counts begin with the start or shortly after it, and no time between two samples is missing.
        assert!(first.0 >= first.1, "{all:?}");
        for pair in all.windows(2) {
            assert_eq!(pair[0].0 + pair[1].1, pair[1].0, "{kind:?}: {all:?}");
        }
    }
    // Samples of all series are sent together: at most once per second, and at the end.
    let (begun, batches) = (first_sample(&telemetry), told.telemetry.len() as u64);
    let seconds = instants(&telemetry, SeriesKind::Cpu).last().unwrap() / 1000;
    assert!(batches <= seconds + 2, "{batches} in {seconds} s");
    // The samples contain all bytes that the job wrote between the first and the last, and possibly those of other
    // processes.
    let frames = told.frames.iter().filter(|frame| frame.start_ns >= begun);
    let written: u64 = frames.map(|frame| frame.bytes(Direction::Write)).sum();
    let sampled = |column| -> u64 {
        let devices = part.host.devices.iter();
        devices
            .map(|device| sum(&telemetry, SeriesKind::Disk, &device.name, column))
            .sum()
    };
    if !part.host.devices.is_empty() {
        // Except for one block, which the device may have completed long before its worker counted it.
        assert!(sampled("written_bytes") + 4096 >= written, "{written}");
    } else {
        eprintln!("SKIPPED in part: the folder is not on a block device");
    }
    check_named(&telemetry, &row);
    let of = |kind| part.sampling.iter().find(|cost| cost.kind == kind);
    let cost = of(SeriesKind::Cpu).unwrap();
    assert!(cost.samples as usize >= instants(&telemetry, SeriesKind::Cpu).len());
    assert!(cost.wall_ns > 0 && cost.longest_ns <= cost.wall_ns);
    assert!(of(SeriesKind::Pool).is_none(), "there is no pool below");
    // Sampling does not use a worker.
    let worker = part.clones[0].cpu.user_ns + part.clones[0].cpu.system_ns;
    let harness = part.host.harness_user_ns + part.host.harness_system_ns;
    assert!(worker < harness, "{worker} of {harness}");
}

/// The time of the first sample on the trial's clock, ns.
fn first_sample(telemetry: &Telemetry) -> u64 {
    let (_, sample) = telemetry.of(SeriesKind::Cpu).next().unwrap();
    sample.at_ns.unsigned_abs()
}

/// A process is found by name and sampled until it ends; a missing name is reported once.
fn check_named(telemetry: &Telemetry, server: &str) {
    let (shape, sample) = telemetry.of(SeriesKind::Process).next().unwrap();
    assert_eq!(shape.subjects[0].name, server);
    let value = |column| sample.values[shape.column(column).unwrap()].unwrap();
    assert_eq!((value("threads"), value("user")), (1, 0));
    assert!(value("memory") > 10_000);
    let missing = "no process is called `nobody-is-called-so`";
    let gaps = telemetry.gaps.iter().filter(|gap| gap.reason == missing);
    assert_eq!(gaps.count(), 1, "{:?}", telemetry.gaps);
}

fn nothing_is_sampled_if_sampling_is_off() {
    let told = watched(&sampled(Path::new("/"), 0, simulated("s", 300)), |_, _| {});
    assert!(told.telemetry.is_empty() && told.completed().sampling.is_empty());
}

fn a_trial_shorter_than_a_sample_has_one() {
    // Shorter than a sample on any host.
    let plan = sampled(Path::new("/"), 3_600_000, simulated("s", 300));
    let told = watched(&plan, |_, _| {});
    let found = instants(&together(&told.telemetry), SeriesKind::Cpu);
    assert!(found.len() == 1 && found[0] >= 300, "{found:?}");
    let notes = &told.completed().notes;
    assert!(notes.is_empty(), "{notes:?}");
}

/// How often the sampling thread of a node has waited.
fn sleeps(node: &str) -> u64 {
    let threads = fs::read_dir(format!("/proc/{node}/task")).unwrap();
    let status = threads
        .filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).ok())
        .find(|status| status.starts_with("Name:\ttelemetry\n"));
    let status = status.unwrap_or_default();
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.map_or(0, |count| count.trim().parse().unwrap())
}

fn a_layout_is_sampled_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let job = timed(on_file("r", "f", &[Direction::Read], MIB), 300);
    let plan = sampled(folder.path(), 100, job);
    let (mut before, mut after) = (0, 0);
    let wall_ms = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.unwrap().as_millis() as u64
    };
    let told = watched(&plan, |event, _| match event {
        Event::Ready { .. } => {
            // The sampling thread sleeps once before each sample.
            let (node, begun) = (child(), sleeps(&child()));
            wait_until("samples before the start", || sleeps(&node) >= begun + 4);
            before = wall_ms();
        }
        Event::Started { .. } => after = wall_ms(),
        _ => {}
    });
    let (part, telemetry) = (told.completed(), together(&told.telemetry));
    for kind in [SeriesKind::Cpu, SeriesKind::Load, SeriesKind::Memory] {
        let samples = telemetry.of(kind).map(|(_, sample)| sample);
        let spans: Vec<(i64, i64)> = samples
            .map(|sample| (sample.at_ns, sample.span_ns as i64))
            .collect();
        assert!(spans[0].0 - spans[0].1 < 0, "{spans:?}");
        // A sample ends with the start, so that none contains both.
        let across = |(at_ns, span_ns): &&(i64, i64)| *at_ns > 0 && at_ns - span_ns < 0;
        let across: Vec<&(i64, i64)> = spans.iter().filter(across).collect();
        let first = part.clones[0].start_ns.max(1) as i64;
        assert!(
            across
                .iter()
                .all(|(at_ns, _)| *at_ns < first + 100 * MS as i64),
            "{spans:?}"
        );
        assert!(spans.iter().filter(|(at_ns, _)| *at_ns <= 0).count() + across.len() >= 1);
        for pair in spans.windows(2) {
            assert_eq!(pair[0].0 + pair[1].1, pair[1].0, "{kind:?}: {spans:?}");
        }
    }
    let steps: Vec<Step> = part.steps.iter().map(|time| time.step).collect();
    assert_eq!(steps[..2], [Step::LayOut, Step::Measure]);
    let start = part.start_unix_ms.unwrap();
    assert!(
        (before..=after).contains(&start),
        "{before} {start} {after}"
    );
}

fn telemetry_of_a_killed_node_is_kept() {
    for every_ms in [100, 700, 1000] {
        let mut batches = 0;
        let plan = sampled(Path::new("/"), every_ms, simulated("s", LONG_MS));
        let told = watched(&plan, |event, _| {
            if let Event::Telemetry(_) = event {
                batches += 1;
                if batches == 2 {
                    kill(&child());
                }
            }
        });
        assert!(matches!(
            told.end,
            TrialEnd::Failed {
                death: Some(Death::Signal(9)),
                ..
            }
        ));
        // The second batch is sent in the second second of the trial, or slightly earlier if its sample was due then.
        let telemetry = together(&told.telemetry);
        let last = *instants(&telemetry, SeriesKind::Cpu).last().unwrap();
        assert!(last >= 2000 - every_ms / 4, "every {every_ms} ms: {last}");
    }
}

fn a_withdrawn_trial_has_no_samples() {
    let plan = sampled(Path::new("/"), 100, simulated("s", LONG_MS));
    let told = watched(&plan, |event, stop| {
        if let Event::Ready { .. } = event {
            stop.abort();
        }
    });
    // It can begin before it receives the request. Then telemetry is sent at most once per second, and at the end.
    assert!(told.telemetry.len() as u64 <= told.took.as_secs() + 2);
    let missing = sampled(Path::new("/nowhere"), 100, writes(100));
    let told = watched(&missing, |_, _| {});
    assert!(matches!(told.end, TrialEnd::Unprepared(_)) && told.telemetry.is_empty());
    assert!(fs::metadata("/nowhere").is_err());
}
