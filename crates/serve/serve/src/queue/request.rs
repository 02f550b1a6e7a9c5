//! Requests to a mirror, and where their replies go.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use iodyno_mirror::core::{Access, Errno};

/// A request to the mirror.
#[derive(Debug)]
pub struct Request {
    /// What it does.
    pub access: Access,
    /// Start, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub length: u32,
    /// The bytes of a write; empty: zeros. For a read, a buffer for the bytes, of any length and content. The reply
    /// returns it.
    pub payload: Vec<u8>,
    /// Whether zeros may be holes in legs that are files.
    pub holes: bool,
    /// Number for the reply.
    pub cookie: u64,
    /// Where the reply goes. If it is gone, the reply is dropped.
    pub reply: ReplyTo,
    /// The queue that it comes from, whose policy chooses the leg of a read.
    pub queue: u32,
    /// Of a read that its queue sent to a leg itself: the leg that failed, and its error.
    pub failed: Option<(usize, Errno)>,
}

/// Where replies go.
#[derive(Debug, Clone)]
pub struct ReplyTo {
    sender: SyncSender<Reply>,
    wake: Option<Arc<OwnedFd>>,
    direct: Option<Arc<dyn Direct>>,
}

/// Sends replies without another thread.
pub trait Direct: std::fmt::Debug + Send + Sync {
    /// Sends a reply if it can do so without waiting; otherwise returns it.
    fn try_send(&self, reply: Reply) -> Option<Reply>;
}

impl ReplyTo {
    /// To a thread that waits for the receiver and has at most this many requests in flight: with more, the mirror
    /// would wait.
    pub fn new(most: usize) -> (ReplyTo, Receiver<Reply>) {
        ReplyTo::with(None, most)
    }

    /// To a thread that waits for this eventfd and has at most this many requests in flight.
    pub fn waking(wake: Arc<OwnedFd>, most: usize) -> (ReplyTo, Receiver<Reply>) {
        ReplyTo::with(Some(wake), most)
    }

    fn with(wake: Option<Arc<OwnedFd>>, most: usize) -> (ReplyTo, Receiver<Reply>) {
        let (sender, replies) = sync_channel(most);
        let reply = ReplyTo {
            sender,
            wake,
            direct: None,
        };
        (reply, replies)
    }

    /// The same, for which the thread of the mirror tries first to send replies itself.
    pub fn directly(&self, direct: Arc<dyn Direct>) -> ReplyTo {
        ReplyTo {
            direct: Some(direct),
            ..self.clone()
        }
    }

    /// Sends a reply. `false`: nobody waits for it.
    pub fn send(&self, reply: Reply) -> bool {
        let reply = match &self.direct {
            Some(direct) => match direct.try_send(reply) {
                Some(reply) => reply,
                None => return true,
            },
            None => reply,
        };
        let sent = self.sender.send(reply).is_ok();
        if let Some(wake) = self.wake.as_ref().filter(|_| sent) {
            // It fails only if its counter is full, and then the thread wakes up anyway.
            let _ = rustix::io::write(&**wake, &1u64.to_ne_bytes());
        }
        sent
    }
}

/// The answer to a request.
#[derive(Debug)]
pub struct Reply {
    /// The request's number.
    pub cookie: u64,
    /// The error; 0: none.
    pub errno: Errno,
    /// What was read.
    pub data: Vec<u8>,
    /// The request's buffer, if `data` is not in it.
    pub spare: Vec<u8>,
    /// Length of the request, bytes.
    pub length: u32,
}

impl Reply {
    /// The buffer of the request, with any content.
    pub fn into_buffer(self) -> Vec<u8> {
        match self.data.is_empty() {
            true => self.spare,
            false => self.data,
        }
    }
}
