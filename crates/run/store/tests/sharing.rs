//! Several processes share a store.

mod common;

use std::sync::Barrier;

use common::*;
use iodyno_model::*;
use iodyno_store::{SqliteStore, Store, export};

#[test]
fn concurrent_writers_of_a_new_store_lose_nothing() {
    let (_folder, path) = fresh();
    let (writers, frames) = (8, 25);
    let together = Barrier::new(writers);
    let runs: Vec<RunId> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..writers)
            .map(|number| {
                let (path, together) = (&path, &together);
                scope.spawn(move || {
                    together.wait();
                    let store = SqliteStore::open(path).unwrap();
                    finished_run(&store, &format!("w{number}"), frames)
                })
            })
            .collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap())
            .collect()
    });
    let store = SqliteStore::open(&path).unwrap();
    let listed = store.runs(100, 0).unwrap();
    let mut aliases: Vec<u64> = listed.iter().map(|run| run.alias).collect();
    aliases.sort_unstable();
    assert_eq!(aliases, (1..=writers as u64).collect::<Vec<_>>());
    for run in runs {
        assert_eq!(
            store.frames(key(run), 0, 100).unwrap().len(),
            frames as usize
        );
        assert_eq!(store.run(run).unwrap().summary.state, RunState::Completed);
    }
    drop(store);
    assert_sound(&path);
}

#[test]
fn a_live_run_does_not_wait_for_an_import_that_reads_its_file() {
    let (_folder, path) = fresh();
    let (_other, other) = fresh();
    let source = SqliteStore::open(other).unwrap();
    let imported = finished_run(&source, "from elsewhere", 30);
    let mut file = Vec::new();
    export(&source, imported, &mut file).unwrap();

    let live = SqliteStore::open(&path).unwrap();
    let run = live.begin_run(&plan("live", 1, 1), START_MS).unwrap().id;
    live.begin_trial(key(run), "c0", "live", START_MS).unwrap();
    // The file's reader appends to the live run between reads.
    let mut appended = 0;
    let mut reader = Interleaved {
        file: &file,
        between: || {
            live.append_frame(key(run), &frame(appended, 30)).unwrap();
            appended += 1;
        },
    };
    let store = SqliteStore::open(&path).unwrap();
    store
        .import(&mut std::io::BufReader::with_capacity(1024, &mut reader))
        .unwrap();
    assert!(appended > 20, "{appended}");
    assert_eq!(
        live.frames(key(run), 0, 1000).unwrap().len(),
        appended as usize
    );
    assert_eq!(store.frames(key(imported), 0, 1000).unwrap().len(), 30);
}

#[test]
fn readers_do_not_wait_for_a_writer() {
    let (_folder, path) = fresh();
    let run = finished_run(&SqliteStore::open(&path).unwrap(), "p", 3);
    let writer = rusqlite::Connection::open(&path).unwrap();
    // The transaction lasts until the end of the test: waiting for it would fail with an error.
    writer
        .execute_batch("BEGIN IMMEDIATE; UPDATE runs SET name = 'q'")
        .unwrap();
    let store = SqliteStore::open_for_reading(&path).unwrap();
    assert_eq!(store.find("p").unwrap(), run);
    assert_eq!(store.frames(key(run), 0, 9).unwrap().len(), 3);
    assert_eq!(store.runs(9, 0).unwrap().len(), 1);
    writer.execute_batch("COMMIT").unwrap();
    assert_eq!(store.find("q").unwrap(), run);
}

struct Interleaved<'a, F> {
    file: &'a [u8],
    between: F,
}

impl<F: FnMut()> std::io::Read for Interleaved<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        (self.between)();
        self.file.read(buffer)
    }
}
