//! The cost of each node of a trial for the coordinator, printed by `make bench`.
//!
//! The nodes are simulated: their messages are recorded, with telemetry of 16 CPUs and 4 disks each second, and
//! replayed as bytes as fast as they are read. CPU is that of the whole process for the start, reading, storing,
//! merging and judging of one trial, divided by the nodes and the seconds of the trial. Memory is the largest resident
//! set minus that with one node, divided by the other nodes.
#![allow(clippy::print_stdout, reason = "a program of its own")]

#[path = "../tests/wire/mod.rs"]
mod wire;

use std::process::Command;
use std::time::{Duration, Instant};

use iodyno_model::Outcome;
use iodyno_store::SqliteStore;

use wire::Wire;

/// Length of the trial, s.
const SECONDS: u64 = 20;
const NODES: [usize; 4] = [1, 10, 100, 1000];

/// The cost of a trial.
struct Cost {
    cpu_s: f64,
    wall_s: f64,
    resident_kib: f64,
    /// From the last message to the merged result.
    merged_s: f64,
    bytes: f64,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    if let Some(nodes) = arguments.find_map(|one| one.parse::<usize>().ok()) {
        return alone(nodes);
    }
    println!("coordinator's cost of a trial of {SECONDS} s by the number of nodes");
    println!(
        "  nodes   CPU per node and second   of a CPU in all   memory per node   merged after   bytes per node and second"
    );
    let mut first: Option<Cost> = None;
    for nodes in NODES {
        let cost = in_a_process(nodes);
        let per = (nodes as u64 * SECONDS) as f64;
        let memory = first.as_ref().map_or("–".to_owned(), |first| {
            let further = (nodes - 1) as f64;
            format!(
                "{:.0} KiB",
                (cost.resident_kib - first.resident_kib) / further
            )
        });
        println!(
            "  {nodes:>5}   {:>20.0} µs   {:>13.1} %   {memory:>15}   {:>9.3} s   {:>18.0} (in {:.2} s)",
            cost.cpu_s / per * 1e6,
            cost.cpu_s / SECONDS as f64 * 100.0,
            cost.merged_s,
            cost.bytes / per,
            cost.wall_s,
        );
        first.get_or_insert(cost);
    }
}

/// Runs a trial in a new process, because the memory of an earlier one would count.
fn in_a_process(nodes: usize) -> Cost {
    let this = std::env::current_exe().expect("this program");
    let output = Command::new(this).arg(nodes.to_string()).output();
    let output = output.expect("this program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let figures: Vec<f64> = text
        .split_whitespace()
        .filter_map(|one| one.parse().ok())
        .collect();
    let [cpu_s, wall_s, resident_kib, merged_s, bytes] = figures[..] else {
        panic!(
            "no figures: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    Cost {
        cpu_s,
        wall_s,
        resident_kib,
        merged_s,
        bytes,
    }
}

fn alone(nodes: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(folder.path().join("store.db")).expect("a store");
    let wire = Wire::new(nodes);
    let plan = wire.plan(SECONDS, 1);
    let (begun, cpu) = (Instant::now(), cpu_s());
    let mut merged = Duration::ZERO;
    wire.carry_out(&plan, &store, &mut |trial, since| {
        assert_eq!(trial.outcome, Outcome::Completed);
        merged = since;
    });
    let (wall, cpu) = (begun.elapsed().as_secs_f64(), cpu_s() - cpu);
    let (resident, merged) = (resident_kib(), merged.as_secs_f64());
    println!("{cpu} {wall} {resident} {merged} {}", wire.bytes());
}

/// CPU time of this process, s. In units of a tick, 10 ms.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = fields.split(' ').skip(11).take(2);
    ticks.filter_map(|one| one.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The largest resident set of this process, KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let value = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    value.unwrap_or(0)
}
