//! Any text as a job file: no panic, every place exists, and errors and jobs exclude each other.
#![no_main]

use std::io;
use std::path::Path;

use iodyno_fio::{Host, parse_files, resolved_options};
use libfuzzer_sys::fuzz_target;

/// Serves the text for every path, so that includes find something: themselves.
struct OneFile<'a>(&'a str);

impl Host for OneFile<'_> {
    fn read(&self, _: &Path) -> io::Result<String> {
        Ok(self.0.to_owned())
    }
    fn env(&self, name: &str) -> Option<String> {
        name.strip_prefix('S').map(str::to_owned)
    }
    fn page_size(&self) -> u64 {
        4096
    }
    fn cpus(&self) -> u32 {
        4
    }
    fn memory_mb(&self) -> u64 {
        8192
    }
}

fuzz_target!(|text: &str| {
    let parsed = parse_files(&["fuzz.fio".into()], &[], &OneFile(text));
    for place in parsed
        .diagnostics
        .iter()
        .filter_map(|said| said.place.as_ref())
    {
        let end = (place.column - 1 + place.length) as usize;
        assert!(end <= place.text.chars().count(), "{place:?}");
    }
    for job in parsed.workload.iter().flat_map(|workload| &workload.jobs) {
        assert!(job.clones >= 1 && job.work.depth() >= 1);
        let blocks = job.work.blocks().expect("job files describe blocks");
        assert!(blocks.passes.loops >= 1 && blocks.access.min_block() >= 1);
        assert!(!resolved_options(job).is_empty());
    }
});
