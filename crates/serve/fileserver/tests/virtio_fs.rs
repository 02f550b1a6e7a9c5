//! The server of virtio-fs, seen by a guest that this file plays: a front end of vhost-user with rings in its own
//! memory.

use std::collections::VecDeque;
use std::fs::File;
use std::net::Shutdown;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use iodyno_fileserver::request::opcode::{
    CREATE, DESTROY, FORGET, GETATTR, INIT, LOOKUP, MKDIR, OPEN, READ, RELEASE, RENAME, SETATTR,
    STATFS, SYMLINK, UNLINK, WRITE,
};
use iodyno_fileserver::{Cache, FileServer, Handles, Migration, NegotiationMode, Settings};
use iodyno_testing::{can_mount_fuse, eventually, skip};
use rustix::fs::OFlags;
use rustix::io::Errno;
use vhost::VhostBackend;
use vmm_sys_util::eventfd::EventFd;

#[path = "virtio_fs/device_state.rs"]
mod device_state;
mod guest;
mod hanging;

use guest::{
    BASE, EACH, END, Guest, MEMORY, PAGE, ROOT, SIZE, SLOT, block, events, io_body, message, u64_at,
};
use hanging::FileThatHangs;

fn settings(folder: &Path) -> Settings {
    Settings {
        folder: folder.to_owned(),
        cache: Cache::Never,
        read_only: false,
        xattr: true,
        writeback: false,
        direct_io: true,
        submounts: true,
        handles: Handles::Never,
        posix_acl: NegotiationMode::Never,
        uids: Vec::new(),
        gids: Vec::new(),
        migration: Migration::default(),
        inside: None,
        delay: Duration::ZERO,
    }
}

fn server(settings: Settings, policy: &str) -> Arc<FileServer> {
    Arc::new(FileServer::start(settings, policy.parse().unwrap(), Some(4)).unwrap())
}

#[test]
fn every_policy_stores_and_returns_what_a_guest_writes() {
    for policy in [
        "inline",
        "pool:4",
        "inline-or-pool:3",
        "threshold:3",
        "adaptive",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let server = server(settings(folder.path()), policy);
        let mut guest = Guest::of(&server);
        let file = guest.create("data").unwrap();
        let mut expected = vec![0; 1024 * 4096];
        for round in 0..16u64 {
            // A batch of writes in any order, then one of reads.
            let offset = |nth: u64| (round * 64 + nth * 37 % 64) * 4096;
            for nth in 0..64 {
                guest.puts_write(file, offset(nth), &block(round * 64 + nth));
                let at = offset(nth) as usize;
                expected[at..at + 4096].copy_from_slice(&block(round * 64 + nth));
            }
            guest.kick(1);
            for (slot, length) in guest.waits(1, 64) {
                let written = guest.reply(slot, length).unwrap();
                assert_eq!(u64_at(&written, 0), 4096, "{policy}");
            }
            let slots: Vec<u16> = (0..64)
                .map(|nth| guest.puts_read(file, offset(nth), 4096))
                .collect();
            guest.kick(1);
            for (slot, length) in guest.waits(1, 64) {
                let nth = slots.iter().position(|own| *own == slot).unwrap() as u64;
                let read = guest.reply(slot, length).unwrap();
                assert!(read == block(round * 64 + nth), "{policy}");
            }
        }
        assert!(std::fs::read(folder.path().join("data")).unwrap() == expected);
        assert_eq!(guest.asks(DESTROY, 0, &[], 0), Ok(vec![]));
        guest.leaves().unwrap();
        assert_eq!(counted(&server, "READ")["bytes"], 1024 * 4096);
        let written = counted(&server, "WRITE");
        assert_eq!(written["count"], 1024);
        let inline = written["inline"].as_u64().unwrap();
        match policy {
            "inline" => assert_eq!(inline, 1024),
            "pool:4" => assert_eq!(inline, 0),
            _ => {}
        }
    }
}

#[test]
fn nothing_outside_of_the_folder_is_reached() {
    let home = tempfile::tempdir().unwrap();
    let shared = home.path().join("shared");
    std::fs::create_dir_all(shared.join("below")).unwrap();
    std::fs::write(home.path().join("secret"), "x").unwrap();
    std::os::unix::fs::symlink("../secret", shared.join("link")).unwrap();
    std::os::unix::fs::symlink("/", shared.join("root")).unwrap();
    let mut guest = Guest::of(&server(settings(&shared), "adaptive"));
    let below = guest.lookup(ROOT, "below").unwrap();
    for name in [
        "..",
        ".",
        "../secret",
        "below/../../secret",
        "/etc/passwd",
        "",
    ] {
        assert_eq!(guest.lookup(ROOT, name), Err(Errno::INVAL), "{name}");
        assert_eq!(guest.lookup(below, name), Err(Errno::INVAL), "{name}");
        let unlinked = guest.asks(UNLINK, below, &[name.as_bytes(), b"\0"].concat(), 0);
        assert_eq!(unlinked, Err(Errno::INVAL), "{name}");
    }
    assert_eq!(guest.create("../new"), Err(Errno::INVAL));
    // A link is a separate object: the client follows it, in its own tree.
    let link = guest.lookup(ROOT, "link").unwrap();
    let root = guest.lookup(ROOT, "root").unwrap();
    for node in [link, root] {
        assert!(guest.asks(OPEN, node, &[0; 8], 16).is_err());
        assert_eq!(guest.lookup(node, "secret"), Err(Errno::NOTDIR));
    }
    let mut renamed = below.to_ne_bytes().to_vec();
    renamed.extend(b"link\0../../moved\0");
    assert_eq!(guest.asks(RENAME, ROOT, &renamed, 0), Err(Errno::INVAL));
    // Nodes and handles that the server never gave out.
    assert_eq!(guest.asks(GETATTR, 77, &[0; 16], 104), Err(Errno::BADF));
    let slot = guest.puts_read((below, 99), 0, 4096);
    guest.kick(1);
    let replies = guest.waits(1, 1);
    assert_eq!(guest.reply(slot, replies[0].1), Err(Errno::BADF));
    let target = [b"made\0".as_slice(), b"../../secret\0"].concat();
    guest.asks(SYMLINK, ROOT, &target, 128).unwrap();
    guest.leaves().unwrap();
    let names = |path: &Path| std::fs::read_dir(path).unwrap().count();
    assert_eq!((names(home.path()), names(&shared)), (2, 4));
    assert_eq!(std::fs::read(home.path().join("secret")).unwrap(), b"x");
}

