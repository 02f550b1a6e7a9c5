//! The locks of files that processes hold, from /proc/locks.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use crate::block::DeviceNumber;
use crate::roots::{Roots, text};

/// A lock of a process that is visible here. One of an open file description (OFD) has no process and is not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    device: DeviceNumber,
    inode: u64,
    /// Who holds it.
    pub process: u32,
}

impl Lock {
    /// Whether it is on the file with this device and inode. On btrfs, the device is that of the mount, not `st_dev`.
    pub fn is_on(&self, device: DeviceNumber, inode: u64) -> bool {
        (self.device, self.inode) == (device, inode)
    }
}

/// All locks that are held.
pub fn held(roots: &Roots) -> Vec<Lock> {
    let locks = text(roots.proc.join("locks")).unwrap_or_default();
    locks.lines().filter_map(parse).collect()
}

/// Another process that has locked a file, and its name.
pub fn holder(roots: &Roots, file: &File) -> Option<(u32, String)> {
    let metadata = file.metadata().ok()?;
    let own = std::process::id();
    let mut locks = held(roots).into_iter();
    let device = DeviceNumber::of(metadata.dev());
    let lock = locks.find(|lock| lock.is_on(device, metadata.ino()) && lock.process != own)?;
    Some((lock.process, command(roots, lock.process)))
}

/// The name of a process.
pub fn command(roots: &Roots, process: u32) -> String {
    text(roots.proc.join(process.to_string()).join("comm")).unwrap_or_default()
}

fn parse(line: &str) -> Option<Lock> {
    // Number, kind, ADVISORY, READ or WRITE, process, device:inode, first and last byte. One that waits has `->` before
    // its kind.
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let process = fields.get(4)?.parse().ok().filter(|process| *process > 0)?;
    let (device, inode) = fields.get(5)?.rsplit_once(':')?;
    let (major, minor) = device.split_once(':')?;
    Some(Lock {
        device: DeviceNumber {
            major: u32::from_str_radix(major, 16).ok()?,
            minor: u32::from_str_radix(minor, 16).ok()?,
        },
        inode: inode.parse().ok()?,
        process,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_processes_are_listed_and_those_that_wait_are_not() {
        let lock = Lock {
            device: DeviceNumber {
                major: 254,
                minor: 0,
            },
            inode: 6_004_739,
            process: 456,
        };
        let of = |line: &str| parse(line);
        assert_eq!(
            of("1: POSIX  ADVISORY  READ 456 fe:00:6004739 123 123"),
            Some(lock)
        );
        assert_eq!(
            of("4: FLOCK  ADVISORY  WRITE 456 fe:00:6004739 0 EOF"),
            Some(lock)
        );
        assert_eq!(
            of("4: -> FLOCK  ADVISORY  WRITE 456 fe:00:6004739 0 EOF"),
            None
        );
        assert_eq!(of("2: OFDLCK ADVISORY  READ -1 fe:00:6004739 0 EOF"), None);
        assert_eq!(of(""), None);
    }
}
