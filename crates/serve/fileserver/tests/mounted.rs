//! The server of a folder mounted on this host, on storage that hangs. The program's tests cover working storage.

mod hanging;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use iodyno_fileserver::Stop;
use iodyno_fileserver::{Cache, FileServer, Handles, Migration, NegotiationMode, Settings, fuse};
use iodyno_serve::fuse::{Message, Transport};
use iodyno_testing::{can_mount_fuse, skip};
use rustix::io::Errno;

use crate::hanging::FileThatHangs;

/// No wait of these tests takes longer on any host.
const END: Duration = Duration::from_secs(60);

fn settings(folder: &Path) -> Settings {
    Settings {
        folder: folder.to_owned(),
        cache: Cache::Never,
        read_only: false,
        xattr: false,
        writeback: false,
        direct_io: false,
        submounts: false,
        handles: Handles::Never,
        posix_acl: NegotiationMode::Never,
        uids: Vec::new(),
        gids: Vec::new(),
        inside: None,
        migration: Migration::default(),
        delay: Duration::ZERO,
    }
}

fn substitutes(server: &FileServer) -> u64 {
    let stats: serde_json::Value = serde_json::from_str(&server.stats()).unwrap();
    stats["substitutes"].as_u64().unwrap()
}

#[test]
fn a_mount_goes_on_while_one_read_hangs() {
    if can_mount_fuse() {
        hangs(Transport::Device);
    }
}

#[test]
fn a_mount_by_io_uring_goes_on_when_reads_that_hung_have_ended() {
    if can_mount_fuse() && has_io_uring() {
        hangs(Transport::IoUring);
    }
}

fn has_io_uring() -> bool {
    const ENABLED: &str = "/sys/module/fuse/parameters/enable_uring";
    let enabled = std::fs::read_to_string(ENABLED).is_ok_and(|text| text == "Y\n");
    if !enabled {
        skip(format!("FUSE over io_uring needs Y in {ENABLED}"));
    }
    enabled
}

/// A mounted folder with a file that hangs.
struct Served {
    place: PathBuf,
    storage: FileThatHangs,
    server: Arc<FileServer>,
    stop: Stop,
    serving: JoinHandle<io::Result<()>>,
}

impl Served {
    fn new(home: &Path, policy: &str, transport: Transport) -> Served {
        let [shared, place] = ["shared", "mnt"].map(|name| home.join(name));
        for folder in [&shared, &place] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(shared.join("data"), "data").unwrap();
        let storage = FileThatHangs::new(&shared.join("hangs"));
        let server = FileServer::start(settings(&shared), policy.parse().unwrap(), Some(4));
        let server = Arc::new(server.unwrap());
        let stop = Stop::new().unwrap();
        let mounted = fuse::mount(&place, &shared).unwrap();
        let (ready, is_ready) = channel();
        let serving = {
            let (server, stop) = (Arc::clone(&server), stop.clone());
            let how = (transport, false);
            thread::spawn(move || {
                fuse::serve(mounted, &server, how, &stop, |_| ready.send(()).unwrap())
            })
        };
        is_ready.recv_timeout(END).unwrap();
        Served {
            place,
            storage,
            server,
            stop,
            serving,
        }
    }

    /// A read that hangs, and its later result.
    fn hung(&self, size: usize) -> (Message, Receiver<io::Result<Vec<u8>>>) {
        let file = File::open(self.place.join("hangs")).unwrap();
        let (ends, ended) = channel();
        thread::spawn(move || {
            let mut buffer = vec![0; size];
            ends.send(file.read_at(&mut buffer, 0).map(|_| buffer))
                .unwrap();
        });
        (self.storage.hung(), ended)
    }
}

#[test]
fn a_server_that_is_stopped_leaves_its_mount_although_a_read_holds_its_queue() {
    if !can_mount_fuse() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let served = Served::new(home.path(), "inline", Transport::Device);
    let (read, ended) = served.hung(4096);
    served.stop.stop();
    let error = ended.recv_timeout(END).unwrap().unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::CONNABORTED));
    assert_eq!(std::fs::read_dir(&served.place).unwrap().count(), 0);
    read.answer_with(0, &[8; 4096]);
    // It says that requests did not end, or that all ended in the end.
    let _ = served.serving.join().unwrap();
    served.storage.end();
}

#[test]
fn nothing_is_mounted_on_the_mount_of_another_server() {
    if !can_mount_fuse() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let served = Served::new(home.path(), "inline", Transport::Device);
    std::fs::remove_file(served.place.join("data")).unwrap();
    let empty = home.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let error = fuse::mount(&served.place, &empty).unwrap_err();
    assert_eq!(error.to_string(), "a FUSE file system is mounted there");
    served.stop.stop();
    served.serving.join().unwrap().unwrap();
    served.storage.end();
}

fn hangs(transport: Transport) {
    let home = tempfile::tempdir().unwrap();
    let served = Served::new(home.path(), "adaptive", transport);
    let (place, hung) = (&served.place, |size| served.hung(size));
    // Each waits for the answers of the server.
    let goes_on = || {
        assert_eq!(place.join("data").metadata().unwrap().len(), 4);
        assert_eq!(std::fs::read(place.join("data")).unwrap(), b"data");
        std::fs::write(place.join("new"), "new").unwrap();
        assert_eq!(std::fs::read_dir(place).unwrap().count(), 3);
        std::fs::remove_file(place.join("new")).unwrap();
    };
    // Reads of other sizes are not known to be slow.
    for size in [4096, 8192, 48 << 10] {
        for _ in 0..32 {
            place.join("data").metadata().unwrap();
        }
        let (read, ended) = hung(size);
        // With io_uring, a queue waits for its thread.
        if transport == Transport::Device {
            goes_on();
        }
        read.answer_with(0, &vec![7; size]);
        assert!(ended.recv_timeout(END).unwrap().unwrap() == vec![7; size]);
    }
    goes_on();
    // One at least was alone, so that the thread of the device worked it.
    assert_eq!(
        substitutes(&served.server) > 0,
        transport == Transport::Device
    );
    if transport == Transport::IoUring {
        served.stop.stop();
        served.serving.join().unwrap().unwrap();
        return served.storage.end();
    }
    // Several hang, and the server is stopped meanwhile.
    let held: Vec<_> = (0..3).map(|_| hung(4096)).collect();
    goes_on();
    served.stop.stop();
    for (read, ended) in held {
        read.answer_with(0, &[8; 4096]);
        assert!(ended.recv_timeout(END).unwrap().unwrap() == [8; 4096]);
    }
    served.serving.join().unwrap().unwrap();
    assert_eq!(std::fs::read_dir(place).unwrap().count(), 0);
    served.storage.end();
}
