//! An imported run is stored and read in little memory: its JSON, which has ten times the size of the imported text,
//! is never held as a whole. Bytes are counted, so the host has no influence.
#![allow(missing_docs, reason = "a test")]

use iodyno_model::*;
use iodyno_store::{SqliteStore, Store};
use iodyno_sys::counting::{CountingAllocator, most_bytes_held};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn trial(line: u32) -> ImportedTrial {
    // Digits that do not compress, so that the blob is large.
    let figure = |place: u32| Figure {
        metric: Metric::iops(format!("iops.{place}")),
        value: f64::from((line * 16 + place).wrapping_mul(2_654_435_761)) / 7.0,
        derived: None,
    };
    ImportedTrial {
        configuration: "ext4".to_owned(),
        workload: "RandRead".to_owned(),
        dimensions: [("bs".to_owned(), "4k".to_owned())].into(),
        form: "go benchmark".to_owned(),
        at: SourceLine {
            source: "b.txt".to_owned(),
            line,
        },
        kind: Kind::Unknown,
        primary: Some("iops".to_owned()),
        figures: (0..12).map(figure).collect(),
        withheld: Vec::new(),
        series: Vec::new(),
        facts: Vec::new(),
        options_complete: false,
        remarks: Vec::new(),
        unusable: None,
    }
}

#[test]
fn storing_and_reading_a_large_import_never_holds_its_json() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("s.db")).unwrap();
    let trials: ImportedTrials = (1..=15_000).map(trial).collect();
    let text = serde_json::to_vec(&trials).unwrap().len() as u64;
    let plan = Plan {
        imported: Some(Imported {
            trials,
            ..Imported::default()
        }),
        ..Plan::new("b.txt", Vec::new(), Vec::new())
    };
    let (handle, held) = most_bytes_held(|| store.begin_run(&plan, 0).unwrap());
    assert!(
        held < text / 3,
        "storing held {held} bytes for {text} of JSON"
    );
    store.finish_run(handle.id, RunState::Completed, 1).unwrap();
    let (run, held) = most_bytes_held(|| store.run(handle.id).unwrap());
    assert!(
        held < text / 3,
        "reading held {held} bytes for {text} of JSON"
    );
    assert!(run.plan == plan);
}