#[test]
fn a_server_that_only_reads_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), block(3)).unwrap();
    let settings = Settings {
        read_only: true,
        ..settings(folder.path())
    };
    let mut guest = Guest::of(&server(settings, "pool:2"));
    let node = guest.lookup(ROOT, "file").unwrap();
    assert_eq!(guest.create("new"), Err(Errno::ROFS));
    let made = [&[0; 8][..], b"new\0"].concat();
    assert_eq!(guest.asks(MKDIR, ROOT, &made, 128), Err(Errno::ROFS));
    for flags in [1u32, 2, 0o1000, 0o100] {
        let opened = [flags.to_ne_bytes(), [0; 4]].concat();
        assert_eq!(guest.asks(OPEN, node, &opened, 16), Err(Errno::ROFS));
    }
    let opened = guest.asks(OPEN, node, &[0; 8], 16).unwrap();
    let handle = u64_at(&opened, 0);
    let mut body = io_body(handle, 0, 4096);
    body[32..36].fill(0);
    assert!(guest.asks(READ, node, &body, 4096).unwrap() == block(3));
    let slot = guest.puts_write((node, handle), 0, &block(4));
    guest.kick(1);
    let replies = guest.waits(1, 1);
    assert_eq!(guest.reply(slot, replies[0].1), Err(Errno::ROFS));
    guest.leaves().unwrap();
    assert!(std::fs::read(folder.path().join("file")).unwrap() == block(3));
}

#[test]
fn a_ring_is_stopped_and_memory_exchanged_only_after_all_replies() {
    for (policy, flags) in [
        ("pool:4", OFlags::RDWR),
        ("adaptive", OFlags::RDWR | OFlags::DIRECT),
    ] {
        stops_and_exchanges(policy, flags);
    }
}

fn stops_and_exchanges(policy: &str, flags: OFlags) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("data"), "").unwrap();
    let mut guest = Guest::of(&server(settings(folder.path()), policy));
    let Ok(file) = guest.open("data", flags) else {
        return skip("the file system of temporary files has no direct I/O");
    };
    for round in 0..20u64 {
        for nth in 0..32 {
            guest.puts_write(file, nth * 4096, &block(round));
        }
        guest.kick(1);
        // Requests already taken are answered before this returns.
        guest.share();
        for (slot, length) in guest.waits(1, 32) {
            assert_eq!(u64_at(&guest.reply(slot, length).unwrap(), 0), 4096);
        }
        for nth in 0..32 {
            guest.puts_read(file, nth * 4096, 4096);
        }
        guest.kick(1);
        let base = guest.front.get_vring_base(1).unwrap();
        // Each request that was taken was answered, and no other one.
        assert_eq!(guest.used(1), base as u16);
        let left = guest.rings[1].available.wrapping_sub(base as u16);
        // It continues where it stopped.
        guest.restarts(1, base as u16);
        assert!(left <= 32);
        for (slot, length) in guest.waits(1, 32) {
            assert!(guest.reply(slot, length).unwrap() == block(round));
        }
    }
    guest.leaves().unwrap();
}

#[test]
fn chains_that_break_the_rules_end_in_errors_and_the_server_lives() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(settings(folder.path()), "adaptive");
    let mut guest = Guest::of(&server);
    let place = guest.place(1, 0);
    let reply = place + SLOT / 2;
    let slots: Vec<u16> = (0..6)
        .map(|_| guest.rings[1].free.pop_front().unwrap())
        .collect();
    let statfs = message(STATFS, 9, ROOT, &[]);
    guest.write(place, &statfs);
    let outside = BASE + MEMORY - 8;
    let chains: [&[(u64, u32, bool)]; 6] = [
        // Too short for a header; no room for a reply; no request at all.
        &[(place, 39, false), (reply, 96, true)],
        &[(place, 40, false)],
        &[(reply, 96, true)],
        // Past the end of memory, before and in the reply.
        &[(outside, 40, false), (reply, 96, true)],
        &[(place, 40, false), (outside, 96, true)],
        // Readable parts after writable ones.
        &[(reply, 96, true), (place, 40, false)],
    ];
    for (slot, chain) in slots.iter().zip(chains) {
        guest.offer(1, *slot, chain);
    }
    guest.kick(1);
    let mut replies = guest.waits(1, 6);
    replies.sort_unstable();
    assert!(
        replies.iter().all(|(_, length)| *length == 0),
        "{replies:?}"
    );
    guest.rings[1].free.extend(&slots);
    // An unknown opcode, and a message that says that it is longer than it is.
    assert_eq!(guest.asks(4000, ROOT, &[], 0), Err(Errno::NOSYS));
    let mut long = message(GETATTR, 1, ROOT, &[0; 16]);
    long[0] = 200;
    let slot = guest.rings[1].free.pop_front().unwrap();
    let place = guest.place(1, slot);
    guest.write(place, &long);
    guest.offer(
        1,
        slot,
        &[(place, 56, false), (place + SLOT / 2, 120, true)],
    );
    guest.kick(1);
    let replies = guest.waits(1, 1);
    assert_eq!(guest.reply(slot, replies[0].1), Err(Errno::INVAL));
    // No reply follows a forgotten node.
    let slot = guest.puts(FORGET, 77, &1u64.to_ne_bytes(), 0);
    guest.kick(1);
    assert_eq!(guest.waits(1, 1), [(slot, 0)]);
    guest.rings[1].free.push_back(slot);
    assert_eq!(guest.asks(STATFS, ROOT, &[], 80).unwrap().len(), 80);
    // A head beyond the descriptor table breaks only this ring: another guest is served.
    let error = EventFd::new(0).unwrap();
    guest.front.set_vring_err(1, &error).unwrap();
    let failed = events(error);
    guest.offer_head(1, u16::MAX);
    guest.kick(1);
    failed.recv_timeout(END).unwrap();
    guest.leaves().unwrap();
    let mut guest = Guest::of(&server);
    assert_eq!(guest.asks(STATFS, ROOT, &[], 80).unwrap().len(), 80);
    guest.leaves().unwrap();
}

