use iodyno_judge::testing::{self, operations as made};
use iodyno_model::{
    CloneResult, Direction, DirectionResult, Finding, FindingKind, Histogram, HistogramBuilder,
    Outcome, Part, SampleStats, SamplerCost, SeriesKind, ServerUse, Trial, Weight, Workload,
};
use proptest::prelude::*;
use serde_json::Value;

use super::{RunView, TrialView, run, trial};
use crate::{Style, fio, text};

fn parse(workload: &Workload, measured: &Trial) -> Value {
    let summary = iodyno_judge::summary(workload, measured);
    let findings = iodyno_judge::findings(workload, measured);
    let view = TrialView {
        workload,
        trial: measured,
        summary: &summary,
        findings: &findings,
    };
    serde_json::from_str(&trial(&view)).unwrap()
}

#[test]
fn contains_the_values_of_the_table() {
    let (workload, measured) = testing::four_clones();
    let document = parse(&workload, &measured);
    assert_eq!(document["schema"], "iodyno.trial/1");
    let row = &document["groups"][0]["rows"][0];
    assert_eq!(row["direction"], "read");
    assert_eq!(row["iops"], 138_400.0);
    assert_eq!(row["service"]["percentiles"].as_array().unwrap().len(), 17);
    assert!(row["response"].is_null());
    assert_eq!(document["series"].as_array().unwrap().len(), 20);
    assert_eq!(document["behaviour"]["course"]["is"], "steady");
    assert_eq!(
        document["behaviour"]["regimes"][0]["start_ns"],
        1_000_000_000
    );
    assert_eq!(document["device_shares"][0]["ratio"], 1.0);
    let node = &document["nodes"][0];
    assert_eq!(node["environment"]["memory_bytes"], 24u64 << 30);
    assert_eq!(
        node["environment"]["targets"][0]["stack"][1]["layer"],
        "disk"
    );
}

#[test]
fn contains_layers_servers_costs_and_thresholds() {
    let (workload, mut measured) = testing::four_clones();
    measured.parts[0].sampling = vec![SamplerCost {
        kind: SeriesKind::Disk,
        samples: 20,
        cpu_ns: 1_400_000,
        wall_ns: 1_500_000,
        longest_ns: 210_000,
    }];
    let nothing = parse(&workload, &measured);
    assert!(nothing["servers"].is_null() && nothing["cpu"]["server_cores"].is_null());
    let mut summary = iodyno_judge::summary(&workload, &measured);
    summary.servers = vec![ServerUse {
        name: "virtiofsd".to_owned(),
        user_ns: 10_000_000_000,
        system_ns: 20_000_000_000,
        span_ns: 20_000_000_000,
        written_bytes: None,
        ..ServerUse::default()
    }];
    let findings = [Finding {
        kind: FindingKind::OtherIo,
        weight: Weight::Warning,
        text: "rsync[99] moved 1 GiB".to_owned(),
        threshold: "5 % of the device's bytes".to_owned(),
        remedy: None,
        spans_ns: Vec::new(),
    }];
    let view = TrialView {
        workload: &workload,
        trial: &measured,
        summary: &summary,
        findings: &findings,
    };
    let document: Value = serde_json::from_str(&trial(&view)).unwrap();
    assert_eq!(document["servers"][0]["cores"], 1.5);
    assert!(document["servers"][0]["written_bytes"].is_null());
    assert_eq!(document["cpu"]["server_cores"], 1.5);
    let device = &document["devices"][0];
    assert_eq!(device["queue_mean"], summary.devices[0].queue_mean);
    assert_eq!(
        device["read_await_ns"].as_f64(),
        summary.devices[0].read_await_ns
    );
    assert_eq!(document["nodes"][0]["sampling"][0]["kind"], "disk");
    assert_eq!(document["nodes"][0]["sampling"][0]["cpu_ns"], 1_400_000);
    assert_eq!(
        document["findings"][0]["threshold"],
        "5 % of the device's bytes"
    );
}

