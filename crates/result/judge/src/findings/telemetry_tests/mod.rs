//! Each finding from telemetry, on a simulated series with the condition, without it, and close to its threshold.

use iodyno_model::{
    DeviceUse, Direction, FindingKind, SeriesKind, StackLayer, Telemetry, Trial, Weight, Workload,
};

use super::tests::{check, clean, found, mount, part};
use crate::testing;
use crate::testing::telemetry::{Named, Recording, SECOND, cpu_second, recording};
use Direction::{Read, Write};
use FindingKind::*;
use SeriesKind::*;
use Weight::{Note, Warning};

mod cap;
mod cpus;
mod interrupts;
mod memory;
mod others;
mod queue;

use cpus::server;
use interrupts::interrupts;

type Rows = Vec<(&'static str, Named)>;

/// Twenty samples for the twenty seconds of the clean trial.
fn seconds(kind: SeriesKind, rows: impl Fn(u32) -> Rows) -> Telemetry {
    recording().seconds(kind, 20, rows).done()
}

/// The clean trial with these series has exactly these findings.
#[track_caller]
fn sampled(name: &str, telemetry: Telemetry, expected: &[(FindingKind, Weight)], words: &[&str]) {
    check(
        name,
        |_, trial| trial.telemetry = telemetry,
        expected,
        words,
    );
}

#[test]
fn missing_telemetry_gaps_and_few_samples_give_no_findings() {
    let faults = || {
        let recording = interrupts(20, [900_000, 10], [5, 5, 0, 0, 90], [0, 0, 100, 0, 0]);
        recording
            .seconds(Reclaim, 20, |_| {
                vec![("", vec![("stalls", 5000), ("swapped_in", 1 << 30)])]
            })
            .seconds(Process, 20, |_| vec![server(SECOND, 1)])
            .seconds(Cgroup, 20, |_| {
                vec![("vda", vec![("reads", 100), ("reads_limit", 100)])]
            })
            .done()
    };
    assert!(found(|_, trial| trial.telemetry = faults()).len() >= 4);
    sampled(
        "gaps",
        recording()
            .gap(0, Interrupts, "gone")
            .gap(3, Cpu, "gone")
            .done(),
        &[],
        &[],
    );
    for count in [0, 1, 2] {
        let few = |trial: &mut Trial| {
            trial.telemetry = faults();
            let last = i64::from(count) * SECOND as i64;
            trial
                .telemetry
                .samples
                .retain(|sample| sample.at_ns <= last);
        };
        check(&format!("{count} samples"), |_, trial| few(trial), &[], &[]);
    }
    check(
        "none known",
        |_, trial| {
            trial.telemetry = faults();
            for sample in &mut trial.telemetry.samples {
                sample.values.fill(None);
            }
        },
        &[],
        &[],
    );
    check(
        "none within the measured time",
        |_, trial| {
            trial.telemetry = faults();
            for sample in &mut trial.telemetry.samples {
                sample.at_ns += 20 * SECOND as i64;
            }
        },
        &[],
        &[],
    );
}
