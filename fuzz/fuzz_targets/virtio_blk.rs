//! Whatever the driver of a virtio block device writes into its memory, requests are inside of the disk or refused.
#![no_main]

use iodyno_mirror::core::Access;
use iodyno_serve::nbd::Export;
use iodyno_serve::virtio_blk::{Disk, Wanted};
use libfuzzer_sys::fuzz_target;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

const LENGTH: u64 = 1 << 20;
/// The input is at the start of the memory: table, available ring, then anything.
const AVAILABLE: u64 = 16 * 16;
const USED: u64 = 0xf000;

fuzz_target!(|bytes: &[u8]| {
    let memory = GuestMemoryMmap::<()>::from_ranges(&[(GuestAddress(0), 0x10000)]).expect("memory");
    let length = bytes.len().min(USED as usize);
    memory
        .write_slice(&bytes[..length], GuestAddress(0))
        .expect("it fits");
    let mut queue = Queue::new(16).expect("a queue");
    queue
        .try_set_desc_table_address(GuestAddress(0))
        .expect("aligned");
    queue
        .try_set_avail_ring_address(GuestAddress(AVAILABLE))
        .expect("aligned");
    queue
        .try_set_used_ring_address(GuestAddress(USED))
        .expect("aligned");
    queue.set_ready(true);
    let export = Export {
        length: LENGTH,
        unit: 512,
        rotational: false,
        trims: true,
    };
    let disk = Disk::new(export, uuid::Uuid::nil());
    let Ok(chains) = queue.iter(&memory) else {
        return;
    };
    for chain in chains {
        let Some(taken) = disk.request(&memory, chain, false) else {
            return;
        };
        if let Wanted::Access {
            access,
            offset,
            length,
            ..
        } = taken.wanted
        {
            assert!(offset + u64::from(length) <= LENGTH);
            let read = vec![
                7;
                if access == Access::Read {
                    length as usize
                } else {
                    0
                }
            ];
            taken.place.answer(&memory, Ok(&read));
        }
    }
});