/// The length of the reply to a STATFS whose chain is an indirect table of this many descriptors: one for the request,
/// which the others follow. The last one says that `more` follow.
fn indirect(guest: &mut Guest, links: u16, more: bool) -> u32 {
    let slot = guest.rings[1].free.pop_front().unwrap();
    let (place, table) = (guest.place(1, slot), guest.place(1, SIZE - 1));
    guest.write(place, &message(STATFS, 9, ROOT, &[]));
    for link in 0..links {
        let (address, length, flags) = match link {
            0 => (place, 40u32, 1),
            _ => (place + SLOT / 2, 96, 3),
        };
        let last = link + 1 == links && !more;
        let flags = if last { flags & !1 } else { flags };
        let words = [flags, link + 1].map(u16::to_le_bytes).concat();
        let bytes = [&address.to_le_bytes()[..], &length.to_le_bytes(), &words].concat();
        guest.write(table + 16 * u64::from(link), &bytes);
    }
    let size = 16 * u32::from(links);
    let start = guest.rings[1].start + u64::from(slot * EACH) * 16;
    let bytes = [&table.to_le_bytes()[..], &size.to_le_bytes(), &[4, 0, 0, 0]].concat();
    guest.write(start, &bytes);
    guest.offer_head(1, slot * EACH);
    guest.kick(1);
    let replies = guest.waits(1, 1);
    assert_eq!(replies[0].0, slot);
    guest.rings[1].free.push_back(slot);
    replies[0].1
}

#[test]
fn a_chain_has_an_end_and_no_more_parts_than_a_driver_needs() {
    let folder = tempfile::tempdir().unwrap();
    let mut guest = Guest::of(&server(settings(folder.path()), "adaptive"));
    for (links, more, length) in [
        (3, false, 96),
        (512, false, 96),
        (513, false, 0),
        (4000, false, 0),
        // It leaves its table.
        (3, true, 0),
        (512, true, 0),
    ] {
        assert_eq!(indirect(&mut guest, links, more), length, "{links} {more}");
    }
    guest.leaves().unwrap();
}

#[test]
fn random_messages_are_answered_or_refused() {
    use rand::{RngExt, SeedableRng};
    let folder = tempfile::tempdir().unwrap();
    let mut guest = Guest::of(&server(settings(folder.path()), "adaptive"));
    let seed = 20_261_124;
    let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed);
    for _ in 0..3000 {
        let kind = random.random_range(1..55);
        if kind == INIT {
            continue;
        }
        let length = random.random_range(0..120);
        let mut body: Vec<u8> = (0..length)
            .map(|_| match random.random_range(0..4) {
                0 => random.random(),
                1 => b'/',
                _ => 0,
            })
            .collect();
        if length > 20 && random.random() {
            body[16..20].copy_from_slice(&random.random_range(0..4096u32).to_ne_bytes());
        }
        let room = random.random_range(0..4096);
        let slot = guest.puts(kind, random.random_range(0..4), &body, room);
        guest.kick(1);
        let replies = guest.waits(1, 1);
        assert_eq!(replies[0].0, slot, "seed {seed}");
        guest.rings[1].free.push_back(slot);
    }
    // One of them may have been the end of the file system.
    guest.initialise();
    assert_eq!(guest.asks(STATFS, ROOT, &[], 80).unwrap().len(), 80);
    guest.leaves().unwrap();
}

/// Descriptors of this process that lead into a folder.
fn descriptors(folder: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.starts_with(folder)).count()
}

#[test]
fn what_is_released_and_forgotten_has_no_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    let mut guest = Guest::of(&server(settings(folder.path()), "adaptive"));
    // That of the folder itself.
    assert_eq!(descriptors(folder.path()), 1);
    let files: Vec<(u64, u64)> = (0..50)
        .map(|nth| guest.create(&format!("{nth}")).unwrap())
        .collect();
    for file in &files {
        guest.puts_write(*file, 0, &block(file.0));
    }
    guest.kick(1);
    for (slot, length) in guest.waits(1, files.len()) {
        guest.reply(slot, length).unwrap();
    }
    assert_eq!(descriptors(folder.path()), 1 + 3 * files.len());
    for (node, handle) in &files {
        let mut released = handle.to_ne_bytes().to_vec();
        released.resize(24, 0);
        guest.asks(RELEASE, *node, &released, 0).unwrap();
        // It is known no more.
        let slot = guest.puts_read((*node, *handle), 0, 4096);
        guest.kick(1);
        let replies = guest.waits(1, 1);
        assert_eq!(guest.reply(slot, replies[0].1), Err(Errno::BADF));
    }
    assert_eq!(descriptors(folder.path()), 1 + files.len());
    for (node, _) in &files {
        let slot = guest.puts(FORGET, *node, &1u64.to_ne_bytes(), 0);
        guest.kick(1);
        assert_eq!(guest.waits(1, 1), [(slot, 0)]);
        guest.rings[1].free.push_back(slot);
    }
    assert_eq!(descriptors(folder.path()), 1);
    // A handle belongs to one node.
    let (first, second) = (guest.create("a").unwrap(), guest.create("b").unwrap());
    for file in [(second.0, first.1), (first.0, first.1), (second.0, first.1)] {
        let slot = guest.puts_read(file, 0, 4096);
        guest.kick(1);
        let replies = guest.waits(1, 1);
        let expected = match file == first {
            true => Ok(vec![]),
            false => Err(Errno::BADF),
        };
        assert_eq!(guest.reply(slot, replies[0].1), expected);
    }
    guest.leaves().unwrap();
    assert_eq!(descriptors(folder.path()), 0);
}

