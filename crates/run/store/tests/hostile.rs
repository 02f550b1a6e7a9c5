//! Stores that cannot be written, files that are not stores, full disks.

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::*;
use iodyno_model::*;
use iodyno_store::{SqliteStore, Store, StoreError};

/// A separate tmpfs, unmounted when dropped.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn new(options: &str) -> Option<Tmpfs> {
        if !root("mounts a tmpfs") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "iodyno-test"])
            .arg(folder.path())
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            skipped("a tmpfs cannot be mounted here");
            return None;
        }
        Some(Tmpfs(folder))
    }

    fn remount(&self, options: &str) {
        let status = Command::new("mount")
            .args(["-o", &format!("remount,{options}")])
            .arg(self.0.path())
            .status();
        assert!(status.unwrap().success());
    }

    fn store(&self) -> PathBuf {
        self.0.path().join("iodyno.db")
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn assert_message(error: &StoreError) -> String {
    let hint = error.hint().unwrap_or_default();
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source} | {hint}"),
        None => format!("{error} | {hint}"),
    }
}

#[test]
fn a_full_disk_is_reported_and_loses_only_data_that_did_not_fit() {
    let Some(disk) = Tmpfs::new("size=700k") else {
        return;
    };
    let store = SqliteStore::open(disk.store()).unwrap();
    let run = store.begin_run(&plan("p", 1, 1), START_MS).unwrap().id;
    store.begin_trial(key(run), "c0", "p", START_MS).unwrap();
    let mut appended = 0;
    let error = loop {
        match store.append_frame(key(run), &frame(appended, 2000)) {
            Ok(()) => appended += 1,
            Err(error) => break error,
        }
        assert!(appended < 5000, "the disk did not become full");
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    let words = assert_message(&error);
    assert!(
        words.contains("no space left") && words.contains("iodyno.db"),
        "{words}"
    );
    assert!(
        words.contains("appending results") && words.contains("--store"),
        "{words}"
    );
    assert!(appended > 0, "nothing was stored");

    // tmpfs counts its pages on each CPU, and has some left when it first says that there are none. So a result may
    // still fit.
    let mut rest = File::create(disk.0.path().join("rest")).unwrap();
    let mut refused = 0;
    while refused < 3 {
        let mut full = 0;
        while full < 10 {
            full = match rest.write(&[1; 4096]) {
                Ok(_) => 0,
                Err(_) => full + 1,
            };
        }
        // Meanwhile the run continues.
        match store.append_frame(key(run), &frame(appended, 2000)) {
            Ok(()) => appended += 1,
            Err(again) => {
                assert!(matches!(again, StoreError::Full { .. }), "{again:?}");
                refused += 1;
            }
        }
    }
    // Reading works.
    assert_eq!(
        store.frames(key(run), 0, 9999).unwrap().len(),
        appended as usize
    );
    disk.remount("size=8m");
    store
        .append_frame(key(run), &frame(appended, 2000))
        .unwrap();
    store
        .finish_trial(&trial(key(run), Outcome::Completed))
        .unwrap();
    store
        .finish_run(run, RunState::Completed, START_MS + 9)
        .unwrap();
    drop(store);

    let store = SqliteStore::open(disk.store()).unwrap();
    let frames = store.frames(key(run), 0, 9999).unwrap();
    assert_eq!(frames.len(), appended as usize + 1);
    assert_eq!(frames[appended as usize], frame(appended, 2000));
    drop(store);
    assert_sound(&disk.store());
}

#[test]
fn a_store_cannot_be_created_on_a_full_disk() {
    let Some(disk) = Tmpfs::new("size=16k") else {
        return;
    };
    let error = SqliteStore::open(disk.store()).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(!error.to_string().contains("kept"), "{error}");
    disk.remount("size=4m");
    finished_run(&SqliteStore::open(disk.store()).unwrap(), "p", 3);
    assert_sound(&disk.store());
}

#[test]
fn an_import_that_does_not_fit_stores_nothing() {
    let Some(disk) = Tmpfs::new("size=400k") else {
        return;
    };
    let (_folder, path) = fresh();
    let source = SqliteStore::open(path).unwrap();
    let run = finished_run(&source, "p", 900);
    let mut file = Vec::new();
    iodyno_store::export(&source, run, &mut file).unwrap();
    let store = SqliteStore::open(disk.store()).unwrap();
    let error = store.import(&mut file.as_slice()).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(store.runs(9, 0).unwrap().is_empty());
    disk.remount("size=20m");
    assert_eq!(
        store.import(&mut file.as_slice()).unwrap().frames_added,
        900
    );
}

#[test]
fn a_store_on_a_read_only_file_system_can_be_read_but_not_written() {
    let Some(disk) = Tmpfs::new("size=8m") else {
        return;
    };
    let run = finished_run(&SqliteStore::open(disk.store()).unwrap(), "p", 3);
    disk.remount("ro");
    let error = SqliteStore::open(disk.store()).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    assert!(
        assert_message(&error).contains("--store PATH"),
        "{}",
        assert_message(&error)
    );
    let store = SqliteStore::open_for_reading(disk.store()).unwrap();
    assert_eq!(store.find("last").unwrap(), run);
    assert_eq!(store.frames(key(run), 0, 9).unwrap().len(), 3);
    let refused = store.begin_run(&plan("p", 1, 1), START_MS).unwrap_err();
    assert!(
        matches!(refused, StoreError::ReadOnly { .. }),
        "{refused:?}"
    );
    let elsewhere = SqliteStore::open(disk.0.path().join("new/iodyno.db")).unwrap_err();
    assert!(
        matches!(elsewhere, StoreError::ReadOnly { .. }),
        "{elsewhere:?}"
    );
}

#[test]
fn a_store_left_by_a_crash_on_a_read_only_file_system_is_read_completely() {
    let Some(disk) = Tmpfs::new("size=8m") else {
        return;
    };
    // A copy of a store in use: its log was not merged.
    let (_folder, live) = fresh();
    let store = SqliteStore::open(&live).unwrap();
    let run = finished_run(&store, "p", 3);
    for suffix in ["", "-wal", "-shm"] {
        let name = |path: &Path| format!("{}{suffix}", path.display());
        fs::copy(name(&live), name(&disk.store())).unwrap();
    }
    disk.remount("ro");
    let copy = SqliteStore::open_for_reading(disk.store()).unwrap();
    assert_eq!(copy.frames(key(run), 0, 9).unwrap().len(), 3);
    assert_eq!(copy.run(run).unwrap().summary.state, RunState::Completed);
}

/// Set for the process that repeats a test in another folder or as another user: the path of the store.
const OTHER_USER_PATH: &str = "IODYNO_STORE_STRANGER";

/// Repeats a test of this file as the user nobody; false if that is not possible.
fn as_other_user(test: &str, path: &Path) -> bool {
    use std::os::unix::process::CommandExt;
    if !root("runs as another user") {
        return false;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(OTHER_USER_PATH, path)
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .output();
    match output {
        Err(error) => {
            skipped(&format!("the test cannot be run as another user: {error}"));
            false
        }
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success(),
                "{text}{}",
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(text.contains("1 passed"), "{text}");
            true
        }
    }
}

fn allow(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_store_of_another_user_can_be_read_but_not_written() {
    if let Some(path) = std::env::var_os(OTHER_USER_PATH) {
        let path = PathBuf::from(path);
        let error = SqliteStore::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
        let store = SqliteStore::open_for_reading(&path).unwrap();
        assert_eq!(store.runs(9, 0).unwrap().len(), 1);
        let new = path.parent().unwrap().join("mine.db");
        let error = SqliteStore::open(&new).unwrap_err();
        assert!(
            assert_message(&error).contains("ermission"),
            "{}",
            assert_message(&error)
        );
        let hidden = path.parent().unwrap().join("hidden.db");
        let error = SqliteStore::open_for_reading(&hidden).unwrap_err();
        assert!(
            assert_message(&error).contains("ermission denied"),
            "{}",
            assert_message(&error)
        );
        let below = path.parent().unwrap().join("folder/iodyno.db");
        let error = SqliteStore::open(&below).unwrap_err();
        assert!(
            assert_message(&error).contains("making the store's folder"),
            "{}",
            assert_message(&error)
        );
        return;
    }
    let (folder, path) = fresh();
    finished_run(&SqliteStore::open(&path).unwrap(), "p", 2);
    let hidden = path.parent().unwrap().join("hidden.db");
    fs::copy(&path, &hidden).unwrap();
    allow(folder.path(), 0o755);
    allow(path.parent().unwrap(), 0o755);
    allow(&path, 0o644);
    allow(&hidden, 0o600);
    as_other_user(
        "the_store_of_another_user_can_be_read_but_not_written",
        &path,
    );
}

#[test]
fn folders_are_accessible_to_their_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("share/iodyno/iodyno.db");
    SqliteStore::open(&path).unwrap();
    for made in ["share", "share/iodyno"] {
        let mode = fs::metadata(folder.path().join(made))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700, "{made}");
    }
}

