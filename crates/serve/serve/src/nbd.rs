//! The server side of the NBD protocol: fixed newstyle negotiation and simple replies.
//!
//! Source: the NBD project's `proto.md`. The only export has an empty name. Commands are reads, writes, writes of zeros
//! and flushes, with FUA. Input of clients is untrusted: lengths are limited before any allocation, and unknown options
//! and commands get the protocol's error. A client that breaks the framing is disconnected.

use std::io::{self, Read, Write};

use iodyno_model::errno::{EINVAL, EIO, ENOSPC, EOPNOTSUPP};
use iodyno_sys::nbd::wire::{self, *};

/// The longest request, bytes; the default of clients that do not ask for limits.
pub use wire::MAX_BYTES;

/// Flags of the export.
const EXPORT_FLAGS: u16 = HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_WRITE_ZEROES | CAN_MULTI_CONN;

/// The longest data of an option, bytes: a name has at most 4096.
const MAX_OPTION: u32 = 16 << 10;
/// Options before a client is disconnected.
const MAX_OPTIONS: u32 = 64;

/// The exported disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Export {
    /// Length, bytes.
    pub length: u64,
    /// Requests are aligned to it, bytes.
    pub unit: u32,
    /// Whether its medium rotates.
    pub rotational: bool,
    /// Whether trims are offered.
    pub trims: bool,
}

impl Export {
    fn flags(&self) -> u16 {
        let flag = |offered, flag| if offered { flag } else { 0 };
        EXPORT_FLAGS | flag(self.rotational, ROTATIONAL) | flag(self.trims, SEND_TRIM)
    }
}

