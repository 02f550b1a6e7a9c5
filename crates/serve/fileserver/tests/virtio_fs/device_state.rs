//! A guest moves to another server, together with its state at the first one (DEVICE_STATE).

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use iodyno_fileserver::request::opcode::{
    BATCH_FORGET, FORGET, FSYNC, GETATTR, GETXATTR, MKDIR, OPENDIR, READDIR, RELEASE, RENAME,
    SETXATTR, UNLINK, WRITE,
};
use iodyno_fileserver::{
    FileServer, Handles, Migration, MigrationMode, MigrationOnError, NegotiationMode, Settings,
};
use rand::{RngExt, SeedableRng};
use rustix::fs::OFlags;
use rustix::io::Errno;
use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;
use vhost::vhost_user::message::{VhostTransferStateDirection, VhostTransferStatePhase};
use vm_memory::{Bytes, GuestAddress};

use super::guest::{BASE, Guest, MEMORY, PAGE, ROOT, USED, block, io_body, u64_at};
use super::{root, server, settings, skip};

const LOG_ALL: u64 = 1 << 26;

/// Two servers of a folder with these settings.
fn servers(settings: Settings, policy: &str) -> [Arc<FileServer>; 2] {
    [settings.clone(), settings].map(|settings| server(settings, policy))
}

fn guest_error(folder: &Path) -> Settings {
    Settings {
        migration: Migration {
            on_error: MigrationOnError::GuestError,
            ..Migration::default()
        },
        ..settings(folder)
    }
}

impl Guest {
    fn reads(&mut self, file: (u64, u64), offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let slot = self.puts_read(file, offset, size);
        self.kick(1);
        let replies = self.waits(1, 1);
        self.reply(slot, replies[0].1)
    }

    fn writes(&mut self, file: (u64, u64), offset: u64, data: &[u8]) -> Result<(), Errno> {
        let slot = self.puts_write(file, offset, data);
        self.kick(1);
        let replies = self.waits(1, 1);
        self.reply(slot, replies[0].1).map(drop)
    }

    fn puts_append(&mut self, (node, handle): (u64, u64), data: &[u8]) {
        let mut body = io_body(handle, 0, data.len() as u32);
        let flags = OFlags::RDWR | OFlags::APPEND;
        body[32..36].copy_from_slice(&flags.bits().to_ne_bytes());
        body.extend(data);
        self.puts(WRITE, node, &body, 8);
    }

    fn forgets(&mut self, node: u64, count: u64) {
        let slot = self.puts(FORGET, node, &count.to_ne_bytes(), 0);
        self.kick(1);
        assert_eq!(self.waits(1, 1), [(slot, 0)]);
        self.rings[1].free.push_back(slot);
    }

    fn is_there(&mut self, node: u64) -> Result<(), Errno> {
        self.asks(GETATTR, node, &[0; 16], 104).map(drop)
    }

    fn opens_folder(&mut self, node: u64) -> (u64, u64) {
        let opened = self.asks(OPENDIR, node, &[0; 8], 16).unwrap();
        (node, u64_at(&opened, 0))
    }

    /// The names in an open folder, from the beginning.
    fn names(&mut self, (node, handle): (u64, u64)) -> Result<Vec<String>, Errno> {
        let mut body = [handle.to_ne_bytes(), [0; 8]].concat();
        body.extend(4096u32.to_ne_bytes());
        body.resize(40, 0);
        let list = self.asks(READDIR, node, &body, 4096)?;
        let mut names = Vec::new();
        let mut at = 0;
        while at < list.len() {
            let length = u32::from_ne_bytes(list[at + 16..at + 20].try_into().unwrap()) as usize;
            let name = String::from_utf8(list[at + 24..at + 24 + length].to_vec()).unwrap();
            if !name.starts_with('.') {
                names.push(name);
            }
            at += (24 + length).next_multiple_of(8);
        }
        names.sort();
        Ok(names)
    }

    fn removes(&mut self, name: &str) {
        let name = [name.as_bytes(), b"\0"].concat();
        self.asks(UNLINK, ROOT, &name, 0).unwrap();
    }

