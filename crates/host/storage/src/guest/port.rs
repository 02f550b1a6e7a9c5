//! The serial port through which a guest is reached, from both ends.
//!
//! qemu connects a unix socket of the host with a virtio-serial port of the guest. A connection to the socket is a
//! session with one node: the init of the guest starts it when it is called, and reports its exit. Bytes of an earlier
//! session may still be under way when a session begins, so both ends search for marks. A mark begins with four bytes
//! 0xff, which occur neither in the JSON of the protocol nor in a length of it: a node that reads a mark ends.
//!
//! The host sends `CALL` with a number, repeatedly, until the guest has answered with the same, and then `START`, which
//! the guest repeats as well. From there on both streams belong to the node, until the guest sends `EXIT`.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// The name of the port in the guest.
pub const NAME: &str = "iodyno.node";
/// The first bytes of a mark. They also end the input of a node.
pub const BREAK: [u8; 4] = [0xff; 4];
/// A mark: its kind and a value.
const LENGTH: usize = 32;
const CALL: [u8; 16] = *b"\xff\xff\xff\xffiodyno call\n";
const START: [u8; 16] = *b"\xff\xff\xff\xffiodyno run \n";
const EXIT: [u8; 16] = *b"\xff\xff\xff\xffiodyno exit\n";
/// The interval at which a guest is called until it answers.
const AGAIN: Duration = Duration::from_secs(1);
/// The interval at which a port without a host, and a request to stop, are checked.
const PAUSE: Duration = Duration::from_millis(10);
/// The longest interval at which an idle guest checks its port: each time costs an emulated one CPU time of the host.
const IDLE: Duration = Duration::from_millis(100);
/// The longest time from the creation of a socket until qemu listens on it.
const LISTENING: Duration = Duration::from_secs(5);

/// From the end of a node's input to the end of its connection.
const LEAVING: Duration = Duration::from_secs(10);

/// How a node in a guest ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeExit {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A mark in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Call(u64),
    Start(u64),
    Exit(NodeExit),
}

impl Mark {
    fn bytes(self) -> [u8; LENGTH] {
        let (kind, value) = match self {
            Mark::Call(number) => (CALL, number),
            Mark::Start(number) => (START, number),
            Mark::Exit(NodeExit::Code(code)) => (EXIT, u64::from(code as u32)),
            Mark::Exit(NodeExit::Signal(signal)) => (EXIT, 1 << 32 | u64::from(signal as u32)),
        };
        let mut bytes = [0; LENGTH];
        bytes[..16].copy_from_slice(&kind);
        bytes[16..24].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    fn of(bytes: &[u8; LENGTH]) -> Option<Mark> {
        let (kind, value) = bytes.split_first_chunk::<16>()?;
        let number = u64::from_le_bytes(*value.first_chunk()?);
        match *kind {
            CALL => Some(Mark::Call(number)),
            START => Some(Mark::Start(number)),
            EXIT if number >> 32 == 0 => Some(Mark::Exit(NodeExit::Code(number as i32))),
            EXIT => Some(Mark::Exit(NodeExit::Signal(number as i32))),
            _ => None,
        }
    }
}

/// Searches a stream for marks, byte by byte.
#[derive(Debug)]
struct Scanner {
    last: [u8; LENGTH],
}

impl Scanner {
    fn new() -> Scanner {
        Scanner { last: [0; LENGTH] }
    }

    /// The mark that ends with this byte.
    fn push(&mut self, byte: u8) -> Option<Mark> {
        self.last.rotate_left(1);
        self.last[LENGTH - 1] = byte;
        Mark::of(&self.last)
    }
}

/// Why a guest was not reached.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Its qemu does not run.
    #[error("the virtual machine does not run: {0}")]
    Gone(io::Error),
    /// It did not answer in time.
    #[error("the guest did not answer within {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The caller's `stop` returned true.
    #[error("stopped while the guest was called")]
    Stopped,
}