#[test]
fn a_file_that_is_opened_to_append_is_appended_to_unless_the_client_cached_the_data() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "0123").unwrap();
    let mut guest = Guest::of(&server(settings(folder.path()), "inline"));
    let flags = OFlags::RDWR | OFlags::APPEND;
    let (node, handle) = guest.open("file", flags).unwrap();
    for (how, expected) in [(0u32, &b"0123xy"[..]), (1, b"xy23xy")] {
        let mut body = io_body(handle, 0, 2);
        body[20..24].copy_from_slice(&how.to_ne_bytes());
        body[32..36].copy_from_slice(&flags.bits().to_ne_bytes());
        body.extend(b"xy");
        guest.asks(WRITE, node, &body, 8).unwrap();
        assert_eq!(std::fs::read(folder.path().join("file")).unwrap(), expected);
    }
    guest.leaves().unwrap();
}

#[test]
fn a_folder_that_is_exchanged_for_a_link_again_and_again_leads_nowhere() {
    let home = tempfile::tempdir().unwrap();
    let (shared, outside) = (home.path().join("shared"), home.path().join("outside"));
    std::fs::create_dir_all(shared.join("a")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "x").unwrap();
    symlink(&outside, shared.join("b")).unwrap();
    let ended = Arc::<AtomicBool>::default();
    let exchanges = {
        let (ended, shared) = (Arc::clone(&ended), shared.clone());
        thread::spawn(move || {
            let mut count = 0u64;
            while !ended.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                let (a, b) = (shared.join("a"), shared.join("b"));
                rustix::fs::renameat_with(rustix::fs::CWD, a, rustix::fs::CWD, b, flags).unwrap();
                count += 1;
            }
            count
        })
    };
    let mut guest = Guest::of(&server(settings(&shared), "adaptive"));
    let made = |name: &str| [&0o755u32.to_ne_bytes()[..], &[0; 4], name.as_bytes(), b"\0"].concat();
    let mut folders = 0;
    for nth in 0..1000 {
        let node = guest.lookup(ROOT, "a").unwrap();
        assert!(guest.lookup(node, "secret").is_err());
        let created = guest.asks(MKDIR, node, &made(&nth.to_string()), 128);
        match created {
            Ok(_) => folders += 1,
            Err(error) => assert_eq!(error, Errno::NOTDIR),
        }
        let removed = guest.asks(UNLINK, node, b"secret\0", 0);
        assert!(removed.is_err());
    }
    ended.store(true, Ordering::Relaxed);
    assert!(exchanges.join().unwrap() > 0);
    guest.leaves().unwrap();
    let names = |path: &Path| std::fs::read_dir(path).unwrap().count();
    assert_eq!(names(&outside), 1);
    let own = ["a", "b"].map(|name| shared.join(name));
    let own = own.iter().find(|path| !path.is_symlink()).unwrap();
    assert_eq!(names(own), folders);
}

/// The counts of an opcode in a server's statistics.
fn counted(server: &FileServer, name: &str) -> serde_json::Value {
    let stats: serde_json::Value = serde_json::from_str(&server.stats()).unwrap();
    let opcodes = stats["opcodes"].as_array().unwrap();
    let found = opcodes.iter().find(|of| of["opcode"] == name);
    found.unwrap().clone()
}

#[test]
fn direct_io_is_transferred_by_the_kernel_with_the_errors_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, "").unwrap();
    let server = server(settings(folder.path()), "adaptive");
    let mut guest = Guest::of(&server);
    let Ok(file) = guest.open("data", OFlags::RDWR | OFlags::DIRECT) else {
        return skip("the file system of temporary files has no direct I/O");
    };
    if iodyno_sys::Transfers::<File, ()>::new(1).is_err() {
        return skip("there is no io_uring");
    }
    for nth in 0..32 {
        guest.puts_write(file, nth * PAGE, &block(nth));
    }
    guest.kick(1);
    for (slot, length) in guest.waits(1, 32) {
        assert_eq!(u64_at(&guest.reply(slot, length).unwrap(), 0), PAGE);
    }
    // The file ends within a page.
    let end = 31 * PAGE + 100;
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(end)
        .unwrap();
    let slots: Vec<u16> = (0..33)
        .map(|nth| guest.puts_read(file, nth * PAGE, 4096))
        .collect();
    guest.kick(1);
    for (slot, length) in guest.waits(1, slots.len()) {
        let nth = slots.iter().position(|own| *own == slot).unwrap() as u64;
        let expected = match nth {
            0..31 => block(nth),
            31 => block(nth)[..100].to_vec(),
            _ => vec![],
        };
        assert!(guest.reply(slot, length).unwrap() == expected, "{nth}");
    }
    for kind in ["READ", "WRITE"] {
        assert!(counted(&server, kind)["transferred"].as_u64() > Some(0));
    }
    // A misaligned request has the error of the file, not a detour by the page cache; alone and with others.
    let own = (File::options().read(true))
        .custom_flags(OFlags::DIRECT.bits() as i32)
        .open(&path)
        .unwrap();
    let mut buffer = vec![0; 2 * PAGE as usize];
    let aligned = buffer.as_ptr().align_offset(PAGE as usize);
    let alike = rustix::io::pread(&own, &mut buffer[aligned..aligned + 1000], 1);
    for count in [1, 4] {
        for _ in 0..count {
            guest.puts_read(file, 1, 1000);
        }
        guest.kick(1);
        for (slot, length) in guest.waits(1, count) {
            let read = guest.reply(slot, length).map(|data| data.len());
            assert_eq!(read, alike);
        }
    }
    guest.leaves().unwrap();
}

#[test]
fn writes_end_privileges_where_the_client_asks_for_it() {
    if !root() {
        return;
    }
    const KILL_SUIDGID: u32 = 1 << 2;
    let folder = tempfile::tempdir().unwrap();
    for (policy, how, mode) in [
        ("inline", KILL_SUIDGID, 0o755),
        ("pool:2", KILL_SUIDGID, 0o755),
        ("inline", 0, 0o6755),
    ] {
        let path = folder.path().join("data");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o6755)).unwrap();
        let mut guest = Guest::of(&server(settings(folder.path()), policy));
        let (node, handle) = guest.open("data", OFlags::RDWR).unwrap();
        let mut body = io_body(handle, 0, 4);
        body[20..24].copy_from_slice(&how.to_ne_bytes());
        body.extend(b"text");
        assert_eq!(u64_at(&guest.asks(WRITE, node, &body, 8).unwrap(), 0), 4);
        let found = std::fs::metadata(&path).unwrap().mode() & 0o7777;
        assert_eq!(found, mode, "{policy}");
        guest.leaves().unwrap();
    }
}