    /// Saves its state at its server, which ends, and moves to another one.
    fn goes_on_at(&mut self, other: &Arc<FileServer>) -> vhost::Result<()> {
        self.stop();
        let state = self.saves().unwrap();
        assert_eq!(self.notes(), "");
        self.ends();
        self.moves_to(other);
        self.loads(&state)?;
        self.start();
        Ok(())
    }

    /// Ends its server.
    fn ends(&mut self) {
        self.socket.shutdown(std::net::Shutdown::Both).unwrap();
        self.server.take().unwrap().join().unwrap().unwrap();
    }
}

/// Whether the file system of a folder has file handles, for privileged users.
fn has_handles(folder: &Path) -> bool {
    let settings = Settings {
        handles: Handles::Mandatory,
        ..settings(folder)
    };
    let has = root() && settings.check().is_ok();
    if !has {
        skip("the file system of temporary files has no file handles");
    }
    has
}

#[test]
fn a_client_goes_on_with_its_files_folders_and_lookups() {
    let migrations = |mode, verify_handles, confirm_paths| Migration {
        mode,
        verify_handles,
        confirm_paths,
        ..Migration::default()
    };
    for (nth, (policy, handles, migration)) in [
        ("adaptive", Handles::Never, Migration::default()),
        (
            "pool:4",
            Handles::Never,
            migrations(MigrationMode::FindPaths, true, true),
        ),
        ("inline", Handles::Prefer, Migration::default()),
        (
            "inline",
            Handles::Never,
            migrations(MigrationMode::FileHandles, false, false),
        ),
        (
            "adaptive",
            Handles::Mandatory,
            migrations(MigrationMode::FileHandles, false, false),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let folder = tempfile::tempdir().unwrap();
        if nth > 0 && !has_handles(folder.path()) {
            continue;
        }
        let settings = Settings {
            handles,
            migration,
            ..settings(folder.path())
        };
        let [first, second] = servers(settings, policy);
        let mut guest = Guest::of(&first);
        let file = guest.create("file").unwrap();
        guest.writes(file, 0, &block(1)).unwrap();
        guest
            .asks(
                MKDIR,
                ROOT,
                &[0o755u32.to_ne_bytes(), [0; 4]]
                    .concat()
                    .into_iter()
                    .chain(*b"below\0")
                    .collect::<Vec<u8>>(),
                128,
            )
            .unwrap();
        let below = guest.lookup(ROOT, "below").unwrap();
        std::fs::write(folder.path().join("below/deep"), "deep").unwrap();
        let deep = guest.lookup(below, "deep").unwrap();
        for _ in 0..2 {
            assert_eq!(guest.lookup(below, "deep"), Ok(deep));
        }
        // It has another name since it is known.
        let moved = guest.create("before").unwrap();
        let renamed = [below.to_ne_bytes().as_slice(), b"before\0after\0"].concat();
        guest.asks(RENAME, ROOT, &renamed, 0).unwrap();
        let list = guest.opens_folder(below);
        let gone = guest.create("gone").unwrap();
        guest
            .asks(
                RELEASE,
                gone.0,
                &[gone.1.to_ne_bytes().as_slice(), &[0; 16]].concat(),
                0,
            )
            .unwrap();
        guest.forgets(gone.0, 1);

        guest.goes_on_at(&second).unwrap();
        assert_eq!(guest.notes(), "", "{nth}");
        assert!(guest.reads(file, 0, 4096).unwrap() == block(1), "{nth}");
        guest.writes(file, 4096, &block(2)).unwrap();
        guest.writes(moved, 0, b"moved").unwrap();
        guest
            .asks(FSYNC, file.0, &[file.1.to_ne_bytes(), [0; 8]].concat(), 0)
            .unwrap();
        assert_eq!(guest.names(list).unwrap(), ["after", "deep"]);
        let written = std::fs::read(folder.path().join("file")).unwrap();
        assert!(written == [block(1), block(2)].concat(), "{nth}");
        assert_eq!(
            std::fs::read(folder.path().join("below/after")).unwrap(),
            b"moved"
        );
        // Forgotten nodes are unknown, and new ones have other numbers.
        assert_eq!(guest.is_there(gone.0), Err(Errno::BADF));
        assert_eq!(guest.reads(gone, 0, 1), Err(Errno::BADF));
        assert_eq!(guest.lookup(below, "deep"), Ok(deep));
        let new = guest.create("new").unwrap();
        assert!(![file.0, below, deep, moved.0, gone.0, ROOT].contains(&new.0));
        assert!(![file.1, list.1, moved.1].contains(&new.1));
        // It was looked up three times there and once here.
        guest.forgets(deep, 3);
        assert_eq!(guest.is_there(deep), Ok(()));
        guest.forgets(deep, 1);
        assert_eq!(guest.is_there(deep), Err(Errno::BADF));
        let released = [moved.1.to_ne_bytes().as_slice(), &[0; 16]].concat();
        guest.asks(RELEASE, moved.0, &released, 0).unwrap();
        assert_eq!(guest.reads(moved, 0, 1), Err(Errno::BADF));
        // And on, to the first one again.
        guest.goes_on_at(&first).unwrap();
        assert!(guest.reads(file, 4096, 4096).unwrap() == block(2));
        assert_eq!(guest.is_there(below), Ok(()));
        assert_eq!(guest.is_there(deep), Err(Errno::BADF));
        guest.leaves().unwrap();
    }
}

#[test]
fn requests_are_worked_once_by_the_one_server_or_by_the_other() {
    for policy in ["inline", "pool:4", "adaptive"] {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = servers(settings(folder.path()), policy);
        let mut guest = Guest::of(&first);
        let file = guest.create("log").unwrap();
        let released = [file.1.to_ne_bytes().as_slice(), &[0; 16]].concat();
        guest.asks(RELEASE, file.0, &released, 0).unwrap();
        let file = guest.open("log", OFlags::RDWR | OFlags::APPEND).unwrap();
        let mut written = 0;
        for servers in [[&first, &second], [&second, &first]]
            .iter()
            .cycle()
            .take(6)
        {
            for nth in 0..48u8 {
                // Data appended twice would be seen.
                guest.puts_append(file, &[nth; 100]);
            }
            guest.kick(1);
            guest.goes_on_at(servers[1]).unwrap();
            written += 48;
            for (slot, length) in guest.waits(1, 48) {
                assert_eq!(u64_at(&guest.reply(slot, length).unwrap(), 0), 100);
            }
            let log = std::fs::read(folder.path().join("log")).unwrap();
            assert_eq!(log.len(), written * 100, "{policy}");
            let mut parts: Vec<u8> = log.chunks(100).skip(written - 48).map(|it| it[0]).collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..48).collect::<Vec<u8>>(), "{policy}");
        }
        guest.leaves().unwrap();
    }
}

