//! Files that are missing, empty or invalid for some time: a gap with its reason, one when it ends, and no lost
//! counts.

use std::fs;

use iodyno_model::SeriesKind;
use proptest::prelude::*;

use crate::host::{FILES, Host, Received, SECOND, VMSTAT};

/// A change of a host's file with this name.
type Injection = fn(&Host, &str);

#[test]
fn a_file_that_fails_for_some_time_is_one_gap_and_one_return() {
    let faults: [(&str, Injection); 4] = [
        ("missing", |host, name| {
            fs::remove_file(host.path("proc").join(name)).unwrap();
        }),
        ("empty", |host, name| host.proc(name, "")),
        ("garbled", |host, name| {
            host.proc(name, "cpu0 x\n\n: 5 -\n8 0 vda 7\nMemFree: ?\n")
        }),
        ("no text", |host, name| {
            fs::write(host.path("proc").join(name), [0xff, 0x00, 0xc3]).unwrap();
        }),
    ];
    let all = FILES.iter().map(|(name, text, kind)| (*name, *text, *kind));
    for (name, text, kind) in all.chain([("vmstat", VMSTAT, SeriesKind::Reclaim)]) {
        for (fault, apply) in &faults {
            let host = Host::whole();
            let (mut collector, mut heard) = (host.begin(), Received::default());
            heard.sample(&mut collector, 1);
            apply(&host, name);
            for at_s in [2, 3] {
                let new = heard.sample(&mut collector, at_s);
                assert_eq!(new.of(kind).count(), 0, "{name} {fault}");
                assert!(heard.0.kinds().len() >= 7, "{name} {fault}");
            }
            host.proc(name, text);
            heard.sample(&mut collector, 4);
            heard.sample(&mut collector, 5);
            let gaps = heard.gaps(kind);
            assert_eq!(gaps.len(), 2, "{name} {fault}: {gaps:?}");
            assert_eq!(gaps[0].0, 2);
            assert!(gaps[0].1.contains(name), "{name} {fault}: {gaps:?}");
            assert_eq!(gaps[1], (4, "readable again"));
            // Counts during the gap are not lost: the sample's span contains it.
            let spans: Vec<i64> = heard
                .0
                .of(kind)
                .map(|(_, sample)| sample.span_ns as i64)
                .collect();
            assert_eq!(spans, [SECOND, 3 * SECOND, SECOND], "{name} {fault}");
            assert_eq!(
                heard
                    .0
                    .shapes
                    .iter()
                    .filter(|shape| shape.kind == kind)
                    .count(),
                1
            );
        }
    }
}

#[test]
fn a_host_without_any_file_has_one_gap_per_series() {
    let host = Host::empty();
    let (mut collector, mut heard) = (host.begin(), Received::default());
    for at_s in 1..5 {
        heard.sample(&mut collector, at_s);
    }
    for kind in [
        SeriesKind::Cpu,
        SeriesKind::Interrupts,
        SeriesKind::Load,
        SeriesKind::Disk,
        SeriesKind::Pressure,
        SeriesKind::Memory,
        SeriesKind::Reclaim,
    ] {
        let gaps = heard.gaps(kind);
        assert_eq!(gaps.len(), 1, "{gaps:?}");
        assert_eq!(gaps[0].0, 1);
        assert!(gaps[0].1.contains("No such file"), "{gaps:?}");
        assert_eq!(heard.0.of(kind).count(), 0);
    }
    assert!(heard.gaps(SeriesKind::Pressure)[0].1.contains("psi=1"));
}