#[test]
fn a_file_that_another_user_empties_loses_its_privileges() {
    if !root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let mut guest = Guest::of(&server(settings(folder.path()), "inline"));
    std::fs::write(&path, "").unwrap();
    let node = guest.lookup(ROOT, "data").unwrap();
    for (user, flags, mode, length) in [
        (0u32, OFlags::RDWR | OFlags::TRUNC, 0o6755, 0),
        (1234, OFlags::RDWR, 0o6755, 4),
        (1234, OFlags::RDWR | OFlags::TRUNC, 0o755, 0),
        // The right to keep them was there again.
        (0, OFlags::RDWR | OFlags::TRUNC, 0o6755, 0),
    ] {
        std::fs::write(&path, "text").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o6755)).unwrap();
        let body = [flags.bits().to_ne_bytes(), [0; 4]].concat();
        let slot = guest.puts(OPEN, node, &body, 16);
        guest.write(guest.place(1, slot) + 24, &user.to_ne_bytes());
        guest.kick(1);
        let replies = guest.waits(1, 1);
        guest.reply(slot, replies[0].1).unwrap();
        let found = std::fs::metadata(&path).unwrap();
        let expected = (mode, length);
        assert_eq!((found.mode() & 0o7777, found.len()), expected, "{user}");
    }
    guest.leaves().unwrap();
}

#[test]
fn what_a_clients_cache_collected_is_written_by_a_handle_with_direct_io() {
    const CACHED: u32 = 1;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    for policy in ["inline", "pool:2", "adaptive"] {
        std::fs::write(&path, "").unwrap();
        let mut guest = Guest::of(&server(settings(folder.path()), policy));
        let Ok((node, handle)) = guest.open("data", OFlags::RDWR | OFlags::DIRECT) else {
            return skip("the file system of temporary files has no direct I/O");
        };
        // The last page ends with the file.
        let length = |nth: u64| if nth == 15 { 1000 } else { PAGE };
        // Alone, and with others.
        for (how, end) in [(0, 1), (CACHED, 1), (CACHED, 16), (0, 1)] {
            for nth in 16 - end..16 {
                let mut body = io_body(handle, nth * PAGE, length(nth) as u32);
                body[20..24].copy_from_slice(&how.to_ne_bytes());
                body.extend(&block(nth)[..length(nth) as usize]);
                guest.puts(WRITE, node, &body, 8);
            }
            guest.kick(1);
            for (slot, replied) in guest.waits(1, end as usize) {
                let written = guest.reply(slot, replied).map(|data| u64_at(&data, 0));
                match how {
                    CACHED => assert!(matches!(written, Ok(PAGE | 1000)), "{written:?}"),
                    _ => assert_eq!(written, Err(Errno::INVAL), "{policy}"),
                }
            }
        }
        let data = std::fs::read(&path).unwrap();
        let pages = data.chunks(PAGE as usize).zip(0..);
        assert!(pages.clone().count() == 16 && data.len() as u64 == 15 * PAGE + 1000);
        for (page, nth) in pages {
            assert!(
                *page == block(nth)[..length(nth) as usize],
                "{policy} {nth}"
            );
        }
        guest.leaves().unwrap();
    }
}

#[test]
fn transferred_writes_go_to_the_end_and_end_privileges_as_others_do() {
    if !root() {
        return;
    }
    const KILL_SUIDGID: u32 = 1 << 2;
    let folder = tempfile::tempdir().unwrap();
    for (name, more, how, mode, length) in [
        ("kept", OFlags::empty(), 0, 0o6755, 8 * PAGE),
        ("ended", OFlags::empty(), KILL_SUIDGID, 0o755, 8 * PAGE),
        ("appended", OFlags::APPEND, 0, 0o6755, 40 * PAGE),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, vec![0; 8 * PAGE as usize]).unwrap();
        let permissions = std::fs::Permissions::from_mode(0o6755);
        std::fs::set_permissions(&path, permissions).unwrap();
        let server = server(settings(folder.path()), "adaptive");
        let mut guest = Guest::of(&server);
        let flags = OFlags::RDWR | OFlags::DIRECT | more;
        let Ok((node, handle)) = guest.open(name, flags) else {
            return skip("the file system of temporary files has no direct I/O");
        };
        if iodyno_sys::Transfers::<File, ()>::new(1).is_err() {
            return skip("there is no io_uring");
        }
        for nth in 0..32 {
            let mut body = io_body(handle, nth % 8 * PAGE, PAGE as u32);
            body[20..24].copy_from_slice(&how.to_ne_bytes());
            body[32..36].copy_from_slice(&flags.bits().to_ne_bytes());
            body.extend(block(1));
            guest.puts(WRITE, node, &body, 8);
        }
        guest.kick(1);
        for (slot, length) in guest.waits(1, 32) {
            assert_eq!(u64_at(&guest.reply(slot, length).unwrap(), 0), PAGE);
        }
        assert!(counted(&server, "WRITE")["transferred"].as_u64() > Some(0));
        let found = std::fs::metadata(&path).unwrap();
        assert_eq!(found.mode() & 0o7777, mode, "{name}");
        assert_eq!(found.len(), length, "{name}");
        let data = std::fs::read(&path).unwrap();
        let written = data.chunks(PAGE as usize).filter(|page| **page == block(1));
        assert_eq!(
            written.count() as u64,
            if more.is_empty() { 8 } else { 32 },
            "{name}"
        );
        guest.leaves().unwrap();
    }
}