#[test]
fn a_server_without_the_state_answers_with_errors() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = servers(settings(folder.path()), "adaptive");
    let mut guest = Guest::of(&first);
    let file = guest.create("file").unwrap();
    let list = guest.opens_folder(ROOT);
    guest.stop();
    guest.ends();
    guest.moves_to(&second);
    guest.start();
    for _ in 0..2 {
        assert_eq!(guest.reads(file, 0, 4096), Err(Errno::BADF));
        assert_eq!(guest.writes(file, 0, &block(1)), Err(Errno::BADF));
        assert_eq!(guest.is_there(file.0), Err(Errno::BADF));
        assert_eq!(guest.names(list), Err(Errno::BADF));
        assert!(guest.lookup(ROOT, "file").is_err());
        guest.forgets(file.0, 1);
    }
    let mut forget = [1u32.to_ne_bytes(), [0; 4]].concat();
    forget.extend([file.0, 1].map(u64::to_ne_bytes).concat());
    let slot = guest.puts(BATCH_FORGET, 0, &forget, 0);
    guest.kick(1);
    assert_eq!(guest.waits(1, 1), [(slot, 0)]);
    assert_eq!(std::fs::read(folder.path().join("file")).unwrap(), b"");
    // A client that mounts again works.
    guest.rings[1].free.push_back(slot);
    guest.initialise();
    guest.lookup(ROOT, "file").unwrap();
    guest.leaves().unwrap();
}

