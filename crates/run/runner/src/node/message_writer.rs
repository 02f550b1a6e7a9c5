//! Sends the node's messages to the parent from a separate thread, so that a slow reader never delays the trial.

use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, JoinHandle, Thread};

use crate::protocol::{self, Event, Message};

/// Number of messages of a simulation that can be queued.
const QUEUED: usize = 64;

/// Queues messages; each thread can have one. Messages are dropped after the reader has ended.
#[derive(Debug, Clone)]
pub(crate) struct MessageSender {
    queue: Queue,
    sent: Arc<AtomicU64>,
}

#[derive(Debug, Clone)]
enum Queue {
    /// Never blocks.
    Unbounded(Sender<Option<Message>>),
    /// Blocks while [`QUEUED`] messages wait, and wakes the thread that reads them.
    Bounded(SyncSender<Option<Message>>, Thread),
}

impl MessageSender {
    fn unbounded() -> (MessageSender, Receiver<Option<Message>>) {
        let (send, receive) = mpsc::channel();
        (MessageSender::of(Queue::Unbounded(send)), receive)
    }

    /// For a simulation in this process, which can be much faster than its messages can be stored. The calling thread
    /// reads them.
    pub(crate) fn bounded() -> (MessageSender, Receiver<Option<Message>>) {
        let (send, receive) = mpsc::sync_channel(QUEUED);
        let queue = Queue::Bounded(send, thread::current());
        (MessageSender::of(queue), receive)
    }

    fn of(queue: Queue) -> MessageSender {
        MessageSender {
            queue,
            sent: Arc::default(),
        }
    }

    /// Number of messages sent so far, by all threads.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Queues a message.
    pub(crate) fn send(&self, message: Message) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.queue(Some(message));
    }

    /// Queues an event of the trial.
    pub(crate) fn event(&self, event: Event) {
        self.send(Message::Event(event));
    }

    /// `None` ends the writer.
    fn queue(&self, message: Option<Message>) {
        let _ = match &self.queue {
            Queue::Unbounded(sender) => sender.send(message),
            Queue::Bounded(sender, reader) => {
                let sent = sender.send(message);
                reader.unpark();
                sent
            }
        };
    }
}

/// The thread that writes messages to the parent.
#[derive(Debug)]
pub(crate) struct MessageWriter {
    messages: MessageSender,
    thread: JoinHandle<()>,
}

impl MessageWriter {
    /// Writes to `to`; calls `broken` once when the reader has closed its end.
    pub(crate) fn open(
        to: impl Write + Send + 'static,
        broken: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<MessageWriter> {
        let (messages, receive) = MessageSender::unbounded();
        let thread = thread::Builder::new()
            .name("message-writer".to_owned())
            .spawn(move || {
                let mut to = BufWriter::with_capacity(1 << 16, to);
                // The end is a message, because a hanging thread can keep its sender open.
                for message in receive.into_iter().map_while(|message| message) {
                    if protocol::write(&mut to, &message).is_err() {
                        // Discards the buffer: dropping it would write again.
                        let _ = to.into_parts();
                        return broken();
                    }
                }
            })?;
        Ok(MessageWriter { messages, thread })
    }

    /// A sender for another thread.
    pub(crate) fn sender(&self) -> MessageSender {
        self.messages.clone()
    }

    /// Waits until all messages are written, or the reader has closed its end.
    pub(crate) fn close(self) {
        self.messages.queue(None);
        let _ = self.thread.join();
    }
}
