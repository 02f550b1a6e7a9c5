//! Any bytes as the state of a client of a file server: no panic, and what is taken names nothing outside of the folder. With and without the seal.
#![no_main]

use iodyno_fileserver::state::{Accepted, checked, sealed};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], bool, bool, bool)| {
    let (bytes, by_handle, read_only, writeback) = input;
    let accepted = Accepted {
        read_only,
        by_handle,
        direct_io: !read_only,
        writeback,
        submounts: true,
        posix_acl: true,
        needs_acl: false,
    };
    let Ok(state) = checked(bytes, accepted) else {
        return;
    };
    let has_seal = bytes.rchunks(16).next().is_some_and(|end| end.starts_with(b"iodynofs"));
    assert!(has_seal || checked(&sealed(bytes.to_vec()), accepted).is_ok());
    for node in state.nodes() {
        if let Some(path) = state.path(node) {
            assert!(node == 1 || path.split('/').all(|name| !["", ".", ".."].contains(&name)));
        }
    }
});
