//! Any text as a size and as a time: no panic, and what was read reads back from its plain form.
#![no_main]

use iodyno_fio::{TimeUnit, size, time};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for base in [1000, 1024] {
        if let Ok(read) = size(text, base) {
            let again = size(&read.bytes.to_string(), base).map(|size| size.bytes);
            assert_eq!(again, Ok(read.bytes));
        }
    }
    let _ = time(text, TimeUnit::Seconds);
    if let Ok(read) = time(text, TimeUnit::Microseconds)
        && read.0 % 1000 == 0
    {
        assert_eq!(
            time(&(read.0 / 1000).to_string(), TimeUnit::Microseconds),
            Ok(read)
        );
    }
});
