//! Measures the cost of listing, showing and reading a run of 1000 trials and one of 100. `make bench` prints it.
//! Fails if the cost per trial is much higher with 1000.
#![allow(clippy::print_stdout, reason = "a program of its own")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::process::ExitCode;
use std::time::Instant;

use common::*;
use iodyno_model::*;
use iodyno_store::{SqliteStore, Store};

const FEW: u32 = 100;
const MANY: u32 = 1000;
const FRAMES: u32 = 10;
/// Highest accepted ratio of the costs per trial. It allows for noise and a deeper tree; a scan of all other trials
/// gives 10.
const MOST: f64 = 4.0;

fn main() -> ExitCode {
    let (few, many) = (costs(FEW), costs(MANY));
    println!(
        "{:24} {:>12} {:>12} {:>7}",
        "µs a trial", FEW, MANY, "ratio"
    );
    let mut fits = true;
    for ((name, few), (_, many)) in few.into_iter().zip(many) {
        let ratio = many / few;
        fits &= ratio <= MOST;
        println!("{name:24} {few:12.1} {many:12.1} {ratio:7.2}");
    }
    if fits {
        return ExitCode::SUCCESS;
    }
    println!("a trial among {MANY} costs more than {MOST} times one among {FEW}");
    ExitCode::FAILURE
}

/// Cost of each step with this number of trials, µs per trial.
fn costs(trials: u32) -> [(&'static str, f64); 4] {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&path).expect("a new store");
    let begun = Instant::now();
    let run = stored(&store, trials);
    let storing = each(begun, trials);
    drop(store);

    let store = SqliteStore::open(&path).expect("a store");
    let begun = Instant::now();
    let listed = store.runs(10, 0).expect("runs");
    assert_eq!(listed[0].trials_completed, u64::from(trials));
    let listing = each(begun, trials);
    let begun = Instant::now();
    let shown = store.run(run).expect("the run");
    let showing = each(begun, trials);
    let begun = Instant::now();
    let mut frames = 0;
    for trial in &shown.trials {
        store.trial(trial.key).expect("a trial");
        frames += store
            .frames(trial.key, 0, usize::MAX)
            .expect("frames")
            .len();
    }
    assert_eq!(frames, (trials * FRAMES) as usize);
    let reading = each(begun, trials);
    [
        ("storing", storing),
        ("listing the run", listing),
        ("showing the run", showing),
        ("reading each trial", reading),
    ]
}

fn each(begun: Instant, trials: u32) -> f64 {
    begun.elapsed().as_secs_f64() * 1e6 / f64::from(trials)
}

fn stored(store: &SqliteStore, trials: u32) -> RunId {
    let plan = plan("p", 1, trials);
    let run = store.begin_run(&plan, START_MS).expect("a run").id;
    let made = trial(key(run), Outcome::Completed);
    let frames: Vec<Frame> = (0..FRAMES).map(|number| frame(number, 60)).collect();
    for round in 0..trials {
        let key = TrialKey { round, ..key(run) };
        store
            .begin_trial(key, "c0", "p", START_MS)
            .expect("a trial");
        for frame in &frames {
            store.append_frame(key, frame).expect("a frame");
        }
        let trial = Trial {
            key,
            ..made.clone()
        };
        store.finish_trial(&trial).expect("its end");
    }
    let end = START_MS + 1000;
    store
        .finish_run(run, RunState::Completed, end)
        .expect("the end");
    run
}