#[test]
fn every_quantity_has_its_unit_in_its_key() {
    let (workload, measured) = testing::four_clones();
    let mut names = Vec::new();
    keys(&parse(&workload, &measured), &mut names);
    for bare in [
        "size", "length", "mean", "min", "max", "runtime", "total", "free", "memory",
    ] {
        assert!(!names.iter().any(|name| name == bare), "{bare}");
    }
}

#[test]
fn file_operations_have_their_cycle_its_timed_steps_and_their_needs() {
    let (workload, measured) = made::delete_trial(10_500_000_000);
    let document = parse(&workload, &measured);
    let group = &document["groups"][0];
    assert_eq!(group["operations"]["sets"][0]["size_bytes"], 2 << 20);
    assert_eq!(group["operations"]["cycle"][0]["direction"], "unlink");
    assert_eq!(group["operations"]["needs"]["files"], 100_000);
    assert_eq!(group["operations"]["completion_ns"], 24_500_000_000u64);
    assert!(group.get("shared_files").is_none());
    let (workload, measured) = made::write_sync_trial();
    let document = parse(&workload, &measured);
    let group = &document["groups"][0];
    let timed = |direction: &str| {
        let rows = group["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["direction"] == direction);
        row.unwrap()["timed"].clone()
    };
    assert_eq!(timed("op"), true);
    assert_eq!(timed("sync"), true);
    assert_eq!(timed("write"), false);
    assert!(group["operations"]["completion_ns"].is_null());
    let mut names = Vec::new();
    keys(&document, &mut names);
    assert!(!names.iter().any(|name| name == "size" || name == "length"));
}

#[test]
fn shared_files_have_their_rules() {
    let (workload, measured) = made::fileio_trial();
    let document = parse(&workload, &measured);
    let group = &document["groups"][0];
    assert_eq!(group["shared_files"]["mode"], "rndrw");
    assert_eq!(group["shared_files"]["fsync_every_requests"], 100);
    assert!(group.get("operations").is_none());
    assert!(group["rows"][0].get("timed").is_none());
}

fn keys(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                names.push(name.clone());
                keys(value, names);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| keys(value, names)),
        _ => {}
    }
}

#[test]
fn a_run_contains_its_trials() {
    let (workload, measured) = testing::four_clones();
    let summary = iodyno_judge::summary(&workload, &measured);
    let view = TrialView {
        workload: &workload,
        trial: &measured,
        summary: &summary,
        findings: &[],
    };
    let head = RunView {
        alias: "41".to_owned(),
        about: Some("read-ahead".to_owned()),
        ..RunView::default()
    };
    let document: Value = serde_json::from_str(&run(&head, None, &[view, view])).unwrap();
    assert_eq!(document["run"]["alias"], "41");
    assert_eq!(document["run"]["about"], "read-ahead");
    assert_eq!(document["trials"].as_array().unwrap().len(), 2);
}

fn histogram() -> impl Strategy<Value = Histogram> {
    let bins = prop::collection::btree_map(0..iodyno_model::BinLayout::BINS, 0..1u64 << 40, 0..6);
    (bins, any::<u64>()).prop_map(|(bins, max)| {
        let mut builder = HistogramBuilder::default();
        for (bin, count) in bins {
            builder.bin(bin, count);
        }
        builder.extremes(0, max, u128::from(max), 0);
        builder.build()
    })
}

fn rate() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::MAX),
        -1e3..1e12
    ]
}

