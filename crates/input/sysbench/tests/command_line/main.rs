//! Tests of sysbench fileio's command line.

mod any_text;
mod faults;
mod meaning;
mod pages;

use iodyno_sysbench::{self as sysbench, Command};

fn arguments(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn read(text: &str) -> Command {
    sysbench::read(&arguments(text)).unwrap_or_else(|said| panic!("{text}: {said:#?}"))
}
