//! Whatever the driver of a virtio block device writes into its memory, requests are inside of the disk or refused.
#![no_main]

use iodyno_mirror::core::Access;
use iodyno_serve::nbd::Export;
use iodyno_serve::virtio_blk::{Disk, ReplyPlace, Room, Segments, DiskRequest};
use iodyno_vhost::DescriptorTable;
use libfuzzer_sys::fuzz_target;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

const LENGTH: u64 = 1 << 20;
/// The input is at the start of the memory: a table of descriptors, then anything.
const DESCRIPTORS: u16 = 16;

fuzz_target!(|bytes: &[u8]| {
    let memory = GuestMemoryMmap::<()>::from_ranges(&[(GuestAddress(0), 0x10000)]).expect("memory");
    let length = bytes.len().min(0x10000);
    memory
        .write_slice(&bytes[..length], GuestAddress(0))
        .expect("it fits");
    let export = Export {
        length: LENGTH,
        unit: 512,
        rotational: false,
        trims: true,
    };
    let disk = Disk::new(export, uuid::Uuid::nil());
    let table = DescriptorTable {
        start: GuestAddress(0),
        size: DESCRIPTORS,
    };
    let (mut sent, mut place) = (Segments::default(), ReplyPlace::default());
    for head in 0..DESCRIPTORS {
        let room = Room {
            sent: &mut sent,
            place: &mut place,
            buffer: Vec::new(),
        };
        let wanted = disk.request(&memory, table, head, false, room);
        if let Some(DiskRequest::Access {
            access,
            offset,
            length,
            ..
        }) = wanted
        {
            assert!(offset + u64::from(length) <= LENGTH);
            let read = match access {
                Access::Read => vec![7; length as usize],
                _ => Vec::new(),
            };
            place.answer(&memory, Ok(&read));
        }
    }
});
