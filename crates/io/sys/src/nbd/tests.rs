use std::io::Cursor;
use std::os::unix::net::UnixStream;
use std::thread;

use iodyno_model::{Engine, EngineKind};

use super::*;
use crate::memory::Arena;
use crate::{Backend, Completion, Completions, Op, OpKind};

// ---- Negotiation ----

/// The server's bytes, and what it receives.
struct Pipe {
    sends: Cursor<Vec<u8>>,
    gets: Vec<u8>,
}

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.sends.read(into)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gets.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn greeting(flags: u16) -> Vec<u8> {
    let mut bytes = NBDMAGIC.to_be_bytes().to_vec();
    bytes.extend(IHAVEOPT.to_be_bytes());
    bytes.extend(flags.to_be_bytes());
    bytes
}

fn answer(kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_REPLY.to_be_bytes().to_vec();
    bytes.extend(OPT_GO.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

fn length_and_flags(length: u64, flags: u16) -> Vec<u8> {
    [&length.to_be_bytes()[..], &flags.to_be_bytes()].concat()
}

fn negotiated(parts: &[Vec<u8>]) -> (io::Result<Export>, Vec<u8>) {
    let mut pipe = Pipe {
        sends: Cursor::new(parts.concat()),
        gets: Vec::new(),
    };
    let result = negotiate(&mut pipe, "disk");
    (result, pipe.gets)
}

#[test]
fn an_export_has_the_length_flags_and_limits_that_the_server_tells() {
    let export = [&[0, 0][..], &length_and_flags(1 << 30, 5)].concat();
    let limits = [0, 3, 0, 0, 2, 0, 0, 0, 16, 0, 0, 1, 0, 0];
    let unknown = [0, 9, 1, 2, 3];
    let (result, sent) = negotiated(&[
        greeting(3),
        answer(REP_INFO, &export),
        answer(REP_INFO, &unknown),
        answer(REP_INFO, &limits),
        answer(REP_ACK, &[]),
    ]);
    let expected = Export {
        length: 1 << 30,
        flags: 5,
        smallest: 512,
        longest: 1 << 16,
    };
    assert_eq!(result.unwrap(), expected);
    assert!(sent.ends_with(b"\0\0\0\x04disk\0\x01\0\x03"), "{sent:?}");
}

#[test]
fn servers_without_go_are_asked_by_name() {
    let plain = length_and_flags(4096, HAS_FLAGS);
    let padded = [&plain[..], &[0; 124]].concat();
    for parts in [
        vec![greeting(3), answer(REP_ERR_UNSUP, b"no"), plain.clone()],
        vec![greeting(1), answer(REP_ERR_UNSUP, b""), padded.clone()],
        vec![greeting(0), padded],
    ] {
        let (result, sent) = negotiated(&parts);
        assert_eq!(result.unwrap().length, 4096);
        assert!(
            sent.ends_with(b"IHAVEOPT\0\0\0\x01\0\0\0\x04disk"),
            "{sent:?}"
        );
    }
}

#[test]
fn the_reason_of_a_server_is_told() {
    let long = [&[0, 0][..], &length_and_flags(u64::MAX - 1, 1)].concat();
    for (parts, why) in [
        (vec![b"SSH-2.0-OpenSSH_9.9 ".to_vec()], "another greeting"),
        (
            vec![
                NBDMAGIC.to_be_bytes().to_vec(),
                OLDSTYLE.to_be_bytes().to_vec(),
            ],
            "oldstyle",
        ),
        (
            vec![greeting(3), answer(REP_ERR_UNKNOWN, b"no export\n`disk`")],
            "`disk`: no export `disk`",
        ),
        (vec![greeting(3), answer(REP_ERR_TLS_REQD, b"")], "TLS"),
        (vec![greeting(3), answer(REP_ACK, b"")], "length"),
        (vec![greeting(3), answer(REP_INFO, b"\0")], "too short"),
        (
            vec![greeting(3), answer(REP_INFO, &long)],
            "closed the connection",
        ),
        (
            vec![greeting(3), answer(REP_INFO, &long), answer(REP_ACK, b"")],
            "out of range",
        ),
        (vec![greeting(3), answer(99, b"")], "unknown"),
        (
            vec![greeting(3), answer(REP_INFO, &[0, 9]).repeat(100)],
            "does not end",
        ),
        (vec![greeting(3)], "closed the connection"),
        (vec![greeting(0)], "refuses the export `disk`"),
    ] {
        let said = negotiated(&parts).0.unwrap_err().to_string();
        assert!(said.contains(why), "{why}: {said}");
    }
}

// ---- The backend ----

const MIB: usize = 1 << 20;
const SLOTS: u32 = 8;

/// Serves the bytes of `disk` in batches of up to `together` requests, each in reverse order, until the client leaves.
/// Returns the disk and the kinds and flags of all requests.
fn serve(mut stream: UnixStream, mut disk: Vec<u8>, together: usize) -> (Vec<u8>, Vec<(u16, u16)>) {
    let mut seen = Vec::new();
    loop {
        let mut replies: Vec<Vec<u8>> = Vec::new();
        while replies.len() < together {
            let mut header = [0; REQUEST_BYTES];
            if stream.read_exact(&mut header).is_err() {
                return (disk, seen);
            }
            let u16_at = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
            let u64_at = |at: usize| u64::from_be_bytes(header[at..at + 8].try_into().unwrap());
            assert_eq!(header[..4], REQUEST.to_be_bytes());
            let (flags, kind) = (u16_at(4), u16_at(6));
            let length = u32::from_be_bytes(header[24..].try_into().unwrap()) as usize;
            let range = u64_at(16) as usize..u64_at(16) as usize + length;
            let mut reply = SIMPLE_REPLY.to_be_bytes().to_vec();
            let inside = range.end <= disk.len();
            reply.extend(if inside { 0u32 } else { 22 }.to_be_bytes());
            reply.extend(&header[8..16]);
            match kind {
                CMD_READ if inside => reply.extend(&disk[range]),
                CMD_WRITE => stream.read_exact(&mut disk[range]).unwrap(),
                CMD_DISC => return (disk, seen),
                _ => {}
            }
            seen.push((kind, flags));
            replies.push(reply);
        }
        replies.reverse();
        stream.write_all(&replies.concat()).unwrap();
    }
}

fn backend(stream: UnixStream, engine: &Engine) -> NbdBackend {
    stream.set_nonblocking(true).unwrap();
    let arena = Arena::new(SLOTS, MIB, 0, false).unwrap();
    NbdBackend::new(stream.into(), "nbd://test/", arena, engine)
}

fn op(kind: OpKind, offset: usize, length: usize) -> Op {
    Op::new(kind, 0, offset as u64, length as u32)
}

/// Completes everything that is in flight.
fn finish(backend: &mut NbdBackend, count: usize) -> Vec<Completion> {
    let mut all = Vec::new();
    let mut completions = Completions::with_capacity(SLOTS);
    while all.len() < count {
        backend.turn(1, SLOTS, None, &mut completions).unwrap();
        all.extend(completions.list.iter().copied());
    }
    all
}

#[test]
fn ops_of_all_lengths_transfer_their_own_bytes_in_any_order_of_replies() {
    let engine = Engine::new(EngineKind::Nbd, SLOTS);
    for (together, length) in [
        (1, 512),
        (SLOTS as usize, 4096),
        (SLOTS as usize, MIB),
        (2, 100_000),
    ] {
        let (client, server) = UnixStream::pair().unwrap();
        let disk = vec![0; SLOTS as usize * MIB];
        let server = thread::spawn(move || serve(server, disk, together));
        let mut backend = backend(client, &engine);
        for slot in 0..SLOTS {
            backend.buffer(slot)[..length].fill(slot as u8 + 1);
            backend.prep(slot, &op(OpKind::Write, slot as usize * MIB, length));
        }
        let ended = finish(&mut backend, SLOTS as usize);
        assert!(
            ended.iter().all(|end| end.result == length as i32),
            "{ended:?}"
        );
        assert!(
            ended
                .iter()
                .all(|end| end.submitted > 0 && end.completed >= end.submitted)
        );
        for slot in 0..SLOTS {
            backend.buffer(slot).fill(99);
            // Each slot reads what another one has written.
            let other = (SLOTS - 1 - slot) as usize;
            backend.prep(slot, &op(OpKind::Read, other * MIB, length));
        }
        finish(&mut backend, SLOTS as usize);
        for slot in 0..SLOTS {
            let buffer = backend.buffer(slot);
            assert!(
                buffer[..length]
                    .iter()
                    .all(|byte| *byte == (SLOTS - slot) as u8)
            );
            assert!(buffer[length..].iter().all(|byte| *byte == 99));
        }
        drop(backend);
        let (disk, seen) = server.join().unwrap();
        assert_eq!(seen.len(), 2 * SLOTS as usize);
        assert!(
            disk[7 * MIB..7 * MIB + length]
                .iter()
                .all(|byte| *byte == 8)
        );
    }
}

#[test]
fn the_rest_of_a_short_op_uses_the_rest_of_its_buffer() {
    let (client, server) = UnixStream::pair().unwrap();
    let disk = (0..MIB).map(|at| (at / 512) as u8).collect();
    let server = thread::spawn(move || serve(server, disk, 1));
    let mut backend = backend(client, &Engine::new(EngineKind::Nbd, 1));
    let rest = Op {
        skip: 512,
        ..op(OpKind::Read, 3 * 512, 1024)
    };
    backend.prep(0, &rest);
    assert_eq!(finish(&mut backend, 1)[0].result, 1024);
    let buffer = backend.buffer(0);
    assert_eq!(
        [buffer[0], buffer[512], buffer[1024], buffer[1536]],
        [0, 3, 4, 0]
    );
    drop(backend);
    server.join().unwrap();
}

#[test]
fn syncs_are_flushes_writes_have_fua_if_asked_and_errors_are_those_of_the_server() {
    let mut engine = Engine::new(EngineKind::Nbd, 1);
    engine.o_dsync = true;
    let (client, server) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || serve(server, vec![0; 8192], 1));
    let mut backend = backend(client, &engine);
    for (op, result) in [
        (op(OpKind::Write, 0, 4096), 4096),
        (op(OpKind::Fsync, 0, 0), 0),
        (op(OpKind::Fdatasync, 0, 0), 0),
        (op(OpKind::SyncRange(2), 4096, 4096), 0),
        (op(OpKind::Trim, 4096, 4096), 0),
        (op(OpKind::Read, 8192, 4096), -22),
        (op(OpKind::Read, 4096, 4096), 4096),
    ] {
        backend.prep(0, &op);
        assert_eq!(finish(&mut backend, 1)[0].result, result, "{op:?}");
    }
    drop(backend);
    let flush = (CMD_FLUSH, 0);
    let expected = [
        (CMD_WRITE, FUA),
        flush,
        flush,
        flush,
        (CMD_TRIM, 0),
        (CMD_READ, 0),
        (CMD_READ, 0),
    ];
    assert_eq!(server.join().unwrap().1, expected);
}

#[test]
fn a_server_that_leaves_or_replies_to_nothing_fails_the_backend() {
    let engine = Engine::new(EngineKind::Nbd, 1);
    let mut stray = SIMPLE_REPLY.to_be_bytes().to_vec();
    stray.extend([0; 12]);
    for (reply, why) in [
        (Vec::new(), "closed the connection"),
        (stray, "not in flight"),
        (vec![7; 16], "no reply where one is expected"),
    ] {
        let (client, mut server) = UnixStream::pair().unwrap();
        let mut backend = backend(client, &engine);
        backend.prep(0, &op(OpKind::Read, 0, 4096));
        let mut completions = Completions::with_capacity(1);
        // The request is sent, and the reply is pending.
        backend.turn(0, 1, None, &mut completions).unwrap();
        assert_eq!((completions.submitted, completions.list.len()), (1, 0));
        server.read_exact(&mut [0; REQUEST_BYTES]).unwrap();
        server.write_all(&reply).unwrap();
        server.shutdown(std::net::Shutdown::Write).unwrap();
        let error = backend.turn(1, 1, None, &mut completions).unwrap_err();
        assert!(error.what.contains("nbd://test/"), "{error}");
        assert!(error.source.to_string().contains(why), "{}", error.source);
    }
}

#[test]
fn waiting_ends_at_the_deadline_and_cancelled_ops_end() {
    let engine = Engine::new(EngineKind::Nbd, SLOTS);
    let (client, _server) = UnixStream::pair().unwrap();
    let mut backend = backend(client, &engine);
    backend.prep(0, &op(OpKind::Read, 0, 4096));
    // More than the socket takes, because the server reads nothing.
    for slot in 1..SLOTS {
        backend.prep(slot, &op(OpKind::Write, 0, MIB));
    }
    let mut completions = Completions::with_capacity(SLOTS);
    let deadline = crate::Clock::now(&crate::MonotonicClock) + 1_000_000;
    backend
        .turn(1, SLOTS, Some(deadline), &mut completions)
        .unwrap();
    assert_eq!(completions.list.len(), 0);
    assert!(completions.returned >= deadline);
    backend.cancel_all();
    let ended = finish(&mut backend, SLOTS as usize);
    assert!(
        ended.iter().all(|end| end.result == -libc::ECANCELED),
        "{ended:?}"
    );
}
