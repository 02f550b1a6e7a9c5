//! The client's side of vhost-user for block devices: connects to any server, and is the backend of the engine `vhost-user-blk`.
//!
//! Source: "Vhost-user Protocol" of QEMU's documentation, and VIRTIO 1.2. One connection has a queue for each clone, because servers
//! often serve one client at a time. What a server sends is never trusted: replies have the length that was asked for, and a ring's
//! entries are checked.

mod backend;
mod ring;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::BackendError;
pub use backend::VhostUserBackend;

const GET_FEATURES: u32 = 1;
const SET_FEATURES: u32 = 2;
const SET_OWNER: u32 = 3;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const SET_VRING_BASE: u32 = 10;
const SET_VRING_KICK: u32 = 12;
const SET_VRING_CALL: u32 = 13;
const GET_PROTOCOL_FEATURES: u32 = 15;
const SET_PROTOCOL_FEATURES: u32 = 16;
const GET_QUEUE_NUM: u32 = 17;
const SET_VRING_ENABLE: u32 = 18;
const GET_CONFIG: u32 = 24;

/// Version 1 of the protocol.
const VERSION: u32 = 1;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

const PROTOCOL_MQ: u64 = 1 << 0;
const PROTOCOL_REPLY_ACK: u64 = 1 << 3;
const PROTOCOL_CONFIG: u64 = 1 << 9;

const F_SIZE_MAX: u64 = 1 << 1;
const F_SEG_MAX: u64 = 1 << 2;
const F_RO: u64 = 1 << 5;
const F_BLK_SIZE: u64 = 1 << 6;
const F_FLUSH: u64 = 1 << 9;
const F_MQ: u64 = 1 << 12;
const F_DISCARD: u64 = 1 << 13;
const F_INDIRECT: u64 = 1 << 28;
const F_EVENT_IDX: u64 = 1 << 29;
const F_PROTOCOL_FEATURES: u64 = 1 << 30;
const F_VERSION_1: u64 = 1 << 32;

/// Bytes of the configuration up to the last field that is used here.
const CONFIG_BYTES: usize = 60;
/// Regions of a memory table in one message.
const MOST_REGIONS: usize = 8;

/// What a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// Length, bytes.
    pub length: u64,
    /// Whether it cannot be written.
    pub read_only: bool,
    /// Whether ranges can be discarded.
    pub discards: bool,
    /// Whether flushes are offered.
    pub flushes: bool,
    /// Requests are multiples of it, bytes.
    pub smallest: u32,
    /// The longest request, bytes.
    pub longest: u64,
    /// The longest range that can be discarded at once, bytes.
    pub longest_discard: u64,
    /// Queues.
    pub queues: u32,
    /// The longest segment of a request, bytes.
    segment: u32,
}

/// A connection to a server, shared by the queues of a trial.
#[derive(Debug)]
pub struct Connection {
    /// What is served.
    pub disk: Disk,
    /// The features that were agreed on.
    features: u64,
    /// Its URI, for messages.
    name: String,
    wire: Mutex<Wire>,
}

#[derive(Debug)]
struct Wire {
    stream: UnixStream,
    acknowledges: bool,
    /// The regions of memory that are shared, and their files.
    regions: Vec<([u64; 4], OwnedFd)>,
    /// Queues in use.
    queues: u32,
}

impl Connection {
    /// Connects to the server that listens on a socket. Each step may take `within`.
    ///
    /// # Errors
    /// The server cannot be reached, or does not speak the protocol as needed.
    pub fn new(socket: &Path, within: Duration) -> Result<Connection, BackendError> {
        let name = format!("vhost-user-blk://{}", socket.display());
        let failed = |source: io::Error| {
            let hint = match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    Some("start the server first")
                }
                io::ErrorKind::PermissionDenied => Some("run iodyno as the user of the server"),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    Some("it may serve one client at a time")
                }
                _ => None,
            };
            let source = match source.kind() {
                io::ErrorKind::WouldBlock => {
                    io::Error::new(io::ErrorKind::TimedOut, "the server does not answer")
                }
                io::ErrorKind::UnexpectedEof => {
                    io::Error::new(source.kind(), "the server closed the connection")
                }
                _ => source,
            };
            BackendError {
                what: format!("connect to `{name}`"),
                source,
                hint,
            }
        };
        let open = || -> io::Result<(Wire, Disk, u64)> {
            let stream = UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(within))?;
            stream.set_write_timeout(Some(within))?;
            let mut wire = Wire {
                stream,
                acknowledges: false,
                regions: Vec::new(),
                queues: 0,
            };
            let (disk, features) = wire.negotiate()?;
            Ok((wire, disk, features))
        };
        let (wire, disk, features) = open().map_err(failed)?;
        Ok(Connection {
            disk,
            features,
            name,
            wire: Mutex::new(wire),
        })
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The region of a queue, as the server is told of it: own addresses serve as addresses of the guest.
struct Shares<'a> {
    file: BorrowedFd<'a>,
    start: u64,
    length: u64,
}

