//! Nodes where fio does the I/O: hosts on which iodyno does not run. They need a POSIX shell, `mktemp` and fio.
//!
//! A process of this host speaks the node's protocol ([`serve_fio`]). It runs a small script in a shell on the other
//! host, and sends commands to it as lines ([`shell`]). The workload becomes a job file ([`job_file`]), and fio's json+
//! output a part ([`part`]).
//!
//! Start: every clone runs fio's `exec_prerun`, which waits at a named pipe until the shell closes it. A line from
//! there marks when a clone has passed.
//!
//! Invariants: fio creates files only in a folder that the script has made and will remove. An existing file or device
//! is used only as the user permits. At the end of its input the script ends fio and removes its files.

mod job_file;
mod node;
mod part;
mod serve;
mod shell;

pub use node::FioNode;
pub use serve::serve_fio;
