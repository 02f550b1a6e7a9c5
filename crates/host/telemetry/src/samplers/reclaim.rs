//! Reclaim and swap, from /proc/vmstat.

use iodyno_host::Roots;
use iodyno_model::{RECLAIM, SeriesKind, SeriesRow};

use crate::sampler::{Read, Readings, Sampler};
use crate::text::Text;

/// /proc/vmstat.
pub(crate) struct Reclaim {
    text: Text,
    page_size: u64,
}

impl Reclaim {
    pub(crate) fn open(roots: &Roots, page_size: u64) -> Reclaim {
        Reclaim {
            text: Text::new(roots.proc.join("vmstat")),
            page_size,
        }
    }
}

impl Sampler for Reclaim {
    fn kind(&self) -> SeriesKind {
        SeriesKind::Reclaim
    }

    fn read(&mut self, into: &mut Readings) -> Result<Read, String> {
        let page_size = self.page_size;
        let values = self.text.read_by(|text| counts(text, page_size))?;
        let mut fill = into.fill(RECLAIM);
        fill.row(|_| true, SeriesRow::default, values);
        fill.done();
        Ok(Read::Fresh)
    }
}

/// A column, and its names in the kernel. Kernels before 4.8 counted reclaim by zone, and later ones count stalls by
/// zone: names in `by_zone` are summed over the zone that is appended to them.
struct Source {
    names: &'static [&'static str],
    by_zone: Option<&'static str>,
    pages: bool,
}

const fn pages(names: &'static [&'static str], by_zone: Option<&'static str>) -> Source {
    Source {
        names,
        by_zone,
        pages: true,
    }
}

const fn events(names: &'static [&'static str], by_zone: Option<&'static str>) -> Source {
    Source {
        names,
        by_zone,
        pages: false,
    }
}

/// In the order of [`RECLAIM`].
const SOURCES: [Source; RECLAIM.len()] = [
    pages(&["pgscan_kswapd"], Some("pgscan_kswapd_")),
    pages(&["pgscan_direct"], Some("pgscan_direct_")),
    pages(&["pgsteal_kswapd"], Some("pgsteal_kswapd_")),
    pages(&["pgsteal_direct"], Some("pgsteal_direct_")),
    events(&["allocstall"], Some("allocstall_")),
    // Before 5.9 there were only refaults of files, under the plain name.
    pages(&["workingset_refault_file", "workingset_refault"], None),
    events(&["pgmajfault"], None),
    pages(&["pswpin"], None),
    pages(&["pswpout"], None),
];

/// Suffixes that the kernel uses for zones. The one in `pgscan_direct_throttle` is not a zone.
const ZONES: [&str; 6] = ["dma", "dma32", "normal", "high", "movable", "device"];

impl Source {
    fn is(&self, name: &str) -> bool {
        let zone = |prefix| {
            name.strip_prefix(prefix)
                .is_some_and(|zone| ZONES.contains(&zone))
        };
        self.names.contains(&name) || self.by_zone.is_some_and(zone)
    }
}

/// The values of the columns; `None`: this kernel does not count it.
fn counts(text: &str, page_size: u64) -> Result<[Option<u64>; RECLAIM.len()], String> {
    let mut sums = [None; RECLAIM.len()];
    for line in text.lines() {
        // Most lines are of other counters: the first letters are sufficient to skip them.
        if !matches!(line.as_bytes(), [b'p', b'g' | b's', ..] | [b'a' | b'w', ..]) {
            continue;
        }
        let Some((name, count)) = line.split_once(' ') else {
            continue;
        };
        let Some(column) = SOURCES.iter().position(|source| source.is(name)) else {
            continue;
        };
        let count: u64 = count.trim_end().parse().map_err(|_| format!("`{line}`"))?;
        let unit = if SOURCES[column].pages { page_size } else { 1 };
        let sum: &mut Option<u64> = &mut sums[column];
        *sum = Some(sum.unwrap_or(0).saturating_add(count.saturating_mul(unit)));
    }
    if sums.iter().all(Option::is_none) {
        return Err("it has no counters of reclaim".to_owned());
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_summed_by_column_and_others_are_ignored() {
        const PAGE: u64 = 4096;
        for (text, column, expected) in [
            ("pgscan_kswapd 7\n", "scanned_kswapd", Some(7 * PAGE)),
            (
                "pgscan_kswapd_dma 1\npgscan_kswapd_high 2\n",
                "scanned_kswapd",
                Some(3 * PAGE),
            ),
            (
                "pgscan_direct 7\npgscan_direct_throttle 9\n",
                "scanned_direct",
                Some(7 * PAGE),
            ),
            ("pgsteal_proactive 7\npswpin 0\n", "reclaimed_direct", None),
            (
                "allocstall_dma32 7\nallocstall_device 1\n",
                "stalls",
                Some(8),
            ),
            ("workingset_refault 7\n", "refaults", Some(7 * PAGE)),
            ("workingset_refault_anon 7\npswpin 0\n", "refaults", None),
            ("pgmajfault 7\n", "major_faults", Some(7)),
            (
                "pswpout 18446744073709551615\n",
                "swapped_out",
                Some(u64::MAX),
            ),
        ] {
            let place = RECLAIM.iter().position(|known| known.0 == column).unwrap();
            let counts = counts(text, PAGE).unwrap();
            assert_eq!(counts[place], expected, "{text}");
        }
        for text in [
            "",
            "nr_dirty 5\n",
            "pswpin\n",
            "pswpin -1\n",
            "pswpin 1 2\n",
        ] {
            assert!(counts(text, PAGE).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn does_not_panic_on_any_text(
            text in "((pgscan_(kswapd|direct)|allocstall|pswpin)(_dma|_x)? ?[0-9]{0,25}\n|\\PC*){0,4}"
        ) {
            let _ = counts(&text, 4096);
        }
    }
}
