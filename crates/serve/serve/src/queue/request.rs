//! Requests to a mirror, and where their replies go.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use iodyno_mirror::core::{Access, Errno};
use iodyno_vhost::signal;

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
    /// Its number, which the reply repeats.
    pub cookie: u64,
    /// The receiver of the reply. If it has ended, the reply is dropped.
    pub reply: ReplyTo,
    /// The queue that sent it. The policy of this queue chooses the leg of a read.
    pub queue: u32,
    /// For a read that the queue itself sent to a leg: the leg that failed, and its error.
    pub failed: Option<(usize, Errno)>,
}

/// A receiver of replies.
#[derive(Debug, Clone)]
pub struct ReplyTo {
    sender: SyncSender<Reply>,
    wake: Option<Arc<OwnedFd>>,
    direct: Option<Arc<dyn Direct>>,
}

/// Sends replies without another thread.
pub trait Direct: std::fmt::Debug + Send + Sync {
    /// Sends a reply if that does not block; otherwise returns the reply.
    fn try_send(&self, reply: Reply) -> Option<Reply>;
}

impl ReplyTo {
    /// To a thread that blocks on the receiver and has at most this many requests in flight. More would block the
    /// mirror.
    pub fn new(most: usize) -> (ReplyTo, Receiver<Reply>) {
        ReplyTo::with(None, most)
    }

    /// To a thread that polls this eventfd and has at most this many requests in flight.
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

    /// The same, but the mirror's thread first tries to send the reply itself.
    pub fn directly(&self, direct: Arc<dyn Direct>) -> ReplyTo {
        ReplyTo {
            direct: Some(direct),
            ..self.clone()
        }
    }

    /// Sends a reply. `false`: the receiver has ended.
    pub fn send(&self, reply: Reply) -> bool {
        let reply = match &self.direct {
            Some(direct) => match direct.try_send(reply) {
                Some(reply) => reply,
                None => return true,
            },
            None => reply,
        };
        let sent = self.sender.send(reply).is_ok();
        signal(self.wake.as_ref().filter(|_| sent));
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
    /// The bytes that were read.
    pub data: Vec<u8>,
    /// The request's buffer, if `data` is not in it.
    pub spare: Vec<u8>,
    /// Length of the request, bytes.
    pub length: u32,
}

impl Reply {
    /// The buffer of the request. Its content is undefined.
    pub fn into_buffer(self) -> Vec<u8> {
        match self.data.is_empty() {
            true => self.spare,
            false => self.data,
        }
    }
}
