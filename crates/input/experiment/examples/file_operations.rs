//! Prints the table of the named workloads in docs/file-operations.md.

#![allow(clippy::print_stdout)]

fn main() {
    print!("{}", iodyno_experiment::fileops::names_markdown());
}
