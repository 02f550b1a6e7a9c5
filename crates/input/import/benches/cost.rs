//! Measures the cost of reading texts of 1 MB and of a quarter of that. `make bench` prints the slowest readers.
//! Fails if the cost grows much faster than the size of the text.
#![allow(clippy::print_stdout, reason = "a program of its own")]

#[path = "../tests/near_text/mod.rs"]
mod near_text;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use iodyno_import::{Options, Text, read};
use near_text::{PIECES, large_texts};

const WHOLE: usize = 1 << 20;
/// Highest accepted ratio of the costs of a text and of its first quarter. A cost that grows with the square of the
/// size gives 16.
const MOST: f64 = 10.0;
/// Costs below this are dominated by noise, ms.
const MIN_MS: f64 = 5.0;
/// Number of texts that are printed.
const SHOWN: usize = 5;

fn main() -> ExitCode {
    let whole = large_texts(WHOLE);
    println!("{} texts made of {} pieces", whole.len(), PIECES.len());
    let mut costs: Vec<(f64, f64, String)> = large_texts(WHOLE / 4)
        .iter()
        .zip(&whole)
        .map(|(quarter, whole)| (cost_ms(quarter), cost_ms(whole), head(whole)))
        .collect();
    costs.sort_by(|one, other| other.1.total_cmp(&one.1));
    println!("{:>12} {:>12} {:>7}", "quarter, ms", "1 MiB, ms", "ratio");
    let grows =
        |(quarter, whole, _): &&(f64, f64, String)| *whole > MIN_MS && whole / quarter > MOST;
    let faults: Vec<_> = costs.iter().filter(grows).collect();
    for (quarter, whole, head) in costs.iter().take(SHOWN).chain(faults.iter().copied()) {
        println!(
            "{quarter:12.2} {whole:12.2} {:7.2}  {head:?}",
            whole / quarter
        );
    }
    if faults.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!(
        "{} texts cost more than {MOST} times as much as a quarter of them",
        faults.len()
    );
    ExitCode::FAILURE
}

fn cost_ms(text: &str) -> f64 {
    let begun = Instant::now();
    black_box(read(&[Text { source: "x", text }], &Options::default()));
    begun.elapsed().as_secs_f64() * 1e3
}

fn head(text: &str) -> String {
    text.chars().take(50).collect()
}