#[test]
fn files_are_accessible_to_their_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = in_memory();
    let folder = folder.path();
    let path = folder.join("old.db");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(include_str!("fixtures/schema-3.sql"))
        .unwrap();
    let modes = || {
        let mut modes: Vec<(String, u32)> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
                (entry.file_name().into_string().unwrap(), mode)
            })
            .collect();
        modes.sort();
        modes
    };
    // SQLite's files and the copy have the permissions of the store; the file of locks is empty.
    for (store, mode, copy) in [("old.db", 0o640, true), ("new.db", 0o600, false)] {
        let path = folder.join(store);
        if path.exists() {
            allow(&path, mode);
        }
        let open = SqliteStore::open(&path).unwrap();
        finished_run(&open, "p", 2);
        let mut found = modes();
        found.retain(|(name, _)| name.starts_with(store) && !name.ends_with("-owners"));
        let mut expected = vec![("", mode), ("-shm", mode), ("-wal", mode)];
        if copy {
            expected.push((".schema-3.bak", mode));
        }
        let expected: Vec<(String, u32)> = expected
            .into_iter()
            .map(|(suffix, mode)| (format!("{store}{suffix}"), mode))
            .collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_file_that_is_not_a_store_is_refused_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let text = "a result of another program\n".repeat(100);
    fs::write(at("text"), &text).unwrap();
    fs::write(at("short"), "x").unwrap();
    fs::write(at("page"), "x".repeat(512)).unwrap();
    let foreign = rusqlite::Connection::open(at("foreign")).unwrap();
    foreign.execute_batch("CREATE TABLE theirs (x)").unwrap();
    let marked = rusqlite::Connection::open(at("marked")).unwrap();
    marked
        .execute_batch("PRAGMA application_id = 77; PRAGMA user_version = 1")
        .unwrap();
    drop((foreign, marked));
    fs::create_dir(at("folder")).unwrap();
    std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    for name in [
        "text", "short", "page", "foreign", "marked", "folder", "socket",
    ] {
        let before = fs::read(at(name)).ok();
        for opened in [
            SqliteStore::open(at(name)),
            SqliteStore::open_for_reading(at(name)),
        ] {
            let error = opened.unwrap_err();
            assert!(
                matches!(error, StoreError::NotAStore { .. }),
                "{name}: {error:?}"
            );
            assert!(
                assert_message(&error).contains("--store PATH"),
                "{}",
                assert_message(&error)
            );
        }
        assert_eq!(fs::read(at(name)).ok(), before, "{name}");
    }
}

