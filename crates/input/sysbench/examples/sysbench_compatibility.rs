//! Prints docs/sysbench-compatibility.md.

#![allow(clippy::print_stdout)]

fn main() {
    print!("{}", iodyno_sysbench::compatibility());
}
