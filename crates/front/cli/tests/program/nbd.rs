//! An NBD client, servers of mirrors, and their kills, for the tests of mirrors.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::harness::{Done, Home, Running, connect};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const FUA: u16 = 1;
const FLUSH: u16 = 3;

/// A small NBD client, one request at a time.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    pub(crate) length: u64,
    cookie: u64,
}

impl Client {
    pub(crate) fn connect(socket: &Path) -> Client {
        let mut stream = connect(socket).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(greeting[..16], *b"NBDMAGICIHAVEOPT");
        let mut go = 3u32.to_be_bytes().to_vec();
        go.extend(b"IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0");
        stream.write_all(&go).unwrap();
        let mut length = 0;
        loop {
            let mut header = [0; 20];
            stream.read_exact(&mut header).unwrap();
            let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
            let mut data = vec![0; word(16) as usize];
            stream.read_exact(&mut data).unwrap();
            match word(12) {
                1 => break,
                3 if data[..2] == [0, 0] => {
                    length = u64::from_be_bytes(data[2..10].try_into().unwrap());
                }
                3 => {}
                other => panic!("refused: {other:x}"),
            }
        }
        Client {
            stream,
            length,
            cookie: 0,
        }
    }

    /// The error of the server, or the data read. `None`: the server has gone.
    pub(crate) fn call(
        &mut self,
        flags: u16,
        kind: u16,
        offset: u64,
        length: usize,
        payload: &[u8],
    ) -> Option<Result<Vec<u8>, u32>> {
        self.cookie += 1;
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend(flags.to_be_bytes());
        request.extend(kind.to_be_bytes());
        request.extend(self.cookie.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend((length as u32).to_be_bytes());
        request.extend(payload);
        self.stream.write_all(&request).ok()?;
        let mut header = [0; 16];
        self.stream.read_exact(&mut header).ok()?;
        assert_eq!(header[..4], 0x6744_6698u32.to_be_bytes());
        assert_eq!(header[8..], self.cookie.to_be_bytes());
        let error = u32::from_be_bytes(header[4..8].try_into().unwrap());
        if error != 0 {
            return Some(Err(error));
        }
        let mut data = vec![0; if kind == 0 { length } else { 0 }];
        self.stream.read_exact(&mut data).ok()?;
        Some(Ok(data))
    }

    pub(crate) fn read(&mut self, offset: u64, length: usize) -> Vec<u8> {
        self.call(0, 0, offset, length, &[]).unwrap().unwrap()
    }

    /// `None`: the server has gone, and it is not known whether it was written.
    pub(crate) fn try_write(&mut self, flags: u16, offset: u64, data: &[u8]) -> Option<()> {
        self.call(flags, 1, offset, data.len(), data)?.unwrap();
        Some(())
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        self.try_write(0, offset, data).unwrap();
    }

    /// Leaves, and waits until the server has closed the connection.
    pub(crate) fn disconnect(mut self) {
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend([0, 0, 0, 2]);
        request.extend([0; 20]);
        self.stream.write_all(&request).unwrap();
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty(), "{rest:?}");
    }

    pub(crate) fn flush(&mut self) {
        self.call(0, FLUSH, 0, 0, &[]).unwrap().unwrap();
    }
}

/// Bytes that depend on all numbers.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..length / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.collect()
}

/// A sparse file.
pub(crate) fn leg(home: &Home, name: &str, mib: u64) -> PathBuf {
    let path = home.work().join(name);
    File::create(&path).unwrap().set_len(mib * MIB).unwrap();
    path
}

/// Serves these legs until the result is dropped or stopped.
pub(crate) fn serve(home: &Home, legs: &[&str], more: &[&str]) -> Running {
    let mut arguments = vec!["serve", "mirror", "--socket", "s"];
    for leg in legs {
        arguments.extend(["--leg", leg]);
    }
    arguments.extend(more);
    let running = home.start(&arguments);
    running.wait_until_it_tells("serving ");
    running
}

pub(crate) fn client(home: &Home) -> Client {
    Client::connect(&home.work().join("s"))
}

pub(crate) fn stop(running: Running) -> Done {
    running.signal(Signal::TERM);
    running.done().exits(0)
}

pub(crate) fn mirror(home: &Home, arguments: &[&str]) -> Done {
    home.iodyno(&[&["mirror"], arguments].concat())
}

/// Writes until the server is killed, after a number of writes that depends on the round; then checks every block after
/// a restart.
pub(crate) fn kills(rounds: u64) {
    const BLOCKS: u64 = 512;
    let home = Home::new();
    for name in ["a", "b"] {
        leg(&home, name, 1 + BLOCKS * 4 / 1024);
    }
    mirror(&home, &["create", "a", "b"]).succeeds();
    let block = |sequence: u64| match sequence {
        0 => vec![0; 4096],
        _ => noise(sequence, 4096),
    };
    // The write that each block has for certain, and one that it may have.
    let mut written = vec![(0u64, 0u64); BLOCKS as usize];
    let mut sequence = 0;
    for round in 0..=rounds {
        let running = serve(&home, &["a", "b"], &[]);
        let mut one = client(&home);
        for (number, (surely, maybe)) in written.iter_mut().enumerate() {
            let found = one.read(number as u64 * 4096, 4096);
            if found == block(*maybe) {
                *surely = *maybe;
            }
            assert!(
                found == block(*surely),
                "round {round}, block {number}: neither {surely} nor {maybe}"
            );
            *maybe = *surely;
        }
        if round == rounds {
            stop(running);
            break;
        }
        // Another connection is killed in the midst of its writes.
        let socket = home.work().join("s");
        let count = 3 + round * 37 % 90;
        let start = sequence;
        let writer = std::thread::spawn(move || {
            let mut client = Client::connect(&socket);
            let mut acked = 0;
            for number in start + 1.. {
                let at = number * 7919 % BLOCKS;
                let flags = if number % 5 == 0 { FUA } else { 0 };
                match client.try_write(flags, at * 4096, &noise(number, 4096)) {
                    Some(()) => acked = number,
                    None => return acked,
                }
            }
            unreachable!("endless")
        });
        // Its progress is seen by reading, so that no time is assumed.
        let seen = (start + count) * 7919 % BLOCKS;
        while one.read(seen * 4096, 4096) != block(start + count) && !writer.is_finished() {}
        running.signal(Signal::KILL);
        running.done();
        let acked = writer.join().unwrap();
        assert!(acked + 1 >= start + count, "{acked} of {start} + {count}");
        for number in start + 1..=acked {
            written[(number * 7919 % BLOCKS) as usize] = (number, number);
        }
        written[((acked + 1) * 7919 % BLOCKS) as usize].1 = acked + 1;
        sequence = acked + 1;
    }
    mirror(&home, &["scrub", "a", "b"]).exits(0);
}
