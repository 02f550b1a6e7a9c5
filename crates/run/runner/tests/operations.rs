//! Complete trials of file operations, with this program as the node.
#![allow(clippy::print_stderr, missing_docs)]

#[path = "../../../host/guard/tests/common/mod.rs"]
mod common;
#[path = "operations/drains.rs"]
mod drains;
#[path = "operations/ends.rs"]
mod ends;
#[path = "operations/refusals.rs"]
mod refusals;
#[path = "../src/samples.rs"]
#[allow(dead_code)]
mod samples;
#[path = "trials/stage.rs"]
#[allow(dead_code)]
mod stage;
#[path = "operations/systems.rs"]
mod systems;
#[path = "operations/workloads.rs"]
mod workloads;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("node") => return ExitCode::from(iodyno_runner::serve()),
        Some("parent") => return ends::be_a_parent(&arguments[1]),
        _ => {}
    }
    let all = [systems::TESTS, drains::TESTS, refusals::TESTS, ends::TESTS].concat();
    let trials = all.into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
