//! Prints docs/fio-compatibility.md.

#![allow(clippy::print_stdout)]

fn main() {
    print!("{}", iodyno_dialects::fio::compatibility_markdown());
}
