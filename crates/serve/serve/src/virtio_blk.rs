//! Requests of a virtio block device, read from the memory of a client and answered there.
//!
//! Source: Virtual I/O Device (VIRTIO) 1.2, section 5.2. Input of clients is untrusted: a chain is read once, its
//! lengths are limited before any allocation, and each access checks its addresses. The data of a write are copied
//! before the request continues, because a client may change them meanwhile. Lists and buffers are reused.

use iodyno_mirror::core::{Access, Errno};
use iodyno_model::errno::EOPNOTSUPP;
use iodyno_vhost::{DescriptorTable, visit_chain};
use uuid::Uuid;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use crate::nbd::{Export, MAX_BYTES};

/// Queues that a client may use.
pub const MAX_QUEUES: u16 = 16;
/// Bytes of a sector, the unit of the protocol.
const SECTOR: u64 = 512;
/// Segments of the data of a request.
const MAX_SEGMENTS: u32 = 126;
/// Bytes of a segment: all segments together are at most [`MAX_BYTES`].
const MAX_SEGMENT_LEN: u32 = 256 << 10;
/// The longest range of one discard, sectors.
const MAX_DISCARD: u32 = (1 << 30) / SECTOR as u32;
/// Bytes of the identification that GET_ID returns.
const ID_BYTES: usize = 20;
/// Bytes of the configuration that have a meaning here.
const CONFIG_BYTES: usize = 60;
/// Offset of the byte in the configuration that switches the write cache.
const CONFIG_WRITEBACK: usize = 32;

const IN: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;

const STATUS_OK: u8 = 0;
const STATUS_IOERR: u8 = 1;
const STATUS_UNSUPP: u8 = 2;

/// A request must be durable before it completes if this was not negotiated, or if the client disabled the write-back
/// cache.
const F_FLUSH: u64 = 1 << 9;
const F_SIZE_MAX: u64 = 1 << 1;
const F_SEG_MAX: u64 = 1 << 2;
const F_BLK_SIZE: u64 = 1 << 6;
const F_CONFIG_WCE: u64 = 1 << 11;
const F_MQ: u64 = 1 << 12;
const F_DISCARD: u64 = 1 << 13;
const F_WRITE_ZEROES: u64 = 1 << 14;

/// An export served as a disk.
#[derive(Debug, Clone, Copy)]
pub struct Disk {
    /// Its length and unit, and whether trims are offered.
    pub export: Export,
    /// Its identification, ASCII.
    pub id: [u8; ID_BYTES],
}

impl Disk {
    /// A disk identified by a UUID.
    pub fn new(export: Export, id: Uuid) -> Disk {
        let text = id.simple().to_string();
        Disk {
            export,
            // The last digits are random.
            id: std::array::from_fn(|at| text.as_bytes()[text.len() - ID_BYTES + at]),
        }
    }

    /// Bits of the features of block devices that are offered.
    pub fn features(&self) -> u64 {
        let trims = if self.export.trims { F_DISCARD } else { 0 };
        let always = F_FLUSH | F_SIZE_MAX | F_SEG_MAX | F_BLK_SIZE | F_CONFIG_WCE | F_MQ;
        always | F_WRITE_ZEROES | trims
    }

    /// Whether writes are durable when they complete, with these negotiated features and the client's choice of a write
    /// cache.
    pub fn writes_through(features: u64, writeback: bool) -> bool {
        features & F_FLUSH == 0 || (features & F_CONFIG_WCE != 0 && !writeback)
    }

    /// Reads a part of the configuration; zeros past its end.
    pub fn config(&self, writeback: bool, offset: usize, length: usize) -> Vec<u8> {
        let mut config = [0; CONFIG_BYTES];
        let mut put = |at: usize, bytes: &[u8]| config[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &(self.export.length / SECTOR).to_le_bytes());
        put(8, &MAX_SEGMENT_LEN.to_le_bytes());
        put(12, &MAX_SEGMENTS.to_le_bytes());
        put(20, &self.export.unit.to_le_bytes());
        put(CONFIG_WRITEBACK, &[writeback.into()]);
        put(34, &MAX_QUEUES.to_le_bytes());
        if self.export.trims {
            put(36, &MAX_DISCARD.to_le_bytes());
            put(40, &1u32.to_le_bytes());
            put(44, &(self.export.unit / SECTOR as u32).to_le_bytes());
        }
        put(48, &(MAX_BYTES / SECTOR as u32).to_le_bytes());
        put(52, &1u32.to_le_bytes());
        put(56, &[u8::from(self.export.trims)]);
        let at = |index: usize| config.get(index).copied().unwrap_or(0);
        (offset..offset.saturating_add(length)).map(at).collect()
    }

    /// The client's choice of a write cache, if it writes this into the configuration. `None`: these bytes cannot be
    /// written.
    pub fn chosen(offset: usize, bytes: &[u8]) -> Option<bool> {
        match bytes {
            [writeback] if offset == CONFIG_WRITEBACK => Some(*writeback != 0),
            _ => None,
        }
    }