#[test]
fn a_client_that_has_not_mounted_has_a_state() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    let settings = Settings {
        posix_acl: NegotiationMode::Always,
        ..settings(folder.path())
    };
    let [first, second] = servers(settings, "inline");
    let mut guest = Guest::unmounted(&first);
    guest.goes_on_at(&second).unwrap();
    assert!(guest.lookup(ROOT, "file").is_err());
    guest.initialise();
    let file = guest.open("file", OFlags::RDONLY).unwrap();
    guest.goes_on_at(&first).unwrap();
    assert_eq!(guest.reads(file, 0, 9).unwrap(), b"x");
    guest.leaves().unwrap();
}

#[test]
fn files_without_a_name_are_refused_or_lost_and_kept_by_file_handles() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = servers(settings(folder.path()), "adaptive");
    let tolerant = server(guest_error(folder.path()), "adaptive");
    let mut guest = Guest::of(&first);
    let (kept, removed) = (
        guest.create("kept").unwrap(),
        guest.create("removed").unwrap(),
    );
    guest.writes(removed, 0, b"still there").unwrap();
    guest.removes("removed");
    guest.stop();
    let state = guest.saves().unwrap();
    let note = guest.notes();
    assert!(
        note.starts_with("files that the client knows have no name in the folder (1)"),
        "{note}"
    );
    // The other server refuses it, and the client continues at the first one.
    let mut other = Guest::with(&second);
    assert!(other.loads(&state).is_err());
    let note = other.notes();
    assert!(
        note.starts_with("cannot load the state of the client: "),
        "{note}"
    );
    assert!(
        note.contains(&format!("lost inode {}", removed.0)),
        "{note}"
    );
    other.start();
    assert_eq!(other.is_there(kept.0), Err(Errno::BADF));
    other.leaves().unwrap();
    guest.start();
    assert_eq!(guest.reads(removed, 0, 100).unwrap(), b"still there");
    guest.stop();
    let state = guest.saves().unwrap();
    guest.notes();
    // Or it gets errors for this file.
    guest.ends();
    guest.moves_to(&tolerant);
    guest.loads(&state).unwrap();
    let note = guest.notes();
    assert!(
        note.starts_with("files that the client knows were not found (1)"),
        "{note}"
    );
    guest.start();
    guest.writes(kept, 0, b"x").unwrap();
    assert!(guest.reads(removed, 0, 100).is_err());
    assert!(guest.is_there(removed.0).is_err());
    guest.forgets(removed.0, 1);
    assert_eq!(guest.is_there(removed.0), Err(Errno::BADF));
    guest.leaves().unwrap();

    if !has_handles(folder.path()) {
        return;
    }
    // File handles stay valid while the first server keeps it open.
    let migration = Migration {
        mode: MigrationMode::FileHandles,
        ..Migration::default()
    };
    let by_handle = Settings {
        migration,
        ..settings(folder.path())
    };
    let [first, third] = servers(by_handle, "adaptive");
    let mut guest = Guest::of(&first);
    let removed = guest.create("removed").unwrap();
    guest.writes(removed, 0, b"still there").unwrap();
    guest.removes("removed");
    guest.stop();
    let state = guest.saves().unwrap();
    let mut other = Guest::with(&third);
    other.loads(&state).unwrap();
    guest.ends();
    other.start();
    assert_eq!(other.reads(removed, 0, 100).unwrap(), b"still there");
    other.leaves().unwrap();
    // A server that does not take them says so.
    let mut other = Guest::with(&second);
    assert!(other.loads(&state).is_err());
    let note = other.notes();
    assert!(note.contains("`--migration-mode file-handles`"), "{note}");
    other.leaves().unwrap();
}

