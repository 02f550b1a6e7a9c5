//! Access of the parser to the host.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use iodyno_model::number_list;

/// The longest job file or included file, bytes.
const MAX_TEXT_LEN: u64 = 16 << 20;

/// The largest number of files and folders that are listed.
const MAX_LISTED: usize = 1 << 20;

/// Files, environment variables and properties of the host. The parser itself reads nothing.
pub trait Host {
    /// The text of a file; of standard input for `-`. Bytes that are not UTF-8 are replaced by U+FFFD.
    ///
    /// # Errors
    /// Those of the system.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// The text of an included file: never standard input or a pipe.
    ///
    /// # Errors
    /// As [`Host::read`].
    fn read_included(&self, path: &Path) -> io::Result<String> {
        self.read(path)
    }
    /// The content of a file of a pattern: never standard input or a pipe.
    ///
    /// # Errors
    /// Those of the system.
    fn read_bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.read_included(path).map(String::into_bytes)
    }
    /// The absolute paths of all regular files below a folder, sorted. Links are not followed.
    ///
    /// # Errors
    /// Those of the system; a name that is not UTF-8; too many files.
    fn files_below(&self, _folder: &Path) -> io::Result<Vec<PathBuf>> {
        Err(io::Error::other(
            "this is supported by `iodyno fio` and `run` only",
        ))
    }
    /// An environment variable.
    fn env(&self, name: &str) -> Option<String>;
    /// Page size, bytes: `$pagesize`.
    fn page_size(&self) -> u64;
    /// Number of online CPUs: `$ncpus`.
    fn cpus(&self) -> u32;
    /// Memory in MiB: `$mb_memory`.
    fn memory_mb(&self) -> u64;
}

/// The real host. The only code of this crate that reads from the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemHost;

impl Host for SystemHost {
    fn read(&self, path: &Path) -> io::Result<String> {
        if path == Path::new("-") {
            return bounded(io::stdin());
        }
        // `<(…)` of a shell is a pipe with such a name. Opening any other pipe could block, because it may have no
        // writer.
        let handed_over = ["/dev/fd", "/proc/self/fd", "/dev/stdin"];
        let handed_over = handed_over.iter().any(|folder| path.starts_with(folder));
        let kind = path.metadata()?.file_type();
        if !(kind.is_file() || kind.is_dir() || (handed_over && !kind.is_block_device())) {
            return Err(io::Error::other("it is not a regular file"));
        }
        bounded(File::open(path)?)
    }

    fn read_included(&self, path: &Path) -> io::Result<String> {
        match path.metadata()?.is_file() {
            true => bounded(File::open(path)?),
            false => Err(io::Error::other("it is not a regular file")),
        }
    }

    fn read_bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        if !path.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        File::open(path)?
            .take(MAX_TEXT_LEN)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn files_below(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut folders = vec![std::path::absolute(folder)?];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                let entry = entry?;
                let (path, kind) = (entry.path(), entry.file_type()?);
                if path.to_str().is_none() {
                    return Err(io::Error::other(format!("{path:?} is not UTF-8")));
                }
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_file() {
                    files.push(path);
                }
            }
            if files.len() + folders.len() > MAX_LISTED {
                return Err(io::Error::other(format!(
                    "there are more than {MAX_LISTED}"
                )));
            }
        }
        files.sort();
        Ok(files)
    }

    fn env(&self, name: &str) -> Option<String> {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }

    fn page_size(&self) -> u64 {
        std::fs::read("/proc/self/auxv")
            .ok()
            .and_then(|vector| page_size_of(&vector))
            .unwrap_or(4096)
    }

    fn cpus(&self) -> u32 {
        std::fs::read_to_string("/sys/devices/system/cpu/online")
            .ok()
            .and_then(|list| number_list(&list))
            .map_or(1, |cpus| cpus.len() as u32)
    }

    fn memory_mb(&self) -> u64 {
        std::fs::read_to_string("/proc/meminfo")
            .ok()
            .and_then(|text| total_memory_mb(&text))
            .unwrap_or(0)
    }
}

/// Reads a text of at most [`MAX_TEXT_LEN`] bytes.
fn bounded(file: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MAX_TEXT_LEN + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_TEXT_LEN {
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is longer than {} MiB", MAX_TEXT_LEN >> 20),
        )),
        // Copies the text only if it is not UTF-8.
        false => Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())),
    }
}

/// AT_PAGESZ of the kernel's auxiliary vector, which is pairs of native words.
fn page_size_of(vector: &[u8]) -> Option<u64> {
    const AT_PAGESZ: usize = 6;
    const WORD: usize = size_of::<usize>();
    let word = |bytes: &[u8]| <[u8; WORD]>::try_from(bytes).map(usize::from_ne_bytes).ok();
    vector.chunks_exact(2 * WORD).find_map(|pair| {
        (word(&pair[..WORD])? == AT_PAGESZ)
            .then(|| word(&pair[WORD..]))
            .flatten()
            .map(|size| size as u64)
    })
}

fn total_memory_mb(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_memory_and_page_size() {
        assert_eq!(total_memory_mb("MemTotal:  2097152 kB\n"), Some(2048));
        let mut vector = Vec::new();
        for word in [3usize, 64, 6, 16384, 0, 0] {
            vector.extend(word.to_ne_bytes());
        }
        assert_eq!(page_size_of(&vector), Some(16384));
    }

    #[test]
    fn a_text_is_bounded_and_is_read_from_a_file_or_an_inherited_descriptor() {
        let host = SystemHost;
        let refused = |path: &str| host.read(Path::new(path)).unwrap_err().to_string();
        assert_eq!(refused("/dev/zero"), "it is not a regular file");
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        if made.is_ok_and(|status| status.success()) {
            // The pipe has no writer: opening it would block.
            assert_eq!(refused(pipe.to_str().unwrap()), "it is not a regular file");
        }
        let (from, mut to) = io::pipe().unwrap();
        std::io::Write::write_all(&mut to, b"[job]\n").unwrap();
        drop(to);
        let handed_over = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&from));
        let handed_over = Path::new(&handed_over);
        assert!(host.read_included(handed_over).is_err());
        assert_eq!(host.read(handed_over).unwrap(), "[job]\n");
        let other = folder.path().join("latin-1");
        std::fs::write(&other, b"[job]\n# caf\xe9\n").unwrap();
        assert_eq!(host.read(&other).unwrap(), "[job]\n# caf\u{fffd}\n");
        let file = folder.path().join("long");
        let long = File::create(&file).unwrap();
        for (length, fits) in [(MAX_TEXT_LEN, true), (MAX_TEXT_LEN + 1, false)] {
            long.set_len(length).unwrap();
            assert_eq!(host.read(&file).is_ok(), fits);
            assert_eq!(host.read_included(&file).is_ok(), fits);
        }
        let error = host.read(&file).unwrap_err();
        assert_eq!(error.to_string(), "it is longer than 16 MiB");
        assert!(host.read_included(Path::new("-")).is_err());
    }

    #[test]
    fn reads_this_host() {
        let host = SystemHost;
        assert!(host.page_size().is_power_of_two());
        assert!(host.cpus() >= 1);
        assert!(host.memory_mb() > 16);
        assert!(host.read(Path::new("/no/such/file")).is_err());
    }
}