    /// Reads the request whose chain begins with `head`. `None`: without room for a status it cannot be answered.
    pub fn request(
        &self,
        memory: &GuestMemoryMmap,
        table: DescriptorTable,
        head: u16,
        through: bool,
        room: Room<'_>,
    ) -> Option<DiskRequest> {
        parts(memory, table, head, room.sent, room.place)?;
        let wanted = self.parsed(memory, room.sent, room.place, through, room.buffer);
        Some(wanted.unwrap_or_else(DiskRequest::Refused))
    }

    fn parsed(
        &self,
        memory: &GuestMemoryMmap,
        sent: &Segments,
        place: &ReplyPlace,
        through: bool,
        mut buffer: Vec<u8>,
    ) -> Result<DiskRequest, u8> {
        if sent.0.len() > MAX_SEGMENTS as usize + 1 || place.data.0.len() > MAX_SEGMENTS as usize {
            return Err(STATUS_IOERR);
        }
        // The header may have any number of segments, and the data may begin in its last one.
        let mut header = [0; 16];
        sent.read(memory, 0, &mut header)?;
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|n| header[at + n]));
        let sector = u64::from(u32_at(12)) << 32 | u64::from(u32_at(8));
        let fua = through;
        match u32_at(0) {
            IN => {
                let (offset, length) = self.range(sector, place.data.length())?;
                Ok(DiskRequest::access(Access::Read, offset, length, buffer))
            }
            OUT => {
                let (offset, length) = self.range(sector, sent.length() - 16)?;
                buffer.resize(length as usize, 0);
                sent.read(memory, 16, &mut buffer)?;
                Ok(DiskRequest::Access {
                    access: Access::Write { fua },
                    offset,
                    length,
                    buffer,
                    holes: false,
                })
            }
            FLUSH => Ok(DiskRequest::access(Access::Flush, 0, 0, buffer)),
            GET_ID if place.data.length() >= ID_BYTES as u64 => Ok(DiskRequest::Id),
            GET_ID => Err(STATUS_IOERR),
            DISCARD if !self.export.trims => Err(STATUS_UNSUPP),
            kind @ (DISCARD | WRITE_ZEROES) => {
                // One segment, as the configuration says.
                if sent.length() != 16 + 16 {
                    return Err(STATUS_UNSUPP);
                }
                let mut range = [0; 16];
                sent.read(memory, 16, &mut range)?;
                let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|n| range[at + n]));
                let sector = u64::from(u32_at(4)) << 32 | u64::from(u32_at(0));
                let (sectors, flags) = (u32_at(8), u32_at(12));
                let (known, longest) = match kind {
                    DISCARD => (0, MAX_DISCARD),
                    _ => (1, MAX_BYTES / SECTOR as u32),
                };
                if flags & !known != 0 {
                    return Err(STATUS_UNSUPP);
                }
                if sectors > longest {
                    return Err(STATUS_IOERR);
                }
                let (offset, length) = self.within(sector, u64::from(sectors) * SECTOR)?;
                // Without bytes, zeros are written: then all legs are equal.
                buffer.clear();
                Ok(DiskRequest::Access {
                    access: Access::Write { fua },
                    offset,
                    length,
                    buffer,
                    holes: kind == DISCARD || (flags & 1 != 0 && self.export.trims),
                })
            }
            _ => Err(STATUS_UNSUPP),
        }
    }

    /// The range of a transfer in bytes.
    fn range(&self, sector: u64, length: u64) -> Result<(u64, u32), u8> {
        match length <= u64::from(MAX_BYTES) {
            true => self.within(sector, length),
            false => Err(STATUS_IOERR),
        }
    }

    fn within(&self, sector: u64, length: u64) -> Result<(u64, u32), u8> {
        let offset = sector.checked_mul(SECTOR).ok_or(STATUS_IOERR)?;
        let end = offset.checked_add(length).ok_or(STATUS_IOERR)?;
        let unit = u64::from(self.export.unit);
        let aligned = offset.is_multiple_of(unit) && length.is_multiple_of(unit);
        let length = u32::try_from(length).map_err(|_| STATUS_IOERR)?;
        match aligned && length > 0 && end <= self.export.length {
            true => Ok((offset, length)),
            false => Err(STATUS_IOERR),
        }
    }
}

/// Room for a request, of any content.
#[derive(Debug)]
pub struct Room<'a> {
    /// For the data it sends, while it is parsed.
    pub sent: &'a mut Segments,
    /// For the place of its answer.
    pub place: &'a mut ReplyPlace,
    /// For the bytes of a write; that of others is passed on.
    pub buffer: Vec<u8>,
}

/// Parts of a client's memory: addresses, and lengths in bytes.
#[derive(Debug, Default)]
pub struct Segments(Vec<(GuestAddress, u32)>);

