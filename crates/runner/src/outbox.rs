//! What the child says, written by a thread of its own: a slow reader never holds up the watch.

use std::io::{BufWriter, Write};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use crate::protocol::{self, FromNode};

/// The way out.
#[derive(Debug)]
pub(crate) struct Outbox {
    send: Option<Sender<FromNode>>,
    writer: Option<JoinHandle<()>>,
}

impl Outbox {
    /// Writes to `to`; `broken` is called once when nobody reads any more.
    pub(crate) fn open(
        to: impl Write + Send + 'static,
        broken: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Outbox> {
        let (send, receive) = mpsc::channel::<FromNode>();
        let writer = thread::Builder::new()
            .name("outbox".to_owned())
            .spawn(move || {
                let mut to = BufWriter::with_capacity(1 << 16, to);
                for message in receive {
                    if protocol::write(&mut to, &message).is_err() {
                        // What is left in the buffer has no reader.
                        let _ = to.into_parts();
                        return broken();
                    }
                }
            })?;
        Ok(Outbox {
            send: Some(send),
            writer: Some(writer),
        })
    }

    /// Says something. Without effect once nobody reads.
    pub(crate) fn say(&self, message: FromNode) {
        if let Some(send) = &self.send {
            let _ = send.send(message);
        }
    }

    /// Waits until everything was read, or nobody reads.
    pub(crate) fn close(mut self) {
        self.send = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}
