//! Tests of the whole program, run as by its users: real jobs on real files in temporary folders.
//!
//! One test binary, so that it is linked once. Each module tests one aspect of the program.

mod built_in;
mod bundles;
mod check;
mod command_leftovers;
mod commands;
mod docs;
mod engines;
mod equal_sides;
mod experiments;
mod explain;
mod faults;
mod file_engines;
#[cfg(feature = "fileserver")]
mod file_server;
mod fileio;
mod filesystem;
mod fio;
mod fio_nodes;
mod foreign;
mod frozen;
mod fs;
mod fuse;
mod golden;
mod guard;
mod harness;
mod host;
mod imports;
mod interruption;
mod kills;
mod limits;
mod logging;
mod mirror;
mod mirror_ext4;
mod moved;
mod nbd;
mod nbd_engine;
mod nodes;
mod peer;
mod printed;
mod replay;
#[cfg(feature = "charts")]
mod report;
mod results;
mod resume;
mod stale_legs;
mod stand_in;
mod storage;
mod stored;
mod streams;
mod telemetry;
mod usage;
mod verdicts;
mod verification;
mod vhost_user;
mod virtiofs;
mod vm;
