//! Prints the reference of all keys: the last part of docs/experiments.md.

#[allow(clippy::print_stdout)]
fn main() {
    print!("{}", iodyno_experiment::reference_markdown());
}
