//! The servers of a mirror on sockets: a thread accepts clients, and each has its own thread, which speaks NBD
//! ([`crate::nbd`]) or vhost-user ([`crate::vhost_user`]).

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

pub use crate::listener::Listener;
use crate::nbd::Export;
use crate::nbd_connection::{self, Memory};
use crate::queue::Handle;
use crate::vhost_user;
use crate::virtio_blk::Disk;

/// How long clients may take to read their last replies when the server ends.
const LAST_REPLIES: Duration = Duration::from_secs(5);
/// How long their threads may take to end after that. The kernel closes the legs of a ring only when its reads end.
const LAST_READS: Duration = Duration::from_secs(5);

/// The protocol of a socket.
#[derive(Debug, Clone, Copy)]
pub enum Service {
    /// NBD.
    Nbd(Export),
    /// vhost-user for block devices; only on a Unix socket.
    VhostUser(Disk),
}

impl Service {
    /// The URI of a socket for clients.
    pub fn uri(&self, listener: &Listener) -> String {
        match listener {
            Listener::Unix(_, path) => {
                // A command that asks for the state may run in another folder.
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                match self {
                    Service::Nbd(_) => format!("nbd+unix:///?socket={}", path.display()),
                    Service::VhostUser(_) => format!("vhost-user-blk://{}", path.display()),
                }
            }
            Listener::Tcp(listener) => match listener.local_addr() {
                Ok(address) => format!("nbd://{address}"),
                Err(_) => "nbd://".to_owned(),
            },
        }
    }

    /// The most connections at a time. vhost-user connections have their own memory.
    fn most_connections(&self) -> usize {
        match self {
            Service::Nbd(_) => 64,
            Service::VhostUser(_) => 8,
        }
    }
}

/// The server, which runs until it is stopped.
#[derive(Debug)]
pub struct Front {
    shared: Arc<FrontState>,
    listener: Arc<Listener>,
}

#[derive(Debug)]
struct FrontState {
    connections: Mutex<Connections>,
    /// A connection has ended.
    ended: Condvar,
    memory: Arc<Memory>,
    handle: Handle,
    service: Service,
    /// The mirror has ended.
    stopping: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Connections {
    open: Vec<(u64, UnixStream)>,
    next: u64,
    /// A client was refused, and that was reported.
    refused: bool,
}

impl Front {
    /// Serves a mirror on a socket, in its own threads.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(listener: Listener, service: Service, handle: Handle) -> io::Result<Front> {
        let shared = Arc::new(FrontState {
            connections: Mutex::default(),
            ended: Condvar::new(),
            memory: Arc::default(),
            handle,
            service,
            stopping: Arc::default(),
        });
        let listener = Arc::new(listener);
        let front = Front {
            shared: Arc::clone(&shared),
            listener: Arc::clone(&listener),
        };
        thread::Builder::new()
            .name("accept".to_owned())
            .spawn(move || accept_all(&listener, &shared))?;
        Ok(front)
    }

    /// Ends all connections after their last replies. Call this after the mirror has ended. Dropping the front removes
    /// the socket.
    pub fn stop(&self) {
        self.stop_within(LAST_REPLIES);
    }

    fn stop_within(&self, last_replies: Duration) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.shut_down(Shutdown::Read, last_replies);
        self.shut_down(Shutdown::Both, LAST_READS);
    }

    /// Shuts down all connections, and waits for their ends.
    fn shut_down(&self, how: Shutdown, limit: Duration) {
        let connections = self.shared.connections();
        for (_, stream) in &connections.open {
            // It may be closed already.
            let _ = stream.shutdown(how);
        }
        let any = |connections: &mut Connections| !connections.open.is_empty();
        let waited = (self.shared.ended).wait_timeout_while(connections, limit, any);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = &*self.listener {
            // The thread that accepts keeps the listener.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl FrontState {
    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept_all(listener: &Listener, shared: &Arc<FrontState>) {
    loop {
        let Ok(stream) = listener.accept() else {
            // Too many open files, or a client that disconnected: others may still connect.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        let mut connections = shared.connections();
        if shared.stopping.load(Ordering::Relaxed) {
            return;
        }
        let Ok(copy) = stream.try_clone() else {
            continue;
        };
        let most = shared.service.most_connections();
        if connections.open.len() >= most {
            if !std::mem::replace(&mut connections.refused, true) {
                shared.handle.refused(most);
            }
            continue;
        }
        let number = connections.next;
        connections.next += 1;
        connections.open.push((number, copy));
        drop(connections);
        let own = Arc::clone(shared);
        let spawned = thread::Builder::new()
            .name("client".to_owned())
            .spawn(move || {
                // A failing client ends only its own connection.
                let _ = match own.service {
                    Service::Nbd(export) => {
                        nbd_connection::serve(stream, &export, &own.handle, &own.memory)
                    }
                    Service::VhostUser(disk) => {
                        let stopping = Arc::clone(&own.stopping);
                        vhost_user::serve(stream, disk, own.handle.clone(), stopping)
                    }
                };
                own.close(number);
            });
        if spawned.is_err() {
            shared.close(number);
        }
    }
}

impl FrontState {
    fn close(&self, number: u64) {
        let mut connections = self.connections();
        if let Some(at) = connections.open.iter().position(|(own, _)| *own == number) {
            let (_, stream) = connections.open.swap_remove(at);
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use iodyno_testing::skip;
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_stop_waits_for_the_threads_of_clients_that_do_not_read_their_replies() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (handle, inbox) = crate::queue::channel(1).unwrap();
        // A mirror that has ended.
        drop(inbox);
        let export = Export {
            length: 1 << 20,
            unit: 512,
            rotational: false,
            trims: false,
        };
        let listener = Listener::unix(&path).unwrap();
        let front = Front::start(listener, Service::Nbd(export), handle.clone()).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        client
            .write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0")
            .unwrap();
        client.read_exact(&mut [0; 28]).unwrap();
        let mut flush = [0; crate::nbd::HEADER];
        flush[..8].copy_from_slice(&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, 3]);
        // Their replies do not fit in the socket.
        if client.write_all(&flush.repeat(100_000)).is_err() {
            return skip("no io_uring here");
        }
        front.stop_within(Duration::ZERO);
        assert!(front.shared.connections().open.is_empty());
        assert_eq!(handle.queues().enter(), Some(1), "its reader has ended");
    }
}