/// Waits until the guest behind this socket answers.
///
/// # Errors
/// The guest was not reached within this time, or `stop` returned true.
pub fn await_guest(
    socket: &Path,
    limit: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<(), PortError> {
    exchange(socket, limit, stop, false).map(drop)
}

/// Starts a node in the guest behind this socket. The returned connection is its input and output.
///
/// # Errors
/// The guest was not reached within this time, or `stop` returned true.
pub fn call(
    socket: &Path,
    limit: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<UnixStream, PortError> {
    exchange(socket, limit, stop, true)
}

/// Calls the guest until it answers; then, with `start`, starts a node.
fn exchange(
    socket: &Path,
    limit: Duration,
    stop: &dyn Fn() -> bool,
    start: bool,
) -> Result<UnixStream, PortError> {
    let begun = Instant::now();
    // A guest that has booted listens: if it does not, it has ended.
    let patience = match start {
        true => Duration::ZERO,
        false => LISTENING,
    };
    let mut stream = connect(socket, (begun, limit), patience, stop)?;
    let gone = PortError::Gone;
    stream.set_read_timeout(Some(PAUSE * 5)).map_err(gone)?;
    let patience = limit.max(AGAIN);
    stream.set_write_timeout(Some(patience)).map_err(gone)?;
    let number = number();
    let mut scanner = Scanner::new();
    let mut called: Option<Instant> = None;
    let mut wanted = Mark::Call(number);
    loop {
        if stop() {
            return Err(PortError::Stopped);
        }
        if begun.elapsed() >= limit {
            return Err(PortError::Silent(limit));
        }
        // Before the guest has opened its port, qemu leaves what was sent in the socket.
        if wanted == Mark::Call(number) && called.is_none_or(|at| at.elapsed() >= AGAIN) {
            stream.write_all(&wanted.bytes()).map_err(gone)?;
            called = Some(Instant::now());
        }
        match read_byte(&mut stream) {
            Ok(Some(byte)) if scanner.push(byte) == Some(wanted) => {
                if wanted == Mark::Start(number) || !start {
                    stream.set_read_timeout(None).map_err(gone)?;
                    return Ok(stream);
                }
                wanted = Mark::Start(number);
                stream.write_all(&wanted.bytes()).map_err(gone)?;
            }
            Ok(Some(_)) => {}
            Ok(None) => return Err(gone(ErrorKind::ConnectionReset.into())),
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(gone(error)),
        }
    }
}

/// Starts a node in the guest behind this socket, and passes `input` on to it and its messages to `output`, until it
/// exits. After the end of `input`, the node has [`LEAVING`] to exit.
///
/// # Errors
/// The guest was not reached within this time, it has ended, or `output` was closed.
pub fn relay(
    socket: &Path,
    limit: Duration,
    mut input: impl Read + Send + 'static,
    mut output: impl Write,
) -> Result<NodeExit, PortError> {
    let gone = PortError::Gone;
    let stream = call(socket, limit, &|| false)?;
    let mut to_node = stream.try_clone().map_err(gone)?;
    let (left, leaving) = mpsc::channel::<()>();
    let pass_on = move || {
        // A write that fails is followed by the end of the output.
        let _ = io::copy(&mut input, &mut to_node);
        let _ = to_node.write_all(&BREAK);
        if leaving.recv_timeout(LEAVING) == Err(RecvTimeoutError::Timeout) {
            let _ = to_node.shutdown(Shutdown::Both);
        }
    };
    let thread = thread::Builder::new().name("relay".to_owned());
    thread.spawn(pass_on).map_err(gone)?;
    let mut receiver = Receiver::new(stream);
    let exit = loop {
        match receiver.receive() {
            Received::Message(message) => {
                let sent = output.write_all(&message).and_then(|()| output.flush());
                sent.map_err(gone)?;
            }
            Received::Exit(exit) => break exit,
            Received::End => return Err(gone(ErrorKind::ConnectionReset.into())),
        }
    };
    drop(left);
    Ok(exit)
}

/// qemu makes the socket when it starts, and serves one connection at a time. `patience`: how long the socket may not
/// exist or not listen, at most up to the limit.
fn connect(
    socket: &Path,
    (begun, limit): (Instant, Duration),
    patience: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<UnixStream, PortError> {
    let mut refused: Option<Instant> = None;
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(stream),
            Err(error) if is_early(&error, patience, &mut refused) => {
                if stop() {
                    return Err(PortError::Stopped);
                }
                if begun.elapsed() >= limit {
                    return Err(PortError::Silent(limit));
                }
                thread::sleep(PAUSE);
            }
            Err(error) => return Err(PortError::Gone(error)),
        }
    }
}

/// Whether a socket may only not exist or not listen yet: a busy host can stop qemu between the two. `refused`: since
/// when it does not listen.
fn is_early(error: &io::Error, patience: Duration, refused: &mut Option<Instant>) -> bool {
    match error.kind() {
        ErrorKind::NotFound => patience > Duration::ZERO,
        ErrorKind::ConnectionRefused => {
            refused.get_or_insert_with(Instant::now).elapsed() < patience
        }
        _ => false,
    }
}

/// Differs from that of every other session of the guest.
fn number() -> u64 {
    static SESSIONS: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos() as u64);
    now ^ u64::from(std::process::id()) << 40 ^ SESSIONS.fetch_add(1, Ordering::Relaxed)
}

