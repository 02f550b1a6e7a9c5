//! The whole program, as its users run it: real jobs on real files in folders of their own.
//!
//! One binary, so that it is linked once. Each module is a side of the program's behaviour.

mod check;
mod engines;
mod faults;
mod fileio;
mod filesystem;
mod fio;
mod frozen;
mod fs;
mod golden;
mod guard;
mod harness;
mod host;
mod imports;
mod interruption;
mod kills;
mod logging;
mod moved;
mod printed;
mod replay;
mod results;
mod resume;
mod stand_in;
mod streams;
mod telemetry;
mod usage;
mod verdicts;
mod verification;
