//! Zones of zoned block devices: their state, and resetting one. See `linux/blkzoned.h`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;

use crate::result::status;

/// The unit of lengths in the calls, bytes.
const SECTOR: u64 = 512;
const BLKREPORTZONE: libc::c_ulong = 0xc010_1282;
const BLKRESETZONE: libc::c_ulong = 0x4010_1283;
const BLKGETZONESZ: libc::c_ulong = 0x8004_1284;
/// The most zones that are read by one call.
const BATCH: usize = 256;
/// The kernel reports the capacity of zones.
const HAS_CAPACITY: u32 = 1;

/// A zone of a device. Lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// Its start on the device.
    pub start: u64,
    /// From its start to that of the next zone.
    pub length: u64,
    /// Its part that can be written.
    pub capacity: u64,
    /// Bytes written.
    pub written: u64,
    /// How it can be written.
    pub kind: ZoneKind,
}

/// How a zone can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneKind {
    /// Written anywhere, as a device without zones.
    Conventional,
    /// Sequentially.
    Sequential,
    /// Unwritable: it is broken.
    Broken,
}

/// `struct blk_zone`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct RawZone {
    start: u64,
    length: u64,
    pointer: u64,
    kind: u8,
    condition: u8,
    non_sequential: u8,
    reset: u8,
    reserved: [u8; 4],
    capacity: u64,
    rest: [u64; 3],
}

/// `struct blk_zone_report` with its zones.
#[repr(C)]
struct RawReport {
    sector: u64,
    count: u32,
    flags: u32,
    zones: [RawZone; BATCH],
}

impl RawZone {
    fn zone(&self, flags: u32) -> Zone {
        const EMPTY: u8 = 1;
        const READ_ONLY: u8 = 0xd;
        const FULL: u8 = 0xe;
        const OFFLINE: u8 = 0xf;
        const CONVENTIONAL: u8 = 1;
        let capacity = match flags & HAS_CAPACITY {
            0 => self.length,
            _ => self.capacity,
        };
        Zone {
            start: self.start * SECTOR,
            length: self.length * SECTOR,
            capacity: capacity * SECTOR,
            written: match self.condition {
                EMPTY => 0,
                FULL => capacity * SECTOR,
                _ => self.pointer.saturating_sub(self.start).min(capacity) * SECTOR,
            },
            kind: match (self.kind, self.condition) {
                (_, READ_ONLY | OFFLINE) => ZoneKind::Broken,
                (CONVENTIONAL, _) => ZoneKind::Conventional,
                _ => ZoneKind::Sequential,
            },
        }
    }
}

/// The length of a device's zones, bytes; `None`: it has none.
pub fn zone_length(device: impl AsFd) -> Option<u64> {
    let mut sectors = 0u32;
    let descriptor = device.as_fd().as_raw_fd();
    // SAFETY: the kernel writes one number, which outlives the call.
    let got = status(unsafe { libc::ioctl(descriptor, BLKGETZONESZ as _, &raw mut sectors) });
    (got == 0 && sectors > 0).then_some(u64::from(sectors) * SECTOR)
}

/// The zones from `offset` to `end`, in order.
///
/// # Errors
/// Those of the device: `ENOTTY` if it has no zones.
pub fn zones(device: impl AsFd, offset: u64, end: u64) -> io::Result<Vec<Zone>> {
    let descriptor = device.as_fd().as_raw_fd();
    let mut found = Vec::new();
    let mut report = Box::new(RawReport {
        sector: offset / SECTOR,
        count: 0,
        flags: 0,
        zones: [RawZone::default(); BATCH],
    });
    while report.sector * SECTOR < end {
        report.count = BATCH as u32;
        // SAFETY: the kernel writes at most `count` zones, for which there is room.
        let got = status(unsafe {
            libc::ioctl(
                descriptor,
                BLKREPORTZONE as _,
                std::ptr::from_mut(&mut *report),
            )
        });
        if got < 0 {
            return Err(io::Error::from_raw_os_error(-got));
        }
        let count = (report.count as usize).min(BATCH);
        let Some(last) = report.zones[..count].last() else {
            break;
        };
        let next = last.start + last.length;
        let zones = report.zones[..count]
            .iter()
            .map(|zone| zone.zone(report.flags));
        found.extend(zones.filter(|zone| zone.start < end));
        if next <= report.sector {
            break;
        }
        report.sector = next;
    }
    Ok(found)
}

/// The kernel's number of a device.
pub fn device_number(device: impl AsFd) -> Option<u64> {
    let file = File::from(device.as_fd().try_clone_to_owned().ok()?);
    Some(file.metadata().ok()?.rdev())
}

/// The most zones of a device that may be open at once; 0: unlimited or unknown.
pub fn open_limit(device: impl AsFd) -> u32 {
    let Some(number) = device_number(device) else {
        return 0;
    };
    let (major, minor) = (libc::major(number), libc::minor(number));
    let limits = ["max_open_zones", "max_active_zones"].map(|name| {
        let file = format!("/sys/dev/block/{major}:{minor}/queue/{name}");
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.trim().parse::<u32>().unwrap_or(0)
    });
    limits
        .into_iter()
        .filter(|limit| *limit > 0)
        .min()
        .unwrap_or(0)
}

/// Empties the zone at an offset: 0, or −errno.
pub(crate) fn reset(device: impl AsFd, offset: u64, length: u64) -> i32 {
    let range = [offset / SECTOR, length / SECTOR];
    let descriptor = device.as_fd().as_raw_fd();
    // SAFETY: the kernel reads two numbers, which outlive the call.
    status(unsafe { libc::ioctl(descriptor, BLKRESETZONE as _, range.as_ptr()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<RawZone>(), 64);
        assert_eq!(size_of::<RawReport>(), 16 + 64 * BATCH);
    }

    #[test]
    fn what_is_written_of_a_zone_follows_from_its_condition() {
        let raw = |kind: u8, condition: u8| RawZone {
            start: 8,
            length: 16,
            pointer: 12,
            capacity: 10,
            kind,
            condition,
            ..RawZone::default()
        };
        let written = |condition| raw(2, condition).zone(HAS_CAPACITY).written;
        assert_eq!((written(1), written(2), written(0xe)), (0, 2048, 5120));
        let zone = raw(2, 4).zone(0);
        assert_eq!((zone.start, zone.length, zone.capacity), (4096, 8192, 8192));
        let kind = |kind, condition| raw(kind, condition).zone(0).kind;
        assert_eq!(kind(1, 0), ZoneKind::Conventional);
        assert_eq!(kind(2, 0xf), ZoneKind::Broken);
        assert_eq!(kind(2, 1), ZoneKind::Sequential);
    }

    #[test]
    fn a_file_has_no_zones() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(zone_length(&file), None);
        assert!(zones(&file, 0, 4096).is_err());
    }
}