/// Negotiates with a client. Returns whether the client enters the transmission phase.
///
/// # Errors
/// Those of the stream; [`io::ErrorKind::InvalidData`] if the client violates the protocol.
pub fn negotiate(stream: &mut (impl Read + Write), export: &Export) -> io::Result<bool> {
    let mut greeting = Vec::with_capacity(18);
    greeting.extend(NBDMAGIC.to_be_bytes());
    greeting.extend(IHAVEOPT.to_be_bytes());
    greeting.extend((FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    stream.write_all(&greeting)?;
    let flags = u32::from_be_bytes(read(stream)?);
    if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
        return Err(broken("unknown flags of the client"));
    }
    for _ in 0..MAX_OPTIONS {
        if u64::from_be_bytes(read(stream)?) != IHAVEOPT {
            return Err(broken("no option where one is expected"));
        }
        let option = u32::from_be_bytes(read(stream)?);
        let length = u32::from_be_bytes(read(stream)?);
        if length > MAX_OPTION {
            discard(stream, u64::from(length))?;
            reply(stream, option, REP_ERR_TOO_BIG, &[])?;
            continue;
        }
        let mut data = vec![0; length as usize];
        stream.read_exact(&mut data)?;
        match option {
            OPT_EXPORT_NAME if data.is_empty() => {
                let mut answer = Vec::with_capacity(134);
                answer.extend(export.length.to_be_bytes());
                answer.extend(export.flags().to_be_bytes());
                if flags & u32::from(NO_ZEROES) == 0 {
                    answer.extend([0; 124]);
                }
                stream.write_all(&answer)?;
                return Ok(true);
            }
            // This option has no error reply.
            OPT_EXPORT_NAME => return Err(broken("no export has this name")),
            OPT_ABORT => {
                // The client may have gone already.
                let _ = reply(stream, option, REP_ACK, &[]);
                return Ok(false);
            }
            OPT_LIST if data.is_empty() => {
                reply(stream, option, REP_SERVER, &[0; 4])?;
                reply(stream, option, REP_ACK, &[])?;
            }
            OPT_LIST => reply(stream, option, REP_ERR_INVALID, &[])?,
            OPT_INFO | OPT_GO => match wanted(&data) {
                None => reply(stream, option, REP_ERR_INVALID, &[])?,
                Some(name) if !name.is_empty() => reply(stream, option, REP_ERR_UNKNOWN, &[])?,
                Some(_) => {
                    inform(stream, option, export)?;
                    if option == OPT_GO {
                        return Ok(true);
                    }
                }
            },
            _ => reply(stream, option, REP_ERR_UNSUP, &[])?,
        }
    }
    Err(broken("too many options"))
}

/// The name in the data of INFO and GO; `None` if they are not valid.
fn wanted(data: &[u8]) -> Option<&[u8]> {
    let (length, rest) = data.split_first_chunk()?;
    let length = u32::from_be_bytes(*length) as usize;
    let (name, rest) = rest.split_at_checked(length)?;
    let (count, kinds) = rest.split_first_chunk()?;
    (kinds.len() == 2 * usize::from(u16::from_be_bytes(*count))).then_some(name)
}

fn inform(stream: &mut impl Write, option: u32, export: &Export) -> io::Result<()> {
    let mut size = Vec::with_capacity(12);
    size.extend(INFO_EXPORT.to_be_bytes());
    size.extend(export.length.to_be_bytes());
    size.extend(export.flags().to_be_bytes());
    reply(stream, option, REP_INFO, &size)?;
    let mut blocks = Vec::with_capacity(14);
    blocks.extend(INFO_BLOCK_SIZE.to_be_bytes());
    for bytes in [export.unit, export.unit.max(4096), MAX_BYTES] {
        blocks.extend(bytes.to_be_bytes());
    }
    reply(stream, option, REP_INFO, &blocks)?;
    reply(stream, option, REP_ACK, &[])
}

fn reply(stream: &mut impl Write, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(20 + data.len());
    bytes.extend(OPTION_REPLY.to_be_bytes());
    bytes.extend(option.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes)
}

/// A command of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Reads the range.
    Read,
    /// Writes the range; its bytes follow the request.
    Write {
        /// Must be durable before the reply.
        fua: bool,
    },
    /// Writes zeros to the range.
    WriteZeroes {
        /// Must be durable before the reply.
        fua: bool,
        /// The range may be deallocated.
        holes: bool,
    },
    /// Makes all writes durable that were replied to.
    Flush,
    /// Ends the connection without a reply.
    Disconnect,
    /// Invalid: the reply is this NBD error.
    Invalid(i32),
}

/// A request, without the bytes of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Chosen by the client; the reply has it.
    pub cookie: u64,
    /// The command.
    pub command: Command,
    /// Start, bytes.
    pub offset: u64,
    /// Length, bytes. Reads and writes that are valid have at most [`MAX_BYTES`].
    pub length: u32,
    /// Number of bytes that follow the request, also if it is not valid.
    pub payload: u32,
}

/// Length of a request's header, bytes.
pub const HEADER: usize = 28;

/// How many bytes follow the header of a request that begins here. `None`: the header is not complete.
pub fn payload(bytes: &[u8]) -> Option<u32> {
    let header: &[u8; HEADER] = bytes.first_chunk()?;
    let kind = u16::from_be_bytes([header[6], header[7]]);
    let length = u32::from_be_bytes([header[24], header[25], header[26], header[27]]);
    Some(if kind == CMD_WRITE { length } else { 0 })
}