#[test]
fn a_queue_does_not_wait_for_the_writes_that_it_has_in_flight() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("data"), vec![0; 32 * PAGE as usize]).unwrap();
    let mut guest = Guest::of(&server(settings(folder.path()), "adaptive"));
    let Ok(file) = guest.open("data", OFlags::RDWR | OFlags::DIRECT) else {
        return skip("the file system of temporary files has no direct I/O");
    };
    const SIZE_IS_SET: u32 = 1 << 3;
    let truncated = |pages: u64| {
        let mut body = vec![0; 88];
        body[..4].copy_from_slice(&SIZE_IS_SET.to_ne_bytes());
        body[16..24].copy_from_slice(&(pages * PAGE).to_ne_bytes());
        body
    };
    // One at a time, the queue works them itself, and learns that they are fast.
    for nth in 0..32 {
        guest
            .asks(SETATTR, file.0, &truncated(31 + nth % 2), 104)
            .unwrap();
    }
    for round in 0..50 {
        for nth in 0..16 {
            guest.puts_write(file, nth * PAGE, &block(nth));
        }
        // This one waits in the kernel until no write is in flight.
        guest.puts(SETATTR, file.0, &truncated(31 + round % 2), 104);
        for nth in 0..8 {
            guest.puts_read(file, nth * PAGE, 4096);
        }
        guest.kick(1);
        for (slot, length) in guest.waits(1, 25) {
            guest.reply(slot, length).unwrap();
        }
    }
    guest.leaves().unwrap();
}

#[test]
fn reads_that_the_page_cache_has_are_worked_by_the_queue_and_the_rest_by_the_pool() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let data: Vec<u8> = (0..256).flat_map(block).collect();
    std::fs::write(&path, &data).unwrap();
    let own = File::open(&path).unwrap();
    own.sync_all().unwrap();
    let server = server(settings(folder.path()), "adaptive");
    let mut guest = Guest::of(&server);
    let file = guest.open("data", OFlags::RDONLY).unwrap();
    let mut reads = |lengths: &[u32]| {
        let mut at = 0;
        let mut asked = Vec::new();
        for length in lengths {
            asked.push((
                guest.puts_read(file, at, *length),
                at as usize,
                *length as usize,
            ));
            at += u64::from(*length);
        }
        guest.kick(1);
        for (slot, length) in guest.waits(1, asked.len()) {
            let (_, at, wanted) = asked.iter().find(|(own, ..)| *own == slot).unwrap();
            assert!(guest.reply(slot, length).unwrap() == data[*at..at + wanted]);
        }
    };
    reads(&[4096; 32]);
    let mut buffer = [0; 4096];
    let flags = rustix::io::ReadWriteFlags::NOWAIT;
    let mut there = [std::io::IoSliceMut::new(&mut buffer)];
    match rustix::io::preadv2(&own, &mut there, 0, flags) {
        Ok(4096) => assert!(counted(&server, "READ")["inline"].as_u64() > Some(0)),
        Ok(_) => {}
        Err(error) => skip(format!("no reads without waiting: {error}")),
    }
    // Half of each request is no longer in the cache.
    for at in 0..16 {
        let (at, half) = (
            at * (56 << 10) + (28 << 10),
            std::num::NonZero::new(28 << 10),
        );
        rustix::fs::fadvise(&own, at, half, rustix::fs::Advice::DontNeed).unwrap();
    }
    reads(&[56 << 10; 16]);
    guest.leaves().unwrap();
}

/// Runs a test with a guest of each policy, its open file `hangs`, and the reads of it that wait for an answer. The
/// folder has a file `data` too.
fn with_storage_that_hangs(
    policies: &[&str],
    test: impl Fn(&Arc<FileServer>, &mut Guest, (u64, u64), &FileThatHangs),
) {
    if !can_mount_fuse() {
        return;
    }
    for policy in policies {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("data"), block(1)).unwrap();
        let storage = FileThatHangs::new(&folder.path().join("hangs"));
        let server = server(settings(folder.path()), policy);
        let mut guest = Guest::of(&server);
        let file = guest.open("hangs", OFlags::RDONLY).unwrap();
        test(&server, &mut guest, file, &storage);
        guest.leaves().unwrap();
        storage.end();
    }
}

#[test]
fn requests_beside_one_that_hangs_are_answered() {
    with_storage_that_hangs(&["pool:4", "adaptive"], |_, guest, file, storage| {
        let data = guest.open("data", OFlags::RDONLY).unwrap();
        for _ in 0..3 {
            let hangs = guest.puts_read(file, 0, 4096);
            for _ in 0..8 {
                guest.puts_read(data, 0, 4096);
            }
            guest.puts(GETATTR, data.0, &[0; 16], 104);
            guest.kick(1);
            let read = storage.hung();
            for (slot, length) in guest.waits(1, 9) {
                assert_ne!(slot, hangs);
                guest.reply(slot, length).unwrap();
            }
            read.answer_with(0, &block(2));
            let (slot, length) = guest.waits(1, 1)[0];
            assert_eq!(slot, hangs);
            assert!(guest.reply(slot, length).unwrap() == block(2));
        }
    });
}

#[test]
fn a_request_that_the_policy_works_inline_and_that_hangs_holds_its_queue_until_it_ends() {
    with_storage_that_hangs(&["inline"], |_, guest, file, storage| {
        let hangs = guest.puts_read(file, 0, 4096);
        guest.kick(1);
        // It is in the kernel now.
        let read = storage.hung();
        let behind: Vec<u16> = (0..4)
            .map(|_| guest.puts(GETATTR, ROOT, &[0; 16], 104))
            .collect();
        guest.kick(1);
        // The queue of requests that must not wait.
        let other = guest.puts_into(0, GETATTR, ROOT, &[0; 16], 104);
        guest.kick(0);
        assert_eq!(guest.waits(0, 1), [(other, 120)]);
        read.answer_with(0, &block(2));
        let mut answered: Vec<u16> = (guest.waits(1, 5).iter())
            .map(|(slot, length)| {
                guest.reply(*slot, *length).unwrap();
                *slot
            })
            .collect();
        answered.sort_unstable();
        assert_eq!(answered, [&[hangs], &behind[..]].concat());
    });
}

/// How many substitute threads were started.
fn substitutes(server: &FileServer) -> u64 {
    let stats: serde_json::Value = serde_json::from_str(&server.stats()).unwrap();
    stats["substitutes"].as_u64().unwrap()
}