#[test]
fn a_folder_without_a_file_of_the_client_is_noticed() {
    let [one, two] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for folder in [&one, &two] {
        std::fs::create_dir(folder.path().join("below")).unwrap();
        std::fs::write(folder.path().join("both"), "both").unwrap();
    }
    std::fs::write(one.path().join("below/one"), "one").unwrap();
    let mut guest = Guest::of(&server(settings(one.path()), "inline"));
    let both = guest.open("both", OFlags::RDONLY).unwrap();
    let below = guest.lookup(ROOT, "below").unwrap();
    let missing = guest.lookup(below, "one").unwrap();
    guest.stop();
    let state = guest.saves().unwrap();
    guest.ends();
    guest.moves_to(&server(settings(two.path()), "inline"));
    assert!(guest.loads(&state).is_err());
    let note = guest.notes();
    assert!(
        note.contains("below/one: No such file or directory"),
        "{note}"
    );
    guest.ends();
    guest.moves_to(&server(guest_error(two.path()), "inline"));
    guest.loads(&state).unwrap();
    let note = guest.notes();
    assert!(note.contains("(1, such as `below/one`)"), "{note}");
    guest.start();
    assert_eq!(guest.reads(both, 0, 10).unwrap(), b"both");
    assert!(guest.is_there(missing).is_err());
    // A new lookup finds it again.
    std::fs::write(two.path().join("below/one"), "two").unwrap();
    let found = guest.lookup(below, "one").unwrap();
    assert_ne!(found, missing);
    guest.leaves().unwrap();
}

#[test]
fn another_file_of_the_same_name_is_noticed_by_its_handle() {
    let folder = tempfile::tempdir().unwrap();
    if !has_handles(folder.path()) {
        return;
    }
    std::fs::write(folder.path().join("file"), "one").unwrap();
    let migration = Migration {
        verify_handles: true,
        ..Migration::default()
    };
    let with_handles = Settings {
        migration,
        ..settings(folder.path())
    };
    for (settings, refused) in [(settings(folder.path()), false), (with_handles, true)] {
        let [first, second] = servers(settings, "inline");
        let mut guest = Guest::of(&first);
        let file = guest.open("file", OFlags::RDONLY).unwrap();
        guest.stop();
        let state = guest.saves().unwrap();
        std::fs::write(folder.path().join("other"), "two").unwrap();
        std::fs::rename(folder.path().join("other"), folder.path().join("file")).unwrap();
        guest.moves_to(&second);
        assert_eq!(guest.loads(&state).is_err(), refused);
        if refused {
            let note = guest.notes();
            assert!(note.contains("is not the same inode"), "{note}");
        } else {
            guest.start();
            assert_eq!(guest.reads(file, 0, 10).unwrap(), b"two");
        }
        guest.leaves().unwrap();
    }
}

#[test]
fn a_state_that_is_damaged_in_any_way_is_refused_and_the_server_lives() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = servers(settings(folder.path()), "inline");
    let mut guest = Guest::of(&first);
    let mut known = 1;
    for nth in 0..20 {
        std::fs::create_dir(folder.path().join(format!("d{nth}"))).unwrap();
        std::fs::write(folder.path().join(format!("d{nth}/f")), "").unwrap();
        let below = guest.lookup(ROOT, &format!("d{nth}")).unwrap();
        guest.lookup(below, "f").unwrap();
        guest.create(&format!("f{nth}")).unwrap();
        known += 3;
    }
    let before = names(folder.path());
    guest.stop();
    let state = guest.saves().unwrap();
    guest.leaves().unwrap();
    let mut other = Guest::with(&second);
    let seed = std::env::var("PROPTEST_RNG_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed.unwrap_or(1));
    let whole = state.len() - 16;
    let mut taken = 0;
    for round in 0..3000 {
        // Without its seal, so that the checks and the crate see the differences.
        let mut damaged = state[..whole].to_vec();
        match round % 4 {
            0 => damaged.truncate(random.random_range(0..whole)),
            1 => damaged[random.random_range(0..whole)] ^= 1 << random.random_range(0..8u32),
            2 => {
                for _ in 0..random.random_range(1..20) {
                    damaged[random.random_range(0..whole)] = random.random();
                }
            }
            _ => {
                let (from, to) = (random.random_range(0..whole), random.random_range(0..whole));
                let length = random.random_range(0..whole - from.max(to));
                damaged.copy_within(from..from + length, to);
            }
        }
        let loaded = other.loads(&damaged);
        let note = other.notes();
        match loaded {
            // A number or name of the state may be another one that fits.
            Ok(()) => taken += 1,
            Err(_) => assert!(
                note.starts_with("cannot load the state of the client: "),
                "{round}: {note}"
            ),
        }
        assert!(!note.contains("please report"), "{round}: {note}");
    }
    assert!(taken < 1500, "{taken} of 3000");
    assert_eq!(names(folder.path()), before);
    // With its seal, nothing may differ.
    for at in (0..state.len()).step_by(7) {
        let mut damaged = state.clone();
        damaged[at] ^= 0x10;
        assert!(other.loads(&damaged).is_err(), "{at}");
    }
    assert!(other.notes().contains("its checksum does not match"));
    for other_text in [&b""[..], b"{\"not\": \"a state\"}", &[0xff; 5000]] {
        assert!(other.loads(other_text).is_err());
    }
    let notes = other.notes();
    assert!(notes.contains("it is empty"), "{notes}");
    // It takes the one that is whole, also after all that.
    other.loads(&state).unwrap();
    other.start();
    for node in 1..=known {
        assert_eq!(other.is_there(node), Ok(()), "{node}");
    }
    other.leaves().unwrap();
}

