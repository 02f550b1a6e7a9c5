//! A disk of a server, as the guard and the backend see it.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::link::{Device, Link, PROTOCOL_CONFIG, broken};
use crate::BackendError;

const F_SIZE_MAX: u64 = 1 << 1;
const F_SEG_MAX: u64 = 1 << 2;
const F_RO: u64 = 1 << 5;
const F_BLK_SIZE: u64 = 1 << 6;
const F_FLUSH: u64 = 1 << 9;
const F_MQ: u64 = 1 << 12;
const F_DISCARD: u64 = 1 << 13;

/// Bytes of the configuration up to the last field that is used here.
const CONFIG_BYTES: usize = 60;

const DEVICE: Device = Device {
    scheme: "vhost-user-blk",
    features: F_SIZE_MAX | F_SEG_MAX | F_RO | F_BLK_SIZE | F_FLUSH | F_MQ | F_DISCARD,
    protocol: PROTOCOL_CONFIG,
    without: "it does not report the length of its disk (CONFIG)",
};

/// The disk as described by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// Length, bytes.
    pub length: u64,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Whether ranges can be discarded.
    pub discards: bool,
    /// Whether flushes are offered.
    pub flushes: bool,
    /// Requests are multiples of this, bytes.
    pub smallest: u32,
    /// The longest request, bytes.
    pub longest: u64,
    /// The longest range of one discard, bytes.
    pub longest_discard: u64,
    /// Queues.
    pub queues: u32,
    /// The longest segment of a request, bytes.
    pub(super) segment: u32,
}

/// A connection to a server of a disk, shared by the queues of a trial.
#[derive(Debug)]
pub struct Connection {
    /// The served disk.
    pub disk: Disk,
    pub(super) link: Link,
    /// Queues in use.
    queues: AtomicU32,
}

impl Connection {
    /// Connects to the server that listens on a socket. Each step may take `within`.
    ///
    /// # Errors
    /// The server cannot be reached, or does not speak the protocol as needed.
    pub fn new(socket: &Path, within: Duration) -> Result<Connection, BackendError> {
        let (link, disk) = Link::open(socket, within, &DEVICE, |wire, features, queues| {
            let config = wire.config(CONFIG_BYTES)?;
            let config = config.first_chunk();
            let config = config.ok_or_else(|| broken("its configuration is too short"))?;
            disk(config, features, queues)
        })?;
        Ok(Connection {
            disk,
            link,
            queues: AtomicU32::new(0),
        })
    }

    /// The number of a queue that is not in use. `None`: the server has no more.
    pub(super) fn next_queue(&self) -> Option<u32> {
        let relaxed = Ordering::Relaxed;
        let next = |used: u32| (used < self.disk.queues).then_some(used + 1);
        self.queues.fetch_update(relaxed, relaxed, next).ok()
    }
}

fn disk(config: &[u8; CONFIG_BYTES], features: u64, queues: u64) -> io::Result<Disk> {
    let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|n| config[at + n]));
    let has = |feature: u64| features & feature != 0;
    let sectors = u64::from(u32_at(4)) << 32 | u64::from(u32_at(0));
    let length = (sectors.checked_mul(512)).filter(|length| *length <= i64::MAX as u64);
    // qemu offers the feature, and reports 0 for "no limit".
    let segment = (Some(u32_at(8)).filter(|size| has(F_SIZE_MAX) && *size > 0)).unwrap_or(1 << 30);
    let segments = if has(F_SEG_MAX) { u32_at(12) } else { 1 };
    // Values outside these limits are not useful; all of these fit in a table.
    let (segment, segments) = (segment.clamp(512, 1 << 30), segments.clamp(1, 126));
    let discard = if has(F_DISCARD) { u32_at(36) } else { 0 };
    Ok(Disk {
        length: length.ok_or_else(|| broken("the length of its disk is out of range"))?,
        read_only: has(F_RO),
        discards: has(F_DISCARD),
        flushes: has(F_FLUSH),
        smallest: if has(F_BLK_SIZE) {
            u32_at(20).max(512)
        } else {
            512
        },
        longest: u64::from(segment) * u64::from(segments),
        longest_discard: u64::from(discard) * 512,
        queues: queues.min(u64::from(u32::MAX)) as u32,
        segment,
    })
}
