//! The memory that a client shares.

use std::fs::File;
use std::io;
use std::sync::Arc;

use vhost::vhost_user::message::{VhostUserMemoryRegion, VhostUserSingleMemoryRegion};
use vhost::vhost_user::{Error, Result};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

/// The maximum number of regions of memory that a client may share.
pub(crate) const MAX_REGIONS: u64 = 509;

/// The memory that a client shares. Clones share the mapping, which lives as long as the last of them.
#[derive(Debug, Default, Clone)]
pub struct ClientMemory {
    memory: GuestMemoryMmap,
    ranges: Vec<Range>,
}

#[derive(Debug, Clone, Copy)]
struct Range {
    /// Its address in the client's process.
    user: u64,
    guest: u64,
    length: u64,
}

impl ClientMemory {
    /// The memory by the guest's addresses.
    pub fn guest(&self) -> &GuestMemoryMmap {
        &self.memory
    }

    /// Translates an address of the client's process to one of the guest.
    ///
    /// # Errors
    /// The address is not in this memory.
    pub(crate) fn address(&self, user: u64) -> Result<GuestAddress> {
        let address = self.ranges.iter().find_map(|range| {
            let within = user.checked_sub(range.user)?;
            (within < range.length).then(|| range.guest.checked_add(within))?
        });
        address.map(GuestAddress).ok_or(Error::InvalidParam)
    }

    /// Maps all the memory of a client, and unmaps earlier memory.
    ///
    /// # Errors
    /// It cannot be mapped, or regions overlap.
    pub(crate) fn of(regions: &[VhostUserMemoryRegion], files: Vec<File>) -> Result<ClientMemory> {
        // The front end may send them in any order.
        let mut regions: Vec<_> = regions.iter().zip(files).collect();
        regions.sort_by_key(|(region, _)| region.guest_phys_addr);
        let mapped = regions.into_iter();
        let mapped = mapped.map(|(region, file)| mapped_region(region, file));
        let mapped = mapped.collect::<Result<Vec<_>>>()?;
        let (maps, ranges): (Vec<_>, Vec<_>) = mapped.into_iter().unzip();
        let memory = GuestMemoryMmap::from_regions(maps).map_err(overlapping)?;
        Ok(ClientMemory { memory, ranges })
    }

    /// Adds a region.
    ///
    /// # Errors
    /// As [`ClientMemory::of`]; there are already `MAX_REGIONS`.
    pub(crate) fn add(&mut self, region: &VhostUserSingleMemoryRegion, file: File) -> Result<()> {
        if self.ranges.len() as u64 >= MAX_REGIONS {
            return Err(Error::InvalidParam);
        }
        let (map, range) = mapped_region(region, file)?;
        self.memory = (self.memory.insert_region(Arc::new(map))).map_err(overlapping)?;
        self.ranges.push(range);
        Ok(())
    }

    /// Removes a region.
    ///
    /// # Errors
    /// The region does not exist.
    pub(crate) fn remove(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        let start = GuestAddress(region.guest_phys_addr);
        let (memory, _) =
            (self.memory.remove_region(start, region.memory_size)).map_err(overlapping)?;
        self.memory = memory;
        self.ranges.retain(|range| range.guest != start.0);
        Ok(())
    }
}

fn mapped_region(region: &VhostUserMemoryRegion, file: File) -> Result<(GuestRegionMmap, Range)> {
    let invalid = || Error::ReqHandlerError(io::ErrorKind::InvalidInput.into());
    let map: MmapRegion = region.mmap_region(file)?;
    let map = GuestRegionMmap::new(map, GuestAddress(region.guest_phys_addr));
    let range = Range {
        user: region.user_addr,
        guest: region.guest_phys_addr,
        length: region.memory_size,
    };
    Ok((map.ok_or_else(invalid)?, range))
}

fn overlapping(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::ReqHandlerError(io::Error::other(error))
}

/// Maps a range of a file of the front end.
///
/// # Errors
/// As mmap(2); the file is shorter.
pub(crate) fn map_file(file: File, offset: u64, length: usize) -> io::Result<MmapRegion> {
    let end = offset.checked_add(length as u64);
    if !end.is_some_and(|end| file.metadata().is_ok_and(|found| end <= found.len())) {
        let text = "the front end shares a file that is shorter than it says";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    MmapRegion::from_file(FileOffset::new(file, offset), length).map_err(io::Error::other)
}
