//! Mirrors on files, served by NBD to a client that checks every byte.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::harness::{Done, Home, Running, root, skip};

const MIB: u64 = 1 << 20;
const FUA: u16 = 1;
const FLUSH: u16 = 3;

/// A small NBD client, one request at a time.
pub(crate) struct Client {
    stream: UnixStream,
    pub(crate) length: u64,
    cookie: u64,
}

impl Client {
    pub(crate) fn connect(socket: &Path) -> Client {
        let mut stream = UnixStream::connect(socket).unwrap();
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

    /// The error of the server, or what was read. `None`: the server has gone.
    fn call(
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

    pub(crate) fn flush(&mut self) {
        self.call(0, FLUSH, 0, 0, &[]).unwrap().unwrap();
    }
}

/// Bytes that depend on all numbers.
fn noise(seed: u64, length: usize) -> Vec<u8> {
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

/// Serves these legs until the result is dropped or told to stop.
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

fn stop(running: Running) -> Done {
    running.signal(Signal::TERM);
    running.done().exits(0)
}

fn mirror(home: &Home, arguments: &[&str]) -> Done {
    home.iodyno(&[&["mirror"], arguments].concat())
}

/// The data of a leg.
fn data(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()[MIB as usize..].to_vec()
}

#[test]
fn what_was_written_is_on_every_leg_and_is_read_by_each_policy() {
    let home = Home::new();
    let paths = ["a", "b", "c"].map(|name| leg(&home, name, 24));
    let created = mirror(&home, &["create", "a", "b", "c"]).succeeds();
    assert!(created.stdout.contains("23 MiB on 3 legs"), "{created:?}");
    let mut all = vec![0; 23 * MIB as usize];
    for (round, policy) in [
        "adaptive",
        "modulo",
        "least-pending",
        "openzfs",
        "openzfs-nonrot",
        "md-raid1",
        "round-robin",
        "power-of-two",
    ]
    .iter()
    .enumerate()
    {
        let running = serve(&home, &["c", "a", "b"], &["--policy", policy]);
        let mode = home
            .work()
            .join("s")
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut client = client(&home);
        assert_eq!(client.length, 23 * MIB);
        assert!(client.read(0, 23 * MIB as usize) == all, "{policy}");
        // Of all lengths, over borders of regions, and the last sector.
        let seed = round as u64 * 100;
        for (number, (offset, length)) in [
            (512, 512),
            (MIB - 512, 4096),
            (3 * MIB, 5 * MIB + 512),
            (23 * MIB - 512, 512),
        ]
        .into_iter()
        .enumerate()
        {
            let bytes = noise(seed + number as u64, length as usize);
            let flags = if number == 1 { FUA } else { 0 };
            client.try_write(flags, offset, &bytes).unwrap();
            all[offset as usize..][..length as usize].copy_from_slice(&bytes);
        }
        client.flush();
        assert!(client.read(0, 23 * MIB as usize) == all, "{policy}");
        // The client is still connected.
        stop(running);
        for path in &paths {
            assert!(data(path) == all, "{}", path.display());
        }
        let status = mirror(&home, &["status", "--json", "a", "b", "c"])
            .exits(0)
            .json();
        assert_eq!(status["marked_regions"], 0);
        assert_eq!(status["redundant"], true);
    }
    assert!(!home.work().join("s").exists());
}

#[test]
fn a_leg_that_was_left_out_is_copied_to_and_split_brain_is_refused() {
    let home = Home::new();
    let paths = ["a", "b"].map(|name| leg(&home, name, 9));
    mirror(&home, &["create", "a", "b"]).succeeds();
    let missing = home
        .iodyno(&["serve", "mirror", "--socket", "s", "--leg", "a"])
        .exits(2);
    assert!(missing.stderr.contains("--degraded"), "{missing:?}");
    let copy = std::fs::read(&paths[1]).unwrap();
    let running = serve(&home, &["a"], &["--degraded"]);
    let bytes = noise(1, 5 * MIB as usize);
    client(&home).write(MIB, &bytes);
    stop(running);
    let status = mirror(&home, &["status", "a", "b"]).exits(1);
    assert!(status.stdout.contains("behind"), "{status:?}");
    let running = serve(&home, &["a", "b"], &[]);
    running.wait_until_it_tells("`b` is in sync");
    stop(running);
    assert!(data(&paths[0]) == data(&paths[1]));
    assert!(data(&paths[1])[MIB as usize..][..bytes.len()] == bytes);
    mirror(&home, &["scrub", "a", "b"])
        .exits(0)
        .prints("are equal");
    // An old copy of a leg is not taken for the leg.
    std::fs::write(&paths[1], &copy).unwrap();
    let old = home
        .iodyno(&[
            "serve", "mirror", "--socket", "s", "--leg", "a", "--leg", "b",
        ])
        .exits(2);
    assert!(old.stderr.contains("`b`"), "{old:?}");
    // Each is written alone.
    for name in ["a", "b"] {
        let running = serve(&home, &[name], &["--degraded"]);
        client(&home).write(0, &noise(7, 512));
        stop(running);
    }
    let split = home
        .iodyno(&[
            "serve", "mirror", "--socket", "s", "--leg", "a", "--leg", "b",
        ])
        .exits(2);
    assert!(split.stderr.contains("split brain"), "{split:?}");
}

#[test]
fn legs_in_use_other_content_and_other_hosts_are_refused() {
    let home = Home::new();
    leg(&home, "a", 9);
    leg(&home, "b", 9);
    home.file("text", &"data".repeat(1 << 20));
    let used = mirror(&home, &["create", "a", "text"]).exits(3);
    assert!(used.stderr.contains("--destroy text"), "{used:?}");
    mirror(&home, &["create", "a", "a"])
        .exits(2)
        .tells("given twice");
    mirror(&home, &["create", "a", "b"]).succeeds();
    mirror(&home, &["create", "a", "b"])
        .exits(3)
        .tells("--destroy");
    let serve_a = [
        "serve", "mirror", "--socket", "t", "--leg", "a", "--leg", "b",
    ];
    home.iodyno(&["serve", "mirror", "--socket", "t", "--leg", "text"])
        .exits(2)
        .tells("not a leg");
    home.iodyno(&[&serve_a[..3], &["x", "--tcp", "0.0.0.0:1"], &serve_a[4..]].concat())
        .exits(2);
    let open = [
        "serve",
        "mirror",
        "--tcp",
        "0.0.0.0:0",
        "--leg",
        "a",
        "--leg",
        "b",
    ];
    home.iodyno(&open).exits(2).tells("--public");
    let running = serve(&home, &["a", "b"], &[]);
    home.iodyno(&serve_a).exits(3).tells("in use");
    mirror(&home, &["scrub", "a", "b"]).exits(3).tells("in use");
    let other = leg(&home, "other", 9);
    mirror(&home, &["add", "--leg", "a", "--leg", "b", "other"]).exits(3);
    assert!(std::fs::read(&other).unwrap().iter().all(|byte| *byte == 0));
    // Benchmarks do not write to legs, in use or not.
    let fio = ["fio", "--name=t", "--rw=write", "--size=1m", "--filename=a"];
    home.iodyno(&fio).exits(1).tells("leg of an iodyno mirror");
    client(&home).write(0, &noise(3, 4096));
    stop(running);
    mirror(&home, &["scrub", "a", "b"]).exits(0);
}

#[test]
fn legs_are_added_replaced_and_removed() {
    let home = Home::new();
    let paths = ["a", "b", "c", "d"].map(|name| leg(&home, name, 9));
    mirror(&home, &["create", "a"]).succeeds();
    let running = serve(&home, &["a"], &[]);
    let bytes = noise(11, 7 * MIB as usize);
    client(&home).write(0, &bytes);
    stop(running);
    mirror(&home, &["add", "--leg", "a", "b"])
        .succeeds()
        .prints("2 legs, 1 behind");
    // The only leg that is in sync stays.
    mirror(&home, &["remove", "--leg", "b", "a"])
        .exits(2)
        .tells("in sync");
    let resync = |legs: &[&str], new: &str| {
        let running = serve(&home, legs, &[]);
        running.wait_until_it_tells(&format!("`{new}` is in sync"));
        stop(running);
    };
    resync(&["a", "b"], "b");
    assert!(data(&paths[1])[..bytes.len()] == bytes);
    mirror(&home, &["replace", "--leg", "b", "a", "c"])
        .succeeds()
        .prints("2 legs, 1 behind");
    home.iodyno(&[
        "serve", "mirror", "--socket", "s", "--leg", "a", "--leg", "b", "--leg", "c",
    ])
    .exits(2)
    .tells("`a`");
    resync(&["b", "c"], "c");
    // A leg is lost and named by its UUID.
    std::fs::remove_file(&paths[1]).unwrap();
    let status = mirror(&home, &["status", "--json", "c"]).exits(1).json();
    let lost = status["legs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|leg| leg["path"].is_null())
        .unwrap();
    let lost = lost["uuid"].as_str().unwrap();
    mirror(
        &home,
        &[
            "remove",
            "--leg",
            "c",
            "00000000-0000-7000-8000-000000000000",
        ],
    )
    .exits(2);
    mirror(&home, &["replace", "--leg", "c", lost, "d"]).succeeds();
    resync(&["c", "d"], "d");
    mirror(&home, &["remove", "--leg", "d", "c"])
        .succeeds()
        .prints("1 leg, 0 behind");
    let running = serve(&home, &["d"], &[]);
    assert!(client(&home).read(0, bytes.len()) == bytes);
    stop(running);
}

#[test]
fn what_a_leg_cannot_read_is_read_from_another_one_and_rewritten() {
    let home = Home::new();
    let paths = ["a", "b"].map(|name| leg(&home, name, 9));
    mirror(&home, &["create", "a", "b"]).succeeds();
    let running = serve(&home, &["a", "b"], &["--policy", "round-robin"]);
    let mut client = client(&home);
    let bytes = noise(5, 8 * MIB as usize);
    client.write(0, &bytes);
    client.flush();
    // Reads beyond the end of the file fail.
    OpenOptions::new()
        .write(true)
        .open(&paths[0])
        .unwrap()
        .set_len(4 * MIB)
        .unwrap();
    for offset in (0..8 * MIB).step_by(64 << 10) {
        for _ in 0..2 {
            let at = offset as usize;
            assert!(client.read(offset, 64 << 10) == bytes[at..at + (64 << 10)]);
        }
    }
    running.wait_until_it_tells("was rewritten");
    stop(running);
    assert!(data(&paths[0]) == bytes);
    // Without checksums, the user decides which leg is right.
    let file = OpenOptions::new().write(true).open(&paths[0]).unwrap();
    file.write_all_at(b"wrong", 3 * MIB).unwrap();
    drop(file);
    mirror(&home, &["scrub", "a", "b"])
        .exits(1)
        .prints("1 range")
        .tells("byte 2097152");
    mirror(&home, &["scrub", "a", "b"]).exits(1);
    mirror(&home, &["scrub", "a", "b", "--from", "b"])
        .exits(1)
        .prints("overwritten");
    mirror(&home, &["scrub", "a", "b"]).exits(0);
    assert!(data(&paths[0]) == bytes);
}

#[test]
fn a_leg_on_a_full_disk_is_dropped_and_copied_to_later() {
    let home = Home::new();
    leg(&home, "a", 33);
    let small = home.work().join("small");
    std::fs::create_dir(&small).unwrap();
    let mount = |options: &str| {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(&small)
            .output();
        mounted.is_ok_and(|output| output.status.success())
    };
    if !root() || !mount("size=8m") {
        return skip("a small file system needs root");
    }
    let unmounted = Unmounted(&small);
    File::create(small.join("b"))
        .unwrap()
        .set_len(33 * MIB)
        .unwrap();
    let created = mirror(&home, &["create", "a", "small/b"]);
    if created.stderr.contains("O_DIRECT") {
        return skip("tmpfs without O_DIRECT");
    }
    created.succeeds();
    let running = serve(&home, &["a", "small/b"], &[]);
    let mut first = client(&home);
    let bytes = noise(9, 32 * MIB as usize);
    for (number, part) in bytes.chunks(MIB as usize).enumerate() {
        first.write(number as u64 * MIB, part);
    }
    // The drop is durable before the acknowledgement.
    running.signal(Signal::KILL);
    running.done();
    let status = mirror(&home, &["status", "a", "small/b"]).exits(1);
    assert!(status.stdout.contains("behind"), "{status:?}");
    mirror(&home, &["scrub", "small/b"]).exits(2);
    assert!(mount("remount,size=64m"));
    let running = serve(&home, &["a", "small/b"], &[]);
    assert!(client(&home).read(0, bytes.len()) == bytes);
    running.wait_until_it_tells("`small/b` is in sync");
    stop(running);
    assert!(data(&small.join("b")) == bytes);
    drop(unmounted);
}

/// Unmounts a folder when it is dropped.
struct Unmounted<'a>(&'a Path);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_client_that_breaks_the_protocol_ends_its_own_connection_only() {
    let home = Home::new();
    leg(&home, "a", 9);
    mirror(&home, &["create", "a"]).succeeds();
    let running = serve(&home, &["a"], &[]);
    let mut good = client(&home);
    for garbage in [&[0xff; 100][..], b"\0\0\0\x03GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = UnixStream::connect(home.work().join("s")).unwrap();
        let _ = stream.write_all(garbage);
        let mut answer = Vec::new();
        // The server closes the connection.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.starts_with(b"NBDMAGIC"));
    }
    // Beyond the end, not aligned, unknown, too long.
    let mut odd = client(&home);
    for (kind, offset, length, error) in [
        (0, 8 * MIB, 512, 22),
        (0, 1, 512, 22),
        (9, 0, 0, 95),
        (0, 0, 64 << 20, 22),
    ] {
        assert_eq!(
            odd.call(0, kind, offset, length, &[]).unwrap().unwrap_err(),
            error
        );
    }
    assert_eq!(
        odd.call(0, 1, 8 * MIB, 512, &[1; 512])
            .unwrap()
            .unwrap_err(),
        28
    );
    assert_eq!(odd.read(0, 512), [0; 512]);
    // Half a request, and half of the bytes of a write.
    odd.stream.write_all(&[0x25, 0x60]).unwrap();
    drop(odd);
    let mut half = client(&home);
    let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
    request.extend([
        0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 1, 1,
    ]);
    half.stream.write_all(&request).unwrap();
    drop(half);
    good.write(0, &noise(1, 4096));
    assert!(good.read(0, 4096) == noise(1, 4096));
    stop(running);
}

/// Writes until the server is killed, after a number of writes that depends on the round; then checks every block after a restart.
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

#[test]
fn no_acknowledged_write_is_lost_when_the_server_is_killed() {
    kills(8);
}