#[test]
fn another_thread_goes_on_with_a_queue_that_a_single_request_holds() {
    with_storage_that_hangs(&["adaptive"], |server, guest, file, storage| {
        let data = guest.open("data", OFlags::RDONLY).unwrap();
        // Reads of other sizes are not known to be slow.
        for size in [4096, 8192, 48 << 10] {
            for _ in 0..32 {
                guest.asks(GETATTR, ROOT, &[0; 16], 104).unwrap();
            }
            let hangs = guest.puts_read(file, 0, size);
            guest.kick(1);
            let read = storage.hung();
            for _ in 0..3 {
                for _ in 0..4 {
                    guest.puts(GETATTR, ROOT, &[0; 16], 104);
                    guest.puts_read(data, 0, 4096);
                }
                guest.kick(1);
                for (slot, length) in guest.waits(1, 8) {
                    assert_ne!(slot, hangs);
                    guest.reply(slot, length).unwrap();
                }
            }
            let expected = vec![7; size as usize];
            read.answer_with(0, &expected);
            let (slot, length) = guest.waits(1, 1)[0];
            assert_eq!(slot, hangs);
            assert!(guest.reply(slot, length).unwrap() == expected);
        }
        // The first one at least was alone.
        assert!(eventually(|| substitutes(server) >= 1));
    });
}

#[test]
fn open_files_are_used_while_the_close_of_another_one_hangs() {
    if !can_mount_fuse() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("data"), block(1)).unwrap();
    let storage = FileThatHangs::with(&folder.path().join("hangs"), true);
    let mut guest = Guest::of(&server(settings(folder.path()), "pool:4"));
    let file = guest.open("hangs", OFlags::RDONLY).unwrap();
    let mut body = file.1.to_ne_bytes().to_vec();
    body.resize(24, 0);
    let hangs = guest.puts(RELEASE, file.0, &body, 0);
    guest.kick(1);
    let close = storage.hung();
    let data = guest.open("data", OFlags::RDONLY).unwrap();
    let slot = guest.puts_read(data, 0, 4096);
    guest.kick(1);
    let (found, length) = guest.waits(1, 1)[0];
    assert_eq!(found, slot);
    assert!(guest.reply(slot, length).unwrap() == block(1));
    close.answer_with(0, &[]);
    assert_eq!(guest.waits(1, 1)[0].0, hangs);
    guest.leaves().unwrap();
    storage.end();
}

#[test]
fn transfers_that_hang_hold_no_queue_and_are_answered_by_the_thread_that_started_them() {
    with_storage_that_hangs(&["adaptive"], |_, guest, _, storage| {
        let direct = OFlags::RDONLY | OFlags::DIRECT;
        let file = guest.open("hangs", direct).unwrap();
        for _ in 0..3 {
            let mut reads: Vec<u16> = (0..4).map(|_| guest.puts_read(file, 0, 4096)).collect();
            guest.kick(1);
            // The kernel may wait for the first one before it starts the next ones, although it should not.
            let first = storage.hung();
            for _ in 0..3 {
                guest.asks(GETATTR, ROOT, &[0; 16], 104).unwrap();
            }
            first.answer_with(0, &block(2));
            for _ in 1..4 {
                storage.hung().answer_with(0, &block(2));
            }
            let mut answered = Vec::new();
            for (slot, length) in guest.waits(1, 4) {
                assert!(guest.reply(slot, length).unwrap() == block(2));
                answered.push(slot);
            }
            answered.sort_unstable();
            reads.sort_unstable();
            assert_eq!(answered, reads);
        }
    });
}

/// Puts a hanging read into the ring whose thread processes all its requests, followed by others in the same batch.
fn holds_first_ring(guest: &mut Guest, file: (u64, u64), others: usize) -> (u16, Vec<u16>) {
    let body = io_body(file.1, 0, 4096);
    let hangs = guest.puts_into(0, READ, file.0, &body, 4096);
    let others = (0..others).map(|_| guest.puts_into(0, GETATTR, ROOT, &[0; 16], 104));
    let others = others.collect();
    guest.kick(0);
    (hangs, others)
}

/// The slots of this many replies of the first ring, in order.
fn first_ring_replies(guest: &mut Guest, count: usize) -> Vec<u16> {
    let replies = guest.waits(0, count);
    let mut slots = Vec::new();
    for (slot, length) in replies {
        let reply = guest.reply_of(0, slot, length).unwrap();
        assert!(reply.len() == 104 || reply == block(2));
        slots.push(slot);
    }
    slots.sort_unstable();
    slots
}

#[test]
fn as_many_requests_as_the_pool_has_threads_can_hang_before_they_hold_a_queue() {
    with_storage_that_hangs(&["adaptive"], |server, guest, file, storage| {
        let mut held = VecDeque::new();
        for _ in 0..4 {
            let (hangs, others) = holds_first_ring(guest, file, 3);
            let read = storage.hung();
            assert_eq!(first_ring_replies(guest, 3), others);
            held.push_back((hangs, read));
        }
        assert!(eventually(|| substitutes(server) >= 4));
        // The rest of its batch goes to the pool.
        let (fifth, others) = holds_first_ring(guest, file, 3);
        held.push_back((fifth, storage.hung()));
        assert_eq!(first_ring_replies(guest, 3), others);
        // Later requests wait until another thread has ended.
        let later = guest.puts_into(0, GETATTR, ROOT, &[0; 16], 104);
        guest.kick(0);
        let (first, read) = held.pop_front().unwrap();
        read.answer_with(0, &block(2));
        let mut expected = [first, later];
        expected.sort_unstable();
        assert_eq!(first_ring_replies(guest, 2), expected);
        assert!(eventually(|| substitutes(server) >= 5));
        let mut expected = Vec::new();
        for (slot, read) in held {
            read.answer_with(0, &block(2));
            expected.push(slot);
        }
        expected.sort_unstable();
        assert_eq!(first_ring_replies(guest, 4), expected);
    });
}