#[test]
fn a_series_that_becomes_readable_later_counts_from_then_on() {
    let host = Host::whole();
    fs::remove_file(host.path("proc/stat")).unwrap();
    let (mut collector, mut heard) = (host.begin(), Received::default());
    heard.sample(&mut collector, 1);
    host.proc("stat", "cpu0 100 0 0 0\n");
    assert_eq!(
        heard.sample(&mut collector, 2).of(SeriesKind::Cpu).count(),
        0
    );
    host.proc("stat", "cpu0 101 0 0 0\n");
    heard.sample(&mut collector, 3);
    assert_eq!(
        heard.value(SeriesKind::Cpu, "CPU0", "user"),
        Some(10_000_000)
    );
    let gaps = heard.gaps(SeriesKind::Cpu);
    assert_eq!(gaps.len(), 2);
    assert_eq!(gaps[1], (2, "readable again"));
}

#[test]
fn an_error_that_ends_before_begin_is_not_reported() {
    let host = Host::whole();
    fs::remove_file(host.path("proc/stat")).unwrap();
    let mut collector = host.open(iodyno_telemetry::Devices::All);
    host.proc("stat", "cpu0 100 0 0 0\n");
    collector.begin(0);
    let mut heard = Received::default();
    heard.sample(&mut collector, 1);
    assert_eq!(heard.gaps(SeriesKind::Cpu), []);
    assert_eq!(heard.value(SeriesKind::Cpu, "CPU0", "user"), Some(0));
}

#[test]
fn memory_is_reported_without_the_limits_of_dirty_pages() {
    let host = Host::whole();
    fs::remove_file(host.path("proc/vmstat")).unwrap();
    let (mut collector, mut heard) = (host.begin(), Received::default());
    heard.sample(&mut collector, 1);
    assert_eq!(heard.gaps(SeriesKind::Memory), []);
    assert_eq!(heard.value(SeriesKind::Memory, "", "dirty_limit"), None);
    assert!(heard.value(SeriesKind::Memory, "", "free").is_some());
    assert_eq!(heard.gaps(SeriesKind::Reclaim).len(), 1);
}

#[test]
fn pressure_of_interrupts_is_reported_if_the_kernel_has_it() {
    let host = Host::whole();
    host.proc(
        "pressure/irq",
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",
    );
    let (mut collector, mut heard) = (host.begin(), Received::default());
    host.proc(
        "pressure/irq",
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n",
    );
    heard.sample(&mut collector, 1);
    assert_eq!(
        heard.rows(SeriesKind::Pressure),
        ["cpu", "io", "memory", "irq"]
    );
    assert_eq!(heard.value(SeriesKind::Pressure, "irq", "full"), Some(4000));
    assert_eq!(heard.value(SeriesKind::Pressure, "irq", "some"), None);
    assert_eq!(heard.gaps(SeriesKind::Pressure), []);
}

#[test]
fn each_sampler_reports_its_cost() {
    let host = Host::whole();
    let mut collector = host.begin();
    for at_s in 1..=3 {
        collector.sample(at_s * SECOND);
    }
    let costs = collector.close();
    assert!(costs.len() >= 7);
    for cost in costs {
        assert_eq!(cost.samples, 3, "{cost:?}");
        assert!(cost.longest_ns * 3 >= cost.wall_ns, "{cost:?}");
        assert!(cost.longest_ns <= cost.wall_ns, "{cost:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_change_of_any_file_stops_the_collector(
        changes in prop::collection::vec(
            (0..FILES.len(), any::<prop::sample::Index>(), 0usize..400, "[ -~\n]{0,40}|\\PC{0,3}"), 1..12
        )
    ) {
        let host = Host::whole();
        let (mut collector, mut heard) = (host.begin(), Received::default());
        for (at_s, (file, place, length, text)) in (1..).zip(&changes) {
            let (name, whole, _) = FILES[*file];
            let begin = place.index(whole.len());
            let end = (begin + length).min(whole.len());
            // All of them are ASCII.
            host.proc(name, &format!("{}{text}{}", &whole[..begin], &whole[end..]));
            let new = heard.sample(&mut collector, at_s);
            for shape in &new.shapes {
                prop_assert_eq!(heard.0.shapes[shape.number as usize].number, shape.number);
            }
        }
    }
}
