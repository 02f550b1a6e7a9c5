//! The client side of the NBD protocol: connects to any server; also the backend of the engine `nbd`.
//!
//! Negotiation is fixed newstyle with GO, or EXPORT_NAME for servers without GO. Replies are simple. Server input is
//! untrusted: lengths are limited before any allocation.

mod backend;
pub mod wire;

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::Duration;

use iodyno_model::{ExportServer, ExportUri, printable};

use crate::BackendError;
pub use backend::NbdBackend;
use wire::*;

/// The longest data of a reply to an option, bytes.
const MAX_DATA: u32 = 64 << 10;
/// The most replies to an option before disconnecting.
const MAX_REPLIES: u32 = 64;

/// The export as described by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Export {
    /// Length, bytes.
    pub length: u64,
    /// Flags of [`wire`]: `READ_ONLY`, `SEND_FLUSH`, …
    pub flags: u16,
    /// Requests are multiples of this, bytes.
    pub smallest: u32,
    /// The longest request, bytes.
    pub longest: u32,
}

impl Export {
    /// Whether it has a flag of [`wire`].
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// A connection that was negotiated.
#[derive(Debug)]
pub struct Connection {
    /// The non-blocking socket.
    pub socket: OwnedFd,
    /// The export.
    pub export: Export,
}

impl Connection {
    /// Announces the end of requests to the server, and closes the connection.
    pub fn close(self) {
        disconnect(&std::fs::File::from(self.socket));
    }
}

/// Requests the end of the connection. The server may have closed it already.
fn disconnect(mut socket: &std::fs::File) {
    let _ = socket.write(&request(0, CMD_DISC, 0, 0, 0));
}

/// Connects to an export. Each step may take `within`.
///
/// # Errors
/// The server cannot be reached, does not speak the protocol, or refuses the export.
pub fn connect(uri: &ExportUri, within: Duration) -> Result<Connection, BackendError> {
    let failed = |source: io::Error| {
        let hint = match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                Some("start the server first")
            }
            io::ErrorKind::PermissionDenied => Some("run iodyno as the user of the server"),
            _ => None,
        };
        BackendError {
            what: format!("connect to `{uri}`"),
            source,
            hint,
        }
    };
    match &uri.server {
        ExportServer::Unix(path) => unix(path, &uri.export, within),
        ExportServer::Tcp { host, port } => tcp(host, *port, &uri.export, within),
        ExportServer::VhostUser(_) | ExportServer::Virtiofs(_) => {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
    .map_err(failed)
}

fn unix(path: &std::path::Path, export: &str, within: Duration) -> io::Result<Connection> {
    let mut stream = crate::socket::connect(path)?;
    stream.set_read_timeout(Some(within))?;
    stream.set_write_timeout(Some(within))?;
    let export = negotiate(&mut stream, export)?;
    stream.set_nonblocking(true)?;
    Ok(Connection {
        socket: stream.into(),
        export,
    })
}

fn tcp(host: &str, port: u16, export: &str, within: Duration) -> io::Result<Connection> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        let mut stream = match TcpStream::connect_timeout(&address, within) {
            Ok(stream) => stream,
            Err(error) => {
                last = error;
                continue;
            }
        };
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(within))?;
        stream.set_write_timeout(Some(within))?;
        let export = negotiate(&mut stream, export)?;
        stream.set_nonblocking(true)?;
        return Ok(Connection {
            socket: stream.into(),
            export,
        });
    }
    Err(last)
}

/// Negotiates with a server.
///
/// # Errors
/// Those of the stream; the reason why the server refuses the export; [`io::ErrorKind::InvalidData`] if it violates the
/// protocol.
pub fn negotiate(stream: &mut (impl Read + Write), name: &str) -> io::Result<Export> {
    let silent = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(
            io::ErrorKind::TimedOut,
            "the server does not answer; it may serve one client at a time",
        ),
        io::ErrorKind::UnexpectedEof => io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the server closed the connection during the negotiation",
        ),
        _ => error,
    };
    export_of(stream, name).map_err(silent)
}

