//! Cost of reading the counters of many clones, which happens twice a second during a trial; printed by `make bench`
//! in comparison with a plain pass over the same number of counters.
#![allow(clippy::print_stdout, reason = "a program of its own")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use iodyno_engine::counters::{LatencyReader, OpCounters};
use iodyno_model::{BinLayout, Direction};

const CLONES: usize = 64;
const LOOKS: u32 = 200;
const DIRECTIONS: [Direction; 2] = [Direction::Read, Direction::Write];

fn main() {
    let counters: Vec<OpCounters> = (0..CLONES)
        .map(|_| OpCounters::new(&DIRECTIONS, false, false))
        .collect();
    let mut readers: Vec<Vec<LatencyReader>> = (0..CLONES)
        .map(|_| DIRECTIONS.map(|_| LatencyReader::new()).into())
        .collect();
    let plain = vec![1u64; CLONES * DIRECTIONS.len() * BinLayout::BINS];
    let (mut look, mut pass, mut seen) = (Duration::ZERO, Duration::ZERO, 0);
    for round in 0..u64::from(LOOKS) {
        for counters in &counters {
            for direction in DIRECTIONS {
                // From 90 µs to 1 ms.
                let values = (300..1000u64).map(|value| value * value + round);
                values.for_each(|value| counters.of(direction).service.record(value));
            }
        }
        let begun = Instant::now();
        for (counters, readers) in counters.iter().zip(&mut readers) {
            for (direction, reader) in DIRECTIONS.into_iter().zip(readers) {
                seen += reader.advance(&counters.of(direction).service).count();
            }
        }
        look += begun.elapsed();
        let begun = Instant::now();
        black_box(black_box(&plain).iter().sum::<u64>());
        pass += begun.elapsed();
    }
    assert_eq!(seen, u64::from(LOOKS) * CLONES as u64 * 1400);
    println!(
        "a look at {CLONES} clones       {:7.1} µs, {:.1} times a pass over as many counters",
        look.as_secs_f64() * 1e6 / f64::from(LOOKS),
        look.as_secs_f64() / pass.as_secs_f64()
    );
}