impl Wire {
    fn negotiate(&mut self) -> io::Result<(Disk, u64)> {
        self.send(SET_OWNER, &[], &[])?;
        let offered = self.ask(GET_FEATURES)?;
        for (feature, name) in [
            (F_VERSION_1, "VIRTIO 1"),
            (F_PROTOCOL_FEATURES, "the features of the protocol"),
        ] {
            if offered & feature == 0 {
                return Err(broken(&format!("it does not offer {name}")));
            }
        }
        let protocol = self.ask(GET_PROTOCOL_FEATURES)?;
        if protocol & PROTOCOL_CONFIG == 0 {
            return Err(broken("it does not tell the length of its disk (CONFIG)"));
        }
        let protocol = protocol & (PROTOCOL_MQ | PROTOCOL_REPLY_ACK | PROTOCOL_CONFIG);
        self.send(SET_PROTOCOL_FEATURES, &protocol.to_ne_bytes(), &[])?;
        self.acknowledges = protocol & PROTOCOL_REPLY_ACK != 0;
        let queues = match protocol & PROTOCOL_MQ {
            0 => 1,
            _ => self.ask(GET_QUEUE_NUM)?,
        };
        let own = F_SIZE_MAX
            | F_SEG_MAX
            | F_RO
            | F_BLK_SIZE
            | F_FLUSH
            | F_MQ
            | F_DISCARD
            | F_INDIRECT
            | F_EVENT_IDX
            | F_PROTOCOL_FEATURES
            | F_VERSION_1;
        let features = offered & own;
        self.send(SET_FEATURES, &features.to_ne_bytes(), &[])?;
        let config = self.config()?;
        Ok((disk(&config, features, queues)?, features))
    }

    fn config(&mut self) -> io::Result<[u8; CONFIG_BYTES]> {
        let mut payload = Vec::with_capacity(12 + CONFIG_BYTES);
        for word in [0, CONFIG_BYTES as u32, 0] {
            payload.extend(word.to_ne_bytes());
        }
        payload.extend([0; CONFIG_BYTES]);
        self.message(GET_CONFIG, VERSION, &payload, &[])?;
        let reply = self.reply(GET_CONFIG)?;
        let config = reply.get(12..).and_then(|bytes| bytes.first_chunk());
        config
            .copied()
            .ok_or_else(|| broken("it refuses to tell its configuration"))
    }

    /// Sets up the next queue: memory, rings and events.
    fn queue(
        &mut self,
        shares: &Shares<'_>,
        rings: &ring::Places,
        kick: &File,
        call: &File,
    ) -> io::Result<()> {
        let number = self.queues;
        if self.regions.len() == MOST_REGIONS {
            return Err(io::Error::other("at most 8 clones can use one server"));
        }
        let region = [shares.start, shares.length, shares.start, 0];
        self.regions
            .push((region, shares.file.try_clone_to_owned()?));
        self.queues += 1;
        let mut table = (self.regions.len() as u32).to_ne_bytes().to_vec();
        table.extend([0; 4]);
        let mut files = Vec::new();
        for (region, file) in &self.regions {
            table.extend(region.iter().flat_map(|word| word.to_ne_bytes()));
            files.push(file.as_raw_fd());
        }
        self.send(SET_MEM_TABLE, &table, &files)?;
        let state = |value: u32| [number.to_ne_bytes(), value.to_ne_bytes()].concat();
        self.send(SET_VRING_NUM, &state(rings.size.into()), &[])?;
        self.send(SET_VRING_BASE, &state(0), &[])?;
        let mut addresses = state(0);
        for address in [rings.table, rings.used, rings.available, 0] {
            addresses.extend(address.to_ne_bytes());
        }
        self.send(SET_VRING_ADDR, &addresses, &[])?;
        let index = u64::from(number).to_ne_bytes();
        self.send(SET_VRING_CALL, &index, &[call.as_raw_fd()])?;
        self.send(SET_VRING_KICK, &index, &[kick.as_raw_fd()])?;
        self.send(SET_VRING_ENABLE, &state(1), &[])
    }