#[test]
fn a_ring_is_stopped_memory_exchanged_and_a_connection_ended_when_a_request_whose_thread_was_replaced_has_ended()
 {
    with_storage_that_hangs(&["adaptive"], |server, guest, file, storage| {
        for round in 0..2 {
            let (hangs, others) = holds_first_ring(guest, file, 2);
            let read = storage.hung();
            assert_eq!(first_ring_replies(guest, 2), others);
            assert!(eventually(|| substitutes(server) > round));
            let (asks, asked) = channel();
            let answers = thread::spawn(move || {
                asked.recv().unwrap();
                read.answer_with(0, &block(2));
            });
            asks.send(()).unwrap();
            // It is answered before this returns.
            match round {
                0 => {
                    let base = guest.front.get_vring_base(0).unwrap() as u16;
                    assert_eq!(guest.used(0), base);
                    assert_eq!(guest.rings[0].available, base);
                    guest.restarts(0, base);
                }
                _ => {
                    guest.share();
                    assert_eq!(guest.used(0), guest.rings[0].available);
                }
            }
            assert_eq!(first_ring_replies(guest, 1), [hangs]);
            answers.join().unwrap();
        }
        // The guest leaves while it hangs.
        let (hangs, others) = holds_first_ring(guest, file, 2);
        let read = storage.hung();
        assert_eq!(first_ring_replies(guest, 2), others);
        guest.socket.shutdown(Shutdown::Both).unwrap();
        read.answer_with(0, &block(3));
        guest.server.take().unwrap().join().unwrap().unwrap();
        // Its memory is no longer used.
        let data = guest.place(0, hangs) + SLOT / 2 + PAGE;
        assert!(guest.read(data, 4096) == block(3));
        *guest = Guest::of(server);
    });
}

#[test]
fn a_server_that_is_stopped_leaves_a_request_that_hangs() {
    with_storage_that_hangs(&["adaptive"], |server, guest, file, storage| {
        let (_, others) = holds_first_ring(guest, file, 2);
        let read = storage.hung();
        assert_eq!(first_ring_replies(guest, 2), others);
        guest.stopping.store(true, Ordering::Relaxed);
        guest.socket.shutdown(Shutdown::Both).unwrap();
        let left = guest.server.take().unwrap().join().unwrap().unwrap_err();
        assert!(left.to_string().contains("timed out"), "{left}");
        read.answer_with(0, &block(2));
        *guest = Guest::of(server);
    });
}

fn root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip("it needs root");
    }
    root
}

#[test]
fn roots_of_other_file_systems_are_told_of_and_their_parents_are_not_reached() {
    use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
    let home = tempfile::tempdir().unwrap();
    let shared = home.path().join("shared");
    let outside = home.path().join("outside/inner");
    for folder in [&shared.join("mounted"), &shared.join("bound"), &outside] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(home.path().join("outside/secret"), "x").unwrap();
    let mounted = [shared.join("mounted"), shared.join("bound")];
    if !root() {
        return;
    }
    let made = mount("none", &mounted[0], "tmpfs", MountFlags::empty(), None)
        .and_then(|()| mount_bind(&outside, &mounted[1]));
    let unmounted = || {
        for place in &mounted {
            let _ = unmount(place, UnmountFlags::DETACH);
        }
    };
    if made.is_err() {
        unmounted();
        skip("file systems cannot be mounted here");
        return;
    }
    for submounts in [true, false] {
        let settings = Settings {
            submounts,
            ..settings(&shared)
        };
        let mut guest = Guest::of(&server(settings, "inline"));
        let mut marked = |name: &str| {
            let entry = guest.asks(LOOKUP, ROOT, &[name.as_bytes(), b"\0"].concat(), 128);
            let entry = entry.unwrap();
            assert_eq!(guest.lookup(u64_at(&entry, 0), ".."), Err(Errno::INVAL));
            assert_eq!(guest.lookup(u64_at(&entry, 0), "secret"), Err(Errno::NOENT));
            entry[124..128] == 1u32.to_ne_bytes()
        };
        assert_eq!(marked("mounted"), submounts);
        assert_eq!(marked("bound"), submounts);
        guest.leaves().unwrap();
    }
    unmounted();
}

#[test]
fn many_files_need_no_descriptors_where_the_file_system_has_handles() {
    let folder = tempfile::tempdir().unwrap();
    for nth in 0..300 {
        std::fs::write(folder.path().join(nth.to_string()), "").unwrap();
    }
    if !root() {
        return;
    }
    for (handles, most) in [(Handles::Never, 301), (Handles::Prefer, 0)] {
        let settings = Settings {
            handles,
            ..settings(folder.path())
        };
        let mut guest = Guest::of(&server(settings, "inline"));
        for nth in 0..300 {
            guest.lookup(ROOT, &nth.to_string()).unwrap();
        }
        let found = descriptors(folder.path());
        if handles == Handles::Prefer && found == 301 {
            skip("the file system of temporary files has no file handles");
        } else {
            assert_eq!(found, most, "{handles:?}");
        }
        guest.leaves().unwrap();
    }
}

#[test]
fn no_thread_keeps_the_groups_of_a_request() {
    let folder = tempfile::tempdir().unwrap();
    if !root() {
        return;
    }
    let server = server(settings(folder.path()), "inline");
    let mut guest = Guest::of(&server);
    // A group without members: an extension of 16 bytes after the name, which is padded.
    const GROUP: u32 = 41_420;
    let flags = OFlags::RDWR | OFlags::CREATE;
    for (nth, user) in [0u32, 1234].into_iter().enumerate() {
        let words = [flags.bits(), 0o100_644, 0, 0];
        let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        body.extend([b'0' + nth as u8, 0]);
        for word in [16, 32, 1, GROUP] {
            body.extend(word.to_ne_bytes());
        }
        let mut bytes = message(CREATE, 99, ROOT, &body);
        bytes[24..28].copy_from_slice(&user.to_ne_bytes());
        let slot = guest.puts(CREATE, ROOT, &body, 144);
        let place = guest.place(1, slot);
        guest.write(place + 24, &bytes[24..28]);
        guest.kick(1);
        let replies = guest.waits(1, 1);
        guest.reply(slot, replies[0].1).unwrap();
        let owner = folder.path().join(nth.to_string()).metadata().unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&owner), user);
    }
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        // It may have ended.
        let status = std::fs::read_to_string(task.unwrap().path().join("status"));
        let status = status.unwrap_or_default();
        let groups = status.lines().find(|line| line.starts_with("Groups:"));
        assert!(!groups.unwrap_or_default().contains(&GROUP.to_string()));
    }
    guest.leaves().unwrap();
}