/// Whether a read ended only because nothing has arrived yet.
fn is_pause(error: &io::Error) -> bool {
    let pauses = [
        ErrorKind::WouldBlock,
        ErrorKind::TimedOut,
        ErrorKind::Interrupted,
    ];
    pauses.contains(&error.kind())
}

fn read_byte(from: &mut impl Read) -> io::Result<Option<u8>> {
    let mut byte = [0];
    Ok((from.read(&mut byte)? == 1).then_some(byte[0]))
}

/// What the host receives from a node in a guest.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A message of the protocol, with its length.
    Message(Vec<u8>),
    /// The node has exited. A message that it had not written completely is dropped.
    Exit(NodeExit),
    /// The guest has ended.
    End,
}

/// Separates the output of a node into messages and the report of its exit.
#[derive(Debug)]
pub struct Receiver<R> {
    from: R,
    buffer: Vec<u8>,
}

impl<R: Read> Receiver<R> {
    /// Reads the connection of a session.
    pub fn new(from: R) -> Receiver<R> {
        Receiver {
            from,
            buffer: Vec::new(),
        }
    }

    /// Waits for the next message, the exit or the end.
    pub fn receive(&mut self) -> Received {
        // A mark can only be at the start of what is new, or after a message that was cut off.
        let mut searched = 0;
        loop {
            if let Some(length) = self.complete() {
                let rest = self.buffer.split_off(length);
                return Received::Message(std::mem::replace(&mut self.buffer, rest));
            }
            let mut places = self.buffer[searched..].windows(LENGTH);
            let mark = places.find_map(|window| Mark::of(window.try_into().ok()?));
            if let Some(Mark::Exit(exit)) = mark {
                return Received::Exit(exit);
            }
            searched = self.buffer.len().saturating_sub(LENGTH - 1);
            let mut more = [0; 1 << 16];
            match self.from.read(&mut more) {
                Ok(0) => return Received::End,
                Ok(count) => self.buffer.extend_from_slice(&more[..count]),
                Err(error) if is_pause(&error) => {}
                Err(_) => return Received::End,
            }
        }
    }

    /// The length of the message at the start of the buffer, if all of it has arrived.
    fn complete(&self) -> Option<usize> {
        let length = self.buffer.first_chunk::<4>()?;
        if *length == BREAK {
            return None;
        }
        let whole = 4 + u32::from_le_bytes(*length) as usize;
        // A mark within it: it was cut off.
        let body = self.buffer.get(4..whole)?;
        (!body.contains(&BREAK[0])).then_some(whole)
    }
}

