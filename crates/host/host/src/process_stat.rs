//! What the kernel says of a process in /proc.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::roots::{Roots, text};

/// Flag of kernel threads (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The path by which child processes start this program again: its file, or, if that was replaced or removed, the
/// kernel's link to it, which is valid while this process lives.
///
/// # Errors
/// /proc is not mounted.
pub fn this_program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let link = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    let file = |path: &PathBuf| path.metadata().map(|file| (file.dev(), file.ino()));
    match file(&path).ok() == Some(file(&link)?) {
        true => Ok(path),
        false => Ok(link),
    }
}

/// Fields of /proc/PID/stat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// `R`: runs, `D`: blocked in the kernel, `T`: stopped, `Z`: has ended, …
    pub state: char,
    /// The id of its parent.
    pub parent: u32,
    /// The id of its process group.
    pub group: u32,
    /// The id of its session.
    pub session: u32,
    /// Whether it is a thread of the kernel.
    pub of_kernel: bool,
    /// CPU time of all its threads in user space, in clock ticks.
    pub user: u64,
    /// The same in the kernel.
    pub system: u64,
    /// Number of its threads.
    pub threads: u64,
    /// When it started, in clock ticks since boot.
    pub start: u64,
    /// Resident memory, in pages.
    pub memory: u64,
}

impl ProcessStat {
    /// The process with this id; `None`: there is none.
    pub fn of(roots: &Roots, pid: u32) -> Option<ProcessStat> {
        ProcessStat::parse(&text(roots.proc.join(format!("{pid}/stat")))?)
    }

    /// Parses `99 (a name (of any kind)) S 1 …`.
    pub fn parse(text: &str) -> Option<ProcessStat> {
        let (_, fields) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().take(22).collect();
        let number = |field: usize| -> Option<u64> { fields.get(field)?.parse().ok() };
        Some(ProcessStat {
            state: fields.first()?.chars().next()?,
            parent: number(1)?.try_into().ok()?,
            group: number(2)?.try_into().ok()?,
            session: number(3)?.try_into().ok()?,
            of_kernel: number(6)? & KERNEL_THREAD != 0,
            user: number(11)?,
            system: number(12)?,
            threads: number(17)?,
            start: number(19)?,
            memory: number(21)?,
        })
    }

    /// Whether it has ended, and its parent has not reaped it yet.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_stat_with_any_name() {
        let rest = "S 1 1 4 0 -1 4194304 102 0 0 0 7 8 0 0 20 0 3 0 3515758 3133440 25 18";
        let expected = ProcessStat {
            state: 'S',
            parent: 1,
            group: 1,
            session: 4,
            of_kernel: false,
            user: 7,
            system: 8,
            threads: 3,
            start: 3_515_758,
            memory: 25,
        };
        let parse = ProcessStat::parse;
        for name in ["cat", "a b", "x) S 1 2", "((", "sd-(pam)"] {
            assert_eq!(
                parse(&format!("99 ({name}) {rest}")),
                Some(expected),
                "{name}"
            );
        }
        let kernel = rest.replace("4194304", "2129984");
        let kernel = parse(&format!("2 (kthreadd) {kernel}")).unwrap();
        assert!(kernel.of_kernel && !kernel.has_ended());
        let zombie = rest.replacen('S', "Z", 1);
        assert!(parse(&format!("2 (x) {zombie}")).unwrap().has_ended());
        for text in ["", "99 (cat)", "99 (cat) S 1", "99 cat S 1 1 1 0 -1"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn does_not_panic_on_any_text(text in "([0-9]{1,4} \\([a-z() ]{0,9}\\) )?[SZ] ([0-9-]{1,21} ){0,30}\\PC*") {
            let _ = ProcessStat::parse(&text);
        }
    }
}