#[test]
fn mounts_of_a_state_lead_nowhere() {
    use rustix::fs::inotify;
    let (home, mut buffer) = (tempfile::tempdir().unwrap(), [0u8; 512]);
    let (outside, folder) = (home.path().join("outside"), home.path().join("folder"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(&outside, "").unwrap();
    std::os::unix::fs::symlink(&outside, folder.join("link")).unwrap();
    let opened = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&opened, &outside, inotify::WatchFlags::OPEN).unwrap();
    let by_handle = Settings {
        migration: Migration {
            mode: MigrationMode::FileHandles,
            ..Migration::default()
        },
        ..settings(&folder)
    };
    let by_handle = (root() && has_handles(&folder)).then_some((by_handle, false));
    for (settings, taken) in [Some((settings(&folder), true)), by_handle]
        .into_iter()
        .flatten()
    {
        let [first, second] = servers(settings, "inline");
        let mut guest = Guest::of(&first);
        guest.lookup(ROOT, "link").unwrap();
        guest.stop();
        let state = guest.saves().unwrap();
        guest.leaves().unwrap();
        let mut other = Guest::with(&second);
        // It ends in the table of mounts, and no longer has a seal.
        let mut forged = state[..state.len() - 16].to_vec();
        match forged.pop().unwrap() {
            0 => forged.extend([1, 7]),
            end => assert_eq!((end, forged.pop()), (b'.', Some(1))),
        }
        forged.push(4);
        forged.extend(b"link");
        let loaded = other.loads(&forged);
        assert_eq!(loaded.is_ok(), taken, "{:?}", other.notes());
        let read = rustix::io::read(&opened, &mut buffer);
        assert_eq!(read, Err(Errno::AGAIN), "it was opened");
        other.leaves().unwrap();
    }
}

/// All names in a folder and below it.
fn names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            names.extend(self::names(&path));
        }
        names.push(path.to_str().unwrap().to_owned());
    }
    names.sort();
    names
}

