//! Reads data of processes from procfs.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use iodyno_host::{ProcessStat, started_for};

use crate::scope::ProcessName;

/// The device that servers of file systems in user space keep open.
pub(super) const FUSE: &str = "/dev/fuse";

/// The files of processes, read into one buffer.
pub(super) struct Processes {
    proc: PathBuf,
    buffer: Vec<u8>,
}

impl Processes {
    pub(super) fn new(proc: PathBuf) -> Processes {
        Processes {
            proc,
            buffer: Vec::with_capacity(4096),
        }
    }

    /// All current processes.
    ///
    /// # Errors
    /// procfs cannot be listed.
    pub(super) fn all(&self) -> Result<Vec<u32>, String> {
        let entries = fs::read_dir(&self.proc)
            .map_err(|error| format!("cannot list {}: {error}", self.proc.display()))?;
        let pid = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
        Ok(entries.filter_map(pid).collect())
    }

    /// Reads /proc/PID/stat; `None`: it has ended.
    pub(super) fn stat(&mut self, pid: u32) -> Option<ProcessStat> {
        ProcessStat::parse(&String::from_utf8_lossy(self.read(pid, "stat").ok()?))
    }

    /// Reads /proc/PID/comm; empty: it has ended.
    pub(super) fn name(&mut self, pid: u32) -> String {
        let bytes = self.read(pid, "comm").unwrap_or_default();
        String::from_utf8_lossy(bytes).trim_end().to_owned()
    }

