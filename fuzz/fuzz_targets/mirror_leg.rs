//! Any bytes as the superblocks and the log of two legs: no panic, and what is assembled has a leg in sync, and no bit beyond
//! its regions. The checksums are made right, so that the fields are reached.
#![no_main]

use iodyno_mirror::assembly::assemble;
use iodyno_mirror::intent::REGIONS;
use iodyno_mirror::superblock::{BLOCK, LegState, MAGIC, Superblock};
use libfuzzer_sys::fuzz_target;

fn block(bytes: &[u8], version: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let length = bytes.len().min(BLOCK - 16);
    block[16..16 + length].copy_from_slice(&bytes[..length]);
    block[..16].copy_from_slice(MAGIC);
    block[16..20].copy_from_slice(&[version, 0, 0, 0]);
    block[20..24].fill(0);
    let sum = crc32c::crc32c(&block);
    block[20..24].copy_from_slice(&sum.to_le_bytes());
    block
}

fuzz_target!(|input: (&[u8], &[u8], &[u8], bool)| {
    let (one, two, log, degraded) = input;
    // Both versions of the format.
    let legs: Vec<Superblock> = [(one, 1), (two, 2)]
        .into_iter()
        .filter_map(|(bytes, version)| Superblock::newest([Some(&block(bytes, version)), None]).ok())
        .map(|(superblock, _)| superblock)
        .collect();
    for leg in &legs {
        assert_eq!(Superblock::decode(&leg.encode()).as_ref(), Ok(leg));
    }
    let Ok(assembly) = assemble(&legs, degraded.then_some(1)) else {
        return;
    };
    let in_sync = |state| state == LegState::InSync;
    assert!(assembly.parts.iter().any(|part| part.given.is_some() && in_sync(part.member.state)));
    let mut raw = [0; BLOCK];
    raw[..log.len().min(BLOCK)].copy_from_slice(&log[..log.len().min(BLOCK)]);
    let last = assembly.log_blocks() - 1;
    let regions = assembly.geometry.regions();
    for bit in assembly.decode_log(Some(&raw), last).0.iter() {
        assert!(last * REGIONS + (bit as u64) < regions);
    }
});