#[test]
fn a_front_end_that_ends_early_or_does_not_keep_to_the_rules_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = servers(settings(folder.path()), "inline");
    let (save, load) = (
        VhostTransferStateDirection::SAVE,
        VhostTransferStateDirection::LOAD,
    );
    let stopped = VhostTransferStatePhase::STOPPED;
    let mut guest = Guest::of(&first);
    // A state that does not fit into a pipe.
    for nth in 0..3000 {
        let name = format!("{nth}-{}", "x".repeat(60));
        std::fs::write(folder.path().join(&name), "").unwrap();
        guest.lookup(ROOT, &name).unwrap();
    }
    let file = guest.create("file").unwrap();
    // Not while its rings run; then there is no transfer to check.
    assert!(guest.saves().is_err());
    let note = guest.notes();
    assert!(note.contains("has not stopped all queues"), "{note}");
    assert!(guest.front.check_device_state().is_err());
    guest.stop();
    // It closes its end immediately.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    guest.transfers(save, writer.into()).unwrap();
    assert!(guest.front.check_device_state().is_err());
    let note = guest.notes();
    assert!(
        note.contains("cannot save the state") && note.contains("closed the connection"),
        "{note}"
    );
    // Or after a part.
    let (mut reader, writer) = std::io::pipe().unwrap();
    guest.transfers(save, writer.into()).unwrap();
    reader.read_exact(&mut [0; 1000]).unwrap();
    drop(reader);
    assert!(guest.front.check_device_state().is_err());
    guest.notes();
    // It does not wait for the end, and continues.
    let (reader, writer) = std::io::pipe().unwrap();
    guest.transfers(save, writer.into()).unwrap();
    guest.start();
    assert!(guest.notes().contains("was not transferred completely"));
    guest.writes(file, 0, b"x").unwrap();
    drop(reader);
    guest.stop();
    // It requests another one without a check.
    let (_reader, writer) = std::io::pipe().unwrap();
    guest.transfers(save, writer.into()).unwrap();
    let state = guest.saves().unwrap();
    assert!(state.len() > 3000 * 60);
    let other = Guest::with(&second);
    let phase = |pipe| (other.front).set_device_state_fd(load, stopped, pipe);
    // The front end leaves in the middle.
    let (reader, writer) = std::io::pipe().unwrap();
    phase(reader.into()).unwrap();
    let _ = other.leaves();
    drop(writer);
    let mut other = Guest::with(&second);
    other.loads(&state[..state.len() / 2]).unwrap_err();
    assert!(other.notes().contains("truncated"));
    other.loads(&state).unwrap();
    other.start();
    other.writes(file, 1, b"y").unwrap();
    other.leaves().unwrap();
    guest.leaves().unwrap();
    assert_eq!(std::fs::read(folder.path().join("file")).unwrap(), b"xy");
}

#[test]
fn requests_are_read_as_the_client_agreed_on_at_the_first_server() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        posix_acl: NegotiationMode::Always,
        ..settings(folder.path())
    };
    let [first, second] = servers(settings, "inline");
    let mut guest = Guest::of(&first);
    let file = guest.create("file").unwrap();
    // Its value, flags, further flags, which SETXATTR_EXT brings, and name.
    let attribute = |name: &str| {
        let words = [5u32, 0, 0, 0].map(u32::to_ne_bytes).concat();
        [&words, name.as_bytes(), b"\0value"].concat()
    };
    let set = guest.asks(SETXATTR, file.0, &attribute("user.one"), 0);
    if set == Err(Errno::OPNOTSUPP) {
        return skip("the file system of temporary files has no extended attributes");
    }
    set.unwrap();
    guest.goes_on_at(&second).unwrap();
    guest
        .asks(SETXATTR, file.0, &attribute("user.two"), 0)
        .unwrap();
    for name in [&b"user.one\0"[..], b"user.two\0"] {
        let wanted = [100u32.to_ne_bytes().as_slice(), &[0; 4], name].concat();
        assert_eq!(
            guest.asks(GETXATTR, file.0, &wanted, 100).unwrap(),
            b"value"
        );
    }
    guest.leaves().unwrap();
}

