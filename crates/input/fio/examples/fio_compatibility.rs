//! Prints docs/fio-compatibility.md.

#![allow(clippy::print_stdout)]

fn main() {
    print!("{}", iodyno_fio::compatibility_markdown());
}
