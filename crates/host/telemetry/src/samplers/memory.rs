//! Memory, from /proc/meminfo, and the limits of dirty pages, from /proc/vmstat.

use iodyno_host::Roots;
use iodyno_model::{MEMORY, SeriesKind, SeriesRow};

use crate::sampler::{Read, Readings, Sampler};
use crate::text::Text;

/// /proc/meminfo and /proc/vmstat.
pub(crate) struct Memory {
    meminfo: Text,
    vmstat: Text,
    page_size: u64,
}

impl Memory {
    pub(crate) fn open(roots: &Roots, page_size: u64) -> Memory {
        Memory {
            meminfo: Text::new(roots.proc.join("meminfo")),
            vmstat: Text::new(roots.proc.join("vmstat")),
            page_size,
        }
    }
}

impl Sampler for Memory {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Memory
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        let gauges = self.meminfo.read_by(gauges)?;
        // Memory is reported even if the limits are not available.
        let limits = self.vmstat.read_by(|text| Ok(limits(text)));
        let limits = limits.unwrap_or_default();
        let bytes = limits.map(|pages| pages?.checked_mul(self.page_size));
        let mut fill = into.fill(MEMORY);
        let values = gauges.into_iter().chain(bytes);
        fill.row(|_| true, SeriesRow::default, values);
        fill.done();
        Ok(Read::Fresh)
    }
}

/// Free, available, cached, dirty, under writeback and swapped out, in bytes.
fn gauges(text: &str) -> Result<[Option<u64>; 6], String> {
    let keys = [
        "MemFree",
        "MemAvailable",
        "Cached",
        "Buffers",
        "Dirty",
        "Writeback",
        "SwapTotal",
        "SwapFree",
    ];
    let [
        free,
        available,
        cached,
        buffers,
        dirty,
        writeback,
        swap,
        swap_free,
    ] = named(text, keys);
    if free.is_none() {
        return Err("it does not say how much is free".to_owned());
    }
    // Pages of block devices are also a cache, like those of files.
    let cached = cached
        .zip(buffers)
        .map(|(files, devices)| files.saturating_add(devices));
    let swap_used = swap
        .zip(swap_free)
        .map(|(all, free)| all.saturating_sub(free));
    let kib = [free, available, cached, dirty, writeback, swap_used];
    Ok(kib.map(|kib| kib?.checked_mul(1024)))
}

/// The thresholds at which writeback begins and at which writers wait, in pages.
fn limits(text: &str) -> [Option<u64>; 2] {
    named(
        text,
        ["nr_dirty_background_threshold", "nr_dirty_threshold"],
    )
}

/// The numbers with these names, in their order, from lines such as `MemFree:  24414312 kB`; `None`: missing.
fn named<const N: usize>(text: &str, names: [&str; N]) -> [Option<u64>; N] {
    let mut found = [None; N];
    for line in text.lines() {
        let Some((name, rest)) = line.split_once([':', ' ']) else {
            continue;
        };
        if let Some(place) = names.iter().position(|wanted| *wanted == name) {
            let number = rest.split_ascii_whitespace().next();
            found[place] = number.and_then(|number| number.parse().ok());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_kibibytes_as_bytes_and_missing_values_as_unknown() {
        let text = "MemTotal: 100 kB\nMemFree:  40 kB\nMemAvailable: 70 kB\nBuffers: 3 kB\n\
                    Cached: 20 kB\nSwapCached: 9 kB\nSwapTotal: 50 kB\nSwapFree: 45 kB\n\
                    Dirty: 7 kB\nWriteback: 1 kB\nWritebackTmp: 5 kB\n";
        let expected = [40, 70, 23, 7, 1, 5].map(|kib| Some(kib * 1024));
        assert_eq!(gauges(text), Ok(expected));
        let old = "MemFree: 40 kB\nCached: 20 kB\nDirty: x kB\n";
        assert_eq!(
            gauges(old),
            Ok([Some(40_960), None, None, None, None, None])
        );
        for text in [
            "",
            "MemFree",
            "MemFree: -1 kB",
            "Memfree: 1 kB",
            "Cached: 1 kB",
        ] {
            assert!(gauges(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn does_not_panic_on_any_text(
            text in "((MemFree|Cached|SwapTotal|SwapFree|nr_dirty_threshold)[: ]{0,3}[0-9]{0,25}( kB)?\n|\\PC*){0,6}"
        ) {
            let _ = (gauges(&text), limits(&text));
        }
    }
}