impl Segments {
    fn length(&self) -> u64 {
        self.0.iter().map(|(_, length)| u64::from(*length)).sum()
    }

    /// Adds a segment. Past the maximum of a request, the last segment is replaced.
    fn add(&mut self, segment: (GuestAddress, u32)) {
        if self.0.len() > MAX_SEGMENTS as usize + 2 {
            self.0.pop();
        }
        self.0.push(segment);
    }

    /// Copies a range.
    fn read(&self, memory: &GuestMemoryMmap, skip: usize, bytes: &mut [u8]) -> Result<(), u8> {
        let length = bytes.len();
        if self.length() < (skip + length) as u64 {
            return Err(STATUS_IOERR);
        }
        let (mut skip, mut done) = (skip, 0);
        for (address, segment) in &self.0 {
            let segment = *segment as usize;
            let from = skip.min(segment);
            skip -= from;
            let count = (segment - from).min(length - done);
            if count > 0 {
                let address = GuestAddress(address.0.wrapping_add(from as u64));
                let part = &mut bytes[done..done + count];
                (memory.read_slice(part, address)).map_err(|_| STATUS_IOERR)?;
            }
            done += count;
        }
        Ok(())
    }

    /// Writes bytes, as many as fit.
    fn write(&self, memory: &GuestMemoryMmap, mut bytes: &[u8]) -> Result<(), u8> {
        for (address, segment) in &self.0 {
            let (part, rest) = bytes.split_at(bytes.len().min(*segment as usize));
            if !part.is_empty() {
                (memory.write_slice(part, *address)).map_err(|_| STATUS_IOERR)?;
            }
            bytes = rest;
        }
        Ok(())
    }
}

/// A parsed request.
#[derive(Debug)]
pub enum DiskRequest {
    /// An access to the disk; see [`crate::queue::Request`].
    Access {
        /// The access.
        access: Access,
        /// Start, bytes.
        offset: u64,
        /// Length, bytes.
        length: u32,
        /// The bytes of a write; empty: zeros. Of others, any content.
        buffer: Vec<u8>,
        /// Whether zeros may be holes.
        holes: bool,
    },
    /// The identification of the disk.
    Id,
    /// It is not valid or not supported: the status of its answer.
    Refused(u8),
}

impl DiskRequest {
    fn access(access: Access, offset: u64, length: u32, buffer: Vec<u8>) -> DiskRequest {
        DiskRequest::Access {
            access,
            offset,
            length,
            buffer,
            holes: false,
        }
    }

    /// Bytes that it needs while it is in flight.
    pub fn bytes(&self) -> usize {
        match self {
            DiskRequest::Access { access, length, .. } if *access == Access::Read => {
                *length as usize
            }
            DiskRequest::Access {
                access: Access::Write { .. },
                buffer,
                ..
            } => buffer.len(),
            _ => 0,
        }
    }
}

/// Where to write the reply of a request in the client's memory.
#[derive(Debug, Default)]
pub struct ReplyPlace {
    data: Segments,
    status: GuestAddress,
}

impl ReplyPlace {
    /// Writes the reply: the data read, or the error. Returns the number of bytes written.
    pub fn answer(&self, memory: &GuestMemoryMmap, result: Result<&[u8], Errno>) -> u32 {
        let status = match result {
            Ok(data) => self.data.write(memory, data),
            Err(EOPNOTSUPP) => Err(STATUS_UNSUPP),
            Err(_) => Err(STATUS_IOERR),
        };
        self.finish(
            memory,
            status.map(|()| result.map_or(0, <[u8]>::len) as u32),
        )
    }

    /// Answers with a status that is not a success.
    pub fn refuse(&self, memory: &GuestMemoryMmap, status: u8) -> u32 {
        self.finish(memory, Err(status))
    }

    fn finish(&self, memory: &GuestMemoryMmap, written: Result<u32, u8>) -> u32 {
        let status = written.err().unwrap_or(STATUS_OK);
        match memory.write_obj(status, self.status) {
            Ok(()) => written.unwrap_or(0) + 1,
            // The client gave an address outside its shared memory.
            Err(_) => 0,
        }
    }
}

/// The parts that a chain sends, and the place for its answer: its last byte is the status. `None`: it has none, or is
/// not valid.
fn parts(
    memory: &GuestMemoryMmap,
    table: DescriptorTable,
    head: u16,
    sent: &mut Segments,
    place: &mut ReplyPlace,
) -> Option<()> {
    sent.0.clear();
    let data = &mut place.data;
    data.0.clear();
    visit_chain(memory, table, head, |part| {
        let segments = if part.writable {
            &mut *data
        } else {
            &mut *sent
        };
        segments.add((part.start, part.length));
        Some(())
    })?;
    let (address, length) = data.0.pop()?;
    place.status = GuestAddress(address.0.checked_add(u64::from(length).checked_sub(1)?)?);
    if length > 1 {
        data.0.push((address, length - 1));
    }
    Some(())
}

#[cfg(test)]
mod tests;
