//! What the parent wants, heard by a thread of its own so that no step of the trial can miss it.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::Sender;
use std::thread;

use crate::protocol::{self, ReadError, ToNode};
use crate::worker::Signal;

/// The strongest word so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Told {
    GoOn,
    Finish,
    Abort,
    /// The parent is gone: clean up and leave.
    Gone,
}

/// Shared between whoever hears and whoever acts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Control(Arc<AtomicU8>);

impl Control {
    pub(crate) fn told(&self) -> Told {
        match self.0.load(Ordering::Relaxed) {
            0 => Told::GoOn,
            1 => Told::Finish,
            2 => Told::Abort,
            _ => Told::Gone,
        }
    }

    pub(crate) fn tell(&self, told: Told) {
        self.0.fetch_max(told as u8, Ordering::Relaxed);
    }
}

/// Listens to the parent until it is gone. Words that cannot be understood count as its end: a
/// parent that speaks nonsense will not say anything of use any more.
pub(crate) fn listen(
    mut input: impl Read + Send + 'static,
    control: Control,
    signals: Sender<Signal>,
) -> std::io::Result<()> {
    let hear = move || {
        loop {
            match protocol::read::<ToNode>(&mut input) {
                Ok(message) => {
                    match message {
                        ToNode::Finish => control.tell(Told::Finish),
                        ToNode::Abort => control.tell(Told::Abort),
                        _ => {}
                    }
                    if signals.send(Signal::Said(message)).is_err() {
                        return;
                    }
                }
                Err(ReadError::Io(error)) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => {
                    control.tell(Told::Gone);
                    let _ = signals.send(Signal::Gone);
                    return;
                }
            }
        }
    };
    let thread = thread::Builder::new().name("control".to_owned());
    thread.spawn(hear).map(drop)
}