#[test]
fn pages_that_a_server_writes_are_marked_while_the_front_end_copies_them() {
    for (policy, flags) in [
        ("inline", OFlags::RDWR),
        ("pool:4", OFlags::RDWR),
        ("adaptive", OFlags::RDWR | OFlags::DIRECT),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), vec![7; 1 << 20]).unwrap();
        let mut guest = Guest::of(&server(settings(folder.path()), policy));
        let Ok(file) = guest.open("file", flags) else {
            skip("the file system of temporary files has no direct I/O");
            continue;
        };
        let bits = tempfile::tempfile().unwrap();
        let length = (BASE + MEMORY) / PAGE / 8 + 1;
        bits.set_len(length).unwrap();
        let marked = || {
            let mut bytes = vec![0; length as usize];
            std::os::unix::fs::FileExt::read_exact_at(&bits, &mut bytes, 0).unwrap();
            bytes
        };
        let fd = std::os::fd::AsRawFd::as_raw_fd(&bits);
        let region = vhost::VhostUserDirtyLogRegion {
            mmap_size: length,
            mmap_offset: 0,
            mmap_handle: fd,
        };
        guest.front.set_log_base(0, Some(region)).unwrap();
        let features = super::guest::FEATURES;
        let round = |guest: &mut Guest| {
            let memory = |guest: &Guest| {
                let mut bytes = vec![0; MEMORY as usize];
                guest
                    .memory
                    .read_slice(&mut bytes, GuestAddress(BASE))
                    .unwrap();
                bytes
            };
            // A server may see requests before it is notified.
            guest.stop();
            for nth in 0..32 {
                guest.puts_read(file, nth * 8192, 8192);
            }
            // The server does not mark the guest's own writes.
            let before = memory(guest);
            guest.start();
            // A guest that waits for replies writes to its ring.
            let (used, expected) = (guest.rings[1].start + USED + 2, guest.rings[1].available);
            while guest.read(used, 2) != expected.to_le_bytes() {
                std::thread::yield_now();
            }
            let after = memory(guest);
            for (slot, length) in guest.waits(1, 32) {
                assert_eq!(guest.reply(slot, length).unwrap(), [7; 8192]);
            }
            let differ = (0..MEMORY / PAGE).filter(move |page| {
                let range = (page * PAGE) as usize..((page + 1) * PAGE) as usize;
                before[range.clone()] != after[range]
            });
            differ.map(|page| page + BASE / PAGE).collect::<Vec<u64>>()
        };
        // Not before it was requested.
        assert!(!round(&mut guest).is_empty());
        assert!(marked().iter().all(|byte| *byte == 0));
        guest.front.set_features(features | LOG_ALL).unwrap();
        let differ = round(&mut guest);
        assert!(!differ.is_empty());
        let bytes = marked();
        for page in differ {
            let set = bytes[page as usize / 8] & 1 << (page % 8);
            assert!(set != 0, "{policy}: the page {page} differs");
        }
        // Far from all pages.
        let count: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
        assert!(count < 200, "{count}");
        // It is copied no more.
        guest.front.set_features(features).unwrap();
        round(&mut guest);
        assert!(marked() == bytes);
        guest.leaves().unwrap();
    }
}

#[test]
fn names_are_looked_for_before_the_state_is_asked_for_and_kept_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = servers(settings(folder.path()), "adaptive");
    let mut guest = Guest::of(&first);
    let features = super::guest::FEATURES;
    let [kept, removed, moved] =
        ["kept", "removed", "moved"].map(|name| guest.create(name).unwrap());
    // The front end starts to copy the memory, and the client continues.
    guest.front.set_features(features | LOG_ALL).unwrap();
    guest.removes("removed");
    let renamed = [ROOT.to_ne_bytes().as_slice(), b"moved\0elsewhere\0"].concat();
    guest.asks(RENAME, ROOT, &renamed, 0).unwrap();
    let new = guest.create("new").unwrap();
    // It gives up, and starts again.
    guest.front.set_features(features).unwrap();
    guest.front.set_features(features | LOG_ALL).unwrap();
    let newer = guest.create("newer").unwrap();
    let released = [removed.1.to_ne_bytes().as_slice(), &[0; 16]].concat();
    guest.asks(RELEASE, removed.0, &released, 0).unwrap();
    guest.forgets(removed.0, 1);
    guest.goes_on_at(&second).unwrap();
    for (nth, file) in [kept, moved, new, newer].into_iter().enumerate() {
        guest.writes(file, 0, &[nth as u8]).unwrap();
    }
    for (nth, name) in ["kept", "elsewhere", "new", "newer"]
        .into_iter()
        .enumerate()
    {
        assert_eq!(
            std::fs::read(folder.path().join(name)).unwrap(),
            [nth as u8]
        );
    }
    guest.leaves().unwrap();
}
