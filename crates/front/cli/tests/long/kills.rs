//! `kill -9` at arbitrary instants: the resumed run gives the same results as an uninterrupted one.

use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Home, measured};

const JOB: &str = "[t]\nioengine=sim\nsim_latency=lognormal:200us:0.3\nrw=randrw\nbs=4k\nsize=16m\n\
                   iodepth=4\nruntime=2500ms\ntime_based\nramp_time=500ms\n";
const RUN: [&str; 6] = ["run", "job.fio", "--seed", "7", "--rounds", "12"];
const KILLS: u64 = 150;

#[test]
fn runs_that_are_killed_repeatedly_give_the_same_results() {
    let home = Home::new();
    home.file("job.fio", JOB);
    home.iodyno(&RUN).succeeds();
    let whole = home.iodyno(&["show", "1", "--json"]).succeeds().json();
    assert_eq!(measured(&whole).len(), 12);

    let (mut kills, mut runs) = (0u64, 1usize);
    while kills < KILLS {
        runs += 1;
        let mut arguments = RUN.to_vec();
        for attempt in 0u64.. {
            let running = home.start(&arguments);
            // The assertions hold at any instant: the delays only distribute the kills. They increase, because a slow
            // host needs longer for a trial, and a killed trial restarts.
            let most_ms = 100 + 20 * attempt;
            std::thread::sleep(Duration::from_millis(kills * 7919 % most_ms));
            running.signal(Signal::KILL);
            let done = running.done();
            kills += 1;
            assert!([0, -9].contains(&done.code), "{arguments:?}: {done:?}");
            let list = home.iodyno(&["list", "--json"]).succeeds().json();
            let state = list["runs"][runs - 1]["state"].as_str();
            if state == Some("completed") {
                break;
            }
            // If it was killed before the plan was stored, it is started again.
            arguments = match state {
                None => RUN.to_vec(),
                Some(_) => vec!["run", "--resume", "last"],
            };
        }
        let last = home.iodyno(&["show", "last", "--json"]).succeeds().json();
        assert_eq!(measured(&last), measured(&whole), "run {runs}");
    }
}
