//! Whatever an NBD client sends, the server answers or ends the connection.
#![no_main]

use std::io::{self, Read, Write};

use iodyno_serve::nbd::{self, Command, Export};
use libfuzzer_sys::fuzz_target;

struct Client<'a>(&'a [u8]);

impl Read for Client<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Client<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let export = Export {
        length: 1 << 30,
        unit: 512,
        rotational: false,
        trims: true,
    };
    let mut client = Client(bytes);
    let _ = nbd::negotiate(&mut client, &export);
    while let Ok(Some(request)) = nbd::request(&mut client, &export) {
        match request.command {
            Command::Read | Command::Write { .. } => {
                assert!(request.offset + u64::from(request.length) <= export.length);
                assert!((1..=nbd::MAX_BYTES).contains(&request.length));
            }
            Command::WriteZeroes { .. } => {
                assert!(request.offset + u64::from(request.length) <= export.length);
                assert!(request.length > 0 && request.payload == 0);
            }
            Command::Flush | Command::Disconnect | Command::Invalid(_) => {}
        }
        if nbd::discard(&mut client, request.payload.into()).is_err() {
            break;
        }
    }
});