/// In the guest: waits until the host calls, and answers. The node is to be started then.
pub(crate) fn answer(port: &mut File) -> io::Result<()> {
    let mut scanner = Scanner::new();
    let mut called = None;
    let mut pause = PAUSE;
    loop {
        let Some(byte) = read_byte(port)? else {
            // No host is connected.
            thread::sleep(pause);
            pause = IDLE.min(pause * 2);
            continue;
        };
        match scanner.push(byte) {
            Some(Mark::Call(number)) => {
                called = Some(number);
                port.write_all(&Mark::Call(number).bytes())?;
            }
            Some(Mark::Start(number)) if called == Some(number) => {
                return port.write_all(&Mark::Start(number).bytes());
            }
            _ => {}
        }
    }
}

/// In the guest: reports that the node has exited.
pub(crate) fn report_exit(port: &mut File, exit: NodeExit) -> io::Result<()> {
    port.write_all(&Mark::Exit(exit).bytes())
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn message(text: &str) -> Vec<u8> {
        let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }

    /// A guest in this process: answers each connection and then does `work` with it.
    fn guest(
        socket: &Path,
        sessions: usize,
        work: impl Fn(usize, &mut File) + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let listener = UnixListener::bind(socket).unwrap();
        thread::spawn(move || {
            for session in 0..sessions {
                let (stream, _) = listener.accept().unwrap();
                let mut port = File::from(OwnedFd::from(stream));
                answer(&mut port).unwrap();
                work(session, &mut port);
            }
        })
    }

    #[test]
    fn a_socket_that_does_not_listen_yet_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node");
        // The file stays, and connections are refused.
        drop(UnixListener::bind(&path).unwrap());
        let listener = std::cell::RefCell::new(None);
        let listens = || {
            let _ = std::fs::remove_file(&path);
            *listener.borrow_mut() = Some(UnixListener::bind(&path).unwrap());
            false
        };
        let limit = Duration::from_secs(600);
        connect(&path, (Instant::now(), limit), limit, &listens).unwrap();
        assert!(listener.borrow().is_some());
    }

    #[test]
    fn a_guest_that_has_ended_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node");
        // Nothing asks whether to stop, because nothing is waited for.
        let never = || panic!("it waits");
        let limit = Duration::from_secs(600);
        let missing = call(&path, limit, &never).unwrap_err();
        drop(UnixListener::bind(&path).unwrap());
        let refused = call(&path, limit, &never).unwrap_err();
        for error in [missing, refused] {
            assert!(matches!(error, PortError::Gone(_)), "{error}");
        }
    }

    #[test]
    fn a_session_receives_the_messages_and_the_exit_of_its_node() {
        let temp = tempfile::tempdir().unwrap();
        let socket = temp.path().join("node");
        let guest = guest(&socket, 1, |_, port| {
            let mut echo = [0; 7];
            port.read_exact(&mut echo).unwrap();
            assert_eq!(&echo, b"command");
            port.write_all(&message("{\"say\":1}")).unwrap();
            port.write_all(&message("{\"say\":2}")[..7]).unwrap();
            report_exit(port, NodeExit::Signal(9)).unwrap();
        });
        let mut stream = call(&socket, Duration::from_secs(60), &|| false).unwrap();
        stream.write_all(b"command").unwrap();
        let mut receiver = Receiver::new(stream);
        assert_eq!(
            receiver.receive(),
            Received::Message(message("{\"say\":1}"))
        );
        assert_eq!(receiver.receive(), Received::Exit(NodeExit::Signal(9)));
        guest.join().unwrap();
    }

    #[test]
    fn a_relay_passes_input_and_messages_on_and_ends_the_input_of_the_node() {
        let temp = tempfile::tempdir().unwrap();
        let socket = temp.path().join("node");
        let guest = guest(&socket, 1, |_, port| {
            let mut input = [0; 11];
            port.read_exact(&mut input).unwrap();
            assert_eq!(&input, b"command\xff\xff\xff\xff");
            port.write_all(&message("{}")).unwrap();
            report_exit(port, NodeExit::Code(3)).unwrap();
        });
        let mut output = Vec::new();
        let limit = Duration::from_secs(60);
        let exit = relay(&socket, limit, &b"command"[..], &mut output).unwrap();
        assert_eq!((exit, output), (NodeExit::Code(3), message("{}")));
        guest.join().unwrap();
    }

    #[test]
    fn a_guest_that_was_awaited_starts_no_node() {
        let temp = tempfile::tempdir().unwrap();
        let socket = temp.path().join("node");
        let listener = UnixListener::bind(&socket).unwrap();
        let guest = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut port = File::from(OwnedFd::from(stream.try_clone().unwrap()));
            // As `answer` does with a call.
            let mut call = [0; LENGTH];
            port.read_exact(&mut call).unwrap();
            port.write_all(&call).unwrap();
            let mut rest = Vec::new();
            port.read_to_end(&mut rest).unwrap();
            assert_eq!(rest, b"");
        });
        await_guest(&socket, Duration::from_secs(60), &|| false).unwrap();
        guest.join().unwrap();
    }

    #[test]
    fn what_an_earlier_session_left_behind_is_skipped() {
        let temp = tempfile::tempdir().unwrap();
        let socket = temp.path().join("node");
        let listener = UnixListener::bind(&socket).unwrap();
        let guest = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream
                .write_all(&message("{\"an\":\"old message\"}"))
                .unwrap();
            stream.write_all(&Mark::Call(7).bytes()).unwrap();
            report_exit(
                &mut File::from(OwnedFd::from(stream.try_clone().unwrap())),
                NodeExit::Code(0),
            )
            .unwrap();
            let mut port = File::from(OwnedFd::from(stream));
            answer(&mut port).unwrap();
            port.write_all(&message("new")).unwrap();
        });
        let stream = call(&socket, Duration::from_secs(60), &|| false).unwrap();
        let mut receiver = Receiver::new(stream);
        assert_eq!(receiver.receive(), Received::Message(message("new")));
        assert_eq!(receiver.receive(), Received::End);
        guest.join().unwrap();
    }

    #[test]
    fn a_guest_answers_only_the_start_of_its_last_call() {
        let (host, guest) = UnixStream::pair().unwrap();
        let mut port = File::from(OwnedFd::from(guest));
        let mut host = File::from(OwnedFd::from(host));
        let marks = [
            Mark::Start(3),
            Mark::Call(1),
            Mark::Start(2),
            Mark::Call(2),
            Mark::Call(2),
            Mark::Start(2),
        ];
        host.write_all(b"garbage \xff\xff\xff\xff").unwrap();
        for mark in marks {
            host.write_all(&mark.bytes()).unwrap();
        }
        host.write_all(b"input").unwrap();
        answer(&mut port).unwrap();
        let mut rest = [0; 5];
        port.read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"input");
        let mut answers = [0; 4 * LENGTH];
        host.read_exact(&mut answers).unwrap();
        let found: Vec<Mark> = answers
            .chunks(LENGTH)
            .map(|chunk| Mark::of(chunk.try_into().unwrap()).unwrap())
            .collect();
        assert_eq!(
            found,
            [Mark::Call(1), Mark::Call(2), Mark::Call(2), Mark::Start(2)]
        );
    }

    #[test]
    fn a_missing_machine_and_a_stop_are_reported() {
        let temp = tempfile::tempdir().unwrap();
        let socket = temp.path().join("node");
        let error = call(&socket, Duration::ZERO, &|| false).unwrap_err();
        assert!(matches!(error, PortError::Gone(_)), "{error}");
        let error = await_guest(&socket, Duration::from_secs(60), &|| true).unwrap_err();
        assert!(matches!(error, PortError::Stopped), "{error}");
        let _silent = UnixListener::bind(&socket).unwrap();
        let error = call(&socket, Duration::ZERO, &|| false).unwrap_err();
        assert!(matches!(error, PortError::Silent(_)), "{error}");
    }

    #[test]
    fn exit_codes_and_signals_are_kept() {
        for exit in [NodeExit::Code(0), NodeExit::Code(255), NodeExit::Signal(11)] {
            let mark = Mark::Exit(exit);
            assert_eq!(Mark::of(&mark.bytes()), Some(mark));
        }
    }
}
