//! Storage that hangs: a file whose reads, or the first close(2) too, end when the test answers them.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use iodyno_fileserver::request::opcode::{FLUSH, GETATTR, INIT, OPEN, READ, RELEASE};
use iodyno_serve::fuse::{Message, Mounted, Session, Transport, Wanted, Worker};
use rustix::mount::MountFlags;

/// Bytes of the file.
const LENGTH: u32 = 1 << 16;

/// No wait for it takes longer on any host.
const END: Duration = Duration::from_secs(60);

struct Hanging {
    hung: Sender<Message>,
    flushes: bool,
}

impl Worker for Hanging {
    fn work(&mut self, batch: &mut Vec<Message>, flush: &dyn Fn()) -> std::io::Result<()> {
        const NOT_CACHED: u32 = 1;
        const UNKNOWN: i32 = 38;
        for mut message in batch.drain(..) {
            let kind = u32::from_ne_bytes(*message.request()[4..].first_chunk().unwrap());
            let mut words = [0u32; 26];
            match kind {
                INIT => {
                    words[..2].copy_from_slice(&[7, 38]);
                    // The longest write, and its pages.
                    (words[5], words[7]) = (1 << 20, 256);
                    message.answer_with(0, &bytes(&words[..16]));
                }
                GETATTR => {
                    // Number, length, mode and links.
                    (words[4], words[6], words[19], words[20]) = (1, LENGTH, 0o100_600, 1);
                    message.answer_with(0, &bytes(&words));
                }
                OPEN => {
                    words[2] = NOT_CACHED;
                    message.answer_with(0, &bytes(&words[..4]));
                }
                // The test may have ended.
                READ => drop(self.hung.send(message)),
                FLUSH if std::mem::take(&mut self.flushes) => drop(self.hung.send(message)),
                RELEASE => message.answer_with(0, &[]),
                _ => message.answer_with(UNKNOWN, &[]),
            }
        }
        flush();
        Ok(())
    }
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// A file that hangs.
pub(crate) struct FileThatHangs {
    session: Session,
    hung: Receiver<Message>,
}

impl FileThatHangs {
    pub(crate) fn new(path: &Path) -> FileThatHangs {
        FileThatHangs::with(path, false)
    }

    /// `flushes`: the first close(2) hangs too.
    pub(crate) fn with(path: &Path, flushes: bool) -> FileThatHangs {
        std::fs::write(path, "").unwrap();
        let mounted = Mounted::on(path, 0o100_600, "", MountFlags::empty()).unwrap();
        let wanted = Wanted {
            transport: Transport::Device,
            passthrough: false,
            batch: 4,
        };
        let (sender, hung) = channel();
        let worker = || {
            Ok(Hanging {
                hung: sender.clone(),
                flushes,
            })
        };
        FileThatHangs {
            session: Session::start(mounted, wanted, worker).unwrap(),
            hung,
        }
    }

    /// The next request that waits for an answer.
    pub(crate) fn hung(&self) -> Message {
        self.hung.recv_timeout(END).unwrap()
    }

    pub(crate) fn end(self) {
        self.session.end().unwrap();
    }
}
