//! Sessions of FUSE on real mounts, with a server that answers only what a mount needs.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use iodyno_serve::fuse::protocol::{REPLY_HEADER, reply_header};
use iodyno_serve::fuse::{
    Message, Mounted, Session, SpawnReader, Transport, Used, Wanted, Worker, unmount_stale,
};
use iodyno_sys::{Transfer, Transferred, Transfers};
use iodyno_testing::{can_mount_fuse, skip};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{MountFlags, UnmountFlags, unmount};

const GETATTR: u32 = 3;
const STATFS: u32 = 17;
const INIT: u32 = 26;
const STATX: u32 = 52;
/// Length of a STATFS reply, bytes.
const SPACE: usize = 80;

/// Reports the root as a folder, and drops other requests. Another thread reports that no space is free.
struct Folder;

impl Worker for Folder {
    fn work(&mut self, batch: &mut Vec<Message>, flush: &dyn Fn()) -> io::Result<()> {
        for mut message in batch.drain(..) {
            let opcode = u32::from_ne_bytes(*message.request()[4..].first_chunk().unwrap());
            let mut words = [0u32; 26];
            match opcode {
                INIT => {
                    words[..2].copy_from_slice(&[7, 38]);
                    // The longest write, and its pages.
                    (words[5], words[7]) = (1 << 20, 256);
                    message.answer_with(0, &bytes(&words[..16]));
                }
                GETATTR => {
                    // Number, mode and links.
                    (words[4], words[19], words[20]) = (1, 0o40_755, 2);
                    message.answer_with(0, &bytes(&words));
                }
                STATFS => {
                    message.give_back();
                    let answer = move || message.answer_with(38, &[]);
                    std::thread::spawn(answer).join().unwrap();
                }
                // The kernel then sends GETATTR.
                STATX => message.answer_with(38, &[]),
                _ => drop(message),
            }
        }
        flush();
        Ok(())
    }
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// A session on a folder, by each transport that there is.
fn each_transport(test: impl Fn(&Path, Session)) {
    if !can_mount_fuse() {
        return;
    }
    for transport in [Transport::Device, Transport::IoUring] {
        let home = tempfile::tempdir().unwrap();
        let mounted = Mounted::on(home.path(), 0o40_000, "", MountFlags::empty()).unwrap();
        let wanted = Wanted {
            transport,
            passthrough: false,
            batch: 4,
        };
        match Session::start(mounted, wanted, || Ok(Folder)) {
            Ok(session) => {
                let rings = matches!(session.used(), Used::IoUring(1..));
                assert_eq!(rings, transport == Transport::IoUring);
                test(home.path(), session);
            }
            Err(error) if transport == Transport::IoUring => {
                skip(format!("FUSE over io_uring: {error}"));
            }
            Err(error) => panic!("{error}"),
        }
        // The mount is gone.
        assert!(std::fs::read_dir(home.path()).unwrap().next().is_none());
    }
}

#[test]
fn a_request_that_is_dropped_fails_and_others_are_answered_by_any_thread() {
    each_transport(|path, session| {
        assert!(path.metadata().unwrap().is_dir());
        for _ in 0..100 {
            let refused = std::fs::read_dir(path).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(5), "{refused}");
            let space = rustix::fs::statfs(path).unwrap_err();
            assert_eq!(space.raw_os_error(), 38);
        }
        session.end().unwrap();
    });
}

#[test]
fn a_session_ends_when_its_file_system_is_unmounted_by_others() {
    each_transport(|path, session| {
        assert!(path.metadata().unwrap().is_dir());
        unmount(path, UnmountFlags::empty()).unwrap();
        let mut ended = [PollFd::from_borrowed_fd(session.ended(), PollFlags::IN)];
        while let Err(error) = poll(&mut ended, None) {
            assert_eq!(error, rustix::io::Errno::INTR);
        }
        session.end().unwrap();
    });
}

/// Like [`Folder`], but the free space comes from a pipe, by a transfer to the memory of the request.
struct Piped {
    pipe: Arc<File>,
    /// Made by its thread.
    transfers: Option<Transfers<Arc<File>, Message>>,
    started: Sender<()>,
}

impl Worker for Piped {
    fn start(&mut self, _spawn: Option<SpawnReader<Piped>>) -> io::Result<()> {
        self.transfers = Some(Transfers::new(4)?);
        Ok(())
    }

