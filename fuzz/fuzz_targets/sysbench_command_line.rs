//! Any words as sysbench fileio's command line.
#![no_main]

use iodyno_sysbench as sysbench;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let args: Vec<String> = text.split('\n').map(str::to_owned).collect();
    match sysbench::read(&args) {
        Ok(command) => {
            let job = command.job.as_ref();
            if let Some(shared) = job.and_then(|job| job.work.shared_files()) {
                assert!(shared.block >= 1 && shared.block <= shared.file_size);
            }
        }
        Err(said) => {
            for place in said.iter().filter_map(|said| said.place.as_ref()) {
                let end = (place.column - 1 + place.length) as usize;
                assert!(end <= place.text.chars().count(), "{place:?}");
            }
        }
    }
});