/// Reads the next request. `None`: the client has closed the connection.
///
/// # Errors
/// Those of the stream; [`io::ErrorKind::InvalidData`] if this is not a request.
pub fn request(stream: &mut impl Read, export: &Export) -> io::Result<Option<Request>> {
    let mut header = [0; HEADER];
    let first = loop {
        match stream.read(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    if first == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut header[first..])?;
    let u16_at = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let u32_at = |at: usize| u32::from(u16_at(at)) << 16 | u32::from(u16_at(at + 2));
    let u64_at = |at: usize| u64::from(u32_at(at)) << 32 | u64::from(u32_at(at + 4));
    if u32_at(0) != REQUEST {
        return Err(broken("no request where one is expected"));
    }
    let (flags, kind) = (u16_at(4), u16_at(6));
    let (offset, length) = (u64_at(16), u32_at(24));
    let (command, payload) = match kind {
        CMD_READ => (Command::Read, 0),
        CMD_WRITE => (
            Command::Write {
                fua: flags & FUA != 0,
            },
            length,
        ),
        CMD_DISC => (Command::Disconnect, 0),
        CMD_FLUSH => (Command::Flush, 0),
        CMD_WRITE_ZEROES => (
            Command::WriteZeroes {
                fua: flags & FUA != 0,
                holes: flags & NO_HOLE == 0,
            },
            0,
        ),
        // The content of a trimmed range is undefined. Zeros keep all legs equal.
        CMD_TRIM if export.trims => (
            Command::WriteZeroes {
                fua: flags & FUA != 0,
                holes: true,
            },
            0,
        ),
        _ => (Command::Invalid(EOPNOTSUPP), 0),
    };
    let transfers = matches!(command, Command::Read | Command::Write { .. });
    let zeroes = matches!(command, Command::WriteZeroes { .. });
    let known = match kind {
        CMD_WRITE_ZEROES => FUA | NO_HOLE,
        _ => FUA,
    };
    let unit = u64::from(export.unit);
    let aligned = offset.is_multiple_of(unit) && u64::from(length).is_multiple_of(unit);
    let inside = offset
        .checked_add(u64::from(length))
        .is_some_and(|end| end <= export.length);
    let command = match command {
        Command::Invalid(_) | Command::Disconnect => command,
        _ if flags & !known != 0 => Command::Invalid(EINVAL),
        _ if !transfers && !zeroes => command,
        _ if transfers && length > MAX_BYTES => Command::Invalid(EINVAL),
        _ if length == 0 || !aligned => Command::Invalid(EINVAL),
        Command::Write { .. } | Command::WriteZeroes { .. } if !inside => Command::Invalid(ENOSPC),
        _ if !inside => Command::Invalid(EINVAL),
        _ => command,
    };
    Ok(Some(Request {
        cookie: u64_at(8),
        command,
        offset,
        length,
        payload,
    }))
}

/// The header of a reply; `errno` is that of Linux, or 0. The bytes of a successful read follow it.
pub fn reply_header(cookie: u64, errno: i32) -> [u8; 16] {
    let error = match errno {
        0 => 0,
        // EPERM, ENOMEM, EINVAL, ENOSPC, EOVERFLOW, ENOTSUP and ESHUTDOWN have the numbers of Linux.
        1 | 12 | 22 | 28 | 75 | 95 | 108 => errno as u32,
        _ => EIO as u32,
    };
    let mut header = [0; 16];
    header[..4].copy_from_slice(&SIMPLE_REPLY.to_be_bytes());
    header[4..8].copy_from_slice(&error.to_be_bytes());
    header[8..].copy_from_slice(&cookie.to_be_bytes());
    header
}

/// Reads and discards bytes.
///
/// # Errors
/// Those of the stream.
pub fn discard(stream: &mut impl Read, bytes: u64) -> io::Result<()> {
    match io::copy(&mut stream.take(bytes), &mut io::sink())? {
        read if read == bytes => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn read<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn broken(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the client does not speak NBD: {what}"),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXPORT: Export = Export {
        length: 1 << 20,
        unit: 512,
        rotational: false,
        trims: false,
    };

    /// The client's bytes, and the replies to it.
    struct Pipe<'a> {
        sent: &'a [u8],
        got: Vec<u8>,
    }

    impl Read for Pipe<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.sent.read(into)
        }
    }

    impl Write for Pipe<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.got.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn negotiated(sent: &[u8]) -> (io::Result<bool>, Vec<u8>) {
        let mut pipe = Pipe {
            sent,
            got: Vec::new(),
        };
        let result = negotiate(&mut pipe, &EXPORT);
        (result, pipe.got)
    }

    fn option(number: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = IHAVEOPT.to_be_bytes().to_vec();
        bytes.extend(number.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        bytes
    }

    /// Kinds of the replies to options.
    fn kinds(mut got: &[u8]) -> Vec<u32> {
        let mut kinds = Vec::new();
        got = &got[18..];
        while let Some((header, rest)) = got.split_first_chunk::<20>() {
            assert_eq!(header[..8], OPTION_REPLY.to_be_bytes());
            kinds.push(u32::from_be_bytes(header[12..16].try_into().unwrap()));
            let length = u32::from_be_bytes(header[16..].try_into().unwrap());
            got = &rest[length as usize..];
        }
        kinds
    }

    #[test]
    fn a_client_goes_after_unknown_options_and_wrong_names() {
        let mut sent = 3u32.to_be_bytes().to_vec();
        sent.extend(option(8, &[]));
        sent.extend(option(OPT_GO, b"\0\0\0\x01x\0\0"));
        sent.extend(option(OPT_INFO, b"\0\0\0\x09x\0\0"));
        sent.extend(option(OPT_LIST, &[]));
        sent.extend(option(99, &[7; 20 << 10]));
        sent.extend(option(OPT_GO, b"\0\0\0\0\0\x01\0\x03"));
        let (result, got) = negotiated(&sent);
        assert!(result.unwrap());
        let expected = [
            REP_ERR_UNSUP,
            REP_ERR_UNKNOWN,
            REP_ERR_INVALID,
            REP_SERVER,
            REP_ACK,
            REP_ERR_TOO_BIG,
            REP_INFO,
            REP_INFO,
            REP_ACK,
        ];
        assert_eq!(kinds(&got), expected);
    }

    #[test]
    fn old_clients_name_the_export_and_others_abort() {
        for (flags, length) in [(1u32, 18 + 134), (3, 18 + 10)] {
            let sent = [flags.to_be_bytes().to_vec(), option(OPT_EXPORT_NAME, &[])].concat();
            let (result, got) = negotiated(&sent);
            assert!(result.unwrap());
            assert_eq!(got.len(), length);
            assert_eq!(got[18..26], EXPORT.length.to_be_bytes());
        }
        let sent = [3u32.to_be_bytes().to_vec(), option(OPT_ABORT, &[])].concat();
        assert!(!negotiated(&sent).0.unwrap());
        let sent = [3u32.to_be_bytes().to_vec(), option(OPT_EXPORT_NAME, b"x")].concat();
        assert!(negotiated(&sent).0.is_err());
        let endless: Vec<u8> = [
            3u32.to_be_bytes().to_vec(),
            option(OPT_LIST, &[]).repeat(100),
        ]
        .concat();
        assert!(negotiated(&endless).0.is_err());
    }

    fn parsed(flags: u16, kind: u16, offset: u64, length: u32) -> Request {
        let mut bytes = REQUEST.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(77u64.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        request(&mut bytes.as_slice(), &EXPORT).unwrap().unwrap()
    }

    #[test]
    fn requests_are_checked_against_the_export() {
        let invalid = Command::Invalid;
        let zeroes = |fua, holes| Command::WriteZeroes { fua, holes };
        for (flags, kind, offset, length, command, payload) in [
            (0, 0, 0, 512, Command::Read, 0),
            (0, 1, 512, 1024, Command::Write { fua: false }, 1024),
            (
                1,
                1,
                (1 << 20) - 512,
                512,
                Command::Write { fua: true },
                512,
            ),
            (0, 2, 9, 9, Command::Disconnect, 0),
            (0, 3, 0, 0, Command::Flush, 0),
            (0, 0, 1 << 20, 512, invalid(EINVAL), 0),
            (0, 0, u64::MAX - 511, 512, invalid(EINVAL), 0),
            (0, 1, 1 << 20, 512, invalid(ENOSPC), 512),
            (0, 0, 1, 512, invalid(EINVAL), 0),
            (0, 0, 0, 0, invalid(EINVAL), 0),
            (0, 0, 0, u32::MAX, invalid(EINVAL), 0),
            (0, 1, 0, u32::MAX, invalid(EINVAL), u32::MAX),
            (2, 1, 0, 512, invalid(EINVAL), 512),
            (0, 4, 0, 512, invalid(EOPNOTSUPP), 0),
            (3, 6, 0, 1 << 20, zeroes(true, false), 0),
            (0, 6, 512, 512, zeroes(false, true), 0),
            (4, 6, 0, 512, invalid(EINVAL), 0),
            (0, 6, 512, u32::MAX - 511, invalid(ENOSPC), 0),
            (0, 6, 0, 0, invalid(EINVAL), 0),
            (0, 999, 0, 512, invalid(EOPNOTSUPP), 0),
        ] {
            let request = parsed(flags, kind, offset, length);
            assert_eq!(
                (request.command, request.payload),
                (command, payload),
                "{kind} {offset} {length}"
            );
            assert_eq!(request.cookie, 77);
        }
    }

    #[test]
    fn trims_are_zeros_and_are_offered_or_refused() {
        let able = Export {
            trims: true,
            ..EXPORT
        };
        assert_eq!((able.flags() ^ EXPORT.flags()), SEND_TRIM);
        let mut bytes = REQUEST.to_be_bytes().to_vec();
        bytes.extend([0, 1, 0, 4]);
        bytes.extend([0; 16]);
        bytes.extend(4096u32.to_be_bytes());
        let command = |export| {
            request(&mut bytes.as_slice(), export)
                .unwrap()
                .unwrap()
                .command
        };
        let zeros = Command::WriteZeroes {
            fua: true,
            holes: true,
        };
        assert_eq!(command(&able), zeros);
        assert_eq!(command(&EXPORT), Command::Invalid(EOPNOTSUPP));
    }

    #[test]
    fn errors_that_the_protocol_does_not_know_are_eio() {
        for (errno, error) in [(0, 0), (28, 28), (108, 108), (117, 5), (-1, 5)] {
            let header = reply_header(5, errno);
            assert_eq!(header[4..8], u32::to_be_bytes(error), "{errno}");
            assert_eq!(header[8..], 5u64.to_be_bytes());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_of_a_client_end_in_an_error_or_an_answer(
            mut sent in proptest::collection::vec(any::<u8>(), 0..400), spoken in any::<bool>()
        ) {
            if spoken && sent.len() > 24 {
                sent[..4].copy_from_slice(&3u32.to_be_bytes());
                sent[4..12].copy_from_slice(&IHAVEOPT.to_be_bytes());
                sent[12..15].fill(0);
                sent[15] %= 12;
                sent[16..19].fill(0);
            }
            let (result, got) = negotiated(&sent);
            prop_assert!(got.len() >= 18 || result.is_err());
        }

        #[test]
        fn any_request_is_inside_of_the_export_or_invalid(mut bytes in proptest::collection::vec(any::<u8>(), 28), small in any::<bool>()) {
            bytes[..4].copy_from_slice(&REQUEST.to_be_bytes());
            bytes[6] = 0;
            bytes[7] %= 6;
            if small {
                bytes[16..22].fill(0);
                bytes[24..26].fill(0);
            }
            let request = request(&mut bytes.as_slice(), &EXPORT).unwrap().unwrap();
            if matches!(request.command, Command::Read | Command::Write { .. }) {
                prop_assert!(request.offset + u64::from(request.length) <= EXPORT.length);
                prop_assert!(request.length > 0 && request.length <= MAX_BYTES);
                prop_assert_eq!(request.offset % 512 + u64::from(request.length % 512), 0);
            }
        }
    }
}
