//! Prints the table of the named workloads in docs/file-operations.md.

#![allow(clippy::print_stdout)]

fn main() {
    print!(
        "{}\n{}",
        iodyno_experiment::fileops::names_markdown(),
        iodyno_experiment::fileops::effects_markdown()
    );
}
