//! Any text as a workload of file operations: no panic, every place exists, and what was read is read again from
//! what is written of it.
#![no_main]

use iodyno_experiment::fileops::{Overrides, read, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match read("fuzz.toml", text) {
        Ok(described) => {
            assert_eq!(read("fuzz.toml", &write(&described)), Ok(described.clone()));
            let _ = (described.needs(), described.workload());
            let overrides = Overrides {
                files: vec![(None, 3)],
                file_size: vec![(None, 5)],
                threads: Some(7),
                ..Overrides::default()
            };
            if let Ok(changed) = described.with(&overrides) {
                assert_eq!(read("fuzz.toml", &write(&changed)), Ok(changed));
            }
        }
        Err(faults) => {
            assert!(!faults.is_empty());
            for place in faults.iter().filter_map(|fault| fault.place.as_ref()) {
                let end = (place.column - 1 + place.length) as usize;
                assert!(end <= place.text.chars().count().max(1), "{place:?}");
            }
        }
    }
});