fn direction() -> impl Strategy<Value = DirectionResult> {
    let counts = (0..1u64 << 56, 0..1u64 << 56, 0..1u64 << 56);
    let histograms = (histogram(), prop::option::of(histogram()));
    (0..4usize, counts, histograms, rate()).prop_map(|(direction, counts, histograms, rate)| {
        let stats = SampleStats {
            samples: counts.0 % 3,
            min: rate,
            max: rate,
            mean: rate,
            stddev: rate,
        };
        DirectionResult {
            ops: counts.0,
            bytes: counts.1,
            runtime_ns: counts.2,
            submission: histograms.1.clone(),
            completion: None,
            service: histograms.0,
            response: histograms.1,
            bandwidth: stats,
            iops: stats,
            ..DirectionResult::empty(Direction::ALL[direction])
        }
    })
}

fn clone_result() -> impl Strategy<Value = CloneResult> {
    let directions = prop::collection::vec(direction(), 0..3);
    let times = (0..1u64 << 60, 0..1u64 << 56, any::<u64>());
    (0..4u32, directions, times).prop_map(|(job, directions, times)| CloneResult {
        start_ns: times.0,
        runtime_ns: times.1,
        done_ns: None,
        stamp_window_ns: (0, times.2),
        in_flight: Vec::new(),
        ..testing::clone(job, 0, directions)
    })
}

fn part() -> impl Strategy<Value = Part> {
    let clones = prop::collection::vec(clone_result(), 0..3);
    (clones, any::<bool>(), 0..1u64 << 56).prop_map(|(clones, bare, span_ns)| {
        let mut part = testing::part(Vec::new());
        part.clones = clones;
        part.host.span_ns = span_ns;
        if bare {
            // Parts of interrupted trials are rebuilt from frames and have no such data.
            part.host = Default::default();
            part.environment.targets.clear();
            part.steps.clear();
            part.files.clear();
        }
        part
    })
}

fn arbitrary_trial() -> impl Strategy<Value = Trial> {
    let frames = prop::collection::vec((0..5u32, 0..1u64 << 40), 0..5);
    (prop::collection::vec(part(), 0..3), frames, any::<bool>()).prop_map(|(parts, rates, cut)| {
        let mut trial = testing::trial(parts);
        trial.frames = rates
            .iter()
            .enumerate()
            .map(|(number, (job, ops))| {
                let mut frame = testing::frame(number as u32, &[(*job, Direction::Read, *ops, 1)]);
                if ops % 3 == 0 {
                    frame.end_ns = frame.start_ns;
                }
                frame
            })
            .collect();
        if cut {
            trial.outcome = Outcome::Interrupted("kill −9".to_owned());
        }
        trial
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_format_accepts_every_trial(measured in arbitrary_trial(), together in any::<bool>()) {
        let mut jobs = vec![testing::job("a"), testing::reader("b"), testing::job("c")];
        for job in &mut jobs {
            job.reporting.together = together;
            job.pacing.rates.read.iops = 10.0;
        }
        let workload = testing::workload("odd", jobs);
        // Some clones belong to jobs that are not in the workload.
        parse(&workload, &measured);
        let context = fio::Context { now_unix_ms: u64::MAX, ..fio::Context::default() };
        for plus in [false, true] {
            let document = fio::json(&workload, &measured, &context, plus);
            let document: Value = serde_json::from_str(&document).unwrap();
            prop_assert!(no_null(&document), "{document}");
        }
        let terse = fio::terse(&workload, &measured, 3);
        prop_assert!(!terse.contains("NaN") && !terse.contains("inf"), "{terse}");
        let normal = fio::normal(&workload, &measured, &context);
        prop_assert!(!normal.contains("NaN"), "{normal}");
        let summary = iodyno_judge::summary(&workload, &measured);
        let findings = iodyno_judge::findings(&workload, &measured);
        let drawn = text::trial(&workload, &measured, &summary, &findings, Style::default());
        prop_assert!(!drawn.contains("NaN"), "{drawn}");
    }
}

/// fio's schema has no null; serde writes null for a value that is not a number.
fn no_null(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(map) => map.values().all(no_null),
        Value::Array(values) => values.iter().all(no_null),
        _ => true,
    }
}
