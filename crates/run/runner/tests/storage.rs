//! Storage that is made and undone on this host, with this program as the helper process.
#![allow(clippy::print_stderr, missing_docs)]

#[path = "../../../host/guard/tests/common/mod.rs"]
mod common;
#[path = "storage/kills.rs"]
mod kills;
#[path = "storage/layers.rs"]
mod layers;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("node") => return ExitCode::from(iodyno_runner::serve()),
        Some("parent") => return kills::be_a_parent(&arguments[1..]),
        _ => {}
    }
    let all = [layers::TESTS, kills::TESTS].concat();
    let trials = all.into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