    fn work(&mut self, batch: &mut Vec<Message>, flush: &dyn Fn()) -> io::Result<()> {
        let opcode = |message: &mut Message| {
            u32::from_ne_bytes(*message.request()[4..].first_chunk().unwrap())
        };
        for mut message in batch.extract_if(.., |message| opcode(message) == STATFS) {
            let header = reply_header(
                u64::from_ne_bytes(*message.request()[8..].first_chunk().unwrap()),
                0,
                SPACE,
            );
            message.reply()[..REPLY_HEADER].copy_from_slice(&header);
            let memory = message.lend(false, REPLY_HEADER, SPACE).unwrap();
            assert!(message.request().is_empty() && message.reply().is_empty());
            let pipe = Arc::clone(&self.pipe);
            let started = self.transfers.as_mut().unwrap().start(
                pipe,
                memory,
                (Transfer::Read, u64::MAX),
                message,
            );
            assert!(started.is_ok());
            self.complete_pending()?;
            self.started.send(()).unwrap();
        }
        Folder.work(batch, flush)
    }

    fn pending(&self) -> Option<BorrowedFd<'_>> {
        let transfers = self.transfers.as_ref().unwrap();
        (transfers.in_flight() > 0).then(|| transfers.descriptor())
    }

    fn complete_pending(&mut self) -> io::Result<()> {
        let answer = |mut done: Transferred<Arc<File>, Message>| {
            done.item.end_loan(done.memory);
            done.item.answer(REPLY_HEADER + done.result.unwrap());
        };
        self.transfers.as_mut().unwrap().turn(answer).map(drop)
    }
}

#[test]
fn a_session_ends_when_transfers_to_the_memory_of_requests_have_ended() {
    if !can_mount_fuse() {
        return;
    }
    if let Err(error) = Transfers::<File, ()>::new(1) {
        skip(format!("no io_uring: {error}"));
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let mounted = Mounted::on(home.path(), 0o40_000, "", MountFlags::empty()).unwrap();
    let wanted = Wanted {
        transport: Transport::Device,
        passthrough: false,
        batch: 4,
    };
    let (read, mut write) = io::pipe().unwrap();
    let pipe = Arc::new(File::from(OwnedFd::from(read)));
    let (started, starts) = channel();
    let worker = || {
        Ok(Piped {
            pipe: Arc::clone(&pipe),
            transfers: None,
            started: started.clone(),
        })
    };
    let session = Session::start(mounted, wanted, worker).unwrap();
    let space = |blocks: u64| {
        let mut bytes = [0; SPACE];
        bytes[..8].copy_from_slice(&blocks.to_ne_bytes());
        bytes
    };
    std::thread::scope(|scope| {
        let asks = || scope.spawn(|| rustix::fs::statfs(home.path()).unwrap().f_blocks);
        let first = asks();
        starts.recv().unwrap();
        write.write_all(&space(7)).unwrap();
        assert_eq!(first.join().unwrap(), 7);
        let second = asks();
        starts.recv().unwrap();
        let ends = scope.spawn(|| session.end());
        // It is unmounted while a request is in flight.
        let path = home.path().canonicalize().unwrap();
        let path = path.to_str().unwrap();
        while std::fs::read_to_string("/proc/self/mountinfo")
            .unwrap()
            .contains(path)
        {
            std::thread::yield_now();
        }
        write.write_all(&space(8)).unwrap();
        assert_eq!(second.join().unwrap(), 8);
        ends.join().unwrap().unwrap();
    });
}

#[test]
fn only_what_a_dead_server_left_is_unmounted() {
    each_transport(|path, session| {
        // Its server refuses to open it, and it stays.
        unmount_stale(path).unwrap();
        assert!(path.metadata().unwrap().is_dir());
        assert!(std::fs::read_dir(path).is_err());
        session.end().unwrap();
    });
    let missing = tempfile::tempdir().unwrap().path().join("missing");
    unmount_stale(&missing).unwrap();
}

#[test]
fn a_server_that_does_not_agree_on_the_protocol_is_told_so() {
    struct Silent;
    impl Worker for Silent {
        fn work(&mut self, batch: &mut Vec<Message>, _flush: &dyn Fn()) -> io::Result<()> {
            batch.clear();
            Ok(())
        }
    }
    if !can_mount_fuse() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let mounted = Mounted::on(home.path(), 0o40_000, "", MountFlags::empty()).unwrap();
    let wanted = Wanted {
        transport: Transport::Auto,
        passthrough: false,
        batch: 4,
    };
    let started: io::Result<Session> = Session::start(mounted, wanted, || Ok(Silent));
    assert!(started.is_err());
    assert!(std::fs::read_dir(home.path()).unwrap().next().is_none());
}