#[test]
fn a_newer_store_is_refused_and_not_changed() {
    let (_folder, path) = fresh();
    finished_run(&SqliteStore::open(&path).unwrap(), "p", 1);
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch("PRAGMA user_version = 99")
        .unwrap();
    drop(connection);
    let before = fs::read(&path).unwrap();
    for opened in [
        SqliteStore::open(&path),
        SqliteStore::open_for_reading(&path),
    ] {
        let error = opened.unwrap_err();
        assert!(
            matches!(error, StoreError::Newer { found: 99, .. }),
            "{error:?}"
        );
        assert!(
            assert_message(&error).contains("newer iodyno"),
            "{}",
            assert_message(&error)
        );
    }
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn reading_does_not_create_a_missing_store() {
    let (folder, path) = fresh();
    let error = SqliteStore::open_for_reading(&path).unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_path_below_a_file_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let error = SqliteStore::open(folder.path().join("file/iodyno.db")).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "{error:?}");
}

#[test]
fn an_empty_file_becomes_a_store_and_unusual_names_work() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "empty",
        "with space?mode=ro#x%20.db",
        "file:odd",
        ":memory:",
        "ünï",
    ] {
        let path = folder.path().join(name);
        fs::write(&path, "").unwrap();
        finished_run(&SqliteStore::open(&path).unwrap(), "p", 1);
        assert_sound(&path);
        assert_eq!(
            SqliteStore::open_for_reading(&path)
                .unwrap()
                .runs(9, 0)
                .unwrap()
                .len(),
            1
        );
    }
}

