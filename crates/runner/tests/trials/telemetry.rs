//! What the host did meanwhile comes on the trial's clock, whole, and leaves nothing behind.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use iodyno_model::{BoundPlan, Direction, SeriesKind, Telemetry, TelemetryBatch};
use iodyno_runner::{Death, Event, TrialEnd};

use crate::ends::{child, kill};
use crate::samples::plan;
use crate::stage::{MIB, on_file, simulated, timed, watched};

crate::tests![
    samples_of_every_series_come_with_the_trial,
    nothing_is_sampled_where_nothing_is_wanted,
    a_short_trial_has_its_last_sample,
    a_node_that_is_killed_has_told_all_but_the_last_two_seconds,
    a_trial_that_is_withdrawn_has_no_samples,
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

/// Ends of a series' samples, ms.
fn instants(telemetry: &Telemetry, kind: SeriesKind) -> Vec<u64> {
    let samples = telemetry.of(kind).map(|(_, sample)| sample.at_ns);
    samples.map(|at| u64::try_from(at).unwrap() / MS).collect()
}

/// Sum of a row's column, where every sample has it.
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

/// 2.5 s of direct writes.
fn writes(ms: u64) -> iodyno_model::Job {
    let mut job = timed(on_file("w", "f", &[Direction::Write], 16 * MIB), ms);
    job.engine.direct = true;
    job
}

fn samples_of_every_series_come_with_the_trial() {
    // Not below /tmp, which may be no disk.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut plan = sampled(folder.path(), 100, writes(2500));
    let name = format!("server-{}", std::process::id());
    let server = Command::new("sleep").arg0(&name).arg("60").spawn();
    let mut server = server.unwrap();
    plan.sampling.processes = vec!["nobody-is-called-so".to_owned(), name.clone()];
    let told = watched(&plan, |_, _| {});
    let row = format!("{name}[{}]", server.id());
    server.kill().unwrap();
    server.wait().unwrap();
    let part = told.completed();
    let telemetry = together(&told.telemetry);
    let (first, batches) = (&told.telemetry[0].telemetry, told.telemetry.len());
    assert!((2..=4).contains(&batches), "{batches} batches in 2.5 s");
    assert!(
        instants(first, SeriesKind::Cpu).len() > 5,
        "ten samples go together"
    );
    for kind in [
        SeriesKind::Cpu,
        SeriesKind::Load,
        SeriesKind::Memory,
        SeriesKind::Interrupts,
    ] {
        let at = instants(&telemetry, kind);
        assert!((20..=27).contains(&at.len()), "{kind:?}: {at:?}");
        assert!(
            at.windows(2).all(|pair| pair[0] < pair[1]),
            "{kind:?}: {at:?}"
        );
        assert!(
            (100..150).contains(&at[0]) && (2500..3000).contains(&at[at.len() - 1]),
            "{at:?}"
        );
        let spans: u64 = telemetry.of(kind).map(|(_, sample)| sample.span_ns).sum();
        let last = telemetry.of(kind).last().unwrap().1.at_ns.unsigned_abs();
        // Counts begin a moment after the start.
        assert!(
            spans <= last && last - spans < 50 * MS,
            "{kind:?}: {spans} of {last}"
        );
    }
    // What was sampled since the start agrees with what was counted over the measured time.
    for device in &part.host.devices {
        let sampled = |column| sum(&telemetry, SeriesKind::Disk, &device.name, column);
        let (ios, bytes) = (sampled("writes"), sampled("written_bytes"));
        let (counted, moved) = (device.ios[1], device.bytes[1]);
        assert!(
            ios.abs_diff(counted) <= counted / 20 + 500,
            "{}: {ios}, {counted}",
            device.name
        );
        assert!(
            bytes.abs_diff(moved) <= moved / 20 + 8 * MIB,
            "{}: {bytes}, {moved}",
            device.name
        );
    }
    if part.host.devices.is_empty() {
        eprintln!("SKIPPED in part: the folder lies on no block device");
    }
    check_named(&telemetry, &row);
    let of = |kind| part.sampling.iter().find(|cost| cost.kind == kind);
    let cost = of(SeriesKind::Cpu).unwrap();
    assert!(cost.samples >= 20 && cost.wall_ns > 0 && cost.longest_ns <= cost.wall_ns);
    assert!(of(SeriesKind::Pool).is_none(), "there is no pool below");
    // Sampling is no worker's work.
    let worker = part.clones[0].cpu.user_ns + part.clones[0].cpu.system_ns;
    let harness = part.host.harness_user_ns + part.host.harness_system_ns;
    assert!(worker < harness, "{worker} of {harness}");
}

/// A process was named and is read until it ends; of a name that nobody has it is said once.
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

fn nothing_is_sampled_where_nothing_is_wanted() {
    let told = watched(&sampled(Path::new("/"), 0, simulated("s", 1200)), |_, _| {});
    assert!(told.telemetry.is_empty() && told.completed().sampling.is_empty());
}

fn a_short_trial_has_its_last_sample() {
    for (runtime_ms, instants_ms) in [(300, vec![300]), (2000, vec![1000, 2000])] {
        let told = watched(
            &sampled(Path::new("/"), 1000, simulated("s", runtime_ms)),
            |_, _| {},
        );
        let telemetry = together(&told.telemetry);
        let found = instants(&telemetry, SeriesKind::Cpu);
        assert_eq!(found.len(), instants_ms.len(), "no stump: {found:?}");
        for (found, expected) in found.iter().zip(&instants_ms) {
            assert!((*expected..expected + 300).contains(found), "{found:?}");
        }
        assert!(
            told.completed().notes.is_empty(),
            "{:?}",
            told.completed().notes
        );
    }
}

fn a_node_that_is_killed_has_told_all_but_the_last_two_seconds() {
    for every_ms in [100, 700, 1000] {
        let mut frames = 0;
        let told = watched(
            &sampled(Path::new("/"), every_ms, simulated("s", 60_000)),
            |event, _| {
                if let Event::Frame(_) = event {
                    frames += 1;
                    if frames == 3 {
                        // Most of the time since the last batch.
                        std::thread::sleep(Duration::from_millis(600));
                        kill(&child());
                    }
                }
            },
        );
        assert!(matches!(
            told.end,
            TrialEnd::Failed {
                death: Some(Death::Signal(9)),
                ..
            }
        ));
        let telemetry = together(&told.telemetry);
        let last = *instants(&telemetry, SeriesKind::Cpu).last().unwrap();
        assert!(
            last + 2000 >= 3600,
            "every {every_ms} ms: the last is of {last} ms of 3600"
        );
    }
}

fn a_trial_that_is_withdrawn_has_no_samples() {
    let plan = sampled(Path::new("/"), 100, simulated("s", 60_000));
    let told = watched(&plan, |event, cancel| {
        if let Event::Ready { .. } = event {
            cancel.abort();
        }
    });
    assert!(told.took < Duration::from_secs(5), "{:?}", told.took);
    assert!(told.telemetry.len() <= 1, "{:?}", told.telemetry);
    let missing = sampled(Path::new("/nowhere"), 100, writes(100));
    let told = watched(&missing, |_, _| {});
    assert!(matches!(told.end, TrialEnd::Unprepared(_)) && told.telemetry.is_empty());
    assert!(fs::metadata("/nowhere").is_err());
}
