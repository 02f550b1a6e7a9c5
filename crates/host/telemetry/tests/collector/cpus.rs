//! CPUs that appear and disappear, and their times.

use iodyno_model::SeriesKind::{self, Cpu};

use crate::host::{Host, Received, SECOND};

const TICK_NS: u64 = 10_000_000;

fn stat(cpus: &[(u32, [u64; 8])]) -> String {
    let mut text = "cpu  1 1 1 1 1 1 1 1 0 0\n".to_owned();
    for (number, ticks) in cpus {
        let ticks: Vec<String> = ticks.iter().map(u64::to_string).collect();
        text += &format!("cpu{number} {} 0 0\n", ticks.join(" "));
    }
    text + "intr 1 2 3\nctxt 5\n"
}

#[test]
fn times_are_reported_as_increases_in_nanoseconds() {
    let host = Host::whole();
    host.proc("stat", &stat(&[(0, [100, 10, 50, 1000, 5, 1, 2, 3])]));
    let (mut collector, mut heard) = (host.begin(), Received::default());
    host.proc("stat", &stat(&[(0, [103, 11, 55, 1050, 6, 2, 4, 10])]));
    let new = heard.sample(&mut collector, 2);
    let (shape, sample) = new.of(Cpu).next().unwrap();
    assert_eq!(shape.because, None);
    assert_eq!(
        (sample.at_ns, sample.span_ns),
        (2 * SECOND, 2 * SECOND as u64)
    );
    let expected = [4, 5, 50, 1, 3, 7, 1, 2, 0].map(|ticks| Some(ticks * TICK_NS));
    assert_eq!(sample.values, expected);
}

#[test]
fn nothing_is_sampled_at_the_instant_of_the_previous_sample() {
    let host = Host::whole();
    let mut collector = host.open(iodyno_telemetry::Devices::All);
    // Without `begin`, the first call begins.
    assert!(collector.sample(5 * SECOND).is_empty());
    for at_ns in [5 * SECOND, 4 * SECOND, -SECOND] {
        assert!(collector.sample(at_ns).is_empty());
    }
    let samples = collector.sample(5 * SECOND + 1).samples;
    assert!(!samples.is_empty());
    assert!(samples.iter().all(|sample| sample.span_ns == 1));
}

#[test]
fn a_cpu_that_disappears_and_returns_changes_the_shape_and_no_other_count() {
    let host = Host::whole();
    let both = |ticks: u64| stat(&[(0, [ticks; 8]), (1, [ticks; 8])]);
    let interrupts = |head: &str, counts: &str| {
        let text = format!("     {head}\n 36: {counts} PCI-MSIX   1-edge      virtio1-req.0\n");
        host.proc(
            "interrupts",
            &format!("{text}LOC: {counts} Local timer interrupts\n"),
        );
    };
    host.proc("stat", &both(100));
    interrupts("CPU0 CPU1", "500 600");
    let (mut collector, mut heard) = (host.begin(), Received::default());

    host.proc("stat", &both(110));
    interrupts("CPU0 CPU1", "600 700");
    heard.sample(&mut collector, 1);
    assert_eq!(heard.rows(Cpu), ["CPU0", "CPU1"]);
    assert_eq!(heard.value(Cpu, "CPU1", "user"), Some(20 * TICK_NS));

    host.proc("stat", &stat(&[(0, [115; 8])]));
    interrupts("CPU0", "650");
    let new = heard.sample(&mut collector, 2);
    assert_eq!(heard.rows(Cpu), ["CPU0"]);
    assert_eq!(heard.value(Cpu, "CPU0", "user"), Some(10 * TICK_NS));
    assert_eq!(
        heard.value(SeriesKind::Interrupts, "LOC Local timer interrupts", "CPU0"),
        Some(50)
    );
    let reasons = || new.shapes.iter().map(|shape| shape.because.as_deref());
    assert!(
        reasons().all(|because| because == Some("CPU1 disappeared")),
        "{new:?}"
    );
    assert_eq!(reasons().count(), 2);

    host.proc("stat", &stat(&[(0, [116; 8]), (1, [7; 8])]));
    interrupts("CPU0 CPU1", "660 10");
    let new = heard.sample(&mut collector, 3);
    assert!(
        new.shapes
            .iter()
            .all(|shape| shape.because.as_deref() == Some("CPU1 appeared"))
    );
    assert_eq!(heard.value(Cpu, "CPU0", "user"), Some(2 * TICK_NS));
    assert_eq!(heard.value(Cpu, "CPU1", "user"), None);
    let loc = "LOC Local timer interrupts";
    assert_eq!(heard.value(SeriesKind::Interrupts, loc, "CPU0"), Some(10));
    assert_eq!(heard.value(SeriesKind::Interrupts, loc, "CPU1"), None);

    host.proc("stat", &both(117));
    interrupts("CPU0 CPU1", "670 25");
    assert!(heard.sample(&mut collector, 4).shapes.is_empty());
    assert_eq!(heard.value(Cpu, "CPU1", "system"), Some(110 * TICK_NS));
    assert_eq!(heard.value(SeriesKind::Interrupts, loc, "CPU1"), Some(15));
    assert_eq!(heard.0.gaps.iter().filter(|gap| gap.kind == Cpu).count(), 0);
}

#[test]
fn an_idle_time_that_decreases_slightly_counts_as_unchanged() {
    let host = Host::whole();
    let idle = |idle, iowait| host.proc("stat", &stat(&[(0, [1, 0, 1, idle, iowait, 0, 0, 0])]));
    idle(5000, 300);
    let (mut collector, mut heard) = (host.begin(), Received::default());
    for (at_s, now, expected) in [
        (1, (5010, 310), (Some(10), Some(10))),
        (2, (4990, 305), (Some(0), Some(0))),
        // The decrease is not counted twice.
        (3, (5030, 311), (Some(20), Some(1))),
        (4, (5040, 100), (Some(10), None)),
        (5, (5041, 120), (Some(1), Some(20))),
    ] {
        idle(now.0, now.1);
        heard.sample(&mut collector, at_s);
        let ticks = |column| Some(heard.value(Cpu, "CPU0", column)? / TICK_NS);
        assert_eq!((ticks("idle"), ticks("iowait")), expected, "{at_s}");
    }
    assert_eq!(
        heard.gaps(Cpu),
        [(
            4,
            "counts decreased and restart from this sample: CPU0 (iowait)"
        )]
    );
}

#[test]
fn changes_before_begin_are_not_reported() {
    let host = Host::whole();
    host.proc("stat", &stat(&[(0, [1; 8])]));
    let mut collector = host.open(iodyno_telemetry::Devices::All);
    host.proc("stat", &stat(&[(0, [1; 8]), (1, [1; 8])]));
    collector.begin(0);
    let mut heard = Received::default();
    heard.sample(&mut collector, 1);
    assert_eq!(heard.shape(Cpu).because, None);
    assert_eq!(heard.value(Cpu, "CPU1", "user"), Some(0));

    // Changes in a pause between two periods are reported, and counts restart.
    host.proc("stat", &stat(&[(1, [9; 8]), (2, [9; 8])]));
    collector.begin(10 * SECOND);
    heard.sample(&mut collector, 11);
    assert_eq!(
        heard.shape(Cpu).because.as_deref(),
        Some("CPU0 disappeared, CPU2 appeared")
    );
    assert_eq!(heard.value(Cpu, "CPU2", "user"), Some(0));
    let (_, sample) = heard.0.of(Cpu).last().unwrap();
    assert_eq!(sample.span_ns, SECOND as u64);
}
