//! The program `iodyno`.
fn main() {}
