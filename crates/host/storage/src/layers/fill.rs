//! Random data, so that storage that compresses or skips zeroes has to store something.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// The unit of writing, bytes.
const CHUNK: usize = 1 << 20;

/// Writes this many bytes of random data to a device or a file, which is created if it does not exist, and syncs it.
pub(super) fn random_data(path: &Path, bytes: u64, stop: &dyn Fn() -> bool) -> io::Result<()> {
    let mut open = File::options();
    let exists = path.exists();
    let mut file = open.write(true).create(!exists).open(path)?;
    let mut state = 0;
    let mut chunk = vec![0; CHUNK];
    let mut left = bytes;
    while left > 0 {
        if stop() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "stopped"));
        }
        for word in chunk.chunks_exact_mut(8) {
            word.copy_from_slice(&next(&mut state).to_le_bytes());
        }
        let length = left.min(CHUNK as u64);
        file.write_all(&chunk[..length as usize])?;
        left -= length;
    }
    file.sync_all()
}

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_these_bytes_are_written_and_a_stop_ends_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        random_data(&path, (CHUNK + 5) as u64, &|| false).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), CHUNK + 5);
        assert_ne!(bytes[..8], bytes[8..16]);
        // What exists is overwritten from its beginning and not cut.
        random_data(&path, 4, &|| false).unwrap();
        assert_eq!(std::fs::read(&path).unwrap().len(), CHUNK + 5);
        assert!(random_data(&path, 1, &|| true).is_err());
    }
}