    /// Sends a message that has no reply of its own. Waits for its acknowledgement, if the server knows these.
    fn send(&mut self, request: u32, payload: &[u8], files: &[RawFd]) -> io::Result<()> {
        let flags = match self.acknowledges {
            true => VERSION | NEED_REPLY,
            false => VERSION,
        };
        self.message(request, flags, payload, files)?;
        if self.acknowledges {
            let refused = self.number(request)?;
            if refused != 0 {
                return Err(broken(&format!("it refuses message {request}")));
            }
        }
        Ok(())
    }

    fn ask(&mut self, request: u32) -> io::Result<u64> {
        self.message(request, VERSION, &[], &[])?;
        self.number(request)
    }

    fn number(&mut self, request: u32) -> io::Result<u64> {
        let reply = self.reply(request)?;
        let bytes = reply.try_into();
        bytes
            .map(u64::from_ne_bytes)
            .map_err(|_| broken(&format!("the reply to message {request} is not a number")))
    }

    fn message(
        &mut self,
        request: u32,
        flags: u32,
        payload: &[u8],
        files: &[RawFd],
    ) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(12 + payload.len());
        for word in [request, flags, payload.len() as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(payload);
        send_with_files(&self.stream, &bytes, files)
    }

    fn reply(&mut self, request: u32) -> io::Result<Vec<u8>> {
        let mut header = [0; 12];
        self.stream.read_exact(&mut header)?;
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|n| header[at + n]));
        let (flags, length) = (word(4), word(8));
        if word(0) != request || flags & REPLY == 0 || length > 4096 {
            return Err(broken(&format!("it does not reply to message {request}")));
        }
        let mut payload = vec![0; length as usize];
        self.stream.read_exact(&mut payload)?;
        Ok(payload)
    }
}

fn disk(config: &[u8; CONFIG_BYTES], features: u64, queues: u64) -> io::Result<Disk> {
    let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|n| config[at + n]));
    let has = |feature: u64| features & feature != 0;
    let sectors = u64::from(u32_at(4)) << 32 | u64::from(u32_at(0));
    let length = (sectors.checked_mul(512)).filter(|length| *length <= i64::MAX as u64);
    // qemu offers the feature, and says 0 where it means that there is no limit.
    let segment = (Some(u32_at(8)).filter(|size| has(F_SIZE_MAX) && *size > 0)).unwrap_or(1 << 30);
    let segments = if has(F_SEG_MAX) { u32_at(12) } else { 1 };
    // Shorter or longer ones are not useful; all of them fit in a table.
    let (segment, segments) = (segment.clamp(512, 1 << 30), segments.clamp(1, 126));
    let discard = if has(F_DISCARD) { u32_at(36) } else { 0 };
    Ok(Disk {
        length: length.ok_or_else(|| broken("the length of its disk is out of range"))?,
        read_only: has(F_RO),
        discards: has(F_DISCARD),
        flushes: has(F_FLUSH),
        smallest: if has(F_BLK_SIZE) {
            u32_at(20).max(512)
        } else {
            512
        },
        longest: u64::from(segment) * u64::from(segments),
        longest_discard: u64::from(discard) * 512,
        queues: queues.min(u64::from(u32::MAX)) as u32,
        segment,
    })
}

/// Sends bytes with descriptors. The stream's timeout applies.
fn send_with_files(stream: &UnixStream, bytes: &[u8], files: &[RawFd]) -> io::Result<()> {
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let room = size_of_val(files) as u32;
    // SAFETY: these compute lengths.
    let (space, length) = unsafe { (libc::CMSG_SPACE(room), libc::CMSG_LEN(room)) };
    // In words, because a header of a control message has to be aligned.
    let mut control = vec![0u64; (space as usize).div_ceil(8)];
    // SAFETY: zeros are a valid message without any parts.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    if !files.is_empty() {
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = space as _;
        // SAFETY: the control buffer has room for a header and for the descriptors.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = length as _;
            let place = libc::CMSG_DATA(header).cast::<RawFd>();
            for (at, file) in files.iter().enumerate() {
                place.add(at).write_unaligned(*file);
            }
        }
    }
    // SAFETY: the message and what it points to outlive the call.
    let sent = unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    match sent {
        sent if sent < 0 => Err(io::Error::last_os_error()),
        // Messages are shorter than the buffer of a socket.
        sent if sent as usize != bytes.len() => Err(io::ErrorKind::WriteZero.into()),
        _ => Ok(()),
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the server does not speak vhost-user as needed: {what}"),
    )
}
