//! Any bytes as a node's output: no panic, and no more memory than a small multiple of the input.
#![no_main]

use iodyno_runner::Message;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while Message::read(&mut rest).is_ok() {}
});