    /// Reads /proc/PID/io.
    ///
    /// # Errors
    /// If the process has ended, or permission is denied.
    pub(super) fn io(&mut self, pid: u32) -> io::Result<Io> {
        let text = String::from_utf8_lossy(self.read(pid, "io")?);
        parse_io(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The first of these names that the process has, provided that it was started for the storage of that name.
    pub(super) fn is_called(&mut self, pid: u32, names: &[ProcessName]) -> Option<usize> {
        let place = self.has_name(pid, names)?;
        let (name, made_for) = (&names[place].name, &names[place].made_for);
        let started = |token: &String| match self.read(pid, "environ") {
            Ok(environment) => started_for(environment, token),
            Err(_) => false,
        };
        match made_for.as_ref().is_none_or(started) {
            true => Some(place),
            // The user can have named it as well.
            false => names
                .iter()
                .position(|other| other.name == *name && other.made_for.is_none()),
        }
    }

    /// The first of these names that is its `comm`, or the last component of its program's path.
    fn has_name(&mut self, pid: u32, names: &[ProcessName]) -> Option<usize> {
        // A kernel thread has no program.
        let place = |found: &str| {
            let same = |name: &ProcessName| name.name == found && !found.is_empty();
            names.iter().position(same)
        };
        place(&self.name(pid))
            .or_else(|| {
                let line = self.read(pid, "cmdline").ok()?;
                let first = line.split(|byte| *byte == 0).next()?;
                place(last_part(&String::from_utf8_lossy(first)))
            })
            .or_else(|| {
                let program = fs::read_link(self.proc.join(format!("{pid}/exe"))).ok()?;
                let program = program.to_string_lossy();
                place(last_part(program.trim_end_matches(" (deleted)")))
            })
    }

    /// The first of these processes that it is or descends from.
    pub(super) fn belongs(&mut self, pid: u32, servers: &[u32]) -> Option<usize> {
        if servers.is_empty() {
            return None;
        }
        let mut pid = pid;
        // Deeper trees do not occur; a pid that is used again could make a circle.
        for _ in 0..16 {
            if let Some(place) = servers.iter().position(|server| *server == pid) {
                return Some(place);
            }
            pid = self.stat(pid)?.parent;
        }
        None
    }

    /// Whether it holds [`FUSE`] open, and so serves a file system; only if this user may read its descriptors.
    pub(super) fn holds_fuse(&self, pid: u32) -> bool {
        let files = fs::read_dir(self.proc.join(format!("{pid}/fd")));
        let mut files = files.into_iter().flatten().flatten();
        files.any(|file| fs::read_link(file.path()).is_ok_and(|held| held == Path::new(FUSE)))
    }

    fn read(&mut self, pid: u32, file: &str) -> io::Result<&[u8]> {
        self.buffer.clear();
        let path = self.proc.join(format!("{pid}/{file}"));
        File::open(path)?.read_to_end(&mut self.buffer)?;
        Ok(&self.buffer)
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Fields of /proc/PID/io.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Io {
    /// Numbers of system calls.
    pub(super) reads: u64,
    pub(super) writes: u64,
    /// Bytes of the storage.
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
}

/// Parses lines of the form `rchar: 1`.
pub(super) fn parse_io(text: &str) -> Option<Io> {
    let mut io = Io::default();
    let mut found = 0;
    for (name, value) in text.lines().filter_map(|line| line.split_once(": ")) {
        let place = match name {
            "syscr" => &mut io.reads,
            "syscw" => &mut io.writes,
            "read_bytes" => &mut io.read_bytes,
            "write_bytes" => &mut io.written_bytes,
            _ => continue,
        };
        *place = value.trim().parse().ok()?;
        found += 1;
    }
    (found == 4).then_some(io)
}

/// A simulated procfs.
#[cfg(test)]
pub(super) mod fake {
    use std::fs;
    use std::path::Path;

    use iodyno_host::Roots;
    use tempfile::TempDir;

    pub(crate) struct Proc {
        folder: TempDir,
    }

    impl Proc {
        pub(crate) fn new() -> Proc {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("proc")).unwrap();
            fs::create_dir(folder.path().join("proc/sys")).unwrap();
            Proc { folder }
        }

        pub(crate) fn roots(&self) -> Roots {
            Roots::below(self.folder.path())
        }

        pub(crate) fn path(&self, pid: u32, file: &str) -> std::path::PathBuf {
            self.folder.path().join(format!("proc/{pid}/{file}"))
        }

        /// Adds a process with this command line and this CPU time, in hundredths of a second of each kind.
        pub(crate) fn put(&self, pid: u32, comm: &str, line: &str, used: u64) {
            self.put_child(1, pid, comm, line, used);
        }

        /// Adds a child of another process.
        pub(crate) fn put_child(&self, parent: u32, pid: u32, comm: &str, line: &str, used: u64) {
            fs::create_dir_all(self.path(pid, "")).unwrap();
            self.write(pid, "comm", format!("{comm}\n"));
            self.write(pid, "cmdline", line.replace(' ', "\0"));
            let stat = format!(
                "{pid} ({comm}) S {parent} 1 1 0 -1 4194304 102 0 0 0 {used} {} 0 0 20 0 3 0 3515758 3133440 25 18",
                2 * used
            );
            self.write(pid, "stat", &stat);
        }

        /// Sets its I/O: system calls, and bytes of the storage.
        pub(crate) fn io(&self, pid: u32, calls: [u64; 2], bytes: [u64; 2]) {
            let text = format!(
                "rchar: 6976\nwchar: 0\nsyscr: {}\nsyscw: {}\nread_bytes: {}\nwrite_bytes: {}\ncancelled_write_bytes: 0\n",
                calls[0], calls[1], bytes[0], bytes[1]
            );
            self.write(pid, "io", &text);
        }

        pub(crate) fn write(&self, pid: u32, file: &str, text: impl AsRef<[u8]>) {
            fs::write(self.path(pid, file), text).unwrap();
        }

        pub(crate) fn end(&self, pid: u32) {
            fs::remove_dir_all(self.path(pid, "")).unwrap();
        }

        pub(crate) fn link(&self, pid: u32, program: &str) {
            std::os::unix::fs::symlink(Path::new(program), self.path(pid, "exe")).unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::fake::Proc;
    use super::*;

    #[test]
    fn reads_io_if_all_four_fields_exist() {
        let text = "rchar: 9\nwchar: 8\nsyscr: 1\nsyscw: 2\nread_bytes: 3\nwrite_bytes: 4\ncancelled_write_bytes: 5\n";
        let expected = Io {
            reads: 1,
            writes: 2,
            read_bytes: 3,
            written_bytes: 4,
        };
        assert_eq!(parse_io(text), Some(expected));
        for missing in ["syscr: 1\n", "write_bytes: 4\ncancelled"] {
            assert_eq!(parse_io(&text.replace(missing, "")), None, "{missing}");
        }
        assert_eq!(
            parse_io(&text.replace("read_bytes: 3", "read_bytes: x")),
            None
        );
    }

    #[test]
    fn a_process_is_found_by_its_own_name_and_by_that_of_its_program() {
        let proc = Proc::new();
        proc.put(7, "qemu-system-x86", "/usr/bin/qemu-system-x86_64 -m 1", 1);
        proc.put(8, "worker", "[renamed]", 1);
        proc.link(8, "/usr/libexec/virtiofsd (deleted)");
        proc.put(9, "kworker/0:1", "", 1);
        let mut processes = Processes::new(proc.roots().proc);
        for (pid, name, called) in [
            (7, "qemu-system-x86", true),
            (7, "qemu-system-x86_64", true),
            (7, "qemu-system", false),
            (7, "1", false),
            (8, "worker", true),
            (8, "virtiofsd", true),
            (8, "libexec", false),
            (9, "kworker/0:1", true),
            (9, "", false),
            (10, "worker", false),
        ] {
            let names = ["other", name].map(|name| ProcessName::from(name.to_owned()));
            let found = processes.is_called(pid, &names);
            assert_eq!(found, called.then_some(1), "{pid} {name}");
        }
        let mut all = processes.all().unwrap();
        all.sort_unstable();
        assert_eq!(all, [7, 8, 9]);
        assert!(
            Processes::new("/nowhere".into())
                .all()
                .unwrap_err()
                .contains("cannot list /nowhere")
        );
    }

    proptest! {
        #[test]
        fn does_not_panic_on_any_lines(text in "((syscr|syscw|read_bytes|write_bytes|x): [0-9-]{0,21}\n){0,9}\\PC*") {
            let _ = parse_io(&text);
        }
    }
}
