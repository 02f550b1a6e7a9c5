//! The part of the protocol that does not depend on the device: features, memory, queues.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::ring;
use crate::BackendError;
use crate::memory::SharedMemory;

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
pub(super) const PROTOCOL_CONFIG: u64 = 1 << 9;

pub(super) const F_INDIRECT: u64 = 1 << 28;
pub(super) const F_EVENT_IDX: u64 = 1 << 29;
const F_PROTOCOL_FEATURES: u64 = 1 << 30;
const F_VERSION_1: u64 = 1 << 32;
/// The features that do not depend on the device.
const OWN: u64 = F_INDIRECT | F_EVENT_IDX | F_PROTOCOL_FEATURES | F_VERSION_1;

/// Size of the memory shared with a server, bytes: more than any job needs. Unused pages take no memory.
const MEMORY_BYTES: usize = if cfg!(target_pointer_width = "64") {
    16 << 30
} else {
    512 << 20
};

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Link {
    /// The features that were agreed on.
    pub(super) features: u64,
    /// Its URI, for messages.
    pub(super) name: String,
    /// The memory that is shared with the server. Own addresses serve as addresses of the guest.
    pub(super) memory: Arc<SharedMemory>,
    wire: Mutex<Wire>,
}

/// The messages of a connection.
#[derive(Debug)]
pub(super) struct Wire {
    stream: UnixStream,
    acknowledges: bool,
    /// Whether the memory was shared with the server.
    shares: bool,
}

/// Requirements of a kind of device.
pub(super) struct Device {
    /// The scheme of its URI.
    pub(super) scheme: &'static str,
    /// The features that it can use.
    pub(super) features: u64,
    /// Features of the protocol that it needs.
    pub(super) protocol: u64,
    /// What is missing without them.
    pub(super) without: &'static str,
}

impl Link {
    /// Connects to the server that listens on a socket. Each step may take `within`. `read` gets the features and the
    /// number of queues, and reads the rest of the configuration.
    ///
    /// # Errors
    /// The server cannot be reached, or does not speak the protocol as needed.
    pub(super) fn open<T>(
        socket: &Path,
        within: Duration,
        device: &Device,
        read: impl FnOnce(&mut Wire, u64, u64) -> io::Result<T>,
    ) -> Result<(Link, T), BackendError> {
        let name = format!("{}://{}", device.scheme, socket.display());
        let open = || -> io::Result<(Wire, u64, SharedMemory, T)> {
            let stream = crate::socket::connect(socket)?;
            stream.set_read_timeout(Some(within))?;
            stream.set_write_timeout(Some(within))?;
            let mut wire = Wire {
                stream,
                acknowledges: false,
                shares: false,
            };
            let (features, queues) = wire.negotiate(device)?;
            let read = read(&mut wire, features, queues)?;
            Ok((wire, features, SharedMemory::new(MEMORY_BYTES)?, read))
        };
        let (wire, features, memory, read) = open().map_err(|error| not_connected(&name, error))?;
        let link = Link {
            features,
            name,
            memory: Arc::new(memory),
            wire: Mutex::new(wire),
        };
        Ok((link, read))
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A duplicate of its socket, to detect its end.
    pub(super) fn socket(&self) -> io::Result<UnixStream> {
        self.wire().stream.try_clone()
    }

    /// Sets up a queue in the shared memory.
    pub(super) fn queue(
        &self,
        number: u32,
        places: &ring::Places,
        kick: &File,
        call: &File,
    ) -> io::Result<()> {
        let mut wire = self.wire();
        if !wire.shares {
            let (file, start, length) = self.memory.mapping();
            let mut table = 1u32.to_ne_bytes().to_vec();
            table.extend([0; 4]);
            table.extend([start, length, start, 0].map(u64::to_ne_bytes).concat());
            wire.send(SET_MEM_TABLE, &table, &[file.as_raw_fd()])?;
            wire.shares = true;
        }
        wire.queue(number, places, kick, call)
    }
}

fn not_connected(name: &str, source: io::Error) -> BackendError {
    let hint = match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            Some("start the server first")
        }
        io::ErrorKind::PermissionDenied => Some("run iodyno as the user of the server"),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            Some("it may serve one client at a time")
        }
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => Some("look at the messages of the server"),
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
}

impl Wire {
    /// Agrees on features. Returns them, and the number of queues.
    fn negotiate(&mut self, device: &Device) -> io::Result<(u64, u64)> {
        self.send(SET_OWNER, &[], &[])?;
        let offered = self.query(GET_FEATURES)?;
        for (feature, name) in [
            (F_VERSION_1, "VIRTIO 1"),
            (F_PROTOCOL_FEATURES, "the features of the protocol"),
        ] {
            if offered & feature == 0 {
                return Err(broken(&format!("it does not offer {name}")));
            }
        }
        let protocol = self.query(GET_PROTOCOL_FEATURES)?;
        if protocol & device.protocol != device.protocol {
            return Err(broken(device.without));
        }
        let protocol = protocol & (PROTOCOL_MQ | PROTOCOL_REPLY_ACK | device.protocol);
        self.send(SET_PROTOCOL_FEATURES, &protocol.to_ne_bytes(), &[])?;
        self.acknowledges = protocol & PROTOCOL_REPLY_ACK != 0;
        let queues = match protocol & PROTOCOL_MQ {
            0 => 1,
            _ => self.query(GET_QUEUE_NUM)?,
        };
        let features = offered & (OWN | device.features);
        self.send(SET_FEATURES, &features.to_ne_bytes(), &[])?;
        Ok((features, queues))
    }

    /// The first `length` bytes of the configuration of the device.
    pub(super) fn config(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut payload = Vec::with_capacity(12 + length);
        for word in [0, length as u32, 0] {
            payload.extend(word.to_ne_bytes());
        }
        payload.resize(12 + length, 0);
        self.message(GET_CONFIG, VERSION, &payload, &[])?;
        let reply = self.reply(GET_CONFIG)?;
        let config = reply.get(12..12 + length);
        config
            .map(<[u8]>::to_vec)
            .ok_or_else(|| broken("it refuses to report its configuration"))
    }

    fn queue(
        &mut self,
        number: u32,
        rings: &ring::Places,
        kick: &File,
        call: &File,
    ) -> io::Result<()> {
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

    /// Sends a message without a reply of its own. Waits for its acknowledgement, if the server supports these.
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

    fn query(&mut self, request: u32) -> io::Result<u64> {
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

/// Sends bytes with descriptors. The stream's timeout applies.
fn send_with_files(stream: &UnixStream, bytes: &[u8], files: &[RawFd]) -> io::Result<()> {
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let room = size_of_val(files) as u32;
    // SAFETY: these compute lengths.
    let (space, length) = unsafe { (libc::CMSG_SPACE(room), libc::CMSG_LEN(room)) };
    // In words, because a control message header must be aligned.
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

pub(super) fn broken(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the server does not speak vhost-user as needed: {what}"),
    )
}
