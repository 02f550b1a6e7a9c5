//! Measures the cost of sampling on this host: `cost [SECONDS [INTERVAL_MS]]`, by default 10 s at 1000 ms. Fails if
//! it is above the limits.
#![allow(clippy::print_stdout)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use iodyno_host::Roots;
use iodyno_model::SeriesKind;
use iodyno_telemetry::{Collector, Devices, Pools, Scope};

/// The largest share of one core for all samplers together, at an interval of 1 s.
const LIMIT_PERCENT: f64 = 0.5;
/// The largest share for the sampler of other processes: a thousandth for its regular scans, and the same for the
/// more frequent scans at the start and the readings between scans.
const OTHERS_PERCENT: f64 = 0.2;

fn main() -> ExitCode {
    // `cargo bench` adds an argument.
    let words = std::env::args().skip(1).filter(|word| word != "--bench");
    let mut numbers = words.map(|word| {
        word.parse::<u64>()
            .expect("usage: cost [SECONDS [INTERVAL_MS]]")
    });
    let seconds = numbers.next().unwrap_or(10);
    let every = Duration::from_millis(numbers.next().unwrap_or(1000).max(1));
    let scope = Scope {
        every,
        devices: Devices::All,
        block_trace: false,
        pools: Pools::All,
        processes: Vec::new(),
        servers: Vec::new(),
        stats: Vec::new(),
        own: vec![std::process::id()],
    };
    let mut collector = Collector::open(&Roots::host(), &scope);
    let start = Instant::now();
    let now_ns = || i64::try_from(start.elapsed().as_nanos()).unwrap_or(i64::MAX);
    collector.begin(now_ns());
    let mut values = 0;
    let mut due = every;
    while due <= Duration::from_secs(seconds) {
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        let telemetry = collector.sample(now_ns());
        for gap in &telemetry.gaps {
            println!("{}: {}", gap.kind.name(), gap.reason);
        }
        values += telemetry
            .samples
            .iter()
            .map(|sample| sample.values.len())
            .sum::<usize>();
        due += every;
    }
    let span_ns = start.elapsed().as_nanos() as f64;
    println!(
        "{:<10} {:>8} {:>10} {:>11} {:>8}",
        "sampler", "samples", "µs/sample", "longest µs", "% core"
    );
    // A shorter interval may have a higher share, a longer one a lower share.
    let limit = |percent: f64| percent / every.as_secs_f64();
    let mut all_ns = 0;
    let mut too_much = Vec::new();
    for cost in collector.close() {
        let each = cost.cpu_ns as f64 / 1e3 / cost.samples.max(1) as f64;
        let longest = cost.longest_ns as f64 / 1e3;
        let percent = cost.cpu_ns as f64 / span_ns * 100.0;
        let (name, samples) = (cost.kind.name(), cost.samples);
        println!("{name:<10} {samples:>8} {each:>10.1} {longest:>11.1} {percent:>8.4}");
        all_ns += cost.cpu_ns;
        let limit = limit(OTHERS_PERCENT);
        if cost.kind == SeriesKind::Others && percent > limit {
            too_much.push(format!("{name} cost more than {limit:.3} %"));
        }
    }
    let percent = all_ns as f64 / span_ns * 100.0;
    println!(
        "all {percent:.4} % of one core every {} ms, {values} values",
        every.as_millis()
    );
    let limit = limit(LIMIT_PERCENT);
    if percent > limit {
        too_much.push(format!("all cost more than {limit:.3} %"));
    }
    for what in &too_much {
        println!("{what}");
    }
    if too_much.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
