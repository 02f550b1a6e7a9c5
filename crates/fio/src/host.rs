//! Access of the parser to the host.

use std::io;
use std::path::Path;

/// Files, environment variables and properties of the host. The parser itself reads nothing.
pub trait Host {
    /// The text of a file; of standard input for `-`.
    ///
    /// # Errors
    /// Those of the system; `InvalidData` if it is not UTF-8.
    fn read(&self, path: &Path) -> io::Result<String>;
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
        match path == Path::new("-") {
            true => io::read_to_string(io::stdin()),
            false => std::fs::read_to_string(path),
        }
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
            .and_then(|list| count_of_list(list.trim()))
            .unwrap_or(1)
    }

    fn memory_mb(&self) -> u64 {
        std::fs::read_to_string("/proc/meminfo")
            .ok()
            .and_then(|text| total_memory_mb(&text))
            .unwrap_or(0)
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

/// Number of CPUs in a list such as `0-3,8`.
fn count_of_list(list: &str) -> Option<u32> {
    list.split(',')
        .map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
            last.checked_sub(first).map(|more| more + 1)
        })
        .sum()
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
    fn reads_the_kernels_lists() {
        assert_eq!(count_of_list("0"), Some(1));
        assert_eq!(count_of_list("0-3,8"), Some(5));
        assert_eq!(count_of_list("3-0"), None);
        assert_eq!(count_of_list("x"), None);
        assert_eq!(total_memory_mb("MemTotal:  2097152 kB\n"), Some(2048));
        let mut vector = Vec::new();
        for word in [3usize, 64, 6, 16384, 0, 0] {
            vector.extend(word.to_ne_bytes());
        }
        assert_eq!(page_size_of(&vector), Some(16384));
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
