//! What a look at the recorders of many clones costs, as it is taken twice a second while a trial runs: `make bench`
//! prints it. Its peer is a plain pass over as many counters.
#![allow(clippy::print_stdout, reason = "a program of its own")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use iodyno_engine::cells::{CellReader, Cells};
use iodyno_model::{BinLayout, Direction};

const CLONES: usize = 64;
const LOOKS: u32 = 200;
const DIRECTIONS: [Direction; 2] = [Direction::Read, Direction::Write];

fn main() {
    let cells: Vec<Cells> = (0..CLONES)
        .map(|_| Cells::new(&DIRECTIONS, false, false))
        .collect();
    let mut readers: Vec<Vec<CellReader>> = (0..CLONES)
        .map(|_| DIRECTIONS.map(|_| CellReader::new()).into())
        .collect();
    let counters = vec![1u64; CLONES * DIRECTIONS.len() * BinLayout::BINS];
    let (mut look, mut pass, mut seen) = (Duration::ZERO, Duration::ZERO, 0);
    for round in 0..u64::from(LOOKS) {
        for cells in &cells {
            for direction in DIRECTIONS {
                // From 90 µs to 1 ms.
                let values = (300..1000u64).map(|value| value * value + round);
                values.for_each(|value| cells.of(direction).service.record(value));
            }
        }
        let begun = Instant::now();
        for (cells, readers) in cells.iter().zip(&mut readers) {
            for (direction, reader) in DIRECTIONS.into_iter().zip(readers) {
                seen += reader.advance(&cells.of(direction).service).count();
            }
        }
        look += begun.elapsed();
        let begun = Instant::now();
        black_box(black_box(&counters).iter().sum::<u64>());
        pass += begun.elapsed();
    }
    assert_eq!(seen, u64::from(LOOKS) * CLONES as u64 * 1400);
    println!(
        "a look at {CLONES} clones       {:7.1} µs, {:.1} times a pass over as many counters",
        look.as_secs_f64() * 1e6 / f64::from(LOOKS),
        look.as_secs_f64() / pass.as_secs_f64()
    );
}