#[test]
fn a_damaged_file_is_an_error_and_never_a_panic() {
    let (folder, path) = fresh();
    let run = finished_run(&SqliteStore::open(&path).unwrap(), "p", 20);
    let whole = fs::read(&path).unwrap();
    let mut noticed = 0;
    for at in (0..whole.len()).step_by(997) {
        let mut bytes = whole.clone();
        for byte in bytes.iter_mut().skip(at).take(64) {
            *byte ^= 0x5a;
        }
        let broken = folder.path().join(format!("{at}.db"));
        fs::write(&broken, bytes).unwrap();
        let read = SqliteStore::open_for_reading(&broken).and_then(|store| {
            store.runs(9, 0)?;
            store.run(run)?;
            store.trial(key(run))?;
            Ok((
                store.frames(key(run), 0, 99)?,
                store.telemetry(key(run), 0, 99)?,
            ))
        });
        match read {
            Ok((frames, batches)) => {
                let same = |kept: &Frame| *kept == frame(kept.number, 60);
                assert!(frames.iter().all(same), "{at}");
                let same = |kept: &TelemetryBatch| *kept == telemetry(kept.number, 60);
                assert!(batches.iter().all(same), "{at}");
            }
            Err(_) => noticed += 1,
        }
    }
    assert!(noticed > 10, "{noticed}");
}

#[test]
fn a_link_leads_to_the_same_store_and_the_same_live_run() {
    let (folder, path) = fresh();
    let store = SqliteStore::open(&path).unwrap();
    let run = store.begin_run(&plan("p", 1, 1), START_MS).unwrap().id;
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let linked = SqliteStore::open(&link).unwrap();
    assert_eq!(linked.run(run).unwrap().summary.state, RunState::Running);
    let resolved = fs::canonicalize(&path).unwrap();
    assert_eq!(linked.path(), Some(resolved.as_path()));
}

#[test]
fn a_name_that_means_memory_to_sqlite_is_a_file() {
    if let Some(folder) = std::env::var_os(OTHER_USER_PATH) {
        std::env::set_current_dir(folder).unwrap();
        let run = finished_run(&SqliteStore::open(":memory:").unwrap(), "p", 1);
        assert_eq!(
            SqliteStore::open(":memory:").unwrap().find("last").unwrap(),
            run
        );
        assert!(Path::new(":memory:").is_file());
        return;
    }
    // The current folder is common to all tests of a process, so this one needs a process of its own.
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_name_that_means_memory_to_sqlite_is_a_file"])
        .env(OTHER_USER_PATH, folder.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    assert!(matches!(
        SqliteStore::open("").unwrap_err(),
        StoreError::Io { .. }
    ));
}

/// A store of schema 3 on a separate file system with little room beyond the store.
fn old_store(options: &str) -> Option<Tmpfs> {
    let disk = Tmpfs::new(options)?;
    rusqlite::Connection::open(disk.store())
        .unwrap()
        .execute_batch(include_str!("fixtures/schema-3.sql"))
        .unwrap();
    Some(disk)
}

/// The store is the only file in its folder, and its schema is 3.
fn assert_not_upgraded(disk: &Tmpfs) {
    let folder = std::fs::read_dir(disk.0.path()).unwrap();
    let mut names: Vec<_> = folder.map(|entry| entry.unwrap().file_name()).collect();
    names.retain(|name| !name.to_string_lossy().starts_with("iodyno.db-"));
    assert_eq!(names, ["iodyno.db"]);
    let connection = rusqlite::Connection::open(disk.store()).unwrap();
    let schema: u32 = connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .unwrap();
    assert_eq!(schema, 3);
}

#[test]
fn an_old_store_is_not_upgraded_if_its_copy_does_not_fit() {
    let Some(disk) = old_store("size=1400k") else {
        return;
    };
    // Room to grow, but not for a copy.
    rusqlite::Connection::open(disk.store())
        .unwrap()
        .execute_batch(
            "INSERT INTO documents (trial, kind, data) VALUES (1, 'x', zeroblob(800000))",
        )
        .unwrap();
    for opened in [
        SqliteStore::open(disk.store()),
        SqliteStore::open_for_reading(disk.store()),
    ] {
        let error = opened.unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
        let words = assert_message(&error);
        assert!(
            words.contains("copying the store before its upgrade"),
            "{words}"
        );
        assert_not_upgraded(&disk);
    }
    disk.remount("size=8m");
    let store = SqliteStore::open(disk.store()).unwrap();
    assert_eq!(store.upgraded().unwrap().from, 3);
    assert_eq!(store.runs(9, 0).unwrap().len(), 5);
}

#[test]
fn a_read_only_old_store_is_not_changed() {
    let Some(disk) = old_store("size=8m") else {
        return;
    };
    disk.remount("ro");
    let error = SqliteStore::open(disk.store()).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    let error = SqliteStore::open_for_reading(disk.store()).unwrap_err();
    assert!(
        matches!(error, StoreError::Older { found: 3, .. }),
        "{error:?}"
    );
    disk.remount("rw");
    assert_not_upgraded(&disk);
}