fn export_of(stream: &mut (impl Read + Write), name: &str) -> io::Result<Export> {
    if u64::from_be_bytes(read(stream)?) != NBDMAGIC {
        return Err(broken("it sends another greeting"));
    }
    match u64::from_be_bytes(read(stream)?) {
        IHAVEOPT => {}
        OLDSTYLE => return Err(broken("it supports oldstyle negotiation only")),
        _ => return Err(broken("it does not support fixed newstyle negotiation")),
    }
    let offered = u16::from_be_bytes(read(stream)?) & (FIXED_NEWSTYLE | NO_ZEROES);
    stream.write_all(&u32::from(offered).to_be_bytes())?;
    if offered & FIXED_NEWSTYLE != 0
        && let Some(export) = go(stream, name)?
    {
        return Ok(export);
    }
    option(stream, OPT_EXPORT_NAME, name.as_bytes())?;
    let length = u64::from_be_bytes(read(stream).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => refused(name, ""),
        _ => error,
    })?);
    let flags = u16::from_be_bytes(read(stream)?);
    if offered & NO_ZEROES == 0 {
        let _: [u8; 124] = read(stream)?;
    }
    checked(Export {
        length,
        flags,
        smallest: 1,
        longest: MAX_BYTES,
    })
}

/// Requests an export by GO. `None`: the server does not support this option.
fn go(stream: &mut (impl Read + Write), name: &str) -> io::Result<Option<Export>> {
    let mut data = Vec::with_capacity(8 + name.len());
    data.extend((name.len() as u32).to_be_bytes());
    data.extend(name.as_bytes());
    data.extend(1u16.to_be_bytes());
    data.extend(INFO_BLOCK_SIZE.to_be_bytes());
    option(stream, OPT_GO, &data)?;
    let mut export = Export {
        length: u64::MAX,
        flags: 0,
        smallest: 1,
        longest: MAX_BYTES,
    };
    for _ in 0..MAX_REPLIES {
        if u64::from_be_bytes(read(stream)?) != OPTION_REPLY
            || u32::from_be_bytes(read(stream)?) != OPT_GO
        {
            return Err(broken("it does not answer the option"));
        }
        let kind = u32::from_be_bytes(read(stream)?);
        let length = u32::from_be_bytes(read(stream)?);
        if length > MAX_DATA {
            return Err(broken("the answer to an option is too long"));
        }
        let mut data = vec![0; length as usize];
        stream.read_exact(&mut data)?;
        match kind {
            REP_ACK if export.length == u64::MAX => {
                return Err(broken("it does not report the length of the export"));
            }
            REP_ACK => return checked(export).map(Some),
            REP_INFO => inform(&mut export, &data)?,
            REP_ERR_UNSUP => return Ok(None),
            REP_ERR_TLS_REQD => {
                return Err(io::Error::other(
                    "the server requires TLS, which is not supported",
                ));
            }
            kind if kind & REP_ERR != 0 => {
                return Err(refused(name, &String::from_utf8_lossy(&data)));
            }
            _ => return Err(broken("the type of its reply is unknown")),
        }
    }
    Err(broken("it does not end its reply to an option"))
}

fn inform(export: &mut Export, data: &[u8]) -> io::Result<()> {
    let short = || broken("a reply about the export is too short");
    let (kind, rest) = data.split_first_chunk().ok_or_else(short)?;
    match u16::from_be_bytes(*kind) {
        INFO_EXPORT => {
            let (length, flags) = rest.split_first_chunk().ok_or_else(short)?;
            let flags = flags.first_chunk().ok_or_else(short)?;
            export.length = u64::from_be_bytes(*length);
            export.flags = u16::from_be_bytes(*flags);
        }
        INFO_BLOCK_SIZE => {
            let (smallest, rest) = rest.split_first_chunk().ok_or_else(short)?;
            let (_, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
            let longest = rest.first_chunk().ok_or_else(short)?;
            export.smallest = u32::from_be_bytes(*smallest).max(1);
            export.longest = u32::from_be_bytes(*longest);
        }
        // The server may send additional information.
        _ => {}
    }
    Ok(())
}

fn checked(export: Export) -> io::Result<Export> {
    match export.length > i64::MAX as u64 {
        true => Err(broken("the length of the export is out of range")),
        false => Ok(export),
    }
}

fn option(stream: &mut impl Write, number: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(16 + data.len());
    bytes.extend(IHAVEOPT.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes)
}

fn read<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn refused(name: &str, why: &str) -> io::Error {
    let why = match why.trim() {
        "" => String::new(),
        why => format!(": {}", printable::on_one_line(why)),
    };
    io::Error::other(format!("the server refuses the export `{name}`{why}"))
}

fn broken(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the server does not speak NBD as expected: {what}"),
    )
}

#[cfg(test)]
mod tests;
