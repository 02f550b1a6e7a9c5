//! Any words as a command line.
#![no_main]

use std::io;
use std::path::Path;

use iodyno_fio::{Host, parse_command_line};
use libfuzzer_sys::fuzz_target;

struct NoFiles;

impl Host for NoFiles {
    fn read(&self, _: &Path) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }
    fn env(&self, _: &str) -> Option<String> {
        None
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
    let args: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let command = parse_command_line(&args, &NoFiles);
    for place in command
        .parsed
        .diagnostics
        .iter()
        .filter_map(|said| said.place.as_ref())
    {
        let end = (place.column - 1 + place.length) as usize;
        assert!(end <= place.text.chars().count().max(1), "{place:?}");
    }
    assert!(!command.output.formats.is_empty());
});
