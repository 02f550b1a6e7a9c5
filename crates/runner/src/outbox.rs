//! What the child says, written by a thread of its own: a slow reader never holds up the watch.

use std::io::{BufWriter, Write};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, JoinHandle};

use crate::protocol::{self, FromNode};

/// Messages of a simulation that wait for their reader at most.
const WAITING: usize = 64;

/// Where anything is said. What is said after the outbox was closed has no effect.
#[derive(Debug, Clone)]
pub(crate) enum Mouth {
    /// Never waits.
    Free(Sender<Option<FromNode>>),
    /// Waits while the reader is behind.
    Bounded(SyncSender<Option<FromNode>>),
}

impl Mouth {
    /// `None` is the end.
    fn send(&self, message: Option<FromNode>) {
        let _ = match self {
            Mouth::Free(sender) => sender.send(message),
            Mouth::Bounded(sender) => sender.send(message),
        };
    }

    fn free() -> (Mouth, Receiver<Option<FromNode>>) {
        let (send, receive) = mpsc::channel();
        (Mouth::Free(send), receive)
    }

    /// Within this process, for a simulation: it waits for its reader, as it may be far faster than what is told can
    /// be stored.
    pub(crate) fn bounded() -> (Mouth, Receiver<Option<FromNode>>) {
        let (send, receive) = mpsc::sync_channel(WAITING);
        (Mouth::Bounded(send), receive)
    }

    /// Says something. Without effect once nobody reads.
    pub(crate) fn say(&self, message: FromNode) {
        self.send(Some(message));
    }
}

/// The way out.
#[derive(Debug)]
pub(crate) struct Outbox {
    mouth: Mouth,
    writer: JoinHandle<()>,
}

impl Outbox {
    /// Writes to `to`; `broken` is called once when nobody reads any more.
    pub(crate) fn open(
        to: impl Write + Send + 'static,
        broken: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Outbox> {
        let (mouth, receive) = Mouth::free();
        let writer = thread::Builder::new()
            .name("outbox".to_owned())
            .spawn(move || {
                let mut to = BufWriter::with_capacity(1 << 16, to);
                // `None` is the end: a thread that hangs may keep its mouth open for ever.
                for message in receive.into_iter().map_while(|said| said) {
                    if protocol::write(&mut to, &message).is_err() {
                        // What is left in the buffer has no reader.
                        let _ = to.into_parts();
                        return broken();
                    }
                }
            })?;
        Ok(Outbox { mouth, writer })
    }

    /// Where it is said, for any thread.
    pub(crate) fn mouth(&self) -> Mouth {
        self.mouth.clone()
    }

    /// Waits until everything was read, or nobody reads.
    pub(crate) fn close(self) {
        self.mouth.send(None);
        let _ = self.writer.join();
    }
}
