//! What the child says, written by a thread of its own: a slow reader never holds up the watch.

use std::io::{BufWriter, Write};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use crate::protocol::{self, FromNode};

/// Where anything is said. What is said after the outbox was closed has no effect.
#[derive(Debug, Clone)]
pub(crate) struct Mouth(Sender<Option<FromNode>>);

impl Mouth {
    /// What is said arrives at the receiver as it is.
    pub(crate) fn within() -> (Mouth, Receiver<Option<FromNode>>) {
        let (send, receive) = mpsc::channel();
        (Mouth(send), receive)
    }

    /// Says something. Without effect once nobody reads.
    pub(crate) fn say(&self, message: FromNode) {
        let _ = self.0.send(Some(message));
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
        let (mouth, receive) = Mouth::within();
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
        let _ = self.mouth.0.send(None);
        let _ = self.writer.join();
    }
}
