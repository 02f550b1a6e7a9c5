//! Complete trials, with this program as the node.
#![allow(clippy::print_stderr, missing_docs)]

#[path = "trials/ends.rs"]
mod ends;
#[path = "trials/figures.rs"]
mod figures;
#[path = "trials/files.rs"]
mod files;
#[path = "../src/samples.rs"]
mod samples;
#[path = "trials/stage.rs"]
mod stage;
#[path = "trials/telemetry.rs"]
mod telemetry;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("node") => return ExitCode::from(iodyno_runner::serve()),
        Some("parent") => return ends::be_a_parent(&arguments[1]),
        _ => {}
    }
    let all = [figures::TESTS, files::TESTS, ends::TESTS, telemetry::TESTS].concat();
    let trials = all.into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
